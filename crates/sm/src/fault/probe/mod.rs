//! Probes the ports of switches that reported a change, until the change is explained.
//!
//! Trap 128 names the switch, not the port. A link that went down explains the trap of either end: the manager acts on
//! it at once and probes the other ports afterwards.
//!
//! A switch that died sends no trap, and the probe does not wait for its agent: if a link is lost, the switch behind it
//! is doubted, unless that switch has just answered or sent a trap. The other neighbours of a doubted switch are asked
//! for their ends of its links, two at first. If one neighbour reports that its link is up, the switch is alive. If all
//! links are down, the switch is gone.

mod answers;
mod doubt;
mod order;
mod returns;

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{NodeIdx, Port, PortRef};
use selvedge_planner::{Damage, Inventory};
use selvedge_sim::Time;
use selvedge_types::{PortNum, PortState};
use selvedge_wire::{AttributeId, DirectedRoute, PortInfo, SmpData};

use super::Suspects;
use crate::event::SweepReason;
use answers::Answers;
use doubt::Doubts;
use order::Order;
use returns::Returns;

/// The request to the far end of a link that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// NodeInfo of the node.
    Node,
    /// PortInfo of the port.
    Port,
    /// P_KeyTable of the port, if it belongs to a host.
    PKeys,
    /// Port 0 of the switch at the near or the far end of a link. If that switch was off while the link was down, it
    /// has lost its LID and its tables.
    Agent(NodeIdx),
}

/// A probe of the ports of some switches.
#[derive(Debug)]
pub struct Probe {
    start: Start,
    suspects: Suspects,
    /// Switches that may have reported a change that has been found.
    explained: BTreeSet<NodeIdx>,
    answers: Answers,
    order: Order,
    doubts: Doubts,
    returns: Returns,
    /// True while a request to the local port has no answer. If the cable of the local port was moved, every directed
    /// route leads to another node.
    is_own_open: bool,
    /// The lost and returned links found so far.
    damage: Damage,
    /// True if there is a finding that no lost link explains: a sweep must follow.
    is_strange: bool,
}

/// The start values of a probe.
#[derive(Debug)]
pub struct Start {
    /// The state before the probe.
    pub inventory: Arc<Inventory>,
    /// Ports of links that are left out, whatever state they report.
    pub held: BTreeSet<PortRef>,
    /// The reason of the probe, and of the sweep that may follow.
    pub reason: SweepReason,
    /// When the probe begins.
    pub began: Time,
    /// True if every port is probed, whatever is found, because the probe checks a repair.
    pub is_check: bool,
}

