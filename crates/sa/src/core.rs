//! The administrator: takes datagrams, keeps transfers, hands out datagrams.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use selvedge_mad::rmpp::{Progress, Receiver, ReceiverConfig, Sender, SenderConfig, Taken};
use selvedge_sim::Time;
use selvedge_types::Lid;
use selvedge_wire::sa::{Filter, Layout, Rmpp, RmppFlags, RmppKind, SA_DATA_LEN, SaData, records};
use selvedge_wire::{Attribute, AttributeId, Datagram, Gid, Mad, Method, Notice, Status};

use crate::client::{Exchange, Request};
use crate::config::Config;
use crate::io::{Counters, Input, Output};
use crate::member::{self, DELETED, Groups};
use crate::path::Paths;
use crate::query::{Cursor, Found, Query, ROWS_PER_PIECE, Registered, Source};
use crate::refusal::Refusal;
use crate::report::{Event, Reports};
use crate::snapshot::{EndPort, Snapshot};
use crate::tables::TABLES;
use crate::{inform, service};

/// Segments that a question may have: the longest is MultiPathRecord's, of one.
const QUESTION_SEGMENTS: u32 = 4;
/// Questions that may be on their way in; more are refused.
const QUESTIONS_MAX: usize = 1_024;
/// Traps: a port came, a port went. Source: IBA vol 1 §14.2.5.1.
const IN_SERVICE: u16 = 64;
const OUT_OF_SERVICE: u16 = 65;

/// A question whose answer is not complete.
#[derive(Debug)]
struct Open {
    request: Request,
    query: Query,
    answer: Answer,
    /// Rows are wanted now.
    hungry: bool,
}

