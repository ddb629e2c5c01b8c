//! Finds the level of each switch.

use selvedge_fabric::Fabric;
use selvedge_types::Guid;

use super::error::NotATree;
use super::net::Net;

/// Largest number of levels: OpenSM's ftree has the same limit, and no tree that was ever built comes near.
const LEVELS_MAX: usize = 8;
/// If at most one link in this number joins switches of one level, the fabric counts as a tree with odd cables.
const LEVEL_LINKS_SHARE: usize = 8;
const UNKNOWN: u32 = u32::MAX;

/// Levels: leaves have 0, and every link of the tree leads one level up or down.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    pub level: Vec<u32>,
    /// Number of links between switches of one level; they are no part of the tree.
    pub level_links: usize,
    /// Number of levels.
    pub count: usize,
}

impl Levels {
    /// Finds the levels: downwards from the roots if they are given, else upwards from the hosts.
    ///
    /// A switch with hosts counts as a leaf. But an upper switch may have a few hosts (I/O nodes). So if the fabric
    /// does not look like a tree, switches with the fewest hosts are no longer counted as leaves, then switches with
    /// the next larger number of hosts, and so on.
    pub fn find(fabric: &Fabric, net: &Net, roots: &[Guid]) -> Result<Self, NotATree> {
        /// Different numbers of hosts that are tried.
        const TRIES: usize = 16;
        let found = if roots.is_empty() {
            let mut counts: Vec<usize> = net.nominal_hosts.iter().copied().filter(|&h| h > 0).collect();
            counts.sort_unstable();
            counts.dedup();
            counts.truncate(TRIES);
            let tries = counts.iter().map(|&least| Self::upwards(net, least));
            let mut best: Option<Self> = None;
            for levels in tries {
                let fewer = best.as_ref().is_none_or(|b| levels.level_links < b.level_links);
                // Fewer leaves only if that explains most of the odd links.
                if best.is_none() || (fewer && best.as_ref().is_some_and(|b| 2 * levels.level_links <= b.level_links)) {
                    best = Some(levels);
                }
            }
            best.unwrap_or_else(|| Self::upwards(net, 0))
        } else {
            Self::downwards(fabric, net, roots)?
        };
        let links: usize = (0..net.total()).map(|s| net.links.get(s).len()).sum::<usize>() / 2;
        if found.level_links * LEVEL_LINKS_SHARE > links {
            let level_links = found.level_links;
            return Err(NotATree::LevelLinks { level_links, links });
        }
        if found.count > LEVELS_MAX {
            return Err(NotATree::TooDeep {
                levels: found.count,
                most: LEVELS_MAX,
            });
        }
        Ok(found)
    }

    fn upwards(net: &Net, least_hosts: usize) -> Self {
        let leaves = (0..net.total()).filter(|&s| net.nominal_hosts[s] >= least_hosts.max(1));
        let mut level = vec![UNKNOWN; net.total()];
        spread(net, leaves.collect(), &mut level);
        // Parts without such leaves grow from their best switch.
        let mut rest: Vec<usize> = (0..net.total()).filter(|&s| level[s] == UNKNOWN).collect();
        rest.sort_by_key(|&s| core::cmp::Reverse(net.nominal_hosts[s]));
        for s in rest {
            if level[s] == UNKNOWN {
                spread(net, vec![s], &mut level);
            }
        }
        Self::of(net, level)
    }

    fn downwards(fabric: &Fabric, net: &Net, roots: &[Guid]) -> Result<Self, NotATree> {
        let mut start = Vec::new();
        for &guid in roots {
            match crate::engines::updn::switch_of(fabric, guid) {
                Some(at) => start.push(at.0 as usize),
                None => return Err(NotATree::UnknownRoot { guid }),
            }
        }
        let mut rank = vec![UNKNOWN; net.total()];
        spread(net, start, &mut rank);
        let deepest = rank.iter().copied().filter(|&r| r != UNKNOWN).max().unwrap_or(0);
        let mut level = vec![UNKNOWN; net.total()];
        for s in (0..net.total()).filter(|&s| rank[s] != UNKNOWN) {
            level[s] = deepest - rank[s];
        }
        for s in 0..net.total() {
            if level[s] == UNKNOWN {
                spread(net, vec![s], &mut level);
            }
        }
        Ok(Self::of(net, level))
    }

    fn of(net: &Net, level: Vec<u32>) -> Self {
        let odd = |s: usize| {
            net.links
                .get(s)
                .iter()
                .filter(|l| level[l.peer as usize] == level[s])
                .count()
        };
        let level_links = (0..net.total()).map(odd).sum::<usize>() / 2;
        let count = level.iter().map(|&l| l as usize + 1).max().unwrap_or(0);
        Self {
            level,
            level_links,
            count,
        }
    }
}

/// Gives each switch that has no level a level: its distance from `start`.
fn spread(net: &Net, start: Vec<usize>, level: &mut [u32]) {
    let mut queue = start;
    queue.retain(|&s| level[s] == UNKNOWN);
    queue.iter().for_each(|&s| level[s] = 0);
    let mut head = 0;
    while let Some(&at) = queue.get(head) {
        head += 1;
        for link in net.links.get(at) {
            let next = link.peer as usize;
            if level[next] == UNKNOWN {
                level[next] = level[at] + 1;
                queue.push(next);
            }
        }
    }
}
