//! Text for Prometheus, with the names and labels of treydock/infiniband_exporter: its dashboards and rules work.
//!
//! Ports without a value have no line; ports that are down have `infiniband_port_state`, so none vanishes.

use core::fmt::{self, Write};

use selvedge_types::{Guid, NodeKind, Rate};

use crate::inventory::{End, NodeEntry, PortEntry};
use crate::names::RCV_ERROR_DETAILS;
use crate::{Group, Inventory, Latest, Metric, SampleKey};

/// One of the two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0: counters are declared without `_total`, and the text has an end.
    OpenMetrics,
}

/// The type with which a metric is declared.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// Switches or hosts: the exporter has a family of names for each.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Switch,
    Hca,
}

impl Side {
    const fn of(kind: NodeKind) -> Option<Self> {
        match kind {
            NodeKind::Switch => Some(Self::Switch),
            NodeKind::Ca => Some(Self::Hca),
            NodeKind::Router => None,
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::Switch => "infiniband_switch",
            Self::Hca => "infiniband_hca",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Switch => "Infiniband switch",
            Self::Hca => "Infiniband HCA",
        }
    }

    /// Returns the label of the node's name.
    const fn label(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Hca => "hca",
        }
    }
}

/// A kind of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Data, packets and PortXmitWait.
    Data,
    /// Error counters of PortCounters.
    Errors,
    /// Counters of PortRcvErrorDetails.
    Detail,
    /// Rates of links, names of nodes, states and ends of links.
    Info,
    /// What counters mean: utilisation, waiting, congestion, alarms, bit errors.
    Meaning,
    /// Metrics with the names of guilbaults/infiniband-exporter. A page has them only on request.
    Guilbaults,
}

impl Part {
    /// The parts of a page, unless others are asked for.
    pub const USUAL: [Self; 5] = [Self::Data, Self::Errors, Self::Detail, Self::Info, Self::Meaning];
    /// All parts.
    pub const ALL: [Self; 6] = [
        Self::Data,
        Self::Errors,
        Self::Detail,
        Self::Info,
        Self::Meaning,
        Self::Guilbaults,
    ];

    /// Returns its name in a query.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Errors => "errors",
            Self::Detail => "detail",
            Self::Info => "info",
            Self::Meaning => "meaning",
            Self::Guilbaults => "guilbaults",
        }
    }

    const fn of(metric: Metric) -> Self {
        match metric.is_error() {
            true => Self::Errors,
            false => Self::Data,
        }
    }
}

/// One of several shards: each node is in exactly one of them, and stays in it when other nodes come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard, from 1.
    pub number: u32,
    /// Number of shards.
    pub of: u32,
}

impl Shard {
    /// True if a node is in the shard.
    #[must_use]
    pub const fn has(self, node: Guid) -> bool {
        // GUIDs of one vendor differ in few bits: Fibonacci hashing spreads them over the upper half.
        let mixed = (node.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
        self.of == 0 || mixed % self.of == self.number.wrapping_sub(1)
    }
}

/// Which metrics are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which kinds.
    pub parts: Vec<Part>,
    /// Of which nodes; `None`: of all.
    pub shard: Option<Shard>,
    /// Which counters of PortCounters and PortCountersExtended; `None`: all.
    pub metrics: Option<Vec<Metric>>,
}

impl Default for Wanted {
    /// Returns the usual parts of all nodes.
    fn default() -> Self {
        Self {
            parts: Part::USUAL.to_vec(),
            shard: None,
            metrics: None,
        }
    }
}

impl Wanted {
    /// True if a part is wanted.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// True if a node is wanted.
    #[must_use]
    pub fn has_node(&self, node: Guid) -> bool {
        self.shard.is_none_or(|shard| shard.has(node))
    }

    /// True if what is of no node is wanted: one shard has it.
    #[must_use]
    pub fn has_rest(&self) -> bool {
        self.shard.is_none_or(|shard| shard.number == 1)
    }

    pub(crate) fn has_counter(&self, metric: Metric) -> bool {
        let is_selected = self.metrics.as_ref().is_none_or(|selected| selected.contains(&metric));
        is_selected && self.has(Part::of(metric))
    }
}

/// Writes all metrics of a fabric.
pub fn write(out: &mut impl Write, format: TextFormat, inventory: &Inventory, latest: &Latest) -> fmt::Result {
    write_wanted(out, format, &Wanted::default(), inventory, latest)?;
    end(out, format)
}

