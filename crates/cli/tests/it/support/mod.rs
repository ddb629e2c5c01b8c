//! Runs the binary in a scratch folder.

mod repeater;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use self::repeater::repeat_answers;

/// Longest time to wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of a test's own, removed when the test is over.
pub struct Lab {
    folder: PathBuf,
}

impl Lab {
    pub fn new(name: &str) -> Self {
        // Two tests with one name have two folders.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("selvedge-cli-{}-{number}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.folder.join(name), text).unwrap();
        self.path(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        // Nothing of the user's: sockets and files go into the test's folder.
        command
            .args(args)
            .env("XDG_RUNTIME_DIR", &self.folder)
            .env("OSM_TMP_DIR", &self.folder)
            .current_dir(&self.folder);
        command.env_remove("LD_PRELOAD").stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// Runs a command that changes something. While a change before it is open, the manager asks to try again: then
    /// it is run again.
    pub fn run_in_turn(&self, args: &[&str]) -> Ran {
        wait_for("turn", || {
            Some(self.run(args)).filter(|ran| !ran.err.contains("SLV-API-0027"))
        })
    }

    pub fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    }

    /// Starts a process that runs until it is ended.
    pub fn start(&self, args: &[&str]) -> Process {
        let mut command = self.command(args);
        let log = fs::File::create(self.folder.join(format!("{}.log", args[0]))).unwrap();
        command.stdout(Stdio::null()).stderr(log);
        Process(command.spawn().unwrap())
    }

    /// Starts a process with its standard output going into a file.
    pub fn start_into(&self, file: &str, args: &[&str]) -> Process {
        let mut command = self.command(args);
        let [out, err] = [file, "err.log"].map(|name| fs::File::create(self.folder.join(name)).unwrap());
        Process(command.stdout(out).stderr(err).spawn().unwrap())
    }

    /// Does the same as [`Self::start`] with at most this many descriptors.
    pub fn start_with_descriptors(&self, descriptors: u32, args: &[&str]) -> Process {
        let program = self.command(&[]);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")])
            .arg(program.get_program())
            .args(args)
            .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder.join("limited.log")).unwrap());
        Process(command.spawn().unwrap())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A finished command.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Checks the exit code; shows everything if it is another one.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    /// Checks that standard error says something.
    #[track_caller]
    pub fn complains(self, text: &str) -> Self {
        assert!(self.err.contains(text), "'{text}' is not in: {}", self.err);
        self
    }

    /// Checks that standard output says something.
    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.out.contains(text), "'{text}' is not in: {}", self.out);
        self
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

/// A running process; ended by its id when dropped.
pub struct Process(Child);

impl Process {
    /// Takes a child that was started elsewhere.
    pub const fn of(child: Child) -> Self {
        Self(child)
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, name: &str) {
        let ok = Command::new("kill")
            .args([&format!("-{name}"), &self.0.id().to_string()])
            .status()
            .unwrap();
        assert!(ok.success());
    }

    pub fn exit_code(mut self) -> Option<i32> {
        wait_for("end of a process", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "no {what} after {PATIENCE:?}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
