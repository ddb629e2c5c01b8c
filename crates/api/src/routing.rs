//! Results of offline routing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Body, Finding};

/// One routing of one fabric: figures, times, findings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Routing {
    /// The fabric as named in the request.
    pub fabric: String,
    /// The engine that made the tables; for `auto`, the engine that it chose.
    pub engine: String,
    /// The requested engines, in order.
    pub engines: Vec<String>,
    /// Largest number of data lanes that the engine might use; absent: the engine's own default.
    pub vls: Option<u8>,
    /// Effort of `weave`, if that is the engine.
    pub effort: String,
    /// LIDs per end port, as a power of two.
    pub lmc: u8,
    /// True if the judge has no error.
    pub ok: bool,
    /// The judge's figures in short.
    #[serde(flatten)]
    pub quality: Quality,
    /// Cost of the routing.
    #[serde(flatten)]
    pub cost: Cost,
    /// How traffic would share the links; absent if not requested.
    pub contention: Option<Value>,
    /// Notes of engines, with codes.
    pub notes: Vec<String>,
    /// Errors.
    pub errors: u64,
    /// Warnings.
    pub warnings: u64,
    /// Notes of the judge.
    pub infos: u64,
    /// All figures of the judge.
    pub figures: Value,
    /// The judge's findings; of a kind with very many only the first are listed.
    pub findings: Vec<Finding>,
}

impl Body for Routing {
    const SCHEMA: &'static str = "selvedge.route";
}

/// The judge's figures in short. Loads are host pairs (from CA to CA, base LIDs) per directed link between switches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Pairs on the busiest link: the edge forwarding index.
    pub max_load: u64,
    /// Mean over all links.
    pub mean_load: f64,
    /// Standard deviation over all links.
    pub sd_load: f64,
    /// Mean number of links between switches on the path of a pair that is not on one switch.
    pub mean_hops: f64,
    /// Most links between switches on a path.
    pub max_hops: u64,
    /// Lanes that carry pairs.
    pub lanes_used: u8,
    /// True if no lane has a credit loop, in traffic from or to hosts.
    pub deadlock_free: bool,
    /// Host pairs of the whole fabric that do not reach each other, because a link or a forwarding entry is missing.
    pub unreachable_pairs: u64,
    /// Dependencies between channels, all lanes together, in traffic of hosts.
    pub dependencies: u64,
    /// Channels with a dependency, all lanes together.
    pub dependency_channels: u64,
    /// Most flows on a link in any shift permutation; absent if not requested.
    pub shift_max: Option<u64>,
    /// Mean over shift permutations of the most flows on a link.
    pub shift_mean: Option<f64>,
    /// Effective bisection bandwidth, 0 to 1.
    pub ebb: Option<f64>,
    /// Lower end of the 95 % confidence interval of `ebb`.
    pub ebb_low: Option<f64>,
    /// Upper end.
    pub ebb_high: Option<f64>,
    /// Mean over pairs of the ratio of links on the path to the fewest links possible.
    pub stretch_mean: Option<f64>,
    /// The largest ratio of links on a path to the fewest links possible.
    pub stretch_max: Option<f64>,
}

/// Time and memory that a routing took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Number of threads that the routing may use.
    pub threads: u64,
    /// Number of warm runs after the first; 0: `compute_ms` is that of the first run.
    pub repeats: u32,
    /// Time from the fabric to finished tables, the median of the warm runs. For `fat-tree` it includes neither the
    /// detection of the tree nor the allocation of memory.
    pub compute_ms: f64,
    /// Median time to detect the tree, of `fat-tree`.
    pub detect_ms: Option<f64>,
    /// The first run, everything included.
    pub cold_ms: f64,
    /// The judge: proof and figures of reachability, load, lanes.
    pub verify_ms: f64,
    /// Shifts, pairings, stretch; absent if not requested.
    pub contention_ms: Option<f64>,
    /// Highest resident memory of the process when tables were finished; absent if the system does not report it.
    pub compute_peak_rss_bytes: Option<u64>,
    /// Highest resident memory of the process, judging included.
    pub peak_rss_bytes: Option<u64>,
}

/// Several engines on one fabric, whole and damaged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The fabric as named in the request.
    pub fabric: String,
    /// Switches.
    pub switches: u64,
    /// Host ports.
    pub host_ports: u64,
    /// Links between switches.
    pub switch_links: u64,
    /// True if every table was judged good.
    pub ok: bool,
    /// A row for each engine, number of lanes and level of faults.
    pub rows: Vec<ComparisonRow>,
    /// Every run.
    pub runs: Vec<ComparisonRun>,
}

impl Body for Comparison {
    const SCHEMA: &'static str = "selvedge.comparison";
}

/// Results of one engine for one level of faults. Means are over the runs that were not refused.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// Name of the engine.
    pub engine: String,
    /// Lanes allowed; absent: the engine's own default.
    pub vls: Option<u8>,
    /// Level of faults as given in the request.
    pub faults: String,
    /// Runs.
    pub runs: u64,
    /// Runs that the engine refused.
    pub refused: u64,
    /// Runs without a credit loop on any lane.
    pub deadlock_free: u64,
    /// Runs without an error of the judge.
    pub good: u64,
    /// Mean of the busiest link's host pairs, with tables made from scratch, as after a rebalance.
    pub max_load: f64,
    /// The same figure for tables that were repaired after the loss, so that entries which are still good stay. Absent
    /// for the fabric without losses, and for engines that always make all tables from scratch.
    #[serde(default)]
    pub max_load_repaired: Option<f64>,
    /// The largest `max_load` of any run.
    pub max_load_worst: u64,
    /// Mean host pairs per directed link.
    pub mean_load: f64,
    /// Mean effective bisection bandwidth.
    pub ebb: Option<f64>,
    /// Effective bisection bandwidth of the worst run.
    pub ebb_worst: Option<f64>,
    /// Mean of the most flows on a link of any shift.
    pub shift_max: Option<f64>,
    /// Mean links between switches of a host pair.
    pub mean_hops: f64,
    /// Most lanes used.
    pub lanes_used: u8,
    /// Host pairs that do not reach each other, over all runs.
    pub unreachable_pairs: u64,
    /// Median of the engine's time.
    pub compute_ms: f64,
}

/// One run of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRun {
    /// Name of the requested engine.
    pub engine: String,
    /// Lanes allowed; absent: the engine's own default.
    pub vls: Option<u8>,
    /// Level of faults as given in the request.
    pub faults: String,
    /// Links between switches that are lost.
    pub links_lost: u64,
    /// Seed of the lost links.
    pub seed: u64,
    /// The reason for which the engine made no tables; absent if it made them.
    pub refused: Option<String>,
    /// Host pairs on the busiest link if tables are repaired after the loss: entries that are still good stay. The
    /// other figures are for tables made from scratch.
    #[serde(default)]
    pub max_load_repaired: Option<u64>,
    /// True if the judge has no error.
    pub ok: bool,
    /// Figures; of a refusal all 0.
    #[serde(flatten)]
    pub quality: Quality,
    /// Times; of a refusal all 0.
    #[serde(flatten)]
    pub cost: Cost,
}
