//! Trees of multicast groups: for each group the switches and links that copy its packets.
//!
//! A tree grows from a *root* in the middle of the fabric: among the switches with the shortest path to the farthest
//! host it is the switch that is nearest to the group's first members; among equals, the switch that is the root of the
//! fewest groups. A tree keeps its links: links in force cost nothing, others one each. So a new member is grafted at
//! the nearest point, a member that leaves is pruned with the links that lead to no other member, and a lost link moves
//! only the part behind it. Of equally good links, the one with the fewest groups is taken. If no path joins two
//! members (a switch without a multicast table lies between), each part has a tree of its own.
//!
//! Such trees are made without regard to routes. If copies and unicast packets could then form a credit loop, `beside`
//! makes the trees: along one trunk, a tree over all switches with turns that all fit into the `order` of the routes'
//! dependencies. Every group gets the part of the trunk that its members need.
//!
//! The work is one scan of all links for each planned group, and for each root one scan for each of at most eight
//! members.

mod beside;
mod better;
mod net;
mod order;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::multicast::{MulticastGroup, MulticastGroups, MulticastTables, PortMask, entry_of};
use selvedge_types::{Guid, Idx, Lid, Sl};

pub use beside::probe;
pub use better::better;
use net::{Arc, Net};
pub use order::RouteTurn;

/// Number of members for which the nearest root is searched: more would cost a scan each and hardly change the root.
const SAMPLES: usize = 8;

/// The groups to be planned, and the present trees.
#[derive(Clone, Copy, Debug)]
pub struct TreeRequest<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// All groups.
    pub groups: &'a MulticastGroups,
    /// The multicast tables that switches hold now.
    pub held: &'a MulticastTables,
    /// Roots of the trees in force, by group: GUIDs of switches.
    pub roots: &'a BTreeMap<Lid, Guid>,
    /// Groups to be planned; other groups keep their trees.
    pub stale: &'a BTreeSet<Lid>,
    /// Dependencies of routes, if trees must be compatible with them.
    pub routes: Option<&'a Routes>,
}

/// Dependencies of routes, for trees that must be compatible with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The dependencies of each lane.
    pub turns: Vec<Vec<RouteTurn>>,
    /// The lane of each service level.
    pub lane_of: [u8; Sl::COUNT],
}

/// Trees of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trees {
    /// The multicast tables for the switches.
    pub tables: MulticastTables,
    /// Roots, by group.
    pub roots: BTreeMap<Lid, Guid>,
    /// Members that no tree can reach: their switch has no room for the group, or their link is down.
    pub unreached: Vec<(Lid, Guid)>,
    /// Members that no tree connects with the other members of their group: every tree that was tried conflicts with
    /// the routes.
    pub apart: Vec<(Lid, Guid)>,
}

/// Plans the trees of the groups that are stale. A pure function: the same trees on any machine.
#[must_use]
pub fn trees(request: &TreeRequest<'_>) -> Trees {
    if let Some(trees) = beside::trees(request) {
        return trees;
    }
    let mut planner = Planner::new(request);
    for mlid in request.held.mlids() {
        if request.groups.find(mlid).is_none() {
            planner.clear(mlid);
        }
    }
    let (stale, kept): (Vec<_>, Vec<_>) =
        (request.groups.iter()).partition(|group| request.stale.contains(&group.mlid));
    kept.into_iter().for_each(|group| planner.keep(group));
    stale.into_iter().for_each(|group| planner.plan(group));
    planner.trees
}

struct Planner<'a> {
    request: &'a TreeRequest<'a>,
    net: Net,
    /// Switches in the middle, by number; computed with the first root.
    centre: Option<Vec<u32>>,
    /// By switch: number of hops to all others.
    hops: BTreeMap<u32, Vec<u16>>,
    /// By switch: number of groups of which it is the root.
    rooted: Vec<u32>,
    /// By cable: number of groups that use it.
    load: Vec<u32>,
    trees: Trees,
}

/// The link and cost by which a switch was reached.
#[derive(Clone, Copy, Debug)]
struct Reached {
    cost: u32,
    /// The last arc on the path, and whether it is in force; none: a source.
    by: Option<(Arc, bool)>,
    is_final: bool,
}

impl<'a> Planner<'a> {
    fn new(request: &'a TreeRequest<'a>) -> Self {
        let net = Net::new(request.fabric);
        Self {
            centre: None,
            hops: BTreeMap::new(),
            rooted: vec![0; net.switches()],
            load: vec![0; net.cables()],
            trees: Trees {
                tables: request.held.clone(),
                ..Trees::default()
            },
            net,
            request,
        }
    }

