//! Finds the connected pieces between two levels, and the position of every upper neighbour in them.

use std::collections::BTreeMap;

use super::net::Net;
use super::shape::by_level;

/// Disjoint sets that can be merged.
pub(super) struct Union(Vec<usize>);

impl Union {
    /// Returns sets in which every element is alone.
    pub fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    /// Returns the element that represents the set of an element.
    pub fn find(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    /// Merges two sets.
    pub fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// The positions above every switch.
#[derive(Clone, Debug, Default)]
pub(super) struct Joined {
    /// By switch: the piece in which it is a lower switch.
    pub piece: Vec<usize>,
    /// By switch: the number of positions above it, holes included.
    pub positions: Vec<u32>,
    /// By switch: the number of parallel links to each upper neighbour.
    pub width: Vec<u32>,
    /// By switch: true if the positions of its piece are used; false if only the neighbours that it has are counted.
    complete: Vec<bool>,
    /// By switch: its position as an upper switch in the piece below it.
    slot: Vec<u32>,
}

impl Joined {
    /// Returns the position of upper neighbour `peer` of `s`; it is the `i`-th such neighbour.
    pub fn slot_of(&self, s: usize, peer: u32, i: usize) -> usize {
        if self.complete[s] {
            self.slot[peer as usize] as usize
        } else {
            i
        }
    }
}

/// One piece.
#[derive(Default)]
struct Piece {
    children: Vec<usize>,
    parents: Vec<usize>,
    pairs: usize,
    width: u32,
}

/// Finds all pieces of the tree and the positions in them, from the top level down. So positions agree between pods:
/// switches of different pods that lead up to the same top switches have the same position.
pub(super) fn slots_of_pieces(net: &Net, level: &[u32], count: usize, stray: &[bool], by_guid: &[u32]) -> Joined {
    let total = net.total();
    let mut joined = Joined {
        piece: vec![0; total],
        positions: vec![0; total],
        width: vec![1; total],
        complete: vec![false; total],
        slot: vec![0; total],
    };
    let is_tree_up = |s: usize, peer: u32| level[peer as usize] == level[s] + 1 && !stray[peer as usize];
    let mut union = Union::new(2 * total);
    for s in 0..total {
        for link in net.links.get(s).iter().filter(|l| is_tree_up(s, l.peer)) {
            union.join(s, total + link.peer as usize);
        }
    }
    let order = by_level(level, count);
    let mut top_key: Vec<u32> = by_guid.to_vec();
    for l in (0..count).rev() {
        let mut pieces: BTreeMap<usize, Piece> = BTreeMap::new();
        for &s in order.iter().filter(|&&s| level[s] as usize == l) {
            let id = union.find(s);
            joined.piece[s] = id;
            let piece = pieces.entry(id).or_default();
            piece.children.push(s);
            let mut near: BTreeMap<u32, u32> = BTreeMap::new();
            for link in net.links.get(s).iter().filter(|k| is_tree_up(s, k.peer)) {
                *near.entry(link.peer).or_default() += 1;
            }
            piece.pairs += near.len();
            piece.width = piece.width.max(near.values().copied().max().unwrap_or(1));
            piece.parents.extend(near.keys().map(|&p| p as usize));
        }
        for piece in pieces.values_mut() {
            piece.parents.sort_unstable();
            piece.parents.dedup();
            piece.parents.sort_by_key(|&p| (top_key[p], by_guid[p]));
        }
        place(&pieces, &top_key, &mut joined, net, &is_tree_up);
        for piece in pieces.values().filter(|p| !p.parents.is_empty()) {
            let least = piece.parents.iter().map(|&p| top_key[p]).min().unwrap_or(0);
            piece.children.iter().for_each(|&s| top_key[s] = least);
        }
    }
    joined
}

fn place(
    pieces: &BTreeMap<usize, Piece>,
    top_key: &[u32],
    joined: &mut Joined,
    net: &Net,
    is_tree_up: &impl Fn(usize, u32) -> bool,
) {
    /// Least fraction of joined pairs in a piece of a full tree.
    const FULL: (usize, usize) = (3, 4);
    let positions = families(pieces, top_key);
    for (id, piece) in pieces {
        let all = piece.children.len() * piece.parents.len();
        let complete = piece.pairs * FULL.1 >= all * FULL.0;
        let (most, slots) = &positions[id];
        for &s in &piece.children {
            joined.width[s] = piece.width.max(1);
            joined.complete[s] = complete;
            joined.positions[s] = if complete {
                *most
            } else {
                let mut near: Vec<u32> = net.links.get(s).iter().map(|k| k.peer).collect();
                near.retain(|&p| is_tree_up(s, p));
                near.sort_unstable();
                near.dedup();
                u32::try_from(near.len()).unwrap_or(u32::MAX)
            };
        }
        for (&p, &slot) in piece.parents.iter().zip(slots) {
            joined.slot[p] = slot;
        }
    }
}

/// Returns the number of positions of each piece, and the position of each of its upper switches.
///
/// The key of an upper switch is a top switch that it leads to. Pieces with common keys are of one kind. A key that
/// most pieces of a kind have gets a position in all of them.
fn families(pieces: &BTreeMap<usize, Piece>, top_key: &[u32]) -> BTreeMap<usize, (u32, Vec<u32>)> {
    let keys_of = |piece: &Piece| -> Vec<u32> { piece.parents.iter().map(|&p| top_key[p]).collect() };
    let distinct = |keys: &[u32]| keys.windows(2).all(|w| w[0] != w[1]);
    let ids: Vec<usize> = pieces.keys().copied().collect();
    let mut union = Union::new(ids.len());
    let mut first_with: BTreeMap<u32, usize> = BTreeMap::new();
    for (i, piece) in pieces.values().enumerate() {
        let keys = keys_of(piece);
        if distinct(&keys) {
            for key in keys {
                let other = *first_with.entry(key).or_insert(i);
                union.join(i, other);
            }
        }
    }
    let mut members: BTreeMap<usize, (usize, BTreeMap<u32, usize>)> = BTreeMap::new();
    for (i, piece) in pieces.values().enumerate() {
        let (count, keys) = members.entry(union.find(i)).or_default();
        *count += 1;
        for key in keys_of(piece) {
            *keys.entry(key).or_default() += 1;
        }
    }
    let mut positions = BTreeMap::new();
    for (i, (&id, piece)) in pieces.iter().enumerate() {
        let keys = keys_of(piece);
        let (count, seen) = &members[&union.find(i)];
        let common: Vec<u32> = seen.iter().filter(|&(_, &n)| 2 * n > *count).map(|(&k, _)| k).collect();
        positions.insert(id, slots(&keys, if distinct(&keys) { &common } else { &[] }));
    }
    positions
}

/// Returns the positions for keys: common keys get their usual positions, and the other keys get free ones.
fn slots(keys: &[u32], common: &[u32]) -> (u32, Vec<u32>) {
    let known: Vec<Option<usize>> = keys.iter().map(|k| common.binary_search(k).ok()).collect();
    let mut taken = vec![false; common.len().max(keys.len())];
    known.iter().flatten().for_each(|&at| taken[at] = true);
    let mut free = 0;
    let mut slots = Vec::with_capacity(keys.len());
    for at in known {
        let at = at.unwrap_or_else(|| {
            // There are at least as many places as keys.
            while taken[free] {
                free += 1;
            }
            taken[free] = true;
            free
        });
        slots.push(u32::try_from(at).unwrap_or(u32::MAX));
    }
    (u32::try_from(taken.len()).unwrap_or(u32::MAX), slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_switch_leaves_a_hole() {
        let check = |keys: &[u32], common: &[u32], want: (u32, &[u32])| {
            let (count, at) = slots(keys, common);
            assert_eq!((count, &at[..]), want);
        };
        check(&[3, 5, 9], &[3, 5, 9], (3, &[0, 1, 2]));
        check(&[3, 9], &[3, 5, 9], (3, &[0, 2]));
        check(&[3, 7, 9], &[3, 5, 9], (3, &[0, 1, 2]));
        check(&[4, 4], &[], (2, &[0, 1]));
    }
}
