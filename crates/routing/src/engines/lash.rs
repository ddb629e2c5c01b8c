//! Shortest paths on lanes: OpenSM's `lash` (observed in 3.3.23).
//!
//! Each switch, in order of GUIDs, is the root of a tree of shortest paths; the links of a switch are visited in the
//! order of its ports. To find the next hop from switch a to switch b, the first tree in which b is below a is used,
//! and the lowest port of a towards that neighbour. So all LIDs of a switch have the same paths, and parallel links
//! stay unused.
//!
//! Each destination switch is then assigned to the first lane on which its paths close no credit loop. OpenSM assigns a
//! lane to each pair of switches; here all paths to a switch have the same lane, so that path records of all sources
//! agree. This may need more lanes. Paths from hosts to hosts come first, then paths that only switches use, as in
//! `dfsssp`.
//!
//! The work is switches² × the length of paths, and a search for each dependency that does not agree with the order of
//! its lane. The memory is four bytes for each pair of switches.

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_plan::Tables;
use selvedge_types::Idx;

use crate::destinations::{Destination, links_to};
use crate::engine::{Capability, Input, LaneUse, Made, RoutingEngine};
use crate::engines::sssp::NONE;
use crate::error::EngineError;
use crate::lanes::Lanes;
use crate::note::Note;

/// Engine `lash`.
#[derive(Debug)]
pub struct Lash;

impl RoutingEngine for Lash {
    fn route(&self, input: &Input<'_>, _notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let graph = input.graph;
        let ways = Ways::new(input.fabric, graph);
        let mut tables = input.tables();
        let mut is_wanted = vec![false; graph.switches()];
        for (attach, batch) in input.destinations.batches() {
            is_wanted[attach] = true;
            batch.iter().for_each(|to| ways.write(graph, &mut tables, attach, to));
        }
        let most = input.lanes(self.lanes());
        let is_bearing = |s: usize| links_to(input.fabric, s, |node| !node.is_switch()) > 0;
        let bearing: Vec<bool> = (0..graph.switches()).map(is_bearing).collect();
        let lanes = Lanes::new(graph, bearing.clone(), most);
        let placed = ways.place(lanes, &bearing, &is_wanted);
        let (lane_of, lanes) = placed.ok_or(EngineError::TooFewLanes { engine: "lash", most })?;
        let mut lane_of_lid = vec![0; input.lids.top().index() + 1];
        for (attach, batch) in input.destinations.batches() {
            for lid in batch.iter().flat_map(|to| to.lids.iter()) {
                lane_of_lid[lid.index()] = lane_of[attach];
            }
        }
        Ok(Made::on_lanes(tables, lane_of_lid, lanes))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[Capability::DeadlockFree]
    }

    fn lanes(&self) -> LaneUse {
        LaneUse::ToBeSafe { by_default: 8 }
    }
}

/// Paths between all switches.
struct Ways {
    switches: usize,
    /// The egress channel of each switch towards a target, [`NONE`] without a path: a row for each target.
    next: Vec<u32>,
}

impl Ways {
    fn new(fabric: &Fabric, graph: &Graph) -> Self {
        let switches = graph.switches();
        let mut ways = Self {
            switches,
            next: vec![NONE; switches * switches],
        };
        let mut roots: Vec<usize> = (0..switches).collect();
        roots.sort_by_key(|&s| fabric.switch(SwitchIdx::from_usize(s)).guid.opensm_order());
        let mut tree = Tree::default();
        for root in roots {
            tree.grow(graph, root);
            for &target in &tree.order {
                let row = &mut ways.next[target as usize * switches..][..switches];
                // Up to the root: each switch on the path has the target below it.
                let mut below = target as usize;
                while tree.parent[below].0 != NONE {
                    let (above, channel) = tree.parent[below];
                    if row[above as usize] == NONE {
                        row[above as usize] = channel;
                    }
                    below = above as usize;
                }
            }
        }
        ways
    }

    /// Returns the next hops of all switches towards one switch.
    fn towards(&self, target: usize) -> &[u32] {
        &self.next[target * self.switches..][..self.switches]
    }

    /// Writes the entries of a destination at switch `attach`.
    fn write(&self, graph: &Graph, tables: &mut Tables, attach: usize, to: &Destination) {
        for lid in to.lids.iter() {
            for (switch, &channel) in self.towards(attach).iter().enumerate().filter(|(_, c)| **c != NONE) {
                let egress = graph.channels().item(channel as usize).egress;
                tables.set(SwitchIdx::from_usize(switch), lid, egress);
            }
            tables.set(SwitchIdx::from_usize(attach), lid, to.egress);
        }
    }

    /// Assigns destination switches to lanes. Returns the lane of each, and the number of lanes in use; `None` if the
    /// lanes do not suffice.
    fn place(&self, mut lanes: Lanes<'_>, bearing: &[bool], is_wanted: &[bool]) -> Option<(Vec<u8>, u8)> {
        let mut lane_of = vec![0; self.switches];
        let wanted = || (0..self.switches).filter(|&s| is_wanted[s]);
        for target in wanted().filter(|&s| bearing[s]) {
            (lane_of[target], _) = lanes.place(self.towards(target), false, |_, _| None)?;
        }
        for target in wanted().filter(|&s| bearing[s]) {
            lane_of[target] = lanes.add(self.towards(target), lane_of[target], |_, _| true)?;
        }
        for target in wanted().filter(|&s| !bearing[s]) {
            (lane_of[target], _) = lanes.place(self.towards(target), false, |_, _| None)?;
            // Switches send few packets to each other: kept free of credit loops if that costs no lane.
            lanes.add_if_fits(lane_of[target], self.towards(target));
        }
        Some((lane_of, lanes.used()))
    }
}

/// A tree of shortest paths from its root.
#[derive(Default)]
struct Tree {
    /// Switches of the tree, nearest first.
    order: Vec<u32>,
    /// By switch: the switch above it and the channel from that switch to it; [`NONE`] for the root and for switches
    /// that are not in the tree.
    parent: Vec<(u32, u32)>,
    is_in: Vec<bool>,
}

impl Tree {
    fn grow(&mut self, graph: &Graph, root: usize) {
        let switches = graph.switches();
        self.order.clear();
        self.parent.clear();
        self.parent.resize(switches, (NONE, NONE));
        self.is_in.clear();
        self.is_in.resize(switches, false);
        self.is_in[root] = true;
        self.order.push(SwitchIdx::from_usize(root).0);
        let mut head = 0;
        while let Some(&at) = self.order.get(head) {
            head += 1;
            for place in graph.channels().range(at as usize) {
                let to = graph.channels().item(place).to;
                if !std::mem::replace(&mut self.is_in[to as usize], true) {
                    self.parent[to as usize] = (at, u32::try_from(place).unwrap_or(NONE));
                    self.order.push(to);
                }
            }
        }
    }
}
