//! Metrics of the samples themselves: how old the last one of each port is, and how often its counters were reset.

use core::fmt::{self, Write};

use selvedge_types::Guid;

use crate::prometheus::{Kind, TextFormat, Wanted, declare};
use crate::{Group, Inventory, Latest, SampleKey, Shown, Wall};

/// Writes the metrics at the wall time `now`.
pub fn write(
    out: &mut impl Write,
    format: TextFormat,
    wanted: &Wanted,
    (inventory, latest): (&Inventory, &Latest),
    now: Wall,
) -> fmt::Result {
    let nodes = inventory.nodes.iter().filter(|(guid, _)| wanted.has_node(**guid));
    let ports = nodes.flat_map(|(guid, node)| node.ports.iter().map(|port| (*guid, port.num)));
    let ports: Vec<(Guid, u8)> = ports.collect();
    let name = "infiniband_port_sample_age_seconds";
    let help = "Time since the last sample of the port's data or errors; a port that is down has samples, too";
    declare(out, format, Kind::Gauge, name, help)?;
    for (guid, port) in &ports {
        if let Some(at) = shown(latest, *guid, *port).filter_map(Shown::at).max() {
            let age = now.0.saturating_sub(at.0) / 1_000_000;
            let (seconds, millis) = (age / 1_000, age % 1_000);
            writeln!(out, "{name}{{guid=\"{guid}\",port=\"{port}\"}} {seconds}.{millis:03}")?;
        }
    }
    let name = "infiniband_port_resets_total";
    let help = "Readings that showed a reset of a counter of the port";
    declare(out, format, Kind::Counter, name, help)?;
    for (guid, port) in &ports {
        // A reset of the whole device shows in both attributes.
        if let Some(resets) = shown(latest, *guid, *port).map(|shown| shown.resets).max() {
            writeln!(out, "{name}{{guid=\"{guid}\",port=\"{port}\"}} {resets}")?;
        }
    }
    Ok(())
}

fn shown(latest: &Latest, node: Guid, port: u8) -> impl Iterator<Item = &Shown> {
    let groups = [Group::Base, Group::Extended].into_iter();
    groups.filter_map(move |group| latest.get(SampleKey { node, port, group }))
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::Arc;

    use selvedge_types::{Lid, NodeKind, PortState};

    use super::*;
    use crate::{How, NodeEntry, PortEntry, Sample, Slot, SlotData, SlotReport, WIDEST};

    fn sample(group: Group, slot: Slot, resets: u32) -> Box<Sample> {
        Box::new(Sample {
            key: SampleKey {
                node: Guid(1),
                port: 2,
                group,
            },
            class: 0,
            slot,
            offset_us: 250_000,
            rtt_us: 0,
            agent: 0,
            how: How::Read,
            totals: [0; WIDEST],
            raw: None,
            known: group.mask(),
            full: 0,
            resets,
        })
    }

    #[test]
    fn a_port_shows_the_age_of_its_newest_sample_and_its_resets() {
        let port = |num| PortEntry {
            num,
            lid: Lid(1),
            state: PortState::Active,
            peer: None,
            rate: None,
        };
        let node = NodeEntry {
            kind: NodeKind::Switch,
            description: String::new(),
            ports: vec![port(2), port(3)],
        };
        let inventory = Inventory {
            nodes: [(Guid(1), node)].into(),
        };
        let mut latest = Latest::default();
        for (number, group, resets) in [(10, Group::Base, 3), (11, Group::Extended, 2)] {
            let slot = Slot { epoch: 0, number };
            latest.take_slot(&SlotData {
                report: SlotReport {
                    slot,
                    ..SlotReport::default()
                },
                interval: Duration::from_secs(2),
                samples: vec![sample(group, slot, resets)],
                inventory: Arc::default(),
            });
        }
        let mut page = String::new();
        // The slot began at 22 s.
        let now = Wall(30_500_000_000);
        let wanted = Wanted::default();
        write(&mut page, TextFormat::OpenMetrics, &wanted, (&inventory, &latest), now).unwrap();
        let labels = format!("{{guid=\"{}\",port=\"2\"}}", Guid(1));
        let values: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let want = [
            format!("infiniband_port_sample_age_seconds{labels} 8.250"),
            format!("infiniband_port_resets_total{labels} 3"),
        ];
        assert_eq!(values, want, "a port without a sample has neither");
    }
}
