//! Reports the sampler's events to operators. If many nodes have the same trouble in a slot, the first are named and
//! the others counted.

use std::collections::BTreeMap;

use selvedge_api::Severity;
use selvedge_sim::Time;
use selvedge_telemetry::{Event, Inventory};
use selvedge_types::Guid;

use crate::shared::Shared;

/// Events of one code that are named until the next slot ends.
const NAMED: u64 = 4;

/// Events since the last slot ended, by code.
#[derive(Debug, Default)]
pub(super) struct Reports(BTreeMap<&'static str, (u64, Time, Severity)>);

impl Reports {
    /// Takes an event.
    pub(super) fn take(&mut self, shared: &Shared, at: Time, event: Event) {
        let severity = severity(&event);
        let (count, last, _) = self.0.entry(event.code()).or_insert((0, at, severity));
        *count += 1;
        *last = at;
        if *count <= NAMED {
            let snapshot = shared.telemetry.snapshot();
            shared.event(at, severity, event.code(), &text(&event, &snapshot.inventory));
        }
    }

    /// Reports how many events were not named: a slot ended.
    pub(super) fn end(&mut self, shared: &Shared) {
        for (code, (count, at, severity)) in std::mem::take(&mut self.0) {
            if let Some(more) = count.checked_sub(NAMED).filter(|more| *more > 0) {
                let text = format!("and {more} more like these; 'selvedge telemetry status' counts them");
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
    use selvedge_telemetry::NodeEntry;
    use selvedge_types::NodeKind;

    use super::*;

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
