//! Loads spread anew: for a tree that has lost links, when moving entries is wanted.
//!
//! The closed form is where it starts from: it is the optimum of a whole tree. In a tree of two levels `meet` changes
//! entries so that few packets meet. Then the most loaded channel is relieved as long as that can be done: some switch
//! whose packets for one destination cross it sends them another legal way, such that every channel of that way stays
//! below what the relieved one carried. Each such step makes the sorted list of loads smaller, so it ends; steps are
//! limited all the same.
//!
//! Work: a step looks at the destinations behind one channel, and for each at the switches in front of it; there are a
//! few steps per lost link and destination of its leaf. With 1 % of the links lost 0.6 s at 972 switches, 12 s at
//! 2,880, on one thread: a job for when there is time.

mod meet;

use std::collections::BinaryHeap;

use selvedge_fabric::SwitchIdx;
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_types::{Idx, Lid, LidRange};

use super::FatTree;
use super::rule::Rule;
use super::shape::{NONE, by_level};
use crate::error::EngineError;
use meet::Meet;

/// Steps per channel; far more than were ever needed.
const STEPS_PER_CHANNEL: usize = 64;
/// Entries of a fabric in which all destinations behind a channel are compared; in larger ones the first that does is
/// taken.
const THOROUGH_MAX: usize = 100_000;
/// How often everything is looked at again after nothing more could be relieved.
const PASSES: usize = 3;

/// Destinations of one kind: hosts by the same offset from their base LID. They are spread on their own, since a host
/// uses one of its LIDs at a time.
struct Layer {
    lids: Vec<Lid>,
    /// All LIDs of the same host port.
    ranges: Vec<LidRange>,
    /// Switch of each.
    to: Vec<u32>,
    /// Egress of each destination at each switch.
    next: Vec<u8>,
}

/// Working state for one layer.
struct Spread<'a> {
    rule: &'a Rule,
    /// What the other layers have.
    tables: &'a Tables,
    /// Host ports of each switch.
    hosts: Vec<u32>,
    /// By switch and port: the switch it leads to, or [`NOWHERE`].
    peer: Vec<u32>,
    /// Ports of a switch in `peer` and `load`.
    stride: usize,
    /// By switch and port: host pairs.
    load: Vec<u64>,
    /// Switches, lowest level first.
    order: Vec<usize>,
    layer: Layer,
    /// By switch and destination: the same entries as those of the layer, while channels are relieved.
    by_switch: Vec<u8>,
    /// Of the destination that is looked at: what passes each switch, and whether it goes over the channel in question.
    flow: Vec<u32>,
    via: Vec<bool>,
}

/// More than all loads of a way together.
const SHIFT: u64 = 1 << 40;
const NOWHERE: u32 = u32::MAX;

/// A step that may be taken.
#[derive(Clone, Copy)]
struct Step {
    /// What the fullest channel of the new way will carry.
    fullest: u64,
    /// Loads of the new channels less those of the old, shifted to be above 0: whether it evens out or not.
    uneven: u64,
    destination: usize,
    switch: usize,
    egress: u8,
    flow: u64,
}

impl FatTree {
    /// Spreads the loads of `tables`, which [`Self::fill`] wrote, as evenly as it can: for a tree with missing links.
    /// Entries towards switches, and those that a tree has only one way for, stay.
    pub fn spread(&self, lids: &Lids, tables: &mut Tables) -> Result<(), EngineError> {
        self.spread_layers(lids, tables, true)
    }

    /// Relieves the fullest links of `tables`, which [`Self::fill`] wrote, and does nothing for packets that meet: for
    /// the first plan of a tree with missing links, which should not wait.
    pub fn relieve(&self, lids: &Lids, tables: &mut Tables) -> Result<(), EngineError> {
        self.spread_layers(lids, tables, false)
    }