/// Writes some metrics of a fabric. [`end`] is to follow.
pub fn write_wanted(
    out: &mut impl Write,
    format: TextFormat,
    wanted: &Wanted,
    inventory: &Inventory,
    latest: &Latest,
) -> fmt::Result {
    for side in [Side::Switch, Side::Hca] {
        let page = Page {
            format,
            side,
            wanted,
            inventory,
        };
        page.counters(out, latest)?;
        if wanted.has(Part::Info) {
            page.rates(out)?;
            page.joins(out)?;
        }
    }
    match wanted.has(Part::Info) {
        true => states(out, format, wanted, inventory),
        false => Ok(()),
    }
}

/// Writes a gauge without labels.
pub fn gauge(
    out: &mut impl Write,
    format: TextFormat,
    name: &str,
    help: &str,
    value: impl fmt::Display,
) -> fmt::Result {
    declare(out, format, Kind::Gauge, name, help)?;
    writeln!(out, "{name} {value}")
}

/// Writes a counter with at most one label, which has these values.
pub fn counter(
    out: &mut impl Write,
    format: TextFormat,
    (name, help): (&str, &str),
    label: &str,
    values: &[(String, u64)],
) -> fmt::Result {
    declare(out, format, Kind::Counter, name, help)?;
    for (of, value) in values {
        match label.is_empty() {
            true => writeln!(out, "{name} {value}")?,
            false => writeln!(out, "{name}{{{label}=\"{}\"}} {value}", Quoted(of))?,
        }
    }
    Ok(())
}

/// Writes for each node whether it has no samples, as `infiniband_switch_collect_timeout` and `_error` do. Healthy
/// nodes have 0, so no node vanishes.
pub fn collected(
    out: &mut impl Write,
    format: TextFormat,
    wanted: &Wanted,
    inventory: &Inventory,
    (part, help): (&str, &str),
    has_failed: impl Fn(Guid) -> bool,
) -> fmt::Result {
    for side in [Side::Switch, Side::Hca] {
        let page = Page {
            format,
            side,
            wanted,
            inventory,
        };
        let name = format!("{}_collect_{part}", side.prefix());
        declare(out, format, Kind::Gauge, &name, help)?;
        for (guid, _) in page.nodes() {
            let value = u8::from(has_failed(guid));
            writeln!(out, "{name}{{guid=\"{guid}\",collector=\"{}\"}} {value}", side.label())?;
        }
    }
    Ok(())
}

/// Writes the end of the text.
pub fn end(out: &mut impl Write, format: TextFormat) -> fmt::Result {
    match format {
        TextFormat::Prometheus => Ok(()),
        TextFormat::OpenMetrics => writeln!(out, "# EOF"),
    }
}

/// One family of names.
struct Page<'a> {
    format: TextFormat,
    side: Side,
    wanted: &'a Wanted,
    inventory: &'a Inventory,
}

impl<'a> Page<'a> {
    fn nodes(&self) -> impl Iterator<Item = (Guid, &'a NodeEntry)> {
        let (side, wanted) = (self.side, self.wanted);
        let nodes = self.inventory.nodes.iter().map(|(guid, node)| (*guid, node));
        nodes.filter(move |(guid, node)| Side::of(node.kind) == Some(side) && wanted.has_node(*guid))
    }

    fn counters(&self, out: &mut impl Write, latest: &Latest) -> fmt::Result {
        for metric in Metric::ALL
            .into_iter()
            .filter(|metric| self.wanted.has_counter(*metric))
        {
            let value = |node, port| latest.metric(node, port, metric).map(|total| metric.exported(total));
            self.counter(out, (metric.exporter_name(), metric.iba_name()), value)?;
        }
        let details = RCV_ERROR_DETAILS.into_iter().filter(|_| self.wanted.has(Part::Detail));
        for (counter, name) in details.enumerate() {
            let group = Group::RcvErrors;
            let value = |node, port| latest.counter(SampleKey { node, port, group }, counter).map(u128::from);
            self.counter(out, name, value)?;
        }
        Ok(())
    }

    /// Writes a counter of all ports; nothing if no port has a value.
    fn counter(
        &self,
        out: &mut impl Write,
        (name, iba): (&str, &str),
        value: impl Fn(Guid, u8) -> Option<u128>,
    ) -> fmt::Result {
        let name = format!("{}_port_{name}", self.side.prefix());
        let mut is_declared = false;
        for (guid, node) in self.nodes() {
            for port in &node.ports {
                let Some(value) = value(guid, port.num) else { continue };
                if !is_declared {
                    let help = format!("{} port {iba}", self.side.words());
                    declare(out, self.format, Kind::Counter, &name, &help)?;
                    is_declared = true;
                }
                writeln!(out, "{name}{{guid=\"{guid}\",port=\"{}\"}} {value}", port.num)?;
            }
        }
        Ok(())
    }

