//! Checks that a judge has accepted every Set.

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::seen::Seen;
use super::sets::changes_an_agent;
use crate::Violation;
use crate::passed::Passed;

/// Checks that a manager sends no Set that its judge has not accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct SetsJudged;

impl Check for SetsJudged {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        let Seen::Sends { id, datagram, .. } = *seen else {
            return Ok(());
        };
        let mad = &datagram.mad;
        let manager = ctx.managers.get(id.0);
        let manager = manager.filter(|_| changes_an_agent(mad) && !ctx.evidence.is_outside());
        let is_judged = |passed: &Passed| passed.contains(mad);
        match manager.filter(|manager| !manager.passed.as_ref().is_none_or(is_judged)) {
            Some(manager) => Err(Violation::NeverJudged {
                manager: manager.name.clone(),
                what: format!("{mad}"),
            }),
            None => Ok(()),
        }
    }
}
