//! Connects probes and repairs with the rest of the manager; decides which stage allows a probe.
//!
//! `suspect_lid` decides whether a trap leads to a probe or to a sweep. This module also decides whether the fabric is
//! known well enough to act without a sweep, and whether a fault is being repaired. During a repair, traps are
//! repressed later, and each agent gets more SMPs at a time.

use std::sync::Arc;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_mad::AgentId;
use selvedge_planner::{Damage, Inventory, JobId, Prepare, Repair, Returned, Warm};
use selvedge_sim::Time;
use selvedge_types::{Lid, PortState};
use selvedge_verify::standing::State;
use selvedge_wire::{Attribute, Mad, PortInfo};

use super::{Sm, ok};
use crate::config::{CABLE_MOVE_MIN, Mode};
use crate::election::Role;
use crate::event::{Event, SweepReason};
use crate::fault::Suspects;
use crate::fault::probe::{self, Behind, Probe, Start};
use crate::fault::repair::{Chance, Ctx, Effect, In};
use crate::io::Output;
use crate::stage::{Stage, Token};
use crate::sweep::is_other_port;
use crate::{flap, rebalance, smp};

impl Sm {
    /// Hands an input to repairs, and carries out their effects.
    pub(crate) fn repair(&mut self, input: In<'_>, out: &mut Vec<Output>) {
        let ctx = Ctx {
            knows_the_fabric: self.knows_the_fabric(),
            has_looked_again: self.has_looked_again(),
            sweep_reason: self.sweep_reason(),
        };
        let mut effects = Vec::new();
        self.repairs.handle(&ctx, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Join(suspects) => self.probe(probe::In::Suspected(suspects), out),
                Effect::Probe {
                    suspects,
                    reason,
                    is_check,
                } => self.begin_probe(&suspects, reason, is_check, out),
                Effect::Sweep(reason) => {
                    self.want_sweep_unless_due(reason);
                }
                Effect::Compute(job) => out.push(Output::Compute(job)),
                Effect::Prepare => {
                    self.next_generation();
                    self.prepare(out);
                }
                Effect::Ready => {
                    self.await_backups();
                    self.prepare_for_what_is_under_way(out);
                }
            }
        }
    }

    /// Hands an input that has no effects to repairs.
    fn tell_repairs(&mut self, input: In<'_>) {
        self.repair(input, &mut Vec::new());
    }

    /// Hands an input to the probe, if there is one, and carries out its effects.
    fn probe(&mut self, input: probe::In<'_>, out: &mut Vec<Output>) {
        let Stage::Probing(probe) = &mut self.stage else { return };
        let inventory = Arc::clone(&probe.start().inventory);
        let mut effects = Vec::new();
        probe.handle(self.now, input, &mut effects);
        for effect in effects {
            match effect {
                probe::Effect::Ask { at, route, is_detour } => {
                    let get = smp::get_port(&inventory.fabric, at, &route);
                    let agent = match is_detour {
                        true => AgentId::UNKNOWN,
                        false => AgentId(at.node.0),
                    };
                    self.exchange.submit(agent, (Token::Probe(at), get));
                }
                probe::Effect::AskBehind {
                    at,
                    what,
                    attribute,
                    modifier,
                    route,
                } => {
                    let get = smp::get(attribute, modifier, &route);
                    self.exchange.submit(AgentId::UNKNOWN, (Token::Behind(at, what), get));
                }
                probe::Effect::Over => self.exchange.clear(),
                probe::Effect::Sweep(reason) => {
                    self.stage = Stage::Idle;
                    self.want_sweep(reason);
                }
                probe::Effect::Repair(damage) => self.plan_repair(damage, out),
                probe::Effect::Nothing => self.rest(self.now),
                probe::Effect::Confirmed => {
                    self.stage = Stage::Idle;
                    self.settle(self.now, out);
                    self.rest(self.now);
                }
            }
        }
    }

    /// True if the state in force is fully known, so that only ports that report a change must be probed. While a link
    /// waits to be taken out of service, this is false: a repair or a step of rebalancing could lead over that link,
    /// and only a sweep plans without it.
    pub(crate) fn knows_the_fabric(&self) -> bool {
        let inventory = self.inventory.as_ref();
        self.has_fabric_in_force() && !inventory.is_some_and(|inventory| inventory.is_withdrawing())
    }

    /// True if the plan in force is one for the fabric that was found last, and all of it is known.
    pub(crate) fn has_fabric_in_force(&self) -> bool {
        let (Some(inventory), Some(seen)) = (&self.inventory, self.in_force.fabric()) else {
            return false;
        };
        self.config.mode == Mode::Manage
            && self.role() == Role::Master
            && self.in_force.plan().is_some()
            && self.in_force.failed() == 0
            && self.drain.fog(self.now).is_zero()
            && Arc::ptr_eq(&inventory.fabric, seen)
    }

    /// True if a request was repeated since the first Set of the last plan: its first copy may still arrive.
    pub(crate) const fn has_repeated_a_set(&self) -> bool {
        self.repairs.has_repeated(self.exchange.counters().repeats)
    }

    /// Records how many requests have been repeated so far. Called when the first Set of a plan is about to be sent.
    pub(crate) fn note_repeats(&mut self) {
        let repeats = self.exchange.counters().repeats;
        self.tell_repairs(In::SetsBegin { repeats });
    }

    /// True if a changed link can be probed now, without a sweep.
    fn may_probe(&self) -> bool {
        // A step towards balance is short, and a fault comes next.
        let repairs = self.is_repairing() || self.is_balancing();
        match self.stage {
            Stage::Idle | Stage::LightSweep | Stage::MftBlocks(_) | Stage::GuidBlocks(_) => {
                self.knows_the_fabric() && self.has_looked_again()
            }
            Stage::Probing(_) => true,
            // A repair that waits does so for seconds: a sweep includes the rest of it.
            Stage::Applying(ref apply, _) => repairs && apply.wait().is_none(),
            Stage::Planning { .. } => repairs,
            Stage::Discovering(_)
            | Stage::Electing
            | Stage::Reading
            | Stage::Persisting { .. }
            | Stage::Standby
            | Stage::HandingOver
            | Stage::Disabled
            | Stage::Stopped => false,
        }
    }

    /// Handles a trap of a switch about a changed link. False if only a sweep can find the link.
    pub(crate) fn suspect_lid(&mut self, lid: Lid, reason: SweepReason) -> bool {
        if self.is_sweep_due() {
            return false;
        }
        let owner = self.in_force.plan().and_then(|plan| plan.lids.owner(lid));
        let inventory = self.inventory.as_ref();
        let Some(at) = owner.filter(|at| inventory.is_some_and(|i| i.fabric.switch_index(at.node).is_some())) else {
            return false;
        };
        // While a repair waits, a trap from the other end of its link may find a route. That switch is probed when the
        // repair is done; another fault at it has to wait until then.
        let waits = matches!(self.stage, Stage::Applying(ref apply, _) if apply.wait().is_some());
        if waits && self.repairs.is_for(at.node) {
            self.tell_repairs(In::SaidLate(at.node));
            return true;
        }
        if self.may_probe() {
            self.suspect(at.node, reason);
            return true;
        }
        false
    }

    /// Called when a switch shows PortStateChange in a light sweep.
    pub(crate) fn suspect_flagged(&mut self, node: NodeIdx) {
        self.tell_repairs(In::Flagged(node));
    }

    /// Called when a switch has reported that a link changed.
    pub(crate) fn suspect(&mut self, node: NodeIdx, reason: SweepReason) {
        self.tell_repairs(In::Suspected(node, reason));
    }

    /// True if switches are waiting to be probed.
    pub(crate) fn has_suspects(&self) -> bool {
        self.repairs.has_suspects()
    }

    /// True while repairs are prepared.
    pub(crate) const fn is_preparing_repairs(&self) -> bool {
        self.repairs.is_preparing()
    }

    /// True if a lost link is probed now without a sweep, and the data for a fast repair are ready.
    pub(crate) fn has_repairs_ready(&self) -> bool {
        self.may_probe() && self.repairs.is_ready()
    }

    /// Probes suspects, if there are any and the manager is idle.
    pub(crate) fn probe_suspects(&mut self, out: &mut Vec<Output>) {
        if !self.has_suspects() || self.is_sweep_due() {
            return;
        }
        let chance = match self.stage {
            Stage::Probing(_) => Chance::Probing,
            Stage::Idle | Stage::MftBlocks(_) | Stage::GuidBlocks(_) => Chance::Free,
            Stage::LightSweep if !self.has_light_sweep_found() => Chance::LightSweep {
                is_over: self.exchange.open() == 0,
            },
            _ => return,
        };
        self.repair(In::MayProbe(chance), out);
    }

    fn begin_probe(&mut self, suspects: &Suspects, reason: SweepReason, is_check: bool, out: &mut Vec<Output>) {
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        if !is_check {
            self.rebalance(rebalance::In::Interrupted, out);
        }
        if self.interrupt_blocks() {
            self.want_sweep(reason);
        }
        let start = Start {
            held: self.flaps.quarantined(&inventory.fabric),
            inventory: Arc::clone(&inventory),
            reason,
            began: self.now,
            is_check,
        };
        let probe = Probe::new(start, suspects);
        self.exchange.clear();
        self.put_off_light_sweep();
        if probe.awaits_own_port() {
            self.ask_own_port(&inventory);
        }
        self.stage = Stage::Probing(Box::new(probe));
    }

    /// Handles the answer of the local port during a probe.
    pub(crate) fn own_port_looked_at(&mut self, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let Stage::Probing(probe) = &self.stage else { return };
        let inventory = &probe.start().inventory;
        let is_as_known = !is_other_port(inventory.local, ok(answer), inventory);
        self.probe(probe::In::OwnPort { is_as_known }, out);
    }

    /// Sends as many Gets as the window allows; which ones come next depends on the answers.
    pub(crate) fn ask_ports(&mut self, out: &mut Vec<Output>) {
        let room = probe::In::Room {
            ports: self.config.window.saturating_sub(self.exchange.open()),
            agent_window: self.agent_window(),
        };
        self.probe(room, out);
    }

    /// True while a second trap is waited for before any port is asked.
    pub(crate) fn waits_for_a_trap(&self) -> bool {
        matches!(&self.stage, Stage::Probing(probe) if probe.waits(self.now))
    }

    /// Handles the answer of a probed port.
    pub(crate) fn port_looked_at(&mut self, at: PortRef, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let info = ok(answer).and_then(|mad| PortInfo::parse(mad.smp_data()).ok());
        self.probe(probe::In::Port(at, info.as_ref()), out);
    }

    /// Handles the answer of the node behind a returned link.
    pub(crate) fn behind_looked_at(&mut self, at: PortRef, what: Behind, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let data = ok(answer).map(Mad::smp_data);
        self.probe(probe::In::Behind(at, what, data), out);
    }

    /// Called when the last Get of a probe has ended.
    pub(crate) fn probed(&mut self, probe: Box<Probe>, out: &mut Vec<Output>) {
        self.stage = Stage::Probing(probe);
        self.probe(probe::In::AllEnded, out);
    }

    /// Hands the damage that a probe found to a job that plans a repair.
    fn plan_repair(&mut self, mut damage: Damage, out: &mut Vec<Output>) {
        let Stage::Probing(probe) = std::mem::take(&mut self.stage) else {
            return;
        };
        let &Start { reason, began, .. } = probe.start();
        let inventory = Arc::clone(&probe.start().inventory);
        self.count_flaps(&mut damage, &inventory, out);
        // Cables may have been moved meanwhile: what a repair sends by them would be taken by others.
        if self.now.since(began) >= CABLE_MOVE_MIN {
            self.want_sweep(reason);
            return;
        }
        let (Some(plan), Some(verdict)) = (self.in_force.plan().cloned(), self.in_force.verdict().cloned()) else {
            self.want_sweep(reason);
            return;
        };
        self.exchange.clear();
        damage.bury(&inventory);
        tell(&damage, &inventory.fabric, out);
        for returned in &damage.returned {
            self.note_emptied(&inventory.fabric, returned, began);
        }
        self.repairs_for(reason);
        self.next_generation();
        let installed = Arc::clone(self.in_force.installed());
        let under_way = self.under_way(&inventory.fabric);
        let basis = self.basis(&inventory, &installed, under_way);
        let repair = Repair {
            adopt: self.adopt(),
            backups: self.backups().kept().to_vec(),
            ..Repair::new(basis, damage, plan, verdict)
        };
        let job = self.next_job();
        self.stage = Stage::Planning {
            job,
            inventory,
            installed,
        };
        self.repair(In::Repair(job, Box::new(repair)), out);
    }

    /// Counts how often the links of lost ports went down, and quarantines those that did so too often.
    fn count_flaps(&mut self, damage: &mut Damage, inventory: &Inventory, out: &mut Vec<Output>) {
        let lost = flap::In::Lost(Arc::clone(&inventory.fabric), damage.lost.clone());
        self.flap(lost, out);
        // Also links that had to be included meanwhile, because some switch could be reached only over them.
        let ends = damage.lost.iter().flat_map(|&at| [Some(at), inventory.fabric.peer(at)]);
        let held = self.flaps.quarantined(&inventory.fabric);
        damage.held = ends.flatten().filter(|at| held.contains(at)).collect();
    }

    /// Records that packets which had waited for a returned link are gone: its ports were read after `began`, and were
    /// not ACTIVE.
    fn note_emptied(&mut self, fabric: &Fabric, returned: &Returned, began: Time) {
        for (at, info) in [returned.near, returned.far] {
            let is_switch = fabric.switch_index(at.node).is_some();
            if is_switch && matches!(info.state, Some(PortState::Init | PortState::Armed)) {
                self.tell_drain(crate::drain::In::Emptied(fabric.node(at.node).guid, at.port, began));
            }
        }
    }

    /// Drops prepared repairs: none fits the fabric that a sweep will find.
    pub(crate) fn forget_repairs(&mut self) {
        self.tell_repairs(In::Forget);
    }

    /// Stores the data that a job has prepared.
    pub(crate) fn prepared(&mut self, warm: Option<Box<Warm>>, out: &mut Vec<Output>) {
        self.repair(In::Prepared(warm), out);
    }

    /// Returns the proved state, multicast copies included, if repairs are prepared and backups can be made for it.
    pub(crate) fn prepared_state(&mut self) -> Option<State> {
        let (inventory, plan) = (self.inventory.clone()?, self.in_force.plan().cloned()?);
        self.tell_repairs(In::Copies(&inventory.fabric, &self.copies().turns));
        self.repairs.proved(inventory.fabric.switches().len() * plan.lids.len())
    }

    /// True if this job prepares repairs.
    pub(crate) fn is_preparing(&self, id: JobId) -> bool {
        self.repairs.is_prepared_by(id)
    }

    /// Returns the numbers of lost and of returned links that the current repair handles.
    pub(crate) fn repaired_links(&self) -> (usize, usize) {
        self.repairs.links()
    }

    /// True while a repair is planned or applied.
    pub(crate) const fn is_repairing(&self) -> bool {
        self.repairs.is_under_way()
    }

    /// Stores the data that a repair returns.
    pub(crate) fn keep_warm(&mut self, warm: Option<Box<Warm>>) {
        self.tell_repairs(In::Warm(warm));
    }

    /// Called when a plan is in force: prepares the next repair, and probes the repaired switches again.
    pub(crate) fn after_apply(&mut self, inventory: &Inventory, out: &mut Vec<Output>) {
        self.multicast_after_apply();
        self.withdraw_after_apply();
        let has_switches = !inventory.fabric.switches().is_empty();
        self.repair(In::Applied { has_switches }, out);
    }

    /// Completes the preparation with the dependencies of packets in flight, once it is known how long these packets
    /// may be in flight.
    pub(crate) fn prepare_for_what_is_under_way(&mut self, out: &mut Vec<Output>) {
        let is_free = matches!(
            self.stage,
            Stage::Idle | Stage::MftBlocks(_) | Stage::GuidBlocks(_) | Stage::LightSweep
        );
        let is_ready = is_free && self.repairs.lacks_what_is_under_way();
        if is_ready && self.drain.is_settled_with_some() && self.knows_the_fabric() {
            self.prepare(out);
        }
    }

    fn prepare(&mut self, out: &mut Vec<Output>) {
        let (Some(inventory), Some(plan)) = (self.inventory.clone(), self.in_force.plan().cloned()) else {
            return;
        };
        // Otherwise the next job would compute it first, and other work would wait for that.
        let under_way = match self.drain.is_settled_with_some() {
            true => self.under_way(&inventory.fabric),
            false => None,
        };
        let prepare = Prepare {
            basis: self.basis(&inventory, self.in_force.installed(), under_way),
            adopt: self.adopt(),
            plan,
            warm: None,
        };
        let job = self.next_job();
        self.repair(In::Prepare(job, Box::new(prepare)), out);
    }

    /// Requests a sweep, because a repair failed.
    pub(crate) fn not_repaired(&mut self) {
        self.tell_repairs(In::NotRepaired);
        self.stage = Stage::Idle;
        self.want_sweep(self.sweep_reason());
    }

    /// Handles an answer to a request that has ended already.
    pub(crate) fn straggles(&mut self, mad: &Mad) {
        let (Stage::Planning { inventory, .. }, Some(mad), false) = (&self.stage, ok(Some(mad)), self.is_sweep_due())
        else {
            return;
        };
        if self.repairs.is_overtaken(inventory, mad) {
            self.want_sweep(self.sweep_reason());
        }
    }

    /// True while a fault is repaired, and while the repaired links are probed again.
    #[must_use]
    pub fn is_at_a_fault(&self) -> bool {
        self.is_mending() || matches!(self.stage, Stage::Probing(_))
    }

    /// True while packets are lost and the manager acts on it: from the probe after a trap to the last acknowledged
    /// entry of the repair, without waits. All other work waits until then.
    pub(crate) fn is_mending(&self) -> bool {
        match &self.stage {
            Stage::Probing(probe) => !probe.start().is_check,
            Stage::Planning { .. } => self.is_repairing(),
            Stage::Applying(apply, _) => self.is_repairing() && apply.wait().is_none(),
            Stage::Idle
            | Stage::Discovering(_)
            | Stage::Electing
            | Stage::Reading
            | Stage::Persisting { .. }
            | Stage::LightSweep
            | Stage::MftBlocks(_)
            | Stage::GuidBlocks(_)
            | Stage::Standby
            | Stage::HandingOver
            | Stage::Disabled
            | Stage::Stopped => false,
        }
    }
}

/// Reports which links were lost, and which came back.
fn tell(damage: &Damage, fabric: &Fabric, out: &mut Vec<Output>) {
    let is_of_gone = |at: PortRef| {
        let far = fabric.peer(at).map(|far| far.node);
        damage.gone.contains(&at.node) || far.is_some_and(|far| damage.gone.contains(&far))
    };
    for &at in damage.lost.iter().filter(|&&at| !is_of_gone(at)) {
        let what = fabric.link_name_of(at);
        out.push(Output::Event(Event::LinkLost { what }));
    }
    for &node in &damage.gone {
        let what = fabric.node(node).description.clone();
        out.push(Output::Event(Event::SwitchLost { what }));
    }
    for returned in &damage.returned {
        let (near, far) = (returned.near.0, returned.far.0);
        let what = format!("{} - {}", fabric.port_name(near), fabric.port_name(far));
        out.push(Output::Event(Event::LinkReturned { what }));
    }
}
