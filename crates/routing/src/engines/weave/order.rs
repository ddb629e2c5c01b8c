//! The channel dependency graph of one lane, with a topological order kept up to date turn by turn.
//!
//! A turn is legal if the graph with the turn has no cycle. Most turns agree with the order and cost one comparison.
//! The others need a search between the two places; if it finds no cycle, the visited channels move ([`reorder`]).
//! Turns of the base (the up*/down* turns around a root) are always in the graph, so its paths stay legal.

mod reorder;
mod sweep;

use super::net::{NONE, Net};
pub(super) use sweep::{Cost, Rank, Sweep, Task};

/// Which turns the graph contains from the start. All of them go along the up*/down* order of one root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// Turns between channels of one spanning tree.
    Tree,
    /// Turns between any channels. They leave no room for any other turn.
    Fixed,
}

/// Largest number of channels that one search may visit, for any size of fabric; if it would visit more, the turn
/// counts as if it closed a cycle.
const VISITS_MAX: usize = 384;
/// Flag in a turn's count: the turn would close a cycle.
const BLOCKED: u32 = 1 << 31;

/// The dependency graph of one lane.
#[derive(Clone, Debug)]
pub(super) struct Order {
    base: Base,
    /// How many places back a turn may lead: see [`Order::new`].
    window: u32,
    /// Largest number of channels that one search may visit; after that the turn counts as if it closed a cycle.
    visits_max: usize,
    /// The place of each channel: every turn in the graph goes to a higher place.
    place: Vec<u32>,
    /// The channel at each place.
    at: Vec<u32>,
    /// By turn: the number of trees that take it, plus one if it is a turn of the base; [`BLOCKED`] if it cannot be
    /// added now.
    count: Vec<u32>,
    /// Turns in the graph out of each channel, and into it: a bit for each channel of the switch between.
    onward: Bits,
    back: Bits,
    blocked: Vec<u32>,
    /// By switch: the channel towards the root by which the spanning tree leaves it.
    pub parent: Vec<u32>,
    /// By channel: the last search that visited it.
    seen: Vec<u32>,
    stamp: u32,
    behind: Vec<u32>,
    ahead: Vec<u32>,
}

impl Order {
    /// Returns the graph of a base alone. First in the order are the channels that lead up, from the bottom; then those
    /// that lead down, from the top.
    ///
    /// `position` is the place of each switch from top to bottom. Every switch must have a neighbour above it, except
    /// the top of each part.
    ///
    /// At first a turn against the order is accepted only if its second channel is at most `window` percent of the
    /// order before its first. Without this limit the first trees take turns from down to up anywhere, and these block
    /// many more important ones (measured).
    pub fn new(net: &Net, base: Base, window: u32, position: &[u32]) -> Self {
        let key = |s: u32| position[s as usize];
        let mut parent = vec![NONE; net.switches];
        for (s, parent) in parent.iter_mut().enumerate() {
            let highest = net.out(s).min_by_key(|&c| (key(net.dst[c]), c));
            if let Some(c) = highest.filter(|&c| key(net.dst[c]) < position[s]) {
                *parent = c as u32;
            }
        }
        let channels = net.channels();
        let leads_up = |c: usize| key(net.dst[c]) < key(net.src[c]);
        let in_tree = |c: usize| {
            let number = u32::try_from(c).unwrap_or(NONE);
            parent[net.src[c] as usize] == number || parent[net.dst[c] as usize] == net.rev[c]
        };
        let in_base = |c: usize| base == Base::Fixed || in_tree(c);
        let mut count = vec![0; net.turn_first[channels] as usize];
        for from in (0..channels).filter(|&c| in_base(c)) {
            for (to, count) in net.out(net.dst[from] as usize).zip(&mut count[net.turns(from)]) {
                // Once for the base itself: these turns never leave the graph.
                let legal = leads_up(from) || !leads_up(to);
                *count = u32::from(legal && in_base(to) && to != net.rev[from] as usize);
            }
        }
        let (mut up, mut down): (Vec<u32>, Vec<u32>) =
            (0..u32::try_from(channels).unwrap_or(NONE)).partition(|&c| leads_up(c as usize));
        up.sort_unstable_by_key(|&c| (core::cmp::Reverse(key(net.src[c as usize])), c));
        down.sort_unstable_by_key(|&c| (key(net.src[c as usize]), c));
        let (onward, back) = Bits::of_turns(net, &count);
        let mut place = vec![0; channels];
        up.append(&mut down);
        for (i, &c) in (0_u32..).zip(&up) {
            place[c as usize] = i;
        }
        Self {
            base,
            window: if base == Base::Fixed {
                0
            } else {
                (channels as u64 * u64::from(window) / 100) as u32
            },
            visits_max: VISITS_MAX,
            place,
            at: up,
            onward,
            back,
            count,
            blocked: Vec::new(),
            parent,
            seen: vec![0; channels],
            stamp: 0,
            behind: Vec::new(),
            ahead: Vec::new(),
        }
    }

