//! Helpers for these tests: fabrics, routes and traffic. Only this file calls the simulator.

use selvedge_dataplane::{
    EventLog, Host, Message, Network, Ps, Results, Settings, Simulation, Timed, Workload, header,
};
use selvedge_fabric::{Fabric, NodeIdx, Port, PortRef};
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Engine, Options, Routed};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, PortNum};
use selvedge_workload::{Arrivals, Pattern, PatternTraffic};

/// A fabric with tables.
pub struct Lab {
    pub fabric: Fabric,
    pub lids: Lids,
    pub routed: Routed,
    pub settings: Settings,
    pub changes: Vec<Timed>,
}

/// Results, and values that the results do not contain.
pub struct Found {
    pub results: Results,
    /// Payload bytes that each host received during the measurement.
    pub received: Vec<u64>,
    /// Payload bytes of each host that were delivered during the measurement.
    pub accepted: Vec<u64>,
    /// When the watched port began to send packets.
    pub seen: Vec<Ps>,
}

impl Lab {
    /// A fabric of `--fabric`, routed by an engine of `--engine`; infinite lifetimes.
    pub fn new(spec: &str, engine: &str) -> Self {
        let Spec::Generated(recipe) = spec.parse().unwrap() else {
            panic!("{spec} is no generator")
        };
        let fabric = recipe.fabric().unwrap();
        let mut lids = Lids::new();
        for (lid, (at, _)) in (1..).zip(fabric.end_ports()) {
            lids.insert(at, LidRange::single(Lid(lid))).unwrap();
        }
        let engine: Engine = engine.parse().unwrap();
        let routed = engine.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
        let mut settings = Settings::default();
        (settings.hoq_life, settings.switch_life) = (20, 20);
        Self {
            fabric,
            lids,
            routed: routed.unwrap(),
            settings,
            changes: Vec::new(),
        }
    }

    /// With settings changed.
    pub fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// The port of a host, by its number.
    pub fn host(&self, host: usize) -> Option<PortRef> {
        let hosts = self.fabric.end_ports().map(|(at, _)| at);
        hosts.filter(|at| !self.fabric.node(at.node).is_switch()).nth(host)
    }

    /// The switch of a host, and its port there.
    pub fn leaf_of(&self, host: usize) -> (NodeIdx, u8) {
        let peer = self.fabric.peer(self.host(host).unwrap()).unwrap();
        (peer.node, peer.port.get())
    }

    /// Ports of a switch that lead to other switches.
    pub fn ups(&self, switch: NodeIdx) -> Vec<u8> {
        let ports = self.fabric.node(switch).external_ports();
        let leads_up = |port: &Port| port.peer.is_some_and(|peer| self.fabric.node(peer.node).is_switch());
        ports
            .filter(|(_, port)| leads_up(port))
            .map(|(num, _)| num.get())
            .collect()
    }

    /// Returns a port by node and number.
    pub fn at(&self, node: NodeIdx, num: u8) -> PortRef {
        let port = PortNum::new(num).unwrap();
        PortRef { node, port }
    }

    /// Runs a pattern at a pace, with seed 1.
    pub fn run(&self, pattern: &str, arrivals: &str, load: f64) -> Found {
        self.run_seed(pattern, arrivals, load, 1)
    }

    /// Runs a pattern at a pace, with this seed.
    pub fn run_seed(&self, pattern: &str, arrivals: &str, load: f64, seed: u64) -> Found {
        let pattern: Pattern = pattern.parse().unwrap();
        let arrivals: Arrivals = arrivals.parse().unwrap();
        let mtu = f64::from(self.settings.mtu.bytes());
        let sl_to_vl = SlToVl::modulo(self.settings.vls);
        let network = self.network(&sl_to_vl);
        let link = self.settings.link.unwrap_or_else(|| network.host_link());
        let byte_ps = 1e12 / link.bytes_per_s() * (mtu + f64::from(header::LOCAL)) / mtu;
        let how = (load, u32::from(self.settings.mtu.bytes()), byte_ps);
        let traffic = PatternTraffic::new((&pattern, arrivals), network.host_count(), how, Seed(seed)).unwrap();
        self.run_traffic(traffic, None)
    }

    /// Runs any traffic; departures at a port are recorded.
    pub fn run_traffic(&self, traffic: impl Workload, watch: Option<PortRef>) -> Found {
        let sl_to_vl = SlToVl::modulo(self.settings.vls);
        let network = self.network(&sl_to_vl);
        let mut simulation = Simulation::new(&network, &self.settings, traffic, self.changes.clone(), Seed(1)).unwrap();
        if let Some(port) = watch {
            simulation.watch(port);
        }
        for step in 1..=10 {
            simulation.run_until(self.settings.end() / 10 * step);
            simulation.check().unwrap();
        }
        simulation.run_until(self.settings.end());
        Found {
            received: simulation.received_bytes().to_vec(),
            accepted: simulation.accepted_bytes().to_vec(),
            seen: simulation.departures().to_vec(),
            results: simulation.finish(),
        }
    }

    /// Returns the first events of a simulation, at most this number.
    pub fn events(&self, traffic: impl Workload, most: usize) -> EventLog {
        let sl_to_vl = SlToVl::modulo(self.settings.vls);
        let network = self.network(&sl_to_vl);
        let mut simulation = Simulation::new(&network, &self.settings, traffic, Vec::new(), Seed(1)).unwrap();
        simulation.note_events(most);
        simulation.run_until(self.settings.end());
        simulation.noted_events().unwrap().clone()
    }

    fn network<'a>(&'a self, sl_to_vl: &'a SlToVl) -> Network<'a> {
        Network {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.routed.tables,
            service_levels: &self.routed.service_levels,
            sl_to_vl,
        }
    }
}

/// Flows with packets always waiting: (from, to, service level). If a host has several flows, each message belongs to a
/// random one.
pub struct Flows {
    flows: Vec<(Host, Host, u8)>,
    posted: Vec<Ps>,
    bytes: u32,
    rng: Rng,
}

impl Flows {
    pub fn new(flows: &[(Host, Host, u8)], bytes: u32) -> Self {
        let hosts = flows.iter().map(|&(from, ..)| from as usize + 1).max().unwrap();
        Self {
            flows: flows.to_vec(),
            posted: vec![0; hosts],
            bytes,
            rng: Seed(5).rng(),
        }
    }
}

impl Workload for Flows {
    fn next(&mut self, host: Host, _now: Ps) -> Option<Message> {
        let own: Vec<_> = self.flows.iter().filter(|&&(from, ..)| from == host).collect();
        let drawn = self.rng.below(own.len().max(1) as u64) as usize;
        let &&(_, to, sl) = own.get(drawn)?;
        // Faster than any link, so that there is always something to send.
        let at = self.posted.get_mut(host as usize)?;
        *at += Ps::from(self.bytes) * 2;
        Some(Message {
            at: *at,
            to,
            bytes: self.bytes,
            tag: 0,
            sl: Some(sl),
        })
    }
}

/// Fails unless `found` is within a share of `want`.
#[track_caller]
pub fn near(found: f64, want: f64, tolerance: f64, what: &str) {
    assert!(
        (found - want).abs() <= tolerance * want,
        "{what}: {found} is not {want}"
    );
}
