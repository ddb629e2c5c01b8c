//! The loop around a manager: one thread reads, handles and sends, so a datagram crosses no lock and no queue.

mod coordination;
mod shown;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::Duration;

use selvedge_coordinator::{Coordinator, In, Out};
use selvedge_fabric::Fabric;
use selvedge_plan::{OutOfService, Plan, Policy};
use selvedge_planner::Job;
use selvedge_sa::Sources;
use selvedge_sim::Time;
use selvedge_sm::{Command, Event, Input, Milestone, Output, Sm, StageName, View};
use selvedge_store::StateDir;
use selvedge_transport::prefer_this_thread;
use selvedge_wire::{MadPort, PortError};

use crate::DaemonError;
use crate::attached::PortNews;
use crate::desk::{Desk, Seat};
use crate::dumps::{Dump, DumpSink, dumper};
use crate::memory::Memory;
use crate::notice::{Notice, Standing};
use crate::out_of_service::Roster;
use crate::record::Recorder;
use crate::shared::Shared;
use crate::systemd::Systemd;
use crate::telemetry::history::Resumed;
use crate::telemetry::{Gatherer, Surveyor, surveyor};
use crate::user_jobs::Tickets;
use crate::worker::{Expected, Note, ToCompare, ToStore, Worker};
use crate::worker::{backer, comparer, compute_in_place, expecter, indexer, planner, storer};

/// When the driver ends without a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Never: it ends by command only.
    Stopped,
    /// After the first time that the manager has nothing left to do (`--once`).
    Idle,
}

/// Longest wait for a datagram while a job or a store is in progress: the largest delay until its result is noticed.
const WAIT_BUSY: Duration = Duration::from_micros(100);
/// Longest wait for a datagram in the first moments of a job or a store, in which repairs end.
const WAIT_SOON: Duration = Duration::from_micros(20);
/// How long these first moments are: repairs of 27,648 hosts take 20 ms.
const SOON: Duration = Duration::from_millis(25);
/// While a fault is repaired, the thread does not sleep for this time after the last datagram: a wake-up takes as long
/// as a switch's answer, and a repair waits for four answers one after another.
const AWAKE: Duration = Duration::from_micros(300);
/// Events are not reported or shown for this time while a fault is repaired: many times the length of a repair.
const HURRY: Duration = Duration::from_millis(100);
/// Longest wait for a datagram at other times. It is also the largest delay until a command is noticed. 50 wake-ups a
/// second take no noticeable time.
const WAIT_IDLE: Duration = Duration::from_millis(20);
/// Wait before a port with a full queue is tried again.
const WAIT_FULL: Duration = Duration::from_micros(50);
/// Largest number of datagrams that are taken before timers, jobs and commands are checked again.
const ARRIVALS_MAX: usize = 64;
/// Shortest time between two updates of the shown view.
const SHOW_INTERVAL: Duration = Duration::from_millis(10);

/// The loop around a manager.
pub(crate) struct Driver {
    sm: Sm,
    /// Access to the port and the administrator.
    seat: Seat,
    until: Until,
    shared: Arc<Shared>,
    notes: Receiver<Note>,
    recorder: Option<Recorder>,
    planner: Worker<Box<Job>>,
    /// Thread for plans that no change waits for.
    balancer: Worker<Box<Job>>,
    /// Plans multicast trees.
    copier: Worker<Box<Job>>,
    /// Works out repairs that may be needed.
    backer: Worker<Box<Job>>,
    /// Makes plans that are in force ready for the administrator.
    indexer: Worker<Sources>,
    /// Makes the sampler's inventory of plans that are in force.
    surveyor: Surveyor,
    storer: Worker<ToStore>,
    comparer: Worker<ToCompare>,
    dumper: Option<Worker<Dump>>,
    expecter: Option<Worker<Arc<Fabric>>>,
    out: Vec<Output>,
    /// Outputs that the coordinator has for this thread.
    left: VecDeque<(Time, Out)>,
    /// Events that have not been reported, and milestones that have not been handed to the coordinator.
    untold: Vec<(Time, Untold)>,
    busy: usize,
    /// When the last job was handed out.
    busy_since: Time,
    /// When the current repair, or the check after it, began; `None` if there is none.
    fault_since: Option<Time>,
    /// When the last datagram arrived.
    heard_at: Time,
    /// True if the manager has handled an input since the last turn ended.
    has_worked: bool,
    changed: bool,
    shown_at: Time,
    /// Number of datagrams that the administrator had got when its counts were last shown.
    asked: u64,
    /// Memory that is set aside for repairs.
    memory: Memory,
    /// The last plan in force, with its fabric.
    in_force: Option<(Arc<Fabric>, Arc<Plan>)>,
    stopping: bool,
    systemd: Systemd,
    /// The list of places out of service.
    roster: Arc<Roster>,
    /// Why the port does not show IsSM as it should.
    is_sm_refused: Standing,
    /// Front ends that wait for an answer about a job of a user.
    tickets: Tickets,
}

