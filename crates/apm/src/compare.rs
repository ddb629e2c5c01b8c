//! What two paths share, and the order of paths by it.

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};

/// Links and switches of a path, there and back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Cables, ascending, each once. The cables of the end ports are among them.
    pub(crate) cables: Vec<u32>,
    /// Switches, ascending, each once.
    pub(crate) switches: Vec<u32>,
    /// Pairs on the busiest link, in the direction of travel.
    pub(crate) busiest: u64,
    /// Number of links from source to destination.
    pub(crate) hops: u32,
}

impl Way {
    /// Returns the pairs of host port and LID on the busiest link, there or back.
    #[must_use]
    pub const fn busiest(&self) -> u64 {
        self.busiest
    }

    /// Returns the number of links from source to destination, those of the hosts included.
    #[must_use]
    pub const fn hops(&self) -> u32 {
        self.hops
    }

    /// Returns the number of links and switches that another path has too.
    #[must_use]
    pub fn shared_with(&self, other: &Self) -> usize {
        common(&self.cables, &other.cables).count() + common(&self.switches, &other.switches).count()
    }

    fn add(&mut self, other: &Self) {
        for (all, new) in [(&mut self.cables, &other.cables), (&mut self.switches, &other.switches)] {
            all.extend(new);
            all.sort_unstable();
            all.dedup();
        }
    }
}

/// Returns the numbers that two ascending lists have in common, ascending.
pub(crate) fn common<'a>(a: &'a [u32], b: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    a.iter().copied().filter(|number| b.binary_search(number).is_ok())
}

/// Returns the order in which to use paths: the first one stays first; then always the path that shares the fewest
/// links and switches with those before it, of these the one with the fewest pairs on its busiest link, then the shortest,
/// then the first in the list. Paths that do not exist are left out.
///
/// The subnet administrator orders its answers by this function, and [`Policy::Manager`](crate::Policy::Manager) takes
/// the second path of the order.
#[must_use]
pub fn rank(ways: &[Option<Way>]) -> Vec<usize> {
    let mut left: Vec<(usize, &Way)> = (0..)
        .zip(ways)
        .filter_map(|(at, way)| Some((at, way.as_ref()?)))
        .collect();
    let mut order = Vec::with_capacity(left.len());
    let mut taken = Way::default();
    while !left.is_empty() {
        let best = match order.is_empty() {
            true => 0,
            false => next(&taken, left.iter().map(|&(_, way)| way)).unwrap_or(0),
        };
        let (at, way) = left.remove(best);
        taken.add(way);
        order.push(at);
    }
    order
}

/// Returns the position of the path to use beside `taken`; see [`rank`].
pub(crate) fn next<'w>(taken: &Way, ways: impl Iterator<Item = &'w Way>) -> Option<usize> {
    let key = |way: &Way| (way.shared_with(taken), way.busiest, way.hops);
    let best = ways.enumerate().min_by_key(|(at, way)| (key(way), *at));
    best.map(|(at, _)| at)
}

/// A single fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A cable between two switches, by its first end.
    Link(PortRef),
    /// A switch.
    Switch(SwitchIdx),
    /// A port of a channel adapter, or its cable.
    Port(PortRef),
}

impl Fault {
    /// Returns the kind: `link`, `switch` or `port`.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Link(_) => "link",
            Self::Switch(_) => "switch",
            Self::Port(_) => "port",
        }
    }

    /// Returns the name of what fails.
    #[must_use]
    pub fn name(self, fabric: &Fabric) -> String {
        match self {
            Self::Link(at) => fabric.link_name_of(at),
            Self::Port(at) => fabric.port_name(at),
            Self::Switch(switch) => {
                let node = fabric.switch(switch);
                match node.description.is_empty() {
                    true => node.guid.to_string(),
                    false => format!("\"{}\"", node.description),
                }
            }
        }
    }
}

/// What the primary and the alternate path share. Every part of it is a single fault that breaks both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Shared links and switches that other paths of the same ports' adapters could avoid.
    pub avoidable: Vec<Fault>,
    /// Shared parts that no alternate path can avoid: the only connected port of an adapter, and the only switch to
    /// which an adapter is connected.
    pub unavoidable: Vec<Fault>,
}

impl Shared {
    /// True if no single fault breaks both paths, except for those that no alternate path can avoid.
    #[must_use]
    pub const fn is_disjoint(&self) -> bool {
        self.avoidable.is_empty()
    }

    /// Returns the number of avoidable shared links, ports included.
    #[must_use]
    pub fn links(&self) -> usize {
        let is_link = |fault: &&Fault| !matches!(fault, Fault::Switch(_));
        self.avoidable.iter().filter(is_link).count()
    }

    /// Returns the number of avoidable shared switches.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.avoidable.len() - self.links()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(cables: &[u32], busiest: u64) -> Option<Way> {
        Some(Way {
            cables: cables.to_vec(),
            switches: Vec::new(),
            busiest,
            hops: cables.len() as u32,
        })
    }

    #[test]
    fn ways_that_share_least_come_first_then_the_least_loaded() {
        let check = |ways: &[(&[u32], u64)], want: &[usize]| {
            let ways: Vec<_> = ways.iter().map(|(cables, busiest)| way(cables, *busiest)).collect();
            assert_eq!(rank(&ways), want, "{ways:?}");
        };
        check(&[], &[]);
        check(&[(&[1, 2], 9), (&[1, 2], 1), (&[3, 4], 9)], &[0, 2, 1]);
        let four: [(&[u32], u64); 4] = [(&[1, 2, 9], 0), (&[1, 3, 9], 0), (&[3, 4, 9], 0), (&[4, 5, 9], 0)];
        check(&four, &[0, 2, 3, 1]);
        // Equally disjoint: load decides, then length, then the order of the list.
        check(
            &[(&[1], 0), (&[2], 7), (&[3], 5), (&[4, 5], 5), (&[6], 5)],
            &[0, 2, 4, 3, 1],
        );
        assert_eq!(rank(&[way(&[1], 0), None, way(&[2], 0)]), [0, 2], "no path, no place");
    }
}
