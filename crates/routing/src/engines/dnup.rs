//! Down, then up: OpenSM's `dnup` (observed in 3.3.23), for fabrics with hosts near the top.
//!
//! Switches with hosts have rank 0; other switches are ranked by their distance from the nearest of these. A path may
//! go from lower to higher ranks and then back, never in the reverse order; steps inside a rank are always allowed. The
//! steps inside a rank make credit loops possible: on a ring of switches with hosts the tables can deadlock, and the
//! judge reports it. On clean trees the tables are those of up*/down*.
//!
//! Work: one search per switch over all channels: 50 M steps for 972 switches.

use std::collections::VecDeque;

use selvedge_fabric::Fabric;
use selvedge_graph::Graph;
use selvedge_sim::Par;

use crate::destinations::links_to;
use crate::engine::{Capability, Input, Made, RoutingEngine};
use crate::error::EngineError;
use crate::note::Note;
use crate::paths::{Hops, NO_WAY, Paths};

/// Engine `dnup`.
#[derive(Debug)]
pub struct DnUp;

impl RoutingEngine for DnUp {
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let paths = paths(input.fabric, input.graph, input.par).ok_or(EngineError::NoHosts)?;
        Ok(Made::on_one_lane(input.balanced(&paths, notes)))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[]
    }
}

/// The change of rank in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Way {
    /// Away from the hosts.
    #[default]
    Out,
    /// Towards the hosts.
    Back,
    /// Neither.
    Level,
}

/// Memory of a search.
#[derive(Debug, Default)]
struct Scratch {
    least: Vec<u8>,
    way: Vec<Way>,
    queued: Vec<bool>,
    queue: VecDeque<usize>,
}

/// Paths between all switches; `None` if no switch has a host.
fn paths(fabric: &Fabric, graph: &Graph, par: Par) -> Option<Paths> {
    let has_hosts = |s: &usize| links_to(fabric, *s, |node| !node.is_switch()) > 0;
    let bearing: Vec<usize> = (0..graph.switches()).filter(has_hosts).collect();
    if bearing.is_empty() {
        return None;
    }
    let rank = crate::engines::ftree::ranks::below(graph, bearing);
    let reverses = graph.reverses();
    let hops = Hops::new(graph, par, |target, scratch: &mut Scratch, row| {
        search(graph, &rank, &reverses, target, scratch, row);
    });
    Some(Paths::Hops(hops))
}

/// Searches paths to the target, from the target outwards. Whenever a port of a switch gets its first hop count, the
/// search goes on from this switch once more, along the path that gave the hop count. This is OpenSM's rule, and it
/// decides OpenSM's tables where ranks are irregular.
fn search(graph: &Graph, rank: &[u32], reverses: &[u32], target: usize, scratch: &mut Scratch, row: &mut [u8]) {
    let Scratch {
        least,
        way,
        queued,
        queue,
    } = scratch;
    least.clear();
    least.resize(graph.switches(), NO_WAY);
    way.clear();
    way.resize(graph.switches(), Way::Out);
    queued.clear();
    queued.resize(graph.switches(), false);
    least[target] = 0;
    queue.push_back(target);
    while let Some(at) = queue.pop_front() {
        queued[at] = false;
        let came = way[at];
        for (channel, reverse) in graph
            .channels()
            .get(at)
            .iter()
            .zip(&reverses[graph.channels().range(at)])
        {
            let to = channel.to as usize;
            let step = match rank[at].cmp(&rank[to]) {
                core::cmp::Ordering::Less => Way::Out,
                core::cmp::Ordering::Equal => Way::Level,
                core::cmp::Ordering::Greater => Way::Back,
            };
            let hops = least[at].saturating_add(1);
            let known = &mut row[*reverse as usize];
            if (came == Way::Back && step == Way::Out) || hops >= *known {
                continue;
            }
            *known = hops;
            least[to] = least[to].min(hops);
            if !queued[to] {
                queued[to] = true;
                way[to] = step;
                queue.push_back(to);
            }
        }
    }
}
