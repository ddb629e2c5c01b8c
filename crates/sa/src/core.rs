//! The administrator: handles datagrams, keeps transfers, returns datagrams to send.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use selvedge_mad::rmpp::{Progress, Receiver, ReceiverConfig, Sender, Taken};
use selvedge_plan::aliases::PortAliases;
use selvedge_plan::multicast::MulticastGroup;
use selvedge_plan::partition::{Partition, Partitions};
use selvedge_qos::jobs::{JobError, Jobs};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};
use selvedge_wire::sa::{Rmpp, RmppKind, SaData};
use selvedge_wire::{Attribute, Datagram, Gid, Mad, Method, Notice, Status};

use crate::alias::Aliases;
use crate::client::{Exchange, Request};
use crate::config::Config;
use crate::io::{Counters, Input, Output};
use crate::jobs::{JobAnswer, JobGround, JobIn};
use crate::kept::Registrations;
use crate::member::{CREATED, DELETED, Groups};
use crate::pieces::send;
use crate::query::{Query, Registered};
use crate::refusal::Refusal;
use crate::report::{Event, Reports};
use crate::snapshot::Snapshot;
use crate::standbys::Standbys;
use crate::swept::Swept;

/// How long a subscriber may leave reports unanswered before its subscription is removed. This must not be short: a
/// host that is unreachable for a moment during a repair does not notice that, and would not subscribe again.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// Largest number of segments of a request: the longest is MultiPathRecord's, of one.
const QUESTION_SEGMENTS: u32 = 4;
/// Largest number of requests that are being received in segments; more are refused.
const QUESTIONS_MAX: usize = 1_024;

/// A request with an incomplete answer.
#[derive(Debug)]
pub(crate) struct Open {
    pub request: Request,
    pub query: Query,
    pub answer: Answer,
    /// True if more rows are needed now.
    pub hungry: bool,
    /// Number of the answer; answers are numbered in the order in which they begin.
    pub number: u64,
}

/// An answer in progress.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The answer to a Get: one record, if one was found so far.
    One(Option<SaData>),
    /// The answer to a GetTable: its rows, as long as they fit into one segment.
    Short(Vec<u8>),
    /// A table of several segments.
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
    /// Exchanges that need rows, in turn.
    pub(crate) turns: VecDeque<Exchange>,
    pub(crate) questions: BTreeMap<Exchange, Receiver>,
    /// The last requests of standbys that wait for a change of registrations, by LID and queue pair.
    pub(crate) watchers: BTreeMap<(Lid, u32), Request>,
    /// Standbys that must learn of a change before its request is answered.
    pub(crate) standbys: Standbys,
    pub(crate) reports: Reports,
    pub(crate) swept: Swept,
    pub(crate) counters: Counters,
    pub(crate) presets: Arc<Partitions>,
    /// Number of long answers that have begun.
    pub(crate) begun: u64,
    /// Number of changes of registrations.
    pub(crate) revision: u64,
    /// Number of changes of the service levels of clients.
    pub(crate) levels: u64,
    /// When subscribers ceased to answer reports, by LID.
    pub(crate) silent: BTreeMap<Lid, Time>,
    pub(crate) now: Time,
    /// Ports with a GUID that may have been misread: a Set or Delete from such a port named a GID that the plan in
    /// force does not have. A port knows its own GUID.
    pub(crate) doubted: BTreeSet<Guid>,
}

impl Sa {
    /// Returns an administrator that answers no request yet.
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

