//! The administrator: takes datagrams, keeps transfers, hands out datagrams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use selvedge_mad::rmpp::{Progress, Receiver, ReceiverConfig, Sender, Taken};
use selvedge_plan::aliases::PortAliases;
use selvedge_plan::multicast::MulticastGroup;
use selvedge_plan::partition::Partitions;
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};
use selvedge_wire::sa::{Rmpp, RmppKind, SaData};
use selvedge_wire::{Attribute, Datagram, Gid, Mad, Method, Notice, Status};

use crate::alias::Aliases;
use crate::client::{Exchange, Request};
use crate::config::Config;
use crate::io::{Counters, Input, Output};
use crate::kept::Registrations;
use crate::member::{CREATED, DELETED, Groups};
use crate::pieces::send;
use crate::query::{Query, Registered};
use crate::refusal::Refusal;
use crate::report::{Event, Reports};
use crate::snapshot::Snapshot;
use crate::standbys::Standbys;
use crate::swept::Swept;

/// A subscriber that answers no report for so long is gone. Whoever cannot be reached for a moment, while routes are
/// mended, does not know of it, and would not subscribe again.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// Segments that a question may have: the longest is MultiPathRecord's, of one.
const QUESTION_SEGMENTS: u32 = 4;
/// Questions that may be on their way in; more are refused.
const QUESTIONS_MAX: usize = 1_024;

/// A question whose answer is not complete.
#[derive(Debug)]
pub(crate) struct Open {
    pub request: Request,
    pub query: Query,
    pub answer: Answer,
    /// Rows are wanted now.
    pub hungry: bool,
    /// Its number, in the order in which they began.
    pub number: u64,
}

/// An answer in the making.
#[derive(Debug)]
pub(crate) enum Answer {
    /// One record was asked for: what was found so far.
    One(Option<SaData>),
    /// A table was asked for: its rows, while they fit into one segment.
    Short(Vec<u8>),
    /// A table that does not.
    Long(Box<Sender>),
}

/// The subnet administrator.
#[derive(Debug)]
pub struct Sa {
    pub(crate) config: Config,
    pub(crate) serving: bool,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    pub(crate) registered: Registered,
    pub(crate) limits: crate::limit::Limits,
    pub(crate) open: BTreeMap<Exchange, Open>,
    /// Exchanges that want rows, in turn.
    pub(crate) turns: VecDeque<Exchange>,
    pub(crate) questions: BTreeMap<Exchange, Receiver>,
    /// What standbys asked last that want to know when something is registered, by LID and queue pair.
    pub(crate) watchers: BTreeMap<(Lid, u32), Request>,
    /// Whom answers to changes wait for.
    pub(crate) standbys: Standbys,
    pub(crate) reports: Reports,
    pub(crate) swept: Swept,
    pub(crate) counters: Counters,
    pub(crate) presets: Arc<Partitions>,
    /// Long answers so far.
    pub(crate) begun: u64,
    /// How often what clients have registered has changed.
    pub(crate) revision: u64,
    /// How often the service levels that clients are told have.
    pub(crate) levels: u64,
    /// Since when subscribers have not answered reports, by LID.
    pub(crate) silent: BTreeMap<Lid, Time>,
    pub(crate) now: Time,
    /// Ports that name GUIDs which the plan in force does not know.
    pub(crate) doubted: BTreeSet<Guid>,
}

