//! The subnet administrator under load, Selvedge's and OpenSM's: path queries through a socket while the whole fabric
//! is routed again; queries and joins in process.

mod client;
mod load;
mod table;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use selvedge_conformance::{HeavyLock, OpenSm, PeerLab, Running, until};
use selvedge_sim::Seed;

use crate::case::Case;
use crate::error::BenchError;
use crate::failover::Who;
use crate::failover::faults::{self, Count, Kind};
use crate::machine;

use client::{Clients, Figures};
pub use load::Loads;
pub use table::{csv, json, summary};

/// Fabrics of a full run: 11,664 hosts and 1,620 switches.
pub const FABRICS: [&str; 1] = ["mport:m=36,n=3"];
/// Target for the p99 of path queries while the whole fabric is routed again.
pub const P99_TARGET_MS: f64 = 10.0;
/// Longest wait for a manager.
const LIMIT: Duration = Duration::from_secs(400);
/// How long the subnet must have been up after an act, before the act counts as over.
const SETTLED: Duration = Duration::from_secs(2);
/// Text in a log when the subnet is up, of Selvedge and of OpenSM.
const UP: &str = "SUBNET UP";
/// Engines of Selvedge: the first is the default of an operator, the second routes the whole fabric again.
const ENGINES: [&str; 2] = ["auto", "updn"];

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// OpenSM's variants; Selvedge is measured first.
    pub peers: Vec<Who>,
    /// Number of repetitions of everything.
    pub repeats: usize,
    /// How long clients send queries while nothing happens.
    pub rest: Duration,
}

/// What happens to the fabric or the manager during the path queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Nothing happens.
    Rest,
    /// SIGHUP: everything is discovered and routed again.
    Sweep,
    /// A top switch dies.
    Dies,
    /// The top switch comes back.
    Returns,
    /// Another routing engine: every table changes. Selvedge only, because OpenSM reads its engine at its start.
    Engine,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rest => "nothing happens",
            Self::Sweep => "sweep by command",
            Self::Dies => "a top switch dies",
            Self::Returns => "it comes back",
            Self::Engine => "another engine",
        })
    }
}

/// Figures of one manager during one act.
#[derive(Clone, Debug)]
pub struct Row {
    /// The fabric, as given.
    pub spec: String,
    /// Number of hosts of the fabric.
    pub hosts: usize,
    /// The manager that answers.
    pub who: Who,
    /// Number of the repetition.
    pub pair: usize,
    /// The act during these queries.
    pub act: Act,
    /// Time from the act to the last SUBNET UP that follows from it, in seconds.
    pub took_s: Option<f64>,
    /// Figures of path queries.
    pub paths: Figures,
    /// Figures of Gets to the agent of the manager's port, at the same rate and by the same route: they show the cost
    /// of the test bed.
    pub agent: Figures,
    /// Load of the machine when the act began.
    pub load: f64,
}

/// Measures every manager on one fabric: each on a fresh emulator, with the same acts.
pub fn measure(case: &Case, options: &Options, bar: &ProgressBar) -> Result<Vec<Row>, BenchError> {
    let mut managers = vec![Who::Selvedge];
    managers.extend(options.peers.iter().cloned());
    bar.inc_length((managers.len() * options.repeats) as u64);
    let mut rows = Vec::new();
    for pair in 0..options.repeats {
        for who in &managers {
            bar.set_message(format!("{}: {}", case.spec, who.label()));
            let _quiet = HeavyLock::acquire()?;
            rows.extend(Stage::new(case, who)?.all_acts(pair, options)?);
            bar.inc(1);
        }
    }
    Ok(rows)
}

/// A manager at work on an emulated fabric.
struct Stage<'c> {
    case: &'c Case,
    who: &'c Who,
    manager: Manager,
    /// Socket of the emulator's API.
    faults: PathBuf,
    _emulator: Running,
    lab: PeerLab,
}

enum Manager {
    /// Selvedge, its log and its configuration.
    Selvedge(Running, PathBuf, PathBuf),
    OpenSm(OpenSm),
}

impl<'c> Stage<'c> {
    fn new(case: &'c Case, who: &'c Who) -> Result<Self, BenchError> {
        let lab = PeerLab::new()?;
        let mut emulator = lab.start_daemon(&["emulate", "--fabric", &case.spec, "--serve", lab.base()])?;
        until("the emulator to take clients", LIMIT, String::new, || {
            emulator.must_run()?;
            Ok(selvedge_conformance::Probe::open(lab.base(), "").ok())
        })?;
        let folders = fs::read_dir(lab.folder()).map_err(BenchError::store("reading", lab.folder().display()))?;
        let mut sockets = folders.flatten().map(|entry| entry.path().join("api.sock"));
        let faults = sockets.find(|path| path.exists()).unwrap_or_default();
        let manager = Manager::start(who, case, &lab)?;
        let mut stage = Self {
            case,
            who,
            manager,
            faults,
            _emulator: emulator,
            lab,
        };
        stage.wait_ups(0)?;
        Ok(stage)
    }

