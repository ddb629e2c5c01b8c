//! Computes when each timer of the manager is due.

use selvedge_sim::Time;

use super::Sm;
use crate::stage::Stage;
use crate::timer::Timer;

impl Sm {
    /// Returns when a timer fires, if nothing else happens.
    #[must_use]
    pub fn due(&self, timer: Timer) -> Option<Time> {
        match (timer, &self.stage) {
            (_, Stage::Stopped) => None,
            (Timer::Answer, _) => self.exchange.next_wake(),
            (Timer::Repress, _) => self.repress_at(),
            (Timer::Poll, Stage::Standby) => self.election().poll_due(),
            (Timer::OwnPort, Stage::Applying(apply, _)) => apply.own_port_due(self.config.poll_interval),
            (Timer::Doubt, Stage::Probing(probe)) => probe.due(),
            (Timer::LightSweep, Stage::Idle) => self.light_sweep_due(),
            (Timer::Release, Stage::Idle) => self.flaps().due(),
            (Timer::Withdrawal, Stage::Idle) => self.withdrawal().due(),
            (Timer::Balance, Stage::Idle) => self.rebalancer().due().filter(|_| !self.is_preparing_repairs()),
            (Timer::MulticastTrees, Stage::Idle) => self.multicast_due(),
            (Timer::AliasGuids, Stage::Idle) => self.aliases_due(),
            (Timer::Backups, Stage::Idle) => self.backups().due().filter(|_| !self.is_preparing_repairs()),
            (Timer::SecondLook, Stage::Idle) => self.second_look_due(),
            // These timers are served in no other stage: one that is due would wake the manager again and again.
            (
                Timer::Poll
                | Timer::OwnPort
                | Timer::Doubt
                | Timer::LightSweep
                | Timer::Release
                | Timer::Withdrawal
                | Timer::Balance
                | Timer::MulticastTrees
                | Timer::AliasGuids
                | Timer::Backups
                | Timer::SecondLook,
                _,
            ) => None,
        }
    }

    /// Returns when [`crate::Input::Wake`] is due, if no other input comes first.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        self.next_timer().map(|(at, _)| at)
    }

    /// True if a timer must be served now.
    pub(crate) fn is_due(&self, timer: Timer) -> bool {
        self.due(timer).is_some_and(|at| at <= self.now)
    }

    /// Returns the timer that fires next, and when; of several at once the first of [`Timer::ALL`].
    #[must_use]
    pub fn next_timer(&self) -> Option<(Time, Timer)> {
        Timer::ALL
            .into_iter()
            .filter_map(|timer| Some((self.due(timer)?, timer)))
            .min()
    }
}
