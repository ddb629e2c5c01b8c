//! The same carriers on a routed fabric of the packet simulator: dual-port hosts, and a cable cut under traffic.

use selvedge_dataplane::{Change, Network as Tables, Settings, Simulation};
use selvedge_fabric::{Fabric, PortRef};
use selvedge_hca::{Adapters, AhAttr, HcaConfig, PS_PER_US, Path, Ps, VerbsError};
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_tolerance::{
    Apm, Carrier, Cluster, Ends, Failover, FailoverSettings, Program, Striping, StripingSettings, ToleranceError, Way,
};
use selvedge_topology::Spec;
use selvedge_types::{Guid, Lid, LidRange};

use crate::duo::MS;

/// Nine hosts with two ports each on different leaf switches, and the ports of each with their LIDs.
struct World {
    cluster: Cluster,
    ports: Vec<Vec<(PortRef, Lid)>>,
}

impl World {
    fn new() -> Self {
        let Ok(Spec::Generated(recipe)) = "karytree:k=3,n=2,ports-per-host=2".parse() else {
            panic!("no generator")
        };
        let fabric: Fabric = recipe.fabric().unwrap();
        let mut lids = Lids::new();
        for (number, (at, _)) in (1..).zip(fabric.end_ports()) {
            lids.insert(at, LidRange::single(Lid(number))).unwrap();
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
            cluster: Cluster::new(simulation),
            ports,
        }
    }

    /// The ways from host to host: port 1 with port 1, port 2 with port 2.
    fn ways(&self, hosts: [usize; 2]) -> Vec<Way> {
        let path = |to: usize, port: u8| Path {
            port,
            ah: AhAttr::lid(self.ports[to][usize::from(port) - 1].1),
            pkey_index: 0,
            timeout: 6,
        };
        [1, 2].map(|port| [path(hosts[1], port), path(hosts[0], port)]).to_vec()
    }
}

/// A message over each carrier, every 20 µs.
struct Messages<'a> {
    carriers: &'a mut [Box<dyn Carrier>],
    got: Vec<Vec<(u64, Ps)>>,
    begin: Ps,
    sent: u64,
}

const MESSAGES: u64 = 150;
const EVERY: Ps = 20 * PS_PER_US;

impl Program for Messages<'_> {
    fn run(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError> {
        for (carrier, got) in self.carriers.iter_mut().zip(&mut self.got) {
            carrier.progress(cluster)?;
            carrier.take_delivered(got);
        }
        while self.sent < MESSAGES && self.begin + self.sent * EVERY <= cluster.now() {
            self.sent += 1;
            for carrier in self.carriers.iter_mut() {
                carrier.send(cluster, 8_000)?;
            }
        }
        Ok(())
    }

    fn next_wake(&self) -> Option<Ps> {
        let send = (self.sent < MESSAGES).then_some(self.begin + self.sent * EVERY);
        let wakes = self.carriers.iter().filter_map(|carrier| carrier.next_wake());
        wakes.chain(send).min()
    }

    fn is_over(&self) -> bool {
        self.got.iter().all(|got| got.len() as u64 == MESSAGES)
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
        let ways = |to: [usize; 2]| world.ways(to);
        let ways = [ways([0, 8]), ways([5, 0]), ways([0, 7]), ways([0, 4])];
        let on = &mut world.cluster;
        let ends = [[0, 8], [5, 0], [0, 7], [0, 4]].map(|hosts| Ends::open(on, hosts).unwrap());
        let mut carriers: Vec<Box<dyn Carrier>> = vec![
            Box::new(Apm::new(on, ends[0], &ways[0], 6, 2).unwrap()),
            Box::new(Apm::new(on, ends[1], &ways[1], 6, 2).unwrap()),
            Box::new(Failover::new(on, ends[2], &ways[2], failover()).unwrap()),
            Box::new(Striping::new(on, ends[3], &ways[3], striping()).unwrap()),
        ];
        let begin = on.now();
        let mut messages = Messages {
            got: vec![Vec::new(); carriers.len()],
            carriers: &mut carriers,
            begin,
            sent: 0,
        };
        on.drive(&mut messages, begin + MS).unwrap();
        on.apply(Change::Cut(world.ports[0][port].0));
        world.cluster.drive(&mut messages, begin + 10_000 * MS).unwrap();
        let got = messages.got;
        for (number, carrier) in carriers.iter().enumerate() {
            assert_eq!(
                carrier.failure(),
                None::<&ToleranceError>,
                "port {port}, carrier {number}"
            );
            let got: Vec<u64> = got[number].iter().map(|(message, _)| *message).collect();
            assert_eq!(got, (0..MESSAGES).collect::<Vec<_>>(), "port {port}, carrier {number}");
        }
        // Both rivals use both ports, so the cut has hit them, and software had to repeat.
        let repeated: Vec<u64> = carriers.iter().map(|carrier| carrier.repeated()).collect();
        assert!(repeated[2] > 0 && repeated[3] > 0, "port {port}: {repeated:?}");
    }
}
