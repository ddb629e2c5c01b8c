//! The fabric as flat arrays: channels by number, each with its reverse, and the turns between them.

use selvedge_fabric::{Fabric, PortRef};
use selvedge_graph::Graph;
use selvedge_plan::Lids;
use selvedge_types::{Lid, LidRange, PortNum};

/// A channel that is none.
pub(super) const NONE: u32 = u32::MAX;

/// Weight of one unit of load on the fastest link; slower links weigh more, in proportion.
const UNIT: u32 = 16;

/// Channels between switches, numbered by the switch that they leave, then by port.
#[derive(Clone, Debug)]
pub(super) struct Net {
    /// Number of switches.
    pub switches: usize,
    /// By switch: the first channel that leaves it. The last element is the number of channels.
    pub first: Vec<u32>,
    /// By channel: the switch at its beginning.
    pub src: Vec<u32>,
    /// The switch at the end of each channel.
    pub dst: Vec<u32>,
    /// By channel: its egress port.
    pub egress: Vec<u8>,
    /// By channel: the channel in the other direction of the same cable.
    pub rev: Vec<u32>,
    /// By channel: the number of the first turn out of it. The last element is the number of turns: see [`Net::turn`].
    pub turn_first: Vec<u32>,
    /// Weight of a host pair on this channel: [`UNIT`] on the fastest link, more on slower ones.
    pub price: Vec<u32>,
    /// Host ports behind each switch: sources of traffic.
    pub hosts: Vec<u32>,
    /// By switch: the part of the fabric to which it belongs.
    pub part: Vec<u32>,
    /// Number of parts.
    pub parts: usize,
}

impl Net {
    /// Reads the live links between switches.
    pub fn new(fabric: &Fabric, graph: &Graph, goals: &[Goal]) -> Self {
        let switches = graph.switches();
        let number = |n: usize| u32::try_from(n).unwrap_or(NONE);
        let mut net = Self {
            switches,
            first: (0..=switches).map(|s| number(graph.channels().start(s))).collect(),
            src: Vec::new(),
            dst: Vec::new(),
            egress: Vec::new(),
            rev: Vec::new(),
            turn_first: vec![0],
            price: Vec::new(),
            hosts: vec![0; switches],
            part: (0..switches).map(|s| number(graph.component(s))).collect(),
            parts: graph.components(),
        };
        for s in 0..switches {
            for channel in graph.channels().get(s) {
                net.src.push(number(s));
                net.dst.push(channel.to);
                net.egress.push(channel.egress);
            }
        }
        for goal in goals.iter().filter(|goal| goal.egress != 0) {
            net.hosts[goal.at as usize] += 1;
        }
        net.read_links(fabric, graph);
        let mut turns = 0;
        for &to in &net.dst {
            turns += net.first[to as usize + 1] - net.first[to as usize];
            net.turn_first.push(turns);
        }
        net
    }

    fn read_links(&mut self, fabric: &Fabric, graph: &Graph) {
        let mut rates = Vec::with_capacity(self.dst.len());
        for (s, &node) in fabric.switches().iter_enumerated() {
            for channel in graph.channels().get(s.0 as usize) {
                // Channels were read from these very ports, so port, peer and the peer's channel exist.
                let port = PortNum::new(channel.egress).unwrap_or(PortNum::MANAGEMENT);
                let at = PortRef { node, port };
                rates.push(fabric.port(at).map_or(0, |p| p.link.rate.mbit_per_s()).max(1));
                let back = fabric.peer(at).map_or(0, |p| p.port.get());
                let to = channel.to as usize;
                let there = graph.channels().get(to);
                let found = there.iter().position(|c| c.egress == back).unwrap_or(0);
                self.rev.push(self.first[to] + u32::try_from(found).unwrap_or(0));
            }
        }
        let fastest = rates.iter().copied().max().unwrap_or(1);
        self.price = rates.iter().map(|&rate| price(rate, fastest)).collect();
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.dst.len()
    }

    /// Channels that leave a switch.
    pub fn out(&self, switch: usize) -> core::ops::Range<usize> {
        self.first[switch] as usize..self.first[switch + 1] as usize
    }

    /// Returns the turns out of a channel, in the order of the channels that they go to.
    pub fn turns(&self, from: usize) -> core::ops::Range<usize> {
        self.turn_first[from] as usize..self.turn_first[from + 1] as usize
    }

    /// Returns the number of the turn from channel `from` to channel `to`; `to` must begin at the switch where `from`
    /// ends.
    pub fn turn(&self, from: u32, to: u32) -> usize {
        let there = self.dst[from as usize] as usize;
        (self.turn_first[from as usize] + to - self.first[there]) as usize
    }

