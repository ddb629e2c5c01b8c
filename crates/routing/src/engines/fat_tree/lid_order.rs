//! The order in which end ports get LIDs, so that the entries that one lost link moves stand in few LFT blocks.
//!
//! # What a lost link moves
//! A Set writes a block of 64 entries, so a switch that changes n entries sends between n / 64 and n Sets. In a tree of
//! three levels, with tables of B blocks and with P pods, a lost link changes these entries:
//!
//! | lost | at | entries | of |
//! |---|---|---|---|
//! | leaf–mid | the leaf | entries that led up over the link | one plane (position above the leaves), all pods |
//! | | all other leaves | one entry each | |
//! | | the mid | entries that led down over the link | one leaf |
//! | mid–top | the mid | entries that led up over the link | one position above it, all pods, all planes |
//! | | the P − 1 other mids below that top | entries for hosts behind it | one position, one pod, all planes |
//! | | the top | entries that led down over the link | one pod |
//!
//! "All planes" also holds for entries that no packet of a host uses: a switch has entries for its own agent too.
//!
//! # The order
//! For the first line of the table, LIDs of one plane should be neighbours; for the fifth line, LIDs of all planes
//! should be. The compromise is G groups of planes: then the first line costs B / G blocks and the fifth (P − 1) · G
//! blocks, and their sum is least for G = √(B / (P − 1)). Within a group of planes, pods are put into A groups. This
//! costs the mid G · A blocks and the top B / A blocks; the sum is least for A = √(B / G). Within these groups LIDs are
//! sorted by position above the mid, pod and plane. Upper switches come last in each group of planes. Then the entries
//! of paths from top to top, which all lead over one leaf, are in few blocks. In a tree of two levels a leaf is a pod,
//! and the table has no fifth line: G = √B.
//!
//! # A lower bound
//! No order of LIDs is best for every fault. The following bound shows how near one order can come to the best LIDs for
//! each single fault. Take k planes, k positions above the middle level, k pods, and one host for each (plane,
//! position, pod). Block i holds n ≤ 64 hosts of a planes, b positions and c pods, so n ≤ a·b·c ≤ k·b·c. A lost mid–top
//! link changes these entries: in the mid, those of all hosts of its position in other pods; in the top, those of all
//! hosts of its pod; and in each of the other k − 1 pods, one entry towards the host of this plane, position and pod.
//! The mean of Sets over all k³ links is at least
//!
//! ```text
//! k − 1 + (1/k) · Σ ((k − 1)/k · b + c)   with   b·c ≥ n/k for each block.
//! ```
//!
//! With k = 18 a full block needs b·c ≥ 4, so (17/18)·b + c ≥ 3.88, and 91.1 blocks need 36.7 Sets, where the best LIDs
//! need 28: 1.31 times. That costs a leaf all 91 blocks of hosts. To stay at 30 of them, a ≤ 6 on average, b·c ≥ 10.7,
//! and mid–top needs 49. This order needs 58 (62 with detours of agents); for leaf–mid 1.1 times the best. With two
//! levels and l hosts a leaf, a positions and c leaves in a block: (a + c/2)/l for each of 5.06 blocks, a·c ≥ 64, so
//! 3.2 Sets where the best LIDs need 2; this order needs 6 with the entries for switches.

use selvedge_fabric::PortRef;
use selvedge_plan::BLOCK_LIDS;
use selvedge_types::{Lmc, PortNum};

use super::FatTree;
use super::pieces::Union;
use super::rule::Rule;
use super::shape::NONE;
use super::targets::{Target, Upper};

impl FatTree {
    /// Returns the end ports in the order in which they should get LIDs, with `2^lmc` LIDs for each host port. The
    /// fabric must have no LIDs yet. `None` if the order does not matter: a tree with fewer than two levels, or tables
    /// of one block.
    #[must_use]
    pub fn lid_order(&self, lmc: Lmc) -> Option<Vec<PortRef>> {
        if self.shape.levels < 2 {
            return None;
        }
        let pods = Pods::of(&self.rule, self.shape.levels);
        let is_there = |&(_, target): &(PortRef, Target)| target != Target::Nowhere;
        let ports: Vec<(PortRef, Target)> = self.targets.iter().filter(is_there).collect();
        let lids: usize = ports.iter().map(|(at, _)| lids_of(*at, lmc)).sum();
        if lids < BLOCK_LIDS {
            return None;
        }
        let beside = if self.shape.levels == 2 {
            1
        } else {
            pods.count.max(2) - 1
        };
        let places = Places {
            tree: self,
            groups: Groups::new(lids, beside),
            pods: &pods,
        };
        let mut keyed: Vec<(Vec<u32>, PortRef)> = ports
            .into_iter()
            .filter_map(|(at, target)| Some((places.key(target)?, at)))
            .collect();
        keyed.sort_unstable();
        Some(keyed.into_iter().map(|(_, at)| at).collect())
    }
}

/// Returns the number of LIDs of an end port; a switch has one.
fn lids_of(at: PortRef, lmc: Lmc) -> usize {
    if at.port == PortNum::MANAGEMENT {
        1
    } else {
        usize::from(lmc.lids())
    }
}

