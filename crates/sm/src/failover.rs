//! Repairs without a sweep: probes the ports of the switch that sent a trap, has a repair planned around what is lost,
//! and probes again when the repair is in force.
//!
//! Also here: the jobs that prepare repairs before a fault, and `knows_the_fabric`, which every part asks before it
//! does anything without a sweep.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_mad::AgentId;
use selvedge_planner::{Damage, Inventory, Job, JobId, Prepare, Repair, Returned, Task, Warm, is_small};
use selvedge_sim::Time;
use selvedge_types::{Lid, PortNum, PortState};
use selvedge_verify::standing::State;
use selvedge_wire::{Attribute, Mad, PortInfo};

use crate::config::{MOVED_AFTER, Mode};
use crate::core::{Sm, ok};
use crate::election::Role;
use crate::event::{Event, SweepReason};
use crate::io::Output;
use crate::probe::{Behind, Looked, Probe};
use crate::stage::{Stage, Token};
use crate::sweep::is_other_port;
use crate::{flap, rebalance, smp};

/// What the manager remembers for repairs.
#[derive(Debug, Default)]
pub struct Failover {
    /// Switches that said that something changed, and have not been looked at.
    suspects: BTreeSet<NodeIdx>,
    /// Those of them that showed PortStateChange in a light sweep.
    flagged: BTreeSet<NodeIdx>,
    /// Why they are to be looked at.
    reason: Option<SweepReason>,
    /// What makes a repair fast, between jobs.
    warm: Option<Box<Warm>>,
    /// The job that prepares it.
    preparing: Option<JobId>,
    /// A repair that waits for it.
    held: Option<Box<Job>>,
    /// Switches to look at again when the repair is applied; none: no repair is on its way.
    repaired: Option<BTreeSet<NodeIdx>>,
    /// Links that the repair on its way is for: lost, and returned.
    links: (usize, usize),
    /// Ends of those that were lost.
    ends: BTreeSet<NodeIdx>,
    /// Both ends of all of them.
    ports: BTreeSet<PortRef>,
    /// Requests that had been repeated when Sets of a plan began to be sent.
    pub repeats: u64,
}

impl Sm {
    /// True if what is in force is known in full: then only what changes must be looked at.
    pub(crate) fn knows_the_fabric(&self) -> bool {
        let (Some(inventory), Some(seen)) = (&self.inventory, &self.view.fabric) else {
            return false;
        };
        self.config.mode == Mode::Manage
            && self.role() == Role::Master
            && self.view.plan.is_some()
            && self.view.failed == 0
            && self.past.fog(self.now).is_zero()
            && Arc::ptr_eq(&inventory.fabric, seen)
    }

    /// True if some request has been repeated since Sets of the last plan began to be sent: its first copy may come
    /// yet.
    pub(crate) const fn has_repeated_a_set(&self) -> bool {
        self.exchange.counters().repeats != self.failover.repeats
    }

    /// True if a change of a link can be looked at by itself now.
    fn may_probe(&self) -> bool {
        // A step towards balance is short, and a fault comes next.
        let repairs = self.failover.repaired.is_some() || self.is_balancing();
        match self.stage {
            Stage::Idle | Stage::LightSweep | Stage::Copying(_) | Stage::Naming(_) => {
                self.knows_the_fabric() && self.has_looked_again()
            }
            Stage::Probing(_) => true,
            // A repair that waits does so for seconds: a sweep takes what is left of it along.
            Stage::Applying(ref apply, _) => repairs && apply.wait().is_none(),
            Stage::Planning { .. } => repairs,
            Stage::Discovering(_)
            | Stage::Electing
            | Stage::Reading { .. }
            | Stage::Persisting { .. }
            | Stage::Standby
            | Stage::HandingOver
            | Stage::Disabled
            | Stage::Stopped => false,
        }
    }

    /// A switch says that a link changed. False if only a sweep can find out what.
    pub(crate) fn suspect_lid(&mut self, lid: Lid, reason: SweepReason) -> bool {
        if self.is_sweep_due() {
            return false;
        }
        let owner = self.view.plan.as_ref().and_then(|plan| plan.lids.owner(lid));
        let inventory = self.inventory.as_ref();
        let Some(at) = owner.filter(|at| inventory.is_some_and(|i| i.fabric.switch_index(at.node).is_some())) else {
            return false;
        };
        if self.says_it_late(at.node) {
            return true;
        }
        if !self.may_probe() {
            return false;
        }
        self.suspect(at.node, reason);
        true
    }

