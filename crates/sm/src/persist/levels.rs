//! The service levels that senders got: stored with a plan, copied from a master, dropped with either.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_plan::{Plan, Policy};
use selvedge_planner::Inventory;
use selvedge_planner::lanes::wanted;
use selvedge_planner::told::Told;
use selvedge_types::{Guid, Lid, PortNum};

use super::{Ctx, Persist};
use crate::io::ToldLevels;

impl Persist {
    /// Returns the service levels in force.
    pub fn told_levels(&self, ctx: &Ctx<'_>, inventory: &Inventory) -> Arc<Told> {
        if !ctx.config.policy.assume_sl_aware {
            return Arc::default();
        }
        let stored = Told::stored(self.state.lanes.clone(), self.state.levels.clone());
        let told = match ctx.in_force {
            Some((fabric, plan)) => stored.with_plan(fabric, plan),
            None if self.are_tables_known(inventory) => stored.with_lanes(self.state.lane_count),
            None => stored,
        };
        Arc::new(told)
    }

    /// Returns the stored lane of the LIDs behind each switch, by the switch's GUID.
    pub const fn lanes(&self) -> &BTreeMap<Guid, u8> {
        &self.state.lanes
    }

    /// Returns true if the operator now wants other engines, or another number of lanes, than those of the tables in
    /// force.
    pub fn wants_other_routes(&self, policy: &Policy) -> bool {
        let state = &self.state;
        let others = |known: u8| known != 0 && known != wanted(policy);
        !state.engines.is_empty() && (state.engines != policy.engines || others(state.lanes_wanted))
    }

    /// Returns true if the tables in switches were written by the manager with the known service levels: each switch
    /// that forwards names it as its master. If another master managed the subnet in between, its levels are not known.
    fn are_tables_known(&self, inventory: &Inventory) -> bool {
        let fabric = &inventory.fabric;
        let own = fabric.port(inventory.local).map(|port| port.settings.lids);
        let is_it = |lid: Lid| match self.levels_by {
            Some(by) => lid == by,
            None => lid.is_unicast() && own.is_some_and(|own| own.contains(lid)),
        };
        let mut live = fabric.switches().iter().map(|&node| fabric.node(node));
        live.all(|switch| {
            let port = switch.port(PortNum::MANAGEMENT);
            switch.switch_settings.linear_top == 0 || port.is_some_and(|port| is_it(port.settings.sm_lid))
        })
    }

    /// While this manager stands by, stores the service levels that the master has given to senders.
    pub(super) fn take_levels(&mut self, told: ToldLevels) {
        self.levels_by = Some(told.by);
        self.state.lanes.clear();
        self.state.levels = told.by_port;
        self.state.lane_count = told.lanes;
    }

    /// Returns the number of lanes that the tables in force rely on, if the plan to be stored gives senders no new
    /// levels. Otherwise returns 0: until that plan is in force, it is unknown which levels senders use. Then
    /// [`Self::take_in_force`] sets the number.
    pub(super) fn lanes_known_with(&mut self, ctx: &Ctx<'_>, inventory: &Inventory, plan: &Plan) -> u8 {
        let told = self.told_levels(ctx, inventory);
        let is_same = match told.relied_on(&inventory.fabric, &plan.lids) {
            Some(_) => told.agrees(&inventory.fabric, &plan.lids, (&plan.service_levels, plan.lanes)),
            None => plan.lanes <= 1 && self.state.lane_count == 1,
        };
        if !is_same {
            self.levels_by = None;
        }
        if is_same { plan.lanes } else { 0 }
    }

    /// Handles a plan that came into force: the tables are now those of the operator's engines, and senders get the
    /// service levels of the plan. Returns true if the state has changed and must be stored. A manager that dies half
    /// way through a plan then resumes it, and never mistakes a half-applied plan for a finished one.
    pub(super) fn take_in_force(&mut self, ctx: &Ctx<'_>) -> bool {
        let policy = &ctx.config.policy;
        let lane_count = ctx.in_force.map_or(0, |(_, plan)| plan.lanes);
        let (state, lanes) = (&mut self.state, wanted(policy));
        self.levels_by = None;
        if state.engines == policy.engines && (state.lanes_wanted, state.lane_count) == (lanes, lane_count) {
            return false;
        }
        state.engines.clone_from(&policy.engines);
        (state.lanes_wanted, state.lane_count) = (lanes, lane_count);
        true
    }
}
