//! Fewer packets that meet: how a tree of two levels spreads what lost links carried.
//!
//! Effective bisection bandwidth counts, for random pairings of all hosts, in how many flows one has to share its
//! fullest link. Of two levels that can be foretold. Of a leaf's links up each is used or not: the expected number of
//! those in use is what the leaf sends at once. Downwards a link is one destination's as long as the tree is whole;
//! when others come upon it, pairs of flows meet there that have not met already on their way up.
//!
//! Both together are what an entry of a leaf costs. Entries change, or two of them change places, as long as that makes
//! the sum less and no link carries more than [`SPARE`] of what it carries in the whole tree. So what a lost link
//! carried goes first over the parallel one to the same neighbour, where nobody else is met, and only the rest
//! elsewhere.

use super::{NOWHERE, Spread};

/// What a link may carry, as a share of what it carries in the whole tree: the more, the fewer packets meet.
const SPARE: (u64, u64) = (23, 20);
/// The same where neighbours have parallel links: what a lost one carried meets nobody on its way down if it goes over
/// the one beside it. Of 306 destinations of a leaf 27 go there instead of 17; with more it would be fuller than
/// another engine's fullest.
const SPARE_BESIDE: (u64, u64) = (8, 5);
/// Entries of the leaves that are looked at; in larger fabrics it would take minutes.
const ENTRIES_MAX: usize = 300_000;
/// How often all entries are looked at; after the fourth time little is gained.
const PASSES: usize = 6;
/// What an entry costs for each source that a link carries too many of: more than any entry costs otherwise.
const OVER: f64 = 1.0;
/// Less is no gain, but a rounding error.
const LEAST: f64 = 1e-9;
/// An entry that would cost this share of meeting a whole destination more elsewhere is not worth a partner.
const HOPE: f64 = 0.3;

/// No position, no channel.
const NONE: u32 = u32::MAX;

/// A link up of a leaf.
struct Up {
    port: u8,
    /// The upper switch.
    peer: usize,
    /// Destinations that the leaf sends over it.
    carries: usize,
}

/// A switch with hosts.
struct Leaf {
    switch: usize,
    hosts: f64,
    ups: Vec<Up>,
    /// Destinations behind it.
    own: Vec<usize>,
    /// By number of destinations of a link up: how probably it is in use.
    used: Vec<f64>,
    /// By number of other destinations of a link up: how probably a flow has it for itself.
    alone: Vec<f64>,
}

/// Entries of the leaves towards one layer's destinations.
pub(super) struct Meet {
    leaves: Vec<Leaf>,
    /// Leaf of each destination.
    to: Vec<usize>,
    /// By upper switch and destination: the channel down to its leaf, or [`NONE`].
    down: Vec<u32>,
    /// By leaf and destination: which link up, or [`NONE`] if the entry is not ours to change.
    at: Vec<u32>,
    /// By leaf and destination: how probably a flow has its link up for itself.
    alone: Vec<f64>,
    /// By channel down: sources, and how many of them have their link up for themselves.
    load: Vec<f64>,
    load_alone: Vec<f64>,
    /// The same by upper switch and destination.
    share: Vec<f64>,
    share_alone: Vec<f64>,
    /// How probably two flows are both in a pairing.
    both: f64,
    most: u64,
}

/// A change: the entry to another link up, and what goes back in exchange.
struct Change {
    cost: f64,
    up: usize,
    partner: Option<usize>,
}

