//! Measures how independent the paths to the LIDs of one port are.
//!
//! With LMC > 0 a port has 2^LMC LIDs, and a connection may migrate to another LID when a link fails. That helps only
//! if the paths to these LIDs share no failed part.
//!
//! For each pair of hosts the figure is the size of the largest set of LID offsets with paths that share no cable
//! (*link-disjoint*). A cable counts in both directions, because both fail together. A second figure counts paths that
//! also share no switch except the two that the hosts are attached to (*switch-disjoint*). Paths that do not deliver
//! are in no set.
//!
//! A third figure is the number of host pairs for which the cabling has two such paths (found from bridges and cut
//! vertices). No routing can exceed it.
//!
//! The largest set is exact. After [`SEARCH_STEPS_MAX`] steps of a search the best set so far is used and the pair is
//! counted in [`DisjointFigures::bounded`]. The work is proportional to LIDs × switches with hosts × hops, plus the
//! searches.

mod possible;

use selvedge_fabric::{PortRef, SwitchIdx};
use selvedge_sim::Par;
use selvedge_types::{Idx, Lid};
use serde::Serialize;

use crate::finding::Place;
use crate::phases::Links;
use crate::phases::net::{Net, Owner, Way};
use crate::subject::Subject;
use possible::Possible;

/// Largest number of steps of one search for a largest set: more than any pair of a fat tree needs, and still below a
/// millisecond.
pub const SEARCH_STEPS_MAX: u32 = 20_000;

/// Sets of LID offsets with disjoint paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Apart {
    /// A largest set of offsets with paths that share no cable, ascending.
    pub by_links: Vec<u8>,
    /// A largest set of offsets with paths that share no cable and no switch except the two end switches, ascending.
    pub by_switches: Vec<u8>,
    /// True if both sets are proved to be the largest.
    pub is_exact: bool,
}

/// Pairs of hosts counted by the size of their largest set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// `[n]`: number of pairs with a largest set of n offsets.
    pub pairs: Vec<u64>,
    /// The smallest size of any pair.
    pub min: u64,
    /// A pair with the smallest size: (from, to).
    pub worst: Option<(Place, Place)>,
    /// Pairs for which the cabling has two disjoint paths, whatever the tables are.
    pub possible: u64,
}

impl Spread {
    /// Returns the mean size over all pairs; 0 without pairs.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let pairs: u64 = self.pairs.iter().sum();
        let sum: u64 = self.pairs.iter().zip(0..).map(|(pairs, size)| pairs * size).sum();
        if pairs == 0 { 0.0 } else { sum as f64 / pairs as f64 }
    }

    /// Pairs with two or more disjoint paths, divided by `possible`; 1 if `possible` is 0.
    #[must_use]
    pub fn share_of_possible(&self) -> f64 {
        let two: u64 = self.pairs.iter().skip(2).sum();
        if self.possible == 0 {
            1.0
        } else {
            two as f64 / self.possible as f64
        }
    }
}

/// Result of the measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DisjointFigures {
    /// Largest number of LIDs of any host port.
    pub offsets_max: u32,
    /// Ordered pairs of host ports on different switches, the second with more than one LID.
    pub pairs: u64,
    /// Ordered pairs of host ports on one switch. They use no cable between switches and are not counted in the
    /// spreads.
    pub pairs_on_one_switch: u64,
    /// Pairs for which the search stopped early, so that their sets may be larger than reported.
    pub bounded: u64,
    /// Figures of paths without a common cable.
    pub by_links: Spread,
    /// Figures of paths without a common cable or switch.
    pub by_switches: Spread,
}

/// Paths to all LIDs of a subject.
#[derive(Debug)]
pub struct Ways<'a> {
    subject: Subject<'a>,
    net: Net,
    /// For each channel, the lower channel number of its cable.
    cables: Vec<u32>,
    possible: Possible,
}

