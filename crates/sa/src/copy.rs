//! A standby's copy of the registrations at the master.
//!
//! [`Copier`] queries like any client with the SM_Key: the tables of members, services and subscriptions, from any
//! master. A master of this project is also asked for its [revision](mod@crate::revision) before and after. If the
//! revision is the same, the copy is **complete**. It stays complete until the master reports a change; the master does
//! that before it answers the host that changed something. For other masters it is unknown what was registered since
//! the last copy.
//!
//! One request is open at a time. If a copy takes long, copies are made less often, so that they take at most one
//! twentieth of the master's time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_mad::rmpp::{Receiver, ReceiverConfig, Taken};
use selvedge_plan::OutOfService;
use selvedge_sim::Time;
use selvedge_types::{Guid, TransactionId, debug_without_keys};
use selvedge_wire::sa::SaStatus;
use selvedge_wire::{Address, Attribute, AttributeId, Class, Datagram, DirectedRoute, Mad, Method, PortInfo, Status};

use crate::copied::{JOBS, LEVELS, OUT_OF_SERVICE, Rows, TABLES, registrations, rows};
use crate::io::Output;
use crate::kept::Registrations;
use crate::out_of_service;
use crate::question::{IfSame, Revision, Said, revision_question, said_of};
use crate::told::{ToldLevels, told};

/// How long a manager with higher priority waits for its first copy before it accepts a handover.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// How long the first segment of an answer may take; servers of the ibsim protocol repeat a request three times in it.
const PATIENCE: Duration = Duration::from_millis(700);
/// Time after which an unanswered request for the revision is repeated. After two such times without an answer the
/// standby knows that its copy may be out of date. That is earlier than the time at which the master stops waiting for
/// the standby.
const PATIENCE_REVISION: Duration = Duration::from_millis(350);
/// Number of unanswered requests for the revision after which a master may no longer run Selvedge.
const OURS_SILENT_MAX: u32 = 8;
/// Wait after a change for further ones: a host that joins one group usually joins others.
const GATHER: Duration = Duration::from_millis(50);
/// A copy may occupy the master for one part of the time in this many.
const SHARE: u32 = 20;
/// Largest number of segments of an answer: 5,832 ports in 100 groups are 194,400.
const SEGMENTS_MAX: u32 = 500_000;
/// Number of unanswered requests after which the master's LID is looked up again.
const SILENT_MAX: u32 = 2;
/// If a master did not answer a request for the revision, the next such request is sent only after this number of
/// copies. OpenSM logs an error for each of them.
const SKIPS: u32 = 60;
/// First transaction id of the copier's SMPs; the manager's own are counted from 1.
const OWN_SMPS: u32 = 0xC0B1_0000;
/// Configuration of a [`Copier`].
#[derive(Clone, PartialEq, Eq)]
pub struct CopyConfig {
    /// SM_Key of trusted requests.
    pub sa_key: u64,
    /// M_Key of our own port; 0: none.
    pub m_key: u64,
    /// Number of the local port, if it belongs to a channel adapter.
    pub port: u8,
    /// Time between copies from a master that does not report changes, and after a copy that failed. Default 1 s, like
    /// the polling interval.
    pub interval: Duration,
}

debug_without_keys!(CopyConfig { port, interval } keys { sa_key, m_key });

impl Default for CopyConfig {
    fn default() -> Self {
        Self {
            sa_key: 1,
            m_key: 0,
            port: 1,
            interval: Duration::from_secs(1),
        }
    }
}

/// How reliable a standby's copy is, if the master ends now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worth {
    /// Hosts have registered something that the copy does not contain, or it is not known whether they have.
    #[default]
    Part,
    /// The copy was complete, but the master no longer confirms it. If the master still runs, hosts may have registered
    /// more since then; if it has ended, no host can have.
    Unproven,
    /// The copy is complete.
    All,
}

/// The current step of the copier: what it waits for.
#[derive(Debug, Default)]
enum Step {
    /// The copier waits for nothing, because this manager is not standby.
    #[default]
    Off,
    /// The time of the next copy.
    Resting,
    /// Our own PortInfo, which contains the master's LID.
    Where,
    /// The revision before the tables are copied.
    Before,
    /// The copier waits for the table with this number.
    Table { receiver: Option<Receiver> },
    /// The revision after the tables were copied.
    After,
    /// A report of a change.
    Watching,
    /// The copier waits for the answer to a request that only confirms that the change is known.
    Noted,
}

