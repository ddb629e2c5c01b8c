//! The clock: goes from one wake-up of the emulator or a manager to the next, always to the earliest.

mod coordination;
mod digests;
mod disk;
mod jobs;
mod outside;
mod tools;
mod waking;
mod watching;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use selvedge_chassis::PortIdx;
use selvedge_coordinator::{Coordinator, In, Sampled};
use selvedge_emulator::{ClientId, Delivery, Emulator, EmulatorConfig, Fault};
use selvedge_fabric::Fabric;
use selvedge_plan::Policy;
use selvedge_plan::aliases::PortAliases;
use selvedge_plan::multicast::MulticastGroup;
use selvedge_planner::Judge;
use selvedge_planner::preview::Preview;
use selvedge_sim::{Seed, Time};
use selvedge_sm::{Command, Config, Event, Input, Milestone, Output, PersistentState, Sm, StageName, View};
use selvedge_telemetry::Sampler;
use selvedge_types::SecretKey;
use selvedge_wire::Datagram;

use self::jobs::Costs;
use self::tools::Tools;
use crate::checkers::{Checkers, Seen};
use crate::manager::{Life, Looks, Manager, ManagerId, Pending, Plans};
use crate::outside::Outsiders;
use crate::passed::{Clerk, Passed};
use crate::wire_log::WireLog;
use crate::{RehearsalError, Violation};

/// Parameters of a rehearsal.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The settings of the emulator: its agents and links.
    pub emulator: EmulatorConfig,
    /// The seed of everything that is drawn.
    pub seed: Seed,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            emulator: EmulatorConfig::default(),
            seed: Seed(1),
        }
    }
}

/// An event of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The time.
    pub at: Time,
    /// The manager that reported the event.
    pub manager: ManagerId,
    /// The event.
    pub event: Event,
}

/// One emulator and its managers, under one virtual clock.
#[derive(Debug)]
pub struct Rehearsal {
    pub(crate) now: Time,
    pub(crate) emulator: Emulator,
    pub(crate) managers: Vec<Manager>,
    tools: Tools,
    costs: Costs,
    pub(crate) log: Vec<LogEntry>,
    queues: Queues,
    pub(crate) counts: Counts,
    pub(crate) wire: WireLog,
    pub(crate) checkers: Checkers,
    /// The managers, if they are separate programs.
    pub(crate) outside: Option<Outsiders>,
    pub(crate) deliveries: Vec<Delivery>,
}

/// Work that waits to be carried out.
#[derive(Debug, Default)]
struct Queues {
    /// Milestones that coordinators have not got.
    milestones: VecDeque<(ManagerId, Milestone)>,
    /// Datagrams that administrators sent and clients have not taken yet.
    administered: VecDeque<(ManagerId, Datagram)>,
    /// What samplers found, until it is taken.
    sampled: Vec<(ManagerId, Sampled)>,
    /// Outputs of a manager that are being carried out; empty between inputs.
    outputs: Vec<Output>,
}

/// Counts of what has happened in the rehearsal so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Number of processes of managers so far.
    lives_begun: u64,
    /// How often a manager has become master.
    pub led: u64,
    /// Number of repairs that were planned before the fault: backups.
    pub known_repairs: u64,
    /// SMPs that ask a host to register again.
    pub asks: u64,
    /// Number of managers' outputs that were carried out.
    outputs_taken: u64,
    /// Number of steps since time last advanced.
    steps_at_now: u32,
}

/// How long storing takes, as an fsync on a common disk.
const PERSIST_COST: Duration = Duration::from_millis(1);
/// How long an answer takes that a `Tamper` has invented in place of an agent.
const FAKED_COST: Duration = Duration::from_micros(10);
/// A fabric counts as quiet if all managers are idle and no event is due within this time. Training of links takes
/// less; the intervals of repeated traps, polls of standbys and sweeps are longer.
const QUIET: Duration = Duration::from_millis(50);
/// The longest step while no datagram is delivered, so that conditions are checked soon after they become true.
const STRIDE: Duration = Duration::from_millis(5);
/// Number of steps at one instant after which the run fails, because time no longer advances. A sweep of 5,832 hosts
/// has fewer steps at any instant.
const STEPS_AT_ONE_INSTANT_MAX: u32 = 200_000;

