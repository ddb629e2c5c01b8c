//! Measures the MADs per second of the emulator: a client with a window sends a mix of directed-route Gets and LFT
//! Sets.
//!
//! ```text
//! cargo run -p selvedge-emulator --example blast -- [k=18] [n=3] [window=64] [requests=2000000] [wrappers]
//! ```
//! Prints requests per second and MADs (requests and answers) per second of wall time, client included. Half of the
//! requests are Gets of NodeInfo, PortInfo and SwitchInfo at random nodes, half are Sets of random LFT blocks at random
//! switches. With `wrappers`: 1 % loss, 1 % duplication, 1 % delay, 0.1 % corruption everywhere, and the same once more
//! on the client's own link.

use std::collections::VecDeque;
use std::error::Error;
use std::time::Instant;

use selvedge_emulator::{ClientId, Delivery, Emulator, EmulatorConfig, Fault};
use selvedge_fabric::{Fabric, FabricBuilder, Node, NodeIdx, PortRef};
use selvedge_sim::{Rng, Seed, Time};
use selvedge_types::{Guid, NodeKind, PortNum, TransactionId};
use selvedge_wire::{Address, AttributeId, Datagram, DirectedRoute, Mad, Method};

/// How long the client waits for an answer: far above the longest queue.
const TIMEOUT: Time = Time::from_millis(10);

struct Options {
    k: usize,
    n: u32,
    window: usize,
    requests: u64,
    wrappers: bool,
}

struct Target {
    route: DirectedRoute,
    is_switch: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let fabric = k_ary_n_tree(options.k, options.n)?;
    let mut emulator = Emulator::new(&fabric, EmulatorConfig::default(), Seed(1));
    let home = fabric.find(Guid(0x1000_0000)).ok_or("no host")?;
    let client = emulator.attach(PortRef {
        node: home,
        port: PortNum::new(1).ok_or("no port")?,
    })?;
    if options.wrappers {
        for place in ["", " at 0x10000000[1]"] {
            for what in ["loss 1%", "duplicate 1%", "delay 1% max=1ms", "corrupt 0.1%"] {
                emulator.apply(Time::ZERO, &format!("{what}{place}").parse::<Fault>()?)?;
            }
        }
    }
    let (nodes, switches) = targets(&fabric, home);
    let hops: usize = nodes.iter().map(|t| t.route.ports().len()).sum();
    println!(
        "{} nodes, {} switches, {:.2} hops on average, window {}, wrappers {}",
        nodes.len(),
        switches.len(),
        hops as f64 / nodes.len() as f64,
        options.window,
        if options.wrappers { "on" } else { "off" }
    );
    let start = Instant::now();
    let (answers, timeouts) = Blast::new(&options, client, &nodes, &switches).run(&mut emulator, options.requests);
    let seconds = start.elapsed().as_secs_f64();
    let counts = emulator.counts();
    println!(
        "{} requests answered, {} time-outs, {:.3} s wall, {} virtual, {} Sets accepted",
        answers,
        timeouts,
        seconds,
        emulator.now(),
        counts.sets_accepted(),
    );
    println!(
        "{:.0} requests/s, {:.0} MADs/s (requests and answers)",
        answers as f64 / seconds,
        counts.created() as f64 / seconds
    );
    Ok(())
}

struct Blast<'a> {
    rng: Rng,
    client: ClientId,
    nodes: &'a [Target],
    switches: &'a [Target],
    /// Transaction id and deadline by slot of the window.
    outstanding: Vec<(u64, Time)>,
    sent: u64,
    timeouts: u64,
}

impl<'a> Blast<'a> {
    fn new(options: &Options, client: ClientId, nodes: &'a [Target], switches: &'a [Target]) -> Self {
        Self {
            rng: Seed(2).rng(),
            client,
            nodes,
            switches,
            outstanding: vec![(0, Time::MAX); options.window],
            sent: 0,
            timeouts: 0,
        }
    }

    /// Keeps the window full until so many requests are answered; returns answers and time-outs.
    fn run(mut self, emulator: &mut Emulator, requests: u64) -> (u64, u64) {
        let mut received: Vec<Delivery> = Vec::new();
        let mut answers = 0;
        for slot in 0..self.outstanding.len() {
            self.send(emulator, Time::ZERO, slot);
        }
        while answers < requests {
            received.clear();
            let deadline = self.outstanding.iter().map(|(_, d)| *d).min().unwrap_or(Time::MAX);
            let now = emulator.advance_to_delivery(deadline, &mut received);
            for delivery in &received {
                let tid = delivery.datagram.mad.transaction().0;
                let slot = tid as usize % self.outstanding.len();
                if self.outstanding[slot].0 == tid {
                    answers += 1;
                    self.send(emulator, delivery.at, slot);
                }
            }
            if received.is_empty() {
                self.expire(emulator, now);
            }
        }
        (answers, self.timeouts)
    }