    /// While a repair waits, the other end of what it is for may find a way to say so. It is looked at when the repair
    /// is done; another fault at this switch has to wait for that.
    fn says_it_late(&mut self, node: NodeIdx) -> bool {
        let waits = matches!(self.stage, Stage::Applying(ref apply, _) if apply.wait().is_some());
        let Some(repaired) = self.failover.repaired.as_mut() else {
            return false;
        };
        let is_late = waits && self.failover.ends.contains(&node);
        if is_late {
            repaired.insert(node);
        }
        is_late
    }

    /// A switch shows PortStateChange in a light sweep.
    pub(crate) fn suspect_flagged(&mut self, node: NodeIdx) {
        self.failover.flagged.insert(node);
        self.suspect(node, SweepReason::LightSweep);
    }

    /// A switch says that a link changed.
    pub(crate) fn suspect(&mut self, node: NodeIdx, reason: SweepReason) {
        self.failover.suspects.insert(node);
        self.failover.reason.get_or_insert(reason);
    }

    /// True if switches are to be looked at.
    pub(crate) fn has_suspects(&self) -> bool {
        !self.failover.suspects.is_empty()
    }

    /// True while repairs are prepared.
    pub(crate) const fn is_preparing_repairs(&self) -> bool {
        self.failover.preparing.is_some()
    }

    /// True if a lost link is looked at by itself now, and what makes its repair fast is there.
    pub(crate) fn has_repairs_ready(&self) -> bool {
        let warm = self.failover.warm.as_ref();
        self.may_probe() && warm.is_some_and(|warm| warm.can_repair())
    }

    /// Looks at suspects, if there are any and nothing else is going on.
    pub(crate) fn probe_suspects(&mut self, out: &mut Vec<Output>) {
        if self.failover.suspects.is_empty() || self.is_sweep_due() {
            return;
        }
        if let Stage::Probing(probe) = &mut self.stage {
            let flagged = std::mem::take(&mut self.failover.flagged);
            probe.suspect(&std::mem::take(&mut self.failover.suspects), &flagged);
            return;
        }
        let is_free = match self.stage {
            Stage::Idle | Stage::Copying(_) | Stage::Naming(_) => true,
            // A trap does not wait; what the light sweep itself finds, until it is through.
            Stage::LightSweep => {
                let is_trap = matches!(self.failover.reason, Some(SweepReason::Trap(_)));
                !self.has_light_sweep_found() && (is_trap || self.exchange.open() == 0)
            }
            _ => false,
        };
        if is_free {
            let reason = self.failover.reason.take().unwrap_or(SweepReason::Interval);
            if self.knows_the_fabric() && self.has_looked_again() {
                self.begin_probe(reason, false, out);
            } else {
                self.failover.suspects.clear();
                self.failover.flagged.clear();
                self.want_sweep(reason);
            }
        }
    }

    fn begin_probe(&mut self, reason: SweepReason, is_check: bool, out: &mut Vec<Output>) {
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        if !is_check {
            self.rebalance(rebalance::In::Interrupted, out);
        }
        if self.interrupt_copying() {
            self.want_sweep(reason);
        }
        let suspects = std::mem::take(&mut self.failover.suspects);
        let held = self.flaps().quarantined(&inventory.fabric);
        let mut probe = Probe::new(inventory, held, reason, is_check);
        probe.began = self.now;
        let flagged = std::mem::take(&mut self.failover.flagged);
        probe.suspect(&suspects, &flagged);
        if matches!(probe.reason, SweepReason::Trap(_)) && !is_check {
            probe.begin_with_trap();
        }
        self.exchange.clear();
        self.put_off_light_sweep();
        let inventory = Arc::clone(&probe.inventory);
        if !is_check && inventory.local.port != PortNum::MANAGEMENT {
            probe.await_own_port();
            self.ask_own_port(&inventory);
        }
        self.stage = Stage::Probing(Box::new(probe));
    }

