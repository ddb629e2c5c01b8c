//! The text of `GET /metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::Arc;

use selvedge_api::{Error, MetricsQuery};
use selvedge_telemetry::alarm::Alarm;
use selvedge_telemetry::cable::BerEstimate;
use selvedge_telemetry::exposition::brand::{self, Brand};
use selvedge_telemetry::exposition::{cables, details, guilbaults, influx, meaning, samples};
use selvedge_telemetry::host_counters::{self, HostCounter};
use selvedge_telemetry::prometheus::{self, Part, Shard, TextFormat, Wanted};
use selvedge_telemetry::rates::PortRates;
use selvedge_telemetry::selection::{self, Selected};
use selvedge_telemetry::{End, Metric, Missing, Wall, Why};
use selvedge_types::Guid;
use selvedge_wire::CableInfo;

use super::host_counters::read;
use super::meaning::Traced;
use super::state::{Snapshot, Telemetry};

/// A page of metrics: everything that it is written from.
pub struct Metrics {
    snapshot: Snapshot,
    /// Names of the classes.
    classes: Vec<String>,
    wanted: Wanted,
    format: TextFormat,
    host_counters: Vec<HostCounter>,
    /// Brand and type of each node.
    brands: BTreeMap<Guid, Brand>,
    /// The time of lines for InfluxDB, in which the page is written then.
    influx_at: Option<Wall>,
    meant: Meant,
    /// The wall time of the page.
    at: Wall,
    /// What ports read from their cables.
    cables: BTreeMap<End, CableInfo>,
}

/// Ports from which on a page without `collect` is short. Source: ours; a page has some 2.3 kB a port, and Prometheus
/// gives a scrape 10 s.
const LARGE: usize = 20_000;

/// What the counters mean, as it is when the page is asked for.
#[derive(Default)]
struct Meant {
    rates: Vec<PortRates>,
    alarms: Vec<Alarm>,
    /// Of the ports that have had errors.
    ber: BTreeMap<End, BerEstimate>,
    /// Before and after error correction.
    corrected: BTreeMap<End, [BerEstimate; 2]>,
    traced: Arc<Traced>,
}

impl Telemetry {
    /// Returns the page that a query asks for. `unix_ns` is the present time.
    pub(crate) fn metrics(&self, query: &MetricsQuery, is_open_metrics: bool, unix_ns: u64) -> Result<Metrics, Error> {
        let snapshot = self.sampled()?;
        let is_short = is_short(
            query,
            snapshot.inventory.nodes.values().map(|node| node.ports.len()).sum(),
        );
        let is_wanted = |part: &Part| {
            let is_configured = *part == Part::Guilbaults && query.collect.is_empty() && self.shows_guilbaults;
            (query.has(part.name()) || is_configured) && !(is_short && *part == Part::Detail)
        };
        let parts: Vec<Part> = Part::ALL.into_iter().filter(is_wanted).collect();
        let metrics = query.metrics.as_ref().map(|names| {
            let selected = selection::parse(&names.replace(',', "\n"));
            let selected = selected.map_err(|error| Error::of_text(&error.to_string()))?;
            let counters = selected.into_iter().filter_map(|selected| match selected {
                Selected::Counter(metric) => Some(metric),
                Selected::RemoteLid | Selected::RemotePort | Selected::CounterSelect2 | Selected::State => None,
            });
            Ok(counters.collect())
        });
        let metrics = metrics.transpose()?;
        let meant = match parts.contains(&Part::Meaning) && !query.influx {
            true => self.meant(&snapshot),
            false => Meant::default(),
        };
        let cables = match parts.contains(&Part::Detail) && !query.influx {
            true => self.meaning.lock().cables.info().clone(),
            false => BTreeMap::new(),
        };
        Ok(Metrics {
            meant,
            at: Wall(unix_ns),
            cables,
            influx_at: query.influx.then_some(Wall(unix_ns)),
            snapshot,
            classes: self.config().classes.into_iter().map(|class| class.name).collect(),
            wanted: Wanted {
                parts,
                shard: query.shard.map(|(number, of)| Shard { number, of }),
                metrics: if is_short { Some(in_short()) } else { metrics },
            },
            format: match is_open_metrics {
                true => TextFormat::OpenMetrics,
                false => TextFormat::Prometheus,
            },
            host_counters: self.chosen().host_counters.as_deref().map(read).unwrap_or_default(),
            brands: self.hardware.brands(),
        })
    }
}

