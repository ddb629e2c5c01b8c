//! Connects multicast with the rest of the manager.

use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::Installed;
use selvedge_plan::multicast::MulticastGroup;
use selvedge_planner::multicast::MulticastResult;
use selvedge_planner::{Copies, Inventory, JobId, TakenApart, Task};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};

use super::Sm;
use crate::apply::Apply;
use crate::event::SweepReason;
use crate::io::Output;
use crate::multicast::{Ctx, Effect, In};
use crate::stage::{MftWork, Stage};
use crate::timer::Timer;
use crate::{readback, registration};

impl Sm {
    /// Hands an input to multicast; returns its effects.
    pub(crate) fn tell_multicast(&mut self, input: In<'_>) -> Vec<Effect> {
        let ctx = Ctx {
            now: self.now,
            mode: self.config.mode,
            policy: &self.config.policy,
            inventory: self.inventory.as_ref(),
            plan: self.in_force.plan(),
        };
        let mut effects = Vec::new();
        self.multicast.handle(&ctx, input, &mut effects);
        effects
    }

    /// Hands an input to multicast, and carries out its effects.
    pub(crate) fn run_multicast(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        for effect in self.tell_multicast(input) {
            match (effect, self.inventory.clone()) {
                (Effect::Event(event), _) => out.push(Output::Event(event)),
                (Effect::Read(blocks), Some(inventory)) => {
                    self.stage = Stage::MftBlocks(MftWork::of(Apply::read_mfts(inventory, blocks)));
                }
                (Effect::Plan { left_out }, Some(inventory)) => {
                    let Some(plan) = self.in_force.plan().cloned() else {
                        continue;
                    };
                    self.next_generation();
                    let under_way = self.under_way(&inventory.fabric);
                    let basis = self.basis(&inventory, self.in_force.installed(), under_way);
                    let task = self.multicast.task(basis, Arc::clone(&plan), left_out);
                    let id = self.compute(Task::Multicast(Box::new(task)), out);
                    self.tell_multicast(In::Planning(id, plan));
                }
                (Effect::Write(change), Some(inventory)) => {
                    self.stage = Stage::MftBlocks(MftWork::of(Apply::write_mfts(inventory, &change)));
                }
                (Effect::PlanWhole, _) => self.want_sweep_unless_due(SweepReason::Apart),
                (Effect::WriteFirst(change), _) => {
                    if let Stage::Applying(apply, inventory) = std::mem::take(&mut self.stage) {
                        self.stage = Stage::MftBlocks(MftWork {
                            then: Some((apply, Arc::clone(&inventory))),
                            ..MftWork::of(Apply::write_mfts(inventory, &change))
                        });
                    }
                }
                (Effect::Read(_) | Effect::Plan { .. } | Effect::Write(_), None) => {}
            }
        }
    }

    /// Called when multicast groups have changed: their trees are planned again.
    pub(super) fn groups_changed(&mut self, groups: Vec<MulticastGroup>) {
        self.tell_multicast(In::GroupsChanged(groups));
    }

    /// Called when a plan is in force: links may have changed, and a switch that did not answer may answer now.
    pub(crate) fn multicast_after_apply(&mut self) {
        self.tell_multicast(In::PlanInForce);
    }

    /// Called when another manager is master: its MFTs are not known here, and hosts register with it.
    pub(super) fn leave_what_hosts_registered(&mut self) {
        self.leave_aliases();
        self.tell_multicast(In::AnotherManages);
        self.tell_read_back(readback::In::AnotherManages);
    }

    /// Marks the MFTs of switches as unknown if the switches hold no table that this manager wrote.
    pub(crate) fn forget_copies(&mut self, fabric: &Fabric, installed: &Installed) {
        self.tell_multicast(In::Swept(fabric, installed));
    }

    /// Returns when trees are planned next; `None` while other work takes precedence. That work has a timer of its own;
    /// a second timer that is due but not served would wake the manager again and again.
    pub(crate) fn multicast_due(&self) -> Option<Time> {
        let is_free = !self.is_sweep_due() && !self.has_suspects();
        self.multicast.due().filter(|_| is_free && self.has_fabric_in_force())
    }

    /// Plans trees, or reads the blocks that must be known for that, if the manager is idle.
    pub(super) fn multicast_if_due(&mut self, out: &mut Vec<Output>) {
        if self.is_due(Timer::MulticastTrees) {
            self.run_multicast(In::Due, out);
        }
    }

    /// Returns true if this job plans trees.
    pub(crate) fn is_planning_multicast(&self, id: JobId) -> bool {
        self.multicast.is_planning(id)
    }

    /// Handles trees that were planned.
    pub(crate) fn multicast_planned(&mut self, result: MulticastResult, out: &mut Vec<Output>) {
        let is_free = matches!(self.stage, Stage::Idle) && !self.is_sweep_due() && !self.has_suspects();
        self.run_multicast(In::Planned { result, is_free }, out);
    }

    /// Returns the members that no tree connects with the other members of their group without a conflict with the
    /// routes in force, as pairs of MLID and GUID in the order of groups.
    #[must_use]
    pub fn left_apart(&self) -> &[(Lid, Guid)] {
        self.multicast.left_apart()
    }

    /// Returns the multicast state that jobs need.
    pub(crate) fn copies(&self) -> Arc<Copies> {
        Arc::new(self.multicast.copies())
    }

    /// Called when rebalancing cannot make the load of routes more even: multicast trees are then replaced by better
    /// ones.
    pub(super) fn move_trees(&mut self) {
        self.tell_multicast(In::MoveTrees);
    }

    /// Records groups of which the trees must be removed before the plan is applied.
    pub(crate) fn note_copies_first(&mut self, first: Option<Box<TakenApart>>) {
        self.tell_multicast(In::TakeApartFirst(first));
    }

    /// Begins to apply a plan, a repair or a rebalancing step: every such change begins here. Multicast groups that
    /// could deadlock with it are taken apart first.
    pub(crate) fn begin_applying(&mut self, apply: Apply, inventory: Arc<Inventory>, out: &mut Vec<Output>) {
        self.tell_read_back(readback::In::Writing);
        let apply = apply.with_traffic_of_late(self.carried_lately(&inventory.fabric));
        self.update_registration(registration::In::Applying {
            fabric: apply.fabric(),
            outcome: apply.outcome(),
        });
        self.note_repeats();
        self.stage = Stage::Applying(Box::new(apply), inventory);
        self.run_multicast(In::Applying, out);
    }
}
