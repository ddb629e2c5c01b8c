//! Routes between sweeps and the rest of the manager.

use super::Sm;
use crate::event::SweepReason;

impl Sm {
    /// A heavy sweep is to begin as soon as the stage allows, for this reason rather than any before.
    pub(crate) const fn want_sweep(&mut self, reason: SweepReason) {
        self.sweep_due = Some(reason);
    }

    /// A heavy sweep is to begin as soon as the stage allows; if one is due already, that is due for its own reason.
    pub(crate) fn want_sweep_unless_due(&mut self, reason: SweepReason) {
        self.sweep_due.get_or_insert(reason);
    }

    /// No heavy sweep is to begin.
    pub(super) const fn want_no_sweep(&mut self) {
        self.sweep_due = None;
    }

    /// A repair begins for this reason: what follows from it, the check after it or a heavy sweep, has the same.
    pub(crate) const fn repairs_for(&mut self, reason: SweepReason) {
        self.sweep_reason = reason;
    }

    /// Returns true if a heavy sweep is to begin as soon as the stage allows.
    pub(crate) const fn is_sweep_due(&self) -> bool {
        self.sweep_due.is_some()
    }

    /// Returns why the last heavy sweep or repair began.
    pub(crate) const fn sweep_reason(&self) -> SweepReason {
        self.sweep_reason
    }
}
