//! The place of each switch in the tree: its rank, then one number for each level. Port groups and leaves are sorted by
//! place, so places decide which destination gets which of several equal links.

use std::collections::{BTreeSet, VecDeque};

use super::tree::{LEVELS_MAX, Tree};

/// A place: the rank, then one number per rank below the roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place([u8; LEVELS_MAX as usize]);

impl Place {
    /// The place of switches below the leaves, which need none; it sorts last.
    pub const NONE: Self = Self([0xFF; LEVELS_MAX as usize]);
    /// Range of the numbers in a place. It ends before 0xFF, so that no place equals [`Self::NONE`].
    const NUMBERS: core::ops::Range<u8> = 0..0xFF;

    fn first(rank: u32, leaf_rank: u32) -> Self {
        let mut place = Self::NONE;
        place.0[0] = u8::try_from(rank).unwrap_or(0xFE);
        for number in place.0.iter_mut().take(leaf_rank as usize + 1).skip(1) {
            *number = 0;
        }
        place
    }

    /// Returns the first free place one rank lower or higher that differs only in the number of the link's level.
    fn beside(self, down: bool, taken: &BTreeSet<Self>) -> Option<Self> {
        let rank = self.0[0];
        let level = usize::from(if down { rank + 1 } else { rank });
        let mut place = self;
        place.0[0] = if down { rank + 1 } else { rank.checked_sub(1)? };
        for number in Self::NUMBERS {
            *place.0.get_mut(level)? = number;
            if !taken.contains(&place) {
                return Some(place);
            }
        }
        None
    }
}

/// Assigns places, breadth first from the first leaf in OpenSM's GUID order; if a switch has too many neighbours,
/// returns it as `Err`.
pub(crate) fn assign(tree: &Tree) -> Result<Vec<Place>, usize> {
    let mut places = vec![Place::NONE; tree.rank.len()];
    let Some(&start) = tree.order.iter().find(|&&s| tree.is_leaf[s]) else {
        return Ok(places);
    };
    places[start] = Place::first(tree.rank[start], tree.leaf_rank);
    let mut taken = BTreeSet::from([places[start]]);
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        let down = if tree.rank[at] < tree.leaf_rank {
            &tree.down[at][..]
        } else {
            &[]
        };
        let near = down
            .iter()
            .map(|&g| (g, true))
            .chain(tree.up[at].iter().map(|&g| (g, false)));
        for (group, down) in near {
            let to = tree.groups[group].to;
            if places[to] != Place::NONE {
                continue;
            }
            places[to] = places[at].beside(down, &taken).ok_or(at)?;
            taken.insert(places[to]);
            queue.push_back(to);
        }
    }
    Ok(places)
}
