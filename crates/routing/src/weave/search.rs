//! One tree of next hops towards one switch: Dijkstra outward from it, along legal turns only.

use super::net::{NONE, Net};
use super::order::{Base, Order};
use super::queue::Queue;

/// Scratch memory of searches, and the tree that the last one found.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    /// The channel by which each switch of the tree sends; [`NONE`] at the root.
    pub next: Vec<u32>,
    /// The switches of the tree: each after the one it sends to.
    pub settled: Vec<u32>,
    mark: Vec<u32>,
    stamp: u32,
    cost: Vec<u32>,
    queue: Queue,
}

/// How a tree was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// By the search alone.
    Freely,
    /// With the help of the base.
    ByBase,
}

impl Search {
    /// Scratch memory for a fabric.
    pub fn new(net: &Net) -> Self {
        Self {
            next: vec![NONE; net.switches],
            mark: vec![0; net.switches],
            cost: vec![u32::MAX; net.switches],
            queue: Queue::new(net.channels()),
            ..Self::default()
        }
    }

    /// Finds a tree from all `want` switches of the part to `goal` and counts its turns. The base makes sure that there
    /// is one.
    pub fn route(&mut self, net: &Net, order: &mut Order, weight: &[u32], goal: u32, want: usize) -> Found {
        if self.attempt(net, order, weight, goal, want) {
            return Found::Freely;
        }
        self.start(goal);
        match order.base() {
            Base::Tree => self.along_tree(net, order),
            Base::Fixed => {
                self.climb(net, order, weight, goal);
                self.grow(net, order, weight, want, false);
            }
        }
        Found::ByBase
    }

    /// The same without help; if it fails nothing has changed.
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

    /// Keeps what a tree has of settled switches (each after the one it sends to, with their next hops) and finds a way
    /// for those that are lost; if it fails nothing has changed.
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

    /// Every turn of the tree.
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
        for out in net.out(to as usize) {
            let u = net.dst[out];
            if self.is_settled(u) {
                continue;
            }
            let channel = net.rev[out];
            let total = cost + weight[channel as usize];
            // A channel that needs no search keeps worse ones off the heap. `mark` one below the stamp says that
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

    fn grow(&mut self, net: &Net, order: &mut Order, weight: &[u32], want: usize, prune: bool) {
        while let Some((channel, cost)) = self.queue.pop() {
            let u = net.src[channel as usize];
            if self.is_settled(u) {
                continue;
            }
            let onward = self.next[net.dst[channel as usize] as usize];
            if onward != NONE && !order.add(net, channel, onward) {
                continue;
            }
            self.settle(u, channel, cost);
            if self.settled.len() == want {
                return;
            }
            self.offer_all(net, order, weight, u, cost, prune);
        }
    }

    /// Commits the way from the base's root down to `goal`. Then every other switch has a way up that meets it: up
    /// channels may follow each other and be followed by any channel of the base.
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
            // As near as the goal itself: this is a way out, not a good one.
            self.settle(at, down, 0);
        }
        for i in 0..self.settled.len() {
            let at = self.settled[i];
            self.offer_all(net, order, weight, at, 0, false);
        }
    }

    /// The whole tree along the base's spanning tree.
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