    fn spread_layers(&self, lids: &Lids, tables: &mut Tables, is_thorough: bool) -> Result<(), EngineError> {
        let (have, want) = (tables.switches(), self.rule.net.real);
        if have != want {
            return Err(EngineError::ForeignPrevious { have, want });
        }
        let mut offset = 0;
        loop {
            let layer = self.layer(lids, offset, tables)?;
            if layer.lids.is_empty() {
                return Ok(());
            }
            let mut spread = Spread::new(&self.rule, tables, layer);
            let most = match Meet::new(&spread).filter(|_| is_thorough) {
                Some(meet) => {
                    let most = meet.most();
                    meet.run(&mut spread);
                    most
                }
                None => spread.floor(),
            };
            spread.count();
            spread.run(most);
            let layer = spread.layer;
            layer.write(tables);
            offset += 1;
        }
    }

    fn layer(&self, lids: &Lids, offset: u16, tables: &Tables) -> Result<Layer, EngineError> {
        let mut layer = Layer {
            lids: Vec::new(),
            ranges: Vec::new(),
            to: Vec::new(),
            next: Vec::new(),
        };
        for (port, range) in lids.iter() {
            let lid = Lid(range.base.0.saturating_add(offset));
            if port.port.get() == 0 || offset >= range.lmc.lids() || lid > tables.top() {
                continue;
            }
            if let Some(to) = self.switch_of(self.target(lids, lid)?) {
                layer.lids.push(lid);
                layer.ranges.push(range);
                layer.to.push(u32::try_from(to).unwrap_or(NOWHERE));
                let column = tables.switch_indices().map(|s| tables.get(s, lid));
                layer.next.extend(column);
            }
        }
        Ok(layer)
    }
}

impl Layer {
    fn write(&self, tables: &mut Tables) {
        let columns = self.next.chunks(tables.switches().max(1));
        for (&lid, column) in self.lids.iter().zip(columns) {
            for (s, &egress) in column.iter().enumerate() {
                tables.set(SwitchIdx::from_usize(s), lid, egress);
            }
        }
    }
}

impl<'a> Spread<'a> {
    fn new(rule: &'a Rule, tables: &'a Tables, layer: Layer) -> Self {
        let real = rule.net.real;
        let ports = (0..real).flat_map(|s| rule.net.links.get(s)).map(|k| k.port).max();
        let stride = usize::from(ports.unwrap_or(0)) + 1;
        let mut peer = vec![NOWHERE; real * stride];
        for s in 0..real {
            for link in rule.net.links.get(s).iter().filter(|k| k.alive) {
                peer[s * stride + usize::from(link.port)] = link.peer;
            }
        }
        let mut order = by_level(&rule.shape.level, rule.shape.power.len());
        order.retain(|&s| s < real);
        Self {
            rule,
            tables,
            hosts: (0..real).map(|s| rule.net.hosts.get(s).len() as u32).collect(),
            load: vec![0; peer.len()],
            peer,
            stride,
            order,
            layer,
            by_switch: Vec::new(),
            flow: vec![0; real],
            via: vec![false; real],
        }
    }

    /// Counts the loads.
    fn count(&mut self) {
        for d in 0..self.layer.to.len() {
            self.follow(d, NOWHERE as usize);
            for s in 0..self.hosts.len() {
                if let Some(channel) = self.channel(d, s) {
                    self.load[channel] += u64::from(self.flow[s]);
                }
            }
        }
    }

    /// The channel by which switch `s` sends packets for destination `d`; none at its own switch.
    fn channel(&self, d: usize, s: usize) -> Option<usize> {
        let egress = self.layer.next[d * self.hosts.len() + s];
        let is_sent = egress != NO_PATH && self.layer.to[d] as usize != s && usize::from(egress) < self.stride;
        let channel = s * self.stride + usize::from(egress);
        (is_sent && self.peer[channel] != NOWHERE).then_some(channel)
    }

    /// Fills `flow` and `via` for a destination: packets first climb, then descend.
    fn follow(&mut self, d: usize, over: usize) {
        let to = self.layer.to[d] as usize;
        self.flow.copy_from_slice(&self.hosts);
        self.via.fill(false);
        let rule = self.rule;
        let order = core::mem::take(&mut self.order);
        let climbs = order.iter().filter(|&&s| !rule.below.has(s, to));
        let falls = order.iter().rev().filter(|&&s| rule.below.has(s, to));
        let hop = |at: &Self, s: usize| at.channel(d, s).map(|c| (c, at.peer[c] as usize));
        for &s in climbs.clone().chain(falls.clone()) {
            if let Some((_, next)) = hop(self, s).filter(|_| self.flow[s] > 0) {
                self.flow[next] += self.flow[s];
            }
        }
        if over < self.load.len() {
            for &s in falls.rev().chain(climbs.rev()) {
                self.via[s] = hop(self, s).is_some_and(|(c, next)| c == over || self.via[next]);
            }
        }
        self.order = order;
    }

