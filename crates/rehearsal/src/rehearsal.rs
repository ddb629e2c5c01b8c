//! The clock: steps emulator and managers by the earliest wake-up.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use selvedge_emulator::{ClientId, Delivery, Emulator, EmulatorConfig, Fault};
use selvedge_fabric::Fabric;
use selvedge_sim::{Par, Seed, Time};
use selvedge_sm::{Command, Config, Event, Input, Job, Judge, Output, PersistentState, Sm, View};
use selvedge_types::TransactionId;
use selvedge_wire::{Datagram, Method};

use crate::invariant::Invariants;
use crate::manager::{AcceptedPlan, Life, Manager, ManagerId, Pending};
use crate::{RehearsalError, Violation};

/// Parameters of a rehearsal.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Agents and wires.
    pub emulator: EmulatorConfig,
    /// Everything drawn comes from here.
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
    /// When.
    pub at: Time,
    /// Whose.
    pub manager: ManagerId,
    /// What.
    pub event: Event,
}

/// One emulator and its managers under one virtual clock.
#[derive(Debug)]
pub struct Rehearsal {
    pub(crate) now: Time,
    pub(crate) emulator: Emulator,
    managers: Vec<Manager>,
    /// Clients that are no managers: their answers wait here.
    tools: BTreeMap<ClientId, Vec<Datagram>>,
    plan_cost: Option<Duration>,
    log: Vec<LogEntry>,
    digest: u64,
    invariants: Invariants,
    deliveries: Vec<Delivery>,
    /// Steps since time last went on.
    steps_at_now: u32,
    tool_requests: u64,
    /// Somebody else than a manager is setting something.
    foreign_hands: bool,
}

/// How long storing takes: an fsync on a common disk.
const PERSIST_COST: Duration = Duration::from_millis(1);
/// The managers are at rest: then a fabric in which nothing happens for so long is quiet. Links train within it; traps
/// are repeated, standbys poll and masters sweep at longer intervals.
const QUIET: Duration = Duration::from_millis(50);
/// The most that is skipped at once while nobody receives anything, so that conditions are seen when they come true.
const STRIDE: Duration = Duration::from_millis(5);
/// Steps at one instant after which time will not go on any more. A 5,832-host sweep has fewer at any instant.
const STEPS_AT_ONE_INSTANT_MAX: u32 = 200_000;

impl Rehearsal {
    /// The fabric at time zero, just switched on, without a manager.
    #[must_use]
    pub fn new(fabric: &Fabric, options: Options) -> Self {
        let emulator = Emulator::new(fabric, options.emulator, options.seed.child("emulator"));
        Self {
            now: Time::ZERO,
            invariants: Invariants::new(&emulator),
            emulator,
            managers: Vec::new(),
            tools: BTreeMap::new(),
            plan_cost: None,
            log: Vec::new(),
            digest: FNV_START,
            deliveries: Vec::new(),
            steps_at_now: 0,
            tool_requests: 0,
            foreign_hands: false,
        }
    }

    /// Adds a manager at an end port (as text, see [`Emulator::attach_named`]); [`Self::start`] starts it. The local
    /// port in `config` is filled in then.
    pub fn add_manager(&mut self, name: &str, at: &str, config: Config, judge: Arc<dyn Judge>) -> ManagerId {
        self.managers.push(Manager {
            name: name.to_owned(),
            at: at.to_owned(),
            config,
            judge,
            stored: PersistentState::default(),
            life: None,
        });
        ManagerId(self.managers.len() - 1)
    }

    /// Starts a manager that is not running, with what it stored in earlier lives.
    pub fn start(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        let manager = self.managers.get_mut(id.0).ok_or_else(|| unknown(id))?;
        if manager.life.is_some() {
            let name = manager.name.clone();
            return Err(RehearsalError::Manager {
                name,
                problem: "is running already; kill it first",
            });
        }
        let client = self.emulator.attach_named(&manager.at)?;
        if let Some(local) = self.emulator.local(client) {
            manager.config.local = local;
        }
        let sm = Sm::new(
            manager.config.clone(),
            Arc::clone(&manager.judge),
            manager.stored.clone(),
        );
        manager.life = Some(Life {
            client,
            sm,
            pending: Vec::new(),
            boots: Arc::default(),
            accepted: None,
        });
        self.hand(id, Input::Start)
    }

    /// Ends a manager as `kill -9` does: nothing remains but what it had stored, and the kernel clears IsSM.
    pub fn kill(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        let life = self.managers.get_mut(id.0).and_then(|m| m.life.take());
        let life = life.ok_or_else(|| self.not_running(id))?;
        self.emulator.detach(self.now, life.client);
        Ok(())
    }

