//! From allowed hops to table entries: spreads destinations over equal ports.
//!
//! The rule is OpenSM's (observed in 3.3.23), so that the same fabric with the same LIDs gets the same tables. Each
//! switch counts the routes that leave by each of its ports. For each destination in turn, it takes the port with the
//! fewest routes among the good next hops, and the port with the lowest number among equals. A port that served the LID
//! before and is still good is kept. Further LIDs of a port (LMC) prefer a neighbour that its earlier LIDs do not use.
//!
//! The counters belong to one switch, so groups of switches are filled in parallel. The work is LIDs × switches × good
//! next hops, about 100 M steps for 5,832 hosts on 972 switches.

use std::collections::BTreeMap;

use selvedge_fabric::SwitchIdx;
use selvedge_graph::{Channel, Graph};
use selvedge_plan::{BLOCK_LIDS, Tables};
use selvedge_sim::Par;
use selvedge_types::Lid;

use crate::destinations::{Destination, Destinations};
use crate::paths::Paths;
use crate::previous;

/// The inputs of load balancing.
pub(crate) struct Balance<'a> {
    /// The fabric.
    pub graph: &'a Graph,
    /// The end ports to be routed.
    pub destinations: &'a Destinations,
    /// The allowed hops.
    pub paths: &'a Paths,
    /// The tables in force before.
    pub previous: Option<&'a Tables>,
    /// By switch: the order in which its ports are tried. Switches that try ports in ascending order are absent.
    pub port_order: &'a BTreeMap<usize, [u8; 256]>,
}

/// Fills `tables`, which must have no entries yet.
pub(crate) fn fill(balance: &Balance<'_>, tables: &mut Tables, par: Par) {
    /// Number of switches of one job. With this number, their counters stay in the first-level cache, and a row of
    /// paths is read once for all of them.
    const SLAB: usize = 32;
    let switches = balance.graph.switches();
    let mut slabs: Vec<Slab<'_>> = (0..switches.div_ceil(SLAB))
        .map(|i| Slab::new(balance, i * SLAB, switches.min((i + 1) * SLAB)))
        .collect();
    for tile in tables.tiles_mut() {
        for (slab, rows) in slabs.iter_mut().zip(tile.chunks_mut(SLAB)) {
            slab.blocks.push(rows);
        }
    }
    par.for_each_mut(&mut slabs, |_, slab| slab.run());
}

/// A range of switches, with their part of the tables and their counters.
struct Slab<'a> {
    balance: &'a Balance<'a>,
    switches: core::ops::Range<usize>,
    /// The tables of these switches: `blocks[block][switch - switches.start]`.
    blocks: Vec<&'a mut [[u8; BLOCK_LIDS]]>,
    /// Number of routes on each channel; index 0 is the slab's first channel.
    routes: Vec<u32>,
    /// Channels that are good next hops for the current batch, numbered from the slab's first channel.
    good: Vec<u32>,
    /// Switches on the routes of earlier LIDs of the current port, with the number of those LIDs.
    used: Vec<(u32, u32)>,
}

impl<'a> Slab<'a> {
    fn new(balance: &'a Balance<'a>, start: usize, end: usize) -> Self {
        let channels = balance.graph.channels();
        Self {
            balance,
            switches: start..end,
            blocks: Vec::new(),
            routes: vec![0; channels.start(end) - channels.start(start)],
            good: Vec::new(),
            used: Vec::new(),
        }
    }

    fn run(&mut self) {
        let destinations = self.balance.destinations;
        let mut offset = 0;
        // All first LIDs, then all second ones, and so on.
        loop {
            let mut any = false;
            for (attach, batch) in destinations.batches() {
                if batch.iter().all(|d| d.lids.lmc.lids() <= offset) {
                    continue;
                }
                any = true;
                for switch in self.switches.clone() {
                    self.batch(switch, attach, batch, offset);
                }
            }
            offset += 1;
            if !any {
                return;
            }
        }
    }

    /// Routes the LIDs at `offset` of a batch of destinations, at one switch.
    fn batch(&mut self, switch: usize, attach: usize, batch: &[Destination], offset: u16) {
        let due = batch.iter().filter(|d| d.lids.lmc.lids() > offset);
        if switch == attach {
            for destination in due {
                self.set(switch, lid(destination, offset), destination.egress);
            }
            return;
        }
        self.find_good(switch, attach);
        if self.good.is_empty() {
            return;
        }
        for destination in due {
            let chosen = self
                .kept(switch, lid(destination, offset))
                .unwrap_or_else(|| match offset {
                    0 => self.least_used(switch),
                    _ => self.least_used_elsewhere(switch, destination, offset),
                });
            self.set(
                switch,
                lid(destination, offset),
                self.channels(switch)[chosen as usize].egress,
            );
            if destination.counted {
                let base = self.base(switch);
                self.routes[base + chosen as usize] += 1;
            }
        }
    }

    /// Finds the good next hops from `switch` to `attach`, in the order in which ports are tried.
    fn find_good(&mut self, switch: usize, attach: usize) {
        let Balance {
            graph,
            paths,
            port_order,
            ..
        } = self.balance;
        paths.good(graph, switch, attach, &mut self.good);
        let channels = graph.channels().get(switch);
        if let Some(order) = port_order.get(&switch) {
            self.good
                .sort_by_key(|&c| order[usize::from(channels[c as usize].egress)]);
        }
    }

