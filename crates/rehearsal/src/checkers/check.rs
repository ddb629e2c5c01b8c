//! The single interface of each checker: it takes observations in and returns violations.

use std::ops::Deref;

use super::evidence::Evidence;
use super::ledger::Ledger;
use super::seen::{Scene, Seen};
use crate::Violation;

/// The data that a checker may read: hardware and managers as they are now, and earlier events that a manager cannot
/// know.
#[derive(Clone, Copy)]
pub(super) struct Ctx<'a> {
    pub scene: Scene<'a>,
    pub evidence: &'a Evidence,
}

impl<'a> Deref for Ctx<'a> {
    type Target = Scene<'a>;

    fn deref(&self) -> &Scene<'a> {
        &self.scene
    }
}

/// A checker: the state of one subject, private to it.
pub(super) trait Check {
    /// Handles an observation. Returns the first violation that no rule excuses.
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, found: &mut Ledger) -> Result<(), Violation>;
}
