//! Random fabrics, faults and workloads: no packet is lost without a reason, credits never overflow, nothing hangs,
//! memory stays within the limits of the hardware, and the same seed gives the same bytes. `SELVEDGE_FUZZ` says how
//! many (default 100), `SELVEDGE_FUZZ_FIRST` from which seed on; with `--nocapture` the sums are printed.
use selvedge_dataplane::{
    Buffers, Change, Footprint, LinkRate, Network, Queueing, Results, Settings, Simulation, SlChoice, Speed, Timed,
    Transport, VlArb,
};
use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Rng, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, Mtu};
use selvedge_workload::{Collective, Job, Jobs, Pattern, PatternTraffic, Placement, Program, Traffic, read_goal};

const FABRICS: [&str; 12] = [
    "karytree:k=3,n=2",
    "karytree:k=2,n=3",
    "random:switches=8,degree=3,hosts=2,seed=1",
    "random:switches=12,degree=4,hosts=1,seed=2",
    "ring:switches=5,hosts=1",
    "torus:3x3,hosts=1",
    "single:ports=9,hosts=8",
    "mesh:2x3,hosts=2",
    "karytree:k=4,n=2",
    "mport:m=4,n=2",
    "ring:switches=6,hosts=3",
    "random:switches=16,degree=3,hosts=2,seed=3",
];
const ENGINES: [&str; 9] = [
    "minhop", "updn", "weave", "dfsssp", "sssp", "ftree", "fat-tree", "dnup", "auto",
];
/// Engines without a dependency cycle on any lanes.
const WITHOUT_CIRCLES: [&str; 4] = ["updn", "weave", "ftree", "fat-tree"];
const TRAFFIC: [&str; 15] = [
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
    "recursive-doubling:bytes=5000",
    "stencil-1d:bytes=3000,repeat=3",
    "stencil-2d:bytes=7000",
    "goal",
    "jobs",
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
        shared_per_vl_blocks: (rng.below(2) == 0).then_some(100),
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
    let count = if rng.below(3) == 0 { 0 } else { rng.below(12) };
    for _ in 0..count {
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

/// A trace: messages between random ranks, each after some earlier operations of the two.
fn trace(rng: &mut Rng, ranks: u32) -> Program {
    let mut text = format!("num_ranks {ranks}\n");
    let mut ranks: Vec<Vec<String>> = vec![Vec::new(); ranks as usize];
    for _ in 0..1 + rng.below(60) {
        let count = ranks.len() as u64;
        let from = rng.below(count);
        // No host sends to itself.
        let to = (from + 1 + rng.below(count - 1)) % count;
        let (bytes, tag) = (rng.below(20_000), rng.below(4));
        for (rank, work) in [
            (from, format!("send {bytes}b to {to} tag {tag}")),
            (to, format!("recv {bytes}b from {from} tag {tag}")),
            (to, format!("calc {}", rng.below(3_000))),
        ] {
            let ops = &mut ranks[rank as usize];
            let label = ops.iter().filter(|line| line.contains(": ")).count();
            ops.push(format!("l{label}: {work}"));
            if label > 0 && rng.below(3) > 0 {
                ops.push(format!("l{label} requires l{}", rng.below(label as u64)));
            }
        }
    }
    for (rank, ops) in ranks.iter().enumerate() {
        text += &format!("rank {rank} {{\n{}\n}}\n", ops.join("\n"));
    }
    Program::new(read_goal(&text).unwrap())
}

/// Two jobs on random hosts.
fn jobs(rng: &mut Rng, hosts: u32, (settings, seed): (&Settings, u64), byte_ps: f64) -> Traffic {
    let mut jobs = Jobs::new(hosts);
    let half = (hosts / 2).max(2);
    for name in ["all-to-all", "ring-all-reduce:bytes=20000,repeat=3"] {
        let Ok(places) = jobs.place(half, &Placement::Random, Seed(seed)) else {
            continue;
        };
        let traffic = if Collective::is_named_by(name) {
            let collective: Collective = name.parse().unwrap();
            Traffic::Program(Program::new(collective.schedule(half).unwrap()))
        } else {
            let pattern: Pattern = name.parse().unwrap();
            let how = (0.3, 1_000, byte_ps);
            let arrivals = pick(rng, &ARRIVALS).parse().unwrap();
            Traffic::Pattern(PatternTraffic::new((&pattern, arrivals), half, how, Seed(seed)).unwrap())
        };
        let sl = (rng.below(2) == 0).then(|| rng.below(u64::from(settings.vls)) as u8);
        let hosts = places;
        jobs.add(Job { traffic, hosts, sl }).unwrap();
    }
    Traffic::Jobs(jobs)
}

fn traffic(rng: &mut Rng, hosts: u32, (settings, seed): (&Settings, u64), link: LinkRate) -> (Traffic, &'static str) {
    let name = TRAFFIC[rng.below(TRAFFIC.len() as u64) as usize];
    let byte_ps = 1e12 / link.bytes_per_s();
    let traffic = if name == "goal" {
        Traffic::Program(trace(rng, hosts))
    } else if name == "jobs" {
        jobs(rng, hosts, (settings, seed), byte_ps)
    } else if Collective::is_named_by(name) {
        let collective: Collective = name.parse().unwrap();
        Traffic::Program(Program::new(collective.schedule(hosts).unwrap()))
    } else {
        let pattern: Pattern = name.parse().unwrap();
        let arrivals = pick(rng, &ARRIVALS).parse().unwrap();
        // Not so small that nearly all messages are missed: each of those costs an event too.
        let bytes = 64 + rng.below(3 * u64::from(settings.mtu.bytes())) as u32;
        let how = (0.05 + rng.below(100) as f64 / 80.0, bytes, byte_ps);
        Traffic::Pattern(PatternTraffic::new((&pattern, arrivals), hosts, how, Seed(seed)).unwrap())
    };
    (traffic, name)
}

/// Sums over all runs.
#[derive(Default)]
struct Sums {
    runs: u64,
    refused: u64,
    with_changes: u64,
    deadlocks: u64,
    sent: u64,
    delivered: u64,
    dropped: u64,
    under_way: u64,
    events: u64,
    repeated: u64,
    most: Footprint,
    /// FNV-1a of all results: the same on every machine.
    fingerprint: u64,
}

impl Sums {
    fn add(&mut self, results: &Results, most: Footprint) {
        self.runs += 1;
        self.deadlocks += u64::from(results.deadlock.is_some());
        self.sent += results.packets.sent;
        self.delivered += results.packets.delivered;
        self.dropped += results.packets.dropped;
        self.under_way += results.packets.under_way;
        self.events += results.events;
        self.repeated += results.qps.repeated;
        let found = (
            results.accepted_load,
            results.latency_ns,
            results.packets,
            results.drops,
        );
        for byte in format!("{found:?} {} {:?}", results.events, results.qps).bytes() {
            self.fingerprint = (self.fingerprint ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.most.packets = self.most.packets.max(most.packets);
        self.most.messages = self.most.messages.max(most.messages);
        self.most.events = self.most.events.max(most.events);
    }

    fn print(&self) {
        println!("simulations            {}", self.runs);
        println!("  engine refused       {}", self.refused);
        println!("  with changes         {}", self.with_changes);
        println!("  ended in a deadlock  {}", self.deadlocks);
        println!("packets sent           {}", self.sent);
        println!("  delivered            {}", self.delivered);
        println!("  dropped for a reason {}", self.dropped);
        println!("  under way at the end {}", self.under_way);
        println!("  sent again by RC     {}", self.repeated);
        println!("events                 {}", self.events);
        println!("fingerprint            {:016x}", self.fingerprint);
        println!("most at a time, of any simulation:");
        println!("  packets              {}", self.most.packets);
        println!("  messages             {}", self.most.messages);
        println!("  events               {}", self.most.events);
    }
}

/// Memory is limited by buffers and queues.
fn bounded(found: Footprint, network: &Network<'_>, settings: &Settings) -> Result<(), String> {
    let (ports, hosts) = (network.fabric.links().count() * 2, network.host_count() as usize);
    let vls = usize::from(settings.vls);
    let blocks = ports * (vls * settings.lane_blocks() as usize + settings.buffers.shared_blocks as usize);
    // The least packet is an acknowledgement, of one block.
    let packets = blocks;
    // Messages in the queues of hosts; and sent ones, as many as packets if every message is one packet.
    let messages = hosts * vls * (settings.source_queue as usize + 1) + packets;
    // A packet arrives once; each lane of each port waits for credits or ages, each output ends, each host looks; twice
    // that for events that have become superfluous.
    let pairs = hosts * hosts * vls;
    let events = 2 * (packets + ports * (2 * vls + ports * vls + 1) + hosts + pairs) + 64;
    let fits = found.packets <= packets && found.messages <= messages && found.events <= events;
    let most = Footprint {
        packets,
        messages,
        events,
    };
    fits.then_some(())
        .ok_or_else(|| format!("{found:?} is more than {most:?}"))
}

/// Runs one random simulation. Returns its results as text.
fn run(seed: u64, sums: &mut Sums) -> String {
    let mut rng = Seed(seed).child("fuzz").rng();
    let Spec::Generated(recipe) = pick(&mut rng, &FABRICS).parse().unwrap() else {
        unreachable!()
    };
    let fabric = recipe.fabric().unwrap();
    let mut lids = Lids::new();
    for (lid, (at, _)) in (1..).zip(fabric.end_ports()) {
        lids.insert(at, LidRange::single(Lid(lid))).unwrap();
    }
    let name = pick(&mut rng, &ENGINES);
    let engine: Engine = name.parse().unwrap();
    let routed = engine.route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
    let (has_routes, engine) = (routed.is_ok(), name);
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
    let link = settings.link.unwrap_or_else(|| network.host_link());
    let (traffic, name) = traffic(&mut rng, network.host_count(), (&settings, seed), link);
    let changes = changes(&mut rng, &fabric, &settings, lids.top().0);
    let is_calm = changes.is_empty() && has_routes;
    let what = || format!("seed {seed}: {engine} {name} {settings:?}");
    sums.refused += u64::from(!has_routes);
    sums.with_changes += u64::from(!changes.is_empty());
    let mut simulation = Simulation::new(&network, &settings, traffic, changes, Seed(seed)).unwrap();
    for step in 1..=20 {
        simulation.run_until(settings.end() / 20 * step);
        let checked = simulation.check();
        let checked = checked.and_then(|()| bounded(simulation.footprint(), &network, &settings));
        checked.unwrap_or_else(|wrong| panic!("{}: {wrong}", what()));
        // Livelock: a packet and hop take a few events, and links carry so many packets in a time.
        assert!(
            simulation.events() < 20_000_000,
            "too many events: {:?} {}",
            simulation.account(),
            what()
        );
    }
    let most = simulation.footprint();
    let results = simulation.finish();
    if is_calm && settings.hoq_life >= 18 && settings.switch_life >= 18 {
        assert_eq!(results.drops.total(), 0, "{:?} {}", results.drops, what());
    }
    if is_calm && WITHOUT_CIRCLES.contains(&engine) {
        assert_eq!(results.deadlock, None, "{}", what());
    }
    sums.add(&results, most);
    format!("{results:?}")
}

#[test]
fn random_simulations_lose_nothing_and_repeat() {
    let given = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, count) = (given("SELVEDGE_FUZZ_FIRST"), given("SELVEDGE_FUZZ"));
    let (first, count) = (first.unwrap_or(0), count.unwrap_or(100));
    let mut sums = Sums::default();
    for seed in first..first + count {
        let once = run(seed, &mut sums);
        if seed % 10 == 0 {
            assert_eq!(once, run(seed, &mut Sums::default()), "seed {seed}");
        }
    }
    println!("seeds                  {first} to {}", first + count - 1);
    sums.print();
}