    /// Returns an administrator with registrations from an earlier run.
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
        self.job(JobIn::Restore(kept.jobs));
    }

    /// Returns the registrations, to be stored: a restart must not lose a registration that was confirmed.
    #[must_use]
    pub fn registrations(&self) -> Registrations {
        let (groups, serial) = self.registered.groups.kept();
        Registrations {
            groups,
            subscriptions: self.registered.subscriptions.kept(),
            services: self.registered.services.kept(),
            forgotten: self.registered.forgotten.clone(),
            aliases: self.registered.aliases.kept(),
            jobs: self.registered.jobs.jobs().clone(),
            serial,
        }
    }

    /// Returns a number that changes whenever [`Self::registrations`] does, except for remaining lease times.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        Counters {
            limited: self.limits.over,
            most_limited: self.limits.most,
            ..self.counters
        }
    }

    /// Returns the numbers of services, subscriptions, groups, memberships and alias GUIDs.
    #[must_use]
    pub fn registered(&self) -> [usize; 5] {
        let all = &self.registered;
        let members = all.groups.iter().map(|group| group.members.len()).sum();
        let groups = all.groups.iter().count();
        let (services, subscriptions) = (all.services.count(), all.subscriptions.count());
        [services, subscriptions, groups, members, all.aliases.count()]
    }

    /// Returns the number of requests from standbys that wait for a change.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.watchers.len()
    }

    /// Returns the snapshot that queries are answered from, once a plan is in force.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.clone()
    }

    /// Returns the multicast groups and their members.
    #[must_use]
    pub const fn groups(&self) -> &Groups {
        &self.registered.groups
    }

    /// Returns the groups that have changed since the last call, for tree planning. A group that has ended has no
    /// members.
    pub fn take_changed_groups(&mut self) -> Vec<MulticastGroup> {
        self.registered.groups.take_changed(&self.registered.aliases)
    }

    /// Returns the ports with a GUID that may have been misread, since the last call: each has sent a request with a
    /// GID that the plan does not have. The ports are named by the GUIDs in the plan.
    pub fn take_doubted(&mut self) -> BTreeSet<Guid> {
        std::mem::take(&mut self.doubted)
    }

    /// Returns the running and the waiting jobs.
    #[must_use]
    pub const fn jobs(&self) -> &Jobs {
        self.registered.jobs.jobs()
    }

    /// Removes the registrations, and returns them without the jobs. The book of jobs stays: only it knows which
    /// partitions the manager has got.
    fn take_registered(&mut self) -> Registered {
        let mut before = std::mem::take(&mut self.registered);
        self.registered.jobs = std::mem::take(&mut before.jobs);
        before
    }

    fn job(&mut self, input: JobIn) {
        let ground = JobGround {
            snapshot: self.snapshot.as_deref().filter(|_| self.serving),
            partitions: &self.presets,
        };
        self.revision += u64::from(self.registered.jobs.handle(input, ground));
    }

    /// Returns the partitions of isolated jobs, if they have changed since the last call, for P_Key tables.
    pub fn take_job_partitions(&mut self) -> Option<Vec<Partition>> {
        self.registered.jobs.take_partitions()
    }

    /// Returns the answer to the last [`Input::Job`].
    pub fn take_job_answer(&mut self) -> Option<Result<JobAnswer, JobError>> {
        self.registered.jobs.take_answer()
    }

    /// Returns the alias GUIDs of ports.
    #[must_use]
    pub const fn aliases(&self) -> &Aliases {
        &self.registered.aliases
    }

    /// Returns the ports with alias GUIDs that have changed since the last call, for writing GUIDInfo.
    pub fn take_changed_aliases(&mut self) -> Vec<PortAliases> {
        self.registered.aliases.take_changed()
    }

    /// Returns when [`Input::Wake`] is due, if no other input comes.
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

    /// Handles one input and appends the datagrams to send.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        self.now = now;
        let (revision, first) = (self.revision, out.len());
        self.leases();
        match input {
            Input::Received(datagram) => self.received(&datagram, out),
            Input::Trap(datagram) => self.trap(&datagram, out),
            // Only on this input and not on every datagram, so that the cost of open transfers does not grow with the
            // number of requests.
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
            Input::OutOfService(text) => {
                self.revision += u64::from(self.registered.out_of_service != text);
                self.registered.out_of_service = text;
            }
            Input::Job(request) => {
                self.job(JobIn::Request(request));
            }
            Input::Withdraw => self.withdraw(),
            Input::Forget => {
                self.withdraw();
                self.take_registered();
                self.job(JobIn::Restore(Jobs::default()));
                self.revision += 1;
            }
            Input::Copied(kept) => {
                if !self.serving {
                    let before = self.take_registered();
                    self.restore(*kept);
                    // Groups that no longer exist have no members.
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
        self.job(JobIn::Committed);
        let is_there = |guid| snapshot.by_guid(guid).is_some();
        let is_changed = self.registered.note_gone(is_there, &snapshot.sources.unasked);
        self.registered.services.keep(is_there);
        self.registered.subscriptions.keep(is_there);
        // An alias remains after its port has left. It is valid again when the port is back, unless another port has
        // requested it.
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
        // With the first plan there are no subscribers yet, so no event is reported.
        let Some(old) = old else { return };
        self.tell_who_moved(&old, &snapshot, out);
    }

    /// Replaces answers to ports that have left by BUSY. Registrations of such a port are removed, but the confirmation
    /// of one may still wait until standbys know of it. If the port came back, it would get this confirmation after it
    /// was asked to register again.
    fn recall_answers(&mut self, old: &Snapshot, new: &Snapshot, out: &mut Vec<Output>) {
        let holder = |of: &Snapshot, lid: Lid| of.by_lid(lid).and_then(|place| of.end(place)).map(|end| end.guid);
        let is_forgotten = |lid: Lid| holder(old, lid) != holder(new, lid);
        self.counters.busy += self.standbys.recall(is_forgotten, out) as u64;
    }

    /// Creates preset groups as soon as a plan is in force.
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

    /// Returns the LID of the manager.
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

    /// Reports an event to subscribers.
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

    /// Removes services with expired leases.
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

    /// Ends a failed transfer. The client gets `say`, if given.
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

    /// Handles a part of a transfer: a segment of a request, or a client's message about an answer.
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
                // The acknowledgement of a single-segment answer, or of an aborted one.
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
            // The request is being answered: its last acknowledgement was lost.
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
