//! Small fabrics, OpenSM's recorded tables, and checkers that share no code with the engines.

pub mod tree;

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, FabricBuilder, Node, NodeKey, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Guid, Lid, LidRange, Lmc, NodeKind, PhysState, PortNum, PortState};

/// A fabric in the making; every port that is cabled is up.
#[derive(Default)]
pub struct Net {
    builder: FabricBuilder,
    next_free: BTreeMap<NodeKey, u8>,
    hosts: u64,
}

pub fn port(number: u8) -> PortNum {
    PortNum::new(number).unwrap()
}

impl Net {
    pub fn switch(&mut self, guid: u64, ports: u8) -> NodeKey {
        self.builder
            .add(Node::new(NodeKind::Switch, Guid(guid), ports, format!("S{guid:x}")))
    }

    /// A host with one port on the next free port of a switch.
    pub fn host(&mut self, switch: NodeKey) -> NodeKey {
        self.hosts += 1;
        let guid = Guid(0x10_0000_0000 + 2 * self.hosts);
        let mut node = Node::new(NodeKind::Ca, guid, 1, format!("H{}", self.hosts));
        node.port_mut(port(1)).unwrap().guid = Guid(guid.0 + 1);
        let host = self.builder.add(node);
        self.link_at(host, 1, switch, None);
        host
    }

    /// A host with a port on each of some switches.
    pub fn host_on(&mut self, switches: &[NodeKey]) {
        self.hosts += 1;
        let guid = 0x20_0000_0000 + 16 * self.hosts;
        let ports = u8::try_from(switches.len()).unwrap();
        let host = self
            .builder
            .add(Node::new(NodeKind::Ca, Guid(guid), ports, format!("H{}", self.hosts)));
        for (number, &switch) in (1..).zip(switches) {
            let end = self.builder.node_mut(host).port_mut(port(number)).unwrap();
            end.guid = Guid(guid + u64::from(number));
            self.link_at(host, number, switch, None);
        }
    }

    pub fn describe(&mut self, node: NodeKey, description: &str) {
        self.builder.node_mut(node).description = description.to_owned();
    }

    pub fn link(&mut self, a: NodeKey, b: NodeKey) {
        let pa = self.free(a);
        self.link_at(a, pa, b, None);
    }

    pub fn link_at(&mut self, a: NodeKey, pa: u8, b: NodeKey, pb: Option<u8>) {
        let pb = pb.unwrap_or_else(|| self.free(b));
        self.builder.link((a, port(pa)), (b, port(pb))).unwrap();
        for (node, number) in [(a, pa), (b, pb)] {
            let port = self.builder.node_mut(node).port_mut(port(number)).unwrap();
            port.link.state = PortState::Active;
            port.link.phys = PhysState::LinkUp;
        }
    }

    fn free(&mut self, node: NodeKey) -> u8 {
        let next = self.next_free.entry(node).or_insert(0);
        *next += 1;
        *next
    }

    pub fn finish(self) -> Fabric {
        self.builder.finish().unwrap()
    }
}

/// LIDs 1, 2, 3 … (with an LMC: aligned) in order of nodes.
pub fn number(fabric: &Fabric, lmc: u8) -> Lids {
    let mut lids = Lids::new();
    let mut next = 1_u16;
    for (at, _) in fabric.end_ports() {
        let lmc = Lmc::new(if fabric.node(at.node).is_switch() { 0 } else { lmc }).unwrap();
        let base = Lid(next.next_multiple_of(lmc.lids()));
        lids.insert(at, LidRange { base, lmc }).unwrap();
        next = base.0 + lmc.lids();
    }
    lids
}

/// The k-ary n-tree: n levels of k^(n-1) switches of 2k ports; k^n hosts on the last level.
pub fn karytree(k: usize, n: u32) -> Fabric {
    let mut net = Net::default();
    let width = k.pow(n - 1);
    let radix = u8::try_from(2 * k).unwrap();
    let switches: Vec<NodeKey> = (0..width * n as usize)
        .map(|i| net.switch(0x20_0000 + i as u64, radix))
        .collect();
    let port_of = |i: usize| u8::try_from(i + 1).unwrap();
    for leaf in 0..width {
        for p in 0..k {
            let leaf = switches[(n as usize - 1) * width + leaf];
            net.hosts += 1;
            let host = Node::new(NodeKind::Ca, Guid(0x10_0000_0000 + net.hosts), 1, "h");
            let host = net.builder.add(host);
            net.link_at(host, 1, leaf, Some(port_of(p)));
        }
    }
    for level in 0..n as usize - 1 {
        // The digit that this level's links change.
        let unit = k.pow(n - 2 - u32::try_from(level).unwrap());
        for w in 0..width {
            let digit = w / unit % k;
            for x in 0..k {
                let below = w - digit * unit + x * unit;
                let (a, b) = (switches[level * width + w], switches[(level + 1) * width + below]);
                net.link_at(a, port_of(x), b, Some(port_of(k + digit)));
            }
        }
    }
    net.finish()
}

