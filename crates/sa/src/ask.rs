//! Requests: checking, access rights, and the kind of answer.

use std::sync::Arc;

use selvedge_types::Lid;
use selvedge_wire::sa::{Filter, Layout, records};
use selvedge_wire::{AttributeId, Datagram, Gid, Mad, Method, Status};

use crate::client::{Exchange, Request};
use crate::core::{Answer, Open, Sa};
use crate::io::Output;
use crate::member;
use crate::path::Paths;
use crate::pieces::send;
use crate::query::{Advance, Cursor, Query, Registered, Source};
use crate::refusal::Refusal;
use crate::report::Event;
use crate::snapshot::{EndPort, Snapshot};
use crate::tables::{TABLES, Table};
use crate::{alias, capability, forgotten, inform, jobs, out_of_service, service};

impl Sa {
    pub(crate) fn request(&mut self, datagram: &Datagram, mad: &Mad, out: &mut Vec<Output>) {
        let request = self.understood(datagram, mad);
        let exchange = Exchange::of(datagram);
        let may = self.limits.take(&self.config, self.now, request.from.lid);
        if let Some(open) = self.open.get_mut(&exchange).filter(|open| open.request.mad == *mad) {
            // The request is repeated while its answer is being sent, so the first segment may be lost.
            if let Answer::Long(sender) = &mut open.answer
                && may
            {
                sender.again();
                open.hungry = true;
                self.turns.push_back(exchange);
            }
            return;
        }
        // Another request with the same transaction id: the earlier client has gone.
        self.open.remove(&exchange);
        // Silence would cost more, because a client without an answer repeats its request.
        if !may {
            return self.refuse(&request, Refusal::Busy, out);
        }
        match self.answer(&request, out) {
            Err(why) => self.refuse(&request, why, out),
            Ok(Some(open)) => self.begin(exchange, open, out),
            Ok(None) => self.counters.answered += 1,
        }
    }

    pub(crate) fn refuse(&mut self, request: &Request, why: Refusal, out: &mut Vec<Output>) {
        match why {
            Refusal::Busy => self.counters.busy += 1,
            _ => self.counters.refused += 1,
        }
        out.push(send(request.reply(request.refusal(why))));
    }