impl Rehearsal {
    /// Returns the fabric at time zero, just switched on, without a manager.
    #[must_use]
    pub fn new(fabric: &Fabric, options: Options) -> Self {
        let emulator = Emulator::new(fabric, options.emulator, options.seed.child("emulator"));
        Self {
            now: Time::ZERO,
            checkers: Checkers::new(emulator.chassis()),
            emulator,
            outside: None,
            managers: Vec::new(),
            tools: Tools::default(),
            costs: Costs::default(),
            log: Vec::new(),
            queues: Queues::default(),
            counts: Counts::default(),
            wire: WireLog::default(),
            deliveries: Vec::new(),
        }
    }

    /// Adds a manager at an end port (as text, see [`Emulator::attach_named`]); [`Self::start`] starts it. This method
    /// fills in the local port of `config`.
    pub fn add_manager(&mut self, name: &str, at: &str, config: Config, judge: Arc<dyn Judge>) -> ManagerId {
        let (judge, passed): (Arc<dyn Judge>, _) = match self.checkers.is_watching() {
            false => (judge, None),
            true => {
                let passed = Passed::default();
                let clerk = Clerk {
                    judge,
                    passed: passed.clone(),
                };
                (Arc::new(clerk), Some(passed))
            }
        };
        self.managers.push(Manager {
            name: name.to_owned(),
            at: at.to_owned(),
            config,
            judge,
            passed,
            tamper: None,
            stored: PersistentState::default(),
            known: Arc::default(),
            disk: None,
            administers: None,
            samples: None,
            life: None,
        });
        ManagerId(self.managers.len() - 1)
    }

    /// Starts a manager that is not running, with the state that its earlier processes stored.
    pub fn start(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        if self.outside.is_some() {
            return self.start_outside(id);
        }
        let manager = self.managers.get_mut(id.0).ok_or_else(|| unknown(id))?;
        if manager.life.is_some() {
            let name = manager.name.clone();
            return Err(RehearsalError::Manager {
                name,
                problem: "is running already; kill it first",
            });
        }
        let folder = manager.open_folder()?;
        self.counts.lives_begun += 1;
        let administrated = self.administrated(id, folder.as_ref())?;
        let manager = &mut self.managers[id.0];
        let client = self.emulator.attach_named(&manager.at)?;
        if let Some(local) = self.emulator.local(client) {
            manager.config.local = local;
        }
        let stored = manager.stored.clone();
        let sm = Sm::new(manager.config.clone(), Arc::clone(&manager.judge), stored);
        let sm = sm.remembering(Arc::clone(&manager.known));
        manager.life = Some(Life {
            client,
            started: self.now,
            number: self.counts.lives_begun,
            sm,
            coordinator: Coordinator::new(self.now, &manager.config, administrated)
                .sampling(manager.samples.clone().map(Sampler::new)),
            hurry: Duration::ZERO,
            pending: Vec::new(),
            looks: Looks::default(),
            plans: Plans::default(),
            role_changes: 0,
            has_indexed: false,
            folder,
        });
        self.coordinate(id, In::Start)?;
        self.begin_sampling(id)
    }

    /// Ends a manager as `kill -9` does: only its stored state remains, and the kernel clears IsSM.
    pub fn kill(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        if self.outside.is_some() {
            return self.kill_outside(id);
        }
        let life = self.managers.get_mut(id.0).and_then(|m| m.life.take());
        let life = life.ok_or_else(|| self.not_running(id))?;
        self.emulator.detach(self.now, life.client);
        Ok(())
    }

    /// Hands a manager an operator's command.
    pub fn command(&mut self, id: ManagerId, command: Command) -> Result<(), RehearsalError> {
        self.observe(&Seen::WantedChanged)?;
        if self.outside.is_some() {
            return self.outside_call(id, |hands, _, _| hands.sweep(id));
        }
        self.coordinate(id, In::Command(command))
    }