    fn rates(&self, out: &mut impl Write) -> fmt::Result {
        for (part, words, bytes) in [
            (
                "rate_bytes_per_second",
                "rate",
                Rate::data_bytes_per_s as fn(Rate) -> u64,
            ),
            ("raw_rate_bytes_per_second", "raw rate", raw_bytes_per_s),
        ] {
            let of = if self.side == Side::Switch { "port_" } else { "" };
            let name = format!("{}_{of}{part}", self.side.prefix());
            let what = if self.side == Side::Switch { "port " } else { "" };
            declare(
                out,
                self.format,
                Kind::Gauge,
                &name,
                &format!("{} {what}{words}", self.side.words()),
            )?;
            for (guid, node) in self.nodes() {
                let rates = node.ports.iter().filter(|port| port.is_up());
                let rates = rates.filter_map(|port| Some((port.num, port.rate?)));
                match self.side {
                    Side::Switch => {
                        for (port, rate) in rates {
                            writeln!(out, "{name}{{guid=\"{guid}\",port=\"{port}\"}} {}", bytes(rate))?;
                        }
                    }
                    // The exporter has one rate a host, because it counts each port as a device.
                    Side::Hca => {
                        if let Some((_, rate)) = rates.max_by_key(|(_, rate)| bytes(*rate)) {
                            writeln!(out, "{name}{{guid=\"{guid}\"}} {}", bytes(rate))?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the metrics that join names to GUIDs and ports to their links.
    fn joins(&self, out: &mut impl Write) -> fmt::Result {
        let (prefix, words, label) = (self.side.prefix(), self.side.words(), self.side.label());
        let name = format!("{prefix}_info");
        declare(out, self.format, Kind::Gauge, &name, &format!("{words} information"))?;
        for (guid, node) in self.nodes() {
            let Some(port) = node.ports.first() else { continue };
            let description = Quoted(&node.description);
            writeln!(
                out,
                "{name}{{guid=\"{guid}\",{label}=\"{description}\",lid=\"{}\"}} 1",
                port.lid
            )?;
        }
        let name = format!("{prefix}_uplink_info");
        declare(
            out,
            self.format,
            Kind::Gauge,
            &name,
            &format!("{words} uplink information"),
        )?;
        for (guid, node) in self.nodes() {
            for port in &node.ports {
                let Some((peer, of, at)) = self.uplink(port) else {
                    continue;
                };
                let (own, other) = (Quoted(&node.description), Quoted(&of.description));
                let kind = match of.kind {
                    NodeKind::Ca => "CA",
                    NodeKind::Switch => "SW",
                    NodeKind::Router => "RT",
                };
                write!(
                    out,
                    "{name}{{guid=\"{guid}\",port=\"{}\",{label}=\"{own}\",uplink=\"{other}\",",
                    port.num
                )?;
                write!(out, "uplink_guid=\"{}\",uplink_type=\"{kind}\",", peer.node)?;
                writeln!(out, "uplink_port=\"{}\",uplink_lid=\"{}\"}} 1", peer.port, at.lid)?;
            }
        }
        Ok(())
    }

    fn uplink(&self, port: &PortEntry) -> Option<(End, &'a NodeEntry, &'a PortEntry)> {
        let peer = port.peer.filter(|_| port.is_up())?;
        let node = self.inventory.nodes.get(&peer.node)?;
        Some((peer, node, node.port(peer.port)?))
    }
}

/// Writes the state of every port, of those that are down too.
fn states(out: &mut impl Write, format: TextFormat, wanted: &Wanted, inventory: &Inventory) -> fmt::Result {
    let name = "infiniband_port_state";
    let help = "Link state: 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE";
    declare(out, format, Kind::Gauge, name, help)?;
    let nodes = inventory.nodes.iter();
    for (guid, node) in nodes.filter(|(guid, _)| wanted.has_node(**guid)) {
        let kind = match node.kind {
            NodeKind::Ca => "hca",
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
        };
        for port in &node.ports {
            let state = port.state.code();
            writeln!(
                out,
                "{name}{{guid=\"{guid}\",port=\"{}\",type=\"{kind}\"}} {state}",
                port.num
            )?;
        }
    }
    Ok(())
}

pub(crate) fn declare(out: &mut impl Write, format: TextFormat, kind: Kind, name: &str, help: &str) -> fmt::Result {
    let name = match format {
        TextFormat::Prometheus => name,
        TextFormat::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
    };
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    writeln!(out, "# HELP {name} {help}")?;
    writeln!(out, "# TYPE {name} {kind}")
}

/// A label's value: backslash, quotation mark and line feed are escaped.
pub(crate) struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

/// Returns the signalling rate of a link, in bytes per second.
fn raw_bytes_per_s(rate: Rate) -> u64 {
    rate.speed.kbit_per_s() * u64::from(rate.width.lanes()) * 125
}
