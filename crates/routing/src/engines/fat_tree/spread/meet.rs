//! Moves the load of lost links so that fewer flows share a link, in a tree of two levels.
//!
//! Effective bisection bandwidth pairs all hosts at random and counts for each flow how many flows share its fullest
//! link. For two levels the expected value can be computed from two parts. The first part is the expected number of
//! links up of a leaf that are in use: this is how many flows the leaf can send without sharing. The second part
//! concerns links down. As long as the tree is whole, a link down leads to one destination. If it leads to several,
//! flows share it that did not share a link on their way up.
//!
//! Both parts together are the cost of the entries. The best port for one entry depends on other entries. For example,
//! two destinations may share a link of one leaf that has lost a link. If another leaf has lost its link to the same
//! upper switch, it can move both destinations to other links at no cost. If two leaves each give up the route to a
//! destination that the other keeps, fewer flows share a link. So entries are changed at random, singly or two in
//! exchange, by threshold accepting (Dueck and Scheuer 1990): at first a change is accepted even if the cost rises a
//! little, and the accepted rise becomes smaller and smaller. No link carries more than [`SPARE`] of what it carries in
//! the whole tree.
//!
//! The limit for parallel links was measured on `sx6536` with seeds 1–10 and 50,000 pairings; twenty times as many
//! changes gained nothing more. OpenSM's ftree sends the whole load of a lost link over the link beside it. With more
//! than 27 destinations on a link, the fullest link would carry more than that of OpenSM's nue (486 to 558 host pairs).
//!
//! | most that a link may carry | fullest link, 1 % and 3 % lost | bandwidth − that of ftree, 1 % and 3 % |
//! |---|---|---|
//! | 1.15 × whole | 344, 367 | −0.0010, −0.0016 |
//! | 1.5 × | 450, 450 | −0.0002, +0.0001 |
//! | 1.6 × (the value used) | 486, 486 | ±0, +0.0006 |
//! | 1.65 × | 504, 504 | +0.0001, +0.0007 |
//! | 2.1 × | 598, 612 | +0.0002, +0.0011 |
//! | ftree | 612, 612 | – |
//!
//! With 200,000 pairings, seeds 21–30 and 1 % of links lost, the bandwidth is lower than that of ftree by 0.00004 in
//! the mean, and by 0.00012 at most.

use selvedge_sim::{Rng, Seed};

use super::{NOWHERE, Spread};

/// The load that a link may carry, as a multiple of its load in the whole tree. The larger it is, the fewer flows share
/// a link.
const SPARE: (u64, u64) = (23, 20);
/// The limit of [`SPARE`] where neighbours have parallel links: if packets of a lost link take a parallel link, they
/// share no link with other packets on their way down. Of the 306 destinations of a leaf this parallel link then
/// carries 27 instead of 17. If it carried more, it would be fuller than the fullest link of another engine (nue).
const SPARE_BESIDE: (u64, u64) = (8, 5);
/// Largest number of leaves' entries with which a tree is spread in this way; in larger fabrics it would take minutes.
const ENTRIES_MAX: usize = 300_000;
/// Number of changes that are tried for each entry that a change may improve. The total is at most [`TRIES_MAX`], but
/// at least [`TRIES_LEAST`] are tried for each such entry.
const TRIES: usize = 300;
const TRIES_LEAST: usize = 20;
const TRIES_MAX: usize = 600_000;
/// Determines how much a change may increase the cost at first: a reference cost divided by this number. The reference
/// is the cost of the case that a leaf's flows to one destination share a link with the flows of all other leaves to
/// another destination.
const WORSE: f64 = 50.0;
/// Of a hundred tried changes, this number exchange two entries. Another number, [`ALIKE`], move an entry to the upper
/// switch over which another leaf reaches the same destination.
const EXCHANGES: u64 = 75;
const ALIKE: u64 = 30;
/// Largest number of random draws for the second destination of an exchange. It must be attached to a leaf that has
/// lost a link, because entries of other destinations already are at their best place.
const PARTNERS: usize = 4;

/// Stands for no position, no channel.
const NONE: u32 = u32::MAX;

/// A link up of a leaf.
struct Up {
    port: u8,
    /// The upper switch.
    peer: usize,
    /// Destinations that the leaf sends over this link.
    carries: Vec<u32>,
}