/// Inputs during a probe.
#[derive(Debug)]
pub enum In<'a> {
    /// More switches have reported a change.
    Suspected(Suspects),
    /// Ports may be asked now: this number in all, and of each agent at most `agent_window` at once.
    Room {
        /// Number of ports.
        ports: usize,
        /// Limit for one agent.
        agent_window: usize,
    },
    /// A port has answered; `None`: it did not answer, or answered with an error.
    Port(PortRef, Option<&'a PortInfo>),
    /// The node behind a returned link has answered; `None`: it did not answer, or answered with an error.
    Behind(PortRef, Behind, Option<&'a SmpData>),
    /// The local port has been compared with what was last known.
    OwnPort {
        /// True if the port is as it was last known.
        is_as_known: bool,
    },
    /// Every request has ended, with or without an answer.
    AllEnded,
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Ask for the PortInfo of a port.
    Ask {
        /// The port.
        at: PortRef,
        /// The directed route to the agent.
        route: DirectedRoute,
        /// True if the request is sent by another than the usual directed route. The requests by the usual route are
        /// lost, and must not count against the agent's window.
        is_detour: bool,
    },
    /// Send a request to the far end of a link that came back.
    AskBehind {
        /// The end of the link that was asked first.
        at: PortRef,
        /// The request.
        what: Behind,
        /// The attribute to request.
        attribute: AttributeId,
        /// The attribute modifier.
        modifier: u32,
        /// The directed route to the agent.
        route: DirectedRoute,
    },
    /// Only switches that are gone have not answered, so the probe is over.
    Over,
    /// The probe is over. Only a sweep can find out what happened.
    Sweep(SweepReason),
    /// The probe is over. Plan a repair of this damage.
    Repair(Damage),
    /// The probe is over. Nothing has changed.
    Nothing,
    /// The probe is over. The repaired links are as planned.
    Confirmed,
}

impl Probe {
    /// Returns a probe that has asked nothing yet.
    #[must_use]
    pub fn new(start: Start, suspects: &Suspects) -> Self {
        let is_own_open = !start.is_check && start.inventory.local.port != PortNum::MANAGEMENT;
        let waits = matches!(start.reason, SweepReason::Trap(_)) && !start.is_check;
        let mut probe = Self {
            start,
            suspects: Suspects::default(),
            explained: BTreeSet::new(),
            answers: Answers::default(),
            order: Order::default(),
            doubts: Doubts::default(),
            returns: Returns::default(),
            is_own_open,
            damage: Damage::default(),
            is_strange: false,
        };
        probe.suspect(suspects);
        if waits {
            probe.begin_with_trap();
        }
        probe
    }

    /// Handles one input and appends its effects.
    pub fn handle(&mut self, now: Time, input: In<'_>, effects: &mut Vec<Effect>) {
        match input {
            In::Suspected(more) => return self.suspect(&more),
            In::Room { ports, agent_window } => return self.ask(now, ports, agent_window, effects),
            In::AllEnded => return effects.push(self.conclude()),
            In::Port(at, info) => self.answered(at, info, now),
            In::Behind(at, what, data) => self.behind(at, what, data),
            In::OwnPort { is_as_known } => {
                self.is_own_open = false;
                self.is_strange |= !is_as_known;
            }
        }
        let end = self.end();
        self.ask_behind(effects);
        effects.extend(end);
    }

    /// Returns the inputs of the probe.
    #[must_use]
    pub const fn start(&self) -> &Start {
        &self.start
    }

    /// Returns true while the local port must still be asked.
    #[must_use]
    pub const fn awaits_own_port(&self) -> bool {
        self.is_own_open
    }

    /// Returns the number of answers.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.answers.count()
    }

    fn suspect(&mut self, more: &Suspects) {
        self.suspects.nodes.extend(&more.nodes);
        self.suspects.flagged.extend(&more.flagged);
        self.order.renew();
        self.note_likely(&more.nodes);
    }

    /// Returns the links of a switch to other switches that were up, each with both ends.
    fn links_to_switches(&self, node: NodeIdx) -> impl Iterator<Item = (PortRef, PortRef)> + '_ {
        let fabric = &self.start.inventory.fabric;
        let up = fabric.node(node).external_ports().filter(|(_, seen)| seen.is_up());
        let links = up.filter_map(move |(port, seen)| Some((PortRef { node, port }, seen.peer?)));
        links.filter(|(_, peer)| fabric.switch_index(peer.node).is_some())
    }

    fn is_lost(&self, at: PortRef, peer: PortRef) -> bool {
        self.damage.lost.contains(&at) || self.damage.lost.contains(&peer)
    }

    /// Handles the answer of a port; `None`: no answer.
    fn answered(&mut self, at: PortRef, info: Option<&PortInfo>, now: Time) {
        if !self.answers.end(at, info.is_some(), now) {
            return;
        }
        let inventory = Arc::clone(&self.start.inventory);
        let fabric = &inventory.fabric;
        // An answer that contradicts itself counts as none.
        let info = info.filter(|info| !info.is_contradictory());
        let (Some(info), Some(port)) = (info, fabric.port(at)) else {
            if !self.is_cut_off(at.node) {
                // An agent behind a lost link will be asked by another route.
                self.answers.miss();
                self.order.renew();
                self.is_strange |= self.start.is_check;
            }
            return;
        };
        self.hear(at.node);
        if self.note_withdrawn(at, info) {
            return;
        }
        let state = info.state.unwrap_or(PortState::Down);
        match (port.is_up(), info.is_up()) {
            (true, false) => {
                self.damage.lost.insert(at);
                self.damage.seen.push((at, *info));
                self.explained.insert(at.node);
                let far = port.peer.map(|peer| peer.node);
                self.explained.extend(far);
                // Its trap may have been lost with the link.
                let far = far.filter(|node| fabric.switch_index(*node).is_some());
                self.damage.flagged.extend([at.node].into_iter().chain(far));
                // Our own link: whatever was sent by it is gone.
                self.is_strange |= at == self.start.inventory.local || port.peer == Some(self.start.inventory.local);
                if let Some(far) = far.filter(|&far| !self.is_alive(far)) {
                    self.doubt(far);
                }
                self.ask_again();
            }
            // The link came back, or went down and came back before the probe.
            (false, true) if self.stays_out(at) => {
                let far = port.peer.map(|peer| peer.node);
                for node in [at.node].into_iter().chain(far) {
                    self.explained.insert(node);
                    self.damage.flagged.insert(node);
                }
            }
            (false, true) => self.came_back(at, info),
            (true, true) if state != port.link.state => self.came_back(at, info),
            (true, true) | (false, false) => {}
        }
    }

    /// Handles the answer of a port with a link that is out of service and left out of the fabric. If the link has
    /// changed, that explains a trap, and nothing is repaired. Returns false for any other port.
    fn note_withdrawn(&mut self, at: PortRef, info: &PortInfo) -> bool {
        let inventory = &self.start.inventory;
        let withdrawn = &inventory.withdrawn;
        let is_listed = withdrawn.idle.contains(&at) || withdrawn.hosts.contains(&at);
        if !is_listed || inventory.fabric.port(at).is_some_and(Port::is_up) {
            return false;
        }
        let before = inventory.port_info(at).map(|before| (before.state, before.phys_state));
        if before != Some((info.state, info.phys_state)) {
            self.explained.insert(at.node);
            self.damage.flagged.insert(at.node);
            self.damage.seen.push((at, *info));
        }
        true
    }

    /// True if a link that is back may stay left out of the repair. Both its nodes must be known, and reachable without
    /// this link: only a sweep finds whether there is another route.
    fn stays_out(&self, at: PortRef) -> bool {
        let far = self.start.inventory.fabric.peer(at);
        let is_there = |far: PortRef| {
            ![at.node, far.node]
                .iter()
                .any(|&node| self.start.inventory.is_gone(node))
        };
        self.start.held.contains(&at) && far.is_some_and(is_there)
    }

    /// True if every suspect is explained, or all ports have answered and nothing has changed. But if PortStateChange
    /// is set and no finding explains it, a cable was moved during the probe, so some of the known cables are out of
    /// date.
    fn is_settled(&self) -> bool {
        let is_explained = |nodes: &BTreeSet<NodeIdx>| nodes.iter().all(|node| self.explains(*node));
        !self.is_strange
            && is_explained(&self.suspects.flagged)
            && (self.answers.are_complete() || is_explained(&self.suspects.nodes))
    }

    /// True if the probe found nothing to repair.
    fn found_nothing(&self) -> bool {
        self.damage.lost.is_empty()
            && self.damage.returned.is_empty()
            && (self.start.is_check || self.damage.flagged.is_empty())
    }

    /// True if a finding explains why a suspect reported a change.
    fn explains(&self, node: NodeIdx) -> bool {
        self.explained.contains(&node) || self.is_cut_off(node)
    }

    /// Returns the result of the probe, if it is known before all ports have answered. That is so if a finding is
    /// neither a lost nor a returned link, which only a sweep can handle, or if every suspect is explained.
    fn end(&mut self) -> Option<Effect> {
        if self.is_strange {
            return Some(Effect::Sweep(self.start.reason));
        }
        let is_explained = || {
            let mut suspects = self.suspects.nodes.iter();
            suspects.all(|&node| self.explains(node)) && self.doubted().all(|node| self.is_resolved(node))
        };
        (!self.awaits_more_than_ports() && !self.start.is_check && is_explained()).then(|| self.found())
    }

    /// Returns true if the local port, or a node behind a link that came back, has not answered yet.
    fn awaits_more_than_ports(&self) -> bool {
        self.is_own_open || self.returns.are_open()
    }

    /// Returns the result of the probe, when all ports, or enough of them, have answered.
    fn conclude(&mut self) -> Effect {
        match self.found_nothing() {
            true if self.start.is_check => Effect::Confirmed,
            _ if !self.is_settled() => Effect::Sweep(self.start.reason),
            true => Effect::Nothing,
            false => self.found(),
        }
    }

    fn found(&mut self) -> Effect {
        Effect::Repair(std::mem::take(&mut self.damage))
    }
}