/// A random multigraph: a ring or a random tree that keeps it connected, then random links; GUIDs shuffled.
pub fn random(seed: Seed) -> Fabric {
    let mut rng = seed.rng();
    let switches = 2 + rng.below(30);
    let mut net = Net::default();
    let mut guids: Vec<u64> = (0..switches).map(|i| 0x0001_0001 * (1 + i)).collect();
    rng.shuffle(&mut guids);
    let keys: Vec<NodeKey> = guids.iter().map(|&g| net.switch(g, 60)).collect();
    let pick = |rng: &mut Rng, count: u64| usize::try_from(rng.below(count)).unwrap();
    for (i, &key) in keys.iter().enumerate().skip(1) {
        let other = keys[pick(&mut rng, i as u64)];
        net.link(key, other);
    }
    for _ in 0..rng.below(2 * switches) {
        let (a, b) = (keys[pick(&mut rng, switches)], keys[pick(&mut rng, switches)]);
        if a != b && net.next_free.get(&a).is_none_or(|p| *p < 40) && net.next_free.get(&b).is_none_or(|p| *p < 40) {
            net.link(a, b);
        }
    }
    for &key in &keys {
        for _ in 0..rng.below(4) {
            net.host(key);
        }
    }
    net.finish()
}

/// A ring of switches with one host each.
pub fn ring(switches: u64) -> Fabric {
    let mut net = Net::default();
    let keys: Vec<NodeKey> = (0..switches).map(|i| net.switch(1 + i, 8)).collect();
    for (i, &key) in keys.iter().enumerate() {
        net.host(key);
        net.link(key, keys[(i + 1) % keys.len()]);
    }
    net.finish()
}

/// The same fabric without the given links.
pub fn without(fabric: &Fabric, lost: impl Fn(usize) -> bool) -> Fabric {
    let mut builder = FabricBuilder::new();
    let keys: Vec<NodeKey> = fabric.nodes().iter().map(|n| builder.add(n.clone())).collect();
    let between_switches = |at: PortRef| fabric.switch_index(at.node).is_some();
    let mut count = 0;
    for link in fabric.links() {
        let removable = between_switches(link.a) && between_switches(link.b);
        count += usize::from(removable);
        if !(removable && lost(count - 1)) {
            let end = |at: PortRef| (keys[at.node.0 as usize], at.port);
            builder.link(end(link.a), end(link.b)).unwrap();
        }
    }
    builder.finish().unwrap()
}

