//! The trees of all errands, the load they put on every channel, and how both are made better.

use std::sync::Arc;

use super::net::{Errand, Goal, NONE, Net};
use super::order::{Base, Order};
use super::search::{Found, Search};

/// No next hop in a packed tree.
const NO_HOP: u8 = u8::MAX;
/// What a channel weighs where the load on it is the mean of an ideal routing.
const ONE: u64 = 256;
/// No channel weighs more: 49,151 hops of it stay below the 40 bits that a cost has.
const WEIGHT_MAX: u64 = 1 << 23;

/// How one way of making the trees differs from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    /// Turns that are legal from the start.
    pub base: Base,
    /// What a hop weighs, in loads of an ideal channel: much looks for few hops first, little for low loads first.
    pub hop: u32,
    /// One in how many channels a search for a cycle may visit.
    pub reach: u32,
    /// Which of the tops of the base.
    pub top: usize,
}

/// What there is to do, the same for all variants.
#[derive(Debug)]
pub(super) struct Work<'a> {
    /// The fabric.
    pub net: &'a Net,
    /// End ports.
    pub goals: &'a [Goal],
    /// Trees to make.
    pub errands: &'a [Errand],
    /// Tops of the base, best first: for each lane the place of each switch from top to bottom.
    pub tops: &'a [Vec<Arc<Vec<u32>>>],
    /// Switches of each part.
    pub part_size: &'a [usize],
    /// Priced host pairs on a channel if all took shortest ways and all channels were equally busy.
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
    /// The tree of each errand: the position of the next hop among the switch's channels.
    trees: Vec<u8>,
    search: Search,
    weight: Vec<u32>,
    sub: Vec<u32>,
    order_out: Vec<u32>,
    waiting: Vec<u32>,
    /// Trees that only the base could make.
    pub by_base: usize,
}

/// How good a state is; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    /// Priced host pairs on the busiest channel.
    pub max: u64,
    /// Priced host pairs on all of them.
    pub sum: u64,
}

impl<'a> Loom<'a> {
    /// Nothing made yet.
    pub fn new(work: &'a Work<'a>, variant: Variant) -> Self {
        let net = work.net;
        let of_lane = work.tops[variant.top].iter();
        let orders = of_lane.map(|position| Order::new(net, variant.base, variant.reach, position));
        Self {
            work,
            variant,
            orders: orders.collect(),
            load: vec![0; net.channels()],
            trees: vec![NO_HOP; work.errands.len() * net.switches],
            search: Search::new(net),
            weight: vec![0; net.channels()],
            sub: vec![0; net.switches],
            order_out: Vec::new(),
            waiting: vec![0; net.switches],
            by_base: 0,
        }
    }

    /// Makes the trees of some errands for the first time.
    pub fn weave(&mut self, errands: core::ops::Range<usize>) {
        for e in errands {
            self.weigh();
            self.shun_earlier(e);
            let (at, lane, want) = self.place_of(e);
            let order = &mut self.orders[lane];
            if self.search.route(self.work.net, order, &self.weight, at, want) == Found::ByBase {
                self.by_base += 1;
            }
            self.keep(e);
            if self.is_counted(e) {
                self.sum_up();
                self.put_load();
            }
        }
    }

    /// Gives an errand the tree of another with the same destination switch.
    pub fn copy(&mut self, from: usize, to: usize) {
        let n = self.work.net.switches;
        self.trees.copy_within(from * n..(from + 1) * n, to * n);
    }

    /// One round over some errands: each is taken out and routed again around the busy channels, and the new tree is
    /// kept if it is no worse. Returns how many were changed.
    pub fn improve(&mut self, errands: core::ops::Range<usize>, steepness: u32) -> usize {
        let mut changed = 0;
        self.orders.iter_mut().for_each(Order::unblock);
        for e in errands {
            let peak = self.score().max.max(1);
            self.load_tree(e);
            self.sum_up();
            let old: Vec<(u32, u32)> = self.loaded();
            let (at, lane, want) = self.place_of(e);
            let cost_of = |load: &[u64], price: &[u32], list: &[(u32, u32)]| -> f64 {
                list.iter()
                    .map(|&(c, own)| steep(load[c as usize], own, price[c as usize], peak, steepness))
                    .sum()
            };
            for &(c, own) in &old {
                self.load[c as usize] -= u64::from(own);
            }
            let price = &self.work.net.price;
            let was = cost_of(&self.load, price, &old);
            let order = &mut self.orders[lane];
            self.search
                .for_turns(self.work.net, |from, to| order.remove(self.work.net, from, to));
            self.weigh_steep(peak, steepness);
            let order = &mut self.orders[lane];
            let mut better = self.search.attempt(self.work.net, order, &self.weight, at, want);
            let new = if better {
                self.sum_up();
                self.loaded()
            } else {
                Vec::new()
            };
            if better && cost_of(&self.load, &self.work.net.price, &new) >= was {
                let order = &mut self.orders[lane];
                self.search
                    .for_turns(self.work.net, |from, to| order.remove(self.work.net, from, to));
                better = false;
            }
            let (kept, net) = (if better { new } else { old }, self.work.net);
            for (c, own) in kept {
                self.load[c as usize] += u64::from(own);
            }
            if better {
                self.keep(e);
                changed += 1;
            } else {
                self.load_tree(e);
                let order = &mut self.orders[lane];
                self.search.for_turns(net, |from, to| order.restore(net, from, to));
            }
        }
        changed
    }

