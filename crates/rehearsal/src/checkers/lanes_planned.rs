//! At rest, packets are put on the lanes that the plan names.

use super::check::Check;
use super::evidence::Evidence;
use super::ledger::Ledger;
use super::seen::{Scene, Seen};
use crate::Violation;
use crate::lanes;

/// Lanes as planned.
#[derive(Clone, Copy, Debug)]
pub(super) struct LanesPlanned;

impl Check for LanesPlanned {
    fn see(
        &mut self,
        scene: &Scene<'_>,
        _evidence: &Evidence,
        seen: &Seen<'_>,
        _found: &mut Ledger,
    ) -> Result<(), Violation> {
        let Seen::Content { life, at } = *seen else {
            return Ok(());
        };
        let is_here = |port| scene.subnets.connected(port, at);
        let accepted = life.plans.accepted();
        let wrong = accepted.and_then(|accepted| lanes::first_unplanned(scene.chassis(), accepted, is_here));
        wrong.map_or(Ok(()), |what| Err(Violation::Lanes { what }))
    }
}