/// Keeps a copy of the registrations at another manager.
#[derive(Debug, Default)]
pub struct Copier {
    config: CopyConfig,
    step: Step,
    /// When the current request counts as unanswered, or the pause ends.
    due: Time,
    /// The open request.
    asked: Option<Datagram>,
    transaction: u32,
    silent: u32,
    /// Address of the master's administrator.
    at: Option<Address>,
    /// Copies left to make without asking for the revision.
    skips: u32,
    /// The master's last answer with its revision.
    before: Option<Said>,
    /// Number of unanswered requests for the revision since the last answer; `None` if there never was an answer.
    unanswered: Option<u32>,
    /// The revision of the copy, if the copy is complete.
    held: Option<Revision>,
    is_all: bool,
    /// When hosts began to register with another master.
    begun: Option<Time>,
    has_copied: bool,
    /// Run and number of the known service levels.
    levels_held: Option<(u64, u64)>,
    levels: Option<Box<ToldLevels>>,
    /// Ports with registrations that the master has forgotten, from the last copy; `None`: no copy yet. `has_forgotten`
    /// is true until this set is handed on.
    forgotten: Option<BTreeSet<Guid>>,
    has_forgotten: bool,
    /// Number of the master's list of places out of service that was last copied.
    listed_held: Option<u32>,
    listed: Option<Arc<OutOfService>>,
    began: Time,
    tables: Vec<Rows>,
    /// True if part of the copy is missing.
    is_cut: bool,
    copy: Option<Box<Registrations>>,
}

impl Copier {
    /// Returns a copier that makes no requests yet.
    #[must_use]
    pub fn new(config: CopyConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Reads the local port with this M_Key from now on.
    pub const fn set_m_key(&mut self, m_key: u64) {
        self.config.m_key = m_key;
    }

    /// Begins to copy, because this manager is standby.
    pub fn begin(&mut self, now: Time) {
        self.end();
        (self.at, self.held, self.is_all, self.skips) = (None, None, false, 0);
        self.unanswered = None;
        // A master that is repeatedly out of sight for a moment does not start a new absence.
        self.begun.get_or_insert(now);
        self.has_copied = false;
        (self.levels_held, self.levels) = (None, None);
        (self.forgotten, self.has_forgotten) = (None, false);
        (self.listed_held, self.listed) = (None, None);
        self.rest(now, Duration::ZERO);
    }

    /// Stops copying. [`Self::worth`] still describes the last copy.
    pub fn end(&mut self) {
        self.step = Step::Off;
        self.asked = None;
        self.tables.clear();
    }

    /// Returns how reliable the last copy is.
    #[must_use]
    pub const fn worth(&self) -> Worth {
        match (self.is_all, self.unanswered) {
            (false, _) => Worth::Part,
            (true, Some(0)) => Worth::All,
            (true, Some(_) | None) => Worth::Unproven,
        }
    }

    /// True if the copy is as good as possible, or if there was none for a long time.
    #[must_use]
    pub fn is_settled(&self, now: Time) -> bool {
        let cannot_be_all = self.has_copied && self.before.is_none();
        let is_late = self.begun.is_some_and(|begun| now.since(begun) >= SETTLED_AFTER);
        self.is_all || cannot_be_all || is_late
    }

    /// Returns the latest time at which [`Self::is_settled`] becomes true; `None` if nothing is copied.
    #[must_use]
    pub fn settled_at(&self) -> Option<Time> {
        self.begun.map(|begun| begun + SETTLED_AFTER)
    }

    /// Stops copying, because this manager is master. The next time as standby starts from the beginning.
    pub fn lead(&mut self) {
        self.end();
        self.begun = None;
    }

    /// Returns the master's service levels for senders, if they are new.
    pub fn take_levels(&mut self) -> Option<Box<ToldLevels>> {
        self.levels.take()
    }

    /// Returns the ports with registrations that the master has forgotten, if they are new.
    pub fn take_forgotten(&mut self) -> Option<BTreeSet<Guid>> {
        let is_news = std::mem::take(&mut self.has_forgotten);
        self.forgotten.clone().filter(|_| is_news)
    }

    /// Returns the master's list of places out of service, if it is new.
    pub fn take_out_of_service(&mut self) -> Option<Arc<OutOfService>> {
        self.listed.take()
    }

    /// Returns the copy, if there is a new one.
    pub fn take(&mut self) -> Option<Box<Registrations>> {
        self.copy.take()
    }

    /// Returns when [`Self::wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        (!matches!(self.step, Step::Off)).then_some(self.due)
    }