impl<'a> Ways<'a> {
    /// Reads the fabric and the tables once.
    #[must_use]
    pub fn new(subject: Subject<'a>, links: Links) -> Self {
        let net = Net::new(subject.fabric, links);
        let cable = |(number, channel): (u32, &crate::phases::net::Channel)| match net
            .way(channel.dst as usize, channel.into)
        {
            Way::Channel(back) => number.min(back),
            Way::Host(_) | Way::Own | Way::Dead => number,
        };
        let cables: Vec<u32> = (0..).zip(&net.channels).map(cable).collect();
        Self {
            possible: Possible::new(&net, &cables),
            cables,
            subject,
            net,
        }
    }

    /// Returns the disjoint offsets from one host port to another. `None` if one of them is not a host port behind a
    /// switch, or has no LID.
    #[must_use]
    pub fn pair(&self, from: PortRef, to: PortRef) -> Option<Apart> {
        let (source, _) = self.host(from)?;
        let (leaf, host) = self.host(to)?;
        let lids = self.lids(to)?;
        Some(self.apart(source, (leaf, host), &lids, &mut Vec::new()))
    }

    /// Returns the figures over all pairs of hosts.
    #[must_use]
    pub fn figures(&self, par: Par) -> DisjointFigures {
        let hosts = self.net.hosts.len();
        let chunks = if par == Par::Sequential { 1 } else { CHUNKS };
        let length = hosts.div_ceil(chunks).max(1);
        let parts = par.map(hosts.div_ceil(length), |chunk| {
            let mut part = Part::default();
            let mut ways = Vec::new();
            for host in self.net.hosts.iter().skip(chunk * length).take(length) {
                self.towards(host.at, &mut ways, &mut part);
            }
            part
        });
        let sum = parts.into_iter().reduce(Part::merge).unwrap_or_default();
        let spread = |(pairs, worst): (Vec<u64>, Option<Worst>), possible: u64| Spread {
            pairs,
            possible,
            min: worst.map_or(0, |worst| worst.0 as u64),
            worst: worst.map(|(_, from, to)| {
                let fabric = self.subject.fabric;
                (Place::port(fabric, from), Place::port(fabric, to))
            }),
        };
        DisjointFigures {
            by_links: spread(sum.by_links, sum.possible[0]),
            by_switches: spread(sum.by_switches, sum.possible[1]),
            ..sum.figures
        }
    }

    /// Returns the switch that a host port is attached to, and the host's number.
    fn host(&self, at: PortRef) -> Option<(u32, u32)> {
        let lid = self.subject.lids.base(at)?;
        match self.net.owner(self.subject.fabric, self.subject.lids, lid) {
            Owner::Host(host, leaf) => Some((leaf, host)),
            Owner::Switch(_) | Owner::Nobody => None,
        }
    }

    fn lids(&self, at: PortRef) -> Option<Vec<Lid>> {
        let range = self.subject.lids.range(at)?;
        Some((0..range.lmc.lids()).map(|i| Lid(range.base.0 + i)).collect())
    }

    /// Adds the pairs of all hosts with one destination.
    fn towards(&self, to: PortRef, ways: &mut Vec<Path>, part: &mut Part) {
        let (Some((leaf, host)), Some(lids)) = (self.host(to), self.lids(to)) else {
            return;
        };
        part.figures.offsets_max = part.figures.offsets_max.max(lids.len() as u32);
        if lids.len() < 2 {
            return;
        }
        for source in 0..self.net.switches as u32 {
            let hosts = self.net.hosts_of(source as usize);
            let Some(first) = hosts.first() else { continue };
            let pairs = hosts.len() as u64;
            if source == leaf {
                part.figures.pairs_on_one_switch += pairs - 1;
                continue;
            }
            let apart = self.apart(source, (leaf, host), &lids, ways);
            part.figures.pairs += pairs;
            part.possible[0] += if self.possible.by_cables(source, leaf) {
                pairs
            } else {
                0
            };
            part.possible[1] += if self.possible.by_switches(source, leaf) {
                pairs
            } else {
                0
            };
            part.figures.bounded += if apart.is_exact { 0 } else { pairs };
            for (found, spread) in [
                (apart.by_links, &mut part.by_links),
                (apart.by_switches, &mut part.by_switches),
            ] {
                let size = found.len();
                if spread.0.len() <= size {
                    spread.0.resize(size + 1, 0);
                }
                spread.0[size] += pairs;
                if spread.1.is_none_or(|worst| size < worst.0) {
                    spread.1 = Some((size, first.at, to));
                }
            }
        }
    }

