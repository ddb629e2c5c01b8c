//! Loads of channels, and paths to one destination that balance them.
//!
//! Paths are stored by switch, as the index of the next channel among all channels; [`NONE`] at the switch of the
//! destination, and where there is no path.

use std::collections::BTreeSet;

use selvedge_graph::Graph;

use crate::destinations::Destinations;
use crate::engines::sssp::NONE;
use crate::lanes::{Added, Lane};

/// The loads, with scratch memory for one destination.
#[derive(Clone)]
pub(crate) struct Spread<'a> {
    graph: &'a Graph,
    /// Host LIDs at each switch.
    pub hosts: Vec<u64>,
    /// Pairs of LIDs that use each channel.
    load: Vec<u64>,
    /// The switch from which the distances below were computed. The next two lists are the switches by distance,
    /// nearest first, and the distances.
    from: Option<usize>,
    near: Vec<u32>,
    hops: Vec<u32>,
    cost: Vec<u64>,
    below: Vec<u64>,
}

impl<'a> Spread<'a> {
    pub fn new(graph: &'a Graph, destinations: &Destinations) -> Self {
        let switches = graph.switches();
        let mut hosts = vec![0; switches];
        for (attach, batch) in destinations.batches() {
            let of_hosts = batch.iter().filter(|d| d.egress != 0);
            hosts[attach] += of_hosts.map(|d| u64::from(d.lids.lmc.lids())).sum::<u64>();
        }
        Self {
            graph,
            hosts,
            load: vec![0; graph.channels().start(switches)],
            from: None,
            near: Vec::new(),
            hops: Vec::new(),
            cost: vec![0; switches],
            below: vec![0; switches],
        }
    }

    /// Returns the load of the busiest channel, and the sum of the squares of all loads.
    pub fn peak(&self) -> (u64, u128) {
        let squares = self.load.iter().map(|&load| u128::from(load) * u128::from(load)).sum();
        (self.load.iter().copied().max().unwrap_or(0), squares)
    }

    /// Returns the least loaded shortest paths to a switch.
    pub fn next(&mut self, attach: usize) -> Vec<u32> {
        self.search(attach);
        let mut next = vec![NONE; self.graph.switches()];
        self.cost[attach] = 0;
        for &switch in self.near.iter().skip(1) {
            let s = switch as usize;
            // The lowest port of equals.
            if let Some((cost, channel)) = self.shortest(s).min() {
                self.cost[s] = cost;
                next[s] = channel;
            }
        }
        next
    }

    /// Returns for each switch the least loaded of its shortest paths that fit the lane, and adds the dependencies of
    /// these paths to the lane. `None` if a switch with hosts has no such path. A switch without hosts may stay without
    /// a path.
    pub fn fitting(&mut self, attach: usize, lane: &mut Lane, room: &mut Added) -> Option<Vec<u32>> {
        self.search(attach);
        let mut next = vec![NONE; self.graph.switches()];
        self.cost[attach] = 0;
        for i in 1..self.near.len() {
            let s = self.near[i] as usize;
            let mut choice: Vec<(u64, u32)> = self.shortest(s).collect();
            choice.sort_unstable();
            let found = choice.into_iter().find(|&(_, channel)| {
                let to = self.to(channel);
                to == attach || (next[to] != NONE && lane.add(channel, next[to], room))
            });
            match found {
                Some((cost, channel)) => {
                    self.cost[s] = cost;
                    next[s] = channel;
                }
                None if self.hosts[s] > 0 => return None,
                None => {}
            }
        }
        Some(next)
    }

    /// Gives every switch without a path one that fits the lane: a shortest one if possible. Returns false if a switch
    /// gets none.
    ///
    /// No packet of a host passes these switches, so their load does not count. Paths along dependencies that are
    /// already on the lane are preferred, so that destinations share their turns.
    pub fn complete(&mut self, attach: usize, next: &mut [u32], lane: &mut Lane, room: &mut Added) -> bool {
        self.search(attach);
        let graph = self.graph;
        let mut open: Vec<usize> = self.near.iter().skip(1).map(|&s| s as usize).collect();
        open.retain(|&s| next[s] == NONE);
        // Shortest paths first; then, while that helps, any.
        let mut longer = false;
        // Dependencies are only added to the lane meanwhile: one that closed a cycle once does so again.
        let mut refused = BTreeSet::new();
        while !open.is_empty() {
            let before = open.len();
            open.retain(|&s| {
                let channels = graph.channels().range(s).zip(graph.channels().get(s));
                let mut choice: Vec<(u32, bool, u32)> = channels
                    .filter_map(|(at, c)| {
                        let (at, to) = (u32::try_from(at).ok()?, c.to as usize);
                        let routed = to == attach || next[to] != NONE;
                        let near = longer || self.hops[to] < self.hops[s];
                        let known = to == attach || (routed && lane.has(at, next[to]));
                        (routed && near).then_some((self.hops[to], !known, at))
                    })
                    .collect();
                choice.sort_unstable();
                let found = choice.into_iter().find(|&(.., channel)| {
                    let to = graph.channels().item(channel as usize).to as usize;
                    let fits = |lane: &mut Lane, room| lane.add(channel, next[to], room);
                    to == attach || !refused.contains(&channel) && (fits(lane, room) || !refused.insert(channel))
                });
                if let Some((.., channel)) = found {
                    next[s] = channel;
                }
                found.is_none()
            });
            if open.len() == before {
                if longer {
                    return false;
                }
                longer = true;
            }
        }
        true
    }