    /// Hands a manager an operator's command.
    pub fn command(&mut self, id: ManagerId, command: Command) -> Result<(), RehearsalError> {
        self.hand(id, Input::Command(command))
    }

    /// Lets something go wrong now.
    pub fn fault(&mut self, fault: &Fault) -> Result<(), RehearsalError> {
        Ok(self.emulator.apply(self.now, fault)?)
    }

    /// What planning the whole fabric costs from now on; `None`: its documented virtual cost.
    pub const fn set_plan_cost(&mut self, cost: Option<Duration>) {
        self.plan_cost = cost;
    }

    /// Virtual time.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// The fabric.
    #[must_use]
    pub const fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// What a running manager shows of itself.
    #[must_use]
    pub fn view(&self, id: ManagerId) -> Option<View> {
        self.life(id).map(|life| life.sm.view())
    }

    /// Its place as a client of the emulator, while it runs.
    #[must_use]
    pub fn client(&self, id: ManagerId) -> Option<ClientId> {
        self.life(id).map(|life| life.client)
    }

    /// What it has stored.
    #[must_use]
    pub fn stored(&self, id: ManagerId) -> Option<&PersistentState> {
        self.managers.get(id.0).map(|m| &m.stored)
    }

    /// All managers with their names.
    pub fn managers(&self) -> impl Iterator<Item = (ManagerId, &str)> {
        self.managers
            .iter()
            .enumerate()
            .map(|(i, m)| (ManagerId(i), m.name.as_str()))
    }

    /// Events of all managers so far.
    #[must_use]
    pub fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// The events as text, a line each.
    #[must_use]
    pub fn log_text(&self) -> String {
        let mut text = String::new();
        for entry in &self.log {
            let name = self.managers.get(entry.manager.0).map_or("?", |m| m.name.as_str());
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {name} {}", entry.at, entry.event);
        }
        text
    }

    /// A number over every datagram that a manager sent, and when.
    #[must_use]
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Forwarding loops met half-way between two plans; none of them may stay.
    #[must_use]
    pub const fn loops_met(&self) -> u64 {
        self.invariants.loops_met()
    }

    /// Goes on to the next event, at most to `limit`; false if there was none up to then.
    pub fn step(&mut self, limit: Time) -> Result<bool, RehearsalError> {
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
        let result = self.invariants.at_rest(&self.emulator, &self.managers);
        result.map_err(|violation| self.violated(violation))
    }

