//! Follows packets to one LID by the tables as they are: who gets there, who goes in circles, what waits for what.

use selvedge_chassis::Chassis;
use selvedge_fabric::NodeIdx;
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::Lid;

use super::{Changed, Delta, Far, Routes, Switches};

// What is known of a switch while packets are followed.
const UNSEEN: u8 = 0;
const ON_THE_WAY: u8 = 1;
const ARRIVES: u8 = 2;
const LOST: u8 = 3;

impl Routes {
    /// Follows packets to one LID from everywhere.
    pub(super) fn follow(&mut self, chassis: &Chassis, lid: u16, delta: &mut Delta) {
        let (index, count) = (usize::from(lid), self.switches.len());
        if self.delivered.len() <= index {
            self.delivered.resize(index + 1, 0);
            self.circles.resize(index + 1, false);
            self.of_switch.resize(index + 1, false);
        }
        let holder = |&switch: &NodeIdx| {
            chassis
                .port_at(switch, 0)
                .is_some_and(|p| chassis.wire(p).answers_to(Lid(lid)))
        };
        self.of_switch[index] = self.switches.iter().any(holder);
        let mut state = std::mem::take(&mut self.scratch);
        state.clear();
        state.resize(count, UNSEEN);
        let passed = self.passed_by(lid);
        let mut circle = None;
        for start in 0..count {
            let mut at = start;
            while state[at] == UNSEEN {
                state[at] = ON_THE_WAY;
                match self.next(at, lid) {
                    Far::Switch(next, _) => at = next.into(),
                    Far::Host(port) if chassis.wire(port).answers_to(Lid(lid)) => state[at] = ARRIVES,
                    Far::Host(_) | Far::Dead if holder(&self.switches[at]) => state[at] = ARRIVES,
                    Far::Host(_) | Far::Dead => state[at] = LOST,
                }
            }
            let end = if state[at] == ON_THE_WAY {
                // Packets to a switch come from hosts, and where no host has an ACTIVE link there are none.
                let is_of_nobody = passed == 0 && !self.of_switch[index];
                let counts = is_of_nobody || passed & 1 << at != 0;
                circle = circle.or(Some(at).filter(|_| counts));
                LOST
            } else {
                state[at]
            };
            let mut at = start;
            while state[at] == ON_THE_WAY {
                state[at] = end;
                let Far::Switch(next, _) = self.next(at, lid) else {
                    break;
                };
                at = next.into();
            }
        }
        let arrives = (0..count).filter(|&at| state[at] == ARRIVES);
        let now = arrives.fold(0, |bits, at| bits | 1 << at);
        self.scratch = state;
        let before = std::mem::replace(&mut self.delivered[index], now);
        if before & !now != 0 {
            delta.lost.push((Lid(lid), before & !now));
        }
        if now & !before != 0 {
            delta.gained.push((Lid(lid), now & !before));
        }
        if let (Some(at), false) = (circle, self.circles[index]) {
            delta.loops.push((Lid(lid), self.circle(lid, at)));
        }
        self.circles[index] = circle.is_some();
        let own = (0..count).filter(|&at| holder(&self.switches[at]));
        let own = own.fold(0, |bits, at| bits | 1 << at);
        self.note_ways(lid, before & !own, delta);
        self.depend(lid, passed);
    }

    /// The switches of the circle that one of them is in.
    fn circle(&self, lid: u16, first: usize) -> Vec<NodeIdx> {
        let mut circle = vec![self.switches[first]];
        let mut at = first;
        while let Far::Switch(next, _) = self.next(at, lid) {
            at = next.into();
            if at == first {
                break;
            }
            circle.push(self.switches[at]);
        }
        circle
    }

    /// What packets at a switch do.
    pub(super) fn next(&self, at: usize, lid: u16) -> Far {
        match self.rows[at].get(usize::from(lid)) {
            None | Some(&NO_PATH) => Far::Dead,
            Some(&port) if usize::from(port) < self.stride => self.far[at * self.stride + usize::from(port)],
            Some(_) => Far::Dead,
        }
    }

    /// Switches that packets to one LID may pass. Switches themselves send to hosts only, and nobody sends to somebody
    /// who is off or lies apart: in two halves of a fabric one LID may be that of two hosts.
    fn passed_by(&self, lid: u16) -> Switches {
        if !self.of_switch[usize::from(lid)] {
            return self.reaches(Lid(lid));
        }
        let mut passed = self.with_hosts & self.reaches(Lid(lid));
        let mut todo: Vec<usize> = (0..self.switches.len()).filter(|at| passed & 1 << at != 0).collect();
        while let Some(at) = todo.pop() {
            if let Far::Switch(next, _) = self.next(at, lid)
                && passed & 1 << next == 0
            {
                passed |= 1 << next;
                todo.push(next.into());
            }
        }
        passed
    }

    /// Which channels packets to one LID hold while they wait for which.
    fn depend(&mut self, lid: u16, passed: Switches) {
        let count = self.switches.len();
        // Packets to nobody are thrown away where they are.
        let since = self.ghosts_since.filter(|_| passed != 0);
        for at in 0..count {
            let port = |at: usize| self.rows[at].get(usize::from(lid)).copied().unwrap_or(NO_PATH);
            let dependency = match self.next(at, lid) {
                Far::Switch(next, ingress) if passed & 1 << at != 0 => {
                    let out = port(next.into());
                    let goes_on = matches!(self.next(next.into(), lid), Far::Switch(..)) && out != ingress;
                    let from = at * self.stride + usize::from(port(at));
                    goes_on.then_some((from * self.stride + usize::from(out)) as u32)
                }
                _ => None,
            };
            let place = usize::from(lid) * count + at;
            let holder = match self.before[place].1 {
                Far::Switch(holder, _) => Some(holder),
                Far::Dead | Far::Host(_) => None,
            };
            let ghost = since
                .zip(holder)
                .map(|(since, holder)| (since, since + self.lifetimes[usize::from(holder)]));
            let is_ghost = self.channels.set(place, dependency, ghost);
            let block = usize::from(lid) / BLOCK_LIDS;
            let ends = [u8::try_from(at).ok(), holder];
            let Some(since) = since.filter(|_| is_ghost) else {
                continue;
            };
            let mut ends = ends.iter().flatten();
            if ends.clone().any(|&at| self.liars.contains(&(at, block))) {
                self.ghosts_of_liars.push(since);
            }
            let rule = ends.find_map(|&at| self.strays.get(&(at, block)));
            self.ghosts_of_strays.extend(rule.map(|rule| (since, *rule)));
        }
    }

    /// Notes where packets go, and which entries changed by which they arrived.
    fn note_ways(&mut self, lid: u16, complete: Switches, delta: &mut Delta) {
        let count = self.switches.len();
        let base = usize::from(lid) * count;
        if self.ways.len() < base + count {
            self.ways.resize(base + count, (NO_PATH, Far::Dead));
            self.before.resize(base + count, (NO_PATH, Far::Dead));
        }
        for at in 0..count {
            let port = self.rows[at].get(usize::from(lid)).copied().unwrap_or(NO_PATH);
            let now = (port, self.next(at, lid));
            let before = std::mem::replace(&mut self.ways[base + at], now);
            self.before[base + at] = before;
            if before.0 != now.0 && complete & 1 << at != 0 {
                delta.changed.push(Changed {
                    lid: Lid(lid),
                    at: u8::try_from(at).unwrap_or(u8::MAX),
                    was: before.0,
                    from: complete,
                });
            }
        }
    }
}