/// The numbers of groups into which planes and pods are put: see the module's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Groups {
    planes: u32,
    pods: u32,
}

impl Groups {
    /// Returns the groups for a number of LIDs. `beside`: the number of switches beside the lower end of a lost link to
    /// the top.
    fn new(lids: usize, beside: u32) -> Self {
        let blocks = lids as f64 / BLOCK_LIDS as f64;
        let planes = (blocks / f64::from(beside)).sqrt().ceil().max(1.0);
        let pods = (blocks / planes).sqrt().round().max(1.0);
        Self {
            planes: planes as u32,
            pods: pods as u32,
        }
    }
}

/// Parts of the tree that are joined only by its top level.
struct Pods {
    /// Pod of each switch; [`NONE`] at the top level.
    of: Vec<u32>,
    count: u32,
}

impl Pods {
    fn of(rule: &Rule, levels: usize) -> Self {
        let total = rule.net.total();
        let is_top = |s: usize| rule.shape.level[s] as usize + 1 >= levels;
        let mut joined = Union::new(total);
        for s in (0..total).filter(|&s| !is_top(s)) {
            for link in rule.net.links.get(s).iter().filter(|k| !is_top(k.peer as usize)) {
                joined.join(s, link.peer as usize);
            }
        }
        // Numbered in the order of leaves; parts without one come after them.
        let leaves = rule.shape.leaves.iter().map(|&s| s as usize);
        let (mut of_part, mut of, mut count) = (vec![NONE; total], vec![NONE; total], 0);
        for s in leaves.chain(0..total).filter(|&s| !is_top(s)) {
            let part = &mut of_part[joined.find(s)];
            if *part == NONE {
                *part = count;
                count += 1;
            }
            of[s] = *part;
        }
        Self { of, count }
    }
}

struct Places<'t> {
    tree: &'t FatTree,
    pods: &'t Pods,
    groups: Groups,
}

impl Places<'_> {
    /// Returns the sort key of a target. The first number is the group of planes.
    fn key(&self, target: Target) -> Option<Vec<u32>> {
        match target {
            Target::Nowhere => None,
            Target::Leaf { leaf, number, egress } => {
                let leaf = *self.tree.rule.shape.leaves.get(leaf as usize)?;
                let (plane, above) = self.positions_of_number(number);
                let pod = self.pods.of[leaf as usize];
                let mut key = vec![
                    self.group_of_planes(plane),
                    0,
                    scaled(pod, self.groups.pods, self.pods.count),
                ];
                key.extend(above.into_iter().rev());
                // A leaf itself comes after its hosts.
                key.extend([pod, plane, self.link_of_number(number), u32::from(egress == 0), number]);
                Some(key)
            }
            Target::Upper { upper } => {
                let to = *self.tree.targets.uppers.get(upper as usize)?;
                let (plane, above) = self.positions_of_upper(to, upper);
                let mut key = vec![self.group_of_planes(plane), 1, plane];
                key.extend(above.into_iter().rev());
                key.push(upper);
                Some(key)
            }
        }
    }

    fn group_of_planes(&self, plane: u32) -> u32 {
        scaled(plane, self.groups.planes, self.positions_above(0))
    }

    /// Returns the number of positions above the switches of a level.
    fn positions_above(&self, level: usize) -> u32 {
        let power = &self.tree.rule.shape.power;
        (power[level + 1] / power[level].max(1)).max(1)
    }

    /// Returns the levels that have a level above them.
    fn levels(&self) -> std::ops::Range<usize> {
        0..self.tree.shape.levels - 1
    }

    /// Returns the positions that a packet to the host with this number takes above a leaf, and above each further
    /// level (as [`Rule::towards_leaf`] computes them).
    fn positions_of_number(&self, number: u32) -> (u32, Vec<u32>) {
        let power = &self.tree.rule.shape.power;
        let position = |l: usize| number / power[l] % self.positions_above(l);
        (position(0), self.levels().skip(1).map(position).collect())
    }

    /// The link of a bundle above the leaves that leads to a host with this number.
    fn link_of_number(&self, number: u32) -> u32 {
        number / self.tree.rule.shape.power[1].max(1) % self.width()
    }

    /// Returns the positions that a packet takes on the way up to an upper switch, or to a host attached to it (as
    /// [`Rule::towards_upper`] computes them).
    fn positions_of_upper(&self, to: Upper, number: u32) -> (u32, Vec<u32>) {
        let shape = &self.tree.rule.shape;
        let mut positions: Vec<u32> = self.levels().map(|l| number % self.positions_above(l)).collect();
        let mut at = to.switch;
        while let Some(lower) = shape.down.get(at as usize).iter().find(|slot| slot.peer != NONE) {
            let above = shape.up.get(lower.peer as usize);
            let position = above.iter().position(|slot| slot.peer == at).unwrap_or(0);
            if let Some(place) = positions.get_mut(shape.level[lower.peer as usize] as usize) {
                *place = u32::try_from(position).unwrap_or(0);
            }
            at = lower.peer;
        }
        let above = positions.split_off(1);
        (positions.first().copied().unwrap_or(0), above)
    }

    /// Returns the number of parallel links between leaves and the level above.
    fn width(&self) -> u32 {
        let shape = &self.tree.rule.shape;
        let slots = shape.leaves.first().map(|&s| shape.up.get(s as usize));
        let widths = slots.into_iter().flatten().map(|slot| shape.ports(slot).len());
        u32::try_from(widths.max().unwrap_or(1)).unwrap_or(1).max(1)
    }
}