    /// Handles the passing of time.
    pub fn wake(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.next_wake().is_none_or(|due| due > now) {
            return;
        }
        match self.step {
            Step::Off => {}
            Step::Resting => self.look(now, out),
            // The normal case: no change was reported. Asks whether this is still so, because an answer may have been
            // lost.
            Step::Watching => self.ask_revision(Step::Before, now, out),
            // The datagram was lost, the master is dead, or it has another address.
            Step::Before if self.unanswered.is_some_and(|silent| silent < OURS_SILENT_MAX) => {
                let silent = self.unanswered.unwrap_or(0) + 1;
                self.unanswered = Some(silent);
                if silent.is_multiple_of(SILENT_MAX) {
                    self.at = None;
                }
                self.look(now, out);
            }
            // The master may not support the request, as OpenSM; or it is dead, which the tables will show.
            Step::Before => {
                (self.before, self.skips) = (None, SKIPS);
                self.begin_tables(now, out);
            }
            // The confirmation may have arrived all the same.
            Step::Noted => self.rest(now, GATHER),
            Step::Where | Step::Table { .. } | Step::After => {
                self.silent += 1;
                if self.silent >= SILENT_MAX {
                    (self.at, self.skips) = (None, 0);
                }
                self.rest(now, self.config.interval);
            }
        }
    }

    /// Handles the answer to a request of this copier. False if the datagram is not one.
    pub fn received(&mut self, now: Time, datagram: &Datagram, out: &mut Vec<Output>) -> bool {
        let Some(asked) = &self.asked else { return false };
        let (ours, mad) = (&asked.mad, &datagram.mad);
        let is_it = mad.method().is_response()
            && mad.class() == ours.class()
            && mad.attribute() == ours.attribute()
            && mad.transaction().0 & 0xFFFF_FFFF == ours.transaction().0;
        if !is_it {
            return false;
        }
        self.silent = 0;
        match std::mem::take(&mut self.step) {
            Step::Where => self.found(now, mad, out),
            Step::Before => self.revision_before(now, mad, out),
            Step::Table { receiver } => self.part(now, receiver, mad, out),
            Step::After => self.revision_after(now, mad, out),
            Step::Watching => {
                let said = self.said_of(mad);
                self.is_all &= said.is_some_and(|said| self.held == Some(said.revision));
                self.ask_revision(Step::Noted, now, out);
            }
            Step::Noted => {
                self.said_of(mad);
                self.rest(now, GATHER);
            }
            step @ (Step::Off | Step::Resting) => self.step = step,
        }
        true
    }

    fn rest(&mut self, now: Time, time: Duration) {
        self.step = Step::Resting;
        self.asked = None;
        self.due = now + time;
    }

    fn look(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.at.is_some() && self.skips > 0 {
            self.skips -= 1;
            self.before = None;
            return self.begin_tables(now, out);
        }
        if self.at.is_some() {
            return self.ask_revision(Step::Before, now, out);
        }
        let modifier = u32::from(self.config.port);
        let mut mad = Mad::directed(Method::Get, AttributeId::PORT_INFO, modifier, &DirectedRoute::LOCAL);
        mad.set_m_key(self.config.m_key);
        self.transaction = self.transaction.wrapping_add(1);
        let id = OWN_SMPS | self.transaction & 0xFFFF;
        mad.set_transaction(TransactionId(u64::from(id)));
        self.step = Step::Where;
        self.send(now, Address::DIRECTED, (mad, PATIENCE), out);
    }

    fn ask(&mut self, now: Time, (mut mad, patience): (Mad, Duration), out: &mut Vec<Output>) {
        let Some(at) = self.at else {
            return self.rest(now, self.config.interval);
        };
        self.transaction = self.transaction.wrapping_add(1);
        mad.set_transaction(TransactionId(u64::from(self.transaction)));
        mad.set_sm_key(self.config.sa_key);
        self.send(now, at, (mad, patience), out);
    }

