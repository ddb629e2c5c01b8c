//! Switches that were off, and switches that show another GUID: packets that they had forwarded are still in flight.
//!
//! A switch that is powered off loses its tables and the packets in its queues, but not the packets that it has sent.
//! Packets that it has sent wait in its neighbours and occupy the channels from the switch to the neighbours. The
//! channels carry packets again as soon as the links are ACTIVE. So a power-off counts as a step in which the switch
//! dropped all entries.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{BLOCK_LIDS, Installed};
use selvedge_sim::Time;
use selvedge_types::{Guid, PortState};

use super::Past;

/// The LFT blocks of a switch.
type Row = Vec<Option<[u8; BLOCK_LIDS]>>;

/// Tables of switches that are not visible, and when the switches were last known to forward by them.
#[derive(Clone, Debug, Default)]
pub(super) struct Gone {
    rows: BTreeMap<Guid, (Time, Row)>,
    /// The last time at which a link between switches was known to carry packets.
    live_at: Option<Time>,
}

/// A fabric and the tables of its switches.
pub type Known<'a> = (&'a Fabric, &'a Installed);

fn row_of<'a>((fabric, installed): Known<'a>, guid: Guid) -> Option<&'a Row> {
    let row = installed.lfts.get(fabric.switch_index(fabric.find(guid)?)?)?;
    row.iter().any(Option::is_some).then_some(row)
}

impl Past {
    /// Records that the known state changes from `before` to `after`. Tables of switches that are no longer found are
    /// kept in the record.
    pub fn note_gone(&mut self, before: Known<'_>, after: Known<'_>, now: Time) {
        self.revision += 1;
        for &node in before.0.switches().iter() {
            let guid = before.0.node(node).guid;
            match (row_of(before, guid), row_of(after, guid)) {
                (Some(row), None) => drop(self.gone.rows.insert(guid, (now, row.clone()))),
                (_, Some(_)) => drop(self.gone.rows.remove(&guid)),
                (None, None) => {}
            }
        }
    }

    /// Records that links between switches carried packets until now.
    pub const fn note_carried(&mut self, now: Time) {
        self.gone.live_at = Some(now);
    }

    /// True if packets may be in flight between switches: some link carried packets a moment ago, even if the last
    /// sweep did not find it.
    pub fn has_carried(&self, fabric: &Fabric, now: Time) -> bool {
        self.gone
            .live_at
            .is_some_and(|at| self.recent.is_surely_under_way(fabric, at, now))
    }

    /// Evaluates the result of a sweep: which switches were off, which show another GUID, and which Sets were executed
    /// late. `before` is the last known state, `installed` the one just read.
    pub fn note_read(&mut self, fabric: &Fabric, before: Option<Known<'_>>, installed: &Installed, now: Time) {
        self.note_reset(fabric, before, now);
        self.note_renamed(fabric);
        self.note_late(fabric, installed, now);
    }

    /// Records that a switch with LinearFDBTop 0 has been off. `before`: the last known state.
    fn note_reset(&mut self, fabric: &Fabric, before: Option<Known<'_>>, now: Time) {
        let switches = fabric.switches().iter().map(|&node| fabric.node(node));
        for node in switches.filter(|node| node.switch_settings.linear_top == 0) {
            let gone = self.gone.rows.remove(&node.guid);
            let seen = before.and_then(|known| row_of(known, node.guid));
            let Some((at, row)) = seen.map(|row| (now, row.clone())).or(gone) else {
                continue;
            };
            self.revision += 1;
            if self.recent.is_surely_under_way(fabric, at, now) && self.recent.written.empty(node.guid, &row, at) {
                self.note_written(at);
            }
        }
    }

