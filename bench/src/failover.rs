//! Fail-over: from the trap to the last entry in force, of Selvedge and of OpenSM, by one observer on the wire.

pub mod faults;
mod floor;
mod manager;
mod observer;
mod pairs;
mod picture;
mod table;
mod targets;
mod told;
mod virtual_time;
mod watch;

use std::fmt;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use selvedge_conformance::{HeavyLock, Ibsim, PeerLab, Relay};
use selvedge_plan::{ServiceLevels, SlToVl};
use selvedge_sim::Seed;
use selvedge_transport::ibsim::IbsimPort;
use selvedge_verify::{Rule, Subject, least_change};
use selvedge_wire::Datagram;

use crate::case::Case;
use crate::error::BenchError;
use crate::failover::faults::{Count, Fault, Kind, What};
use crate::failover::manager::{LIMIT, Manager};
use crate::failover::observer::{Observer, Span};
use crate::failover::told::Told;
use crate::failover::watch::Watch;
use crate::machine;
use crate::opensm::Variant;

pub use manager::Who;
pub use picture::svg;
pub use table::{csv, json, summary};

/// Number of measurements of the floor; the least counts.
const FLOORS: usize = 3;
/// Without a progress bar, as in a log, a line shows the progress after each multiple of this number of faults.
const LINE_EVERY: usize = 20;

/// How long a manager must neither send nor use its processor before it counts as done.
const SILENCE: Duration = Duration::from_millis(600);
/// The same time if all possible faults are made: there are hundreds, and most of the time would be waiting.
const SHORT_SILENCE: Duration = Duration::from_millis(200);
/// The same time before the first fault: Selvedge's check after a plan follows one second after the plan is in force.
const REST: Duration = Duration::from_secs(2);

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of faults.
    pub faults: Count,
    /// Kinds of faults.
    pub kinds: Vec<Kind>,
    /// Seed for the choice of faults.
    pub seed: u64,
    /// OpenSM's variants; Selvedge is measured first.
    pub variants: Vec<Variant>,
    /// How long a manager must neither have sent nor used its processor before a fault. `None`: the next fault follows
    /// as soon as the manager is done with the one before.
    pub rest: Option<Duration>,
    /// Service times of agents with which Selvedge is measured on the built-in emulator, in virtual time.
    pub services: Vec<Duration>,
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
    /// Number of hosts of the fabric.
    pub hosts: usize,
    /// The manager that repaired it.
    pub who: Who,
    /// The engine of the tables in force afterwards.
    pub engine_used: Option<String>,
    /// Kind of fault.
    pub kind: Kind,
    /// Name of the part that fails.
    pub fault: String,
    /// What carried the MADs.
    pub fabric: Carrier,
    /// Time from the command that made the fault to the first trap.
    pub trap_us: Option<f64>,
    /// Time to the answer to the last Set that changed an entry; `None`: no Set did.
    pub total_us: Option<f64>,
    /// Part of this time in which no request was in flight.
    pub thinking_us: Option<f64>,
    /// Time to the last packet of all.
    pub quiet_us: Option<f64>,
    /// Time of the same MADs from a plain sender with the same window through the same relay (the *floor*).
    pub floor_us: Option<f64>,
    /// Time of the same MADs from the plain sender without the relay.
    pub floor_direct_us: Option<f64>,
    /// Requests sent until the manager was quiet.
    pub mads: u64,
    /// Number of these requests until the last change.
    pub mads_to_last: u64,
    /// Sets of tables sent until the manager was quiet.
    pub smps: u64,
    /// Number of these Sets that changed an entry.
    pub smps_changing: u64,
    /// Entries that were changed.
    pub entries: u64,
    /// Number of blocks with an entry that every legal new plan must change: with the LIDs in force, and with the best
    /// LIDs for this fault.
    pub smps_min: (u64, u64),
    /// The rule for the smallest number of SMPs: any path is allowed for a LID that was on a detour already.
    pub smps_rule: Rule,
    /// Times of planning and judging, and waits for packets in flight; empty for OpenSM.
    pub told: Told,
    /// Ordered pairs of hosts with packets that the fault stopped, by the tables in force.
    pub pairs_interrupted: u64,
    /// Load of the machine when the fault was made.
    pub load: f64,
}

