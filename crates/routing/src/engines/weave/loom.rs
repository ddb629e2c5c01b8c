//! Makes the trees of all errands (an errand is one LID with its tree), counts the load that they put on every channel,
//! and improves both.

use std::sync::Arc;

use super::apart::{Apart, Room};
use super::net::{Errand, Goal, NONE, Net, lane_of};
use super::order::{Base, Order};
use super::queue::WEIGHT_MAX;
use super::search::{Found, Search};

/// Stands for no next hop in a packed tree.
const NO_HOP: u8 = u8::MAX;
/// Weight of a channel with the mean load of an ideal routing.
const ONE: u32 = 64;

/// The parameters by which variants of the trees differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    /// Turns that are legal from the start.
    pub base: Base,
    /// Weight of a hop, in loads of an ideal channel: a large weight prefers few hops, a small one low loads.
    pub hop: u32,
    /// How far back in the order a turn may lead, in percent of the order.
    pub window: u32,
    /// Index of the order in [`Work::tops`] from which the base is made.
    pub top: usize,
}

/// The input of the search, the same for all variants.
#[derive(Debug)]
pub(super) struct Work<'a> {
    /// The fabric.
    pub net: &'a Net,
    /// End ports.
    pub goals: &'a [Goal],
    /// LIDs for which trees are made.
    pub errands: &'a [Errand],
    /// Orders of the base, best first: for each lane the position of each switch from top to bottom.
    pub tops: &'a [Vec<Arc<Vec<u32>>>],
    /// Number of switches of each part.
    pub part_size: &'a [usize],
    /// Host pairs on a channel, weighted by price, if all routes were shortest and all channels equally loaded.
    pub ideal: u64,
}

/// Trees in the making.
#[derive(Clone, Debug)]
pub(super) struct Loom<'a> {
    work: &'a Work<'a>,
    variant: Variant,
    orders: Vec<Order>,
    /// Host pairs on each channel.
    load: Vec<u64>,
    /// By errand and switch: the position of the next hop among the switch's channels.
    trees: Vec<u8>,
    search: Search,
    /// Weight of each channel in the next search.
    weight: Vec<u32>,
    /// Weight that one host pair adds to each channel.
    gain: Vec<f64>,
    sub: Vec<u32>,
    waiting: Vec<u32>,
    scratch: Scratch,
    /// With more than one LID a port: the choice of [`Loom::choose_spare`] for each errand.
    spare: Vec<u32>,
    /// The lane of each errand; it can differ from the lane that the errand began with.
    pub lane: Vec<u8>,
    apart: Apart,
    /// By channel: host pairs of first LIDs on it, weighted by price. Filled when further LIDs are routed.
    first_load: Vec<u64>,
    first_peak: u64,
    /// Number of trees that the search did not find, so that they follow the base (the turns that are legal from the
    /// start).
    pub by_base: usize,
}

/// Lists that are used again.
#[derive(Clone, Debug, Default)]
struct Scratch {
    old: Vec<(u32, u32)>,
    new: Vec<(u32, u32)>,
}

/// The quality of a state; lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    /// Host pairs on the busiest channel, weighted by price.
    pub max: u64,
    /// Host pairs on all channels, weighted by price.
    pub sum: u64,
}

impl<'a> Loom<'a> {
    /// Returns a state in which no tree is made yet.
    pub fn new(work: &'a Work<'a>, variant: Variant) -> Self {
        let net = work.net;
        let of_lane = work.tops[variant.top].iter();
        let orders = of_lane.map(|position| Order::new(net, variant.base, variant.window, position));
        let gain = |&price: &u32| f64::from(price) * f64::from(ONE) / work.ideal as f64;
        Self {
            work,
            variant,
            orders: orders.collect(),
            load: vec![0; net.channels()],
            trees: vec![NO_HOP; work.errands.len() * net.switches],
            search: Search::new(net),
            weight: vec![(variant.hop * ONE).min(WEIGHT_MAX); net.channels()],
            gain: net.price.iter().map(gain).collect(),
            sub: vec![0; net.switches],
            waiting: vec![0; net.switches],
            scratch: Scratch::default(),
            spare: Vec::new(),
            lane: work.errands.iter().map(|errand| errand.lane).collect(),
            apart: Apart::default(),
            first_load: Vec::new(),
            first_peak: 0,
            by_base: 0,
        }
    }

