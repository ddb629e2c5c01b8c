//! Decides to which lane each destination switch belongs, and which switch is the root of each lane's base (the
//! up*/down* turns that are legal from the start).

use core::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_types::Guid;

use super::net::{NONE, Net};

/// Searches for the root of a lane start from at most this number of its switches: more would not change it.
const SAMPLES_MAX: usize = 64;

/// Assigns every destination switch to a lane: each lane gets a cluster of switches that are near each other, and all
/// clusters have equal numbers of hosts.
///
/// `before` is the assignment in force, by GUID. Switches in `before` keep their lane, so that hosts need not query
/// their paths again; other switches join the nearest cluster that has room.
pub(super) fn lanes(net: &Net, fabric: &Fabric, lanes: u8, before: Option<&BTreeMap<Guid, u8>>) -> Vec<u8> {
    let mut lane = vec![0; net.switches];
    if lanes <= 1 {
        return lane;
    }
    let kept = |s: usize| {
        let guid = fabric.switch(SwitchIdx(u32::try_from(s).unwrap_or(NONE))).guid;
        before.and_then(|b| b.get(&guid)).copied().filter(|&lane| lane < lanes)
    };
    for part in 0..net.parts {
        let members: Vec<usize> = (0..net.switches).filter(|&s| net.part[s] as usize == part).collect();
        // Switches with hosts first: they carry the load that is to be balanced. The others fill the lanes up.
        for with_hosts in [true, false] {
            let some = members.iter().copied().filter(|&s| (net.hosts[s] > 0) == with_hosts);
            assign(net, &some.collect::<Vec<_>>(), lanes, &kept, &mut lane);
        }
    }
    lane
}

fn assign(net: &Net, members: &[usize], lanes: u8, kept: &impl Fn(usize) -> Option<u8>, lane: &mut [u8]) {
    let Some(&start) = members.first() else { return };
    let mut queue = Vec::new();
    let farthest = |hops: &[u32]| members.iter().copied().max_by_key(|&s| (hops[s], Reverse(s)));
    let mut weight_left = vec![0_u64; usize::from(lanes)];
    let weight = |s: usize| u64::from(net.hosts[s].max(1));
    let room = members
        .iter()
        .map(|&s| weight(s))
        .sum::<u64>()
        .div_ceil(u64::from(lanes));
    weight_left.fill(room);
    let mut seeds: Vec<Vec<u32>> = Vec::new();
    let mut nearest = vec![NONE; net.switches];
    let mut next = farthest(&net.distances(start, &mut queue)).unwrap_or(start);
    for l in 0..lanes {
        // A lane that has switches already grows around the first of them.
        let seed = members.iter().copied().find(|&s| kept(s) == Some(l)).unwrap_or(next);
        let hops = net.distances(seed, &mut queue);
        nearest.iter_mut().zip(&hops).for_each(|(n, &h)| *n = h.min(*n));
        next = farthest(&nearest).unwrap_or(start);
        seeds.push(hops);
    }
    let mut taken = vec![false; net.switches];
    for &s in members {
        if let Some(l) = kept(s) {
            lane[s] = l;
            taken[s] = true;
            let left = &mut weight_left[usize::from(l)];
            *left = left.saturating_sub(weight(s));
        }
    }
    let mut offers: Vec<(u32, usize, u8)> = Vec::new();
    for (l, hops) in (0..lanes).zip(&seeds) {
        offers.extend(members.iter().filter(|&&s| !taken[s]).map(|&s| (hops[s], s, l)));
    }
    offers.sort_unstable();
    for may_overflow in [false, true] {
        for &(_, s, l) in &offers {
            let left = &mut weight_left[usize::from(l)];
            if !taken[s] && (*left > 0 || may_overflow) {
                *left = left.saturating_sub(weight(s));
                lane[s] = l;
                taken[s] = true;
            }
        }
    }
}

/// How the switches of a lane are ordered, beginning at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// By distance from the top switch, nearest first: then most paths lead over the top.
    Rings,
    /// Adds one switch at a time: the switch with the most neighbours among the switches already ordered, and among
    /// equals the one that was reached last.
    ///
    /// Paths may not turn from down to up, and a switch with `n` neighbours above forbids `n · (n - 1)` turns. All
    /// switches together have as many neighbours above as there are links, so the fewest turns are lost if all switches
    /// have equally many. In an order by rings, the lowest switches have only neighbours above, and no path passes
    /// them. In this order nearly all switches have half of their neighbours above. (Measured with 256 switches on one
    /// lane: the busiest channel has a quarter of the load that it has with an order by rings.)
    Line,
}