    /// Gives a shortest path to every switch without a path.
    pub fn fill(&mut self, attach: usize, next: &mut [u32]) {
        self.search(attach);
        for i in 1..self.near.len() {
            let s = self.near[i] as usize;
            if next[s] == NONE {
                next[s] = self.shortest(s).min().map_or(NONE, |(_, channel)| channel);
            }
        }
    }

    /// Moves single next hops of a LID off loaded channels; all packets through the switch move with them. Returns true
    /// if any has moved.
    ///
    /// A move must lower the sum of fourth powers of loads. So the peak counts most, and the rounds come to an end.
    pub fn relieve(&mut self, attach: usize, next: &mut [u32]) -> bool {
        self.search(attach);
        self.below.copy_from_slice(&self.hosts);
        let mut moved = false;
        // From afar: what comes through a switch is known once all behind it have chosen.
        for i in (1..self.near.len()).rev() {
            let s = self.near[i] as usize;
            let pairs = self.below[s];
            if pairs > 0 {
                let old = next[s];
                let gains = self.shortest(s).filter(|&(_, channel)| channel != old);
                let best = gains
                    .map(|(_, channel)| (self.change(next, (old, channel), pairs), channel))
                    .min();
                if let Some((_, channel)) = best.filter(|&(change, _)| change < 0) {
                    self.shift(next, (old, channel), pairs);
                    next[s] = channel;
                    moved = true;
                }
                let to = self.to(next[s]);
                self.below[to] += pairs;
            }
        }
        moved
    }

    /// Returns how the sum of fourth powers of loads changes if pairs move from one channel and its path to another.
    fn change(&self, next: &[u32], (mut old, mut new): (u32, u32), pairs: u64) -> i128 {
        // (l + p)^4 - l^4; no load reaches 2^31, that of 49,151 LIDs' pairs on one channel.
        let step = |load: u64| {
            let to = load + pairs;
            i128::from(pairs * (load + to)) * i128::from(load * load + to * to)
        };
        let mut change = 0;
        loop {
            let (less, more) = (self.load[old as usize], self.load[new as usize]);
            change += step(more) - step(less.saturating_sub(pairs));
            // Both are as far from the end, so they meet there at the latest.
            let at = (self.to(old), self.to(new));
            if at.0 == at.1 {
                return change;
            }
            (old, new) = (next[at.0], next[at.1]);
        }
    }

    fn shift(&mut self, next: &[u32], (mut old, mut new): (u32, u32), pairs: u64) {
        loop {
            self.load[old as usize] = self.load[old as usize].saturating_sub(pairs);
            self.load[new as usize] += pairs;
            let at = (self.to(old), self.to(new));
            if at.0 == at.1 {
                return;
            }
            (old, new) = (next[at.0], next[at.1]);
        }
    }

    fn to(&self, channel: u32) -> usize {
        self.graph.channels().item(channel as usize).to as usize
    }

    /// Channels from a switch that shorten its distance, with the load of each and of the path behind it.
    fn shortest(&self, switch: usize) -> impl Iterator<Item = (u64, u32)> {
        let channels = self.graph.channels();
        let near = channels.range(switch).zip(channels.get(switch));
        near.filter(move |(_, c)| self.hops[c.to as usize] + 1 == self.hops[switch])
            .map(|(at, c)| {
                (
                    self.load[at] + self.cost[c.to as usize],
                    u32::try_from(at).unwrap_or(NONE),
                )
            })
    }

    /// Adds the pairs of a LID to the channels on its paths, or removes them.
    pub fn count(&mut self, attach: usize, next: &[u32], more: bool) {
        self.search(attach);
        self.below.copy_from_slice(&self.hosts);
        for &switch in self.near.iter().skip(1).rev() {
            let (channel, pairs) = (next[switch as usize], self.below[switch as usize]);
            if channel == NONE || pairs == 0 {
                continue;
            }
            let channel = channel as usize;
            let load = &mut self.load[channel];
            *load = if more {
                *load + pairs
            } else {
                load.saturating_sub(pairs)
            };
            self.below[self.graph.channels().item(channel).to as usize] += pairs;
        }
    }

    fn search(&mut self, attach: usize) {
        /// A distance larger than that of any switch; one more does not overflow.
        const FAR: u32 = u32::MAX - 1;
        if self.from == Some(attach) {
            return;
        }
        self.from = Some(attach);
        self.near.clear();
        self.near.push(u32::try_from(attach).unwrap_or(NONE));
        self.hops.clear();
        self.hops.resize(self.graph.switches(), FAR);
        self.hops[attach] = 0;
        let mut head = 0;
        while let Some(&at) = self.near.get(head) {
            head += 1;
            for &to in self.graph.neighbours(at as usize) {
                if self.hops[to as usize] == FAR {
                    self.hops[to as usize] = self.hops[at as usize] + 1;
                    self.near.push(to);
                }
            }
        }
    }
}