    /// Makes the trees of some errands for the first time.
    pub fn weave(&mut self, errands: core::ops::Range<usize>) {
        for e in errands {
            self.shun_earlier(e);
            let (at, lane, want) = self.place_of(e);
            let spare = self.choose_spare(e);
            if let Some(spare) = spare {
                self.weight[spare] = WEIGHT_MAX;
            }
            let order = &mut self.orders[lane];
            if self.search.route(self.work.net, order, &self.weight, at, want) == Found::ByBase {
                self.by_base += 1;
            }
            if let Some(spare) = spare {
                self.weight[spare] = self.weight_of(spare);
            }
            self.keep(e);
            if self.work.errands[e].before != NONE {
                let sharing = self.part(e, true);
                self.try_lanes(e, sharing);
            }
            if self.is_counted(e) {
                self.sum_up();
                for &u in &self.search.settled[1..] {
                    let c = self.search.next[u as usize] as usize;
                    self.load[c] += u64::from(self.sub[u as usize]);
                    self.weight[c] = self.weight_of(c);
                }
            }
        }
    }

    /// If a port has further LIDs, chooses a channel into the goal that the tree of the port's first LID does not use,
    /// so that it is free for the other LIDs.
    ///
    /// If all channels into the goal were in use, each neighbour of the goal would use its own link for both LIDs, or
    /// the second tree could not enter the goal: on random graphs about one path in twenty would share a link
    /// (measured). The channel that is kept free begins at the topmost switch in the order of the next lane, because
    /// most paths can end there. In a tree, where all downward channels are equal, the busiest channel is kept free.
    fn choose_spare(&mut self, e: usize) -> Option<usize> {
        let net = self.work.net;
        let errand = self.work.errands[e];
        let goal = self.work.goals[errand.goal as usize];
        let entries = net.out(goal.at as usize);
        if errand.offset != 0 || goal.egress == 0 || goal.lids.lmc.lids() == 1 || entries.len() < 2 {
            return None;
        }
        let lanes = u8::try_from(self.orders.len()).unwrap_or(u8::MAX);
        let next = usize::from(lane_of(errand.lane, 1, lanes));
        let position = &self.work.tops[self.variant.top][next];
        let spare = entries.map(|out| net.rev[out] as usize).min_by_key(|&c| {
            let (from, load) = (position[net.src[c] as usize], self.load[c] * u64::from(net.price[c]));
            match self.orders[next].base() {
                Base::Tree => (from, 0, c),
                Base::Fixed => (u32::from(from > position[goal.at as usize]), u64::MAX - load, c),
            }
        });
        self.spare.resize(self.work.errands.len(), NONE);
        self.spare[e] = spare.map_or(NONE, |c| c as u32);
        spare
    }

