//! Repairs one LID at one switch that has lost its next hop, with a few entries at that switch and at switches that
//! send to it.
//!
//! Packets may be on channels into the switch, so these channels stay in the graph. Call a channel *earlier* if packets
//! on it may wait for packets on one of these channels. An earlier channel cannot be on the new path, because that
//! would close a cycle. If no path in force can be reached over other channels, there is no new path as long as packets
//! are in flight, whatever else changes. Otherwise paths with few new entries are tried first; then any path is
//! searched by [`Order::sweep`](crate::engines::weave::order::Order::sweep).

use selvedge_fabric::SwitchIdx;
use selvedge_types::Lid;

use super::loads::{Loads, Sums};
use super::{Loss, Rehung, Trip};
use crate::engines::weave::net::{NONE, Net};
use crate::engines::weave::order::{Cost, Sweep, Task};

/// Largest number of entries for one switch and LID: each is a step of its own.
const CHAIN_MAX: usize = 8;
/// Paths with at most this number of new entries are tried first. At most this number of such paths are tried.
const FEW: usize = 3;
const FEW_TRIED: usize = 6;

/// Number of new entries, cost of the path, and the entries, each with the channel behind it.
type Few = (usize, u64, Vec<(u32, u32)>);

/// Memory of searches.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    pub(super) round: u32,
    /// By switch: the round in which it was cut off.
    pub(super) cut_off: Vec<u32>,
    /// Cut-off switches, each with the position of the switch that it sends to; roots have their own position.
    pub(super) part: Vec<(u32, usize)>,
    pub(super) into: Vec<u32>,
    /// By switch of the cut-off part: its distance from the lost link.
    pub(super) depth: Vec<u32>,
    /// Mean number of host pairs on a channel; the next field is the largest number on any channel.
    pub(super) mean: u64,
    pub(super) most: u64,
    pub(super) sums: Sums,
    pub(super) sweep: Sweep,
    /// By switch: the channel by which it sent a LID, before a search changed it.
    pub(super) before: Vec<u32>,
}

impl Scratch {
    pub(super) fn new(net: &Net) -> Self {
        Self {
            cut_off: vec![0; net.switches],
            sums: Sums::new(net),
            ..Self::default()
        }
    }
}

