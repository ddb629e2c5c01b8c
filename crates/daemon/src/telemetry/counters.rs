//! The counters of ports as the API shows them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use selvedge_api as api;
use selvedge_api::{CounterQuery, Error, ErrorKind};
use selvedge_config::closest;
use selvedge_telemetry::{End, Group, How, Latest, Metric, NodeEntry, PortEntry, SampleKey, Shown};
use selvedge_types::{Guid, NodeKind, PortState, Rate};

use super::congestion::ppm;
use super::host_counters;
use super::state::{Snapshot, Telemetry};
use super::{baseline, place};

/// Most ports in an answer that has all their counters.
const PORTS_MAX: usize = 4_096;

impl Telemetry {
    /// Returns the counters that a query asks for. `unix_ms` is the present time.
    pub(crate) fn ports(&self, query: &CounterQuery, unix_ms: u64) -> Result<api::TelemetryPorts, Error> {
        let snapshot = self.sampled()?;
        let waits = {
            let meaning = self.meaning.lock();
            let rates = meaning.rates.rates();
            rates
                .filter_map(|rates| Some((rates.end, ppm(rates.wait_share?))))
                .collect()
        };
        let reader = Reader {
            snapshot: &snapshot,
            unix_ms,
            counters: query.counters,
            host_counters: self.chosen().host_counters.as_deref(),
            waits,
        };
        let mut found = reader.find(query)?;
        if let Some(by) = &query.by {
            let order = Order::of(by)?;
            if order.is_of_errors() {
                // A list of the worst has no ports that are well.
                found.retain(|at| reader.rank(at, order) != (0, 0));
            }
            found.sort_by_cached_key(|at| Reverse(reader.rank(at, order)));
        }
        let count = found.len() as u64;
        let most = if query.counters { PORTS_MAX } else { usize::MAX };
        let limit = query.limit.and_then(|limit| usize::try_from(limit).ok());
        found.truncate(limit.unwrap_or(most).min(most));
        let mut ports = Vec::new();
        for at in &found {
            ports.push(reader.port(at));
            let peer = at.port.peer.filter(|_| query.peers);
            ports.extend(
                peer.and_then(|end| reader.at(end.node, end.port))
                    .map(|at| reader.port(&at)),
            );
        }
        Ok(api::TelemetryPorts { found: count, ports })
    }

    /// Returns the present state if counters are sampled, or were.
    pub(crate) fn sampled(&self) -> Result<Snapshot, Error> {
        if !self.has_sampler() {
            let what = "this process samples no counters: telemetry.enabled is false, or it only watches";
            return Err(ErrorKind::NoTelemetry.error(what));
        }
        let snapshot = self.snapshot();
        match snapshot.inventory.nodes.is_empty() {
            true => {
                Err(ErrorKind::NotYet.error("no counters are sampled: this manager is not master, or has no plan yet"))
            }
            false => Ok(snapshot),
        }
    }
}

/// What ports are ordered by.
#[derive(Clone, Copy, Debug)]
enum Order {
    Xmit,
    Rcv,
    Load,
    Wait,
    Errors,
    Counter(Metric),
}

impl Order {
    fn of(name: &str) -> Result<Self, Error> {
        match name {
            "xmit" => Ok(Self::Xmit),
            "rcv" => Ok(Self::Rcv),
            "load" => Ok(Self::Load),
            "errors" => Ok(Self::Errors),
            "wait" => Ok(Self::Wait),
            name => Metric::of_name(name).map(Self::Counter).ok_or_else(|| {
                let short = ["xmit", "rcv", "load", "errors", "wait"];
                let known = short.into_iter().chain(Metric::ALL.map(Metric::iba_name));
                let hint = closest(name, known).map_or_else(String::new, |name| format!("; did you mean {name}?"));
                ErrorKind::BadRequest.error(format!("there is no counter '{name}'{hint}"))
            }),
        }
    }
}

impl Order {
    const fn is_of_errors(self) -> bool {
        match self {
            Self::Errors => true,
            Self::Counter(metric) => metric.is_error(),
            Self::Xmit | Self::Rcv | Self::Load | Self::Wait => false,
        }
    }
}

