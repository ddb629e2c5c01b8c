//! Selects trees to be moved, if links were lost and came back and better trees are possible.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_fabric::SwitchIdx;
use selvedge_plan::multicast::{MulticastTables, PortMask};
use selvedge_types::{Idx, Lid};

use super::net::Net;
use super::{TreeRequest, Trees, trees};

/// The cost of a tree; less is better. Compared in this order: members that it does not join, links between its two
/// farthest switches, links in all.
type Cost = (usize, usize, usize);

/// Replaces trees that would be better if all trees were planned from scratch: as many as `fits` allows, but at least
/// one. Also returns the number of trees moved, and the number that could still be moved.
#[must_use]
pub fn better(request: &TreeRequest<'_>, fits: impl Fn(&MulticastTables) -> bool) -> (Trees, (usize, usize)) {
    let empty = MulticastTables::new(request.held.switches());
    let all: BTreeSet<Lid> = request.groups.iter().map(|group| group.mlid).collect();
    let fresh = trees(&TreeRequest {
        held: &empty,
        roots: &BTreeMap::new(),
        stale: &all,
        ..*request
    });
    let net = Net::new(request.fabric);
    let mut kept = Trees {
        tables: request.held.clone(),
        roots: request.roots.clone(),
        unreached: fresh.unreached.clone(),
        apart: Vec::new(),
    };
    let (mut moved, mut left) = (0, 0);
    for &mlid in &all {
        let is_better = cost(&net, &fresh.tables, mlid) < cost(&net, request.held, mlid);
        if !is_better {
            continue;
        }
        let mut tables = kept.tables.clone();
        for switch in (0..tables.switches()).map(SwitchIdx::from_usize) {
            tables.set_mask(switch, mlid, fresh.tables.mask(switch, mlid));
        }
        if left > 0 || moved > 0 && !fits(&tables) {
            left += 1;
            continue;
        }
        (kept.tables, moved) = (tables, moved + 1);
        kept.roots.extend(fresh.roots.get(&mlid).map(|&root| (mlid, root)));
    }
    (kept, (moved, left))
}

fn cost(net: &Net, tables: &MulticastTables, mlid: Lid) -> Cost {
    let masks: Vec<PortMask> = (0..net.switches())
        .map(|s| tables.mask(SwitchIdx::from_usize(s), mlid))
        .collect();
    let links = |at: u32| -> Vec<u32> {
        let arcs = net.arcs(at).iter();
        let used =
            arcs.filter(|arc| masks[at as usize].contains(arc.port) && masks[arc.to as usize].contains(arc.to_port));
        used.map(|arc| arc.to).collect()
    };
    let switches: Vec<u32> = (0..net.switches() as u32)
        .filter(|s| !masks[*s as usize].is_empty())
        .collect();
    let Some(&first) = switches.first() else {
        return (0, 0, 0);
    };
    let far = |from: u32| {
        let mut hops: BTreeMap<u32, usize> = BTreeMap::from([(from, 0)]);
        let mut open = VecDeque::from([from]);
        let mut last = from;
        while let Some(at) = open.pop_front() {
            last = at;
            for to in links(at) {
                if !hops.contains_key(&to) {
                    hops.insert(to, hops[&at] + 1);
                    open.push_back(to);
                }
            }
        }
        (last, hops[&last], hops.len())
    };
    // In a tree, the node farthest from any given node is one end of the longest path.
    let (end, _, joined) = far(first);
    let used: usize = switches.iter().map(|&at| links(at).len()).sum();
    (switches.len() - joined, far(end).1, used / 2)
}