/// Output that waits until there is time for it.
enum Untold {
    Event(Event),
    Milestone(Milestone),
}

/// The parts of a driver.
pub(crate) struct Parts {
    pub(crate) sm: Sm,
    pub(crate) port: Box<dyn MadPort>,
    pub(crate) until: Until,
    pub(crate) shared: Arc<Shared>,
    pub(crate) notes: (Sender<Note>, Receiver<Note>),
    pub(crate) recorder: Option<Recorder>,
    pub(crate) folder: Option<Arc<StateDir>>,
    pub(crate) dumps: Option<Box<dyn DumpSink>>,
    pub(crate) expected: Option<Expected>,
    pub(crate) coordinator: Coordinator,
    pub(crate) roster: Arc<Roster>,
    pub(crate) gatherer: Option<Gatherer>,
    /// Samples from which the sampler goes on, if counters are stored.
    pub(crate) resumed: Option<Resumed>,
}

impl Driver {
    pub(crate) fn new(parts: Parts) -> Result<Self, DaemonError> {
        let (sender, notes) = parts.notes;
        let clock = parts.shared.clock;
        let mut desk = Desk::new(
            parts.port,
            parts.coordinator,
            parts.folder.clone(),
            parts.gatherer,
            Arc::clone(&parts.shared),
        );
        if parts.recorder.is_some() {
            desk.listen();
        }
        let shared = parts.shared;
        let surveyor = surveyor(sender.clone(), Arc::clone(&shared), parts.resumed)?;
        Ok(Self {
            sm: parts.sm,
            seat: Seat::new(desk)?,
            until: parts.until,
            shared,
            notes,
            recorder: parts.recorder,
            planner: planner("plan", sender.clone())?,
            balancer: planner("balance", sender.clone())?,
            copier: planner("multicast", sender.clone())?,
            backer: backer(sender.clone())?,
            indexer: indexer(sender.clone())?,
            surveyor,
            dumper: parts.dumps.map(|sink| dumper(sender.clone(), sink)).transpose()?,
            expecter: parts
                .expected
                .map(|expected| expecter(sender.clone(), expected))
                .transpose()?,
            comparer: comparer(sender.clone())?,
            storer: storer(sender, parts.folder, clock)?,
            out: Vec::new(),
            left: VecDeque::new(),
            untold: Vec::new(),
            busy: 0,
            busy_since: Time::ZERO,
            fault_since: None,
            heard_at: Time::ZERO,
            has_worked: false,
            changed: true,
            shown_at: Time::ZERO,
            asked: 0,
            memory: Memory::default(),
            in_force: None,
            stopping: false,
            systemd: Systemd::of_environment(),
            roster: parts.roster,
            is_sm_refused: Standing::default(),
            tickets: Tickets::default(),
        })
    }

