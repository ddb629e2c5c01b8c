//! The reasons for which sweeps begin.

use std::fmt;

/// Why a sweep began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SweepReason {
    /// The manager started.
    #[default]
    Start,
    /// The operator requested it.
    Command,
    /// A trap arrived.
    Trap(u16),
    /// A light sweep found a difference.
    LightSweep,
    /// The master is gone.
    MasterLost,
    /// A part of the last sweep failed.
    Again,
    /// A manager that had not been found sent a Get of SMInfo to this one.
    Asked,
    /// Another manager did not answer.
    Unanswered,
    /// The interval since the last sweep is over.
    Interval,
    /// A link was lost while the plan was applied.
    Overtaken,
    /// LIDs that ports wait for are free.
    LidsFree,
    /// No route leads any longer over links that are out of service, so the sweep leaves these links out.
    OutOfService,
    /// Another manager handed the subnet over.
    HandedOver,
    /// The master sent DISCOVER to this standby.
    Told,
    /// Ports are about to get another M_Key, or have got it.
    MKey,
    /// The operator has forgotten nodes or links that a repair left in the fabric.
    Forgotten,
    /// Beside the routes in force no tree reaches some members of multicast groups. A plan of the whole fabric leaves
    /// room for trees.
    Apart,
}

impl SweepReason {
    /// Returns the reason of a sweep that repeats this one. The new reason keeps how the manager became master, and
    /// whether the operator requested a rebalance.
    pub(crate) const fn again(self) -> Self {
        match self {
            Self::MasterLost | Self::HandedOver | Self::Told | Self::Command => self,
            _ => Self::Again,
        }
    }
}

impl fmt::Display for SweepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Command => f.write_str("the operator's command"),
            Self::Trap(number) => write!(f, "trap {number}"),
            Self::LightSweep => f.write_str("a difference found by the light sweep"),
            Self::MasterLost => f.write_str("the loss of the master"),
            Self::Again => f.write_str("failures in the last sweep"),
            Self::Asked => f.write_str("an SMInfo Get from a manager that the last sweep did not find"),
            Self::Unanswered => f.write_str("another manager that does not answer"),
            Self::Interval => f.write_str("the interval between sweeps"),
            Self::Overtaken => f.write_str("a link that was lost while the plan was applied"),
            Self::LidsFree => f.write_str("LIDs that have become free"),
            Self::OutOfService => f.write_str("links out of service that no route uses any more"),
            Self::HandedOver => f.write_str("HANDOVER from another manager"),
            Self::Told => f.write_str("DISCOVER from the master"),
            Self::MKey => f.write_str("a change of the M_Key"),
            Self::Forgotten => f.write_str("lost nodes or links that the operator no longer expects"),
            Self::Apart => f.write_str("members of multicast groups that no tree reaches beside the routes in force"),
        }
    }
}
