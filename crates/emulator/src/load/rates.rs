//! The rates at which a load moves counters.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_sim::Ratio;
use selvedge_types::Idx;

use super::capacity::tick_bytes;
use super::fill::fill;
use super::flows::{Fate, Flow, Flows, Sender, flows};
use super::state::Demands;

/// Ticks of 1.024 µs in a million seconds, the unit of the time counters of congestion control.
const CONGESTION_TICKS: u64 = 976_562_500_000;

/// Rates of a port's counters, per million seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortRates {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Ticks of PortXmitWait.
    pub waited: u64,
    /// Ticks of the time counters of congestion control.
    pub congested: u64,
    /// Packets discarded because the port is not ACTIVE.
    pub discarded: u64,
    /// Packets received without a forwarding entry.
    pub no_path: u64,
    /// Packets received with an entry that leads back.
    pub turned_back: u64,
}

/// Rates of all ports, and what it cost to find them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    /// By port.
    pub ports: Vec<PortRates>,
    /// Links that all flows cross.
    pub steps: usize,
}

/// Ports that take packets only a part of the time, with the share of the time in which they do not.
pub(super) type Stalls = BTreeMap<PortIdx, Ratio>;

/// The flows of a load as they share the links.
pub(super) struct Shared {
    pub flows: Flows,
    /// What each port's link carries.
    pub capacity: Vec<u64>,
    /// What the other end takes of that.
    pub taken: Vec<u64>,
}

/// Returns the flows of a load as they share the links.
pub(super) fn shared(chassis: &Chassis, demands: &Demands, stalls: &Stalls) -> Shared {
    let mut flows = flows(chassis, &demands.hosts, &demands.shares, demands.packet);
    let all = (0..chassis.port_count()).map(PortIdx::from_usize);
    let capacity: Vec<u64> = all
        .map(|port| demands.packet.capacity(chassis.port(port).rate))
        .collect();
    let mut taken = capacity.clone();
    for (port, stall) in stalls {
        if let Some(peer) = chassis.wire(*port).peer() {
            let whole = u128::from(capacity[peer.to_usize()]);
            let lost = whole * u128::from(stall.numerator) / u128::from(stall.denominator.max(1));
            taken[peer.to_usize()] = u64::try_from(whole.saturating_sub(lost)).unwrap_or(0);
        }
    }
    fill(&mut flows, &taken);
    Shared { flows, capacity, taken }
}

/// Returns the rates that a load leads to.
pub(super) fn rates(chassis: &Chassis, demands: &Demands, stalls: &Stalls) -> Rates {
    let Shared {
        flows: found,
        capacity,
        taken,
    } = shared(chassis, demands, stalls);
    let mut sum = Sum {
        ports: vec![PortRates::default(); chassis.port_count()],
        waits: vec![false; chassis.port_count()],
        of_group: vec![0; found.groups.len()],
        held_of_group: vec![0; found.groups.len()],
        to_itself: BTreeMap::new(),
        held_to_itself: BTreeSet::new(),
    };
    for flow in &found.flows {
        sum.add(&found, flow);
    }
    sum.add_groups(&found, &demands.hosts);
    for (at, capacity) in capacity.iter().enumerate() {
        let port = PortIdx::from_usize(at);
        // A saturated port has credits all the time, unless the other end stalls.
        let is_stalled = sum.ports[at].congested > 0 && taken[at] < *capacity;
        if sum.waits[at] || is_stalled {
            sum.ports[at].waited = demands
                .packet
                .ticks(capacity.saturating_sub(sum.ports[at].sent), tick_bytes(chassis, port));
        }
        // Flows cross only links that are ACTIVE, so what is sent is received.
        if let Some(peer) = chassis.wire(port).peer() {
            sum.ports[peer.to_usize()].received = sum.ports[at].sent;
        }
    }
    Rates {
        ports: sum.ports,
        steps: found.steps(),
    }
}

struct Sum {
    ports: Vec<PortRates>,
    /// Ports that wait for credits whenever they do not send.
    waits: Vec<bool>,
    /// What a member of each group would send if it sent to itself too.
    of_group: Vec<u64>,
    /// Flows of each group that are held back.
    held_of_group: Vec<u32>,
    /// What each host would send to itself as a member of a group.
    to_itself: BTreeMap<(u32, u32), u64>,
    /// Members of groups to which the flow of their own group is held back.
    held_to_itself: BTreeSet<(u32, u32)>,
}

impl Sum {
    fn add(&mut self, found: &Flows, flow: &Flow) {
        let rate = flow.accepted.saturating_mul(flow.senders.into());
        let way = found.way(flow);
        for port in way {
            self.ports[port.to_usize()].sent += rate;
        }
        if let Sender::Group(group) = flow.from {
            self.of_group[group as usize] += flow.accepted;
            if found.groups[group as usize].hosts.binary_search(&flow.to).is_ok() {
                *self.to_itself.entry((group, flow.to)).or_default() += flow.accepted;
            }
        }
        match flow.fate {
            Fate::Received => {}
            Fate::Discarded(at) => self.ports[at.to_usize()].discarded += rate,
            Fate::NoPath(at) => self.ports[at.to_usize()].no_path += rate,
            Fate::TurnedBack(at) => self.ports[at.to_usize()].turned_back += rate,
        }
        let Some(held_at) = flow.held_at else { return };
        let (waiting, rest) = way.split_at(usize::from(held_at));
        waiting.iter().for_each(|port| self.waits[port.to_usize()] = true);
        if let Some(root) = rest.first() {
            self.ports[root.to_usize()].congested = CONGESTION_TICKS;
        }
        if let Sender::Group(group) = flow.from {
            self.held_of_group[group as usize] += 1;
            self.held_to_itself.insert((group, flow.to));
        }
    }

    /// Adds what the ports of grouped hosts send.
    fn add_groups(&mut self, found: &Flows, hosts: &[PortIdx]) {
        for (at, group) in found.groups.iter().enumerate() {
            for &host in &group.hosts {
                let port = hosts[host as usize].to_usize();
                // Groups are fewer than hosts.
                let to_itself = (at as u32, host);
                let own = self.to_itself.get(&to_itself).copied().unwrap_or(0);
                self.ports[port].sent += self.of_group[at] - own;
                self.waits[port] |= self.held_of_group[at] > u32::from(self.held_to_itself.contains(&to_itself));
            }
        }
    }
}
