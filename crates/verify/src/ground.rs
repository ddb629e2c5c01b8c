//! The fabric in flat arrays: the destination of each switch port, the channels, the hosts and the connected parts.

use selvedge_fabric::{NodeIdx, PortRef, PortSettings, SwitchIdx};
use selvedge_plan::NO_PATH;
use selvedge_types::{Idx, Lid, PortNum};

use crate::by_port::ByPort;
use crate::finding::Cause;
use crate::subject::Subject;

/// Where a switch port leads, in one word: a tag in the upper bits, an index below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(u32);

/// [`Exit`], unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over this channel, to another switch.
    Channel(usize),
    /// To this host port.
    Host(u32),
    /// To port 0 of the switch.
    Own,
    /// Nowhere: packets are dropped.
    Dead(Cause),
}

impl Exit {
    const TAG_SHIFT: u32 = 30;
    const INDEX: u32 = (1 << Self::TAG_SHIFT) - 1;
    /// Exit to port 0 of the switch.
    pub const OWN: Self = Self(2 << Self::TAG_SHIFT);

    const fn channel(index: u32) -> Self {
        Self(index & Self::INDEX)
    }

    /// Returns the exit to a host port.
    pub const fn host(index: u32) -> Self {
        Self(1 << Self::TAG_SHIFT | index & Self::INDEX)
    }

    /// Returns an exit that drops packets.
    pub const fn dead(cause: Cause) -> Self {
        Self(3 << Self::TAG_SHIFT | cause as u32)
    }

    /// Returns the channel, if the exit leads to a switch.
    #[inline]
    pub const fn as_channel(self) -> Option<usize> {
        if self.0 >> Self::TAG_SHIFT == 0 {
            Some(self.0 as usize)
        } else {
            None
        }
    }

    /// True if a packet needs a lane for this exit, because it leaves on a link.
    #[inline]
    pub const fn needs_lane(self) -> bool {
        self.0 >> Self::TAG_SHIFT <= 1
    }

    /// Returns the unpacked value.
    #[inline]
    pub const fn way(self) -> Way {
        let index = self.0 & Self::INDEX;
        match self.0 >> Self::TAG_SHIFT {
            0 => Way::Channel(index as usize),
            1 => Way::Host(index),
            2 => Way::Own,
            _ => Way::Dead(match index {
                i if i == Cause::NoEntry as u32 => Cause::NoEntry,
                i if i == Cause::AboveTop as u32 => Cause::AboveTop,
                i if i == Cause::NoSuchPort as u32 => Cause::NoSuchPort,
                i if i == Cause::Uncabled as u32 => Cause::Uncabled,
                _ => Cause::LinkDown,
            }),
        }
    }
}

/// A directed link between two switches (or a switch and itself).
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// The switch where the channel begins.
    pub src: u32,
    /// The switch where the channel ends.
    pub dst: u32,
    /// Egress port at `src`.
    pub out: u8,
    /// Ingress port at `dst`.
    pub into: u8,
}

/// A host port behind a switch.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// The port.
    pub at: PortRef,
    /// The switch that the host is attached to.
    pub switch: u32,
    /// The port of the switch.
    pub port: u8,
}

/// Owner of a LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A host port with a trained link to a switch.
    Host(u32),
    /// Port 0 of a switch.
    Switch(u32),
    /// An end port that packets cannot reach: its link is down, it has no switch, or it does not exist.
    Dead,
    /// No port owns the LID. Packets to it are lost, wherever entries lead them.
    Nobody,
}

/// The fabric of a subject, prepared for the passes.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The fabric, tables and settings to judge.
    pub subject: Subject<'a>,
    /// Number of switches.
    pub switches: usize,
    /// Port count of the largest switch, including port 0.
    pub stride: usize,
    exits: Vec<Exit>,
    /// Directed links between switches, by source, then port.
    pub channels: Vec<Channel>,
    /// Host ports behind switches, by switch, then port.
    pub hosts: Vec<Host>,
    /// Index of each switch's first host, and the total count at the end.
    pub hosts_from: Vec<u32>,
    /// Number of hosts of each switch.
    pub host_count: Vec<u32>,
    /// By switch: the connected part of the fabric that it belongs to.
    pub part: Vec<u32>,
    /// Number of parts with a switch.
    pub parts: usize,
    /// Host ports cabled to each other without a switch.
    pub back_to_back: Vec<(PortRef, PortRef)>,
    /// Data lanes of the link at each exit; 0: no link.
    lanes: Vec<u8>,
    /// LinearFDBTop of each switch.
    tops: Vec<Lid>,
    /// Index in `hosts`; `u32::MAX`: not a host.
    host_index: ByPort<u32>,
    /// Planned settings of each port.
    planned: ByPort<Option<&'a PortSettings>>,
}

