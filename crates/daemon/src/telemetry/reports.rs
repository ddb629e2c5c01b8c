//! Reports the sampler's events to operators. If many nodes have the same trouble in a slot, the first are named and
//! the others counted. Counters at their maximum make one event a slot: where one is full, many are.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_api::Severity;
use selvedge_sim::Time;
use selvedge_telemetry::{Event, Inventory, SampleKey};
use selvedge_types::Guid;

use super::others;
use crate::shared::Shared;

/// Events of one code that are named until the next slot ends.
const NAMED: usize = 4;

/// Events since the last slot ended.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// By code: how many, the time of the last one.
    counts: BTreeMap<&'static str, (usize, Time, Severity)>,
    /// Counters that stand at their maximum.
    full: Vec<(SampleKey, u32)>,
}

impl Reports {
    /// Takes an event.
    pub(super) fn take(&mut self, shared: &Shared, at: Time, event: Event) {
        if let Event::Full { key, counters } = event {
            self.full.push((key, counters));
            return;
        }
        let severity = severity(&event);
        let (count, last, _) = self.counts.entry(event.code()).or_insert((0, at, severity));
        *count += 1;
        *last = at;
        if *count <= NAMED {
            let snapshot = shared.telemetry.snapshot();
            shared.event(at, severity, event.code(), &text(&event, &snapshot.inventory));
        }
    }

    /// Reports how many events were not named: a slot ended.
    pub(super) fn end(&mut self, shared: &Shared) {
        let full = std::mem::take(&mut self.full);
        if let Some((key, counters)) = full.first().copied() {
            let code = Event::Full { key, counters }.code();
            let inventory = shared.telemetry.snapshot().inventory;
            let text = full_text(&full, &inventory);
            shared.event(shared.clock.now(), Severity::Warning, code, &text);
        }
        for (code, (count, at, severity)) in std::mem::take(&mut self.counts) {
            if let Some(text) = others(count, NAMED, "status' counts them") {
                shared.event(at, severity, code, &text);
            }
        }
    }
}

const fn severity(event: &Event) -> Severity {
    match event {
        Event::Answers { .. } | Event::Reset { .. } | Event::Unsupported { .. } => Severity::Info,
        _ => Severity::Warning,
    }
}

/// Returns the node that an event is about.
const fn node_of(event: &Event) -> Option<Guid> {
    match event {
        Event::Silent { node, .. } | Event::Answers { node } => Some(*node),
        Event::Stranger { key, .. }
        | Event::Implausible { key }
        | Event::Reset { key, .. }
        | Event::Full { key, .. }
        | Event::Unsupported { key } => Some(key.node),
        _ => None,
    }
}

/// Returns the text about counters at their maximum: their names, how many ports there are, and the first of them.
fn full_text(full: &[(SampleKey, u32)], inventory: &Inventory) -> String {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut ports: BTreeSet<(Guid, u8)> = BTreeSet::new();
    for (key, counters) in full {
        let counted = (0..key.group.counters()).filter(|counter| counters >> counter & 1 != 0);
        names.extend(counted.map(|counter| key.group.counter_name(counter)));
        ports.insert((key.node, key.port));
    }
    let first = ports.iter().take(NAMED).map(|(guid, port)| {
        let node = inventory.nodes.get(guid);
        let name = node.map_or_else(|| guid.to_string(), |node| node.description.clone());
        format!("\"{name}\"[{port}]")
    });
    let first: Vec<String> = first.collect();
    let more = match ports.len().saturating_sub(first.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names: Vec<String> = names.into_iter().collect();
    let (ports, s) = (ports.len(), if ports.len() == 1 { "" } else { "s" });
    format!(
        "{} cannot count further at {ports} port{s}, and misses events: {}{more}; reset it with perfquery -R",
        names.join(", "),
        first.join(", ")
    )
}

/// Returns the text without its code, with the name of the node in front of its GUID.
fn text(event: &Event, inventory: &Inventory) -> String {
    let text = event.to_string();
    let text = text.strip_prefix(event.code()).unwrap_or(&text);
    let text = text.trim_start_matches([':', ' ']);
    let named = node_of(event).and_then(|guid| {
        let name = &inventory.nodes.get(&guid)?.description;
        let guid = guid.to_string();
        Some(text.replace(&guid, &format!("\"{name}\" ({guid})")))
    });
    named.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use selvedge_telemetry::{Group, Metric, NodeEntry};
    use selvedge_types::NodeKind;

    use super::*;

    #[test]
    fn full_counters_of_many_ports_are_one_event() {
        let key = |port| SampleKey {
            node: Guid(0x20),
            port,
            group: Group::Base,
        };
        let wait = Group::Base.mask_of(|metric| metric == Metric::XmitWait);
        let one = full_text(&[(key(1), wait)], &Inventory::default());
        assert_eq!(
            one,
            "PortXmitWait cannot count further at 1 port, and misses events: \"0x0000000000000020\"[1]; reset it with \
             perfquery -R"
        );
        let symbols = Group::Base.mask_of(|metric| metric == Metric::SymbolErrors);
        let many: Vec<(SampleKey, u32)> = (1..=9).map(|port| (key(port), wait | symbols)).collect();
        let many = full_text(&many, &Inventory::default());
        let want = "PortXmitWait, SymbolErrorCounter cannot count further at 9 ports";
        assert!(many.starts_with(want) && many.contains(" and 5 more;"), "{many}");
    }

    #[test]
    fn events_name_the_node() {
        let node = Guid(0x20);
        let entry = NodeEntry {
            kind: NodeKind::Ca,
            description: "host 7".to_owned(),
            ports: Vec::new(),
        };
        let inventory = Inventory {
            nodes: [(node, entry)].into(),
        };
        let event = Event::Answers { node };
        let want = "the agent of node \"host 7\" (0x0000000000000020) answers again";
        assert_eq!(text(&event, &inventory), want);
        assert_eq!(
            text(&event, &Inventory::default()),
            "the agent of node 0x0000000000000020 answers again"
        );
    }
}
