//! Up*/down*: every path goes up towards a top, then down, and never up again.
//!
//! All switches stand in one order from top to bottom ([`order`]); a channel leads up or down in it, never level. For
//! each target, one computation ([`legal`]) decides at which switches packets may still go up. So no entry sends a
//! packet up that another entry has sent down. Channel dependencies then only go from up to up, from up to down and
//! from down to down, each strictly along the order. So there is no cycle on one lane, for any fabric and any senders.
//!
//! OpenSM's `updn` has two weaknesses that this engine avoids. On fabrics with links inside a rank its tables can
//! contain the forbidden turn, and switches without a common top do not reach each other. On clean trees both engines
//! make the same tables (with `connect_roots` off, the same pairs are unreachable too).

mod legal;
mod order;
mod roots;

use selvedge_fabric::Fabric;
use selvedge_graph::Graph;
use selvedge_sim::Par;
use selvedge_types::Guid;

use crate::engine::{Capability, Input, Made, RoutingEngine};
use crate::error::EngineError;
use crate::note::{Note, guids};
use crate::paths::{Levels as Entries, Paths};
use legal::{Levels, Scratch};
pub(crate) use order::Order;
pub(crate) use roots::{Ranking, switch_of};

/// Options of `updn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpDnOptions {
    /// Roots: GUIDs of switches, or of host nodes or ports that stand for their switch. For parts of the fabric without
    /// a given root, roots are computed. Default: none.
    pub roots: Vec<Guid>,
    /// Gives every pair of switches of a connected fabric a path: a few switches get the rank of the roots, so that all
    /// roots are connected and there is one top. Default true. False, as in OpenSM: switches without a common top (two
    /// spines) do not reach each other.
    pub connect_roots: bool,
}

impl Default for UpDnOptions {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            connect_roots: true,
        }
    }
}

/// Engine `updn`.
#[derive(Debug)]
pub struct UpDn;

impl RoutingEngine for UpDn {
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let paths = paths(input.fabric, input.graph, &input.options.updn, input.par, notes);
        Ok(Made::on_one_lane(input.balanced(&paths, notes)))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[Capability::DeadlockFree, Capability::LeavesRoomForCopies]
    }
}

/// Returns up*/down* paths between all switches.
fn paths(fabric: &Fabric, graph: &Graph, options: &UpDnOptions, par: Par, notes: &mut Vec<Note>) -> Paths {
    let ranking = Ranking::new(fabric, graph, &options.roots, par, notes);
    let order = Order::new(graph, &ranking, options.connect_roots);
    if order.equal_rank_links > 0 {
        let count = order.equal_rank_links;
        notes.push(Note::EqualRankLinks { count });
    }
    if !order.raised.is_empty() {
        let through = guids(fabric, order.raised.iter().copied());
        notes.push(Note::RootsConnected { through });
    }
    let levels = Levels::new(graph, &order);
    let paths = Entries::new(
        graph.switches(),
        Some(order.position),
        par,
        |target, scratch: &mut Scratch, row| {
            levels.route(target, scratch, row);
        },
    );
    let pairs = paths.missing(|a, b| graph.component(a) == graph.component(b));
    if pairs > 0 {
        notes.push(Note::NoLegalPath { pairs });
    }
    Paths::Levels(paths)
}