    /// Relieves channels that carry more than `floor`.
    fn run(&mut self, floor: u64) {
        let mut steps = STEPS_PER_CHANNEL * self.load.len();
        let (switches, destinations) = (self.hosts.len(), self.layer.to.len());
        let entries = (0..switches).flat_map(|s| (0..destinations).map(move |d| d * switches + s));
        self.by_switch = entries.map(|entry| self.layer.next[entry]).collect();
        for _ in 0..PASSES {
            let full = self.load.iter().enumerate().filter(|(_, load)| **load > floor);
            let mut heap: BinaryHeap<(u64, usize)> = full.map(|(c, &load)| (load, c)).collect();
            let mut relieved = false;
            while let Some((load, channel)) = heap.pop() {
                if self.load[channel] != load || steps == 0 {
                    continue;
                }
                if let Some(step) = self.best_step(channel, floor) {
                    steps -= 1;
                    relieved = true;
                    let changed = self.take(step);
                    heap.extend(changed.into_iter().map(|c| (self.load[c], c)).filter(|c| c.0 > floor));
                }
            }
            if !relieved {
                return;
            }
        }
    }

    /// What some link must carry: hosts of a leaf × destinations elsewhere, shared by the links that the leaf has left.
    /// Channels that carry no more stay as they are, so that no more is moved than serves the fullest.
    fn floor(&self) -> u64 {
        let leaves = || self.rule.shape.leaves.iter().map(|&leaf| leaf as usize);
        let of_leaf = |s: usize| {
            let Some(&hosts) = self.hosts.get(s) else { return 0 };
            let reached = leaves().filter(|&to| self.rule.reach.has(s, to));
            let all: u64 = reached
                .filter_map(|to| self.hosts.get(to).copied().map(u64::from))
                .sum();
            let links = self.rule.net.links.get(s).iter();
            let links = links
                .filter(|k| k.alive && !self.rule.shape.stray[k.peer as usize])
                .count();
            u64::from(hosts) * all.saturating_sub(u64::from(hosts)).div_ceil(links.max(1) as u64)
        };
        leaves().map(of_leaf).max().unwrap_or(0)
    }

    /// The step that relieves a channel and fills others least.
    fn best_step(&mut self, channel: usize, floor: u64) -> Option<Step> {
        let (from, next) = (channel / self.stride, self.peer[channel] as usize);
        let (level, rule) = (&self.rule.shape.level, self.rule);
        let (is_leaf, falls) = (
            level[from] == 0 && rule.meeting[from] == NONE,
            level[next] < level[from],
        );
        let is_small = self.layer.next.len() <= THOROUGH_MAX;
        let mut best: Option<Step> = None;
        let (destinations, egress) = (self.layer.to.len(), channel % self.stride);
        for d in 0..destinations {
            let to = self.layer.to[d] as usize;
            let crosses = usize::from(self.by_switch[from * destinations + d]) == egress && to != from;
            if !crosses || falls && !rule.below.has(next, to) {
                continue;
            }
            if is_leaf {
                // Nothing passes through a leaf over which nobody meets.
                self.flow[from] = self.hosts[from];
                self.steps_at(d, from, (channel, floor), &mut best);
            } else {
                self.follow(d, channel);
                for i in 0..self.order.len() {
                    let s = self.order[i];
                    if self.via[s] && self.flow[s] > 0 {
                        self.steps_at(d, s, (channel, floor), &mut best);
                    }
                }
            }
            if !is_small && best.is_some_and(|b| b.fullest <= floor) {
                break;
            }
        }
        best
    }

