//! LIDs that ports gave up. No other port gets such a LID while packets to this LID may be in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::{Installed, Plan};
use selvedge_planner::past::leaving;
use selvedge_sim::Time;
use selvedge_types::Lid;

/// How long a plan waits at least before it tries again to give ports LIDs that they could not get.
const PAUSE: Duration = Duration::from_secs(1);

/// LIDs that were given up a short while ago.
#[derive(Clone, Debug, Default)]
pub struct GivenUp {
    until: BTreeMap<Lid, Time>,
    /// LIDs that the plan which is being applied takes from their holders, and how long packets to them live.
    leaving: (BTreeSet<Lid>, Duration),
    /// When ports that wait for LIDs of other ports may get them; see `selvedge_planner::lid::is_short`.
    again: Option<Time>,
}

impl GivenUp {
    /// Records the LIDs that ports give up, before a plan is applied to a fabric with these tables.
    pub fn begin(&mut self, fabric: &Fabric, installed: &Installed, plan: &Plan) {
        self.leaving = leaving(fabric, installed, plan);
    }

    /// Handles the end of a plan, whether it was applied in full or in part.
    pub fn settle(&mut self, now: Time) {
        let (leaving, drain) = std::mem::take(&mut self.leaving);
        self.until.retain(|_, until| *until > now);
        self.until.extend(leaving.into_iter().map(|lid| (lid, now + drain)));
    }

    /// Returns the given-up LIDs to which packets may still be in flight.
    pub fn resting(&self, now: Time) -> BTreeSet<Lid> {
        let resting = self.until.iter().filter(|(_, until)| **until > now);
        resting.map(|(lid, _)| *lid).collect()
    }

    /// Records whether the plan in force gives ports fewer LIDs than wanted.
    pub fn set_short(&mut self, is_short: bool, now: Time) {
        let last = self.until.values().max().copied().unwrap_or(now);
        self.again = is_short.then(|| last.max(now + PAUSE));
    }

    /// Returns when waiting ports may get LIDs, if that time is still ahead.
    pub fn due(&self, now: Time) -> Option<Time> {
        self.again.filter(|again| *again > now)
    }

    /// True if ports may get the LIDs that they wait for.
    pub fn is_due(&self, now: Time) -> bool {
        self.again.is_some_and(|again| again <= now)
    }

    /// Notes that a sweep begins which gives the waiting ports their LIDs.
    pub const fn swept(&mut self) {
        self.again = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lid_rests_until_its_packets_are_gone() {
        let mut given_up = GivenUp {
            leaving: (BTreeSet::from([Lid(7)]), Duration::from_secs(2)),
            ..GivenUp::default()
        };
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        given_up.settle(at(1));
        assert_eq!(given_up.due(at(1)), None);
        given_up.set_short(true, at(1));
        assert_eq!(given_up.due(at(1)), Some(at(3)));
        assert_eq!(given_up.resting(at(2)).len(), 1);
        assert!(!given_up.is_due(at(2)));
        assert!(given_up.resting(at(3)).is_empty());
        assert!(given_up.is_due(at(3)));
        given_up.swept();
        assert!(!given_up.is_due(at(3)));
        // Nothing is waited for but a second plan.
        given_up.set_short(true, at(5));
        assert_eq!(given_up.due(at(5)), Some(at(6)));
    }
}