    fn clear(&mut self, mlid: Lid) {
        for switch in (0..self.net.switches()).map(SwitchIdx::from_usize) {
            self.trees.tables.set_mask(switch, mlid, PortMask::default());
        }
    }

    /// Counts the load of a group that keeps its tree.
    fn keep(&mut self, group: &MulticastGroup) {
        for arc in self.in_force(group.mlid) {
            self.load[arc.cable as usize] += 1;
        }
        if let Some(&root) = self.request.roots.get(&group.mlid) {
            self.trees.roots.insert(group.mlid, root);
            if let Some(switch) = self.switch_of(root) {
                self.rooted[switch as usize] += 1;
            }
        }
    }

    fn switch_of(&self, guid: Guid) -> Option<u32> {
        let fabric = self.request.fabric;
        fabric
            .find(guid)
            .and_then(|node| fabric.switch_index(node))
            .map(|s| s.0)
    }

    /// Returns the links of a group's tree in force: those with both ends in the multicast tables. Each link is
    /// directed from the switch with the lower number.
    fn in_force(&self, mlid: Lid) -> Vec<Arc> {
        let held = self.request.held;
        let mut arcs = Vec::new();
        for from in 0..self.net.switches() as u32 {
            let mask = held.mask(SwitchIdx(from), mlid);
            if mask.is_empty() {
                continue;
            }
            let used = |arc: &&Arc| {
                let back = held.mask(SwitchIdx(arc.to), mlid).contains(arc.to_port);
                from < arc.to && mask.contains(arc.port) && back
            };
            arcs.extend(self.net.arcs(from).iter().filter(used));
        }
        arcs
    }

    fn plan(&mut self, group: &MulticastGroup) {
        let (fabric, mlid) = (self.request.fabric, group.mlid);
        let mut wanted = self.entries(group);
        let mut left: Vec<u32> = wanted.keys().copied().collect();
        let mut held = vec![false; self.net.cables()];
        self.in_force(mlid)
            .iter()
            .for_each(|arc| held[arc.cable as usize] = true);
        self.clear(mlid);
        let mut is_first = true;
        while let Some(root) = self.root(group, &left, is_first) {
            if std::mem::take(&mut is_first) {
                self.rooted[root as usize] += 1;
                let guid = fabric.switch(SwitchIdx(root)).guid;
                self.trees.roots.insert(mlid, guid);
            }
            let reached = self.walk(group, root, &held);
            let (here, elsewhere): (Vec<u32>, Vec<u32>) =
                left.into_iter().partition(|&s| reached[s as usize].is_some());
            self.draw(&mut wanted, root, &here, &reached);
            left = elsewhere;
        }
        for (switch, mask) in wanted {
            self.trees.tables.set_mask(SwitchIdx(switch), mlid, mask);
        }
    }

    /// Returns the switches to which members of a group are attached, with the ports of those that receive.
    fn entries(&mut self, group: &MulticastGroup) -> BTreeMap<u32, PortMask> {
        let (fabric, mlid) = (self.request.fabric, group.mlid);
        let mut wanted: BTreeMap<u32, PortMask> = BTreeMap::new();
        for member in group.members.iter() {
            let at: Option<PortRef> = fabric.find_port(member.guid);
            let entry = at.and_then(|at| entry_of(fabric, at));
            match entry.filter(|(switch, _)| self.net.can(switch.0, mlid)) {
                Some((switch, port)) => {
                    let mask = wanted.entry(switch.0).or_default();
                    if member.receives {
                        mask.insert(port);
                    }
                }
                None => self.trees.unreached.push((mlid, member.guid)),
            }
        }
        wanted
    }

