//! A running OpenSM.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::parse::Plan;
use crate::process::{Running, tail};
use crate::{LabError, until};

/// How OpenSM is started.
#[derive(Clone, Debug)]
pub struct OpenSmOptions {
    /// Routing engine: for example `minhop`, `updn`, `ftree`.
    pub engine: String,
    /// Further lines of OpenSM's configuration: for example `sm_priority 14`.
    pub lines: Vec<String>,
    /// End after the first sweep (`-o`).
    pub once: bool,
    /// Dump tables after every sweep, for [`OpenSm::plan`].
    pub dump: bool,
}

impl Default for OpenSmOptions {
    fn default() -> Self {
        Self {
            engine: "minhop".to_owned(),
            lines: Vec::new(),
            once: false,
            dump: false,
        }
    }
}

/// A running OpenSM; ends when dropped.
///
/// Observed with OpenSM 3.3.23 on ibsim 0.10: SIGTERM ends OpenSM within 0.1 s with status 0, and OpenSM clears IsSM;
/// with `-o` it ends with status 0 after SUBNET UP; SIGHUP makes a heavy sweep that ends with SUBNET UP again. After
/// SIGKILL, ibsim keeps the client, IsSM included, until it next writes to that client.
pub struct OpenSm {
    process: Running,
    folder: PathBuf,
}

impl OpenSm {
    /// Starts OpenSM; does not wait.
    pub(crate) fn start(mut command: Command, folder: PathBuf, options: &OpenSmOptions) -> Result<Self, LabError> {
        let conf = folder.join("opensm.conf");
        let mut text = format!("routing_engine {}\nforce_log_flush TRUE\n", options.engine);
        options.lines.iter().for_each(|line| text += &format!("{line}\n"));
        fs::write(&conf, text).map_err(LabError::io("writing", conf.display()))?;
        command
            .arg("-F")
            .arg(&conf)
            .arg("-f")
            .arg(folder.join("opensm.log"))
            .args(["-D", if options.dump { "0x43" } else { "0x3" }]);
        if options.once {
            command.arg("-o");
        }
        command
            .env("OSM_TMP_DIR", &folder)
            .env("OSM_CACHE_DIR", &folder)
            .current_dir(&folder);
        let process = Running::start(command, &folder, "opensm")?;
        Ok(Self { process, folder })
    }

    /// Waits until OpenSM's log has SUBNET UP at least `count` times.
    pub fn wait_up(&mut self, count: usize, limit: Duration) -> Result<(), LabError> {
        self.wait_log("SUBNET UP", count, limit)
    }

    /// Waits until OpenSM's log contains `text` at least `count` times.
    pub fn wait_log(&mut self, text: &str, count: usize, limit: Duration) -> Result<(), LabError> {
        let log = self.folder.join("opensm.log");
        let read = || fs::read(&log).map_or_else(|_| String::new(), |b| String::from_utf8_lossy(&b).into_owned());
        let what = format!("OpenSM to log '{text}' {count} times");
        until(
            &what,
            limit,
            || tail(&read()),
            || {
                if read().matches(text).count() >= count {
                    return Ok(Some(()));
                }
                self.process.must_run().map(|()| None)
            },
        )
    }

    /// Returns OpenSM's log so far.
    #[must_use]
    pub fn log(&self) -> String {
        let bytes = fs::read(self.folder.join("opensm.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the text of a file that OpenSM wrote: for example `guid2lid` or `opensm-lfts.dump`.
    pub fn file(&self, name: &str) -> Result<String, LabError> {
        let path = self.folder.join(name);
        fs::read_to_string(&path).map_err(LabError::io("reading", path.display()))
    }

    /// Returns the plan that OpenSM reports as written. Needs option `dump`.
    pub fn plan(&self) -> Result<Plan, LabError> {
        Plan::parse(&self.file("opensm-lfts.dump")?, &self.file("guid2lid")?)
    }

    /// Makes OpenSM sweep the whole fabric again.
    pub fn heavy_sweep(&self) -> Result<(), LabError> {
        self.process.signal("HUP")
    }

    /// Ends OpenSM as an operator does (SIGTERM), and waits.
    pub fn stop(self, limit: Duration) -> Result<(), LabError> {
        self.process.signal("TERM")?;
        self.process.finish(limit)?.success().map(drop)
    }

    /// Waits until OpenSM ends by itself (option `once`).
    pub fn finish(self, limit: Duration) -> Result<(), LabError> {
        self.process.finish(limit)?.success().map(drop)
    }

    /// Ends OpenSM as a crash does (SIGKILL).
    pub fn kill(self) {
        drop(self.process);
    }

    /// Returns the process of OpenSM.
    #[must_use]
    pub const fn process(&self) -> &Running {
        &self.process
    }
}
