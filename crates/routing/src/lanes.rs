//! Assigns lanes to destinations, so that no lane has a credit loop.
//!
//! Paths are assigned one by one, and a path that fits no lane may be changed ([`Lanes::place`]). The parts of all
//! paths that packets of hosts use come first, then the parts that only packets of switches use ([`Lanes::add`]).
//!
//! While a packet holds a channel and waits for the next one, the first channel depends on the second. All dependencies
//! of one LID are on one lane: the first lane on which they close no cycle. Each lane is a graph that is kept without
//! cycles ([`Dag`]). So a dependency that agrees with the order of the graph costs nothing, and any other dependency
//! moves only the channels between its two ends.
//!
//! OpenSM assigns lanes to pairs of source and destination. Here the lane depends only on the destination, so that path
//! records of all sources agree.

use std::collections::BTreeSet;

use selvedge_graph::{Dag, Graph, Insertion};

use crate::engines::sssp::NONE;

/// Dependencies that a lane did not have before.
pub(crate) type Added = Vec<(u32, u32)>;

/// The lanes, with the dependencies on each.
pub(crate) struct Lanes<'a> {
    graph: &'a Graph,
    /// By switch: true if it has hosts.
    bearing: Vec<bool>,
    lanes: Vec<Lane>,
    most: usize,
}

impl<'a> Lanes<'a> {
    /// Returns lanes of which none is in use yet; at most `most` will be.
    pub fn new(graph: &'a Graph, bearing: Vec<bool>, most: u8) -> Self {
        Self {
            graph,
            bearing,
            lanes: Vec::new(),
            most: usize::from(most),
        }
    }

    /// Opens the first lane with these dependencies, which must close no cycle. Does nothing if there are none.
    pub fn with_first(mut self, dependencies: &[(u32, u32)]) -> Self {
        if !dependencies.is_empty() {
            self.open(dependencies);
        }
        self
    }

    /// Returns the number of lanes in use; at least one.
    pub fn used(&self) -> u8 {
        u8::try_from(self.lanes.len().max(1)).unwrap_or(u8::MAX)
    }

    /// Assigns the part of a path that packets of hosts use to a lane. Returns the lane and the path; `None` if the
    /// lanes do not suffice.
    ///
    /// Takes the first lane in use that fits the path; else the first lane in use that fits another path; else a new
    /// lane. With `packed`, takes the first lane in use that fits this or another path. `find` searches for a path with
    /// dependencies that fit a lane, adds them there, and returns the new ones.
    pub fn place(
        &mut self,
        way: &[u32],
        packed: bool,
        mut find: impl FnMut(&mut Lane, &mut Added) -> Option<Vec<u32>>,
    ) -> Option<(u8, Vec<u32>)> {
        let way = self.of_hosts(way);
        let all = dependencies(self.graph, &way);
        let (graph, bearing) = (self.graph, &self.bearing);
        let mut other = |lane: &mut Lane| {
            let mut added = Vec::new();
            let found = find(lane, &mut added);
            // What no packet of a host uses comes later.
            let found = found.map(|next| of_hosts(graph, bearing, &next));
            if let Some(next) = &found {
                let used: BTreeSet<u32> = next.iter().copied().collect();
                added.retain(|(held, wanted)| !used.contains(held) || !used.contains(wanted));
            }
            lane.remove_all(added);
            found
        };
        for (i, lane) in (0..).zip(&mut self.lanes) {
            if lane.add_all(&all) {
                return Some((i, way));
            }
            if packed && let Some(next) = other(lane) {
                return Some((i, next));
            }
        }
        let others = if packed { &mut [] } else { &mut self.lanes[..] };
        for (i, lane) in (0..).zip(others) {
            if let Some(next) = other(lane) {
                return Some((i, next));
            }
        }
        self.open(&all).map(|lane| (lane, way))
    }

    /// Assigns a further part of a path to the lane of its first part. If that lane does not fit, the whole path goes
    /// to the first other lane that fits both parts, or to a new one.
    pub fn add(&mut self, way: &[u32], lane: u8, mut more: impl FnMut(&mut Lane, &mut Added) -> bool) -> Option<u8> {
        let all = dependencies(self.graph, way);
        let others = (0..self.used()).filter(|&other| other != lane);
        for lane in [lane].into_iter().chain(others).chain([self.used()]) {
            if usize::from(lane) == self.lanes.len() {
                self.open(&[])?;
            }
            let into = &mut self.lanes[usize::from(lane)];
            let mut added = Vec::new();
            if all.iter().all(|&(held, wanted)| into.add(held, wanted, &mut added)) && more(into, &mut added) {
                return Some(lane);
            }
            into.remove_all(added);
        }
        None
    }

