//! Processor time of the manager for a fault, by part: from the trap to the answer to the last Set of a table, on the
//! built-in emulator, without sockets, threads and logs.
//!
//! `cargo run -p selvedge-rehearsal --example fault_speed -- SPEC [leaf|mid|any [FAULTS [APART_MS [SEED]]]]`: links
//! lost one after another, each back before the next. It prints the least, the median and the most of each part, and
//! the number of faults that were not repaired in place.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use selvedge_emulator::{ClientId, Emulator, EmulatorConfig, Fault};
use selvedge_fabric::{Fabric, Link};
use selvedge_plan::Policy;
use selvedge_planner::{DefaultJudge, Job, JobResult};
use selvedge_sim::{Par, Seed, Time};
use selvedge_sm::{Config, Input, Milestone, Mode, Output, PersistentState, Sm, StageName};
use selvedge_topology::Spec;
use selvedge_wire::{AttributeId, Method};

/// Parts of a fault, in the order in which they come.
const PARTS: [&str; 7] = [
    "trap to first question",
    "answers to the job",
    "planning and judging",
    "job to first Set",
    "answers to Sets",
    "last answer, to what comes next",
    "sum up to the last Set's answer, in handling",
];

/// A manager at an emulator, and what each part of a fault has taken.
struct Bench {
    emulator: Emulator,
    client: ClientId,
    sm: Sm,
    now: Time,
    /// A heavy sweep began since the last fault.
    has_swept: bool,
    /// Processor time of the current fault, by part.
    parts: [Duration; PARTS.len()],
    /// The current part; none before the trap and after the last answer.
    part: Option<usize>,
    /// Table Sets in flight.
    open: usize,
    in_place: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |number: usize, default: &str| arguments.get(number).map_or(default, String::as_str).to_owned();
    let number = |place: usize, default: u64| argument(place, "").parse().unwrap_or(default);
    let (spec, kind) = (argument(0, "sx6536"), argument(1, "any"));
    let (faults, apart) = (number(2, 200), Duration::from_millis(number(3, 1_000)));
    let Ok(Spec::Generated(recipe)) = spec.parse::<Spec>() else {
        panic!("{spec}: a generator, please");
    };
    let fabric = recipe.fabric().unwrap();
    let mut bench = Bench::new(&fabric);
    bench.run_for(Duration::from_secs(5));
    let mut links: Vec<Link> = fabric.links().filter(|link| is_of_kind(&fabric, link, &kind)).collect();
    Seed(number(4, 1)).rng().shuffle(&mut links);
    let (mut all, mut swept) = (Vec::new(), 0);
    let mut slow = Vec::new();
    for (count, link) in (0..faults).zip(links.iter().cycle()) {
        let name = fabric.port_name(link.a);
        bench.has_swept = false;
        bench.parts = [Duration::ZERO; PARTS.len()];
        bench.in_place = false;
        bench.fault(&format!("cut {name}"));
        bench.run_for(apart / 2);
        let sweeps = bench.has_swept;
        swept += usize::from(sweeps);
        match bench.in_place && !sweeps {
            true => all.push(bench.parts),
            false => slow.push(format!("{count}: {name}, swept for: {sweeps}")),
        }
        bench.fault(&format!("restore {name}"));
        bench.run_for(apart / 2);
    }
    println!(
        "{spec}: {faults} faults, {} repaired in place, {swept} swept for",
        all.len()
    );
    slow.iter().for_each(|what| println!("  not in place: {what}"));
    for (part, what) in PARTS.iter().enumerate() {
        let mut took: Vec<Duration> = all.iter().map(|parts| parts[part]).collect();
        took.sort_unstable();
        let at = |place: usize| took.get(place).copied().unwrap_or_default();
        let (least, median, most) = (at(0), at(took.len() / 2), at(took.len().saturating_sub(1)));
        println!("  {what}: {least:?}, {median:?}, {most:?}");
    }
}

fn is_of_kind(fabric: &Fabric, link: &Link, kind: &str) -> bool {
    let ends = [link.a.node, link.b.node];
    let has_hosts = |&node: &_| {
        let mut ports = fabric.node(node).external_ports();
        ports.any(|(_, port)| port.peer.is_some_and(|peer| !fabric.node(peer.node).is_switch()))
    };
    let is_between = ends.iter().all(|&node| fabric.node(node).is_switch());
    is_between
        && match kind {
            "leaf" => ends.iter().any(has_hosts),
            "mid" => !ends.iter().any(has_hosts),
            _ => true,
        }
}