    /// Moves the new tree of a further LID off the links of the first LID's tree. For the second LID, next hops of the
    /// first LID's tree are changed too. The load of the first LIDs stays below its earlier peak.
    ///
    /// Returns the weighted number of sources for which the trees still share a link. Sources that have another
    /// disjoint path are not counted.
    fn part(&mut self, e: usize, may_move_first: bool) -> u64 {
        let net = self.work.net;
        let mut first = self.work.errands[e].before as usize;
        while self.work.errands[first].before != NONE {
            first = self.work.errands[first].before as usize;
        }
        if self.first_load.is_empty() {
            self.first_load.clone_from(&self.load);
            self.first_peak = self.score().max;
        }
        let is_second = self.work.errands[e].before as usize == first;
        let mut apart = core::mem::take(&mut self.apart);
        for (next, e) in apart.next.iter_mut().zip([first, e]) {
            next.clear();
            next.extend((0..net.switches).map(|s| self.next(e, s).map_or(NONE, |c| c as u32)));
        }
        apart.parted.clear();
        if !is_second {
            apart.parted.extend_from_slice(self.search.parted());
        }
        let lanes = [self.place_of(first).1, self.place_of(e).1];
        let room = (may_move_first && is_second && self.is_counted(e)).then_some(Room {
            first: &mut self.first_load,
            all: &mut self.load,
            peak: self.first_peak,
        });
        apart.improve(net, &mut self.orders, lanes, room);
        for (next, e) in apart.next.iter().zip([first, e]) {
            let tree = &mut self.trees[e * net.switches..(e + 1) * net.switches];
            for ((hop, &c), &from) in tree.iter_mut().zip(next).zip(&net.first) {
                // A switch has at most 254 ports.
                *hop = if c == NONE {
                    NO_HOP
                } else {
                    u8::try_from(c - from).unwrap_or(NO_HOP)
                };
            }
        }
        let sharing = apart.sharing(net);
        self.apart = apart;
        self.load_tree(e);
        sharing
    }

    /// If many sources share a link, tries other lanes for the new tree; the lane of the first tree comes last.
    fn try_lanes(&mut self, e: usize, mut sharing: u64) {
        /// If fewer than one source in this number shares a link, no other lanes are tried.
        const MANY: u64 = 16;
        let net = self.work.net;
        let lanes = u8::try_from(self.orders.len()).unwrap_or(u8::MAX);
        let all: u64 = net.hosts.iter().map(|&hosts| u64::from(hosts)).sum();
        let errand = self.work.errands[e];
        for i in 1..u16::from(lanes) {
            if sharing * MANY <= all {
                break;
            }
            self.shun_earlier(e);
            let (at, old, want) = self.place_of(e);
            let tree = self.trees[e * net.switches..(e + 1) * net.switches].to_vec();
            self.load_tree(e);
            let order = &mut self.orders[old];
            self.search.for_turns(net, |from, to| order.remove(net, from, to));
            self.lane[e] = lane_of(errand.lane, i, lanes);
            let lane = usize::from(self.lane[e]);
            if self.search.route(net, &mut self.orders[lane], &self.weight, at, want) == Found::ByBase {
                self.by_base += 1;
            }
            self.keep(e);
            let now = self.part(e, false);
            if now < sharing {
                sharing = self.part(e, true);
                continue;
            }
            let order = &mut self.orders[lane];
            self.search.for_turns(net, |from, to| order.remove(net, from, to));
            self.lane[e] = u8::try_from(old).unwrap_or(0);
            self.trees[e * net.switches..(e + 1) * net.switches].copy_from_slice(&tree);
            self.load_tree(e);
            // Only the tree that was just removed has been added to that lane.
            let order = &mut self.orders[old];
            self.search.for_turns(net, |from, to| order.restore(net, from, to));
        }
    }

    /// Gives an errand the tree of another with the same destination switch.
    pub fn copy(&mut self, from: usize, to: usize) {
        let n = self.work.net.switches;
        self.trees.copy_within(from * n..(from + 1) * n, to * n);
        self.lane[to] = self.lane[from];
    }

    /// Makes one round of improvement over some errands (LIDs, each with its tree). Each tree is removed and routed
    /// again around the busy channels, and the new tree is kept if it is no worse. Returns the number of changed trees.
    pub fn improve(&mut self, errands: core::ops::Range<usize>, steepness: u32) -> usize {
        for order in &mut self.orders {
            order.unblock();
            // The important paths are taken now.
            order.open();
        }
        self.search.others.clear();
        let mut changed = 0;
        let mut peak = 0;
        for e in errands {
            let now = self.score().max.max(1);
            // All weights stand against the peak: they are set again when it has moved.
            if now > peak || now < peak - peak / 64 {
                peak = now;
                self.weight = (0..self.load.len())
                    .map(|c| self.steep_weight(c, peak, steepness))
                    .collect();
            }
            changed += usize::from(self.improve_one(e, peak, steepness));
        }
        self.weight = (0..self.load.len()).map(|c| self.weight_of(c)).collect();
        changed
    }

