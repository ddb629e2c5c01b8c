//! What is due now: results of jobs and of the disk, then timers.

use selvedge_sm::Input;

use crate::manager::Life;
use crate::{ManagerId, Rehearsal, RehearsalError, Violation};

impl Rehearsal {
    /// Completions first, then timers, manager by manager.
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

    /// Wakes a manager. A timer that is due as before, where nothing was put out, would be so for ever.
    fn wake(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        let state = |world: &Self| {
            let sm = &world.life(id)?.sm;
            Some((sm.next_timer()?, sm.stage_name(), world.counts.outputs_taken))
        };
        let before = state(self);
        self.hand(id, Input::Wake)?;
        match state(self) {
            Some(((_, timer), ..)) if state(self) == before => {
                let manager = self.managers[id.0].name.clone();
                Err(self.violated(Violation::TimerNotServed { manager, timer }))
            }
            _ => Ok(()),
        }
    }
}
