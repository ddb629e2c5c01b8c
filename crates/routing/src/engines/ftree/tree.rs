//! The fabric as a tree: ranks, groups of parallel links, hosts.

use std::collections::BTreeSet;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_plan::Lids;
use selvedge_types::{Guid, Lid, NodeKind, PortNum};

use super::places::{self, Place};
use super::ranks::{self, UNRANKED};
use super::{FtreeOptions, NoFatTree, index};
use crate::note::{Note, RootSource, guids};
use crate::options::HostLists;

/// Largest number of levels of a tree: OpenSM's limit, and the length of a place.
pub(crate) const LEVELS_MAX: u32 = 8;

/// A host port behind a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// LID of the host.
    pub lid: Lid,
    /// The switch's port that leads to the host.
    pub egress: u8,
    /// True if the host is a compute node.
    pub compute: bool,
    /// Index of the host's node in OpenSM's GUID order, and the port.
    order: (u64, u8),
}

/// One of the parallel links of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Port at the other end.
    pub ingress: u8,
    /// Number of routes that go up the link towards this end.
    pub up: u32,
    /// Number of routes that go down the link towards this end.
    pub down: u32,
}

/// Parallel links from one switch to another.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The switch at the other end.
    pub to: usize,
    /// The links, by ascending port.
    pub links: Vec<Link>,
    /// Number of routes that go up towards this end.
    pub up: u32,
    /// Number of routes that go down towards this end.
    pub down: u32,
}

/// The tree. Switches are indices of the fabric's; groups are indices of `groups`.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// Switches that have a rank, in OpenSM's GUID order.
    pub order: Vec<usize>,
    /// Hops below the roots; [`UNRANKED`] where no root is in reach.
    pub rank: Vec<u32>,
    /// Rank of the leaves.
    pub leaf_rank: u32,
    /// By switch: true if it has compute nodes.
    pub is_leaf: Vec<bool>,
    /// All switches from the first to the last one with compute nodes, by place; some in between may have none.
    pub leaves: Vec<usize>,
    /// LIDs of switches.
    pub switch_lid: Vec<Option<Lid>>,
    /// All groups.
    pub groups: Vec<Group>,
    /// By switch: the groups that lead up.
    pub up: Vec<Vec<usize>>,
    /// By switch: the groups that lead down.
    pub down: Vec<Vec<usize>>,
    /// By switch: the groups that stay in the rank.
    pub level: Vec<Vec<usize>>,
    /// Places of switches.
    pub place: Vec<Place>,
    hosts: Vec<Vec<Host>>,
}

impl Tree {
    /// Reads a fabric, or returns why it is no fat tree.
    pub fn new(
        fabric: &Fabric,
        graph: &Graph,
        lids: &Lids,
        (options, lists): (&FtreeOptions, &HostLists),
        notes: &mut Vec<Note>,
    ) -> Result<Self, NoFatTree> {
        lids.iter().try_for_each(|(_, range)| super::takes(range.lmc))?;
        let hosts = hosts(fabric, lids, lists);
        if graph.switches() < 2 || hosts.iter().map(Vec::len).sum::<usize>() < 2 {
            return Err(NoFatTree::TooSmall);
        }
        let roots = given_roots(fabric, &options.roots, notes);
        let rank = if roots.is_empty() {
            ranks::above_hosts(graph, (0..hosts.len()).filter(|&s| !hosts[s].is_empty()))
        } else {
            ranks::below(graph, roots.iter().copied())
        };
        if ranks::highest(&rank) == 0 && rank.iter().filter(|&&r| r == 0).count() > 1 {
            return Err(NoFatTree::OneLevel);
        }
        let mut tree = Self::with_ranks(fabric, lids, rank, hosts);
        tree.find_leaves(fabric, !roots.is_empty())?;
        tree.settle(fabric)?;
        let source = if roots.is_empty() {
            tree.check_even(fabric)?;
            RootSource::Levels
        } else {
            RootSource::Given
        };
        let top = (0..).zip(&tree.rank).filter(|(_, r)| **r == 0).map(|(s, _)| s);
        notes.push(Note::Roots {
            source,
            roots: guids(fabric, top),
        });
        Ok(tree)
    }

