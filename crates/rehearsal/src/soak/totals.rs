//! The outcome of many schedules.

use std::collections::BTreeMap;

use super::event::Kind;
use super::schedule::{Family, Schedule};
use super::{Failure, Outcome};
use crate::Exemptions;

/// Sums over schedules.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Number of schedules carried out.
    pub schedules: u64,
    /// Schedules in which a checker found a violation, by seed.
    pub failures: BTreeMap<u64, Failure>,
    /// Happenings that had an effect.
    pub happenings: u64,
    /// Sets that agents took.
    pub sets: u64,
    /// Number of runs of the checkers.
    pub looks: u64,
    /// Number of repairs that were planned before the fault: backups.
    pub known: u64,
    /// Calls that disks refused.
    pub store_failures: u64,
    /// Virtual time in ns.
    pub virtual_ns: u64,
    /// Number of events by kind, by the master's stage at that time (position in [`selvedge_sm::StageName`]), and by
    /// family.
    pub coverage: BTreeMap<(Kind, u8, Family), u64>,
    /// Violations that rules excuse, counted.
    pub exemptions: Exemptions,
}

impl Totals {
    /// Adds one schedule.
    pub fn add(&mut self, schedule: &Schedule, outcome: &Outcome) {
        self.schedules += 1;
        if let Some(failure) = &outcome.failure {
            self.failures.insert(schedule.seed, failure.clone());
        }
        self.sets += outcome.sets;
        self.looks += outcome.looks;
        self.known += outcome.known;
        self.store_failures += outcome.store_failures;
        self.virtual_ns = self.virtual_ns.saturating_add(outcome.ended.0);
        for (&(kind, stage), &count) in &outcome.coverage {
            self.happenings += count;
            *self.coverage.entry((kind, stage, schedule.family)).or_default() += count;
        }
        for (&key, &count) in &outcome.exemptions {
            *self.exemptions.entry(key).or_default() += count;
        }
    }
}
