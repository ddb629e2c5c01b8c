//! Plans a change set with hosts that join while packets of a recent change are in flight.

use selvedge_plan::ChangeSet;
use selvedge_verify::phases::{self, Word};

use super::{Step, Way, What};

impl Way<'_> {
    /// Returns the change set for the case that no entry changes but hosts join. If packets of recently changed entries
    /// and packets from or to these hosts could wait for each other, the change set first waits until the former are
    /// gone.
    pub(super) fn with_newcomers(&self, base: ChangeSet) -> ChangeSet {
        let Some(past) = &self.past else { return base };
        let may_meet = || match phases::Wake::may_be_of(self.fabric, &base) {
            // Entries become effective too, which this check does not consider.
            true => phases::newcomers_come(self.fabric, &base),
            false => phases::newcomers_may_meet(self.subject(self.in_force), past, &base),
        };
        match may_meet() && self.word(&[]) != Word::Safe {
            true => self.assemble(base, &[], Word::LeadsOut),
            false => base,
        }
    }

    /// Returns how long to wait after these steps, in nanoseconds.
    pub(super) fn wait_behind_ns(&self, steps: &[Step]) -> u64 {
        let nothing = Step {
            what: What::Change,
            waits: true,
            writes: Vec::new(),
        };
        let steps: Vec<Step> = steps.iter().cloned().chain([nothing]).collect();
        self.waits_ns(&steps).pop().unwrap_or(0)
    }
}