    /// Gives a manager its multicast groups, as its administrator does.
    pub fn groups(&mut self, id: ManagerId, groups: Vec<MulticastGroup>) -> Result<(), RehearsalError> {
        self.hand(id, Input::Groups(groups))
    }

    /// Gives a manager its alias GUIDs, as its administrator does.
    pub fn aliases(&mut self, id: ManagerId, ports: Vec<PortAliases>) -> Result<(), RehearsalError> {
        self.hand(id, Input::Aliases(ports))
    }

    /// Gives a manager another policy, for the current process and all later ones.
    pub fn reload(&mut self, id: ManagerId, policy: Arc<Policy>) -> Result<(), RehearsalError> {
        let manager = self.managers.get_mut(id.0).ok_or_else(|| unknown(id))?;
        manager.config.policy = Arc::clone(&policy);
        if self.outside.is_some() {
            return self.reload_outside(id);
        }
        match manager.life {
            Some(_) => self.command(id, Command::SetPolicy(policy)),
            None => Ok(()),
        }
    }

    /// Returns the computation that finds the Sets of a policy, as a dry run uses it. `None` if the manager does not
    /// run, or knows too little of the fabric.
    pub fn preview(&mut self, id: ManagerId, policy: Arc<Policy>) -> Option<Preview> {
        let life = self.managers.get_mut(id.0)?.life.as_mut()?;
        life.sm.preview(policy)
    }

    /// Gives a manager another SM_Key: now if it runs, and for all later processes.
    pub fn set_sm_key(&mut self, id: ManagerId, key: SecretKey) -> Result<(), RehearsalError> {
        let manager = self.managers.get_mut(id.0).ok_or_else(|| unknown(id))?;
        manager.config.sm_key = key.expose();
        match manager.life {
            Some(_) => self.command(id, Command::SetSmKey(key)),
            None => Ok(()),
        }
    }

    /// Lets a fault strike now.
    pub fn fault(&mut self, fault: &Fault) -> Result<(), RehearsalError> {
        self.observe(&Seen::Fault(fault))?;
        Ok(self.emulator.apply(self.now, fault)?)
    }

    /// Sets the time that planning the whole fabric takes from now on. `None`: its documented virtual cost.
    pub const fn set_plan_cost(&mut self, cost: Option<Duration>) {
        self.costs.plan = cost;
    }

    /// Lets jobs take no time from now on, repairs included, so that only the fabric takes time.
    pub const fn set_jobs_free(&mut self) {
        self.costs.are_free = true;
    }

    /// Returns the present virtual time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Returns the emulator, which has the fabric's hardware.
    #[must_use]
    pub const fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// Returns what a running manager shows of its state.
    #[must_use]
    pub fn view(&self, id: ManagerId) -> Option<View> {
        self.life(id).map(|life| life.sm.view())
    }

    /// Returns the manager's client of the emulator, while the manager runs.
    #[must_use]
    pub fn client(&self, id: ManagerId) -> Option<ClientId> {
        self.life(id).map(|life| life.client)
    }

    /// Returns the manager's stored state.
    #[must_use]
    pub fn stored(&self, id: ManagerId) -> Option<&PersistentState> {
        self.managers.get(id.0).map(|m| &m.stored)
    }

    /// Returns all managers with their names.
    pub fn managers(&self) -> impl Iterator<Item = (ManagerId, &str)> {
        self.managers
            .iter()
            .enumerate()
            .map(|(i, m)| (ManagerId(i), m.name.as_str()))
    }

    /// Returns the events of all managers so far.
    #[must_use]
    pub fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// Returns the number of forwarding loops that occurred between two plans. None of them may remain.
    #[must_use]
    pub const fn loops_met(&self) -> u64 {
        self.checkers.loops_met()
    }