    /// Runs until it is stopped, or until `until`. Returns the last view.
    pub(crate) fn run(mut self) -> Result<View, DaemonError> {
        prefer_this_thread();
        let result = self.coordinate(In::Start).and_then(|()| self.turn_until_done());
        let result = self.tell().and(result);
        self.systemd.end();
        // The last view shows the state of the fabric, not that the manager is stopping.
        self.show();
        let view = self.sm.view();
        // Outputs of the stop must be sent without a wait; a port that does not work is known by now.
        let stopped = self.coordinate(In::Command(Command::Stop));
        let _ = stopped
            .and_then(|()| {
                let mut desk = self.seat.desk();
                desk.send_pending()?;
                Ok(desk.port.flush()?)
            })
            .and_then(|()| self.tell());
        self.record_said(false);
        if let Some(notice) = self.recorder.as_mut().and_then(Recorder::flush) {
            self.notice(&notice);
        }
        self.end_dumps();
        let ended = self.seat.desk().end();
        if let Err(error) = ended {
            self.notice(&Notice::NotStored(error));
        }
        result.map(|()| view)
    }

    fn turn_until_done(&mut self) -> Result<(), DaemonError> {
        loop {
            self.take_notes()?;
            if self.stopping {
                return Ok(());
            }
            if self.until == Until::Idle && self.is_idle() {
                return Ok(());
            }
            self.turn()?;
        }
    }

    fn is_idle(&self) -> bool {
        !self.seat.desk().has_pending() && self.busy == 0 && self.sm.stage_name() == StageName::Idle
    }

    /// Returns when the manager is woken next. `None` if the manager is idle and the process ends when it is idle: such
    /// a process waits only for computations, not for the next check.
    fn next_wake(&self) -> Option<Time> {
        let is_through = self.until == Until::Idle && self.sm.stage_name() == StageName::Idle;
        self.sm.next_wake().filter(|_| !is_through)
    }

    /// One turn of the loop: due timers, arrivals, datagrams to be sent.
    fn turn(&mut self) -> Result<(), DaemonError> {
        let now = self.shared.clock.now();
        if self.next_wake().is_some_and(|at| at <= now) {
            self.feed(Input::Wake)?;
        }
        let mut desk = self.seat.desk();
        desk.wake(now)?;
        let received = desk.received();
        desk.give(&mut self.left);
        drop(desk);
        self.do_what_is_left()?;
        let hurries = self.hurries(now);
        self.record_said(hurries);
        if !hurries && now.since(self.shown_at) >= SHOW_INTERVAL {
            if self.changed {
                self.show();
            } else if self.asked != received {
                self.show_administration();
            }
        }
        if !hurries && self.systemd.is_due(now) {
            self.systemd.turn(now, &self.shared.manager_health());
        }
        let mut wait = match self.untold.is_empty() || hurries {
            true => self.wait(now),
            false => Duration::ZERO,
        };
        if wait == WAIT_IDLE && self.in_force.is_some() {
            self.memory.touch();
        }
        if wait == WAIT_IDLE {
            self.seat.be_quiet();
        }
        for _ in 0..ARRIVALS_MAX {
            let mut desk = self.seat.desk();
            desk.send_pending()?;
            let has_come = desk.receive(wait)?;
            desk.give(&mut self.left);
            drop(desk);
            if !has_come {
                return self.end_turn();
            }
            self.do_what_is_left()?;
            wait = Duration::ZERO;
        }
        self.end_turn()
    }

    /// Starts the clerk if there was work. Reports events, unless a repair is in progress. This comes last, because to
    /// wake a thread takes as long as to make the first requests of a repair; these have been sent by now.
    fn end_turn(&mut self) -> Result<(), DaemonError> {
        if std::mem::take(&mut self.has_worked) {
            self.seat.be_busy();
        }
        if !self.hurries(self.shared.clock.now()) {
            return self.tell();
        }
        // The thread or process with the answers may need this processor.
        thread::yield_now();
        Ok(())
    }

    /// True while a fault is being repaired, so that its events are reported afterwards.
    fn hurries(&self, now: Time) -> bool {
        self.fault_since.is_some_and(|since| now.since(since) < HURRY)
    }