impl<'a> Ground<'a> {
    /// Reads the fabric once.
    pub fn new(subject: Subject<'a>) -> Self {
        let fabric = subject.fabric;
        let switches = fabric.switches().len();
        let stride = fabric
            .switches()
            .iter()
            .map(|&n| usize::from(fabric.node(n).port_count()) + 1)
            .max()
            .unwrap_or(1);
        let mut ground = Self {
            subject,
            switches,
            stride,
            exits: vec![Exit::dead(Cause::NoSuchPort); switches * stride],
            channels: Vec::new(),
            hosts: Vec::new(),
            hosts_from: Vec::with_capacity(switches + 1),
            host_count: Vec::with_capacity(switches),
            part: Vec::new(),
            parts: 0,
            back_to_back: Vec::new(),
            lanes: vec![0; switches * stride],
            tops: tops(&subject),
            host_index: ByPort::filled(fabric, u32::MAX),
            planned: planned(&subject),
        };
        for (switch, &node) in fabric.switches().iter_enumerated() {
            ground.hosts_from.push(index(ground.hosts.len()));
            ground.add_switch(switch, node);
            let first = ground.hosts_from[switch.to_usize()];
            ground.host_count.push(index(ground.hosts.len()) - first);
        }
        ground.hosts_from.push(index(ground.hosts.len()));
        for (host, index) in ground.hosts.iter().zip(0..) {
            ground.host_index.set(host.at, index);
        }
        ground.find_back_to_back();
        ground.find_parts();
        ground
    }

    fn add_switch(&mut self, switch: SwitchIdx, node: NodeIdx) {
        let fabric = self.subject.fabric;
        let row = switch.to_usize() * self.stride;
        self.exits[row] = Exit::OWN;
        for (port, seen) in fabric.node(node).external_ports() {
            let at = PortRef { node, port };
            let Some(peer) = seen.peer else {
                self.exits[row + port.index()] = Exit::dead(Cause::Uncabled);
                continue;
            };
            self.exits[row + port.index()] = if !fabric.link_is_up(at) {
                Exit::dead(Cause::LinkDown)
            } else if let Some(next) = fabric.switch_index(peer.node) {
                self.channels.push(Channel {
                    src: switch.0,
                    dst: next.0,
                    out: port.get(),
                    into: peer.port.get(),
                });
                Exit::channel(index(self.channels.len() - 1))
            } else {
                self.hosts.push(Host {
                    at: peer,
                    switch: switch.0,
                    port: port.get(),
                });
                Exit::host(index(self.hosts.len() - 1))
            };
            self.lanes[row + port.index()] = self.lanes_of(at, peer);
        }
    }

    /// Returns the number of lanes of the egress port under the plan. Without a plan: the lanes that both ends support.
    /// A port without planned settings keeps its current lanes, which include at least VL0.
    fn lanes_of(&self, at: PortRef, peer: PortRef) -> u8 {
        use selvedge_fabric::PortCapability as Cap;
        if self.subject.ports.is_some() {
            return self.planned(at).map_or(1, |s| Cap::lanes_of_code(s.oper_vls));
        }
        let capable = |at| {
            let port = self.subject.fabric.port(at);
            port.map_or(1, |p| Cap::lanes_of_code(p.capability.vls).max(1))
        };
        capable(at).min(capable(peer))
    }

    fn find_back_to_back(&mut self) {
        let fabric = self.subject.fabric;
        self.back_to_back = fabric
            .links()
            .filter(|link| fabric.link_is_up(link.a))
            .filter(|link| fabric.switch_index(link.a.node).is_none() && fabric.switch_index(link.b.node).is_none())
            .map(|link| (link.a, link.b))
            .collect();
    }

    fn find_parts(&mut self) {
        const NONE: u32 = u32::MAX;
        let mut part = vec![NONE; self.switches];
        let mut next: Vec<Vec<u32>> = vec![Vec::new(); self.switches];
        for channel in &self.channels {
            next[channel.src as usize].push(channel.dst);
        }
        for first in 0..self.switches {
            if part[first] != NONE {
                continue;
            }
            let number = index(self.parts);
            self.parts += 1;
            part[first] = number;
            let mut open = vec![first];
            while let Some(at) = open.pop() {
                for &to in &next[at] {
                    if part[to as usize] == NONE {
                        part[to as usize] = number;
                        open.push(to as usize);
                    }
                }
            }
        }
        self.part = part;
    }

