//! The input of a task that proposes tables, and its result, an accepted plan.

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
    /// The fabric, with the directed routes to its agents.
    pub inventory: Arc<Inventory>,
    /// Known contents of the switches' tables.
    pub installed: Arc<Installed>,
    /// Replaced entries that packets in flight may still use. `None`: there are none, or the task does not consider
    /// them.
    pub under_way: Option<Arc<UnderWay>>,
    /// The operator's policy.
    pub policy: Arc<Policy>,
    /// The judge of all proposals.
    pub judge: Arc<dyn Judge>,
    /// Multicast groups and tables.
    pub copies: Arc<Copies>,
}

impl Basis {
    /// Returns a basis of generation 1 with the default judge, without multicast groups and without packets in flight.
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

    /// Returns the same basis with a changed policy.
    pub(crate) fn with_policy(&self, change: impl FnOnce(&mut Policy)) -> Self {
        let mut policy = Policy::clone(&self.policy);
        change(&mut policy);
        Self {
            policy: Arc::new(policy),
            ..self.clone()
        }
    }

    /// Returns the numbers of switches and of end ports, from which virtual costs are computed.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let fabric = &self.inventory.fabric;
        (fabric.switches().len() as u64, fabric.end_ports().count() as u64)
    }
}

/// An accepted plan.
#[derive(Debug)]
pub struct Outcome {
    /// The inventory of the plan: that of the task; for a repair, that of the task with the damage applied.
    pub inventory: Arc<Inventory>,
    /// The plan.
    pub plan: Arc<Plan>,
    /// The judged change set that leads to the plan.
    pub changes: Judged<ChangeSet>,
    /// The verdict of the judge.
    pub verdict: Arc<Verdict>,
    /// Hosts that the change set asks to register again.
    pub asks: Asks,
    /// How long the transition waits for packets of unknown entries (called fog). If the change set waits longer than
    /// this, the additional time is for packets of known entries.
    pub fog: Duration,
    /// The part of this wait that is for packets of entries that the change set drops in its first step.
    pub out_of_sight: Duration,
}

impl Outcome {
    /// Returns the outcome of a repair in place: it asks no host to register again and does not wait for packets of
    /// unknown entries.
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