    fn apart(&self, source: u32, (leaf, host): (u32, u32), lids: &[Lid], ways: &mut Vec<Path>) -> Apart {
        ways.clear();
        for (&lid, offset) in lids.iter().zip(0..) {
            if let Some((cables, switches)) = self.path(source, (leaf, host), lid)
                && !ways.iter().any(|way: &Path| way.cables == cables)
            {
                ways.push(Path {
                    offset,
                    cables,
                    switches,
                });
            }
        }
        let shares = |a: &[u32], b: &[u32]| a.iter().any(|one| b.contains(one));
        let links = largest(ways.len(), |a, b| shares(&ways[a].cables, &ways[b].cables));
        let switches = largest(ways.len(), |a, b| {
            shares(&ways[a].cables, &ways[b].cables) || shares(&ways[a].switches, &ways[b].switches)
        });
        let named = |set: &[usize]| set.iter().map(|&way| ways[way].offset).collect();
        Apart {
            by_links: named(&links.0),
            by_switches: named(&switches.0),
            is_exact: links.1 && switches.1,
        }
    }

    /// Returns the cables and switches between the ends, if packets to the LID are delivered.
    fn path(&self, source: u32, (leaf, host): (u32, u32), lid: Lid) -> Option<(Vec<u32>, Vec<u32>)> {
        let (mut cables, mut switches) = (Vec::new(), Vec::new());
        let mut at = source;
        // A longer path is a loop.
        for _ in 0..self.net.switches {
            let entry = self.subject.tables.get(SwitchIdx::from_usize(at as usize), lid);
            match self.net.way(at as usize, entry) {
                Way::Channel(channel) => {
                    cables.push(self.cables[channel as usize]);
                    at = self.net.channels[channel as usize].dst;
                    if at != leaf {
                        switches.push(at);
                    }
                }
                Way::Host(found) if found == host => return Some((cables, switches)),
                Way::Host(_) | Way::Own | Way::Dead => return None,
            }
        }
        None
    }
}

/// Number of chunks of hosts that may run in parallel. Results do not depend on it.
const CHUNKS: usize = 16;

/// A path that differs from the paths of all lower offsets.
#[derive(Debug)]
struct Path {
    offset: u8,
    cables: Vec<u32>,
    switches: Vec<u32>,
}

/// A pair of host ports: the size of its largest set, from, to.
type Worst = (usize, PortRef, PortRef);

/// Figures of some destinations.
#[derive(Debug, Default)]
struct Part {
    figures: DisjointFigures,
    by_links: (Vec<u64>, Option<Worst>),
    by_switches: (Vec<u64>, Option<Worst>),
    possible: [u64; 2],
}

impl Part {
    /// Adds the figures of a later part.
    fn merge(mut self, later: Self) -> Self {
        let (mine, more) = (&mut self.figures, &later.figures);
        mine.offsets_max = mine.offsets_max.max(more.offsets_max);
        mine.pairs += more.pairs;
        mine.pairs_on_one_switch += more.pairs_on_one_switch;
        mine.bounded += more.bounded;
        self.possible[0] += later.possible[0];
        self.possible[1] += later.possible[1];
        for (mine, more) in [
            (&mut self.by_links, later.by_links),
            (&mut self.by_switches, later.by_switches),
        ] {
            mine.0.resize(mine.0.len().max(more.0.len()), 0);
            mine.0.iter_mut().zip(&more.0).for_each(|(mine, more)| *mine += more);
            let is_worse = |worst: &Worst| mine.1.is_none_or(|known| worst.0 < known.0);
            if let Some(worst) = more.1.filter(is_worse) {
                mine.1 = Some(worst);
            }
        }
        self
    }
}

