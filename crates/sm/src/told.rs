//! Keeps the service levels that senders were told: stored with a plan, copied from a master, dropped with either.

use std::sync::Arc;

use selvedge_plan::Plan;
use selvedge_planner::Inventory;
use selvedge_planner::lanes::wanted;
use selvedge_planner::told::Told;
use selvedge_types::{Lid, PortNum};

use crate::core::Sm;
use crate::io::{Output, ToldLevels};

impl Sm {
    /// Service levels in force.
    pub(crate) fn told_levels(&self, inventory: &Inventory) -> Arc<Told> {
        if !self.config.policy.assume_sl_aware {
            return Arc::default();
        }
        let stored = Told::stored(self.stored.lanes.clone(), self.stored.levels.clone());
        let told = match (&self.view.plan, &self.view.fabric) {
            (Some(plan), Some(fabric)) => stored.with_plan(fabric, plan),
            _ if self.are_of_who_told(inventory) => stored.with_lanes(self.stored.lane_count),
            _ => stored,
        };
        Arc::new(told)
    }

    /// True if the tables in switches are those of the manager whose levels are known: each switch that forwards names
    /// it as its master. Where another was master in between, its levels are others.
    fn are_of_who_told(&self, inventory: &Inventory) -> bool {
        let fabric = &inventory.fabric;
        let own = fabric.port(inventory.local).map(|port| port.settings.lids);
        let is_it = |lid: Lid| match self.told_by {
            Some(by) => lid == by,
            None => lid.is_unicast() && own.is_some_and(|own| own.contains(lid)),
        };
        let mut live = fabric.switches().iter().map(|&node| fabric.node(node));
        live.all(|switch| {
            let port = switch.port(PortNum::MANAGEMENT);
            switch.switch_settings.linear_top == 0 || port.is_some_and(|port| is_it(port.settings.sm_lid))
        })
    }

    /// Takes what the master has told senders, while this manager stands by.
    pub(crate) fn take_told(&mut self, told: ToldLevels) {
        self.told_by = Some(told.by);
        self.stored.lanes.clear();
        self.stored.levels = told.by_port;
        self.stored.lane_count = told.lanes;
    }

    /// Another manager is master: what it tells senders is not known here, nor by which engines it routes. Stored, as
    /// a restart must not take for its tables what was this manager's, with the LIDs that its ports have.
    pub(crate) fn forget_told(&mut self, out: &mut Vec<Output>) {
        self.told_by = None;
        let before = self.stored.clone();
        // What ports were seen to hold is known by a later life, too: they may be away when it looks.
        self.stored.lids.clone_from(&self.lids.claims());
        self.stored.lids_before.clone_from(&self.lids.befores());
        self.stored.lids_aside.clone_from(&self.lids.aside);
        self.stored.engines.clear();
        self.stored.lanes_wanted = 0;
        self.take_told(ToldLevels::default());
        if self.stored != before {
            self.persist_id += 1;
            out.push(Output::Persist {
                id: self.persist_id,
                state: self.stored.clone(),
            });
        }
    }

    /// How many lanes the tables in force rely on, if a plan that is about to be stored tells senders nothing new; else
    /// 0: until it is in force nobody knows which levels are used. [`Self::note_in_force`] says so then.
    pub(crate) fn lanes_known_with(&mut self, inventory: &Inventory, plan: &Plan) -> u8 {
        let told = self.told_levels(inventory);
        let is_same = match told.relied_on(&inventory.fabric, &plan.lids) {
            Some(_) => told.agrees(&inventory.fabric, &plan.lids, (&plan.service_levels, plan.lanes)),
            None => plan.lanes <= 1 && self.stored.lane_count == 1,
        };
        if !is_same {
            self.told_by = None;
        }
        if is_same { plan.lanes } else { 0 }
    }

    /// A plan is in force: the tables are those of the operator's engines, and senders are told its levels. True if
    /// that is to be stored.
    pub(crate) fn note_in_force(&mut self) -> bool {
        let policy = &self.config.policy;
        let lane_count = self.view.plan.as_ref().map_or(0, |plan| plan.lanes);
        let (stored, lanes) = (&mut self.stored, wanted(policy));
        self.told_by = None;
        if stored.engines == policy.engines && (stored.lanes_wanted, stored.lane_count) == (lanes, lane_count) {
            return false;
        }
        stored.engines.clone_from(&policy.engines);
        (stored.lanes_wanted, stored.lane_count) = (lanes, lane_count);
        true
    }

    /// True if the tables in force were made for another wish than the operator's: other engines, or other lanes.
    pub(crate) fn wants_other_routes(&self) -> bool {
        let (stored, policy) = (&self.stored, &self.config.policy);
        let others = |known: u8| known != 0 && known != wanted(policy);
        !stored.engines.is_empty() && (stored.engines != policy.engines || others(stored.lanes_wanted))
    }
}
