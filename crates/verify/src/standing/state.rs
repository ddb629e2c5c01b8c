//! A 16-byte identity of the proved state: two proofs with the same identity hold for the same tables, links and
//! owners.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_sim::{Par, Seed};

use super::shape::{Arc, Shape};

/// A hash of the entries, the links that are up, the switches that are gone, the copies, and all else that a proof
/// depends on. It is a sum over all these parts, so an update takes work only for the parts that change. Two different
/// states have the same sum with a probability of about 2^-127.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct State(u128);

/// Tags of the kinds of parts.
const ENTRY: u64 = 1 << 60;
const LINK: u64 = 2 << 60;
const GONE: u64 = 3 << 60;
const COPY: u64 = 4 << 60;
const SHAPE: u64 = 5 << 60;
/// Makes the second half of a part's hash differ from the first.
const OTHER: u64 = 0x5851_F42D_4C95_7F2D;

impl State {
    /// Returns the state of tables with all cables up.
    pub(super) fn of(shape: &Shape, rows: &[[u8; BLOCK_LIDS]], par: Par) -> Self {
        let tiles: Vec<_> = rows.chunks(shape.switches.max(1)).collect();
        let sums = par.map(tiles.len(), |block| {
            let mut sum = Self(0);
            for (switch, row) in (0_u16..).zip(tiles[block]) {
                let entries = (0..).zip(row).filter(|(_, egress)| **egress != NO_PATH);
                entries.for_each(|(column, &egress)| sum.entry(switch, block * BLOCK_LIDS + column, egress, true));
            }
            sum
        });
        let mut state = Self(sums.iter().fold(0, |sum: u128, more| sum.wrapping_add(more.0)));
        state.add(SHAPE | hashed(shape) >> 4, true);
        shape.arcs.iter().for_each(|arc| state.link(*arc, true));
        state
    }

    /// Adds or removes an entry.
    pub(super) fn entry(&mut self, switch: u16, lid: usize, egress: u8, is_there: bool) {
        if egress != NO_PATH {
            self.add(
                ENTRY | u64::from(switch) << 24 | (lid as u64) << 8 | u64::from(egress),
                is_there,
            );
        }
    }

    /// Adds or removes one direction of a link that is up.
    pub(super) fn link(&mut self, arc: Arc, is_up: bool) {
        self.add(LINK | u64::from(arc.cell) << 28 | u64::from(arc.back), is_up);
    }

    /// Adds or removes a gone switch.
    pub(super) fn gone(&mut self, switch: u16, is_gone: bool) {
        self.add(GONE | u64::from(switch), is_gone);
    }

    /// Adds or removes a turn of copies.
    pub(super) fn copy(&mut self, (vertex, port): (u32, u8), is_there: bool) {
        self.add(COPY | u64::from(vertex) << 8 | u64::from(port), is_there);
    }

    const fn add(&mut self, key: u64, is_there: bool) {
        let part = (Seed(key).mixed().0 as u128) << 64 | Seed(key ^ OTHER).mixed().0 as u128;
        self.0 = if is_there {
            self.0.wrapping_add(part)
        } else {
            self.0.wrapping_sub(part)
        };
    }
}

/// Returns the hash of everything that does not change with entries and links. Links are hashed separately.
fn hashed(shape: &Shape) -> u64 {
    let mut hasher = DefaultHasher::new();
    (shape.switches, shape.cells, shape.lane_count).hash(&mut hasher);
    (&shape.takes, &shape.own, &shape.goals, &shape.lanes).hash(&mut hasher);
    hasher.finish()
}
