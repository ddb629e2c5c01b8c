//! Shortest paths that avoid what earlier destinations loaded: OpenSM's `sssp`, and on lanes `dfsssp`.
//!
//! Every channel knows how many host pairs use it. Destinations come one by one; of its shortest paths each switch
//! takes the one whose channels carry least in sum, and the pairs of the new destination are added. So, unlike minhop,
//! load is spread over the whole fabric, not over the ports of each switch.
//!
//! OpenSM (observed in 3.3.23) weighs a channel so that a loaded short path can lose against an empty long one; here a
//! path is always shortest in hops. That also avoids its overflow with more than about 20,000 LIDs.
//!
//! Then every LID is taken out and routed again, a few times, and the round with the least loaded peak is kept.
//!
//! Work: rounds × LIDs × channels: 4 × 240 M steps for 6,804 LIDs and 35,000 channels. Not parallel: each
//! destination depends on the loads that all before it left.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, Tables};
use selvedge_types::{Guid, Lid, NodeKind};

use crate::destinations::{Destination, Destinations};
use crate::engine::HostLists;
use crate::graph::Graph;
use crate::lanes::{Lane, Lanes};

/// No next hop.
pub(crate) const NONE: u32 = u32::MAX;

/// Times that every LID is taken out and routed again once all loads are known.
const ROUNDS: usize = 3;

/// The next hops of all switches towards one LID.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// It leads to the switch itself.
    pub to_switch: bool,
    /// By switch: the place of the channel among all channels; [`NONE`] at `attach` and where there is no way.
    pub next: Vec<u32>,
}

/// A LID to route.
#[derive(Clone, Copy, Debug)]
struct Target {
    lid: Lid,
    attach: usize,
    egress: u8,
}

/// Routes all LIDs.
pub(crate) fn route(
    fabric: &Fabric,
    graph: &Graph,
    lids: &Lids,
    destinations: &Destinations,
    lists: &HostLists,
) -> Tables {
    let targets = ordered(fabric, lids, destinations, lists);
    let mut spread = Spread::new(graph, destinations);
    let mut tables = Tables::new(graph.switches(), lids.top());
    let mut best = None;
    for round in 0..=ROUNDS {
        for &target in &targets {
            if round > 0 {
                let before = read(graph, &tables, target);
                spread.count(target.attach, &before, false);
            }
            let next = spread.next(target.attach);
            spread.count(target.attach, &next, true);
            write(graph, &mut tables, target, &next);
        }
        let peak = spread.peak();
        if best.as_ref().is_none_or(|(least, _)| peak < *least) {
            best = Some((peak, tables.clone()));
        }
    }
    best.map_or(tables, |(_, tables)| tables)
}

/// Routes all LIDs, each on one of at most `most` lanes: the tables, the lane of every LID, the number of lanes.
///
/// Where the least loaded way of a LID fits no lane in use, another way of the same length that does is taken.
pub(crate) fn route_on_lanes(
    fabric: &Fabric,
    graph: &Graph,
    lids: &Lids,
    destinations: &Destinations,
    (lists, most): (&HostLists, u8),
) -> Option<(Tables, Vec<u8>, u8)> {
    let tables = route(fabric, graph, lids, destinations, lists);
    let targets = ordered(fabric, lids, destinations, lists);
    let mut spread = Spread::new(graph, destinations);
    for &target in &targets {
        spread.count(target.attach, &read(graph, &tables, target), true);
    }
    // Fewest lanes first, then the least loaded peak.
    let tries = [false, true].map(|packed| {
        let mut spread = spread.clone();
        let placed = place_all(graph, &targets, tables.clone(), &mut spread, (packed, most))?;
        Some((placed.2, spread.peak(), placed))
    });
    let best = tries
        .into_iter()
        .flatten()
        .min_by_key(|(lanes, peak, _)| (*lanes, *peak));
    best.map(|(.., placed)| placed)
}

/// Puts every LID on a lane. `packed`: rather change its way than go on to the next lane.
fn place_all(
    graph: &Graph,
    targets: &[Target],
    mut tables: Tables,
    spread: &mut Spread<'_>,
    (packed, most): (bool, u8),
) -> Option<(Tables, Vec<u8>, u8)> {
    let bearing = spread.hosts.iter().map(|&h| h > 0).collect();
    let mut lanes = Lanes::new(graph, bearing, most);
    let mut lane_of = vec![0; tables.top().index() + 1];
    for &target in targets {
        let attach = target.attach;
        let next = read(graph, &tables, target);
        let to_switch = target.egress == 0;
        let way = Way { to_switch, next };
        spread.count(attach, &way.next, false);
        let find = |lane: &mut Lane, added: &mut Vec<(u32, u32)>| spread.fitting(attach, lane, added);
        let (lane, next) = lanes.place(&way, packed, find)?;
        spread.count(attach, &next, true);
        write(graph, &mut tables, target, &next);
        lane_of[target.lid.index()] = lane;
    }
    Some((tables, lane_of, lanes.used()))
}

