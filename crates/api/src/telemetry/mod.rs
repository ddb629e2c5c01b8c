//! Sampling of counters: how it goes, the counters of ports, and what they mean.

mod alarms;
mod cables;
mod congestion;

mod history;

pub use history::{
    HistoryState, SeriesQuery, SliceQuery, StoredEvent, StoredEventQuery, StoredEvents, TelemetryGap, TelemetryHistory,
    TelemetryPoint, TelemetrySeries, TelemetrySlice, TelemetrySlicePort, TimeRange, Topology, TopologyLink,
    TopologyNode, TopologyQuery, TopologyVersion, TopologyVersions,
};

use selvedge_types::{Guid, NodeKind, PortState};
use serde::{Deserialize, Serialize};

use crate::{Body, End, Error, ErrorKind, query};

pub use self::alarms::{Acknowledged, Alarm, AlarmAction, AlarmCleared, AlarmQuery, AlarmRequest, Alarms};
pub use self::cables::{BitErrorRate, Cable, CableInfo, CableQuery, CableReadings, Cables};
pub use self::congestion::{
    Congestion, CongestionQuery, CongestionTree, CrossingPair, PictureQuery, Shade, WaitingPort,
};

/// Whether counters are sampled at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TelemetryState {
    /// Not by this process: `telemetry.enabled` is false, or it only emulates a fabric.
    #[default]
    Off,
    /// Not yet, or not any more: this manager is not master, or has no plan in force.
    Waiting,
    /// Yes.
    Sampling,
}

impl std::fmt::Display for TelemetryState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::Waiting => "waiting",
            Self::Sampling => "sampling",
        })
    }
}

/// How sampling goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Telemetry {
    /// Whether counters are sampled.
    pub state: TelemetryState,
    /// Number of the sampler.
    pub agent: u32,
    /// Nodes of the fabric.
    pub nodes: u64,
    /// Ports that are read: those with a link.
    pub ports_up: u64,
    /// Ports that are known to be down, so that they are not read.
    pub ports_down: u64,
    /// Requests since the start.
    pub requests: TelemetryRequests,
    /// How often the wall clock was set since the start.
    pub clock_sets: u64,
    /// Slots that were dropped since the start, because stores and exporters were too slow.
    pub slots_lost: u64,
    /// The sampling classes.
    pub classes: Vec<TelemetryClass>,
    /// Nodes without samples in the last slot of a class, because their agents did not answer.
    pub silent: Vec<SilentNode>,
    /// Nodes and ports that are not of the expected type (`telemetry.expected_types`), in words.
    #[serde(default)]
    pub unexpected: Vec<String>,
}

impl Body for Telemetry {
    const SCHEMA: &'static str = "selvedge.telemetry";
}

/// Requests of the sampler since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryRequests {
    /// Number of requests sent, repeats included.
    pub sent: u64,
    /// Number of repeats among the requests sent.
    pub repeats: u64,
    /// Number of requests answered.
    pub answered: u64,
    /// Number of requests not answered, repeats included.
    pub timeouts: u64,
    /// Number of late or foreign answers.
    pub stray: u64,
}

/// A sampling class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryClass {
    /// Name of the class.
    pub name: String,
    /// Interval between two slots of the class.
    pub interval_ms: u64,
    /// Attributes that the class reads.
    pub groups: Vec<String>,
    /// `both` or `one`: the ends of healthy links that are read.
    pub ends: String,
    /// Slots that ended since the start.
    pub slots: u64,
    /// Slots that ended with the beginning of the next one: the interval is too short, or agents were silent.
    pub overruns: u64,
    /// Slots in which nothing was sampled, because the process was late or the clock was set.
    pub skipped: u64,
    /// True if the last slot began in time and ended before the next one.
    pub in_step: bool,
    /// The last slot that ended.
    pub last: Option<TelemetrySlot>,
}

/// A slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetrySlot {
    /// Number of the slot: intervals since 1970-01-01 UTC.
    pub number: u64,
    /// How often numbers began again, because the clock was set back.
    pub epoch: u32,
    /// Begin of the slot, in milliseconds since 1970-01-01 UTC.
    pub begin_ms: u64,
    /// From the first request to the last sample.
    pub took_us: u64,
    /// From its beginning, by the wall clock, to the last sample.
    pub last_sample_us: u64,
    /// Ports and groups that were read.
    pub read: u64,
    /// Ports and groups where the sum of the switch did not change.
    pub unchanged: u64,
    /// Ports and groups derived from the other end of the link.
    pub derived: u64,
    /// Ports and groups that are down.
    pub down: u64,
    /// Requests, without repeats.
    pub requests: u64,
    /// Ports and groups without a sample.
    pub missing: u64,
    /// The reasons.
    pub missing_by: Vec<MissingReason>,
}

