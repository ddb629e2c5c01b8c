//! Decides which detours may be in force together.
//!
//! A *detour* is a turn from down to up. If all switches up to some level are removed, the tree falls into *pieces*.
//! (Without its leaves, a k-ary n-tree falls into as many pieces as a leaf has links up.) Packets that go up, then
//! down, never pass from one piece to another: they come down from a piece only to end below it. So a cycle of channels
//! needs detours. Each detour is drawn as an *arrow* from the piece that the packet comes down from to the piece that
//! it goes up into. A cycle of channels needs arrows that follow each other back to the first.
//!
//! At one switch no arrow follows another: packets that go up from a switch into a piece do not come down to it again,
//! unless another detour further up in the piece turns them round. If there is no cycle of arrows, there is no cycle of
//! channels, provided that the tree has a piece above each link of a switch. Turns within a piece are no arrows at this
//! level, but they are arrows at the next level up. In any case the judge decides.
//!
//! Detours that turn only at one leaf and at the switches above it, at any level, make no cycle at all: packets that go
//! up from there come down elsewhere. A plan of a damaged tree made from scratch has nearly all its detours there, so
//! repairs try these places first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::bits::BitSets;
use super::super::net::Net;
use super::super::shape::NONE;

/// A detour as an arrow from one piece of the tree to another: the level at which it turns, the piece that packets come
/// down from, the switch, and the piece that they go up into.
pub type Arrow = (u32, u32, u32, u32);

/// The degree of care: which arrows count as following each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Care {
    /// The rules of [`Self::UnderWay`]; in addition, some pieces (connected parts of the tree above a level) are kept
    /// free for later detours. Reason: a switch that loses its link to a piece still has packets for the agents in this
    /// piece. They must turn into it from another piece, and no detours may lead from the lost piece to that other
    /// piece.
    Spare,
    /// All arrows that follow each other count, from one piece of the tree to the next, also those at the same switch.
    /// A packet that a replaced entry sent up from a switch may come back down to that switch, and be sent up again.
    UnderWay,
    /// All arrows that follow each other count, except arrows at the same switch. This suffices once packets of
    /// replaced entries are gone.
    InForce,
}

/// Pieces, and the arrows of all detours in force.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// By level, then switch: the piece above the level that the switch is in; [`NONE`] if it is not above the level.
    pieces: Vec<Vec<u32>>,
    /// Pieces above the leaves with this number or a higher one are kept for later detours.
    spare: u32,
    /// By level, then piece: the pieces beside it, and the piece itself. Together they are one piece of the level
    /// below.
    beside: Vec<Vec<Arc<[u32]>>>,
    made: BTreeSet<Arrow>,
    /// The detours of `made`, sorted by where they lead: the level, the piece (part of the tree) that the detour leads
    /// to, the switch, and the piece that it comes from.
    into: BTreeSet<Arrow>,
    /// Arrows of packets that the switch itself had sent up into the piece from which they come down, until a repair.
    sent_back: BTreeSet<Arrow>,
    /// By level: the pieces that arrows lead to.
    led: Vec<Led>,
    /// By switch: true for the leaf at which most detours turn, and for all switches above it. Packets that go up from
    /// one of these switches, and turn at no other switch, come back to none of them.
    meeting: Vec<bool>,
    /// For each level and each piece (connected part of the tree above the level): whether any detour turns at a switch
    /// further up within the piece, and whether any detour turns at a switch that is not in `meeting`.
    inside: Vec<Vec<[bool; 2]>>,
}

impl Turns {
    /// No detours.
    pub fn new(net: &Net, level: &[u32], levels: usize) -> Self {
        /// One in this number of pieces is kept for later detours.
        const KEPT: u32 = 4;
        let pieces: Vec<Vec<u32>> = (0..levels as u32).map(|below| pieces(net, level, below)).collect();
        let beside: Vec<Vec<Arc<[u32]>>> = (0..levels).map(|l| beside(&pieces, l)).collect();
        let count = beside.first().map_or(0, Vec::len) as u32;
        Self {
            pieces,
            spare: count - count.div_ceil(KEPT),
            made: BTreeSet::new(),
            into: BTreeSet::new(),
            sent_back: BTreeSet::new(),
            led: beside.iter().map(|beside| Led::new(beside)).collect(),
            meeting: vec![false; net.total()],
            inside: beside.iter().map(|pieces| vec![[false; 2]; pieces.len()]).collect(),
            beside,
        }
    }

