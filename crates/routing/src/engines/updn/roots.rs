//! Finds the tops of up*/down*, and the distance of each switch from them.

use std::collections::VecDeque;

use selvedge_fabric::{Fabric, Node, PortRef, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_sim::Par;
use selvedge_types::Guid;

use crate::destinations::links_to;
use crate::engines::minhop;
use crate::note::{Note, RootSource, guids};
use crate::paths::Levels;

/// Rank of a switch that no root reaches. There is none: every part has a root.
const UNRANKED: u32 = u32::MAX;

/// The roots of each part of the fabric, and the rank of each switch: steps below the roots.
#[derive(Clone, Debug)]
pub(crate) struct Ranking {
    /// Roots by part; none is empty. The first is the top.
    pub roots: Vec<Vec<u32>>,
    /// Rank by switch. Every switch that is no root has a neighbour of lower rank.
    pub rank: Vec<u32>,
}

impl Ranking {
    /// Uses the given roots, and finds roots for parts of the fabric that have none.
    pub fn new(fabric: &Fabric, graph: &Graph, given: &[Guid], par: Par, notes: &mut Vec<Note>) -> Self {
        let mut roots = vec![Vec::new(); graph.components()];
        for &guid in given {
            match switch_of(fabric, guid) {
                Some(SwitchIdx(s)) => {
                    let roots: &mut Vec<u32> = &mut roots[graph.component(s as usize)];
                    if !roots.contains(&s) {
                        roots.push(s);
                    }
                }
                None => notes.push(Note::UnknownRoot { guid }),
            }
        }
        let mut sources = vec![RootSource::Given; roots.len()];
        let mut levels = None;
        if roots.iter().any(Vec::is_empty) {
            let finder = Finder::new(fabric, graph, par);
            for (component, roots) in roots.iter_mut().enumerate().filter(|(_, r)| r.is_empty()) {
                (sources[component], *roots) = finder.find(component);
            }
            levels = Some(finder.level);
        }
        let mut rank = ranks(graph, &roots);
        for (component, source) in sources.iter().enumerate() {
            if let (RootSource::Levels, Some(level)) = (source, &levels) {
                rank_by_level(graph, component, level, &mut rank);
            }
        }
        for (source, roots) in sources.into_iter().zip(&roots) {
            let mut sorted = roots.clone();
            sorted.sort_unstable();
            let roots = guids(fabric, sorted);
            notes.push(Note::Roots { source, roots });
        }
        Self { roots, rank }
    }
}

/// Returns the switch that a GUID names: the switch with this GUID, or the switch of the host node or host port with
/// it.
pub(crate) fn switch_of(fabric: &Fabric, guid: Guid) -> Option<SwitchIdx> {
    if let Some(node) = fabric.find(guid) {
        if let Some(switch) = fabric.switch_index(node) {
            return Some(switch);
        }
        let ports = fabric.node(node).end_ports().map(|(port, _)| PortRef { node, port });
        return ports.filter_map(|port| beside(fabric, port)).next();
    }
    let port = fabric.find_port(guid)?;
    fabric.switch_index(port.node).or_else(|| beside(fabric, port))
}

/// Returns the switch at the other end of a live link.
fn beside(fabric: &Fabric, port: PortRef) -> Option<SwitchIdx> {
    let peer = fabric.peer(port).filter(|_| fabric.link_is_up(port))?;
    fabric.switch_index(peer.node)
}

/// Hops to the nearest root.
fn ranks(graph: &Graph, roots: &[Vec<u32>]) -> Vec<u32> {
    hops_from(graph, roots.iter().flatten().copied())
}

fn hops_from(graph: &Graph, start: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut hops = vec![UNRANKED; graph.switches()];
    let mut queue: VecDeque<u32> = start.collect();
    queue.iter().for_each(|&s| hops[s as usize] = 0);
    while let Some(at) = queue.pop_front() {
        for &next in graph.neighbours(at as usize) {
            if hops[next as usize] == UNRANKED {
                hops[next as usize] = hops[at as usize] + 1;
                queue.push_back(next);
            }
        }
    }
    hops
}

/// Counts ranks from the highest level down. So a switch of a middle level that lost its links upwards becomes a root,
/// but keeps the rank of its level.
fn rank_by_level(graph: &Graph, component: usize, level: &[u32], rank: &mut [u32]) {
    let members = || (0..graph.switches()).filter(|&s| graph.component(s) == component);
    let highest = members().map(|s| level[s]).max().unwrap_or(0);
    members().for_each(|s| rank[s] = highest - level[s]);
}

/// True if a node is a host that shows a switch's level. Aggregation nodes are at switches of any level, so they do
/// not.
fn is_host(node: &Node) -> bool {
    !node.is_switch() && !node.is_aggregation_node()
}

/// Finds roots.
struct Finder<'a> {
    graph: &'a Graph,
    /// Live host links by switch.
    hosts: Vec<usize>,
    /// Hops to the nearest switch with a host; `UNRANKED` in parts without hosts.
    level: Vec<u32>,
    hops: Levels,
}