    /// Runs all acts one after another, while clients send path queries all the time.
    fn all_acts(mut self, pair: usize, options: &Options) -> Result<Vec<Row>, BenchError> {
        let clients = Clients::start(self.case, self.lab.base())?;
        let mut spans = Vec::new();
        let done = self.acts(options, &mut spans);
        let asked = clients.stop()?;
        done?;
        let row = |span: &Span| Row {
            spec: self.case.spec.clone(),
            hosts: self.case.fabric.host_count(),
            who: self.who.clone(),
            pair,
            act: span.act,
            took_s: span.up.map(|up| up.saturating_duration_since(span.began).as_secs_f64()),
            paths: asked.paths(span.began, span.ended),
            agent: asked.agent(span.began, span.ended),
            load: span.load,
        };
        Ok(spans.iter().map(row).collect())
    }

    fn acts(&mut self, options: &Options, spans: &mut Vec<Span>) -> Result<(), BenchError> {
        let top = faults::draw(self.case, &[Kind::Spine], Count::Of(1), Seed(1));
        let top = top.first().map(|fault| fault.name(self.case));
        let mut acts = vec![Act::Rest, Act::Sweep];
        if top.is_some() {
            acts.extend([Act::Dies, Act::Returns]);
        }
        if *self.who == Who::Selvedge {
            acts.push(Act::Engine);
        }
        for act in acts {
            let (began, load, ups) = (Instant::now(), machine::load(), self.ups());
            match act {
                Act::Rest => {}
                Act::Sweep => self.process().signal("HUP")?,
                Act::Dies => self.fault("kill", top.as_deref())?,
                Act::Returns => self.fault("revive", top.as_deref())?,
                Act::Engine => self.other_engine()?,
            }
            let up = match act {
                Act::Rest => {
                    pause(options.rest);
                    None
                }
                _ => Some(self.wait_ups(ups)?),
            };
            spans.push(Span {
                act,
                began,
                ended: Instant::now(),
                up,
                load,
            });
        }
        Ok(())
    }

    fn process(&self) -> &Running {
        match &self.manager {
            Manager::Selvedge(process, ..) => process,
            Manager::OpenSm(opensm) => opensm.process(),
        }
    }

    fn log(&self) -> String {
        match &self.manager {
            Manager::Selvedge(_, log, _) => fs::read_to_string(log).unwrap_or_default(),
            Manager::OpenSm(opensm) => opensm.log(),
        }
    }

    fn ups(&self) -> usize {
        self.log().matches(UP).count()
    }

    /// Waits until the subnet is up again and stays up. Returns when it came up last.
    fn wait_ups(&mut self, before: usize) -> Result<Instant, BenchError> {
        let (mut seen, mut at) = (before, Instant::now());
        let end = at + LIMIT;
        loop {
            let ups = self.ups();
            if ups > seen {
                (seen, at) = (ups, Instant::now());
            }
            if seen > before && at.elapsed() >= SETTLED {
                return Ok(at);
            }
            if let Manager::Selvedge(process, ..) = &mut self.manager {
                process.must_run()?;
            }
            if Instant::now() > end {
                return Err(BenchError::NotQuiet {
                    fabric: self.case.spec.clone(),
                    limit_s: LIMIT.as_secs(),
                });
            }
            pause(Duration::from_millis(20));
        }
    }

    fn fault(&self, verb: &str, node: Option<&str>) -> Result<(), BenchError> {
        let text = format!("{verb} {}", node.unwrap_or_default());
        let socket = self.faults.to_string_lossy();
        let done = self.lab.selvedge(&["fault", "--socket", &socket, &text])?;
        Ok(done.success().map(drop)?)
    }

    fn other_engine(&self) -> Result<(), BenchError> {
        let Manager::Selvedge(process, _, config) = &self.manager else {
            return Ok(());
        };
        configure(config, ENGINES[1])?;
        Ok(process.signal("HUP")?)
    }
}

/// An act, and when it began and ended.
struct Span {
    act: Act,
    began: Instant,
    ended: Instant,
    up: Option<Instant>,
    load: f64,
}

impl Manager {
    /// Starts the manager, and does not wait.
    fn start(who: &Who, case: &Case, lab: &PeerLab) -> Result<Self, BenchError> {
        match who {
            Who::Selvedge => {
                let [log, config] = ["manager.log", "manager.toml"].map(|name| lab.folder().join(name));
                configure(&config, ENGINES[0])?;
                let port = format!("ibsim:{}/{}", lab.base(), case.host_name());
                let (log_text, config_text) = (log.to_string_lossy(), config.to_string_lossy());
                let words = [
                    "run",
                    "--port",
                    &port,
                    "--log-file",
                    &log_text,
                    "--config",
                    &config_text,
                ];
                Ok(Self::Selvedge(lab.start_daemon(&words)?, log, config))
            }
            Who::OpenSm(variant) => Ok(Self::OpenSm(lab.opensm(case.host_name(), &variant.options())?)),
        }
    }
}

/// Writes a configuration without light sweeps, as OpenSM's `sweep_interval 0`.
fn configure(file: &Path, engine: &str) -> Result<(), BenchError> {
    let text = format!("[routing]\nengines = [\"{engine}\"]\n[manager]\nsweep_interval_s = 0\n");
    fs::write(file, text).map_err(BenchError::store("writing", file.display()))
}

/// Waits, while clients send queries.
fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        std::thread::park_timeout(left);
    }
}
