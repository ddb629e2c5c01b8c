//! Alarms: reported to operators, handed to health, shown, acknowledged.

use std::collections::BTreeMap;

use selvedge_api as api;
use selvedge_api::{AlarmAction, AlarmQuery, AlarmRequest, Error, ErrorKind, Severity};
use selvedge_telemetry::alarm::{Alarm, AlarmId, AlarmIn, AlarmNews, Level};
use selvedge_telemetry::{End, Inventory, Wall};
use selvedge_types::Guid;

use super::history::alarms::resumed;
use super::meaning::State;
use super::{others, place};
use crate::clock::Clock;
use crate::shared::Shared;

/// News of one kind that are reported one by one; the others are counted.
const NAMED: usize = 8;

/// Reports news, the gravest first, and hands the alarms to health. The state stays locked meanwhile, so that health
/// gets them in order.
pub(super) fn publish(shared: &Shared, state: &State, inventory: &Inventory, news: &[AlarmNews]) {
    shared.take_alarms(state.alarms.facts(inventory));
    news.iter().for_each(|news| shared.telemetry.alarmed(news));
    shared.telemetry.store.take_alarms(shared.clock, news);
    let now = shared.clock.now();
    let mut by_code: BTreeMap<&str, Vec<&AlarmNews>> = BTreeMap::new();
    for news in news {
        by_code.entry(news.code()).or_default().push(news);
    }
    for (code, mut news) in by_code {
        news.sort_by_key(|news| std::cmp::Reverse(news.alarm().level));
        for news in news.iter().take(NAMED) {
            let severity = match (news, news.alarm().level) {
                (AlarmNews::Cleared(..) | AlarmNews::Acknowledged(_), _) | (_, Level::Info) => Severity::Info,
                (_, Level::Warning) => Severity::Warning,
                (_, Level::Critical) => Severity::Error,
            };
            shared.event(now, severity, code, &text(news, inventory));
        }
        if let Some(text) = others(news.len(), NAMED, "alarms' lists them") {
            shared.event(now, Severity::Info, code, &text);
        }
    }
}

/// Returns the text of news without its code, with the names of nodes in front of their GUIDs.
fn text(news: &AlarmNews, inventory: &Inventory) -> String {
    let whole = news.to_string();
    let mut text = whole.strip_prefix(news.code()).unwrap_or(&whole).to_owned();
    let alarm = news.alarm();
    let nodes = [Some(alarm.id.at.node), alarm.peer.map(|peer| peer.node)];
    for guid in nodes.into_iter().flatten() {
        if let Some(node) = inventory.nodes.get(&guid) {
            let guid = guid.to_string();
            text = text.replace(&guid, &format!("\"{}\" ({guid})", node.description));
        }
    }
    text.trim_start_matches([':', ' ']).to_owned()
}

/// Returns the alarms that a query asks for.
pub(crate) fn list(shared: &Shared, query: &AlarmQuery) -> Result<api::Alarms, Error> {
    if !query.cleared {
        return in_force(shared, query);
    }
    let (from_ms, to_ms) = query.range.ends(shared.clock.unix_ns() / 1_000_000)?;
    let wall = |ms: u64| Wall(ms.saturating_mul(1_000_000));
    let ended = shared.telemetry.store.ended_alarms(wall(from_ms), wall(to_ms))?;
    // A standby shows what ended while it was master.
    let inventory = shared.telemetry.snapshot().inventory;
    let is_master = shared.telemetry.sampled().is_ok();
    let mut all = if is_master {
        in_force(shared, query)?
    } else {
        api::Alarms::default()
    };
    let node = query
        .node
        .as_deref()
        .map(|name| node_ever(&inventory, name))
        .transpose()?;
    let ended = ended.iter().filter_map(|stored| {
        let (alarm, (at, why)) = (resumed(stored), stored.cleared?);
        let is_wanted = node.is_none_or(|node| is_at(&alarm, node, None)) && query.has_level(alarm.level.name());
        (is_wanted && !(query.open && alarm.ack.is_some())).then(|| api::Alarm {
            cleared: Some(api::AlarmCleared {
                at_ms: at.0 / 1_000_000,
                why: why.name().to_owned(),
            }),
            ..shown(&alarm, &inventory, shared.clock)
        })
    });
    all.alarms.extend(ended);
    all.alarms.truncate(limit(query));
    Ok(all)
}

fn limit(query: &AlarmQuery) -> usize {
    let limit = query.limit.and_then(|limit| usize::try_from(limit).ok());
    limit.unwrap_or(usize::MAX)
}