    /// Goes on to the next event, at most to `limit`; false if there was none up to then.
    pub fn step(&mut self, limit: Time) -> Result<bool, RehearsalError> {
        if self.outside.is_some() {
            return self.step_outside(limit);
        }
        let due = self.lives().filter_map(|(_, life)| life.next_due()).min();
        let next = [due, self.emulator.next_event()].into_iter().flatten().min();
        let Some(next) = next.filter(|at| *at <= limit) else {
            let mut none = Vec::new();
            self.emulator.advance(limit, &mut none);
            self.now = self.now.max(limit);
            return Ok(false);
        };
        let target = due.map_or(limit, |at| at.min(limit)).min(next + STRIDE).max(self.now);
        let before = self.now;
        let mut deliveries = std::mem::take(&mut self.deliveries);
        self.now = self.emulator.advance_to_delivery(target, &mut deliveries).max(before);
        self.count_step(before)?;
        let any = !deliveries.is_empty();
        for delivery in deliveries.drain(..) {
            self.deliver(&delivery)?;
        }
        self.deliveries = deliveries;
        if !any {
            self.work_due()?;
        }
        self.check()?;
        Ok(true)
    }

    /// Runs for a span of virtual time.
    pub fn run_for(&mut self, span: Duration) -> Result<(), RehearsalError> {
        let end = self.now + span;
        while self.step(end)? {}
        Ok(())
    }

    /// Runs until `condition` holds; fails with `what` if it does not within `bound`.
    pub fn run_until(
        &mut self,
        bound: Duration,
        what: &str,
        mut condition: impl FnMut(&Self) -> bool,
    ) -> Result<(), RehearsalError> {
        let end = self.now + bound;
        loop {
            if condition(self) {
                return Ok(());
            }
            if !self.step(end)? && !condition(self) {
                return Err(RehearsalError::Bound {
                    now: self.now,
                    bound,
                    what: what.to_owned(),
                });
            }
        }
    }

    /// Runs until [`Self::is_quiet`]; then no forwarding loop and no LID conflict may be left.
    pub fn run_until_quiet(&mut self, bound: Duration) -> Result<(), RehearsalError> {
        self.run_until(bound, "everything is quiet", Self::is_quiet)?;
        self.at_rest().map_err(|violation| self.violated(violation))
    }

