//! A brute-force judge to test the judge: it follows every pair of source and LID separately, hop by hop, stores every
//! dependency in a set and searches for a cycle depth-first. It is slow and simple, and shares no code with the judge.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::Plan;
use selvedge_types::{Lid, PortNum};
use selvedge_verify::Traffic;

/// Outcome of a failed pair; a cycle is a property of all pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    BlackHole,
    Loop,
    WrongDelivery,
    OwnLid,
    LaneDrop(u8),
    Cycle,
}

/// A directed link, named by the port that sends into it, and a lane.
pub type Channel = (PortRef, u8);

#[derive(Default)]
pub struct Brute {
    /// Affected host and switch sources, by class, switch (of a loop the first in it) and LID.
    pub found: BTreeMap<(Class, SwitchIdx, Lid), (u64, u64)>,
    pub delivered: u64,
    /// True if a pair with a host at one end failed, or if a switch forwards its own LID.
    bad_pair: bool,
    dependencies: BTreeMap<Traffic, BTreeSet<(Channel, Channel)>>,
    /// A number for each part of the fabric, by switch.
    part: Vec<usize>,
}

impl Brute {
    pub fn new(fabric: &Fabric, plan: &Plan) -> Self {
        let mut brute = Self {
            part: parts(fabric),
            ..Self::default()
        };
        for (lid, owner) in plan.lids.by_lid() {
            for (source, _) in fabric.end_ports() {
                if source != owner {
                    brute.walk(fabric, plan, source, lid, owner);
                }
            }
            if let Some(own) = fabric.switch_index(owner.node)
                && plan.tables.get(own, lid) != 0
            {
                brute.found.insert((Class::OwnLid, own, lid), (0, 0));
                brute.bad_pair = true;
            }
        }
        brute
    }

    fn walk(&mut self, fabric: &Fabric, plan: &Plan, source: PortRef, lid: Lid, owner: PortRef) {
        let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
        let traffic = match (is_switch(source), is_switch(owner)) {
            (false, _) => Traffic::Hosts,
            (true, false) => Traffic::Agents,
            (true, true) => Traffic::Switches,
        };
        // Where the packet is: a switch and the port it came in by.
        let (mut at, mut ingress) = (source.node, PortNum::MANAGEMENT);
        if !is_switch(source) {
            let Some(peer) = fabric.peer(source).filter(|_| fabric.link_is_up(source)) else {
                return;
            };
            (at, ingress) = (peer.node, peer.port);
        }
        let leaf = if is_switch(owner) {
            Some(owner)
        } else {
            fabric.peer(owner).filter(|_| fabric.link_is_up(owner))
        };
        let owner_part = leaf.map(|leaf| self.part[fabric.switch_index(leaf.node).unwrap().0 as usize]);
        let mut path: Vec<(SwitchIdx, PortNum, Option<Channel>)> = Vec::new();
        let mut held: Option<Channel> = None;
        loop {
            let switch = fabric.switch_index(at).unwrap();
            if let Some(first) = path.iter().position(|stop| *stop == (switch, ingress, held)) {
                let least = path[first..].iter().map(|stop| stop.0).min().unwrap();
                return self.fail(Class::Loop, least, lid, traffic);
            }
            path.push((switch, ingress, held));
            let entry = plan.tables.get(switch, lid);
            let ports = fabric.switch(switch).port_count();
            let egress = PortNum::of_node(entry, ports).filter(|_| lid.0 <= plan.switches[switch].linear_top);
            let is_expected = owner_part == Some(self.part[switch.0 as usize]);
            let Some(egress) = egress else {
                return if is_expected {
                    self.fail(Class::BlackHole, switch, lid, traffic)
                };
            };
            let out = PortRef { node: at, port: egress };
            if egress == PortNum::MANAGEMENT {
                return self.arrive(out, owner, switch, lid, traffic);
            }
            let Some(next) = fabric.peer(out).filter(|_| fabric.link_is_up(out)) else {
                return if is_expected {
                    self.fail(Class::BlackHole, switch, lid, traffic)
                };
            };
            let vl = plan
                .sl_to_vl
                .vl(switch, ingress, egress, plan.service_levels.to(lid))
                .get();
            let lanes = [0, 1, 2, 4, 8, 15][usize::from(plan.ports[&out].oper_vls)];
            if vl == 15 || vl >= lanes {
                return if is_expected {
                    self.fail(Class::LaneDrop(vl), switch, lid, traffic)
                };
            }
            if !is_switch(next) {
                return self.arrive(next, owner, switch, lid, traffic);
            }
            if let Some(held) = held {
                self.dependencies.entry(traffic).or_default().insert((held, (out, vl)));
            }
            held = Some((out, vl));
            (at, ingress) = (next.node, next.port);
        }
    }

    fn arrive(&mut self, at: PortRef, owner: PortRef, switch: SwitchIdx, lid: Lid, traffic: Traffic) {
        if at == owner {
            self.delivered += 1;
        } else {
            self.fail(Class::WrongDelivery, switch, lid, traffic);
        }
    }

    fn fail(&mut self, class: Class, switch: SwitchIdx, lid: Lid, traffic: Traffic) {
        let from = self.found.entry((class, switch, lid)).or_default();
        if traffic == Traffic::Hosts {
            from.0 += 1;
        } else {
            from.1 += 1;
        }
        self.bad_pair |= traffic != Traffic::Switches;
    }

    pub fn edges(&self, upto: Traffic) -> BTreeSet<(Channel, Channel)> {
        let parts = self.dependencies.range(..=upto);
        parts.flat_map(|(_, edges)| edges.iter().copied()).collect()
    }

    /// The first traffic with which a cycle appears.
    pub fn cyclic(&self) -> Option<Traffic> {
        [Traffic::Hosts, Traffic::Agents, Traffic::Switches]
            .into_iter()
            .find(|traffic| {
                let (edges, mut done) = (self.edges(*traffic), BTreeSet::new());
                edges
                    .iter()
                    .any(|edge| has_cycle(edge.0, &edges, &mut Vec::new(), &mut done))
            })
    }

    /// True if a manager must not send this.
    pub fn is_bad(&self) -> bool {
        self.bad_pair || matches!(self.cyclic(), Some(Traffic::Hosts | Traffic::Agents))
    }
}

fn parts(fabric: &Fabric) -> Vec<usize> {
    let mut part: Vec<usize> = (0..fabric.switches().len()).collect();
    for _ in 0..part.len() {
        for link in fabric.links().filter(|link| fabric.link_is_up(link.a)) {
            if let (Some(a), Some(b)) = (fabric.switch_index(link.a.node), fabric.switch_index(link.b.node)) {
                let least = part[a.0 as usize].min(part[b.0 as usize]);
                (part[a.0 as usize], part[b.0 as usize]) = (least, least);
            }
        }
    }
    part
}

/// Depth first: a channel met again on the way is on a cycle.
fn has_cycle(
    at: Channel,
    edges: &BTreeSet<(Channel, Channel)>,
    way: &mut Vec<Channel>,
    done: &mut BTreeSet<Channel>,
) -> bool {
    if way.contains(&at) || !done.insert(at) {
        return way.contains(&at);
    }
    way.push(at);
    let mut next = edges.iter().filter(|edge| edge.0 == at);
    let found = next.any(|edge| has_cycle(edge.1, edges, way, done));
    way.pop();
    found
}