    fn send(&mut self, emulator: &mut Emulator, now: Time, slot: usize) {
        self.sent += 1;
        let window = self.outstanding.len() as u64;
        let tid = self.sent * window + slot as u64;
        let mut mad = if self.sent.is_multiple_of(2) {
            let target = &self.nodes[self.rng.below(self.nodes.len() as u64) as usize];
            let attribute = match self.sent % 6 {
                0 => AttributeId::NODE_INFO,
                2 if target.is_switch => AttributeId::SWITCH_INFO,
                _ => AttributeId::PORT_INFO,
            };
            Mad::directed(Method::Get, attribute, 0, &target.route)
        } else {
            let target = &self.switches[self.rng.below(self.switches.len() as u64) as usize];
            let block = self.rng.below(107) as u32;
            let mut mad = Mad::directed(Method::Set, AttributeId::LINEAR_FORWARDING, block, &target.route);
            mad.set_smp_data(&[7; 64]);
            mad
        };
        mad.set_transaction(TransactionId(tid));
        self.outstanding[slot] = (tid, Time(now.0 + TIMEOUT.0));
        let address = Address::DIRECTED;
        emulator.send(now, self.client, &Datagram { address, mad });
    }

    fn expire(&mut self, emulator: &mut Emulator, now: Time) {
        for slot in 0..self.outstanding.len() {
            if self.outstanding[slot].1 <= now {
                self.timeouts += 1;
                self.send(emulator, now, slot);
            }
        }
    }
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        k: 18,
        n: 3,
        window: 64,
        requests: 2_000_000,
        wrappers: false,
    };
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            Some(("k", v)) => options.k = v.parse()?,
            Some(("n", v)) => options.n = v.parse()?,
            Some(("window", v)) => options.window = v.parse()?,
            Some(("requests", v)) => options.requests = v.parse()?,
            None if word == "wrappers" => options.wrappers = true,
            _ => return Err(format!("'{word}': want k=, n=, window=, requests= or wrappers").into()),
        }
    }
    Ok(options)
}

/// Shortest directed routes from `home` to every node, and those to the switches once more.
fn targets(fabric: &Fabric, home: NodeIdx) -> (Vec<Target>, Vec<Target>) {
    let mut routes: Vec<Option<DirectedRoute>> = vec![None; fabric.nodes().len()];
    let mut queue = VecDeque::from([home]);
    routes[home.0 as usize] = Some(DirectedRoute::LOCAL);
    while let Some(at) = queue.pop_front() {
        let Some(route) = routes[at.0 as usize] else { continue };
        if at != home && !fabric.node(at).is_switch() {
            continue;
        }
        for (num, port) in fabric.node(at).external_ports() {
            let Some(peer) = port.peer else { continue };
            if routes[peer.node.0 as usize].is_none() {
                routes[peer.node.0 as usize] = route.then(num);
                queue.push_back(peer.node);
            }
        }
    }
    let target = |(idx, node): (NodeIdx, &Node)| {
        Some(Target {
            route: routes[idx.0 as usize]?,
            is_switch: node.is_switch(),
        })
    };
    let nodes = fabric.nodes().iter_enumerated().filter_map(target).collect();
    let switches = fabric.nodes().iter_enumerated().filter(|(_, n)| n.is_switch());
    (nodes, switches.filter_map(target).collect())
}

/// k-ary n-tree: `k^n` hosts, `n · k^(n-1)` switches; level `n - 1` is next to the hosts.
fn k_ary_n_tree(k: usize, n: u32) -> Result<Fabric, Box<dyn Error>> {
    let port = |num: usize| PortNum::new(num as u8 + 1).ok_or("k is too large");
    let words = k.pow(n - 1);
    let mut builder = FabricBuilder::new();
    let mut levels = Vec::new();
    for level in 0..n as usize {
        let switch = |word: usize| {
            let guid = Guid(0x100 + (level * words + word) as u64);
            Node::new(NodeKind::Switch, guid, 2 * k as u8, format!("S{level}-{word}"))
        };
        levels.push((0..words).map(|w| builder.add(switch(w))).collect::<Vec<_>>());
    }
    // A switch and one a level below it differ at most in the digit of the upper one's level.
    for level in 0..n as usize - 1 {
        let weight = k.pow(n - 2 - level as u32);
        for word in 0..words {
            let digit = word / weight % k;
            for other in 0..k {
                let below = word - digit * weight + other * weight;
                builder.link(
                    (levels[level][word], port(other)?),
                    (levels[level + 1][below], port(k + digit)?),
                )?;
            }
        }
    }
    for host in 0..k * words {
        let node = Node::new(NodeKind::Ca, Guid(0x1000_0000 + host as u64), 1, format!("H{host}"));
        let key = builder.add(node);
        builder.link((key, port(0)?), (levels[n as usize - 1][host / k], port(host % k)?))?;
    }
    Ok(builder.finish()?)
}
