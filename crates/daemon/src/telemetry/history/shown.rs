//! Stored counters and events as the API shows them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use selvedge_api::{
    self as api, Error, ErrorKind, HistoryState, SeriesQuery, SliceQuery, StoredEvent, StoredEventQuery, StoredEvents,
    TelemetryGap, TelemetryHistory, TelemetryPoint, TelemetrySeries, TelemetrySlice, TelemetrySlicePort, Topology,
    TopologyQuery, TopologyVersion, TopologyVersions,
};
use selvedge_history::{Database, HistoryError, Mover, Point, PortsQuery, Question, Range, Series, Severity};
use selvedge_telemetry::{Group, Inventory, SampleKey, Wall};
use selvedge_types::{Guid, Rate};

use super::keeper::refusal;
use super::{Place, Stage, Store};
use crate::telemetry::counters::how;
use crate::telemetry::place::{self, Counter};
use crate::telemetry::state::Telemetry;

/// Most points of a series in an answer.
const POINTS_MAX: u64 = 20_000;
/// Counter that is meant if none is named.
const DEFAULT: &str = "xmit";
/// Events in an answer, unless the query has another limit.
const EVENTS_DEFAULT: u32 = 1_000;

/// What a question of all ports asks for.
enum Asked {
    /// The last totals.
    Last,
    /// Growth, the largest first.
    Growth,
}

impl Telemetry {
    /// Returns how storing goes.
    pub(crate) fn history(&self) -> TelemetryHistory {
        let store = &self.store;
        let mut shown = store.place.as_ref().map(of_place).unwrap_or_default();
        let mut troubles = store.troubles();
        match &*store.stage() {
            Stage::Off => {}
            Stage::Opening => shown.state = HistoryState::Opening,
            Stage::Refused(text) => {
                shown.state = HistoryState::Refused;
                troubles.counters = Some(text.clone());
            }
            Stage::Open(history) => {
                let (usage, counts) = (history.usage(), history.counts());
                let extent = history.extent();
                troubles.counters = history.stopped().map(str::to_owned);
                shown.state = match history.stopped() {
                    Some(_) => HistoryState::Stopped,
                    None => HistoryState::Storing,
                };
                shown.files = usage.files as u64;
                shown.bytes = usage.files_bytes + usage.journals_bytes;
                shown.oldest_ms = extent.map(|(oldest, _)| oldest / 1_000);
                shown.newest_ms = extent.map(|(_, newest)| newest / 1_000);
                shown.rows = counts.rows;
                shown.written_bytes = counts.written_bytes;
                shown.rows_lost = counts.lost_rows;
                shown.window_rows = usage.window_rows;
                shown.memory_bytes = (usage.window_bytes + usage.hour_bytes) as u64;
            }
        }
        shown.why = troubles.text();
        shown.events = store.events.load(Ordering::Relaxed);
        // What cannot be read now is shown as none.
        shown.topologies = store.versions().map_or(0, |versions| versions.len() as u64);
        shown
    }

    /// Returns a counter of a port over time. `now_ms` is the present time.
    pub(crate) fn series(&self, query: &SeriesQuery, now_ms: u64) -> Result<TelemetrySeries, Error> {
        let inventory = self.snapshot().inventory;
        let counter = Counter::of(query.counter.as_deref().unwrap_or(DEFAULT))?;
        let (node, node_name) = self.port(&inventory, &query.node, query.port)?;
        let (from_ms, to_ms) = query.range.ends(now_ms)?;
        let least = (to_ms - from_ms).div_ceil(query.points.unwrap_or(POINTS_MAX).min(POINTS_MAX));
        let step_ms = query.step_ms.unwrap_or(0).max(least);
        let ask = |(group, counter): (Group, usize)| {
            let question = Question {
                key: SampleKey {
                    node,
                    port: query.port,
                    group,
                },
                counter,
                range: range(from_ms, to_ms),
                step: (step_ms > 0).then(|| Duration::from_millis(step_ms)),
            };
            // The files are read without the lock.
            let prepared = self.store.ask(|history| history.prepare_series(&question))?;
            Ok(prepared.run())
        };
        let mut series = Series::default();
        for place in counter.places() {
            series = ask(place)?;
            if !series.points.is_empty() {
                break;
            }
        }
        let port = inventory.nodes.get(&node).and_then(|node| node.port(query.port));
        Ok(TelemetrySeries {
            node_guid: node,
            node_name,
            port: query.port,
            counter: counter.name(),
            unit: counter.unit().to_owned(),
            capacity_bytes_per_s: port.and_then(|port| port.rate).map(Rate::data_bytes_per_s),
            from_ms,
            to_ms,
            step_ms: (step_ms > 0).then_some(step_ms),
            points: series.points.iter().map(point).collect(),
            gaps: series
                .gaps
                .iter()
                .map(|(from, to)| TelemetryGap {
                    from_ms: from.at_us / 1_000,
                    to_ms: to.at_us / 1_000,
                })
                .collect(),
            unread: texts(&series.unread),
        })
    }

