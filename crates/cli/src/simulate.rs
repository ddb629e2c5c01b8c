//! `selvedge simulate`: traffic over a routed fabric, packet by packet.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use selvedge_api::SimulatedJob;
use selvedge_dataplane::{
    Buffers, BuildError, LinkRate, LinkUse, Network, QpSettings, Queueing, Results, Settings, Simulation, SlChoice,
    Transport, header,
};
use selvedge_fabric::Fabric;
use selvedge_plan::{Policy, SlToVl};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{LinkRemoval, without_links};
use selvedge_types::Mtu;
use selvedge_workload::{Arrivals, Collective, Pattern, PatternTraffic, Program, Traffic, read_goal};

use crate::exit::{CliError, Exit};
use crate::load;
use crate::measure::peak_rss_bytes;
use crate::out::{Format, Grid, Out, thousands};
use crate::progress;
use crate::route::{HowArgs, InputArgs};
use crate::simulate_change;
use crate::simulate_cost::{EventCost, bare_queue, cpu_seconds, per_event, thread_cpu_ns};
use crate::simulate_job;
use crate::tables_io::{known_lids, lids};

/// Simulate traffic packet by packet; exit code 1 if packets end up waiting for each other for ever.
#[derive(Args, Debug)]
pub struct SimulateArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// Routing engine; with --lfts or --hops: file
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    how: HowArgs,
    /// LIDs to keep (guid2lid)
    #[arg(long, value_name = "FILE")]
    lids: Option<PathBuf>,
    /// Links between switches that are gone, drawn by the seed: a number, or a share as 1%
    #[arg(long, value_name = "LINKS", default_value = "0")]
    lost: String,
    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    hardware: HardwareArgs,
    #[command(flatten)]
    transport: TransportArgs,
    /// A change while packets move, as `50us cut "leaf 1"[20]`: cut, mend, rate PORT 4x-edr, entry SWITCH LID PORT
    #[arg(long, value_name = "TIME CHANGE")]
    change: Vec<String>,
    /// Also put the first events through the bare event queue, and tell what an event costs there and here
    #[arg(long)]
    bare_queue: bool,
    /// Write the use of every link to FILE as comma-separated values
    #[arg(long, value_name = "FILE")]
    links: Option<PathBuf>,
    /// Simulated time that is measured, as 100us
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = time_ns)]
    duration: u64,
    /// Simulated time before that
    #[arg(long, value_name = "TIME", default_value = "20us", value_parser = time_ns)]
    warmup: u64,
    /// Seed of everything drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    format: Format,
}

/// What hosts send.
#[derive(Args, Debug)]
struct TrafficArgs {
    /// Who sends to whom: uniform, shift:by=1, transpose, bit-complement, bisection, hotspot:to=0,share=5%,
    /// incast:to=0,from=8, all-to-all, pairs:0>1,…; or once: ring-all-reduce:bytes=65536, recursive-doubling, exchange,
    /// stencil-1d, -2d, -3d
    #[arg(long, value_name = "PATTERN", default_value = "uniform")]
    traffic: String,
    /// Run a trace in GOAL text instead; rank 0 on the first host
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "load", "arrivals", "message"])]
    goal: Option<PathBuf>,
    /// Several workloads at once, each on its hosts, as 'ring-all-reduce hosts=64 place=random sl=1' or
    /// 'uniform hosts=32 place=stride=18 load=0.5'; place: linear, random, stride=N, list=N+N
    #[arg(long, value_name = "JOB", conflicts_with_all = ["traffic", "goal"])]
    job: Vec<String>,
    /// What hosts want to send, as a fraction of their links' payload rate; from 1 on they never stop
    #[arg(long, value_name = "FRACTION", default_value_t = 0.5)]
    load: f64,
    /// How messages follow each other: bernoulli, poisson, even, bursts:mean=16, closed:window=1
    #[arg(long, value_name = "HOW", default_value = "bernoulli")]
    arrivals: String,
    /// Payload bytes of a message; default: one packet of the MTU
    #[arg(long, value_name = "BYTES")]
    message: Option<u32>,
}

