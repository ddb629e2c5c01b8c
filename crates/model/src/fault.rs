//! What the loss of a link or of a switch costs: a whole sweep, or a fast fail-over.
//!
//! Which entries move depends on the tables, and so on the engine; the model does not route. It takes for both ends of what
//! was lost that every block of their tables changes, which is the most there can be, and leaves out switches further
//! away. [`Fault::blocks`] says otherwise where the number is known.

use crate::answer::{Answer, StageName};
use crate::apply::rounds;
use crate::shape::End;
use crate::walk::discover;
use crate::{Attribute, Compute, Cost, Counts, Manager, Method, Shape};

/// What was lost, and what that means for tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Table blocks that change at each switch beside the loss; `None`: all of them.
    pub blocks: Option<u64>,
}

/// How a manager answers a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recovery {
    /// It looks at the whole fabric and plans all of it again.
    Sweep,
    /// It looks at the ports in question, takes up ways that were planned before, and writes what changes.
    ///
    /// The place to adapt to what the manager really does: [`fast`].
    Fast,
}

impl Recovery {
    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Fast => "fail-over",
        }
    }
}

/// What a recovery costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultAnswer {
    /// How.
    pub recovery: Recovery,
    /// What it costs, from the moment at which the agent knows to the last answer.
    pub answer: Answer,
    /// Switches beside the loss that can still be reached.
    pub beside: u64,
}

/// What a fast fail-over computes: tables were planned beforehand, so only entries are compared.
const FAST_COMPUTE: Compute = Compute {
    fixed_ns: 100_000,
    per_switch_ns: 0,
    per_entry_ps: 0,
};

/// A cable between two switches is gone: the one that is farthest from the manager. `None` if there is none.
#[must_use]
pub fn link_fault(shape: &Shape, cost: &Cost, fault: Fault) -> Option<Vec<FaultAnswer>> {
    let switches = (0..shape.nodes()).filter(|&n| shape.is_reached(n) && shape.is_switch(n));
    let cables = switches.flat_map(|node| {
        let peers = (1..=shape.port_count(node)).filter_map(move |port| Some((port, shape.peer(node, port)?)));
        peers.map(move |(port, peer)| (End { node, port }, peer))
    });
    let between = cables.filter(|(a, b)| a < b && shape.is_switch(b.node));
    let (a, b) = between.max_by_key(|(a, b)| (shape.depth(a.node) + shape.depth(b.node), *b, *a))?;
    Some(recover(shape, cost, fault, &[(a.node, 1), (b.node, 1)], None))
}

/// A switch is gone: of those without hosts, else of all, the one that is farthest from the manager. `None` if there is
/// no switch but the manager's way out.
#[must_use]
pub fn switch_fault(shape: &Shape, cost: &Cost, fault: Fault) -> Option<Vec<FaultAnswer>> {
    let peers = |node: u32| (1..=shape.port_count(node)).filter_map(move |port| shape.peer(node, port));
    let has_hosts = |node: u32| peers(node).any(|peer| !shape.is_switch(peer.node));
    let switches = (0..shape.nodes()).filter(|&n| shape.is_reached(n) && shape.is_switch(n));
    let others = switches.filter(|&node| node != shape.seat.node && peers(node).all(|p| p.node != shape.seat.node));
    let lost = others.max_by_key(|&node| (!has_hosts(node), shape.depth(node), node))?;
    let mut beside: Vec<(u32, u64)> = Vec::new();
    for peer in peers(lost).filter(|peer| shape.is_switch(peer.node)) {
        match beside.iter_mut().find(|(node, _)| *node == peer.node) {
            Some((_, ports)) => *ports += 1,
            None => beside.push((peer.node, 1)),
        }
    }
    Some(recover(shape, cost, fault, &beside, Some(lost)))
}

/// Every way in which the manager of `cost` may answer; `beside` are switches and how many of their ports were lost.
fn recover(shape: &Shape, cost: &Cost, fault: Fault, beside: &[(u32, u64)], lost: Option<u32>) -> Vec<FaultAnswer> {
    let blocks = fault.blocks.unwrap_or(u64::MAX).min(shape.lft_blocks());
    let case = Case {
        shape,
        cost,
        beside,
        blocks,
        lost,
    };
    let mut answers = vec![case.finished(Recovery::Sweep, case.sweep())];
    if cost.manager == Manager::Selvedge {
        answers.push(case.finished(Recovery::Fast, case.fast()));
    }
    answers
}

