//! The desk: the port, datagrams that wait to be sent, and the coordinator with the administrator, which answers hosts.
//!
//! The manager's thread handles arrivals at the desk itself, so they cross no queue. While it computes, it cannot
//! handle them: a new snapshot of 11,664 hosts takes a good part of a second. So a **clerk** thread checks the desk
//! every millisecond while the manager is at work. If no thread has used the desk since, the clerk answers hosts' SA
//! requests, and keeps all other arrivals, in order, for the manager.

mod requests;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use selvedge_api as api;
use selvedge_coordinator::{Coordinator, In, Out, Retries};
use selvedge_qos::jobs::Jobs;
use selvedge_sa::Snapshot;
use selvedge_sim::Time;
use selvedge_sm::{Babbler, Input};
use selvedge_store::{StateDir, StoreError};
use selvedge_transport::Turns;
use selvedge_types::Lid;
use selvedge_wire::{Arrival, Class, Datagram, MadPort, Method, PortError};

use self::requests::Requests;
use crate::DaemonError;
use crate::administrator;
use crate::shared::Shared;
use crate::storing::Promise;
use crate::telemetry::Gatherer;

/// How often the clerk checks the desk. A request waits at most twice this time.
const LOOK: Duration = Duration::from_millis(1);
/// Largest number of arrivals that the clerk handles at a time, unless the manager returns earlier. A host that floods
/// can send more than a hundred datagrams in a millisecond, and the requests of other hosts would wait behind all of
/// them.
const TAKEN_MAX: usize = 1_024;
/// Largest number of SMPs that wait to be sent. The manager's window is smaller, so this only detects a defect.
const PENDING_MAX: usize = 65_536;
/// Largest number of GMPs that wait for one destination. If this number waits in all, each destination may have only an
/// equal share.
const PENDING_GMPS_MAX: usize = 16_384;
/// Largest number of datagrams between hosts and the administrator that wait for the recorder. Further ones, as in a
/// flood, are not recorded.
const HEARD_MAX: usize = 4_096;
/// Largest number of datagrams that wait for the manager: responses and traps. More are lost, as in a port's queue.
const LEFT_MAX: usize = 65_536;
/// Number of datagrams without a result that are processed in a row before other work is checked.
const HELD_AT_ONCE: usize = 1_024;

/// The contents of the desk.
pub(crate) struct Desk {
    pub(crate) port: Box<dyn MadPort>,
    coordinator: Coordinator,
    /// The folder that holds the mark of unstored registrations.
    folder: Option<Arc<StateDir>>,
    /// SMPs for which the port had no room. They are sent before answers to hosts.
    pending: VecDeque<(Datagram, Duration)>,
    /// Messages to hosts, by LID. The LIDs take turns, so that a host with endless requests delays no other.
    pending_gmps: Turns<Lid, (Datagram, Duration)>,
    /// Requests of the sampler: they go after everything else.
    requests: Requests,
    /// Gathers what the sampler found; `None`: there is no sampler.
    gatherer: Option<Gatherer>,
    /// Outputs of the coordinator for the manager's thread, and their times.
    left: VecDeque<(Time, Out)>,
    /// Result of setting the mark of unstored registrations, until it is reported.
    mark_set: Option<Result<(), StoreError>>,
    /// Datagrams for the recorder, if there is one: the time, true if the administrator sent it, and the datagram.
    heard: Option<VecDeque<(Time, bool, Datagram)>>,
    /// Memory that is reused between inputs.
    out: Vec<Out>,
    shared: Arc<Shared>,
}