impl Meet {
    /// `None` unless the tree has two levels, all hosts at the lower, has lost something, and is not too large.
    pub fn new(spread: &Spread<'_>) -> Option<Self> {
        let (rule, nd, real) = (spread.rule, spread.layer.to.len(), spread.hosts.len());
        let level = &rule.shape.level;
        let fits = |s: usize| level[s] <= 1 && (level[s] == 0 || spread.hosts[s] == 0);
        let switches: Vec<usize> = (0..real).filter(|&s| spread.hosts[s] > 0).collect();
        if !(0..real).all(fits) || nd < 4 || switches.len() * nd > ENTRIES_MAX || !spread.is_damaged(&switches) {
            return None;
        }
        let mut place = vec![usize::MAX; real];
        switches.iter().enumerate().for_each(|(l, &s)| place[s] = l);
        let to: Vec<usize> = spread
            .layer
            .to
            .iter()
            .map(|&s| place.get(s as usize).copied())
            .collect::<Option<_>>()?;
        if to.contains(&usize::MAX) {
            return None;
        }
        let all = switches.iter().map(|&s| spread.reached(s)).max().unwrap_or(0).max(4) as f64;
        let leaves = switches.iter().map(|&s| Leaf::new(spread, s));
        let mut meet = Self {
            leaves: leaves.collect(),
            down: vec![NONE; real * nd],
            at: vec![NONE; switches.len() * nd],
            alone: vec![0.0; switches.len() * nd],
            load: vec![0.0; spread.peer.len()],
            load_alone: vec![0.0; spread.peer.len()],
            share: vec![0.0; real * nd],
            share_alone: vec![0.0; real * nd],
            both: 0.25 / (all - 1.0) / (all - 3.0),
            most: spread.most(&switches),
            to,
        };
        for (d, &l) in meet.to.iter().enumerate() {
            meet.leaves[l].own.push(d);
            for s in (0..real).filter(|&s| level[s] == 1) {
                let channel = spread.channel(d, s).filter(|&c| spread.peer[c] == spread.layer.to[d]);
                meet.down[s * nd + d] = channel.and_then(|c| u32::try_from(c).ok()).unwrap_or(NONE);
            }
        }
        meet.read(spread);
        Some(meet)
    }

    /// Takes over the entries of two channels; others stay as they are.
    fn read(&mut self, spread: &Spread<'_>) {
        for l in 0..self.leaves.len() {
            for d in 0..self.to.len() {
                let Some(channel) = spread.channel(d, self.leaves[l].switch) else {
                    continue;
                };
                let mut ups = self.leaves[l].ups.iter();
                let up = ups.position(|u| usize::from(u.port) == channel % spread.stride);
                if let Some(up) = up.filter(|&u| self.way(l, d, u).is_some()) {
                    self.put(l, d, up);
                }
            }
        }
    }

    /// Most host pairs that a link may carry.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Changes entries as long as that helps, and writes them into the layer.
    pub fn run(mut self, spread: &mut Spread<'_>) {
        for _ in 0..PASSES {
            let mut changed = false;
            for l in 0..self.leaves.len() {
                for d in 0..self.to.len() {
                    self.renew(l, d);
                }
            }
            for l in 0..self.leaves.len() {
                for d in 0..self.to.len() {
                    changed |= self.improve(spread, l, d);
                }
            }
            if !changed {
                break;
            }
        }
        let nd = self.to.len();
        for (l, leaf) in self.leaves.iter().enumerate() {
            for d in 0..nd {
                if let Some(up) = leaf.ups.get(self.at[l * nd + d] as usize) {
                    spread.layer.next[d * spread.hosts.len() + leaf.switch] = up.port;
                }
            }
        }
    }

    /// How probably a flow is alone on its link up depends on others that have moved since it was put there.
    fn renew(&mut self, l: usize, d: usize) {
        if let Some(up) = self.take(l, d) {
            self.put(l, d, up);
        }
    }

    /// Changes one entry of a leaf for the best; false if it stays.
    fn improve(&mut self, spread: &Spread<'_>, l: usize, d: usize) -> bool {
        let Some(up) = self.take(l, d) else { return false };
        let was = self.cost(l, d, up).unwrap_or(0.0);
        // Of two that may change places the one that meets others looks for the partner.
        let meets = self
            .way(l, d, up)
            .is_some_and(|(peer, c)| self.load[c] > self.share[peer * self.to.len() + d]);
        let leaf = &self.leaves[l];
        let whole = leaf.hosts * (self.to.len() as f64 - leaf.hosts);
        let hope = HOPE * self.both * whole;
        let mut best = Change {
            cost: was - LEAST,
            up,
            partner: None,
        };
        for other in (0..self.leaves[l].ups.len()).filter(|&u| u != up) {
            let leaf = &self.leaves[l];
            let Some(cost) = self
                .cost(l, d, other)
                .filter(|_| !spread.is_taken(d, leaf.switch, leaf.ups[other].port))
            else {
                continue;
            };
            if cost < best.cost {
                best = Change {
                    cost,
                    up: other,
                    partner: None,
                };
            }
            if meets && cost < was + hope {
                self.put(l, d, other);
                self.partners(spread, (l, d), (up, other), cost, &mut best);
                self.take(l, d);
            }
        }
        self.put(l, d, best.up);
        if let Some(partner) = best.partner {
            self.take(l, partner);
            self.put(l, partner, up);
        }
        best.up != up
    }