    /// Makes detours turn at this leaf or above it, where possible.
    pub fn meet_at(&mut self, net: &Net, level: &[u32], leaf: usize) {
        self.meeting.fill(false);
        self.meeting[leaf] = true;
        let mut open = vec![leaf];
        while let Some(s) = open.pop() {
            for link in net.links.get(s).iter().filter(|k| level[k.peer as usize] > level[s]) {
                if !std::mem::replace(&mut self.meeting[link.peer as usize], true) {
                    open.push(link.peer as usize);
                }
            }
        }
        self.inside.iter_mut().for_each(|pieces| pieces.fill([false; 2]));
        let made: Vec<Arrow> = self.made.iter().copied().collect();
        made.into_iter().for_each(|arrow| self.note_inside(arrow));
    }

    /// True for the leaf at which detours turn where they can, and for the switches above it.
    pub fn is_meeting(&self, switch: usize) -> bool {
        self.meeting.get(switch).copied().unwrap_or(false)
    }

    /// Returns a turn at switch `at`, from neighbour `from` to neighbour `to`, as an arrow between two pieces of the
    /// tree. `None` if both neighbours are in one piece, or if the turn is not from down to up (for example between
    /// linked switches of one level).
    pub fn arrow(&self, (level, at): (u32, usize), from: usize, to: usize) -> Option<Arrow> {
        let pieces = self.pieces.get(level as usize)?;
        let (from, to) = (pieces[from], pieces[to]);
        let is_turn = from != to && from != NONE && to != NONE;
        is_turn.then_some((level, from, at as u32, to))
    }

    /// True if a detour is in force; `sends_back` as for [`Self::allows`].
    pub fn has(&self, arrow: Arrow, sends_back: bool) -> bool {
        self.made.contains(&arrow) && (!sends_back || self.sent_back.contains(&arrow))
    }

    /// True if a detour closes no cycle with other detours. `sends_back`: until now, its switch sent such packets up
    /// into the part of the tree that they now come down from.
    pub fn allows(&self, arrow: Arrow, sends_back: bool, care: Care) -> bool {
        let level = arrow.0;
        if self.has(arrow, sends_back) {
            return true;
        }
        if care == Care::Spare && !self.leaves_room(arrow) {
            return false;
        }
        let (_, from, _, to) = arrow;
        let is_on_circle = if level == 0 && care != Care::InForce {
            // Above the leaves all arrows count: detours further up may later send any packet back.
            self.leads(level, to, from)
        } else {
            self.is_on_circle(arrow, |other| {
                let is_back = || sends_back && other == arrow || self.sent_back.contains(&other);
                care != Care::InForce && is_back() || self.turns_inside((level, other.1), other.2, None)
            })
        };
        !is_on_circle && self.keeps_below(arrow)
    }

    /// True if other detours lead from the piece where this detour ends back to the piece where it begins. `comes_back`
    /// returns true for a detour if packets that its switch sends up into the piece where it begins may come back down
    /// to that switch.
    fn is_on_circle(&self, arrow: Arrow, comes_back: impl Fn(Arrow) -> bool) -> bool {
        let (level, first, first_at, to) = arrow;
        let Some(led) = self.led.get(level as usize).filter(|led| led.leads(to, first)) else {
            return false;
        };
        let follows = |arrow: Arrow, by: u32| arrow.2 != by || comes_back(arrow);
        // By piece: the switches at which arrows turn into it. Two are enough: any arrow that leads on follows an arrow
        // at the one or at the other.
        let mut met = vec![[NONE; 2]; led.places.len()];
        let mut open = vec![(to, first_at)];
        met[to as usize][0] = first_at;
        while let Some((piece, by)) = open.pop() {
            if piece == first && follows(arrow, by) {
                return true;
            }
            for (next, switches) in led.arrows(piece) {
                let places = &mut met[*next as usize];
                for &at in switches {
                    let Some(free) = places.iter().position(|&place| place == NONE) else {
                        break;
                    };
                    if !places.contains(&at) && follows((level, piece, at, *next), by) {
                        places[free] = at;
                        open.push((*next, at));
                    }
                }
            }
        }
        false
    }

