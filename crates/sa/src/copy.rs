//! A standby's copy of what hosts have registered with the master.
//!
//! [`Copier`] asks as any client does that shows the SM_Key: for the tables of members, services and subscriptions,
//! whoever is master. A master of ours is asked for its [revision](mod@crate::revision) before and after: if it is the
//! same, the copy **is all there is**, and stays so until the master says otherwise, which it does before it answers
//! the host that changed something. Of other masters nobody knows what was registered since the last copy.
//!
//! One question is open at a time, and a copy that takes long is made seldom: nineteen parts of twenty of the time are
//! the hosts'.

use std::collections::BTreeSet;
use std::time::Duration;

use selvedge_mad::rmpp::{Receiver, ReceiverConfig, Taken};
use selvedge_sim::Time;
use selvedge_types::{Guid, TransactionId, debug_without_keys};
use selvedge_wire::sa::{SaStatus, records};
use selvedge_wire::{Address, Attribute, AttributeId, Class, Datagram, DirectedRoute, Mad, Method, PortInfo, Status};

use crate::copied::{LEVELS, Rows, TABLES, registrations};
use crate::io::Output;
use crate::kept::Registrations;
use crate::told::{ToldLevels, told};

/// For so long a better manager waits for its first copy before it lets itself be given the subnet.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// How long an answer may take to begin; servers of the ibsim protocol repeat a question three times in it.
const PATIENCE: Duration = Duration::from_millis(700);
/// The same of the revision, and how long a question for it is held back before it is asked again: after two of these
/// without an answer it is known that none comes, before the master waits no longer.
const PATIENCE_REVISION: Duration = Duration::from_millis(350);
/// A master of ours that does not answer so many questions for its revision may be none of ours any more.
const OURS_SILENT_MAX: u32 = 8;
/// After a change, others are waited for: who joins one group joins the next.
const GATHER: Duration = Duration::from_millis(50);
/// A copy may keep the master busy for one part of the time in so many.
const SHARE: u32 = 20;
/// Segments that an answer may have: 5,832 ports in 100 groups are 194,400.
const SEGMENTS_MAX: u32 = 500_000;
/// Unanswered questions after which the master's LID is looked up again.
const SILENT_MAX: u32 = 2;
/// Copies of a master that does not answer the question for its revision before it is asked again: OpenSM writes an
/// error into its log for each.
const SKIPS: u32 = 60;
/// Of SMPs; the manager counts its own from 1 up.
const OWN_SMPS: u32 = 0xC0B1_0000;
/// What a [`Copier`] is made with.
#[derive(Clone, PartialEq, Eq)]
pub struct CopyConfig {
    /// SM_Key of trusted requests.
    pub sa_key: u64,
    /// M_Key of our own port; 0: none.
    pub m_key: u64,
    /// Number of our own port, of a channel adapter.
    pub port: u8,
    /// Time between copies of a master that does not say when something changes, and after one that failed. Default
    /// 1 s, as polls.
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

/// A master's life and number; see [`mod@crate::revision`].
type Revision = (u64, u64);

/// What a master says of itself: its revision, and how often the levels that it tells senders have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    revision: Revision,
    levels: u64,
}

/// What a copy is worth, should the master end now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Worth {
    /// Hosts have registered what it does not have, as far as is known.
    #[default]
    Part,
    /// It was all there is, and the master does not say any more that it is. If it lives, hosts may have registered
    /// more since; if it does not, they could not.
    Unproven,
    /// It is all there is.
    All,
}

/// What is being waited for.
#[derive(Debug, Default)]
enum Step {
    /// Nothing: this manager does not stand by.
    #[default]
    Off,
    /// The next copy.
    Resting,
    /// Our own PortInfo: it names the master's LID.
    Where,
    /// The revision before the tables.
    Before,
    /// The table with this number.
    Table { receiver: Option<Receiver> },
    /// The revision behind them.
    After,
    /// A change.
    Watching,
    /// The answer to a question that says only that the change is known.
    Noted,
}

/// Keeps a copy of what hosts have registered with another manager.
#[derive(Debug, Default)]
pub struct Copier {
    config: CopyConfig,
    step: Step,
    /// When the question counts as unanswered, or the rest is over.
    due: Time,
    /// The question under way.
    asked: Option<Datagram>,
    transaction: u32,
    silent: u32,
    /// The master's administrator.
    at: Option<Address>,
    /// Copies that are made without asking for the revision.
    skips: u32,
    /// What it said last.
    before: Option<Said>,
    /// Questions for the revision that were not answered, since one was: none ever, no number.
    unanswered: Option<u32>,
    /// What the copy is of, if it is all there is.
    held: Option<Revision>,
    is_all: bool,
    /// Since when hosts register with others.
    begun: Option<Time>,
    has_copied: bool,
    /// Life and number of the levels that are known.
    levels_held: Option<(u64, u64)>,
    levels: Option<Box<ToldLevels>>,
    /// Whose registrations the master has forgotten, and whether that is news.
    forgotten: Option<BTreeSet<Guid>>,
    has_forgotten: bool,
    began: Time,
    tables: Vec<Rows>,
    /// Part of the copy is missing.
    is_cut: bool,
    copy: Option<Box<Registrations>>,
}

