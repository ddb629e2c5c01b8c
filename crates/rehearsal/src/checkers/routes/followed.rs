//! Follows packets to one LID by present tables: where they arrive, where they go in circles, which switches they pass.

use selvedge_chassis::Chassis;
use selvedge_fabric::NodeIdx;
use selvedge_plan::NO_PATH;
use selvedge_types::Lid;

use super::delta::{Changed, Delta};
use super::entries::Entries;
use super::layout::Switches;
use super::links::Far;

// States of a switch while packets are followed.
const UNSEEN: u8 = 0;
const ON_THE_WAY: u8 = 1;
const ARRIVES: u8 = 2;
const LOST: u8 = 3;

/// Results of the last time that packets were followed, by LID.
#[derive(Clone, Debug, Default)]
pub(super) struct Followed {
    /// Switches from which packets arrive.
    delivered: Vec<Switches>,
    circles: Vec<bool>,
    /// By LID: whether port 0 of a switch holds it.
    of_switch: Vec<bool>,
    /// The end of the route, by LID, then switch.
    ways: Vec<(u8, Far)>,
    /// Egress and far end of each switch before the last change of the LID.
    before: Vec<(u8, Far)>,
    scratch: Vec<u8>,
}

impl Followed {
    /// Switches from which packets to `lid` arrive.
    pub fn delivered(&self, lid: Lid) -> Switches {
        self.delivered.get(lid.index()).copied().unwrap_or(0)
    }

    /// Returns the LIDs to which packets loop.
    pub fn circles(&self) -> impl Iterator<Item = Lid> + '_ {
        let circles = (0_u16..).zip(&self.circles).filter(|(_, circle)| **circle);
        circles.map(|(lid, _)| Lid(lid))
    }

    /// Returns LIDs of switches.
    pub fn of_switches(&self) -> impl Iterator<Item = u16> + '_ {
        let of_switch = (0..).zip(&self.of_switch).filter(|(_, of_switch)| **of_switch);
        of_switch.map(|(lid, _)| lid)
    }

    /// Returns the routes from some switches to a LID before their last change.
    pub fn ways_before(&self, count: usize, lid: Lid, from: Switches) -> Vec<Vec<(u8, u8)>> {
        let before = |at: usize| self.before.get(lid.index() * count + at).copied();
        let one = |from: usize| {
            let (mut way, mut at) = (Vec::new(), from);
            while way.len() <= count {
                let (port, far) = before(at)?;
                way.push((u8::try_from(at).unwrap_or(u8::MAX), port));
                let Far::Switch(next, _) = far else { return Some(way) };
                at = next.into();
            }
            None
        };
        (0..count).filter(|at| from & 1 << at != 0).filter_map(one).collect()
    }

    /// Returns the peer behind the entry of a switch before the last change of the LID.
    pub fn far_before(&self, count: usize, lid: Lid, at: usize) -> Far {
        self.before[lid.index() * count + at].1
    }

    /// Follows packets to one LID from all switches. `reach` is the set of switches that have a connection to a port
    /// with the LID. Returns the switches that packets to the LID may pass.
    pub fn follow(
        &mut self,
        entries: &Entries,
        chassis: &Chassis,
        (lid, reach): (Lid, Switches),
        delta: &mut Delta,
    ) -> Switches {
        let index = lid.index();
        let switches = entries.layout.switches();
        let count = switches.len();
        if self.delivered.len() <= index {
            self.delivered.resize(index + 1, 0);
            self.circles.resize(index + 1, false);
            self.of_switch.resize(index + 1, false);
        }
        let holds = |&switch: &NodeIdx| {
            chassis
                .port_at(switch, 0)
                .is_some_and(|p| chassis.wire(p).answers_to(lid))
        };
        self.of_switch[index] = switches.iter().any(holds);
        let passed = self.passed_by(entries, lid, reach);
        let mut state = std::mem::take(&mut self.scratch);
        state.clear();
        state.resize(count, UNSEEN);
        let mut circle = None;
        for start in 0..count {
            let end = match walk(entries, chassis, lid, start, &mut state) {
                (at, ON_THE_WAY) => {
                    // Packets to a switch come from hosts: where no host has an ACTIVE link there are none.
                    let is_of_nobody = passed == 0 && !self.of_switch[index];
                    let counts = is_of_nobody || passed & 1 << at != 0;
                    circle = circle.or(Some(at).filter(|_| counts));
                    LOST
                }
                (_, end) => end,
            };
            mark(entries, lid, start, end, &mut state);
        }
        let arrives = (0..count).filter(|&at| state[at] == ARRIVES);
        let now = arrives.fold(0, |bits, at| bits | 1 << at);
        self.scratch = state;
        let before = std::mem::replace(&mut self.delivered[index], now);
        if before & !now != 0 {
            delta.lost.push((lid, before & !now));
        }
        if now & !before != 0 {
            delta.gained.push((lid, now & !before));
        }
        if let (Some(at), false) = (circle, self.circles[index]) {
            delta.loops.push((lid, circle_through(entries, lid, at)));
        }
        self.circles[index] = circle.is_some();
        let own = (0..count).filter(|&at| holds(&switches[at]));
        let own = own.fold(0, |bits, at| bits | 1 << at);
        self.note_ways(entries, lid, before & !own, delta);
        passed
    }

    /// Returns the switches that packets to one LID may pass. It is assumed that switches send to hosts only, and that
    /// no port sends to a port that is off or in another subnet. (One LID may belong to two hosts in two separate parts
    /// of a fabric.)
    fn passed_by(&self, entries: &Entries, lid: Lid, reach: Switches) -> Switches {
        if !self.of_switch[lid.index()] {
            return reach;
        }
        let mut passed = entries.links.with_hosts() & reach;
        let switches = 0..entries.layout.switches().len();
        let mut todo: Vec<usize> = switches.filter(|at| passed & 1 << at != 0).collect();
        while let Some(at) = todo.pop() {
            if let Far::Switch(next, _) = entries.next(at, lid)
                && passed & 1 << next == 0
            {
                passed |= 1 << next;
                todo.push(next.into());
            }
        }
        passed
    }

    /// Records where packets go, and the changed entries that led packets to their destination before.
    fn note_ways(&mut self, entries: &Entries, lid: Lid, complete: Switches, delta: &mut Delta) {
        let count = entries.layout.switches().len();
        let base = lid.index() * count;
        if self.ways.len() < base + count {
            self.ways.resize(base + count, (NO_PATH, Far::Dead));
            self.before.resize(base + count, (NO_PATH, Far::Dead));
        }
        for at in 0..count {
            let now = (entries.entry(at, lid), entries.next(at, lid));
            let before = std::mem::replace(&mut self.ways[base + at], now);
            self.before[base + at] = before;
            if before.0 != now.0 && complete & 1 << at != 0 {
                delta.changed.push(Changed {
                    lid,
                    at: u8::try_from(at).unwrap_or(u8::MAX),
                    was: before.0,
                    from: complete,
                });
            }
        }
    }
}

