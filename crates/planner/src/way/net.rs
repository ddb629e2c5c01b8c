//! The switches, channels and hosts of a fabric in flat arrays, in which the channel of an entry is found quickly.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef};
pub use selvedge_graph::NONE;
use selvedge_graph::{ByPort, Graph, Lists};
use selvedge_plan::Lids;
use selvedge_types::{Lid, PortNum, PortState};

/// A directed cable between two switches.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// Switch where the channel begins.
    pub src: u32,
    /// Switch where the channel ends.
    pub dst: u32,
}

/// Switches, channels that carry packets, hosts.
#[derive(Debug)]
pub struct Net {
    /// Number of switches.
    pub switches: usize,
    /// Channels by source, then port.
    pub channels: Vec<Channel>,
    graph: Graph,
    ways: ByPort,
    entering: Lists<u32>,
    /// By switch: number of its hosts.
    hosts: Vec<u32>,
    leaf_of: BTreeMap<PortRef, u32>,
}

impl Net {
    /// Reads the fabric. `activates`: trained links count as carrying packets already.
    pub fn new(fabric: &Fabric, activates: bool) -> Self {
        let graph = Graph::over(fabric, |at, _| carries(fabric, at, activates));
        let channels = graph.sources().into_iter().zip(graph.channels().items());
        let mut net = Self {
            switches: graph.switches(),
            channels: channels.map(|(src, to)| Channel { src, dst: to.to }).collect(),
            ways: ByPort::new(&graph),
            entering: graph.entering(),
            hosts: vec![0; graph.switches()],
            graph,
            leaf_of: BTreeMap::new(),
        };
        net.read_hosts(fabric, activates);
        net
    }

    fn read_hosts(&mut self, fabric: &Fabric, activates: bool) {
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let hosts = &mut self.hosts[switch.0 as usize];
            for (port, seen) in fabric.node(node).external_ports() {
                let Some(peer) = seen.peer else {
                    // A node that does not answer there may send.
                    *hosts += u32::from(seen.link.state == PortState::Active);
                    continue;
                };
                if fabric.switch_index(peer.node).is_none() && carries(fabric, PortRef { node, port }, activates) {
                    *hosts += 1;
                    self.leaf_of.insert(peer, switch.0);
                }
            }
        }
    }

    /// Returns the channel to which an entry leads; [`NONE`] for an entry to a host, to the switch itself, or to
    /// nowhere.
    #[inline]
    pub fn way(&self, switch: u32, entry: u8) -> u32 {
        self.ways.channel(switch, entry)
    }

    /// Returns the first channel out of a switch.
    #[inline]
    pub fn first_out(&self, switch: u32) -> u32 {
        self.graph.channels().start(switch as usize) as u32
    }

    /// Returns the number of channels out of a switch.
    pub fn out_degree(&self, switch: u32) -> u32 {
        self.graph.channels().get(switch as usize).len() as u32
    }

    /// Returns the channels into a switch.
    #[inline]
    pub fn entering(&self, switch: u32) -> &[u32] {
        self.entering.get(switch as usize)
    }

    /// Returns the senders to a LID.
    pub fn senders(&self, fabric: &Fabric, lids: &Lids, lid: Lid, strict: bool) -> Senders {
        let owner = lids.owner(lid);
        let leaf = owner.and_then(|at| self.leaf_of.get(&at).copied());
        let is_switch = |at: PortRef| at.port == PortNum::MANAGEMENT && fabric.switch_index(at.node).is_some();
        Senders {
            leaf: leaf.unwrap_or(NONE),
            // No agent talks to a switch over data lanes, unless the options allow it.
            agents: strict || !owner.is_some_and(is_switch),
        }
    }

    /// True if a host or the agent of this switch sends to the LID.
    #[inline]
    pub fn sends(&self, switch: u32, senders: Senders) -> bool {
        senders.agents || self.has_host(switch, senders)
    }

    /// True if a host of this switch sends to the LID.
    #[inline]
    pub fn has_host(&self, switch: u32, senders: Senders) -> bool {
        self.hosts[switch as usize] > u32::from(senders.leaf == switch)
    }
}

/// The senders to a LID.
#[derive(Clone, Copy, Debug)]
pub struct Senders {
    /// The switch of the LID's owner, if the owner is a host: this host is no sender.
    leaf: u32,
    /// True if switch agents send too.
    agents: bool,
}

fn carries(fabric: &Fabric, at: PortRef, activates: bool) -> bool {
    let is_active = |end| fabric.port(end).is_some_and(|p| p.link.state == PortState::Active);
    if activates {
        fabric.link_is_up(at)
    } else {
        is_active(at) && fabric.peer(at).is_some_and(is_active)
    }
}