impl Loss<'_> {
    /// Gives a new path to switch `root`, which has an entry over a lost link. `first` is the index of the LID's first
    /// changed entry. Returns false if there is no path.
    pub(super) fn rehang(&mut self, lid: Lid, root: u32, first: usize) -> bool {
        let by = self.by(root, lid);
        if by == NONE || self.mender.alive[by as usize] {
            return true;
        }
        let mut into = std::mem::take(&mut self.mender.scratch.into);
        self.entering(root, lid, first, &mut into);
        let lane = usize::from(self.mender.trips[lid.index()].lane);
        self.mender.orders[lane].mark_before(&self.net, &into);
        let is_led = self.may_reach(lid, root)
            && (self.rehang_by_few(lid, root, first) || self.rehang_by_sweep(lid, root, first, &into));
        self.mender.scratch.into = into;
        is_led
    }

    /// Returns false if the switch cannot reach the goal by channels that are not marked, followed by entries in force.
    /// (Marked are channels that cannot be on the new path.) Then the LID cannot be repaired while packets are in
    /// flight.
    fn may_reach(&self, lid: Lid, root: u32) -> bool {
        let mut met = vec![false; self.net.switches];
        met[root as usize] = true;
        let mut line = vec![root];
        while let Some(at) = line.pop() {
            for out in self.net.out(at as usize) {
                let to = self.net.dst[out];
                if met[to as usize] || !self.may_leave_by(lid, out as u32) {
                    continue;
                }
                if self.cost_unmarked(to, lid).is_some() {
                    return true;
                }
                met[to as usize] = true;
                line.push(to);
            }
        }
        false
    }

    fn may_leave_by(&self, lid: Lid, channel: u32) -> bool {
        let order = &self.mender.orders[usize::from(self.mender.trips[lid.index()].lane)];
        self.mender.alive[channel as usize] && !order.is_marked(channel)
    }

    /// Returns the cost of the path in force from a switch; `None` if there is none, or if it leads over marked
    /// channels, which cannot be on the new path.
    fn cost_unmarked(&self, switch: u32, lid: Lid) -> Option<u64> {
        let (goal, mut at, mut cost) = (self.mender.trips[lid.index()].at, switch, 0);
        for _ in 0..self.net.switches {
            if at == goal {
                return Some(cost);
            }
            let by = self.by(at, lid);
            if by == NONE || !self.may_leave_by(lid, by) {
                return None;
            }
            cost += self.weight(by);
            at = self.net.dst[by as usize];
        }
        None
    }

    /// Tries paths with two or three new entries, cheapest first.
    fn rehang_by_few(&mut self, lid: Lid, root: u32, first: usize) -> bool {
        let mut found = Vec::new();
        self.offer_few(lid, &mut vec![root], &mut Vec::new(), 0, &mut found);
        found.sort_unstable();
        found.truncate(FEW_TRIED);
        self.cut_off(lid, &[root]);
        let is_new = |chain: &[(u32, u32)]| {
            chain
                .iter()
                .all(|&(c, _)| !self.has_moved(self.net.src[c as usize], first))
        };
        found.retain(|(_, _, chain)| is_new(chain));
        found.iter().any(|(_, _, chain)| self.take(lid, root, chain, first))
    }

    /// Offers paths from the last of some switches, which send to each other over `channels`, to a switch with a path.
    fn offer_few(&self, lid: Lid, switches: &mut Vec<u32>, channels: &mut Vec<u32>, cost: u64, found: &mut Vec<Few>) {
        let goal = self.mender.trips[lid.index()].at;
        let Some(&at) = switches.last() else { return };
        for out in self.net.out(at as usize).map(|out| out as u32) {
            let to = self.net.dst[out as usize];
            if switches.contains(&to) || self.by(at, lid) == out || !self.may_leave_by(lid, out) {
                continue;
            }
            let cost = cost + self.weight(out);
            channels.push(out);
            if let Some(rest) = self.cost_unmarked(to, lid) {
                let last = if to == goal { NONE } else { self.by(to, lid) };
                let onward = channels[1..].iter().copied().chain([last]);
                let chain: Vec<(u32, u32)> = channels.iter().copied().zip(onward).collect();
                found.push((chain.len(), cost + rest, chain));
            } else if channels.len() < FEW {
                switches.push(to);
                self.offer_few(lid, switches, channels, cost, found);
                switches.pop();
            }
            channels.pop();
        }
    }

    /// Searches for any path.
    fn rehang_by_sweep(&mut self, lid: Lid, root: u32, first: usize, into: &[u32]) -> bool {
        let Trip { at: goal, lane, .. } = self.mender.trips[lid.index()];
        let lane = usize::from(lane);
        // Attempts have moved the marks.
        self.mender.orders[lane].mark_before(&self.net, into);
        let mut sweep = std::mem::take(&mut self.mender.scratch.sweep);
        let before = self.column(lid);
        let order = &self.mender.orders[lane];
        self.start_sweep(lid, &mut sweep, &before, |_, by| !order.is_marked(by));
        let (net, alive) = (&self.net, &self.mender.alive);
        let loads = Loads::of(&self.mender.load, &self.mender.scratch);
        let rank = |c: u32, (changes, cost): Cost| {
            let is_new = before[net.src[c as usize] as usize] != c;
            (false, changes + u32::from(is_new), cost + loads.weight(c))
        };
        let task = Task {
            goal,
            until: Some(root),
            held: into,
        };
        let order = &mut self.mender.orders[lane];
        let is_found = order.sweep(net, task, &mut sweep, |c| alive[c as usize], rank);
        let chain = if is_found {
            self.chain(lid, root, &sweep)
        } else {
            Vec::new()
        };
        (self.mender.scratch.sweep, self.mender.scratch.before) = (sweep, before);
        let is_new = |&(c, _): &(u32, u32)| !self.has_moved(self.net.src[c as usize], first);
        is_found && chain.len() <= CHAIN_MAX && chain.iter().all(is_new) && {
            self.cut_off(lid, &[root]);
            self.take(lid, root, &chain, first)
        }
    }

    /// Returns the egress channel of each switch for a LID, in memory that the caller must give back.
    pub(super) fn column(&mut self, lid: Lid) -> Vec<u32> {
        let mut column = std::mem::take(&mut self.mender.scratch.before);
        column.clear();
        column.extend((0..self.net.switches as u32).map(|s| self.by(s, lid)));
        column
    }

    /// Starts a sweep: gives it the switches that already reach the goal, with their paths and costs. `sent` has the
    /// egress channel of each switch; only hops that `stays` accepts are used.
    pub(super) fn start_sweep(&self, lid: Lid, sweep: &mut Sweep, sent: &[u32], stays: impl Fn(u32, u32) -> bool) {
        let goal = self.mender.trips[lid.index()].at;
        sweep.start(&self.net);
        let mut path = Vec::new();
        let mut known = vec![false; self.net.switches];
        known[goal as usize] = true;
        for s in 0..self.net.switches as u32 {
            if self.mender.gone[s as usize] {
                // No path is needed for it.
                (known[s as usize], sweep.next[s as usize]) = (true, self.net.first[s as usize]);
                continue;
            }
            let mut at = s;
            let mut leads_on = true;
            while leads_on && !known[at as usize] {
                known[at as usize] = true;
                path.push(at);
                let by = sent[at as usize];
                leads_on = by != NONE && self.mender.alive[by as usize] && stays(at, by);
                if leads_on {
                    at = self.net.dst[by as usize];
                }
            }
            leads_on = leads_on && (at == goal || sweep.next[at as usize] != NONE);
            while let Some(at) = path.pop().filter(|_| leads_on) {
                let by = sent[at as usize];
                let (changes, cost) = sweep.cost[self.net.dst[by as usize] as usize];
                sweep.next[at as usize] = by;
                sweep.cost[at as usize] = (changes, cost + self.weight(by));
            }
            path.clear();
        }
    }

    /// Returns the changed entries along the path from a switch on, each with the channel behind it.
    fn chain(&self, lid: Lid, root: u32, sweep: &Sweep) -> Vec<(u32, u32)> {
        let (goal, mut at, mut chain) = (self.mender.trips[lid.index()].at, root, Vec::new());
        while at != goal && chain.len() <= self.net.switches {
            let by = sweep.next[at as usize];
            let to = self.net.dst[by as usize];
            if by != self.by(at, lid) {
                chain.push((by, sweep.next[to as usize]));
            }
            at = to;
        }
        chain
    }

    /// Finds all switches that send over the switches `roots`, including these.
    pub(super) fn cut_off(&mut self, lid: Lid, roots: &[u32]) {
        let mut part = std::mem::take(&mut self.mender.scratch.part);
        self.mender.scratch.round += 1;
        let round = self.mender.scratch.round;
        part.clear();
        for &root in roots {
            if std::mem::replace(&mut self.mender.scratch.cut_off[root as usize], round) != round {
                part.push((root, part.len()));
            }
        }
        let mut head = 0;
        while let Some(&(at, _)) = part.get(head) {
            for out in self.net.out(at as usize) {
                let (from, c) = (self.net.dst[out], self.net.rev[out]);
                let leads_here = self.mender.alive[c as usize] && self.by(from, lid) == c;
                if leads_here && self.mender.scratch.cut_off[from as usize] != round {
                    self.mender.scratch.cut_off[from as usize] = round;
                    part.push((from, head));
                }
            }
            head += 1;
        }
        self.mender.scratch.part = part;
    }

    pub(super) fn is_cut_off(&self, switch: u32) -> bool {
        self.mender.scratch.cut_off[switch as usize] == self.mender.scratch.round
    }

    /// Returns the cost of the path in force from a switch; `None` if it leads through `not_by`, or if there is none.
    pub(super) fn cost_from(&self, switch: u32, lid: Lid, not_by: u32) -> Option<u64> {
        let (goal, mut at, mut cost) = (self.mender.trips[lid.index()].at, switch, 0);
        for _ in 0..self.net.switches {
            if at == goal {
                return Some(cost);
            }
            let by = self.by(at, lid);
            if at == not_by || by == NONE || !self.mender.alive[by as usize] {
                return None;
            }
            cost += self.weight(by);
            at = self.net.dst[by as usize];
        }
        None
    }

    fn has_moved(&self, switch: u32, first: usize) -> bool {
        self.moved[first..].iter().any(|moved| moved.switch.0 == switch)
    }

    /// Takes the path that was found for the root, if all of it fits together.
    fn take(&mut self, lid: Lid, root: u32, chain: &[(u32, u32)], first: usize) -> bool {
        let lane = self.mender.trips[lid.index()].lane;
        let mut turns = Vec::new();
        let mut into = Vec::new();
        for &(channel, onward) in chain {
            if onward != NONE {
                turns.push((lane, channel, onward));
            }
            self.entering(self.net.src[channel as usize], lid, first, &mut into);
            turns.extend(into.iter().map(|&from| (lane, from, channel)));
        }
        let order = &mut self.mender.orders[usize::from(lane)];
        let misfit = turns.iter().position(|&(_, from, to)| !order.add(&self.net, from, to));
        if let Some(misfit) = misfit {
            let added = &turns[..misfit];
            added
                .iter()
                .for_each(|&(_, from, to)| order.remove(&self.net, from, to));
            order.unblock();
            return false;
        }
        self.leaving.extend(&turns);
        self.write(lid, root, chain, first);
        true
    }

    /// Writes the entries of a chain, the last first, and moves the load.
    fn write(&mut self, lid: Lid, root: u32, chain: &[(u32, u32)], first: usize) {
        let is_base = self.mender.trips[lid.index()].is_base;
        let mut concerned = Vec::new();
        if is_base {
            concerned.extend(self.mender.scratch.part.iter().map(|&(s, _)| s));
            for &(channel, _) in chain {
                let switch = self.net.src[channel as usize];
                if switch != root && !self.is_cut_off(switch) {
                    self.cut_off(lid, &[switch]);
                    concerned.extend(self.mender.scratch.part.iter().map(|&(s, _)| s));
                }
            }
            concerned.sort_unstable();
            concerned.dedup();
            self.unload(lid, &concerned);
        }
        for &(channel, _) in chain.iter().rev() {
            let switch = self.net.src[channel as usize];
            let step = self
                .step_behind(self.net.dst[channel as usize], lid, first)
                .saturating_add(1);
            self.set(lid, switch, self.net.egress[channel as usize], step);
        }
        self.load(lid, &concerned);
    }

    /// Returns the highest step of an entry on the path from a switch.
    fn step_behind(&self, switch: u32, lid: Lid, first: usize) -> u16 {
        let (goal, mut at, mut step) = (self.mender.trips[lid.index()].at, switch, 0);
        for _ in 0..self.net.switches {
            let by = self.by(at, lid);
            if at == goal || by == NONE {
                break;
            }
            let moved = self.moved[first..].iter().find(|moved| moved.switch.0 == at);
            step = step.max(moved.map_or(0, |moved| moved.step));
            at = self.net.dst[by as usize];
        }
        step
    }

    /// Changes an entry.
    pub(super) fn set(&mut self, lid: Lid, switch: u32, egress: u8, step: u16) {
        let switch = SwitchIdx(switch);
        let before = self.tables.get(switch, lid);
        self.tables.set(switch, lid, egress);
        self.moved.push(Rehung {
            switch,
            lid,
            egress,
            before,
            step,
        });
    }
}
