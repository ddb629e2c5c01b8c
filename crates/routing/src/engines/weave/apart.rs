//! Changes the paths to two LIDs of a port so that they share fewer links.
//!
//! A search ([`super::search`]) gives each switch the path that at that moment shares least with the path to the first
//! LID, and early choices limit all switches behind them. This module changes single next hops of the trees afterwards,
//! as long as the number of sources with two paths that share a link falls. Every turn must be legal on the lane of its
//! tree, and no next hop of the first tree moves onto a channel without room.
//!
//! The work is a few rounds over all switches. A round visits the sources behind a switch once for all neighbours of
//! the switch together.

use super::net::{NONE, Net};
use super::order::Order;

/// Cost of a source with two paths that share a link: more than any other sharing.
const SHARING: u64 = 1 << 24;
/// Cost of each link, and of each switch between the ends, that both paths use. A hop costs one.
const LINK: u64 = 1 << 16;
const SWITCH: u64 = 1 << 12;
/// Number of rounds over all switches; further rounds change almost nothing (measured).
const ROUNDS: usize = 3;
/// A next hop is examined if the two paths of its switch share a link or switch, or if this is so for at least one
/// third (1 / `FEW`) of the switches behind it.
const FEW: usize = 3;

/// One of the two trees to a port: the tree of its first LID, or of a further one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    First = 0,
    Further = 1,
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::First => Self::Further,
            Self::Further => Self::First,
        }
    }
}

/// The load that the first tree may put on channels.
#[derive(Debug)]
pub(super) struct Room<'a> {
    /// Host pairs of first LIDs on each channel.
    pub first: &'a mut [u64],
    /// Host pairs of all LIDs so far, by channel.
    pub all: &'a mut [u64],
    /// Largest load by first LIDs that a channel may get: host pairs × price of the channel (slower links have a higher
    /// one).
    pub peak: u64,
}

/// Two trees to one destination, with scratch memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Apart {
    /// The channel by which each switch sends: in the tree of the first LID, and in that of a further one.
    pub next: [Vec<u32>; 2],
    /// True for sources for which another LID of the port already has a path without a common link with the path to the
    /// first LID. An empty list: no source has one.
    pub parted: Vec<bool>,
    /// Cost of each source.
    cost: Vec<u64>,
    /// Channels and switches on a path, and switches behind a switch, marked with the current stamp.
    on_channel: Vec<u32>,
    on_switch: Vec<u32>,
    is_behind: Vec<u32>,
    stamp: u32,
    behind: Vec<u32>,
    /// Channels that a next hop may move to, each with the resulting sum of costs.
    offers: Vec<(u64, u32)>,
    before: Vec<(u32, u32)>,
    after: Vec<(u32, u32)>,
}

/// The shared parts of two paths.
#[derive(Clone, Copy, Default)]
struct Shared {
    links: u64,
    switches: u64,
    hops: u64,
}

impl Apart {
    /// Moves next hops of the further LID's tree, and of the first LID's tree if there is `room`. `lanes` are the lanes
    /// of the two trees.
    pub fn improve(&mut self, net: &Net, orders: &mut [Order], lanes: [usize; 2], mut room: Option<Room<'_>>) {
        self.on_channel.resize(net.channels(), 0);
        self.on_switch.resize(net.switches, 0);
        self.is_behind.resize(net.switches, 0);
        self.cost.clear();
        for u in 0..net.switches as u32 {
            let cost = self.cost_of(net, u);
            self.cost.push(cost);
        }
        for _ in 0..ROUNDS {
            let mut moved = 0;
            for u in 0..net.switches as u32 {
                if self.next[0][u as usize] == NONE || self.next[1][u as usize] == NONE {
                    continue;
                }
                let order = &mut orders[lanes[Side::Further as usize]];
                moved += usize::from(self.move_hop(net, order, Side::Further, u, None));
                if let Some(room) = &mut room {
                    let order = &mut orders[lanes[Side::First as usize]];
                    moved += usize::from(self.move_hop(net, order, Side::First, u, Some(room)));
                }
            }
            if moved == 0 {
                break;
            }
        }
    }

