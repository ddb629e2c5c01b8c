//! Selvedge's bring-up: the program is started as an operator starts it.

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
/// Longest wait for a bring-up.
const LIMIT: Duration = Duration::from_secs(120);
/// Time between two checks whether the log reports that the subnet is up, and whether the program has ended: the same
/// as for OpenSM.
const STEP: Duration = Duration::from_millis(2);
/// Text in a log when the subnet is up, of Selvedge and of OpenSM.
const UP: &str = "SUBNET UP";

/// The result of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Routing engine of the plan that the judge accepted.
    pub engine: String,
    /// Time from the start of the process to SUBNET UP in its log, as measured from outside, in seconds.
    pub process_s: f64,
    /// Time from the start of the manager to the first time that the subnet was up, by the manager's clock, in seconds.
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

/// Returns the path of the program, which cargo builds into the same folder as this one.
pub fn program() -> Result<PathBuf, BenchError> {
    let own = std::env::current_exe().map_err(BenchError::store("finding", "this program"))?;
    let program = own.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    Err(BenchError::NotBuilt { program: PROGRAM })
}

/// Starts the program, which brings up the fabric behind the simulator (or relay) named `base`. Files go into the lab's
/// folder.
pub fn run(case: &Case, lab: &PeerLab, base: &str, program: &Path) -> Result<Run, BenchError> {
    let not_up = |cause: String| BenchError::NotUp {
        manager: PROGRAM.to_owned(),
        fabric: case.spec.clone(),
        cause,
    };
    let [answer, errors, log] = ["run.json", "run.err", "run.log"].map(|name| lab.folder().join(name));
    let open = |path: &Path| File::create(path).map_err(BenchError::store("creating", path.display()));
    let port = format!("ibsim:{base}/{}", case.host_name());
    let mut command = Command::new(program);
    command.args(["run", "--once", "--json", "--port", &port]);
    command
        .arg("--log-file")
        .arg(&log)
        .stdin(Stdio::null())
        .stdout(open(&answer)?)
        .stderr(open(&errors)?);
    let start = Instant::now();
    let child = command.spawn().map_err(|error| not_up(error.to_string()))?;
    let (status, up) = wait(child, &log, start).map_err(|error| not_up(error.to_string()))?;
    let said = || fs::read_to_string(&errors).unwrap_or_default();
    match status {
        Some(status) if status.success() => {}
        Some(status) => return Err(not_up(format!("{status}; {}", said()))),
        None => return Err(not_up(format!("not done after {} s; {}", LIMIT.as_secs(), said()))),
    }
    let process_s = up.ok_or_else(|| not_up(format!("its log has no {UP}")))?.as_secs_f64();
    let text = fs::read_to_string(&answer).unwrap_or_default();
    read(&text, process_s).ok_or_else(|| not_up("its JSON lacks status.mads, .plan or .first_up_ms".to_owned()))
}

/// Waits for the end of the program, and kills it if it takes too long. Returns its exit status, and when its log
/// reported that the subnet is up.
fn wait(mut child: Child, log: &Path, start: Instant) -> std::io::Result<(Option<ExitStatus>, Option<Duration>)> {
    let mut up = None;
    loop {
        let ended = child.try_wait()?;
        if up.is_none() && fs::read_to_string(log).is_ok_and(|text| text.contains(UP)) {
            up = Some(start.elapsed());
        }
        if ended.is_some() {
            return Ok((ended, up));
        }
        if start.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok((None, up));
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
