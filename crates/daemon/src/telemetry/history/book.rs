//! Events and versions of the topology, on their way to the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use selvedge_api::{self as api, Topology, TopologyLink, TopologyNode, links};
use selvedge_fabric::Fabric;
use selvedge_health::Since;
use selvedge_history::{Database, Entry, HistoryError, Severity, Subject, Topology as Version};
use selvedge_sim::Time;
use selvedge_telemetry::Wall;

use super::Store;
use crate::shared::Shared;

/// How often the topology is compared with the last one. A version is stored if it was the same twice: a link that goes
/// up and down is in the events.
const LOOK: Duration = Duration::from_secs(60);
/// How often old rows are removed.
const PRUNE: Duration = Duration::from_secs(3_600);

/// What was stored last.
pub(super) struct Book {
    /// Number of the last event that is stored.
    last_event: u64,
    keep: Duration,
    pruned: Instant,
    looked: Option<Instant>,
    /// Evidence of alarms until then is stored.
    alarms_until: Time,
    /// The topology at the last comparison, and its digest.
    seen: Option<(Arc<Fabric>, String)>,
    /// Digest of the last version that was handed to the database.
    stored: Option<String>,
}

impl Book {
    pub(super) fn new(keep: Duration) -> Self {
        Self {
            last_event: 0,
            keep,
            pruned: Instant::now(),
            looked: None,
            alarms_until: Time::ZERO,
            seen: None,
            stored: None,
        }
    }

    /// Stores what is new.
    pub(super) fn turn(&mut self, shared: &Shared) {
        let written = self.write(shared);
        let store = &shared.telemetry.store;
        if let Err(error) = &written
            && error.is_full()
        {
            self.make_room(shared);
        }
        let Some(written) = written.map(|is_new| is_new.then_some(())).transpose() else {
            return;
        };
        let why = written.err().map(|error| error.to_string());
        if let Some(why) = store.note(|troubles| troubles.events = why) {
            shared.history_stopped(why);
        }
    }

    /// Stores the last events.
    pub(super) fn end(&mut self, shared: &Shared) {
        self.refresh_alarms(shared);
        let _ = self.write_events(shared);
        let _ = shared.telemetry.store.write_alarms();
    }

    /// Stores what is new; false if nothing is.
    fn write(&mut self, shared: &Shared) -> Result<bool, HistoryError> {
        let mut is_new = self.write_events(shared)?;
        is_new |= shared.telemetry.store.write_alarms()?;
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            self.refresh_alarms(shared);
            is_new |= self.look(shared)?;
        }
        if self.pruned.elapsed() >= PRUNE {
            self.pruned = Instant::now();
            let before = before(shared, self.keep);
            ask(&shared.telemetry.store, |database| database.prune(before))?;
        }
        Ok(is_new)
    }

    /// Hands on the alarms that had evidence since the last time. What else happens to them is handed on at once.
    fn refresh_alarms(&mut self, shared: &Shared) {
        let state = shared.telemetry.meaning.lock();
        let from = Since::Run(std::mem::replace(&mut self.alarms_until, shared.clock.now()));
        let alarms = state.alarms.alarms().filter(|alarm| alarm.last >= from);
        // None of them ends before it is handed on.
        shared.telemetry.store.refresh_alarms(shared.clock, alarms);
    }

    fn write_events(&mut self, shared: &Shared) -> Result<bool, HistoryError> {
        if shared.events.last() == self.last_event {
            return Ok(false);
        }
        let found = shared.events.since(self.last_event);
        let entries: Vec<Entry> = found.events.iter().map(entry).collect();
        let store = &shared.telemetry.store;
        let added = ask(store, |database| database.add_events(&entries))?;
        if added.is_some() {
            self.last_event = found.last;
            store.events.fetch_add(entries.len() as u64, Ordering::Relaxed);
        }
        Ok(added.is_some())
    }

    /// Stores a version of the topology if it differs from the last stored one and was the same in two calls in a row.
    fn look(&mut self, shared: &Shared) -> Result<bool, HistoryError> {
        let (view, _) = shared.view();
        let Some(fabric) = view.fabric.as_ref().filter(|_| view.plan.is_some()) else {
            return Ok(false);
        };
        let is_same = self.seen.as_ref().is_some_and(|(seen, _)| Arc::ptr_eq(seen, fabric));
        let (digest, body) = match &self.seen {
            Some((_, digest)) if is_same && self.stored.as_ref() == Some(digest) => return Ok(false),
            _ => digest(&topology(&shared.names.apply(fabric))),
        };
        // The first one is stored at once.
        let has_stayed = self.seen.as_ref().is_none_or(|(_, seen)| *seen == digest);
        self.seen = Some((Arc::clone(fabric), digest.clone()));
        if !has_stayed || self.stored.as_ref() == Some(&digest) {
            return Ok(false);
        }
        let version = Version {
            at: Wall(shared.clock.unix_ns()),
            digest: digest.clone(),
            body,
        };
        let added = ask(&shared.telemetry.store, |database| database.add_topology(&version))?;
        self.stored = added.map(|_| digest);
        Ok(added.is_some())
    }

    /// Removes the older half if the database is as long as it may be. If the disk is full, nothing is removed.
    fn make_room(&mut self, shared: &Shared) {
        let store = &shared.telemetry.store;
        let Some(place) = &store.place else { return };
        let limit = place.config.files_bytes_max / super::DATABASE_PART;
        let len = std::fs::metadata(place.folder.join(Database::NAME)).map_or(0, |about| about.len());
        if len >= limit - limit / 16 {
            self.keep /= 2;
            let before = before(shared, self.keep);
            let _ = ask(store, |database| database.prune(before));
        }
    }
}

