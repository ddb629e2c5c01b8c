//! What is judged.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_types::{IdxVec, Lid};

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

    /// LIDs in use, ascending: those that ports own, and [those that nobody owns](Self::strays) where routes have one
    /// service level. Where they have several nobody can tell which one a LID had that was somebody's before.
    #[must_use]
    pub fn lids_in_use(&self) -> Vec<Lid> {
        // Entries above LinearFDBTop are asleep.
        let top = self
            .switches
            .and_then(|all| all.iter().map(|one| Lid(one.linear_top)).max());
        let strays = match self.service_levels {
            ServiceLevels::Uniform(_) => self.strays(),
            ServiceLevels::PerDestination(_) => Vec::new(),
        };
        let strays = strays.into_iter().filter(|lid| top.is_none_or(|top| *lid <= top));
        let mut all: Vec<Lid> = self.lids.by_lid().map(|(lid, _)| lid).chain(strays).collect();
        all.sort_unstable();
        all
    }

    /// LIDs that no port owns, and that some switch has an entry for, ascending. Whoever still sends to one, as to a
    /// host that was left out or has gone a moment ago, has its packets led on by these entries until they are lost:
    /// until then they hold channels and wait for others as any packet does.
    #[must_use]
    pub fn strays(&self) -> Vec<Lid> {
        let mut strays = Vec::new();
        for block in 0..self.tables.blocks() {
            let lid = |i: usize| Lid(u16::try_from(block * BLOCK_LIDS + i).unwrap_or(u16::MAX));
            let may_be = |lid: Lid| (Lid(1)..=self.tables.top()).contains(&lid) && self.lids.owner(lid).is_none();
            let unowned = (0..BLOCK_LIDS).filter(|&i| may_be(lid(i)));
            let has_entry = |i: &usize| self.tables.tile(block).iter().any(|row| row[*i] != NO_PATH);
            strays.extend(unowned.filter(has_entry).map(lid));
        }
        strays
    }
}