    /// Returns the number of hops from a switch to all others; `u32::MAX` without a path.
    pub fn distances(&self, from: usize, queue: &mut Vec<u32>) -> Vec<u32> {
        let mut hops = vec![NONE; self.switches];
        queue.clear();
        queue.push(u32::try_from(from).unwrap_or(NONE));
        hops[from] = 0;
        let mut head = 0;
        while let Some(&at) = queue.get(head) {
            head += 1;
            for c in self.out(at as usize) {
                let to = self.dst[c];
                if hops[to as usize] == NONE {
                    hops[to as usize] = hops[at as usize] + 1;
                    queue.push(to);
                }
            }
        }
        hops
    }
}

/// Returns the weight of a host pair on a link with `rate`, in Mbit/s, in inverse proportion: a link of half the rate
/// of the `fastest` has twice the weight. At most 64 times.
fn price(rate: u32, fastest: u32) -> u32 {
    let price = u64::from(UNIT) * u64::from(fastest) / u64::from(rate.max(1));
    u32::try_from(price).unwrap_or(u32::MAX).clamp(UNIT, 64 * UNIT)
}

/// An end port that is routed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// LIDs of the end port.
    pub lids: LidRange,
    /// Switch of the end port.
    pub at: u32,
    /// Egress at this switch; 0 for the switch itself.
    pub egress: u8,
}

/// A LID for which one tree of next hops is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand {
    /// Index of the goal.
    pub goal: u32,
    /// Offset of the LID among the goal's LIDs.
    pub offset: u16,
    /// The lane on which the LID is routed.
    pub lane: u8,
    /// The errand of the same goal with the offset before; [`NONE`] if this is the first.
    pub before: u32,
}

impl Errand {
    /// Returns the LID at the root of the tree.
    pub fn lid(&self, goals: &[Goal]) -> Lid {
        Lid(goals[self.goal as usize].lids.base.0 + self.offset)
    }
}

/// Returns all errands (LIDs for which a tree is made) in the order in which they are routed: first LIDs before second
/// ones, hosts before switches. Among hosts, the first host of every switch comes before the second of any, so that
/// load spreads.
///
/// `lane` is the lane of each switch as a destination. Further LIDs of a port use the next lanes. The orders of these
/// lanes have other tops, so the paths differ.
pub(super) fn errands(goals: &[Goal], lane: &[u8], lanes: u8) -> Vec<Errand> {
    let mut rank = vec![0_u32; goals.len()];
    let mut seen = std::collections::BTreeMap::new();
    for (goal, rank) in goals.iter().zip(&mut rank) {
        let next = seen.entry((goal.egress == 0, goal.at)).or_insert(0_u32);
        *rank = *next;
        *next += 1;
    }
    let mut all: Vec<(u16, bool, u32, u32, usize)> = Vec::new();
    for (i, goal) in goals.iter().enumerate() {
        let of_switch = goal.egress == 0;
        all.extend((0..goal.lids.lmc.lids()).map(|offset| (offset, of_switch, rank[i], goal.at, i)));
    }
    all.sort_unstable();
    let mut last = vec![NONE; goals.len()];
    let numbered = all.into_iter().enumerate();
    numbered
        .map(|(number, (offset, _, _, _, goal))| {
            let before = core::mem::replace(&mut last[goal], u32::try_from(number).unwrap_or(NONE));
            let lane = lane_of(lane[goals[goal].at as usize], offset, lanes);
            let goal = u32::try_from(goal).unwrap_or(NONE);
            Errand {
                goal,
                offset,
                lane,
                before,
            }
        })
        .collect()
}

/// Returns the lane of one of the LIDs of a port, from the lane of the first.
pub(super) fn lane_of(first: u8, offset: u16, lanes: u8) -> u8 {
    u8::try_from((u16::from(first) + offset) % u16::from(lanes)).unwrap_or(0)
}

/// Returns the smallest number of data lanes of any live link that ends at a switch, 1–15, as far as both ends support
/// them.
pub(super) fn lanes_of(fabric: &Fabric, lids: &Lids) -> u8 {
    use selvedge_fabric::PortCapability;
    if lids.is_empty() {
        return 15;
    }
    let links = fabric.links().filter(|link| fabric.link_is_up(link.a));
    let ends = links.flat_map(|link| [link.a, link.b]);
    let lanes = ends.filter_map(|end| Some(PortCapability::lanes_of_code(fabric.port(end)?.capability.vls)));
    lanes.min().unwrap_or(15).clamp(1, 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_links_weigh_more_in_proportion() {
        let check = |rate, fastest, want| assert_eq!(price(rate, fastest), want, "{rate} of {fastest}");
        check(200_000, 200_000, UNIT);
        // Between whole multiples as well: FDR beside EDR.
        check(54_545, 100_000, UNIT * 100_000 / 54_545);
        check(100_000, 200_000, 2 * UNIT);
        check(2_500, 400_000, 64 * UNIT);
        check(0, 0, UNIT);
    }
}
