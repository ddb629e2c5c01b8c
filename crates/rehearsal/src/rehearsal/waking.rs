//! Work that is due now: first results of jobs and of the disk, then timers.

use selvedge_sm::Input;

use crate::checkers::Seen;
use crate::manager::Life;
use crate::{ManagerId, Rehearsal, RehearsalError};

impl Rehearsal {
    /// Does the work that is due: first completions, then timers, manager by manager.
    pub(super) fn work_due(&mut self) -> Result<(), RehearsalError> {
        for id in (0..self.managers.len()).map(ManagerId) {
            let now = self.now;
            while let Some(done) = self.managers[id.0].life.as_mut().and_then(|life| life.take_done(now)) {
                self.finish(id, done)?;
            }
            self.wake_coordinator(id)?;
            if self.life(id).and_then(Life::next_wake).is_some_and(|at| at <= now) {
                self.wake(id)?;
            }
        }
        Ok(())
    }

    /// Wakes a manager.
    fn wake(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        let outputs = self.counts.outputs_taken;
        self.observe(&Seen::Wakes { id, outputs })?;
        self.hand(id, Input::Wake)?;
        let outputs = self.counts.outputs_taken;
        self.observe(&Seen::Woken { id, outputs })
    }
}