impl<'a> Finder<'a> {
    fn new(fabric: &Fabric, graph: &'a Graph, par: Par) -> Self {
        let hosts = (0..graph.switches()).map(|s| links_to(fabric, s, is_host));
        let hosts: Vec<usize> = hosts.collect();
        let bearing = (0_u32..).zip(&hosts).filter(|(_, h)| **h > 0).map(|(s, _)| s);
        let level = hops_from(graph, bearing);
        let hops = minhop::distances(graph, par);
        Self {
            graph,
            hosts,
            level,
            hops,
        }
    }

    fn find(&self, component: usize) -> (RootSource, Vec<u32>) {
        let members = |s: &u32| self.graph.component(*s as usize) == component;
        let members: Vec<u32> = (0..).take(self.graph.switches()).filter(members).collect();
        let histogram = self.by_histogram(&members);
        // On an intact tree both are the same; where links are lost, the histogram misses some tops.
        if let Some(tops) = self.by_level(&members)
            && histogram.iter().all(|s| tops.contains(s))
        {
            let source = if tops == histogram {
                RootSource::Histogram
            } else {
                RootSource::Levels
            };
            return (source, tops);
        }
        if histogram.is_empty() {
            return (RootSource::Centre, self.centre(&members).into_iter().collect());
        }
        (RootSource::Histogram, histogram)
    }

    /// Returns the roots by OpenSM's rule (observed in 3.3.23): switches with more than 90 % of the hosts at one
    /// distance, and at most 5 % at any other distance. Of these, only the switches for which that distance is least
    /// are returned. Otherwise a leaf with less than 5 % of the hosts would be a root too, because all other hosts may
    /// be at one distance from it.
    fn by_histogram(&self, members: &[u32]) -> Vec<u32> {
        let total: usize = members.iter().map(|&s| self.hosts[s as usize]).sum();
        let bearing: Vec<u32> = members
            .iter()
            .copied()
            .filter(|&s| self.hosts[s as usize] > 0)
            .collect();
        let mut bars: Vec<usize> = Vec::new();
        let mut distance = |s: u32| {
            bars.clear();
            for &host in &bearing {
                // Distances are the same in both directions.
                let Some(hops) = self.hops.towards(host as usize)[s as usize].hops() else {
                    continue;
                };
                let hops = usize::from(hops);
                if bars.len() <= hops {
                    bars.resize(hops + 1, 0);
                }
                bars[hops] += self.hosts[host as usize];
            }
            let mut high = (0_usize..).zip(&bars).filter(|(_, bar)| **bar * 100 > total * 5);
            let (hops, bar) = high.next()?;
            (bar * 100 > total * 90 && high.next().is_none()).then_some(hops)
        };
        let found: Vec<(usize, u32)> = members.iter().filter_map(|&s| Some((distance(s)?, s))).collect();
        let least = found.iter().map(|(hops, _)| *hops).min();
        found
            .into_iter()
            .filter(|(hops, _)| Some(*hops) == least)
            .map(|(_, s)| s)
            .collect()
    }

    /// Returns the switches with no switch above them, if all links join neighbouring levels above the hosts.
    fn by_level(&self, members: &[u32]) -> Option<Vec<u32>> {
        let level = |s: u32| self.level[s as usize];
        let near = |s: u32| self.graph.neighbours(s as usize).iter().map(move |&n| level(n));
        let flat = |&s: &u32| level(s) == UNRANKED || near(s).any(|l| l == level(s));
        if members.iter().any(flat) {
            return None;
        }
        Some(
            members
                .iter()
                .copied()
                .filter(|&s| near(s).all(|l| l < level(s)))
                .collect(),
        )
    }

    /// Returns the switch with the shortest distance to its farthest host; among equals, the one with the least sum of
    /// distances to all hosts; then the one with the lowest GUID. In a part without hosts, distances to switches are
    /// used instead.
    fn centre(&self, members: &[u32]) -> Option<u32> {
        let hosts: Vec<u32> = members
            .iter()
            .copied()
            .filter(|&s| self.hosts[s as usize] > 0)
            .collect();
        let (targets, weighted) = if hosts.is_empty() {
            (members, false)
        } else {
            (&hosts[..], true)
        };
        let cost = |s: u32| {
            let mut farthest = 0;
            let mut sum = 0;
            for &target in targets {
                let hops = self.hops.towards(target as usize)[s as usize].hops().unwrap_or(0);
                farthest = farthest.max(hops);
                sum += usize::from(hops) * if weighted { self.hosts[target as usize] } else { 1 };
            }
            (farthest, sum, s)
        };
        members.iter().copied().min_by_key(|&s| cost(s))
    }
}