#[derive(Debug)]
enum Answer {
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
    config: Config,
    serving: bool,
    snapshot: Option<Arc<Snapshot>>,
    registered: Registered,
    limits: crate::limit::Limits,
    open: BTreeMap<Exchange, Open>,
    /// Exchanges that want rows, in turn.
    turns: VecDeque<Exchange>,
    questions: BTreeMap<Exchange, Receiver>,
    reports: Reports,
    counters: Counters,
    now: Time,
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
            reports: Reports::default(),
            counters: Counters::default(),
            now: Time::ZERO,
        }
    }

    /// What happened so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Multicast groups and their members.
    #[must_use]
    pub const fn groups(&self) -> &Groups {
        &self.registered.groups
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
        let others = [self.reports.next_wake(), self.registered.services.next_expiry()];
        transfers.chain(questions).chain(others.into_iter().flatten()).min()
    }

    /// Takes one input; appends what is to be sent.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Vec<Output>) {
        self.now = now;
        match input {
            Input::Received(datagram) => self.received(&datagram, out),
            Input::Trap(datagram) => self.trap(&datagram, out),
            Input::Wake => {}
            Input::Serve => self.serving = true,
            Input::Committed(snapshot) => self.committed(snapshot, out),
            Input::Withdraw => self.withdraw(),
        }
        self.time_passes(out);
        self.work(out);
    }

    /// Somebody else is master: what clients registered here is his to know, and they tell him.
    fn withdraw(&mut self) {
        self.serving = false;
        self.snapshot = None;
        self.registered = Registered::default();
        self.open.clear();
        self.turns.clear();
        self.questions.clear();
        self.reports.clear();
    }

    fn committed(&mut self, snapshot: Arc<Snapshot>, out: &mut Vec<Output>) {
        self.serving = true;
        let old = self.snapshot.replace(Arc::clone(&snapshot));
        let is_there = |guid| snapshot.by_guid(guid).is_some();
        self.registered.services.keep(is_there);
        self.registered.subscriptions.keep(is_there);
        let ended = self.registered.groups.keep(is_there);
        let issuer = self.issuer();
        for mgid in ended {
            self.tell(&Event::of_gid(DELETED, issuer, mgid), out);
        }
        // Nobody is told of a whole fabric: at the first plan there is nobody who has asked.
        let Some(old) = old else { return };
        let all = |snapshot: &Snapshot| -> Vec<Gid> {
            let ends = (0..snapshot.end_count()).filter_map(|place| snapshot.end(place));
            ends.map(|end| snapshot.gid(end)).collect()
        };
        for (number, of, other) in [(IN_SERVICE, &snapshot, &old), (OUT_OF_SERVICE, &old, &snapshot)] {
            for gid in all(of).into_iter().filter(|gid| other.by_gid(*gid).is_none()) {
                self.tell(&Event::of_gid(number, issuer, gid), out);
            }
        }
    }

    /// LID of the manager.
    fn issuer(&self) -> Lid {
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
    fn tell(&mut self, event: &Event, out: &mut Vec<Output>) {
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

    fn time_passes(&mut self, out: &mut Vec<Output>) {
        let now = self.now;
        self.registered.services.tick(now);
        let (subscriptions, snapshot) = (&mut self.registered.subscriptions, &self.snapshot);
        let counters = &mut self.counters;
        self.reports.tick(&self.config, now, out, |lid| {
            counters.reports_lost += 1;
            if let Some(snapshot) = snapshot {
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
    fn end_transfer(&mut self, exchange: Exchange, say: Option<Rmpp>, out: &mut Vec<Output>) {
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

    // ---- what arrives ----

    fn received(&mut self, datagram: &Datagram, out: &mut Vec<Output>) {
        self.counters.received += 1;
        let method = datagram.mad.method();
        match method {
            _ if !self.serving => self.counters.dropped += 1,
            Method::ReportResp => {
                if !self.reports.answered(datagram) {
                    self.counters.dropped += 1;
                }
            }
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
            if full || !self.limits.take(&self.config, self.now, from, 1) {
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

    fn understood(&self, datagram: &Datagram, mad: &Mad) -> Request {
        Request {
            from: datagram.address,
            mad: *mad,
            trusted: mad.sm_key() == self.config.sa_key && mad.sm_key() != 0,
        }
    }

    // ---- requests ----

    fn request(&mut self, datagram: &Datagram, mad: &Mad, out: &mut Vec<Output>) {
        let request = self.understood(datagram, mad);
        let exchange = Exchange::of(datagram);
        if let Some(open) = self.open.get_mut(&exchange).filter(|open| open.request.mad == *mad) {
            // Asked again while the answer is on its way: its beginning may be lost.
            if let Answer::Long(sender) = &mut open.answer {
                sender.again();
                open.hungry = true;
                self.turns.push_back(exchange);
            }
            return;
        }
        // Another question under the same number: whoever asked before has gone.
        self.open.remove(&exchange);
        if !self.limits.take(&self.config, self.now, request.from.lid, 1) {
            return self.refuse(&request, Refusal::Busy, out);
        }
        match self.answer(&request, out) {
            Err(why) => self.refuse(&request, why, out),
            Ok(Some(open)) => self.begin(exchange, open, out),
            Ok(None) => self.counters.answered += 1,
        }
    }

    fn refuse(&mut self, request: &Request, why: Refusal, out: &mut Vec<Output>) {
        match why {
            Refusal::Busy => self.counters.busy += 1,
            _ => self.counters.refused += 1,
        }
        out.push(send(request.reply(request.refusal(why))));
    }

    /// Answers at once (`None`), or says how.
    fn answer(&mut self, request: &Request, out: &mut Vec<Output>) -> Result<Option<Open>, Refusal> {
        let mad = &request.mad;
        if mad.class_version() != 2 {
            return Err(Refusal::BadVersion);
        }
        if mad.sm_key() != 0 && !request.trusted {
            self.counters.bad_key += 1;
            return Err(Refusal::Denied);
        }
        let layout = Layout::of(mad.attribute()).ok_or(Refusal::BadAttribute)?;
        if mad.component_mask() & !layout.components() != 0 && layout.id != AttributeId::CLASS_PORT_INFO {
            return Err(Refusal::Invalid);
        }
        if layout.id == AttributeId::CLASS_PORT_INFO {
            return self.class_port_info(request, out);
        }
        let snapshot = self.snapshot.clone().ok_or(Refusal::Busy)?;
        // A port that the plan in force does not know has a LID of another manager's, or of the next plan.
        let requester = snapshot.by_lid(request.from.lid).ok_or(Refusal::Busy)?;
        match mad.method() {
            Method::Get | Method::GetTable | Method::GetMulti => {
                self.question(request, layout, &snapshot, requester).map(Some)
            }
            Method::Set | Method::Delete => {
                let requester = snapshot.end(requester).ok_or(Refusal::Busy)?;
                self.change(request, layout, (&snapshot, requester), out)?;
                Ok(None)
            }
            _ => Err(Refusal::BadMethod),
        }
    }

    /// Source: IBA vol 1 §15.2.5.1. The capabilities say what is optional: optional records and MultiPathRecord.
    fn class_port_info(&self, request: &Request, out: &mut Vec<Output>) -> Result<Option<Open>, Refusal> {
        use records::class_port_info as f;
        /// IsSubnetOptionalRecordsSupported.
        const OPTIONAL_RECORDS: u64 = 1 << 8;
        /// IsSubnetGet of MultiPathRecord supported.
        const MULTI_PATH: u64 = 1 << 10;
        if request.mad.method() != Method::Get {
            return Err(Refusal::BadAttribute);
        }
        let mut mad = request.answer(Status::OK, 0);
        let data = mad.sa_data_mut();
        f::BASE_VERSION.set(data, 1);
        f::CLASS_VERSION.set(data, 2);
        f::CAPABILITIES.set(data, OPTIONAL_RECORDS | MULTI_PATH);
        // 4.096 µs · 2^18 = 1.07 s: SubnetTimeOut's default, in which the slowest answer begins.
        f::RESPONSE_TIME.set(data, 18);
        f::REDIRECT_QP.set(data, 1);
        f::REDIRECT_QKEY.set(data, 0x8001_0000);
        f::TRAP_QKEY.set(data, 0x8001_0000);
        out.push(send(request.reply(mad)));
        Ok(None)
    }

    /// How a question is answered.
    fn question(
        &self,
        request: &Request,
        layout: &'static Layout,
        snapshot: &Arc<Snapshot>,
        requester: u32,
    ) -> Result<Open, Refusal> {
        let (mask, data) = (request.mask(), request.data());
        let table = |advance| Source::Table {
            advance,
            cursor: Cursor::default(),
            end: u64::MAX,
        };
        let hidden_from = (!request.trusted).then_some(requester);
        let mut compared = mask;
        let mut answered = layout;
        let mut member_wishes = None;
        let method = request.mad.method();
        let source = match layout.id {
            id if id == records::PATH.id && method != Method::GetMulti => {
                self.path_source(request, snapshot, hidden_from)?
            }
            id if id == records::MULTI_PATH.id && method == Method::GetMulti => {
                answered = &records::PATH;
                compared = 0;
                let paths = Paths::of_multi(snapshot, mask, data, hidden_from)?;
                Source::Paths(Box::new(paths))
            }
            _ if method == Method::GetMulti => return Err(Refusal::BadAttribute),
            id if id == records::SERVICE.id => table(service::rows),
            id if id == records::INFORM_INFO_RECORD.id => table(inform::rows),
            id if id == records::MEMBER.id => {
                member_wishes = Some(member::Wishes::of(mask, data));
                let members = request.trusted || self.asks_of_itself(request, snapshot, requester);
                table(if members {
                    member::member_rows
                } else {
                    member::group_rows
                })
            }
            id => {
                let known = TABLES.iter().find(|table| table.layout.id == id);
                let known = known.ok_or(Refusal::BadAttribute)?;
                if known.trusted_only && !request.trusted {
                    return Err(Refusal::Denied);
                }
                // A LID out of a range means the port, whose record has the first of them.
                let lid = layout.fields[0];
                let place = (mask & lid.mask() != 0).then(|| snapshot.by_lid(Lid(lid.get(data) as u16)));
                compared &= !lid.mask();
                let (first, end) = match place {
                    None => (0, u64::from(snapshot.end_count())),
                    Some(Some(place)) => (u64::from(place), u64::from(place) + 1),
                    Some(None) => (0, 0),
                };
                let cursor = Cursor { outer: first, inner: 0 };
                Source::Table {
                    advance: known.advance,
                    cursor,
                    end,
                }
            }
        };
        Ok(Open {
            request: *request,
            query: Query {
                layout: answered,
                filter: Filter::new(answered, compared, data),
                member_wishes,
                source,
                snapshot: Arc::clone(snapshot),
                trusted: request.trusted,
            },
            answer: if request.wants_table() {
                Answer::Short(Vec::new())
            } else {
                Answer::One(None)
            },
            hungry: true,
        })
    }

    /// True if a requester asks for its own membership.
    fn asks_of_itself(&self, request: &Request, snapshot: &Snapshot, requester: u32) -> bool {
        use records::member::PORT_GID;
        request.mask() & PORT_GID.mask() != 0 && snapshot.by_gid(Gid(PORT_GID.wide(request.data()))) == Some(requester)
    }

    fn path_source(
        &self,
        request: &Request,
        snapshot: &Arc<Snapshot>,
        requester: Option<u32>,
    ) -> Result<Source, Refusal> {
        use records::path as f;
        let (mask, data) = (request.mask(), request.data());
        let dgid = Gid(f::DGID.wide(data));
        if mask & f::DGID.mask() != 0 && dgid.is_multicast() {
            let from = if mask & f::SGID.mask() != 0 {
                snapshot.by_gid(Gid(f::SGID.wide(data)))
            } else {
                snapshot.by_lid(Lid(f::SLID.get(data) as u16))
            };
            let from = from.and_then(|place| snapshot.end(place)).ok_or(Refusal::InvalidGid)?;
            let row = self.registered.groups.path(snapshot, from, dgid)?;
            return Ok(Source::Ready(Some(Box::new(row))));
        }
        let mut paths = Paths::of_path(snapshot, mask, data, requester)?;
        if !request.wants_table() {
            paths.only_first();
        }
        if paths.pairs(snapshot) > self.config.records_max {
            return Err(Refusal::NoResources);
        }
        Ok(Source::Paths(Box::new(paths)))
    }

    /// Carries out a Set or Delete and answers it.
    fn change(
        &mut self,
        request: &Request,
        layout: &'static Layout,
        (snapshot, requester): (&Arc<Snapshot>, &EndPort),
        out: &mut Vec<Output>,
    ) -> Result<(), Refusal> {
        let who = (requester, request.trusted);
        let what = (request.mask(), request.data());
        let Registered {
            services,
            groups,
            subscriptions,
        } = &mut self.registered;
        let config = &self.config;
        services.tick(self.now);
        let mut event = None;
        let record = match (request.mad.method(), layout.id) {
            (Method::Set, id) if id == records::SERVICE.id => services.set(config, snapshot, who, what)?,
            (_, id) if id == records::SERVICE.id => services.delete(requester, request.trusted, what.0, what.1)?,
            (Method::Set, id) if id == records::INFORM_INFO.id => {
                subscriptions.set(config, who, request.from, what.1)?
            }
            (method, id) if id == records::MEMBER.id => {
                let changed = match method {
                    Method::Set => groups.join((config, snapshot), who, what)?,
                    _ => groups.leave(snapshot, who, what)?,
                };
                event = changed.event;
                changed.record
            }
            _ => return Err(Refusal::BadAttribute),
        };
        let mut mad = request.answer(Status::OK, layout.offset());
        *mad.sa_data_mut() = record;
        out.push(send(request.reply(mad)));
        if let Some((number, mgid)) = event {
            let issuer = self.issuer();
            self.tell(&Event::of_gid(number, issuer, mgid), out);
        }
        Ok(())
    }

    // ---- answers in pieces ----

    /// Begins to answer; most answers are complete at once.
    fn begin(&mut self, exchange: Exchange, mut open: Open, out: &mut Vec<Output>) {
        let mut budget = ROWS_PER_PIECE;
        if self.piece(&mut open, &mut budget, out) {
            return;
        }
        let of_client = self.open.keys().filter(|other| other.lid == exchange.lid).count();
        if self.open.len() >= self.config.transfers || of_client >= self.config.transfers_per_client {
            return self.refuse(&open.request, Refusal::Busy, out);
        }
        // Only now the first segment leaves: a refusal behind it would be half an answer.
        if let Answer::Long(sender) = &mut open.answer {
            segments(sender, self.now, (&open.request, &mut self.counters), out);
        }
        if open.hungry {
            self.turns.push_back(exchange);
        }
        self.open.insert(exchange, open);
    }

    /// Goes on with whoever has been waiting for longest.
    fn work(&mut self, out: &mut Vec<Output>) {
        let mut budget = ROWS_PER_PIECE;
        while let Some(exchange) = self.turns.pop_front() {
            let Some(mut open) = self.open.remove(&exchange) else {
                continue;
            };
            if self.piece(&mut open, &mut budget, out) {
                continue;
            }
            if let Answer::Long(sender) = &mut open.answer {
                segments(sender, self.now, (&open.request, &mut self.counters), out);
            }
            if open.hungry {
                self.turns.push_back(exchange);
            }
            self.open.insert(exchange, open);
            if budget == 0 {
                return;
            }
        }
    }

    /// Looks for rows within the budget; true if the answer is complete and has left.
    fn piece(&mut self, open: &mut Open, budget: &mut u32, out: &mut Vec<Output>) -> bool {
        open.hungry = false;
        let stride = open.query.layout.stride();
        let mut row = [0; SA_DATA_LEN];
        loop {
            if let Answer::Long(sender) = &open.answer
                && !sender.wants_more()
            {
                return false;
            }
            match open.query.next(&self.registered, &mut row, budget) {
                Found::Later => {
                    open.hungry = true;
                    return false;
                }
                Found::End => return self.complete(open, out),
                Found::Row => {}
            }
            match &mut open.answer {
                Answer::One(one @ None) => {
                    *one = Some(row);
                    // Of paths the first is the best; of anything else there must be no other.
                    if matches!(open.query.source, Source::Paths(_)) {
                        return self.complete(open, out);
                    }
                }
                Answer::One(Some(_)) => {
                    self.refuse(&open.request, Refusal::TooMany, out);
                    return true;
                }
                Answer::Short(rows) => {
                    self.counters.records += 1;
                    rows.extend_from_slice(&row[..stride]);
                    if rows.len() > SA_DATA_LEN {
                        let config = SenderConfig {
                            timeout: self.config.timeout,
                            retries: self.config.retries,
                            window: self.config.window,
                            repeat_first: false,
                        };
                        let template = open.request.answer(Status::OK, open.query.layout.offset());
                        let mut sender = Sender::new(config, &template);
                        sender.push(rows);
                        open.answer = Answer::Long(Box::new(sender));
                    }
                }
                Answer::Long(sender) => {
                    self.counters.records += 1;
                    sender.push(&row[..stride]);
                }
            }
        }
    }

    /// There are no more rows. True if everything has left.
    fn complete(&mut self, open: &mut Open, out: &mut Vec<Output>) -> bool {
        let (request, layout) = (&open.request, open.query.layout);
        match &mut open.answer {
            Answer::One(None) => self.refuse(request, Refusal::None, out),
            Answer::One(Some(row)) => {
                let mut mad = request.answer(Status::OK, layout.offset());
                mad.sa_data_mut()[..layout.len].copy_from_slice(&row[..layout.len]);
                self.counters.answered += 1;
                self.counters.records += 1;
                out.push(send(request.reply(mad)));
            }
            // What fits into one segment is not repeated: who misses it asks again.
            Answer::Short(rows) => {
                let offset = if rows.is_empty() { 0 } else { layout.offset() };
                let mut mad = request.answer(Status::OK, offset);
                mad.sa_data_mut()[..rows.len()].copy_from_slice(rows);
                let length = Rmpp::HEADER_IN_PAYLOAD + u32::try_from(rows.len()).unwrap_or(0);
                let flags = RmppFlags::FIRST.with(RmppFlags::LAST);
                mad.set_rmpp(Some(Rmpp::data(1, flags, length)));
                self.counters.answered += 1;
                self.counters.segments += 1;
                out.push(send(request.reply(mad)));
            }
            Answer::Long(sender) => {
                sender.finish();
                return false;
            }
        }
        true
    }
}

/// Hands out the segments that may leave now.
fn segments(sender: &mut Sender, now: Time, (request, counters): (&Request, &mut Counters), out: &mut Vec<Output>) {
    while let Some(mad) = sender.next(now) {
        counters.segments += 1;
        out.push(send(request.reply(mad)));
    }
}

/// An answer: nobody waits for anything.
const fn send(datagram: Datagram) -> Output {
    Output {
        datagram,
        timeout: Duration::ZERO,
    }
}
