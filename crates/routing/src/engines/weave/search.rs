//! One tree of next hops towards one switch: Dijkstra outward from it, along legal turns only.

use super::net::{NONE, Net};
use super::order::{Base, Order};
use super::queue::{Queue, WEIGHT_MAX};

/// Scratch memory of searches, and the tree that the last one found.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// The channel by which each switch of the tree sends; [`NONE`] at the root.
    pub next: Vec<u32>,
    /// The switches of the tree, each after the switch that it sends to.
    pub settled: Vec<u32>,
    mark: Vec<u32>,
    stamp: u32,
    cost: Vec<u32>,
    queue: Queue,
    /// Other trees to the same goal: the next tree avoids their paths. Each tree is the egress channel of each switch.
    /// To avoid the first of them is most important.
    pub others: Vec<Vec<u32>>,
    /// By switch: true if the path in one of the other trees shares no link with the path in the first.
    parted: Vec<bool>,
    /// Channels of the current path, and their reverses.
    on_way: Vec<u32>,
    way: u32,
}

/// Weight of links shared with the first path of the same switch: more than any detour.
const SHARED_FIRST: u32 = 3_000;
/// Weight of each link that the path shares with another path of the switch. It also holds for links shared with the
/// first path, if one of the other paths shares none with the first. It is little more than a hop.
const SHARED: u32 = 300;

/// How a tree was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// By the search alone.
    Freely,
    /// With help of the base.
    ByBase,
}

impl Search {
    /// Returns scratch memory for a fabric.
    pub fn new(net: &Net) -> Self {
        Self {
            next: vec![NONE; net.switches],
            mark: vec![0; net.switches],
            cost: vec![u32::MAX; net.switches],
            queue: Queue::new(net.channels()),
            on_way: vec![0; net.channels()],
            ..Self::default()
        }
    }

    /// Finds a tree of paths to `goal` from all switches of its connected part (`want` of them), and adds its turns to
    /// the graph. The base guarantees that there is such a tree.
    pub fn route(&mut self, net: &Net, order: &mut Order, weight: &[u32], goal: u32, want: usize) -> Found {
        if self.attempt(net, order, weight, goal, want) {
            return Found::Freely;
        }
        match order.base() {
            Base::Tree => self.by_tree(net, order, goal),
            Base::Fixed => {
                self.start(goal);
                self.climb(net, order, weight, goal);
                self.grow(net, order, weight, want, false);
            }
        }
        Found::ByBase
    }

    /// Finds a tree as [`Self::route`] does, but without the base as a fallback. If it fails, nothing has changed.
    pub fn attempt(&mut self, net: &Net, order: &mut Order, weight: &[u32], goal: u32, want: usize) -> bool {
        self.start(goal);
        self.offer_all(net, order, weight, goal, 0, true);
        self.grow(net, order, weight, want, true);
        if self.settled.len() == want {
            return true;
        }
        self.for_turns(net, |from, to| order.remove(net, from, to));
        false
    }

    /// Makes the tree along the spanning tree of the base.
    pub fn by_tree(&mut self, net: &Net, order: &mut Order, goal: u32) {
        self.start(goal);
        self.along_tree(net, order);
    }

    /// Keeps the paths of the `settled` switches and finds paths for the `lost` ones. `settled` lists each switch after
    /// the switch that it sends to; `next` has the next hops. Returns false if some switch gets no path; then nothing
    /// has changed.
    pub fn resume(
        &mut self,
        net: &Net,
        order: &mut Order,
        weight: &[u32],
        (settled, next, lost): (&[u32], &[u32], &[u32]),
        want: usize,
    ) -> bool {
        self.start(settled[0]);
        for &u in &settled[1..] {
            let channel = next[u as usize];
            // Costs add up to less than a fabric has switches times the most a channel weighs.
            let cost = self.cost[net.dst[channel as usize] as usize] + weight[channel as usize];
            self.settle(u, channel, cost);
        }
        for out in lost.iter().flat_map(|&u| net.out(u as usize)) {
            let to = net.dst[out];
            if self.is_settled(to) {
                self.queue.push(out as u32, self.cost[to as usize] + weight[out]);
            }
        }
        self.grow(net, order, weight, want, false);
        if self.settled.len() == want {
            return true;
        }
        for &u in &self.settled[settled.len()..] {
            let from = self.next[u as usize];
            let to = self.next[net.dst[from as usize] as usize];
            if to != NONE {
                order.remove(net, from, to);
            }
        }
        false
    }

    /// Calls `f` for every turn of the tree.
    pub fn for_turns(&self, net: &Net, mut f: impl FnMut(u32, u32)) {
        for &u in &self.settled[1..] {
            let from = self.next[u as usize];
            let to = self.next[net.dst[from as usize] as usize];
            if to != NONE {
                f(from, to);
            }
        }
    }

    fn start(&mut self, goal: u32) {
        // By two: the mark below the stamp has a meaning of its own.
        self.stamp += 2;
        self.settled.clear();
        self.queue.clear();
        self.settle(goal, NONE, 0);
    }

    fn settle(&mut self, switch: u32, by: u32, cost: u32) {
        self.mark[switch as usize] = self.stamp;
        self.next[switch as usize] = by;
        self.cost[switch as usize] = cost;
        self.settled.push(switch);
    }

    fn is_settled(&self, switch: u32) -> bool {
        self.mark[switch as usize] == self.stamp
    }

