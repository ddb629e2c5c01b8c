//! Connects sweeps with the rest of the manager: when they are due, and how missing answers are treated.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_planner::Found;
use selvedge_sim::Time;
use selvedge_types::Guid;
use selvedge_wire::DirectedRoute;

use super::Sm;
use crate::change::Later;
use crate::event::{Event, SweepReason};
use crate::io::Output;
use crate::stage::{Stage, Token};
use crate::sweep::{Change, Ctx, Effect, In, Sweep, interval, is_cut_off, recall};
use crate::{change, drain, election, presence, rebalance, registration};

impl Sm {
    /// Hands an input to the sweeps; returns their effects.
    pub(crate) fn tell_sweep(&mut self, input: In<'_>) -> Vec<Effect> {
        let ctx = Ctx {
            now: self.now,
            config: &self.config,
            inventory: self.inventory.as_deref(),
            planned: self.in_force.planned().map(Arc::as_ref),
        };
        let mut effects = Vec::new();
        self.sweep.handle(&ctx, input, &mut effects);
        effects
    }

    /// Hands an input to the sweeps, and carries out their effects.
    pub(super) fn run_sweep(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        for effect in self.tell_sweep(input) {
            match effect {
                Effect::Repeat => {}
                Effect::GiveLids => drop(self.tell_drain(drain::In::LidsSwept)),
                Effect::CheckBegins => self.stage = Stage::LightSweep,
                Effect::Ask(agent, ask, get) => self.exchange.submit(agent, (Token::Look(ask), get)),
                Effect::AskManagers => self.run_election(election::In::LightSweepBegun, out),
                Effect::LightSweepBegins => self.light_sweep_begins(),
                Effect::Suspect(node) => self.suspect_flagged(node),
                Effect::GiveUp(route) => self.give_up(&route),
            }
        }
    }

    /// Hands the inventory of a heavy sweep to the sweep machine. Returns true if another sweep is due; then no plan is
    /// made from this inventory.
    pub(crate) fn repeats_sweep(&mut self, input: In<'_>) -> bool {
        matches!(self.tell_sweep(input)[..], [Effect::Repeat])
    }

    /// Returns the sweeps, for queries.
    pub(crate) const fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// Requests a heavy sweep as soon as the stage allows; this reason replaces an earlier one.
    pub(crate) fn want_sweep(&mut self, reason: SweepReason) {
        self.tell_sweep(In::Wanted(reason));
    }

    /// Requests a heavy sweep as soon as the stage allows. A sweep that is already due keeps its reason.
    pub(crate) fn want_sweep_unless_due(&mut self, reason: SweepReason) {
        self.tell_sweep(In::WantedUnlessDue(reason));
    }

    /// Records the reason of a repair. The check after the repair, or a heavy sweep that replaces the check, has the
    /// same reason.
    pub(crate) fn repairs_for(&mut self, reason: SweepReason) {
        self.tell_sweep(In::RepairBegins(reason));
    }

    /// Returns true if a heavy sweep begins as soon as the stage allows.
    pub(crate) const fn is_sweep_due(&self) -> bool {
        self.sweep.schedule().due().is_some()
    }

    /// Returns why the last heavy sweep or repair began.
    pub(crate) const fn sweep_reason(&self) -> SweepReason {
        self.sweep.schedule().reason()
    }

    /// Returns when a light sweep is due, if the manager is idle.
    pub(crate) const fn light_sweep_due(&self) -> Option<Time> {
        self.sweep.schedule().light()
    }

    /// Called when there is no work until the next light sweep.
    pub(crate) fn rest(&mut self, now: Time) {
        self.stage = Stage::Idle;
        // A quiet time begins, which wants nothing done.
        self.rebalance(rebalance::In::Idle, &mut Vec::new());
        let due = interval(&self.config, self.inventory.as_deref()).map(|interval| now + interval);
        let due = [self.read_back_due(due), self.drain.lids_due(now), self.next_offer()];
        self.tell_sweep(In::Rests(due.into_iter().flatten().min()));
    }

