//! The `qos_*` settings of OpenSM's configuration, with their defaults and inheritance.

use selvedge_types::{Sl, Vl};

/// The ports that a set of settings is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Ports of channel adapters (`qos_ca_`).
    Ca,
    /// Enhanced port 0 of switches (`qos_sw0_`).
    SwitchPort0,
    /// External ports of switches (`qos_swe_`).
    SwitchExternal,
    /// Ports of routers (`qos_rtr_`).
    Router,
}

impl Target {
    /// All targets, in the order of OpenSM's file.
    pub const ALL: [Self; 4] = [Self::Ca, Self::SwitchPort0, Self::SwitchExternal, Self::Router];

    /// Returns the prefix of the target's keys, without `qos_`.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Ca => "ca_",
            Self::SwitchPort0 => "sw0_",
            Self::SwitchExternal => "swe_",
            Self::Router => "rtr_",
        }
    }
}

/// One set of settings. `None`: the setting of the common set, and OpenSM's default if that has none either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `max_vls`, 1–15. OpenSM reads it and uses it for nothing: the lanes of a link follow `max_op_vls`.
    pub max_vls: Option<u8>,
    /// `high_limit`: PortInfo.VLHighLimit, in units of 4,096 bytes; 0: one packet, 255: unbounded.
    pub high_limit: Option<u8>,
    /// `vlarb_high`: entries of the high-priority arbitration table, at most 64. Weights in units of 64 bytes.
    pub vlarb_high: Option<Vec<(Vl, u8)>>,
    /// `vlarb_low`: entries of the low-priority arbitration table, at most 64. Weights in units of 64 bytes.
    pub vlarb_low: Option<Vec<(Vl, u8)>>,
    /// `sl2vl`: the lane of each SL; lane 15 drops packets of the SL.
    pub sl2vl: Option<[Vl; Sl::COUNT]>,
}

/// The settings: a common set, and one for each target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The set with prefix `qos_`.
    pub common: Options,
    of: [Options; 4],
}

impl Settings {
    /// Returns the settings of a target.
    #[must_use]
    pub const fn of(&self, target: Target) -> &Options {
        &self.of[target as usize]
    }

    /// Returns the settings of a target, to change them.
    pub const fn of_mut(&mut self, target: Target) -> &mut Options {
        &mut self.of[target as usize]
    }

    /// Returns PortInfo.VLHighLimit of a target's ports.
    #[must_use]
    pub fn high_limit(&self, target: Target) -> u8 {
        self.of(target).high_limit.or(self.common.high_limit).unwrap_or(0)
    }

    /// Returns the entries of the high-priority table for a target; by default lane 0 only, with 256 bytes.
    #[must_use]
    pub fn vlarb_high(&self, target: Target) -> Vec<(Vl, u8)> {
        let set = self.of(target).vlarb_high.as_ref().or(self.common.vlarb_high.as_ref());
        set.cloned()
            .unwrap_or_else(|| by_default(|vl| if vl == 0 { 4 } else { 0 }))
    }

    /// Returns the entries of the low-priority table for a target; by default all other lanes, with 256 bytes each.
    #[must_use]
    pub fn vlarb_low(&self, target: Target) -> Vec<(Vl, u8)> {
        let set = self.of(target).vlarb_low.as_ref().or(self.common.vlarb_low.as_ref());
        set.cloned()
            .unwrap_or_else(|| by_default(|vl| if vl == 0 { 0 } else { 4 }))
    }

    /// Returns the lane of each SL for a target; by default the lane with the number of the SL, and lane 7 for SL 15.
    #[must_use]
    pub fn sl2vl(&self, target: Target) -> [Vl; Sl::COUNT] {
        let set = self.of(target).sl2vl.or(self.common.sl2vl);
        let lane = |sl: usize| if sl == 15 { 7 } else { sl as u8 };
        set.unwrap_or_else(|| std::array::from_fn(|sl| Vl::new(lane(sl)).unwrap_or_default()))
    }
}

/// Returns OpenSM's default table: the 15 data lanes in order. Source: observed with `opensm -c` and `smpquery vlarb`.
fn by_default(weight: impl Fn(u8) -> u8) -> Vec<(Vl, u8)> {
    (0..15).filter_map(|vl| Some((Vl::new(vl)?, weight(vl)))).collect()
}