    /// Offers the channels that lead to a settled switch.
    fn offer_all(&mut self, net: &Net, order: &Order, weight: &[u32], to: u32, cost: u32, prune: bool) {
        let onward = self.next[to as usize];
        if !self.others.is_empty() {
            self.mark_way(net, to);
        }
        for out in net.out(to as usize) {
            let u = net.dst[out];
            if self.is_settled(u) {
                continue;
            }
            let channel = net.rev[out];
            let mut total = cost + weight[channel as usize];
            if !self.others.is_empty() {
                total += self.price_of_sharing(net, u, channel);
            }
            // A channel that needs no search keeps worse ones off the heap. `mark` one below the stamp means that
            // `cost` holds the best of those.
            if prune && (onward == NONE || order.agrees(channel, onward)) {
                let is_first = self.mark[u as usize] != self.stamp - 1;
                if !is_first && self.cost[u as usize] <= total {
                    continue;
                }
                self.mark[u as usize] = self.stamp - 1;
                self.cost[u as usize] = total;
            } else if prune && self.mark[u as usize] == self.stamp - 1 && self.cost[u as usize] <= total {
                continue;
            }
            self.queue.push(channel, total);
        }
    }

    /// Marks the path of a settled switch.
    fn mark_way(&mut self, net: &Net, from: u32) {
        self.way += 1;
        let mut channel = self.next[from as usize];
        while channel != NONE {
            self.on_way[channel as usize] = self.way;
            self.on_way[net.rev[channel as usize] as usize] = self.way;
            channel = self.next[net.dst[channel as usize] as usize];
        }
    }

    /// Returns the cost of sharing for a path of a switch that begins with channel `first` and continues on the marked
    /// path: the cost of the links that it shares with the other paths of the switch.
    fn price_of_sharing(&self, net: &Net, switch: u32, first: u32) -> u32 {
        let mut price = 0;
        for (i, next) in self.others.iter().enumerate() {
            let mut shared = 0;
            let mut channel = next[switch as usize];
            // A whole tree: it ends at the goal.
            while channel != NONE {
                let is_first = channel == first || net.rev[channel as usize] == first;
                shared += u32::from(is_first || self.on_way[channel as usize] == self.way);
                channel = next[net.dst[channel as usize] as usize];
            }
            price += if i == 0 && shared > 0 && !self.parted[switch as usize] {
                SHARED_FIRST
            } else {
                SHARED * shared
            };
        }
        price.min(WEIGHT_MAX)
    }

    /// Updates the data that depend on [`Self::others`], after it has changed.
    pub fn others_changed(&mut self, net: &Net) {
        self.parted.clear();
        self.parted.resize(net.switches, false);
        let Some((first, others)) = self.others.split_first() else {
            return;
        };
        for s in 0..net.switches {
            self.way += 1;
            let mut channel = first[s];
            while channel != NONE {
                self.on_way[channel as usize] = self.way;
                self.on_way[net.rev[channel as usize] as usize] = self.way;
                channel = first[net.dst[channel as usize] as usize];
            }
            self.parted[s] = others.iter().any(|next| {
                let mut channel = next[s];
                while channel != NONE && self.on_way[channel as usize] != self.way {
                    channel = next[net.dst[channel as usize] as usize];
                }
                channel == NONE
            });
        }
    }

    /// Returns the switches for which one of [`Self::others`] shares no link with the first of them.
    pub fn parted(&self) -> &[bool] {
        &self.parted
    }

    fn grow(&mut self, net: &Net, order: &mut Order, weight: &[u32], want: usize, prune: bool) {
        while let Some((channel, _)) = self.queue.pop() {
            let u = net.src[channel as usize];
            if self.is_settled(u) {
                continue;
            }
            let to = net.dst[channel as usize];
            let onward = self.next[to as usize];
            if onward != NONE && !order.add(net, channel, onward) {
                continue;
            }
            // Without the cost of shared links, which belongs to that switch.
            let cost = self.cost[to as usize] + weight[channel as usize];
            self.settle(u, channel, cost);
            if self.settled.len() == want {
                return;
            }
            self.offer_all(net, order, weight, u, cost, prune);
        }
    }

    /// Adds the path from the base's root down to `goal`. Then every other switch has a path up to a switch of this
    /// path, because up channels may follow each other, and any channel of the base may follow an up channel.
    fn climb(&mut self, net: &Net, order: &mut Order, weight: &[u32], goal: u32) {
        let mut at = goal;
        while order.parent[at as usize] != NONE {
            let up = order.parent[at as usize];
            let down = net.rev[up as usize];
            let onward = self.next[at as usize];
            if onward != NONE {
                order.add(net, down, onward);
            }
            at = net.dst[up as usize];
            // As near as the goal itself: the base is a fallback, not a good path.
            self.settle(at, down, 0);
        }
        for i in 0..self.settled.len() {
            let at = self.settled[i];
            self.offer_all(net, order, weight, at, 0, false);
        }
    }

    /// Makes the whole tree along the base's spanning tree.
    fn along_tree(&mut self, net: &Net, order: &mut Order) {
        let mut head = 0;
        while let Some(&at) = self.settled.get(head) {
            head += 1;
            for out in net.out(at as usize) {
                let (u, channel) = (net.dst[out], net.rev[out]);
                let in_tree = order.parent[u as usize] == channel || order.parent[at as usize] == out as u32;
                if !in_tree || self.is_settled(u) {
                    continue;
                }
                let onward = self.next[at as usize];
                if onward != NONE {
                    order.add(net, channel, onward);
                }
                self.settle(u, channel, 0);
            }
        }
    }
}
