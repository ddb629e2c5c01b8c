//! Small fabrics with tables for tests: built by hand, routed by a few lines, without code of the judge.
#![allow(
    dead_code,
    missing_docs,
    clippy::unwrap_used,
    reason = "every test file uses a part of it"
)]

use std::collections::VecDeque;

use selvedge_fabric::{Fabric, FabricBuilder, LinkState, Node, NodeKey, PortRef, SwitchIdx, SwitchSettings};
use selvedge_plan::{EndPortPlan, EngineName, Generation, Lids, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_types::{Guid, Lid, LidRange, Lmc, Mtu, NodeKind, PKey, PhysState, PortNum, PortState, Rate};

pub fn port(n: u8) -> PortNum {
    PortNum::new(n).unwrap()
}

/// A fabric in the making: switches `s0`, `s1`, … and hosts `h0`, `h1`, …
#[derive(Default)]
pub struct Net {
    builder: FabricBuilder,
    switches: Vec<(NodeKey, u8)>,
    hosts: u64,
    down: Vec<(NodeKey, PortNum)>,
}

impl Net {
    /// Returns this many switches with this many ports, without cables.
    pub fn new(switches: u64, ports: u8) -> Self {
        let mut net = Self::default();
        for i in 0..switches {
            let node = Node::new(NodeKind::Switch, Guid(0x100 + i), ports, format!("s{i}"));
            net.switches.push((net.builder.add(node), 1));
        }
        net
    }

    fn next_port(&mut self, switch: usize) -> (NodeKey, PortNum) {
        let (key, next) = &mut self.switches[switch];
        *next += 1;
        (*key, port(*next - 1))
    }

    /// A cable between the next free ports of two switches.
    pub fn link(&mut self, a: usize, b: usize) -> &mut Self {
        let ends = (self.next_port(a), self.next_port(b));
        self.builder.link(ends.0, ends.1).unwrap();
        self
    }

    /// A host on the next free port of a switch.
    pub fn host(&mut self, switch: usize) -> &mut Self {
        let node = Node::new(NodeKind::Ca, Guid(0x1000 + self.hosts), 1, format!("h{}", self.hosts));
        self.hosts += 1;
        let end = (self.builder.add(node), port(1));
        let at = self.next_port(switch);
        self.builder.link(end, at).unwrap();
        self
    }

    /// Keeps the port of a switch down, whatever its cable.
    pub fn down(&mut self, switch: usize, port: PortNum) -> &mut Self {
        self.down.push((self.switches[switch].0, port));
        self
    }

    /// The builder, for anything special.
    pub fn builder(&mut self) -> &mut FabricBuilder {
        &mut self.builder
    }

    /// All cabled ports trained, in the given state.
    pub fn finish(mut self, state: PortState) -> Fabric {
        let keys: Vec<NodeKey> = self.builder.nodes().map(|(key, _)| key).collect();
        for key in keys {
            let ports: Vec<PortNum> = self.builder.node(key).all_ports().map(|(num, _)| num).collect();
            for num in ports {
                if self.builder.peer(key, num).is_none() || self.down.contains(&(key, num)) {
                    continue;
                }
                let up = LinkState {
                    state,
                    phys: PhysState::LinkUp,
                    rate: Rate::default(),
                };
                self.builder.node_mut(key).port_mut(num).unwrap().link = up;
            }
        }
        self.builder.finish().unwrap()
    }
}

/// A ring with `hosts` hosts on each switch.
pub fn ring(switches: usize, hosts: usize) -> Fabric {
    let mut net = Net::new(switches as u64, 8);
    for i in 0..switches {
        net.link(i, (i + 1) % switches);
    }
    for i in 0..switches * hosts {
        net.host(i % switches);
    }
    net.finish(PortState::Active)
}

/// `leaves` leaves with `hosts` hosts each, every leaf cabled to every spine.
pub fn tree(leaves: usize, spines: usize, hosts: usize) -> Fabric {
    let mut net = Net::new((leaves + spines) as u64, 12);
    for leaf in 0..leaves {
        for spine in 0..spines {
            net.link(leaf, leaves + spine);
        }
        for _ in 0..hosts {
            net.host(leaf);
        }
    }
    net.finish(PortState::Active)
}

/// Three switches of 200 ports in a row, the last two with so many parallel cables; hosts on the outer ones.
pub fn wide(cables: usize, hosts: usize) -> Fabric {
    let mut net = Net::new(3, 200);
    net.link(2, 0);
    for _ in 0..cables {
        net.link(0, 1);
    }
    for host in 0..hosts {
        net.host(1 + host % 2);
    }
    net.finish(PortState::Active)
}

/// A random graph: a random tree and `more` further cables, some of them parallel; `down` ports are tried to be down.
pub fn random(
    switches: usize,
    more: usize,
    hosts: usize,
    down: usize,
    mut below: impl FnMut(usize) -> usize,
) -> Fabric {
    let mut net = Net::new(switches as u64, 30);
    for i in 1..switches {
        net.link(i, below(i));
    }
    for _ in 0..more {
        let a = below(switches);
        let b = (a + 1 + below(switches - 1)) % switches;
        net.link(a, b);
    }
    for _ in 0..hosts {
        net.host(below(switches));
    }
    for _ in 0..down {
        net.down(below(switches), port(1 + below(5) as u8));
    }
    net.finish(PortState::Active)
}

/// LIDs in order of nodes, `2^lmc` for hosts, one for switches.
pub fn lids(fabric: &Fabric, lmc: u8) -> Lids {
    let mut lids = Lids::new();
    let mut next = 1_u16;
    for (at, _) in fabric.end_ports() {
        let is_switch = fabric.node(at.node).is_switch();
        let lmc = Lmc::new(if is_switch { 0 } else { lmc }).unwrap();
        let base = next.next_multiple_of(lmc.lids());
        lids.insert(at, LidRange { base: Lid(base), lmc }).unwrap();
        next = base + lmc.lids();
    }
    lids
}

/// Ports of a switch that lead to switches over links that are up, with those switches.
pub fn neighbours(fabric: &Fabric, switch: SwitchIdx) -> Vec<(PortNum, SwitchIdx)> {
    let node = fabric.switches()[switch];
    let ports = fabric.switch(switch).external_ports();
    ports
        .filter_map(|(port, _)| {
            let at = PortRef { node, port };
            let next = fabric.link_is_up(at).then(|| fabric.peer(at)).flatten()?;
            Some((port, fabric.switch_index(next.node)?))
        })
        .collect()
}

/// Returns where a LID leaves the fabric: the switch, and the port (0 for the switch's own LIDs).
fn exit(fabric: &Fabric, at: PortRef) -> Option<(SwitchIdx, PortNum)> {
    match fabric.switch_index(at.node) {
        Some(switch) => Some((switch, at.port)),
        None => {
            let peer = fabric.link_is_up(at).then(|| fabric.peer(at)).flatten()?;
            Some((fabric.switch_index(peer.node)?, peer.port))
        }
    }
}

/// Hops from every switch to `to` over steps that `allowed(from, to)` permits.
fn distances(fabric: &Fabric, to: SwitchIdx, allowed: impl Fn(SwitchIdx, SwitchIdx) -> bool) -> Vec<usize> {
    let mut distance = vec![usize::MAX; fabric.switches().len()];
    distance[to.0 as usize] = 0;
    let mut open = VecDeque::from([to]);
    while let Some(at) = open.pop_front() {
        for (_, from) in neighbours(fabric, at) {
            if distance[from.0 as usize] == usize::MAX && allowed(from, at) {
                distance[from.0 as usize] = distance[at.0 as usize] + 1;
                open.push_back(from);
            }
        }
    }
    distance
}

/// Fills the tables: `toward(switch, port, next, lid, owner's switch)` gives the cost of a step, least cost wins.
fn fill(
    fabric: &Fabric,
    lids: &Lids,
    cost: impl Fn(SwitchIdx) -> Box<dyn Fn(SwitchIdx, SwitchIdx) -> usize>,
) -> Tables {
    let mut tables = Tables::new(fabric.switches().len(), lids.top());
    for (lid, at) in lids.by_lid() {
        let Some((leaf, out)) = exit(fabric, at) else { continue };
        let cost = cost(leaf);
        for switch in fabric.switches().indices() {
            if switch == leaf {
                tables.set(switch, lid, out.get());
                continue;
            }
            let mut steps: Vec<(usize, PortNum)> = neighbours(fabric, switch)
                .into_iter()
                .map(|(port, next)| (cost(switch, next), port))
                .filter(|(cost, _)| *cost != usize::MAX)
                .collect();
            steps.sort();
            let best: Vec<_> = steps.iter().filter(|step| step.0 == steps[0].0).collect();
            // Parallel ways are shared by LID, as any engine would.
            if !best.is_empty() {
                tables.set(switch, lid, best[lid.index() % best.len()].1.get());
            }
        }
    }
    tables
}

/// Shortest ways, deadlock or not.
pub fn minhop(fabric: &Fabric, lids: &Lids) -> Tables {
    fill(fabric, lids, |leaf| {
        let distance = distances(fabric, leaf, |_, _| true);
        Box::new(move |_, next| distance[next.0 as usize])
    })
}

/// Up, then down, in the order (hops from switch `root`, index): down as soon as only down steps lead there.
pub fn updown(fabric: &Fabric, lids: &Lids, root: SwitchIdx) -> Tables {
    if fabric.switches().is_empty() {
        return Tables::new(0, lids.top());
    }
    let mut rank = distances(fabric, root, |_, _| true);
    // Another part of the fabric has a root of its own.
    while let Some(other) = rank.iter().position(|rank| *rank == usize::MAX) {
        let more = distances(fabric, SwitchIdx(other as u32), |_, _| true);
        rank.iter_mut()
            .zip(more)
            .for_each(|(rank, more)| *rank = more.min(*rank));
    }
    let is_down =
        move |rank: &[usize], from: SwitchIdx, to: SwitchIdx| (rank[from.0 as usize], from) < (rank[to.0 as usize], to);
    fill(fabric, lids, |leaf| {
        let down = distances(fabric, leaf, |from, to| is_down(&rank, from, to));
        let mut total = down.clone();
        // Upper switches first: a switch that cannot go down goes up to the best of its uppers.
        let mut order: Vec<SwitchIdx> = fabric.switches().indices().collect();
        order.sort_by_key(|s| (rank[s.0 as usize], *s));
        for &switch in &order {
            let uppers = neighbours(fabric, switch)
                .into_iter()
                .filter(|(_, n)| is_down(&rank, *n, switch));
            let best = uppers.map(|(_, n)| total[n.0 as usize]).min().unwrap_or(usize::MAX);
            let own = &mut total[switch.0 as usize];
            if *own == usize::MAX {
                *own = best.saturating_add(1);
            }
        }
        let rank = rank.clone();
        Box::new(move |switch, next| {
            let goes_down = (rank[switch.0 as usize], switch) < (rank[next.0 as usize], next);
            match (down[switch.0 as usize] != usize::MAX, goes_down) {
                (true, true) => down[next.0 as usize],
                (false, false) => total[next.0 as usize],
                _ => usize::MAX,
            }
        })
    })
}

/// A whole plan around tables: every setting legal, everything on one lane.
pub fn plan(fabric: &Fabric, lids: Lids, tables: Tables) -> Plan {
    let mut plan = Plan {
        generation: Generation(1),
        engine: EngineName("test".to_owned()),
        tables,
        service_levels: ServiceLevels::default(),
        sl_to_vl: SlToVl::default(),
        lanes: 1,
        lane_tables: None,
        ports: Default::default(),
        end_ports: Default::default(),
        switches: Default::default(),
        lids,
    };
    for (node, seen) in fabric.nodes().iter_enumerated() {
        for (num, _) in seen.all_ports() {
            let at = PortRef { node, port: num };
            let is_end = !seen.is_switch() || num == PortNum::MANAGEMENT;
            if num != PortNum::MANAGEMENT && !fabric.link_is_up(at) {
                continue;
            }
            let settings = selvedge_fabric::PortSettings {
                lids: plan.lids.range(at).unwrap_or(LidRange::single(Lid::NONE)),
                sm_lid: Lid(1),
                mtu: Mtu::B4096,
                oper_vls: 4,
                hoq_life: 18,
                vl_stall_count: 7,
                subnet_timeout: 18,
                ..Default::default()
            };
            plan.ports.insert(at, settings);
            if is_end {
                let pkeys = vec![PKey::DEFAULT_FULL];
                plan.end_ports.insert(at, EndPortPlan { pkeys });
            }
        }
    }
    let top = plan.lids.top().0;
    let switches = fabric.switches().indices().map(|_| SwitchSettings {
        multicast_top: 0,
        linear_top: top,
        lifetime: 18,
        port_state_change: false,
    });
    plan.switches = switches.collect();
    plan
}
