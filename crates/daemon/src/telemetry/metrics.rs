//! The text of `GET /metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use selvedge_api::{Error, MetricsQuery};
use selvedge_telemetry::exposition::brand::{self, Brand};
use selvedge_telemetry::host_counters::{self, HostCounter};
use selvedge_telemetry::prometheus::{self, Part, Shard, TextFormat, Wanted};
use selvedge_telemetry::{Missing, Why};
use selvedge_types::Guid;

use super::host_counters::read;
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
}

impl Telemetry {
    /// Returns the page that a query asks for.
    pub(crate) fn metrics(&self, query: &MetricsQuery, is_open_metrics: bool) -> Result<Metrics, Error> {
        let snapshot = self.sampled()?;
        let parts = Part::ALL.into_iter().filter(|part| query.has(part.name()));
        Ok(Metrics {
            snapshot,
            classes: self.config().classes.into_iter().map(|class| class.name).collect(),
            wanted: Wanted {
                parts: parts.collect(),
                shard: query.shard.map(|(number, of)| Shard { number, of }),
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

impl Metrics {
    /// Writes the page.
    pub fn write(&self, mut out: &mut dyn Write) -> fmt::Result {
        let Snapshot { inventory, latest, .. } = &self.snapshot;
        prometheus::write_wanted(&mut out, self.format, &self.wanted, inventory, latest)?;
        self.failures(&mut out)?;
        // One shard has what is of no node.
        if self.wanted.shard.is_none_or(|shard| shard.number == 1) {
            self.collector(&mut out)?;
            host_counters::write(&mut out, self.format, &self.host_counters)?;
        }
        if self.wanted.parts.contains(&Part::Info) {
            let brands = self.wanted.shard.map_or_else(
                || self.brands.clone(),
                |shard| {
                    self.brands
                        .iter()
                        .filter(|(node, _)| shard.has(**node))
                        .map(|(n, b)| (*n, *b))
                        .collect()
                },
            );
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

/// True if an agent did not answer in time.
const fn is_timeout(missing: &Missing) -> bool {
    matches!(missing.why, Why::Silent | Why::BackOff | Why::Late)
}
