//! Alarms as facts of health.

use selvedge_health::{Alarm as Fact, End as HealthEnd, Place, What};
use selvedge_types::PortNum;

use crate::alarm::{Alarm, AlarmBook, Level, Subject};
use crate::{End, Inventory};

impl AlarmBook {
    /// Returns the alarms as facts of health: warnings and critical ones that no operator has acknowledged. The rest is
    /// shown with the alarms and is no condition.
    #[must_use]
    pub fn facts(&self, inventory: &Inventory) -> Vec<Fact> {
        let worth = self
            .alarms()
            .filter(|alarm| alarm.level >= Level::Warning && alarm.ack.is_none());
        worth.filter_map(|alarm| fact(alarm, inventory)).collect()
    }
}

fn fact(alarm: &Alarm, inventory: &Inventory) -> Option<Fact> {
    let what = match alarm.id.subject {
        Subject::Counter(_) => What::PortErrors,
        Subject::Flaps => What::LinkFlaps,
        Subject::BitErrors => What::BitErrors,
        Subject::Congestion => return None,
    };
    let at = end(alarm.id.at, inventory)?;
    let evidence = match alarm.id.subject {
        Subject::Counter(_) | Subject::BitErrors => format!("at {at}: {}", alarm.evidence),
        Subject::Flaps | Subject::Congestion => alarm.evidence.clone(),
    };
    let place = match alarm.peer.and_then(|peer| end(peer, inventory)) {
        Some(peer) if peer < at => Place::Link(peer, at),
        Some(peer) => Place::Link(at, peer),
        None => Place::Port(at),
    };
    Some(Fact {
        what,
        place,
        since: alarm.since,
        evidence,
    })
}

fn end(end: End, inventory: &Inventory) -> Option<HealthEnd> {
    let name = inventory.nodes.get(&end.node).map(|node| node.description.clone());
    Some(HealthEnd {
        node: end.node,
        name: name.unwrap_or_default(),
        port: PortNum::new(end.port)?,
    })
}