/// The next hops that the tables hold.
fn read(graph: &Graph, tables: &Tables, target: Target) -> Vec<u32> {
    let channel = |switch: usize| {
        let egress = tables.get(index(switch), target.lid);
        let channels = graph.channels().get(switch);
        let i = channels.binary_search_by_key(&egress, |c| c.egress).ok()?;
        u32::try_from(graph.channels().start(switch) + i).ok()
    };
    let next = |switch| channel(switch).filter(|_| switch != target.attach).unwrap_or(NONE);
    (0..graph.switches()).map(next).collect()
}

fn write(graph: &Graph, tables: &mut Tables, target: Target, next: &[u32]) {
    for (switch, &channel) in next.iter().enumerate() {
        if channel != NONE {
            tables.set(
                index(switch),
                target.lid,
                graph.channels().item(channel as usize).egress,
            );
        }
    }
    tables.set(index(target.attach), target.lid, target.egress);
}

/// Compute nodes first, then I/O nodes, then other hosts, then switches; each switch by switch, most hosts first.
fn ordered(fabric: &Fabric, lids: &Lids, destinations: &Destinations, lists: &HostLists) -> Vec<Target> {
    let compute: BTreeSet<Guid> = lists.compute.iter().copied().collect();
    let io: BTreeSet<Guid> = lists.io.iter().copied().collect();
    let class = |port: PortRef| {
        let guid = fabric.port(port).map(|p| p.guid).unwrap_or_default();
        match fabric.node(port.node).kind {
            NodeKind::Switch => 3,
            NodeKind::Ca | NodeKind::Router if compute.contains(&guid) => 0,
            NodeKind::Ca | NodeKind::Router if io.contains(&guid) => 1,
            NodeKind::Ca | NodeKind::Router => 2,
        }
    };
    let all = destinations.batches();
    let mut ordered: Vec<(usize, Destination)> =
        all.flat_map(|(s, batch)| batch.iter().map(move |&d| (s, d))).collect();
    ordered.sort_by_key(|(_, d)| lids.owner(d.lids.base).map(class));
    let each = |(attach, d): (usize, Destination)| {
        let egress = d.egress;
        d.lids.iter().map(move |lid| Target { lid, attach, egress })
    };
    ordered.into_iter().flat_map(each).collect()
}

/// Loads, and the memory of one destination.
#[derive(Clone)]
struct Spread<'a> {
    graph: &'a Graph,
    /// Host LIDs at each switch.
    hosts: Vec<u64>,
    /// Pairs of LIDs that use each channel.
    load: Vec<u64>,
    /// Switches by distance from `from`, nearest first, and the distances.
    from: Option<usize>,
    near: Vec<u32>,
    hops: Vec<u32>,
    cost: Vec<u64>,
    below: Vec<u64>,
}

impl<'a> Spread<'a> {
    fn new(graph: &'a Graph, destinations: &Destinations) -> Self {
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

    /// The busiest channel's load, and the squares of all.
    fn peak(&self) -> (u64, u128) {
        let squares = self.load.iter().map(|&load| u128::from(load) * u128::from(load)).sum();
        (self.load.iter().copied().max().unwrap_or(0), squares)
    }

    /// The least loaded shortest ways to a switch.
    fn next(&mut self, attach: usize) -> Vec<u32> {
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

    /// The same among those whose dependencies the lane has room for, which are put there; `None` if a switch has none.
    fn fitting(&mut self, attach: usize, lane: &mut Lane, room: &mut Vec<(u32, u32)>) -> Option<Vec<u32>> {
        self.search(attach);
        let mut next = vec![NONE; self.graph.switches()];
        self.cost[attach] = 0;
        for &switch in self.near.iter().skip(1) {
            let s = switch as usize;
            let mut choice: Vec<(u64, u32)> = self.shortest(s).collect();
            choice.sort_unstable();
            let (cost, channel) = choice.into_iter().find(|&(_, channel)| {
                let wanted = next[self.graph.channels().item(channel as usize).to as usize];
                wanted == NONE || lane.add(channel, wanted, room)
            })?;
            self.cost[s] = cost;
            next[s] = channel;
        }
        Some(next)
    }

    /// Channels from a switch that shorten its distance, with what they and the way behind them carry.
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

    /// Adds the pairs of a LID to the channels on its ways, or takes them away.
    fn count(&mut self, attach: usize, next: &[u32], more: bool) {
        self.search(attach);
        self.below.copy_from_slice(&self.hosts);
        for &switch in self.near.iter().skip(1).rev() {
            let channel = next[switch as usize] as usize;
            let pairs = self.below[switch as usize];
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
        /// Farther than any switch; one more does not overflow.
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

fn index(switch: usize) -> SwitchIdx {
    SwitchIdx(u32::try_from(switch).unwrap_or(u32::MAX))
}