/// Asks the database; `None` if there is none.
fn ask<T>(store: &Store, act: impl FnOnce(&Database) -> Result<T, HistoryError>) -> Result<Option<T>, HistoryError> {
    store.database(act).transpose()
}

fn before(shared: &Shared, keep: Duration) -> Wall {
    let keep_ns = u64::try_from(keep.as_nanos()).unwrap_or(u64::MAX);
    Wall(shared.clock.unix_ns().saturating_sub(keep_ns))
}

fn entry(event: &api::Event) -> Entry {
    Entry {
        at: Wall(event.time_ms.saturating_mul(1_000_000)),
        code: event.code.clone(),
        severity: match event.severity {
            api::Severity::Info => Severity::Info,
            api::Severity::Warning => Severity::Warning,
            api::Severity::Error => Severity::Critical,
        },
        subject: Subject::default(),
        text: event.text.clone(),
    }
}

/// Returns the nodes and links of a fabric, in an order that does not depend on how they were found.
fn topology(fabric: &Fabric) -> Topology {
    let mut nodes: Vec<TopologyNode> = fabric
        .nodes()
        .iter()
        .map(|node| TopologyNode {
            guid: node.guid,
            kind: node.kind,
            name: node.description.clone(),
        })
        .collect();
    nodes.sort_by_key(|node| node.guid);
    let mut all: Vec<TopologyLink> = links(fabric)
        .links
        .into_iter()
        .map(|link| {
            let (a, b) = ((link.a.node_guid, link.a.port), (link.b.node_guid, link.b.port));
            TopologyLink {
                a: a.min(b),
                b: a.max(b),
                rate: link.rate,
            }
        })
        .collect();
    all.sort_by_key(|link| (link.a, link.b));
    Topology {
        at_ms: 0,
        nodes,
        links: all,
    }
}

/// Returns the digest and the bytes of a topology. The digest is FNV-1a with 64 bits, so every version of the program
/// computes the same.
fn digest(topology: &Topology) -> (String, Vec<u8>) {
    let body = serde_json::to_vec(topology).unwrap_or_default();
    let step = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let digest = body.iter().fold(0xCBF2_9CE4_8422_2325, step);
    (format!("{digest:016x}"), body)
}