    /// Takes what our own port says in a look at ports.
    pub(crate) fn own_port_looked_at(&mut self, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let Stage::Probing(probe) = &mut self.stage else { return };
        let is_other = is_other_port(probe.inventory.local, ok(answer), &probe.inventory);
        let looked = probe.own_port(!is_other);
        self.go_on(looked, out);
    }

    /// Counts how often the links of lost ports went down, and leaves out those that did too often.
    fn count_flaps(&mut self, damage: &mut Damage, inventory: &Inventory, out: &mut Vec<Output>) {
        let lost = flap::In::Lost(Arc::clone(&inventory.fabric), damage.lost.clone());
        self.flap(lost, out);
        // Also what had to be let in meanwhile, as some switch could not be reached without it.
        let ends = damage.lost.iter().flat_map(|&at| [Some(at), inventory.fabric.peer(at)]);
        let held = self.flaps().quarantined(&inventory.fabric);
        damage.held = ends.flatten().filter(|at| held.contains(at)).collect();
    }

    /// Keeps as many questions in flight as may be: what is asked next depends on the answers.
    pub(crate) fn ask_ports(&mut self) {
        let agent_window = self.agent_window();
        let Stage::Probing(probe) = &mut self.stage else { return };
        let m_key = self.config.policy.m_key;
        probe.keep_pace(self.now);
        while self.exchange.open() < self.config.window {
            let Some((at, route, is_detour)) = probe.next_question(agent_window, self.now) else {
                break;
            };
            let get = smp::get_port(&probe.inventory.fabric, at, &route, m_key);
            // What was sent by the usual way is lost, and must not take the agent's room.
            let agent = if is_detour {
                AgentId::UNKNOWN
            } else {
                AgentId(at.node.0)
            };
            self.exchange.submit(agent, (Token::Probe(at), get));
        }
        if probe.is_over() {
            self.exchange.clear();
        }
    }

    /// True while a second trap is waited for before any port is asked.
    pub(crate) fn waits_for_a_trap(&self) -> bool {
        matches!(&self.stage, Stage::Probing(probe) if probe.waits(self.now))
    }

    /// Takes the answer of a port that was looked at.
    pub(crate) fn port_looked_at(&mut self, at: PortRef, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let Stage::Probing(probe) = &mut self.stage else { return };
        let info = ok(answer).and_then(|mad| PortInfo::parse(mad.smp_data()).ok());
        let looked = probe.answered(at, info.as_ref(), self.now);
        let m_key = self.config.policy.m_key;
        for (at, what, attribute, modifier, route) in probe.more_questions() {
            let get = smp::get(attribute, modifier, &route, m_key);
            self.exchange.submit(AgentId::UNKNOWN, (Token::Behind(at, what), get));
        }
        self.go_on(looked, out);
    }

    /// Takes the answer of what is behind a port whose link came back.
    pub(crate) fn behind_looked_at(&mut self, at: PortRef, what: Behind, answer: Option<&Mad>, out: &mut Vec<Output>) {
        let Stage::Probing(probe) = &mut self.stage else { return };
        let looked = probe.behind(at, what, ok(answer).map(Mad::smp_data));
        self.go_on(looked, out);
    }

    fn go_on(&mut self, looked: Looked, out: &mut Vec<Output>) {
        match looked {
            Looked::Further => {}
            Looked::Explained => self.end_probe(out),
            Looked::Strange => self.sweep_instead(),
        }
    }

    /// What was found needs a sweep.
    fn sweep_instead(&mut self) {
        let Stage::Probing(probe) = std::mem::take(&mut self.stage) else {
            return;
        };
        self.want_sweep(probe.reason);
    }

    /// Every port was looked at, or enough of them.
    pub(crate) fn probed(&mut self, probe: Probe, now: Time, out: &mut Vec<Output>) {
        if probe.is_check && probe.found_nothing() {
            self.settle(now, out);
            return self.rest(now);
        }
        if !probe.is_settled() {
            self.want_sweep(probe.reason);
            return;
        }
        if probe.found_nothing() {
            return self.rest(now);
        }
        self.stage = Stage::Probing(Box::new(probe));
        self.end_probe(out);
    }

