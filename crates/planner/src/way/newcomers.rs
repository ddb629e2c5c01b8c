//! Hosts that are added while packets of a recent change are under way.

use selvedge_plan::ChangeSet;
use selvedge_verify::phases::{self, Word};

use super::{Step, Way, What};

impl Way<'_> {
    /// The way if no entry changes. Hosts may come: packets of what changed a moment ago must be gone first if they and
    /// what is sent by those hosts, or to them, could wait for each other.
    pub(super) fn with_newcomers(&self, base: ChangeSet) -> ChangeSet {
        let Some(past) = &self.past else { return base };
        let may_meet = || match phases::Wake::may_be_of(self.fabric, &base) {
            // Entries come into force as well, which are not looked at there.
            true => phases::newcomers_come(self.fabric, &base),
            false => phases::newcomers_may_meet(self.subject(self.in_force), past, &base),
        };
        match may_meet() && self.word(&[]) != Word::Safe {
            true => self.assemble(base, &[], Word::LeadsOut),
            false => base,
        }
    }

    /// How long to wait after these steps, in nanoseconds.
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
