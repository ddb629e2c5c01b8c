//! The input of the judge.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_types::{IdxVec, Lid};

/// A fabric with tables: of a whole plan, or read from a dump of another manager.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Nodes and cables. Only links that are up at both ends carry packets.
    pub fabric: &'a Fabric,
    /// LIDs of every end port.
    pub lids: &'a Lids,
    /// Forwarding tables of every switch.
    pub tables: &'a Tables,
    /// Service level to use for every destination.
    pub service_levels: &'a ServiceLevels,
    /// Lane of every hop.
    pub sl_to_vl: &'a SlToVl,
    /// Planned settings of ports. Without them, lanes are limited by what both ends of a link support.
    pub ports: Option<&'a BTreeMap<PortRef, PortSettings>>,
    /// Planned settings of switches. Without them, no LID is above LinearFDBTop.
    pub switches: Option<&'a IdxVec<SwitchIdx, SwitchSettings>>,
}

impl<'a> Subject<'a> {
    /// Returns the subject of a whole plan.
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

    /// Returns a subject with LIDs, tables and lanes only, as read from dumps.
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

    /// Returns the LIDs in use, ascending: those with an owner, and [those without](Self::strays) if routes have a
    /// single service level. With several levels it is unknown which level a former LID had.
    #[must_use]
    pub fn lids_in_use(&self) -> Vec<Lid> {
        // Entries above LinearFDBTop have no effect.
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

    /// Returns the LIDs without an owner that some switch has an entry for, ascending. Packets may still be sent to
    /// such a LID, for example to a host that has just left. These entries forward such packets until they are dropped.
    /// Until then the packets occupy channels and wait for others like any packet.
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