    fn with_ranks(fabric: &Fabric, lids: &Lids, rank: Vec<u32>, hosts: Vec<Vec<Host>>) -> Self {
        let switches = rank.len();
        let mut order: Vec<usize> = (0..switches).filter(|&s| rank[s] != UNRANKED).collect();
        order.sort_by_key(|&s| fabric.switch(index(s)).guid.opensm_order());
        let own = |(_, &node)| {
            lids.base(PortRef {
                node,
                port: PortNum::MANAGEMENT,
            })
        };
        let mut tree = Self {
            switch_lid: fabric.switches().iter_enumerated().map(own).collect(),
            order,
            rank,
            leaf_rank: 0,
            is_leaf: vec![false; switches],
            leaves: Vec::new(),
            groups: Vec::new(),
            up: vec![Vec::new(); switches],
            down: vec![Vec::new(); switches],
            level: vec![Vec::new(); switches],
            place: vec![Place::NONE; switches],
            hosts,
        };
        for switch in 0..switches {
            tree.add_groups(fabric, switch);
        }
        tree
    }

    fn add_groups(&mut self, fabric: &Fabric, switch: usize) {
        let node = fabric.switches()[index(switch)];
        for (port, p) in fabric.node(node).external_ports() {
            let peer = p.peer.filter(|_| fabric.link_is_up(PortRef { node, port }));
            let Some((peer, SwitchIdx(to))) = peer.and_then(|p| Some((p, fabric.switch_index(p.node)?))) else {
                continue;
            };
            let to = to as usize;
            if to == switch || self.rank[switch] == UNRANKED {
                continue;
            }
            let side = match self.rank[to].cmp(&self.rank[switch]) {
                core::cmp::Ordering::Less => &mut self.up[switch],
                core::cmp::Ordering::Equal => &mut self.level[switch],
                core::cmp::Ordering::Greater => &mut self.down[switch],
            };
            let link = Link {
                ingress: peer.port.get(),
                up: 0,
                down: 0,
            };
            match side.iter().copied().find(|&g| self.groups[g].to == to) {
                Some(group) => self.groups[group].links.push(link),
                None => {
                    side.push(self.groups.len());
                    let links = vec![link];
                    self.groups.push(Group {
                        to,
                        links,
                        up: 0,
                        down: 0,
                    });
                }
            }
        }
    }

    /// Marks the switches with compute nodes; all must have the same rank.
    fn find_leaves(&mut self, fabric: &Fabric, roots_given: bool) -> Result<(), NoFatTree> {
        let bearing: Vec<usize> = self.order.iter().copied().filter(|&s| self.compute(s) > 0).collect();
        let compute = |&s: &usize| self.hosts[s].iter().filter(|h| h.compute).map(move |h| (h.order, s));
        let Some((_, first)) = bearing.iter().flat_map(compute).min() else {
            return Err(NoFatTree::NoComputeNodes);
        };
        let leaves = if roots_given {
            self.rank[first]
        } else {
            ranks::highest(&self.rank)
        };
        self.leaf_rank = leaves;
        if !(2..=LEVELS_MAX).contains(&(leaves + 1)) {
            return Err(NoFatTree::Levels { levels: leaves + 1 });
        }
        for switch in bearing {
            if self.rank[switch] != leaves {
                return Err(NoFatTree::MixedLeaves {
                    switch: fabric.switch(index(switch)).guid,
                    rank: self.rank[switch],
                    leaves,
                });
            }
            self.is_leaf[switch] = true;
        }
        Ok(())
    }

    /// Gives each switch a place, and sorts groups and leaves by place.
    fn settle(&mut self, fabric: &Fabric) -> Result<(), NoFatTree> {
        self.place = places::assign(self).map_err(|switch| NoFatTree::TooWide {
            switch: fabric.switch(index(switch)).guid,
        })?;
        let (groups, place) = (&self.groups, &self.place);
        for side in self.up.iter_mut().chain(&mut self.down) {
            side.sort_by_key(|&g| place[groups[g].to]);
        }
        let mut at_leaf_rank: Vec<usize> = self
            .order
            .iter()
            .copied()
            .filter(|&s| self.rank[s] == self.leaf_rank)
            .collect();
        at_leaf_rank.sort_by_key(|&s| self.place[s]);
        let first = at_leaf_rank.iter().position(|&s| self.is_leaf[s]);
        let last = at_leaf_rank.iter().rposition(|&s| self.is_leaf[s]);
        match (first, last) {
            (Some(first), Some(last)) if first < last => self.leaves = at_leaf_rank[first..=last].to_vec(),
            _ => return Err(NoFatTree::OneLeaf),
        }
        Ok(())
    }