impl Desk {
    pub(crate) fn new(
        port: Box<dyn MadPort>,
        coordinator: Coordinator,
        folder: Option<Arc<StateDir>>,
        gatherer: Option<Gatherer>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            port,
            coordinator,
            folder,
            pending: VecDeque::new(),
            pending_gmps: Turns::default(),
            requests: Requests::default(),
            gatherer,
            left: VecDeque::new(),
            mark_set: None,
            heard: None,
            out: Vec::new(),
            shared,
        }
    }

    /// Keeps datagrams between hosts and the administrator, for [`Self::take_heard`].
    pub(crate) fn listen(&mut self) {
        self.heard = Some(VecDeque::new());
    }

    /// Returns the datagrams since the last call, if they are recorded.
    pub(crate) fn take_heard(&mut self) -> VecDeque<(Time, bool, Datagram)> {
        self.heard.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn hear(&mut self, now: Time, is_ours: bool, datagram: &Datagram) {
        if let Some(heard) = self.heard.as_mut().filter(|heard| heard.len() < HEARD_MAX) {
            heard.push_back((now, is_ours, *datagram));
        }
    }

    /// Returns the failures to store that have not ended.
    pub(crate) fn retries(&self) -> Retries {
        self.coordinator.retries()
    }

    /// Returns when [`Self::wake`] is due.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.coordinator.next_wake()
    }

    /// Returns the counts of the administrator so far, for display.
    pub(crate) fn counts(&self) -> api::Administration {
        self.coordinator
            .administrator()
            .map(administrator::counts)
            .unwrap_or_default()
    }

    /// Returns the number of datagrams that the administrator has got so far.
    pub(crate) fn received(&self) -> u64 {
        let administrator = self.coordinator.administrator();
        administrator.map_or(0, |administrator| administrator.counters().received)
    }

    /// Returns the running and waiting jobs of users.
    pub(crate) fn jobs(&self) -> Jobs {
        let administrator = self.coordinator.administrator();
        administrator
            .map(|administrator| administrator.jobs().clone())
            .unwrap_or_default()
    }

    /// Returns the snapshot that the administrator uses.
    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.coordinator.administrator()?.snapshot()
    }

    /// Returns the number of datagrams that the intake has held, and the sources that babble.
    pub(crate) fn intake(&self) -> (u64, Vec<Babbler>) {
        let intake = self.coordinator.intake();
        (intake.held(), intake.babblers().collect())
    }

    /// True if a datagram waits for room in the port.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty() || !self.pending_gmps.is_empty()
    }

    /// Hands the outputs for the manager's thread over.
    pub(crate) fn give(&mut self, to: &mut VecDeque<(Time, Out)>) {
        match to.is_empty() {
            true => std::mem::swap(to, &mut self.left),
            false => to.append(&mut self.left),
        }
    }

    /// Takes arrivals until one has a result. Returns false after `wait` without one, or after many without a result.
    pub(crate) fn receive(&mut self, mut wait: Duration) -> Result<bool, PortError> {
        if !self.left.is_empty() {
            return Ok(true);
        }
        for _ in 0..HELD_AT_ONCE {
            match self.port.receive(wait)? {
                None => return Ok(false),
                Some(arrival) if self.arrived(arrival)? => return Ok(true),
                Some(_) => wait = Duration::ZERO,
            }
        }
        Ok(false)
    }

    fn arrived(&mut self, arrival: Arrival) -> Result<bool, PortError> {
        match arrival {
            Arrival::Received(datagram) if self.coordinator.is_answer_to_manager(&datagram) => {
                self.leave(self.shared.clock.now(), Out::Manager(Input::Received(datagram)));
                Ok(true)
            }
            Arrival::Received(datagram) => self.handle(In::Arrived(datagram)),
            Arrival::Returned(datagram) => self.handle(In::Returned(datagram)),
        }
    }

    /// Hands an input to the coordinator. Of its outputs, this function sends the datagrams, and sets or removes the
    /// mark "all registrations are stored"; all others are left for the manager's thread. Returns false if there are no
    /// other outputs than answers to traps, and requests and samples of the sampler.
    pub(crate) fn handle(&mut self, input: In) -> Result<bool, PortError> {
        let now = self.shared.clock.now();
        let asked = match &input {
            In::Arrived(datagram) if self.heard.is_some() => Some(*datagram),
            _ => None,
        };
        let mut out = std::mem::take(&mut self.out);
        self.coordinator.handle(now, input, &mut out);
        if let Some(datagram) = asked.filter(|datagram| is_ours(datagram, &out)) {
            self.hear(now, false, &datagram);
        }
        let is_done_here = |wanted: &Out| matches!(wanted, Out::Repress(_) | Out::Request { .. } | Out::Sampled(_));
        let has_come = !out.iter().all(is_done_here);
        let carried_out = self.carry_out(now, &mut out);
        self.out = out;
        carried_out.map(|()| has_come)
    }

    /// Answers to traps are sent only if the port has room: they must never delay the manager's own MADs.
    fn carry_out(&mut self, now: Time, out: &mut Vec<Out>) -> Result<(), PortError> {
        for wanted in out.drain(..) {
            match wanted {
                Out::Send { datagram, timeout } => {
                    self.hear(now, true, &datagram);
                    self.send(&datagram, timeout)?;
                }
                Out::Repress(_) if self.has_pending() => {}
                Out::Repress(datagram) => match self.port.send(&datagram, Duration::ZERO) {
                    Err(PortError::Full) => {}
                    result => result?,
                },
                Out::Request { datagram, timeout } => self.request(now, datagram, timeout)?,
                Out::Sampled(sampled) => self.gather(now, sampled),
                Out::RemoveMark => self.remove_mark(now)?,
                Out::SetMark { has_ended } => self.set_mark(has_ended)?,
                wanted => self.leave(now, wanted),
            }
        }
        Ok(())
    }

    /// Leaves an output for the manager's thread. The number of untaken datagrams is bounded.
    fn leave(&mut self, now: Time, wanted: Out) {
        let is_datagram = matches!(wanted, Out::Manager(Input::Received(_) | Input::Returned(_)));
        if !is_datagram || self.left.len() < LEFT_MAX {
            self.left.push_back((now, wanted));
        }
    }

    /// Removes the mark, so that a registration is marked or stored before a host gets its confirmation.
    fn remove_mark(&mut self, now: Time) -> Result<(), PortError> {
        let had_failed = self.coordinator.retries().mark.since().is_some();
        let result = self.folder.as_ref().map_or(Ok(()), |folder| folder.mark_unstored());
        let is_done = result.is_ok();
        self.handle(In::MarkRemoved { is_done })?;
        // Usually neither: the mark was removed at once.
        if had_failed || !is_done {
            let marking = self.coordinator.retries().mark;
            self.shared.store_ended(now, Promise::Mark, &marking, result);
        }
        Ok(())
    }

    fn set_mark(&mut self, has_ended: bool) -> Result<(), PortError> {
        let result = self
            .folder
            .as_ref()
            .map_or(Ok(()), |folder| folder.mark_stored(has_ended));
        let is_done = result.is_ok();
        self.mark_set = Some(result);
        self.handle(In::MarkSet { is_done })?;
        Ok(())
    }

    /// Handles the result of storing registrations. Updates the status, and reports the change if there is one.
    pub(crate) fn registrations_stored(
        &mut self,
        revision: u64,
        result: Result<(), StoreError>,
    ) -> Result<(), PortError> {
        let now = self.shared.clock.now();
        let is_stored = result.is_ok();
        self.handle(In::RegistrationsStored { revision, is_stored })?;
        let marked = self.mark_set.take().unwrap_or(Ok(()));
        let saving = self.coordinator.retries().registrations;
        let result = result.and(marked);
        self.shared.store_ended(now, Promise::Registrations, &saving, result);
        Ok(())
    }

    /// Stores the registrations at the end of the process, on the calling thread.
    pub(crate) fn end(&mut self) -> Result<(), StoreError> {
        let mut out = Vec::new();
        self.coordinator.handle(self.shared.clock.now(), In::End, &mut out);
        let Some(folder) = &self.folder else { return Ok(()) };
        for wanted in out {
            match wanted {
                Out::StoreRegistrations { registrations, .. } => folder.save_registrations(&registrations)?,
                Out::SetMark { has_ended } => folder.mark_stored(has_ended)?,
                // The manager has stopped.
                Out::Manager(_)
                | Out::Send { .. }
                | Out::Repress(_)
                | Out::Event(_)
                | Out::Index(_)
                | Out::Survey(..)
                | Out::Request { .. }
                | Out::JobAnswered { .. }
                | Out::Sampled(_)
                | Out::StoreState { .. }
                | Out::StoreKnown { .. }
                | Out::RemoveMark => {}
            }
        }
        Ok(())
    }

    /// Sends a datagram after those that wait. An SMP waits only for other SMPs.
    pub(crate) fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), PortError> {
        let is_smp = datagram.mad.class().is_smp();
        if self.pending.is_empty() && (is_smp || self.pending_gmps.is_empty()) {
            match self.port.send(datagram, timeout) {
                Err(PortError::Full) => {}
                result => return result,
            }
        }
        // The manager repeats lost requests, and hosts ask again; unbounded memory could not be returned.
        let item = (*datagram, timeout);
        if !is_smp {
            self.pending_gmps.push(datagram.address.lid, item, PENDING_GMPS_MAX);
        } else if self.pending.len() < PENDING_MAX {
            self.pending.push_back(item);
        }
        Ok(())
    }

    /// Sends datagrams for which the port had no room, as far as it has room now.
    pub(crate) fn send_pending(&mut self) -> Result<(), PortError> {
        while let Some((datagram, timeout)) = self.pending.front().or_else(|| self.pending_gmps.front()) {
            match self.port.send(datagram, *timeout) {
                Ok(()) => drop(self.pending.pop_front().or_else(|| self.pending_gmps.pop())),
                Err(PortError::Full) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.send_requests()
    }

    /// Lets the coordinator serve its timers.
    pub(crate) fn wake(&mut self, now: Time) -> Result<(), PortError> {
        self.show_clock(now)?;
        if self.coordinator.next_wake().is_some_and(|at| at <= now) {
            self.handle(In::Wake)?;
        }
        Ok(())
    }

    /// Does the clerk's work while the manager is busy; `is_back` becomes true when the manager returns.
    fn stand_in(&mut self, is_back: impl Fn() -> bool) -> Result<(), PortError> {
        self.wake(self.shared.clock.now())?;
        for _ in 0..TAKEN_MAX {
            if is_back() {
                break;
            }
            self.send_pending()?;
            // This also sends datagrams that wait to be sent.
            match self.port.receive(Duration::ZERO)? {
                Some(arrival) => drop(self.arrived(arrival)?),
                None => break,
            }
        }
        Ok(())
    }
}

/// True if a datagram is of subnet administration, or answers the copier: the manager does not get it.
fn is_ours(datagram: &Datagram, out: &[Out]) -> bool {
    let is_managers = |wanted: &Out| matches!(wanted, Out::Manager(Input::Received(_)));
    let class = datagram.mad.class();
    let is_copiers = class.is_smp() && datagram.mad.method() == Method::GetResp && !out.iter().any(is_managers);
    class == Class::SubnAdm || is_copiers
}

/// The desk, with a record of which thread used it last.
struct Office {
    desk: Mutex<Desk>,
    /// How often the manager has used the desk.
    visits: AtomicU64,
    /// The manager has nothing to think about.
    is_quiet: AtomicBool,
    is_closed: AtomicBool,
}

/// The manager's access to the desk. The clerk ends when this value is dropped.
pub(crate) struct Seat {
    office: Arc<Office>,
    clerk: Option<JoinHandle<()>>,
}

impl Seat {
    /// Returns access to this desk, and starts a clerk.
    pub(crate) fn new(desk: Desk) -> Result<Self, DaemonError> {
        let office = Arc::new(Office {
            desk: Mutex::new(desk),
            visits: AtomicU64::new(0),
            is_quiet: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        });
        let clerk = thread::Builder::new().name("clerk".to_owned()).spawn({
            let office = Arc::clone(&office);
            move || clerk(&office)
        });
        Ok(Self {
            office,
            clerk: Some(clerk.map_err(|cause| DaemonError::Thread { cause })?),
        })
    }

    /// Returns the desk. The clerk releases it within a few answers.
    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        // Only the manager's thread writes; the clerk wants to know that it changes.
        let visits = self.office.visits.load(Ordering::Relaxed);
        self.office.visits.store(visits.wrapping_add(1), Ordering::Relaxed);
        self.office.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called when the manager has no work: the clerk sleeps.
    pub(crate) fn be_quiet(&self) {
        self.office.is_quiet.store(true, Ordering::Relaxed);
    }

    /// Starts the clerk, because the manager is about to work. Costs nothing if the clerk already runs.
    pub(crate) fn be_busy(&self) {
        if self.office.is_quiet.load(Ordering::Relaxed) {
            self.office.is_quiet.store(false, Ordering::Relaxed);
            if let Some(clerk) = &self.clerk {
                clerk.thread().unpark();
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.office.is_closed.store(true, Ordering::Relaxed);
        if let Some(clerk) = self.clerk.take() {
            clerk.thread().unpark();
            let _ = clerk.join();
        }
    }
}

fn clerk(office: &Office) {
    let mut seen = 0;
    while !office.is_closed.load(Ordering::Relaxed) {
        if office.is_quiet.load(Ordering::Relaxed) {
            thread::park();
            continue;
        }
        thread::park_timeout(LOOK);
        let visits = office.visits.load(Ordering::Relaxed);
        if std::mem::replace(&mut seen, visits) != visits {
            continue;
        }
        // A thread that waits for an arrival holds the desk.
        let mut desk = match office.desk.try_lock() {
            Ok(desk) => desk,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => continue,
        };
        let is_back = || office.visits.load(Ordering::Relaxed) != seen;
        // A port that does not work is the manager's to notice.
        let _ = desk.stand_in(is_back);
    }
}
