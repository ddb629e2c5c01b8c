//! Figures of contention: shift permutations, random bisections, stretch, and load per cable.
//!
//! Flows follow the forwarding tables as packets do, from a host port to the base LID of another host port. A *flow* is
//! one such pair of ports in a permutation or pairing; it loads every directed link between switches on its path. Lanes
//! share a link, so they are not distinguished. Links of different speed count alike.
//!
//! Hosts are ordered by the GUID of their switch, then by port. The order does not depend on LIDs, so figures of
//! different managers are comparable.
//!
//! # Cost
//! Shifts: one step for each link on the path of each host pair, for 32 shifts in parallel. Pairings: hosts × path
//! length each. Stretch and load: hosts × switches with hosts × path length. Memory: four bytes per host and switch.
//!
//! One core needs half a second for 5,832 hosts. For 27,648 hosts it needs four seconds and 0.3 GB, because
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

/// Options of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct ContentionOptions {
    /// Whether the work may be split over several threads. The figures are the same. Default: sequential.
    pub par: Par,
    /// Seed for the pairings and for the sample of shifts, if there is one. Default 1.
    pub seed: Seed,
    /// Number of random pairings for the effective bisection bandwidth; 0 skips the measurement. Default 1,000. Half
    /// the 95 % interval is then about 1.5 % of the mean with 16 hosts, 0.2 % with 300 and 0.1 % with 6,000.
    pub pairings: u32,
    /// Largest number of host pairs to follow for the shifts. If all shifts need more, only a sample is tried: blocks
    /// of 32 neighbouring shifts, drawn without repetition. Default 40 million, which covers all shifts of up to 6,324
    /// hosts.
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

/// Result of the measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Contention {
    /// Figures of the shift permutations.
    pub shift: ShiftFigures,
    /// Effective bisection bandwidth.
    pub bisection: Bisection,
    /// Lengths of paths relative to the shortest possible ones.
    pub stretch: Stretch,
    /// Host pairs per cable between switches, both directions together.
    pub cables: Load,
}

/// Figures of the shift permutations. In shift k, host i sends to host i + k, for all i at once; its figure is the most
/// flows on any directed link between switches.
///
/// Hosts are numbered within each connected part of the fabric. The parts shift at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ShiftFigures {
    /// Number of possible shifts: hosts of the largest part minus one.
    pub shifts: u64,
    /// Number of shifts tried.
    pub tried: u64,
    /// Most flows on a link, over all shifts tried.
    pub max: u64,
    /// The first shift that reaches `max`.
    pub worst: u64,
    /// Mean over the shifts tried of the most flows on a link.
    pub mean: f64,
}

/// Effective bisection bandwidth, after ORCS (Schneider, Hoefler, Lumsdaine 2009).
///
/// All hosts of the fabric, separately for each rail, are split into two random halves. Each host of one half sends to
/// one host of the other. A flow gets 1 / (flows on the busiest link of its path), at most 1. A flow that is not
/// delivered gets nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bisection {
    /// Number of pairings drawn.
    pub pairings: u64,
    /// Mean over pairings of the mean share of a flow, 0 to 1; 0 without pairings.
    pub mean: f64,
    /// Lower end of the 95 % confidence interval of that mean.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
}

/// Stretch: links on the path of a host pair divided by the fewest links possible. Counts delivered pairs on different
/// switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stretch {
    /// Mean over these pairs.
    pub mean: f64,
    /// Largest value.
    pub max: f64,
    /// Share of pairs that use a shortest path, 0 to 1.
    pub shortest_share: f64,
    /// Mean over these pairs of the fewest links between their switches.
    pub shortest_mean: f64,
}

/// Measures the contention of a subject. If the tables are for another number of switches than the fabric has, all
/// figures are empty.
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
