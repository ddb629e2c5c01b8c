//! The complete plan of a subnet, and its generation.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_types::{IdxVec, PKey};

use crate::{EngineName, LaneTable, LaneTables, Lids, ServiceLevels, SlToVl, Tables, ports_in_use, tables_of};

/// Number of a plan; a newer plan has a higher one. Results for an older plan are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl Generation {
    /// Returns the next generation.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The planned state of an end port, or of a switch port that enforces partitions, in addition to its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndPortPlan {
    /// P_Key table of the port; entries beyond the end are 0.
    pub pkeys: Vec<PKey>,
}

/// The complete planned state of a subnet, with the indices of the fabric for which it was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Generation of this plan.
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
    /// Number of data lanes that the proof of the routes depends on, 1–15.
    pub lanes: u8,
    /// The planned lane tables. `None`: the tables are not written. If `lanes` is 1 but the tables have several lanes,
    /// the routes are free of deadlock on any lane, and the lanes only reduce how much packets block each other.
    pub lane_tables: Option<LaneTables>,
    /// Settings of every port with a trained link, and of every switch's port 0.
    pub ports: BTreeMap<PortRef, PortSettings>,
    /// Tables of every end port with a trained link, of every switch's port 0, and of switch ports that enforce
    /// partitions.
    pub end_ports: BTreeMap<PortRef, EndPortPlan>,
    /// Settings of every switch.
    pub switches: IdxVec<SwitchIdx, SwitchSettings>,
}

impl Plan {
    /// Returns the service levels that hosts get in path records.
    #[must_use]
    pub fn told_levels(&self) -> &ServiceLevels {
        self.lane_tables
            .as_ref()
            .map_or(&self.service_levels, |tables| &tables.levels)
    }

    /// Returns the lanes on which switches put packets.
    #[must_use]
    pub fn lanes_of_ports(&self, fabric: &Fabric) -> SlToVl {
        let Some(tables) = &self.lane_tables else {
            return self.sl_to_vl.clone();
        };
        let mut map = SlToVl::modulo(tables.lanes);
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let in_use = ports_in_use(fabric, self, node);
            for table in tables_of(fabric, node, &in_use) {
                let LaneTable::SlToVl { port, ingress } = table else {
                    continue;
                };
                if let Some(row) = self.row(port, ingress).filter(|row| *row != map.default) {
                    map.exceptions.insert((switch, ingress, port.port), row);
                }
            }
        }
        map
    }

    /// True if packets may have any service level, because the proof does not depend on it.
    #[must_use]
    pub fn takes_any_level(&self) -> bool {
        self.lanes <= 1 && self.lane_tables.is_some()
    }
}
