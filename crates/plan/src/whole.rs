//! The whole plan.

use std::collections::BTreeMap;

use selvedge_fabric::{PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_types::{IdxVec, PKey};

use crate::{EngineName, Lids, ServiceLevels, SlToVl, Tables};

/// Counts plans; a newer plan has the higher number. What belongs to an older one is dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What an end port, or a switch port that enforces partitions, gets beside its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndPortPlan {
    /// Its P_Key table; entries beyond the end are 0.
    pub pkeys: Vec<PKey>,
}

/// The complete state a subnet should have. Indices are those of the fabric it was planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Which plan this is.
    pub generation: Generation,
    /// The engine that made the tables.
    pub engine: EngineName,
    /// LIDs of every end port.
    pub lids: Lids,
    /// Forwarding tables of every switch.
    pub tables: Tables,
    /// Service level towards every destination.
    pub service_levels: ServiceLevels,
    /// Lanes of every hop.
    pub sl_to_vl: SlToVl,
    /// Data lanes used, 1–15.
    pub lanes: u8,
    /// Settings of every port that has a trained link, and of every switch's port 0.
    pub ports: BTreeMap<PortRef, PortSettings>,
    /// Tables of every end port with a trained link, of every switch's port 0, and of switch ports that enforce
    /// partitions.
    pub end_ports: BTreeMap<PortRef, EndPortPlan>,
    /// Settings of every switch.
    pub switches: IdxVec<SwitchIdx, SwitchSettings>,
}
