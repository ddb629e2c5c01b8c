//! Detours: routes for packets that have no path up, then down, to their destination.

use std::cmp::Reverse;

use selvedge_fabric::SwitchIdx;
use selvedge_plan::BLOCK_LIDS;
use selvedge_types::{Idx, Lid};

use super::turns::{Arrow, Care};
use super::{Facing, Repair};

/// The degrees of care with which detours are chosen, the most careful first. Packets that entries of earlier repairs
/// have forwarded may be in flight for seconds. If these allow no detour, the repair may have to wait until they are
/// gone.
const CARES: [Care; 3] = [Care::Spare, Care::UnderWay, Care::InForce];

/// The detours on the route of a packet. The flag of a detour is true if, until now, its switch may have sent such
/// packets up into the same piece from which they now come down. (A *piece* is a connected part of the tree above some
/// level.)
type OnTheWay = Vec<(Arrow, bool)>;

/// A route down to the leaf at which detours meet: the switch above the leaf, the leaf, and the ports to them.
#[derive(Clone, Copy, Debug)]
struct ToMeeting {
    middle: usize,
    to_middle: u8,
    leaf: usize,
    to_leaf: u8,
}

impl Repair<'_> {
    /// True if the entry of a switch led to a destination on the tree, before its link was lost.
    pub(super) fn led_there(&self, s: usize, lid: Lid, to: usize) -> bool {
        let rule = self.rule();
        self.next(s, lid)
            .is_some_and(|next| match self.mender.is_above(s, next) {
                true => rule.below.has(next, to),
                false => rule.reach.has(next, to),
            })
    }

    /// Records the detours that turn at switches with a changed entry. If such a detour would close a cycle with
    /// others, its switch is given another entry upwards, if there is one. If the destination is a switch, only detours
    /// that packets of hosts take, or took before, are recorded.
    pub(super) fn note_turns(&mut self, lid: Lid, (to, is_of_host): (usize, bool)) {
        for i in self.first..self.moved.len() {
            let s = self.moved[i].switch.to_usize();
            let Some(next) = self.mender.peer(s, self.moved[i].egress) else {
                continue;
            };
            if self.mender.is_above(s, next) {
                // Packets that came to `s` before went down as well, or were turned round at `s`.
                let onward = self
                    .next(next, lid)
                    .filter(|&onward| self.mender.is_above(onward, next));
                let arrow = onward.and_then(|onward| self.mender.arrow(next, s, onward));
                arrow.into_iter().for_each(|arrow| self.mender.turns.add(arrow, true));
                continue;
            }
            let mut from = self.turned_at(s, lid);
            from.retain(|&above| is_of_host || self.carries_hosts(above, lid) || self.led_there(above, lid, to));
            if from.is_empty() {
                continue;
            }
            let mut next = next;
            for care in CARES {
                if self.may_turn(s, &from, next, lid, care) {
                    break;
                }
                if let Some((peer, egress)) = self.other_way_up(s, lid, to, (&from, care), &[]) {
                    self.tables.set(SwitchIdx::from_usize(s), lid, egress);
                    self.moved[i].egress = egress;
                    next = peer;
                    break;
                }
            }
            for from in from {
                if let Some((arrow, sends_back)) = self.turn(s, from, next, lid) {
                    self.mender.turns.add(arrow, sends_back);
                }
            }
        }
    }

    /// Returns the neighbours above a switch that send down to it by a live link.
    fn turned_at(&self, s: usize, lid: Lid) -> Vec<usize> {
        let (rows, column) = (self.tables.tile(lid.index() / BLOCK_LIDS), lid.index() % BLOCK_LIDS);
        let sends = |from: &&Facing| {
            let peer = from.peer as usize;
            let egress = rows.get(peer).map(|row| row[column]);
            egress == Some(from.port) && self.mender.live_peer(peer, from.port).is_some()
        };
        let above = self.mender.facing.get(s).iter().filter(|from| from.is_above);
        above.filter(sends).map(|from| from.peer as usize).collect()
    }

    /// True if a detour closes no cycle. Many LIDs turn at one switch, so the answer for one LID is kept for all. A
    /// refusal stays valid for the whole repair, because detours are only added; a permission is valid until the next
    /// detour is added.
    fn allows(&self, arrow: Arrow, sends_back: bool, care: Care) -> bool {
        let (made, known) = &mut *self.known.borrow_mut();
        let turns = &self.mender.turns;
        if std::mem::replace(made, turns.count()) != turns.count() {
            known.retain(|_, is_allowed| !*is_allowed);
        }
        *known
            .entry((arrow, sends_back, care))
            .or_insert_with(|| turns.allows(arrow, sends_back, care))
    }

    /// Returns a turn from down to up at a switch as an arrow: from the piece that packets come down from to the piece
    /// that they go up into. (A *piece* is a connected part of the tree above some level.)
    ///
    /// The flag is true if the switch may have sent such packets up into the piece from which they now come down. This
    /// is so if its neighbour's entry has changed or is about to change.
    fn turn(&self, at: usize, from: usize, to: usize, lid: Lid) -> Option<(Arrow, bool)> {
        let arrow = self.mender.arrow(at, from, to)?;
        let switch = SwitchIdx::from_usize(from);
        let has_moved = || {
            self.moved[self.first..]
                .iter()
                .any(|m| (m.switch, m.lid) == (switch, lid))
        };
        let sends_back = self.next(from, lid) != Some(at) || has_moved() || self.mender.turns.is_sent_back(arrow);

        Some((arrow, sends_back))
    }

    fn may_turn(&self, at: usize, from: &[usize], to: usize, lid: Lid, care: Care) -> bool {
        let mut turns = from.iter().filter_map(|&from| self.turn(at, from, to, lid));
        !self.mender.is_above(to, at) || turns.all(|(arrow, sends_back)| self.allows(arrow, sends_back, care))
    }

    /// Returns an upper neighbour of `s`, and the port to it, over which packets that come down to `s` can go up again.
    /// From the neighbour a path up, then down must lead to the destination, and the turn at `s` from down to up must
    /// be allowed.
    fn other_way_up(
        &self,
        s: usize,
        lid: Lid,
        to: usize,
        (from, care): (&[usize], Care),
        not_by: &[usize],
    ) -> Option<(usize, u8)> {
        let above = self.neighbours(s, |mine, peer| peer > mine);
        let mut not_by = not_by.to_vec();
        not_by.push(s);
        let good: Vec<(usize, u8)> = above
            .filter(|&(peer, _)| self.rule().leads(s, peer, to) && self.arrives(peer, lid, &not_by, to))
            .filter(|&(peer, _)| self.may_turn(s, from, peer, lid, care))
            .collect();
        good.get(lid.index() % good.len().max(1)).copied()
    }

    /// Finds a detour for a switch that has no path up, then down; returns false if there is none. Detours that leave
    /// most room for later ones are tried first. A detour through the meeting leaf (at which most detours turn) needs
    /// more Sets than other kinds, so it is tried after them. Detours that may have to wait for packets in flight come
    /// next, and a detour through a switch that has no path either is tried last.
    pub(super) fn any_detour(&mut self, s: usize, lid: Lid, to: usize) -> bool {
        let is_found = CARES.into_iter().any(|care| {
            self.detour(s, lid, to, care)
                || self.detour_above(s, lid, to, care)
                || self.detour_beside(s, lid, to, care)
                || care == Care::UnderWay && self.detour_at_meeting(s, lid, to)
        });
        is_found || CARES.into_iter().any(|care| self.detour_below(s, lid, to, care))
    }

    /// Tries to send packets of `s` to a neighbour below, where they turn up again. Takes the first neighbour at which
    /// this turn closes no cycle, or at which another entry upwards avoids the cycle.
    fn detour(&mut self, s: usize, lid: Lid, to: usize, care: Care) -> bool {
        /// Switches below that are tried.
        const TRIED: usize = 4;
        let below: Vec<(usize, u8)> = self.below_to_turn_at(s).take(TRIED).collect();
        let turns_well = |&&(peer, _): &&(usize, u8)| {
            let onward = self.next(peer, lid);
            self.arrives(peer, lid, &[s], to)
                && onward.is_some_and(|onward| self.may_turn(peer, &[s], onward, lid, care))
        };
        // All LIDs should turn at one switch: the first, unless no turn is possible there.
        for &(peer, egress) in &below {
            if turns_well(&&(peer, egress)) {
                self.set_after(peer, s, lid, egress);
                return true;
            }
            if self.mender.gone[peer] || peer == to {
                continue;
            }
            let mut from = self.turned_at(peer, lid);
            from.push(s);
            if let Some((_, up)) = self.other_way_up(peer, lid, to, (&from, care), &[s]) {
                self.set(peer, lid, up, 0);
                self.set(s, lid, egress, 1);
                return true;
            }
        }
        false
    }

    /// Tries to send packets of `s` up, to a neighbour with a route that arrives. This route may turn from down to up,
    /// as long as none of its turns closes a cycle. Neighbours with only turns that are already in force come first:
    /// they add no turn that could block a later detour. Otherwise the order is that of [`Self::above_from_beside`].
    fn detour_above(&mut self, s: usize, lid: Lid, to: usize, care: Care) -> bool {
        let above = self.above_from_beside(s, to);
        let ways = above.into_iter().filter_map(|(peer, egress)| {
            let turns = self.turns_on(s, peer, lid, to)?;
            let is_new = |&(arrow, sends_back): &(Arrow, bool)| !self.mender.turns.has(arrow, sends_back);
            Some((turns.iter().any(is_new), egress, turns))
        });
        let mut ways: Vec<(bool, u8, OnTheWay)> = ways.collect();
        ways.sort_by_key(|way| way.0);
        let may_turn = |turns: &[(Arrow, bool)]| {
            let mut turns = turns.iter();
            turns.all(|&(arrow, sends_back)| self.allows(arrow, sends_back, care))
        };
        let Some((_, egress, turns)) = ways.into_iter().find(|(.., turns)| may_turn(turns)) else {
            return false;
        };
        for (arrow, sends_back) in turns {
            self.mender.turns.add(arrow, sends_back);
        }
        self.set(s, lid, egress, 1);
        true
    }

    /// Tries to send packets of `s` to a neighbour above that until now sends them back down to `s`, for example
    /// because the meeting leaf (at which most detours turn) is below `s`. That neighbour is given another entry down,
    /// to a switch at which the packets may turn.
    fn detour_beside(&mut self, s: usize, lid: Lid, to: usize, care: Care) -> bool {
        for (peer, egress) in self.above_from_beside(s, to) {
            if self.next(peer, lid) != Some(s) {
                continue;
            }
            let below: Vec<(usize, u8)> = self.below_to_turn_at(peer).collect();
            let turns_well = |&&(other, _): &&(usize, u8)| {
                let onward = self.next(other, lid);
                self.arrives(other, lid, &[s, peer], to)
                    && onward.is_some_and(|onward| self.may_turn(other, &[peer], onward, lid, care))
            };
            if let Some(&(_, down)) = below.iter().find(turns_well) {
                self.set(peer, lid, down, 0);
                self.set(s, lid, egress, 1);
                return true;
            }
        }
        false
    }

    /// Tries to send packets of `s` to a neighbour below that has no route itself: it sends up to `s`, or to another
    /// switch without a route. This neighbour first gets a detour of its own, through a switch further down.
    fn detour_below(&mut self, s: usize, lid: Lid, to: usize, care: Care) -> bool {
        let below: Vec<(usize, u8)> = self.below_to_turn_at(s).collect();
        for (peer, egress) in below {
            if self.is_stuck_with(s, peer, lid, to) && self.detour(peer, lid, to, care) {
                self.set_after(peer, s, lid, egress);
                return true;
            }
        }
        false
    }

    /// Tries to send packets of `s` up, and from there down to the meeting leaf. At this leaf any number of detours can
    /// be in force at the same time without closing a cycle. All switches above that send down to `s` then send to that
    /// leaf as well; the entries are written from the leaf outwards.
    fn detour_at_meeting(&mut self, s: usize, lid: Lid, to: usize) -> bool {
        let above = self.above_from_last(s);
        let way = |&(peer, up): &(usize, u8)| Some((up, self.way_to_meeting(peer, s, lid, to)?));
        let Some((up, first)) = above.iter().find_map(way) else {
            return false;
        };
        let mut from = self.turned_at(first.leaf, lid);
        from.push(first.middle);
        let may_turn = |onward| self.may_turn(first.leaf, &from, onward, lid, Care::InForce);
        if !self.next(first.leaf, lid).is_some_and(may_turn) {
            let not_by = [s, first.middle];
            let Some((_, other)) = self.other_way_up(first.leaf, lid, to, (&from, Care::InForce), &not_by) else {
                return false;
            };
            self.set(first.leaf, lid, other, 0);
        }
        for (peer, _) in above {
            if self.next(peer, lid) == Some(s)
                && let Some(way) = self.way_to_meeting(peer, s, lid, to)
            {
                self.set(way.middle, lid, way.to_leaf, 1);
                self.set(peer, lid, way.to_middle, 2);
            }
        }
        self.set(first.middle, lid, first.to_leaf, 1);
        self.set(s, lid, up, 3);
        true
    }

    /// Returns the route from switch `above` down to the meeting leaf (at which most detours turn), avoiding switch
    /// `not_by`. `None` if the meeting leaf has no route to the destination.
    fn way_to_meeting(&self, above: usize, not_by: usize, lid: Lid, to: usize) -> Option<ToMeeting> {
        let below = |s: usize| {
            let below = self.neighbours(s, |mine, peer| peer < mine);
            below.filter(move |&(peer, _)| peer != not_by && self.mender.turns.is_meeting(peer))
        };
        let way = |(middle, to_middle): (usize, u8)| {
            let is_leaf = |&(leaf, _): &(usize, u8)| {
                self.rule().shape.level[leaf] == 0 && self.arrives(leaf, lid, &[not_by, above, middle], to)
            };
            let (leaf, to_leaf) = below(middle).find(is_leaf)?;
            Some(ToMeeting {
                middle,
                to_middle,
                leaf,
                to_leaf,
            })
        };
        below(above).find_map(way)
    }

    /// Returns the live neighbours below a switch. Those at which other detours turn come first.
    fn below_to_turn_at(&self, s: usize) -> impl Iterator<Item = (usize, u8)> {
        let of_kind = move |is_meeting: bool| {
            let below = self.neighbours(s, |mine, peer| peer < mine);
            below.filter(move |&(peer, _)| self.mender.turns.is_meeting(peer) == is_meeting)
        };
        of_kind(true).chain(of_kind(false))
    }

    /// Returns the live neighbours above a switch. If `to` is one of these neighbours, the others are sorted by how
    /// near their position is to that of `to`: LIDs that are routed through near positions are in the same LFT blocks,
    /// and detours that turned into `to` do not turn into its neighbour as well.
    fn above_from_beside(&self, s: usize, to: usize) -> Vec<(usize, u8)> {
        let mut above = self.above_from_last(s);
        let slots = self.rule().shape.up.get(s);
        let place = |peer: usize| slots.iter().position(|slot| slot.peer as usize == peer);
        if self.rule().shape.level[s] > 0
            && let Some(lost) = place(to)
        {
            above.sort_by_key(|&(peer, _)| place(peer).map_or(usize::MAX, |place| place.abs_diff(lost)));
        }
        above
    }

    /// Returns the live neighbours above a switch, from the last piece (connected part of the tree above this level) to
    /// the first, because the last pieces are reserved for detours.
    fn above_from_last(&self, s: usize) -> Vec<(usize, u8)> {
        let mut above: Vec<(usize, u8)> = self.neighbours(s, |mine, peer| peer > mine).collect();
        above.sort_by_key(|&(peer, egress)| Reverse((self.mender.turns.piece(peer), peer, egress)));
        above
    }

    /// Returns the detours on the route of a packet that goes from switch `from` to its neighbour `first` and onwards,
    /// each in the form that [`Self::turn`] returns. `None` if the packet does not arrive.
    fn turns_on(&self, from: usize, first: usize, lid: Lid, to: usize) -> Option<OnTheWay> {
        let (mut before, mut at) = (from, first);
        let mut turns = Vec::new();
        for _ in 0..self.rule().net.real {
            if at == to {
                return Some(turns);
            }
            let next = self
                .mender
                .live_peer(at, self.tables.get(SwitchIdx::from_usize(at), lid))?;
            if next == from {
                return None;
            }
            if self.mender.is_above(before, at) && self.mender.is_above(next, at) {
                turns.extend(self.turn(at, before, next, lid));
            }
            (before, at) = (at, next);
        }
        None
    }

    /// Finds a detour for packets of agents alone, if there is no path up, then down. From an upper switch, takes the
    /// first neighbour below that has a route. From a leaf, takes the first switch above it, and the first leaf below
    /// that switch. So all packets that turn from down to up because of one lost link turn at one leaf. Turns at
    /// several leaves could wait for each other in a cycle.
    pub(super) fn unstick(&mut self, s: usize, lid: Lid, to: usize) -> Option<()> {
        let found = self
            .neighbours(s, |mine, peer| peer < mine)
            .find(|(peer, _)| self.arrives(*peer, lid, &[s], to));
        if let Some((peer, egress)) = found {
            self.set_after(peer, s, lid, egress);
            return Some(());
        }
        let others: Vec<(usize, u8)> = self.neighbours(s, |mine, peer| peer >= mine).collect();
        for &(peer, egress) in &others {
            if self.has_way(peer, to) {
                continue;
            }
            let found = self
                .neighbours(peer, |mine, peer| peer < mine)
                .find(|(leaf, _)| self.arrives(*leaf, lid, &[s, peer], to));
            if let Some((_, down)) = found {
                self.set(peer, lid, down, 0);
                self.set(s, lid, egress, 1);
                return Some(());
            }
        }
        if let Some(&(_, egress)) = others.iter().find(|(peer, _)| self.arrives(*peer, lid, &[s], to)) {
            self.set(s, lid, egress, 1);
            return Some(());
        }
        self.unstick_by_others_above(s, lid, to)
            .or_else(|| self.unstick_by_others_below(s, lid, to))
    }

    /// Finds a detour for packets of agents if all switches below `s` send up to `s`, or to other switches without a
    /// route. One of the switches below is given an entry to a switch further down that has a route.
    fn unstick_by_others_below(&mut self, s: usize, lid: Lid, to: usize) -> Option<()> {
        let below: Vec<(usize, u8)> = self.below_to_turn_at(s).collect();
        for (peer, egress) in below {
            if !self.is_stuck_with(s, peer, lid, to) {
                continue;
            }
            let found = self
                .below_to_turn_at(peer)
                .find(|(leaf, _)| self.arrives(*leaf, lid, &[s, peer], to));
            if let Some((leaf, down)) = found {
                self.set_after(leaf, peer, lid, down);
                self.set_after(peer, s, lid, egress);
                return Some(());
            }
        }
        None
    }

    /// Makes a switch send down to a neighbour, in the step after the neighbour's own new entry, if it has one.
    fn set_after(&mut self, peer: usize, s: usize, lid: Lid, egress: u8) {
        let of_round = self.moved[self.first..].iter();
        let of_peer = of_round.filter(|m| m.switch.to_usize() == peer && m.lid == lid);
        let step = of_peer.map(|m| m.step).max().unwrap_or(0);
        self.set(s, lid, egress, step + 1);
    }

    /// True if `peer`, a neighbour below `s`, is stuck together with `s`. That is so if `peer` has no path that goes
    /// up, then down, if it sends up, and if its packets can arrive only through `s`.
    fn is_stuck_with(&self, s: usize, peer: usize, lid: Lid, to: usize) -> bool {
        let sends_up = self
            .next(peer, lid)
            .is_some_and(|next| self.mender.is_above(next, peer));
        peer != to && !self.has_way(peer, to) && sends_up && !self.arrives(peer, lid, &[s], to)
    }

    /// Finds a detour for packets of agents if all switches below `s` send up to `s` on their way to the meeting leaf
    /// (at which most detours turn). Of these lower switches, the first that has another upper neighbour with a route
    /// gets an entry to that neighbour.
    fn unstick_by_others_above(&mut self, s: usize, lid: Lid, to: usize) -> Option<()> {
        let below: Vec<(usize, u8)> = self.neighbours(s, |mine, peer| peer < mine).collect();
        for (peer, egress) in below {
            if self.next(peer, lid) != Some(s) {
                continue;
            }
            let found = self
                .neighbours(peer, |mine, above| above > mine)
                .find(|(above, _)| self.arrives(*above, lid, &[s, peer], to));
            if let Some((_, up)) = found {
                self.set(peer, lid, up, 0);
                self.set(s, lid, egress, 1);
                return Some(());
            }
        }
        None
    }
}