    fn wait(&self, now: Time) -> Duration {
        let desk = self.seat.desk();
        if desk.has_pending() {
            return WAIT_FULL;
        }
        if self.hurries(now) && now.since(self.heard_at) < AWAKE {
            return Duration::ZERO;
        }
        let longest = match self.busy {
            0 => WAIT_IDLE,
            _ if now.since(self.busy_since) < SOON => WAIT_SOON,
            _ => WAIT_BUSY,
        };
        let due = [self.next_wake(), desk.next_wake()]
            .into_iter()
            .flatten()
            .map(|at| at.since(now))
            .fold(longest, Duration::min);
        if self.changed { due.min(SHOW_INTERVAL) } else { due }
    }

    fn take_notes(&mut self) -> Result<(), DaemonError> {
        while let Ok(note) = self.notes.try_recv() {
            self.busy = self.busy.saturating_sub(usize::from(note.ends_work()));
            match note {
                Note::Computed { id, result } => {
                    self.memory.ask_again();
                    self.feed(Input::Computed { id, result })?;
                }
                Note::BackedUp { id, result } => {
                    let changed = self.changed;
                    self.feed(Input::Computed { id, result })?;
                    self.changed = changed || !self.untold.is_empty();
                }
                Note::Indexed(snapshot) => {
                    // The former snapshot is freed when the desk is unlocked.
                    let before = self.seat.desk().snapshot();
                    self.coordinate(In::Indexed(snapshot))?;
                    drop(before);
                }
                Note::Surveyed { generation, inventory } => {
                    self.coordinate(In::Surveyed { generation, inventory })?;
                }
                Note::Resume(samples) => {
                    self.coordinate(In::Resume(samples))?;
                    // Datagrams go between two portions.
                    return Ok(());
                }
                Note::Superseded => {}
                Note::Persisted { id, result } => self.state_stored(id, result)?,
                Note::KnownStored { id, result } => self.known_stored(id, result)?,
                Note::Kept { revision, result } => self.seat.desk().registrations_stored(revision, result)?,
                Note::Dumped(result) => self.dumped(result),
                Note::Compared(reroute) => {
                    if reroute.entries > 0 {
                        self.notice(&Notice::Rerouted(reroute));
                    }
                }
                Note::Deviations(deviations) => self.shared.take_deviations(deviations),
                Note::Port(news) => self.port_changed(news)?,
                Note::Command(Command::Stop) => self.stopping = true,
                Note::Command(command) => self.coordinate(In::Command(command))?,
                Note::Propose(policy, sm_key, answer) => {
                    self.coordinate(In::Command(Command::SetPolicy(policy)))?;
                    self.coordinate(In::Command(Command::SetSmKey(sm_key)))?;
                    // A request that timed out waits for no answer.
                    let _ = self
                        .sm
                        .policy_changes()
                        .last()
                        .map(|change| answer.send(change.clone()));
                }
                Note::ProposeList { before, list } => {
                    let policy = self.wanted_with(&before, &list);
                    self.coordinate(In::Command(Command::SetPolicy(policy)))?;
                }
                Note::UserJob(request, answer) => {
                    let ticket = self.tickets.issue(answer);
                    self.coordinate(In::Job { ticket, request })?;
                }
                Note::UserJobs(answer) => drop(answer.send(self.seat.desk().jobs())),
                Note::Preview(policy, answer) => drop(answer.send(self.sm.preview(policy).map(Box::new))),
                Note::PreviewList { before, list, answer } => {
                    let policy = self.wanted_with(&before, &list);
                    drop(answer.send(self.sm.preview(policy).map(Box::new)));
                }
            }
        }
        Ok(())
    }

    /// Returns the policy that the operator wants, with a change of its list of places out of service. The manager may
    /// have noted something in its list since the command read it.
    fn wanted_with(&self, before: &OutOfService, list: &OutOfService) -> Arc<Policy> {
        let mut policy = self.sm.wanted_policy();
        let list = policy.out_of_service.with_change(before, list);
        Arc::make_mut(&mut policy).out_of_service = Arc::new(list);
        policy
    }

    /// Handles a port that was lost or came back. In the second case the fabric is discovered again.
    fn port_changed(&mut self, news: PortNews) -> Result<(), DaemonError> {
        self.changed = true;
        match news {
            PortNews::Gone(error) => self.shared.port_gone(Some(&error)),
            PortNews::Back(set) => {
                self.shared.port_gone(None);
                self.is_sm_set(set);
                self.coordinate(In::Command(Command::Sweep))?;
            }
        }
        Ok(())
    }

