//! Single points of failure, from the cables alone: which link or switch, once lost, parts hosts from each other.

use selvedge_fabric::{Fabric, PortRef};
use selvedge_types::Idx;

/// Numbers of ordered pairs of hosts that no tables can connect any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cuts {
    /// Number of these pairs if a link is lost, in the order of the links.
    pub(crate) by_link: Vec<u64>,
    /// Number of these pairs, without the hosts of the lost switch, if a switch is lost.
    pub(crate) by_switch: Vec<u64>,
}

/// A switch on the path from the root of the search to the current one.
struct Step {
    switch: usize,
    /// The link by which the switch was entered.
    by: usize,
    /// Number of visited neighbours.
    looked: usize,
}

const NO_LINK: usize = usize::MAX;

/// Finds links and switches without which the fabric falls apart, by one depth-first search over all switches (Tarjan
/// 1974). `links` are the live links between switches, `hosts` the live host ports of each switch.
pub(crate) fn cuts(fabric: &Fabric, links: &[PortRef], hosts: &[u64]) -> Cuts {
    let mut neighbours: Vec<Vec<(usize, usize)>> = vec![Vec::new(); hosts.len()];
    for (link, &at) in links.iter().enumerate() {
        let ends = [Some(at), fabric.peer(at)].map(|end| Some(fabric.switch_index(end?.node)?.to_usize()));
        if let [Some(a), Some(b)] = ends {
            neighbours[a].push((b, link));
            neighbours[b].push((a, link));
        }
    }
    let mut walk = Walk {
        neighbours,
        hosts,
        seen: vec![0; hosts.len()],
        low: vec![0; hosts.len()],
        below: hosts.to_vec(),
        pieces: vec![(0, 0); hosts.len()],
        bridges: Vec::new(),
        clock: 0,
    };
    let mut cuts = Cuts {
        by_link: vec![0; links.len()],
        by_switch: vec![0; hosts.len()],
    };
    for root in 0..hosts.len() {
        if walk.seen[root] == 0 {
            let part = walk.part(root);
            walk.judge(&part, walk.below[root], &mut cuts);
        }
    }
    cuts
}

struct Walk<'a> {
    /// Neighbours of each switch, and the links to them.
    neighbours: Vec<Vec<(usize, usize)>>,
    hosts: &'a [u64],
    /// By switch: when it was reached, counted from 1.
    seen: Vec<usize>,
    /// The first met switch that can be reached from below a switch without its own link upwards.
    low: Vec<usize>,
    /// By switch: number of hosts on it and on all switches that were first reached through it.
    below: Vec<u64>,
    /// The parts that only this switch connects with the others: number of hosts, and of ordered pairs within them.
    pieces: Vec<(u64, u64)>,
    /// Links that alone connect the part below them, with the number of hosts in that part.
    bridges: Vec<(usize, u64)>,
    clock: usize,
}

impl Walk<'_> {
    /// Visits all switches that are connected with `root`, and returns them.
    fn part(&mut self, root: usize) -> Vec<usize> {
        let mut part = Vec::new();
        let mut path = vec![self.enter(root, NO_LINK, &mut part)];
        while let Some(step) = path.last_mut() {
            let at = step.switch;
            if let Some(&(to, link)) = self.neighbours[at].get(step.looked) {
                step.looked += 1;
                if self.seen[to] == 0 {
                    let further = self.enter(to, link, &mut part);
                    path.push(further);
                } else if link != step.by {
                    self.low[at] = self.low[at].min(self.seen[to]);
                }
                continue;
            }
            let by = step.by;
            path.pop();
            if let Some(above) = path.last() {
                self.leave(at, by, above.switch);
            }
        }
        part
    }

    fn enter(&mut self, switch: usize, by: usize, part: &mut Vec<usize>) -> Step {
        self.clock += 1;
        self.seen[switch] = self.clock;
        self.low[switch] = self.clock;
        part.push(switch);
        Step { switch, by, looked: 0 }
    }

    /// Completes the data of `at` after all switches below it were visited.
    fn leave(&mut self, at: usize, by: usize, above: usize) {
        let hosts = self.below[at];
        self.low[above] = self.low[above].min(self.low[at]);
        self.below[above] += hosts;
        if self.low[at] >= self.seen[above] {
            self.pieces[above].0 += hosts;
            self.pieces[above].1 += pairs(hosts);
        }
        if self.low[at] > self.seen[above] {
            self.bridges.push((by, hosts));
        }
    }

    /// Counts the pairs of a part with this number of hosts.
    fn judge(&mut self, part: &[usize], all: u64, cuts: &mut Cuts) {
        for (link, hosts) in self.bridges.drain(..) {
            cuts.by_link[link] = 2 * hosts * (all - hosts);
        }
        for &switch in part {
            let others = all - self.hosts[switch];
            let (hosts, within) = self.pieces[switch];
            cuts.by_switch[switch] = pairs(others) - within - pairs(others - hosts);
        }
    }
}

/// Returns the number of ordered pairs of this number of hosts.
pub(crate) const fn pairs(count: u64) -> u64 {
    count * count.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::{hosts_of, switch_links};
    use crate::testing;

    /// Counts the separated pairs by trying: pairs joined before less pairs joined after.
    fn tried(fabric: &Fabric, links: &[PortRef], hosts: &[u64]) -> Cuts {
        let joined = |lost: usize, dead: usize| {
            let mut part: Vec<usize> = (0..hosts.len()).collect();
            for _ in 0..hosts.len() {
                for (link, &at) in links.iter().enumerate() {
                    let ends =
                        [at, fabric.peer(at).unwrap()].map(|end| fabric.switch_index(end.node).unwrap().to_usize());
                    if link != lost && !ends.contains(&dead) {
                        let least = part[ends[0]].min(part[ends[1]]);
                        ends.iter().for_each(|&end| part[end] = least);
                    }
                }
            }
            let of = |which| {
                (0..hosts.len())
                    .filter(|&s| s != dead && part[s] == which)
                    .map(|s| hosts[s])
                    .sum()
            };
            (0..hosts.len()).map(|which| pairs(of(which))).sum::<u64>()
        };
        let before = joined(NO_LINK, NO_LINK);
        let others = |dead: usize| {
            // Pairs without the dead switch's hosts, all in one part.
            let all: u64 = hosts.iter().sum();
            pairs(all - hosts[dead])
        };
        Cuts {
            by_link: (0..links.len()).map(|link| before - joined(link, NO_LINK)).collect(),
            by_switch: (0..hosts.len())
                .map(|dead| others(dead) - joined(NO_LINK, dead))
                .collect(),
        }
    }

    #[test]
    fn as_many_pairs_as_trying_finds() {
        let check = |spec: &str| {
            let fabric = testing::fabric(spec);
            let (links, hosts) = (switch_links(&fabric), hosts_of(&fabric));
            assert_eq!(cuts(&fabric, &links, &hosts), tried(&fabric, &links, &hosts), "{spec}");
        };
        check("ring:switches=5,hosts=2");
        check("karytree:k=2,n=3");
        check("mesh:4x1,hosts=2");
        check("mesh:1x1,hosts=2");
        check("random:switches=12,degree=3,hosts=1,seed=1");
        check("xgft:m=2x2x2,w=1x1x1");
    }

    #[test]
    fn a_chain_is_cut_anywhere() {
        let fabric = testing::fabric("mesh:3x1,hosts=2");
        let cuts = cuts(&fabric, &switch_links(&fabric), &hosts_of(&fabric));
        assert_eq!((cuts.by_link, cuts.by_switch), (vec![16, 16], vec![0, 8, 0]));
    }
}
