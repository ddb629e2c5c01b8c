//! What the fabric shall become.

use selvedge_plan::{ChangeCount, NO_PATH};
use serde::{Deserialize, Serialize};

use crate::Body;

/// The plan in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Counts plans.
    pub generation: u64,
    /// The routing engine that made the tables.
    pub engine: String,
    /// LIDs in use.
    pub lids: u64,
    /// Highest LID.
    pub top_lid: u16,
    /// Data lanes used.
    pub lanes: u8,
    /// Forwarding blocks of each switch.
    pub lft_blocks_per_switch: u64,
    /// Forwarding entries that lead somewhere, of all switches.
    pub lft_entries: u64,
    /// What had to be changed for it.
    pub changes: Changes,
}

impl Body for Plan {
    const SCHEMA: &'static str = "selvedge.plan";
}

impl Plan {
    /// The summary of a plan.
    #[must_use]
    pub fn of(plan: &selvedge_plan::Plan, changes: Changes) -> Self {
        let tables = &plan.tables;
        let entries = |switch| {
            (0..tables.blocks())
                .flat_map(|block| tables.block(switch, block))
                .filter(|&&egress| egress != NO_PATH)
                .count() as u64
        };
        Self {
            generation: plan.generation.0,
            engine: plan.engine.0.clone(),
            lids: plan.lids.by_lid().count() as u64,
            top_lid: plan.lids.top().0,
            lanes: plan.lanes,
            lft_blocks_per_switch: tables.blocks() as u64,
            lft_entries: tables.switch_indices().map(entries).sum(),
            changes,
        }
    }
}

/// Sets by attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// All Sets needed.
    pub sets: u64,
    /// Forwarding blocks among them.
    pub lft_blocks: u64,
    /// PortInfo among them.
    pub ports: u64,
    /// SwitchInfo among them.
    pub switches: u64,
    /// P_Key tables among them.
    pub pkeys: u64,
    /// Sets acknowledged.
    pub acknowledged: u64,
    /// Sets that failed.
    pub failed: u64,
}

impl Changes {
    /// From the counts of a change set and what became of it.
    #[must_use]
    pub const fn of(count: ChangeCount, acknowledged: usize, failed: usize) -> Self {
        Self {
            sets: count.total() as u64,
            lft_blocks: count.lft_blocks as u64,
            ports: count.ports as u64,
            switches: count.switches as u64,
            pkeys: count.pkeys as u64,
            acknowledged: acknowledged as u64,
            failed: failed as u64,
        }
    }
}