    /// Returns the root of a tree of these switches: its former root if that still exists, else one in the middle.
    fn root(&mut self, group: &MulticastGroup, left: &[u32], is_first: bool) -> Option<u32> {
        let first = *left.first()?;
        let before = self.request.roots.get(&group.mlid).filter(|_| is_first);
        let before = before.and_then(|&guid| self.switch_of(guid));
        let net = &self.net;
        let from_first = self.hops.entry(first).or_insert_with(|| net.hops_from(first));
        let is_near = |root: &u32| net.can(*root, group.mlid) && from_first[*root as usize] != u16::MAX;
        if let Some(root) = before.filter(is_near) {
            return Some(root);
        }
        let centre = match self.centre.take() {
            Some(centre) => centre,
            None => self.net.centre(self.request.fabric),
        };
        let step = left.len().div_ceil(SAMPLES);
        let samples: Vec<u32> = left.iter().copied().step_by(step).collect();
        for &sample in &samples {
            let net = &self.net;
            self.hops.entry(sample).or_insert_with(|| net.hops_from(sample));
        }
        let cost = |&candidate: &u32| {
            let hops = samples.iter().map(|sample| self.hops[sample][candidate as usize]);
            let (most, all) = hops.fold((0, 0), |(most, all), hops| (hops.max(most), all + u64::from(hops)));
            (most, all, self.rooted[candidate as usize], candidate)
        };
        let able = centre
            .iter()
            .copied()
            .filter(|&s| self.net.can(s, group.mlid) && is_first);
        let best = able
            .min_by_key(cost)
            .filter(|best| self.hops[&first][*best as usize] != u16::MAX);
        self.centre = Some(centre);
        Some(best.unwrap_or(first))
    }

    /// Returns the cheapest path from the root to every switch that it can reach.
    fn walk(&self, group: &MulticastGroup, root: u32, held: &[bool]) -> Vec<Option<Reached>> {
        let mut reached: Vec<Option<Reached>> = vec![None; self.net.switches()];
        let mut queue = VecDeque::from([root]);
        reached[root as usize] = Some(Reached {
            cost: 0,
            by: None,
            is_final: false,
        });
        while let Some(at) = queue.pop_front() {
            let Some(here) = reached[at as usize].as_mut().filter(|here| !here.is_final) else {
                continue;
            };
            here.is_final = true;
            let cost = here.cost;
            for &arc in self.net.arcs(at) {
                if arc.mtu < group.mtu || !self.net.can(arc.to, group.mlid) {
                    continue;
                }
                let is_held = held[arc.cable as usize];
                let cost = cost + u32::from(!is_held);
                if !self.is_better(reached[arc.to as usize].as_ref(), cost, (arc, is_held)) {
                    continue;
                }
                let is_new_cost = reached[arc.to as usize].is_none_or(|seen| seen.cost != cost);
                reached[arc.to as usize] = Some(Reached {
                    cost,
                    by: Some((arc, is_held)),
                    is_final: false,
                });
                // Links in force are followed first, so that each part of the old tree is entered once.
                if is_held {
                    queue.push_front(arc.to);
                } else if is_new_cost {
                    queue.push_back(arc.to);
                }
            }
        }
        reached
    }

    fn is_better(&self, seen: Option<&Reached>, cost: u32, (arc, is_held): (Arc, bool)) -> bool {
        let Some(seen) = seen else { return true };
        let Some((other, other_is_held)) = seen.by.filter(|_| !seen.is_final) else {
            return false;
        };
        let load = |arc: Arc| self.load[arc.cable as usize];
        let rank = |cost, is_held: bool, load, cable| (cost, !is_held, load, cable);
        rank(cost, is_held, load(arc), arc.cable) < rank(seen.cost, other_is_held, load(other), other.cable)
    }

    /// Adds the paths from the root to these switches, and removes the common part from the root to where they part.
    fn draw(&mut self, wanted: &mut BTreeMap<u32, PortMask>, root: u32, to: &[u32], reached: &[Option<Reached>]) {
        // Of each switch of the tree: how many branches go on from it, and the last of them.
        let mut branches: BTreeMap<u32, (u32, Option<Arc>)> = to.iter().map(|&switch| (switch, (0, None))).collect();
        let mut arcs: BTreeMap<u32, Arc> = BTreeMap::new();
        for &switch in to {
            let mut at = switch;
            while let Some((arc, _)) = reached[at as usize].and_then(|r| r.by) {
                if arcs.insert(at, arc).is_some() {
                    break;
                }
                let from = branches.entry(arc.from).or_default();
                *from = (from.0 + 1, Some(arc));
                at = arc.from;
            }
        }
        let mut top = root;
        while !to.contains(&top)
            && let Some((1, Some(arc))) = branches.get(&top)
        {
            arcs.remove(&arc.to);
            top = arc.to;
        }
        for arc in arcs.into_values() {
            self.load[arc.cable as usize] += 1;
            wanted.entry(arc.from).or_default().insert(arc.port);
            wanted.entry(arc.to).or_default().insert(arc.to_port);
        }
    }
}

#[cfg(test)]
mod tests;
