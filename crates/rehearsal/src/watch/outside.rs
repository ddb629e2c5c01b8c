//! What is different where managers are programs: nothing of their plans is known, so that rules go by time alone, and
//! what is found is counted instead of ending the run. The same holds for every program.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_sim::Time;
use selvedge_types::LidRange;

use super::{Checker, Rule, Watcher};
use crate::Violation;
use crate::manager::ManagerId;

/// What a manager may have looked at before something changed: its sweep and its plan take less.
const LOOKED_WITHIN: Duration = Duration::from_secs(1);
/// A node that was hidden is found by the next light sweep.
const BLIND_ECHO: Duration = Duration::from_secs(12);

/// What a checker found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How often.
    pub count: u64,
    /// The first, with its time.
    pub first: String,
}

/// What checkers found while a run went on.
pub type Findings = BTreeMap<Checker, Found>;

/// What is kept of a run that goes on whatever is found.
#[derive(Clone, Debug, Default)]
pub(super) struct Counting {
    pub findings: Findings,
    /// Nodes that are hidden from management just now, and when there last were some.
    hidden: u32,
    blind: Option<Time>,
    /// For how long packets to somebody went in circles.
    pub looping: Duration,
    /// When it was last looked, and whether some did then.
    last: Option<(Time, bool)>,
}

impl Watcher {
    /// From now on what is found is counted, and managers are programs.
    pub fn count_all(&mut self) {
        self.counting = Some(Box::default());
    }

    /// What was found, and for how long packets went in circles.
    pub fn findings(&self) -> (Findings, Duration) {
        let counting = self.counting.as_deref();
        counting.map_or_else(Default::default, |c| (c.findings.clone(), c.looping))
    }

    /// A node is hidden from management, or no longer.
    pub fn hides(&mut self, now: Time, hidden: bool) {
        if let Some(counting) = &mut self.counting {
            counting.blind = Some(now);
            counting.hidden = match hidden {
                true => counting.hidden.saturating_add(1),
                false => counting.hidden.saturating_sub(1),
            };
        }
    }

    /// Counts a finding where findings are counted; else it is handed back.
    pub(super) fn raise(&mut self, checker: Checker, violation: Violation) -> Result<(), Violation> {
        let Some(counting) = &mut self.counting else {
            return Err(violation);
        };
        let found = counting.findings.entry(checker).or_default();
        if found.count == 0 {
            found.first = format!("at {}: {violation}", self.now);
        }
        found.count += 1;
        Ok(())
    }

    /// Why a Set of a program may do harm.
    pub(super) fn excuse_outside(&self, now: Time, manager: Option<ManagerId>) -> Option<Rule> {
        let Some(manager) = manager else {
            return Some(if self.corrupting {
                Rule::CorruptMedium
            } else {
                Rule::LateSet
            });
        };
        let lately = |at: Option<Time>| at.is_some_and(|at| at + LOOKED_WITHIN >= now);
        if self.corrupting || lately(self.corrupted) {
            return Some(Rule::CorruptMedium);
        }
        let others = self.last_set.iter().filter(|(id, _)| **id != manager);
        if lately(others.map(|(_, at)| *at).max()) {
            return Some(Rule::SeveralMasters);
        }
        if lately(self.disturbed) {
            return Some(Rule::Overtaken);
        }
        if !self.lies.is_empty() || lately(self.lied) {
            return Some(Rule::LyingAgent);
        }
        (self.clones || lately(self.cloned)).then_some(Rule::ClonedGuid)
    }

    /// Why a circle is not held against a program.
    pub(super) fn circle_excuse_outside(&self, now: Time) -> Option<Rule> {
        let counting = self.counting.as_ref()?;
        let is_blind = counting.hidden > 0 || counting.blind.is_some_and(|at| at + BLIND_ECHO >= now);
        is_blind.then_some(Rule::Unseen)
    }

    /// Adds up for how long packets to somebody go in circles.
    pub(super) fn clock_circles(&mut self, now: Time) {
        let any = self.routes.circles().any(|lid| self.routes.is_of_somebody(lid));
        if let Some(counting) = &mut self.counting {
            if let Some((since, true)) = counting.last {
                counting.looping += now.since(since);
            }
            counting.last = Some((now, any));
        }
    }

    /// Two ports hold a LID that one of them has just got.
    pub(super) fn unique_outside(
        &mut self,
        chassis: &Chassis,
        (port, range): (PortIdx, LidRange),
        excuse: Option<Rule>,
    ) -> Result<(), Violation> {
        let Some(lid) = range.iter().find(|&lid| self.lids.is_twice(chassis, lid)) else {
            return Ok(());
        };
        let ranges = self.lids.is_held_by_ranges(chassis, lid).then_some(Rule::OtherLids);
        let first = chassis.fabric().port_name(chassis.port_ref(port));
        let second = "another port".to_owned();
        self.judge(Checker::LidsUnique, excuse.or(ranges), || Violation::LidTwice {
            lid,
            first,
            second,
        })
    }
}
