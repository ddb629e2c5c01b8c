//! The switches in flat arrays: the channel of each entry.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::Lids;
use selvedge_types::{Lid, PortNum, PortState};

/// A directed cable between two switches.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// Switch it leaves.
    pub src: u32,
    /// Switch it enters.
    pub dst: u32,
}

/// No channel or switch.
pub const NONE: u32 = u32::MAX;

/// Switches, channels that carry packets, hosts.
#[derive(Debug)]
pub struct Net {
    /// Number of switches.
    pub switches: usize,
    /// Channels by source, then port.
    pub channels: Vec<Channel>,
    stride: usize,
    /// By switch and egress port: the channel, or [`NONE`].
    ways: Vec<u32>,
    first_out: Vec<u32>,
    entering: Vec<u32>,
    first_in: Vec<u32>,
    /// By switch: its hosts.
    hosts: Vec<u32>,
    leaf_of: BTreeMap<PortRef, u32>,
}

impl Net {
    /// Reads the fabric. `activates`: trained links count as carrying packets already.
    pub fn new(fabric: &Fabric, activates: bool) -> Self {
        let switches = fabric.switches().len();
        let ports = fabric.switches().iter().map(|&node| fabric.node(node).port_count());
        let stride = usize::from(ports.max().unwrap_or(0)) + 1;
        let mut net = Self {
            switches,
            channels: Vec::new(),
            stride,
            ways: vec![NONE; switches * stride],
            first_out: vec![0],
            entering: Vec::new(),
            first_in: Vec::new(),
            hosts: vec![0; switches],
            leaf_of: BTreeMap::new(),
        };
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let at = switch.0 as usize;
            for (port, seen) in fabric.node(node).external_ports() {
                if seen.peer.is_none() && seen.link.state == PortState::Active {
                    // A node that does not answer may still send.
                    net.hosts[at] += 1;
                }
                let peer = seen.peer.filter(|_| carries(fabric, PortRef { node, port }, activates));
                let Some(peer) = peer else { continue };
                if let Some(next) = fabric.switch_index(peer.node) {
                    net.ways[at * stride + port.index()] = index(net.channels.len());
                    net.channels.push(Channel {
                        src: switch.0,
                        dst: next.0,
                    });
                } else {
                    net.hosts[at] += 1;
                    net.leaf_of.insert(peer, switch.0);
                }
            }
            net.first_out.push(index(net.channels.len()));
        }
        net.sort_entering();
        net
    }

    fn sort_entering(&mut self) {
        let mut count = vec![0; self.switches + 1];
        for channel in &self.channels {
            count[channel.dst as usize + 1] += 1;
        }
        for switch in 0..self.switches {
            count[switch + 1] += count[switch];
        }
        self.first_in.clone_from(&count);
        self.entering = vec![0; self.channels.len()];
        for (number, channel) in (0..).zip(&self.channels) {
            let place: &mut u32 = &mut count[channel.dst as usize];
            self.entering[*place as usize] = number;
            *place += 1;
        }
    }

    /// Returns the channel that an entry leads over. [`NONE`] for an entry to a host, to the switch itself, or to
    /// nowhere.
    #[inline]
    pub fn way(&self, switch: u32, entry: u8) -> u32 {
        if usize::from(entry) < self.stride {
            self.ways[switch as usize * self.stride + usize::from(entry)]
        } else {
            NONE
        }
    }

    /// Returns the first channel out of a switch.
    #[inline]
    pub fn first_out(&self, switch: u32) -> u32 {
        self.first_out[switch as usize]
    }

    /// Returns the number of channels out of a switch.
    pub fn out_degree(&self, switch: u32) -> u32 {
        self.first_out[switch as usize + 1] - self.first_out[switch as usize]
    }

    /// Returns the channels into a switch.
    #[inline]
    pub fn entering(&self, switch: u32) -> &[u32] {
        let at = switch as usize;
        &self.entering[self.first_in[at] as usize..self.first_in[at + 1] as usize]
    }

    /// Returns the senders to a LID.
    pub fn senders(&self, fabric: &Fabric, lids: &Lids, lid: Lid, strict: bool) -> Senders {
        let owner = lids.owner(lid);
        let leaf = owner.and_then(|at| self.leaf_of.get(&at).copied());
        let is_switch = |at: PortRef| at.port == PortNum::MANAGEMENT && fabric.switch_index(at.node).is_some();
        Senders {
            leaf: leaf.unwrap_or(NONE),
            // No agent talks to a switch over data lanes, unless the options say so.
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
    /// The owner's switch, if the owner is a host. A host does not send to itself.
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

/// Converts an index. A fabric has fewer than 2^32 ports, because each needs memory.
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