/// Reads what ibnetdiscover prints: nodes, cables, LIDs.
pub fn discover(text: &str) -> (Fabric, Lids) {
    type End = (String, u8);
    let mut builder = FabricBuilder::new();
    let mut keys: BTreeMap<String, NodeKey> = BTreeMap::new();
    let mut cables: Vec<(End, End)> = Vec::new();
    let mut ranges: Vec<(Guid, LidRange)> = Vec::new();
    let mut system = Guid::NONE;
    let mut current = String::new();
    let quoted = |line: &str, n: usize| line.split('"').nth(n).unwrap().to_owned();
    let after = |line: &str, word: &str| -> u16 {
        let rest = line.split(word).nth(1).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    let range = |lid: u16, lmc: u16| LidRange {
        base: Lid(lid),
        lmc: Lmc::new(u8::try_from(lmc).unwrap()).unwrap(),
    };
    for line in text.lines() {
        if let Some(guid) = line.strip_prefix("sysimgguid=") {
            system = guid.parse().unwrap();
        } else if line.starts_with("Switch\t") || line.starts_with("Ca\t") {
            let kind = if line.starts_with('S') {
                NodeKind::Switch
            } else {
                NodeKind::Ca
            };
            let ports = line.split_whitespace().nth(1).unwrap().parse().unwrap();
            current = quoted(line, 1);
            let guid: Guid = current[2..].parse().unwrap();
            let mut node = Node::new(kind, guid, ports, quoted(line, 3));
            node.system_guid = system;
            if kind == NodeKind::Switch {
                ranges.push((guid, range(after(line, " lid "), after(line, " lmc "))));
            }
            keys.insert(current.clone(), builder.add(node));
        } else if let Some(rest) = line.strip_prefix('[') {
            let here: u8 = rest.split(']').next().unwrap().parse().unwrap();
            let node = builder.node_mut(keys[&current]);
            let port = node.port_mut(port(here)).unwrap();
            port.link.state = PortState::Active;
            port.link.phys = PhysState::LinkUp;
            let guid = rest.split_once("](").map(|(_, r)| r.split(')').next().unwrap());
            if let Some(guid) = guid.filter(|_| current.starts_with('H')) {
                port.guid = guid.parse().unwrap();
                ranges.push((port.guid, range(after(line, " lid "), after(line, " lmc "))));
            }
            let there = line
                .split("\"[")
                .nth(1)
                .unwrap()
                .split(']')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            cables.push(((current.clone(), here), (quoted(line, 1), there)));
        }
    }
    for ((a, pa), (b, pb)) in cables {
        builder.link((keys[&a], port(pa)), (keys[&b], port(pb))).unwrap();
    }
    let fabric = builder.finish().unwrap();
    let mut lids = Lids::new();
    for (guid, range) in ranges {
        lids.insert(fabric.find_port(guid).unwrap(), range).unwrap();
    }
    (fabric, lids)
}

/// Reads recorded tables: a line per switch, `GUID` and the entries of LIDs 0, 1, 2 … in hexadecimal.
pub fn recorded(text: &str) -> BTreeMap<Guid, Vec<u8>> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (guid, hex) = line.split_once(' ').unwrap();
            let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            (guid.parse().unwrap(), (0..hex.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

/// The switch a host or switch port is behind.
pub fn switch_of(fabric: &Fabric, at: PortRef) -> Option<SwitchIdx> {
    fabric
        .switch_index(at.node)
        .or_else(|| fabric.switch_index(fabric.peer(at)?.node))
}

/// Follows the tables from a switch to a LID: the switches on the way, or `None` if the packet does not arrive.
pub fn walk(fabric: &Fabric, lids: &Lids, tables: &Tables, from: SwitchIdx, lid: Lid) -> Option<Vec<SwitchIdx>> {
    let owner = lids.owner(lid).unwrap();
    let mut way = vec![from];
    loop {
        let at = *way.last().unwrap();
        let node = fabric.switches()[at];
        let egress = tables.get(at, lid);
        if egress == 0 {
            return (owner.node == node).then_some(way);
        }
        if egress == NO_PATH || way.len() > fabric.switches().len() {
            return None;
        }
        let out = PortRef {
            node,
            port: port(egress),
        };
        assert!(fabric.link_is_up(out), "entry leads to a dead port");
        let next = fabric.peer(out)?;
        match fabric.switch_index(next.node) {
            Some(switch) => way.push(switch),
            None => return (next == owner).then_some(way),
        }
    }
}

/// Hops between all pairs of switches by breadth-first search, `[from][to]`; `usize::MAX` if there is no path.
pub fn distances(fabric: &Fabric) -> Vec<Vec<usize>> {
    let count = fabric.switches().len();
    let mut near = vec![Vec::new(); count];
    for link in fabric.links() {
        if let (Some(a), Some(b)) = (fabric.switch_index(link.a.node), fabric.switch_index(link.b.node)) {
            near[a.0 as usize].push(b.0 as usize);
            near[b.0 as usize].push(a.0 as usize);
        }
    }
    let from = |start: usize| {
        let mut hops = vec![usize::MAX; count];
        hops[start] = 0;
        let mut queue = vec![start];
        let mut head = 0;
        while head < queue.len() {
            let at = queue[head];
            head += 1;
            for &next in &near[at] {
                if hops[next] == usize::MAX {
                    hops[next] = hops[at] + 1;
                    queue.push(next);
                }
            }
        }
        hops
    };
    (0..count).map(from).collect()
}

/// True if there is a credit loop: the channel dependency graph of all sources (hosts and switches) to all LIDs, on one
/// lane, has a cycle. A channel is (switch, egress).
pub fn has_cycle(fabric: &Fabric, lids: &Lids, tables: &Tables) -> bool {
    let mut after: BTreeMap<(u32, u8), std::collections::BTreeSet<(u32, u8)>> = BTreeMap::new();
    for (lid, _) in lids.by_lid() {
        for switch in tables.switch_indices() {
            let Some(way) = walk(fabric, lids, tables, switch, lid) else {
                continue;
            };
            let channels: Vec<_> = way[..way.len() - 1]
                .iter()
                .map(|&s| (s.0, tables.get(s, lid)))
                .collect();
            for pair in channels.windows(2) {
                after.entry(pair[0]).or_default().insert(pair[1]);
            }
        }
    }
    // Removes channels that wait for none, until none is left or only cycles are left.
    loop {
        let waiting: std::collections::BTreeSet<_> = after.keys().copied().collect();
        let before = after.len();
        after.retain(|_, next| {
            next.retain(|n| waiting.contains(n));
            !next.is_empty()
        });
        if after.is_empty() || after.len() == before {
            return !after.is_empty();
        }
    }
}
