//! Stored counters: the store itself, one port over time, all ports at one time; stored events.

use selvedge_types::{Guid, NodeKind};
use serde::{Deserialize, Serialize};

use crate::{Body, Error, ErrorKind, Severity, query};

/// Whether counters are stored at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HistoryState {
    /// Not by this process: there is no folder, or no sampler, or `telemetry.history` is false.
    #[default]
    Off,
    /// Not yet: the folder is being opened.
    Opening,
    /// Yes.
    Storing,
    /// Not at present: the disk is full or fails. Samples are kept in memory, as long as they fit.
    Stopped,
    /// Not by this process: the folder was refused at the start.
    Refused,
}

impl std::fmt::Display for HistoryState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::Opening => "opening",
            Self::Storing => "storing",
            Self::Stopped => "stopped",
            Self::Refused => "refused",
        })
    }
}

/// The store of counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryHistory {
    /// Whether counters are stored.
    pub state: HistoryState,
    /// Why not, or what else is wrong with the store.
    pub why: Option<String>,
    /// The folder.
    pub folder: Option<String>,
    /// The fabric that the folder belongs to.
    pub fabric: Option<String>,
    /// The first sample of each interval of this length is stored.
    pub interval_ms: u64,
    /// How long samples are kept.
    pub keep_s: u64,
    /// Room for the files.
    pub limit_bytes: u64,
    /// Complete hours: Parquet files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Begin of the oldest hour, in milliseconds since 1970-01-01 UTC.
    pub oldest_ms: Option<u64>,
    /// The last slot that is stored.
    pub newest_ms: Option<u64>,
    /// Rows that were stored since the start. A row is one port and one attribute in one slot.
    pub rows: u64,
    /// Bytes that were written since the start.
    pub written_bytes: u64,
    /// Rows that were lost since the start, because the disk was full for long or rows came late.
    pub rows_lost: u64,
    /// Every sample of the last hour is in memory, if it fits: rows.
    pub window_rows: u64,
    /// Memory of the window and of hours in progress.
    pub memory_bytes: u64,
    /// Events that were stored since the start.
    pub events: u64,
    /// Versions of the topology that are stored.
    pub topologies: u64,
}

impl Body for TelemetryHistory {
    const SCHEMA: &'static str = "selvedge.telemetry_history";
}

/// A counter of a port over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TelemetrySeries {
    /// GUID of the node.
    pub node_guid: Guid,
    /// Name of the node; empty if the node is not in the fabric.
    pub node_name: String,
    /// Number of the port.
    pub port: u8,
    /// Name of the counter in the standard.
    pub counter: String,
    /// What the counter counts: `4-byte words`, `packets`, `ticks` or `events`.
    pub unit: String,
    /// What the link carries in one direction.
    pub capacity_bytes_per_s: Option<u64>,
    /// Begin of the range, in milliseconds since 1970-01-01 UTC.
    pub from_ms: u64,
    /// Its end.
    pub to_ms: u64,
    /// The first slot of each interval of this length is shown; none: every slot that is known.
    pub step_ms: Option<u64>,
    /// Points in order of time.
    pub points: Vec<TelemetryPoint>,
    /// Times between which slots are missing.
    pub gaps: Vec<TelemetryGap>,
    /// Files that could not be read. Their hours are missing.
    pub unread: Vec<String>,
}

impl Body for TelemetrySeries {
    const SCHEMA: &'static str = "selvedge.telemetry_series";
}

/// A counter in a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TelemetryPoint {
    /// Begin of the slot, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// How often slots were numbered anew by then, because the clock was set back.
    pub epoch: u32,
    /// The total.
    pub total: u64,
    /// Growth of the total since the point before.
    pub increase: Option<u64>,
    /// The growth in a second; none where the clock was set back.
    pub per_s: Option<f64>,
    /// How the total is known: `read`, `unchanged`, `derived` or `down`.
    pub how: String,
}

/// A time without slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryGap {
    /// The last slot before the gap.
    pub from_ms: u64,
    /// The first slot after the gap.
    pub to_ms: u64,
}

