//! `auto`: analyses the fabric, chooses an engine for it, and reports the reason.
//!
//! If `fat-tree` accepts the fabric and its routes reach all agents, `fat-tree` is chosen: its formula is the fastest,
//! and a lost link changes as few entries as possible. So a tree with lost links keeps this engine as long as possible.
//! For all other fabrics, including trees with too many faults, `weave` is chosen, which refuses no fabric. The shape
//! of the fabric is reported for operators; grids do not change the choice.

mod grid;

use std::fmt;

use selvedge_graph::Graph;

use crate::engine::{Capability, Input, LaneUse, Made, RoutingEngine};
use crate::engines::Engine;
use crate::engines::fat_tree::TreeShape;
use crate::error::EngineError;
use crate::note::Note;
pub use grid::{Grid, Side};

/// The shape of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// A fat tree.
    Tree(TreeShape),
    /// A mesh, torus or hypercube.
    Grid(Grid),
    /// Any other shape.
    Irregular(Irregular),
}

/// A fabric without a structure that has a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Irregular {
    /// Switches.
    pub switches: usize,
    /// Links between the switches.
    pub links: usize,
    /// Fewest neighbours of a switch.
    pub neighbours_min: usize,
    /// Largest number of neighbours of a switch.
    pub neighbours_max: usize,
    /// Number of links on the longest of the shortest paths from up to 64 sampled switches.
    pub hops_max: u32,
    /// Number of links on all these paths together.
    pub hops_sum: u64,
    /// Number of these paths.
    pub ways: u64,
}

impl Irregular {
    /// Returns the mean number of links on a shortest path between switches; 0 if there is no path.
    #[must_use]
    pub fn hops_mean(&self) -> f64 {
        self.hops_sum as f64 / self.ways.max(1) as f64
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(shape) => write!(f, "fat tree of {} levels with {} leaves", shape.levels, shape.leaves),
            Self::Grid(grid) => write!(f, "{grid}"),
            Self::Irregular(of) => write!(
                f,
                "irregular: {} switches of {} to {} neighbours, {} links between them, {:.2} links from switch to \
                 switch in the mean and {} at most",
                of.switches,
                of.neighbours_min,
                of.neighbours_max,
                of.links,
                of.hops_mean(),
                of.hops_max
            ),
        }
    }
}

/// The reasons for which `auto` chose an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `fat-tree` accepts the fabric.
    Tree,
    /// `fat-tree` refused the fabric.
    NoTree {
        /// Message of the refusal.
        why: String,
    },
    /// `fat-tree` accepts it, but hosts would have no route to the agents of some switches.
    Stranded {
        /// Number of pairs of a switch with hosts and a switch that those hosts cannot reach.
        pairs: usize,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree => f.write_str(
                "candidates fat-tree, weave: fat-tree accepts the fabric, and its paths go up, then down, so that one \
                 lane is enough; weave was not tried",
            ),
            Self::NoTree { why } => {
                write!(
                    f,
                    "candidates fat-tree, weave: fat-tree refuses ({why}); weave routes any fabric"
                )
            }
            Self::Stranded { pairs } => write!(
                f,
                "candidates fat-tree, weave: fat-tree accepts the fabric, but has no way between {pairs} pairs of an \
                 upper switch and one with hosts; weave routes any fabric"
            ),
        }
    }
}

/// Engine `auto`.
#[derive(Debug)]
pub struct Auto;

impl RoutingEngine for Auto {
    /// Tries `fat-tree`, chooses it or `weave`, and notes the shape of the fabric and the reason.
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let first = notes.len();
        let mut made = Engine::FatTree.make(input, notes);
        let topology = recognise(input.graph, &notes[first..]);
        let reason = reason(&made, &notes[first..]);
        if reason.engine() != Engine::FatTree {
            notes.truncate(first);
            made = reason.engine().make(input, notes);
        }
        let about = [Note::Recognised { topology }, Note::Chosen { reason }];
        notes.splice(first..first, about);
        made
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[Capability::Recognises, Capability::DeadlockFree]
    }

    fn lanes(&self) -> LaneUse {
        Engine::Weave.lanes()
    }
}

/// Returns the result of `fat-tree` as a reason for or against it.
fn reason(tried: &Result<Made, EngineError>, notes: &[Note]) -> Reason {
    match tried {
        Err(error) => Reason::NoTree { why: error.to_string() },
        Ok(_) => match shape(notes) {
            Some(shape) if shape.stranded > 0 => Reason::Stranded { pairs: shape.stranded },
            _ => Reason::Tree,
        },
    }
}

/// Returns the shape of the tree that was found, if any.
fn shape(notes: &[Note]) -> Option<TreeShape> {
    notes.iter().find_map(|note| match note {
        Note::Tree { shape } => Some(*shape),
        _ => None,
    })
}

impl Reason {
    /// Returns the engine to take.
    #[must_use]
    pub const fn engine(&self) -> Engine {
        match self {
            Self::Tree => Engine::FatTree,
            Self::NoTree { .. } | Self::Stranded { .. } => Engine::Weave,
        }
    }
}

/// Returns the shape of the largest part of the fabric, given the notes of `fat-tree` about it.
fn recognise(graph: &Graph, notes: &[Note]) -> Topology {
    if let Some(shape) = shape(notes) {
        return Topology::Tree(shape);
    }
    let mut sizes = vec![0; graph.components()];
    (0..graph.switches()).for_each(|s| sizes[graph.component(s)] += 1);
    // The first of the largest.
    let largest = (0..sizes.len()).rev().max_by_key(|&part| sizes[part]).unwrap_or(0);
    match grid::recognise(graph, largest) {
        Some(grid) => Topology::Grid(grid),
        None => Topology::Irregular(irregular(graph, largest)),
    }
}

fn irregular(graph: &Graph, part: usize) -> Irregular {
    /// Number of switches from which paths are sampled.
    const SAMPLES: usize = 64;
    let members: Vec<usize> = (0..graph.switches()).filter(|&s| graph.component(s) == part).collect();
    let neighbours = || members.iter().map(|&s| graph.neighbours(s).len());
    let channels: usize = members.iter().map(|&s| graph.channels().get(s).len()).sum();
    let (mut most, mut sum, mut pairs) = (0, 0_u64, 0_u64);
    for &from in members.iter().step_by(members.len().div_ceil(SAMPLES).max(1)) {
        let mut hops = vec![u32::MAX; graph.switches()];
        hops[from] = 0;
        let mut queue = vec![from];
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            head += 1;
            for &next in graph.neighbours(at) {
                if hops[next as usize] == u32::MAX {
                    hops[next as usize] = hops[at] + 1;
                    queue.push(next as usize);
                }
            }
            most = most.max(hops[at]);
            sum += u64::from(hops[at]);
        }
        pairs += queue.len() as u64 - 1;
    }
    Irregular {
        switches: members.len(),
        links: channels / 2,
        neighbours_min: neighbours().min().unwrap_or(0),
        neighbours_max: neighbours().max().unwrap_or(0),
        hops_max: most,
        hops_sum: sum,
        ways: pairs,
    }
}