    /// Looks for the best destination to go back from `other` to `up`, with `d` already at `other` for `cost`.
    fn partners(
        &mut self,
        spread: &Spread<'_>,
        (l, d): (usize, usize),
        (up, other): (usize, usize),
        cost: f64,
        best: &mut Change,
    ) {
        let (switch, port) = (self.leaves[l].switch, self.leaves[l].ups[up].port);
        for e in 0..self.to.len() {
            if e == d || self.at[l * self.to.len() + e] as usize != other {
                continue;
            }
            self.take(l, e);
            let was = self.cost(l, e, other).unwrap_or(0.0);
            let will = self.cost(l, e, up).filter(|_| !spread.is_taken(e, switch, port));
            if let Some(both) = will.map(|will| cost + will - was).filter(|&both| both < best.cost) {
                *best = Change {
                    cost: both,
                    up: other,
                    partner: Some(e),
                };
            }
            self.put(l, e, other);
        }
    }

    /// The upper switch behind a link up, and the channel from there down to a destination's leaf.
    fn way(&self, l: usize, d: usize, up: usize) -> Option<(usize, usize)> {
        let peer = self.leaves[l].ups[up].peer;
        let channel = self.down[peer * self.to.len() + d];
        (channel != NONE && self.to[d] != l).then_some((peer, channel as usize))
    }

    /// What it costs if leaf `l` sends to `d`, which it does not yet, over a link up; `None` if it does not lead there.
    fn cost(&self, l: usize, d: usize, up: usize) -> Option<f64> {
        let (peer, channel) = self.way(l, d, up)?;
        let (leaf, nd) = (&self.leaves[l], self.to.len());
        let (n, hosts, most) = (leaf.ups[up].carries, leaf.hosts, self.most as f64);
        let over = |load: f64| (load + hosts - most).max(0.0) - (load - most).max(0.0);
        let too_many = (over(n as f64 * hosts) + over(self.load[channel])) / hosts;
        let place = peer * nd + d;
        let alone = leaf.alone[n];
        let mut meets =
            alone * (self.load[channel] - self.share[place]) + self.load_alone[channel] - self.share_alone[place];
        // A host sends one flow at a time, and those that share the link up already do not lose by meeting again.
        for &e in self.leaves[self.to[d]].own.iter().filter(|&&e| e != d) {
            let there = self.at[l * nd + e] as usize;
            if there < leaf.ups.len() && self.way(l, e, there) == Some((peer, channel)) {
                let pairs = if there == up { hosts } else { 1.0 };
                meets -= pairs * (alone + self.alone[l * nd + e]);
            }
        }
        Some(leaf.used[n] - leaf.used[n + 1] + OVER * too_many + self.both * hosts * meets / 2.0)
    }

    fn put(&mut self, l: usize, d: usize, up: usize) {
        let (leaf, place) = (&mut self.leaves[l], l * self.to.len() + d);
        self.alone[place] = leaf.alone[leaf.ups[up].carries];
        leaf.ups[up].carries += 1;
        self.at[place] = up as u32;
        self.count(l, d, up, 1.0);
    }

    /// Takes an entry away and says which link up it was; none if it is not ours.
    fn take(&mut self, l: usize, d: usize) -> Option<usize> {
        let up = self.at[l * self.to.len() + d] as usize;
        self.leaves[l].ups.get_mut(up)?.carries -= 1;
        self.count(l, d, up, -1.0);
        self.at[l * self.to.len() + d] = NONE;
        Some(up)
    }

    fn count(&mut self, l: usize, d: usize, up: usize, times: f64) {
        let Some((peer, channel)) = self.way(l, d, up) else {
            return;
        };
        let nd = self.to.len();
        let sources = times * self.leaves[l].hosts;
        let alone = sources * self.alone[l * nd + d];
        self.load[channel] += sources;
        self.share[peer * nd + d] += sources;
        self.load_alone[channel] += alone;
        self.share_alone[peer * nd + d] += alone;
    }
}