    /// Returns the port that served this LID before, if it is still a good next hop.
    fn kept(&self, switch: usize, lid: Lid) -> Option<u32> {
        let before = previous::egress(self.balance.previous, idx(switch), lid)?;
        let channels = self.channels(switch);
        self.good
            .iter()
            .copied()
            .find(|&c| channels[c as usize].egress == before)
    }

    /// Returns the good next hop with the fewest routes, the lowest port among equals. `good` is not empty.
    fn least_used(&self, switch: usize) -> u32 {
        let routes = &self.routes[self.base(switch)..];
        let mut best = (u32::MAX, 0);
        for &c in &self.good {
            // Strictly less: the first of equals stays.
            if routes[c as usize] < best.0 {
                best = (routes[c as usize], c);
            }
        }
        best.1
    }

    /// Returns the port with the fewest routes for a further LID of a port (LMC). Ports towards a neighbouring system
    /// that the port's earlier LIDs do not use come first, then ports towards a switch that these LIDs do not use, then
    /// the port that the fewest of these LIDs use. The scan begins after the port of the last LID.
    fn least_used_elsewhere(&mut self, switch: usize, destination: &Destination, offset: u16) -> u32 {
        self.find_used(switch, destination, offset);
        let graph = self.balance.graph;
        let channels = graph.channels().get(switch);
        let routes = &self.routes[self.base(switch)..];
        let last = self.get(switch, lid(destination, offset - 1));
        let turn_of = |c: u32| match self.balance.port_order.get(&switch) {
            Some(order) => order[usize::from(channels[c as usize].egress)],
            None => channels[c as usize].egress,
        };
        let turn = self.good.partition_point(|&c| turn_of(c) <= last);
        let (mut system, mut node, mut any) = (Least::default(), Least::default(), Least::default());
        // OpenSM does not reset this when it meets a port with fewer routes; the tables depend on it.
        let mut fewest_lids = u32::MAX;
        for &c in self.good[turn..].iter().chain(&self.good[..turn]) {
            let (count, to) = (routes[c as usize], channels[c as usize].to);
            let lids = self.used.iter().find(|&&(n, _)| n == to).map(|&(_, lids)| lids);
            let system_of = |n: u32| graph.system(n as usize);
            let system_used = self.used.iter().any(|&(n, _)| system_of(n) == system_of(to));
            if !system_used {
                system.offer(count, c);
            } else if lids.is_none() {
                node.offer(count, c);
            }
            if any.offer(count, c) {
                fewest_lids = fewest_lids.min(lids.unwrap_or(u32::MAX));
            } else if let Some(lids) = lids.filter(|&lids| count == any.count && lids < fewest_lids) {
                fewest_lids = lids;
                any.channel = Some(c);
            }
        }
        system.channel.or(node.channel).or(any.channel).unwrap_or(self.good[0])
    }

    /// Counts the LIDs of a port before `offset`, by the neighbour through which they are routed.
    fn find_used(&mut self, switch: usize, destination: &Destination, offset: u16) {
        self.used.clear();
        if !destination.counted {
            return;
        }
        for earlier in 0..offset {
            let egress = self.get(switch, lid(destination, earlier));
            let channels = self.channels(switch);
            let Ok(c) = channels.binary_search_by_key(&egress, |c| c.egress) else {
                continue;
            };
            let to = channels[c].to;
            match self.used.iter_mut().find(|(n, _)| *n == to) {
                Some((_, lids)) => *lids += 1,
                None => self.used.push((to, 1)),
            }
        }
    }

    fn channels(&self, switch: usize) -> &'a [Channel] {
        self.balance.graph.channels().get(switch)
    }

    /// Returns the index at which the counters of a switch start.
    fn base(&self, switch: usize) -> usize {
        let channels = self.balance.graph.channels();
        channels.start(switch) - channels.start(self.switches.start)
    }

    fn get(&self, switch: usize, lid: Lid) -> u8 {
        self.blocks[lid.index() / BLOCK_LIDS][switch - self.switches.start][lid.index() % BLOCK_LIDS]
    }

    fn set(&mut self, switch: usize, lid: Lid, egress: u8) {
        self.blocks[lid.index() / BLOCK_LIDS][switch - self.switches.start][lid.index() % BLOCK_LIDS] = egress;
    }
}

/// The channel with the smallest count so far; of several, the first.
struct Least {
    count: u32,
    channel: Option<u32>,
}

impl Default for Least {
    fn default() -> Self {
        Self {
            count: u32::MAX,
            channel: None,
        }
    }
}

impl Least {
    fn offer(&mut self, count: u32, channel: u32) -> bool {
        let better = count < self.count;
        if better {
            self.count = count;
            self.channel = Some(channel);
        }
        better
    }
}

fn lid(destination: &Destination, offset: u16) -> Lid {
    Lid(destination.lids.base.0 + offset)
}

fn idx(switch: usize) -> SwitchIdx {
    SwitchIdx(u32::try_from(switch).unwrap_or(u32::MAX))
}
