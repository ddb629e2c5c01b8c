//! Saturated links, as the load model knows them: what a reader of counters has to find.

use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::PortRef;
use selvedge_types::Idx;

use super::flows::{Flow, Flows, Sender};
use super::rates::{Shared, Stalls, shared};
use super::state::Demands;

/// A saturated link: the root of a congestion tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// The port that sends on the link.
    pub port: PortRef,
    /// What the flows that cross the link offer, in thousandths of what the other end takes.
    pub offered_permille: u64,
    /// The flows that the link holds back, as (sender, receiver), sorted.
    pub pairs: Vec<(PortRef, PortRef)>,
    /// The ports before the link that wait because of it, sorted.
    pub waiting: Vec<PortRef>,
}

#[derive(Default)]
struct Root {
    pairs: Vec<(u32, u32)>,
    waiting: Vec<PortIdx>,
}

/// Returns the saturated links of a load, by port.
pub(super) fn congestion(chassis: &Chassis, demands: &Demands, stalls: &Stalls) -> Vec<Congestion> {
    let Shared {
        flows: found, taken, ..
    } = shared(chassis, demands, stalls);
    let mut roots: BTreeMap<PortIdx, Root> = BTreeMap::new();
    let mut offered = vec![0_u64; taken.len()];
    for flow in &found.flows {
        let rate = flow.offered.saturating_mul(flow.senders.into());
        let way = found.way(flow);
        for port in way {
            offered[port.to_usize()] = offered[port.to_usize()].saturating_add(rate);
        }
        let Some(held_at) = flow.held_at.map(usize::from) else {
            continue;
        };
        let root = roots.entry(way[held_at]).or_default();
        root.waiting.extend(&way[..held_at]);
        for from in senders(&found, flow) {
            root.pairs.push((from, flow.to));
            root.waiting.push(demands.hosts[from as usize]);
        }
    }
    let port_of = |host: u32| chassis.port_ref(demands.hosts[host as usize]);
    let report = |(port, mut root): (PortIdx, Root)| {
        let at = port.to_usize();
        root.waiting.sort_unstable();
        root.waiting.dedup();
        let mut pairs: Vec<_> = root
            .pairs
            .iter()
            .map(|(from, to)| (port_of(*from), port_of(*to)))
            .collect();
        pairs.sort_unstable();
        Congestion {
            port: chassis.port_ref(port),
            offered_permille: offered[at].saturating_mul(1_000) / taken[at].max(1),
            pairs,
            waiting: root.waiting.into_iter().map(|port| chassis.port_ref(port)).collect(),
        }
    };
    roots.into_iter().map(report).collect()
}

/// Returns the senders of a flow.
fn senders(found: &Flows, flow: &Flow) -> Vec<u32> {
    match flow.from {
        Sender::Host(host) => vec![host],
        Sender::Group(group) => {
            let hosts = found.groups[group as usize].hosts.iter().copied();
            hosts.filter(|host| *host != flow.to).collect()
        }
    }
}