    /// Returns a counter of all ports at a time, or what it grew by in a range.
    pub(crate) fn slice(&self, query: &SliceQuery, now_ms: u64) -> Result<TelemetrySlice, Error> {
        let inventory = self.snapshot().inventory;
        let counter = Counter::of(query.counter.as_deref().unwrap_or(DEFAULT))?;
        let (asked, (from_ms, to_ms)) = match query.at_ms {
            Some(at_ms) => {
                let apart = u64::try_from(self.apart(&counter).as_millis()).unwrap_or(u64::MAX);
                (Asked::Last, (at_ms.saturating_sub(apart.saturating_sub(1)), at_ms))
            }
            None => (Asked::Growth, query.range.ends(now_ms)?),
        };
        let (mut ports, mut unread) = (Vec::new(), Vec::new());
        let mut known: BTreeSet<(Guid, u8)> = BTreeSet::new();
        for (group, number) in counter.places() {
            let span = range(from_ms, to_ms);
            let prepared = self.store.ask(|history| history.prepare_ports(group, number, span))?;
            let (found, failed) = rows(prepared, &asked);
            unread.extend(failed);
            ports.extend(found.into_iter().filter(|row| known.insert((row.node_guid, row.port))));
        }
        match asked {
            Asked::Last => ports.sort_by_key(|row| (row.node_guid, row.port)),
            Asked::Growth => ports.sort_by(|a, b| b.per_s.unwrap_or(0.0).total_cmp(&a.per_s.unwrap_or(0.0))),
        }
        let found = ports.len() as u64;
        ports.truncate(
            query
                .limit
                .and_then(|limit| usize::try_from(limit).ok())
                .unwrap_or(usize::MAX),
        );
        for row in &mut ports {
            row.node_name = name(&inventory, row.node_guid);
        }
        Ok(TelemetrySlice {
            counter: counter.name(),
            unit: counter.unit().to_owned(),
            from_ms,
            to_ms,
            found,
            ports,
            unread,
        })
    }

    /// Returns stored events, the latest first.
    pub(crate) fn stored_events(&self, query: &StoredEventQuery, now_ms: u64) -> Result<StoredEvents, Error> {
        let (from_ms, to_ms) = query.range.ends(now_ms)?;
        let least = match query.severity {
            None | Some(api::Severity::Info) => Severity::Info,
            Some(api::Severity::Warning) => Severity::Warning,
            Some(api::Severity::Error) => Severity::Critical,
        };
        let span = (wall(from_ms), wall(to_ms));
        let most = query.limit.unwrap_or(EVENTS_DEFAULT);
        let found = self.store.read(|database| database.events(span, least, most))?;
        let events = found.into_iter().map(|entry| StoredEvent {
            time_ms: entry.at.0 / 1_000_000,
            severity: match entry.severity {
                Severity::Info => api::Severity::Info,
                Severity::Warning => api::Severity::Warning,
                Severity::Critical => api::Severity::Error,
            },
            code: entry.code,
            text: entry.text,
        });
        Ok(StoredEvents {
            events: events.collect(),
        })
    }

    /// Returns the versions of the topology.
    pub(crate) fn topologies(&self) -> Result<TopologyVersions, Error> {
        let versions = self.store.versions()?.into_iter().map(|(at, digest)| TopologyVersion {
            at_ms: at.0 / 1_000_000,
            digest,
        });
        Ok(TopologyVersions {
            versions: versions.collect(),
        })
    }

