//! Routes one destination: up from its leaf along the least used links; all switches below each switch get their path.

use selvedge_plan::{NO_PATH, Tables};
use selvedge_types::Lid;

use super::index;
use super::tree::{Group, Tree};

/// Longest path: OpenSM's limit of a hop count. Only a tree with long chains of switches comes near it.
const HOPS_MAX: u16 = 64;

/// Stands for no path yet.
const NONE: u16 = u16::MAX;

/// The tree with its counters, and the entries of the current destination.
#[derive(Debug)]
pub(crate) struct Climb {
    tree: Tree,
    hops: Vec<u16>,
    egress: Vec<u8>,
    /// True for a real destination. For a dummy one, links inside a rank are not tried.
    real: bool,
}

/// A switch on the route, seen from the destination.
#[derive(Clone, Copy)]
struct Step {
    /// The switch.
    at: usize,
    /// The switch below from which the climb came.
    from: Option<usize>,
    /// Hops to the destination.
    hops: u16,
}

impl Climb {
    pub fn new(tree: Tree) -> Self {
        let switches = tree.rank.len();
        Self {
            tree,
            hops: vec![NONE; switches],
            egress: vec![NO_PATH; switches],
            real: true,
        }
    }

    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Routes to a host behind a port of a switch.
    pub fn host(&mut self, switch: usize, egress: u8) {
        self.start(switch, 1, true);
        self.egress[switch] = egress;
        self.climb(step(switch, None, 1), true);
    }

    /// Routes to a missing host: only the counters change.
    pub fn nobody(&mut self, switch: usize) {
        self.start(switch, 1, false);
        self.climb(step(switch, None, 1), true);
    }

    /// Routes to the switch itself: nothing is counted upwards.
    pub fn switch(&mut self, switch: usize) {
        self.start(switch, 0, true);
        self.egress[switch] = 0;
        self.climb(step(switch, None, 0), false);
    }

    /// Writes the entries of the current destination.
    pub fn store(&self, tables: &mut Tables, lid: Lid) {
        for (switch, &egress) in self.egress.iter().enumerate() {
            if egress != NO_PATH {
                tables.set(index(switch), lid, egress);
            }
        }
    }

    fn start(&mut self, switch: usize, hops: u16, real: bool) {
        self.hops.fill(NONE);
        self.egress.fill(NO_PATH);
        self.hops[switch] = hops;
        self.real = real;
    }

    /// Gives all switches below the switch of `step` their path through it, then goes on to the switches above it. With
    /// `counted`, the switch behind the least used link comes first, and this link is counted as used. Then come the
    /// other upper switches without a path, then those of the same level.
    fn climb(&mut self, step: Step, counted: bool) -> bool {
        let mut made = self.gather(step);
        if self.tree.rank[step.at] == 0 || step.hops >= HOPS_MAX {
            return made;
        }
        self.sort(step.at, Side::Up);
        let Some(&main) = self.tree.up[step.at].first() else {
            return made;
        };
        let mut next = 0;
        if counted {
            let link = least(&self.tree.groups[main], |l| l.down);
            self.tree.groups[main].down += 1;
            self.tree.groups[main].links[link].down += 1;
            if let Some(above) = self.reach(main, link, step, true) {
                made |= self.climb(above, true);
            }
            next = 1;
        }
        while let Some(&group) = self.tree.up[step.at].get(next) {
            next += 1;
            let link = least(&self.tree.groups[group], |l| l.down);
            if let Some(above) = self.reach(group, link, step, false) {
                made |= self.climb(above, false);
            }
        }
        made | self.sideways(step, main)
    }

    fn sideways(&mut self, step: Step, main: usize) -> bool {
        let mut made = false;
        self.sort(step.at, Side::LevelDown);
        for group in self.tree.level[step.at].clone() {
            let link = least(&self.tree.groups[group], |l| l.down);
            if let Some(beside) = self.reach(group, link, step, false)
                && self.climb(beside, false)
            {
                made = true;
                // OpenSM counts the group of the main path here; the tables depend on it.
                self.tree.groups[main].down += 1;
                self.tree.groups[group].links[link].down += 1;
            }
        }
        made
    }

    /// Gives the switch behind a link its path through the link. `None` if it already has a path that is as short. With
    /// `always`, as on the main path, the search goes on from this switch even in that case.
    fn reach(&mut self, group: usize, link: usize, step: Step, always: bool) -> Option<Step> {
        let Group { to, ref links, .. } = self.tree.groups[group];
        let hops = step.hops + 1;
        if self.egress[to] == NO_PATH || hops < self.hops[to] {
            self.egress[to] = links[link].ingress;
            self.hops[to] = hops;
        } else if !always {
            return None;
        }
        Some(self::step(to, Some(step.at), hops))
    }

    /// Gives paths to all switches below the switch of `step`, and to switches beside it and below those, so that their
    /// packets come up through it. Only links that lead to a host are counted as used; returns true if any does.
    fn gather(&mut self, step: Step) -> bool {
        let mut made = self.tree.hosts_of(step.at).next().is_some();
        if step.hops >= HOPS_MAX || (self.tree.down[step.at].is_empty() && !made) {
            return false;
        }
        self.sort(step.at, Side::Down);
        self.sort(step.at, Side::LevelUp);
        let level = if self.real { &self.tree.level[step.at][..] } else { &[] };
        let groups: Vec<usize> = self.tree.down[step.at].iter().chain(level).copied().collect();
        for group in groups {
            let to = self.tree.groups[group].to;
            let hops = step.hops + 1;
            if Some(to) == step.from || hops >= self.hops[to] {
                continue;
            }
            let link = least(&self.tree.groups[group], |l| l.up);
            self.egress[to] = self.tree.groups[group].links[link].ingress;
            self.hops[to] = hops;
            if self.gather(self::step(to, None, hops)) {
                made = true;
                self.tree.groups[group].up += 1;
                self.tree.groups[group].links[link].up += 1;
            }
        }
        made
    }

    /// Sorts groups: the least used first, then by place.
    fn sort(&mut self, switch: usize, side: Side) {
        let Tree {
            groups,
            place,
            up,
            down,
            level,
            ..
        } = &mut self.tree;
        match side {
            Side::Up => up[switch].sort_by_key(|&g| (groups[g].down, place[groups[g].to])),
            Side::Down => down[switch].sort_by_key(|&g| (groups[g].up, place[groups[g].to])),
            Side::LevelUp => level[switch].sort_by_key(|&g| (groups[g].up, place[groups[g].to])),
            Side::LevelDown => level[switch].sort_by_key(|&g| (groups[g].down, place[groups[g].to])),
        }
    }
}

/// The groups to sort, and the counter that decides.
enum Side {
    Up,
    Down,
    LevelUp,
    LevelDown,
}

/// Returns the link with the smallest count, the first of equals. A group has at least one link.
fn least(group: &Group, count: impl Fn(&super::tree::Link) -> u32) -> usize {
    let by_count = group.links.iter().map(count).enumerate();
    by_count.min_by_key(|&(i, count)| (count, i)).map_or(0, |(i, _)| i)
}

const fn step(at: usize, from: Option<usize>, hops: u16) -> Step {
    Step { at, from, hops }
}
