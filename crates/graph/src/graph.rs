//! The switches of a fabric and the channels between them.
//!
//! A switch is an index: the number inside its `SwitchIdx`, in order of ascending GUID. A channel is an index among all
//! channels, which are sorted by the switch that they leave, then by port.

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_types::Guid;

use crate::{Lists, number};

/// One direction of a link between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The switch at the end of the channel.
    pub to: u32,
    /// The port by which packets leave the first switch.
    pub egress: u8,
    /// The port by which packets enter the other switch.
    pub ingress: u8,
}

/// The switches of a fabric and the channels between them: only links that are up at both ends.
#[derive(Clone, Debug)]
pub struct Graph {
    channels: Lists<Channel>,
    neighbours: Lists<u32>,
    system: Vec<Guid>,
    component: Vec<u32>,
    components: usize,
}

impl Graph {
    /// Reads the links of a fabric that are up at both ends. A cable from a switch to itself does not count.
    #[must_use]
    pub fn new(fabric: &Fabric) -> Self {
        Self::over(fabric, |at, peer| at.node != peer.node && fabric.link_is_up(at))
    }

    /// Reads the cables between switches. The direction that leaves a port becomes a channel if `is_used` returns true
    /// for this port and its peer.
    #[must_use]
    pub fn over(fabric: &Fabric, is_used: impl Fn(PortRef, PortRef) -> bool) -> Self {
        let mut channels = Lists::default();
        let mut neighbours = Lists::default();
        for &node in fabric.switches().iter() {
            let out = fabric.node(node).external_ports().filter_map(|(port, seen)| {
                let (at, peer) = (PortRef { node, port }, seen.peer?);
                let SwitchIdx(to) = fabric.switch_index(peer.node)?;
                is_used(at, peer).then_some(Channel {
                    to,
                    egress: port.get(),
                    ingress: peer.port.get(),
                })
            });
            let out: Vec<Channel> = out.collect();
            let mut near: Vec<u32> = out.iter().map(|c| c.to).collect();
            near.sort_unstable();
            near.dedup();
            channels.push(out);
            neighbours.push(near);
        }
        let system = fabric.switches().iter().map(|&n| fabric.node(n).system_guid).collect();
        let (component, components) = label_components(&neighbours, fabric.switches().len());
        Self {
            channels,
            neighbours,
            system,
            component,
            components,
        }
    }

    /// Number of switches.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.system.len()
    }

    /// Channels that leave a switch, by ascending port.
    #[must_use]
    pub fn channels(&self) -> &Lists<Channel> {
        &self.channels
    }

    /// Returns the reverse direction of every channel's link, as an index among all channels. A channel without a
    /// reverse one, which a fabric cannot have, would have its own index.
    #[must_use]
    pub fn reverses(&self) -> Vec<u32> {
        let mut reverses = Vec::new();
        for from in 0..self.switches() {
            for (i, channel) in self.channels.range(from).zip(self.channels.get(from)) {
                let there = self.channels.get(channel.to as usize);
                let found = there.binary_search_by_key(&channel.ingress, |c| c.egress);
                let back = found.map_or(i, |k| self.channels.start(channel.to as usize) + k);
                reverses.push(number(back));
            }
        }
        reverses
    }

    /// Returns the neighbours of a switch, ascending, each once however many links there are.
    #[must_use]
    pub fn neighbours(&self, switch: usize) -> &[u32] {
        self.neighbours.get(switch)
    }

    /// Returns the switch that each channel leaves.
    #[must_use]
    pub fn sources(&self) -> Vec<u32> {
        let of_switch = |s: usize| core::iter::repeat_n(number(s), self.channels.get(s).len());
        (0..self.switches()).flat_map(of_switch).collect()
    }

    /// Returns the channels that enter each switch, ascending.
    #[must_use]
    pub fn entering(&self) -> Lists<u32> {
        Lists::grouped(self.switches(), self.channels.items().iter().map(|channel| channel.to))
    }

    /// Returns the SystemImageGUID of a switch.
    #[must_use]
    pub fn system(&self, switch: usize) -> Guid {
        self.system[switch]
    }

    /// Returns the part of the fabric to which a switch belongs. Parts are numbered in the order of their lowest
    /// switches.
    #[must_use]
    pub fn component(&self, switch: usize) -> usize {
        self.component[switch] as usize
    }

    /// Number of parts that no link joins.
    #[must_use]
    pub fn components(&self) -> usize {
        self.components
    }
}

fn label_components(neighbours: &Lists<u32>, switches: usize) -> (Vec<u32>, usize) {
    let mut label = vec![u32::MAX; switches];
    let mut count = 0;
    let mut queue = Vec::new();
    for start in 0..switches {
        if label[start] != u32::MAX {
            continue;
        }
        label[start] = count;
        queue.push(start);
        while let Some(at) = queue.pop() {
            for &next in neighbours.get(at) {
                if label[next as usize] == u32::MAX {
                    label[next as usize] = count;
                    queue.push(next as usize);
                }
            }
        }
        count += 1;
    }
    (label, count as usize)
}
