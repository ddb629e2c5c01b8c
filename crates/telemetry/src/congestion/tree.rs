//! Congestion trees: from the ports that wait, along the routes in force, to what they wait for.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::PortRef;

use crate::End;
use crate::congestion::ahead::Ahead;
use crate::congestion::reach::{Members, Ports, cycles, necessary, reach};
use crate::congestion::{Load, Routes, WaitWatch};

/// Why a link is the root of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The link carries all that it can, and nothing behind it holds it back.
    Saturated,
    /// The link is slower than a link from which its packets come, and they wait for it: it has trained with fewer
    /// lanes or at a lower speed, or was built so.
    SlowLink,
    /// The port waits for credits of a host: the host accepts less than its link could carry.
    SlowReceiver,
    /// The ports wait for each other in a cycle, and for no other link: a credit loop, if nothing moves.
    Cycle,
}

/// A port that waits for the root, directly or through other ports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Branch {
    /// The port that waits.
    pub port: End,
    /// Load of the port.
    pub load: Load,
    /// Number of links from the port to the root, at least 1; 0: the port is the root itself.
    pub hops: u32,
}

/// A congestion tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The port that sends on the root link.
    pub root: End,
    /// The other end of the root link.
    pub to: End,
    /// Why this link is the root.
    pub cause: Cause,
    /// Load of the root.
    pub load: Load,
    /// The ports that may wait for it, the nearest first. Of a port that also leads to another tree, the counters do
    /// not show which one it waits for.
    pub branches: Vec<Branch>,
    /// The host ports in `branches`: their hosts are slowed down.
    pub hosts: Vec<End>,
}

/// The congestion of a fabric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Congestion {
    /// The trees; the tree with the most waiting ports comes first.
    pub trees: Vec<Tree>,
    /// Ports that wait although none of the links that their packets take next is saturated or waits. This is the
    /// picture of heavy, even load: packets to many outputs block each other in turn, and no link is the root.
    pub without_root: Vec<End>,
    /// Trees end at this distance from their roots, because so many ports wait for so many roots; `None`: trees are
    /// whole. Ports further away are in `without_root`.
    pub horizon: Option<u32>,
}

/// Most branches of all trees together. Source: ours; they take about 200 MB while they are traced, and 5,832 hosts
/// with 50 roots that all ports wait for stay below.
const BRANCHES_MAX: usize = 2_000_000;

/// Share of the time in which a port always has something to send, by utilisation and wait together, and the least
/// utilisation at which it is the link itself that is short. Below that, what comes behind the port is.
const BACKLOG: (f64, f64) = (0.95, 0.7);
/// A link that is slower than those that feed it holds them back from this utilisation on: a switch that cannot send a
/// packet to another output meanwhile reaches no more.
const SLOW_LINK_MIN: f64 = 0.3;
/// A full link is no meeting point if one link alone brings nearly as much: then it only carries on what another sends.
const ONE_FEEDER: f64 = 0.95;

/// What a port may wait for.
struct Waiting {
    /// Ports of the next switch that are saturated or wait, on the routes of its packets.
    causes: BTreeSet<PortRef>,
    /// True if it sends to a host.
    is_last: bool,
}

/// Traces each port that waits to the root of its tree.
#[must_use]
pub fn trace(routes: &Routes<'_>, watch: &WaitWatch) -> Congestion {
    let traffic = Traffic { routes, watch };
    let waiting = traffic.waiting();
    let mut roots: BTreeMap<PortRef, Cause> = BTreeMap::new();
    for (at, port) in &waiting {
        if port.is_last {
            roots.insert(*at, Cause::SlowReceiver);
        }
        for cause in &port.causes {
            let ends_here = match waiting.get(cause) {
                Some(next) => next.causes.is_empty() && !next.is_last && traffic.is_backlogged(*cause),
                None => true,
            };
            if ends_here {
                let is_slow = traffic.is_slower(*cause, *at);
                let cause_of = roots.entry(*cause).or_insert(Cause::Saturated);
                *cause_of = if is_slow { Cause::SlowLink } else { *cause_of };
            }
        }
    }
    let feeders = feeders(&waiting);
    let reached = reach(
        roots.keys().copied(),
        |at| waiting.contains_key(&at),
        &feeders,
        BRANCHES_MAX,
    );
    let is_certain = |root: &PortRef| roots[root] == Cause::SlowReceiver || traffic.is_meeting_point(*root);
    let mut congestion = Congestion {
        horizon: reached.horizon,
        ..Congestion::default()
    };
    let mut explained: BTreeSet<PortRef> = BTreeSet::new();
    for root in necessary(&reached.members, is_certain) {
        let members = &reached.members[&root];
        explained.extend(members.keys());
        congestion.trees.extend(traffic.tree((root, roots[&root]), members));
    }
    let rest: BTreeSet<PortRef> = waiting.keys().filter(|at| !explained.contains(at)).copied().collect();
    // Beyond the horizon it is not known which ports wait for each other only.
    let in_cycles = match reached.horizon {
        None => {
            let causes = waiting
                .iter()
                .map(|(at, port)| (*at, port.causes.iter().copied().collect()));
            cycles(&rest, &causes.collect(), &feeders)
        }
        Some(_) => Vec::new(),
    };
    for ports in &in_cycles {
        let Some(first) = ports.first() else { continue };
        let members = ports.iter().map(|at| (*at, u32::from(at != first))).collect();
        congestion.trees.extend(traffic.tree((*first, Cause::Cycle), &members));
    }
    let in_cycle: BTreeSet<PortRef> = in_cycles.into_iter().flatten().collect();
    let without = rest
        .iter()
        .filter(|at| !in_cycle.contains(at))
        .map(|at| routes.end(*at));
    congestion.without_root = without.collect();
    congestion
        .trees
        .sort_by_key(|tree| std::cmp::Reverse(tree.branches.len()));
    congestion
}

