//! Where every switch port leads, and how many pairs cross every link.

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Lids};
use selvedge_types::{Idx, Lid, LidRange, PortNum};

use crate::routes::Subnet;

/// Number of hops after which a path counts as a loop, as in the subnet administrator.
const HOPS_MAX: usize = 1_000;
/// Stands for no cable, no channel, no end port.
const NONE: u32 = u32::MAX;

/// What is at the other end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// Nothing that forwards or receives: no cable, or a link that is down.
    Nowhere,
    /// A switch, by its index.
    Switch(u32),
    /// An end port, by its index.
    End(u32),
}

/// A direction of a cable, by the switch port at which it begins.
#[derive(Clone, Copy, Debug)]
struct Channel {
    to: To,
    cable: u32,
}

/// An end port with LIDs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) at: PortRef,
    pub(crate) lids: LidRange,
    /// What is at the other end of its cable; the switch itself for port 0 of a switch.
    pub(crate) to: To,
    /// Cable of the port; [`NONE`] for port 0 of a switch.
    pub(crate) cable: u32,
}

/// A subnet as arrays: where every switch port leads, and the pairs that cross it.
///
/// Made in one pass over all ports and one over all forwarding entries, about 5 ns each; takes 20 bytes for each switch
/// port. A pair is a connected host port and a LID of another one.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Index of the first channel of each switch, then the number of channels.
    first: Vec<u32>,
    channels: Vec<Channel>,
    /// By port.
    ends: Vec<End>,
    /// The first end of each cable.
    cables: Vec<PortRef>,
    /// Pairs on each channel.
    loads: Vec<u64>,
}

/// One step of a path.
pub(crate) enum Step {
    /// A cable, with the pairs that cross it in this direction; 0 on the cable of the source.
    Cable(u32, u64),
    /// A switch.
    Switch(u32),
}

impl Index {
    /// Indexes a subnet.
    #[must_use]
    pub fn new(subnet: Subnet<'_>) -> Self {
        let mut index = Self::default();
        index.add_ends(subnet.lids);
        index.add_channels(subnet.fabric);
        index.add_loads(subnet);
        index
    }

    fn add_ends(&mut self, lids: &Lids) {
        let end = |(at, lids)| End {
            at,
            lids,
            to: To::Nowhere,
            cable: NONE,
        };
        // `Lids` is ordered by port.
        self.ends = lids.iter().map(end).collect();
    }

    fn add_channels(&mut self, fabric: &Fabric) {
        let mut cables: Vec<(PortRef, u32)> = Vec::new();
        for link in fabric.links() {
            let cable = number(self.cables.len());
            self.cables.push(link.a);
            cables.extend([(link.a, cable), (link.b, cable)]);
        }
        cables.sort_unstable();
        let cable_of = |at: PortRef| {
            let place = cables.binary_search_by_key(&at, |&(at, _)| at);
            place.map_or(NONE, |place| cables[place].1)
        };
        let beyond = |ends: &Self, at: PortRef| {
            let Some(peer) = fabric.peer(at).filter(|_| fabric.link_is_up(at)) else {
                return To::Nowhere;
            };
            match fabric.switch_index(peer.node) {
                Some(switch) => To::Switch(switch.0),
                None => ends.end_at(peer).map_or(To::Nowhere, To::End),
            }
        };
        for &node in fabric.switches().iter() {
            self.first.push(number(self.channels.len()));
            for num in 0..=fabric.node(node).port_count() {
                let at = PortNum::new(num).map(|port| PortRef { node, port });
                let channel = at.map_or((To::Nowhere, NONE), |at| (beyond(self, at), cable_of(at)));
                let (to, cable) = channel;
                self.channels.push(Channel { to, cable });
            }
        }
        self.first.push(number(self.channels.len()));
        for place in 0..self.ends.len() {
            let at = self.ends[place].at;
            let (to, cable) = match fabric.switch_index(at.node) {
                Some(switch) => (To::Switch(switch.0), NONE),
                None => (beyond(self, at), cable_of(at)),
            };
            (self.ends[place].to, self.ends[place].cable) = (to, cable);
        }
    }