    /// True if a detour within a piece above a level, one in force or `more`, may send packets back down to a switch.
    fn turns_inside(&self, (level, piece): (u32, u32), to: u32, more: Option<Arrow>) -> bool {
        let is_meeting = self.is_meeting(to as usize);
        let inside = self
            .inside
            .get(level as usize)
            .and_then(|pieces| pieces.get(piece as usize));
        inside.is_some_and(|inside| inside[usize::from(is_meeting)])
            || more.is_some_and(|(_, _, at, _)| {
                self.pieces[level as usize][at as usize] == piece && !(is_meeting && self.is_meeting(at as usize))
            })
    }

    /// True if a detour closes no cycle of detours on lower levels. Because of this detour, packets may come back down
    /// to the switch that sent them up, and detours at that switch may turn them up once more.
    fn keeps_below(&self, arrow: Arrow) -> bool {
        let beside = !self.is_meeting(arrow.2 as usize);
        (0..arrow.0).all(|level| {
            let piece = self.pieces[level as usize][arrow.2 as usize];
            let inside = self.inside[level as usize][piece as usize];
            if inside[0] && (inside[1] || !beside) {
                return true;
            }
            let mut into = self.into.range((level, piece, 0, 0)..=(level, piece, NONE, NONE));
            !into.any(|&(_, _, by, from)| {
                let other = (level, from, by, piece);
                !self.turns_inside((level, piece), by, None)
                    && self.turns_inside((level, piece), by, Some(arrow))
                    && self.is_on_circle(other, |o| self.turns_inside((level, o.1), o.2, Some(arrow)))
            })
        })
    }

    /// True if later detours still find a piece (a connected part of the tree above this level) to turn from.
    ///
    /// Above the leaves, each lost link needs such a piece, so some pieces are kept. Further up, no pieces are kept
    /// until a fault has hit a piece beside `from`, because a single fault needs none. After that, two pieces to which
    /// no detours lead from `from` are kept: one for the next lost link of piece `from`, and one for lost links of
    /// other pieces. Pieces from which a detour already turns into `from` are preferred, then the nearest. LIDs that
    /// are routed through near pieces are in the same blocks, so a detour changes few blocks.
    fn leaves_room(&self, (level, from, _, to): Arrow) -> bool {
        /// Pieces that are kept.
        const KEPT: usize = 2;
        if level == 0 {
            return to < self.spare;
        }
        let beside = self.beside(level, from);
        let Some(led) = self.led.get(level as usize) else {
            return false;
        };
        let is_hit = |piece: u32| piece != from && led.turns_elsewhere(piece, from);
        if !beside.iter().any(|&piece| is_hit(piece)) {
            return true;
        }
        let place = beside.iter().position(|&piece| piece == from).unwrap_or(0);
        let free = (0_usize..).zip(beside).filter(|(_, piece)| !led.leads(from, **piece));
        let rank = |(at, &piece): (usize, &u32)| (!led.turns(piece, from), place.abs_diff(at), piece);
        let mut free: Vec<(bool, usize, u32)> = free.map(rank).collect();
        free.sort_unstable();
        free.truncate(KEPT);
        free.len() == KEPT && !free.iter().any(|(.., piece)| led.leads(to, *piece))
    }

    /// Returns the pieces beside a piece, and the piece itself. Together they are one piece of the level below.
    fn beside(&self, level: u32, piece: u32) -> &[u32] {
        let of_level = self.beside.get(level as usize);
        of_level
            .and_then(|pieces| pieces.get(piece as usize))
            .map_or(&[], |pieces| pieces)
    }