    fn send(&mut self, now: Time, address: Address, (mad, patience): (Mad, Duration), out: &mut Vec<Output>) {
        let datagram = Datagram { address, mad };
        self.asked = Some(datagram);
        self.due = now + patience;
        out.push(Output {
            datagram,
            timeout: patience,
        });
    }

    fn found(&mut self, now: Time, mad: &Mad, out: &mut Vec<Output>) {
        let info = PortInfo::parse(mad.smp_data()).ok();
        let has_lids = |info: &PortInfo| info.lid.is_unicast() && info.sm_lid.is_unicast() && info.lid != info.sm_lid;
        self.at = info.filter(has_lids).map(|info| Address::gsi(info.sm_lid, info.sm_sl));
        match self.at {
            Some(_) => self.ask_revision(Step::Before, now, out),
            // The master has not configured this port yet.
            None => self.rest(now, self.config.interval),
        }
    }

    fn ask_revision(&mut self, step: Step, now: Time, out: &mut Vec<Output>) {
        // The revision for which the copy is complete, or will be if the answer confirms it.
        let shown = if matches!(step, Step::After) {
            self.before.map(|said| said.revision)
        } else {
            self.held.filter(|_| self.is_all)
        };
        self.step = step;
        let mad = revision_question(shown, IfSame::Answer);
        self.ask(now, (mad, PATIENCE_REVISION), out);
    }

    fn revision_before(&mut self, now: Time, mad: &Mad, out: &mut Vec<Output>) {
        if mad.status() == Status::BUSY {
            return self.rest(now, self.config.interval);
        }
        let was_all = self.is_all;
        self.before = self.said_of(mad);
        self.is_all &= self.before.is_some_and(|said| self.held == Some(said.revision));
        if self.is_all {
            return self.watch(now, out);
        }
        // The earlier report of the change did not arrive. A host waits until this manager knows of it.
        if was_all && self.before.is_some() {
            return self.ask_revision(Step::Noted, now, out);
        }
        if self.before.is_none() {
            self.skips = SKIPS;
        }
        self.begin_tables(now, out);
    }

    fn begin_tables(&mut self, now: Time, out: &mut Vec<Output>) {
        (self.began, self.is_cut) = (now, false);
        self.tables.clear();
        self.next_table(now, out);
    }

    fn watch(&mut self, now: Time, out: &mut Vec<Output>) {
        self.step = Step::Watching;
        let mad = revision_question(self.held, IfSame::Wait);
        self.ask(now, (mad, PATIENCE_REVISION), out);
    }

    /// Requests the next table, or ends the copy.
    fn next_table(&mut self, now: Time, out: &mut Vec<Output>) {
        let wanted = match self.before {
            Some(said) if said.jobs != 0 => &TABLES[..],
            Some(said) if said.listed != 0 => &TABLES[..JOBS],
            Some(_) => &TABLES[..OUT_OF_SERVICE],
            None => &TABLES[..LEVELS],
        };
        if let Some(layout) = wanted.get(self.tables.len()) {
            self.step = Step::Table { receiver: None };
            let mad = Mad::request(Class::SubnAdm, Method::GetTable, layout.id, 0);
            return self.ask(now, (mad, PATIENCE), out);
        }
        if self.before.is_some() {
            return self.ask_revision(Step::After, now, out);
        }
        (self.is_all, self.held) = (false, None);
        self.copied(now);
    }

    fn part(&mut self, now: Time, receiver: Option<Receiver>, mad: &Mad, out: &mut Vec<Output>) {
        let stride = usize::from(mad.attribute_offset()) * 8;
        if mad.status() != Status::OK || mad.rmpp().is_none() {
            return self.odd_table(now, (stride, mad), out);
        }
        let config = ReceiverConfig {
            segments_max: SEGMENTS_MAX,
            window: 64,
            timeout: PATIENCE,
        };
        if receiver.is_none() {
            self.tables.push(Rows {
                stride,
                bytes: Vec::new(),
            });
        }
        let mut receiver = receiver.unwrap_or_else(|| Receiver::new(config, now));
        let taken = receiver.received(now, mad);
        self.is_cut |= matches!(taken, Taken::Failed(_));
        self.due = receiver.next_wake();
        let (say, data) = match taken {
            Taken::Nothing => (None, None),
            Taken::Answer(say) => (Some(say), None),
            Taken::Done(say, data) => (Some(say), Some(data)),
            Taken::Failed(say) => (say, Some(Vec::new())),
        };
        if let (Some(say), Some(asked)) = (say, &self.asked) {
            let mut mad = asked.mad;
            mad.set_rmpp(Some(say));
            out.push(Output {
                datagram: Datagram { mad, ..*asked },
                timeout: Duration::ZERO,
            });
        }
        match data {
            None => {
                self.step = Step::Table {
                    receiver: Some(receiver),
                };
            }
            Some(data) => {
                if let Some(rows) = self.tables.last_mut() {
                    rows.bytes = data;
                }
                self.next_table(now, out);
            }
        }
    }

