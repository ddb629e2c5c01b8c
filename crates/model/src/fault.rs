//! The cost of losing a link or a switch: by a whole sweep, or by a fast fail-over.
//!
//! Which entries move depends on the tables, and so on the routing engine; the model does not route. It assumes that
//! every block changes in the tables of the neighbours of the lost link or switch, which is an upper bound for these
//! switches, and ignores switches further away. If the number of changed blocks is known, set [`Fault::blocks`].

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_types::PortNum;

use crate::answer::{Answer, StageName};
use crate::apply::rounds;
use crate::shape::End;
use crate::{Attribute, Compute, Cost, Counts, Manager, Method, Shape};

/// Assumptions about a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Number of table blocks that change at each neighbouring switch; `None`: all of them.
    pub blocks: Option<u64>,
}

/// A manager's reaction to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recovery {
    /// The manager discovers the whole fabric, and plans all of it again.
    Sweep,
    /// Reads the ports of the switches that sent traps, repairs the plan in force, and writes the changes.
    Fast,
}

impl Recovery {
    /// Returns the name of the recovery.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Fast => "fail-over",
        }
    }
}

/// The cost of a recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultAnswer {
    /// The kind of recovery.
    pub recovery: Recovery,
    /// Cost of the recovery, from the moment when the agent detects the fault to the last response.
    pub answer: Answer,
    /// The lost part: a port of the link, or port 0 of the switch.
    pub lost: PortRef,
}

/// Computation of a fast fail-over, a repair of the plan in force: 50 µs, and 2 µs per switch.
const FAST_COMPUTE: Compute = Compute {
    fixed_ns: 50_000,
    per_switch_ns: 2_000,
    per_entry_ps: 0,
};

/// Returns the cost of losing the cable between two switches that is farthest from the manager. `None` if there is
/// none. `up` is the cost of bringing up the same fabric with the same manager.
#[must_use]
pub fn link_fault(shape: &Shape, cost: &Cost, up: &Answer, fault: Fault) -> Option<Vec<FaultAnswer>> {
    let switches = (0..shape.nodes()).filter(|&n| shape.is_reached(n) && shape.is_switch(n));
    let cables = switches.flat_map(|node| {
        let peers = (1..=shape.port_count(node)).filter_map(move |port| Some((port, shape.peer(node, port)?)));
        peers.map(move |(port, peer)| (End { node, port }, peer))
    });
    let between = cables.filter(|(a, b)| a < b && shape.is_switch(b.node));
    let (a, b) = between.max_by_key(|(a, b)| (shape.depth(a.node) + shape.depth(b.node), *b, *a))?;
    let beside = [(a.node, 1), (b.node, 1)];
    Some(recover((shape, cost, up), fault, &beside, Lost::Link(a)))
}

/// Returns the cost of losing a switch: the one farthest from the manager, without hosts if possible. `None` if the
/// only switch is the manager's own. `up` is the cost of bringing up the same fabric with the same manager.
#[must_use]
pub fn switch_fault(shape: &Shape, cost: &Cost, up: &Answer, fault: Fault) -> Option<Vec<FaultAnswer>> {
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
    Some(recover((shape, cost, up), fault, &beside, Lost::Switch(lost)))
}

/// Returns the cost of every recovery that the manager of `cost` may use. `beside` lists the neighbouring switches and
/// how many of their ports were lost.
fn recover(
    (shape, cost, up): (&Shape, &Cost, &Answer),
    fault: Fault,
    beside: &[(u32, u64)],
    lost: Lost,
) -> Vec<FaultAnswer> {
    let blocks = fault.blocks.unwrap_or(u64::MAX).min(shape.lft_blocks());
    let case = Case {
        shape,
        cost,
        up,
        beside,
        blocks,
        lost,
    };
    let mut answers = vec![case.finished(Recovery::Sweep, case.sweep())];
    // The loss of a switch is detected by a sweep.
    if cost.manager == Manager::Selvedge && !lost.is_switch() {
        answers.push(case.finished(Recovery::Fast, case.fast()));
    }
    answers
}

#[derive(Clone, Copy)]
enum Lost {
    Link(End),
    Switch(u32),
}

impl Lost {
    const fn is_switch(self) -> bool {
        matches!(self, Self::Switch(_))
    }

    fn port(self) -> PortRef {
        let (node, port) = match self {
            Self::Link(end) => (end.node, PortNum::new(end.port)),
            Self::Switch(node) => (node, None),
        };
        PortRef {
            node: NodeIdx(node),
            port: port.unwrap_or(PortNum::MANAGEMENT),
        }
    }
}

struct Case<'a> {
    shape: &'a Shape,
    cost: &'a Cost,
    up: &'a Answer,
    beside: &'a [(u32, u64)],
    blocks: u64,
    lost: Lost,
}