/// Follows packets from a switch until their end is known. Returns the last switch, and their end.
fn walk(entries: &Entries, chassis: &Chassis, lid: Lid, start: usize, state: &mut [u8]) -> (usize, u8) {
    let holds = |at: usize| {
        let own = entries.layout.switch(at).and_then(|node| chassis.port_at(node, 0));
        own.is_some_and(|own| chassis.wire(own).answers_to(lid))
    };
    let mut at = start;
    while state[at] == UNSEEN {
        state[at] = ON_THE_WAY;
        match entries.next(at, lid) {
            Far::Switch(next, _) => at = next.into(),
            Far::Host(port) if chassis.wire(port).answers_to(lid) => state[at] = ARRIVES,
            Far::Host(_) | Far::Dead if holds(at) => state[at] = ARRIVES,
            Far::Host(_) | Far::Dead => state[at] = LOST,
        }
    }
    (at, state[at])
}

/// Records the same end for all switches on the route from a switch.
fn mark(entries: &Entries, lid: Lid, start: usize, end: u8, state: &mut [u8]) {
    let mut at = start;
    while state[at] == ON_THE_WAY {
        state[at] = end;
        let Far::Switch(next, _) = entries.next(at, lid) else {
            break;
        };
        at = next.into();
    }
}

/// Returns the switches of the loop that includes this switch.
fn circle_through(entries: &Entries, lid: Lid, first: usize) -> Vec<NodeIdx> {
    let mut circle = Vec::new();
    let mut at = first;
    loop {
        circle.extend(entries.layout.switch(at));
        let Far::Switch(next, _) = entries.next(at, lid) else {
            return circle;
        };
        at = next.into();
        if at == first {
            return circle;
        }
    }
}