/// A counter of all ports at one time, or what it grew by in a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TelemetrySlice {
    /// Name of the counter in the standard.
    pub counter: String,
    /// What the counter counts.
    pub unit: String,
    /// Begin of the range, in milliseconds since 1970-01-01 UTC.
    pub from_ms: u64,
    /// Its end.
    pub to_ms: u64,
    /// Ports that have a value, listed or not.
    pub found: u64,
    /// The ports.
    pub ports: Vec<TelemetrySlicePort>,
    /// Files that could not be read. Their hours are missing.
    pub unread: Vec<String>,
}

impl Body for TelemetrySlice {
    const SCHEMA: &'static str = "selvedge.telemetry_slice";
}

/// A counter of a port at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TelemetrySlicePort {
    /// GUID of the node.
    pub node_guid: Guid,
    /// Name of the node; empty if the node is not in the fabric.
    pub node_name: String,
    /// Number of the port.
    pub port: u8,
    /// Begin of the last slot in the range, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// The total in the last slot.
    pub total: u64,
    /// Growth of the total in the range; none if a time was asked for, or if the range has one slot only.
    pub increase: Option<u64>,
    /// The growth in a second.
    pub per_s: Option<f64>,
}

/// Stored events, the latest first. They are of this and of earlier processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvents {
    /// The events.
    pub events: Vec<StoredEvent>,
}

impl Body for StoredEvents {
    const SCHEMA: &'static str = "selvedge.stored_events";
}

/// A stored event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// When the event happened, in milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// Severity of the event.
    pub severity: Severity,
    /// Code of the event.
    pub code: String,
    /// Text of the event, without the code.
    pub text: String,
}

/// Versions of the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyVersions {
    /// The versions, the oldest first.
    pub versions: Vec<TopologyVersion>,
}

impl Body for TopologyVersions {
    const SCHEMA: &'static str = "selvedge.topology_versions";
}

/// When a version of the topology began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyVersion {
    /// Begin of the version, in milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
    /// Digest of the topology: two versions in a row have different digests.
    pub digest: String,
}

/// Nodes and links: a version of the topology as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Begin of the version, in milliseconds since 1970-01-01 UTC. Not stored with the topology.
    #[serde(default)]
    pub at_ms: u64,
    /// The nodes, in order of their GUIDs.
    pub nodes: Vec<TopologyNode>,
    /// The links, in order of their ends.
    pub links: Vec<TopologyLink>,
}

impl Body for Topology {
    const SCHEMA: &'static str = "selvedge.topology";
}

/// A node of a stored topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyNode {
    /// GUID of the node.
    pub guid: Guid,
    /// Kind of the node.
    pub kind: NodeKind,
    /// Name of the node.
    pub name: String,
}

/// A link of a stored topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyLink {
    /// GUID and port of one end.
    pub a: (Guid, u8),
    /// The other end.
    pub b: (Guid, u8),
    /// Width and speed, as `4xHDR`.
    pub rate: Option<String>,
}

/// A range of time. Each parameter that is left out has a default: the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// Begin of the range, in milliseconds since 1970-01-01 UTC.
    pub from_ms: Option<u64>,
    /// End of the range, in milliseconds since 1970-01-01 UTC; none: now.
    pub to_ms: Option<u64>,
}

impl TimeRange {
    /// Milliseconds of the range that is meant without a begin.
    const DEFAULT_MS: u64 = 3_600_000;

    /// Returns begin and end. `now_ms` is the present time.
    pub fn ends(&self, now_ms: u64) -> Result<(u64, u64), Error> {
        let to = self.to_ms.unwrap_or(now_ms);
        let from = self.from_ms.unwrap_or(to.saturating_sub(Self::DEFAULT_MS));
        match from <= to {
            true => Ok((from, to)),
            false => Err(ErrorKind::BadRequest.error(format!("from_ms={from} is after to_ms={to}"))),
        }
    }