    /// How good it is.
    pub fn score(&self) -> Score {
        let priced = self
            .load
            .iter()
            .zip(&self.work.net.price)
            .map(|(&l, &p)| l * u64::from(p));
        let (max, sum) = priced.fold((0, 0), |(max, sum), load| (load.max(max), sum + load));
        Score { max, sum }
    }

    /// The channel by which a switch sends on an errand.
    pub fn next(&self, errand: usize, switch: usize) -> Option<usize> {
        let hop = self.trees[errand * self.work.net.switches + switch];
        (hop != NO_HOP).then(|| self.work.net.first[switch] as usize + usize::from(hop))
    }

    fn place_of(&self, e: usize) -> (u32, usize, usize) {
        let at = self.work.goals[self.work.errands[e].goal as usize].at;
        let part = self.work.net.part[at as usize] as usize;
        (at, usize::from(self.work.errands[e].lane), self.work.part_size[part])
    }

    /// True if hosts send there.
    fn is_counted(&self, e: usize) -> bool {
        self.work.goals[self.work.errands[e].goal as usize].egress != 0
    }

    /// Weights of all channels from their load so far.
    fn weigh(&mut self) {
        let hop = u64::from(self.variant.hop) * ONE;
        for ((weight, &load), &price) in self.weight.iter_mut().zip(&self.load).zip(&self.work.net.price) {
            let w = hop + load * u64::from(price) * ONE / self.work.ideal;
            *weight = w.min(WEIGHT_MAX) as u32;
        }
    }

    /// Weights that rise steeply towards the peak.
    fn weigh_steep(&mut self, peak: u64, steepness: u32) {
        let scale = 1.0 / peak as f64;
        for ((weight, &load), &price) in self.weight.iter_mut().zip(&self.load).zip(&self.work.net.price) {
            let x = (load * u64::from(price)) as f64 * scale;
            // The slope of the cost, with a little for the hop itself.
            *weight = (64.0 + 16_384.0 * raised(x, steepness)).min(WEIGHT_MAX as f64) as u32;
        }
    }

    /// Channels that earlier LIDs of the same port use weigh three hops more, so that its LIDs take different ways
    /// even where that costs two hops: around a square instead of along its side.
    fn shun_earlier(&mut self, e: usize) {
        /// Further back the ways of a fabric are used up anyway.
        const EARLIER_MAX: usize = 8;
        let mut before = self.work.errands[e].before;
        for _ in 0..EARLIER_MAX {
            if before == NONE {
                return;
            }
            for s in 0..self.work.net.switches {
                if let Some(c) = self.next(before as usize, s) {
                    let more = u64::from(self.variant.hop) * ONE * 3;
                    self.weight[c] = (u64::from(self.weight[c]) + more).min(WEIGHT_MAX) as u32;
                }
            }
            before = self.work.errands[before as usize].before;
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

    /// Puts a stored tree where a search would have left it.
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
        self.order_out.clear();
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

    /// Sources at and behind every switch of the tree at hand.
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

    fn put_load(&mut self) {
        for &u in &self.search.settled[1..] {
            self.load[self.search.next[u as usize] as usize] += u64::from(self.sub[u as usize]);
        }
    }

    /// Channels of the tree at hand that carry something, and how much.
    fn loaded(&self) -> Vec<(u32, u32)> {
        let hops = self.search.settled[1..].iter();
        hops.map(|&u| (self.search.next[u as usize], self.sub[u as usize]))
            .filter(|&(_, own)| own > 0)
            .collect()
    }
}

/// What `own` more host pairs cost on a channel that has `load`.
fn steep(load: u64, own: u32, price: u32, peak: u64, steepness: u32) -> f64 {
    let x = |load: u64| (load * u64::from(price)) as f64 / peak as f64;
    raised(x(load + u64::from(own)), steepness) - raised(x(load), steepness)
}

/// `x` squared `times` times, by multiplication alone: the same bits on every machine.
fn raised(x: f64, times: u32) -> f64 {
    (0..times).fold(x, |x, _| x * x)
}