    /// True if all managers are at rest, no datagram is on its way and nothing is about to happen.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let at_rest = |life: &Life| life.pending.is_empty() && life.sm.is_resting();
        // A datagram on its way is an event in the near future; one that a hung agent holds is none.
        self.emulator.next_event().is_none_or(|at| at > self.now + QUIET) && self.lives().all(|(_, life)| at_rest(life))
    }

    /// Sends a request from an end port as a diagnostic tool would, and waits for its answer, `None` if there is none
    /// within a second. What a Set of a tool does to the hardware is not held against the managers.
    pub fn ask(&mut self, from: &str, request: &Datagram) -> Result<Option<Datagram>, RehearsalError> {
        let client = self.emulator.attach_named(from)?;
        self.tools.insert(client, Vec::new());
        self.tool_requests += 1;
        let mut request = *request;
        // Apart from the managers' transaction ids, which fit into 32 bits.
        request
            .mad
            .set_transaction(TransactionId(self.tool_requests << 32 | 0x7001));
        self.emulator.send(self.now, client, &request);
        self.foreign_hands = request.mad.method() == Method::Set;
        let waited = self.run_until(Duration::from_secs(1), "an answer comes", |r| {
            r.tools.get(&client).is_some_and(|answers| !answers.is_empty())
        });
        self.foreign_hands = false;
        match waited {
            Ok(()) | Err(RehearsalError::Bound { .. }) => {}
            Err(other) => return Err(other),
        }
        self.emulator.detach(self.now, client);
        Ok(self.tools.remove(&client).and_then(|answers| answers.first().copied()))
    }

    pub(crate) fn lives(&self) -> impl Iterator<Item = (ManagerId, &Life)> {
        let managers = self.managers.iter().enumerate();
        managers.filter_map(|(i, m)| Some((ManagerId(i), m.life.as_ref()?)))
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

    fn violated(&self, violation: Violation) -> RehearsalError {
        RehearsalError::Violated {
            now: self.now,
            violation,
        }
    }

    fn count_step(&mut self, before: Time) -> Result<(), RehearsalError> {
        self.steps_at_now = if self.now == before { self.steps_at_now + 1 } else { 0 };
        match self.steps_at_now {
            steps if steps > STEPS_AT_ONE_INSTANT_MAX => Err(RehearsalError::Stuck { now: self.now, steps }),
            _ => Ok(()),
        }
    }

    fn check(&mut self) -> Result<(), RehearsalError> {
        if self.foreign_hands {
            self.invariants.excuse(&self.emulator);
            return Ok(());
        }
        let result = self.invariants.after_event(self.now, &self.emulator, &self.managers);
        result.map_err(|violation| self.violated(violation))
    }

    fn deliver(&mut self, delivery: &Delivery) -> Result<(), RehearsalError> {
        if let Some(answers) = self.tools.get_mut(&delivery.client) {
            if delivery.datagram.mad.method() == Method::GetResp {
                answers.push(delivery.datagram);
            }
            return Ok(());
        }
        // A manager that was killed meanwhile hears nothing.
        let id = self
            .lives()
            .find(|(_, life)| life.client == delivery.client)
            .map(|(id, _)| id);
        id.map_or(Ok(()), |id| self.hand(id, Input::Received(delivery.datagram)))
    }

    /// Completions first, then timers, manager by manager.
    fn work_due(&mut self) -> Result<(), RehearsalError> {
        for id in (0..self.managers.len()).map(ManagerId) {
            let now = self.now;
            while let Some(done) = self.managers[id.0].life.as_mut().and_then(|life| life.take_done(now)) {
                self.finish(id, done)?;
            }
            if self
                .life(id)
                .and_then(|life| life.sm.next_wake())
                .is_some_and(|at| at <= now)
            {
                self.hand(id, Input::Wake)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, id: ManagerId, done: Pending) -> Result<(), RehearsalError> {
        match done {
            Pending::Persisted { id: number, state } => {
                self.managers[id.0].stored = state;
                self.hand(id, Input::Persisted { id: number })
            }
            Pending::Computed {
                generation,
                inventory,
                result,
            } => {
                let boots = self.life(id).map(|life| Arc::clone(&life.boots)).unwrap_or_default();
                let accepted = result.outcome.as_ref().map(|outcome| AcceptedPlan {
                    at: self.now,
                    boots,
                    fabric: Arc::clone(&inventory.fabric),
                    plan: Arc::clone(&outcome.plan),
                });
                let logged = self.log.len();
                self.hand(id, Input::Computed { generation, result })?;
                // A result of an older generation is dropped without a word.
                let taken = self.log[logged..]
                    .iter()
                    .any(|e| matches!(e.event, Event::PlanAccepted { .. }));
                if let (true, Some(life)) = (taken, self.managers[id.0].life.as_mut()) {
                    life.accepted = accepted;
                }
                Ok(())
            }
        }
    }

    fn hand(&mut self, id: ManagerId, input: Input) -> Result<(), RehearsalError> {
        let now = self.now;
        let Some(life) = self.managers.get_mut(id.0).and_then(|m| m.life.as_mut()) else {
            return Err(self.not_running(id));
        };
        let mut out = Vec::new();
        life.sm.handle(now, input, &mut out);
        for output in out {
            match output {
                Output::Send { datagram, .. } => {
                    self.digest = fnv(fnv(self.digest, &now.0.to_be_bytes()), datagram.mad.as_bytes());
                    self.emulator.send(now, life.client, &datagram);
                }
                Output::Compute(job) => life.pending.push(compute(now, *job, self.plan_cost)),
                Output::Persist { id, state } => {
                    life.pending
                        .push((now + PERSIST_COST, Pending::Persisted { id, state }));
                }
                Output::SetIsSm(is_sm) => self.emulator.set_is_sm(now, life.client, is_sm)?,
                Output::Event(event) => {
                    if matches!(event, Event::SweepStarted { .. }) {
                        let chassis = self.emulator.chassis();
                        life.boots = Arc::new(chassis.fabric().nodes().indices().map(|n| chassis.boots(n)).collect());
                    }
                    self.log.push(LogEntry {
                        at: now,
                        manager: id,
                        event,
                    });
                }
            }
        }
        Ok(())
    }
}

/// The job runs now; its result is there when its virtual cost has passed.
fn compute(now: Time, mut job: Job, cost: Option<Duration>) -> (Time, Pending) {
    let cost = cost.filter(|_| job.is_whole());
    let done = now + cost.unwrap_or_else(|| job.virtual_cost());
    let result = Box::new(job.run(Par::Sequential));
    (
        done,
        Pending::Computed {
            generation: job.generation,
            inventory: job.inventory,
            result,
        },
    )
}

fn unknown(id: ManagerId) -> RehearsalError {
    RehearsalError::Manager {
        name: format!("number {}", id.0),
        problem: "does not exist",
    }
}

/// FNV-1a, 64 bits: a number that differs if a byte differs, for comparing runs.
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
