//! What a manager's intake has held: handed over when its time has come.

use selvedge_sm::Input;

use crate::{ManagerId, Rehearsal, RehearsalError};

impl Rehearsal {
    /// Ends the intervals of a manager's intake that are over. The manager gets the traps that it may have now.
    pub(super) fn attend_intake(&mut self, id: ManagerId) -> Result<(), RehearsalError> {
        let now = self.now;
        let Some(life) = &mut self.managers[id.0].life else {
            return Ok(());
        };
        let mut out = Vec::new();
        let released = life.intake.wake(now, &mut out);
        out.into_iter().try_for_each(|output| self.carry_out(id, output))?;
        let mut released = released.into_iter();
        released.try_for_each(|datagram| self.hand_over(id, Input::Received(datagram), false))
    }
}