/// Ports and groups without a sample for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingReason {
    /// The reason: `silent`, `back_off`, `refused`, `status`, `late` or `moved`.
    pub why: String,
    /// Number of samples that are missing for this reason.
    pub samples: u64,
}

/// A node with an agent that does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilentNode {
    /// The node.
    pub node_guid: Guid,
    /// Name of the node.
    pub node_name: String,
    /// Number of its ports without a sample.
    pub ports: u64,
}

/// A counter of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryCounter {
    /// Name of the counter in the standard, as `PortXmitData`; detailed counters have their number behind the
    /// attribute, as `PortVLXmitWaitCounters[3]`.
    pub name: String,
    /// What the counter counts: `4-byte words`, `packets`, `ticks`, `bits` or `events`.
    pub unit: String,
    /// Total since the sampler began, without resets.
    pub total: u64,
    /// Growth of the counter in a second, between the last two samples.
    pub per_s: Option<u64>,
    /// Its growth since the port's baseline.
    pub since_baseline: Option<u64>,
}

/// The counters of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryPort {
    /// GUID of the node.
    pub node_guid: Guid,
    /// Name of the node.
    pub node_name: String,
    /// The kind of the node.
    pub kind: NodeKind,
    /// Number of the port.
    pub port: u8,
    /// LID by which the port is read; 0: none.
    pub lid: u16,
    /// State of the port's link, as the manager knows it.
    pub state: PortState,
    /// The other end of the port's link.
    pub peer: Option<End>,
    /// Width and speed of the link, as `4xHDR`.
    pub rate: Option<String>,
    /// Bytes per second that the link carries in one direction.
    pub capacity_bytes_per_s: Option<u64>,
    /// How the last sample was known: `read`, `unchanged`, `derived` or `down`; none: it has no sample.
    pub how: Option<String>,
    /// When the last sample was taken, in milliseconds since 1970-01-01 UTC.
    pub sampled_ms: Option<u64>,
    /// The time since the last sample.
    pub age_ms: Option<u64>,
    /// Data sent in a second: four times the words.
    pub xmit_bytes_per_s: Option<u64>,
    /// Data received in a second.
    pub rcv_bytes_per_s: Option<u64>,
    /// Load: the larger of the data sent and received in a second, in parts of a million of the capacity; 0 of a port
    /// that is down.
    pub load_ppm: Option<u64>,
    /// PortXmitWait in a second, in ticks.
    pub wait_per_s: Option<u64>,
    /// The time in which the port had data to send and sent nothing, in parts of a million; 0 of a port that is down.
    pub wait_ppm: Option<u64>,
    /// Errors in a second, all error counters together.
    pub errors_per_s: Option<u64>,
    /// All errors.
    pub errors: Option<u64>,
    /// When the port got its baseline, in milliseconds since 1970-01-01 UTC.
    pub baseline_ms: Option<u64>,
    /// The counters that were asked for.
    pub counters: Vec<TelemetryCounter>,
}

/// The counters of ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TelemetryPorts {
    /// Ports that fit the question, listed or not.
    pub found: u64,
    /// The ports.
    pub ports: Vec<TelemetryPort>,
}

impl Body for TelemetryPorts {
    const SCHEMA: &'static str = "selvedge.telemetry_ports";
}

/// The counters of whole links of which one end was named come with both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterQuery {
    /// Name or GUID of the node; none: all.
    pub node: Option<String>,
    /// Number of the port; none: all of the node.
    pub port: Option<u8>,
    /// Order of the ports, highest first: `xmit`, `rcv`, `load`, `wait`, `errors`, or the name of a counter. None: by
    /// node and port.
    pub by: Option<String>,
    /// How many ports are listed at most.
    pub limit: Option<u64>,
    /// True if each port comes with all of its counters.
    pub counters: bool,
    /// True if the other end of each link comes too.
    pub peers: bool,
}

