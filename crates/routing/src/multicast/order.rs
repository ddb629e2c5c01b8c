//! Channel dependencies between switches on one lane. They stay without a cycle while trees are made.
//!
//! A tree makes a dependency of every pair of its links at a switch, in both directions: a packet that arrives by one
//! link is copied to the other, and holds the channel by which it arrived until the copy is sent. Turns of routes are
//! in the order from the start.

use selvedge_fabric::SwitchIdx;
use selvedge_graph::{Dag, Insertion, NONE};
use selvedge_types::{Idx, PortNum};

use super::net::{Arc, Net};

/// A dependency of routes: packets leave a switch by one port, and the next switch by another.
pub type RouteTurn = ((SwitchIdx, PortNum), PortNum);

/// Number of cells of a switch: one for each possible port.
const CELLS: usize = 256;

/// Dependencies of one lane, without a cycle.
#[derive(Clone, Debug)]
pub struct Order {
    /// By cell (switch, port): the number of the channel that begins there; [`NONE`] if there is none.
    channel: Vec<u32>,
    waits: Dag,
}

const fn cell(switch: u32, port: PortNum) -> usize {
    switch as usize * CELLS + port.get() as usize
}

impl Order {
    /// The dependencies of routes; `None` if they have a cycle. Links that carry no packets do not count.
    pub fn new(net: &Net, turns: &[RouteTurn]) -> Option<Self> {
        let (mut channel, mut to) = (vec![NONE; net.switches() * CELLS], Vec::new());
        for switch in 0..net.switches() as u32 {
            for arc in net.arcs(switch) {
                channel[cell(switch, arc.port)] = to.len() as u32;
                to.push(arc.to);
            }
        }
        let known = turns.iter().filter(|turn| turn.0.0.to_usize() < net.switches());
        let edges = known.filter_map(|&((switch, port), on)| {
            let from = channel[cell(switch.0, port)];
            let there = channel[cell(*to.get(from as usize)?, on)];
            (there != NONE).then_some((from, there))
        });
        let waits = Dag::of(to.len(), edges)?;
        Some(Self { channel, waits })
    }

    /// Adds the turns between `link` and other links at one of its ends, in both directions. All links are directed
    /// away from that end. Returns false if one of the turns closes a cycle; then nothing has changed.
    pub fn join(&mut self, link: Arc, others: &[Arc]) -> bool {
        let mut added = Vec::new();
        for other in others.iter().filter(|other| other.cable != link.cable) {
            for (from, on) in [(link, other), (*other, &link)] {
                let came = self.channel[cell(from.to, from.to_port)];
                let goes = self.channel[cell(on.from, on.port)];
                match self.waits.add(came, goes) {
                    Insertion::New => added.push((came, goes)),
                    Insertion::Known => {}
                    Insertion::Closes => {
                        added.into_iter().for_each(|(a, b)| self.waits.remove(a, b));
                        return false;
                    }
                }
            }
        }
        true
    }
}

/// A tree that grows.
#[derive(Clone, Debug)]
pub struct Trunk {
    /// By switch: the links of the trunk at this switch, in the direction away from it.
    links: Vec<Vec<Arc>>,
    /// By switch: the link by which it was reached.
    pub by: Vec<Option<Arc>>,
    /// Switches of the trunk, in the order in which they were reached.
    pub switches: Vec<u32>,
}

/// The part of the fabric in which a tree may grow.
pub struct Ground<'a> {
    /// The links.
    pub net: &'a Net,
    /// True if a link may be used. The link is given in the direction of the switch that it would add to the tree.
    pub can: &'a dyn Fn(&Arc) -> bool,
    /// True for cables that are preferred.
    pub is_first: &'a dyn Fn(u32) -> bool,
    /// 0: cables that are not preferred are tried by number. Each other value gives another order.
    pub shuffle: u32,
}

impl Ground<'_> {
    /// Returns the rank of a cable: the lowest is tried first.
    fn rank(&self, cable: u32) -> (u32, u32) {
        match self.shuffle {
            0 => (0, cable),
            shuffle => {
                // Any numbers do that differ from one time to the next.
                let mixed = (cable ^ shuffle.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
                (mixed ^ mixed >> 15, cable)
            }
        }
    }
}

impl Trunk {
    /// Grows from a root as far as no cycle results; its turns are in the order then.
    pub fn grow(order: &mut Order, ground: &Ground<'_>, root: u32) -> Self {
        let count = ground.net.switches();
        let mut trunk = Self {
            links: vec![Vec::new(); count],
            by: vec![None; count],
            switches: vec![root],
        };
        let (mut head, mut first) = (0, 0);
        loop {
            // What comes first, from wherever the tree has come to; then one switch's other links.
            while let Some(&at) = trunk.switches.get(first) {
                first += 1;
                trunk.reach(order, ground, at, true);
            }
            let Some(&at) = trunk.switches.get(head) else { break };
            head += 1;
            trunk.reach(order, ground, at, false);
        }
        trunk
    }

    fn reach(&mut self, order: &mut Order, ground: &Ground<'_>, at: u32, only_first: bool) {
        let arcs = ground.net.arcs(at).iter().filter(|arc| (ground.can)(arc));
        let mut arcs: Vec<Arc> = arcs
            .filter(|arc| !only_first || (ground.is_first)(arc.cable))
            .copied()
            .collect();
        arcs.sort_by_key(|arc| ground.rank(arc.cable));
        for arc in arcs {
            let is_new = self.by[arc.to as usize].is_none() && arc.to != self.switches[0];
            if is_new && order.join(arc, &self.links[at as usize]) {
                self.links[at as usize].push(arc);
                self.links[arc.to as usize].push(arc.back());
                self.by[arc.to as usize] = Some(arc);
                self.switches.push(arc.to);
            }
        }
    }
}

#[cfg(test)]
impl Order {
    /// True if every dependency leads to a later place in the order.
    pub fn is_in_order(&self) -> bool {
        self.waits.is_in_order()
    }
}
