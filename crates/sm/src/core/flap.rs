//! Connects the flap quarantine with the rest of the manager.

use super::Sm;
use crate::event::SweepReason;
use crate::flap::{Ctx, Effect, Flaps, In};
use crate::io::Output;

impl Sm {
    /// Hands an input to the flap quarantine, and carries out its effects.
    pub(crate) fn flap(&mut self, input: In, out: &mut Vec<Output>) {
        let ctx = Ctx {
            now: self.now,
            policy: &self.config.policy,
        };
        let mut effects = Vec::new();
        self.flaps.handle(&ctx, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Event(event) => out.push(Output::Event(event)),
                Effect::Probe(guid) => {
                    let inventory = self.inventory.as_ref();
                    if let Some(node) = inventory.and_then(|inventory| inventory.fabric.find(guid)) {
                        self.suspect(node, SweepReason::Interval);
                    }
                }
            }
        }
    }

    /// Returns the flap quarantine, for queries.
    pub(crate) const fn flaps(&self) -> &Flaps {
        &self.flaps
    }
}