    /// Looks at all legal egresses of one switch towards one destination that relieve `channel` and fill no other as
    /// much as it is; below `floor` it does not matter how full.
    fn steps_at(&self, d: usize, s: usize, (channel, floor): (usize, u64), best: &mut Option<Step>) {
        let to = self.layer.to[d] as usize;
        let flow = u64::from(self.flow[s]);
        let now = self.way(d, s, None);
        for link in self.rule.net.links.get(s).iter().filter(|k| k.alive) {
            let this = s * self.stride + usize::from(link.port);
            let most = best.map_or(self.load[channel] - 1, |b| b.fullest);
            if self.load[this] + flow > most || !self.rule.leads(s, link.peer as usize, to) {
                continue;
            }
            let new = self.way(d, s, Some(link.port));
            if new.contains(&channel) || self.is_taken(d, s, link.port) {
                continue;
            }
            let added = || new.iter().filter(|c| !now.contains(c)).map(|&c| self.load[c] + flow);
            let Some(fullest) = added().max().map(|f| f.max(floor)).filter(|&f| f <= most) else {
                continue;
            };
            let relieved = now.iter().filter(|c| !new.contains(c)).map(|&c| self.load[c]);
            let step = Step {
                fullest,
                uneven: (added().sum::<u64>() + SHIFT).saturating_sub(relieved.sum::<u64>()),
                destination: d,
                switch: s,
                egress: link.port,
                flow,
            };
            if best.is_none_or(|b| (step.fullest, step.uneven) < (b.fullest, b.uneven)) {
                *best = Some(step);
            }
        }
    }

    /// Channels from a switch to a destination, by another first egress if one is given; empty if it does not arrive.
    fn way(&self, d: usize, s: usize, first: Option<u8>) -> Way {
        let mut way = Way::default();
        let to = self.layer.to[d] as usize;
        let given = first.map(|port| s * self.stride + usize::from(port));
        let mut next = given.or_else(|| self.channel(d, s));
        while let Some(channel) = next {
            if !way.push(channel) {
                return Way::default();
            }
            let at = self.peer[channel] as usize;
            if at == to {
                return way;
            }
            next = self.channel(d, at);
        }
        Way::default()
    }

    /// Changes the entry and the loads; gives the channels whose load is another.
    fn take(&mut self, step: Step) -> Vec<usize> {
        let before = self.way(step.destination, step.switch, None);
        self.layer.next[step.destination * self.hosts.len() + step.switch] = step.egress;
        self.by_switch[step.switch * self.layer.to.len() + step.destination] = step.egress;
        let after = self.way(step.destination, step.switch, None);
        before
            .iter()
            .for_each(|&c| self.load[c] = self.load[c].saturating_sub(step.flow));
        after.iter().for_each(|&c| self.load[c] += step.flow);
        before.iter().chain(after.iter()).copied().collect()
    }

    /// Whether another LID of the same host leaves the leaf by this port: different LIDs are to go different ways.
    fn is_taken(&self, d: usize, s: usize, egress: u8) -> bool {
        let range = self.layer.ranges[d];
        let others = || range.iter().filter(|&lid| lid != self.layer.lids[d]);
        self.rule.shape.level[s] == 0
            && range.lmc.lids() > 1
            && others().any(|lid| self.tables.get(SwitchIdx::from_usize(s), lid) == egress)
    }
}

/// Channels of a way: at most up and down all levels.
#[derive(Clone, Copy)]
struct Way {
    channels: [usize; Self::HOPS_MAX],
    hops: usize,
}

impl Way {
    /// Twice the levels that a tree may have.
    const HOPS_MAX: usize = 16;

    /// False if it is too long.
    fn push(&mut self, channel: usize) -> bool {
        let slot = self.channels.get_mut(self.hops);
        self.hops += 1;
        slot.map(|slot| *slot = channel).is_some()
    }

    fn iter(&self) -> core::slice::Iter<'_, usize> {
        self.channels[..self.hops.min(Self::HOPS_MAX)].iter()
    }

    fn contains(&self, channel: &usize) -> bool {
        self.iter().any(|c| c == channel)
    }
}

impl Default for Way {
    fn default() -> Self {
        Self {
            channels: [0; Self::HOPS_MAX],
            hops: 0,
        }
    }
}
