//! Why what a checker found is not held against a manager: by what had happened since it looked.

use std::time::Duration;

use selvedge_chassis::Chassis;
use selvedge_sim::Time;
use selvedge_sm::Role;

use super::{Checker, Rule, Watcher};
use crate::Violation;
use crate::invariant::TWO_MASTERS_MAX;
use crate::manager::{Life, Manager, ManagerId};

/// A flipped bit may still be on its way, or in what a manager believes, for so long.
const CORRUPT_ECHO: Duration = Duration::from_secs(1);

impl Watcher {
    /// True if a rule excuses what another checker found.
    pub fn excuses(&mut self, now: Time, violation: &Violation, chassis: &Chassis, managers: &[Manager]) -> bool {
        let checker = match violation {
            Violation::LidTwice { .. } => Checker::LidsUnique,
            Violation::ActiveTooEarly { .. } => Checker::Activation,
            Violation::Loop { .. } => Checker::Loops,
            _ => return false,
        };
        let masters = (0..)
            .map(ManagerId)
            .zip(managers)
            .filter_map(|(id, m)| Some((id, m.life.as_ref()?)));
        let mut masters = masters.filter(|(_, life)| life.sm.role() == Role::Master);
        let mut looked_at = None;
        let excuse = match (masters.next(), masters.next()) {
            (Some((id, life)), None) => {
                looked_at = life.looked_at;
                self.excuse_of(now, Some((id, looked_at)), Some(life))
            }
            _ => Some(Rule::SeveralMasters),
        };
        let excuse = excuse.or(self.excused);
        let excuse = match violation {
            Violation::LidTwice { lid, .. } if self.lids.is_held_by_ranges(chassis, *lid) => Some(Rule::OtherLids),
            Violation::Loop { .. } => excuse.or_else(|| self.unheard_excuse(looked_at, now)),
            _ => excuse,
        };
        self.judge(checker, excuse, || violation.clone()).is_ok()
    }

    /// True if what is believed then may come from a flipped bit.
    pub(super) fn echoes_flipped_bits(&self, then: Time) -> bool {
        self.corrupting || self.corrupted.is_some_and(|at| at + CORRUPT_ECHO >= then)
    }

    /// Why a Set that was taken just now may do harm.
    pub(super) fn excuse_of(
        &self,
        now: Time,
        by: Option<(ManagerId, Option<Time>)>,
        life: Option<&Life>,
    ) -> Option<Rule> {
        let (Some((manager, looked_at)), Some(life)) = (by, life) else {
            // A flipped bit made its transaction id one that nobody sent, or its manager is no more.
            return Some(if self.corrupting {
                Rule::CorruptMedium
            } else {
                Rule::LateSet
            });
        };
        let since = looked_at.unwrap_or(Time::ZERO);
        let after = |at: Option<Time>| at.is_some_and(|at| at >= since);
        if self.echoes_flipped_bits(since.min(now)) {
            return Some(Rule::CorruptMedium);
        }
        // It goes by the tables of its last sweep until the next one.
        let swept_at = life.swept_at.map_or(since, |at| at.min(since));
        let others = self.last_set.iter().filter(|(id, _)| **id != manager);
        // Who looks at some ports sees no tables.
        let is_unaware = |at: Time| at >= since || at >= swept_at && at + TWO_MASTERS_MAX >= now;
        if others.map(|(_, at)| *at).max().is_some_and(is_unaware) {
            return Some(Rule::SeveralMasters);
        }
        // What an earlier life had sent came after the tables were read: it is as if another master had written them.
        if self.bequeathed.is_some_and(is_unaware) {
            return Some(Rule::LateSet);
        }
        if after(self.disturbed) {
            return Some(Rule::Overtaken);
        }
        if !self.lies.is_empty() || after(self.lied) {
            return Some(Rule::LyingAgent);
        }
        if self.clones || after(self.cloned) {
            return Some(Rule::ClonedGuid);
        }
        None
    }
}