/// What the hardware is like.
#[derive(Args, Debug)]
struct HardwareArgs {
    /// Largest payload of a packet: 256, 512, 1024, 2048 or 4096 bytes
    #[arg(long, value_name = "BYTES", default_value_t = 2_048)]
    mtu: u16,
    /// Rate of every link, as 4x-hdr; default: what the fabric says
    #[arg(long, value_name = "RATE")]
    link: Option<String>,
    /// Data lanes in use
    #[arg(long, value_name = "1-15", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=15))]
    vls: u8,
    /// Where service levels come from
    #[arg(long, value_enum, value_name = "HOW", default_value_t = SlArg::Routing)]
    sl: SlArg,
    /// How packets wait at the inputs of switches
    #[arg(long, value_enum, value_name = "HOW", default_value_t = QueueArg::Fifo)]
    queue: QueueArg,
    /// Packets that an input may send into the crossbar at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    speedup: u8,
    /// Blocks of 64 bytes that each lane of an input has; default: 128, or four packets
    #[arg(long, value_name = "BLOCKS")]
    buffer: Option<u32>,
    /// Blocks that all lanes of an input share beside them
    #[arg(long, value_name = "BLOCKS", default_value_t = 0)]
    shared_buffer: u32,
    /// One way through a cable
    #[arg(long, value_name = "TIME", default_value = "25ns", value_parser = time_ns)]
    cable_delay: u64,
    /// Through an idle switch, first byte to first byte
    #[arg(long, value_name = "TIME", default_value = "100ns", value_parser = time_ns)]
    switch_delay: u64,
    /// Head-of-queue lifetime: 4.096 us times 2 to the power of this; 20: infinite
    #[arg(long, value_name = "0-20", default_value_t = 18)]
    hoq_life: u8,
    /// Switch lifetime, coded alike
    #[arg(long, value_name = "0-20", default_value_t = 18)]
    switch_life: u8,
}

/// What carries messages.
#[derive(Args, Debug)]
struct TransportArgs {
    /// Packets as they are, or queue pairs between all hosts that talk to each other
    #[arg(long, value_enum, value_name = "HOW", default_value_t = TransportArg::None)]
    transport: TransportArg,
    /// Local ACK time-out of reliable connections: 4.096 us times 2 to the power of this; 0: never
    #[arg(long, value_name = "0-31", default_value_t = 14, value_parser = clap::value_parser!(u8).range(0..=31))]
    ack_timeout: u8,
    /// Times that a packet is sent again before the pair goes to ERROR
    #[arg(long, value_name = "0-7", default_value_t = 7, value_parser = clap::value_parser!(u8).range(0..=7))]
    retries: u8,
}

/// [`Transport`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TransportArg {
    /// Nothing but packets
    None,
    /// Unreliable connections
    Uc,
    /// Reliable connections
    Rc,
}

/// [`SlChoice`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SlArg {
    /// What the engine says for the destination
    Routing,
    /// A hash of the destination, over all lanes
    DestHash,
    /// Any, drawn for each message
    Random,
    /// A hash of source and destination
    Flow,
}

/// [`Queueing`] on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum QueueArg {
    /// One queue per lane
    Fifo,
    /// One per output and lane
    Voq,
}

