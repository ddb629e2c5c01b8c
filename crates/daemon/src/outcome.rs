//! The outcome of a run.

use selvedge_sm::{Mode, Role, View};

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well: the judged plan is in force, and every port that is not ACTIVE has a known reason. In a dry run it
    /// is enough that there is a judged plan, and with `watch` that a sweep has ended.
    Good,
    /// A fault remains: Sets failed, a port is down for no known reason, or hosts are isolated or out of reach.
    NotGood,
    /// Nothing was changed: another manager is master.
    Standby,
    /// Nothing was changed: an M_Key forbids it, or no plan passed the judge.
    Refused,
    /// Watching: no manager has set the fabric up.
    Unmanaged,
    /// No sweep ended: the local port is down, or its node does not answer.
    NoFabric,
}

impl Outcome {
    /// Returns the outcome of a run with this last view.
    #[must_use]
    pub fn of(mode: Mode, view: &View) -> Self {
        match mode {
            _ if view.role == Role::Standby || view.master.is_some() => Self::Standby,
            _ if view.sweeps.ended == 0 => Self::NoFabric,
            Mode::Manage | Mode::DryRun if view.plan.is_none() => Self::Refused,
            _ if view.sees_beyond_reach() || view.verdict.as_ref().is_some_and(|verdict| !verdict.is_good()) => {
                Self::NotGood
            }
            Mode::Watch if !view.facts.is_managed => Self::Unmanaged,
            Mode::Watch => Self::Good,
            Mode::Manage | Mode::DryRun if view.is_up() => Self::Good,
            Mode::Manage | Mode::DryRun => Self::NotGood,
        }
    }

    /// Returns the name of the outcome in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::NotGood => "not_good",
            Self::Standby => "standby",
            Self::Refused => "refused",
            Self::Unmanaged => "unmanaged",
            Self::NoFabric => "no_fabric",
        }
    }
}