/// Returns orders of all switches from top to bottom, for each lane: first by [`Layout::Line`], then by
/// [`Layout::Rings`]. `count` has the number of orders of each kind.
///
/// The top of the first order is the switch with the least sum of squared distances to the destinations of the lane. So
/// the lanes have different tops, and different bottlenecks.
pub(super) fn tops(net: &Net, lane: &[u8], lanes: u8, count: [usize; 2]) -> Vec<Vec<Arc<Vec<u32>>>> {
    let mut queue = Vec::new();
    let of_layout = |layout, count: usize| (0..count).map(move |i| (layout, i));
    let all: Vec<(Layout, usize)> = of_layout(Layout::Line, count[0])
        .chain(of_layout(Layout::Rings, count[1]))
        .collect();
    let mut tops = vec![Vec::new(); all.len()];
    for l in 0..lanes {
        let ranking = central(net, lane, l, &mut queue);
        let mut of_part = vec![Vec::new(); net.parts];
        for s in ranking {
            of_part[net.part[s as usize] as usize].push(s);
        }
        for (&(layout, i), tops) in all.iter().zip(&mut tops) {
            let roots = of_part
                .iter()
                .filter_map(|list| list.get(i.min(list.len() - 1)).copied())
                .collect();
            tops.push(Arc::new(match layout {
                Layout::Line => line(net, roots),
                Layout::Rings => rings(net, roots),
            }));
        }
    }
    tops
}

/// Returns all switches, those most central to a lane's destinations first.
fn central(net: &Net, lane: &[u8], l: u8, queue: &mut Vec<u32>) -> Vec<u32> {
    let is_member = |&s: &usize| lane[s] == l && net.hosts[s] > 0;
    let members: Vec<usize> = (0..net.switches).filter(is_member).collect();
    let step = members.len().div_ceil(SAMPLES_MAX).max(1);
    let mut sum = vec![0_u64; net.switches];
    for &m in members.iter().step_by(step) {
        let hops = net.distances(m, queue);
        for (sum, &h) in sum.iter_mut().zip(&hops).filter(|(_, h)| **h != NONE) {
            *sum += u64::from(h) * u64::from(h) * u64::from(net.hosts[m]);
        }
    }
    let mut all: Vec<u32> = (0..).take(net.switches).collect();
    all.sort_by_key(|&s| (sum[s as usize], Reverse(net.out(s as usize).len()), s));
    all
}

/// Returns the position of each switch by its distance to the root of its part.
fn rings(net: &Net, roots: Vec<u32>) -> Vec<u32> {
    let mut rank = vec![NONE; net.switches];
    roots.iter().for_each(|&r| rank[r as usize] = 0);
    let mut queue = roots;
    let mut head = 0;
    while let Some(&at) = queue.get(head) {
        head += 1;
        for c in net.out(at as usize) {
            let to = net.dst[c];
            if rank[to as usize] == NONE {
                rank[to as usize] = rank[at as usize] + 1;
                queue.push(to);
            }
        }
    }
    let mut all: Vec<u32> = (0..).take(net.switches).collect();
    all.sort_by_key(|&s| (rank[s as usize], s));
    places(&all)
}

/// Returns the position of each switch by [`Layout::Line`].
fn line(net: &Net, roots: Vec<u32>) -> Vec<u32> {
    let mut above = vec![0_u32; net.switches];
    // When each switch was met first; 0 for not yet.
    let mut met = vec![0_u32; net.switches];
    let mut order = Vec::with_capacity(net.switches);
    let mut placed = vec![false; net.switches];
    let mut clock = 0;
    // An entry for each time that a switch gets another neighbour above it; the last one counts.
    let mut heap: BinaryHeap<(u32, u32, u32)> = BinaryHeap::new();
    for root in roots {
        heap.push((0, 0, root));
        while let Some((_, _, s)) = heap.pop() {
            if core::mem::replace(&mut placed[s as usize], true) {
                continue;
            }
            order.push(s);
            for c in net.out(s as usize) {
                let to = net.dst[c];
                clock += 1;
                if met[to as usize] == 0 {
                    met[to as usize] = clock;
                }
                above[to as usize] += 1;
                heap.push((above[to as usize], met[to as usize], to));
            }
        }
    }
    places(&order)
}

/// Returns the position of each switch in a list of all switches.
fn places(all: &[u32]) -> Vec<u32> {
    let mut position = vec![0; all.len()];
    for (place, &s) in (0..).zip(all) {
        position[s as usize] = place;
    }
    position
}
