//! Fail-over: from the trap to the last entry in force, ours and OpenSM's, by one observer on the wire.

pub mod faults;
mod floor;
mod manager;
mod pairs;
mod picture;
mod table;
mod watch;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use selvedge_conformance::{HeavyLock, Ibsim, PeerLab, Relay};
use selvedge_plan::{ServiceLevels, SlToVl};
use selvedge_sim::Seed;
use selvedge_transport::ibsim::IbsimPort;
use selvedge_verify::{Subject, least_change};

use crate::case::Case;
use crate::error::BenchError;
use crate::failover::faults::{Count, Fault, Kind, What};
use crate::failover::manager::{LIMIT, Manager};
use crate::failover::watch::Watch;
use crate::machine;
use crate::opensm::Variant;

pub use manager::Who;
pub use picture::svg;
pub use table::{csv, json, summary};

/// How often the floor is measured; the least counts.
const FLOORS: usize = 3;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many faults.
    pub faults: Count,
    /// Of which kinds.
    pub kinds: Vec<Kind>,
    /// Of the draw.
    pub seed: u64,
    /// OpenSM's variants; ours is measured first.
    pub variants: Vec<Variant>,
}

impl Options {
    fn managers(&self) -> Vec<Who> {
        let peers = self.variants.iter().cloned().map(Who::OpenSm);
        std::iter::once(Who::Selvedge).chain(peers).collect()
    }
}

/// One manager and one fault. Times are in microseconds from the moment at which the relay had the first trap.
#[derive(Clone, Debug)]
pub struct Row {
    /// The fabric, as given.
    pub spec: String,
    /// Its hosts.
    pub hosts: usize,
    /// Who mended it.
    pub who: Who,
    /// The engine whose tables were in force afterwards.
    pub engine_used: Option<String>,
    /// What kind of fault.
    pub kind: Kind,
    /// Which.
    pub fault: String,
    /// From the command that made the fault.
    pub trap_us: Option<f64>,
    /// To the answer to the last Set that changed an entry; `None`: none did.
    pub total_us: Option<f64>,
    /// To the last packet of all.
    pub quiet_us: Option<f64>,
    /// The same MADs from a dumb sender with the same window through the same relay.
    pub floor_us: Option<f64>,
    /// The same without the relay.
    pub floor_direct_us: Option<f64>,
    /// Requests sent until quiet.
    pub mads: u64,
    /// Of these, until the last change.
    pub mads_to_last: u64,
    /// Sets of tables sent until quiet.
    pub smps: u64,
    /// Of these, those that changed an entry.
    pub smps_changing: u64,
    /// Entries that were changed.
    pub entries: u64,
    /// Blocks with an entry that every legal new plan must change, with the LIDs in force; and with the best LIDs for
    /// this fault.
    pub smps_min: (u64, u64),
    /// Ordered pairs of hosts whose packets the fault stopped, by the tables in force.
    pub pairs_interrupted: u64,
    /// Load of the machine when the fault was made.
    pub load: f64,
}

/// Every manager on one fabric: a fresh simulator each, the same faults.
pub fn measure(spec: &str, options: &Options, bar: &ProgressBar) -> Result<Vec<Row>, BenchError> {
    let case = Case::new(spec)?;
    let drawn = faults::draw(&case, &options.kinds, options.faults, Seed(options.seed));
    let managers = options.managers();
    bar.inc_length((managers.len() * drawn.len()) as u64);
    let mut rows = Vec::new();
    for who in &managers {
        bar.set_message(format!("{spec}: {}", who.label()));
        let _quiet = HeavyLock::acquire()?;
        rows.extend(one_manager(&case, who, &drawn, bar)?);
    }
    Ok(rows)
}

/// A manager at work.
struct Bench<'c> {
    case: &'c Case,
    who: &'c Who,
    simulator: Ibsim,
    manager: Manager,
    watch: Watch<'c>,
    /// Of the dumb sender: through the relay, and without it.
    senders: [IbsimPort; 2],
    /// Lasts as long as they do.
    _relay: Relay,
}