impl CounterQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        let query = query::read(parameters, Self::take)?;
        match query.port.is_some() && query.node.is_none() {
            true => Err(ErrorKind::BadRequest.error("port without node: give the node, as node=leaf-1")),
            false => Ok(query),
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let flag = || query::parse(name, value, "true or false");
        match name {
            "node" => self.node = Some(value.to_owned()),
            "port" => self.port = Some(query::parse(name, value, "the number of a port, 1 to 254")?),
            "by" => self.by = Some(value.to_owned()),
            "limit" => self.limit = Some(query::parse(name, value, "a number of ports")?),
            "counters" => self.counters = flag()?,
            "peers" => self.peers = flag()?,
            other => {
                return Err(format!(
                    "counters have no parameter '{other}': there are node, port, by, limit, counters and peers"
                ));
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let yes = |is_set: bool| is_set.then(|| "true".to_owned());
        query::written([
            ("node", self.node.clone()),
            ("port", self.port.map(|port| port.to_string())),
            ("by", self.by.clone()),
            ("limit", self.limit.map(|limit| limit.to_string())),
            ("counters", yes(self.counters)),
            ("peers", yes(self.peers)),
        ])
    }
}

/// A request to count ports from now on, or from their first reading on again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BaselineRequest {
    /// Name or GUID of the node; none: all.
    pub node: Option<String>,
    /// Number of the port; none: all of the node.
    pub port: Option<u8>,
    /// True: from their first reading on again.
    pub clear: bool,
}

/// A baseline that was set or cleared. Devices are not touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// From when on ports are counted, in milliseconds since 1970-01-01 UTC; none: from their first reading on.
    pub at_ms: Option<u64>,
    /// How many ports.
    pub ports: u64,
    /// True if the baseline holds after a restart: it is in the store.
    pub stored: bool,
}

impl Body for Baseline {
    const SCHEMA: &'static str = "selvedge.telemetry_baseline";
}

/// The metric sets that can be pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSets {
    /// Name of the machine that samples.
    pub producer: String,
    /// The sets.
    pub sets: Vec<MetricSetEntry>,
}

impl Body for MetricSets {
    const SCHEMA: &'static str = "selvedge.metric_sets";
}

/// A metric set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSetEntry {
    /// Name of the set: `ibfabric` has all ports, `ibfabric/NODE` those of a node.
    pub name: String,
    /// Number of ports in the set.
    pub ports: u64,
}

/// The form of a metric set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetForm {
    /// As `ldms_ls -l` prints it.
    #[default]
    Ldms,
    /// LDMS CSV: the header and a row.
    Csv,
    /// The row alone.
    CsvRow,
}

/// Which metric set is wanted: the query of `GET /api/v1/telemetry/set`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetQuery {
    /// Name of the set.
    pub name: String,
    /// Names of metrics, separated by commas; none: all.
    pub metrics: Option<String>,
    /// Form of the answer.
    pub form: SetForm,
    /// The number of a job, which the set has as `job_id`.
    pub job_id: u64,
}

impl SetQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        let query = query::read(parameters, Self::take)?;
        match query.name.is_empty() {
            true => Err(ErrorKind::BadRequest.error("name is missing: give the metric set, as name=ibfabric")),
            false => Ok(query),
        }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "name" => value.clone_into(&mut self.name),
            "metrics" => self.metrics = Some(value.to_owned()),
            "job_id" => self.job_id = query::parse(name, value, "the number of a job")?,
            "form" => {
                self.form = match value {
                    "ldms" => SetForm::Ldms,
                    "csv" => SetForm::Csv,
                    "csv-row" => SetForm::CsvRow,
                    _ => return Err(format!("form={value}: want ldms, csv or csv-row")),
                }
            }
            other => {
                let known = "there are name, metrics, form and job_id";
                return Err(format!("metric sets have no parameter '{other}': {known}"));
            }
        }
        Ok(())
    }

    /// Returns the query as parameters.
    #[must_use]
    pub fn parameters(&self) -> Vec<(String, String)> {
        let form = match self.form {
            SetForm::Ldms => "ldms",
            SetForm::Csv => "csv",
            SetForm::CsvRow => "csv-row",
        };
        query::written([
            ("name", Some(self.name.clone())),
            ("form", Some(form.to_owned())),
            ("metrics", self.metrics.clone()),
            ("job_id", Some(self.job_id.to_string())),
        ])
    }
}

/// Parts of the metrics: the values of `collect`.
const PARTS: [&str; 6] = ["data", "errors", "detail", "info", "meaning", "guilbaults"];

/// Which metrics are wanted: the query of `GET /metrics`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricsQuery {
    /// Parts that are wanted; empty: all but `guilbaults`, which the configuration may add.
    pub collect: Vec<String>,
    /// The number of a shard, from 1, and how many there are.
    pub shard: Option<(u32, u32)>,
    /// Names of counters as in a metric selection file, separated by commas; none: all.
    pub metrics: Option<String>,
    /// True: lines for InfluxDB.
    pub influx: bool,
}

