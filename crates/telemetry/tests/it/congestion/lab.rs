//! A fabric with tables, and counters of the packet simulator in the form of samples.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_dataplane::{LinkRate, LinkUse, Network, Settings, Simulation, Workload, header};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Engine, Options, Routed};
use selvedge_sim::{Par, Seed};
use selvedge_telemetry::congestion::{Congestion, Load, Pair, Routes, WaitWatch, trace};
use selvedge_telemetry::rates::{Capacity, Growth, PortRates, WaitTick};
use selvedge_telemetry::{End, Group, How, Metric, Sample, SampleKey, Slot, WIDEST};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, LinkWidth, PortNum, Rate};
use selvedge_workload::{Arrivals, Pattern, PatternTraffic};

/// Loads of all ports.
pub type Loads = BTreeMap<End, Load>;

pub struct Lab {
    pub fabric: Fabric,
    pub lids: Lids,
    pub routed: Routed,
    pub settings: Settings,
    /// A port to a host that accepts only as much as a link of one lane carries. To the simulator its link is that
    /// narrow; in the counters it has its full width, and waits for credits for the rest of the time.
    pub slow: Option<End>,
}

impl Lab {
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
        let routed = engine
            .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
            .unwrap();
        let settings = Settings {
            hoq_life: 20,
            switch_life: 20,
            warmup_ns: 100_000,
            duration_ns: 200_000,
            ..Settings::default()
        };
        Self {
            fabric,
            lids,
            routed,
            settings,
            slow: None,
        }
    }

    pub fn routes(&self) -> Routes<'_> {
        Routes {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.routed.tables,
        }
    }

    /// The ports of hosts, as the simulator numbers them.
    pub fn hosts(&self) -> Vec<PortRef> {
        let ends = self.fabric.end_ports().map(|(at, _)| at);
        ends.filter(|at| !self.fabric.node(at.node).is_switch()).collect()
    }

    pub fn ends(&self) -> Vec<End> {
        self.hosts().into_iter().map(|at| self.routes().end(at)).collect()
    }

    pub fn rate(&self, at: PortRef) -> Rate {
        self.fabric.port(at).unwrap().link.rate
    }

    /// Gives the link of a port one lane, at both ends.
    pub fn narrow(&mut self, at: PortRef) {
        for end in [at, self.fabric.peer(at).unwrap()] {
            let port = self.fabric.port(end).unwrap().clone();
            let mut link = port.link;
            link.rate.width = LinkWidth::X1;
            self.fabric.set_port(end, link, port.settings);
        }
    }

    /// The ports by which a packet leaves on its way, the source's first.
    pub fn path(&self, from: PortRef, to: PortRef) -> Vec<PortRef> {
        let lid = self.lids.base(to).unwrap();
        let mut path = vec![from];
        loop {
            let arrived = self.fabric.peer(*path.last().unwrap()).unwrap();
            let Some(switch) = self.fabric.switch_index(arrived.node) else {
                assert_eq!(arrived, to);
                return path;
            };
            let port = PortNum::new(self.routed.tables.get(switch, lid)).unwrap();
            path.push(PortRef {
                node: arrived.node,
                port,
            });
            assert!(path.len() < 64);
        }
    }

    /// The pairs that cross a link, by walking every pair.
    pub fn pairs_by_walking(&self, root: End) -> Vec<Pair> {
        let at = self.routes().port(root).unwrap();
        let mut pairs = Vec::new();
        for from in self.hosts() {
            for to in self.hosts() {
                if from != to && self.path(from, to).contains(&at) {
                    pairs.push(Pair {
                        from: self.routes().end(from),
                        to: self.routes().end(to),
                        lid: self.lids.base(to).unwrap(),
                    });
                }
            }
        }
        pairs.sort_unstable();
        pairs
    }

    /// Uniform or permuted traffic at a share of the hosts' links.
    pub fn run_pattern(&self, pattern: &Pattern, load: f64, seed: u64) -> Loads {
        let mtu = f64::from(self.settings.mtu.bytes());
        let network_rate: LinkRate = self.rate(self.hosts()[0]).into();
        let byte_ps = 1e12 / network_rate.bytes_per_s() * (mtu + f64::from(header::LOCAL)) / mtu;
        let arrivals: Arrivals = if matches!(pattern, Pattern::Shift { .. }) {
            "even"
        } else {
            "bernoulli"
        }
        .parse()
        .unwrap();
        let how = (load, u32::from(self.settings.mtu.bytes()), byte_ps);
        let traffic = PatternTraffic::new((pattern, arrivals), self.hosts().len() as u32, how, Seed(seed)).unwrap();
        self.run(traffic, seed)
    }

    /// Simulates, and returns the loads that the counters of all ports show.
    pub fn run(&self, traffic: impl Workload, seed: u64) -> Loads {
        let sl_to_vl = SlToVl::modulo(self.settings.vls);
        let network = Network {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.routed.tables,
            service_levels: &self.routed.service_levels,
            sl_to_vl: &sl_to_vl,
        };
        let mut simulation = Simulation::new(&network, &self.settings, traffic, Vec::new(), Seed(seed)).unwrap();
        simulation.run_until(self.settings.end());
        simulation.check().unwrap();
        let ports = self.ports_by_name();
        let uses = simulation.link_use();
        uses.iter()
            .map(|used| (ports[&used.port], self.load(ports[&used.port], used)))
            .collect()
    }

    fn ports_by_name(&self) -> BTreeMap<String, End> {
        let links = self.fabric.links().flat_map(|link| [link.a, link.b]);
        links
            .map(|at| (self.fabric.port_name(at), self.routes().end(at)))
            .collect()
    }

    /// The load of a port by its counters, as a sampler reads them.
    fn load(&self, end: End, used: &LinkUse) -> Load {
        let mut rate = self.rate(self.routes().port(end).unwrap());
        let over = Duration::from_nanos(self.settings.duration_ns);
        let mut wait_ns = used.counters.xmit_wait_ns;
        if self.slow == Some(end) {
            let full = Rate {
                width: LinkWidth::X4,
                ..rate
            };
            let sends = used.utilisation * over.as_nanos() as f64;
            let share = f64::from(rate.width.lanes()) / f64::from(full.width.lanes());
            wait_ns += (sends * (1.0 - share)) as u64;
            rate = full;
        }
        let capacity = Capacity::of(rate).unwrap();
        let tick = WaitTick::PortBytes(8);
        let ticks = (wait_ns as f64 * 1_000.0 / capacity.tick_ps(tick)) as u64;
        let (before, after) = samples(end, used.counters.xmit_data, used.counters.xmit_packets, ticks, over);
        let growth = Growth::between(&before, &after, over).unwrap();
        Load::of(&PortRates::new(&growth, Some(capacity), tick)).unwrap()
    }

    pub fn congestion(&self, loads: &Loads) -> Congestion {
        let mut watch = WaitWatch::default();
        loads.iter().for_each(|(end, load)| watch.take(*end, *load));
        trace(&self.routes(), &watch)
    }

    /// What was found instead of the true roots, for the report of a failure.
    pub fn explain(&self, roots: &[End], found: &Congestion, loads: &Loads) -> String {
        let name = |end: &End| {
            let load = loads.get(end).copied().unwrap_or_default();
            let name = self.fabric.link_name_of(self.routes().port(*end).unwrap());
            format!("{name} ({:.2}, waits {:.2})", load.utilisation, load.wait)
        };
        let want: Vec<String> = roots.iter().map(name).collect();
        let got: Vec<String> = found.trees.iter().map(|tree| name(&tree.root)).collect();
        let rest: Vec<String> = found.without_root.iter().map(name).collect();
        format!(
            "want {}; got {}; without root {}",
            want.join(", "),
            got.join(", "),
            rest.join(", ")
        )
    }
}

/// Two samples of a port, one interval apart, between which it sent so much.
pub fn samples(end: End, words: u64, packets: u64, ticks: u64, interval: Duration) -> (Sample, Sample) {
    let group = Group::Extended;
    let mut totals = [7_000_000_000_000; WIDEST];
    let before = Sample {
        key: SampleKey {
            node: end.node,
            port: end.port,
            group,
        },
        class: 0,
        slot: Slot {
            epoch: 0,
            number: 1_000,
        },
        offset_us: 10,
        rtt_us: 5,
        agent: 0,
        how: How::Read,
        totals,
        raw: None,
        known: group.mask(),
        full: 0,
        resets: 0,
    };
    for (metric, grown) in [
        (Metric::XmitData, words),
        (Metric::XmitPackets, packets),
        (Metric::XmitWait, ticks),
    ] {
        totals[group.place(metric).unwrap()] += grown;
    }
    let slot = Slot {
        epoch: 0,
        number: 1_001,
    };
    assert!(interval > Duration::ZERO);
    (before, Sample { slot, totals, ..before })
}
