//! Our own bring-up: the program as an operator starts it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use selvedge_conformance::PeerLab;
use serde_json::Value;

use crate::case::Case;
use crate::error::BenchError;

/// Name of the program.
const PROGRAM: &str = "selvedge";
/// Longest bring-up that is waited for.
const LIMIT: Duration = Duration::from_secs(120);
/// How often is looked whether the program has ended.
const STEP: Duration = Duration::from_micros(200);

/// What one run found.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Routing engine of the plan that the judge accepted.
    pub engine: String,
    /// Start of the process to its end, in seconds.
    pub process_s: f64,
    /// Start of the manager to the first time that the subnet was up, by its own clock, in seconds.
    pub bringup_s: f64,
    /// Gets sent, repeats included.
    pub gets: u64,
    /// Sets sent, repeats included.
    pub sets: u64,
    /// Repeats among both.
    pub repeats: u64,
}

impl Run {
    /// MADs sent.
    #[must_use]
    pub const fn mads(&self) -> u64 {
        self.gets + self.sets
    }
}

/// The program beside this one: both are built into one folder.
pub fn program() -> Result<PathBuf, BenchError> {
    let own = std::env::current_exe().map_err(BenchError::store("finding", "this program"))?;
    let program = own.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    Err(BenchError::NotBuilt { program: PROGRAM })
}

/// Brings the fabric behind the simulator (or relay) named `base` up; files go into the lab's folder.
pub fn run(case: &Case, lab: &PeerLab, base: &str, program: &Path) -> Result<Run, BenchError> {
    let not_up = |cause: String| BenchError::NotUp {
        manager: PROGRAM.to_owned(),
        fabric: case.spec.clone(),
        cause,
    };
    let (answer, errors) = (lab.folder().join("run.json"), lab.folder().join("run.err"));
    let open = |path: &Path| File::create(path).map_err(BenchError::store("creating", path.display()));
    let port = format!("ibsim:{base}/{}", case.host_name());
    let mut command = Command::new(program);
    command.args(["run", "--once", "--json", "--port", &port]);
    command
        .stdin(Stdio::null())
        .stdout(open(&answer)?)
        .stderr(open(&errors)?);
    let start = Instant::now();
    let child = command.spawn().map_err(|error| not_up(error.to_string()))?;
    let status = wait(child, start).map_err(|error| not_up(error.to_string()))?;
    let process_s = start.elapsed().as_secs_f64();
    let said = || fs::read_to_string(&errors).unwrap_or_default();
    match status {
        Some(status) if status.success() => {}
        Some(status) => return Err(not_up(format!("{status}; {}", said()))),
        None => return Err(not_up(format!("not done after {} s; {}", LIMIT.as_secs(), said()))),
    }
    let text = fs::read_to_string(&answer).unwrap_or_default();
    read(&text, process_s).ok_or_else(|| not_up("its JSON lacks status.mads, .plan or .first_up_ms".to_owned()))
}

/// Waits for the end; kills what takes too long.
fn wait(mut child: Child, start: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::park_timeout(STEP);
    }
}

fn read(text: &str, process_s: f64) -> Option<Run> {
    let document: Value = serde_json::from_str(text).ok()?;
    let status = document.get("status")?;
    let mads = status.get("mads")?;
    let count = |key: &str| mads.get(key)?.as_u64();
    Some(Run {
        engine: status.get("plan")?.get("engine")?.as_str()?.to_owned(),
        process_s,
        bringup_s: status.get("first_up_ms")?.as_u64()? as f64 / 1e3,
        gets: count("gets")?,
        sets: count("sets")?,
        repeats: count("repeats")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents() {
        let check = |text: &str, want: Option<(f64, u64, u64)>| {
            let got = read(text, 2.0).map(|run| (run.bringup_s, run.mads(), run.repeats));
            assert_eq!(got, want, "{text}");
        };
        let good = r#"{"status": {"first_up_ms": 1500, "plan": {"engine": "updn", "lids": 3},
                        "mads": {"gets": 3, "sets": 4, "repeats": 1, "others": 9}}}"#;
        check(good, Some((1.5, 7, 1)));
        check(&good.replace("1500", "null"), None);
        check(&good.replace("engine", "motor"), None);
        check(&good.replace("repeats", "again"), None);
        check("", None);
    }
}