/// Routes with the loads of their links.
struct Traffic<'a> {
    routes: &'a Routes<'a>,
    watch: &'a WaitWatch,
}

impl Traffic<'_> {
    fn load(&self, at: PortRef) -> Option<Load> {
        self.watch.load(self.routes.end(at))
    }

    fn mbit_per_s(&self, at: PortRef) -> f64 {
        let port = self.routes.fabric.port(at);
        port.map_or(0.0, |port| f64::from(port.link.rate.mbit_per_s()))
    }

    /// True if the first link is slower than the second.
    fn is_slower(&self, at: PortRef, than: PortRef) -> bool {
        self.mbit_per_s(at) < self.mbit_per_s(than)
    }

    fn is_backlogged(&self, at: PortRef) -> bool {
        let (sum, least) = BACKLOG;
        let is_full = |load: Load| load.utilisation >= least && load.utilisation + load.wait >= sum;
        self.load(at).is_some_and(is_full)
    }

    /// True if several links bring what this one carries, and none of them nearly all of it. False if the load of one
    /// is not known.
    fn is_meeting_point(&self, root: PortRef) -> bool {
        let sent = |at: PortRef| Some(self.load(at)?.utilisation * self.mbit_per_s(at));
        let Some(carried) = sent(root) else { return false };
        let ports = self.routes.fabric.node(root.node).external_ports();
        let mut feeders = ports.filter(|(num, _)| *num != root.port).filter_map(|(num, _)| {
            let own = PortRef {
                node: root.node,
                port: num,
            };
            self.routes.peer(own)
        });
        feeders.all(|feeder| sent(feeder).is_some_and(|brought| brought < ONE_FEEDER * carried))
    }

    /// Returns the ports that wait, each with what it may wait for.
    fn waiting(&self) -> BTreeMap<PortRef, Waiting> {
        let mut ahead = Ahead::new(self.routes);
        let ports = self.watch.waiting().filter_map(|(end, _)| self.routes.port(end));
        let ports = ports.filter_map(|at| {
            self.routes.peer(at)?;
            let next = ahead.next(at);
            let is_last = next.is_none();
            Some((
                at,
                Waiting {
                    causes: self.causes(at, next.unwrap_or_default()),
                    is_last,
                },
            ))
        });
        ports.collect()
    }

    /// Returns the ports that hold back a port. Of the ports that its packets take next, these are the ports that wait
    /// or are full. If there are none, they are the ports with links slower than the port's own link.
    fn causes(&self, at: PortRef, next: BTreeSet<PortRef>) -> BTreeSet<PortRef> {
        let may_block = |next: &&PortRef| {
            let end = self.routes.end(**next);
            self.watch.is_waiting(end) || self.watch.is_saturated(end) || self.is_backlogged(**next)
        };
        let causes: BTreeSet<PortRef> = next.iter().filter(may_block).copied().collect();
        if !causes.is_empty() {
            return causes;
        }
        let is_busy = |at: PortRef| self.load(at).is_some_and(|load| load.utilisation >= SLOW_LINK_MIN);
        next.into_iter()
            .filter(|next| self.is_slower(*next, at) && is_busy(*next))
            .collect()
    }

    fn tree(&self, (root, cause): (PortRef, Cause), members: &Members) -> Option<Tree> {
        let branch = |(at, hops): (&PortRef, &u32)| Branch {
            port: self.routes.end(*at),
            load: self.load(*at).unwrap_or_default(),
            hops: *hops,
        };
        let mut branches: Vec<Branch> = members.iter().map(branch).collect();
        branches.sort_by_key(|branch| (branch.hops, branch.port));
        let is_host = |at: &&PortRef| self.routes.fabric.switch_index(at.node).is_none();
        Some(Tree {
            root: self.routes.end(root),
            to: self.routes.end(self.routes.peer(root)?),
            cause,
            load: self.load(root).unwrap_or_default(),
            branches,
            hosts: members.keys().filter(is_host).map(|at| self.routes.end(*at)).collect(),
        })
    }
}

/// Returns, for each port that others may wait for, these others.
fn feeders(waiting: &BTreeMap<PortRef, Waiting>) -> Ports {
    let mut feeders = Ports::new();
    for (at, port) in waiting {
        for cause in &port.causes {
            feeders.entry(*cause).or_default().push(*at);
        }
    }
    feeders
}