    /// Returns the graph of turns with these counts; `None` if it has a cycle.
    pub fn of_turns(net: &Net, count: Vec<u32>) -> Option<Self> {
        let (onward, back) = Bits::of_turns(net, &count);
        let channels = net.channels();
        let mut waits_for: Vec<usize> = (0..channels).map(|c| back.of(c).count()).collect();
        let mut at: Vec<u32> = (0..channels as u32).filter(|&c| waits_for[c as usize] == 0).collect();
        let mut place = vec![0; channels];
        let mut head = 0;
        while let Some(&c) = at.get(head) {
            place[c as usize] = head as u32;
            head += 1;
            let there = net.first[net.dst[c as usize] as usize];
            for next in onward.of(c as usize).map(|i| there + i) {
                waits_for[next as usize] -= 1;
                if waits_for[next as usize] == 0 {
                    at.push(next);
                }
            }
        }
        (at.len() == channels).then_some(Self {
            base: Base::Tree,
            window: u32::MAX,
            visits_max: usize::MAX,
            place,
            at,
            count,
            onward,
            back,
            blocked: Vec::new(),
            parent: Vec::new(),
            seen: vec![0; channels],
            stamp: 0,
            behind: Vec::new(),
            ahead: Vec::new(),
        })
    }

    /// Searches for a spanning tree from `root` over `want` switches of which all turns can be added to the graph
    /// without a cycle. If there is one, adds these turns, so that there is a path to every switch. Otherwise nothing
    /// changes. `is_up` returns true for channels that may be used.
    pub fn find_base(&mut self, net: &Net, root: u32, want: usize, is_up: impl Fn(u32) -> bool) -> bool {
        let mut parent = vec![NONE; net.switches];
        let mut tree = vec![root];
        let mut added = Vec::new();
        let mut head = 0;
        while let Some(&at) = tree.get(head) {
            head += 1;
            for down in net.out(at as usize).map(|c| c as u32).filter(|&c| is_up(c)) {
                let child = net.dst[down as usize];
                if child == root || parent[child as usize] != NONE {
                    continue;
                }
                let up = net.rev[down as usize];
                let of_tree = |c: &u32| {
                    parent[at as usize] == *c || parent[net.dst[*c as usize] as usize] == net.rev[*c as usize]
                };
                let others: Vec<u32> = net.out(at as usize).map(|c| c as u32).filter(|c| of_tree(c)).collect();
                let turns = others.iter().flat_map(|&c| [(up, c), (net.rev[c as usize], down)]);
                let before = added.len();
                let fits = turns.into_iter().all(|(from, to)| {
                    let fits = self.add(net, from, to);
                    added.extend(fits.then_some((from, to)));
                    fits
                });
                if fits {
                    parent[child as usize] = up;
                    tree.push(child);
                } else {
                    added.drain(before..).for_each(|(from, to)| self.remove(net, from, to));
                }
            }
        }
        let is_found = tree.len() == want;
        if is_found {
            self.parent = parent;
        } else {
            added.drain(..).for_each(|(from, to)| self.remove(net, from, to));
        }
        self.unblock();
        is_found
    }