impl Telemetry {
    fn meant(&self, snapshot: &Snapshot) -> Meant {
        let state = self.meaning.lock();
        let counted = state.cables.counted(&snapshot.inventory);
        let corrected = counted.iter();
        let corrected = corrected.filter_map(|(at, end)| Some((*at, [end.raw?, end.effective?])));
        let corrected = corrected.collect();
        let had_errors = counted.into_iter().filter(|(_, end)| end.symbol_errors > 0);
        Meant {
            rates: state.rates.rates().copied().collect(),
            alarms: state.alarms.alarms().cloned().collect(),
            ber: had_errors.filter_map(|(at, end)| Some((at, end.ber?))).collect(),
            corrected,
            traced: Arc::clone(&state.traced),
        }
    }
}

impl Metrics {
    /// Writes the page.
    pub fn write(&self, mut out: &mut dyn Write) -> fmt::Result {
        let (Snapshot { inventory, latest, .. }, wanted) = (&self.snapshot, &self.wanted);
        if let Some(at) = self.influx_at {
            return influx::write(&mut out, wanted, (inventory, latest), at);
        }
        prometheus::write_wanted(&mut out, self.format, wanted, inventory, latest)?;
        if wanted.has(Part::Detail) {
            details::write(&mut out, self.format, wanted, inventory, latest)?;
            cables::write(&mut out, self.format, wanted, &self.cables)?;
            samples::write(&mut out, self.format, wanted, (inventory, latest), self.at)?;
        }
        if wanted.has(Part::Meaning) {
            let meant = meaning::Meaning {
                inventory,
                rates: &self.meant.rates,
                congestion: &self.meant.traced.congestion,
                alarms: &self.meant.alarms,
                ber: &self.meant.ber,
                corrected: &self.meant.corrected,
            };
            meaning::write(&mut out, self.format, wanted, &meant)?;
        }
        if wanted.has(Part::Guilbaults) {
            let last = self.snapshot.classes.iter().filter_map(|class| class.last.as_ref());
            let is_complete = last.into_iter().all(|report| report.missing.is_empty());
            guilbaults::write(&mut out, self.format, wanted, (inventory, latest), is_complete)?;
        }
        self.failures(&mut out)?;
        if wanted.has_rest() {
            self.collector(&mut out)?;
            host_counters::write(&mut out, self.format, &self.host_counters)?;
        }
        if wanted.has(Part::Info) {
            let brands = self.brands.iter().filter(|(node, _)| wanted.has_node(**node));
            let brands = brands.map(|(node, brand)| (*node, *brand)).collect();
            brand::write(&mut out, self.format, inventory, &brands)?;
        }
        prometheus::end(&mut out, self.format)
    }

    /// Writes which nodes had no sample in the last slot of a class, and whether because of silence.
    fn failures(&self, out: &mut impl Write) -> fmt::Result {
        let last = self.snapshot.classes.iter().filter_map(|class| class.last.as_ref());
        let missing = || last.clone().flat_map(|report| &report.missing);
        let nodes = |is_counted: &dyn Fn(&Missing) -> bool| -> BTreeSet<Guid> {
            let counted = missing().filter(|missing| is_counted(missing));
            counted.map(|missing| missing.key.node).collect()
        };
        let (silent, refused) = (nodes(&is_timeout), nodes(&|missing| !is_timeout(missing)));
        for (part, help, of) in [
            (
                "timeout",
                "1 if a port has no sample, because the agent did not answer in time",
                &silent,
            ),
            ("error", "1 if a port has no sample for another reason", &refused),
        ] {
            let inventory = &self.snapshot.inventory;
            let has_failed = |guid| of.contains(&guid);
            prometheus::collected(out, self.format, &self.wanted, inventory, (part, help), has_failed)?;
        }
        Ok(())
    }

