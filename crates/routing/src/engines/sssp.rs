//! Shortest paths that avoid what earlier destinations loaded: OpenSM's `sssp`, and on lanes `dfsssp`.
//!
//! Every channel counts the host pairs that use it. Destinations are routed one by one; each switch takes the shortest
//! path with the least sum of counts, and the pairs of the new destination are added. So, unlike minhop, load is
//! balanced over the whole fabric, not over the ports of each switch.
//!
//! OpenSM (observed in 3.3.23) weighs a channel so that a loaded short path can lose against an empty long one; here a
//! path is always shortest in hops. That also avoids an overflow that OpenSM has with more than about 20,000 LIDs.
//!
//! Then single next hops are moved off loaded channels, in a few rounds, and the result of the round with the least
//! peak is kept. This is needed because all packets to one destination that meet at a switch share one path from there.
//! Such shared paths make peaks of load, whatever the order of destinations. Paths to switches, which receive few
//! packets, are balanced separately: on a regular tree they would disturb the balance of hosts.
//!
//! On lanes, paths that packets of hosts use come first. Then come the paths from other switches to hosts (for example,
//! in a damaged tree, from a top switch that lost a downward link). They use turns that fit the same lane, on longer
//! paths if necessary.
//!
//! The first pass takes LIDs × channels steps; each round takes as many, times the hops in which paths differ. It is
//! not parallel, because each destination depends on the loads that all earlier destinations have added.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_plan::{Lids, Tables};
use selvedge_types::{Guid, Lid, NodeKind};

use crate::destinations::{Destination, Destinations};
use crate::engine::{Capability, Input, LaneUse, Made, RoutingEngine};
use crate::error::EngineError;
use crate::lanes::{Added, Lane, Lanes};
use crate::note::Note;
use crate::options::HostLists;
use crate::spread::Spread;

/// Stands for no next hop.
pub(crate) const NONE: u32 = u32::MAX;

/// Largest number of passes over all next hops once all loads are known; most fabrics need fewer.
const ROUNDS: usize = 24;

/// Largest number of roots tried for a multicast tree that shares the lane of the routes. Trees are tried only if
/// routes need one lane.
const TREES: usize = 16;

/// A LID to route.
#[derive(Clone, Copy, Debug)]
struct Target {
    lid: Lid,
    attach: usize,
    egress: u8,
}

/// Engine `sssp`.
#[derive(Debug)]
pub struct Sssp;

impl RoutingEngine for Sssp {
    fn route(&self, input: &Input<'_>, _notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        Ok(Made::on_one_lane(route(
            input.fabric,
            input.graph,
            input.lids,
            input.destinations,
            &input.options.hosts,
        )))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[]
    }
}

/// Engine `dfsssp`.
#[derive(Debug)]
pub struct Dfsssp;

impl RoutingEngine for Dfsssp {
    fn route(&self, input: &Input<'_>, _notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let most = input.lanes(self.lanes());
        let hosts = (&input.options.hosts, most);
        let routed = route_on_lanes(input.fabric, input.graph, input.lids, input.destinations, hosts);
        let (tables, lane_of, lanes) = routed.ok_or(EngineError::TooFewLanes { engine: "dfsssp", most })?;
        Ok(Made::on_lanes(tables, lane_of, lanes))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[Capability::DeadlockFree]
    }

    fn lanes(&self) -> LaneUse {
        LaneUse::ToBeSafe { by_default: 8 }
    }
}

/// Routes all LIDs.
fn route(fabric: &Fabric, graph: &Graph, lids: &Lids, destinations: &Destinations, lists: &HostLists) -> Tables {
    let targets = ordered(fabric, lids, destinations, lists);
    let tables = Tables::new(graph.switches(), lids.top());
    routed(graph, &targets, tables, &Spread::new(graph, destinations))
}

