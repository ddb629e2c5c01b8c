//! Connects stored state with the rest of the manager. A plan waits in `Stage::Persisting` until its LIDs and service
//! levels are on the disk.

use std::sync::Arc;

use selvedge_plan::{Installed, Policy};
use selvedge_planner::told::Told;
use selvedge_planner::{Found, Inventory, Outcome, PortReason};

use super::Sm;
use crate::apply::Apply;
use crate::commit::InForce;
use crate::config::Config;
use crate::event::SweepReason;
use crate::io::Output;
use crate::lid_book::LidBook;
use crate::persist::{Ctx, Effect, In, KnownLids, Persist};
use crate::stage::Stage;
use crate::{drain, lid_book};

impl Sm {
    /// Returns the stored state, for queries.
    pub(crate) const fn stored(&self) -> &Persist {
        &self.persist
    }

    /// Returns the service levels in force, for a plan with this policy.
    pub(crate) fn told_levels(&self, policy: &Arc<Policy>, inventory: &Inventory) -> Arc<Told> {
        let config = Config {
            policy: Arc::clone(policy),
            ..self.config.clone()
        };
        self.persist.told_levels(&ctx(&config, &self.in_force), inventory)
    }

    /// Hands an input without LIDs to the stored state, and carries out its effects.
    pub(crate) fn update_stored(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        let effects = handled(&mut self.persist, &ctx(&self.config, &self.in_force), input);
        self.carry_out_persist(effects, out);
    }

    fn carry_out_persist(&mut self, effects: Vec<Effect>, out: &mut Vec<Output>) {
        for effect in effects {
            match effect {
                Effect::Store { id, state } => out.push(Output::Persist { id, state: *state }),
                Effect::ReplacePlan if matches!(self.stage, Stage::Persisting { .. }) => {
                    self.want_sweep_unless_due(self.sweep_reason().again());
                }
                Effect::ReplacePlan => {}
                Effect::AdmitPorts => self.want_sweep_unless_due(SweepReason::Again),
            }
        }
    }

    /// Stores the LIDs and service levels of a plan first. A repair has no new ones and does not wait for the disk.
    pub(crate) fn persist(
        &mut self,
        inventory: Arc<Inventory>,
        installed: Arc<Installed>,
        outcome: Arc<Outcome>,
        out: &mut Vec<Output>,
    ) {
        let plan = &outcome.plan;
        self.tell_lids(lid_book::In::Accepted(&inventory.fabric, &plan.lids));
        let input = In::Accepted {
            inventory: &inventory,
            plan,
            lids: known_lids(&self.lids),
        };
        let effects = handled(&mut self.persist, &ctx(&self.config, &self.in_force), input);
        self.carry_out_persist(effects, out);
        self.stage = Stage::Persisting {
            inventory,
            installed,
            outcome,
        };
        self.apply_if_stored(out);
    }

    /// Handles the end of a write of the state file: a plan that waits for it is applied.
    pub(super) fn persisted(&mut self, id: u64, out: &mut Vec<Output>) {
        self.update_stored(In::Stored(id), out);
        self.apply_if_stored(out);
    }

    fn apply_if_stored(&mut self, out: &mut Vec<Output>) {
        let Stage::Persisting {
            inventory,
            installed,
            outcome,
        } = &self.stage
        else {
            return;
        };
        if self.persist.is_plan_stored() {
            let input = drain::In::Applying((&inventory.fabric, installed), &outcome.plan);
            self.drain.handle(self.now, input, &mut Vec::new());
            let apply = Apply::new(Arc::clone(outcome), Arc::clone(inventory), Installed::clone(installed));
            let inventory = Arc::clone(inventory);
            self.forget_silence();
            self.begin_applying(apply, inventory, out);
        }
    }

    /// Stores the engines, lanes and levels of a plan that came into force.
    pub(crate) fn store_in_force(&mut self, out: &mut Vec<Output>) {
        let input = In::Committed {
            is_whole: !self.is_repairing() && !self.is_sweep_due(),
            lids: known_lids(&self.lids),
        };
        let effects = handled(&mut self.persist, &ctx(&self.config, &self.in_force), input);
        self.carry_out_persist(effects, out);
    }

    /// Called when another manager is master: knowledge of tables and service levels is no longer valid.
    pub(crate) fn forget_told(&mut self, out: &mut Vec<Output>) {
        let input = In::StoodBy(known_lids(&self.lids));
        let effects = handled(&mut self.persist, &ctx(&self.config, &self.in_force), input);
        self.carry_out_persist(effects, out);
    }

    /// Drops a plan that waits for the state file, because a sweep replaces it: none of its Sets is sent.
    pub(super) fn withdraw(&mut self, inventory: &Inventory, outcome: &Outcome) {
        self.tell_sweep(crate::sweep::In::PlanDropped);
        self.tell_lids(lid_book::In::Withdrawn(&inventory.fabric, &outcome.plan.lids));
    }

    /// Leaves out nodes that cannot get a LID, because the state cannot be stored at present.
    pub(super) fn leave_out_unstored_nodes(&mut self, found: &mut [Found], out: &mut Vec<Output>) {
        let nodes = self
            .persist
            .nodes_to_leave_out(&ctx(&self.config, &self.in_force), found);
        self.update_stored(In::LeavesOut(nodes.is_some()), out);
        for node in nodes.into_iter().flatten() {
            found[node].left_out = Some(PortReason::NotStored);
        }
    }

    /// Leaves out links of hosts that cannot get a LID, because the state cannot be stored at present.
    pub(super) fn leave_out_unstored_links(&mut self, inventory: &mut Inventory, out: &mut Vec<Output>) {
        let ctx = ctx(&self.config, &self.in_force);
        if let Some(ends) = self.persist.ports_to_leave_out(&ctx, inventory) {
            inventory.leave_out(&ends, PortReason::NotStored);
            self.update_stored(In::LeavesOut(true), out);
        }
    }
}

fn handled(persist: &mut Persist, ctx: &Ctx<'_>, input: In<'_>) -> Vec<Effect> {
    let mut effects = Vec::new();
    persist.handle(ctx, input, &mut effects);
    effects
}

fn ctx<'a>(config: &'a Config, in_force: &'a InForce) -> Ctx<'a> {
    Ctx {
        config,
        in_force: in_force.with_fabric(),
    }
}

fn known_lids(lids: &LidBook) -> KnownLids<'_> {
    KnownLids {
        claims: lids.claims(),
        befores: lids.befores(),
        aside: lids.aside(),
    }
}
