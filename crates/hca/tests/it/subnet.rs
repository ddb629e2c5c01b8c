//! Adapters on a routed fabric of the packet simulator: dual-port hosts, every single cable cut under traffic.

use std::collections::BTreeSet;

use selvedge_dataplane::{Change, Network, Settings, Simulation};
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_hca::{
    Access, Adapters, Ah, AhAttr, AttrMask as M, Context, Cq, Datagram, EventType, Gid, HcaConfig, MULTICAST_QP,
    Notice, PS_PER_US, Path, PathState, Pd, Ps, Qp, QpAttr, QpInit, QpState, RecvWr, SendOp, SendWr, Sge, Transport,
    Wc, WcStatus, masks,
};
use selvedge_plan::multicast::PortMask;
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Guid, Lid, LidRange, Lmc, Mtu, PortNum};

/// 9 hosts with two ports on different leaf switches, 3 leaf switches, 3 above.
const DUAL: &str = "karytree:k=3,n=2,ports-per-host=2";
const MESSAGES: u64 = 60;
const BYTES: u32 = 8_192;

struct Lab {
    fabric: Fabric,
    lids: Lids,
    tables: Tables,
}

impl Lab {
    fn new(spec: &str) -> Self {
        let Spec::Generated(recipe) = spec.parse().unwrap() else {
            panic!("{spec} is no generator")
        };
        let fabric = recipe.fabric().unwrap();
        let mut lids = Lids::new();
        for (number, (at, _)) in (1..).zip(fabric.end_ports()) {
            let range = LidRange {
                base: Lid(number),
                lmc: Lmc::ZERO,
            };
            lids.insert(at, range).unwrap();
        }
        let options = Options::default();
        let routed = Engine::UpDn.route(&fabric, &lids, &options, Seed(0), Par::Sequential);
        let tables = routed.unwrap().tables;
        Self { fabric, lids, tables }
    }

    fn start(&self, config: HcaConfig) -> Simulation<Adapters> {
        let network = Network {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.tables,
            service_levels: &ServiceLevels::default(),
            sl_to_vl: &SlToVl::modulo(1),
        };
        Simulation::of_endpoint(&network, &Settings::default(), Adapters::new(config).unwrap()).unwrap()
    }

    /// The cables on the way from a port to a LID, each by its lower end.
    fn way(&self, from: PortRef, to: PortRef) -> BTreeSet<PortRef> {
        let lid = self.lids.base(to).unwrap();
        let mut way = BTreeSet::new();
        let mut at = from;
        loop {
            let peer = self.fabric.peer(at).unwrap();
            way.insert(at.min(peer));
            if peer == to {
                return way;
            }
            let switch = self.fabric.switch_index(peer.node).unwrap();
            let port = PortNum::new(self.tables.get(switch, lid)).unwrap();
            at = PortRef { node: peer.node, port };
        }
    }
}

/// A program on one adapter: one connection, which sends and receives.
struct Program {
    context: Context,
    pd: Pd,
    cq: Cq,
    qp: Qp,
    number: u32,
    lkey: u32,
    ports: [PortRef; 2],
    done: Vec<Wc>,
    events: Vec<EventType>,
}

struct World<'a> {
    lab: &'a Lab,
    simulation: Simulation<Adapters>,
    programs: Vec<Program>,
}

impl<'a> World<'a> {
    /// A ring of connections: each host with the next one by their first ports, and the second ones as alternate path.
    fn new(lab: &'a Lab, apm: bool) -> Self {
        let mut config = HcaConfig::new(Guid(1 << 32), 1);
        (config.notices, config.context_cache) = (true, 1);
        let simulation = lab.start(config);
        let mut world = Self {
            lab,
            simulation,
            programs: Vec::new(),
        };
        let hosts = world.simulation.endpoint().len() as u32;
        for host in 0..hosts {
            let program = world.open(host);
            world.programs.push(program);
        }
        for host in 0..hosts {
            world.connect(host, host ^ 1, apm);
        }
        world
    }