    /// Answers a request at once and returns `None`, or returns the exchange that must be continued.
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
        if layout.id == records::REVISION.id {
            return self.revision_asked(request, out).map(|()| None);
        }
        let snapshot = self.snapshot.clone().ok_or(Refusal::Busy)?;
        // If the plan in force does not know the port, or knows it with another LID, the LID is one of another manager
        // or of the next plan.
        let from = Some(request.from.lid).filter(|lid| !self.swept.is_contested(*lid));
        let requester = from.and_then(|lid| snapshot.by_lid(lid)).ok_or(Refusal::Busy)?;
        match mad.method() {
            Method::Get | Method::GetTable | Method::GetMulti => {
                self.question(request, layout, &snapshot, requester).map(Some)
            }
            Method::Set | Method::Delete => {
                let requester = snapshot.end(requester).ok_or(Refusal::Busy)?;
                let changed = self.change(request, layout, (&snapshot, requester), out);
                // The client knows its own GUID, so the discovered one may have been misread.
                if changed == Err(Refusal::InvalidGid) && !request.trusted {
                    self.doubted.insert(requester.guid);
                }
                changed?;
                Ok(None)
            }
            _ => Err(Refusal::BadMethod),
        }
    }

    /// Answers with the administrator's capabilities. Source: IBA vol 1 §15.2.5.1.
    fn class_port_info(&self, request: &Request, out: &mut Vec<Output>) -> Result<Option<Open>, Refusal> {
        use records::class_port_info as f;
        if request.mad.method() != Method::Get {
            return Err(Refusal::BadAttribute);
        }
        let mut mad = request.answer(Status::OK, 0);
        let data = mad.sa_data_mut();
        f::BASE_VERSION.set(data, 1);
        f::CLASS_VERSION.set(data, 2);
        f::CAPABILITIES.set(data, capability::MASK);
        f::CAPABILITIES2.set(data, capability::MASK2);
        // 4.096 µs · 2^18 = 1.07 s: SubnetTimeOut's default, in which the slowest answer begins.
        f::RESPONSE_TIME.set(data, 18);
        f::REDIRECT_QP.set(data, 1);
        f::REDIRECT_QKEY.set(data, 0x8001_0000);
        f::TRAP_QKEY.set(data, 0x8001_0000);
        out.push(send(request.reply(mad)));
        Ok(None)
    }

    /// Returns how to answer a query.
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
                let paths = Paths::of_multi((snapshot, &self.registered.aliases), mask, data, hidden_from)?;
                Source::Paths(Box::new(paths))
            }
            _ if method == Method::GetMulti => return Err(Refusal::BadAttribute),
            id if id == records::SERVICE.id => table(service::rows),
            id if id == records::INFORM_INFO_RECORD.id => table(inform::rows),
            id if is_for_standbys(id) => table(for_standbys(id, request.trusted)?),
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
                // A LID within a range means the port, but its record has only the first LID.
                compared &= !(layout.fields[0].mask() | any_port(layout, request, snapshot));
                snapshot_source(known, request, snapshot)?
            }
        };
        Ok(Open {
            request: *request,
            query: Query {
                layout: answered,
                filter: filter(request, answered, compared),
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
            number: 0,
        })
    }

    /// True if a requester asks for its own membership.
    fn asks_of_itself(&self, request: &Request, snapshot: &Snapshot, requester: u32) -> bool {
        use records::member::PORT_GID;
        let port = Gid(PORT_GID.wide(request.data()));
        let named = || self.registered.aliases.find(snapshot, port);
        request.mask() & PORT_GID.mask() != 0 && named().is_some_and(|(place, _)| place == requester)
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
                self.registered.aliases.find(snapshot, Gid(f::SGID.wide(data)))
            } else {
                let place = snapshot.by_lid(Lid(f::SLID.get(data) as u16));
                place.and_then(|place| Some((place, snapshot.end(place)?.guid)))
            };
            let from = from.and_then(|(place, named)| Some((snapshot.end(place)?, named)));
            let row = self
                .registered
                .groups
                .path(snapshot, from.ok_or(Refusal::InvalidGid)?, dgid)?;
            return Ok(Source::Ready(Some(Box::new(row))));
        }
        let mut paths = Paths::of_path((snapshot, &self.registered.aliases), mask, data, requester)?;
        if !request.wants_table() {
            paths.only_first();
        }
        if paths.pairs(snapshot) > self.config.records_max {
            return Err(Refusal::NoResources);
        }
        Ok(Source::Paths(Box::new(paths)))
    }

    /// Performs a Set or Delete and answers it.
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
            aliases,
            ..
        } = &mut self.registered;
        let config = &self.config;
        if !self.standbys.has_room() {
            return Err(Refusal::Busy);
        }
        let mut events = Vec::new();
        let record = match (request.mad.method(), layout.id) {
            (Method::Set, id) if id == records::SERVICE.id => services.set(config, (snapshot, aliases), who, what)?,
            (_, id) if id == records::SERVICE.id => services.delete(who, what)?,
            (Method::Set, id) if id == records::INFORM_INFO.id => {
                subscriptions.set(config, who, request.from, what.1)?
            }
            (method, id) if id == records::MEMBER.id => {
                // All groups are examined to count those that the port has joined. This costs less than examining rows.
                let looked_at = u32::try_from(groups.by_mlid.len() / 8).unwrap_or(u32::MAX);
                self.limits.charge(config, request.from.lid, looked_at);
                let changed = match method {
                    Method::Set => groups.join((config, snapshot, aliases), who, what)?,
                    _ => groups.leave((snapshot, aliases), who, what)?,
                };
                events.extend(changed.event);
                changed.record
            }
            (method, id) if id == records::GUID_INFO.id => {
                let changed = match method {
                    Method::Set => aliases.set((config, snapshot), who, what)?,
                    _ => {
                        let looked_at = u32::try_from(groups.by_mlid.len() / 8).unwrap_or(u32::MAX);
                        self.limits.charge(config, request.from.lid, looked_at);
                        aliases.delete((snapshot, groups), who, what)?
                    }
                };
                if !changed.gone.is_empty() {
                    let ended = groups.keep(|guid| !changed.gone.contains(&guid));
                    events.extend(ended.into_iter().map(|mgid| (member::DELETED, mgid)));
                }
                changed.record
            }
            _ => return Err(Refusal::BadAttribute),
        };
        self.revision += 1;
        let mut mad = request.answer(Status::OK, layout.offset());
        *mad.sa_data_mut() = record;
        self.standbys.answer(self.now, send(request.reply(mad)), out);
        for (number, mgid) in events {
            let issuer = self.issuer();
            self.tell(&Event::of_gid(number, issuer, mgid), out);
        }
        Ok(())
    }
}