    /// Takes a parameter; false: it is another one.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let field = match name {
            "from_ms" => &mut self.from_ms,
            "to_ms" => &mut self.to_ms,
            _ => return Ok(false),
        };
        *field = Some(query::parse(name, value, "milliseconds since 1970-01-01 UTC")?);
        Ok(true)
    }

    pub(crate) fn written(&self) -> Vec<(String, String)> {
        query::written([
            ("from_ms", self.from_ms.map(|ms| ms.to_string())),
            ("to_ms", self.to_ms.map(|ms| ms.to_string())),
        ])
    }
}

/// One port over time: the query of `GET /api/v1/telemetry/history/series`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeriesQuery {
    /// Name or GUID of the node.
    pub node: String,
    /// Number of the port.
    pub port: u8,
    /// The counter: a name in the standard, or `xmit`, `rcv`, `wait`. None: `xmit`.
    pub counter: Option<String>,
    /// From when to when.
    pub range: TimeRange,
    /// The first slot of each interval of this length is returned.
    pub step_ms: Option<u64>,
    /// Most points in the answer, unless `step_ms` is given.
    pub points: Option<u64>,
}

impl SeriesQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        let query = query::read(parameters, Self::take)?;
        match query.node.is_empty() || query.port == 0 {
            true => Err(ErrorKind::BadRequest.error("node or port is missing: give both, as node=leaf-1&port=7")),
            false => Ok(query),
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let positive = |want: &str| {
            let number = query::parse::<u64>(name, value, want)?;
            match number {
                0 => Err(format!("{name}=0: want {want}")),
                number => Ok(Some(number)),
            }
        };
        match name {
            "node" => value.clone_into(&mut self.node),
            "port" => self.port = query::parse(name, value, "the number of a port, 1 to 254")?,
            "counter" => self.counter = Some(value.to_owned()),
            "step_ms" => self.step_ms = positive("milliseconds, at least 1")?,
            "points" => self.points = positive("a number of points, at least 1")?,
            name if self.range.take(name, value)? => {}
            other => {
                let known = "there are node, port, counter, from_ms, to_ms, step_ms and points";
                return Err(format!("stored counters have no parameter '{other}': {known}"));
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let mut all = query::written([
            ("node", Some(self.node.clone())),
            ("port", Some(self.port.to_string())),
            ("counter", self.counter.clone()),
            ("step_ms", self.step_ms.map(|ms| ms.to_string())),
            ("points", self.points.map(|points| points.to_string())),
        ]);
        all.extend(self.range.written());
        all
    }
}

/// All ports: the query of `GET /api/v1/telemetry/history/ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceQuery {
    /// The counter: a name in the standard, or `xmit`, `rcv`, `wait`. None: `xmit`.
    pub counter: Option<String>,
    /// The totals at this time are wanted, and not the growth in a range.
    pub at_ms: Option<u64>,
    /// From when to when; ports are in order of their growth.
    pub range: TimeRange,
    /// How many ports are listed at most.
    pub limit: Option<u64>,
}

impl SliceQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        let query: Self = query::read(parameters, Self::take)?;
        match query.at_ms.is_some() && query.range != TimeRange::default() {
            true => Err(ErrorKind::BadRequest.error("at_ms goes without from_ms and to_ms: ask for a time or a range")),
            false => Ok(query),
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "counter" => self.counter = Some(value.to_owned()),
            "at_ms" => self.at_ms = Some(query::parse(name, value, "milliseconds since 1970-01-01 UTC")?),
            "limit" => self.limit = Some(query::parse(name, value, "a number of ports")?),
            name if self.range.take(name, value)? => {}
            other => {
                let known = "there are counter, at_ms, from_ms, to_ms and limit";
                return Err(format!("stored counters have no parameter '{other}': {known}"));
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let mut all = query::written([
            ("counter", self.counter.clone()),
            ("at_ms", self.at_ms.map(|ms| ms.to_string())),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ]);
        all.extend(self.range.written());
        all
    }
}

/// Stored events: the query of `GET /api/v1/telemetry/history/events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredEventQuery {
    /// From when to when.
    pub range: TimeRange,
    /// Only events of this severity or a higher one.
    pub severity: Option<Severity>,
    /// How many are listed at most.
    pub limit: Option<u32>,
}

