//! InfluxDB's line protocol, which VictoriaMetrics and others take too: one line for each port, with all its counters.
//!
//! Source: InfluxData, "Line protocol reference": `measurement,tag=value field=1i 1556813561098000000`.

use core::fmt::{self, Write};

use selvedge_types::NodeKind;

use crate::prometheus::Wanted;
use crate::{Inventory, Latest, Metric, Wall};

/// Writes a line for each port: tags `guid`, `port`, `type`, `node`, and `peer_guid`, `peer_port` if the other end is
/// known; the field `port_state` (1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE), and one for each counter with a value, by its
/// LDMS name, with data in bytes; the time in nanoseconds. A port that is down has its line, too.
pub fn write(
    out: &mut impl Write,
    wanted: &Wanted,
    (inventory, latest): (&Inventory, &Latest),
    at: Wall,
) -> fmt::Result {
    for (guid, node) in inventory.nodes.iter().filter(|(guid, _)| wanted.has_node(**guid)) {
        for port in &node.ports {
            write!(
                out,
                "infiniband_port,guid={guid},port={},type={}",
                port.num,
                kind(node.kind)
            )?;
            if !node.description.is_empty() {
                write!(out, ",node={}", Tag(&node.description))?;
            }
            if let Some(peer) = port.peer {
                write!(out, ",peer_guid={},peer_port={}", peer.node, peer.port)?;
            }
            write!(out, " port_state={}i", port.state.code())?;
            for metric in Metric::ALL.into_iter().filter(|metric| wanted.has_counter(*metric)) {
                let Some(total) = latest.metric(*guid, port.num, metric) else {
                    continue;
                };
                // An integer of the protocol has 64 bits with a sign.
                let value = i64::try_from(metric.exported(total)).unwrap_or(i64::MAX);
                write!(out, ",{}={value}i", metric.ldms_name())?;
            }
            writeln!(out, " {}", at.0)?;
        }
    }
    Ok(())
}

const fn kind(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Ca => "hca",
        NodeKind::Switch => "switch",
        NodeKind::Router => "router",
    }
}

/// The value of a tag. Comma, equals sign and space are escaped. A backslash becomes a slash, and a line feed a space:
/// the protocol has no way to write them at every place.
struct Tag<'a>(&'a str);

impl fmt::Display for Tag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            ',' | '=' | ' ' => write!(f, "\\{c}"),
            '\\' => f.write_char('/'),
            c if c.is_control() => f.write_str("\\ "),
            c => f.write_char(c),
        })
    }
}