fn one_manager(case: &Case, who: &Who, drawn: &[Fault], bar: &ProgressBar) -> Result<Vec<Row>, BenchError> {
    let lab = PeerLab::new()?;
    let simulator = lab.ibsim_sized(&case.net, case.size)?;
    let (observer, seen) = mpsc::channel();
    let relay = lab.observed_relay(observer)?;
    let mut manager = Manager::start(who, case, &lab, relay.base())?;
    let watch = Watch::new(case, seen, manager.pid());
    manager.wait_up()?;
    let [through, direct] = [relay.base(), lab.base()].map(|base| IbsimPort::open(base, case.host_name()));
    let mut bench = Bench {
        case,
        who,
        simulator,
        manager,
        watch,
        senders: [through?, direct?],
        _relay: relay,
    };
    bench.watch.settle(LIMIT, |_| true)?;
    let mut rows = Vec::new();
    for fault in drawn {
        rows.push(bench.one_fault(fault)?);
        bar.inc(1);
    }
    Ok(rows)
}

impl Bench<'_> {
    /// Makes a fault, measures, makes it good again.
    fn one_fault(&mut self, fault: &Fault) -> Result<Row, BenchError> {
        let case = self.case;
        let (tables, lids) = (self.watch.tables(), self.watch.lids());
        let dead = fault.dead_ends(case);
        let pairs_interrupted = pairs::interrupted(case, &tables, &lids, &dead);
        let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
        let least = least_change(Subject::tables(&case.fabric, &lids, &tables, &levels, &lanes), &dead);
        self.watch.begin();
        let (load, start) = (machine::load(), Instant::now());
        self.console("Unlink", fault)?;
        self.watch.settle(LIMIT, |span| span.trap.is_some())?;
        let span = self.watch.span().clone();
        let from_trap = |at: Option<Instant>| Some(micros(at?.duration_since(span.trap?)));
        let to_last = span.requests.iter().take_while(|(at, _)| Some(*at) <= span.last_change);
        let requests = floor::harmless(to_last.map(|(_, datagram)| *datagram));
        let (floor_us, floor_direct_us) = self.floors(&requests)?;
        let row = Row {
            spec: case.spec.clone(),
            hosts: case.fabric.host_count(),
            who: self.who.clone(),
            engine_used: self.manager.engine_used(),
            kind: fault.kind,
            fault: fault.name(case),
            trap_us: span.trap.map(|trap| micros(trap.duration_since(start))),
            total_us: from_trap(span.last_change),
            quiet_us: from_trap(span.last),
            floor_us,
            floor_direct_us,
            mads: span.mads,
            mads_to_last: requests.len() as u64,
            smps: span.table_sets,
            smps_changing: span.changing_sets,
            entries: span.entries,
            smps_min: (least.by_layout, least.by_fabric),
            pairs_interrupted,
            load,
        };
        self.watch.begin();
        self.console("ReLink", fault)?;
        self.watch.settle(LIMIT, |_| true)?;
        Ok(row)
    }

    fn console(&mut self, verb: &str, fault: &Fault) -> Result<(), BenchError> {
        let (node, port) = fault.console_name(self.case);
        let place = match (fault.what, port) {
            (What::Link(_), Some(port)) => format!("\"{node}\"[{port}]"),
            _ => format!("\"{node}\""),
        };
        self.simulator.console(&format!("{verb} {place}"))?;
        Ok(())
    }

    /// The floor through the relay, by the observer, and without it, by the sender: the least of a few.
    fn floors(&mut self, requests: &[selvedge_wire::Datagram]) -> Result<(Option<f64>, Option<f64>), BenchError> {
        if requests.is_empty() {
            return Ok((None, None));
        }
        let (mut through, mut direct) = (f64::INFINITY, f64::INFINITY);
        let window = self.who.window();
        for _ in 0..FLOORS {
            self.watch.begin();
            floor::send(&mut self.senders[0], requests, window)?;
            if let Some((first, last)) = self.watch.span().others {
                through = through.min(micros(last.duration_since(first)));
            }
            direct = direct.min(micros(floor::send(&mut self.senders[1], requests, window)?));
        }
        Ok((Some(through).filter(|us| us.is_finite()), Some(direct)))
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}
