//! State of a schedule while it is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::NodeIdx;
use selvedge_plan::Policy;
use selvedge_sim::Time;

use super::action::Action;
use super::event::Kind;
use crate::ManagerId;
use crate::digest::Digest;

/// The operator's policy, and the operator's actions.
#[derive(Debug)]
pub struct Operator {
    pub policy: Arc<Policy>,
    /// Nodes that were reset because a bit of their M_Key was flipped.
    reset: BTreeSet<NodeIdx>,
}

impl Operator {
    pub const fn new(policy: Arc<Policy>) -> Self {
        let reset = BTreeSet::new();
        Self { policy, reset }
    }

    /// Returns the nodes among these that were not reset yet. They count as reset now.
    pub fn reset(&mut self, nodes: Vec<NodeIdx>) -> BTreeSet<NodeIdx> {
        nodes.into_iter().filter(|node| self.reset.insert(*node)).collect()
    }
}

/// Managers of a schedule.
#[derive(Debug)]
pub struct Managers {
    ids: Vec<ManagerId>,
    running: Vec<bool>,
}

impl Managers {
    /// Returns the state in which no manager runs.
    pub fn new(ids: Vec<ManagerId>) -> Self {
        let running = vec![false; ids.len()];
        Self { ids, running }
    }

    pub fn ids(&self) -> &[ManagerId] {
        &self.ids
    }

    pub fn id(&self, which: usize) -> ManagerId {
        self.ids[which]
    }

    /// True if a manager was started, and not killed since.
    pub fn is_running(&self, which: usize) -> bool {
        self.running[which]
    }

    pub fn set_running(&mut self, which: usize, is_running: bool) {
        self.running[which] = is_running;
    }
}

/// The outcome of a schedule so far.
#[derive(Debug, Default)]
pub struct Record {
    /// Actions so far, if they are recorded.
    pub actions: Option<Vec<(Time, Action)>>,
    /// Digest of the hardware at each time when all was well.
    pub end: Digest,
    /// Kind and stage of everything that happened.
    pub coverage: BTreeMap<(Kind, u8), u64>,
    /// Happenings begun.
    pub begun: usize,
    /// For runs with separate programs: the time until all was well, or the fault.
    pub converged: Vec<(&'static str, Result<Duration, String>)>,
}
