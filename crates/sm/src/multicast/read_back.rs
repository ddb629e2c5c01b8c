//! Reads multicast blocks back after light sweeps, as forwarding tables are: those that were written since, and a share
//! of the others, so that each is read once in [`Config::read_back_sweeps`](crate::Config) light sweeps.
//!
//! What differs is known from then on as it is, told, and all trees are planned again from there.

use super::{Copying, Multicast, Place};
use crate::config::Mode;
use crate::core::Sm;
use crate::election::Role;
use crate::stage::Stage;

impl Multicast {
    /// Blocks whose turn it is, each of them known.
    fn turn(&mut self, sweeps: u32) -> Vec<Place> {
        let known = || {
            let switches = self.held.iter();
            switches.flat_map(|(&guid, blocks)| blocks.keys().map(move |&place| (guid, place)))
        };
        let share = match sweeps {
            0 => 0,
            sweeps => known().count().div_ceil(sweeps as usize),
        };
        let behind = |place: &Place| self.last_read.is_none_or(|last| *place > last);
        let turn: Vec<Place> = known().filter(behind).chain(known()).take(share).collect();
        self.last_read = turn.last().copied().or(self.last_read);
        let is_known = |(guid, place): &Place| self.held.get(guid).is_some_and(|blocks| blocks.contains_key(place));
        let mut all = std::mem::take(&mut self.fresh);
        all.extend(turn);
        all.retain(is_known);
        all.into_iter().collect()
    }
}

impl Sm {
    /// A light sweep has found nothing: now switches are asked what they copy.
    pub(crate) fn read_copies_back(&mut self) {
        let is_ours = self.config.mode == Mode::Manage && self.role() == Role::Master;
        let Some(inventory) = self.inventory.clone().filter(|_| is_ours) else {
            return;
        };
        let multicast = &mut self.multicast;
        let mut blocks = multicast.turn(self.config.read_back_sweeps);
        blocks.retain(|(guid, _)| !multicast.mute.contains_key(guid));
        let fabric = &inventory.fabric;
        let switch = |guid| fabric.find(guid).and_then(|node| fabric.switch_index(node));
        let blocks = blocks
            .into_iter()
            .filter_map(|(guid, place)| Some((switch(guid)?, place)));
        let blocks: Vec<_> = blocks.collect();
        if blocks.is_empty() {
            return self.read_guids_back();
        }
        self.stage = Stage::Copying(Box::new(Copying::reading_back(inventory, blocks)));
    }
}
