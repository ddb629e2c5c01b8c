//! Trees of three levels with closed-form tables, for examples: no routing engine is involved.
#![allow(dead_code, reason = "every example uses a part of it")]

use std::collections::BTreeMap;
use std::time::Instant;

use selvedge_fabric::{
    Fabric, FabricBuilder, LinkState, Node, NodeKey, PortRef, PortSettings, SwitchIdx, SwitchSettings,
};
use selvedge_plan::{EngineName, Generation, Lids, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_types::{Guid, Lid, LidRange, Mtu, NodeKind, PhysState, PortNum, PortState, Rate};

/// A tree of three levels: switch `(level, a, b)`; leaf `(0, a, b)` is below `(1, a, j)` for all j, that is below
/// `(2, i, j)` for all i. Below the top, ports 1 to k go down, k + 1 to 2k up; a switch of the top has one port down
/// to each pod `a`. With k pods a k-ary 3-tree, with 2k pods an m-port 3-tree of m = 2k.
pub struct Tree {
    /// Ports down of a leaf.
    pub k: usize,
    /// Number of pods.
    pub pods: usize,
}

impl Tree {
    /// `karytree` (k = 18), `mport` (m = 48), or a number K: a K-ary 3-tree.
    pub fn of(shape: &str) -> Self {
        match shape {
            "karytree" => Self { k: 18, pods: 18 },
            "mport" => Self { k: 24, pods: 48 },
            other => {
                let k = other.parse().expect("a number");
                Self { k, pods: k }
            }
        }
    }

    fn switch(&self, level: usize, a: usize, b: usize) -> usize {
        (level * self.pods + a) * self.k + b
    }

    pub fn fabric(&self) -> Fabric {
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
        for number in 0..self.switches() {
            let name = format!("S{}-{}", number / (self.pods * k), number % (self.pods * k));
            switches.push(add(&mut builder, NodeKind::Switch, 1 + number, 2 * k, name));
        }
        let link = |builder: &mut FabricBuilder, a: (NodeKey, usize), b: (NodeKey, usize)| {
            builder.link((a.0, port(a.1)), (b.0, port(b.1))).expect("free ports");
        };
        for a in 0..self.pods {
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

    fn switches(&self) -> usize {
        (2 * self.pods + self.k) * self.k
    }

    fn hosts(&self) -> usize {
        self.pods * self.k * self.k
    }

    fn host(&self, a: usize, b: usize, n: usize) -> usize {
        (a * self.k + b) * self.k + n
    }

    /// LIDs of hosts first, in their order, then of switches.
    pub fn lids(&self, fabric: &Fabric) -> Lids {
        let hosts = self.hosts();
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

    pub fn tables(&self, fabric: &Fabric, lids: &Lids) -> Tables {
        let k = self.k;
        let mut tables = Tables::new(fabric.switches().len(), lids.top());
        let places = |number: usize| {
            let level = (number / (self.pods * k)).min(2);
            let rest = number - level * self.pods * k;
            (level, rest / k, rest % k)
        };
        for at in 0..self.switches() {
            let (here, switch) = (places(at), SwitchIdx(at as u32));
            for host in 0..self.hosts() {
                let (to_a, to_b, n) = (host / (k * k), host / k % k, host % k);
                tables.set(switch, Lid(1 + host as u16), self.to_host(here, (to_a, to_b, n)));
            }
            for to in 0..self.switches() {
                let lid = Lid((self.hosts() + 1 + to) as u16);
                tables.set(switch, lid, self.to_switch(here, places(to)));
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

    /// Returns the egress from a switch to another switch: straight up or down if one is above the other; between upper
    /// levels of different planes through a leaf.
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
pub fn plan(fabric: &Fabric, lids: &Lids, tables: &Tables) -> Plan {
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
        lane_tables: None,
        ports: ports
            .filter(|at| at.port == PortNum::MANAGEMENT || fabric.link_is_up(*at))
            .map(|at| (at, settings(at)))
            .collect(),
        end_ports: BTreeMap::default(),
        switches: fabric.switches().indices().map(|_| switch).collect(),
    }
}

pub fn port(n: usize) -> PortNum {
    PortNum::new(n as u8).expect("at most 254 ports")
}

/// Time on a processor of all threads, in seconds, as the kernel counts it.
pub fn processor_time() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    tasks.filter_map(of).sum::<f64>() / 1e9
}

/// Runs `work` several times and prints a row.
pub fn row(name: &str, runs: usize, mut work: impl FnMut()) {
    let mut rows: Vec<(f64, f64)> = (0..runs.max(1))
        .map(|_| {
            let (start, used) = (Instant::now(), processor_time());
            work();
            (start.elapsed().as_secs_f64() * 1e3, (processor_time() - used) * 1e3)
        })
        .collect();
    let used = rows.iter().map(|row| row.1).fold(f64::MAX, f64::min);
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, median, most) = (rows[0].0, rows[rows.len() / 2].0, rows[rows.len() - 1].0);
    println!("{name:40} {median:8.2} ms ({least:.2}-{most:.2}), processor {used:.2} ms");
}
