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
    pub keys: Keys,
}

/// The operator's M_Keys beside that of the policy.
#[derive(Debug)]
pub struct Keys {
    /// Former keys.
    former: BTreeSet<u64>,
    /// Former keys that were given once more, with the manager that lacked them.
    given: BTreeSet<(usize, u64)>,
    /// The key to load when all is well with a former one.
    wanted: Option<u64>,
}

impl Keys {
    const fn new() -> Self {
        Self {
            former: BTreeSet::new(),
            given: BTreeSet::new(),
            wanted: None,
        }
    }

    /// Records that the policy gets another key instead of `from`.
    pub fn changed(&mut self, from: u64) {
        self.former.insert(from);
    }

    /// Returns the first of these keys that is a former one and was not given to this manager yet, while the policy has
    /// this key. It counts as given now.
    pub fn give(&mut self, which: usize, lacking: BTreeSet<u64>, present: u64) -> Option<u64> {
        let mut lacking = lacking.into_iter().filter(|key| self.former.contains(key));
        let key = lacking.find(|key| !self.given.contains(&(which, *key)))?;
        self.given.insert((which, key));
        self.wanted.get_or_insert(present);
        Some(key)
    }

    /// Returns the key that the policy had before a former one was given.
    pub fn take_wanted(&mut self) -> Option<u64> {
        self.wanted.take()
    }
}

impl Operator {
    pub const fn new(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            reset: BTreeSet::new(),
            keys: Keys::new(),
        }
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
    /// How often each kind of event happened in each stage of the master.
    pub coverage: BTreeMap<(Kind, u8), u64>,
    /// Happenings begun.
    pub begun: usize,
    /// For runs with separate programs: the time until all was well, or the fault.
    pub converged: Vec<(&'static str, Result<Duration, String>)>,
}