impl Bench {
    fn new(fabric: &Fabric) -> Self {
        let mut emulator = Emulator::new(fabric, EmulatorConfig::default(), Seed(1));
        let client = emulator.attach_named("\"H-0\"").unwrap();
        let local = emulator.local(client).unwrap();
        // No link is left out, however often it goes down.
        let policy = Policy {
            flap_downs: 0,
            ..Policy::default()
        };
        let config = Config::new(Mode::Manage, local, Arc::new(policy));
        let mut bench = Self {
            sm: Sm::new(config, Arc::new(DefaultJudge::default()), PersistentState::default()),
            emulator,
            client,
            now: Time::ZERO,
            has_swept: false,
            parts: [Duration::ZERO; PARTS.len()],
            part: None,
            open: 0,
            in_place: false,
        };
        bench.hand(Input::Start);
        bench
    }

    fn fault(&mut self, text: &str) {
        let fault: Fault = text.parse().unwrap();
        self.emulator.apply(self.now, &fault).unwrap();
    }

    fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        let mut arrived = Vec::new();
        while self.now < end {
            let wake = self.sm.next_wake().unwrap_or(end).min(end).max(self.now);
            self.now = self.emulator.advance_to_delivery(wake, &mut arrived);
            for delivery in arrived.drain(..) {
                let mad = &delivery.datagram.mad;
                let is_set = mad.attribute() == AttributeId::LINEAR_FORWARDING && mad.method() == Method::GetResp;
                if mad.method() == Method::Trap && self.sm.stage_name() == StageName::Idle {
                    self.part = Some(0);
                }
                if is_set && self.part.is_some() {
                    self.open -= 1;
                    self.part = Some(if self.open == 0 { 5 } else { 4 });
                }
                self.hand(Input::Received(delivery.datagram));
            }
            if self.sm.next_wake().is_some_and(|at| at <= self.now) {
                self.hand(Input::Wake);
            }
        }
    }

    fn hand(&mut self, input: Input) {
        let mut out = Vec::new();
        let began = Instant::now();
        self.sm.handle(self.now, input, &mut out);
        self.count(began.elapsed());
        for output in out {
            match output {
                Output::Send { datagram, .. } => {
                    let is_set = datagram.mad.attribute() == AttributeId::LINEAR_FORWARDING;
                    self.open += usize::from(is_set && self.part.is_some());
                    self.part = self.part.map(|part| part.max(if is_set { 4 } else { 1 }));
                    self.emulator.send(self.now, self.client, &datagram);
                }
                Output::Compute(job) => self.compute(*job),
                Output::Persist { id, .. } => self.hand(Input::Persisted { id }),
                Output::SetIsSm(is_sm) => self.emulator.set_is_sm(self.now, self.client, is_sm).unwrap(),
                Output::Milestone(milestone) => {
                    self.has_swept |= matches!(milestone, Milestone::SweepStarted);
                }
                Output::Event(_) => {}
            }
        }
        // The next step's Sets have left by now, if there is one.
        if self.part == Some(5) {
            self.part = (self.open > 0).then_some(4);
        }
    }

    fn compute(&mut self, mut job: Job) {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        job.set_clock(|| FIRST.get_or_init(Instant::now).elapsed());
        let id = job.id;
        let began = Instant::now();
        let in_place = if job.is_brief() { job.run_in_place() } else { None };
        let result: JobResult = in_place.unwrap_or_else(|| job.run(Par::Sequential));
        let took = began.elapsed();
        if self.part == Some(1) {
            self.part = Some(2);
            self.count(took);
            self.in_place = matches!(&result, JobResult::Repair(repair) if repair.is_in_place());
            self.part = Some(3);
        }
        let result = Box::new(result);
        self.hand(Input::Computed { id, result });
    }

    fn count(&mut self, took: Duration) {
        let Some(part) = self.part else { return };
        self.parts[part] += took;
        if part != 2 && part != 5 {
            self.parts[6] += took;
        }
    }
}
