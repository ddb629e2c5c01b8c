//! The desk at which hosts are answered: the port, what waits to be sent, and the administrator.
//!
//! The manager's thread handles arrivals at the desk itself, so they cross no queue. While it computes, it cannot: a
//! new snapshot of 11,664 hosts takes a good part of a second. So a **clerk** thread checks the desk every millisecond
//! while the manager is at work. If no thread has used the desk since, the clerk answers hosts' SA requests, and keeps
//! all other arrivals, in order, for the manager.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use selvedge_sa::Copier;
use selvedge_sim::Time;
use selvedge_sm::{Event, Intake, Output};
use selvedge_store::{Keeper, StoreError};
use selvedge_transport::Turns;
use selvedge_types::Lid;
use selvedge_wire::{Arrival, Class, Datagram, MadPort, PortError};

use crate::DaemonError;
use crate::administrator::Administrator;
use crate::notice::Notice;
use crate::shared::Shared;
use crate::storing::Promise;

/// How often the clerk checks the desk. A request waits at most twice this time.
const LOOK: Duration = Duration::from_millis(1);
/// Arrivals that the clerk takes at a time, unless the manager is back before: a host that floods can send more than
/// a hundred in a millisecond, and what others ask waits behind that.
const TAKEN_MAX: usize = 1_024;
/// SMPs waiting to be sent; the manager's window bounds them, this only tells a defect from a busy port.
const PENDING_MAX: usize = 65_536;
/// GMPs waiting to be sent to one destination, and with more of all together its share of them.
const PENDING_GMPS_MAX: usize = 16_384;
/// What hosts and the administrator said that the recorder has not taken yet: a flood is not written down whole.
const HEARD_MAX: usize = 4_096;
/// Arrivals left for the manager: its window and traps. More are lost, as in a port's own queue.
const LEFT_MAX: usize = 65_536;
/// Held arrivals processed in a row before other work is checked.
const HELD_AT_ONCE: usize = 1_024;

/// What is on the desk.
pub(crate) struct Desk {
    pub(crate) port: Box<dyn MadPort>,
    pub(crate) administrator: Administrator,
    pub(crate) keeper: Keeper,
    /// While this manager stands by: what hosts register with the master.
    pub(crate) copier: Copier,
    /// SMPs that the port had no room for: they go before what hosts are answered.
    pending: VecDeque<(Datagram, Duration)>,
    /// Messages to hosts, by LID. The LIDs take turns, so that a host with endless requests delays no other.
    pending_gmps: Turns<Lid, (Datagram, Duration)>,
    /// What arrived for the manager while it was away.
    left: VecDeque<Arrival>,
    /// Limits the datagrams of each source.
    pub(crate) intake: Intake,
    /// Events of the intake that are not yet reported, with their times.
    said: Vec<(Time, Event)>,
    /// For the recorder, if there is one: when, true if it was said here, what.
    heard: Option<VecDeque<(Time, bool, Datagram)>>,
    shared: Arc<Shared>,
}