impl Case<'_> {
    /// Counts the traps. They come from every neighbouring switch; the first one starts the recovery.
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

    /// Counts a sweep: everything except the lost part is discovered again. Tables that the manager wrote itself are
    /// not read back.
    fn sweep(&self) -> Answer {
        let mut answer = self.begin();
        let left = Counts::bring_up(self.shape, self.cost.manager);
        for (method, attribute, count) in left.iter().filter(|(method, ..)| *method == Method::Get) {
            answer
                .counts
                .add(method, attribute, count - self.not_asked(attribute, count).min(count));
        }
        // Takes as long as the first time: the lost part is small, and the requests left out would go to idle agents.
        answer.push(StageName::Discover, self.up.stage_ns(StageName::Discover));
        // No new LIDs, so there is no wait for the disk.
        let compute = Compute {
            fixed_ns: 0,
            ..self.cost.compute
        };
        answer.push(StageName::Compute, compute.time_ns(self.shape));
        self.write(answer)
    }

    /// Returns the number of Gets that the sweep after a fault does not send: Gets that a sweep does not repeat, and
    /// Gets to a target that is gone. Hosts behind a lost switch still count, because they keep their LIDs until the
    /// sweep is over.
    fn not_asked(&self, attribute: Attribute, all: u64) -> u64 {
        let ports: u64 = self.beside.iter().map(|(_, ports)| *ports).sum();
        let node = u64::from(self.lost.is_switch());
        // PortInfo of a lost switch, including port 0.
        let lost_ports = match self.lost {
            Lost::Switch(node) => u64::from(self.shape.port_count(node)) + 1,
            Lost::Link(_) => 0,
        };
        let opensm = self.cost.manager == Manager::OpenSm;
        match attribute {
            // OpenSM does not read the names of known nodes again. Source: observed.
            Attribute::NodeDescription if opensm => all,
            Attribute::NodeDescription | Attribute::SwitchInfo => node,
            // From both ends of a lost cable.
            Attribute::NodeInfo if !self.lost.is_switch() => ports,
            // OpenSM does not query back through the port by which it entered.
            Attribute::NodeInfo => 2 * ports - u64::from(opensm),
            Attribute::PortInfo => lost_ports,
            Attribute::PKeyTable if opensm => all - self.pkeys_again().min(all),
            Attribute::PKeyTable => node,
            Attribute::Notice | Attribute::LinearForwardingTable => 0,
        }
    }

    /// Returns the number of P_Key blocks that OpenSM reads again. For a switch that reported a change, it reads the
    /// P_Keys of every port with a link and of the hosts attached to it, except OpenSM's own host. For every other
    /// switch it reads the P_Keys of port 0. Source: observed, one block each.
    fn pkeys_again(&self) -> u64 {
        let shape = self.shape;
        let at = |&(node, lost): &(u32, u64)| {
            let peers = || (1..=shape.port_count(node)).filter_map(move |port| shape.peer(node, port));
            let is_host = |peer: &End| !shape.is_switch(peer.node) && *peer != shape.seat;
            peers().count() as u64 - lost + 1 + peers().filter(is_host).count() as u64
        };
        let beside = self.beside.len() as u64;
        let others = shape.switches() - u64::from(self.lost.is_switch()) - beside;
        self.beside.iter().map(at).sum::<u64>() + others
    }

    /// Returns the cost of a fast fail-over: PortInfo Gets of all ports of the switches that sent traps, a repair, and
    /// the blocks that change. The Gets are an upper bound, because the manager stops at the first port that explains
    /// the traps. Adapt this function if the manager changes.
    fn fast(&self) -> Answer {
        let mut answer = self.begin();
        let ports = |(node, _): &(u32, u64)| (u64::from(self.shape.port_count(*node)), self.shape.depth(*node));
        let looks: Vec<(u64, u16)> = self.beside.iter().map(ports).collect();
        let gets = looks.iter().map(|(count, _)| count).sum();
        answer.counts.add(Method::Get, Attribute::PortInfo, gets);
        answer.push_requests(self.cost, StageName::Look, rounds(self.cost, &looks), gets);
        answer.push(StageName::Compute, FAST_COMPUTE.time_ns(self.shape));
        self.write(answer)
    }

    /// Writes table blocks of the neighbouring switches, and their SwitchInfo to clear PortStateChange.
    fn write(&self, mut answer: Answer) -> Answer {
        let switches = self.beside.len() as u64;
        let agent = |(node, _): &(u32, u64)| (self.blocks + 1, self.shape.depth(*node));
        let sets: Vec<(u64, u16)> = self.beside.iter().map(agent).collect();
        let blocks = switches * self.blocks;
        answer.counts.add(Method::Set, Attribute::SwitchInfo, switches);
        answer.counts.add(Method::Set, Attribute::LinearForwardingTable, blocks);
        let time = rounds(self.cost, &sets);
        answer.push_requests(self.cost, StageName::Tables, time, blocks + switches);
        answer
    }

    fn finished(&self, recovery: Recovery, answer: Answer) -> FaultAnswer {
        FaultAnswer {
            recovery,
            answer,
            lost: self.lost.port(),
        }
    }
}
