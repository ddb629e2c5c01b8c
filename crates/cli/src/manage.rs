//! The common parts of `run` and `watch`: options, settings, and a manager from start to end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use selvedge_api::Severity;
use selvedge_config::{FlagFile, Settings, SettingsFile, Sources, Verdict};
use selvedge_daemon::record::Recorder;
use selvedge_daemon::{
    Door, DumpSink, EmulationOptions, Expected, LogFile, LogSink, Options, Outcome, Running, Until, start,
};
use selvedge_fabric::Fabric;
use selvedge_http::{Front, MANAGER_SOCKET, MetricsAddress, MetricsServer, Poster, Socket, default_path};
use selvedge_sim::Seed;
use selvedge_sm::{Mode, View};

use crate::dumps::DumpFiles;
use crate::exit::{CliError, Exit};
use crate::out::note;
use crate::progress::{self, BarLog};
use crate::{background, expected, load};

/// The way to the fabric.
#[derive(Args, Clone, Debug, Default)]
pub struct DoorArgs {
    /// Emulate this fabric in the process: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC", conflicts_with = "port")]
    pub fabric: Option<String>,
    /// Forwarding tables that the emulated fabric holds at the start: OpenSM's dump, or the output of ibroute or
    /// dump_fts; LIDs are those of the listing
    #[arg(long, value_name = "FILE", requires = "fabric", conflicts_with = "port")]
    pub lfts: Option<PathBuf>,
    /// The port into a fabric: CA or CA/N (libibumad; none: the first active one), ibsim:BASE or ibsim:BASE/NODE
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Node of the emulated fabric at which the manager sits (default: the first host)
    #[arg(long, value_name = "NODE", requires = "fabric", conflicts_with = "port")]
    pub at: Option<String>,
    /// Let other programs attach to the emulated fabric, as to an ibsim with IBSIM_SOCKNAME=BASE
    #[arg(long, value_name = "BASE", requires = "fabric", conflicts_with = "port")]
    pub serve: Option<String>,
    /// Seed of the emulator's random choices
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        requires = "fabric",
        conflicts_with = "port"
    )]
    pub seed: u64,
}

impl DoorArgs {
    /// Returns the flag that names the port.
    pub const fn flag(&self) -> &'static str {
        match self.fabric {
            Some(_) => "--fabric",
            None => "--port",
        }
    }

    /// Returns the port to open.
    pub fn door(&self) -> Result<Door, CliError> {
        match &self.fabric {
            Some(spec) => {
                let (fabric, held) = load::emulated(spec, self.lfts.as_deref())?;
                Ok(Door::Emulated {
                    fabric: Arc::new(fabric),
                    options: EmulationOptions {
                        seed: Seed(self.seed),
                        serve: self.serve.clone(),
                        seat: self.at.clone(),
                        held: Arc::new(held),
                        ..EmulationOptions::default()
                    },
                    name: spec.clone(),
                })
            }
            None => Ok(Door::Port(self.port.as_deref().unwrap_or_default().parse()?)),
        }
    }
}

/// How the process runs.
#[derive(Args, Clone, Debug, Default)]
pub struct ProcessArgs {
    /// Configuration file; 'selvedge config defaults' prints one
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// End after the first sweep and the changes that follow from it
    #[arg(short = 'o', long)]
    pub once: bool,
    /// Unix socket of the HTTP API (default: selvedge.sock in the first folder that can be written to of /run/selvedge,
    /// $XDG_RUNTIME_DIR/selvedge and /tmp/selvedge-UID; with --once: none)
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Log to FILE instead of standard error
    #[arg(short = 'f', long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Record everything that goes into the manager, for 'selvedge replay'
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// SMPs outstanding in all (default: 32)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub window: Option<u16>,
    /// Seconds between light sweeps, 0: none (default: 10)
    #[arg(
        short = 's',
        long,
        value_name = "SECONDS",
        visible_alias = "sweep",
        value_parser = clap::value_parser!(u32).range(0..=86_400)
    )]
    pub sweep_interval: Option<u32>,
    /// Show nodes by the names in FILE (lines: 0xGUID "name")
    #[arg(long, value_name = "FILE")]
    pub node_name_map: Option<PathBuf>,
    /// Compare what is found with this topology, a file or generator, and report what is missing, additional, slow,
    /// narrow or in the wrong port (default: the file of fabric.expected in the configuration)
    #[arg(long, value_name = "SPEC")]
    pub expected: Option<String>,
}

