//! The lane of a packet at each hop.

use selvedge_plan::{ServiceLevels, SlToVl};
use selvedge_types::{Idx, Lid, PortNum, Sl, Vl};

use crate::ground::Ground;

/// Decides the lane of a hop for one destination.
///
/// A *slot* numbers the lanes that a route may use. If no SL2VL table differs from hop to hop, a route stays on one
/// lane and has one slot.
pub trait LaneRule: Copy {
    /// True if the ingress port matters.
    const BY_INGRESS: bool;

    /// Returns the slot of a packet, or the lane on which it is lost.
    fn slot(self, ground: &Ground<'_>, switch: usize, ingress: u8, egress: u8) -> Result<usize, Vl>;

    /// Returns the lane of a slot.
    fn lane(self, slot: usize) -> usize;
}

/// One lane for the whole route.
#[derive(Clone, Copy, Debug)]
pub struct Uniform {
    vl: Vl,
    /// True if every link has the lane.
    everywhere: bool,
}

impl Uniform {
    /// Returns the lane, if every link has it.
    pub fn everywhere_on(self) -> Option<usize> {
        self.everywhere.then(|| usize::from(self.vl.get()))
    }
}

impl LaneRule for Uniform {
    const BY_INGRESS: bool = false;

    #[inline]
    fn slot(self, ground: &Ground<'_>, switch: usize, _ingress: u8, egress: u8) -> Result<usize, Vl> {
        if self.everywhere || is_operational(self.vl, ground.lanes(switch, egress)) {
            Ok(0)
        } else {
            Err(self.vl)
        }
    }

    #[inline]
    fn lane(self, _slot: usize) -> usize {
        // Called only if a packet got its lane, so it is never VL15.
        usize::from(self.vl.get())
    }
}

/// A lane rule for SL2VL tables that may differ from hop to hop.
#[derive(Clone, Copy, Debug)]
pub struct General<'a> {
    map: &'a LaneMap,
    sl: Sl,
}

impl LaneRule for General<'_> {
    const BY_INGRESS: bool = true;

    fn slot(self, ground: &Ground<'_>, switch: usize, ingress: u8, egress: u8) -> Result<usize, Vl> {
        let vl = self.map.vl(switch, ingress, egress, self.sl);
        if is_operational(vl, ground.lanes(switch, egress)) {
            Ok(usize::from(vl.get()))
        } else {
            Err(vl)
        }
    }

    fn lane(self, slot: usize) -> usize {
        slot
    }
}

const fn is_operational(vl: Vl, lanes: u8) -> bool {
    vl.get() < Vl::MANAGEMENT.get() && vl.get() < lanes
}

/// All SL2VL tables, for look-up in constant time.
#[derive(Debug)]
pub struct LaneMap {
    default: [Vl; Sl::COUNT],
    stride: usize,
    /// By switch: index of the first of its `stride * stride` cells; `usize::MAX` if it has no exception.
    starts: Vec<usize>,
    /// By (ingress, egress): index in `tables` plus 1; 0 means the default table.
    cells: Vec<u32>,
    tables: Vec<[Vl; Sl::COUNT]>,
    fewest_lanes: u8,
}

impl LaneMap {
    /// Reads the tables of a subject.
    pub fn new(ground: &Ground<'_>) -> Self {
        let source: &SlToVl = ground.subject.sl_to_vl;
        let mut map = Self {
            default: source.default,
            stride: ground.stride,
            starts: vec![usize::MAX; ground.switches],
            cells: Vec::new(),
            tables: Vec::new(),
            fewest_lanes: ground.fewest_lanes(),
        };
        for (&(switch, ingress, egress), table) in &source.exceptions {
            map.add(switch.to_usize(), ingress, egress, table);
        }
        map
    }

    /// Adds a table. Tables of ports that do not exist are never used.
    fn add(&mut self, switch: usize, ingress: PortNum, egress: PortNum, table: &[Vl; Sl::COUNT]) {
        let exists = switch < self.starts.len() && ingress.index() < self.stride && egress.index() < self.stride;
        if !exists || *table == self.default {
            return;
        }
        if self.starts[switch] == usize::MAX {
            self.starts[switch] = self.cells.len();
            self.cells.resize(self.cells.len() + self.stride * self.stride, 0);
        }
        self.tables.push(*table);
        let cell = self.starts[switch] + ingress.index() * self.stride + egress.index();
        self.cells[cell] = u32::try_from(self.tables.len()).unwrap_or(0);
    }

    /// True if every hop uses the same table.
    pub fn is_uniform(&self) -> bool {
        self.tables.is_empty()
    }

    /// Returns the rule towards a destination. Valid only if the map is uniform.
    pub fn uniform(&self, sl: Sl) -> Uniform {
        let vl = self.default[usize::from(sl.get())];
        Uniform {
            vl,
            everywhere: is_operational(vl, self.fewest_lanes),
        }
    }

    /// Returns the rule towards a destination for any map.
    pub const fn general(&self, sl: Sl) -> General<'_> {
        General { map: self, sl }
    }

    /// Returns the lane of one hop.
    pub fn vl(&self, switch: usize, ingress: u8, egress: u8, sl: Sl) -> Vl {
        let table = match self.starts[switch] {
            usize::MAX => &self.default,
            start => match self.cells[start + usize::from(ingress) * self.stride + usize::from(egress)] {
                0 => &self.default,
                n => &self.tables[n as usize - 1],
            },
        };
        table[usize::from(sl.get())]
    }

    /// Returns the number of lanes that the arrays of a pass need: one more than the highest data lane in use.
    pub fn lane_count(&self, levels: &ServiceLevels) -> usize {
        let used: Vec<usize> = match levels {
            ServiceLevels::Uniform(sl) => vec![usize::from(sl.get())],
            ServiceLevels::PerDestination(sls) => {
                let mut seen = [false; Sl::COUNT];
                sls.iter().for_each(|sl| seen[usize::from(sl.get())] = true);
                // LIDs beyond the end have SL 0.
                seen[0] = true;
                (0..Sl::COUNT).filter(|&sl| seen[sl]).collect()
            }
        };
        let tables = core::iter::once(&self.default).chain(&self.tables);
        let highest = tables
            .flat_map(|table| used.iter().map(|&sl| table[sl]))
            .filter(|&vl| vl != Vl::MANAGEMENT)
            .map(|vl| usize::from(vl.get()))
            .max();
        highest.unwrap_or(0) + 1
    }
}

/// Returns the service level towards a LID of the subject.
pub fn level(ground: &Ground<'_>, lid: Lid) -> Sl {
    ground.subject.service_levels.to(lid)
}
