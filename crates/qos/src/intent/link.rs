//! The tables of one link.

use selvedge_fabric::PortCapability;
use selvedge_types::{Sl, Vl};

use super::compile::place_of;
use super::quota::{Room, packets_of_entry, units};
use super::{ClassPlan, Compiled, Latency};

/// What one end of a link can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Data lanes of the link, 1–15.
    pub lanes: u8,
    /// Entries of the port's high-priority arbitration table.
    pub vl_arb_high: u8,
    /// Entries of the port's low-priority arbitration table.
    pub vl_arb_low: u8,
}

/// The tables of a port towards a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTables {
    /// The row of the SLtoVLMappingTable, for every ingress port.
    pub row: [Vl; Sl::COUNT],
    /// Entries of the high-priority table. Weights in units of 64 bytes.
    pub high: Vec<(Vl, u8)>,
    /// Entries of the low-priority table. Weights in units of 64 bytes.
    pub low: Vec<(Vl, u8)>,
    /// PortInfo.VLHighLimit; always 0: one packet of high priority, then one of low priority.
    pub high_limit: u8,
    /// Number of data lanes in use.
    pub used: u8,
    /// The smallest PortInfo.OperationalVLs code with these lanes.
    pub oper_vls: u8,
    /// For each class, in the order of the intent, whether its promise holds on this link.
    pub keeps: Vec<bool>,
}

/// Weight that lets one packet through: an entry may send while some of its weight is left. So lanes of high priority
/// take turns by packet, however small the packets of one of them are.
const ONE_PACKET: u8 = 1;

/// Classes that share lanes on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    classes: Vec<usize>,
    /// True if all its classes are low-latency ones.
    is_low_latency: bool,
    /// Packets per lane and round.
    packets: u32,
}

/// Entries of both tables.
#[derive(Clone, Debug, Default)]
struct Entries {
    high: Vec<(Vl, u8)>,
    low: Vec<(Vl, u8)>,
    /// True if the low-priority ones give exact shares.
    is_exact: bool,
}

/// Returns the tables of a port towards a link. Where the link has fewer lanes than the hardware that the intent was
/// compiled for, classes share lanes: first the normal classes with the smallest shares.
#[must_use]
pub fn tables_on(compiled: &Compiled, link: &Lanes) -> LinkTables {
    Fit { of: compiled }.tables(link)
}

/// A compiled intent, to fit it to a link.
#[derive(Clone, Copy, Debug)]
struct Fit<'a> {
    of: &'a Compiled,
}