    /// Returns the number of hosts with two paths that share a link, if no other paths of these hosts are apart.
    pub fn sharing(&self, net: &Net) -> u64 {
        let is_sharing = |&u: &u32| self.cost[u as usize] >= SHARING * importance(net, u);
        let sharing = (0..net.switches as u32).filter(is_sharing);
        sharing.map(|u| u64::from(net.hosts[u as usize])).sum()
    }

    /// Moves one next hop so that the sources behind it share least. Returns false if it is best as it is.
    fn move_hop(&mut self, net: &Net, order: &mut Order, side: Side, u: u32, room: Option<&mut Room<'_>>) -> bool {
        self.find_behind(net, side, u);
        let sharing = self.behind.iter().filter(|&&x| self.is_sharing(net, x)).count();
        if sharing == 0 || (sharing * FEW < self.behind.len() && !self.is_sharing(net, u)) {
            return false;
        }
        self.weigh_offers(net, side, u);
        let mut offers = core::mem::take(&mut self.offers);
        offers.sort_unstable();
        let fits = |&&(_, c): &&(u64, u32)| room.as_ref().is_none_or(|room| self.fits(net, room, u, c));
        let fitting: Vec<u32> = offers.iter().filter(fits).map(|&(_, c)| c).collect();
        self.offers = offers;
        let old = self.next[side as usize][u as usize];
        let Some(c) = fitting.into_iter().find(|&c| self.shift(net, order, side, u, c)) else {
            return false;
        };
        if let Some(room) = room {
            let sources = self.sources(net);
            self.on_way(net, old, |c| {
                room.first[c] -= sources;
                room.all[c] -= sources;
            });
            self.on_way(net, c, |c| {
                room.first[c] += sources;
                room.all[c] += sources;
            });
        }
        for i in 0..self.behind.len() {
            let x = self.behind[i];
            self.cost[x as usize] = self.cost_of(net, x);
        }
        true
    }

    /// Finds the switches that send over `u` in a tree, beginning with `u`.
    fn find_behind(&mut self, net: &Net, side: Side, u: u32) {
        self.stamp += 1;
        self.behind.clear();
        self.behind.push(u);
        self.is_behind[u as usize] = self.stamp;
        let next = &self.next[side as usize];
        let mut head = 0;
        while let Some(&at) = self.behind.get(head) {
            head += 1;
            for out in net.out(at as usize) {
                let x = net.dst[out];
                if next[x as usize] == net.rev[out] {
                    self.is_behind[x as usize] = self.stamp;
                    self.behind.push(x);
                }
            }
        }
    }

    /// Lists the other channels of `u`, each with the resulting cost of all sources behind `u`, if it is lower than
    /// now.
    fn weigh_offers(&mut self, net: &Net, side: Side, u: u32) {
        let old = self.next[side as usize][u as usize];
        let is_open = |&c: &u32| c != old && self.is_behind[net.dst[c as usize] as usize] != self.stamp;
        let open = net.out(u as usize).map(|c| c as u32).filter(is_open);
        self.offers.clear();
        self.offers.extend(open.map(|c| (0, c)));
        let was: u64 = self.behind.iter().map(|&x| self.cost[x as usize]).sum();
        for i in 0..self.behind.len() {
            let x = self.behind[i];
            self.mark(net, side.other(), x);
            let mut common = Shared::default();
            let mut at = x;
            while at != u {
                let c = self.next[side as usize][at as usize];
                at = net.dst[c as usize];
                self.share(c, at, &mut common);
            }
            let mut offers = core::mem::take(&mut self.offers);
            for (sum, c) in &mut offers {
                *sum += self.price(net, x, self.follow(net, side, *c, common));
            }
            offers.retain(|&(sum, _)| sum < was);
            self.offers = offers;
            if self.offers.is_empty() {
                return;
            }
        }
    }

    fn cost_of(&mut self, net: &Net, u: u32) -> u64 {
        self.mark(net, Side::First, u);
        let c = self.next[Side::Further as usize][u as usize];
        self.price(net, u, self.follow(net, Side::Further, c, Shared::default()))
    }

    /// Marks the path of a source in one tree.
    fn mark(&mut self, net: &Net, side: Side, u: u32) {
        self.stamp += 1;
        let next = &self.next[side as usize];
        let mut c = next[u as usize];
        while c != NONE {
            self.on_channel[c as usize] = self.stamp;
            self.on_channel[net.rev[c as usize] as usize] = self.stamp;
            let at = net.dst[c as usize] as usize;
            c = next[at];
            if c != NONE {
                self.on_switch[at] = self.stamp;
            }
        }
    }