/// This project's own tables, which contain data of ports that other hosts must not see, with their rows.
const FOR_STANDBYS: [(AttributeId, Advance); 4] = [
    (records::FORGOTTEN.id, forgotten::rows),
    (records::ALIAS.id, alias::rows),
    (records::OUT_OF_SERVICE.id, out_of_service::rows),
    (records::JOBS.id, jobs::rows),
];

fn is_for_standbys(id: AttributeId) -> bool {
    FOR_STANDBYS.iter().any(|(known, _)| *known == id)
}

/// Returns the rows of a table for standbys.
fn for_standbys(id: AttributeId, is_trusted: bool) -> Result<Advance, Refusal> {
    let found = FOR_STANDBYS.iter().find(|(known, _)| *known == id);
    let rows = found.map(|(_, rows)| *rows).ok_or(Refusal::BadAttribute)?;
    is_trusted.then_some(rows).ok_or(Refusal::Denied)
}

/// Returns the filter for rows: compared components must be equal. Bit 31 of the attribute modifier changes that for
/// PortInfoRecords: a port may have more capabilities than requested. Source: IBA vol 1 §15.2.5.3, as implemented by
/// OpenSM (`osm_sa_portinfo_record.c`).
fn filter(request: &Request, layout: &Layout, compared: u64) -> Filter {
    use records::port_info as f;
    let is_bitwise = layout.id == records::PORT_INFO.id && request.mad.modifier() >> 31 == 1;
    let masks = [f::CAPABILITIES, f::CAPABILITIES2];
    let asked = masks
        .into_iter()
        .filter(|field| is_bitwise && compared & field.mask() != 0);
    let equal = asked.clone().fold(compared, |equal, field| equal & !field.mask());
    let filter = Filter::new(layout, equal, request.data());
    asked.fold(filter, |filter, field| filter.and_bits(field, request.data()))
}

/// Returns the mask of the port number, if an arbitration table is queried by a host's LID: a host has one port, so any
/// number matches. Source: OpenSM and osmtest.
fn any_port(layout: &Layout, request: &Request, snapshot: &Snapshot) -> u64 {
    let lid = layout.fields[0];
    let place = snapshot.by_lid(Lid(lid.get(request.data()) as u16));
    let end = place.and_then(|place| snapshot.end(place));
    let is_host = request.mask() & lid.mask() != 0 && end.is_some_and(|end| !end.is_switch);
    match is_host && layout.id == records::VL_ARBITRATION.id {
        true => records::vl_arbitration::OUT_PORT.mask(),
        false => 0,
    }
}

/// Returns the rows of a table of the snapshot, either for all end ports or for the one with the requested LID.
fn snapshot_source(table: &Table, request: &Request, snapshot: &Snapshot) -> Result<Source, Refusal> {
    if table.trusted_only && !request.trusted {
        return Err(Refusal::Denied);
    }
    let lid = table.layout.fields[0];
    let place = (request.mask() & lid.mask() != 0).then(|| snapshot.by_lid(Lid(lid.get(request.data()) as u16)));
    let (outer, end) = match place {
        None => (0, u64::from(snapshot.end_count())),
        Some(Some(place)) => (u64::from(place), u64::from(place) + 1),
        Some(None) => (0, 0),
    };
    Ok(Source::Table {
        advance: table.advance,
        cursor: Cursor { outer, inner: 0 },
        end,
    })
}
