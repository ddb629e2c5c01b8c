//! Says whether a fault is being repaired: then traps are repressed later, and agents get more SMPs at a time.

use super::Sm;
use crate::stage::Stage;

impl Sm {
    /// True while a fault is mended, and while what was mended is looked at again.
    #[must_use]
    pub fn is_at_a_fault(&self) -> bool {
        self.is_mending() || matches!(self.stage, Stage::Probing(_))
    }

    /// True while packets are lost and something is done about it at once: from the look at what a trap is about until
    /// the last entry of the repair is acknowledged, but for waits. Whatever else there is to do can come after that.
    pub(crate) fn is_mending(&self) -> bool {
        match &self.stage {
            Stage::Probing(probe) => !probe.is_check,
            Stage::Planning { .. } => self.is_repairing(),
            Stage::Applying(apply, _) => self.is_repairing() && apply.wait().is_none(),
            Stage::Idle
            | Stage::Discovering(_)
            | Stage::Electing
            | Stage::Reading { .. }
            | Stage::Persisting { .. }
            | Stage::LightSweep
            | Stage::Copying(_)
            | Stage::Naming(_)
            | Stage::Standby
            | Stage::HandingOver
            | Stage::Disabled
            | Stage::Stopped => false,
        }
    }
}