    /// Counts the pairs on each channel. The routes to one LID form a forest, so one pass over the switches from the
    /// leaves of that forest adds up all sources; switches on a loop are left out.
    fn add_loads(&mut self, subnet: Subnet<'_>) {
        let switches = subnet.fabric.switches().len().min(subnet.tables.switches());
        let mut sources = vec![0_u64; switches];
        for end in self.ends.iter().filter(|end| end.cable != NONE) {
            if let To::Switch(home) = end.to
                && let Some(hosts) = sources.get_mut(home as usize)
            {
                *hosts += 1;
            }
        }
        let mut work = Work::new(switches);
        let mut loads = vec![0_u64; self.channels.len()];
        for block in 0..subnet.tables.blocks() {
            let tile = subnet.tables.tile(block);
            for within in 0..BLOCK_LIDS {
                let lid = u16::try_from(block * BLOCK_LIDS + within).map(Lid);
                let Some(end) = lid.ok().and_then(|lid| self.end_of(subnet, lid)) else {
                    continue;
                };
                let end = &self.ends[end as usize];
                if end.cable == NONE {
                    continue;
                }
                work.begin(&sources, end);
                for switch in 0..switches {
                    let channel = self.channel(number(switch), tile[switch][within]);
                    work.add(switch, channel, channel.map(|at| self.channels[at as usize].to));
                }
                work.flow(&mut loads);
            }
        }
        self.loads = loads;
    }

    /// Returns the index of the channel from a port of a switch.
    fn channel(&self, switch: u32, egress: u8) -> Option<u32> {
        let (&first, &next) = (self.first.get(switch as usize)?, self.first.get(switch as usize + 1)?);
        let channel = first + u32::from(egress);
        (channel < next).then_some(channel)
    }

    fn end_of(&self, subnet: Subnet<'_>, lid: Lid) -> Option<u32> {
        self.end_at(subnet.lids.owner(lid)?)
    }

    /// Returns the index of an end port.
    pub(crate) fn end_at(&self, at: PortRef) -> Option<u32> {
        let place = self.ends.binary_search_by_key(&at, |end| end.at).ok()?;
        Some(number(place))
    }

    pub(crate) fn end(&self, place: u32) -> Option<&End> {
        self.ends.get(place as usize)
    }

    /// Returns the ports of a channel adapter that have LIDs and a link that is up.
    pub(crate) fn connected_ports(&self, node: NodeIdx) -> Vec<PortRef> {
        let from = self.ends.partition_point(|end| end.at.node < node);
        let own = self.ends[from..].iter().take_while(|end| end.at.node == node);
        own.filter(|end| end.to != To::Nowhere).map(|end| end.at).collect()
    }

    /// Returns the first end of a cable.
    pub(crate) fn cable(&self, cable: u32) -> PortRef {
        self.cables[cable as usize]
    }

    /// Follows the tables from one end port to a LID of another. Returns false if they do not lead there.
    pub(crate) fn walk(&self, subnet: Subnet<'_>, ends: (u32, u32), dlid: Lid, mut step: impl FnMut(Step)) -> bool {
        let (Some(from), Some(to)) = (self.end(ends.0), self.end(ends.1)) else {
            return false;
        };
        if from.cable != NONE {
            step(Step::Cable(from.cable, 0));
        }
        let mut at = from.to;
        for _ in 0..HOPS_MAX {
            let switch = match at {
                To::Nowhere => return false,
                To::End(end) => return end == ends.1,
                To::Switch(switch) => switch,
            };
            step(Step::Switch(switch));
            if to.cable == NONE && to.to == at {
                return true;
            }
            let Some(channel) = self.channel(switch, subnet.tables.get(SwitchIdx(switch), dlid)) else {
                return false;
            };
            let Channel { to: next, cable } = self.channels[channel as usize];
            if cable != NONE {
                step(Step::Cable(cable, self.loads[channel as usize]));
            }
            at = next;
        }
        false
    }

    /// Returns the memory of the index in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.first)
            + size_of_val(&*self.channels)
            + size_of_val(&*self.ends)
            + size_of_val(&*self.cables)
            + size_of_val(&*self.loads)
    }
}

/// The routes to one LID while their load is counted.
struct Work {
    /// Pairs that leave each switch.
    pairs: Vec<u64>,
    /// Channel by which each switch forwards; [`NONE`] if none.
    by: Vec<u32>,
    /// Next switch of each switch; [`NONE`] if none.
    next: Vec<u32>,
    /// Number of switches that forward to each switch and are not counted yet.
    open: Vec<u32>,
    ready: Vec<u32>,
}