/// A switch with hosts.
struct Leaf {
    switch: usize,
    hosts: f64,
    ups: Vec<Up>,
    /// Destinations at this leaf.
    own: Vec<usize>,
    /// True if the leaf lacks a link up.
    is_broken: bool,
    /// By number of destinations on a link up: the probability that the link is in use.
    used: Vec<f64>,
    /// By number of other destinations on a link up: the probability that a flow has the link for itself.
    alone: Vec<f64>,
}

/// The entries of all leaves towards the destinations of one layer (one LMC offset).
pub(super) struct Meet {
    leaves: Vec<Leaf>,
    /// Leaf of each destination.
    to: Vec<usize>,
    /// By upper switch and destination: the channel down to its leaf, or [`NONE`].
    down: Vec<u32>,
    /// By destination and leaf: the link up that the entry uses, or [`NONE`] if the entry must not change.
    at: Vec<u32>,
    /// By destination and leaf: the index of the destination in `carries` of the link up that the entry uses.
    place: Vec<u32>,
    /// By channel down: number of hosts that send over it.
    load: Vec<f64>,
    /// By upper switch and destination: number of hosts that send to the destination over this switch.
    share: Vec<f64>,
    /// The probability that two flows are in the same pairing.
    both: f64,
    most: u64,
}

/// A change of one entry of a leaf, or of two entries that are exchanged.
#[derive(Clone, Copy)]
struct Change {
    leaf: usize,
    destination: usize,
    partner: Option<usize>,
    /// The link up that the entry uses now, and the one that it would use (next field).
    from: usize,
    to: usize,
}