    /// True if arrows lead from one piece to the other, or if both are the same.
    fn leads(&self, level: u32, from: u32, to: u32) -> bool {
        self.led.get(level as usize).is_none_or(|led| led.leads(from, to))
    }

    /// Returns the piece above the leaves to which a switch belongs.
    pub fn piece(&self, switch: usize) -> u32 {
        self.pieces.first().map_or(NONE, |pieces| pieces[switch])
    }

    /// True if the switch of an arrow turns packets from the same piece that the switch itself had sent up there.
    pub fn is_sent_back(&self, (level, from, at, _): Arrow) -> bool {
        let range = (level, from, at, 0)..=(level, from, at, NONE);
        self.sent_back.range(range).next().is_some()
    }

    /// Returns the number of detours in force. Detours of packets that are sent back count twice.
    pub fn count(&self) -> usize {
        self.made.len() + self.sent_back.len()
    }

    /// Records that a detour is in force; `sends_back` as for [`Self::allows`].
    pub fn add(&mut self, arrow: Arrow, sends_back: bool) {
        let (level, from, at, to) = arrow;
        if sends_back {
            self.sent_back.insert(arrow);
        }
        if self.made.insert(arrow) {
            self.into.insert((level, to, at, from));
            self.note_inside(arrow);
            if let (Some(led), Some(beside)) = (self.led.get_mut(level as usize), self.beside.get(level as usize)) {
                led.add((from, at, to), &beside[from as usize]);
            }
        }
    }

    fn note_inside(&mut self, (level, _, at, _): Arrow) {
        let beside = !self.is_meeting(at as usize);
        for (pieces, inside) in self.pieces.iter().zip(&mut self.inside).take(level as usize) {
            let inside = &mut inside[pieces[at as usize] as usize];
            *inside = [true, inside[1] || beside];
        }
    }
}

/// The arrows above a level, and the pieces that they lead to. Arrows lead only between pieces that are beside each
/// other.
#[derive(Clone, Debug)]
struct Led {
    /// By piece: its index among the pieces beside it.
    places: Vec<u32>,
    /// By piece: the pieces that its arrows lead to, each with the switches at which these arrows turn.
    arrows: Vec<Vec<(u32, Vec<u32>)>>,
    /// By piece: the indices of the piece itself and of the pieces that arrows from it lead to, directly or through
    /// other pieces.
    led: BitSets,
}

impl Led {
    /// Returns a value without arrows. `beside`: the pieces beside each piece, ascending.
    fn new(beside: &[Arc<[u32]>]) -> Self {
        let most = beside.iter().map(|pieces| pieces.len()).max().unwrap_or(0);
        let place = |(piece, beside): (u32, &Arc<[u32]>)| beside.binary_search(&piece).unwrap_or(0) as u32;
        let places: Vec<u32> = (0..).zip(beside).map(place).collect();
        let mut led = BitSets::new(beside.len(), most);
        places
            .iter()
            .enumerate()
            .for_each(|(piece, &place)| led.insert(piece, place as usize));
        Self {
            arrows: vec![Vec::new(); beside.len()],
            places,
            led,
        }
    }

    /// True if arrows lead from one piece to the other, or if both are the same.
    fn leads(&self, from: u32, to: u32) -> bool {
        self.led.has(from as usize, self.places[to as usize] as usize)
    }

    /// True if an arrow leads directly from one piece to the other.
    fn turns(&self, from: u32, to: u32) -> bool {
        self.arrows(from).iter().any(|(piece, _)| *piece == to)
    }

    /// True if an arrow leads from a piece to any piece other than `than`.
    fn turns_elsewhere(&self, from: u32, than: u32) -> bool {
        self.arrows(from).iter().any(|(piece, _)| *piece != than)
    }

    /// Returns the pieces that arrows from a piece lead to, each with the switches at which these arrows turn.
    fn arrows(&self, from: u32) -> &[(u32, Vec<u32>)] {
        &self.arrows[from as usize]
    }