/// A port of the inventory.
struct At<'a> {
    guid: Guid,
    node: &'a NodeEntry,
    port: &'a PortEntry,
}

struct Reader<'a> {
    snapshot: &'a Snapshot,
    unix_ms: u64,
    counters: bool,
    /// Folder with the devices of this host.
    host_counters: Option<&'a Path>,
    /// The time in which each port waits, in parts of a million.
    waits: BTreeMap<End, u64>,
}

impl<'a> Reader<'a> {
    fn latest(&self) -> &'a Latest {
        &self.snapshot.latest
    }

    fn at(&self, guid: Guid, port: u8) -> Option<At<'a>> {
        let node = self.snapshot.inventory.nodes.get(&guid)?;
        let port = node.port(port)?;
        Some(At { guid, node, port })
    }

    /// Returns the ports that a query names.
    fn find(&self, query: &CounterQuery) -> Result<Vec<At<'a>>, Error> {
        let ends = place::ends(&self.snapshot.inventory, query.node.as_deref(), query.port)?;
        let found = ends.into_iter().filter_map(|end| self.at(end.node, end.port));
        Ok(found.collect())
    }

    fn rank(&self, at: &At<'_>, order: Order) -> (u64, u64) {
        match order {
            Order::Xmit => self.growth(at, Metric::XmitData),
            Order::Rcv => self.growth(at, Metric::RcvData),
            Order::Load => (self.load_ppm(at).unwrap_or_default(), 0),
            Order::Wait => (self.wait_ppm(at).unwrap_or_default(), 0),
            Order::Errors => {
                let (per_s, total) = self.errors(at);
                (per_s.unwrap_or_default(), total.unwrap_or_default())
            }
            Order::Counter(metric) => self.growth(at, metric),
        }
    }

    /// Returns how much a metric grows in a second, and its total.
    fn growth(&self, at: &At<'_>, metric: Metric) -> (u64, u64) {
        let total = self.latest().metric(at.guid, at.port.num, metric);
        (self.per_s(at, metric).unwrap_or_default(), total.unwrap_or_default())
    }

    fn per_s(&self, at: &At<'_>, metric: Metric) -> Option<u64> {
        self.latest().per_s(at.guid, at.port.num, metric)
    }

    fn bytes_per_s(&self, at: &At<'_>, metric: Metric) -> Option<u64> {
        self.per_s(at, metric).map(|words| words.saturating_mul(4))
    }

    /// Returns the load; 0 of a port that is down.
    fn load_ppm(&self, at: &At<'_>) -> Option<u64> {
        if at.port.state == PortState::Down {
            return Some(0);
        }
        let capacity = at
            .port
            .rate
            .map(Rate::data_bytes_per_s)
            .filter(|capacity| *capacity > 0)?;
        let (xmit, rcv) = (
            self.bytes_per_s(at, Metric::XmitData)?,
            self.bytes_per_s(at, Metric::RcvData)?,
        );
        let ppm = u128::from(xmit.max(rcv)) * 1_000_000 / u128::from(capacity);
        u64::try_from(ppm).ok()
    }

    /// Returns the time in which a port waits; 0 of a port that is down.
    fn wait_ppm(&self, at: &At<'_>) -> Option<u64> {
        let end = End {
            node: at.guid,
            port: at.port.num,
        };
        let waits = self.waits.get(&end).copied();
        waits.or((at.port.state == PortState::Down).then_some(0))
    }

    /// Returns errors in a second, and all errors.
    fn errors(&self, at: &At<'_>) -> (Option<u64>, Option<u64>) {
        let errors = || Metric::ALL.into_iter().filter(|metric| metric.is_error());
        let per_s = errors().filter_map(|metric| self.per_s(at, metric));
        let totals = errors().filter_map(|metric| self.latest().metric(at.guid, at.port.num, metric));
        let sum = |values: Vec<u64>| (!values.is_empty()).then(|| values.into_iter().fold(0, u64::saturating_add));
        (sum(per_s.collect()), sum(totals.collect()))
    }

    /// Returns the last samples of a port.
    fn samples(&self, at: &At<'_>) -> impl Iterator<Item = (Group, &'a Shown)> {
        let (node, port, latest) = (at.guid, at.port.num, self.latest());
        let keys = Group::ALL.into_iter().map(move |group| SampleKey { node, port, group });
        keys.filter_map(move |key| Some((key.group, latest.get(key)?)))
    }

    fn port(&self, at: &At<'_>) -> api::TelemetryPort {
        let newest = self.samples(at).map(|(_, shown)| shown).max_by_key(|shown| shown.at());
        let sampled_ms = newest.and_then(Shown::at).map(|wall| wall.0 / 1_000_000);
        let (errors_per_s, errors) = self.errors(at);
        let peer = at.port.peer.and_then(|end| self.at(end.node, end.port));
        api::TelemetryPort {
            node_guid: at.guid,
            node_name: at.node.description.clone(),
            kind: at.node.kind,
            port: at.port.num,
            lid: at.port.lid.0,
            state: at.port.state,
            peer: peer.map(|peer| api::End {
                node_guid: peer.guid,
                node_name: peer.node.description.clone(),
                port: peer.port.num,
            }),
            rate: at.port.rate.map(|rate| rate.to_string()),
            capacity_bytes_per_s: at.port.rate.map(Rate::data_bytes_per_s),
            how: newest.map(|shown| how(shown.how).to_owned()),
            sampled_ms,
            age_ms: sampled_ms.map(|at| self.unix_ms.saturating_sub(at)),
            xmit_bytes_per_s: self.bytes_per_s(at, Metric::XmitData),
            rcv_bytes_per_s: self.bytes_per_s(at, Metric::RcvData),
            load_ppm: self.load_ppm(at),
            wait_per_s: self.per_s(at, Metric::XmitWait),
            wait_ppm: self.wait_ppm(at),
            errors_per_s,
            errors,
            baseline_ms: baseline::set_ms(&self.snapshot.baselines, at.guid, at.port.num),
            counters: if self.counters { self.counters(at) } else { Vec::new() },
        }
    }

    fn counters(&self, at: &At<'_>) -> Vec<api::TelemetryCounter> {
        let metrics = Metric::ALL.into_iter().filter_map(|metric| {
            Some(api::TelemetryCounter {
                name: metric.iba_name().to_owned(),
                unit: metric.unit().to_owned(),
                total: self.latest().metric(at.guid, at.port.num, metric)?,
                per_s: self.per_s(at, metric),
                since_baseline: baseline::metric_since(
                    (&self.snapshot.baselines, self.latest()),
                    (at.guid, at.port.num),
                    metric,
                ),
            })
        });
        let details = self
            .samples(at)
            .filter(|(group, _)| !matches!(group, Group::Base | Group::Extended));
        let details = details.flat_map(|(group, shown)| {
            let known = (0..group.counters()).filter(|counter| shown.known >> counter & 1 != 0);
            let key = SampleKey {
                node: at.guid,
                port: at.port.num,
                group,
            };
            known.map(move |counter| api::TelemetryCounter {
                since_baseline: baseline::since(&self.snapshot.baselines, self.latest(), key, counter),
                name: group.counter_name(counter),
                unit: group.unit(counter).to_owned(),
                total: shown.totals[counter],
                per_s: shown.growth.map(|growth| growth.per_s(counter)),
            })
        });
        // Names are those of the host: only its own port has them.
        let folder = self.host_counters.filter(|_| at.node.kind != NodeKind::Switch);
        let of_host = folder.map(|folder| host_counters::of_port(folder, at.guid, at.port.num));
        metrics.chain(details).chain(of_host.into_iter().flatten()).collect()
    }
}

pub(super) const fn how(how: How) -> &'static str {
    match how {
        How::Read => "read",
        How::Unchanged => "unchanged",
        How::Derived => "derived",
        How::Down => "down",
    }
}