    /// Returns the version of the topology that was in force at a time.
    pub(crate) fn topology(&self, query: TopologyQuery) -> Result<Topology, Error> {
        let at = query.at_ms.map_or(Wall(u64::MAX), wall);
        let found = self.store.read(|database| database.topology_at(at))?;
        let none = || ErrorKind::NotYet.error("no topology is stored of that time");
        let version = found.ok_or_else(none)?;
        let body = serde_json::from_slice(&version.body);
        let body: Topology = body.map_err(|cause| {
            let what = format!("the stored topology cannot be read: {cause}");
            ErrorKind::NoHistory.error(what)
        })?;
        Ok(Topology {
            at_ms: version.at.0 / 1_000_000,
            ..body
        })
    }

    /// Returns a port by its node's name or GUID. A node that has left the fabric may be named by its GUID.
    fn port(&self, inventory: &Inventory, name: &str, port: u8) -> Result<(Guid, String), Error> {
        match (place::node(inventory, name), name.parse()) {
            (Ok((_, node)), _) if node.port(port).is_none() => Err(place::no_port(name, node, port)),
            (Ok((guid, node)), _) => Ok((guid, node.description.clone())),
            (Err(_), Ok(guid)) => Ok((guid, String::new())),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Returns the distance of two stored rows of a counter.
    fn apart(&self, counter: &Counter) -> Duration {
        let groups: Vec<Group> = counter.places().into_iter().map(|(group, _)| group).collect();
        let classes = self.config().classes;
        let has = |class: &&selvedge_telemetry::SamplingClass| class.groups.iter().any(|group| groups.contains(group));
        let intervals = classes.iter().filter(has).map(|class| class.interval);
        let step = self.store.place.as_ref().map(|place| place.config.step);
        intervals.chain(step).max().unwrap_or_default()
    }
}

impl Store {
    /// Reads the database.
    pub(super) fn read<T>(&self, act: impl FnOnce(&Database) -> Result<T, HistoryError>) -> Result<T, Error> {
        let none = || ErrorKind::NoHistory.error("this process stores no events");
        let read = self.database(act).ok_or_else(none)?;
        read.map_err(|error| refusal(&error))
    }

    fn versions(&self) -> Result<Vec<(Wall, String)>, Error> {
        self.read(Database::topologies)
    }
}

fn of_place(place: &Place) -> TelemetryHistory {
    let config = &place.config;
    TelemetryHistory {
        folder: Some(place.folder.display().to_string()),
        fabric: Some(place.fabric.clone()),
        interval_ms: u64::try_from(config.step.as_millis()).unwrap_or(u64::MAX),
        keep_s: config.keep.as_secs(),
        limit_bytes: config.files_bytes_max,
        ..TelemetryHistory::default()
    }
}

const fn wall(ms: u64) -> Wall {
    Wall(ms.saturating_mul(1_000_000))
}

const fn range(from_ms: u64, to_ms: u64) -> Range {
    Range {
        from: wall(from_ms),
        to: wall(to_ms),
    }
}

fn name(inventory: &Inventory, node: Guid) -> String {
    let node = inventory.nodes.get(&node);
    node.map_or_else(String::new, |node| node.description.clone())
}

fn texts(errors: &[HistoryError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn point(point: &selvedge_history::SeriesPoint) -> TelemetryPoint {
    let Point { moment, total, .. } = point.point;
    TelemetryPoint {
        at_ms: moment.at_us / 1_000,
        epoch: moment.epoch,
        total,
        increase: point.increase,
        per_s: point.per_second,
        how: how(point.how).to_owned(),
    }
}

/// Reads the files of a question.
fn rows(prepared: PortsQuery, asked: &Asked) -> (Vec<TelemetrySlicePort>, Vec<String>) {
    let row = |key: SampleKey, point: Point, growth: Option<&Mover>| TelemetrySlicePort {
        node_guid: key.node,
        node_name: String::new(),
        port: key.port,
        at_ms: point.moment.at_us / 1_000,
        total: point.total,
        increase: growth.map(|growth| growth.increase),
        per_s: growth.map(|growth| growth.per_second),
    };
    match asked {
        Asked::Last => {
            let found = prepared.last();
            let ports = found.ports.into_iter().map(|(key, point)| row(key, point, None));
            (ports.collect(), texts(&found.unread))
        }
        Asked::Growth => {
            let found = prepared.top(usize::MAX);
            let ports = found.ports.iter().map(|mover| row(mover.key, mover.to, Some(mover)));
            (ports.collect(), texts(&found.unread))
        }
    }
}
