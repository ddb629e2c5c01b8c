//! Figures of how traffic would share the links: shift permutations, random bisections, stretch, load per cable.
//!
//! Flows follow the tables as packets do, from a host port to the base LID of another. A *flow* of a permutation or a
//! pairing loads every directed link between switches on its path. Lanes share a link, so they are not distinguished.
//! Links of different speed count alike.
//!
//! Hosts are ordered by the GUID of their switch, then by port. The order does not depend on LIDs, so figures of
//! different managers are comparable.
//!
//! # Cost
//! Shifts: one step for each host pair and link on its path, 32 shifts in parallel. Pairings: hosts × path length each.
//! Stretch and load: hosts × switches with hosts × path length. Memory: four bytes per host and switch.
//!
//! One core needs half a second for 5,832 hosts; for 27,648 hosts, four seconds and 0.3 GB, as
//! [`ContentionOptions::shift_pairs_max`] limits the shifts to a sample.

mod bisection;
mod routes;
mod shift;
mod stretch;

use selvedge_sim::{Par, Seed};
use serde::Serialize;

use crate::figures::Load;
use crate::ground::Ground;
use crate::subject::Subject;
use routes::Routes;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct ContentionOptions {
    /// Whether it may spread over several threads. The figures are the same. Default: sequential.
    pub par: Par,
    /// What pairings, and the sample of shifts if there is one, are drawn from. Default 1.
    pub seed: Seed,
    /// Random pairings for the effective bisection bandwidth; 0: none. Default 1,000: half the interval is then about
    /// 1.5 % of the mean with 16 hosts, 0.2 % with 300, 0.1 % with 6,000.
    pub pairings: u32,
    /// Host pairs to follow for the shifts. With more, only a sample of the shifts is tried: blocks of 32 neighbouring
    /// ones, drawn without repetition. Default 40 million: all shifts up to 6,324 hosts.
    pub shift_pairs_max: u64,
}

impl Default for ContentionOptions {
    fn default() -> Self {
        Self {
            par: Par::Sequential,
            seed: Seed(1),
            pairings: 1_000,
            shift_pairs_max: 40_000_000,
        }
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Contention {
    /// Shift permutations.
    pub shift: ShiftFigures,
    /// Effective bisection bandwidth.
    pub bisection: Bisection,
    /// How much longer ways are than they must be.
    pub stretch: Stretch,
    /// Host pairs per cable between switches, both directions together.
    pub cables: Load,
}

/// Most flows on a directed link between switches while host i sends to host i + k, for all i at once.
///
/// Hosts are numbered within each part of the fabric; the parts shift at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ShiftFigures {
    /// Shifts there are: hosts of the largest part, less one.
    pub shifts: u64,
    /// Shifts that were tried.
    pub tried: u64,
    /// Most flows on a link, over all shifts tried.
    pub max: u64,
    /// The first shift with so many.
    pub worst: u64,
    /// Mean over the shifts tried of the most flows on a link.
    pub mean: f64,
}

/// Effective bisection bandwidth, after ORCS (Schneider, Hoefler, Lumsdaine 2009). All hosts of the fabric, separately
/// for each rail, are split into two random halves. Each host of one half sends to one host of the other. A flow gets 1
/// / (flows on the busiest link of its path), at most 1. A flow that does not arrive gets nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bisection {
    /// Pairings drawn.
    pub pairings: u64,
    /// Mean over pairings of the mean share of a flow, 0 to 1; 0 without pairings.
    pub mean: f64,
    /// Lower end of the 95 % confidence interval of that mean.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Links on the way of a host pair over the fewest links there could be. Of pairs that arrive and are not on one
/// switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stretch {
    /// Mean over pairs.
    pub mean: f64,
    /// Largest.
    pub max: f64,
    /// Share of pairs whose way is one of the shortest, 0 to 1.
    pub shortest_share: f64,
    /// Mean of the fewest links between switches.
    pub shortest_mean: f64,
}

/// Measures a subject. Tables of another number of switches than the fabric's have no figures.
#[must_use]
pub fn contention(subject: Subject<'_>, options: &ContentionOptions) -> Contention {
    if subject.tables.switches() != subject.fabric.switches().len() {
        return Contention::default();
    }
    let ground = Ground::new(subject);
    let routes = Routes::new(&ground, options.par);
    let (stretch, cables) = stretch::measure(&ground, &routes, options.par);
    Contention {
        shift: shift::measure(&routes, options),
        bisection: bisection::measure(&routes, options),
        stretch,
        cables,
    }
}