    /// Adds an arrow between pieces that are beside each other.
    fn add(&mut self, (from, at, to): (u32, u32, u32), beside: &[u32]) {
        let arrows = &mut self.arrows[from as usize];
        match arrows.iter_mut().find(|(piece, _)| *piece == to) {
            Some((_, switches)) => switches.push(at),
            None => arrows.push((to, vec![at])),
        }
        for &piece in beside.iter().filter(|&&piece| piece != to) {
            if self.leads(piece, from) {
                self.led.merge(piece as usize, to as usize);
            }
        }
    }
}

/// Returns, for each piece (connected part of the tree above a level), the pieces beside it and the piece itself.
/// Pieces are beside each other if they are part of one piece at the level below. All pieces above the leaves are
/// beside each other.
fn beside(pieces: &[Vec<u32>], level: usize) -> Vec<Arc<[u32]>> {
    let above = pieces[level].iter().enumerate().filter(|(_, piece)| **piece != NONE);
    let wider = |switch: usize| if level == 0 { 0 } else { pieces[level - 1][switch] };
    let within: BTreeMap<u32, u32> = above.map(|(switch, &piece)| (piece, wider(switch))).collect();
    let mut of: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&piece, &wider) in &within {
        of.entry(wider).or_default().push(piece);
    }
    let of: BTreeMap<u32, Arc<[u32]>> = of.into_iter().map(|(wider, all)| (wider, all.into())).collect();
    within.values().map(|wider| Arc::clone(&of[wider])).collect()
}

