//! What a task that proposes tables starts from, and the accepted plan that it ends with.

use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::{ChangeSet, Generation, Installed, Plan, Policy, UnderWay};
use selvedge_verify::{Judged, Verdict};

use crate::asks::Asks;
use crate::copies::Copies;
use crate::inventory::Inventory;
use crate::judge::{Accepted, DefaultJudge, Judge};

/// The state that a task starts from: immutable, and shared with the manager.
#[derive(Clone, Debug)]
pub struct Basis {
    /// Generation of the plan that the task makes.
    pub generation: Generation,
    /// The fabric, and how its agents are reached.
    pub inventory: Arc<Inventory>,
    /// What switches hold, as far as known.
    pub installed: Arc<Installed>,
    /// Entries that are no longer in force, and by which packets may still be under way; `None`: there are none, or
    /// the task takes no account of them.
    pub under_way: Option<Arc<UnderWay>>,
    /// What the operator wants.
    pub policy: Arc<Policy>,
    /// The judge of whatever is proposed.
    pub judge: Arc<dyn Judge>,
    /// Multicast groups and tables.
    pub copies: Arc<Copies>,
}

impl Basis {
    /// Returns a basis of generation 1 with the usual judge, without multicast groups and without packets under way.
    #[must_use]
    pub fn new(inventory: &Arc<Inventory>, installed: &Arc<Installed>, policy: Arc<Policy>) -> Self {
        Self {
            generation: Generation(1),
            inventory: Arc::clone(inventory),
            installed: Arc::clone(installed),
            under_way: None,
            policy,
            judge: Arc::new(DefaultJudge::default()),
            copies: Arc::default(),
        }
    }

    /// Returns the same with another policy.
    pub(crate) fn with_policy(&self, change: impl FnOnce(&mut Policy)) -> Self {
        let mut policy = Policy::clone(&self.policy);
        change(&mut policy);
        Self {
            policy: Arc::new(policy),
            ..self.clone()
        }
    }

    /// Returns the numbers of switches and of end ports, on which virtual costs depend.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let fabric = &self.inventory.fabric;
        (fabric.switches().len() as u64, fabric.end_ports().count() as u64)
    }
}

/// An accepted plan.
#[derive(Debug)]
pub struct Outcome {
    /// The inventory that the plan is for: that of the task, or for a repair the same with the damage.
    pub inventory: Arc<Inventory>,
    /// The plan.
    pub plan: Arc<Plan>,
    /// The judged way to it.
    pub changes: Judged<ChangeSet>,
    /// What the judge said.
    pub verdict: Arc<Verdict>,
    /// Hosts that the change set asks to register again.
    pub asks: Asks,
    /// How long the way waits for packets of entries that are not known. A longer wait is for entries that are known.
    pub fog: Duration,
    /// How much of that wait is for packets of entries that the way itself drops first.
    pub out_of_sight: Duration,
}

impl Outcome {
    /// Returns the outcome of a change in place: it asks no host, and waits for no packet of unknown entries.
    pub(crate) fn in_place(inventory: Arc<Inventory>, plan: Plan, accepted: Accepted) -> Self {
        Self {
            inventory,
            plan: Arc::new(plan),
            changes: accepted.changes,
            verdict: Arc::new(accepted.verdict),
            asks: Asks::Nobody,
            fog: Duration::ZERO,
            out_of_sight: Duration::ZERO,
        }
    }
}