impl Sa {
    /// An administrator that answers nobody yet.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            serving: false,
            snapshot: None,
            registered: Registered::default(),
            limits: crate::limit::Limits::default(),
            open: BTreeMap::new(),
            turns: VecDeque::new(),
            questions: BTreeMap::new(),
            watchers: BTreeMap::new(),
            standbys: Standbys::default(),
            reports: Reports::default(),
            swept: Swept::default(),
            counters: Counters::default(),
            presets: Arc::new(Partitions::only_default(&[])),
            begun: 0,
            revision: 0,
            levels: 0,
            silent: BTreeMap::new(),
            now: Time::ZERO,
            doubted: BTreeSet::new(),
        }
    }

    /// An administrator that knows what clients registered in an earlier life.
    #[must_use]
    pub fn with_registrations(config: Config, now: Time, kept: Registrations) -> Self {
        let mut sa = Self::new(config);
        sa.now = now;
        sa.restore(kept);
        sa
    }

    fn restore(&mut self, mut kept: Registrations) {
        let all = &mut self.registered;
        all.groups.restore(kept.take_groups(), kept.serial);
        all.subscriptions.restore(kept.subscriptions);
        all.services.restore(self.now, kept.services);
        all.forgotten = kept.forgotten;
        all.aliases.restore(kept.aliases);
    }

    /// What clients have registered, to be stored: an answer must not be forgotten by a restart.
    #[must_use]
    pub fn registrations(&self) -> Registrations {
        let (groups, serial) = self.registered.groups.kept();
        Registrations {
            groups,
            subscriptions: self.registered.subscriptions.kept(),
            services: self.registered.services.kept(),
            forgotten: self.registered.forgotten.clone(),
            aliases: self.registered.aliases.kept(),
            serial,
        }
    }

    /// A number that changes whenever [`Self::registrations`] does, but for leases that run.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// What happened so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        Counters {
            limited: self.limits.over,
            most_limited: self.limits.most,
            ..self.counters
        }
    }

    /// How many services, subscriptions, groups, memberships and alias GUIDs there are.
    #[must_use]
    pub fn registered(&self) -> [usize; 5] {
        let all = &self.registered;
        let members = all.groups.iter().map(|group| group.members.len()).sum();
        let groups = all.groups.iter().count();
        let (services, subscriptions) = (all.services.count(), all.subscriptions.count());
        [services, subscriptions, groups, members, all.aliases.count()]
    }

    /// Questions of standbys that are held back until something is registered.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.watchers.len()
    }

    /// What is answered from, once a plan is in force.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Multicast groups and their members.
    #[must_use]
    pub const fn groups(&self) -> &Groups {
        &self.registered.groups
    }

    /// Groups that have changed since the last call, for whoever builds their trees; one that has ended has no members.
    pub fn take_changed_groups(&mut self) -> Vec<MulticastGroup> {
        self.registered.groups.take_changed(&self.registered.aliases)
    }

    /// Ports that, since the last call, called themselves otherwise than the plan does, by the plan's GUIDs.
    pub fn take_doubted(&mut self) -> BTreeSet<Guid> {
        std::mem::take(&mut self.doubted)
    }

    /// Alias GUIDs of ports.
    #[must_use]
    pub const fn aliases(&self) -> &Aliases {
        &self.registered.aliases
    }

    /// Ports whose alias GUIDs have changed since the last call, for whoever writes them.
    pub fn take_changed_aliases(&mut self) -> Vec<PortAliases> {
        self.registered.aliases.take_changed()
    }

    /// When [`Input::Wake`] is due, if nothing else happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        if !self.turns.is_empty() {
            return Some(self.now);
        }
        if self.open.is_empty() && self.questions.is_empty() && !self.serving {
            return None;
        }
        let transfers = self.open.values().filter_map(|open| match &open.answer {
            Answer::Long(sender) => sender.next_wake(),
            Answer::One(_) | Answer::Short(_) => None,
        });
        let questions = self.questions.values().map(Receiver::next_wake);
        let others = [
            self.reports.next_wake(),
            self.registered.services.next_expiry(),
            self.standbys.next_wake(),
        ];
        transfers.chain(questions).chain(others.into_iter().flatten()).min()
    }

    /// Takes one input; appends what is to be sent.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        self.now = now;
        let (revision, first) = (self.revision, out.len());
        self.leases();
        match input {
            Input::Received(datagram) => self.received(&datagram, out),
            Input::Trap(datagram) => self.trap(&datagram, out),
            // Only now, and not at every datagram: what is under way must not cost more because others ask.
            Input::Wake => {
                self.time_passes(out);
                self.work(out);
            }
            Input::Serve => self.serving = true,
            Input::Swept(fabric) => self.swept(fabric, out),
            Input::Coming(fabric, plan) => self.coming(&fabric, &plan),
            Input::Committed(snapshot) => self.committed(snapshot, out),
            Input::Presets(partitions) => {
                self.presets = partitions;
                self.make_presets(out);
            }
            Input::Copies(copies) => self.registered.copies = copies,
            Input::Withdraw => self.withdraw(),
            Input::Forget => {
                self.withdraw();
                self.registered = Registered::default();
                self.revision += 1;
            }
            Input::Copied(kept) => {
                if !self.serving {
                    let before = std::mem::take(&mut self.registered);
                    self.restore(*kept);
                    // Groups that are there no longer have no members.
                    self.registered.groups.changed.extend(before.groups.by_mlid.keys());
                    self.registered.aliases.follow(&before.aliases);
                    self.revision += 1;
                }
            }
        }
        if self.revision != revision {
            self.standbys.changed(now, (self.config.life, revision));
            self.tell_watchers(first, out);
        }
        self.standbys.release(now, out);
    }

    fn withdraw(&mut self) {
        self.serving = false;
        self.snapshot = None;
        self.open.clear();
        self.turns.clear();
        self.questions.clear();
        self.counters.dropped += (self.watchers.len() + self.standbys.withdraw()) as u64;
        self.watchers.clear();
        self.reports.clear();
        self.swept = Swept::default();
        self.silent.clear();
        self.doubted.clear();
    }

    fn committed(&mut self, snapshot: Arc<Snapshot>, out: &mut Vec<Output>) {
        self.serving = true;
        let old = self.snapshot.replace(Arc::clone(&snapshot));
        self.levels_committed(old.as_deref(), &snapshot);
        let is_there = |guid| snapshot.by_guid(guid).is_some();
        let is_changed = self.registered.note_gone(is_there, &snapshot.sources.unasked);
        self.registered.services.keep(is_there);
        self.registered.subscriptions.keep(is_there);
        // An alias goes on after its port is gone: it is the port's again when that is back, until another one asks.
        let yielded = self.registered.aliases.yield_to(&snapshot);
        let aliases = &self.registered.aliases;
        let ended = self.registered.groups.keep(|guid| is_there(aliases.port_of(guid)));
        self.revision += u64::from(is_changed || !yielded.is_empty());
        if let Some(old) = &old {
            self.recall_answers(old, &snapshot, out);
        }
        let issuer = self.issuer();
        for mgid in ended {
            self.tell(&Event::of_gid(DELETED, issuer, mgid), out);
        }
        if old.is_none() {
            self.standbys.begin(self.now, snapshot.other_managers());
            self.registered.groups.all_changed();
            self.registered.aliases.all_changed();
        }
        self.make_presets(out);
        // Nobody is told of a whole fabric: at the first plan there is nobody who has asked.
        let Some(old) = old else { return };
        self.tell_who_moved(&old, &snapshot, out);
    }

    /// What a port registered that is gone is forgotten, and an answer that waits for standbys would still say that it
    /// is registered: it may be back by then, and have been asked to register again before it is answered.
    fn recall_answers(&mut self, old: &Snapshot, new: &Snapshot, out: &mut Vec<Output>) {
        let holder = |of: &Snapshot, lid: Lid| of.by_lid(lid).and_then(|place| of.end(place)).map(|end| end.guid);
        let is_forgotten = |lid: Lid| holder(old, lid) != holder(new, lid);
        self.counters.busy += self.standbys.recall(is_forgotten, out) as u64;
    }

    /// Groups that are there from the start begin as soon as a plan is in force.
    fn make_presets(&mut self, out: &mut Vec<Output>) {
        let Some(snapshot) = self.snapshot.clone() else { return };
        let groups = &mut self.registered.groups;
        let (begun, ended) = groups.set_presets((&self.config, &snapshot), &self.presets.groups);
        let issuer = self.issuer();
        for (number, gids) in [(CREATED, begun), (DELETED, ended)] {
            for mgid in gids {
                self.tell(&Event::of_gid(number, issuer, mgid), out);
            }
        }
    }

    /// LID of the manager.
    pub(crate) fn issuer(&self) -> Lid {
        let lid = self.snapshot.as_ref().and_then(|snapshot| {
            let (at, _) = snapshot.sources.manager;
            snapshot.plan().lids.base(at)
        });
        lid.unwrap_or_default()
    }

    fn trap(&mut self, datagram: &Datagram, out: &mut Vec<Output>) {
        let event = Notice::parse(datagram.mad.smp_data()).ok();
        if let Some(event) = event.as_ref().and_then(Event::of_trap) {
            self.tell(&event, out);
        }
    }

    /// Tells subscribers of an event.
    pub(crate) fn tell(&mut self, event: &Event, out: &mut Vec<Output>) {
        let Some(snapshot) = self.snapshot.clone() else { return };
        let issuer = snapshot.by_lid(event.issuer).and_then(|place| snapshot.end(place));
        let gid = issuer.map_or(Gid::default(), |end| snapshot.gid(end));
        for to in self.registered.subscriptions.told(&snapshot, event) {
            let sent = self
                .reports
                .send(&self.config, self.now, (event, gid), to, &mut self.counters);
            out.extend(sent);
        }
    }

    /// Services whose leases have run out are gone.
    fn leases(&mut self) {
        let services = &mut self.registered.services;
        let before = services.count();
        services.tick(self.now);
        self.revision += u64::from(services.count() != before);
    }

    fn time_passes(&mut self, out: &mut Vec<Output>) {
        let now = self.now;
        let (subscriptions, snapshot) = (&mut self.registered.subscriptions, &self.snapshot);
        let (counters, revision, silent) = (&mut self.counters, &mut self.revision, &mut self.silent);
        self.reports.tick(&self.config, now, out, |lid| {
            counters.reports_lost += 1;
            let since = *silent.entry(lid).or_insert(now);
            if let Some(snapshot) = snapshot.as_ref().filter(|_| now.since(since) >= SILENT_MAX) {
                silent.remove(&lid);
                *revision += 1;
                subscriptions.forget(snapshot, lid);
            }
        });
        self.questions.retain(|_, receiver| !receiver.is_expired(now));
        let mut ended = Vec::new();
        for (exchange, open) in &mut self.open {
            let Answer::Long(sender) = &mut open.answer else {
                continue;
            };
            if sender.next_wake().is_some_and(|due| due <= now) {
                match sender.expired(now) {
                    Progress::Failed(status) => {
                        ended.push((*exchange, (status.0 != 0).then(|| Rmpp::abort(status))));
                    }
                    Progress::Going | Progress::Done => open.hungry = true,
                }
                self.turns.push_back(*exchange);
            }
        }
        for (exchange, say) in ended {
            self.end_transfer(exchange, say, out);
        }
    }

    /// A transfer has failed; the client is told, if there is something to tell.
    pub(crate) fn end_transfer(&mut self, exchange: Exchange, say: Option<Rmpp>, out: &mut Vec<Output>) {
        let Some(open) = self.open.remove(&exchange) else {
            return;
        };
        self.counters.failed += 1;
        if let Some(rmpp) = say {
            let mut mad = open.request.answer(Status::OK, 0);
            mad.set_rmpp(Some(rmpp));
            out.push(send(open.request.reply(mad)));
        }
    }

    fn received(&mut self, datagram: &Datagram, out: &mut Vec<Output>) {
        self.counters.received += 1;
        let method = datagram.mad.method();
        match method {
            _ if !self.serving => self.counters.dropped += 1,
            Method::ReportResp => match self.reports.answered(datagram) {
                true => drop(self.silent.remove(&datagram.address.lid)),
                false => self.counters.dropped += 1,
            },
            _ if method.is_response() => self.counters.dropped += 1,
            Method::Send | Method::Trap | Method::Report | Method::TrapRepress => self.counters.dropped += 1,
            _ => match datagram.mad.rmpp() {
                None => self.request(datagram, &datagram.mad, out),
                Some(rmpp) => self.part(datagram, &rmpp, out),
            },
        }
    }

    /// A part of a transfer: of a question that comes in segments, or what a client says of an answer's.
    fn part(&mut self, datagram: &Datagram, rmpp: &Rmpp, out: &mut Vec<Output>) {
        let exchange = Exchange::of(datagram);
        if rmpp.kind != RmppKind::Data {
            if let Some(Open {
                answer: Answer::Long(sender),
                hungry,
                ..
            }) = self.open.get_mut(&exchange)
            {
                match sender.received(rmpp) {
                    Progress::Going => {
                        *hungry = true;
                        self.turns.push_back(exchange);
                    }
                    Progress::Done => {
                        self.open.remove(&exchange);
                        self.counters.answered += 1;
                    }
                    Progress::Failed(status) => {
                        let say = (status.0 != 0).then(|| Rmpp::abort(status));
                        self.end_transfer(exchange, say, out);
                    }
                }
            } else if self.questions.remove(&exchange).is_none() {
                // The acknowledgement of an answer of one segment, or of one that was given up.
                self.counters.dropped += u64::from(rmpp.kind != RmppKind::Ack);
            }
            return;
        }
        self.question_part(exchange, datagram, out);
    }

    fn question_part(&mut self, exchange: Exchange, datagram: &Datagram, out: &mut Vec<Output>) {
        let known = self.questions.contains_key(&exchange);
        let begins = datagram.mad.rmpp().is_some_and(|rmpp| rmpp.begins_data());
        if !known {
            // One that is being answered: its last acknowledgement was lost.
            if !begins || self.open.contains_key(&exchange) {
                self.counters.dropped += 1;
                return;
            }
            let from = datagram.address.lid;
            let full = self.questions.len() >= QUESTIONS_MAX;
            if full || !self.limits.take(&self.config, self.now, from) {
                return self.refuse(&self.understood(datagram, &datagram.mad), Refusal::Busy, out);
            }
            let config = ReceiverConfig {
                segments_max: QUESTION_SEGMENTS,
                window: QUESTION_SEGMENTS,
                timeout: self.config.timeout.saturating_mul(u32::from(self.config.retries) + 1),
            };
            self.questions.insert(exchange, Receiver::new(config, self.now));
        }
        let Some(receiver) = self.questions.get_mut(&exchange) else {
            return;
        };
        let taken = receiver.received(self.now, &datagram.mad);
        let (say, data) = match taken {
            Taken::Nothing => (None, None),
            Taken::Answer(say) => (Some(say), None),
            Taken::Done(say, data) => {
                self.questions.remove(&exchange);
                (Some(say), Some(data))
            }
            Taken::Failed(say) => {
                self.questions.remove(&exchange);
                self.counters.failed += 1;
                (say, None)
            }
        };
        if let Some(rmpp) = say {
            let mut mad = self.understood(datagram, &datagram.mad).answer(Status::OK, 0);
            mad.set_rmpp(Some(rmpp));
            out.push(send(Datagram { mad, ..*datagram }));
        }
        if let Some(data) = data {
            let mut mad = datagram.mad;
            mad.set_rmpp(None);
            let place = mad.sa_data_mut();
            place.fill(0);
            place.iter_mut().zip(&data).for_each(|(slot, byte)| *slot = *byte);
            self.request(datagram, &mad, out);
        }
    }

    pub(crate) fn understood(&self, datagram: &Datagram, mad: &Mad) -> Request {
        Request {
            from: datagram.address,
            mad: *mad,
            trusted: mad.sm_key() == self.config.sa_key && mad.sm_key() != 0,
        }
    }
}