    fn open(&mut self, host: u32) -> Program {
        let ends = self.simulation.subnet().end_ports();
        let node = (0..ends.len() as u32).find(|&end| self.simulation.endpoint().of_end_port(end).unwrap().0 == host);
        let node = ends[node.unwrap() as usize].at.node;
        let ports = [1, 2].map(|port| PortRef {
            node,
            port: PortNum::new(port).unwrap(),
        });
        let (adapters, subnet) = self.simulation.parts_mut();
        let program = adapters.act(subnet, host, |hca, now| {
            let context = hca.open().unwrap();
            let pd = hca.alloc_pd(context).unwrap();
            let cq = hca.create_cq(context, 10_000, None).unwrap();
            let mr = hca.reg_mr(pd, 0, 1 << 30, Access::ALL).unwrap();
            let init = QpInit {
                transport: Transport::Rc,
                send_cq: cq,
                recv_cq: cq,
                srq: None,
                cap: Default::default(),
                sq_sig_all: true,
            };
            let qp = hca.create_qp(pd, &init).unwrap();
            let lkey = hca.query_mr(mr).unwrap().lkey;
            assert_eq!(now, 0);
            Program {
                context,
                pd,
                cq,
                qp,
                number: hca.qp_num(qp).unwrap(),
                lkey,
                ports,
                done: Vec::new(),
                events: Vec::new(),
            }
        });
        program.unwrap()
    }

    fn path(&self, to: u32, port: u8) -> Path {
        let lid = self
            .lab
            .lids
            .base(self.programs[to as usize].ports[usize::from(port) - 1])
            .unwrap();
        Path {
            port,
            ah: AhAttr::lid(lid),
            pkey_index: 0,
            timeout: 6,
        }
    }

    fn connect(&mut self, host: u32, peer: u32, apm: bool) {
        // The last host of an odd number has no partner.
        let peer = peer.min(self.programs.len() as u32 - 1);
        let attr = QpAttr {
            access: Access::ALL,
            path_mtu: Mtu::B2048,
            dest_qp_num: self.programs[peer as usize].number,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            min_rnr_timer: 1,
            retry_cnt: 2,
            rnr_retry: 7,
            primary: self.path(peer, 1),
            alternate: self.path(peer, 2),
            path_mig_state: PathState::Rearm,
            ..QpAttr::default()
        };
        let Program { qp, lkey, pd, .. } = self.programs[host as usize];
        let (adapters, subnet) = self.simulation.parts_mut();
        let end = adapters.act(subnet, host, |hca, mut now| {
            let steps = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
            for pair in steps.windows(2) {
                let mut mask = masks(Transport::Rc, pair[0], pair[1]).unwrap().required.with(M::STATE);
                if apm && pair[1] == QpState::Rts {
                    mask = mask.with(M::ALT_PATH).with(M::PATH_MIG_STATE);
                }
                now = hca
                    .modify_qp(now, qp, &QpAttr { state: pair[1], ..attr }, mask)
                    .unwrap();
            }
            let sge = Sge {
                addr: 0,
                bytes: BYTES,
                lkey,
            };
            for wr_id in 0..MESSAGES {
                hca.post_recv(now, qp, &RecvWr { wr_id, sge }).unwrap();
            }
            assert!(hca.dealloc_pd(pd).is_err(), "in use");
            now
        });
        assert!(end.unwrap() > 30 * PS_PER_US, "three commands");
    }

    /// Runs until a time; programs fetch what they are told of.
    fn run(&mut self, until: Ps) {
        while let Some(now) = Adapters::run_to_notice(&mut self.simulation, until) {
            let (adapters, subnet) = self.simulation.parts_mut();
            while let Some((host, notice)) = adapters.take_notice(now) {
                let Some(program) = self.programs.get_mut(host as usize) else {
                    continue;
                };
                let context = program.context;
                adapters.act(subnet, host, |hca, now| match notice {
                    Notice::Completion(_, cq) => {
                        hca.poll_cq(now, cq, 100, &mut program.done).unwrap();
                    }
                    Notice::Async(..) => {
                        while let Some(event) = hca.get_async_event(now, context).unwrap() {
                            hca.ack_async_event(&event);
                            program.events.push(event.kind);
                        }
                    }
                    Notice::Channel(..) => {}
                });
            }
        }
    }

    fn post_all(&mut self) {
        for host in 0..self.programs.len() as u32 & !1 {
            let Program { qp, lkey, .. } = self.programs[host as usize];
            let (adapters, subnet) = self.simulation.parts_mut();
            adapters.act(subnet, host, |hca, now| {
                for wr_id in 0..MESSAGES {
                    let sge = Sge {
                        addr: 0,
                        bytes: BYTES,
                        lkey,
                    };
                    let wr = SendWr {
                        tag: wr_id,
                        ..SendWr::send(wr_id, sge)
                    };
                    hca.post_send(now, qp, &wr).unwrap();
                }
            });
        }
    }

