//! What `run` and `watch` share: options, settings, and a manager from start to end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use selvedge_api::Severity;
use selvedge_config::{ConfigError, Settings, read};
use selvedge_daemon::{
    Door, DumpSink, EmulationOptions, LogFile, LogSink, Options, Outcome, Reload, Running, Until, start,
};
use selvedge_http::{Front, MANAGER_SOCKET, Socket, default_path};
use selvedge_routing::Engine;
use selvedge_sim::Seed;
use selvedge_sm::{Mode, View};

use crate::dumps::DumpFiles;
use crate::exit::{CliError, Exit};
use crate::out::note;
use crate::progress::{self, BarLog};
use crate::{background, load};

/// The way to the fabric.
#[derive(Args, Clone, Debug, Default)]
pub struct DoorArgs {
    /// Emulate this fabric in the process: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC", conflicts_with = "port")]
    pub fabric: Option<String>,
    /// The port into a fabric: CA or CA/N (libibumad; none: the first active one), ibsim:BASE or ibsim:BASE/NODE
    #[arg(long, value_name = "PORT")]
    pub port: Option<String>,
    /// Node of the emulated fabric at which the manager sits (default: the first host)
    #[arg(long, value_name = "NODE", requires = "fabric")]
    pub at: Option<String>,
    /// Let other programs attach to the emulated fabric, as to an ibsim with IBSIM_SOCKNAME=BASE
    #[arg(long, value_name = "BASE", requires = "fabric")]
    pub serve: Option<String>,
    /// Seed of what the emulator draws by lot
    #[arg(long, value_name = "N", default_value_t = 1, requires = "fabric")]
    pub seed: u64,
}

impl DoorArgs {
    /// The door itself.
    pub fn door(&self) -> Result<Door, CliError> {
        match &self.fabric {
            Some(spec) => Ok(Door::Emulated {
                fabric: Arc::new(load::fabric(spec)?),
                options: EmulationOptions {
                    seed: Seed(self.seed),
                    serve: self.serve.clone(),
                    seat: self.at.clone(),
                    ..EmulationOptions::default()
                },
                name: spec.clone(),
            }),
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
    /// End after the first sweep and what it leads to
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
    /// Whether another file than [`Self::config`] can be read again.
    #[arg(skip)]
    pub reloads: bool,
}

impl ProcessArgs {
    /// The settings of the configuration file, overruled by these options.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        Ok(self.over(self.config.as_deref().map(read).transpose()?.unwrap_or_default()))
    }

    /// These settings, overruled by these options.
    pub fn over(&self, mut settings: Settings) -> Settings {
        if let Some(window) = self.window {
            settings.manager.window = usize::from(window);
        }
        if let Some(seconds) = self.sweep_interval {
            settings.manager.sweep_interval = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        }
        let daemon = &mut settings.daemon;
        daemon.socket = self.socket.clone().or(daemon.socket.take());
        // A one-shot run may be beside the manager that writes to the log file of the configuration.
        let configured = daemon.log_file.take().filter(|_| !self.once);
        daemon.log_file = self.log_file.clone().or(configured);
        daemon.node_name_map = self.node_name_map.clone().or(daemon.node_name_map.take());
        if daemon.socket.is_none() && !self.once {
            daemon.socket = Some(default_path(MANAGER_SOCKET));
        }
        settings
    }
}

/// A manager that has ended.
pub struct Ended {
    /// Its last view, with names as it found them.
    pub view: View,
    /// How its front ends saw it.
    pub running: selvedge_daemon::Manager,
    /// How it ended.
    pub outcome: Outcome,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
}

/// Runs a manager to its end.
///
/// `read` gives the settings, with the command line's in them; it is asked again when the configuration is reloaded,
/// which needs a file to read.
pub fn run(mode: Mode, door: &DoorArgs, read: Reload, args: &ProcessArgs) -> Result<Ended, CliError> {
    let settings = read()?;
    let door = door.door()?;
    for engine in &settings.policy.engines {
        Engine::try_from(engine)?;
    }
    warn_of_old_sections(&settings);
    let socket = settings.daemon.socket.clone();
    // Whoever cannot have its socket must not have touched the fabric, which another manager may be at work in.
    let bound = socket.as_deref().map(Socket::bind).transpose()?;
    if let Some(path) = &settings.daemon.log_file {
        note(format!("selvedge: log in {}", path.display()));
    }
    let bar = progress::bar();
    let running = begin(mode, door, (settings, read), args, &bar)?;
    let manager = running.manager.clone();
    let front = match Front::open(bound, Arc::new(manager.clone())) {
        Ok(front) => front,
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
    background::started();
    progress::follow(&bar, &running, |_| false);
    let view = running.join()?;
    let signal = front.signal();
    Ok(Ended {
        outcome: Outcome::of(mode, &view),
        view,
        running: manager,
        signal,
    })
}

/// Says which sections of the configuration have a new name.
pub fn warn_of_old_sections(settings: &Settings) {
    for (old, new) in &settings.old_sections {
        note(format!("warning: [{old}] is an old name of [{new}]; write [{new}]"));
    }
}

fn begin(
    mode: Mode,
    door: Door,
    (settings, read): (Settings, Reload),
    args: &ProcessArgs,
    bar: &indicatif::ProgressBar,
) -> Result<Running, CliError> {
    let names = load::names(settings.daemon.node_name_map.as_deref())?;
    let least = if args.once { Severity::Warning } else { Severity::Info };
    let log: Box<dyn LogSink> = match &settings.daemon.log_file {
        Some(path) => Box::new(LogFile::open(path)?),
        None => Box::new(BarLog::new(bar.clone(), least)),
    };
    Ok(start(Options {
        names: load::by_guid(&names),
        reload: (args.config.is_some() || args.reloads).then_some(read),
        until: if args.once { Until::Idle } else { Until::Stopped },
        record: args.record.clone(),
        log,
        dumps: DumpFiles::of(&settings.daemon).map(|files| -> Box<dyn DumpSink> { Box::new(files) }),
        settings,
        ..Options::new(mode, door)
    })?)
}

/// The exit code of an ended manager.
pub fn exit(ended: &Ended, once: bool) -> Exit {
    match (once, ended.signal) {
        // A manager that runs until it is told to stop has done so.
        (false, Some(_)) => Exit::Good,
        (true, Some(_)) => Exit::Interrupted,
        (_, None) => match ended.outcome {
            Outcome::Good => Exit::Good,
            Outcome::NotGood => Exit::NotGood,
            Outcome::Standby | Outcome::Refused => Exit::Refused,
            Outcome::NoFabric => Exit::NoFabric,
        },
    }
}
