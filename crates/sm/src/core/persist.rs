//! Routes between stored state and the rest of the manager. A plan waits in `Stage::Persisting` until the LIDs and
//! service levels that it gives out are on the disk.
//!
//! Still decided here, and not by a sub-machine: whether stored LIDs belong to another fabric.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::Installed;
use selvedge_planner::told::Told;
use selvedge_planner::{Found, Inventory, Outcome, PortReason};

use super::Sm;
use crate::apply::Apply;
use crate::config::Config;
use crate::event::{Event, SweepReason};
use crate::io::Output;
use crate::lid_book::LidBook;
use crate::persist::{Ctx, Effect, In, KnownLids, Persist};
use crate::stage::Stage;
use crate::view::View;

impl Sm {
    /// Returns what is stored, to be asked.
    pub(crate) const fn stored(&self) -> &Persist {
        &self.persist
    }

    /// Returns the service levels in force.
    pub(crate) fn told_levels(&self, inventory: &Inventory) -> Arc<Told> {
        self.persist.told_levels(&ctx(&self.config, &self.view), inventory)
    }

    /// Hands an input that carries no LIDs to what is stored, and does what it wants done.
    pub(crate) fn update_stored(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        let effects = handled(&mut self.persist, &ctx(&self.config, &self.view), input);
        self.carry_out_persist(effects, out);
    }

    fn carry_out_persist(&mut self, effects: Vec<Effect>, out: &mut Vec<Output>) {
        for effect in effects {
            match effect {
                Effect::Store { id, state } => out.push(Output::Persist { id, state }),
                Effect::ReplacePlan if matches!(self.stage, Stage::Persisting { .. }) => {
                    self.want_sweep_unless_due(self.sweep_reason().again());
                }
                Effect::ReplacePlan => {}
                Effect::AdmitPorts => self.want_sweep_unless_due(SweepReason::Again),
            }
        }
    }

    /// What is given out is stored first. A repair gives out nothing new and does not wait for a disk.
    pub(crate) fn persist(
        &mut self,
        inventory: Arc<Inventory>,
        installed: Arc<Installed>,
        outcome: Arc<Outcome>,
        out: &mut Vec<Output>,
    ) {
        let plan = &outcome.plan;
        self.lids.plan(&inventory.fabric, &plan.lids);
        let input = In::Accepted {
            inventory: &inventory,
            plan,
            lids: known_lids(&self.lids),
        };
        let effects = handled(&mut self.persist, &ctx(&self.config, &self.view), input);
        self.carry_out_persist(effects, out);
        self.stage = Stage::Persisting {
            inventory,
            installed,
            outcome,
        };
        self.apply_if_stored(out);
    }

    /// State is on the disk: a plan that waits for that is applied.
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
            self.given_up.begin(&inventory.fabric, installed, &outcome.plan);
            let apply = Apply::new(Arc::clone(outcome), Arc::clone(inventory), Installed::clone(installed));
            let inventory = Arc::clone(inventory);
            self.forget_silence();
            self.begin_applying(apply, inventory, out);
        }
    }

    /// A plan was applied: stores what it has brought into force.
    pub(crate) fn store_in_force(&mut self, out: &mut Vec<Output>) {
        let input = In::Committed {
            is_whole: !self.is_repairing() && !self.is_sweep_due(),
            lids: known_lids(&self.lids),
        };
        let effects = handled(&mut self.persist, &ctx(&self.config, &self.view), input);
        self.carry_out_persist(effects, out);
    }

    /// Another manager is master: what this one knew of tables and service levels is void.
    pub(crate) fn forget_told(&mut self, out: &mut Vec<Output>) {
        let input = In::StoodBy(known_lids(&self.lids));
        let effects = handled(&mut self.persist, &ctx(&self.config, &self.view), input);
        self.carry_out_persist(effects, out);
    }

    /// Nothing of a plan that was to be stored first is sent: a sweep takes its place.
    pub(super) fn withdraw(&mut self, inventory: &Inventory, outcome: &Outcome) {
        self.tell_sweep(crate::sweep::In::PlanDropped);
        self.lids.withdraw(&inventory.fabric, &outcome.plan.lids);
    }

    /// Leaves out nodes that cannot get a LID while the disk takes nothing.
    pub(super) fn leave_out_unstored_nodes(&mut self, found: &mut [Found], out: &mut Vec<Output>) {
        let nodes = self.persist.nodes_to_leave_out(&ctx(&self.config, &self.view), found);
        self.update_stored(In::LeavesOut(nodes.is_some()), out);
        for node in nodes.into_iter().flatten() {
            found[node].left_out = Some(PortReason::NotStored);
        }
    }

    /// Leaves out links of hosts that cannot get a LID while the disk takes nothing.
    pub(super) fn leave_out_unstored_links(&mut self, inventory: &mut Inventory, out: &mut Vec<Output>) {
        let ctx = ctx(&self.config, &self.view);
        if let Some(ends) = self.persist.ports_to_leave_out(&ctx, inventory) {
            inventory.leave_out(&ends, PortReason::NotStored);
            self.update_stored(In::LeavesOut(true), out);
        }
    }

    /// Stored LIDs of another fabric would only keep LIDs from being given out: the fabric itself tells the truth. What
    /// this life has met once is its own fabric's, though it may see nobody but itself now, under another GUID. And
    /// fewer than half as many ports as are stored may be a part that was added and is cut off with this manager: it is
    /// decided when more are found. Where fewer than half as many ports are stored as are found, it is the other way
    /// about: the earlier life saw a part that is away now. Those few keep their LIDs.
    pub(crate) fn set_foreign_state_aside(&mut self, fabric: &Fabric, out: &mut Vec<Output>) {
        let Some(stored) = self.lids.none_met(fabric) else {
            self.lids.is_doubted = false;
            return;
        };
        let found = fabric.end_ports().count();
        if stored * 2 < found {
            self.lids.keep_untried();
            return;
        }
        let are_few = found * 2 < stored;
        if !are_few || !self.lids.is_doubted {
            out.push(Output::Event(Event::ForeignState { stored, found, are_few }));
        }
        self.lids.is_doubted = are_few;
        if !are_few {
            self.lids.set_untried_aside();
            // Unless this life has planned something already: then that is what is stored.
            if self.lids.is_empty() {
                self.update_stored(In::Foreign, out);
            }
        }
    }
}

fn handled(persist: &mut Persist, ctx: &Ctx<'_>, input: In<'_>) -> Vec<Effect> {
    let mut effects = Vec::new();
    persist.handle(ctx, input, &mut effects);
    effects
}

fn ctx<'a>(config: &'a Config, view: &'a View) -> Ctx<'a> {
    let in_force = view.fabric.as_deref().zip(view.plan.as_deref());
    Ctx { config, in_force }
}

fn known_lids(lids: &LidBook) -> KnownLids<'_> {
    KnownLids {
        claims: lids.claims(),
        befores: lids.befores(),
        aside: &lids.aside,
    }
}