    /// All messages of all pairs in both directions, with one cable cut in the middle. Returns hosts with errors.
    fn with_cut(&mut self, cut: PortRef) -> Vec<u32> {
        self.run(100 * PS_PER_US);
        self.post_all();
        self.run(110 * PS_PER_US);
        self.simulation.apply(Change::Cut(cut));
        self.run(20_000 * PS_PER_US);
        let account = self.simulation.account();
        assert!(account.balances(), "{account:?}");
        (0..self.programs.len() as u32)
            .filter(|&host| self.state(host) == QpState::Err)
            .collect()
    }

    fn state(&self, host: u32) -> QpState {
        let program = &self.programs[host as usize];
        self.simulation
            .endpoint()
            .hca(host)
            .unwrap()
            .query_qp(program.qp)
            .unwrap()
            .state
    }

    fn port_in_use(&self, host: u32) -> u8 {
        let program = &self.programs[host as usize];
        self.simulation
            .endpoint()
            .hca(host)
            .unwrap()
            .query_qp(program.qp)
            .unwrap()
            .primary
            .port
    }

    fn ways(&self, host: u32, port: usize) -> BTreeSet<PortRef> {
        let [a, b] = [host, host ^ 1].map(|host| self.programs[host as usize].ports[port]);
        let mut both = self.lab.way(a, b);
        both.append(&mut self.lab.way(b, a));
        both
    }

