//! A lab: a scratch folder, a socket name of its own, and the peers that a test starts there.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use crate::process::{Finished, Running, command, package_of, tail};
use crate::{Ibsim, LabError, NetSize, OpenSm, OpenSmOptions, Relay, Seen};

/// The shim: a library that, once preloaded, makes a program a client of a simulator.
const SHIM: &str = "libumad2sim.so";
/// Folders in which Debian (any architecture), Fedora and a source build put the shim.
const SHIM_FOLDERS: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/umad2sim",
    "/usr/lib/aarch64-linux-gnu/umad2sim",
    "/usr/lib64/umad2sim",
    "/usr/lib/umad2sim",
    "/usr/local/lib/umad2sim",
];
/// How long a diagnostic may take, unless the test sets another limit.
pub(crate) const CLIENT_LIMIT: Duration = Duration::from_secs(60);

/// Number of diagnostics that run at a time: a simulator has room for ten clients, and a diagnostic waits for the
/// simulator most of the time.
const AT_A_TIME: usize = 3;

/// A scratch folder and a socket name of its own, so that labs can run side by side.
///
/// Peers are started from the thread that owns the lab, and end with it.
pub struct PeerLab {
    folder: PathBuf,
    base: String,
    next: AtomicU32,
}

impl PeerLab {
    /// Makes an empty lab.
    pub fn new() -> Result<Self, LabError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = format!("slv-lab-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&base);
        fs::create_dir_all(&folder).map_err(LabError::io("creating", folder.display()))?;
        Ok(Self {
            folder,
            base,
            next: AtomicU32::new(0),
        })
    }

    /// Returns the lab's scratch folder, which is removed with the lab.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the lab's socket name. The simulator of this lab (ibsim or the built-in emulator) serves under this
    /// name.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Starts ibsim on a net file's text, under the lab's socket name, and waits until it is ready.
    pub fn ibsim(&self, net: &str) -> Result<Ibsim, LabError> {
        self.ibsim_sized(net, NetSize::of(net))
    }

    /// Starts ibsim as [`Self::ibsim`] does, with room for `size`.
    pub fn ibsim_sized(&self, net: &str, size: NetSize) -> Result<Ibsim, LabError> {
        Ibsim::start(&self.folder, &self.base, net, size)
    }

    /// Puts a relay before the lab's simulator. The relay counts what clients of `relay.base()` send.
    pub fn relay(&self) -> Result<Relay, LabError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Relay::start(&format!("{}-relay{number}", self.base), &self.base)
    }

    /// Does the same as [`Self::relay`]; `observer` also gets every packet.
    pub fn observed_relay(&self, observer: Sender<Seen>) -> Result<Relay, LabError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Relay::observed(&format!("{}-relay{number}", self.base), &self.base, Some(observer))
    }

    /// Starts OpenSM at `node`.
    pub fn opensm(&self, node: &str, options: &OpenSmOptions) -> Result<OpenSm, LabError> {
        self.opensm_through(&self.base, node, options)
    }

    /// Starts OpenSM at `node` of the simulator, or relay, named `base`.
    pub fn opensm_through(&self, base: &str, node: &str, options: &OpenSmOptions) -> Result<OpenSm, LabError> {
        let folder = self.sub_folder("opensm")?;
        OpenSm::start(self.client_command(base, node, "opensm")?, folder, options)
    }

    /// Runs a client of the lab's simulator at `node` to its end.
    pub fn run(&self, node: &str, program: &str, arguments: &[&str]) -> Result<Finished, LabError> {
        self.spawn(&self.base, node, program, arguments)?.finish(CLIENT_LIMIT)
    }

    /// Does the same as [`Self::run`]; returns the output if the exit status is 0.
    pub fn output(&self, node: &str, program: &str, arguments: &[&str]) -> Result<String, LabError> {
        self.run(node, program, arguments)?.success()
    }

    /// Runs the same program with each of these argument lists, a few at a time, and returns the outputs.
    pub fn outputs(&self, node: &str, program: &str, calls: Vec<Vec<String>>) -> Result<Vec<String>, LabError> {
        let mut running = VecDeque::new();
        let mut outputs = Vec::with_capacity(calls.len());
        let mut end_first = |running: &mut VecDeque<Running>| match running.pop_front() {
            Some(first) => first.finish(CLIENT_LIMIT)?.success().map(|output| outputs.push(output)),
            None => Ok(()),
        };
        for call in calls {
            if running.len() == AT_A_TIME {
                end_first(&mut running)?;
            }
            let arguments: Vec<_> = call.iter().map(String::as_str).collect();
            running.push_back(self.spawn(&self.base, node, program, &arguments)?);
        }
        while !running.is_empty() {
            end_first(&mut running)?;
        }
        Ok(outputs)
    }

    /// Starts a client at `node` of the simulator, or relay, named `base`.
    pub fn spawn(&self, base: &str, node: &str, program: &str, arguments: &[&str]) -> Result<Running, LabError> {
        let label = Path::new(program)
            .file_name()
            .map_or_else(|| "client".into(), |name| name.to_string_lossy());
        let folder = self.sub_folder(&label)?;
        let mut command = self.client_command(base, node, program)?;
        command.args(arguments).current_dir(&folder);
        Running::start(command, &folder, &label)
    }

    fn client_command(&self, base: &str, node: &str, program: &str) -> Result<Command, LabError> {
        let mut command = command(program)?;
        command
            .env("LD_PRELOAD", shim()?)
            .env("IBSIM_SOCKNAME", base)
            .env("SIM_HOST", node);
        command.env_remove("IBSIM_SERVER_NAME").env_remove("SIM_SET_ISSM");
        Ok(command)
    }

    pub(crate) fn sub_folder(&self, label: &str) -> Result<PathBuf, LabError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("{label}-{number}"));
        fs::create_dir_all(&folder).map_err(LabError::io("creating", folder.display()))?;
        Ok(folder)
    }
}

impl Drop for PeerLab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Kept for the analysis of the failure.
            eprintln!("the lab's files are in {}", self.folder.display());
            // If only this output is kept, as in CI, the simulator's messages are needed as well.
            let said = fs::read_to_string(self.folder.join("ibsim.err")).unwrap_or_default();
            if !said.is_empty() {
                eprintln!("last output of ibsim:\n{}", tail(&said));
            }
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Returns the file of the shim.
fn shim() -> Result<PathBuf, LabError> {
    let mut files = SHIM_FOLDERS.iter().map(|folder| Path::new(folder).join(SHIM));
    files.find(|file| file.is_file()).ok_or_else(|| LabError::MissingPeer {
        program: SHIM.to_owned(),
        package: package_of(SHIM),
    })
}