/// Returns for each switch the piece above the level to which it belongs. Both live and lost links join pieces.
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

    /// No detours, and pieces beside each other by level.
    fn beside_each_other(beside: Vec<Vec<Arc<[u32]>>>) -> Turns {
        Turns {
            led: beside.iter().map(|beside| Led::new(beside)).collect(),
            beside,
            ..Turns::default()
        }
    }

    #[test]
    fn arrows_make_no_circle() {
        let check_with = |made: &[(u32, u32, u32)], arrow: (u32, u32, u32), care, want: bool| {
            let all: Arc<[u32]> = (0..10).collect();
            let mut turns = beside_each_other(vec![vec![all; 10]; 2]);
            made.iter()
                .for_each(|&(from, at, to)| turns.add((0, from, at, to), true));
            // Other levels do not count.
            turns.add((1, arrow.2, arrow.1 + 1, arrow.0), true);
            let arrow = (0, arrow.0, arrow.1, arrow.2);
            assert_eq!(turns.allows(arrow, true, care), want, "{made:?} {arrow:?}");
        };
        let check = |made: &[_], arrow, want| check_with(made, arrow, Care::InForce, want);
        check(&[], (1, 8, 2), true);
        check(&[(1, 8, 2)], (1, 8, 2), true);
        check(&[(2, 9, 1)], (1, 8, 2), false);
        // At one switch no arrow follows another, except by packets in flight.
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

    /// Two leaves, 0 and 1. Above them are two pieces: switches 2, 3, 6 and 7, and switches 4, 5, 8 and 9; the last two
    /// of each are on top. Detours turn at 0, 2 and 4 where they can.
    fn two_pieces() -> Turns {
        let pieces = vec![
            vec![NONE, NONE, 0, 0, 1, 1, 0, 0, 1, 1],
            vec![NONE, NONE, NONE, NONE, NONE, NONE, 0, 1, 2, 3],
        ];
        let mut meeting = vec![false; 10];
        [0, 2, 4].into_iter().for_each(|s| meeting[s] = true);
        let beside = (0..2).map(|level| beside(&pieces, level)).collect();
        Turns {
            inside: vec![vec![[false; 2]; 2], vec![[false; 2]; 4]],
            meeting,
            pieces,
            ..beside_each_other(beside)
        }
    }

    #[test]
    fn what_was_not_sent_up_is_not_sent_back() {
        let check = |(made, made_back): (_, bool), (arrow, back): (_, bool), want: bool| {
            let mut turns = two_pieces();
            turns.add(made, made_back);
            assert_eq!(
                turns.allows(arrow, back, Care::UnderWay),
                want,
                "{made:?} {made_back} {arrow:?} {back}"
            );
        };
        let (there, back) = ((1, 0, 2, 1), (1, 1, 2, 0));
        check((there, true), (back, true), false);
        check((there, true), (back, false), true);
        check((there, false), (back, true), true);
        check((there, false), (there, true), true);
        // At another switch it follows, whatever was in force before.
        check((there, false), ((1, 1, 3, 0), false), false);
        // Above the leaves it follows in any case.
        check(((0, 0, 0, 1), true), ((0, 1, 0, 0), false), false);
    }

    #[test]
    fn what_stays_on_a_level_is_no_turn() {
        let turns = two_pieces();
        assert_eq!(turns.arrow((0, 0), 2, 4), Some((0, 0, 0, 1)));
        assert_eq!(turns.arrow((0, 0), 2, 3), None, "one piece");
        assert_eq!(turns.arrow((0, 0), 2, 1), None);
        assert_eq!(turns.arrow((0, 0), 1, 2), None);
    }

    #[test]
    fn what_turns_further_up_comes_back() {
        let check = |made: &[Arrow], arrow: Arrow, want: bool| {
            let mut turns = two_pieces();
            made.iter().for_each(|&arrow| turns.add(arrow, false));
            assert_eq!(turns.allows(arrow, false, Care::InForce), want, "{made:?} {arrow:?}");
        };
        // Two detours at one leaf, each into the other's piece; in the first piece packets are turned round, then in
        // the second.
        let (there, back) = ((0, 0, 0, 1), (0, 1, 0, 0));
        check(&[there], back, true);
        check(&[there, (1, 0, 3, 1)], back, true);
        check(&[there, (1, 0, 3, 1), (1, 2, 5, 3)], back, false);
        check(&[there, back, (1, 0, 3, 1)], (1, 2, 5, 3), false);
        // Turns above the leaf: packets do not come down to it again.
        check(&[there, (1, 0, 2, 1), (1, 2, 5, 3)], back, true);
        check(&[there, back, (1, 0, 3, 1)], (1, 2, 4, 3), true);
        // But they come down to another leaf.
        let [there, back] = [there, back].map(|(level, from, _, to)| (level, from, 1, to));
        check(&[there, (1, 0, 2, 1), (1, 2, 5, 3)], back, false);
    }

    #[test]
    fn pieces_beside_are_kept() {
        let check = |made: &[(u32, u32)], (from, to): (u32, u32), want: bool| {
            // Above the leaves two pieces, further up 0 to 4 in the one and 5 and 6 in the other.
            let pieces = [vec![0, 0, 0, 0, 0, 1, 1], (0..7).collect()];
            let mut turns = beside_each_other((0..2).map(|level| beside(&pieces, level)).collect());
            made.iter().for_each(|&(from, to)| turns.add((1, from, 9, to), true));
            let made = &turns.made;
            assert_eq!(turns.leaves_room((1, from, 9, to)), want, "{made:?} {from} {to}");
        };
        // No other piece has been hit: arrows only turn into piece 0 from another.
        check(&[], (0, 1), true);
        check(&[(0, 1), (0, 2), (3, 0)], (0, 4), true);
        check(&[], (5, 6), true);
        // Another piece has been hit: neither of the two nearest, nor a piece that leads to one, may be turned into.
        check(&[(3, 4)], (0, 1), false);
        check(&[(3, 4)], (0, 2), false);
        check(&[(3, 4)], (0, 3), true);
        check(&[(3, 1)], (0, 3), false);
        check(&[(3, 1)], (0, 4), true);
        // Pieces with an arrow into `from` are kept first.
        check(&[(2, 4), (4, 0)], (0, 3), true);
        check(&[(2, 4), (4, 0)], (0, 4), false);
        // The next nearest is kept, where arrows lead to the nearest already.
        check(&[(0, 1), (3, 4)], (0, 2), false);
        check(&[(0, 1), (0, 2), (3, 4)], (0, 3), false);
    }
}
