//! One LID and one switch that has lost its next hop: the fewest entries that lead it, and whoever comes to it, on.
//!
//! The search goes backwards, from entries that stay as they are. It settles channels: a channel is settled when the
//! switch that it leaves may send by it, given what is settled behind it. Cheapest first: by entries changed, then by
//! the load on the way.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use selvedge_fabric::SwitchIdx;
use selvedge_types::Lid;

use super::{Loss, Rehung};
use crate::weave::net::{NONE, Net};

/// Most entries that one switch and LID may cost: each takes a step of its own.
const CHAIN_MAX: usize = 8;
/// What a hop weighs.
const HOP: u64 = 256;
/// What the mean load of all channels adds to it; twice the load adds four times as much.
const MEAN_LOAD: u64 = 64;

/// Memory of searches.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    round: u32,
    /// By switch: the round in which it was cut off, and in which other ways from it were asked for.
    pub(super) cut_off: Vec<u32>,
    asked: Vec<u32>,
    /// Switches cut off, each with the position of the one it sends to, roots with their own; one is the first.
    pub(super) part: Vec<(u32, usize)>,
    /// By channel.
    settled: Vec<Settled>,
    open: BinaryHeap<Reverse<Candidate>>,
    into: Vec<u32>,
    /// Mean host pairs on a channel.
    mean: u64,
}

/// What was found of a channel.
#[derive(Clone, Copy, Debug)]
struct Settled {
    round: u32,
    /// False: its switch may not send by it.
    is_open: bool,
    changes: u16,
    cost: u64,
    /// The channel behind it; [`NONE`]: it leads to the goal.
    onward: u32,
    /// For an entry that stays: the changed one that it relies on; [`NONE`] for changed ones.
    relies_on: u32,
}

/// A channel that a switch may send by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    changes: u16,
    is_below_root: bool,
    cost: u64,
    channel: u32,
    onward: u32,
}

/// What was found for a switch that lost its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Found {
    /// A way, and it was taken.
    Way,
    /// None so far.
    Nothing,
    /// None, and there is none while packets are under way.
    Never,
}

impl Scratch {
    pub(super) fn new(net: &Net) -> Self {
        let nothing = Settled {
            round: 0,
            is_open: false,
            changes: 0,
            cost: 0,
            onward: NONE,
            relies_on: NONE,
        };
        Self {
            cut_off: vec![0; net.switches],
            asked: vec![0; net.switches],
            settled: vec![nothing; net.channels()],
            ..Self::default()
        }
    }
}

