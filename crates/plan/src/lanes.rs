//! Service levels of destinations and their lanes on each hop.

use std::collections::BTreeMap;

use selvedge_fabric::SwitchIdx;
use selvedge_types::{Lid, PortNum, Sl, Vl};

/// The service level a source must use towards a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceLevels {
    /// All destinations have the same level.
    Uniform(Sl),
    /// Levels by destination LID; LIDs beyond the end have SL 0.
    PerDestination(Vec<Sl>),
}

impl ServiceLevels {
    /// Returns the service level towards `dlid`.
    #[must_use]
    pub fn to(&self, dlid: Lid) -> Sl {
        match self {
            Self::Uniform(sl) => *sl,
            Self::PerDestination(sls) => sls.get(dlid.index()).copied().unwrap_or_default(),
        }
    }
}

impl Default for ServiceLevels {
    fn default() -> Self {
        Self::Uniform(Sl::default())
    }
}

/// The service level of multicast groups with copies on a lane of their own. It is the same for any number of lanes, so
/// it never has to change. Routes never use it: they have at most 14 lanes, levels 0 to 13. OpenSM treats level 15
/// specially in its rows, because VL15 is the management lane; so level 14 is used.
pub const COPIES_LEVEL: Sl = match Sl::new(14) {
    Some(level) => level,
    None => panic!("there are 16 levels"),
};

/// The lane of a packet: SLtoVLMappingTable of every (switch, ingress, egress), as one map with exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlToVl {
    /// Contents of every table that is not in `exceptions`.
    pub default: [Vl; Sl::COUNT],
    /// Tables that differ, by (switch, ingress, egress); ingress 0 is the switch's own port.
    pub exceptions: BTreeMap<(SwitchIdx, PortNum, PortNum), [Vl; Sl::COUNT]>,
}

impl SlToVl {
    /// Returns SL modulo the number of lanes (1–15) for all tables.
    #[must_use]
    pub fn modulo(lanes: u8) -> Self {
        let lane = |sl: usize| Vl::new(u8::try_from(sl).unwrap_or(0) % lanes.clamp(1, 15)).unwrap_or_default();
        Self {
            default: core::array::from_fn(lane),
            exceptions: BTreeMap::new(),
        }
    }

    /// Adds a separate lane for multicast copies, if there is one: only packets of [`COPIES_LEVEL`] use it.
    #[must_use]
    pub fn with_copies(lanes: u8, copies: Option<Vl>) -> Self {
        let mut map = Self::modulo(lanes);
        if let Some(own) = copies {
            map.default[usize::from(COPIES_LEVEL.get())] = own;
        }
        map
    }

    /// Returns the table of one (switch, ingress, egress).
    #[must_use]
    pub fn table(&self, switch: SwitchIdx, ingress: PortNum, egress: PortNum) -> &[Vl; Sl::COUNT] {
        self.exceptions.get(&(switch, ingress, egress)).unwrap_or(&self.default)
    }

    /// Returns the lane of one hop; VL 15 means that the switch drops the packet.
    #[must_use]
    pub fn vl(&self, switch: SwitchIdx, ingress: PortNum, egress: PortNum, sl: Sl) -> Vl {
        self.table(switch, ingress, egress)[usize::from(sl.get())]
    }
}

impl Default for SlToVl {
    fn default() -> Self {
        Self::modulo(1)
    }
}
