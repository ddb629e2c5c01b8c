//! Random fabrics, faults and workloads: no packet is lost without a reason, credits never run over, nothing hangs,
//! and the same seed gives the same bytes. `SELVEDGE_FUZZ` says how many (default 100).
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use selvedge_dataplane::{
    Buffers, Change, LinkRate, Network, Queueing, Settings, Simulation, SlChoice, Speed, Timed, Transport, VlArb,
};
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, Mtu};
use selvedge_workload::{Collective, Pattern, PatternTraffic, Program, Traffic};

const FABRICS: [&str; 8] = [
    "karytree:k=3,n=2",
    "karytree:k=2,n=3",
    "random:switches=8,degree=3,hosts=2,seed=1",
    "random:switches=12,degree=4,hosts=1,seed=2",
    "ring:switches=5,hosts=1",
    "torus:3x3,hosts=1",
    "single:ports=9,hosts=8",
    "mesh:2x3,hosts=2",
];
const ENGINES: [&str; 4] = ["minhop", "updn", "weave", "dfsssp"];
const TRAFFIC: [&str; 10] = [
    "uniform",
    "shift:by=3",
    "bit-complement",
    "transpose",
    "bisection",
    "hotspot:to=1,share=30%",
    "incast:to=2",
    "all-to-all",
    "ring-all-reduce:bytes=30000,repeat=2",
    "exchange:bytes=9000",
];
const ARRIVALS: [&str; 5] = ["bernoulli", "poisson", "even", "bursts:mean=5", "closed:window=3"];

fn pick<'a, T: ?Sized>(rng: &mut Rng, of: &[&'a T]) -> &'a T {
    of[rng.below(of.len() as u64) as usize]
}

fn settings(rng: &mut Rng) -> Settings {
    let mtus = [Mtu::B256, Mtu::B1024, Mtu::B2048, Mtu::B4096];
    let mtu = mtus[rng.below(4) as usize];
    let vls = 1 + rng.below(4) as u8;
    let mut settings = Settings {
        link: (rng.below(3) > 0).then_some(LinkRate::four(Speed::ALL[rng.below(9) as usize])),
        mtu,
        vls,
        queueing: if rng.below(2) == 0 {
            Queueing::Fifo
        } else {
            Queueing::Voq
        },
        speedup: 1 + rng.below(3) as u8,
        sl: [SlChoice::DestHash, SlChoice::Random, SlChoice::Flow][rng.below(3) as usize],
        transport: [Transport::None, Transport::Uc, Transport::Rc][rng.below(3) as usize],
        cable_delay_ns: rng.below(200),
        switch_delay_ns: rng.below(200),
        credit_delay_ns: rng.below(50),
        hoq_life: [0, 1, 18, 20][rng.below(4) as usize],
        switch_life: [0, 2, 18, 20][rng.below(4) as usize],
        source_queue: 1 + rng.below(300) as u32,
        warmup_ns: rng.below(5_000),
        duration_ns: 10_000 + rng.below(30_000),
        ..Settings::default()
    };
    let least = settings.packet_blocks();
    settings.buffers = Buffers {
        per_vl_blocks: (rng.below(3) > 0).then_some(least + rng.below(200) as u32),
        shared_blocks: if rng.below(2) == 0 { 0 } else { rng.below(300) as u32 },
    };
    if rng.below(3) == 0 {
        let mut entry = |vl| (vl, 1 + rng.below(254) as u8);
        settings.vl_arb = VlArb {
            low: (0..vls).map(&mut entry).collect(),
            high: vec![entry(0)],
            high_limit: 0,
        };
        settings.vl_arb.high_limit = rng.below(256) as u8;
    }
    settings.qp.ack_timeout = rng.below(4) as u8;
    settings.qp.retry_count = rng.below(4) as u8;
    settings.qp.window_packets = 1 + rng.below(64) as u32;
    settings
}