    /// Removes the turns of the spanning tree that [`Self::find_base`] added.
    pub fn forget_base(&mut self, net: &Net) {
        let parent = std::mem::take(&mut self.parent);
        for from in 0..net.channels() as u32 {
            let (src, dst) = (net.src[from as usize] as usize, net.dst[from as usize] as usize);
            let in_tree = |c: u32, src: usize, dst: usize| parent[src] == c || parent[dst] == net.rev[c as usize];
            if !in_tree(from, src, dst) {
                continue;
            }
            for to in net
                .out(dst)
                .map(|c| c as u32)
                .filter(|&to| to != net.rev[from as usize])
            {
                if in_tree(to, dst, net.dst[to as usize] as usize) {
                    self.remove(net, from, to);
                }
            }
        }
        self.unblock();
    }

    /// True if the turn goes along the order, so that it is legal without a search.
    #[inline]
    pub fn agrees(&self, from: u32, to: u32) -> bool {
        self.place[from as usize] < self.place[to as usize]
    }

    /// True if the turn is known to close a cycle.
    pub fn is_blocked(&self, net: &Net, from: u32, to: u32) -> bool {
        self.count[net.turn(from, to)] & BLOCKED != 0 && !self.agrees(from, to)
    }

    /// Counts the turn once more, if it is in the graph or can be added; true if so.
    pub fn add(&mut self, net: &Net, from: u32, to: u32) -> bool {
        let fits = self.makes_room(net, from, to);
        if fits {
            self.count_up(net, from, to, net.turn(from, to));
        }
        fits
    }

    /// True if the turn is in the graph or can be added. If it can, the order is changed so that the turn agrees with
    /// it.
    pub fn makes_room(&mut self, net: &Net, from: u32, to: u32) -> bool {
        if self.agrees(from, to) {
            return true;
        }
        let turn = net.turn(from, to);
        if self.count[turn] & BLOCKED != 0 {
            return false;
        }
        let fits = self.reorder(net, (from, to), self.window, self.visits_max);
        if !fits {
            self.count[turn] |= BLOCKED;
            self.blocked.push(u32::try_from(turn).unwrap_or(NONE));
        }
        fits
    }

    /// Counts a turn that was in the graph before and did not close a cycle: it cannot close one now.
    pub fn restore(&mut self, net: &Net, from: u32, to: u32) {
        if !self.agrees(from, to) {
            self.reorder(net, (from, to), u32::MAX, usize::MAX);
        }
        self.count_up(net, from, to, net.turn(from, to));
    }

    /// Counts the turn once less.
    pub fn remove(&mut self, net: &Net, from: u32, to: u32) {
        let turn = net.turn(from, to);
        self.count[turn] -= 1;
        if self.count[turn] & !BLOCKED == 0 {
            let there = net.first[net.dst[from as usize] as usize];
            self.onward.clear(from as usize, (to - there) as usize);
            self.back.clear(to as usize, (net.rev[from as usize] - there) as usize);
        }
    }

    /// Takes all turns from and to a channel out of the graph: its link is lost.
    pub fn forget(&mut self, net: &Net, channel: u32) {
        let (src, dst) = (net.src[channel as usize], net.dst[channel as usize]);
        let onward = net.out(dst as usize).map(|to| (channel, to as u32));
        let back = net.out(src as usize).map(|out| (net.rev[out], channel));
        for (from, to) in onward.chain(back) {
            let turn = net.turn(from, to);
            if self.count[turn] & !BLOCKED != 0 {
                self.count[turn] = 1 | self.count[turn] & BLOCKED;
                self.remove(net, from, to);
            }
        }
    }

    #[inline]
    fn count_up(&mut self, net: &Net, from: u32, to: u32, turn: usize) {
        if self.count[turn] & !BLOCKED == 0 {
            let there = net.first[net.dst[from as usize] as usize];
            self.onward.set(from as usize, (to - there) as usize);
            self.back.set(to as usize, (net.rev[from as usize] - there) as usize);
        }
        self.count[turn] += 1;
    }