    /// Hands what was found to a job that plans around it.
    fn end_probe(&mut self, out: &mut Vec<Output>) {
        let Stage::Probing(probe) = std::mem::take(&mut self.stage) else {
            return;
        };
        let Probe {
            inventory,
            reason,
            mut damage,
            began,
            ..
        } = *probe;
        self.count_flaps(&mut damage, &inventory, out);
        // Cables may have been moved meanwhile: what a repair sends by them would be taken by others.
        if self.now.since(began) >= MOVED_AFTER {
            self.want_sweep(reason);
            return;
        }
        let (Some(plan), Some(verdict)) = (self.view.plan.clone(), self.view.verdict.clone()) else {
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
        self.failover.repaired = Some(damage.flagged.clone());
        self.failover.ends = damage.ends(&inventory.fabric).iter().map(|at| at.node).collect();
        let returned = damage.returned.iter().flat_map(|back| [back.near.0, back.far.0]);
        self.failover.ports = damage.ends(&inventory.fabric).into_iter().chain(returned).collect();
        let twice = |at: &&PortRef| {
            inventory
                .fabric
                .peer(**at)
                .is_some_and(|far| far < **at && damage.lost.contains(&far))
        };
        let lost = damage.lost.len() - damage.lost.iter().filter(twice).count();
        self.failover.links = (lost, damage.returned.len());
        self.generation = self.generation.next();
        let installed = Arc::clone(&self.view.installed);
        let warm = self.failover.warm.take();
        let under_way = self.past.under_way(&inventory.fabric, self.now);
        let basis = self.basis(&inventory, &installed, under_way);
        let repair = Repair {
            adopt: self.adopt(),
            warm,
            backups: self.backups(),
            ..Repair::new(basis, damage, plan, verdict)
        };
        let job = self.new_job(Task::Repair(Box::new(repair)));
        self.stage = Stage::Planning {
            job: job.id,
            inventory,
            installed,
        };
        match self.failover.preparing {
            // It is nearly there, and would have to be made first in any case.
            Some(_) => self.failover.held = Some(Box::new(job)),
            None => out.push(Output::Compute(Box::new(job))),
        }
    }

    /// What had waited for a link that came back, which was asked about after `began`, is gone.
    fn note_emptied(&mut self, fabric: &Fabric, returned: &Returned, began: Time) {
        for (at, info) in [returned.near, returned.far] {
            let is_switch = fabric.switch_index(at.node).is_some();
            if is_switch && matches!(info.state, Some(PortState::Init | PortState::Armed)) {
                self.past.note_emptied(fabric.node(at.node).guid, at.port, began);
            }
        }
    }

    /// Ports that the repair on its way is for.
    pub(crate) const fn repaired_ports(&self) -> &BTreeSet<PortRef> {
        &self.failover.ports
    }

    /// Nothing of what was prepared is good for what a sweep will find.
    pub(crate) fn forget_repairs(&mut self) {
        self.failover = Failover::default();
    }

    /// Keeps what a job prepared, or gives it to the repair that waits for it.
    pub(crate) fn prepared(&mut self, warm: Option<Box<Warm>>, out: &mut Vec<Output>) {
        self.failover.preparing = None;
        match self.failover.held.take() {
            Some(mut job) => {
                if let Task::Repair(repair) = &mut job.task {
                    repair.warm = warm;
                }
                out.push(Output::Compute(job));
            }
            None => {
                self.failover.warm = warm;
                self.await_backups();
                self.prepare_for_what_is_under_way(out);
            }
        }
    }

    /// What is proved, copies in force included, if repairs are prepared and backups can be made for them.
    pub(crate) fn prepared_state(&mut self) -> Option<State> {
        let (inventory, plan) = (self.inventory.clone()?, self.view.plan.clone()?);
        let copies = self.copies();
        let warm = self.failover.warm.as_mut().filter(|warm| warm.can_repair())?;
        let entries = inventory.fabric.switches().len() * plan.lids.len();
        let standing = warm.standing.as_mut().filter(|_| warm.known.is_none())?;
        standing.set_copies(&inventory.fabric, &copies.turns);
        is_small(entries, warm.weave.is_some()).then(|| standing.state())
    }

    /// True if a job is the one that prepares repairs.
    pub(crate) fn is_preparing(&self, id: JobId) -> bool {
        self.failover.preparing == Some(id)
    }

    /// Links that the repair on its way is for: lost, and returned.
    pub(crate) const fn repaired_links(&self) -> (usize, usize) {
        self.failover.links
    }

    /// True while a repair is planned or applied.
    pub(crate) const fn is_repairing(&self) -> bool {
        self.failover.repaired.is_some()
    }

    /// Keeps what a repair gives back.
    pub(crate) fn keep_warm(&mut self, warm: Option<Box<Warm>>) {
        self.failover.warm = warm;
    }

    /// A plan is in force: prepares for what may be lost next, and looks again at what was repaired.
    pub(crate) fn after_apply(&mut self, inventory: &Arc<Inventory>, out: &mut Vec<Output>) {
        let repaired = self.failover.repaired.take();
        self.multicast_after_apply();
        if !self.knows_the_fabric() {
            if repaired.is_some() && !self.is_sweep_due() {
                self.want_sweep(SweepReason::Again);
            }
            return;
        }
        if !inventory.fabric.switches().is_empty() {
            self.prepare(out);
        }
        if let Some(nodes) = repaired {
            self.failover.suspects.extend(nodes);
            self.begin_probe(self.sweep_reason(), true, out);
        }
    }

    fn prepare(&mut self, out: &mut Vec<Output>) {
        self.generation = self.generation.next();
        self.begin_preparing(out);
    }

    /// All is prepared but for what packets under way may do: prepares that, once it is known for how long they matter.
    pub(crate) fn prepare_for_what_is_under_way(&mut self, out: &mut Vec<Output>) {
        let is_free = matches!(
            self.stage,
            Stage::Idle | Stage::Copying(_) | Stage::Naming(_) | Stage::LightSweep
        );
        let lacks_it = self
            .failover
            .warm
            .as_ref()
            .is_some_and(|warm| warm.left.is_none() && warm.standing.is_some());
        let is_ready = lacks_it && is_free && !self.is_preparing_repairs() && !self.is_repairing();
        if is_ready && self.past.is_settled_with_some() && self.knows_the_fabric() {
            self.begin_preparing(out);
        }
    }

    fn begin_preparing(&mut self, out: &mut Vec<Output>) {
        let (Some(inventory), Some(plan)) = (self.inventory.clone(), self.view.plan.clone()) else {
            return;
        };
        let warm = self.failover.warm.take();
        let installed = Arc::clone(&self.view.installed);
        // Else it would be worked out first, and no other work should wait for that.
        let under_way = match self.past.is_settled_with_some() {
            true => self.past.under_way(&inventory.fabric, self.now),
            false => None,
        };
        let prepare = Prepare {
            basis: self.basis(&inventory, &installed, under_way),
            adopt: self.adopt(),
            plan,
            warm,
        };
        self.failover.preparing = Some(self.compute(Task::Prepare(Box::new(prepare)), out));
    }

    /// A repair that did not work out: sweeps.
    pub(crate) fn not_repaired(&mut self) {
        self.failover.repaired = None;
        self.stage = Stage::Idle;
        self.want_sweep(self.sweep_reason());
    }
}

/// Tells what was lost, and what came back.
fn tell(damage: &Damage, fabric: &Fabric, out: &mut Vec<Output>) {
    let is_of_gone = |at: PortRef| {
        let far = fabric.peer(at).map(|far| far.node);
        damage.gone.contains(&at.node) || far.is_some_and(|far| damage.gone.contains(&far))
    };
    for &at in damage.lost.iter().filter(|&&at| !is_of_gone(at)) {
        let what = fabric.port_name(at);
        out.push(Output::Event(Event::LinkLost { what }));
    }
    for &node in &damage.gone {
        let what = fabric.node(node).description.clone();
        out.push(Output::Event(Event::SwitchLost { what }));
    }
    for returned in &damage.returned {
        let what = fabric.port_name(returned.near.0);
        out.push(Output::Event(Event::LinkReturned { what }));
    }
}