/// A time with its unit, in ns.
pub fn time_ns(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no time; want a number with ns, us, ms or s, as 100us");
    let split = text.find(|c: char| c.is_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let ns = number * factor;
    // An hour: longer runs would not end in this life.
    if (0.0..=3.6e12).contains(&ns) {
        Ok(ns.round() as u64)
    } else {
        Err(wrong())
    }
}

/// Steps in which progress is shown.
pub const STEPS: u64 = 500;

/// Runs the command.
pub fn run(args: &SimulateArgs) -> Result<Exit, CliError> {
    let bar = progress::bar();
    let done = simulate(args, &bar);
    bar.finish_and_clear();
    args.show(done?)
}

/// What a simulation found.
pub struct Simulated {
    /// The engine that made the tables.
    engine: String,
    /// Pattern, arrivals, bytes of a message.
    names: (String, String, u32),
    cost: EventCost,
    jobs: Vec<SimulatedJob>,
    /// Everything else.
    pub results: Results,
}

/// Simulates what was asked for, and shows how far it is.
pub fn simulate(args: &SimulateArgs, bar: &ProgressBar) -> Result<Simulated, CliError> {
    let settings = args.settings()?;
    args.traffic.check()?;
    if let Some(path) = &args.links {
        load::writable(path)?;
    }
    let fabric = args.fabric()?;
    let lids = lids(&fabric, &Policy::default(), &known_lids(args.lids.as_ref())?)?;
    let changes = args.change.iter().map(|text| simulate_change::parse(text, &fabric));
    let changes = changes.collect::<Result<Vec<_>, _>>()?;
    bar.set_message("routing");
    let mut options = args.inputs.options(&fabric)?;
    let engine = args.engine(&options)?;
    if args.hardware.vls > 1 && matches!(args.hardware.sl, SlArg::Routing) || engine == Engine::Dfsssp {
        options.lanes = Some(args.hardware.vls);
    }
    args.how.apply(&mut options);
    // On one thread: processor time is compared with simulators that have one.
    let routed = engine.route(&fabric, &lids, &options, Seed(0), Par::Sequential)?;
    let sl_to_vl = SlToVl::modulo(args.hardware.vls);
    let network = Network {
        fabric: &fabric,
        lids: &lids,
        tables: &routed.tables,
        service_levels: &routed.service_levels,
        sl_to_vl: &sl_to_vl,
    };
    let Named { traffic, names } = args.traffic(&network, &settings)?;
    let start = || Simulation::new(&network, &settings, traffic.clone(), changes.clone(), Seed(args.seed));
    let mut simulation = start()?;
    let began = thread_cpu_ns();
    bar.set_message("simulating, ns");
    let end_ns = settings.warmup_ns + settings.duration_ns;
    bar.set_length(end_ns);
    for step in 1..=STEPS {
        let ns = (u128::from(end_ns) * u128::from(step) / u128::from(STEPS)) as u64;
        simulation.run_until(ns * 1_000);
        bar.set_position(ns);
        if simulation.is_over() {
            break;
        }
    }
    let mut cost = EventCost::default();
    if args.bare_queue {
        cost.here = per_event(began, simulation.events());
        cost.queue = bare_queue(start()?, settings.end());
    }
    if let Some(path) = &args.links {
        load::write(path, &links_grid(&simulation.link_use()).csv())?;
    }
    let jobs = simulate_job::done(&args.traffic.job, simulation.workload());
    Ok(Simulated {
        engine: routed.engine.0,
        names,
        cost,
        jobs,
        results: simulation.finish(),
    })
}

/// Traffic, and how it is called: pattern, arrivals, bytes of a message.
struct Named {
    traffic: Traffic,
    names: (String, String, u32),
}

fn links_grid(links: &[LinkUse]) -> Grid {
    let mut grid = Grid::new(&["port", "utilisation", "wait", "lanes"]);
    for link in links {
        let lanes: Vec<String> = link.lanes.iter().map(|share| format!("{share:.6}")).collect();
        grid.row([
            link.port.clone(),
            format!("{:.6}", link.utilisation),
            format!("{:.6}", link.wait),
            lanes.join(" "),
        ]);
    }
    grid
}

impl TrafficArgs {
    fn check(&self) -> Result<(), CliError> {
        if self.load.is_finite() && self.load > 0.0 {
            return Ok(());
        }
        let what = format!("--load {}: want a number above 0, as 0.5", self.load);
        Err(CliError::Usage { what })
    }
}

impl SimulateArgs {
    /// The fabric without the links that are gone.
    fn fabric(&self) -> Result<Fabric, CliError> {
        let whole = load::fabric(&self.fabric)?;
        let usage = |what| CliError::Usage { what };
        let wrong = || {
            usage(format!(
                "--lost {}: want a number of links, or a share as 1%",
                self.lost
            ))
        };
        let lost = LinkRemoval::parse(&self.lost).ok_or_else(wrong)?;
        if lost == LinkRemoval::Count(0) {
            return Ok(whole);
        }
        without_links(&whole, lost, Seed(self.seed)).map_err(|cause| usage(format!("{}: {cause}", self.fabric)))
    }

    fn traffic(&self, network: &Network<'_>, settings: &Settings) -> Result<Named, CliError> {
        let (given, hosts) = (&self.traffic, network.host_count());
        if hosts < 2 {
            return Err(BuildError::TooFewHosts { hosts: hosts as usize }.into());
        }
        let link = settings.link.unwrap_or_else(|| network.host_link());
        let mtu = f64::from(self.hardware.mtu);
        let byte_ps = 1e12 / link.bytes_per_s() * (mtu + f64::from(header::LOCAL)) / mtu;
        let arrivals: Arrivals = given.arrivals.parse()?;
        let bytes = given.message.unwrap_or(u32::from(self.hardware.mtu));
        if !given.job.is_empty() {
            let pace = simulate_job::Defaults {
                arrivals,
                load: given.load,
                bytes,
                byte_ps,
                seed: Seed(self.seed),
            };
            let jobs = simulate_job::jobs(&given.job, hosts, pace)?;
            return Ok(Named {
                traffic: Traffic::Jobs(jobs),
                names: ("jobs".to_owned(), arrivals.to_string(), bytes),
            });
        }
        let schedule = if let Some(path) = &given.goal {
            let text = String::from_utf8_lossy(&load::text_bytes(path)?).into_owned();
            let schedule = read_goal(&text).map_err(|cause| CliError::Goal {
                path: path.clone(),
                cause,
            })?;
            let ranks = schedule.ranks();
            if ranks > hosts {
                return Err(selvedge_workload::JobError::TooFew {
                    want: ranks,
                    free: hosts,
                }
                .into());
            }
            Some((schedule, path.display().to_string()))
        } else if Collective::is_named_by(&given.traffic) {
            let collective: Collective = given.traffic.parse()?;
            Some((collective.schedule(hosts), collective.to_string()))
        } else {
            None
        };
        if let Some((schedule, name)) = schedule {
            return Ok(Named {
                traffic: Traffic::Program(Program::new(schedule)),
                names: (name, "program".to_owned(), 0),
            });
        }
        let pattern: Pattern = given.traffic.parse()?;
        let how = (given.load, bytes, byte_ps);
        let traffic = PatternTraffic::new((&pattern, arrivals), hosts, how, Seed(self.seed))?;
        Ok(Named {
            traffic: Traffic::Pattern(traffic),
            names: (pattern.to_string(), arrivals.to_string(), bytes),
        })
    }

    fn engine(&self, options: &Options) -> Result<Engine, CliError> {
        match (&self.engine, &options.listed) {
            (Some(name), _) => Ok(name.parse()?),
            (None, Some(_)) => Ok(Engine::File),
            (None, None) => Ok(Engine::Auto),
        }
    }

    fn settings(&self) -> Result<Settings, CliError> {
        let hardware = &self.hardware;
        let usage = |what| CliError::Usage { what };
        let settings = Settings {
            link: hardware.link.as_deref().map(str::parse::<LinkRate>).transpose()?,
            mtu: Mtu::try_from(hardware.mtu).map_err(|what| usage(format!("--mtu: {what}")))?,
            vls: hardware.vls,
            buffers: Buffers {
                per_vl_blocks: hardware.buffer,
                shared_blocks: hardware.shared_buffer,
            },
            queueing: match hardware.queue {
                QueueArg::Fifo => Queueing::Fifo,
                QueueArg::Voq => Queueing::Voq,
            },
            speedup: hardware.speedup,
            cable_delay_ns: hardware.cable_delay,
            switch_delay_ns: hardware.switch_delay,
            sl: match hardware.sl {
                SlArg::Routing => SlChoice::Routing,
                SlArg::DestHash => SlChoice::DestHash,
                SlArg::Random => SlChoice::Random,
                SlArg::Flow => SlChoice::Flow,
            },
            hoq_life: hardware.hoq_life,
            switch_life: hardware.switch_life,
            transport: match self.transport.transport {
                TransportArg::None => Transport::None,
                TransportArg::Uc => Transport::Uc,
                TransportArg::Rc => Transport::Rc,
            },
            qp: QpSettings {
                ack_timeout: self.transport.ack_timeout,
                retry_count: self.transport.retries,
                ..QpSettings::default()
            },
            warmup_ns: self.warmup,
            duration_ns: self.duration,
            ..Settings::default()
        };
        settings.check().map_err(BuildError::from)?;
        Ok(settings)
    }

    fn show(&self, simulated: Simulated) -> Result<Exit, CliError> {
        let Simulated {
            engine,
            names: (traffic, arrivals, message_bytes),
            cost,
            jobs,
            results,
        } = simulated;
        let exit = match results.deadlock {
            None => Exit::Good,
            Some(_) => Exit::NotGood,
        };
        let mut out = Out::new(self.format);
        if self.format.json {
            out.document(selvedge_api::Simulation {
                fabric: self.fabric.clone(),
                engine,
                traffic,
                arrivals,
                message_bytes,
                load: self.traffic.load,
                seed: self.seed,
                results: serde_json::to_value(&results).unwrap_or_default(),
                jobs,
                ns_per_event: cost.here,
                queue_ns_per_event: cost.queue,
                cpu_seconds: cpu_seconds(),
                peak_rss_bytes: peak_rss_bytes(),
            })?;
        } else {
            let mut figures = grid(&engine, &results);
            if let (Some(here), Some(queue)) = (cost.here, cost.queue) {
                let text = format!("{here:.1} ns, {queue:.1} ns");
                figures.row(["event here, in the bare queue".to_owned(), text]);
            }
            for job in &jobs {
                let done = job
                    .completed_ns
                    .map_or("not done".to_owned(), |ns| format!("{} ns", thousands(ns)));
                figures.row([job.job.clone(), done]);
            }
            out.grid(&figures)?;
            if !results.series.warmup_suffices && results.completed_ns.is_none() {
                out.line("\nthe load was not steady when measuring began: see steady_from_ns in --json")?;
            }
            if let Some(deadlock) = &results.deadlock {
                let word = out.bad("deadlock");
                out.line(format!(
                    "\n{word} at {} ns: packets wait for each other",
                    deadlock.at_ns
                ))?;
                for name in &deadlock.cycle {
                    out.line(format!("  {name}"))?;
                }
            }
        }
        out.flush()?;
        Ok(exit)
    }

    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

fn grid(engine: &str, results: &Results) -> Grid {
    let mut grid = Grid::new(&["figure", "value"]);
    let mut row = |name: &str, value: String| grid.row([name.to_owned(), value]);
    let share = |value: f64| format!("{value:.4}");
    row("engine", engine.to_owned());
    row("offered load", share(results.offered_load));
    row("accepted load", share(results.accepted_load));
    row("latency p50, p99, mean", {
        let latency = results.latency_ns;
        format!(
            "{} ns, {} ns, {:.0} ns",
            thousands(latency.p50),
            thousands(latency.p99),
            latency.mean
        )
    });
    row("fairness of senders", share(results.fairness));
    row("links between switches, mean, max", {
        format!("{:.4}, {:.4}", results.links.mean, results.links.max)
    });
    if let Some(ns) = results.completed_ns {
        row("completed after", format!("{} ns", thousands(ns)));
    }
    row("packets delivered", thousands(results.packets_delivered));
    row("packets dropped", thousands(results.drops.total()));
    row("events per packet", format!("{:.2}", results.events_per_packet));
    if let Some(seconds) = cpu_seconds() {
        row("processor time", format!("{seconds:.2} s"));
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let check = |text, want: Option<u64>| assert_eq!(time_ns(text).ok(), want, "{text}");
        check("100us", Some(100_000));
        check("1.5ms", Some(1_500_000));
        check("25ns", Some(25));
        check("2s", Some(2_000_000_000));
        check("100", None);
        check("1h", None);
        check("-1us", None);
        check("us", None);
    }
}