fn changes(rng: &mut Rng, fabric: &Fabric, settings: &Settings, top: u16) -> Vec<Timed> {
    let links: Vec<_> = fabric.links().collect();
    let mut changes = Vec::new();
    for _ in 0..rng.below(12) {
        let at = rng.below(settings.end());
        let link = links[rng.below(links.len() as u64) as usize];
        let end = if rng.below(2) == 0 { link.a } else { link.b };
        let change = match rng.below(5) {
            0 | 1 => Change::Cut(end),
            2 => Change::Mend(end),
            3 => Change::Rate(end, LinkRate::four(Speed::ALL[rng.below(9) as usize])),
            _ => Change::Entry {
                switch: selvedge_fabric::SwitchIdx(rng.below(fabric.switches().len() as u64) as u32),
                lid: Lid(rng.below(u64::from(top) + 1) as u16),
                output: rng.below(12) as u8,
            },
        };
        changes.push(Timed { at, change });
        if rng.below(2) == 0 {
            let at = at + rng.below(5_000_000);
            changes.push(Timed {
                at,
                change: Change::Mend(end),
            });
        }
    }
    changes
}

/// One random simulation; its results as text.
fn run(seed: u64) -> String {
    let mut rng = Seed(seed).child("fuzz").rng();
    let Spec::Generated(recipe) = pick(&mut rng, &FABRICS).parse().unwrap() else {
        unreachable!()
    };
    let fabric = recipe.fabric().unwrap();
    let mut lids = Lids::new();
    for (lid, (at, _)) in (1..).zip(fabric.end_ports()) {
        lids.insert(at, LidRange::single(Lid(lid))).unwrap();
    }
    let engine: Engine = pick(&mut rng, &ENGINES).parse().unwrap();
    let routed = engine.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
    let tables = routed.map_or_else(
        |_| Tables::new(fabric.switches().len(), lids.top()),
        |routed| routed.tables,
    );
    let settings = settings(&mut rng);
    let sl_to_vl = SlToVl::modulo(settings.vls);
    let network = Network {
        fabric: &fabric,
        lids: &lids,
        tables: &tables,
        service_levels: &ServiceLevels::default(),
        sl_to_vl: &sl_to_vl,
    };
    let name = pick(&mut rng, &TRAFFIC);
    let traffic = if Collective::is_named_by(name) {
        let collective: Collective = name.parse().unwrap();
        Traffic::Program(Program::new(collective.schedule(network.host_count())))
    } else {
        let pattern: Pattern = name.parse().unwrap();
        let arrivals = pick(&mut rng, &ARRIVALS).parse().unwrap();
        let link = settings.link.unwrap_or_else(|| network.host_link());
        // Not so small that nearly all messages are missed: each of those costs an event too.
        let bytes = 64 + rng.below(3 * u64::from(settings.mtu.bytes())) as u32;
        let how = (0.05 + rng.below(100) as f64 / 80.0, bytes, 1e12 / link.bytes_per_s());
        Traffic::Pattern(PatternTraffic::new((&pattern, arrivals), network.host_count(), how, Seed(seed)).unwrap())
    };
    let changes = changes(&mut rng, &fabric, &settings, lids.top().0);
    let mut simulation = Simulation::new(&network, &settings, traffic, changes, Seed(seed)).unwrap();
    for step in 1..=20 {
        simulation.run_until(settings.end() / 20 * step);
        simulation.check().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        // Livelock: a packet and hop take a few events, and links carry so many packets in a time.
        assert!(
            simulation.events() < 20_000_000,
            "seed {seed}: too many events: {:?} {settings:?} {name}",
            simulation.account()
        );
    }
    format!("{:?}", simulation.finish())
}

#[test]
fn random_simulations_lose_nothing_and_repeat() {
    let count = std::env::var("SELVEDGE_FUZZ").ok().and_then(|count| count.parse().ok());
    let first = std::env::var("SELVEDGE_FUZZ_FIRST")
        .ok()
        .and_then(|first| first.parse().ok());
    let first = first.unwrap_or(0);
    for seed in first..first + count.unwrap_or(100) {
        let once = run(seed);
        if seed % 10 == 0 {
            assert_eq!(once, run(seed), "seed {seed}");
        }
    }
}