/// Routes hosts first. Switches receive almost no packets, so paths to them are balanced separately.
fn routed(graph: &Graph, targets: &[Target], mut tables: Tables, empty: &Spread<'_>) -> Tables {
    let (hosts, switches): (Vec<Target>, Vec<Target>) = targets.iter().partition(|target| target.egress != 0);
    let mut spread = empty.clone();
    for &target in &hosts {
        let next = spread.next(target.attach);
        spread.count(target.attach, &next, true);
        write(graph, &mut tables, target, &next);
    }
    let mut best = (spread.peak(), tables.clone());
    for _ in 0..ROUNDS {
        let mut moved = false;
        for &target in &hosts {
            let mut next = read(graph, &tables, target);
            if spread.relieve(target.attach, &mut next) {
                write(graph, &mut tables, target, &next);
                moved = true;
            }
        }
        if spread.peak() < best.0 {
            best = (spread.peak(), tables.clone());
        }
        if !moved {
            break;
        }
    }
    let (mut spread, mut tables) = (empty.clone(), best.1);
    for &target in &switches {
        let next = spread.next(target.attach);
        spread.count(target.attach, &next, true);
        write(graph, &mut tables, target, &next);
    }
    tables
}

/// Routes all LIDs, each on one of at most `most` lanes. Returns the tables, the lane of every LID, and the number of
/// lanes.
///
/// If the least loaded path of a LID fits no lane in use, another path of the same length that fits is taken.
fn route_on_lanes(
    fabric: &Fabric,
    graph: &Graph,
    lids: &Lids,
    destinations: &Destinations,
    (lists, most): (&HostLists, u8),
) -> Option<(Tables, Vec<u8>, u8)> {
    let targets = ordered(fabric, lids, destinations, lists);
    let mut spread = Spread::new(graph, destinations);
    let tables = routed(graph, &targets, Tables::new(graph.switches(), lids.top()), &spread);
    for &target in targets.iter().filter(|target| target.egress != 0) {
        spread.count(target.attach, &read(graph, &tables, target), true);
    }
    let place = |packed, first: &[(u32, u32)]| {
        let mut placing = Placing {
            graph,
            tables: tables.clone(),
            spread: spread.clone(),
            lanes: Lanes::new(graph, spread.hosts.iter().map(|&h| h > 0).collect(), most).with_first(first),
            lane_of: vec![0; tables.top().index() + 1],
        };
        let one_for_hosts = placing.place_all(&targets, packed);
        one_for_hosts.map(|one| (one, (placing.lanes.used(), placing.spread.peak()), placing))
    };
    let loose = place(false, &[]);
    // If all paths fit as they are, packing changes nothing.
    let packed = if matches!(loose, Some((true, ..))) {
        None
    } else {
        place(true, &[])
    };
    // Fewest lanes first, then the least loaded peak.
    let best = [loose, packed].into_iter().flatten().min_by_key(|&(_, rank, _)| rank);
    let best = best.map(|(_, (lanes, _), placed)| (placed.tables, placed.lane_of, lanes))?;
    // Copies to groups are on the same lane if one is enough: then it has to have room for a tree.
    let roots = far_from_hosts(graph, &spread)
        .into_iter()
        .take(if best.2 == 1 { TREES } else { 0 });
    let mut with_room = roots.flat_map(|root| {
        let turns = tree_turns(graph, root);
        [false, true].map(|packed| place(packed, &turns))
    });
    let with_room = with_room.find_map(|placed| placed.filter(|(_, (lanes, _), _)| *lanes == 1));
    let with_room = with_room.map(|(.., placed)| (placed.tables, placed.lane_of, 1));
    Some(with_room.unwrap_or(best))
}

/// Returns the switches, those farthest from hosts first. A tree that begins at the top of a fat tree goes up, then
/// down.
fn far_from_hosts(graph: &Graph, spread: &Spread<'_>) -> Vec<usize> {
    let channels = graph.channels();
    let mut distance: Vec<Option<u32>> = spread.hosts.iter().map(|&hosts| (hosts > 0).then_some(0)).collect();
    let mut near: Vec<usize> = (0..graph.switches()).filter(|&at| distance[at].is_some()).collect();
    let mut head = 0;
    while let Some(&at) = near.get(head) {
        head += 1;
        for channel in channels.range(at) {
            let to = channels.item(channel).to as usize;
            if distance[to].is_none() {
                distance[to] = distance[at].map(|far| far + 1);
                near.push(to);
            }
        }
    }
    near.sort_by_key(|&at| (std::cmp::Reverse(distance[at]), at));
    near
}