    /// Fails unless every switch is like the first of its rank: groups up and down, and links of each group.
    fn check_even(&self, fabric: &Fabric) -> Result<(), NoFatTree> {
        let mut first: Vec<Option<usize>> = vec![None; LEVELS_MAX as usize];
        for &switch in &self.order {
            let slot = &mut first[self.rank[switch] as usize];
            let Some(like) = *slot else {
                *slot = Some(switch);
                continue;
            };
            let is_leaf = self.rank[switch] == self.leaf_rank;
            let even = self.alike(&self.up[switch], &self.up[like])
                && (is_leaf || self.alike(&self.down[switch], &self.down[like]));
            // Hosts above the leaves count as groups: a switch of the middle that has some is not like its neighbours.
            if !even || (!is_leaf && self.hosts[switch].len() != self.hosts[like].len()) {
                return Err(NoFatTree::Uneven {
                    switch: fabric.switch(index(switch)).guid,
                    like: fabric.switch(index(like)).guid,
                });
            }
        }
        Ok(())
    }

    fn alike(&self, groups: &[usize], like: &[usize]) -> bool {
        let width = like.first().map_or(0, |&g| self.groups[g].links.len());
        groups.len() == like.len() && groups.iter().all(|&g| self.groups[g].links.len() == width)
    }

    /// Returns the hosts of a switch, by its ports.
    pub fn hosts_of(&self, switch: usize) -> impl Iterator<Item = &Host> {
        self.hosts[switch].iter()
    }

    /// Returns the number of compute nodes of the leaf with the most.
    pub fn compute_per_leaf_max(&self) -> usize {
        self.leaves.iter().map(|&s| self.compute(s)).max().unwrap_or(0)
    }

    /// Returns the hosts that are no compute nodes, in OpenSM's GUID order, each with its switch.
    pub fn other_hosts(&self) -> Vec<(usize, Host)> {
        let of = |&s: &usize| self.hosts[s].iter().filter(|h| !h.compute).map(move |&h| (s, h));
        let mut others: Vec<(usize, Host)> = self.order.iter().flat_map(of).collect();
        others.sort_by_key(|(_, host)| host.order);
        others
    }

    fn compute(&self, switch: usize) -> usize {
        self.hosts[switch].iter().filter(|h| h.compute).count()
    }
}

/// Returns the hosts of every switch, by its ports.
fn hosts(fabric: &Fabric, lids: &Lids, lists: &HostLists) -> Vec<Vec<Host>> {
    let compute: BTreeSet<Guid> = lists.compute.iter().copied().collect();
    let io: BTreeSet<Guid> = lists.io.iter().copied().collect();
    let mut hosts: Vec<Vec<Host>> = vec![Vec::new(); fabric.switches().len()];
    for (at, range) in lids.iter() {
        let Some(port) = fabric.port(at).filter(|_| fabric.link_is_up(at)) else {
            continue;
        };
        let Some((SwitchIdx(switch), egress)) = port.peer.and_then(|p| Some((fabric.switch_index(p.node)?, p.port)))
        else {
            continue;
        };
        let node = fabric.node(at.node);
        let is_compute = match node.kind {
            NodeKind::Ca if compute.is_empty() => !io.contains(&port.guid),
            NodeKind::Ca => compute.contains(&port.guid),
            NodeKind::Router => false,
            NodeKind::Switch => continue,
        };
        hosts[switch as usize].push(Host {
            lid: range.base,
            egress: egress.get(),
            compute: is_compute,
            order: (node.guid.opensm_order(), at.port.get()),
        });
    }
    for of_switch in &mut hosts {
        of_switch.sort_by_key(|h| h.egress);
    }
    hosts
}

fn given_roots(fabric: &Fabric, roots: &[Guid], notes: &mut Vec<Note>) -> Vec<usize> {
    let mut found = Vec::new();
    for &guid in roots {
        match fabric.find(guid).and_then(|node| fabric.switch_index(node)) {
            Some(SwitchIdx(switch)) => found.push(switch as usize),
            None => notes.push(Note::UnknownRoot { guid }),
        }
    }
    found
}