    /// Hands an input in and carries out the outputs.
    fn feed(&mut self, input: Input) -> Result<(), DaemonError> {
        let now = self.shared.clock.now();
        if let Some(recorder) = &mut self.recorder {
            recorder.input(now, &input);
        }
        let mut out = std::mem::take(&mut self.out);
        self.sm.handle(now, input, &mut out);
        self.has_worked = true;
        self.changed = true;
        self.fault_is(now, self.sm.is_at_a_fault());
        if let Some(notice) = self.recorder.as_mut().and_then(|recorder| recorder.outputs(&out)) {
            self.notice(&notice);
        }
        let sends_only = out.iter().all(|output| matches!(output, Output::Send { .. }));
        if sends_only {
            // Nearly always. By reference, because a datagram is copied often enough.
            if !out.is_empty() {
                let mut desk = self.seat.desk();
                for output in &out {
                    if let Output::Send { datagram, timeout } = output {
                        desk.send(datagram, *timeout)?;
                    }
                }
            }
            out.clear();
        }
        for output in out.drain(..) {
            self.carry_out(now, output)?;
        }
        self.out = out;
        Ok(())
    }

    /// Notes whether a fault is repaired now. Meanwhile no counter is read, as long as events wait, too.
    fn fault_is(&mut self, now: Time, is_there: bool) {
        if is_there != self.fault_since.is_some() {
            self.fault_since = is_there.then_some(now);
            let until = if is_there { now + HURRY } else { Time::ZERO };
            self.seat.desk().hold_requests(until);
        }
    }

    fn carry_out(&mut self, now: Time, output: Output) -> Result<(), DaemonError> {
        match output {
            Output::Send { datagram, timeout } => self.seat.desk().send(&datagram, timeout)?,
            // Less work than waking another thread is.
            Output::Compute(mut job) if job.is_brief() => {
                let id = job.id;
                match compute_in_place(&mut job) {
                    Some(result) => {
                        let result = Box::new(result);
                        self.feed(Input::Computed { id, result })?;
                    }
                    None => self.hand_over(now, job),
                }
            }
            // A repair must not stand behind it.
            Output::Compute(job) if job.is_background() || job.is_multicast() => {
                self.busy += 1;
                let worker = if job.is_multicast() {
                    &self.copier
                } else {
                    &self.balancer
                };
                worker.hand(job);
            }
            Output::Compute(job) if job.is_backing_up() => self.backer.hand(job),
            Output::Compute(job) => self.hand_over(now, job),
            Output::Persist { id, state } => {
                let mut desk = self.seat.desk();
                desk.handle(In::Persist { id, state })?;
                desk.give(&mut self.left);
            }
            Output::SetIsSm(is_sm) => {
                let set = self.seat.desk().port.set_is_sm(is_sm);
                self.is_sm_set(set);
            }
            // Stored before a Set disables a port: without the list, no later start knows why it is disabled.
            Output::Milestone(Milestone::OutOfService { before, after }) => {
                if let Err(error) = self.roster.note(&before, &after) {
                    self.notice(&Notice::NotStored(error));
                }
            }
            Output::Milestone(milestone) => self.untold.push((now, Untold::Milestone(milestone))),
            Output::Event(event) => self.untold.push((now, Untold::Event(event))),
        }
        Ok(())
    }

    /// Gives a job to another thread.
    fn hand_over(&mut self, now: Time, job: Box<Job>) {
        self.busy_since = now;
        self.busy += 1;
        self.planner.hand(job);
    }

    /// Handles the result of setting or clearing IsSM at the port. The manager tries again at each light sweep.
    fn is_sm_set(&mut self, set: Result<(), PortError>) {
        let is_news = self.is_sm_refused.is_news(set.as_ref().err());
        if let Some(error) = set.err().filter(|_| is_news) {
            self.notice(&Notice::IsSmRefused(error));
        }
    }

    fn notice(&self, notice: &Notice) {
        self.shared.notice(notice);
    }
}
