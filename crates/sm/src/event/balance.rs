//! What is said of rebalancing.

use std::fmt;

use super::Event;

impl Event {
    /// What is said of balance.
    pub(super) fn of_balance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RebalanceStep {
                step,
                changed,
                load: (before, after),
                left,
            } => write!(
                f,
                "rebalancing, step {step}: {} entries in {} LFT blocks move, {} host pairs take another way; host \
                 pairs on the busiest link {before} -> {after}; {left} blocks left",
                changed.entries, changed.blocks, changed.pairs
            ),
            Self::Rebalanced { steps: 0, load } => {
                write!(f, "nothing to rebalance: {load} host pairs on the busiest link")
            }
            Self::Rebalanced { steps, load } => {
                write!(f, "rebalanced in {steps} steps: {load} host pairs on the busiest link")
            }
            Self::RebalanceHeld { why } => write!(
                f,
                "load could be spread better, but no step within the budget is safe under traffic: {why}; 'selvedge \
                 rebalance --at-once' does it in one change"
            ),
            Self::RebalanceInterrupted { steps } => write!(
                f,
                "rebalancing is interrupted after {steps} steps: what happened comes first"
            ),
            _ => Ok(()),
        }
    }
}
