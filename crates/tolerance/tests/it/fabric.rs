//! The same carriers on a routed fabric of the packet simulator: dual-port hosts, and a cable cut under traffic.

use selvedge_dataplane::{Change, Network as Tables, Settings, Simulation};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_hca::{Adapters, AhAttr, Context, Hca, HcaConfig, Notice, PS_PER_US, Path, Ps};
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_tolerance::{
    Apm, Carrier, Failover, FailoverSettings, Network, Striping, StripingSettings, ToleranceError,
};
use selvedge_topology::Spec;
use selvedge_types::{Guid, Lid, LidRange, Lmc};

use crate::duo::MS;

/// Adapters on a fabric, and what they have announced: host, context, time.
struct World {
    simulation: Simulation<Adapters>,
    /// By host: its ports.
    ports: Vec<Vec<(PortRef, Lid)>>,
    announced: Vec<(usize, Context, Ps)>,
}

impl World {
    /// Nine hosts with two ports each on different leaf switches.
    fn new() -> Self {
        let Ok(Spec::Generated(recipe)) = "karytree:k=3,n=2,ports-per-host=2".parse() else {
            panic!("no generator")
        };
        let fabric: Fabric = recipe.fabric().unwrap();
        let mut lids = Lids::new();
        for (number, (at, _)) in (1..).zip(fabric.end_ports()) {
            let range = LidRange {
                base: Lid(number),
                lmc: Lmc::ZERO,
            };
            lids.insert(at, range).unwrap();
        }
        let routed = Engine::UpDn.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
        let tables = routed.unwrap().tables;
        let network = Tables {
            fabric: &fabric,
            lids: &lids,
            tables: &tables,
            service_levels: &ServiceLevels::default(),
            sl_to_vl: &SlToVl::modulo(1),
        };
        let config = HcaConfig {
            notices: true,
            ..HcaConfig::new(Guid(1 << 32), 1)
        };
        let adapters = Adapters::new(config).unwrap();
        let simulation = Simulation::of_endpoint(&network, &Settings::default(), adapters).unwrap();
        let mut ports = vec![Vec::new(); simulation.endpoint().len()];
        for (end, info) in (0..).zip(simulation.subnet().end_ports()) {
            let (host, _) = simulation.endpoint().of_end_port(end).unwrap();
            ports[host as usize].push((info.at, info.lid));
        }
        Self {
            simulation,
            ports,
            announced: Vec::new(),
        }
    }

    /// Takes what has become visible.
    fn gather(&mut self) {
        let (adapters, subnet) = self.simulation.parts_mut();
        while let Some((host, notice)) = adapters.take_notice(subnet.now()) {
            if let Notice::Async(at, context) = notice {
                self.announced.push((host as usize, context, at));
            }
        }
    }
}

impl Network for World {
    fn now(&self) -> Ps {
        self.simulation.subnet().now()
    }

    fn act(&mut self, host: usize, call: &mut dyn FnMut(&mut Hca)) {
        let (adapters, subnet) = self.simulation.parts_mut();
        adapters.act(subnet, host as u32, |hca, _| call(hca)).unwrap();
    }

    fn path(&self, _from: usize, to: usize, port: u8, timeout: u8) -> Path {
        Path {
            port,
            ah: AhAttr::lid(self.ports[to][usize::from(port) - 1].1),
            pkey_index: 0,
            timeout,
        }
    }

    fn take_announced(&mut self, host: usize, context: Context) -> Vec<Ps> {
        let mine = |(at, of, _): &mut (usize, Context, Ps)| (*at, *of) == (host, context);
        self.announced.extract_if(.., mine).map(|(.., at)| at).collect()
    }
}

/// Sends messages over each carrier, and runs until all have arrived or a carrier has failed.
fn carry(world: &mut World, carriers: &mut [Box<dyn Carrier>], messages: u64) {
    let begin = world.now();
    let every = 20 * PS_PER_US;
    let mut sent = 0;
    loop {
        world.gather();
        for carrier in carriers.iter_mut() {
            carrier.progress(world).unwrap();
        }
        while sent < messages && begin + sent * every <= world.now() {
            sent += 1;
            for carrier in carriers.iter_mut() {
                carrier.send(world, 8_000).unwrap();
            }
        }
        let is_over =
            |carrier: &dyn Carrier| carrier.delivered().len() as u64 == messages || carrier.failure().is_some();
        if carriers.iter().all(|carrier| is_over(carrier.as_ref())) {
            return;
        }
        let send = (sent < messages).then_some(begin + sent * every);
        let wakes = carriers.iter().filter_map(|carrier| carrier.next_wake());
        let until = wakes.chain(send).min().unwrap_or(world.now() + 10 * MS);
        assert!(world.now() < begin + 10_000 * MS, "no end");
        let until = until.max(world.now() + 1);
        Adapters::run_to_notice(&mut world.simulation, until);
    }
}

fn failover() -> FailoverSettings {
    FailoverSettings {
        timeout: 6,
        retry_cnt: 2,
        ..FailoverSettings::default()
    }
}

fn striping() -> StripingSettings {
    StripingSettings {
        timeout: 6,
        retry_cnt: 2,
        resend_ps: 2 * MS,
        ..StripingSettings::default()
    }
}

#[test]
fn a_cable_cut_on_a_fabric_loses_no_message_of_any_carrier() {
    for port in [0, 1] {
        let mut world = World::new();
        let mut carriers: Vec<Box<dyn Carrier>> = vec![
            Box::new(Apm::new(&mut world, [0, 8], 6, 2).unwrap()),
            Box::new(Apm::new(&mut world, [5, 0], 6, 2).unwrap()),
            Box::new(Failover::new(&mut world, [0, 7], failover()).unwrap()),
            Box::new(Striping::new(&mut world, [0, 4], striping()).unwrap()),
        ];
        let cut = world.now() + MS;
        let at = world.ports[0][port].0;
        world.simulation.apply_at(cut, Change::Cut(at));
        carry(&mut world, &mut carriers, 150);
        for (number, carrier) in carriers.iter().enumerate() {
            assert_eq!(
                carrier.failure(),
                None::<&ToleranceError>,
                "port {port}, carrier {number}"
            );
            let got: Vec<u64> = carrier.delivered().iter().map(|(message, _)| *message).collect();
            assert_eq!(got, (0..150).collect::<Vec<_>>(), "port {port}, carrier {number}");
        }
        // Both rivals use both ports, so the cut has hit them, and software had to repeat.
        let repeated: Vec<u64> = carriers.iter().map(|carrier| carrier.repeated()).collect();
        assert!(repeated[2] > 0 && repeated[3] > 0, "port {port}: {repeated:?}");
    }
}