    fn improve_one(&mut self, e: usize, peak: u64, steepness: u32) -> bool {
        let net = self.work.net;
        self.load_tree(e);
        self.sum_up();
        let (mut old, mut new) = (
            core::mem::take(&mut self.scratch.old),
            core::mem::take(&mut self.scratch.new),
        );
        self.loaded(&mut old);
        let (at, lane, want) = self.place_of(e);
        for &(c, own) in &old {
            self.load[c as usize] -= u64::from(own);
            self.weight[c as usize] = self.steep_weight(c as usize, peak, steepness);
        }
        let was = self.cost_of(&old, peak, steepness);
        let order = &mut self.orders[lane];
        self.search.for_turns(net, |from, to| order.remove(net, from, to));
        let spare = self.spare.get(e).copied().filter(|&c| c != NONE);
        if let Some(spare) = spare {
            self.weight[spare as usize] = WEIGHT_MAX;
        }
        let mut better = self.search.attempt(net, order, &self.weight, at, want);
        if let Some(spare) = spare {
            self.weight[spare as usize] = self.steep_weight(spare as usize, peak, steepness);
        }
        if better {
            self.sum_up();
            self.loaded(&mut new);
            if self.cost_of(&new, peak, steepness) >= was {
                let order = &mut self.orders[lane];
                self.search.for_turns(net, |from, to| order.remove(net, from, to));
                better = false;
            }
        }
        if better {
            self.keep(e);
        } else {
            self.load_tree(e);
            let order = &mut self.orders[lane];
            self.search.for_turns(net, |from, to| order.restore(net, from, to));
        }
        for &(c, own) in if better { &new } else { &old } {
            self.load[c as usize] += u64::from(own);
            self.weight[c as usize] = self.steep_weight(c as usize, peak, steepness);
        }
        (self.scratch.old, self.scratch.new) = (old, new);
        better
    }

    /// Returns the cost of a number of further host pairs on some channels.
    fn cost_of(&self, list: &[(u32, u32)], peak: u64, steepness: u32) -> f64 {
        let price = &self.work.net.price;
        list.iter()
            .map(|&(c, own)| steep(self.load[c as usize], own, price[c as usize], peak, steepness))
            .sum()
    }

    /// Returns the quality of the state.
    pub fn score(&self) -> Score {
        let priced = self
            .load
            .iter()
            .zip(&self.work.net.price)
            .map(|(&l, &p)| l * u64::from(p));
        let (max, sum) = priced.fold((0, 0), |(max, sum), load| (load.max(max), sum + load));
        Score { max, sum }
    }

    /// Returns the channel by which a switch sends on an errand.
    pub fn next(&self, errand: usize, switch: usize) -> Option<usize> {
        let hop = self.trees[errand * self.work.net.switches + switch];
        (hop != NO_HOP).then(|| self.work.net.first[switch] as usize + usize::from(hop))
    }

    fn place_of(&self, e: usize) -> (u32, usize, usize) {
        let at = self.work.goals[self.work.errands[e].goal as usize].at;
        let part = self.work.net.part[at as usize] as usize;
        (at, usize::from(self.lane[e]), self.work.part_size[part])
    }

    /// True if hosts send on this errand.
    fn is_counted(&self, e: usize) -> bool {
        self.work.goals[self.work.errands[e].goal as usize].egress != 0
    }

    /// Returns the weight of a channel at its present load.
    #[inline]
    fn weight_of(&self, c: usize) -> u32 {
        // Neither is negative.
        let by_load = (self.load[c] as f64 * self.gain[c]) as u32;
        (self.variant.hop * ONE).saturating_add(by_load).min(WEIGHT_MAX)
    }

    /// Returns a weight that rises steeply towards the peak: the slope of the cost, with a little for the hop itself.
    #[inline]
    fn steep_weight(&self, c: usize, peak: u64, steepness: u32) -> u32 {
        let x = (self.load[c] * u64::from(self.work.net.price[c])) as f64 / peak as f64;
        ((8.0 + 2_048.0 * raised(x, steepness)) as u32).min(WEIGHT_MAX)
    }