impl ProcessArgs {
    /// Returns the sources of the settings: the configuration file and these options.
    pub fn sources(&self) -> Sources {
        let process = self.clone();
        let names = self.node_name_map.iter();
        Sources {
            file: self.config.clone().map_or(SettingsFile::None, SettingsFile::Toml),
            flags: names
                .map(|path| ("--node-name-map", FlagFile::NodeNames, path.clone()))
                .collect(),
            overrule: Arc::new(move |settings| process.over(settings)),
            ..Sources::new(load::READERS)
        }
    }

    /// Reads the expected topology: that of the flag, otherwise that of the configuration.
    fn expected(&self, settings: &Settings) -> Result<Option<Expected>, CliError> {
        match (&self.expected, &settings.daemon.expected) {
            (Some(spec), _) => expected::read(spec).map(Some),
            (None, Some(path)) => expected::read_file(path).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Fails if the expected topology of the flag cannot be read.
    pub fn check_expected(&self) -> Result<(), CliError> {
        match self.expected.as_deref() {
            // Standard input can be read once.
            None | Some("-") => Ok(()),
            Some(spec) => load::fabric(spec).map(drop),
        }
    }

    /// Fails if a start could not write the record.
    pub fn check(&self) -> Result<(), CliError> {
        let record = self.record.as_deref();
        Ok(record.map_or(Ok(()), Recorder::check)?)
    }

    /// Applies these options to settings.
    pub fn over(&self, settings: &mut Settings) {
        if let Some(window) = self.window {
            settings.manager.window = usize::from(window);
        }
        if let Some(seconds) = self.sweep_interval {
            settings.manager.sweep_interval = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        }
        let daemon = &mut settings.daemon;
        daemon.expected.take_if(|_| self.expected.is_some());
        daemon.socket = self.socket.clone().or(daemon.socket.take());
        // A one-shot run may run beside the manager that writes to the configured log file.
        let configured = daemon.log_file.take().filter(|_| !self.once);
        daemon.log_file = self.log_file.clone().or(configured);
        if daemon.socket.is_none() && !self.once {
            daemon.socket = Some(default_path(MANAGER_SOCKET));
        }
    }
}

/// Fails if no manager can start with this access to the fabric: a file cannot be used, or there is no such node.
pub fn checked(door: Result<&Door, &CliError>) -> Result<(), CliError> {
    match door {
        Ok(door) => Ok(door.check()?),
        Err(error) => Err(CliError::NotAdmitted {
            errors: vec![error.to_string()],
        }),
    }
}

/// A manager that has ended.
pub struct Ended {
    /// The manager's last view, with the names that it discovered.
    pub view: View,
    /// The interface of the manager for front ends.
    pub running: selvedge_daemon::Manager,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Names of hosts of the emulated fabric that the manager did not find; empty for another fabric.
    pub not_found: Vec<String>,
    /// The signal that ended the run, if one did.
    pub signal: Option<i32>,
}

/// Runs a manager until it ends, with checked settings. A reload reads the sources of the settings again.
pub fn run(
    mode: Mode,
    door: Door,
    (verdict, sources): (Verdict, Sources),
    args: &ProcessArgs,
) -> Result<Ended, CliError> {
    let whole = match &door {
        Door::Emulated { fabric, .. } => Some(Arc::clone(fabric)),
        Door::Port(_) => None,
    };
    let settings = &verdict.settings;
    let socket = settings.daemon.socket.clone();
    // Bind the socket first: without it, another manager may be at work, and the fabric must stay untouched.
    let bound = socket.as_deref().map(Socket::bind).transpose()?;
    // A dry run beside the manager has the same settings.
    let samples = mode == Mode::Manage && !args.once && settings.telemetry.enabled;
    let listen = settings.telemetry.metrics_listen.filter(|_| samples);
    let metrics = listen.map(MetricsAddress::bind).transpose()?;
    let metrics_at = metrics.as_ref().and_then(MetricsAddress::local);
    if let Some(path) = &settings.daemon.log_file {
        note(format!("selvedge: log in {}", path.display()));
    }
    let bar = progress::bar();
    let running = begin(mode, door, (verdict, sources), args, &bar)?;
    let manager = running.manager.clone();
    let opened = Front::open(bound, Arc::new(manager.clone())).and_then(|front| {
        let served = metrics.map(|address| MetricsServer::open(address, Arc::new(manager.clone())));
        Ok((front, served.transpose()?))
    });
    let (front, _metrics) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            use selvedge_daemon::Service as _;
            manager.stop();
            running.join()?;
            return Err(error.into());
        }
    };
    if let Some(path) = &socket {
        note(format!("selvedge: API on {}", path.display()));
    }
    if let Some(address) = metrics_at {
        note(format!("selvedge: metrics on http://{address}/metrics"));
    }
    background::started();
    progress::follow(&bar, &running, |_| false);
    let view = running.join()?;
    let signal = front.signal();
    let not_found = match (&whole, &view.seen) {
        (Some(whole), Some(seen)) => not_found(whole, seen),
        _ => Vec::new(),
    };
    let outcome = match Outcome::of(mode, &view) {
        Outcome::Good if !not_found.is_empty() || manager.has_conditions() => Outcome::NotGood,
        outcome => outcome,
    };
    Ok(Ended {
        outcome,
        not_found,
        view,
        running: manager,
        signal,
    })
}