    /// Must be called after removals: a turn that closed a cycle before may be legal now.
    pub fn unblock(&mut self) {
        for turn in self.blocked.drain(..) {
            self.count[turn as usize] &= !BLOCKED;
        }
    }

    /// Lets turns lead back any distance from now on.
    pub fn open(&mut self) {
        if self.base != Base::Fixed {
            self.window = u32::MAX;
        }
    }

    /// Returns the base of the graph.
    pub const fn base(&self) -> Base {
        self.base
    }
}

/// For each channel, some of the channels of a switch at one of its ends: as many bits as the largest switch has.
#[derive(Clone, Debug)]
struct Bits {
    words: usize,
    bits: Vec<u64>,
    /// By channel: the number of its bits that are set.
    ones: Vec<u32>,
}

impl Bits {
    /// Returns the counted turns: those out of each channel, and those into each.
    fn of_turns(net: &Net, count: &[u32]) -> (Self, Self) {
        let (mut onward, mut back) = (Self::new(net), Self::new(net));
        for from in 0..net.channels() {
            let there = net.out(net.dst[from] as usize);
            for (i, to) in there
                .clone()
                .enumerate()
                .filter(|&(i, _)| count[net.turn_first[from] as usize + i] > 0)
            {
                onward.set(from, i);
                back.set(to, net.rev[from] as usize - there.start);
            }
        }
        (onward, back)
    }

    fn new(net: &Net) -> Self {
        let widest = (0..net.switches).map(|s| net.out(s).len()).max().unwrap_or(0);
        let words = widest.div_ceil(64).max(1);
        Self {
            words,
            bits: vec![0; words * net.channels()],
            ones: vec![0; net.channels()],
        }
    }

    /// Sets a bit that is not set.
    #[inline]
    fn set(&mut self, channel: usize, i: usize) {
        self.bits[channel * self.words + i / 64] |= 1 << (i % 64);
        self.ones[channel] += 1;
    }

    /// Clears a bit that is set.
    #[inline]
    fn clear(&mut self, channel: usize, i: usize) {
        self.bits[channel * self.words + i / 64] &= !(1 << (i % 64));
        self.ones[channel] -= 1;
    }

    /// Returns the positions of a channel's bits, ascending.
    #[inline]
    fn of(&self, channel: usize) -> Ones<'_> {
        let (&now, rest) = self.bits[channel * self.words..(channel + 1) * self.words]
            .split_first()
            .unwrap_or((&0, &[]));
        Ones { now, first: 0, rest }
    }
}

/// Positions of the bits that are set.
struct Ones<'a> {
    now: u64,
    first: u32,
    rest: &'a [u64],
}

impl Iterator for Ones<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        while self.now == 0 {
            let (&now, rest) = self.rest.split_first()?;
            (self.now, self.rest) = (now, rest);
            self.first += u64::BITS;
        }
        let i = self.now.trailing_zeros();
        self.now &= self.now - 1;
        Some(self.first + i)
    }
}

#[cfg(test)]
impl Order {
    /// Returns how often each turn is counted, if the order agrees with all counted turns.
    pub fn counts(&self, net: &Net) -> Option<Vec<u32>> {
        let follows = |from: usize, to: usize| {
            let (from, to) = (from as u32, to as u32);
            let is_there = self.count[net.turn(from, to)] & !BLOCKED > 0;
            let there = net.first[net.dst[from as usize] as usize];
            let is_noted = self.onward.of(from as usize).any(|i| there + i == to);
            is_noted == is_there && (!is_there || self.agrees(from, to))
        };
        let turns = (0..net.channels()).flat_map(|from| net.out(net.dst[from] as usize).map(move |to| (from, to)));
        let is_kept = turns.into_iter().all(|(from, to)| follows(from, to));
        is_kept.then(|| self.count.iter().map(|count| count & !BLOCKED).collect())
    }
}
