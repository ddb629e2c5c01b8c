//! The switches and cables that multicast trees can use.

use std::collections::VecDeque;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_types::{Idx, Lid, Mtu, PortNum, PortState};

/// One direction of a cable between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arc {
    pub from: u32,
    pub port: PortNum,
    pub to: u32,
    pub to_port: PortNum,
    /// Number of the cable.
    pub cable: u32,
    pub mtu: Mtu,
}

impl Arc {
    /// Returns the other direction of the link.
    pub const fn back(self) -> Self {
        Self {
            from: self.to,
            port: self.to_port,
            to: self.from,
            to_port: self.port,
            ..self
        }
    }
}

/// Switches with multicast tables, and the ACTIVE cables between them.
#[derive(Clone, Debug)]
pub struct Net {
    arcs: Vec<Vec<Arc>>,
    cables: usize,
    /// By switch: the number of multicast LIDs for which it has room.
    room: Vec<u16>,
}

impl Net {
    pub fn new(fabric: &Fabric) -> Self {
        let count = fabric.switches().len();
        let room = (fabric.switches().indices())
            .map(|switch| fabric.switch(switch).switch.map_or(0, |s| s.mcast_cap))
            .collect();
        let mut net = Self {
            arcs: vec![Vec::new(); count],
            cables: 0,
            room,
        };
        let is_active = |at: PortRef| fabric.port(at).is_some_and(|p| p.link.state == PortState::Active);
        for link in fabric.links() {
            let ends = fabric.switch_index(link.a.node).zip(fabric.switch_index(link.b.node));
            let (Some((a, b)), true) = (ends, is_active(link.a) && is_active(link.b)) else {
                continue;
            };
            let mtu = |at| fabric.port(at).map_or(Mtu::B256, |p| p.settings.mtu);
            // A cable from a switch to itself is useless.
            if a == b {
                continue;
            }
            let arc = Arc {
                from: a.0,
                port: link.a.port,
                to: b.0,
                to_port: link.b.port,
                cable: net.cables as u32,
                mtu: mtu(link.a).min(mtu(link.b)),
            };
            net.arcs[a.to_usize()].push(arc);
            net.arcs[b.to_usize()].push(arc.back());
            net.cables += 1;
        }
        net
    }

    pub fn switches(&self) -> usize {
        self.arcs.len()
    }

    pub const fn cables(&self) -> usize {
        self.cables
    }

    pub fn arcs(&self, switch: u32) -> &[Arc] {
        &self.arcs[switch as usize]
    }

    /// True if a switch has room for a multicast LID.
    pub fn can(&self, switch: u32, mlid: Lid) -> bool {
        mlid.0 - Lid::MULTICAST_MIN.0 < self.room[switch as usize]
    }

    /// Returns the number of hops from a switch to every other; `u16::MAX` without a path.
    pub fn hops_from(&self, from: u32) -> Vec<u16> {
        let mut hops = vec![u16::MAX; self.switches()];
        hops[from as usize] = 0;
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for arc in self.arcs(at) {
                if hops[arc.to as usize] == u16::MAX {
                    hops[arc.to as usize] = hops[at as usize].saturating_add(1);
                    queue.push_back(arc.to);
                }
            }
        }
        hops
    }

    /// Returns the switches with the shortest path to the farthest switch with a host, in ascending order. The searches
    /// from 64 switches run at once, one bit of a word for each, so this takes a few passes over all links.
    pub fn centre(&self, fabric: &Fabric) -> Vec<u32> {
        let count = self.switches();
        let has_host = |switch: &usize| {
            let node = fabric.switches()[SwitchIdx::from_usize(*switch)];
            let mut ports = fabric.node(node).external_ports();
            ports.any(|(port, p)| {
                let peer = p.peer.filter(|_| fabric.link_is_up(PortRef { node, port }));
                peer.is_some_and(|peer| fabric.switch_index(peer.node).is_none())
            })
        };
        let words = count.div_ceil(64);
        let mut goal = vec![0_u64; words];
        (0..count).filter(has_host).for_each(|s| goal[s / 64] |= 1 << (s % 64));
        let mut reach = vec![vec![0_u64; words]; count];
        (0..count).for_each(|s| reach[s][s / 64] |= 1 << (s % 64));
        let reaches = |reach: &[u64]| goal.iter().zip(reach).all(|(goal, reach)| goal & !reach == 0);
        // At most as many rounds as there are switches: the longest path is a row of them.
        for _ in 0..count {
            let done: Vec<u32> = (0..count as u32).filter(|&s| reaches(&reach[s as usize])).collect();
            if !done.is_empty() {
                return done;
            }
            let mut next = reach.clone();
            for (own, arcs) in next.iter_mut().zip(&self.arcs) {
                for arc in arcs {
                    own.iter_mut()
                        .zip(&reach[arc.to as usize])
                        .for_each(|(own, far)| *own |= far);
                }
            }
            if next == reach {
                break;
            }
            reach = next;
        }
        // In parts: any switch is as good as another.
        (0..count as u32).collect()
    }
}
