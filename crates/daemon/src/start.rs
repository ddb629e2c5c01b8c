//! Puts a manager together and starts its thread.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use selvedge_config::{Settings, Sources};
use selvedge_coordinator::{Administrated, Coordinator};
use selvedge_emulator::PortName;
use selvedge_fabric::Fabric;
use selvedge_health::Known;
use selvedge_planner::{DefaultJudge, Judge};
use selvedge_sm::{Config, Mode, PersistentState, Sm, View};
use selvedge_store::{Disk, Found, StateDir, StateWarning, StoreError};
use selvedge_telemetry::{Consumer, Sampler};
use selvedge_transport::ibsim::IbsimServer;
use selvedge_transport::{PortSpec, Role, open};
use selvedge_types::Guid;
use selvedge_wire::{LocalPort, MadPort};

use crate::DaemonError;
use crate::administrator;
use crate::attached::AttachedPort;
use crate::backend::default_seat;
use crate::clock::Clock;
use crate::driver::{Driver, Parts, Until};
use crate::dumps::DumpSink;
use crate::emulated::EmulatedPort;
use crate::events::LogSink;
use crate::host::{EmulationOptions, Host, HostHandle};
use crate::names::Names;
use crate::notice::Notice;
use crate::out_of_service::Roster;
use crate::post::Post;
use crate::record::{Header, Recorder};
use crate::reload::Aside;
use crate::service::Manager;
use crate::shared::Shared;
use crate::telemetry::history::{self, Place, Resumed};
use crate::telemetry::{self, Chosen, Gatherer, RemoteWriter, Telemetry};
use crate::worker::{Expected, Note};

/// Access to the fabric.
#[derive(Clone, Debug)]
pub enum Door {
    /// A fabric emulated in this process.
    Emulated {
        /// The fabric.
        fabric: Arc<Fabric>,
        /// Options of the emulation.
        options: EmulationOptions,
        /// Name of the fabric on the command line.
        name: String,
    },
    /// A port of a real or simulated fabric.
    Port(PortSpec),
}

impl Door {
    /// Fails if the emulated fabric has no port for a manager, or cannot be served under its name. A real port is not
    /// checked: nothing is known of it before it is opened.
    pub fn check(&self) -> Result<(), DaemonError> {
        let Self::Emulated { fabric, options, .. } = self else {
            return Ok(());
        };
        if let Some(base) = &options.serve {
            IbsimServer::check(base)?;
        }
        match &options.seat {
            Some(name) => {
                let name: PortName = name.parse()?;
                name.end_port(fabric)?;
            }
            None => {
                default_seat(fabric).ok_or_else(|| DaemonError::NoSeat { wanted: String::new() })?;
            }
        }
        Ok(())
    }
}

/// Everything that a manager's process is started with.
pub struct Options {
    /// The mode: what the manager is allowed to do.
    pub mode: Mode,
    /// Access to the fabric.
    pub door: Door,
    /// Policy, manager's and process's options.
    pub settings: Settings,
    /// Sources of the settings, which [`crate::Service::reload`] reads again; `None` if there are none.
    pub sources: Option<Sources>,
    /// Operator's names by node GUID.
    pub names: BTreeMap<Guid, String>,
    /// When the manager ends.
    pub until: Until,
    /// Record to write.
    pub record: Option<PathBuf>,
    /// The destination of log lines.
    pub log: Box<dyn LogSink>,
    /// Writes dump files; `None`: no dumps.
    pub dumps: Option<Box<dyn DumpSink>>,
    /// Compares the fabric that is found with the expected topology; `None`: no topology is expected.
    pub expected: Option<Expected>,
    /// Decides whether a plan may be sent.
    pub judge: Arc<dyn Judge>,
    /// The disk of the state folder; `None` for the operating system's.
    pub disk: Option<Arc<dyn Disk>>,
    /// The disk of stored counters; `None` for the operating system's. Another one has no events and topology versions.
    pub history_disk: Option<Arc<dyn selvedge_history::Disk>>,
    /// Take every slot of the sampler.
    pub consumers: Vec<Box<dyn Consumer>>,
    /// Sends HTTP requests; `None`: nothing is written to the server that `telemetry.remote_write` names.
    pub post: Option<Box<dyn Post>>,
}

