//! Milestones: steps of a manager that other programs act upon.
//!
//! An [`Event`](crate::Event) is for operators: no program decides by it. The administrator, a dump or a checker reacts
//! to a [`Milestone`], which carries the values of that moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_health::Known;
use selvedge_plan::multicast::MftBlocks;
use selvedge_plan::{HeldLanes, OutOfService, Plan, Policy};
use selvedge_planner::{Inventory, Outcome};
use selvedge_types::{Guid, SecretKey};
use selvedge_wire::{Datagram, SmInfo};

use crate::election::Role;

/// A step that a manager has completed, with its result.
#[derive(Clone, Debug)]
pub enum Milestone {
    /// A heavy sweep began. Its plan is made from answers to requests that are sent from now on.
    SweepStarted,
    /// A heavy sweep found this fabric. A plan for it comes into force later, or never.
    Swept(Arc<Fabric>),
    /// The judge accepted a plan. Its Sets follow: its LIDs may be in force for some ports before it is.
    Coming {
        /// The fabric that the plan is for.
        fabric: Arc<Fabric>,
        /// The plan.
        plan: Arc<Plan>,
        /// True for a repair that was planned and judged before the fault.
        was_known: bool,
    },
    /// A plan is in force: its last Set was acknowledged or has failed.
    Committed(Box<Committed>),
    /// Switches hold changed multicast tables: the blocks as far as known, by switch GUID.
    CopiesChanged(Arc<BTreeMap<Guid, MftBlocks>>),
    /// The SMInfo state of the manager changed.
    RoleChanged {
        /// The new role.
        role: Role,
    },
    /// The manager, as master, took a trap.
    TrapTaken(Box<Datagram>),
    /// Nodes or links are known that were not, are gone, have returned, or are forgotten: to be stored.
    KnownChanged(Arc<Known>),
    /// The last change of policy was rolled back.
    RolledBack {
        /// The policy in force.
        policy: Arc<Policy>,
        /// The reason in words: for each engine, the first finding.
        why: Arc<str>,
    },
    /// Most agents hold another M_Key, so traps are repressed with it.
    KeyChanged(SecretKey),
    /// The list of places out of service has changed and must be stored at once: ports are about to be disabled, places
    /// are back in service, or a standby follows its master.
    OutOfService {
        /// The list until now.
        before: Arc<OutOfService>,
        /// The new list.
        after: Arc<OutOfService>,
    },
}

impl Milestone {
    /// Returns the number of this kind of milestone.
    #[must_use]
    pub const fn number(&self) -> u64 {
        match self {
            Self::SweepStarted => 1,
            Self::Swept(_) => 2,
            Self::Coming { .. } => 3,
            Self::Committed(_) => 4,
            Self::CopiesChanged(_) => 5,
            Self::RoleChanged { .. } => 6,
            Self::TrapTaken(_) => 7,
            Self::KnownChanged(_) => 8,
            Self::RolledBack { .. } => 9,
            Self::KeyChanged(_) => 10,
            Self::OutOfService { .. } => 11,
        }
    }
}

/// A plan in force, with its fabric, agents and policy.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The fabric as the plan left it.
    pub fabric: Arc<Fabric>,
    /// The plan, with the indices of `fabric`.
    pub plan: Arc<Plan>,
    /// The answers of agents.
    pub inventory: Arc<Inventory>,
    /// Lane tables that switches hold, as far as known.
    pub lanes: Arc<HeldLanes>,
    /// The operator's policy.
    pub policy: Arc<Policy>,
    /// Ports of hosts that must still be asked to register again, because no plan that asks them has come into force.
    pub unasked: Arc<BTreeSet<Guid>>,
    /// True if every host must still be asked to register again.
    pub asks_all: bool,
    /// The SMInfo of the manager.
    pub manager: SmInfo,
}

/// Returns the milestone of an accepted plan.
pub fn coming(inventory: &Inventory, outcome: &Outcome, was_known: bool) -> Milestone {
    Milestone::Coming {
        fabric: Arc::clone(&inventory.fabric),
        plan: Arc::clone(&outcome.plan),
        was_known,
    }
}