    fn assert_whole(&self, host: u32) {
        let program = &self.programs[host as usize];
        let all: Vec<u64> = (0..MESSAGES).collect();
        let of = |receives: bool| {
            let done = program
                .done
                .iter()
                .filter(|wc| (wc.opcode == selvedge_hca::WcOpcode::Recv) == receives);
            done.map(|wc| (wc.status == WcStatus::Success).then_some(wc.wr_id).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!((of(false), of(true)), (all.clone(), all), "{host}");
    }
}

#[test]
fn every_single_cable_is_survived_with_an_alternate_path_unless_both_paths_use_it() {
    let lab = Lab::new(DUAL);
    let (mut migrated, mut shared, mut errors_without) = (0, 0, 0);
    let cables: Vec<PortRef> = lab.fabric.links().map(|link| link.a.min(link.b)).collect();
    for cut in cables {
        let mut world = World::new(&lab, true);
        let errors = world.with_cut(cut);
        for host in 0..world.programs.len() as u32 & !1 {
            let uses = [0, 1].map(|port| world.ways(host, port).contains(&cut));
            if uses == [true, true] {
                shared += 1;
                continue;
            }
            assert!(!errors.contains(&host), "{cut:?} {host}");
            world.assert_whole(host);
            let events = &world.programs[host as usize].events;
            let count = events.iter().filter(|kind| **kind == EventType::PathMig).count();
            assert_eq!(count, usize::from(uses[0]), "{cut:?} {host}: {events:?}");
            assert_eq!(world.port_in_use(host), 1 + u8::from(uses[0]), "{cut:?} {host}");
            migrated += count;
        }
        errors_without += World::new(&lab, false).with_cut(cut).len();
    }
    println!("{migrated} migrations, {shared} ends with both paths on the cut cable, {errors_without} errors without");
    assert!(migrated >= 16 && errors_without >= 16);
}

#[test]
fn two_runs_are_equal() {
    let lab = Lab::new(DUAL);
    let run = || {
        let mut world = World::new(&lab, true);
        let cut = world.programs[0].ports[0];
        world.with_cut(cut);
        let done: Vec<Wc> = world.programs.iter().flat_map(|program| program.done.clone()).collect();
        (world.simulation.events(), done)
    };
    assert_eq!(run(), run());
    let world = World::new(&lab, true);
    assert_eq!(world.programs.len(), 9);
    assert!(
        world.programs.iter().all(|program| program.cq == world.programs[0].cq),
        "each adapter counts from 0"
    );
}

/// A datagram queue pair of a host, with receives, which is a member of the group if `joins`.
fn datagrams(simulation: &mut Simulation<Adapters>, host: u32, joins: bool) -> (Qp, Cq, Ah) {
    let (adapters, subnet) = simulation.parts_mut();
    let made = adapters.act(subnet, host, |hca, mut now| {
        let context = hca.open().unwrap();
        let pd = hca.alloc_pd(context).unwrap();
        let cq = hca.create_cq(context, 100, None).unwrap();
        let init = QpInit {
            transport: Transport::Ud,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            cap: Default::default(),
            sq_sig_all: true,
        };
        let qp = hca.create_qp(pd, &init).unwrap();
        let mr = hca.reg_mr(pd, 0, 1 << 20, Access::LOCAL_WRITE).unwrap();
        let attr = QpAttr {
            qkey: 5,
            ..QpAttr::default()
        };
        let steps = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts];
        for pair in steps.windows(2) {
            let mask = masks(Transport::Ud, pair[0], pair[1]).unwrap().required.with(M::STATE);
            now = hca
                .modify_qp(now, qp, &QpAttr { state: pair[1], ..attr }, mask)
                .unwrap();
        }
        let sge = Sge {
            addr: 0,
            bytes: 2_088,
            lkey: hca.query_mr(mr).unwrap().lkey,
        };
        for wr_id in 0..10 {
            hca.post_recv(now, qp, &RecvWr { wr_id, sge }).unwrap();
        }
        if joins {
            hca.attach_mcast(qp, GROUP.0, GROUP.1).unwrap();
        }
        let grh = Some(GROUP.0);
        let ah = AhAttr {
            grh,
            ..AhAttr::lid(GROUP.1)
        };
        (qp, cq, hca.create_ah(pd, 1, &ah).unwrap())
    });
    made.unwrap()
}

const GROUP: (Gid, Lid) = (Gid(0xFF12 << 112 | 9), Lid(0xC009));

#[test]
fn multicast_follows_the_tables_in_force() {
    let lab = Lab::new("single:ports=8,hosts=4");
    let mut simulation = lab.start(HcaConfig::new(Guid(1 << 32), 1));
    let members: Vec<(Qp, Cq, Ah)> = (0..4).map(|host| datagrams(&mut simulation, host, host != 3)).collect();
    simulation.run_until(100 * PS_PER_US);
    let received = |simulation: &mut Simulation<Adapters>| {
        [0, 1, 2, 3].map(|host: u32| {
            let (adapters, subnet) = simulation.parts_mut();
            let mut done = Vec::new();
            let cq = members[host as usize].1;
            adapters
                .act(subnet, host, |hca, now| hca.poll_cq(now, cq, 100, &mut done))
                .unwrap()
                .unwrap();
            done.iter().filter(|wc| wc.immediate.is_some()).count()
        })
    };
    let ports = |count: usize| {
        let ends = simulation.subnet().end_ports().iter().take(count);
        ends.filter_map(|end| lab.fabric.peer(end.at).map(|peer| peer.port))
            .collect::<Vec<_>>()
    };
    let (two, four) = (ports(2), ports(4));
    let send = |simulation: &mut Simulation<Adapters>, until: Ps| {
        let (qp, _, ah) = members[0];
        let (adapters, subnet) = simulation.parts_mut();
        adapters.act(subnet, 0, |hca, now| {
            let wr = SendWr {
                op: SendOp::Send { immediate: Some(1) },
                datagram: Some(Datagram {
                    ah,
                    remote_qpn: MULTICAST_QP,
                    remote_qkey: 5,
                }),
                ..SendWr::send(0, Sge::default())
            };
            hca.post_send(now, qp, &wr).unwrap();
        });
        simulation.run_until(until);
    };
    send(&mut simulation, 200 * PS_PER_US);
    assert_eq!(received(&mut simulation), [0; 4], "no entry");
    for (at, (ports, want)) in (3..).zip([(two, [0, 1, 0, 0]), (four, [0, 1, 1, 0])]) {
        let mut mask = PortMask::default();
        ports.into_iter().for_each(|port| mask.insert(port));
        simulation.apply(Change::Multicast {
            switch: SwitchIdx(0),
            mlid: GROUP.1,
            ports: mask,
        });
        send(&mut simulation, at * 100 * PS_PER_US);
        // The last host gets a copy and has no member.
        assert_eq!(received(&mut simulation), want);
    }
}