/// Returns the turns of a tree of shortest paths from `root`, and of one such tree in each other part of the fabric.
fn tree_turns(graph: &Graph, root: usize) -> Vec<(u32, u32)> {
    let (channels, reverses) = (graph.channels(), graph.reverses());
    let mut links: Vec<Vec<u32>> = vec![Vec::new(); graph.switches()];
    let mut seen = vec![false; graph.switches()];
    for root in [root].into_iter().chain(0..graph.switches()) {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut tree = vec![root];
        let mut head = 0;
        while let Some(&at) = tree.get(head) {
            head += 1;
            for channel in channels.range(at) {
                let to = channels.item(channel).to as usize;
                if !std::mem::replace(&mut seen[to], true) {
                    tree.push(to);
                    links[at].push(channel as u32);
                    links[to].push(reverses[channel]);
                }
            }
        }
    }
    let mut turns = Vec::new();
    for out in &links {
        for &back in out {
            let onward = out.iter().filter(|&&on| on != back);
            turns.extend(onward.map(|&on| (reverses[back as usize], on)));
        }
    }
    turns
}

/// LIDs that are being assigned to lanes.
struct Placing<'a> {
    graph: &'a Graph,
    tables: Tables,
    spread: Spread<'a>,
    lanes: Lanes<'a>,
    lane_of: Vec<u8>,
}

impl Placing<'_> {
    /// Assigns lanes to all routes. Routes from hosts to hosts come first, because they are the most; on a tree they
    /// need one lane. Then come the routes to hosts that only switches use: they have few turns, and take other paths
    /// if that is necessary to fit a lane. Routes to switches come last.
    ///
    /// Returns whether one lane was enough for routes between hosts; `None` if even all lanes are not enough for the
    /// other routes.
    fn place_all(&mut self, targets: &[Target], packed: bool) -> Option<bool> {
        let (hosts, switches): (Vec<Target>, Vec<Target>) = targets.iter().partition(|target| target.egress != 0);
        for &target in &hosts {
            self.place(target, packed)?;
        }
        let one = self.lanes.used() == 1;
        for &target in &hosts {
            self.complete(target)?;
        }
        for &target in &switches {
            self.place(target, packed)?;
            // Switches send few packets to each other: kept free of credit loops if that costs no lane.
            let lane = self.lane_of[target.lid.index()];
            let mut next = self.of_hosts(target);
            self.spread.fill(target.attach, &mut next);
            self.lanes.add_if_fits(lane, &next);
            write(self.graph, &mut self.tables, target, &next);
        }
        Some(one)
    }

    /// Assigns the routes of hosts to a lane. If another path saves a lane, takes that path. With `packed`, another
    /// path is preferred to the next lane in use.
    fn place(&mut self, target: Target, packed: bool) -> Option<()> {
        let (attach, counts) = (target.attach, target.egress != 0);
        let next = read(self.graph, &self.tables, target);
        if counts {
            self.spread.count(attach, &next, false);
        }
        let spread = &mut self.spread;
        let find = |lane: &mut Lane, added: &mut Added| spread.fitting(attach, lane, added);
        let (lane, next) = self.lanes.place(&next, packed, find)?;
        if counts {
            self.spread.count(attach, &next, true);
        }
        write(self.graph, &mut self.tables, target, &next);
        self.lane_of[target.lid.index()] = lane;
        Some(())
    }

    /// Assigns the routes from the other switches to the same lane, or all routes to another lane.
    fn complete(&mut self, target: Target) -> Option<()> {
        let on_the_way = self.of_hosts(target);
        let mut next = on_the_way.clone();
        let (spread, attach) = (&mut self.spread, target.attach);
        let lane = self.lane_of[target.lid.index()];
        let lane = self.lanes.add(&on_the_way, lane, |lane, room| {
            next.clone_from(&on_the_way);
            spread.complete(attach, &mut next, lane, room)
        })?;
        self.lane_of[target.lid.index()] = lane;
        write(self.graph, &mut self.tables, target, &next);
        Some(())
    }

    /// Returns the next hops that packets of hosts use.
    fn of_hosts(&self, target: Target) -> Vec<u32> {
        self.lanes.of_hosts(&read(self.graph, &self.tables, target))
    }
}

/// Returns the next hop of every switch to a target, as the tables hold it.
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

/// Returns the destinations in order: compute nodes, I/O nodes, other hosts, switches. Each kind is ordered switch by
/// switch, those with the most hosts first.
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

fn index(switch: usize) -> SwitchIdx {
    SwitchIdx(u32::try_from(switch).unwrap_or(u32::MAX))
}
