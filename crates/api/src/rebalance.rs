//! Balancing load again after repairs.

use serde::{Deserialize, Serialize};

use crate::Body;

/// A request to rebalance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RebalanceRequest {
    /// True: only report the changes.
    pub dry_run: bool,
    /// True: all entries move in one change, with all waits that it needs, instead of in steps within the budget.
    pub at_once: bool,
}

/// The changes that balancing load again would make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rebalance {
    /// The engine of the tables in force and of the new ones.
    pub engine: String,
    /// True if tables made from scratch would be better: the busiest link less busy, or links clearly evener.
    pub needed: bool,
    /// True if rebalancing begins now; false if there is nothing to do, or if only a report was requested.
    pub started: bool,
    /// True if all entries move in one change.
    pub at_once: bool,
    /// Forwarding entries that change.
    pub entries: u64,
    /// LFT blocks that hold them: one SMP each, or more if a block is written in several steps.
    pub blocks: u64,
    /// Ordered pairs of hosts with packets that take another route.
    pub pairs_moved: u64,
    /// LFT blocks that a step may write.
    pub blocks_per_step: u64,
    /// Smallest number of steps. Each step is a plan of its own, and is judged.
    pub steps: u64,
    /// Host pairs on links now.
    pub load_before: LinkLoad,
    /// Host pairs on links afterwards.
    pub load_after: LinkLoad,
}

impl Body for Rebalance {
    const SCHEMA: &'static str = "selvedge.rebalance";
}

/// Host pairs per directed link between switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkLoad {
    /// The busiest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub sd: f64,
}

/// The state of rebalancing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebalanceStatus {
    /// The policy: `never`, `later` or `at-once`.
    pub policy: String,
    /// `even` (nothing to do), `waiting`, `planning` or `applying`.
    pub state: String,
    /// When the manager compares tables or takes the next step of rebalancing, as time since the start of the process.
    /// `None`: when other work is done, or never.
    pub due_ms: Option<u64>,
    /// Steps taken, if rebalancing is in progress.
    pub steps: u64,
    /// LFT blocks that later steps have to write.
    pub blocks_left: u64,
    /// Host pairs on the busiest link when it began, after the last step, and in the end.
    pub load_max: Option<[u64; 3]>,
}