    /// Returns where a table entry (egress port) leads at a switch.
    #[inline]
    pub fn exit(&self, switch: usize, entry: u8) -> Exit {
        let port = usize::from(entry);
        if port < self.stride {
            self.exits[switch * self.stride + port]
        } else if entry == NO_PATH {
            Exit::dead(Cause::NoEntry)
        } else {
            Exit::dead(Cause::NoSuchPort)
        }
    }

    /// Returns the entry of a LID at a switch and where it leads. Respects LinearFDBTop.
    pub fn route(&self, switch: usize, lid: Lid) -> (u8, Exit) {
        let entry = self.subject.tables.get(SwitchIdx::from_usize(switch), lid);
        if lid > self.tops[switch] {
            return (entry, Exit::dead(Cause::AboveTop));
        }
        (entry, self.exit(switch, entry))
    }

    /// Returns LinearFDBTop of a switch.
    pub fn top(&self, switch: usize) -> Lid {
        self.tops[switch]
    }

    /// Returns the lowest LinearFDBTop of all switches.
    pub fn lowest_top(&self) -> Lid {
        self.tops.iter().copied().min().unwrap_or(Lid(u16::MAX))
    }

    /// Returns the number of data lanes of the link at an egress port.
    #[inline]
    pub fn lanes(&self, switch: usize, egress: u8) -> u8 {
        self.lanes[switch * self.stride + usize::from(egress)]
    }

    /// Returns the fewest data lanes of any link that is up.
    pub fn fewest_lanes(&self) -> u8 {
        let to_switches = self.channels.iter().map(|c| self.lanes(c.src as usize, c.out));
        let to_hosts = self.hosts.iter().map(|h| self.lanes(h.switch as usize, h.port));
        to_switches.chain(to_hosts).min().unwrap_or(15)
    }

    /// Returns the owner of a LID, given the port that the LID is assigned to.
    pub fn owner(&self, at: PortRef) -> Owner {
        if let Some(host) = self.host_index.get(at).filter(|&host| host != u32::MAX) {
            return Owner::Host(host);
        }
        match self.subject.fabric.switch_index(at.node) {
            Some(switch) if at.port == PortNum::MANAGEMENT => Owner::Switch(switch.0),
            _ => Owner::Dead,
        }
    }

    /// Returns the planned settings of a port, if there are any.
    #[inline]
    pub fn planned(&self, at: PortRef) -> Option<&'a PortSettings> {
        self.planned.get(at).flatten()
    }

    /// Returns the node index of a switch.
    pub fn node_of(&self, switch: u32) -> NodeIdx {
        self.subject.fabric.switches()[SwitchIdx(switch)]
    }

    /// Returns port 0 of a switch.
    pub fn port0(&self, switch: u32) -> PortRef {
        PortRef {
            node: self.node_of(switch),
            port: PortNum::MANAGEMENT,
        }
    }

    /// Returns the index range of a switch's hosts.
    pub fn hosts_of(&self, switch: usize) -> std::ops::Range<usize> {
        self.hosts_from[switch] as usize..self.hosts_from[switch + 1] as usize
    }
}

fn planned<'a>(subject: &Subject<'a>) -> ByPort<Option<&'a PortSettings>> {
    let mut planned = ByPort::filled(subject.fabric, None);
    for (&at, settings) in subject.ports.into_iter().flatten() {
        planned.set(at, Some(settings));
    }
    planned
}

fn tops(subject: &Subject<'_>) -> Vec<Lid> {
    let unlimited = Lid(u16::MAX);
    let top = |switch| match subject.switches {
        // A switch without planned settings is reported as a finding elsewhere.
        Some(settings) => settings.get(switch).map_or(unlimited, |s| Lid(s.linear_top)),
        None => unlimited,
    };
    subject.fabric.switches().indices().map(top).collect()
}

/// Converts an index. A fabric has fewer than 2^30 ports, because each needs memory.
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_keep_what_they_are_made_of() {
        let check = |exit: Exit, want: Way| assert_eq!(exit.way(), want);
        check(Exit::channel(7), Way::Channel(7));
        check(Exit::host(0), Way::Host(0));
        check(Exit::OWN, Way::Own);
        for cause in [
            Cause::NoEntry,
            Cause::AboveTop,
            Cause::NoSuchPort,
            Cause::Uncabled,
            Cause::LinkDown,
        ] {
            check(Exit::dead(cause), Way::Dead(cause));
        }
        assert_eq!(Exit::host(3).as_channel(), None);
        assert!(!Exit::OWN.needs_lane());
    }
}
