//! What the manager does by itself, and when.
//!
//! Each timer is due at one time or not at all, by [`Sm::due`]: nothing else says when to wake the manager, and the
//! code that serves a timer asks there whether it is time. In this order they are served:
//!
//! | served in | timers |
//! |---|---|
//! | `Sm::handle` (a wake-up), `Sm::received` | `Answer` |
//! | `Sm::timers` (a wake-up) | `Release`, the first part of `SecondLook`, `LightSweep`, `Poll` |
//! | `Sm::advance` (after every input) | `SecondLook`, `Balance`, `Trees`, `Names`, `Backups` |
//! | `Sm::feed`, called by `advance` | `Doubt` while probing, `Seat` while applying |
//! | the end of `Sm::handle` | `Repress` |
//!
//! The coordinator has timers of its own: of its intake, of storing, of the administrator and of the copier.

use selvedge_sim::Time;

use crate::core::Sm;
use crate::stage::Stage;

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
    Seat,
    /// A link that went down too often has been left out for long enough.
    Release,
    /// Load has been uneven for so long that a step towards balance is planned.
    Balance,
    /// Multicast trees are to be planned or read, or a switch that did not take one has been left out for long enough.
    Trees,
    /// Alias GUIDs are to be read or written, or a port that did not take them has been left out for long enough.
    Names,
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
        Self::Seat,
        Self::Release,
        Self::Balance,
        Self::Trees,
        Self::Names,
        Self::Backups,
        Self::SecondLook,
        Self::Doubt,
        Self::Repress,
    ];
}

impl Sm {
    /// Returns when a timer fires, if nothing else happens.
    #[must_use]
    pub fn due(&self, timer: Timer) -> Option<Time> {
        match (timer, &self.stage) {
            (_, Stage::Stopped) => None,
            (Timer::Answer, _) => self.exchange.next_wake(),
            (Timer::Repress, _) => self.repress_at(),
            (Timer::Poll, Stage::Standby) => self.election().poll_due(),
            (Timer::Seat, Stage::Applying(apply, _)) => apply.own_port_due(self.config.poll_interval),
            (Timer::Doubt, Stage::Probing(probe)) => probe.due(),
            (Timer::LightSweep, Stage::Idle) => self.next_sweep,
            (Timer::Release, Stage::Idle) => self.flaps().due(),
            (Timer::Balance, Stage::Idle) => self.rebalancer().due().filter(|_| !self.is_preparing_repairs()),
            (Timer::Trees, Stage::Idle) => self.multicast_due(),
            (Timer::Names, Stage::Idle) => self.aliases_due(),
            (Timer::Backups, Stage::Idle) => self.backups_due().filter(|_| !self.is_preparing_repairs()),
            (Timer::SecondLook, Stage::Idle) => self.second_look_due(),
            // No code serves these timers in another stage: one that is due would wake the manager again and again.
            (
                Timer::Poll
                | Timer::Seat
                | Timer::Doubt
                | Timer::LightSweep
                | Timer::Release
                | Timer::Balance
                | Timer::Trees
                | Timer::Names
                | Timer::Backups
                | Timer::SecondLook,
                _,
            ) => None,
        }
    }

    /// When [`crate::Input::Wake`] is due, if nothing else happens.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.next_timer().map(|(at, _)| at)
    }

    /// True if a timer is to be served now.
    pub(crate) fn is_due(&self, timer: Timer) -> bool {
        self.due(timer).is_some_and(|at| at <= self.now)
    }

    /// The timer that fires next, and when; of several at once the first of [`Timer::ALL`].
    #[must_use]
    pub fn next_timer(&self) -> Option<(Time, Timer)> {
        Timer::ALL
            .into_iter()
            .filter_map(|timer| Some((self.due(timer)?, timer)))
            .min()
    }
}
