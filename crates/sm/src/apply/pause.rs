//! Pauses before phases, until packets that old entries have forwarded are gone.
//!
//! During a pause the manager reads PortInfo of the local port: link, LID and master must be unchanged. All directed
//! routes begin there. If its cable was moved, Sets reach the wrong nodes.

use std::time::Duration;

use selvedge_fabric::Port;
use selvedge_sim::Time;
use selvedge_types::PortState;
use selvedge_wire::{Attribute, Mad, PortInfo};

/// A pause before a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When the wait ends and the phase begins.
    pub until: Time,
    /// How long the pause is, in nanoseconds.
    pub wait_ns: u64,
    /// The phase, from 1.
    pub phase: usize,
    /// Number of phases.
    pub phases: usize,
    /// What the phase does, for display.
    pub label: &'static str,
}

impl Wait {
    pub(super) const fn is_longer_than(&self, fog: Duration) -> bool {
        self.wait_ns as u128 > fog.as_nanos()
    }
}

/// The pauses of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    /// The current pause, if any.
    wait: Option<Wait>,
    /// When PortInfo of the local port was last requested during the pause.
    asked: Time,
    /// True while the local port has not answered the last request.
    is_open: bool,
    /// Total length of the pauses that are over.
    waited_ns: u64,
}

impl Pause {
    /// Begins a pause: Sets that were acknowledged until now reached the right agents.
    pub const fn begin(&mut self, wait: Wait, now: Time) {
        (self.wait, self.asked, self.is_open) = (Some(wait), now, false);
    }

    /// Returns the current pause, if any.
    pub const fn wait(&self) -> Option<Wait> {
        self.wait
    }

    /// Returns the total length of the pauses that are over, in nanoseconds.
    pub const fn waited_ns(&self) -> u64 {
        self.waited_ns
    }

    /// Returns when the local port is read next: once in an interval, and at the end of the pause. The interval is
    /// short enough that a change of the port is found before the pause ends, so a new plan is not delayed. `None`
    /// while an answer is awaited, and after the last one.
    pub fn due(&self, interval: Duration) -> Option<Time> {
        let wait = self.wait?;
        let is_due = !self.is_open && self.asked < wait.until;
        is_due.then(|| (self.asked + interval).min(wait.until))
    }

    /// Returns true if the local port is to be read now.
    pub fn asks(&mut self, now: Time, interval: Duration) -> bool {
        let is_due = self.due(interval).is_some_and(|at| at <= now);
        if is_due {
            (self.asked, self.is_open) = (now, true);
        }
        is_due
    }

    /// Handles the answer of the local port, or its absence. Returns true if the port differs from `known`.
    pub fn answered(&mut self, known: Option<&Port>, answer: Option<&Mad>) -> bool {
        self.is_open = false;
        let answer = answer.filter(|mad| mad.status().0 == 0);
        let seen = answer.and_then(|mad| PortInfo::parse(mad.smp_data()).ok());
        seen.zip(known).is_some_and(|(seen, known)| is_other(known, &seen))
    }

    /// If the pause is over, and the local port has answered since, ends the pause and returns it.
    pub fn end_if_over(&mut self, now: Time) -> Option<Wait> {
        let is_over = |wait: &Wait| wait.until <= now && !self.is_open && self.asked >= wait.until;
        let over = self.wait.filter(is_over)?;
        self.wait = None;
        self.waited_ns += over.wait_ns;
        Some(over)
    }
}

/// True if a port has changed: its link went down, or another manager set itself as its master. A link that goes from
/// ARMED to ACTIVE has not changed in this sense: the first packet makes it ACTIVE. Source: IBA vol 1 §7.2.7 (link
/// state machine, Arm to Active).
fn is_other(known: &Port, seen: &PortInfo) -> bool {
    let state = seen.state.unwrap_or(PortState::Down);
    let held = &known.settings;
    state < known.link.state || (seen.lid, seen.sm_lid) != (held.lids.base, held.sm_lid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made;

    #[test]
    fn it_is_asked_now_and_then_and_at_the_end() {
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        let wait = Wait {
            until: at(2_500),
            wait_ns: 2_500_000_000,
            phase: 1,
            phases: 2,
            label: "",
        };
        let interval = Duration::from_secs(1);
        let mut pause = Pause::default();
        pause.begin(wait, at(0));
        for due in [1_000, 2_000, 2_500] {
            assert_eq!(pause.due(interval), Some(at(due)));
            assert!(!pause.asks(at(due - 1), interval));
            assert!(pause.asks(at(due), interval));
            assert_eq!(pause.due(interval), None, "one question at a time");
            assert_eq!(pause.end_if_over(at(9_000)), None);
            pause.answered(None, None);
        }
        assert_eq!(pause.due(interval), None);
        assert_eq!(pause.end_if_over(at(2_499)), None);
        assert_eq!(pause.end_if_over(at(2_500)), Some(wait));
        assert_eq!((pause.wait(), pause.waited_ns()), (None, 2_500_000_000));
    }

    #[test]
    fn a_link_that_went_or_another_master_is_another_seat() {
        let known = made::inventory(made::row());
        let check = |state: PortState, seen: PortInfo, want: bool| {
            let mut port = known.fabric.port(known.local).unwrap().clone();
            port.link.state = state;
            assert_eq!(is_other(&port, &seen), want, "{state:?} {seen:?}");
        };
        use PortState::{Active, Armed, Down, Init};
        check(Active, made::info(Active), false);
        check(Armed, made::info(Active), false);
        check(Active, made::info(Init), true);
        check(Armed, made::info(Init), true);
        check(Active, made::info(Down), true);
        let served = PortInfo {
            sm_lid: selvedge_types::Lid(7),
            ..made::info(Active)
        };
        check(Active, served, true);
    }
}
