//! The state of a manager for display: a read-only value that is cheap to clone. `Sm::view` makes it on request; no
//! decision of the manager reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_health::Facts;
use selvedge_plan::multicast::{MftBlocks, MulticastGroups};
use selvedge_plan::{ChangeCount, Generation, Installed, Plan, Policy};
use selvedge_planner::{Inventory, Outcome, PortReason};
use selvedge_types::Guid;
use selvedge_verify::Verdict;

use crate::apply::Wait;
use crate::change::PolicyChange;
use crate::election::Role;
use crate::rebalance::BalanceView;
use crate::report::{PortReport, beyond_reach};

/// The stage of a manager, as status shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StageName {
    /// Nothing, until something happens.
    #[default]
    Idle,
    /// Walking the fabric.
    Discovering,
    /// A heavy sweep reads the tables that are not known.
    ReadingTables,
    /// A plan is being computed and judged.
    Planning,
    /// Waiting until state is stored.
    Persisting,
    /// Sending Sets.
    Applying,
    /// Asking switches whether anything changed.
    LightSweep,
    /// Probing switches that reported a change.
    Probing,
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Discovering => "discovering",
            Self::ReadingTables => "reading tables",
            Self::Planning => "planning",
            Self::Persisting => "storing",
            Self::Applying => "applying",
            Self::LightSweep => "light sweep",
            Self::Probing => "probing ports",
        })
    }
}

/// The progress of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Steps done.
    pub done: u64,
    /// Number of steps known so far; it grows during discovery.
    pub total: u64,
}

/// Heavy sweeps since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweeps {
    /// Number of heavy sweeps that have begun; each is an event SLV-SM-0001.
    pub begun: u64,
    /// Number of heavy sweeps that came to an end. The other sweeps were repeated, were interrupted by another one,
    /// found the local port down, or are under way.
    pub ended: u64,
}

/// MADs sent and received since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadCounters {
    /// Gets sent, repeats included.
    pub gets: u64,
    /// Sets sent, repeats included.
    pub sets: u64,
    /// Other MADs sent (answers, TrapRepress).
    pub others: u64,
    /// Repeats among the Gets and Sets.
    pub repeats: u64,
    /// Requests that failed for good.
    pub failures: u64,
    /// MADs received.
    pub received: u64,
    /// MADs that were not used: not decodable, or not meant for a manager in this SMInfo state.
    pub dropped: u64,
    /// Answers that came when their request had ended or was withdrawn, and copies of answers.
    pub late: u64,
}

/// Findings of the read-back since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadBackFigures {
    /// Number of blocks read back.
    pub read: u64,
    /// Number of these blocks that differed from what was acknowledged.
    pub differences: u64,
    /// Switches that repeatedly held other contents than they acknowledged.
    pub lying: Vec<Guid>,
}

/// The state of a manager, as other programs see it.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// SMInfo state of the manager.
    pub role: Role,
    /// The master of the subnet, if it is known and is another manager.
    pub master: Option<Guid>,
    /// The current stage.
    pub stage: StageName,
    /// The progress of the current stage.
    pub progress: Progress,
    /// The current pause, until packets in flight are gone.
    pub wait: Option<Wait>,
    /// The state of rebalancing.
    pub balance: BalanceView,
    /// The policy in force.
    pub policy: Option<Arc<Policy>>,
    /// The last changes of policy, the newest last.
    pub policy_changes: Arc<Vec<PolicyChange>>,
    /// The change that is being applied, and its phase, counted from 0.
    pub applying: Option<(Arc<Outcome>, usize)>,
    /// Heavy sweeps.
    pub sweeps: Sweeps,
    /// Generation of the newest plan in force.
    pub generation: Generation,
    /// The last complete snapshot.
    pub fabric: Option<Arc<Fabric>>,
    /// The fabric of the last sweep, whether a plan for it is in force or not.
    pub seen: Option<Arc<Fabric>>,
    /// The answers of the agents in the last complete snapshot.
    pub inventory: Option<Arc<Inventory>>,
    /// The plan in force (in a dry run: the plan that would be).
    pub plan: Option<Arc<Plan>>,
    /// The judge's verdict on the plan.
    pub verdict: Option<Arc<Verdict>>,
    /// The judge's verdict on the refused plan, if the last sweep ended without a plan.
    pub refused: Option<Arc<Verdict>>,
    /// The tables that switches hold, as far as known.
    pub installed: Arc<Installed>,
    /// In a dry run: the plan that would be in force, with its Sets.
    pub would_send: Option<Arc<Outcome>>,
    /// Sets of the last change set.
    pub changes: ChangeCount,
    /// Number of acknowledged Sets of the plan.
    pub acknowledged: usize,
    /// Number of failed Sets of the plan.
    pub failed: usize,
    /// Ports that are not ACTIVE, each with its reason, after the last apply.
    pub ports: Arc<Vec<PortReport>>,
    /// Multicast groups that have members.
    pub groups: Arc<MulticastGroups>,
    /// The known MFT blocks of switches, by GUID.
    pub copies: Arc<BTreeMap<Guid, MftBlocks>>,
    /// Findings of the read-back.
    pub read_back: ReadBackFigures,
    /// True if a lost link is repaired from prepared data; otherwise a sweep handles it.
    pub has_repairs_ready: bool,
    /// MADs sent and received so far.
    pub mads: MadCounters,
    /// The manager's part of the facts that its health depends on.
    pub facts: Facts,
}

impl View {
    /// True if links lead beyond the longest directed route: nodes behind them are not managed.
    #[must_use]
    pub fn sees_beyond_reach(&self) -> bool {
        let inventory = self.inventory.as_deref();
        inventory.is_some_and(|inventory| beyond_reach(inventory).is_some())
    }

    /// True if the judged plan is in every agent and every other port is explained.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.plan.is_some()
            && self.sweeps.ended > 0
            && self.failed == 0
            && self.ports.iter().all(|p| p.reason != PortReason::Unexplained)
    }
}
