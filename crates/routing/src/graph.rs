//! The switches and their live channels as arrays.
//!
//! Inside this crate a switch is its position (`u32`, the number inside its `SwitchIdx`): ascending GUID.

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_types::Guid;

/// One direction of a live link between two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    /// The switch it leads to.
    pub to: u32,
    /// The port it leaves by.
    pub egress: u8,
    /// The port it arrives at.
    pub ingress: u8,
}

/// Lists of varying length in one array: `lists[i] = items[first[i] .. first[i + 1]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lists<T> {
    first: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self {
            first: vec![0],
            items: Vec::new(),
        }
    }
}

impl<T> Lists<T> {
    /// Appends a list.
    pub fn push(&mut self, list: impl IntoIterator<Item = T>) {
        self.items.extend(list);
        // A fabric has at most 49,151 switches of 254 ports.
        self.first.push(u32::try_from(self.items.len()).unwrap_or(u32::MAX));
    }

    /// Number of lists.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// Where list `i` starts in [`Self::items`].
    pub fn start(&self, i: usize) -> usize {
        self.first[i] as usize
    }

    /// Where list `i` stands in [`Self::items`].
    pub fn range(&self, i: usize) -> core::ops::Range<usize> {
        self.start(i)..self.start(i + 1)
    }

    /// One item, by its place among all.
    pub fn item(&self, place: usize) -> &T {
        &self.items[place]
    }

    /// All items, to be changed.
    pub fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// List `i`.
    pub fn get(&self, i: usize) -> &[T] {
        &self.items[self.range(i)]
    }
}

/// The switches of a fabric and the channels between them: only links that are up at both ends.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    channels: Lists<Channel>,
    neighbours: Lists<u32>,
    system: Vec<Guid>,
    component: Vec<u32>,
    components: usize,
}

impl Graph {
    /// Reads the live links of a fabric. A cable from a switch to itself is none.
    pub fn new(fabric: &Fabric) -> Self {
        let mut channels = Lists::default();
        let mut neighbours = Lists::default();
        for (from, &node) in fabric.switches().iter_enumerated() {
            let out: Vec<Channel> = fabric
                .node(node)
                .external_ports()
                .filter(|&(port, _)| fabric.link_is_up(PortRef { node, port }))
                .filter_map(|(port, p)| {
                    let SwitchIdx(to) = fabric.switch_index(p.peer?.node)?;
                    let (egress, ingress) = (port.get(), p.peer?.port.get());
                    (to != from.0).then_some(Channel { to, egress, ingress })
                })
                .collect();
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
    pub fn switches(&self) -> usize {
        self.system.len()
    }

    /// Channels that leave a switch, by ascending port.
    pub fn channels(&self) -> &Lists<Channel> {
        &self.channels
    }

    /// The other direction of every channel's link, as a place in all channels. A link has two directions; a channel
    /// without its other one, which a fabric cannot have, would be its own.
    pub fn reverses(&self) -> Vec<u32> {
        let mut reverses = Vec::new();
        for from in 0..self.switches() {
            for (i, channel) in self.channels.range(from).zip(self.channels.get(from)) {
                let there = self.channels.get(channel.to as usize);
                let found = there.binary_search_by_key(&channel.ingress, |c| c.egress);
                let back = found.map_or(i, |k| self.channels.start(channel.to as usize) + k);
                reverses.push(u32::try_from(back).unwrap_or(u32::MAX));
            }
        }
        reverses
    }

    /// Switches beside a switch, ascending, each once however many links there are.
    pub fn neighbours(&self, switch: usize) -> &[u32] {
        self.neighbours.get(switch)
    }

    /// SystemImageGUID of a switch.
    pub fn system(&self, switch: usize) -> Guid {
        self.system[switch]
    }

    /// The part of the fabric a switch belongs to: parts are numbered by their lowest switch.
    pub fn component(&self, switch: usize) -> usize {
        self.component[switch] as usize
    }

    /// Number of parts that no link joins.
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
