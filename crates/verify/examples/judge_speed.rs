//! How long the judge takes for a k-ary 3-tree with closed-form tables: `judge_speed [K]`, default 18 (5,832 hosts).
//!
//! The tables are made here, by digits of the destination (D-mod-K), so that no routing engine is involved.

use std::collections::BTreeMap;
use std::time::Instant;

use selvedge_fabric::{
    Fabric, FabricBuilder, LinkState, Node, NodeKey, PortRef, PortSettings, SwitchIdx, SwitchSettings,
};
use selvedge_plan::{EngineName, Generation, Installed, Lids, Plan, ServiceLevels, SlToVl, Tables, changes};
use selvedge_sim::Par;
use selvedge_types::{Guid, Lid, LidRange, Mtu, NodeKind, PhysState, PortNum, PortState, Rate};
use selvedge_verify::{JudgeOptions, Subject, judge, verify};

/// A k-ary 3-tree: switch `(level, a, b)`; leaf `(0, a, b)` is below `(1, a, j)` for all j, that is below `(2, i, j)`
/// for all i. Ports 1 to k go down, k + 1 to 2k up.
struct Tree {
    k: usize,
}

impl Tree {
    fn switch(&self, level: usize, a: usize, b: usize) -> usize {
        (level * self.k + a) * self.k + b
    }

    fn fabric(&self) -> Fabric {
        let k = self.k;
        let mut builder = FabricBuilder::new();
        let up = LinkState {
            state: PortState::Active,
            phys: PhysState::LinkUp,
            rate: Rate::default(),
        };
        let add = |builder: &mut FabricBuilder, kind, guid: usize, ports: usize, name: String| {
            let mut node = Node::new(kind, Guid(guid as u64), ports as u8, name);
            for n in 1..=ports {
                node.port_mut(port(n)).expect("made above").link = up;
            }
            builder.add(node)
        };
        let mut switches: Vec<NodeKey> = Vec::new();
        for number in 0..3 * k * k {
            let name = format!("S{}-{}", number / (k * k), number % (k * k));
            switches.push(add(&mut builder, NodeKind::Switch, 1 + number, 2 * k, name));
        }
        let link = |builder: &mut FabricBuilder, a: (NodeKey, usize), b: (NodeKey, usize)| {
            builder.link((a.0, port(a.1)), (b.0, port(b.1))).expect("free ports");
        };
        for a in 0..k {
            for b in 0..k {
                for n in 0..k {
                    let host = self.host(a, b, n);
                    let key = add(&mut builder, NodeKind::Ca, 0x10_0000 + host, 1, format!("H{host}"));
                    let leaf = switches[self.switch(0, a, b)];
                    link(&mut builder, (key, 1), (leaf, 1 + n));
                    link(&mut builder, (leaf, k + 1 + n), (switches[self.switch(1, a, n)], 1 + b));
                    let mid = switches[self.switch(1, a, b)];
                    link(&mut builder, (mid, k + 1 + n), (switches[self.switch(2, n, b)], 1 + a));
                }
            }
        }
        builder.finish().expect("a tree")
    }

    fn host(&self, a: usize, b: usize, n: usize) -> usize {
        (a * self.k + b) * self.k + n
    }

    /// LIDs of hosts first, in their order, then of switches.
    fn lids(&self, fabric: &Fabric) -> Lids {
        let hosts = self.k.pow(3);
        let mut lids = Lids::new();
        for (at, _) in fabric.end_ports() {
            let guid = fabric.node(at.node).guid.0 as usize;
            let lid = if guid < 0x10_0000 {
                hosts + guid
            } else {
                guid - 0x10_0000 + 1
            };
            lids.insert(at, LidRange::single(Lid(lid as u16)))
                .expect("all different");
        }
        lids
    }

    fn tables(&self, fabric: &Fabric, lids: &Lids) -> Tables {
        let k = self.k;
        let mut tables = Tables::new(fabric.switches().len(), lids.top());
        for level in 0..3 {
            for (a, b) in (0..k * k).map(|i| (i / k, i % k)) {
                let at = SwitchIdx(self.switch(level, a, b) as u32);
                for host in 0..k * k * k {
                    let (to_a, to_b, n) = (host / (k * k), host / k % k, host % k);
                    tables.set(at, Lid(1 + host as u16), self.to_host((level, a, b), (to_a, to_b, n)));
                }
                for to in 0..3 * k * k {
                    let (to_level, to_a, to_b) = (to / (k * k), to / k % k, to % k);
                    let lid = Lid((k * k * k + 1 + to) as u16);
                    tables.set(at, lid, self.to_switch((level, a, b), (to_level, to_a, to_b)));
                }
            }
        }
        tables
    }