    /// Assigns the whole path to a lane if that closes no cycle.
    pub fn add_if_fits(&mut self, lane: u8, way: &[u32]) {
        let all = dependencies(self.graph, way);
        if let Some(lane) = self.lanes.get_mut(usize::from(lane)) {
            lane.add_all(&all);
        }
    }

    /// Returns the next hops that packets of hosts use.
    pub fn of_hosts(&self, way: &[u32]) -> Vec<u32> {
        of_hosts(self.graph, &self.bearing, way)
    }

    fn open(&mut self, dependencies: &[(u32, u32)]) -> Option<u8> {
        if self.lanes.len() >= self.most {
            return None;
        }
        let mut lane = Lane::new(self.graph.channels().start(self.graph.switches()));
        // The paths to one destination form a tree: alone they close no cycle.
        let fits = lane.add_all(dependencies);
        self.lanes.push(lane);
        u8::try_from(self.lanes.len() - 1).ok().filter(|_| fits)
    }
}

/// Returns the next hops of switches that packets of hosts pass.
fn of_hosts(graph: &Graph, bearing: &[bool], way: &[u32]) -> Vec<u32> {
    let mut used = vec![NONE; way.len()];
    for start in (0..way.len()).filter(|&s| bearing[s]) {
        let mut at = start;
        while used[at] == NONE && way[at] != NONE {
            used[at] = way[at];
            at = graph.channels().item(way[at] as usize).to as usize;
        }
    }
    used
}

fn dependencies(graph: &Graph, way: &[u32]) -> Vec<(u32, u32)> {
    let held = way.iter().copied().filter(|&channel| channel != NONE);
    held.filter_map(|held| {
        let to = graph.channels().item(held as usize).to as usize;
        (way[to] != NONE).then_some((held, way[to]))
    })
    .collect()
}

/// One lane: dependencies between channels, without a cycle.
pub(crate) struct Lane {
    waits: Dag,
    /// Dependencies that close a cycle with the permanent part of the lane.
    refused: BTreeSet<(u32, u32)>,
}

impl Lane {
    fn new(channels: usize) -> Self {
        Self {
            waits: Dag::new(channels),
            refused: BTreeSet::new(),
        }
    }

    /// Adds all of the dependencies, or none if one of them closes a cycle.
    fn add_all(&mut self, dependencies: &[(u32, u32)]) -> bool {
        let mut added = Vec::new();
        let fits = dependencies
            .iter()
            .all(|&(held, wanted)| self.add(held, wanted, &mut added));
        if !fits {
            self.remove_all(added);
        }
        fits
    }

    /// True if the lane has this dependency.
    pub fn has(&self, held: u32, wanted: u32) -> bool {
        self.waits.has(held, wanted)
    }

    /// Adds a dependency if it closes no cycle, and if it is new, also to `added`. Returns false if it closes a cycle.
    pub fn add(&mut self, held: u32, wanted: u32, added: &mut Added) -> bool {
        if self.refused.contains(&(held, wanted)) {
            return false;
        }
        match self.waits.add(held, wanted) {
            Insertion::New => added.push((held, wanted)),
            Insertion::Known => {}
            Insertion::Closes => {
                // Additions may be removed again: the refusal is permanent only without them.
                if added.is_empty() {
                    self.refused.insert((held, wanted));
                }
                return false;
            }
        }
        true
    }

    /// Takes dependencies away.
    fn remove_all(&mut self, added: Added) {
        for (held, wanted) in added {
            self.waits.remove(held, wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_takes_what_closes_no_circle() {
        let mut lane = Lane::new(4);
        assert!(lane.add_all(&[(3, 2), (2, 1)]));
        assert!(!lane.add_all(&[(1, 0), (0, 3)]), "3 to 2 to 1 to 0 to 3");
        assert!(lane.add_all(&[(0, 3)]), "what was refused left nothing behind");
        assert!(!lane.add_all(&[(1, 0)]));
        assert!(lane.add_all(&[(0, 1), (3, 1)]));
    }
}
