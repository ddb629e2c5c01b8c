//! Why and when the next sweep is due.
//!
//! A heavy sweep is due for a reason and begins as soon as the stage allows. A light sweep is due at a certain time,
//! while the manager is idle. If other work delays it again and again, the light sweep begins between two pieces of
//! that work.

use std::time::Duration;

use selvedge_planner::{Inventory, PortReason};
use selvedge_sim::Time;
use selvedge_types::{PortNum, PortState};

use crate::config::Config;
use crate::event::SweepReason;

/// Largest number of plans in a row that are dropped because the fabric has changed. The next plan is applied anyway.
pub const DROPPED_MAX: u32 = 3;

/// Why and when the next sweep is due.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The reason for a heavy sweep that must begin as soon as the stage allows.
    due: Option<SweepReason>,
    /// Why the last heavy sweep or the last repair began.
    reason: SweepReason,
    /// When a light sweep is due.
    light: Option<Time>,
    /// When a light sweep was due that other work has delayed.
    put_off: Option<Time>,
    /// Number of plans dropped in a row because a heavy sweep was due.
    dropped: u32,
    /// Heavy sweeps that have begun.
    begun: u64,
}

impl Schedule {
    /// Returns the reason for which a heavy sweep is due, if one is.
    pub const fn due(&self) -> Option<SweepReason> {
        self.due
    }

    /// Returns why the last heavy sweep or the last repair began.
    pub const fn reason(&self) -> SweepReason {
        self.reason
    }

    /// Returns how many heavy sweeps have begun.
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns when a light sweep is due.
    pub const fn light(&self) -> Option<Time> {
        self.light
    }

    /// Returns true if one more plan may be dropped for a heavy sweep. A fabric that changes all the time must not keep
    /// every plan from being applied.
    pub const fn may_drop_plan(&self) -> bool {
        self.dropped < DROPPED_MAX
    }

    /// Requests a heavy sweep. This reason replaces any earlier one.
    pub const fn want(&mut self, reason: SweepReason) {
        self.due = Some(reason);
    }

    /// Requests a heavy sweep. A sweep that is already due keeps its reason.
    pub const fn want_unless_due(&mut self, reason: SweepReason) {
        if self.due.is_none() {
            self.due = Some(reason);
        }
    }

    /// Requests another heavy sweep, because the current one has found too little.
    pub const fn repeat(&mut self) {
        self.due = Some(self.reason.again());
    }

    /// Records that no heavy sweep is wanted any more.
    pub const fn want_none(&mut self) {
        self.due = None;
    }

    /// Counts a plan that is dropped because a heavy sweep is due.
    pub const fn drop_plan(&mut self) {
        self.dropped += 1;
    }

    /// Begins the heavy sweep that is due.
    pub fn begin(&mut self) {
        self.reason = self.due.take().unwrap_or(self.reason);
        self.begun += 1;
        (self.light, self.put_off) = (None, None);
    }

    /// Records that a repair begins, for this reason.
    pub const fn begin_repair(&mut self, reason: SweepReason) {
        self.reason = reason;
    }

    /// Begins a light sweep that is due. If other work interrupts it, it begins again without waiting for the next
    /// interval.
    pub fn begin_light(&mut self, now: Time, interval: Option<Duration>) {
        self.light = None;
        self.put_off = interval.map(|interval| now + interval / 4);
    }

    /// Ends a light sweep.
    pub const fn end_light(&mut self) {
        self.put_off = None;
    }

    /// Delays the light sweep, because other work comes first that does not show the state of all switches. If traps
    /// come one after another, the light sweep still begins between them.
    pub fn put_off(&mut self) {
        self.put_off = self.light.take().into_iter().chain(self.put_off).min();
    }

    /// Called when the manager is idle. The next light sweep begins at `at`; a light sweep that was delayed begins at
    /// once.
    pub fn rest(&mut self, now: Time, at: Option<Time>) {
        self.dropped = 0;
        let put_off = self.put_off.take().map(|at| at.max(now));
        self.light = at.into_iter().chain(put_off).min();
    }
}

/// Returns the time to the next light sweep. If the local link is down, or its peer does not answer, there is only one
/// request to send, and it is sent once a poll interval because all other work waits for it.
pub fn interval(config: &Config, inventory: Option<&Inventory>) -> Option<Duration> {
    match inventory.is_some_and(|inventory| is_cut_off(inventory) || is_alone(inventory)) {
        true => Some(config.poll_interval),
        false => config.sweep_interval,
    }
}

/// Returns true if our own link is down. Port 0 of a switch has none.
pub fn is_cut_off(inventory: &Inventory) -> bool {
    let port = inventory.fabric.port(inventory.local);
    inventory.local.port != PortNum::MANAGEMENT && port.is_some_and(|p| p.link.state == PortState::Down)
}

/// Returns true if our own link is up and the node behind it does not answer: its agent may only be busy.
fn is_alone(inventory: &Inventory) -> bool {
    let troubles = &inventory.agents[inventory.local.node].troubles;
    troubles.get(&inventory.local.port) == Some(&PortReason::PeerSilent)
        && inventory.fabric.peer(inventory.local).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_replaced_or_kept() {
        let mut schedule = Schedule::default();
        schedule.want_unless_due(SweepReason::Interval);
        schedule.want(SweepReason::MasterLost);
        schedule.want_unless_due(SweepReason::Overtaken);
        assert_eq!(schedule.due(), Some(SweepReason::MasterLost));
        schedule.begin();
        assert_eq!((schedule.due(), schedule.reason()), (None, SweepReason::MasterLost));
        schedule.repeat();
        assert_eq!(
            schedule.due(),
            Some(SweepReason::MasterLost),
            "how it came to be master"
        );
    }

    #[test]
    fn a_light_sweep_that_is_put_off_takes_its_turn() {
        let mut schedule = Schedule::default();
        schedule.rest(Time(0), Some(Time(10)));
        for now in [3, 6, 9] {
            schedule.put_off();
            schedule.rest(Time(now), Some(Time(now + 10)));
            assert_eq!(schedule.light(), Some(Time(10)));
        }
        // It is overdue.
        schedule.put_off();
        schedule.rest(Time(12), Some(Time(22)));
        assert_eq!(schedule.light(), Some(Time(12)));
        // A heavy sweep sees everything.
        schedule.put_off();
        schedule.begin();
        schedule.rest(Time(15), Some(Time(25)));
        assert_eq!(schedule.light(), Some(Time(25)));
    }

    #[test]
    fn plans_are_dropped_until_one_is_applied() {
        let mut schedule = Schedule::default();
        for _ in 0..DROPPED_MAX {
            assert!(schedule.may_drop_plan());
            schedule.drop_plan();
        }
        assert!(!schedule.may_drop_plan());
        schedule.rest(Time::ZERO, None);
        assert!(schedule.may_drop_plan());
    }
}
