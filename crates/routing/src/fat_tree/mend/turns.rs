//! Which detours may lie beside each other.
//!
//! A detour turns from down to up. Without the switches of one level and those below, a tree falls into pieces (in a
//! k-ary n-tree without its leaves, as many as a leaf has links up). Packets that only go up, then down, change piece
//! at a switch below by no other way than to end there. So a cycle of channels needs detours, drawn as arrows from
//! piece to piece, that follow each other back to the first. At one and the same switch no arrow follows another: what
//! goes up from there into a piece does not come down to it again. If no circle of arrows is left there is no cycle,
//! wherever the tree has a piece above each link of a switch. Turns within a piece are not told apart here: those of
//! the next level up are. The judge has the last word in any case.

use std::collections::BTreeSet;

use super::super::net::Net;
use super::super::shape::NONE;

/// A detour, as an arrow: the level it turns at, the piece it comes from, the switch, the piece it goes to.
pub type Arrow = (u32, u32, u32, u32);

/// Which arrows follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// As [`Self::UnderWay`], and none into a few pieces that are kept for what comes later: a switch that loses its link
    /// to a piece has packets for the agents there, which must turn into it from a piece that it does not lead to.
    Spare,
    /// All that lead on from piece to piece: packets that went up from a switch by what a repair has replaced may come
    /// back down to it, and be sent up again.
    UnderWay,
    /// Not those at one switch: right once such packets are gone.
    InForce,
}

/// Pieces, and the arrows of all detours in force.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// By level, then switch: its piece of what is above the level; [`NONE`]: it is not above.
    pieces: Vec<Vec<u32>>,
    /// The first piece above the leaves that is kept for what comes later.
    spare: u32,
    made: BTreeSet<Arrow>,
}

impl Turns {
    /// No detours.
    pub fn new(net: &Net, level: &[u32], levels: usize) -> Self {
        /// One piece of so many is kept.
        const KEPT: u32 = 4;
        let pieces: Vec<Vec<u32>> = (0..levels as u32).map(|below| pieces(net, level, below)).collect();
        let above_leaves = pieces.first().into_iter().flatten().filter(|piece| **piece != NONE);
        let count = above_leaves.max().map_or(0, |last| last + 1);
        Self {
            spare: count - count.div_ceil(KEPT),
            pieces,
            made: BTreeSet::new(),
        }
    }

    /// The arrow of a turn at a switch of some level, from one switch to another; `None` if it stays in its piece.
    pub fn arrow(&self, (level, at): (u32, usize), from: usize, to: usize) -> Option<Arrow> {
        let pieces = self.pieces.get(level as usize)?;
        let (from, to) = (pieces[from], pieces[to]);
        (from != to).then_some((level, from, at as u32, to))
    }

    /// Whether there is no circle with an arrow.
    pub fn allows(&self, arrow: Arrow, care: Care) -> bool {
        let (level, first, first_at, to) = arrow;
        if self.made.contains(&arrow) {
            return true;
        }
        if care == Care::Spare && level == 0 && to >= self.spare {
            return false;
        }
        let follows = |at: u32, by: u32| care != Care::InForce || at != by;
        let mut met = BTreeSet::from([(to, first_at)]);
        let mut open = vec![(to, first_at)];
        while let Some((piece, by)) = open.pop() {
            if piece == first && follows(first_at, by) {
                return false;
            }
            for &(_, _, at, next) in self.made.range((level, piece, 0, 0)..=(level, piece, NONE, NONE)) {
                if follows(at, by) && met.insert((next, at)) {
                    open.push((next, at));
                }
            }
        }
        true
    }

    /// The piece of what is above the leaves that a switch is in.
    pub fn piece(&self, switch: usize) -> u32 {
        self.pieces.first().map_or(NONE, |pieces| pieces[switch])
    }

    /// A detour is in force.
    pub fn add(&mut self, arrow: Arrow) {
        self.made.insert(arrow);
    }
}

/// The pieces of what is above a level, live links or not.
fn pieces(net: &Net, level: &[u32], below: u32) -> Vec<u32> {
    let mut piece = vec![NONE; net.total()];
    let mut next = 0;
    for first in 0..net.total() {
        if level[first] <= below || piece[first] != NONE {
            continue;
        }
        piece[first] = next;
        let mut open = vec![first];
        while let Some(s) = open.pop() {
            for link in net.links.get(s) {
                let peer = link.peer as usize;
                if level[peer] > below && piece[peer] == NONE {
                    piece[peer] = next;
                    open.push(peer);
                }
            }
        }
        next += 1;
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_make_no_circle() {
        let check_with = |made: &[(u32, u32, u32)], arrow: (u32, u32, u32), care, want: bool| {
            let mut turns = Turns::default();
            made.iter().for_each(|&(from, at, to)| turns.add((0, from, at, to)));
            // Other levels do not count.
            turns.add((1, arrow.2, arrow.1 + 1, arrow.0));
            let arrow = (0, arrow.0, arrow.1, arrow.2);
            assert_eq!(turns.allows(arrow, care), want, "{made:?} {arrow:?}");
        };
        let check = |made: &[_], arrow, want| check_with(made, arrow, Care::InForce, want);
        check(&[], (1, 8, 2), true);
        check(&[(1, 8, 2)], (1, 8, 2), true);
        check(&[(2, 9, 1)], (1, 8, 2), false);
        // At one switch nothing follows, but for what is under way.
        check(&[(2, 8, 1)], (1, 8, 2), true);
        check_with(&[(2, 8, 1)], (1, 8, 2), Care::UnderWay, false);
        check_with(&[(2, 8, 1)], (3, 8, 2), Care::UnderWay, true);
        check(&[(1, 7, 2), (2, 8, 3)], (1, 9, 3), true);
        // All pieces are kept here.
        check_with(&[], (1, 8, 2), Care::Spare, false);
        check_with(&[(1, 8, 2)], (1, 8, 2), Care::Spare, true);
        check(&[(1, 7, 2), (2, 8, 3)], (3, 9, 1), false);
        check(&[(1, 7, 2), (2, 8, 3)], (3, 7, 1), true);
        check(&[(1, 7, 2), (2, 8, 3), (2, 8, 4)], (4, 9, 3), true);
        check(&[(1, 7, 2), (2, 8, 3), (3, 7, 4)], (4, 8, 1), false);
    }
}