impl MetricsQuery {
    /// Reads the parameters of a query. An unknown name is refused.
    pub fn of(parameters: &[(String, String)]) -> Result<Self, Error> {
        query::read(parameters, Self::take)
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "collect" | "collect[]" => {
                for part in value.split(',') {
                    if !PARTS.contains(&part) {
                        return Err(format!("collect={part}: want {}", PARTS.join(", ")));
                    }
                    self.collect.push(part.to_owned());
                }
            }
            "shard" => {
                let shard = value
                    .split_once('/')
                    .and_then(|(number, of)| Some((number.parse::<u32>().ok()?, of.parse::<u32>().ok()?)));
                let is_one = |&(number, of): &(u32, u32)| number >= 1 && number <= of;
                let shard = shard.filter(is_one);
                self.shard = Some(shard.ok_or_else(|| format!("shard={value}: want I/N, I from 1 to N, as 1/4"))?);
            }
            "metrics" => self.metrics = Some(value.to_owned()),
            "format" => match value {
                "prometheus" => self.influx = false,
                "influx" => self.influx = true,
                _ => return Err(format!("format={value}: want prometheus or influx")),
            },
            other => {
                return Err(format!(
                    "metrics have no parameter '{other}': there are collect, shard, metrics and format"
                ));
            }
        }
        Ok(())
    }

    /// True if the page has this part. It has the names of guilbaults/infiniband-exporter only on request.
    #[must_use]
    pub fn has(&self, part: &str) -> bool {
        match self.collect.is_empty() {
            true => part != "guilbaults",
            false => self.collect.iter().any(|wanted| wanted == part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_named() {
        let query = SetQuery {
            name: "ibfabric/leaf 1".to_owned(),
            metrics: Some("port_xmit_data,port_rcv_data".to_owned()),
            form: SetForm::CsvRow,
            job_id: 533,
        };
        assert_eq!(SetQuery::of(&query.parameters()), Ok(query));
        let error = SetQuery::of(&[]).unwrap_err();
        assert!(error.message.contains("name=ibfabric"), "{error}");
        let wrong = [
            ("name", "a", ""),
            ("form", "xml", "want ldms"),
            ("nam", "a", "there are name"),
        ];
        for (name, value, want) in wrong {
            let parsed = SetQuery::of(&[(name.to_owned(), value.to_owned())]);
            assert!(parsed.err().is_none_or(|error| error.message.contains(want)), "{name}");
        }
    }

    #[test]
    fn metrics_are_selected_by_part_and_shard() {
        let query = |text: &str| {
            let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
            let pairs: Vec<(String, String)> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            MetricsQuery::of(&pairs)
        };
        let all = query("").unwrap();
        assert!(PARTS.iter().all(|part| all.has(part) == (*part != "guilbaults")));
        let some = query("collect=data,guilbaults&shard=2/4&format=influx&metrics=symbol_error").unwrap();
        let had = PARTS.map(|part| some.has(part));
        assert_eq!(
            (had, some.shard),
            ([true, false, false, false, false, true], Some((2, 4)))
        );
        assert_eq!((some.influx, some.metrics.as_deref()), (true, Some("symbol_error")));
        for (text, want) in [
            ("collect=date", "want data, errors"),
            ("shard=0/4", "want I/N"),
            ("shard=5/4", "want I/N"),
            ("shard=all", "want I/N"),
            ("shards=1/4", "there are collect, shard"),
            ("format=json", "want prometheus or influx"),
        ] {
            let error = query(text).unwrap_err();
            assert!(error.message.contains(want), "{error}");
        }
    }

    #[test]
    fn a_query_comes_back_from_its_parameters() {
        let query = CounterQuery {
            node: Some("leaf 1".to_owned()),
            port: Some(7),
            by: Some("wait".to_owned()),
            limit: Some(20),
            counters: true,
            peers: true,
        };
        assert_eq!(CounterQuery::of(&query.parameters()), Ok(query));
        assert_eq!(CounterQuery::of(&[]), Ok(CounterQuery::default()));
        let check = |name: &str, value: &str, want: &str| {
            let error = CounterQuery::of(&[(name.to_owned(), value.to_owned())]).unwrap_err();
            assert_eq!(error.code, "SLV-API-0002");
            assert!(error.message.contains(want), "{error}");
        };
        check("port", "300", "want the number of a port");
        check("port", "3", "port without node");
        check("limit", "few", "want a number of ports");
        check("peers", "1", "want true or false");
        check("nod", "leaf", "there are node, port, by");
    }
}
