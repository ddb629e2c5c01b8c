//! Withdrawal: decides when a sweep takes links out of service for good.
//!
//! The plan that moves routes off a link is made while the link still carries packets ([`In::Applied`]). When the
//! packets of older entries are gone, the timer `Withdrawal` begins another sweep. That sweep leaves the link out, and
//! its plan disables the port if the place is isolated. `selvedge_planner::out_of_service` decides which links and
//! ports of a fabric the list covers.

use std::time::Duration;

use selvedge_sim::Time;

/// Time between a plan and the next sweep. Packets of older entries live for two packet lifetimes, about 2 s.
const SETTLES_IN: Duration = Duration::from_secs(3);
/// Largest number of sweeps in a row that this module begins. If an agent refuses the Set each time, only the next
/// regular sweep tries again. Once a plan has no failed Sets any more, the count begins anew.
const SWEEPS_MAX: u32 = 8;

/// When the next sweep takes links out of service.
#[derive(Debug, Default)]
pub struct Withdrawal {
    due: Option<Time>,
    /// Sweeps begun since the operator changed the list, or since a plan without failed Sets followed one with some.
    sweeps: u32,
    /// True if Sets of the last plan failed.
    has_failed: bool,
}

/// The inputs of this sub-machine.
#[derive(Clone, Copy, Debug)]
pub enum In {
    /// The operator has changed the policy.
    Wanted,
    /// A plan is in force.
    Applied {
        /// True if links that are out of service still carry packets, or are not disabled yet.
        is_pending: bool,
        /// True if Sets of the plan failed.
        has_failed: bool,
    },
    /// The time of [`Withdrawal::due`] has come.
    Due {
        /// True if packets of older entries may be in flight.
        has_packets: bool,
    },
}

/// The effects that the outer machine carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Begin a heavy sweep.
    Sweep,
}

impl Withdrawal {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, now: Time, input: In, effects: &mut Vec<Effect>) {
        match input {
            In::Wanted => (self.due, self.sweeps) = (None, 0),
            In::Applied { is_pending, has_failed } => {
                if std::mem::replace(&mut self.has_failed, has_failed) && !has_failed {
                    self.sweeps = 0;
                }
                self.due = (is_pending && self.sweeps < SWEEPS_MAX).then(|| now + SETTLES_IN);
            }
            In::Due { has_packets: true } => self.due = Some(now + SETTLES_IN),
            In::Due { has_packets: false } => {
                self.due = None;
                self.sweeps += 1;
                effects.push(Effect::Sweep);
            }
        }
    }

    /// Returns when the next sweep is due.
    pub const fn due(&self) -> Option<Time> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_follows_when_packets_are_gone_and_never_without_end() {
        let mut withdrawal = Withdrawal::default();
        let mut hand = |second: u64, input: In| {
            let mut effects = Vec::new();
            withdrawal.handle(Time::from_secs(second), input, &mut effects);
            (withdrawal.due().map(|due| due.0 / 1_000_000_000), effects.len())
        };
        let applied = |is_pending: bool| In::Applied {
            is_pending,
            has_failed: is_pending,
        };
        assert_eq!(hand(0, applied(false)), (None, 0));
        assert_eq!(hand(1, applied(true)), (Some(4), 0));
        assert_eq!(hand(4, In::Due { has_packets: true }), (Some(7), 0));
        assert_eq!(hand(7, In::Due { has_packets: false }), (None, 1));
        for _ in 1..SWEEPS_MAX {
            assert_eq!(hand(8, applied(true)), (Some(11), 0));
            assert_eq!(hand(11, In::Due { has_packets: false }), (None, 1));
        }
        // A port refuses each time.
        assert_eq!(hand(12, applied(true)), (None, 0));
        assert_eq!(hand(13, In::Wanted), (None, 0));
        for second in 14..14 + u64::from(SWEEPS_MAX) {
            assert_eq!(hand(second, applied(true)), (Some(second + 3), 0));
            assert_eq!(hand(second, In::Due { has_packets: false }), (None, 1));
        }
        assert_eq!(hand(30, applied(true)), (None, 0));
        // It takes the Set at last: another sweep confirms that.
        let has_failed = false;
        let is_pending = true;
        assert_eq!(hand(40, In::Applied { is_pending, has_failed }), (Some(43), 0));
    }
}
