//! The timers of the manager.
//!
//! [`Sm::due`](crate::Sm::due) gives the time at which each timer is due, or none. Only this function decides when the
//! manager is woken, and the code that serves a timer calls it. [`Timer`] explains each variant. Timers are
//! served in this order:
//!
//! | served in | timers |
//! |---|---|
//! | `Sm::handle` (a wake-up), `Sm::received` | `Answer` |
//! | `Sm::timers` (a wake-up) | `Release`, `Withdrawal`, the first part of `SecondLook`, `LightSweep`, `Poll` |
//! | `Sm::advance` (after every input) | `SecondLook`, `Balance`, `MulticastTrees`, `AliasGuids`, `Backups` |
//! | `Sm::feed`, called by `advance` | `Doubt` while probing, `OwnPort` while applying |
//! | the end of `Sm::handle` | `Repress` |
//!
//! The coordinator has further timers: for the limits of traps (`Intake`), for storing, for the subnet administrator,
//! and for a standby's copy of registrations.

/// A timer of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A request has not been answered within its time-out. It is repeated, or has failed.
    Answer,
    /// A standby polls the master: once in each [`Config::poll_interval`](crate::Config).
    Poll,
    /// A light sweep begins. This is [`Config::sweep_interval`](crate::Config) after the manager became idle, or sooner
    /// if a table must be read back, a LID becomes free, or a better manager waits for the subnet.
    LightSweep,
    /// A plan waits until packets are gone: the manager's own port is asked whether its cable is where it was.
    OwnPort,
    /// A link that went down too often has been left out for long enough.
    Release,
    /// No route of the plan leads over links that are out of service any more, so a sweep leaves them out.
    Withdrawal,
    /// Load has been uneven for so long that a step of rebalancing is planned.
    Balance,
    /// Multicast trees must be planned or MFTs read, or a switch that refused its MFT has been left out long enough.
    MulticastTrees,
    /// Alias GUIDs must be read or written, or a port that refused them has been left out long enough.
    AliasGuids,
    /// Repairs of links that are up are planned in advance.
    Backups,
    /// One second after a plan came into force: the check for changes during the plan. It waits until packets that may
    /// use unknown entries are gone.
    SecondLook,
    /// A probe asks more ports: the trap of the link's other end has not arrived, or the likely ports have explained
    /// nothing, or a switch behind a lost link may be dead.
    Doubt,
    /// A trap is repressed: at once, or during a repair at most 5 ms after the trap came.
    Repress,
}

impl Timer {
    /// All timers.
    pub const ALL: [Self; 13] = [
        Self::Answer,
        Self::Poll,
        Self::LightSweep,
        Self::OwnPort,
        Self::Release,
        Self::Withdrawal,
        Self::Balance,
        Self::MulticastTrees,
        Self::AliasGuids,
        Self::Backups,
        Self::SecondLook,
        Self::Doubt,
        Self::Repress,
    ];
}