    /// True if all managers are idle, no datagram is in flight and no event is near.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        // A failed save is retried, and the manager may have something to do then.
        let has_stored = |life: &Life| life.coordinator.retries().state.next().is_none();
        let at_rest = |life: &Life| life.pending.is_empty() && has_stored(life) && life.sm.is_resting();
        // A datagram in flight is an event in the near future; one that a hung agent holds is none.
        self.emulator.next_event().is_none_or(|at| at > self.now + QUIET) && self.lives().all(|(_, life)| at_rest(life))
    }

    pub(crate) fn lives(&self) -> impl Iterator<Item = (ManagerId, &Life)> {
        let managers = self.managers.iter().enumerate();
        managers.filter_map(|(i, m)| Some((ManagerId(i), m.life.as_ref()?)))
    }

    /// Returns a running manager.
    pub(crate) fn life_of(&self, id: ManagerId) -> Option<&Sm> {
        self.life(id).map(|life| &life.sm)
    }

    /// True if packets can get from one port to another.
    pub(crate) fn connected(&self, a: PortIdx, b: PortIdx) -> bool {
        self.checkers.subnets().connected(a, b)
    }

    fn life(&self, id: ManagerId) -> Option<&Life> {
        self.managers.get(id.0)?.life.as_ref()
    }

    fn not_running(&self, id: ManagerId) -> RehearsalError {
        match self.managers.get(id.0) {
            Some(m) => RehearsalError::Manager {
                name: m.name.clone(),
                problem: "is not running; start it first",
            },
            None => unknown(id),
        }
    }

    pub(crate) fn violated(&self, violation: Violation) -> RehearsalError {
        RehearsalError::Violated {
            now: self.now,
            violation,
        }
    }

    fn count_step(&mut self, before: Time) -> Result<(), RehearsalError> {
        self.counts.steps_at_now = if self.now == before {
            self.counts.steps_at_now + 1
        } else {
            0
        };
        match self.counts.steps_at_now {
            steps if steps > STEPS_AT_ONE_INSTANT_MAX => Err(RehearsalError::Stuck { now: self.now, steps }),
            _ => Ok(()),
        }
    }

    fn deliver(&mut self, delivery: &Delivery) -> Result<(), RehearsalError> {
        if self.tools.take(delivery) {
            return Ok(());
        }
        // A manager that was killed meanwhile gets nothing.
        let id = self
            .lives()
            .find(|(_, life)| life.client == delivery.client)
            .map(|(id, _)| id);
        let Some(id) = id else { return Ok(()) };
        let (client, datagram) = (delivery.client, &delivery.datagram);
        self.observe(&Seen::Receives { id, client, datagram })?;
        self.coordinate(id, In::Arrived(delivery.datagram))
    }

    fn finish(&mut self, id: ManagerId, done: Pending) -> Result<(), RehearsalError> {
        match done {
            Pending::Persisted { id: number, state } => self.stored_now(id, number, *state),
            Pending::Saved { id: number, state } => self.saved(id, number, state),
            Pending::Input(input) => self.hand(id, *input),
            Pending::Job { job, result } => self.end(id, job, result),
        }
    }

    /// Hands an input to a manager and carries out the outputs.
    pub(crate) fn hand(&mut self, id: ManagerId, input: Input) -> Result<(), RehearsalError> {
        let now = self.now;
        let Some(manager) = self.managers.get_mut(id.0).filter(|m| m.life.is_some()) else {
            return Err(self.not_running(id));
        };
        let input = match &mut manager.tamper {
            Some(tamper) => tamper.input(now, input),
            None => Some(input),
        };
        let (Some(life), Some(input)) = (&mut manager.life, input) else {
            return Ok(());
        };
        let mut out = std::mem::take(&mut self.queues.outputs);
        let before = life.sm.stage_name();
        life.sm.handle(now + life.hurry, input, &mut out);
        // It begins a probe, and drops its earlier requests.
        let looks_anew = before != StageName::Probing && life.sm.stage_name() == StageName::Probing;
        let looks_anew = looks_anew.then_some(life.client);
        if looks_anew.is_some() {
            life.looks.probes(now);
        }
        if let Some(tamper) = &mut manager.tamper {
            let mut back = Vec::new();
            let meant = std::mem::take(&mut out);
            for output in meant {
                tamper.output(now, output, &mut out, &mut back);
            }
            let back = back
                .into_iter()
                .map(|input| (now + FAKED_COST, Pending::Input(Box::new(input))));
            life.pending.extend(back);
            life.hurry += tamper.hurry(&life.sm, now + life.hurry);
        }
        looks_anew.map_or(Ok(()), |client| self.observe(&Seen::LooksAnew(client)))?;
        let done = out.drain(..).try_for_each(|output| self.carry_out(id, output));
        self.queues.outputs = out;
        done?;
        self.coordinate_milestones()
    }

    fn carry_out(&mut self, id: ManagerId, output: Output) -> Result<(), RehearsalError> {
        let now = self.now;
        let manager = &mut self.managers[id.0];
        let Some(life) = &mut manager.life else { return Ok(()) };
        self.counts.outputs_taken += 1;
        self.wire.take(now, id, &output);
        match output {
            Output::Send { datagram, timeout } => return self.send(id, datagram, timeout),
            Output::Compute(job) => self.begin(id, job),
            Output::Persist { id, state } if life.folder.is_none() => {
                let state = Box::new(state);
                life.pending
                    .push((now + PERSIST_COST, Pending::Persisted { id, state }));
            }
            Output::Persist { id: number, state } => return self.coordinate(id, In::Persist { id: number, state }),
            Output::SetIsSm(is_sm) => self.emulator.set_is_sm(now, life.client, is_sm)?,
            Output::Milestone(milestone) => return self.reached(id, milestone),
            Output::Event(event) => self.log.push(LogEntry {
                at: now,
                manager: id,
                event,
            }),
        }
        Ok(())
    }
}

fn unknown(id: ManagerId) -> RehearsalError {
    RehearsalError::Manager {
        name: format!("number {}", id.0),
        problem: "does not exist",
    }
}
