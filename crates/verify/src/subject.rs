//! What is judged.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_plan::{Lids, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_types::IdxVec;

/// A fabric with tables: a whole plan, or only what a dump of another manager tells.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Nodes and cables; only links whose two ends are up carry packets.
    pub fabric: &'a Fabric,
    /// LIDs of every end port.
    pub lids: &'a Lids,
    /// Forwarding tables of every switch.
    pub tables: &'a Tables,
    /// Service level towards every destination.
    pub service_levels: &'a ServiceLevels,
    /// Lanes of every hop.
    pub sl_to_vl: &'a SlToVl,
    /// Planned settings of ports. Without them lanes are limited by what both ends of a link can do.
    pub ports: Option<&'a BTreeMap<PortRef, PortSettings>>,
    /// Planned settings of switches. Without them no LID is above LinearFDBTop.
    pub switches: Option<&'a IdxVec<SwitchIdx, SwitchSettings>>,
}

impl<'a> Subject<'a> {
    /// A whole plan.
    #[must_use]
    pub const fn plan(fabric: &'a Fabric, plan: &'a Plan) -> Self {
        Self {
            fabric,
            lids: &plan.lids,
            tables: &plan.tables,
            service_levels: &plan.service_levels,
            sl_to_vl: &plan.sl_to_vl,
            ports: Some(&plan.ports),
            switches: Some(&plan.switches),
        }
    }

    /// LIDs, tables and lanes alone, as read from dumps.
    #[must_use]
    pub const fn tables(
        fabric: &'a Fabric,
        lids: &'a Lids,
        tables: &'a Tables,
        service_levels: &'a ServiceLevels,
        sl_to_vl: &'a SlToVl,
    ) -> Self {
        Self {
            fabric,
            lids,
            tables,
            service_levels,
            sl_to_vl,
            ports: None,
            switches: None,
        }
    }
}
