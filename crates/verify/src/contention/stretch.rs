//! Stretch of paths, and host pairs per cable.

use std::collections::BTreeMap;

use selvedge_sim::Par;

use super::Stretch;
use super::routes::Routes;
use crate::figures::Load;
use crate::ground::Ground;

/// Numbers of host pairs: by (links on the path, fewest links possible), and by channel.
#[derive(Clone, Debug, Default)]
struct Counted {
    pairs: BTreeMap<(u32, u32), u64>,
    loads: Vec<u64>,
}

/// Follows the path of every host pair once.
pub fn measure(ground: &Ground<'_>, routes: &Routes, par: Par) -> (Stretch, Load) {
    /// Number of parallel jobs. A job's counters take 8 bytes per channel, and merging them costs as much as following
    /// a few destinations.
    const JOBS: usize = 32;
    let (near, leaves) = (Neighbours::new(ground), &routes.leaves);
    let counted = par.map(JOBS.min(leaves.len()), |job| {
        let mut counted = Counted {
            loads: vec![0; routes.channels],
            ..Counted::default()
        };
        let range = job * leaves.len() / JOBS.min(leaves.len())..(job + 1) * leaves.len() / JOBS.min(leaves.len());
        for leaf in range {
            let switch = leaves[leaf].switch;
            let fewest = near.distances(switch);
            for host in ground.hosts_of(switch as usize) {
                towards(routes, host as u32, &fewest, &mut counted);
            }
        }
        counted
    });
    let mut all = Counted {
        loads: vec![0; routes.channels],
        ..Counted::default()
    };
    for part in counted {
        for (key, count) in part.pairs {
            *all.pairs.entry(key).or_default() += count;
        }
        all.loads
            .iter_mut()
            .zip(&part.loads)
            .for_each(|(sum, &load)| *sum += load);
    }
    (stretch(&all.pairs), cables(ground, &all.loads))
}

fn towards(routes: &Routes, host: u32, fewest: &[u32], counted: &mut Counted) {
    let mut way = Vec::new();
    for leaf in &routes.leaves {
        way.clear();
        if leaf.switch == routes.at[host as usize] || !routes.follow(leaf.switch, host, &mut way) {
            continue;
        }
        let pairs = u64::from(leaf.hosts);
        for &channel in &way {
            counted.loads[channel as usize] += pairs;
        }
        let links = u32::try_from(way.len()).unwrap_or(u32::MAX);
        *counted.pairs.entry((links, fewest[leaf.switch as usize])).or_default() += pairs;
    }
}

fn stretch(pairs: &BTreeMap<(u32, u32), u64>) -> Stretch {
    let count: u64 = pairs.values().sum();
    if count == 0 {
        return Stretch::default();
    }
    let (mut sum, mut max, mut shortest, mut fewest_sum) = (0.0, 0.0_f64, 0, 0);
    for (&(links, fewest), &pairs) in pairs {
        let ratio = f64::from(links) / f64::from(fewest.max(1));
        sum += ratio * pairs as f64;
        max = max.max(ratio);
        fewest_sum += u64::from(fewest) * pairs;
        shortest += if links == fewest { pairs } else { 0 };
    }
    Stretch {
        mean: sum / count as f64,
        max,
        shortest_share: shortest as f64 / count as f64,
        shortest_mean: fewest_sum as f64 / count as f64,
    }
}

/// Returns the load per cable: both directions together.
fn cables(ground: &Ground<'_>, loads: &[u64]) -> Load {
    let of: BTreeMap<(u32, u8), u64> = ground
        .channels
        .iter()
        .map(|c| (c.src, c.out))
        .zip(loads.iter().copied())
        .collect();
    let channels = ground.channels.iter().zip(loads);
    let each = channels
        .filter(|(c, _)| (c.src, c.out) <= (c.dst, c.into))
        .map(|(c, &load)| {
            let is_own = (c.src, c.out) == (c.dst, c.into);
            let back = of.get(&(c.dst, c.into)).copied().unwrap_or(0);
            load + if is_own { 0 } else { back }
        });
    Load::of(each.collect::<Vec<_>>().into_iter())
}

/// The neighbouring switches of each switch.
struct Neighbours {
    first: Vec<u32>,
    near: Vec<u32>,
}

impl Neighbours {
    fn new(ground: &Ground<'_>) -> Self {
        let mut first = vec![0; ground.switches + 1];
        for channel in &ground.channels {
            first[channel.src as usize + 1] += 1;
        }
        for i in 0..ground.switches {
            first[i + 1] += first[i];
        }
        // Channels are sorted by source.
        let near = ground.channels.iter().map(|c| c.dst).collect();
        Self { first, near }
    }

    /// Returns the fewest links between `to` and every switch. Links work in both directions, so one search is enough.
    fn distances(&self, to: u32) -> Vec<u32> {
        let mut distance = vec![u32::MAX; self.first.len() - 1];
        distance[to as usize] = 0;
        let mut queue = vec![to];
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            head += 1;
            let range = self.first[at as usize] as usize..self.first[at as usize + 1] as usize;
            for &next in &self.near[range] {
                if distance[next as usize] == u32::MAX {
                    distance[next as usize] = distance[at as usize] + 1;
                    queue.push(next);
                }
            }
        }
        distance
    }
}
