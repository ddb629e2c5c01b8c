//! Dimension order by port numbers: OpenSM's `dor` (observed in 3.3.23).
//!
//! Of the shortest paths a switch uses those through the neighbour behind its lowest port, in the order of
//! [`Options::port_order`](crate::Options::port_order) if one is given. If every switch of a mesh or hypercube has the
//! same dimension at the same ports, that is routing in the order of the dimensions, which cannot deadlock. On a torus
//! the rings close credit loops, and cables that do not follow the dimensions close further ones; the judge reports
//! them. Several links to that neighbour share its load.
//!
//! Work: as much as `minhop`, and in addition a step for each channel and target. Memory: a byte per switch and
//! channel.

use selvedge_graph::Graph;
use selvedge_sim::Par;

use super::minhop;
use crate::engine::{Capability, Input, Made, RoutingEngine};
use crate::error::EngineError;
use crate::note::Note;
use crate::paths::{Hops, Paths};
use crate::ports;

/// Engine `dor`.
#[derive(Debug)]
pub struct Dor;

impl RoutingEngine for Dor {
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        // Orders of unknown ports are noted once, when load is balanced.
        let turns = ports::turns(input.fabric, &input.options.port_order, &mut Vec::new());
        let turn = |switch: usize, egress: u8| turns.get(&switch).map_or(egress, |turn| turn[usize::from(egress)]);
        let paths = paths(input.graph, turn, input.par);
        Ok(Made::on_one_lane(input.balanced(&paths, notes)))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[]
    }
}

/// Returns shortest paths in the order of dimensions. `turn` gives the rank of a port in the order of its switch.
fn paths(graph: &Graph, turn: impl Fn(usize, u8) -> u8 + Sync + Send, par: Par) -> Paths {
    /// Weight of a good next hop: all good next hops are equal.
    const GOOD: u8 = 1;
    let shortest = Paths::Levels(minhop::distances(graph, par));
    let hops = Hops::new(graph, par, |target, good: &mut Vec<u32>, row| {
        for from in 0..graph.switches() {
            let channels = graph.channels().get(from);
            shortest.good(graph, from, target, good);
            let egress = |c: &u32| channels[*c as usize].egress;
            let Some(first) = good.iter().min_by_key(|c| turn(from, egress(c))) else {
                continue;
            };
            let to = channels[*first as usize].to;
            let row = &mut row[graph.channels().range(from)];
            for &c in good.iter().filter(|c| channels[**c as usize].to == to) {
                row[c as usize] = GOOD;
            }
        }
    });
    Paths::Hops(hops)
}
