//! Turns of multicast copies which the routes of a standing proof must be compatible with. A change of routes does not
//! change these turns.
//!
//! Copies on a lane that no route uses are left out, because no repair moves a route to a lane that the plan does not
//! use.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::multicast::{MulticastGroups, MulticastTables};
use selvedge_types::{Guid, Idx};

use super::Standing;
use super::shape::Shape;
use crate::multicast::{RouteTurns, level_of};

/// Turns of multicast copies that a standing proof must be compatible with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyTurns {
    /// GUIDs of the switches, by index.
    switches: Vec<Guid>,
    /// Each turn of a copied packet: its lane, the switch and egress port by which the packet arrives, and the egress
    /// port of the next switch that it is copied to. If copies may use several lanes, there is one turn for each.
    turns: Vec<(u8, u32, u8, u8)>,
}

impl CopyTurns {
    /// Returns the turns of all groups. A packet may arrive by any table of the first list in `ways`, and be copied by
    /// any table of the second. Links and lanes are taken from `routes`.
    #[must_use]
    pub fn new(
        fabric: &Fabric,
        routes: &RouteTurns,
        groups: &MulticastGroups,
        ways: (&[&MulticastTables], &[&MulticastTables]),
    ) -> Self {
        let turns = routes.of_copies(|mlid| Some(level_of(groups, mlid)), ways);
        let turns = turns.iter().flat_map(|&((lane, cell, egress), _)| {
            let (switch, port) = routes.place(cell);
            let lanes = routes.lanes_as(lane);
            lanes.map(move |lane| (lane, switch.0, port.get(), egress))
        });
        Self {
            switches: (fabric.switches().iter()).map(|&node| fabric.node(node).guid).collect(),
            turns: turns.collect(),
        }
    }

    /// Returns the union of two sets of turns.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let all: BTreeSet<_> = self.turns.iter().chain(&other.turns).copied().collect();
        Self {
            switches: self.switches.clone(),
            turns: all.into_iter().collect(),
        }
    }

    /// Returns the vertices of a proof, with the ports that they turn to.
    fn vertices(&self, fabric: &Fabric, shape: &Shape) -> Vec<(u32, u8)> {
        let now: Vec<Option<SwitchIdx>> = (self.switches.iter())
            .map(|&guid| fabric.find(guid).and_then(|node| fabric.switch_index(node)))
            .collect();
        let vertices = self.turns.iter().filter_map(|&(lane, switch, port, egress)| {
            let switch = now.get(switch as usize).copied().flatten()?.to_usize();
            let lane = Some(usize::from(lane)).filter(|&lane| lane < shape.lane_count)?;
            let cell = shape.turn(switch, port, egress)?;
            Some(((lane * shape.total() + cell) as u32, egress))
        });
        vertices.collect()
    }
}

impl Standing {
    /// Sets the copies that routes must be compatible with from now on. This takes a look-up for each turn, and a
    /// search for each turn that is against the order of channels. If the copies are unchanged, it takes no work.
    pub fn set_copies(&mut self, fabric: &Fabric, copies: &Arc<CopyTurns>) {
        if self.copies.as_ref().is_some_and(|known| Arc::ptr_eq(known, copies)) {
            return;
        }
        let (shape, counts) = (&self.flows.shape, &self.flows.sums.counts);
        let vertices = copies.vertices(fabric, shape);
        for (which, graph) in self.graphs.iter_mut().enumerate() {
            graph.set_copies(shape, counts, &vertices, which);
        }
        let before = std::mem::replace(&mut self.copied, vertices);
        before.iter().for_each(|&turn| self.state.copy(turn, false));
        self.copied.iter().for_each(|&turn| self.state.copy(turn, true));
        self.copies = Some(Arc::clone(copies));
    }
}
