//! The switches in flat arrays, with channels numbered by cable. A link that goes down keeps its number, so data built
//! before a fault stays valid after it.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, LostLink, NO_PATH};
use selvedge_types::{Lid, PortNum, PortState};
use serde::Serialize;

/// Which links carry packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// Links with two ACTIVE ends: a port sends data in no other state. Source: IBA vol 1 §7.2.7.
    #[default]
    Active,
    /// Links with two trained ends: for a transition that activates ports.
    Trained,
}

/// A directed cable between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Switch where the channel begins.
    pub src: u32,
    /// Switch where the channel ends.
    pub dst: u32,
    /// Egress port at `src`.
    pub out: u8,
    /// Ingress port at `dst`.
    pub into: u8,
}

/// A host port behind a link that carries packets.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// The host port. If no agent answers behind the link, the switch port.
    pub at: PortRef,
    /// Switch port that the host is attached to.
    pub port: u8,
}

/// The next hop of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over this channel, which carries packets.
    Channel(u32),
    /// To this host port.
    Host(u32),
    /// To port 0 of the switch.
    Own,
    /// Nowhere: packets are dropped.
    Dead,
}

/// Owner of a LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A host, and the switch that it is attached to.
    Host(u32, u32),
    /// Port 0 of a switch.
    Switch(u32),
    /// No port that can be reached.
    Nobody,
}

/// Switches, cables and hosts.
#[derive(Clone, Debug)]
pub struct Net {
    /// Number of switches.
    pub switches: usize,
    stride: usize,
    ways: Vec<Way>,
    /// Directed cables between switches by source, then port, including those that carry no packets.
    pub channels: Vec<Channel>,
    /// Index of each switch's first channel, and the total count at the end.
    first_out: Vec<u32>,
    /// Channels that enter each switch, by switch.
    entering: Vec<u32>,
    first_in: Vec<u32>,
    /// Hosts by switch, then port.
    pub hosts: Vec<Host>,
    /// Links that went down while packets that had crossed them may be in flight.
    pub lost: Vec<LostLink>,
    first_host: Vec<u32>,
    host_index: BTreeMap<PortRef, (u32, u32)>,
}

impl Net {
    /// Reads the fabric once.
    pub fn new(fabric: &Fabric, links: Links) -> Self {
        let switches = fabric.switches().len();
        let ports = fabric.switches().iter().map(|&n| fabric.node(n).port_count());
        let stride = usize::from(ports.max().unwrap_or(0)) + 1;
        let mut net = Self {
            switches,
            stride,
            ways: vec![Way::Dead; switches * stride],
            channels: Vec::new(),
            first_out: vec![0],
            entering: Vec::new(),
            first_in: vec![0; switches + 1],
            hosts: Vec::new(),
            lost: Vec::new(),
            first_host: vec![0],
            host_index: BTreeMap::new(),
        };
        for (switch, &node) in fabric.switches().iter_enumerated() {
            net.ways[switch.0 as usize * stride] = Way::Own;
            for (port, seen) in fabric.node(node).external_ports() {
                let at = PortRef { node, port };
                if let Some(peer) = seen.peer {
                    net.add(fabric, links, (switch, at), peer);
                } else if seen.link.state == PortState::Active {
                    // A device that does not answer SMPs may still send: an agent can hang while its host runs.
                    let port = port.get();
                    net.hosts.push(Host { at, port });
                }
            }
            net.first_out.push(index(net.channels.len()));
            net.first_host.push(index(net.hosts.len()));
        }
        net.sort_entering();
        net
    }

    fn add(&mut self, fabric: &Fabric, links: Links, (switch, at): (SwitchIdx, PortRef), peer: PortRef) {
        let carries = carries(fabric, links, at);
        let way = if let Some(next) = fabric.switch_index(peer.node) {
            self.channels.push(Channel {
                src: switch.0,
                dst: next.0,
                out: at.port.get(),
                into: peer.port.get(),
            });
            Way::Channel(index(self.channels.len() - 1))
        } else if carries {
            let host = index(self.hosts.len());
            let port = at.port.get();
            self.hosts.push(Host { at: peer, port });
            self.host_index.insert(peer, (host, switch.0));
            Way::Host(host)
        } else {
            Way::Dead
        };
        if carries {
            self.ways[switch.0 as usize * self.stride + at.port.index()] = way;
        }
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
            let place = &mut count[channel.dst as usize];
            self.entering[*place as usize] = number;
            *place += 1;
        }
    }

    /// Returns where an entry leads at a switch.
    #[inline]
    pub fn way(&self, switch: usize, entry: u8) -> Way {
        if usize::from(entry) < self.stride && entry != NO_PATH {
            self.ways[switch * self.stride + usize::from(entry)]
        } else {
            Way::Dead
        }
    }

    /// Returns the switch that a port is cabled to, even if the link carries no packets.
    pub fn cable(&self, switch: usize, port: u8) -> Option<usize> {
        let first = self.first_out[switch] as usize;
        let of_switch = &self.channels[first..self.first_out[switch + 1] as usize];
        let place = of_switch.binary_search_by_key(&port, |channel| channel.out).ok()?;
        Some(of_switch[place].dst as usize)
    }

    /// True if the cable carries packets.
    pub fn is_alive(&self, channel: usize) -> bool {
        let Channel { src, out, .. } = self.channels[channel];
        self.way(src as usize, out) != Way::Dead
    }

    /// Returns the first channel that leaves a switch.
    #[inline]
    pub fn first_out(&self, switch: usize) -> u32 {
        self.first_out[switch]
    }

    /// Returns the number of channels that leave a switch.
    pub fn out_degree(&self, switch: usize) -> u32 {
        self.first_out[switch + 1] - self.first_out[switch]
    }

    /// Returns the channels that enter a switch.
    pub fn entering(&self, switch: usize) -> &[u32] {
        &self.entering[self.first_in[switch] as usize..self.first_in[switch + 1] as usize]
    }

    /// Returns the index of a switch's first host.
    pub fn first_host(&self, switch: usize) -> u32 {
        self.first_host[switch]
    }

    /// Returns the hosts of a switch.
    pub fn hosts_of(&self, switch: usize) -> &[Host] {
        &self.hosts[self.first_host[switch] as usize..self.first_host[switch + 1] as usize]
    }

    /// Returns the owner of a LID.
    pub fn owner(&self, fabric: &Fabric, lids: &Lids, lid: Lid) -> Owner {
        let Some(at) = lids.owner(lid) else {
            return Owner::Nobody;
        };
        if let Some(&(host, switch)) = self.host_index.get(&at) {
            return Owner::Host(host, switch);
        }
        match fabric.switch_index(at.node) {
            Some(switch) if at.port == PortNum::MANAGEMENT => Owner::Switch(switch.0),
            _ => Owner::Nobody,
        }
    }

    /// True if both values were read from the same cabling.
    pub fn is_cabled_like(&self, other: &Self) -> bool {
        self.switches == other.switches && self.channels == other.channels
    }
}

fn carries(fabric: &Fabric, links: Links, at: PortRef) -> bool {
    let is_active = |end| fabric.port(end).is_some_and(|p| p.link.state == PortState::Active);
    match links {
        Links::Trained => fabric.link_is_up(at),
        Links::Active => is_active(at) && fabric.peer(at).is_some_and(is_active),
    }
}

/// Converts an index. A fabric has fewer than 2^32 ports, because each needs memory.
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