impl Loss<'_> {
    /// Weighs what stands.
    pub(super) fn weigh(&mut self) {
        let load = &self.mender.load;
        self.mender.scratch.mean = (load.iter().sum::<u64>() / (load.len() as u64).max(1)).max(1);
    }

    /// Leads a switch whose entry leads over a lost link on. Entries of the LID that have changed already begin at
    /// `first`; `tries` channels may be tried if another entry of the switch alone does not do.
    pub(super) fn rehang(&mut self, lid: Lid, root: u32, first: usize, tries: &mut usize) -> Found {
        let by = self.by(root, lid);
        if by == NONE || self.mender.alive[by as usize] {
            return Found::Way;
        }
        let lane = usize::from(self.mender.trips[lid.index()].lane);
        let mut into = std::mem::take(&mut self.mender.scratch.into);
        self.entering(root, lid, first, &mut into);
        let (order, alive) = (&mut self.mender.orders[lane], &self.mender.alive);
        let outs = self
            .net
            .out(root as usize)
            .filter(|&out| alive[out])
            .map(|out| out as u32);
        // Whatever the rest of a way is, it begins with one of these.
        let ways: Vec<u32> = outs
            .filter(|&out| into.iter().all(|&from| order.makes_room(&self.net, from, out)))
            .collect();
        self.mender.scratch.into = into;
        if ways.is_empty() {
            return Found::Never;
        }
        self.cut_off(lid, &[root]);
        if self.rehang_root(lid, root, &ways, first) {
            return Found::Way;
        }
        match *tries > 0 && self.search(lid, root, first, tries) {
            true => Found::Way,
            false => Found::Nothing,
        }
    }

    /// Looks for a way with several entries changed.
    fn search(&mut self, lid: Lid, root: u32, first: usize, tries: &mut usize) -> bool {
        let lane = usize::from(self.mender.trips[lid.index()].lane);
        for position in 0..self.mender.scratch.part.len() {
            self.offer_ways_out(lid, position, first);
        }
        while *tries > 0 {
            *tries -= 1;
            let Some(Reverse(candidate)) = self.mender.scratch.open.pop() else {
                return false;
            };
            let Candidate { channel, onward, .. } = candidate;
            if self.is_settled(channel) {
                continue;
            }
            if onward != NONE && !self.mender.orders[lane].makes_room(&self.net, channel, onward) {
                self.ask(lid, self.net.dst[channel as usize], first);
                continue;
            }
            let switch = self.net.src[channel as usize];
            let mut into = std::mem::take(&mut self.mender.scratch.into);
            self.entering(switch, lid, first, &mut into);
            let order = &mut self.mender.orders[lane];
            let is_open = into.iter().all(|&from| order.makes_room(&self.net, from, channel));
            self.mender.scratch.into = into;
            self.put(channel, is_open, candidate);
            if !is_open {
                continue;
            }
            if switch != root {
                self.spread(lid, candidate, first);
            } else if let Some(chain) = self.chain(channel)
                && self.take(lid, root, &chain, first)
            {
                return true;
            }
        }
        false
    }

    /// The usual case: another entry of the root, and no more.
    fn rehang_root(&mut self, lid: Lid, root: u32, ways: &[u32], first: usize) -> bool {
        let goal = self.mender.trips[lid.index()].at;
        let mut direct = Vec::with_capacity(ways.len());
        for &channel in ways {
            let to = self.net.dst[channel as usize];
            if self.is_cut_off(to) {
                continue;
            }
            if let Some(cost) = self.cost_from(to, lid, root) {
                let onward = if to == goal { NONE } else { self.by(to, lid) };
                direct.push((cost + self.weight(channel), channel, onward));
            }
        }
        direct.sort_unstable();
        direct
            .iter()
            .any(|&(_, channel, onward)| self.take(lid, root, &[(channel, onward)], first))
    }

    /// Finds whoever sends over some switches, themselves the first.
    pub(super) fn cut_off(&mut self, lid: Lid, roots: &[u32]) {
        let mut part = std::mem::take(&mut self.mender.scratch.part);
        self.mender.scratch.round += 1;
        self.mender.scratch.open.clear();
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

    fn is_settled(&self, channel: u32) -> bool {
        self.mender.scratch.settled[channel as usize].round == self.mender.scratch.round
    }

    fn put(&mut self, channel: u32, is_open: bool, candidate: Candidate) {
        self.mender.scratch.settled[channel as usize] = Settled {
            round: self.mender.scratch.round,
            is_open,
            changes: candidate.changes,
            cost: candidate.cost,
            onward: candidate.onward,
            relies_on: NONE,
        };
    }

    pub(super) fn weight(&self, channel: u32) -> u64 {
        let relative = self.mender.load[channel as usize] * 16 / self.mender.scratch.mean;
        HOP + relative * relative * MEAN_LOAD / 256
    }

    /// What the way in force from a switch costs; `None` if it leads through `not_by`, or is no way.
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

    fn offer(&mut self, channel: u32, onward: u32, (changes, cost): (u16, u64)) {
        let cost = cost + self.weight(channel);
        let scratch = &mut self.mender.scratch;
        if usize::from(changes) < CHAIN_MAX && scratch.settled[channel as usize].round != scratch.round {
            scratch.open.push(Reverse(Candidate {
                changes: changes + 1,
                is_below_root: self.net.src[channel as usize] != scratch.part[0].0,
                cost,
                channel,
                onward,
            }));
        }
    }

    /// Ways from a switch that is cut off to those that are not.
    fn offer_ways_out(&mut self, lid: Lid, position: usize, first: usize) {
        let (switch, _) = self.mender.scratch.part[position];
        if self.has_moved(switch, first) {
            return;
        }
        for out in self.net.out(switch as usize) {
            let to = self.net.dst[out];
            if self.mender.alive[out] && !self.is_cut_off(to) {
                self.offer_stay(lid, out as u32, switch);
            }
        }
    }

    /// A channel to a switch whose entry stays as it is.
    fn offer_stay(&mut self, lid: Lid, channel: u32, from: u32) {
        let to = self.net.dst[channel as usize];
        let Some(cost) = self.cost_from(to, lid, from) else {
            return;
        };
        let is_goal = to == self.mender.trips[lid.index()].at;
        let onward = if is_goal { NONE } else { self.by(to, lid) };
        self.offer(channel, onward, (0, cost));
    }

    /// A switch that is not cut off cannot be met as it sends now: looks for other ways from it.
    fn ask(&mut self, lid: Lid, switch: u32, first: usize) {
        let round = self.mender.scratch.round;
        let is_goal = switch == self.mender.trips[lid.index()].at;
        if is_goal || self.is_cut_off(switch) || self.has_moved(switch, first) {
            return;
        }
        if std::mem::replace(&mut self.mender.scratch.asked[switch as usize], round) == round {
            return;
        }
        for out in self.net.out(switch as usize) {
            let (channel, to) = (out as u32, self.net.dst[out]);
            if !self.mender.alive[out] || self.by(switch, lid) == channel {
                continue;
            }
            for behind in self.net.out(to as usize) {
                let settled = self.mender.scratch.settled[behind];
                if settled.round == round && settled.is_open {
                    self.offer(channel, behind as u32, (settled.changes, settled.cost));
                }
            }
            if !self.is_cut_off(to) {
                self.offer_stay(lid, channel, switch);
            }
        }
    }

    /// A switch below the root has a way, or one that was asked for: those next to it may follow, and next to whoever
    /// sends to it.
    fn spread(&mut self, lid: Lid, candidate: Candidate, first: usize) {
        let Candidate { channel, .. } = candidate;
        let switch = self.net.src[channel as usize];
        self.offer_followers(channel, (candidate.changes, candidate.cost), first);
        if !self.is_cut_off(switch) || self.is_settled(self.by(switch, lid)) {
            return;
        }
        let part = std::mem::take(&mut self.mender.scratch.part);
        let start = part.iter().position(|&(s, _)| s == switch).unwrap_or(0);
        // The cost from each that sends over the switch.
        let mut cost: Vec<Option<u64>> = vec![None; part.len()];
        cost[start] = Some(candidate.cost);
        let mut led_out = Vec::new();
        for position in start + 1..part.len() {
            let (s, parent) = part[position];
            let Some(behind) = cost[parent] else { continue };
            let by = self.by(s, lid);
            cost[position] = Some(behind + self.weight(by));
            if !self.is_settled(by) {
                self.put(
                    by,
                    true,
                    Candidate {
                        cost: behind + self.weight(by),
                        ..candidate
                    },
                );
                self.mender.scratch.settled[by as usize].relies_on = channel;
                led_out.push((by, behind + self.weight(by)));
            }
        }
        self.mender.scratch.part = part;
        // Switches that send over it would go round; they are led out already.
        for (by, cost) in led_out {
            self.offer_followers(by, (candidate.changes, cost), first);
        }
    }

    /// Offers ways to the switch that a settled channel leaves.
    fn offer_followers(&mut self, onward: u32, so_far: (u16, u64), first: usize) {
        let switch = self.net.src[onward as usize];
        for out in self.net.out(switch as usize) {
            let (from, channel) = (self.net.dst[out], self.net.rev[out]);
            let is_asked = self.mender.scratch.asked[from as usize] == self.mender.scratch.round;
            let may = (self.is_cut_off(from) || is_asked) && self.mender.alive[channel as usize];
            if may && !self.has_moved(from, first) {
                self.offer(channel, onward, so_far);
            }
        }
    }

    /// Takes what was found for the root, if all of it fits together.
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

    /// Changed entries from a channel on, each with the channel behind it; `None` if one switch would need two.
    fn chain(&self, channel: u32) -> Option<Vec<(u32, u32)>> {
        let mut chain: Vec<(u32, u32)> = Vec::new();
        let mut at = channel;
        while at != NONE {
            let switch = self.net.src[at as usize];
            let is_twice = chain.iter().any(|&(c, _)| self.net.src[c as usize] == switch);
            if is_twice || chain.len() >= CHAIN_MAX {
                return None;
            }
            let onward = self.mender.scratch.settled[at as usize].onward;
            chain.push((at, onward));
            at = match onward {
                NONE => NONE,
                _ if !self.is_settled(onward) => NONE,
                _ => match self.mender.scratch.settled[onward as usize].relies_on {
                    NONE => onward,
                    other => other,
                },
            };
        }
        Some(chain)
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
            self.shift(lid, &concerned, |load, hosts| load.saturating_sub(hosts));
        }
        for &(channel, _) in chain.iter().rev() {
            let switch = self.net.src[channel as usize];
            let step = self
                .step_behind(self.net.dst[channel as usize], lid, first)
                .saturating_add(1);
            let (switch, egress) = (SwitchIdx(switch), self.net.egress[channel as usize]);
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
        if is_base {
            self.shift(lid, &concerned, |load, hosts| load + hosts);
        }
    }

    /// The highest step of an entry on the way from a switch.
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

    /// Changes the load by what hosts of some switches send.
    pub(super) fn shift(&mut self, lid: Lid, switches: &[u32], change: impl Fn(u64, u64) -> u64) {
        let goal = self.mender.trips[lid.index()].at;
        for &switch in switches {
            let (hosts, mut at) = (u64::from(self.net.hosts[switch as usize]), switch);
            for _ in 0..self.net.switches {
                let by = self.by(at, lid);
                if hosts == 0 || at == goal || by == NONE {
                    break;
                }
                let load = &mut self.mender.load[by as usize];
                *load = change(*load, hosts);
                at = self.net.dst[by as usize];
            }
        }
    }
}