impl Leaf {
    fn new(spread: &Spread<'_>, switch: usize) -> Self {
        let hosts = f64::from(spread.hosts[switch]);
        let ports = switch * spread.stride..(switch + 1) * spread.stride;
        let peers = (0_u8..).zip(&spread.peer[ports]).filter(|(_, peer)| **peer != NOWHERE);
        let is_up = |peer: u32| spread.rule.shape.level[peer as usize] == 1;
        let ups = peers.filter(|(_, peer)| is_up(**peer)).map(|(port, &peer)| Up {
            port,
            peer: peer as usize,
            carries: 0,
        });
        let all = spread.reached(switch) as f64;
        let numbers = || (0..spread.layer.to.len() + 2).map(|n| n as f64);
        Self {
            switch,
            hosts,
            ups: ups.collect(),
            own: Vec::new(),
            used: numbers().map(|n| 1.0 - nobody(hosts, n, all)).collect(),
            alone: numbers().map(|n| nobody(hosts - 1.0, n, all - 2.0)).collect(),
        }
    }
}

/// How probably a random pairing of `all` hosts has no flow from one of `sources` to one of `n` others: by inclusion
/// and exclusion of sets of such flows, each of which has half of all pairs to be in.
fn nobody(sources: f64, n: f64, all: f64) -> f64 {
    let (mut sum, mut term, mut k) = (1.0, 1.0_f64, 0.0);
    while term.abs() > 1e-12 && k < sources && k < n && 2.0 * k + 1.0 < all {
        term *= -(sources - k) * (n - k) / ((k + 1.0) * 2.0 * (all - 1.0 - 2.0 * k));
        sum += term;
        k += 1.0;
    }
    sum.clamp(0.0, 1.0)
}

impl Spread<'_> {
    /// Whether any of these leaves lacks a link up.
    fn is_damaged(&self, leaves: &[usize]) -> bool {
        let shape = &self.rule.shape;
        let mut slots = leaves.iter().flat_map(|&s| shape.up.get(s));
        slots.any(|slot| !slot.live || shape.ports(slot).contains(&0))
    }

    /// Hosts that a leaf reaches, its own included: those that it is in pairings with.
    fn reached(&self, leaf: usize) -> u64 {
        let to = (0..self.hosts.len()).filter(|&to| to == leaf || self.rule.reach.has(leaf, to));
        to.map(|to| u64::from(self.hosts[to])).sum()
    }

    /// What a link may carry: no less than some must, and [`SPARE`] of what the fullest link up would carry if none of
    /// these leaves' was missing, if there are parallel ones.
    fn most(&self, leaves: &[usize]) -> u64 {
        let shape = &self.rule.shape;
        let widths = |s: usize| shape.up.get(s).iter().map(|slot| shape.ports(slot).len());
        let of = |&s: &usize| {
            let (hosts, all) = (u64::from(self.hosts[s]), self.reached(s));
            hosts * (all - hosts).div_ceil(widths(s).sum::<usize>().max(1) as u64)
        };
        let intact = leaves.iter().map(of).max().unwrap_or(0);
        let is_parallel = leaves.iter().any(|&s| widths(s).any(|width| width > 1));
        let (times, by) = if is_parallel { SPARE_BESIDE } else { SPARE };
        self.floor().max(intact * times / by)
    }
}

#[cfg(test)]
mod tests {
    use super::nobody;

    fn check(sources: f64, n: f64, all: f64, want: f64) {
        let got = nobody(sources, n, all);
        assert!(
            (got - want).abs() < 1e-12,
            "{sources} to {n} of {all}: {got}, not {want}"
        );
    }

    #[test]
    fn flows_of_small_pairings_are_counted_exactly() {
        check(0.0, 5.0, 10.0, 1.0);
        check(5.0, 0.0, 10.0, 1.0);
        // Two hosts: one sends to the other.
        check(1.0, 1.0, 2.0, 0.5);
        // Of four a host sends to each other one with 1 / 6.
        check(1.0, 1.0, 4.0, 5.0 / 6.0);
        check(1.0, 3.0, 4.0, 0.5);
        // Of the 12 pairings of a, b, c, d with directions 6 have a flow from a or b to c or d: 3 of the 4 of ac, bd,
        // and 3 of the 4 of ad, bc.
        check(2.0, 2.0, 4.0, 0.5);
    }
}
