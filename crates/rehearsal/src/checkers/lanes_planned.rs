//! Checks that, while managers are idle, switches and hosts put packets on the lanes that the plan names.

use super::check::{Check, Ctx};
use super::ledger::Ledger;
use super::seen::Seen;
use crate::Violation;
use crate::lanes;

/// Checks that packets are put on the planned lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LanesPlanned;

impl Check for LanesPlanned {
    fn see(&mut self, ctx: &Ctx<'_>, seen: &Seen<'_>, _found: &mut Ledger) -> Result<(), Violation> {
        let Seen::Content { life, at } = *seen else {
            return Ok(());
        };
        let is_here = |port| ctx.subnets.connected(port, at);
        let accepted = life.plans.accepted();
        let wrong = accepted.and_then(|accepted| lanes::first_unplanned(ctx.chassis(), accepted, is_here));
        wrong.map_or(Ok(()), |what| Err(Violation::Lanes { what }))
    }
}
