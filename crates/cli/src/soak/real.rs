//! `selvedge soak --manager`: the same disasters in real time, for managers that are programs of their own.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use selvedge_config::{Settings, print_settings_with_keys};
use selvedge_daemon::Served;
use selvedge_emulator::{Delivery, Emulator};
use selvedge_plan::EngineName;
use selvedge_rehearsal::soak::{Family, RealOutcome, Schedule};
use selvedge_rehearsal::{Mail, ManagerId, Outside};
use selvedge_routing::Engine;
use selvedge_sim::Time;
use selvedge_sm::Config;
use selvedge_transport::ibsim::ServerOptions;

use crate::soak::generated;

/// A program that manages fabrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Program {
    /// Debian's opensm, through libumad2sim
    Opensm,
    /// This program: `selvedge run`
    Selvedge,
}

impl Program {
    /// Returns the name of the program.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opensm => "opensm",
            Self::Selvedge => "selvedge",
        }
    }
}

/// The shim that makes programs clients of a simulator, and where distributions put it.
const SHIM: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so",
    "/usr/lib/aarch64-linux-gnu/umad2sim/libumad2sim.so",
    "/usr/lib64/umad2sim/libumad2sim.so",
    "/usr/lib/umad2sim/libumad2sim.so",
    "/usr/local/lib/umad2sim/libumad2sim.so",
];

/// A run in real time.
pub struct Run {
    /// The seed of the schedule.
    pub seed: u64,
    /// The fabric.
    pub fabric: String,
    /// The outcome of the run, or why it could not be carried out.
    pub outcome: Result<RealOutcome, String>,
}

/// Carries out seeds, several at a time, because they wait most of the time.
pub fn carry_out(
    seeds: &Range<u64>,
    program: Program,
    (speed, happenings): (u32, Option<usize>),
    jobs: usize,
    done: impl Fn() + Sync,
) -> Vec<Run> {
    let left = Mutex::new(seeds.clone());
    let next = || left.lock().ok()?.next();
    let runs = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    let run = one(seed, program, speed, happenings);
                    done();
                    if let Ok(mut runs) = runs.lock() {
                        runs.push(run);
                    }
                }
            });
        }
    });
    let mut runs = runs.into_inner().unwrap_or_default();
    runs.sort_by_key(|run: &Run| run.seed);
    runs
}

fn one(seed: u64, program: Program, speed: u32, happenings: Option<usize>) -> Run {
    let mut schedule = Schedule::draw(seed);
    schedule.happenings.truncate(happenings.unwrap_or(usize::MAX));
    // OpenSM gets no key to fabrics that it has locked and no longer knows; no job has a virtual cost.
    (schedule.setup.m_key, schedule.setup.plan_ms) = (0, None);
    let fabric = schedule.fabric.clone();
    let carry_out = || {
        let fabric = generated(&fabric)?;
        let hands = Processes::new(program, speed, &schedule, &fabric)?;
        schedule
            .run_outside(&fabric, Box::new(hands))
            .map_err(|error| error.to_string())
    };
    Run {
        seed,
        outcome: carry_out(),
        fabric: schedule.fabric.clone(),
    }
}

/// Managers as processes, on sockets of their own.
struct Processes {
    program: Program,
    folder: PathBuf,
    base: String,
    served: Served,
    start: Instant,
    speed: u32,
    /// A root for engines that find none: the first switch, where the fabric has no levels.
    root: Option<String>,
    children: BTreeMap<ManagerId, Child>,
    /// How each manager was started.
    started: BTreeMap<ManagerId, Started>,
    /// Programs that ended by themselves, with the times at which they are started again.
    crashes: Vec<String>,
    again: BTreeMap<ManagerId, Instant>,
}

/// How a manager was started.
#[derive(Debug)]
struct Started {
    node: String,
    config: Config,
}

/// How long an operator's init system waits before it starts a program again.
const RESTART: Duration = Duration::from_millis(100);

impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.program.name(), self.base)
    }
}

impl Processes {
    fn new(
        program: Program,
        speed: u32,
        schedule: &Schedule,
        fabric: &selvedge_fabric::Fabric,
    ) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let base = format!(
            "slv-soak-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = std::env::temp_dir().join(&base);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let has_levels = matches!(schedule.family, Family::Tree2 | Family::Tree3);
        let first = fabric
            .switches()
            .iter()
            .next()
            .map(|&node| fabric.node(node).guid.to_string());
        let options = ServerOptions {
            response_timeout: Duration::from_millis(schedule.setup.requests.timeout_ms.into()) / speed,
            retries: schedule.setup.requests.retries.into(),
        };
        Ok(Self {
            program,
            served: Served::bind(&base, options).map_err(|error| error.to_string())?,
            folder,
            base,
            start: Instant::now(),
            speed,
            root: first.filter(|_| !has_levels),
            children: BTreeMap::new(),
            started: BTreeMap::new(),
            crashes: Vec::new(),
            again: BTreeMap::new(),
        })
    }