    /// Writes the health of the collector: the exporter's names, and those of slots.
    fn collector(&self, out: &mut impl Write) -> fmt::Result {
        let snapshot = &self.snapshot;
        let by_class = |value: &dyn Fn(usize) -> u64| -> Vec<(String, u64)> {
            let classes = self.classes.iter().enumerate();
            classes.map(|(at, name)| (name.clone(), value(at))).collect()
        };
        let class = |at: usize| snapshot.classes.get(at).cloned().unwrap_or_default();
        let missing = |is_counted: &dyn Fn(&Missing) -> bool| {
            let last = snapshot.classes.iter().filter_map(|class| class.last.as_ref());
            last.flat_map(|report| &report.missing)
                .filter(|missing| is_counted(missing))
                .count()
        };
        prometheus::gauge(
            out,
            self.format,
            "infiniband_exporter_collect_timeouts",
            "Ports and counter groups without a sample in the last slots, because agents did not answer",
            missing(&is_timeout),
        )?;
        prometheus::gauge(
            out,
            self.format,
            "infiniband_exporter_collect_errors",
            "Ports and counter groups without a sample in the last slots for another reason",
            missing(&|of| !is_timeout(of)),
        )?;
        for (name, help, values) in [
            (
                "infiniband_sampler_slots_total",
                "Slots that ended",
                by_class(&|at| class(at).slots),
            ),
            (
                "infiniband_sampler_overruns_total",
                "Slots that ended with the beginning of the next",
                by_class(&|at| class(at).overruns),
            ),
            (
                "infiniband_sampler_skipped_total",
                "Slots in which nothing was sampled",
                by_class(&|at| class(at).skipped),
            ),
        ] {
            prometheus::counter(out, self.format, (name, help), "class", &values)?;
        }
        let requests = snapshot.requests;
        for (name, help, value) in [
            (
                "infiniband_sampler_requests_total",
                "Requests sent, repeats included",
                requests.sent,
            ),
            (
                "infiniband_sampler_timeouts_total",
                "Requests without an answer",
                requests.failed,
            ),
        ] {
            prometheus::counter(out, self.format, (name, help), "", &[(String::new(), value)])?;
        }
        Ok(())
    }
}

/// True if the page leaves out what no dashboard needs, because the fabric is large and the query does not say what it
/// wants.
const fn is_short(query: &MetricsQuery, ports: usize) -> bool {
    query.collect.is_empty() && query.metrics.is_none() && !query.influx && ports > LARGE
}

/// Returns the counters of the page of a large fabric: unicast packets are all packets without those of multicast.
fn in_short() -> Vec<Metric> {
    let is_in = |metric: &Metric| !matches!(metric, Metric::UnicastXmitPackets | Metric::UnicastRcvPackets);
    Metric::ALL.into_iter().filter(is_in).collect()
}

/// True if an agent did not answer in time.
const fn is_timeout(missing: &Missing) -> bool {
    matches!(missing.why, Why::Silent | Why::BackOff | Why::Late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_large_fabric_has_a_short_page_unless_more_is_asked_for() {
        let usual = MetricsQuery::default();
        assert!(is_short(&usual, LARGE + 1) && !is_short(&usual, LARGE));
        for (name, value) in [
            ("collect", "data,detail"),
            ("metrics", "symbol_error"),
            ("format", "influx"),
        ] {
            let query = MetricsQuery::of(&[(name.to_owned(), value.to_owned())]).unwrap();
            assert!(!is_short(&query, LARGE + 1), "{name}={value}");
        }
        let shard = MetricsQuery::of(&[("shard".to_owned(), "1/4".to_owned())]).unwrap();
        assert!(is_short(&shard, LARGE + 1));
        let metrics = in_short();
        assert!(metrics.contains(&Metric::MulticastXmitPackets) && !metrics.contains(&Metric::UnicastXmitPackets));
    }
}