impl Options {
    /// Returns a manager with default settings, no log and the real judge.
    #[must_use]
    pub fn new(mode: Mode, door: Door) -> Self {
        Self {
            mode,
            door,
            settings: Settings::default(),
            sources: None,
            names: BTreeMap::new(),
            until: Until::Stopped,
            record: None,
            log: Box::new(crate::events::NoLog),
            dumps: None,
            expected: None,
            judge: Arc::new(DefaultJudge::default()),
            disk: None,
            history_disk: None,
            consumers: Vec::new(),
            post: None,
        }
    }
}

/// A manager on its own thread.
pub struct Running {
    /// The interface of the manager for front ends.
    pub manager: Manager,
    thread: JoinHandle<Result<View, DaemonError>>,
}

impl Running {
    /// True once the manager has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the manager's end. Returns its last view.
    pub fn join(self) -> Result<View, DaemonError> {
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Returns the manager's configuration that follows from settings.
#[must_use]
pub fn manager_config(mode: Mode, local: LocalPort, settings: &Settings) -> Config {
    let manager = &settings.manager;
    Config {
        mode,
        local,
        policy: Arc::new(settings.policy.clone()),
        priority: manager.priority,
        sm_key: manager.sm_key.expose(),
        window: manager.window,
        agent_window: manager.agent_window,
        timeout: manager.timeout,
        retries: manager.retries,
        sweep_interval: manager.sweep_interval,
        read_back_sweeps: manager.read_back_sweeps,
        backups_after: manager.backups_after,
        poll_interval: manager.poll_interval,
        poll_misses: manager.poll_misses,
        disable_babbling_ports: manager.disable_babbling_ports,
    }
}

/// Opens the state folder on `disk`, or on the operating system's.
fn open_folder(path: Option<&Path>, disk: Option<Arc<dyn Disk>>) -> Result<Option<StateDir>, StoreError> {
    let open = |path| match disk {
        Some(disk) => StateDir::on(path, disk),
        None => StateDir::open(path),
    };
    path.map(open).transpose()
}

/// Returns the settings as in the configuration, without the list of places out of service.
fn without_list(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.policy.out_of_service = Arc::default();
    settings
}

/// What an earlier process of the manager has stored.
struct Loaded {
    state: PersistentState,
    known: Arc<Known>,
    /// Damaged or contradictory files.
    doubts: Vec<StateWarning>,
}

impl Loaded {
    fn read(folder: Option<&StateDir>) -> Result<Self, StoreError> {
        let (state, mut doubts) = folder.map(StateDir::load_state).transpose()?.unwrap_or_default();
        let (known, doubt) = folder.map(StateDir::load_known_fabric).unwrap_or_default();
        doubts.extend(doubt);
        Ok(Self {
            state,
            known: Arc::new(known),
            doubts,
        })
    }
}

fn create_record(path: Option<&Path>, header: &Header) -> Result<Option<Recorder>, DaemonError> {
    let create = |path| Recorder::create(path, header, Recorder::LIMIT_BYTES);
    path.map(create).transpose()
}

/// Returns the parameters of the sampler. A process that sets a fabric up once has none, and neither has one that only
/// watches.
fn sampling(mode: Mode, until: Until, settings: &Settings, is_emulated: bool) -> Option<selvedge_telemetry::Config> {
    let samples = settings.telemetry.enabled && mode == Mode::Manage && until == Until::Stopped;
    samples.then(|| telemetry::config(&settings.telemetry, &settings.telemetry_choices.detail, is_emulated))
}

/// Lets alarms isolate links, if there is a sampler and the operator wants it.
fn isolate(manager: &Manager, samples: bool, settings: &Settings) -> Result<(), DaemonError> {
    let per_day = settings.telemetry_choices.isolate_per_day;
    match samples {
        true => manager.shared.telemetry.isolate(manager.clone(), per_day),
        false => Ok(()),
    }
}

fn administrated(settings: &Settings, found: Found, has_folder: bool, until: Until) -> Administrated {
    Administrated {
        administrator: administrator::config(&settings.administrator),
        registrations: found.registrations,
        is_lost: found.is_lost,
        has_folder,
        // No host comes to a process that sets a fabric up once.
        has_hosts: until == Until::Stopped,
    }
}

/// Opens the port, takes the state folder and starts the manager.
pub fn start(options: Options) -> Result<Running, DaemonError> {
    let clock = Clock::start();
    let mut settings = options.settings;
    let place_at = place_at(&settings, &options.door, (options.disk.is_some(), options.history_disk));
    let folder = open_folder(settings.daemon.state_dir.as_deref(), options.disk)?.map(Arc::new);
    let roster = Arc::new(Roster::read(folder.clone())?);
    settings.policy.out_of_service = roster.list();
    let found = Found::read(folder.as_deref())?;
    if let (Some(folder), true, Mode::Manage) = (&folder, found.is_lost, options.mode) {
        folder.mark_unstored()?;
    }
    let Loaded { state, known, doubts } = Loaded::read(folder.as_deref())?;
    let (sender, receiver) = channel();
    let notes = (options.until == Until::Stopped).then(|| sender.clone());
    let (port, name, emulator) = open_door(options.door, options.mode, clock, notes)?;
    let local = port.local();
    let header = Header {
        mode: options.mode,
        local,
        settings: settings.clone(),
        state: state.clone(),
        known: Arc::clone(&known),
    };
    let recorder = create_record(options.record.as_deref(), &header)?;
    let sampling = sampling(options.mode, options.until, &settings, emulator.is_some());
    let shared = Arc::new(Shared::new(
        clock,
        Names::new(options.names),
        (settings.daemon.event_ring, options.log),
        (name, local),
        telemetry(&sampling, &settings, place_at(local))?,
    ));
    for doubt in doubts {
        shared.notice(&Notice::StateDoubtful(doubt));
    }
    let manager = Manager {
        shared: Arc::clone(&shared),
        notes: Arc::new(Mutex::new(sender.clone())),
        emulator,
        sources: options.sources.map(Arc::new),
        running: Arc::new(Mutex::new(without_list(&settings))),
        aside: Aside::default(),
        roster: Arc::clone(&roster),
    };
    isolate(&manager, sampling.is_some(), &settings)?;
    let config = manager_config(options.mode, local, &settings);
    let administrated = administrated(&settings, found, folder.is_some(), options.until);
    let (gatherer, resumed) = gathering(&shared, &settings, options.consumers, options.post)?;
    let driver = Driver::new(Parts {
        coordinator: Coordinator::new(clock.now(), &config, Some(administrated)).sampling(sampling.map(Sampler::new)),
        gatherer,
        resumed,
        sm: Sm::new(config, options.judge, state).remembering(known),
        port,
        until: options.until,
        shared,
        notes: (sender, receiver),
        recorder,
        folder,
        dumps: options.dumps,
        expected: options.expected,
        roster,
    })?;
    let thread = thread::Builder::new().name("manager".to_owned());
    let thread = thread.spawn(move || driver.run());
    Ok(Running {
        manager,
        thread: thread.map_err(|cause| DaemonError::Thread { cause })?,
    })
}

/// Returns what readers see of telemetry, with the operator's choices.
fn telemetry(
    sampling: &Option<selvedge_telemetry::Config>,
    settings: &Settings,
    place: Option<Place>,
) -> Result<Telemetry, DaemonError> {
    let chosen = Chosen::read(&settings.telemetry_choices)?;
    Ok(Telemetry::new(sampling.clone(), settings.telemetry.guilbaults, place).choosing(chosen))
}

type Gathering = (Option<Gatherer>, Option<Resumed>);

/// Starts the threads that take what the sampler finds: the store first, then the other consumers.
/// Without a sampler there are none.
fn gathering(
    shared: &Arc<Shared>,
    settings: &Settings,
    consumers: Vec<Box<dyn Consumer>>,
    post: Option<Box<dyn Post>>,
) -> Result<Gathering, DaemonError> {
    if !shared.telemetry.has_sampler() {
        return Ok((None, None));
    }
    telemetry::thresholds::take(shared, &settings.alarms);
    let (keeper, resumed) = history::begin(shared)?.unzip();
    let keeper = keeper.map(|keeper| -> Box<dyn Consumer> { Box::new(keeper) });
    let writer = settings.telemetry.remote_write.clone().zip(post);
    let writer = writer
        .map(|(url, post)| RemoteWriter::start(Arc::clone(shared), url, post))
        .transpose()?;
    let writer = writer.map(|writer| -> Box<dyn Consumer> { Box::new(writer) });
    let consumers = keeper.into_iter().chain(writer).chain(consumers).collect();
    Ok((Some(Gatherer::start(Arc::clone(shared), consumers)?), resumed))
}

/// Returns the function that chooses where counters are stored once the port is known. A state folder on another disk
/// than the operating system's (`has_disk`) has no place for them.
fn place_at(
    settings: &Settings,
    door: &Door,
    (has_disk, disk): (bool, Option<Arc<dyn selvedge_history::Disk>>),
) -> impl FnOnce(LocalPort) -> Option<Place> + use<> {
    let emulated = match door {
        Door::Emulated { name, .. } => Some(format!("emulated {name}")),
        Door::Port(_) => None,
    };
    let is_elsewhere = has_disk && disk.is_none() && settings.history.folder.is_none();
    let settings = (!is_elsewhere).then(|| settings.clone());
    move |local| {
        let fabric = emulated.unwrap_or_else(|| format!("port {}", local.port_guid));
        Place::of(&settings?, fabric, disk)
    }
}

type Opened = (Box<dyn MadPort>, String, Option<HostHandle>);

/// Opens the port. With `notes` it is opened again when its driver or simulator goes and comes back.
fn open_door(door: Door, mode: Mode, clock: Clock, notes: Option<Sender<Note>>) -> Result<Opened, DaemonError> {
    match door {
        Door::Emulated { fabric, options, name } => {
            let (host, handle) = Host::new(&fabric, &options, clock)?;
            let port = EmulatedPort::new(host, options.seat.as_deref(), clock)?;
            Ok((Box::new(port), name, Some(handle)))
        }
        Door::Port(spec) => {
            let role = match mode {
                Mode::Manage => Role::Manager,
                Mode::DryRun | Mode::Watch => Role::Observer,
            };
            let (port, name) = (open(&spec, role)?, spec.to_string());
            let Some(notes) = notes else {
                return Ok((port, name, None));
            };
            // By GUID: the names of HCAs may change while their driver is away.
            let same = match spec {
                PortSpec::Umad { .. } => PortSpec::UmadGuid(port.local().port_guid),
                spec => spec,
            };
            let open_again = Arc::new(move || open(&same, role));
            Ok((Box::new(AttachedPort::new(port, open_again, notes)), name, None))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use selvedge_plan::Policy;
    use selvedge_types::PortNum;

    use super::*;

    #[test]
    fn default_settings_are_the_managers_defaults() {
        let local = LocalPort {
            node_guid: Guid(1),
            port_guid: Guid(2),
            port: PortNum::MANAGEMENT,
        };
        let ours = manager_config(Mode::Manage, local, &Settings::default());
        // A running manager has idle time to work out repairs; one under virtual time has none.
        let core = Config {
            backups_after: Some(Duration::from_secs(2)),
            ..Config::new(Mode::Manage, local, Arc::new(Policy::default()))
        };
        assert_eq!(format!("{ours:?}"), format!("{core:?}"));
    }
}