    fn folder_of(&self, id: ManagerId) -> Result<PathBuf, String> {
        let folder = self.folder.join(format!("manager-{}", id.0));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// Writes the configuration file of a manager.
    fn configure(&self, folder: &Path, config: &Config) -> Result<PathBuf, String> {
        let file = folder.join("manager.conf");
        let text = match self.program {
            Program::Opensm => self.opensm_conf(folder, config)?,
            Program::Selvedge => {
                let mut settings = Settings {
                    policy: selvedge_plan::Policy::clone(&config.policy),
                    ..Settings::default()
                };
                let manager = &mut settings.manager;
                manager.priority = config.priority;
                manager.window = config.window;
                manager.agent_window = config.agent_window;
                manager.retries = config.retries;
                manager.timeout = config.timeout / self.speed;
                manager.sweep_interval = config.sweep_interval.map(|sweep| self.seconds(sweep));
                manager.poll_interval = config.poll_interval / self.speed;
                settings.daemon.socket = Some(folder.join("api.sock"));
                settings.daemon.state_dir = Some(folder.to_owned());
                settings.daemon.log_file = Some(folder.join("log"));
                print_settings_with_keys(&settings)
            }
        };
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    /// Returns a time in whole seconds, because OpenSM accepts no others.
    fn seconds(&self, virtual_time: Duration) -> Duration {
        Duration::from_secs((virtual_time.as_secs() / u64::from(self.speed)).max(1))
    }

    fn opensm_conf(&self, folder: &Path, config: &Config) -> Result<String, String> {
        let policy = &config.policy;
        // The checkers can follow only routes on one lane.
        let engine = |name: &EngineName| Engine::try_from(name).map_or("updn", Engine::in_opensm);
        let mut engines: Vec<&str> = policy.engines.iter().map(engine).collect();
        engines.dedup();
        let mut lines = vec![
            format!("routing_engine {}", engines.join(",")),
            format!("lmc {}", policy.lmc.get()),
            format!("sm_priority {}", config.priority),
            format!("max_wire_smps {}", config.window),
            format!("transaction_timeout {}", (config.timeout / self.speed).as_millis()),
            format!("transaction_retries {}", config.retries),
            format!(
                "sweep_interval {}",
                self.seconds(config.sweep_interval.unwrap_or_default()).as_secs()
            ),
            format!("sminfo_polling_timeout {}", 10_000 / self.speed),
            format!("subnet_timeout {}", policy.subnet_timeout),
            format!("head_of_queue_lifetime 0x{:x}", policy.hoq_life),
            "honor_guid2lid_file TRUE".to_owned(),
            "force_log_flush TRUE".to_owned(),
        ];
        if let Some(root) = &self.root {
            let file = folder.join("roots");
            fs::write(&file, format!("{root}\n")).map_err(|error| format!("{}: {error}", file.display()))?;
            lines.push(format!("root_guid_file {}", file.display()));
        }
        Ok(lines.join("\n") + "\n")
    }

    fn command(&self, folder: &Path, file: &Path, node: &str) -> Result<Command, String> {
        let mut command = self.bound_command(folder)?;
        match self.program {
            Program::Opensm => {
                let shim = SHIM.iter().find(|shim| Path::new(shim).is_file());
                let shim = shim.ok_or("libumad2sim.so is not installed (Debian: libumad2sim0)")?;
                command.arg("-F").arg(file).arg("-f").arg(folder.join("log"));
                command.args(["-D", "0x3"]);
                command.env("LD_PRELOAD", shim).env("SIM_HOST", node);
                command
                    .env("IBSIM_SOCKNAME", &self.base)
                    .env_remove("IBSIM_SERVER_NAME");
                command.env("OSM_TMP_DIR", folder).env("OSM_CACHE_DIR", folder);
            }
            Program::Selvedge => {
                let port = format!("ibsim:{}/{node}", self.base);
                command.args(["run", "--port", &port, "--config"]).arg(file);
            }
        }
        let out = |name: &str| File::create(folder.join(name)).map_err(|error| error.to_string());
        command
            .stdin(Stdio::null())
            .stdout(out("stdout")?)
            .stderr(out("stderr")?);
        command.current_dir(folder);
        Ok(command)
    }

    /// Returns a command that ends when this thread ends, so that no process is left behind.
    fn bound_command(&self, folder: &Path) -> Result<Command, String> {
        let program = match self.program {
            Program::Opensm => ["/usr/sbin/opensm", "/usr/local/sbin/opensm"]
                .iter()
                .map(PathBuf::from)
                .find(|path| path.is_file())
                .ok_or("opensm is not installed (Debian: opensm)")?,
            Program::Selvedge => std::env::current_exe().map_err(|error| error.to_string())?,
        };
        let _ = folder;
        let setpriv = Path::new("/usr/bin/setpriv");
        if !setpriv.is_file() {
            return Ok(Command::new(program));
        }
        let mut command = Command::new(setpriv);
        command.args(["--pdeathsig", "KILL"]).arg(program);
        Ok(command)
    }

    /// Sends SIGHUP to a manager once it listens. Before that, it reads its file anyway.
    fn hang_up(&self, id: ManagerId) -> Result<(), String> {
        let Some(child) = self.children.get(&id) else {
            return Ok(());
        };
        let log = fs::read(self.folder_of(id)?.join("log")).unwrap_or_default();
        let listens = match self.program {
            Program::Opensm => "Entering",
            Program::Selvedge => "sweep started",
        };
        if !String::from_utf8_lossy(&log).contains(listens) {
            return Ok(());
        }
        let sent = Command::new("kill").args(["-HUP", &child.id().to_string()]).status();
        sent.map(drop).map_err(|error| format!("kill: {error}"))
    }

    /// Records the programs that ended by themselves, and starts them again a little later.
    fn look_after(&mut self) -> Result<(), String> {
        for (&id, child) in &mut self.children {
            if let Ok(Some(status)) = child.try_wait() {
                let at = Time(u64::try_from((self.start.elapsed() * self.speed).as_nanos()).unwrap_or(u64::MAX));
                let said = fs::read(self.folder.join(format!("manager-{}", id.0)).join("stderr")).unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
                self.crashes.push(format!("at {at}: {status} {last}").trim().to_owned());
                self.again.insert(id, Instant::now() + RESTART);
            }
        }
        self.children.retain(|id, _| !self.again.contains_key(id));
        let due = self.again.iter().find(|(_, at)| **at <= Instant::now());
        let Some((&id, _)) = due else { return Ok(()) };
        self.again.remove(&id);
        let Some(Started { node, config }) = self.started.remove(&id) else {
            return Ok(());
        };
        self.start(id, &node, &config)
    }
}

impl Outside for Processes {
    fn start(&mut self, id: ManagerId, node: &str, config: &Config) -> Result<(), String> {
        let folder = self.folder_of(id)?;
        let file = self.configure(&folder, config)?;
        // The log of an earlier process would suggest that this one handles signals already.
        let _ = fs::remove_file(folder.join("log"));
        let child = self.command(&folder, &file, node)?.spawn();
        self.children.insert(id, child.map_err(|error| error.to_string())?);
        let started = Started {
            node: node.to_owned(),
            config: config.clone(),
        };
        self.started.insert(id, started);
        Ok(())
    }

    fn kill(&mut self, id: ManagerId) {
        self.again.remove(&id);
        if let Some(mut child) = self.children.remove(&id) {
            // One that has ended already needs no killing.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn reload(&mut self, id: ManagerId, node: &str, config: &Config) -> Result<(), String> {
        let folder = self.folder_of(id)?;
        self.configure(&folder, config)?;
        let before = self
            .started
            .get_mut(&id)
            .map(|started| std::mem::replace(&mut started.config, config.clone()));
        let is_same = |before: &Config| {
            (&before.policy.engines, before.policy.lmc) == (&config.policy.engines, config.policy.lmc)
        };
        // OpenSM reads engines and LMC when it starts only.
        if self.program == Program::Opensm && !before.as_ref().is_some_and(is_same) {
            self.kill(id);
            return self.start(id, node, config);
        }
        self.hang_up(id)
    }

    fn sweep(&mut self, id: ManagerId) -> Result<(), String> {
        self.hang_up(id)
    }

    fn crashes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.crashes)
    }

    fn now(&self) -> Time {
        let elapsed = self.start.elapsed() * self.speed;
        Time(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    fn wait(&mut self, until: Time, emulator: &mut Emulator, sent: &mut Vec<Mail>) -> Result<(), String> {
        const LONGEST: Duration = Duration::from_millis(100);
        loop {
            let left = until.since(self.now()) / self.speed;
            let now = self.now();
            let mail = |_: &mut Emulator, client, datagram| sent.push(Mail { client, datagram });
            let polled = self.served.poll(emulator, left.min(LONGEST), || now, mail);
            polled.map_err(|error| error.to_string())?;
            if !sent.is_empty() || self.now() >= until {
                return Ok(());
            }
            self.look_after()?;
        }
    }

    fn deliver(&mut self, emulator: &Emulator, delivery: &Delivery) {
        // A delivery for no client is dropped.
        let _ = self.served.deliver(emulator, delivery);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for id in self.children.keys().copied().collect::<Vec<_>>() {
            self.kill(id);
        }
        if std::env::var_os("SELVEDGE_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
