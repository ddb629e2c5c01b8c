//! What the manager does by itself, and when.
//!
//! Each timer is due at one time or not at all, by [`Sm::due`](crate::Sm::due): nothing else says when to wake the
//! manager, and the code that serves a timer asks there whether it is time. In this order they are served:
//!
//! | served in | timers |
//! |---|---|
//! | `Sm::handle` (a wake-up), `Sm::received` | `Answer` |
//! | `Sm::timers` (a wake-up) | `Release`, the first part of `SecondLook`, `LightSweep`, `Poll` |
//! | `Sm::advance` (after every input) | `SecondLook`, `Balance`, `MulticastTrees`, `AliasGuids`, `Backups` |
//! | `Sm::feed`, called by `advance` | `Doubt` while probing, `OwnPort` while applying |
//! | the end of `Sm::handle` | `Repress` |
//!
//! The coordinator has timers of its own: of its intake, of storing, of the administrator and of the copier.

/// A timer of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// A request has been without an answer for its time-out: it is repeated, or has failed.
    Answer,
    /// A standby asks the master whether it is there: each [`Config::poll_interval`](crate::Config).
    Poll,
    /// A light sweep begins: [`Config::sweep_interval`](crate::Config) after the last thing that was done, or sooner
    /// where something is to be read back, a LID becomes free, or a better manager was told to wait.
    LightSweep,
    /// A plan waits until packets are gone: the manager's own port is asked whether its cable is where it was.
    OwnPort,
    /// A link that went down too often has been left out for long enough.
    Release,
    /// Load has been uneven for so long that a step towards balance is planned.
    Balance,
    /// Multicast trees are to be planned or read, or a switch that did not take one has been left out for long enough.
    MulticastTrees,
    /// Alias GUIDs are to be read or written, or a port that did not take them has been left out for long enough.
    AliasGuids,
    /// Repairs of links that are up are planned in advance.
    Backups,
    /// A plan came into force a second ago: changes during it are looked for. Not before packets are gone that go by
    /// unknown entries.
    SecondLook,
    /// A probe asks more ports: the trap of the link's other end has not come, or the likely ports have explained
    /// nothing, or a switch behind a lost link may be dead.
    Doubt,
    /// A trap is repressed: at once, or while a repair is on its way 5 ms after it came at the latest.
    Repress,
}

impl Timer {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Answer,
        Self::Poll,
        Self::LightSweep,
        Self::OwnPort,
        Self::Release,
        Self::Balance,
        Self::MulticastTrees,
        Self::AliasGuids,
        Self::Backups,
        Self::SecondLook,
        Self::Doubt,
        Self::Repress,
    ];
}