    /// Handles an answer that is not an RMPP transfer. It is a refusal, or it comes through libumad2sim, which leaves
    /// RMPP to a kernel that does not exist there. In the second case it is the beginning of the table, followed by
    /// undefined bytes.
    fn odd_table(&mut self, now: Time, (stride, mad): (usize, &Mad), out: &mut Vec<Output>) {
        let is_begun = mad.status() == Status::OK;
        // An older version of this project does not have the last tables.
        self.is_cut |= mad.status() != SaStatus::NO_RECORDS && self.tables.len() < LEVELS;
        self.tables.push(Rows {
            stride,
            bytes: if is_begun { mad.sa_data().to_vec() } else { Vec::new() },
        });
        self.next_table(now, out);
    }

    fn revision_after(&mut self, now: Time, mad: &Mad, out: &mut Vec<Output>) {
        let after = self.said_of(mad);
        self.is_all = after.is_some() && after == self.before && !self.is_cut;
        self.held = after.filter(|_| self.is_all).map(|said| said.revision);
        self.take_told(after);
        self.take_listed(after);
        self.copied(now);
        if self.is_all {
            self.watch(now, out);
        }
    }

    /// Returns a master's answer; `None` if it does not support the request. If its service levels have changed, the
    /// known ones are discarded.
    fn said_of(&mut self, mad: &Mad) -> Option<Said> {
        let said = said_of(mad);
        if said.is_some() {
            self.unanswered = Some(0);
        }
        let levels = said.map(|said| (said.revision.0, said.levels));
        if self.levels_held.is_some() && self.levels_held != levels {
            self.levels_held = None;
            self.levels = Some(Box::default());
        }
        said
    }

    /// Stores the service levels, if they have not changed during the copy.
    fn take_told(&mut self, after: Option<Said>) {
        let number = |said: Said| (said.revision.0, said.levels);
        let held = after.map(number).filter(|held| self.before.map(number) == Some(*held));
        let is_read = |rows: &&Rows| rows.bytes.is_empty() || rows.stride >= TABLES[LEVELS].len;
        let table = self.tables.get(LEVELS).filter(is_read);
        let (Some(held), Some(table), Some(at), false) = (held, table, self.at, self.is_cut) else {
            return;
        };
        if self.levels_held != Some(held) {
            self.levels = Some(Box::new(told(table, at.lid)));
            self.levels_held = Some(held);
        }
    }

    /// Takes the list of places out of service, if it has not changed during the copy.
    fn take_listed(&mut self, after: Option<Said>) {
        let number = after.filter(|_| self.before == after).map(|said| said.listed);
        let Some(number) = number.filter(|number| self.listed_held != Some(*number)) else {
            return;
        };
        if let Some(list) = out_of_service::read(rows(&self.tables, OUT_OF_SERVICE), number) {
            (self.listed_held, self.listed) = (Some(number), Some(list));
        }
    }

    /// Handles the end of a copy. Further registrations are possible from now on.
    fn copied(&mut self, now: Time) {
        self.has_copied = true;
        let took = now.since(self.began);
        let tables = std::mem::take(&mut self.tables);
        let copy = registrations(&tables, self.before.map_or(0, |said| said.jobs));
        if self.forgotten.as_ref() != Some(&copy.forgotten) {
            (self.forgotten, self.has_forgotten) = (Some(copy.forgotten.clone()), true);
        }
        self.copy = Some(Box::new(copy));
        let least = if self.before.is_some() {
            GATHER
        } else {
            self.config.interval
        };
        self.rest(now, least.max(took.saturating_mul(SHARE - 1)));
    }
}