    /// Handles a recently written switch that shows another GUID: an ACTIVE link that led to the switch before shows
    /// that it is the same one. One of the two GUIDs belongs to another switch, so it is unknown which switch received
    /// which Sets.
    fn note_renamed(&mut self, fabric: &Fabric) {
        let Some(seen) = &self.recent.seen else { return };
        let last = &seen.fabric;
        let is_switch = |guid| {
            fabric
                .find(guid)
                .is_some_and(|node| fabric.switch_index(node).is_some())
        };
        let mut written = self.recent.written.before.keys().map(|(guid, _)| *guid);
        let leads_to_another = |guid: Guid| {
            let ports = last
                .find(guid)
                .into_iter()
                .flat_map(|node| last.node(node).external_ports());
            ports.filter_map(|(_, port)| port.peer).any(|near| {
                let here = fabric.find(last.node(near.node).guid);
                let here = here.map(|node| PortRef { node, port: near.port });
                let port = here.and_then(|here| fabric.port(here));
                port.is_some_and(|port| port.link.state == PortState::Active && port.peer.is_some())
            })
        };
        if written.any(|guid| !is_switch(guid) && leads_to_another(guid)) {
            self.fog_from(self.at, fabric);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::made::{FAR, FIRST, SECOND, empty_plan, guid, inventory, row};
    use crate::past::{After, Taken};

    const HELD: [u8; BLOCK_LIDS] = [2; BLOCK_LIDS];

    fn tables(fabric: &Fabric) -> Installed {
        let mut installed = Installed::unknown(fabric.switches().len());
        fabric
            .switches()
            .indices()
            .for_each(|switch| installed.learn(switch, 0, HELD));
        installed
    }

    /// Returns the row, with its second switch as after a reset if it was off.
    fn fabric(was_off: bool) -> Fabric {
        let mut found = row();
        if was_off {
            found[SECOND].switch.as_mut().unwrap().linear_top = selvedge_types::Lid::NONE;
        }
        Arc::unwrap_or_clone(inventory(found).fabric)
    }

    #[test]
    fn a_switch_that_was_off_has_dropped_what_it_held() {
        // Arguments: whether it was off, how long it was out of sight (if it was), and whether its packets count.
        let check = |was_off: bool, gone: Option<Duration>, want: bool| {
            let (before, now) = (fabric(false), fabric(was_off));
            let held = tables(&before);
            let mut past = Past::default();
            let mut known = Some((&before, &held));
            if gone.is_some() {
                let mut without = held.clone();
                let switch = before.switch_index(before.find(guid(SECOND)).unwrap()).unwrap();
                without.lfts[switch].clear();
                past.note_gone((&before, &held), (&before, &without), Time::ZERO);
                known = None;
            }
            let at = Time::ZERO + gone.unwrap_or_default();
            past.note_reset(&now, known, at);
            // It is seen again before any Set has been sent.
            past.note_reset(&now, known, at);
            let under_way = past.under_way(&now, at);
            let steps = under_way.map(|under_way| (under_way.before.len(), under_way.phases.len()));
            assert_eq!(steps, want.then_some((1, 1)), "{was_off} {gone:?}");
        };
        check(true, None, true);
        check(false, None, false);
        // Two lifetimes of 4.096 µs, the shortest.
        check(true, Some(Duration::from_micros(5)), true);
        check(true, Some(Duration::from_micros(9)), false);
    }

    #[test]
    fn packets_of_links_that_were_lost_a_moment_ago_are_under_way() {
        let check = |live_at: Option<Duration>, want: bool| {
            let fabric = fabric(false);
            let mut past = Past::default();
            past.gone.live_at = live_at.map(|at| Time::ZERO + at);
            // Two lifetimes of 4.096 µs, the shortest.
            let now = Time::ZERO + Duration::from_micros(20);
            assert_eq!(past.has_carried(&fabric, now), want, "{live_at:?}");
        };
        check(None, false);
        check(Some(Duration::from_micros(20)), true);
        check(Some(Duration::from_micros(12)), true);
        check(Some(Duration::from_micros(11)), false);
    }

    #[test]
    fn a_switch_that_goes_by_another_name_is_waited_out() {
        let check = |is_renamed: bool, is_cut: bool, want: bool| {
            let before = inventory(row()).fabric;
            let mut found = row();
            if is_renamed {
                found[SECOND].info.node_guid = Guid(99);
            }
            if is_cut {
                for (at, num) in [(FIRST, 2), (FAR, 1)] {
                    found[at].ports[num].info = Some(crate::made::info(PortState::Init));
                }
            }
            let now = inventory(found).fabric;
            let mut taken = Taken::default();
            taken.note((guid(SECOND), 0, HELD), None);
            let after = After {
                installed: Arc::new(tables(&before)),
                plan: Arc::new(empty_plan()),
                fabric: before,
            };
            let mut past = Past::default();
            past.add(taken, false, Time::ZERO, after);
            past.note_renamed(&now);
            assert_eq!(!past.fog(Time::ZERO).is_zero(), want, "{is_renamed} {is_cut}");
        };
        check(false, false, false);
        check(true, false, true);
        // The node that is there now came by another cable.
        check(true, true, false);
    }
}
