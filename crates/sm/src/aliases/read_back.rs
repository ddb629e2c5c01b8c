//! Reads GUIDInfo back after light sweeps, as forwarding tables are: blocks that were written since, and a share of the
//! others, so that each is read once in [`Config::read_back_sweeps`](crate::Config) light sweeps.
//!
//! What differs is known from then on as it is, told, and written again.

use super::{AliasGuids, Naming, Place, reachable};
use crate::config::Mode;
use crate::core::Sm;
use crate::election::Role;
use crate::stage::Stage;

impl AliasGuids {
    /// Blocks whose turn it is, each of them known.
    fn turn(&mut self, sweeps: u32) -> Vec<Place> {
        let share = match sweeps {
            0 => 0,
            sweeps => self.held.len().div_ceil(sweeps as usize),
        };
        let behind = |place: &&Place| self.last_read.is_none_or(|last| **place > last);
        let turn: Vec<Place> = self
            .held
            .keys()
            .filter(behind)
            .chain(self.held.keys())
            .take(share)
            .copied()
            .collect();
        self.last_read = turn.last().copied().or(self.last_read);
        let mut all = std::mem::take(&mut self.fresh);
        all.extend(turn);
        all.retain(|place| self.held.contains_key(place) && !self.unread.contains(place));
        all.into_iter().collect()
    }
}

impl Sm {
    /// A light sweep has found nothing, and switches copy as they should: now ports are asked for their GUIDs.
    pub(crate) fn read_guids_back(&mut self) {
        let is_ours = self.config.mode == Mode::Manage && self.role() == Role::Master;
        let Some(inventory) = self.inventory.clone().filter(|_| is_ours) else {
            return;
        };
        let aliases = &mut self.aliases;
        let mut places = aliases.turn(self.config.read_back_sweeps);
        places.retain(|(port, _)| !aliases.mute.contains_key(port));
        let places = places.into_iter();
        let places = places.filter_map(|place| Some((reachable(&inventory.fabric, place.0)?, place)));
        let places: Vec<_> = places.collect();
        if !places.is_empty() {
            self.stage = Stage::Naming(Box::new(Naming::reading_back(inventory, places)));
        }
    }
}