impl Work {
    fn new(switches: usize) -> Self {
        Self {
            pairs: vec![0; switches],
            by: vec![NONE; switches],
            next: vec![NONE; switches],
            open: vec![0; switches],
            ready: Vec::with_capacity(switches),
        }
    }

    /// Begins with the sources of all switches, without the destination itself.
    fn begin(&mut self, sources: &[u64], destination: &End) {
        self.pairs.copy_from_slice(sources);
        self.open.fill(0);
        if let To::Switch(home) = destination.to
            && let Some(pairs) = self.pairs.get_mut(home as usize)
        {
            *pairs = pairs.saturating_sub(1);
        }
    }

    fn add(&mut self, switch: usize, channel: Option<u32>, to: Option<To>) {
        self.by[switch] = channel.filter(|_| to != Some(To::Nowhere)).unwrap_or(NONE);
        self.next[switch] = match to {
            Some(To::Switch(next)) if (next as usize) < self.open.len() => {
                self.open[next as usize] += 1;
                next
            }
            _ => NONE,
        };
    }

    fn flow(&mut self, loads: &mut [u64]) {
        self.ready.clear();
        self.ready
            .extend((0..number(self.open.len())).filter(|&switch| self.open[switch as usize] == 0));
        while let Some(switch) = self.ready.pop() {
            let switch = switch as usize;
            let (pairs, by, next) = (self.pairs[switch], self.by[switch], self.next[switch]);
            if by != NONE {
                loads[by as usize] += pairs;
            }
            if next != NONE {
                self.pairs[next as usize] += pairs;
                self.open[next as usize] -= 1;
                if self.open[next as usize] == 0 {
                    self.ready.push(next);
                }
            }
        }
    }
}

/// Converts an index. A fabric has fewer than 2^32 ports, because each needs memory.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}

/// Returns the switch of an index.
pub(crate) fn switch(index: u32) -> SwitchIdx {
    SwitchIdx::from_usize(index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lab;

    /// Counts pairs on every cable by walking each of them.
    fn walked(lab: &Lab, index: &Index) -> Vec<u64> {
        let mut pairs = vec![0; index.channels.len()];
        let hosts: Vec<u32> = (0..number(index.ends.len()))
            .filter(|&end| index.ends[end as usize].cable != NONE)
            .collect();
        for &from in &hosts {
            for &to in hosts.iter().filter(|&&to| to != from) {
                for dlid in index.ends[to as usize].lids.iter() {
                    let mut at = index.ends[from as usize].to;
                    while let To::Switch(switch) = at {
                        let egress = lab.tables.get(SwitchIdx(switch), dlid);
                        let channel = index.channel(switch, egress).unwrap();
                        pairs[channel as usize] += 1;
                        at = index.channels[channel as usize].to;
                    }
                }
            }
        }
        pairs
    }

    #[test]
    fn loads_are_those_of_all_pairs_walked() {
        for (spec, lmc) in [
            ("karytree:k=3,n=2", 1),
            ("torus:3x3,hosts=2", 0),
            ("karytree:k=2,n=3,ports-per-host=2,remove-links=1", 0),
        ] {
            let lab = Lab::new(spec, lmc);
            let index = Index::new(lab.subnet());
            assert_eq!(index.loads, walked(&lab, &index), "{spec}");
            assert!(index.loads.iter().any(|&pairs| pairs > 1), "{spec}");
        }
    }

    #[test]
    fn a_loop_in_the_tables_ends() {
        let mut lab = Lab::new("ring:switches=4,hosts=1", 0);
        let hosts = lab.hosts();
        let (from, to) = (hosts.all()[0].hcas[0][0], hosts.all()[2].hcas[0][0]);
        let dlid = lab.lids.base(to).unwrap();
        // Every switch forwards in the same direction, the destination's own included.
        let index = Index::new(lab.subnet());
        for switch in 0..4 {
            let next = number((switch + 1) % 4);
            let around = (0..lab.tables.switches() as u8 + 4)
                .find(|&port| {
                    let channel = index.channel(number(switch), port);
                    channel.is_some_and(|at| index.channels[at as usize].to == To::Switch(next))
                })
                .unwrap();
            lab.tables.set(SwitchIdx(number(switch)), dlid, around);
        }
        let index = Index::new(lab.subnet());
        let ends = (index.end_at(from).unwrap(), index.end_at(to).unwrap());
        assert!(!index.walk(lab.subnet(), ends, dlid, |_| ()));
    }
}