/// Returns the position in a row of `groups` to which place `at` of `of` is scaled.
fn scaled(at: u32, groups: u32, of: u32) -> u32 {
    let group = u64::from(at) * u64::from(groups) / u64::from(of.max(1));
    u32::try_from(group).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use selvedge_fabric::Fabric;
    use selvedge_plan::{Lids, Tables};
    use selvedge_sim::Par;
    use selvedge_topology::Spec;
    use selvedge_types::{Idx, Lid, LidRange};

    use super::super::FatTreeOptions;
    use super::*;

    fn tree(spec: &str) -> (Fabric, FatTree) {
        let Ok(Spec::Generated(recipe)) = spec.parse() else {
            panic!("{spec}")
        };
        let fabric = recipe.fabric().unwrap();
        let tree = FatTree::detect(&fabric, &FatTreeOptions::default(), Par::Sequential).unwrap();
        (fabric, tree)
    }

    /// Returns the average number of blocks in which some entry of a switch leads to one port towards another switch:
    /// first for switches with hosts, then for the others.
    fn blocks_of_a_port(fabric: &Fabric, tree: &FatTree, order: &[PortRef], lmc: Lmc) -> [f64; 2] {
        let mut lids = Lids::new();
        let mut next = 1;
        for &at in order {
            let lmc = if at.port == PortNum::MANAGEMENT { Lmc::ZERO } else { lmc };
            let base = u16::next_multiple_of(next, lmc.lids());
            lids.insert(at, LidRange { base: Lid(base), lmc }).unwrap();
            next = base + lmc.lids();
        }
        let mut tables = Tables::new(fabric.switches().len(), lids.top());
        tree.fill(&lids, &mut tables, Par::Sequential).unwrap();
        let mut blocks = [BTreeSet::new(), BTreeSet::new()];
        let mut ports = [BTreeSet::new(), BTreeSet::new()];
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let peers = fabric.node(node).external_ports();
            let peers: Vec<_> = peers.filter_map(|(port, p)| Some((port.get(), p.peer?.node))).collect();
            let kind = usize::from(peers.iter().all(|(_, peer)| fabric.node(*peer).is_switch()));
            let links = peers.iter().filter(|(_, peer)| fabric.node(*peer).is_switch());
            for &(port, _) in links {
                ports[kind].insert((switch.to_usize(), port));
                let of_port = lids.by_lid().filter(|&(lid, _)| tables.get(switch, lid) == port);
                blocks[kind].extend(of_port.map(|(lid, _)| (switch.to_usize(), port, lid.index() / BLOCK_LIDS)));
            }
        }
        [0, 1].map(|kind| blocks[kind].len() as f64 / ports[kind].len() as f64)
    }

    #[test]
    fn every_end_port_stands_in_the_order_once_and_ports_have_fewer_blocks() {
        let check = |spec: &str, lmc: u8, want: [f64; 2]| {
            let (fabric, tree) = tree(spec);
            let lmc = Lmc::new(lmc).unwrap();
            let order = tree.lid_order(lmc).unwrap();
            let by_guid: Vec<PortRef> = fabric.end_ports().map(|(at, _)| at).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, by_guid, "{spec}");
            let [new, old] = [&order, &by_guid].map(|order| blocks_of_a_port(&fabric, &tree, order, lmc));
            let share = [new[0] / old[0], new[1] / old[1]];
            assert!(
                share[0] <= want[0] && share[1] <= want[1],
                "{spec}: {new:?} and {old:?}, {share:?}"
            );
        };
        check("karytree:k=10,n=3", 0, [0.55, 1.0]);
        check("karytree:k=10,n=3,guids=shuffled", 0, [0.55, 0.4]);
        check("karytree:k=8,n=3", 2, [0.85, 1.5]);
        check("karytree:k=18,n=2", 0, [0.45, 1.6]);
        check("sx6536", 0, [0.45, 2.1]);
        check("karytree:k=10,n=3,remove-links=3%,seed=3", 0, [0.65, 1.1]);
    }

    #[test]
    fn nothing_is_ordered_where_it_makes_no_difference() {
        let check = |spec: &str| assert_eq!(tree(spec).1.lid_order(Lmc::ZERO), None, "{spec}");
        check("single:ports=36,hosts=36");
        check("karytree:k=4,n=2");
    }

    #[test]
    fn groups_are_as_many_as_cost_least() {
        let check = |lids, beside, planes, pods| {
            assert_eq!(Groups::new(lids, beside), Groups { planes, pods }, "{lids}");
        };
        check(6804, 17, 3, 6);
        check(360, 1, 3, 1);
        check(30_528, 47, 4, 11);
        check(64, 1, 1, 1);
    }
}
