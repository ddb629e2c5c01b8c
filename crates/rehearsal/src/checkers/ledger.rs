//! Violations that checkers found, and counts of those that rules excuse.

use std::collections::BTreeMap;

use selvedge_sim::Time;

use super::rules::{Checker, Exemptions, Rule};
use crate::Violation;

/// Violations that one checker found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Number of violations.
    pub count: u64,
    /// The first violation, with its time.
    pub first: String,
}

/// Violations found during a run.
pub type Findings = BTreeMap<Checker, Found>;

/// Collects the violations that checkers find.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    exemptions: Exemptions,
    /// Violations found so far, if managers are programs of their own: then a violation does not end the run.
    findings: Option<Findings>,
    /// Time of the last check.
    now: Time,
}

impl Ledger {
    /// Counts violations from now on, instead of ending the run.
    pub fn count_all(&mut self) {
        self.findings = Some(Findings::default());
    }

    /// Sets the time of the violations that are found from now on.
    pub const fn set_time(&mut self, now: Time) {
        self.now = now;
    }

    pub const fn exemptions(&self) -> &Exemptions {
        &self.exemptions
    }

    pub fn findings(&self) -> Findings {
        self.findings.clone().unwrap_or_default()
    }

    /// Counts a violation that a rule excuses.
    pub fn excuse(&mut self, checker: Checker, rule: Rule) {
        *self.exemptions.entry((checker, rule)).or_default() += 1;
    }

    /// Handles a violation, which a rule may excuse.
    pub fn judge(
        &mut self,
        checker: Checker,
        excuse: Option<Rule>,
        violation: impl FnOnce() -> Violation,
    ) -> Result<(), Violation> {
        match excuse {
            Some(rule) => {
                self.excuse(checker, rule);
                Ok(())
            }
            None => self.raise(checker, violation()),
        }
    }

    /// Counts a violation if violations are counted; otherwise returns it.
    pub fn raise(&mut self, checker: Checker, violation: Violation) -> Result<(), Violation> {
        let Some(findings) = &mut self.findings else {
            return Err(violation);
        };
        let found = findings.entry(checker).or_default();
        if found.count == 0 {
            found.first = format!("at {}: {violation}", self.now);
        }
        found.count += 1;
        Ok(())
    }
}