impl Fit<'_> {
    fn tables(&self, link: &Lanes) -> LinkTables {
        let entries = u16::from(link.vl_arb_low.min(64)) + u16::from(link.vl_arb_high.min(64));
        // Each lane in use needs an entry.
        let served = u8::try_from(entries.max(1)).unwrap_or(u8::MAX);
        let lanes = link.lanes.clamp(1, 15).min(served);
        let layers = self.of.layers.min(lanes);
        let groups = self.groups(lanes, layers);
        let group_of = |class: usize| groups.iter().position(|group| group.classes.contains(&class));
        let lane = |class: usize, layer: u8| group_of(class).unwrap_or(0) as u8 * layers + layer % layers;
        let row = std::array::from_fn(|sl| {
            let (class, layer) = (sl / usize::from(self.of.layers), sl as u8 % self.of.layers);
            let mut classes = 0..self.of.classes.len();
            let class = classes.find(|at| place_of(*at, self.of.default) == class);
            let class = class.unwrap_or(self.of.default);
            Vl::new(lane(class, layer)).unwrap_or_default()
        });
        let used = groups.len() as u8 * layers;
        let entries = self.entries(&groups, layers, link);
        let keeps = (0..self.of.classes.len()).map(|at| {
            let alone = group_of(at)
                .map(|of| &groups[of])
                .is_some_and(|group| group.classes.len() == 1);
            alone && layers == self.of.layers && self.keeps(at, &entries, lane(at, 0))
        });
        LinkTables {
            keeps: keeps.collect(),
            row,
            high: entries.high,
            low: entries.low,
            high_limit: 0,
            used,
            oper_vls: (1..=5)
                .find(|&code| PortCapability::lanes_of_code(code) >= used)
                .unwrap_or(5),
        }
    }

    /// True if a class that is alone on its lanes has the entries that it was promised.
    fn keeps(&self, at: usize, entries: &Entries, lane: u8) -> bool {
        let Entries { high, low, is_exact } = entries;
        let plan = &self.of.classes[at];
        let has = |table: &[(Vl, u8)]| table.iter().any(|(vl, _)| vl.get() == lane);
        match plan.class.latency {
            // One lane needs no tables.
            _ if high.is_empty() && low.is_empty() => true,
            Latency::Low => has(high),
            Latency::Normal if plan.class.share.is_none() => has(low),
            Latency::Normal => {
                let of_lane = |(vl, weight): &(Vl, u8)| if vl.get() == lane { u32::from(*weight) } else { 0 };
                let own: u32 = low.iter().map(of_lane).sum::<u32>() * u32::from(self.of.layers);
                let all: u32 = low.iter().map(|(_, weight)| u32::from(*weight)).sum();
                *is_exact && plan.class.share.is_none_or(|share| own * 100 >= u32::from(share) * all)
            }
        }
    }

    /// Returns the classes that share lanes on a link with this many lanes.
    fn groups(&self, lanes: u8, layers: u8) -> Vec<Group> {
        let group = |(at, plan): (usize, &ClassPlan)| Group {
            classes: vec![at],
            is_low_latency: plan.class.latency == Latency::Low,
            packets: plan.packets,
        };
        let mut groups: Vec<Group> = self.of.classes.iter().enumerate().map(group).collect();
        let most = usize::from(lanes / layers).max(1);
        while groups.len() > most {
            let (into, from) = pair_to_merge(&groups);
            let gone = groups.remove(from);
            let kept = &mut groups[into];
            kept.classes.extend(gone.classes);
            kept.is_low_latency &= gone.is_low_latency;
            kept.packets += gone.packets;
        }
        groups
    }

    /// Returns the entries of both tables.
    fn entries(&self, groups: &[Group], layers: u8, link: &Lanes) -> Entries {
        if groups.len() * usize::from(layers) == 1 {
            return Entries {
                is_exact: true,
                ..Entries::default()
            };
        }
        let lanes_of = |at: usize| (0..layers).filter_map(move |layer| Vl::new(at as u8 * layers + layer));
        let low_latency = (0..groups.len()).filter(|&at| groups[at].is_low_latency);
        let mut first: Vec<Vl> = low_latency.flat_map(lanes_of).collect();
        // Without room for all of them, none has priority.
        let has_priority = first.len() <= usize::from(link.vl_arb_high);
        if !has_priority {
            first.clear();
        }
        let normal: Vec<usize> = (0..groups.len())
            .filter(|&at| !(groups[at].is_low_latency && has_priority))
            .collect();
        let packets: Vec<u32> = normal.iter().map(|&at| groups[at].packets.max(1)).collect();
        let room = Room {
            entries: u32::from(link.vl_arb_low.min(64)),
            layers: u32::from(layers),
            of_entry: packets_of_entry(self.of.hardware.mtu),
        };
        let lanes: Vec<Vl> = normal.iter().flat_map(|&at| lanes_of(at)).collect();
        let unit = units(self.of.hardware.mtu) as u8;
        if lanes.len() > usize::from(link.vl_arb_low) {
            // The lanes without an entry of low priority get one of high priority.
            let (low, more) = lanes.split_at(usize::from(link.vl_arb_low));
            return Entries {
                high: first.iter().chain(more).map(|vl| (*vl, ONE_PACKET)).collect(),
                low: low.iter().map(|vl| (*vl, unit)).collect(),
                is_exact: false,
            };
        }
        let (packets, is_exact) = match room.holds(&packets) {
            true => (packets, has_priority),
            false => {
                let all: u32 = packets.iter().sum();
                let share = |packets: &u32| Some(u8::try_from(100 * packets / all).unwrap_or(100));
                let shares: Vec<Option<u8>> = packets.iter().map(share).collect();
                (room.nearest(&shares), false)
            }
        };
        let of_lane: Vec<(Vl, u32)> = (normal.iter().zip(&packets))
            .flat_map(|(&at, packets)| lanes_of(at).map(|vl| (vl, *packets)))
            .collect();
        Entries {
            high: first.iter().map(|vl| (*vl, ONE_PACKET)).collect(),
            low: in_turns(&of_lane, room.of_entry, unit),
            is_exact,
        }
    }
}