impl Meet {
    /// `None` unless the tree is damaged and not too large, and has two levels, with all hosts at the lower one.
    pub fn new(spread: &Spread<'_>) -> Option<Self> {
        let (rule, nd, real) = (spread.rule, spread.layer.to.len(), spread.hosts.len());
        let level = &rule.shape.level;
        let fits = |s: usize| level[s] <= 1 && (level[s] == 0 || spread.hosts[s] == 0);
        let switches: Vec<usize> = (0..real).filter(|&s| spread.hosts[s] > 0).collect();
        if !(0..real).all(fits) || nd < 4 || switches.len() * nd > ENTRIES_MAX {
            return None;
        }
        let leaves: Vec<Leaf> = switches.iter().map(|&s| Leaf::new(spread, s)).collect();
        if !leaves.iter().any(|leaf| leaf.is_broken) {
            return None;
        }
        let mut place = vec![usize::MAX; real];
        switches.iter().enumerate().for_each(|(l, &s)| place[s] = l);
        let to = spread.layer.to.iter().map(|&s| place.get(s as usize).copied());
        let to: Vec<usize> = to.collect::<Option<_>>()?;
        if to.contains(&usize::MAX) {
            return None;
        }
        let all = switches.iter().map(|&s| spread.reached(s)).max().unwrap_or(0).max(4) as f64;
        let mut meet = Self {
            down: vec![NONE; real * nd],
            at: vec![NONE; switches.len() * nd],
            place: vec![NONE; switches.len() * nd],
            load: vec![0.0; spread.peer.len()],
            share: vec![0.0; real * nd],
            both: 0.25 / (all - 1.0) / (all - 3.0),
            most: spread.most(&switches),
            leaves,
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

    /// Reads the entries with a route of two channels; other entries stay as they are.
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

    /// Returns the largest number of host pairs that a link may carry.
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Changes entries so that fewer flows share a link, and writes them into the layer.
    pub fn run(mut self, spread: &mut Spread<'_>) {
        let worth = self.worth();
        let tries = (worth.len() * TRIES).min(TRIES_MAX.max(worth.len() * TRIES_LEAST));
        let mut rng = Seed(0).child("fewer packets that meet").rng();
        let first = self.unit() / WORSE;
        for i in 0..tries {
            let worse = first * (1.0 - i as f64 / tries as f64);
            if let Some(change) = self.draw(spread, &worth, &mut rng) {
                self.try_out(change, worse);
            }
        }
        let nl = self.leaves.len();
        for (l, leaf) in self.leaves.iter().enumerate() {
            for d in 0..self.to.len() {
                if let Some(up) = leaf.ups.get(self.at[d * nl + l] as usize) {
                    spread.set(d, leaf.switch, up.port);
                }
            }
        }
    }

    /// Returns the entries that may be changed: entries of leaves that lack a link, and entries towards such leaves.
    fn worth(&self) -> Vec<(u32, u32)> {
        let is_worth = |l: usize, d: usize| self.leaves[l].is_broken || self.leaves[self.to[d]].is_broken;
        let entries = (0..self.leaves.len()).flat_map(|l| (0..self.to.len()).map(move |d| (l, d)));
        let entries = entries.filter(|&(l, d)| self.link(l, d).is_some() && is_worth(l, d));
        entries.map(|(l, d)| (l as u32, d as u32)).collect()
    }

    /// Returns the cost if a leaf's flows to one destination meet all other leaves' flows to another.
    fn unit(&self) -> f64 {
        let all = self.to.len() as f64;
        let hosts = self.leaves.iter().map(|l| l.hosts).fold(1.0, f64::max);
        self.both * hosts * all / 2.0
    }

    /// Draws a change at random; `None` if it is not possible.
    fn draw(&self, spread: &Spread<'_>, worth: &[(u32, u32)], rng: &mut Rng) -> Option<Change> {
        let &(l, d) = worth.get(below(rng, worth.len()))?;
        let (l, d) = (l as usize, d as usize);
        let (leaf, from) = (&self.leaves[l], self.link(l, d)?);
        let any = below(rng, leaf.ups.len());
        let to = if rng.below(100) < ALIKE {
            let other = below(rng, self.leaves.len());
            let peer = self.leaves[other].ups[self.link(other, d)?].peer;
            let from_any = leaf.ups[any..].iter().chain(&leaf.ups[..any]);
            (any + from_any.map(|up| up.peer).position(|p| p == peer)?) % leaf.ups.len()
        } else {
            any
        };
        let mut partner = None;
        if rng.below(100) < EXCHANGES {
            let carries = &leaf.ups[to].carries;
            for _ in 0..PARTNERS {
                let e = *carries.get(below(rng, carries.len()))? as usize;
                partner = Some(e);
                if self.leaves[self.to[e]].is_broken {
                    break;
                }
            }
        }
        let can =
            |x: usize, up: usize| self.way(l, x, up).is_some() && !spread.is_taken(x, leaf.switch, leaf.ups[up].port);
        let is_possible = to != from && can(d, to) && partner.is_none_or(|e| can(e, from));
        is_possible.then_some(Change {
            leaf: l,
            destination: d,
            partner,
            from,
            to,
        })
    }

    /// Makes a change, and takes it back if the cost rises by `worse` or more, or if a link gets too full.
    fn try_out(&mut self, change: Change, worse: f64) {
        let before = self.affected(change);
        self.apply(change);
        if self.affected(change) >= before + worse || self.is_full(change) {
            self.apply(Change {
                from: change.to,
                to: change.from,
                ..change
            });
        }
    }

    /// True if the change has filled a link too much.
    fn is_full(&self, c: Change) -> bool {
        let (leaf, most) = (&self.leaves[c.leaf], self.most as f64);
        let too_much = |d: usize, up: usize| {
            self.way(c.leaf, d, up)
                .is_some_and(|(_, channel)| self.load[channel] > most)
        };
        c.partner.is_none() && leaf.ups[c.to].carries.len() as f64 * leaf.hosts > most
            || too_much(c.destination, c.to)
            || c.partner.is_some_and(|e| too_much(e, c.from))
    }

    fn apply(&mut self, c: Change) {
        self.take(c.leaf, c.destination);
        if let Some(e) = c.partner {
            self.take(c.leaf, e);
            self.put(c.leaf, e, c.from);
        }
        self.put(c.leaf, c.destination, c.to);
    }

    /// Returns the cost of all entries that a change affects.
    fn affected(&self, c: Change) -> f64 {
        let leaf = &self.leaves[c.leaf];
        let mut sum = 0.0;
        for up in [c.from, c.to] {
            let carries = &leaf.ups[up].carries;
            sum -= leaf.used[carries.len()];
            for &x in carries {
                let x = x as usize;
                let near = |e: usize| self.to[e] == self.to[x];
                if c.partner.is_none_or(|e| near(e) || near(c.destination)) {
                    sum += self.meets(c, x, up);
                }
            }
        }
        sum
    }

    /// Returns the cost of flows that share links on their way down: the flows of entry `x` at the leaf of a change, on
    /// link `up`.
    fn meets(&self, change: Change, x: usize, up: usize) -> f64 {
        let (l, nd, nl) = (change.leaf, self.to.len(), self.leaves.len());
        let Some((peer, channel)) = self.way(l, x, up) else {
            return 0.0;
        };
        if self.load[channel] <= self.share[peer * nd + x] {
            return 0.0;
        }
        let leaf = &self.leaves[l];
        let goes_along = |e: usize| self.share[peer * nd + e] > 0.0 && self.down[peer * nd + e] as usize == channel;
        let mut sum = 0.0;
        for &e in self.leaves[self.to[x]].own.iter().filter(|&&e| e != x && goes_along(e)) {
            // In a pairing at most one host sends to a destination: no other fills the link up with packets for it.
            let alone = |leaf: &Leaf, up: usize, has_both: bool| {
                let others = leaf.ups[up].carries.len().saturating_sub(1 + usize::from(has_both));
                leaf.alone[others]
            };
            let mine = alone(leaf, up, self.at[e * nl + l] as usize == up);
            for (b, other) in self.leaves.iter().enumerate() {
                let there = self.at[e * nl + b] as usize;
                if other.ups.get(there).is_none_or(|link| link.peer != peer) {
                    continue;
                }
                if b != l {
                    let has_both = self.at[x * nl + b] as usize == there;
                    sum += other.hosts * (mine + alone(other, there, has_both));
                } else if there != up {
                    // Flows that share the link up already lose nothing by meeting again. Each pair is counted once.
                    let once = if there == change.from || there == change.to {
                        0.5
                    } else {
                        1.0
                    };
                    sum += once * (leaf.hosts - 1.0) * (mine + alone(leaf, there, false));
                }
            }
        }
        self.both * leaf.hosts * sum / 2.0
    }

    /// Returns the link up of an entry; `None` if the entry must not change.
    fn link(&self, l: usize, d: usize) -> Option<usize> {
        let up = self.at[d * self.leaves.len() + l] as usize;
        (up < self.leaves[l].ups.len()).then_some(up)
    }

    /// Returns the upper switch behind a link up, and the channel from there down to a destination's leaf.
    fn way(&self, l: usize, d: usize, up: usize) -> Option<(usize, usize)> {
        let peer = self.leaves[l].ups[up].peer;
        let channel = self.down[peer * self.to.len() + d];
        (channel != NONE && self.to[d] != l).then_some((peer, channel as usize))
    }

    fn put(&mut self, l: usize, d: usize, up: usize) {
        let at = d * self.leaves.len() + l;
        let carries = &mut self.leaves[l].ups[up].carries;
        self.place[at] = carries.len() as u32;
        carries.push(d as u32);
        self.at[at] = up as u32;
        self.count(l, d, up, 1.0);
    }

    /// Takes an entry away.
    fn take(&mut self, l: usize, d: usize) {
        let nl = self.leaves.len();
        let at = d * nl + l;
        let up = self.at[at] as usize;
        let carries = &mut self.leaves[l].ups[up].carries;
        let place = self.place[at] as usize;
        carries.swap_remove(place);
        if let Some(&moved) = carries.get(place) {
            self.place[moved as usize * nl + l] = place as u32;
        }
        self.count(l, d, up, -1.0);
        self.at[at] = NONE;
    }

    fn count(&mut self, l: usize, d: usize, up: usize, times: f64) {
        if let Some((peer, channel)) = self.way(l, d, up) {
            let sources = times * self.leaves[l].hosts;
            self.load[channel] += sources;
            self.share[peer * self.to.len() + d] += sources;
        }
    }
}

/// Returns a random number below `n`; 0 if `n` is 0.
fn below(rng: &mut Rng, n: usize) -> usize {
    rng.below(n.max(1) as u64) as usize
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
            carries: Vec::new(),
        });
        let all = spread.reached(switch) as f64;
        let numbers = || (0..spread.layer.to.len() + 2).map(|n| n as f64);
        let shape = &spread.rule.shape;
        let mut slots = shape.up.get(switch).iter();
        Self {
            switch,
            hosts,
            ups: ups.collect(),
            own: Vec::new(),
            is_broken: slots.any(|slot| !slot.live || shape.ports(slot).contains(&0)),
            used: numbers().map(|n| 1.0 - nobody(hosts, n, all)).collect(),
            alone: numbers().map(|n| nobody(hosts - 1.0, n, all - 4.0)).collect(),
        }
    }
}

