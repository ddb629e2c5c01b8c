//! Connects the LIDs of ports with the rest of the manager.

use selvedge_fabric::Fabric;

use super::Sm;
use crate::config::Mode;
use crate::io::Output;
use crate::lid_book::{Effect, In};
use crate::persist;

impl Sm {
    /// Hands an input to the LIDs of ports; returns its effects.
    pub(crate) fn tell_lids(&mut self, input: In<'_>) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.lids.handle(input, &mut effects);
        effects
    }

    /// Decides which port has which LIDs, before a plan for a fabric is made.
    pub(crate) fn settle_whose_lids(&mut self, fabric: &Fabric, out: &mut Vec<Output>) {
        for effect in self.tell_lids(In::Planning(fabric)) {
            match effect {
                Effect::Event(event) => out.push(Output::Event(event)),
                Effect::Foreign => self.update_stored(persist::In::Foreign, out),
                Effect::Strangers => {}
            }
        }
    }

    /// Handles the fabric of a sweep. Returns true if one more sweep is needed to confirm LIDs: ports that this master
    /// manages hold other LIDs than the known ones, but did not in the previous sweep. (A plan keeps a LID that a port
    /// shows, and does not set it, so a wrong answer would go unnoticed.)
    pub(crate) fn must_see_lids_again(&mut self, fabric: &Fabric) -> bool {
        let is_news = !self.tell_lids(In::Found(fabric)).is_empty();
        self.config.mode == Mode::Manage && is_news
    }
}