/// Returns the pair of groups that share lanes next, as (stays, goes): the two normal groups with the fewest packets;
/// else the last two low-latency groups; else the last of these joins the normal group.
fn pair_to_merge(groups: &[Group]) -> (usize, usize) {
    let mut normal: Vec<usize> = (0..groups.len()).filter(|&at| !groups[at].is_low_latency).collect();
    let low_latency: Vec<usize> = (0..groups.len()).filter(|&at| groups[at].is_low_latency).collect();
    normal.sort_by_key(|&at| (groups[at].packets, at));
    let (a, b) = match (normal.as_slice(), low_latency.as_slice()) {
        ([a, b, ..], _) => (*a, *b),
        (_, [.., a, b]) => (*a, *b),
        ([a, ..], [.., b]) => (*a, *b),
        // There are at least two groups.
        (_, _) => (0, 1),
    };
    (a.min(b), a.max(b))
}

/// Returns entries for lanes with these packets per round, the parts of each lane far from each other.
fn in_turns(lanes: &[(Vl, u32)], of_entry: u32, unit: u8) -> Vec<(Vl, u8)> {
    let parts = |packets: u32| packets.div_ceil(of_entry);
    let most = lanes.iter().map(|(_, packets)| parts(*packets)).max().unwrap_or(0);
    // Part `p` of `n` stands at (2p + 1) / 2n of the round; scaled to whole numbers.
    let mut entries: Vec<(u32, usize, (Vl, u8))> = Vec::new();
    for (order, &(vl, packets)) in lanes.iter().enumerate() {
        let count = parts(packets);
        for part in 0..count {
            // As even as can be: the first parts have one packet more.
            let own = packets / count + u32::from(part < packets % count);
            let place = (2 * part + 1) * 1_000 * most / (2 * count);
            let weight = u8::try_from(own * u32::from(unit)).unwrap_or(u8::MAX);
            entries.push((place, order, (vl, weight)));
        }
    }
    entries.sort_by_key(|(place, order, _)| (*place, *order));
    entries.into_iter().map(|(_, _, entry)| entry).collect()
}

impl LinkTables {
    /// Returns the most packets of other lanes that go before the first packet of a lane, if all packets are of the MTU
    /// that the weights are multiples of. `None`: the lane is not in use.
    #[must_use]
    pub fn packets_before(&self, vl: Vl, mtu: selvedge_types::Mtu) -> Option<u32> {
        if self.high.is_empty() && self.low.is_empty() {
            return (vl.get() < self.used).then_some(0);
        }
        if self.high.iter().any(|(lane, _)| *lane == vl) {
            // Every other high lane once, and a packet of low priority before each of them and before this one.
            let others = self.high.len() as u32 - 1;
            return Some(if self.low.is_empty() { others } else { 2 * others + 1 });
        }
        let places: Vec<usize> = (0..self.low.len()).filter(|&at| self.low[at].0 == vl).collect();
        let packets = |at: usize| u32::from(self.low[at % self.low.len()].1).div_ceil(units(mtu));
        let gap = |(&from, to): (&usize, usize)| (from + 1..to).map(packets).sum::<u32>();
        let next = places
            .iter()
            .skip(1)
            .copied()
            .chain(places.first().map(|first| first + self.low.len()));
        let longest = places.iter().zip(next).map(gap).max()?;
        // One packet of high priority may go before each packet of low priority.
        Some(if self.high.is_empty() { longest } else { 2 * longest + 1 })
    }
}
