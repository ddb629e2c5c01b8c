//! Which ports have been asked, and which have answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_sim::Time;
use selvedge_types::PortNum;

/// An answer is late only if it takes this many times as long as the slowest one so far.
const TIMES_AS_LONG: u32 = 4;
/// Shortest time after which an agent counts as late.
const LATE_AFTER: Duration = Duration::from_micros(500);

/// Which ports have been asked, and which have answered.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Ports that have answered, and ports to which a request failed.
    known: BTreeSet<PortRef>,
    /// Ports that were asked and have not answered, and since when.
    open: BTreeMap<PortRef, Time>,
    /// How long the slowest answer took.
    slowest: Duration,
    /// Switches that answered anything.
    heard: BTreeSet<NodeIdx>,
    /// Number of ports that did not answer although no known fault explains this.
    silent: usize,
}

impl Answers {
    /// Records that a port is asked.
    pub(super) fn ask(&mut self, at: PortRef, now: Time) {
        self.open.insert(at, now);
    }

    /// Handles the end of a request to a port. Returns true if no earlier request to this port has ended.
    pub(super) fn end(&mut self, at: PortRef, is_answered: bool, now: Time) -> bool {
        let asked = self.open.remove(&at);
        if let Some(asked) = asked.filter(|_| is_answered) {
            self.slowest = now.since(asked).max(self.slowest);
        }
        self.known.insert(at)
    }

    /// Records that a port did not answer, and that no known fault explains this.
    pub(super) const fn miss(&mut self) {
        self.silent += 1;
    }

    /// Records an answer of a switch. Returns true if the switch had not answered before.
    pub(super) fn hear(&mut self, node: NodeIdx) -> bool {
        self.heard.insert(node)
    }

    /// Allows these ports to be asked again.
    pub(super) fn reopen(&mut self, ports: &[PortRef]) {
        self.open.retain(|at, _| !ports.contains(at));
    }

    pub(super) fn is_known(&self, at: PortRef) -> bool {
        self.known.contains(&at)
    }

    pub(super) fn is_open(&self, at: PortRef) -> bool {
        self.open.contains_key(&at)
    }

    pub(super) fn has_heard(&self, node: NodeIdx) -> bool {
        self.heard.contains(&node)
    }

    /// Returns true if no port lacks an answer, except where a known fault explains it.
    pub(super) const fn are_complete(&self) -> bool {
        self.silent == 0
    }

    /// Returns the number of answers.
    pub(super) fn count(&self) -> u64 {
        self.known.len() as u64
    }

    /// Returns the ports that have not answered yet.
    pub(super) fn open(&self) -> impl Iterator<Item = PortRef> + '_ {
        self.open.keys().copied()
    }

    /// Returns the number of ports of a switch that have not answered yet, if it is at most `most`.
    pub(super) fn open_at(&self, node: NodeIdx, most: usize) -> usize {
        let port = PortNum::MANAGEMENT;
        let from = self.open.range(PortRef { node, port }..);
        from.take_while(|(at, _)| at.node == node).take(most).count()
    }

    /// Returns the switches that have not answered yet, and the time at which they count as late. `None` unless other
    /// switches have answered.
    pub(super) fn awaited(&self) -> Option<(BTreeSet<NodeIdx>, Time)> {
        let nodes: BTreeSet<NodeIdx> = self.open().map(|at| at.node).collect();
        let asked = self.open.values().max()?;
        let is_silent = !self.heard.is_empty() && nodes.is_disjoint(&self.heard);
        is_silent.then(|| (nodes, *asked + (self.slowest * TIMES_AS_LONG).max(LATE_AFTER)))
    }
}