/// Returns the hosts of the whole fabric that were not found: no link or directed route leads to them.
fn not_found(whole: &Fabric, seen: &Fabric) -> Vec<String> {
    let hosts = whole.nodes().iter().filter(|node| !node.is_switch());
    let missing = hosts.filter(|host| seen.find(host.guid).is_none());
    missing.map(|host| host.description.clone()).collect()
}

fn begin(
    mode: Mode,
    door: Door,
    (verdict, sources): (Verdict, Sources),
    args: &ProcessArgs,
    bar: &indicatif::ProgressBar,
) -> Result<Running, CliError> {
    let Verdict { settings, names, .. } = verdict;
    let least = if args.once { Severity::Warning } else { Severity::Info };
    let log: Box<dyn LogSink> = match &settings.daemon.log_file {
        Some(path) => Box::new(LogFile::open(path)?),
        None => Box::new(BarLog::new(bar.clone(), least)),
    };
    Ok(start(Options {
        expected: args.expected(&settings)?,
        names: names.unwrap_or_default(),
        sources: Some(sources),
        until: if args.once { Until::Idle } else { Until::Stopped },
        record: args.record.clone(),
        log,
        dumps: DumpFiles::of(&settings.daemon).map(|files| -> Box<dyn DumpSink> { Box::new(files) }),
        settings,
        post: Some(Box::new(Poster::default())),
        ..Options::new(mode, door)
    })?)
}

/// Returns the exit code of an ended manager.
pub fn exit(ended: &Ended, once: bool) -> Exit {
    match (once, ended.signal) {
        // A manager that runs until it is stopped has done so.
        (false, Some(_)) => Exit::Good,
        (true, Some(_)) => Exit::Interrupted,
        (_, None) => match ended.outcome {
            Outcome::Good => Exit::Good,
            Outcome::NotGood | Outcome::Unmanaged => Exit::NotGood,
            Outcome::Standby | Outcome::Refused => Exit::Refused,
            Outcome::NoFabric => Exit::NoFabric,
        },
    }
}