struct Case<'a> {
    shape: &'a Shape,
    cost: &'a Cost,
    beside: &'a [(u32, u64)],
    blocks: u64,
    lost: Option<u32>,
}

impl Case<'_> {
    /// Traps come from every switch beside the loss; the first one starts the recovery.
    fn begin(&self) -> Answer {
        let mut answer = Answer::default();
        let ways = self
            .beside
            .iter()
            .map(|(node, _)| self.cost.wires.way_ns(self.shape.depth(*node)));
        answer.push(StageName::Trap, ways.min().unwrap_or(0));
        let traps = self.beside.len() as u64;
        answer.counts.add(Method::Trap, Attribute::Notice, traps);
        answer.counts.add(Method::TrapRepress, Attribute::Notice, traps);
        answer
    }

    /// Everything is discovered again, without what was lost; tables that the manager wrote itself are not read back.
    fn sweep(&self) -> Answer {
        let mut answer = self.begin();
        let left = Counts::bring_up(self.shape, self.cost.manager);
        for (method, attribute, count) in left.iter().filter(|(method, ..)| *method == Method::Get) {
            answer
                .counts
                .add(method, attribute, count - self.not_asked(attribute).min(count));
        }
        let gets = answer.counts.of_method(Method::Get);
        let discovered = discover(self.shape, self.cost, 0);
        answer.push_requests(self.cost, StageName::Discover, discovered, gets);
        answer.push(StageName::Compute, self.cost.compute.time_ns(self.shape));
        self.write(answer)
    }

    /// Gets that fall away because what they asked for is gone.
    fn not_asked(&self, attribute: Attribute) -> u64 {
        let ports: u64 = self.beside.iter().map(|(_, ports)| *ports).sum();
        let node = u64::from(self.lost.is_some());
        let lost_ports = self.lost.map_or(0, |node| u64::from(self.shape.port_count(node)));
        let enforcing = u64::from(self.cost.manager == Manager::OpenSm);
        match attribute {
            Attribute::NodeDescription | Attribute::SwitchInfo => node,
            // From both ends of a lost cable.
            Attribute::NodeInfo if self.lost.is_none() => ports,
            Attribute::NodeInfo => 2 * ports,
            Attribute::PortInfo if self.lost.is_some() => lost_ports + 1,
            Attribute::PKeyTable => node + enforcing * ports * (1 + node),
            Attribute::PortInfo | Attribute::Notice | Attribute::LinearForwardingTable => 0,
        }
    }

    /// One PortInfo Get for each lost port, a comparison, and the blocks that change. The place to adapt.
    fn fast(&self) -> Answer {
        let mut answer = self.begin();
        let looks: Vec<(u64, u16)> = self.agents(|ports| ports);
        let gets = looks.iter().map(|(count, _)| count).sum();
        answer.counts.add(Method::Get, Attribute::PortInfo, gets);
        answer.push_requests(self.cost, StageName::Look, (rounds(self.cost, &looks, 0), 0), gets);
        answer.push(StageName::Compute, FAST_COMPUTE.time_ns(self.shape));
        self.write(answer)
    }

    /// Table blocks of the switches beside the loss, and their SwitchInfo: PortStateChange is cleared.
    fn write(&self, mut answer: Answer) -> Answer {
        let switches = self.beside.len() as u64;
        let sets = self.agents(|_| self.blocks + 1);
        let blocks = switches * self.blocks;
        answer.counts.add(Method::Set, Attribute::SwitchInfo, switches);
        answer.counts.add(Method::Set, Attribute::LinearForwardingTable, blocks);
        let time = (rounds(self.cost, &sets, 0), 0);
        answer.push_requests(self.cost, StageName::Tables, time, blocks + switches);
        answer
    }

    fn agents(&self, requests: impl Fn(u64) -> u64) -> Vec<(u64, u16)> {
        let agent = |(node, ports): &(u32, u64)| (requests(*ports), self.shape.depth(*node));
        self.beside.iter().map(agent).collect()
    }

    fn finished(&self, recovery: Recovery, answer: Answer) -> FaultAnswer {
        FaultAnswer {
            recovery,
            answer,
            beside: self.beside.len() as u64,
        }
    }
}