/// Returns the alarms in force that a query asks for.
fn in_force(shared: &Shared, query: &AlarmQuery) -> Result<api::Alarms, Error> {
    let inventory = shared.telemetry.sampled()?.inventory;
    let node = query
        .node
        .as_deref()
        .map(|name| match query.cleared {
            true => node_ever(&inventory, name),
            false => node_named(&inventory, name),
        })
        .transpose()?;
    let state = shared.telemetry.meaning.lock();
    let mut all = api::Alarms::default();
    let mut chosen: Vec<&Alarm> = Vec::new();
    for alarm in state.alarms.alarms() {
        match alarm.level {
            Level::Critical => all.critical += 1,
            Level::Warning => all.warning += 1,
            Level::Info => all.info += 1,
        }
        all.acknowledged += u64::from(alarm.ack.is_some());
        let is_at = node.is_none_or(|node| is_at(alarm, node, None));
        if is_at && query.has_level(alarm.level.name()) && !(query.open && alarm.ack.is_some()) {
            chosen.push(alarm);
        }
    }
    chosen.sort_by_key(|alarm| std::cmp::Reverse((alarm.level, alarm.since)));
    chosen.truncate(limit(query));
    let shown = chosen.into_iter().map(|alarm| shown(alarm, &inventory, shared.clock));
    all.alarms = shown.collect();
    Ok(all)
}

/// Acknowledges or clears alarms. Returns those that were meant, as they are, or were.
pub(crate) fn change(shared: &Shared, request: &AlarmRequest) -> Result<api::Alarms, Error> {
    let inventory = shared.telemetry.sampled()?.inventory;
    if request.node.is_none() && (!request.all || request.port.is_some()) {
        let what = "no node is named: give node, or all for the alarms of all nodes";
        return Err(ErrorKind::BadRequest.error(what));
    }
    let node = request
        .node
        .as_deref()
        .map(|name| node_named(&inventory, name))
        .transpose()?;
    let mut state = shared.telemetry.meaning.lock();
    let is_meant = |alarm: &&Alarm| {
        let about = request.about.as_deref();
        node.is_none_or(|node| is_at(alarm, node, request.port))
            && about.is_none_or(|about| alarm.id.subject.name().eq_ignore_ascii_case(about))
    };
    let meant: Vec<Alarm> = state.alarms.alarms().filter(is_meant).cloned().collect();
    if meant.is_empty() {
        let about = request
            .about
            .as_ref()
            .map_or_else(String::new, |about| format!(" about {about}"));
        let what = format!("there is no such alarm{about}: 'selvedge telemetry alarms' lists what there is");
        return Err(ErrorKind::NoSuchPlace.error(what));
    }
    let mut news = Vec::new();
    let now = shared.clock.now();
    for alarm in &meant {
        let id = alarm.id;
        let (by, note) = (request.by.clone(), request.note.clone());
        let input = match request.action {
            AlarmAction::Acknowledge => AlarmIn::Acknowledge { id, by, note },
            AlarmAction::Clear => AlarmIn::Clear(id),
        };
        state.alarms.handle(now, input, &mut news);
    }
    publish(shared, &state, &inventory, &news);
    let present: BTreeMap<AlarmId, &Alarm> = state.alarms.alarms().map(|alarm| (alarm.id, alarm)).collect();
    let alarms = meant.iter().map(|was| {
        let alarm = present.get(&was.id).copied().unwrap_or(was);
        shown(alarm, &inventory, shared.clock)
    });
    Ok(api::Alarms {
        alarms: alarms.collect(),
        ..api::Alarms::default()
    })
}

/// Returns a node that is in the fabric, or the GUID that is given: the node may have left.
fn node_ever(inventory: &Inventory, name: &str) -> Result<Guid, Error> {
    node_named(inventory, name).or_else(|error| name.parse().map_err(|_| error))
}

fn node_named(inventory: &Inventory, name: &str) -> Result<Guid, Error> {
    place::node(inventory, name).map(|(guid, _)| guid)
}

/// True if an alarm is of a node, and of a port if one is named, at either end of its link.
fn is_at(alarm: &Alarm, node: Guid, port: Option<u8>) -> bool {
    let ends = [Some(alarm.id.at), alarm.peer];
    let mut ends = ends.into_iter().flatten();
    ends.any(|end| end.node == node && port.is_none_or(|port| end.port == port))
}

fn shown(alarm: &Alarm, inventory: &Inventory, clock: Clock) -> api::Alarm {
    let unix_ms = |time| clock.unix_ms(time);
    api::Alarm {
        level: alarm.level.name().to_owned(),
        about: alarm.id.subject.name().to_owned(),
        port: end(alarm.id.at, inventory),
        peer: alarm.peer.map(|peer| end(peer, inventory)),
        since_ms: alarm.since.unix_ms(unix_ms),
        last_ms: alarm.last.unix_ms(unix_ms),
        evidence: alarm.evidence.clone(),
        clears: alarm.clears.clone(),
        advice: alarm.id.subject.advice().to_owned(),
        acknowledged: alarm.ack.as_ref().map(|ack| api::Acknowledged {
            at_ms: ack.at.unix_ms(unix_ms),
            by: ack.by.clone(),
            note: ack.note.clone(),
        }),
        cleared: None,
    }
}

/// Returns an end of a link with the name of its node.
pub(super) fn end(end: End, inventory: &Inventory) -> api::End {
    let node = inventory.nodes.get(&end.node);
    api::End {
        node_guid: end.node,
        node_name: node.map_or_else(String::new, |node| node.description.clone()),
        port: end.port,
    }
}
