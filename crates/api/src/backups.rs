//! The effects of faults that have not happened, and the repairs for them.

use serde::{Deserialize, Serialize};

use crate::Body;

/// What would change for each single fault, weakest points first. Loads are host pairs per directed link between
/// switches. The judge has computed all figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backups {
    /// The fabric as named in the request.
    pub fabric: String,
    /// The engine that makes the tables.
    pub engine: String,
    /// Largest number of data lanes that the engine might use; absent: the engine's own default.
    pub vls: Option<u8>,
    /// Switches.
    pub switches: u64,
    /// Host ports with a link.
    pub host_ports: u64,
    /// Number of these links that are the only link of a node: the cable and the switch are single points of failure
    /// for it.
    pub hosts_with_one_link: u64,
    /// Links between switches.
    pub switch_links: u64,
    /// Number of faults of the requested kinds; more than are listed if a sample was requested.
    pub faults_there_are: u64,
    /// Pairs on the busiest link while nothing is lost.
    pub max_load: u64,
    /// Parts of the fault-free fabric that no link connects.
    pub parts: u64,
    /// Pairs of hosts that do not reach each other in the fault-free fabric.
    pub pairs_apart: u64,
    /// True if the judge finds no error in the tables in force, and each listed fault has a plan that cuts off no host
    /// and cannot deadlock.
    pub ok: bool,
    /// Every fault that was tried, weakest points first.
    pub faults: Vec<Backup>,
    /// Number of faults in a row that are survived; absent if not requested.
    pub in_place: Option<InPlace>,
}

impl Body for Backups {
    const SCHEMA: &'static str = "selvedge.backups";
}

/// One fault and its repair.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backup {
    /// `link` or `switch`.
    pub kind: String,
    /// The link, by its two ends, or the switch.
    pub name: String,
    /// Hosts that are attached only to the lost switch.
    pub hosts_lost: u64,
    /// Pairs of the other hosts that have no path over cables, whatever the tables.
    pub pairs_cut: u64,
    /// True if the fault separates other hosts from each other: a single point of failure.
    pub single_point: bool,
    /// Pairs of the other hosts that do not reach each other once the new tables are in force.
    pub pairs_lost: u64,
    /// Pairs of hosts with packets that stop until the new tables are in force.
    pub pairs_interrupted: u64,
    /// Forwarding entries that would change.
    pub entries: u64,
    /// Number of switches that hold changed entries.
    pub switches: u64,
    /// Number of blocks that hold changed entries; each takes one SMP.
    pub blocks: u64,
    /// Pairs on the busiest link afterwards.
    pub max_load: u64,
    /// Busiest link before, divided by busiest link afterwards: 1 is no loss.
    pub load_share: f64,
    /// True if no lane has a credit loop afterwards, in traffic from or to hosts.
    pub deadlock_free: bool,
    /// The reason for which the engine makes no tables; absent if it makes them.
    pub refused: Option<String>,
}

/// The number of links that a fabric can lose, one after another and without repair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InPlace {
    /// The measure: `ebb` (effective bisection bandwidth) or `load` (inverse of the busiest link's load).
    pub measure: String,
    /// The limit: a fabric is down if the measure, as a share of the whole fabric's, is lower, or if hosts are cut off.
    pub below: f64,
    /// For each random order of faults: the number of faults before performance is too low.
    pub runs: Vec<InPlaceRun>,
    /// Mean over the runs.
    pub mean: f64,
    /// One in ten runs survives no more than this number of faults.
    pub percentile_10: u64,
    /// Half of the runs survive at most this number of faults.
    pub median: u64,
    /// Nine of ten runs survive at most this number of faults.
    pub percentile_90: u64,
}

/// One random order of faults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InPlaceRun {
    /// Seed of the order of faults.
    pub seed: u64,
    /// Number of lost links with sufficient performance.
    pub faults: u64,
    /// The end of the run: `slow`, `cut off`, `refused`, or `all links` if every link was lost.
    pub end: String,
    /// Number of lost links, and the measure as a share of that of the whole fabric.
    pub steps: Vec<(u64, f64)>,
}
