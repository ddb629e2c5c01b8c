//! The metric family of guilbaults/infiniband-exporter, for sites with dashboards made for it. A page has it only on
//! request, because it doubles the size of the page.
//!
//! Source: `infiniband-exporter.py` 0.0.6: names are those of `ibqueryerrors` in lower case, data in words of 4 bytes
//! as counted, one series for each port with a link that is up. Unlike there, a port without errors has all its series
//! (issue 48), and a counter that the dictionary does not know breaks nothing (issues 20, 46, 49).

use core::fmt::{self, Write};

use selvedge_types::{LinkSpeed, NodeKind};

use crate::prometheus::{Kind, Quoted, TextFormat, Wanted, declare};
use crate::{Group, Inventory, Latest, Metric, NodeEntry, PortEntry, SampleKey};
use selvedge_types::Guid;

/// Counters of details that the exporter shows, with their place in their group.
const DETAILS: [(Group, usize, &str); 8] = [
    (Group::RcvErrors, 0, "PortLocalPhysicalErrors"),
    (Group::RcvErrors, 1, "PortMalformedPktErrors"),
    (Group::RcvErrors, 2, "PortBufferOverrunErrors"),
    (Group::RcvErrors, 3, "PortDLIDMappingErrors"),
    (Group::XmitDiscards, 0, "PortInactiveDiscards"),
    (Group::XmitDiscards, 1, "PortNeighborMTUDiscards"),
    (Group::XmitDiscards, 2, "PortSwLifetimeLimitDiscards"),
    (Group::XmitDiscards, 3, "PortSwHOQLifetimeLimitDiscards"),
];

/// Writes the family. `is_complete` is false if a port had no sample in the last slot.
pub fn write(
    out: &mut impl Write,
    format: TextFormat,
    wanted: &Wanted,
    (inventory, latest): (&Inventory, &Latest),
    is_complete: bool,
) -> fmt::Result {
    // QP1Dropped is not in the exporter's dictionary.
    for metric in Metric::ALL.into_iter().filter(|metric| *metric != Metric::Qp1Dropped) {
        counter(out, format, (inventory, wanted), metric.iba_name(), |node, port| {
            latest.metric(node, port, metric)
        })?;
    }
    for (group, counter_at, name) in DETAILS {
        let value = |node, port| latest.counter(SampleKey { node, port, group }, counter_at);
        counter(out, format, (inventory, wanted), name, value)?;
    }
    gauge(
        out,
        format,
        (inventory, wanted),
        ("infiniband_speed", "Link current speed per lane, in Gbit/s"),
        |port| Some(gbit_per_s(port.rate?.speed)),
    )?;
    gauge(
        out,
        format,
        (inventory, wanted),
        ("infiniband_width", "Lanes per link"),
        |port| Some(f64::from(port.rate?.width.lanes())),
    )?;
    if !wanted.has_rest() {
        return Ok(());
    }
    let name = "infiniband_scrape_ok";
    declare(
        out,
        format,
        Kind::Gauge,
        name,
        "1 if the last slot has a sample of every port, else 0",
    )?;
    writeln!(out, "{name} {}", u8::from(is_complete))
}

fn counter(
    out: &mut impl Write,
    format: TextFormat,
    (inventory, wanted): (&Inventory, &Wanted),
    counter: &str,
    value: impl Fn(Guid, u8) -> Option<u64>,
) -> fmt::Result {
    let name = format!("infiniband_{}_total", counter.to_lowercase());
    let mut is_declared = false;
    for (guid, node, port) in linked(inventory, wanted) {
        let Some(value) = value(guid, port.num) else { continue };
        if !is_declared {
            declare(
                out,
                format,
                Kind::Counter,
                &name,
                &format!("{counter} as ibqueryerrors prints it"),
            )?;
            is_declared = true;
        }
        write!(out, "{name}")?;
        labels(out, inventory, (guid, node, port))?;
        writeln!(out, " {value}")?;
    }
    Ok(())
}

fn gauge(
    out: &mut impl Write,
    format: TextFormat,
    (inventory, wanted): (&Inventory, &Wanted),
    (name, help): (&str, &str),
    value: impl Fn(&PortEntry) -> Option<f64>,
) -> fmt::Result {
    declare(out, format, Kind::Gauge, name, help)?;
    for (guid, node, port) in linked(inventory, wanted) {
        if let Some(value) = value(port) {
            write!(out, "{name}")?;
            labels(out, inventory, (guid, node, port))?;
            writeln!(out, " {value}")?;
        }
    }
    Ok(())
}

/// Returns the ports with a link that is up and an end at the other side that is known.
fn linked<'a>(inventory: &'a Inventory, wanted: &Wanted) -> impl Iterator<Item = (Guid, &'a NodeEntry, &'a PortEntry)> {
    let nodes = inventory.nodes.iter().filter(|(guid, _)| wanted.has_node(**guid));
    let ports = nodes.flat_map(|(guid, node)| node.ports.iter().map(move |port| (*guid, node, port)));
    ports.filter(|(_, _, port)| port.num > 0 && port.is_up() && port.peer.is_some())
}

fn labels(
    out: &mut impl Write,
    inventory: &Inventory,
    (guid, node, port): (Guid, &NodeEntry, &PortEntry),
) -> fmt::Result {
    let component = if node.kind == NodeKind::Switch { "switch" } else { "ca" };
    let name = Quoted(&node.description);
    write!(
        out,
        "{{component=\"{component}\",local_name=\"{name}\",local_guid=\"{guid}\",local_port=\"{}\"",
        port.num
    )?;
    if let Some(peer) = port.peer {
        let far = inventory
            .nodes
            .get(&peer.node)
            .map_or("", |node| node.description.as_str());
        write!(
            out,
            ",remote_guid=\"{}\",remote_port=\"{}\",remote_name=\"{}\"",
            peer.node,
            peer.port,
            Quoted(far)
        )?;
    }
    out.write_char('}')
}

/// Returns the speed of a lane as `iblinkinfo` prints it.
fn gbit_per_s(speed: LinkSpeed) -> f64 {
    match speed {
        LinkSpeed::Fdr10 => 10.0,
        LinkSpeed::Fdr => 14.0625,
        LinkSpeed::Edr => 25.78125,
        speed => f64::from(speed.mbit_per_s()) / 1_000.0,
    }
}
