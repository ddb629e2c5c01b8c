//! When the cable of each port is read by CableInfo: soon after its link came up, then at a long interval. These are no
//! counters, so no slot waits for them, and they are asked a few at a time.

use core::time::Duration;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use selvedge_sim::Time;
use selvedge_types::Guid;

use crate::{End, Inventory};

/// Ports that are asked at once. Source: ours; half a window, so that counters have the other half.
const BATCH: usize = 32;
/// Pause between two batches. Source: ours; 35,000 ports take two minutes.
const PACE: Duration = Duration::from_millis(100);
/// Pause before the cables of a node that did not answer are asked again. Source: ours; as the longest pause for its
/// counters.
const SILENT: Duration = Duration::from_secs(300);

/// The inputs.
#[derive(Clone, Copy, Debug)]
pub(super) enum CableIn<'a> {
    /// The ports from now on.
    Inventory(&'a Inventory),
    /// Time has passed.
    Wake,
    /// The request for a port ended.
    Ended(End, Outcome),
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The cable was read, or the agent does not know this port's.
    Answered,
    /// The agent does not have the attribute.
    Without,
    /// The agent did not answer.
    Silent,
}

/// The cable of a port.
#[derive(Clone, Copy, Debug)]
struct Cable {
    peer: End,
    due: Time,
}

/// When the cable of each port is read.
#[derive(Debug)]
pub(super) struct Cables {
    /// Time from one reading to the next; `None`: cables are not read.
    every: Option<Duration>,
    /// Time after which a request is taken to be lost.
    retry: Duration,
    cables: BTreeMap<End, Cable>,
    /// The same cables by when they are due.
    queue: BTreeSet<(Time, End)>,
    /// Nodes with an agent that does not have the attribute.
    without: BTreeSet<Guid>,
    next_batch: Time,
}

impl Cables {
    pub(super) const fn new(every: Option<Duration>, retry: Duration) -> Self {
        Self {
            every,
            retry,
            cables: BTreeMap::new(),
            queue: BTreeSet::new(),
            without: BTreeSet::new(),
            next_batch: Time::ZERO,
        }
    }

    /// Returns when ports are due next.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.queue.first().map(|(due, _)| (*due).max(self.next_batch))
    }

    /// Handles one input. Returns the ports to ask now.
    pub(super) fn handle(&mut self, now: Time, input: CableIn<'_>) -> Vec<End> {
        let Some(every) = self.every else {
            return Vec::new();
        };
        match input {
            CableIn::Inventory(inventory) => self.take_inventory(now, inventory),
            CableIn::Wake => return self.due(now),
            CableIn::Ended(end, Outcome::Answered) => self.plan(end, now + every),
            CableIn::Ended(end, Outcome::Without) => {
                self.without.insert(end.node);
                self.of_node(end.node).for_each(|end| self.drop(end));
            }
            // One request shows it for all ports of the node.
            CableIn::Ended(end, Outcome::Silent) => {
                let again = now + every.min(SILENT);
                self.of_node(end.node).for_each(|end| self.plan(end, again));
            }
        }
        Vec::new()
    }

    /// True if the cable of a port is still read.
    pub(super) fn is_wanted(&self, end: End) -> bool {
        self.cables.contains_key(&end)
    }

    fn take_inventory(&mut self, now: Time, inventory: &Inventory) {
        self.without.retain(|node| inventory.nodes.contains_key(node));
        let peer_of = |end: End| inventory.port(end).filter(|port| port.is_up())?.peer;
        let known: Vec<(End, End)> = self.cables.iter().map(|(end, cable)| (*end, cable.peer)).collect();
        for (end, peer) in known {
            if peer_of(end) != Some(peer) {
                self.drop(end);
            }
        }
        for (guid, node) in &inventory.nodes {
            for port in node.ports.iter().filter(|port| port.is_up()) {
                let end = End {
                    node: *guid,
                    port: port.num,
                };
                let Some(peer) = port.peer.filter(|_| !self.without.contains(guid)) else {
                    continue;
                };
                if let Entry::Vacant(free) = self.cables.entry(end) {
                    free.insert(Cable { peer, due: now });
                    self.queue.insert((now, end));
                }
            }
        }
    }

    /// Returns the ports that are due. Until its answer comes, each is due again after the time of a lost request.
    fn due(&mut self, now: Time) -> Vec<End> {
        if now < self.next_batch {
            return Vec::new();
        }
        let due = self.queue.iter().take_while(|(due, _)| *due <= now);
        let batch: Vec<End> = due.take(BATCH).map(|(_, end)| *end).collect();
        if !batch.is_empty() {
            self.next_batch = now + PACE;
        }
        batch.iter().for_each(|end| self.plan(*end, now + self.retry));
        batch
    }

    fn of_node(&self, node: Guid) -> impl Iterator<Item = End> + use<> {
        let ends = self.cables.range(End { node, port: 0 }..=End { node, port: u8::MAX });
        let ends: Vec<End> = ends.map(|(end, _)| *end).collect();
        ends.into_iter()
    }

    fn plan(&mut self, end: End, due: Time) {
        if let Some(cable) = self.cables.get_mut(&end) {
            self.queue.remove(&(cable.due, end));
            cable.due = due;
            self.queue.insert((due, end));
        }
    }

    fn drop(&mut self, end: End) {
        if let Some(cable) = self.cables.remove(&end) {
            self.queue.remove(&(cable.due, end));
        }
    }
}
