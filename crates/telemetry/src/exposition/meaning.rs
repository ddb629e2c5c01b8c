//! Metrics of what the counters mean: utilisation, waiting, congestion, alarms, bit errors.
//!
//! Prometheus can compute some of them from the counters, but it knows neither the capacity of a link, nor the tick of
//! PortXmitWait, nor the routes. A port that is known to be down sends nothing: its shares are 0, so that its series do
//! not vanish; `infiniband_port_state` says that it is down.

use core::fmt::{self, Write};
use std::collections::BTreeMap;

use crate::alarm::{Alarm, Level};
use crate::cable::BerEstimate;
use crate::congestion::{Cause, Congestion};
use crate::prometheus::{Kind, Part, TextFormat, Wanted, declare, gauge};
use crate::rates::PortRates;
use crate::{End, Inventory};

/// What is known of the last slot.
#[derive(Clone, Copy, Debug)]
pub struct Meaning<'a> {
    /// The ports of the fabric: those that are down have shares, too.
    pub inventory: &'a Inventory,
    /// The rates of ports.
    pub rates: &'a [PortRates],
    /// The congestion.
    pub congestion: &'a Congestion,
    /// The alarms.
    pub alarms: &'a [Alarm],
    /// Bit error rates by the port that received.
    pub ber: &'a BTreeMap<End, BerEstimate>,
    /// Rates before and after error correction, of ports with an agent that counts them.
    pub corrected: &'a BTreeMap<End, [BerEstimate; 2]>,
}

/// A metric with one value a port: its name, help, and the value of a port's rates.
type PortMetric = (&'static str, &'static str, fn(&PortRates) -> Option<f64>);

const PORT_METRICS: [PortMetric; 3] = [
    (
        "infiniband_port_transmit_utilisation_ratio",
        "Share of the link's capacity that the port sends",
        |rates| rates.xmit_utilisation,
    ),
    (
        "infiniband_port_receive_utilisation_ratio",
        "Share of the link's capacity that the port receives",
        |rates| rates.rcv_utilisation,
    ),
    (
        "infiniband_port_transmit_wait_ratio",
        "Share of the time in which the port had data to send and sent nothing",
        |rates| rates.wait_share,
    ),
];

/// Writes the metrics. One shard has those that are of no node.
pub fn write(out: &mut impl Write, format: TextFormat, wanted: &Wanted, meaning: &Meaning<'_>) -> fmt::Result {
    let down = down(meaning.inventory, wanted);
    for (name, help, value) in PORT_METRICS {
        declare(out, format, Kind::Gauge, name, help)?;
        for end in &down {
            writeln!(out, "{name}{{{}}} 0", Port(*end))?;
        }
        for rates in meaning.rates.iter().filter(|rates| wanted.has_node(rates.end.node)) {
            if let Some(value) = value(rates) {
                // Further digits would be noise, and most of a compressed page.
                let value = (value * 1e6).round() / 1e6;
                writeln!(out, "{name}{{{}}} {value}", Port(rates.end))?;
            }
        }
    }
    bit_errors(out, format, wanted, meaning)?;
    congestion(out, format, wanted, meaning.congestion)?;
    alarms(out, format, wanted, meaning.alarms)
}

/// Returns the wanted ports that are down.
fn down(inventory: &Inventory, wanted: &Wanted) -> Vec<End> {
    let nodes = inventory.nodes.iter().filter(|(guid, _)| wanted.has_node(**guid));
    let down = nodes.flat_map(|(guid, node)| {
        let ports = node.ports.iter().filter(|port| !port.is_up());
        ports.map(|port| End {
            node: *guid,
            port: port.num,
        })
    });
    down.collect()
}

fn bit_errors(out: &mut impl Write, format: TextFormat, wanted: &Wanted, meaning: &Meaning<'_>) -> fmt::Result {
    let name = "infiniband_port_ber";
    declare(
        out,
        format,
        Kind::Gauge,
        name,
        "Bit error rate: by symbol errors, with its 95 % interval; before (raw) and after (effective) error correction",
    )?;
    for (end, ber) in meaning.ber.iter().filter(|(end, _)| wanted.has_node(end.node)) {
        for (bound, value) in [("estimate", ber.rate), ("low", ber.low), ("high", ber.high)] {
            writeln!(
                out,
                "{name}{{{},kind=\"symbol\",bound=\"{bound}\"}} {value:e}",
                Port(*end)
            )?;
        }
    }
    let corrected = meaning.corrected.iter().filter(|_| wanted.has(Part::Detail));
    for (end, rates) in corrected.filter(|(end, _)| wanted.has_node(end.node)) {
        for (kind, ber) in ["raw", "effective"].into_iter().zip(rates) {
            let value = ber.rate;
            writeln!(
                out,
                "{name}{{{},kind=\"{kind}\",bound=\"estimate\"}} {value:e}",
                Port(*end)
            )?;
        }
    }
    Ok(())
}

fn congestion(out: &mut impl Write, format: TextFormat, wanted: &Wanted, congestion: &Congestion) -> fmt::Result {
    if wanted.has_rest() {
        let help = "Congestion trees, each with a root link of its own";
        gauge(out, format, "infiniband_congestion_trees", help, congestion.trees.len())?;
    }
    let name = "infiniband_congestion_waiting_ports";
    declare(
        out,
        format,
        Kind::Gauge,
        name,
        "Ports that wait for the root link of a congestion tree",
    )?;
    for tree in congestion.trees.iter().filter(|tree| wanted.has_node(tree.root.node)) {
        let cause = match tree.cause {
            Cause::Saturated => "saturated",
            Cause::SlowLink => "slow_link",
            Cause::SlowReceiver => "slow_receiver",
            Cause::Cycle => "cycle",
        };
        let (to, waiting) = (tree.to, tree.branches.len());
        write!(
            out,
            "{name}{{{},uplink_guid=\"{}\",uplink_port=\"{}\",",
            Port(tree.root),
            to.node,
            to.port
        )?;
        writeln!(out, "cause=\"{cause}\"}} {waiting}")?;
    }
    if !wanted.has_rest() {
        return Ok(());
    }
    gauge(
        out,
        format,
        "infiniband_congestion_waiting_ports_without_root",
        "Ports that wait although no link behind them is full",
        congestion.without_root.len(),
    )
}

fn alarms(out: &mut impl Write, format: TextFormat, wanted: &Wanted, all: &[Alarm]) -> fmt::Result {
    if wanted.has_rest() {
        let name = "infiniband_alarms";
        let help = "Alarms by level, acknowledged ones among them";
        declare(out, format, Kind::Gauge, name, help)?;
        for level in [Level::Info, Level::Warning, Level::Critical] {
            let count = all.iter().filter(|alarm| alarm.level == level).count();
            writeln!(out, "{name}{{level=\"{}\"}} {count}", level.name())?;
        }
    }
    let name = "infiniband_alarm_info";
    declare(out, format, Kind::Gauge, name, "An alarm")?;
    for alarm in all.iter().filter(|alarm| wanted.has_node(alarm.id.at.node)) {
        let (subject, level) = (alarm.id.subject.name(), alarm.level.name());
        let is_seen = alarm.ack.is_some();
        write!(out, "{name}{{{},subject=\"{subject}\",", Port(alarm.id.at))?;
        writeln!(out, "level=\"{level}\",acknowledged=\"{is_seen}\"}} 1")?;
    }
    Ok(())
}

/// The labels of a port.
struct Port(End);

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guid=\"{}\",port=\"{}\"", self.0.node, self.0.port)
    }
}