    fn to_host(&self, (level, a, b): (usize, usize, usize), (to_a, to_b, n): (usize, usize, usize)) -> u8 {
        let (down, up) = (|n: usize| (1 + n) as u8, |n: usize| (self.k + 1 + n) as u8);
        match level {
            0 if (a, b) == (to_a, to_b) => down(n),
            0 => up(n),
            1 if a == to_a => down(to_b),
            1 => up(to_b),
            _ => down(to_a),
        }
    }

    /// Ancestors and descendants directly; between the upper levels of different planes through a leaf.
    fn to_switch(&self, at: (usize, usize, usize), to: (usize, usize, usize)) -> u8 {
        let (down, up) = (|n: usize| (1 + n) as u8, |n: usize| (self.k + 1 + n) as u8);
        let ((level, a, b), (to_level, to_a, to_b)) = (at, to);
        match (level, to_level) {
            _ if at == to => 0,
            (0, 0) => up(to_b),
            (0, _) => up(to_b),
            (1, 0) if a == to_a => down(to_b),
            (1, 0) => up(to_b),
            (1, 1) if a == to_a => down(0),
            (1, 1) => up(0),
            (1, _) if b == to_b => up(to_a),
            (1, _) => down(0),
            (_, 2) => down(0),
            _ => down(to_a),
        }
    }
}

/// A whole plan around the tables, as for a bring-up.
fn plan(fabric: &Fabric, lids: &Lids, tables: &Tables) -> Plan {
    let nodes = fabric.nodes().iter_enumerated();
    let ports = nodes.flat_map(|(node, n)| n.all_ports().map(move |(port, _)| PortRef { node, port }));
    let settings = |at| PortSettings {
        lids: lids.range(at).unwrap_or_default(),
        mtu: Mtu::B4096,
        oper_vls: 4,
        ..PortSettings::default()
    };
    let switch = SwitchSettings {
        linear_top: lids.top().0,
        ..SwitchSettings::default()
    };
    Plan {
        generation: Generation(1),
        engine: EngineName("d-mod-k".to_owned()),
        lids: lids.clone(),
        tables: tables.clone(),
        service_levels: ServiceLevels::default(),
        sl_to_vl: SlToVl::default(),
        lanes: 1,
        ports: ports
            .filter(|at| at.port == PortNum::MANAGEMENT || fabric.link_is_up(*at))
            .map(|at| (at, settings(at)))
            .collect(),
        end_ports: BTreeMap::default(),
        switches: fabric.switches().indices().map(|_| switch).collect(),
    }
}

fn port(n: usize) -> PortNum {
    PortNum::new(n as u8).expect("at most 254 ports")
}

fn main() {
    let k: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(18);
    let tree = Tree { k };
    let fabric = tree.fabric();
    let lids = tree.lids(&fabric);
    let tables = tree.tables(&fabric, &lids);
    let down = fabric.switches().len();
    assert!(
        fabric
            .peer(PortRef {
                node: fabric.switches()[SwitchIdx(0)],
                port: port(1)
            })
            .is_some()
    );
    println!("{} hosts, {down} switches, {} LIDs", fabric.host_count(), lids.len());
    let levels = ServiceLevels::default();
    for lanes in [1, 8] {
        let map = SlToVl::modulo(lanes);
        for par in [Par::Sequential, Par::Rayon] {
            let options = JudgeOptions {
                par,
                ..JudgeOptions::default()
            };
            let subject = Subject::tables(&fabric, &lids, &tables, &levels, &map);
            let mut seconds: Vec<f64> = (0..5)
                .map(|_| {
                    let start = Instant::now();
                    let verdict = verify(subject, &options);
                    assert!(verdict.is_ok(), "{:?}", verdict.findings.first());
                    start.elapsed().as_secs_f64()
                })
                .collect();
            seconds.sort_by(f64::total_cmp);
            println!(
                "{lanes} lanes, {par:?}: {:.3} s ({:.3}-{:.3})",
                seconds[2], seconds[0], seconds[4]
            );
        }
    }
    let plan = plan(&fabric, &lids, &tables);
    let installed = Installed::unknown(fabric.switches().len());
    let set = changes(&fabric, &installed, &plan);
    let count = set.count().total();
    let start = Instant::now();
    let judged = judge(&fabric, &installed, &plan, set, &JudgeOptions::default());
    assert!(judged.is_ok(), "{:?}", judged.err());
    println!("judged with {count} Sets: {:.3} s", start.elapsed().as_secs_f64());
    let map = SlToVl::default();
    let verdict = verify(
        Subject::tables(&fabric, &lids, &tables, &levels, &map),
        &JudgeOptions::default(),
    );
    let figures = &verdict.figures;
    println!("host pairs {} of {}", figures.host_pairs_reached, figures.host_pairs);
    println!("hops: mean {:.3}, max {}", figures.hops_mean, figures.hops_max);
    println!("load: {:?}", figures.load);
    for lane in &figures.lanes {
        println!("{lane:?}");
    }
    for finding in &verdict.findings {
        println!("{finding}");
    }
}