    #[inline]
    fn share(&self, c: u32, to: u32, shared: &mut Shared) {
        shared.links += u64::from(self.on_channel[c as usize] == self.stamp);
        shared.switches += u64::from(self.on_switch[to as usize] == self.stamp);
        shared.hops += 1;
    }

    /// Adds to `shared` the number of links and switches that the path from a channel has in common with the marked
    /// path, and returns the sum.
    fn follow(&self, net: &Net, side: Side, mut c: u32, mut shared: Shared) -> Shared {
        while c != NONE {
            let to = net.dst[c as usize];
            self.share(c, to, &mut shared);
            c = self.next[side as usize][to as usize];
        }
        shared
    }

    fn price(&self, net: &Net, u: u32, shared: Shared) -> u64 {
        let sharing = if shared.links > 0 && !self.is_parted(u) {
            SHARING
        } else {
            0
        };
        (sharing + LINK * shared.links + SWITCH * shared.switches + shared.hops) * importance(net, u)
    }

    fn is_parted(&self, u: u32) -> bool {
        self.parted.get(u as usize).copied().unwrap_or(false)
    }

    /// True if the two paths of a source share a link or a switch, and no other LID gives the source a path apart from
    /// the first.
    fn is_sharing(&self, net: &Net, u: u32) -> bool {
        !self.is_parted(u) && self.cost[u as usize] >= SWITCH * importance(net, u)
    }

    /// Calls `f` for each channel on a path in the first tree, from channel `c` on.
    fn on_way(&self, net: &Net, mut c: u32, mut f: impl FnMut(usize)) {
        while c != NONE {
            f(c as usize);
            c = self.next[Side::First as usize][net.dst[c as usize] as usize];
        }
    }

    /// Returns the number of hosts at the switches behind the current switch, and at this switch.
    fn sources(&self, net: &Net) -> u64 {
        self.behind.iter().map(|&x| u64::from(net.hosts[x as usize])).sum()
    }

    /// True if the load allows the path of `u` in the first tree to begin with `c`.
    fn fits(&self, net: &Net, room: &Room<'_>, u: u32, c: u32) -> bool {
        let sources = self.sources(net);
        let old = self.next[Side::First as usize][u as usize];
        let mut fits = true;
        self.on_way(net, c, |c| {
            let mut more = sources;
            // On the old path its load is counted already.
            self.on_way(net, old, |o| more *= u64::from(o != c));
            fits &= more == 0 || (room.first[c] + more) * u64::from(net.price[c]) <= room.peak;
        });
        fits
    }

    /// Moves a next hop with its turns, if all of them are legal.
    fn shift(&mut self, net: &Net, order: &mut Order, side: Side, u: u32, c: u32) -> bool {
        let next = &mut self.next[side as usize];
        let old = next[u as usize];
        self.before.clear();
        self.after.clear();
        for (list, c) in [(&mut self.before, old), (&mut self.after, c)] {
            let onward = next[net.dst[c as usize] as usize];
            list.extend((onward != NONE).then_some((c, onward)));
            for out in net.out(u as usize) {
                let from = net.rev[out];
                if next[net.src[from as usize] as usize] == from {
                    list.push((from, c));
                }
            }
        }
        let is_out = |&(from, to): &(u32, u32)| net.rev[from as usize] == to || order.is_blocked(net, from, to);
        if self.after.iter().any(is_out) {
            return false;
        }
        let added = self
            .after
            .iter()
            .take_while(|&&(from, to)| order.add(net, from, to))
            .count();
        let is_moved = added == self.after.len();
        let gone = if is_moved { &self.before } else { &self.after[..added] };
        gone.iter().for_each(|&(from, to)| order.remove(net, from, to));
        if is_moved {
            next[u as usize] = c;
        }
        is_moved
    }
}

/// Returns the weight of a switch as a source. A switch without hosts counts too, but hardly.
fn importance(net: &Net, u: u32) -> u64 {
    4 * u64::from(net.hosts[u as usize]) + 1
}