/// Returns the probability that a random pairing of `all` hosts has no flow from any of `sources` hosts to any of `n`
/// other hosts. It is computed by inclusion and exclusion. A pair has one flow, with equal probability in either
/// direction.
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
    /// Returns the number of hosts that a leaf reaches, including its own: the hosts that are paired with each other.
    fn reached(&self, leaf: usize) -> u64 {
        let to = (0..self.hosts.len()).filter(|&to| to == leaf || self.rule.reach.has(leaf, to));
        to.map(|to| u64::from(self.hosts[to])).sum()
    }

    /// Returns the largest load that a link may carry. It is a multiple of the load that the fullest link up would have
    /// if no link of these leaves were missing: [`SPARE`] times, or [`SPARE_BESIDE`] times with parallel links. It is
    /// never less than the load that some link must carry in any case.
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
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use selvedge_plan::{Lids, Tables};
    use selvedge_sim::{Par, Seed};
    use selvedge_topology::Spec;
    use selvedge_types::{Lid, LidRange};

    use super::super::super::{FatTree, FatTreeOptions};
    use super::{Meet, Spread, nobody};

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

    /// Returns the total cost of all entries, computed pair by pair.
    fn cost(meet: &Meet) -> f64 {
        let (nl, nd) = (meet.leaves.len(), meet.to.len());
        let mut sum = 0.0;
        for leaf in &meet.leaves {
            sum -= leaf.ups.iter().map(|up| leaf.used[up.carries.len()]).sum::<f64>();
        }
        let alone = |l: usize, up: usize, other: usize| {
            let link = &meet.leaves[l].ups[up];
            let has_both = link.carries.contains(&(other as u32));
            meet.leaves[l].alone[link.carries.len() - 1 - usize::from(has_both)]
        };
        let entries = (0..nl).flat_map(|l| (0..nd).map(move |d| (l, d)));
        let entries: Vec<_> = entries.filter_map(|(l, d)| Some((l, d, meet.link(l, d)?))).collect();
        for (i, &(a, x, up)) in entries.iter().enumerate() {
            for &(b, e, there) in &entries[..i] {
                let is_met = x != e && meet.way(a, x, up) == meet.way(b, e, there) && (a, up) != (b, there);
                if is_met {
                    let others = meet.leaves[b].hosts - f64::from(u8::from(a == b));
                    let pairs = meet.both * meet.leaves[a].hosts * others;
                    sum += pairs * (alone(a, up, e) + alone(b, there, x)) / 2.0;
                }
            }
        }
        sum
    }

    #[test]
    fn what_a_change_affects_is_all_that_it_makes_dearer_or_cheaper() {
        for spec in [
            "pgft:m=4x5,w=1x2,p=1x3,remove-links=3,seed=1",
            "karytree:k=5,n=2,remove-links=3,seed=2",
        ] {
            let Ok(Spec::Generated(recipe)) = spec.parse() else {
                panic!("{spec}")
            };
            let fabric = recipe.fabric().unwrap();
            let mut lids = Lids::new();
            for ((at, _), lid) in fabric.end_ports().zip(1..) {
                lids.insert(at, LidRange::single(Lid(lid))).unwrap();
            }
            let tree = FatTree::detect(&fabric, &FatTreeOptions::default(), Par::Sequential).unwrap();
            let mut tables = Tables::new(fabric.switches().len(), lids.top());
            tree.fill(&lids, &mut tables, Par::Sequential).unwrap();
            let layer = tree.layer(&lids, 0, &tables).unwrap();
            let spread = Spread::new(&tree.rule, &mut tables, layer);
            let mut meet = Meet::new(&spread).unwrap();
            let worth = meet.worth();
            let mut rng = Seed(1).rng();
            let (mut changes, mut exchanges) = (0, 0);
            for _ in 0..600 {
                let Some(change) = meet.draw(&spread, &worth, &mut rng) else {
                    continue;
                };
                let (all, some) = (cost(&meet), meet.affected(change));
                meet.apply(change);
                let (dearer, affected) = (cost(&meet) - all, meet.affected(change) - some);
                assert!((dearer - affected).abs() < 1e-9, "{spec}: {dearer}, not {affected}");
                changes += 1;
                exchanges += usize::from(change.partner.is_some());
            }
            assert!(
                exchanges > 100 && changes > exchanges + 30,
                "{spec}: {changes} {exchanges}"
            );
        }
    }
}