impl Copier {
    /// One that asks nobody yet.
    #[must_use]
    pub fn new(config: CopyConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// This manager stands by.
    pub fn begin(&mut self, now: Time) {
        self.end();
        (self.at, self.held, self.is_all, self.skips) = (None, None, false, 0);
        self.unanswered = None;
        // A master that is out of sight for a moment, again and again, is the same absence.
        self.begun.get_or_insert(now);
        self.has_copied = false;
        (self.levels_held, self.levels) = (None, None);
        (self.forgotten, self.has_forgotten) = (None, false);
        self.rest(now, Duration::ZERO);
    }

    /// It does so no longer. What [`Self::worth`] says stays: it is what the last copy was.
    pub fn end(&mut self) {
        self.step = Step::Off;
        self.asked = None;
        self.tables.clear();
    }

    /// What the last copy is worth.
    #[must_use]
    pub const fn worth(&self) -> Worth {
        match (self.is_all, self.unanswered) {
            (false, _) => Worth::Part,
            (true, Some(0)) => Worth::All,
            (true, Some(_) | None) => Worth::Unproven,
        }
    }

    /// True if there is a copy that is as good as it can be, or if none was to be had for long.
    #[must_use]
    pub fn is_settled(&self, now: Time) -> bool {
        let cannot_be_all = self.has_copied && self.before.is_none();
        let is_late = self.begun.is_some_and(|begun| now.since(begun) >= SETTLED_AFTER);
        self.is_all || cannot_be_all || is_late
    }

    /// When [`Self::is_settled`] becomes true at the latest, while this manager is not master.
    #[must_use]
    pub fn settles_at(&self) -> Option<Time> {
        self.begun.map(|begun| begun + SETTLED_AFTER)
    }

    /// This manager is master: the next time that it stands by is another one.
    pub fn lead(&mut self) {
        self.end();
        self.begun = None;
    }

    /// What the master tells senders, if that is news.
    pub fn take_levels(&mut self) -> Option<Box<ToldLevels>> {
        self.levels.take()
    }

    /// Ports of which the master has forgotten what they had registered, if that is news.
    pub fn take_forgotten(&mut self) -> Option<BTreeSet<Guid>> {
        let is_news = std::mem::take(&mut self.has_forgotten);
        self.forgotten.clone().filter(|_| is_news)
    }

    /// A copy, if a new one is there.
    pub fn take(&mut self) -> Option<Box<Registrations>> {
        self.copy.take()
    }

    /// When [`Self::wake`] is due.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        (!matches!(self.step, Step::Off)).then_some(self.due)
    }

    /// Time has passed.
    pub fn wake(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.next_wake().is_none_or(|due| due > now) {
            return;
        }
        match self.step {
            Step::Off => {}
            Step::Resting => self.look(now, out),
            // As it should be: nothing was registered. That it is still so is asked for; an answer may have been lost.
            Step::Watching => self.ask_revision(Step::Before, now, out),
            // Lost on its way; the master is dead, or is said to be somewhere else.
            Step::Before if self.unanswered.is_some_and(|silent| silent < OURS_SILENT_MAX) => {
                let silent = self.unanswered.unwrap_or(0) + 1;
                self.unanswered = Some(silent);
                if silent.is_multiple_of(SILENT_MAX) {
                    self.at = None;
                }
                self.look(now, out);
            }
            // It may not know the question, as OpenSM; or it is dead, and the tables tell.
            Step::Before => {
                (self.before, self.skips) = (None, SKIPS);
                self.begin_tables(now, out);
            }
            // What was said before may have been heard all the same.
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

    /// Takes what answers a question of ours; false if it does not.
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
            // The master has not come to this port yet.
            None => self.rest(now, self.config.interval),
        }
    }

    fn ask_revision(&mut self, step: Step, now: Time, out: &mut Vec<Output>) {
        // What the copy is all of, or is if the answer says so.
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
        // That it has changed was said before, and did not arrive: somebody waits for this manager to know.
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

    /// Asks for the next table, or ends.
    fn next_table(&mut self, now: Time, out: &mut Vec<Output>) {
        let wanted = match self.before {
            Some(_) => &TABLES[..],
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

    /// An answer that is no transfer: a refusal, or what a program on libumad2sim says, which leaves RMPP to a kernel
    /// that is not there: the beginning of the table, and behind its end whatever was in memory.
    fn odd_table(&mut self, now: Time, (stride, mad): (usize, &Mad), out: &mut Vec<Output>) {
        let is_begun = mad.status() == Status::OK;
        // An older one of ours does not know the last tables.
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
        self.copied(now);
        if self.is_all {
            self.watch(now, out);
        }
    }

    /// What a master says of itself; none if it does not know the question. If it tells senders something else by now,
    /// what is known of that is worth nothing.
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

    /// Takes what senders are told, if that has not changed while it was copied.
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

    /// There is a copy. Something may be registered by now that it does not have.
    fn copied(&mut self, now: Time) {
        self.has_copied = true;
        let took = now.since(self.began);
        let tables = std::mem::take(&mut self.tables);
        let copy = registrations(&tables);
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

/// What is wanted if the revision is the one that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfSame {
    /// An answer at once.
    Answer,
    /// One when it is another.
    Wait,
}

/// A question for the revision that shows of which one the asker may have all there is.
fn revision_question(shown: Option<Revision>, if_same: IfSame) -> Mad {
    use records::revision as f;
    let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::REVISION.id, 0);
    if let Some((life, number)) = shown {
        f::LIFE.set(mad.sa_data_mut(), life);
        f::NUMBER.set(mad.sa_data_mut(), number);
        mad.set_component_mask(match if_same {
            IfSame::Answer => f::NUMBER.mask(),
            IfSame::Wait => f::LIFE.mask() | f::NUMBER.mask(),
        });
    }
    mad
}

/// What was answered; none if whoever was asked does not know the question.
fn said_of(mad: &Mad) -> Option<Said> {
    use records::revision as f;
    let data = mad.sa_data();
    (mad.status() == Status::OK).then(|| Said {
        revision: (f::LIFE.get(data), f::NUMBER.get(data)),
        levels: f::LEVELS.get(data),
    })
}