/// Returns a largest subset of `0..count` without a clash, and whether it is proved to be largest. `count` is at most
/// 128, because LMC is at most 7.
fn largest(count: usize, clash: impl Fn(usize, usize) -> bool) -> (Vec<usize>, bool) {
    let mut clashes = vec![0_u128; count];
    for a in 0..count {
        for b in a + 1..count {
            if clash(a, b) {
                clashes[a] |= 1 << b;
                clashes[b] |= 1 << a;
            }
        }
    }
    let mut search = Search {
        clashes: &clashes,
        best: 0,
        steps: 0,
    };
    let all = if count == 128 { u128::MAX } else { (1 << count) - 1 };
    search.extend(0, all);
    let best = search.best;
    let is_exact = search.steps < SEARCH_STEPS_MAX;
    ((0..count).filter(|&way| best >> way & 1 == 1).collect(), is_exact)
}

struct Search<'a> {
    clashes: &'a [u128],
    best: u128,
    steps: u32,
}

impl Search<'_> {
    /// Chooses the candidate that clashes with the fewest of the remaining candidates. Then tries each candidate that
    /// clashes with the chosen one in its place, because every largest set contains the chosen candidate or one that
    /// clashes with it.
    fn extend(&mut self, chosen: u128, open: u128) {
        self.steps += 1;
        if (chosen | open).count_ones() <= self.best.count_ones() || self.steps >= SEARCH_STEPS_MAX {
            return;
        }
        let left = |way: usize| (self.clashes[way] & open).count_ones();
        let Some(least) = bits(open).min_by_key(|&way| left(way)) else {
            self.best = chosen;
            return;
        };
        let rivals = self.clashes[least] & open;
        // If the clashing candidates also clash with each other, at most one of them can be chosen, and this candidate
        // is at least as good.
        let is_clique = bits(rivals).all(|way| rivals & !(self.clashes[way] | 1 << way) == 0);
        for way in std::iter::once(least).chain(bits(if is_clique { 0 } else { rivals })) {
            self.extend(chosen | 1 << way, open & !(self.clashes[way] | 1 << way));
        }
    }
}

fn bits(set: u128) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        let way = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(way)
    })
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Seed;

    use super::*;

    #[test]
    fn largest_sets_are_those_that_trying_all_finds() {
        for case in 0..3_000 {
            let mut rng = Seed(40).nth(case).rng();
            let count = 1 + rng.below(11) as usize;
            let density = rng.below(11);
            let drawn: Vec<bool> = (0..count * count).map(|_| rng.below(10) < density).collect();
            let clashes = |a: usize, b: usize| a != b && drawn[a.min(b) * count + a.max(b)];
            let fits = |set: u32| {
                let has = |way: usize| set >> way & 1 == 1;
                (0..count).all(|a| (0..count).all(|b| !(has(a) && has(b) && clashes(a, b))))
            };
            let best = (0..1_u32 << count).filter(|&set| fits(set)).map(u32::count_ones).max();
            let (found, is_exact) = largest(count, clashes);
            assert_eq!(Some(found.len() as u32), best, "case {case}");
            assert!(is_exact && fits(found.iter().fold(0, |set, way| set | 1 << way)));
        }
    }

    #[test]
    fn all_128_offsets() {
        assert_eq!(largest(128, |_, _| false).0.len(), 128);
        assert_eq!(largest(128, |_, _| true), (vec![0], true));
        let (found, is_exact) = largest(128, |a, b| a % 18 == b % 18);
        assert_eq!((found.len(), is_exact), (18, true));
    }
}