    /// Ends a sweep without a plan: the work at the end of a light sweep is done, and the manager is idle.
    pub(crate) fn end_without_plan(&mut self) {
        self.tell_sweep(In::NothingToAsk);
        self.stage = Stage::LightSweep;
    }

    /// Called when ports that the sweep found with these GUIDs answer with other ones: the next light sweep reads the
    /// ports.
    pub(crate) fn doubt(&mut self, ports: BTreeSet<Guid>) {
        self.tell_sweep(In::Doubted(ports));
    }

    /// Postpones the light sweep, because other work comes first that does not show the state of all switches.
    pub(crate) fn put_off_light_sweep(&mut self) {
        self.tell_sweep(In::PutOff);
    }

    /// Returns true if our own link is down.
    pub(super) fn is_cut_off(&self) -> bool {
        self.inventory.as_deref().is_some_and(is_cut_off)
    }

    /// Handles the loss of every node: no node can be reached, so another manager may take over.
    pub(super) fn cut_off(&mut self, what: String, now: Time, out: &mut Vec<Output>) {
        self.note_presence(presence::In::CutOff(what.clone()), out);
        out.push(Output::Event(Event::LocalPortDown { what }));
        self.update_registration(registration::In::Dropped);
        self.drop_plans();
        self.run_election(election::In::CutOff, out);
        self.change_policy(change::In::NotNow(Later::CutOff), out);
        self.rest(now);
    }

    /// Completes the inventory of a sweep. What did not answer is taken from the last inventory or, if there is none,
    /// from the last complete snapshot.
    pub(super) fn recall_what_was_known(&mut self, found: &mut Vec<Found>) {
        let last = self.inventory.take();
        let ended = self.in_force.inventory().map(Arc::as_ref);
        if let Some(known) = last.as_deref().or(ended) {
            recall(found, known, ended);
        }
        self.tell_sweep(In::Walked(last.as_ref().map(|last| &*last.fabric)));
        self.sweep.wires().recall(found);
    }

    /// Handles a plan that came into force; `seen` is the fabric before it, `now` the fabric after it. Ports and links
    /// that may have changed without a trap will be read.
    pub(crate) fn watch_ports(&mut self, seen: &Fabric, now: &Fabric) {
        let change = match (self.is_repairing(), self.is_balancing()) {
            (true, _) => Change::Repair {
                has_repeated: self.has_repeated_a_set(),
            },
            (false, true) => Change::Step,
            (false, false) => Change::Whole,
        };
        self.tell_sweep(In::Applied(seen, now, change));
    }

    /// Called when a stage begins: requests are sent again by the directed routes that had no answer in the stage
    /// before.
    pub(crate) fn forget_silence(&mut self) {
        self.tell_sweep(In::StageBegins);
    }

    /// Handles the end of a request. If no agent answers by its directed route, further requests by that route are left
    /// out.
    pub(super) fn note_silence(&mut self, route: &DirectedRoute, is_answered: bool, out: &mut Vec<Output>) {
        self.run_sweep(In::RequestEnded { route, is_answered }, out);
    }

    /// Leaves out the waiting requests by a directed route, if there are many of them.
    fn give_up(&mut self, route: &DirectedRoute) {
        let is_one_of_many = |token: &Token| match token {
            Token::Set(_) | Token::Table { .. } | Token::Lanes(_) => true,
            Token::ReadBack(id) => id.kind.is_in_light_sweep(),
            _ => false,
        };
        let is_by_it = |(token, smp): &(Token, crate::smp::Smp)| is_one_of_many(token) && smp.route == *route;
        for (token, _) in self.exchange.take_waiting(is_by_it) {
            if let (Token::Set(id), Stage::Applying(..)) = (token, &self.stage) {
                self.leave_set_out(id);
            }
        }
    }
}