impl Desk {
    pub(crate) fn new(
        port: Box<dyn MadPort>,
        administrator: Administrator,
        keeper: Keeper,
        copier: Copier,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            port,
            administrator,
            keeper,
            copier,
            pending: VecDeque::new(),
            pending_gmps: Turns::default(),
            left: VecDeque::new(),
            intake: Intake::default(),
            said: Vec::new(),
            heard: None,
            shared,
        }
    }

    /// Keeps what is said between hosts and the administrator, for [`Self::take_heard`].
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

    /// True if something waits for room in the port.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty() || !self.pending_gmps.is_empty()
    }

    /// Returns the next arrival that is not held, or `None` after `wait` or many held arrivals.
    pub(crate) fn receive(&mut self, mut wait: Duration) -> Result<Option<Arrival>, PortError> {
        if let Some(left) = self.left.pop_front() {
            return Ok(Some(left));
        }
        for _ in 0..HELD_AT_ONCE {
            match self.port.receive(wait)? {
                Some(Arrival::Received(datagram)) if self.holds(&datagram)? => wait = Duration::ZERO,
                arrival => return Ok(arrival),
            }
        }
        Ok(None)
    }

    /// True if a datagram is held back, because its source exceeds its limit.
    fn holds(&mut self, datagram: &Datagram) -> Result<bool, PortError> {
        if datagram.mad.class() == Class::SubnAdm {
            return Ok(false);
        }
        let (now, mut out) = (self.shared.clock.now(), Vec::new());
        let is_handed = self.intake.take(now, datagram, &mut out);
        self.carry_out(now, out)?;
        Ok(!is_handed)
    }

    /// Ends the intervals of the intake that are over. Returns the traps that the manager must handle now.
    pub(crate) fn wake_intake(&mut self, now: Time) -> Result<Vec<Datagram>, PortError> {
        let mut out = Vec::new();
        let again = self.intake.wake(now, &mut out);
        self.carry_out(now, out)?;
        Ok(again)
    }

    /// Sends the output of the intake if the port has room: it must never delay the manager's own MADs.
    fn carry_out(&mut self, now: Time, out: Vec<Output>) -> Result<(), PortError> {
        for output in out {
            match output {
                Output::Event(event) => self.said.push((now, event)),
                Output::Send { datagram, timeout } if !self.has_pending() => match self.port.send(&datagram, timeout) {
                    Err(PortError::Full) => {}
                    result => result?,
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the events of the intake since the last call.
    pub(crate) fn take_said(&mut self) -> Vec<(Time, Event)> {
        std::mem::take(&mut self.said)
    }

    /// Sends a datagram, behind those that wait: SMPs behind SMPs only.
    pub(crate) fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), PortError> {
        let is_smp = datagram.mad.class().is_smp();
        if self.pending.is_empty() && (is_smp || self.pending_gmps.is_empty()) {
            match self.port.send(datagram, timeout) {
                Err(PortError::Full) => {}
                result => return result,
            }
        }
        // The manager repeats what is lost, and hosts ask again; memory without end it could not give back.
        let item = (*datagram, timeout);
        if !is_smp {
            self.pending_gmps.push(datagram.address.lid, item, PENDING_GMPS_MAX);
        } else if self.pending.len() < PENDING_MAX {
            self.pending.push_back(item);
        }
        Ok(())
    }

    /// Sends what the port had no room for, as far as it has now.
    pub(crate) fn send_pending(&mut self) -> Result<(), PortError> {
        while let Some((datagram, timeout)) = self.pending.front().or_else(|| self.pending_gmps.front()) {
            match self.port.send(datagram, *timeout) {
                Ok(()) => drop(self.pending.pop_front().or_else(|| self.pending_gmps.pop())),
                Err(PortError::Full) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Hands an input to the administrator and sends what comes of it.
    pub(crate) fn administer(&mut self, input: selvedge_sa::Input) -> Result<(), PortError> {
        let now = self.shared.clock.now();
        if let selvedge_sa::Input::Received(datagram) = &input {
            self.hear(now, false, datagram);
        }
        let mut out = self.administrator.handle(now, input);
        self.guard(now, &mut out);
        for output in out.drain(..) {
            self.hear(now, true, &output.datagram);
            self.send(&output.datagram, output.timeout)?;
        }
        self.administrator.give_back(out);
        Ok(())
    }

    /// True if a datagram answers what this manager asks as a standby; it is taken then.
    pub(crate) fn takes_copy(&mut self, datagram: &Datagram) -> Result<bool, PortError> {
        if self.copier.next_wake().is_none() {
            return Ok(false);
        }
        let mut out = Vec::new();
        let now = self.shared.clock.now();
        let is_taken = self.copier.received(now, datagram, &mut out);
        if is_taken {
            self.hear(now, false, datagram);
        }
        self.copied(out)?;
        Ok(is_taken)
    }

    /// Asks on, if it is time to.
    pub(crate) fn copy_on(&mut self) -> Result<(), PortError> {
        let now = self.shared.clock.now();
        if self.copier.next_wake().is_none_or(|at| at > now) {
            return Ok(());
        }
        let mut out = Vec::new();
        self.copier.wake(now, &mut out);
        self.copied(out)
    }

    fn copied(&mut self, out: Vec<selvedge_sa::Output>) -> Result<(), PortError> {
        for output in out {
            self.hear(self.shared.clock.now(), true, &output.datagram);
            self.send(&output.datagram, output.timeout)?;
        }
        match self.copier.take() {
            Some(copy) => self.administer(selvedge_sa::Input::Copied(copy)),
            None => Ok(()),
        }
    }

    /// Ensures that a registration is marked or stored before a host gets its confirmation.
    fn guard(&mut self, now: Time, out: &mut [selvedge_sa::Output]) {
        let revision = self.administrator.revision();
        self.mark(now, |keeper| keeper.guard(now, revision, out));
    }

    /// Retries a failed removal of the mark when that is due.
    pub(crate) fn mark_if_due(&mut self, now: Time) {
        self.mark(now, |keeper| keeper.mark_if_due(now));
    }

    fn mark(&mut self, now: Time, act: impl FnOnce(&mut Keeper) -> Result<(), StoreError>) {
        let has_failed = self.keeper.retries()[1].since().is_some();
        let result = act(&mut self.keeper);
        let [_, marking] = self.keeper.retries();
        let works_again = has_failed && marking.since().is_none();
        // Usually neither: the mark needed no change.
        if works_again || result.is_err() {
            self.shared.store_ended(now, Promise::Mark, marking, result);
        }
    }

    /// What could not be kept is told.
    pub(crate) fn told(&self, result: Result<(), StoreError>) {
        if let Err(error) = result {
            self.shared.notice(&Notice::NotStored(error));
        }
    }

    /// What the clerk does while the manager is away; `is_back` says that it is no longer.
    fn stand_in(&mut self, is_back: impl Fn() -> bool) -> Result<(), PortError> {
        let now = self.shared.clock.now();
        if self.administrator.next_wake().is_some_and(|at| at <= now) {
            self.administer(selvedge_sa::Input::Wake)?;
        }
        for _ in 0..TAKEN_MAX {
            if is_back() {
                break;
            }
            self.send_pending()?;
            // This sends what was kept to be sent, as well.
            match self.port.receive(Duration::ZERO)? {
                Some(Arrival::Received(datagram)) if self.takes_copy(&datagram)? => {}
                Some(Arrival::Received(datagram)) if datagram.mad.class() == Class::SubnAdm => {
                    self.administer(selvedge_sa::Input::Received(datagram))?;
                }
                Some(Arrival::Returned(datagram)) if datagram.mad.class() == Class::SubnAdm => {}
                Some(Arrival::Received(datagram)) if self.holds(&datagram)? => {}
                Some(other) if self.left.len() < LEFT_MAX => self.left.push_back(other),
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }
}

/// The desk, and which thread used it last.
struct Office {
    desk: Mutex<Desk>,
    /// How often the manager has been there.
    visits: AtomicU64,
    /// The manager has nothing to think about.
    is_quiet: AtomicBool,
    is_closed: AtomicBool,
}

/// The manager's way to the desk. The clerk leaves when this is dropped.
pub(crate) struct Seat {
    office: Arc<Office>,
    clerk: Option<JoinHandle<()>>,
}

impl Seat {
    /// With a clerk.
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

    /// The desk; the clerk is gone from it within a few answers.
    pub(crate) fn desk(&self) -> MutexGuard<'_, Desk> {
        // Only the manager's thread writes; the clerk wants to know that it changes.
        let visits = self.office.visits.load(Ordering::Relaxed);
        self.office.visits.store(visits.wrapping_add(1), Ordering::Relaxed);
        self.office.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is nothing to think about: the clerk sleeps.
    pub(crate) fn be_quiet(&self) {
        self.office.is_quiet.store(true, Ordering::Relaxed);
    }

    /// There is something to do: from now on the clerk looks in. Costs nothing if it does already.
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
