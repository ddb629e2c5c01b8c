//! The one way into each checker: an observation goes in, violations come out.

use super::evidence::Evidence;
use super::ledger::Ledger;
use super::seen::{Scene, Seen};
use crate::Violation;

/// A checker: the state of one subject, which only it can see.
pub(super) trait Check {
    /// Takes an observation in. Returns the first violation that no rule excuses.
    fn see(
        &mut self,
        scene: &Scene<'_>,
        evidence: &Evidence,
        seen: &Seen<'_>,
        found: &mut Ledger,
    ) -> Result<(), Violation>;
}