impl StoredEventQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        query::read(parameters, Self::take)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "severity" => self.severity = Some(value.parse()?),
            "limit" => self.limit = Some(query::parse(name, value, "a number of events")?),
            name if self.range.take(name, value)? => {}
            other => {
                let known = "there are severity, from_ms, to_ms and limit";
                return Err(format!("stored events have no parameter '{other}': {known}"));
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let mut all = query::written([
            ("severity", self.severity.map(|severity| severity.to_string())),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ]);
        all.extend(self.range.written());
        all
    }
}

/// A version of the topology: the query of `GET /api/v1/telemetry/history/topology`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopologyQuery {
    /// The version in force at this time, in milliseconds since 1970-01-01 UTC; none: the last one.
    pub at_ms: Option<u64>,
}

impl TopologyQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        query::read(parameters, |query: &mut Self, name, value| match name {
            "at_ms" => {
                query.at_ms = Some(query::parse(name, value, "milliseconds since 1970-01-01 UTC")?);
                Ok(())
            }
            other => Err(format!("a topology has no parameter '{other}': there is at_ms")),
        })
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        query::written([("at_ms", self.at_ms.map(|ms| ms.to_string()))])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn queries_come_back_from_their_parameters() {
        let range = TimeRange {
            from_ms: Some(5),
            to_ms: Some(9),
        };
        let series = SeriesQuery {
            node: "leaf 1".to_owned(),
            port: 7,
            counter: Some("PortXmitWait".to_owned()),
            range,
            step_ms: Some(60_000),
            points: Some(300),
        };
        assert_eq!(SeriesQuery::of(&series.parameters()), Ok(series));
        let slice = SliceQuery {
            counter: Some("rcv".to_owned()),
            at_ms: None,
            range,
            limit: Some(20),
        };
        assert_eq!(SliceQuery::of(&slice.parameters()), Ok(slice));
        let events = StoredEventQuery {
            range,
            severity: Some(Severity::Warning),
            limit: Some(3),
        };
        assert_eq!(StoredEventQuery::of(&events.parameters()), Ok(events));
        assert_eq!(
            TopologyQuery::of(&pairs("at_ms=4")),
            Ok(TopologyQuery { at_ms: Some(4) })
        );
    }

    #[test]
    fn wrong_queries_are_refused() {
        let check = |error: Option<Error>, want: &str| {
            let error = error.unwrap();
            assert!(error.code == "SLV-API-0002" && error.message.contains(want), "{error}");
        };
        for (text, want) in [
            ("node=leaf", "port is missing"),
            ("port=3", "node or port is missing"),
            ("node=leaf&port=300", "want the number of a port"),
            ("node=leaf&port=1&step_ms=0", "want milliseconds, at least 1"),
            ("node=leaf&port=1&points=few", "want a number of points"),
            ("node=leaf&port=1&from=3", "there are node, port, counter"),
        ] {
            check(SeriesQuery::of(&pairs(text)).err(), want);
        }
        check(SliceQuery::of(&pairs("at_ms=3&to_ms=4")).err(), "a time or a range");
        check(SliceQuery::of(&pairs("at=3")).err(), "there are counter, at_ms");
        check(StoredEventQuery::of(&pairs("severity=loud")).err(), "want info");
        check(StoredEventQuery::of(&pairs("limit=all")).err(), "a number of events");
        check(TopologyQuery::of(&pairs("at=1")).err(), "there is at_ms");
    }

    #[test]
    fn a_range_is_the_last_hour_unless_it_says_more() {
        let ends = |from_ms, to_ms| TimeRange { from_ms, to_ms }.ends(10_000_000);
        assert_eq!(ends(None, None), Ok((6_400_000, 10_000_000)));
        assert_eq!(ends(Some(5), None), Ok((5, 10_000_000)));
        assert_eq!(ends(None, Some(4_000_000)), Ok((400_000, 4_000_000)));
        assert_eq!(ends(None, Some(4)), Ok((0, 4)));
        assert!(ends(Some(9), Some(8)).unwrap_err().message.contains("is after"));
    }
}