/// What carries the MADs of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Carrier {
    /// ibsim, by the machine's clock.
    Ibsim,
    /// The built-in emulator under virtual time. Its agents take this long for a request.
    Emulator {
        /// Time of an agent for a request, in microseconds.
        service_us: f64,
    },
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ibsim => f.pad("ibsim"),
            Self::Emulator { service_us } => f.pad(&format!("emulator, {service_us} µs an SMP")),
        }
    }
}

/// Measures every manager on one fabric: each on a fresh simulator, with the same faults.
pub fn measure(spec: &str, options: &Options, bar: &ProgressBar) -> Result<Vec<Row>, BenchError> {
    let case = Case::new(spec)?;
    let drawn = faults::draw(&case, &options.kinds, options.faults, Seed(options.seed));
    let silence = match options.faults {
        Count::Of(_) => SILENCE,
        Count::All => SHORT_SILENCE,
    };
    let managers = options.managers();
    let managers_there = managers.len() + options.services.len();
    bar.inc_length((managers_there * drawn.len()) as u64);
    let mut rows = Vec::new();
    for who in &managers {
        bar.set_message(format!("{spec}: {}", who.label()));
        let _quiet = HeavyLock::acquire()?;
        rows.extend(one_manager(&case, who, (&drawn, silence, options.rest), bar)?);
    }
    for &service in &options.services {
        bar.set_message(format!("{spec}: selvedge, virtual time"));
        rows.extend(virtual_time::measure(&case, service, &drawn, bar)?);
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
    /// Ports of the plain sender: through the relay, and without it.
    senders: [IbsimPort; 2],
    /// The relay, kept as long as the manager runs.
    _relay: Relay,
}

fn one_manager(
    case: &Case,
    who: &Who,
    (drawn, silence, rest): (&[Fault], Duration, Option<Duration>),
    bar: &ProgressBar,
) -> Result<Vec<Row>, BenchError> {
    let began = Instant::now();
    let mut rows: Vec<Row> = Vec::new();
    while rows.len() < drawn.len() {
        let lab = PeerLab::new()?;
        let mut bench = Bench::start(case, who, silence, &lab)?;
        for fault in &drawn[rows.len()..] {
            if let Some(rest) = rest {
                bench.watch.rest_for(rest, LIMIT)?;
                bench.watch.set_silence(silence);
            }
            let (row, is_quiet) = bench.one_fault(fault)?;
            rows.push(row);
            bar.inc(1);
            if bar.is_hidden() && rows.len().is_multiple_of(LINE_EVERY) {
                let (label, spec, number, all) = (who.label(), &case.spec, rows.len(), drawn.len());
                eprintln!("{spec}: {label}: {number} of {all} faults, {:.0?}", began.elapsed());
            }
            if !is_quiet {
                // Whatever it is busy with: the other faults find a fabric that was not touched.
                let (label, spec) = (who.label(), &case.spec);
                eprintln!(
                    "{spec}: {label}: {} is not quiet after {LIMIT:?}; begins anew",
                    fault.name(case)
                );
                break;
            }
        }
    }
    Ok(rows)
}

impl<'c> Bench<'c> {
    /// Starts a fresh simulator and a manager, and waits until the manager has brought the subnet up and is idle.
    fn start(case: &'c Case, who: &'c Who, silence: Duration, lab: &PeerLab) -> Result<Self, BenchError> {
        let simulator = lab.ibsim_sized(&case.net, case.size)?;
        let (observer, seen) = mpsc::channel();
        let relay = lab.observed_relay(observer)?;
        let mut manager = Manager::start(who, case, lab, relay.base())?;
        let mut watch = Watch::new(case, seen, manager.pid(), Instant::now());
        manager.wait_up()?;
        watch.rest_for(REST, LIMIT)?;
        watch.set_silence(silence);
        let [through, direct] = [relay.base(), lab.base()].map(|base| IbsimPort::open(base, case.host_name()));
        Ok(Self {
            case,
            who,
            simulator,
            manager,
            watch,
            senders: [through?, direct?],
            _relay: relay,
        })
    }

    /// Makes a fault, measures, and repairs the fabric. Returns false if the manager did not become idle; the row then
    /// covers only the time until the limit.
    fn one_fault(&mut self, fault: &Fault) -> Result<(Row, bool), BenchError> {
        let case = self.case;
        let before = Before::new(case, &self.watch.observer, fault);
        self.watch.begin();
        let said = self.manager.log().len();
        let (load, start, ups) = (machine::load(), self.watch.now(), self.manager.ups());
        self.console("Unlink", fault)?;
        let manager = &self.manager;
        let done = self
            .watch
            .settle(LIMIT, |span| span.trap.is_some() && manager.ups() > ups);
        let is_quiet = came_to_rest(done)?;
        let span = self.watch.span().clone();
        let requests = until_last_change(&span);
        let floors = self.floors(&requests)?;
        let row = Row {
            engine_used: self.manager.engine_used(),
            told: self.manager.told_since(said),
            load,
            ..before.row(case, (self.who, Carrier::Ibsim), &span, start, floors)
        };
        if !is_quiet {
            return Ok((Row { quiet_us: None, ..row }, false));
        }
        self.watch.begin();
        let ups = self.manager.ups();
        self.console("ReLink", fault)?;
        let manager = &self.manager;
        let done = self.watch.settle(LIMIT, |_| manager.ups() > ups);
        Ok((row, came_to_rest(done)?))
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

    /// Measures the floor through the relay (times of the observer) and without it (times of the sender). Returns the
    /// least of a few measurements.
    fn floors(&mut self, requests: &[Datagram]) -> Result<(Option<f64>, Option<f64>), BenchError> {
        if requests.is_empty() {
            return Ok((None, None));
        }
        let (mut through, mut direct) = (f64::INFINITY, f64::INFINITY);
        let window = self.who.window();
        for _ in 0..FLOORS {
            self.watch.begin();
            floor::send(&mut self.senders[0], requests, window)?;
            if let Some((first, last)) = self.watch.span().others {
                through = through.min(micros(last.saturating_sub(first)));
            }
            direct = direct.min(micros(floor::send(&mut self.senders[1], requests, window)?));
        }
        Ok((Some(through).filter(|us| us.is_finite()), Some(direct)))
    }
}

/// True if the manager became idle before the limit.
fn came_to_rest(done: Result<(), BenchError>) -> Result<bool, BenchError> {
    match done {
        Ok(()) => Ok(true),
        Err(BenchError::NotQuiet { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The effect of a fault on the tables that were in force before it.
struct Before {
    fault: Fault,
    pairs_interrupted: u64,
    smps_min: (u64, u64),
    smps_rule: Rule,
}

impl Before {
    fn new(case: &Case, observer: &Observer<'_>, fault: &Fault) -> Self {
        let (tables, lids, dead) = (observer.tables(), observer.lids(), fault.dead_ends(case));
        let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
        let least = least_change(Subject::tables(&case.fabric, &lids, &tables, &levels, &lanes), &dead);
        Self {
            fault: *fault,
            pairs_interrupted: pairs::interrupted(case, &tables, &lids, &dead),
            smps_min: (least.by_layout, least.by_fabric),
            smps_rule: least.rule,
        }
    }

    /// Returns the figures of a span that began with the fault at `start`.
    fn row(
        &self,
        case: &Case,
        (who, fabric): (&Who, Carrier),
        span: &Span,
        start: Duration,
        (floor_us, floor_direct_us): (Option<f64>, Option<f64>),
    ) -> Row {
        let from_trap = |at: Option<Duration>| Some(micros(at?.saturating_sub(span.trap?)));
        Row {
            spec: case.spec.clone(),
            hosts: case.fabric.host_count(),
            who: who.clone(),
            fabric,
            engine_used: None,
            kind: self.fault.kind,
            fault: self.fault.name(case),
            trap_us: span.trap.map(|trap| micros(trap.saturating_sub(start))),
            total_us: from_trap(span.last_change),
            thinking_us: span.last_change.map(|_| micros(span.thinking)),
            quiet_us: from_trap(span.last),
            floor_us,
            floor_direct_us,
            mads: span.mads,
            mads_to_last: until_last_change(span).len() as u64,
            smps: span.table_sets,
            smps_changing: span.changing_sets,
            entries: span.entries,
            smps_min: self.smps_min,
            smps_rule: self.smps_rule,
            pairs_interrupted: self.pairs_interrupted,
            told: Told::default(),
            load: 0.0,
        }
    }
}

/// Returns the requests until the last change, in a form that changes nothing when they are sent again.
fn until_last_change(span: &Span) -> Vec<Datagram> {
    let to_last = span.requests.iter().take_while(|(at, _)| Some(*at) <= span.last_change);
    floor::harmless(to_last.map(|(_, datagram)| *datagram))
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}