    /// Gives the search the paths of earlier LIDs of the same port, which it avoids: the first, then the latest.
    fn shun_earlier(&mut self, e: usize) {
        /// Number of the latest ones; earlier ones have used up the links of a switch anyway.
        const LATEST_MAX: usize = 6;
        let mut earlier = Vec::new();
        let mut before = self.work.errands[e].before;
        while before != NONE {
            earlier.push(before as usize);
            before = self.work.errands[before as usize].before;
        }
        let first = earlier.pop();
        let shunned = first.into_iter().chain(earlier.into_iter().take(LATEST_MAX));
        let tree = |e: usize| -> Vec<u32> {
            let next = (0..self.work.net.switches).map(|s| self.next(e, s));
            next.map(|c| c.map_or(NONE, |c| c as u32)).collect()
        };
        let others = shunned.map(tree).collect();
        self.search.others = others;
        if first.is_some() {
            self.search.others_changed(self.work.net);
        }
    }

    /// Stores the tree of the last search.
    fn keep(&mut self, e: usize) {
        let net = self.work.net;
        let tree = &mut self.trees[e * net.switches..(e + 1) * net.switches];
        tree.fill(NO_HOP);
        for &u in &self.search.settled[1..] {
            let hop = self.search.next[u as usize] - net.first[u as usize];
            // A switch has at most 254 ports.
            tree[u as usize] = u8::try_from(hop).unwrap_or(NO_HOP);
        }
    }

    /// Restores a stored tree, as a search would have left it.
    fn load_tree(&mut self, e: usize) {
        let net = self.work.net;
        let goal = self.place_of(e).0;
        self.waiting.fill(0);
        self.search.next[goal as usize] = NONE;
        let mut members = 0;
        for s in 0..net.switches {
            if let Some(c) = self.next(e, s) {
                self.search.next[s] = c as u32;
                self.waiting[net.dst[c] as usize] += 1;
                members += 1;
            }
        }
        // From the leaves to the root, then turned round.
        let sends = |s: u32| self.next(e, s as usize).is_some();
        let leaves = (0..net.switches as u32).filter(|&s| self.waiting[s as usize] == 0 && sends(s));
        let mut list: Vec<u32> = leaves.collect();
        let mut head = 0;
        while head < list.len() && list[head] != goal {
            let to = net.dst[self.search.next[list[head] as usize] as usize];
            head += 1;
            self.waiting[to as usize] -= 1;
            if self.waiting[to as usize] == 0 {
                list.push(to);
            }
        }
        if members == 0 {
            list.push(goal);
        }
        list.reverse();
        self.search.settled = list;
    }

    /// Counts the sources at and behind every switch of the current tree.
    fn sum_up(&mut self) {
        let net = self.work.net;
        for &u in &self.search.settled {
            self.sub[u as usize] = net.hosts[u as usize];
        }
        for &u in self.search.settled[1..].iter().rev() {
            let to = net.dst[self.search.next[u as usize] as usize];
            self.sub[to as usize] += self.sub[u as usize];
        }
    }

    /// Channels of the current tree with load, and the loads.
    fn loaded(&self, list: &mut Vec<(u32, u32)>) {
        list.clear();
        let hops = self.search.settled[1..].iter();
        list.extend(
            hops.map(|&u| (self.search.next[u as usize], self.sub[u as usize]))
                .filter(|&(_, own)| own > 0),
        );
    }
}

/// Returns the cost of `own` further host pairs on a channel with this `load`.
fn steep(load: u64, own: u32, price: u32, peak: u64, steepness: u32) -> f64 {
    let x = |load: u64| (load * u64::from(price)) as f64 / peak as f64;
    raised(x(load + u64::from(own)), steepness) - raised(x(load), steepness)
}

/// Squares `x` a number of times, by multiplication only: the same bits on every machine.
fn raised(x: f64, times: u32) -> f64 {
    (0..times).fold(x, |x, _| x * x)
}
