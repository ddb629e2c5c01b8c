//! A running manager that samples, asked over its socket.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use selvedge_conformance::{PeerLab, Running, until};
use selvedge_types::Lid;
use serde_json::Value;

use super::{Ends, LIMIT, Scrape, WINDOW, silent};
use crate::case::Case;
use crate::error::BenchError;

/// Interval of slots of a large fabric and of a small one: long enough for a full read, the bare poller after it, and
/// an answer about it.
const INTERVALS_MS: [u64; 2] = [10_000, 2_000];
/// A manager has settled when it takes less than a twentieth of a processor for so long.
const SETTLED: Duration = Duration::from_secs(2);
/// Nodes of a small fabric, at most.
const SMALL: usize = 1_000;

/// A running manager that samples.
pub struct Manager<'a> {
    lab: &'a PeerLab,
    socket: String,
    process: Running,
    program: PathBuf,
    interval: Duration,
}

/// All counters of a slot: the class of data and the class of errors, which begin together.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// Number of the slot.
    pub number: u64,
    /// From the first request to the last sample, in milliseconds.
    pub ms: f64,
    /// Requests, without repeats.
    pub requests: u64,
    /// Ports with data.
    pub ports: u64,
    /// Ports and groups without a sample.
    pub missing: u64,
}

impl<'a> Manager<'a> {
    /// Starts it.
    pub fn start(case: &Case, lab: &'a PeerLab, program: &Path, ends: Ends) -> Result<Self, BenchError> {
        let [settings, socket] = ["telemetry.toml", "telemetry.sock"].map(|name| lab.folder().join(name));
        let ends = match ends {
            Ends::Both => "both",
            Ends::One => "one",
        };
        let interval = INTERVALS_MS[usize::from(case.fabric.nodes().len() <= SMALL)];
        let text = format!(
            "[telemetry]\ninterval_ms = {interval}\nerrors_interval_ms = {interval}\ndetail_interval_ms = 0\n\
             window = {WINDOW}\nretries = 3\nends = \"{ends}\"\n"
        );
        std::fs::write(&settings, text).map_err(BenchError::store("writing", settings.display()))?;
        let (settings, socket) = (settings.display().to_string(), socket.display().to_string());
        let port = format!("ibsim:{}/{}", lab.base(), case.host_name());
        let process = lab.start_selvedge(&["run", "--port", &port, "--config", &settings, "--socket", &socket])?;
        Ok(Self {
            lab,
            socket,
            process,
            program: program.to_owned(),
            interval: Duration::from_millis(interval),
        })
    }

    fn ask(&self, command: &[&str]) -> Option<Value> {
        let asked = [&["telemetry"], command, &["--json", "--socket", &self.socket]].concat();
        let output = std::process::Command::new(&self.program).args(asked).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Waits until the manager has nothing else to do: after bring-up it works out repairs for each single fault, which
    /// takes the processor that the simulator needs.
    pub fn settle(&self) -> Result<(), BenchError> {
        let is_settled = || {
            let before = self.cpu().ok();
            std::thread::sleep(SETTLED);
            let spent = before.and_then(|before| self.cpu().ok()?.checked_sub(before));
            Ok(spent.filter(|spent| *spent < SETTLED / 20).map(drop))
        };
        let settled = until("a manager at rest", LIMIT, || self.lab.base().to_owned(), is_settled);
        Ok(settled?)
    }

    /// Sleeps until a tenth of an interval after the next slot begins: a question during a slot would be measured too.
    fn sleep_past_next_slot(&self) {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        let interval = millis(self.interval).max(1);
        let left = interval - millis(since_epoch) % interval;
        std::thread::sleep(Duration::from_millis(left) + self.interval / 10);
    }

    /// Waits for a complete slot of both classes with a higher number, and does not ask while it is read.
    pub fn read_after(&self, number: u64) -> Result<Read, BenchError> {
        self.sleep_past_next_slot();
        let read = || {
            Ok(self
                .ask(&["status"])
                .as_ref()
                .and_then(read_of)
                .filter(|read| read.number > number))
        };
        let found = until("a slot of all counters", LIMIT, || self.lab.base().to_owned(), read);
        Ok(found?)
    }

    /// Returns LID and number of each port with a link.
    pub fn targets(&self) -> Result<Vec<(Lid, u8)>, BenchError> {
        let ports = self.ask(&["top", "load", "--top", "1000000"]);
        let ports = ports.as_ref().and_then(|all| all["ports"].as_array());
        let up = ports.into_iter().flatten().filter(|port| port["rate"].is_string());
        let target = |port: &Value| {
            let lid = u16::try_from(port["lid"].as_u64()?).ok()?;
            Some((Lid(lid), u8::try_from(port["port"].as_u64()?).ok()?))
        };
        let targets: Vec<_> = up.filter_map(target).collect();
        match targets.is_empty() {
            true => Err(silent(0, 1)),
            false => Ok(targets),
        }
    }

    /// Asks for `/metrics` once.
    pub fn scrape(&self, is_gzip: bool) -> Result<Scrape, BenchError> {
        let store = || BenchError::store("asking for", "/metrics");
        let accepts = if is_gzip { "Accept-Encoding: gzip\r\n" } else { "" };
        let begin = Instant::now();
        let mut stream = UnixStream::connect(&self.socket).map_err(store())?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: selvedge\r\n{accepts}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).map_err(store())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).map_err(store())?;
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let body = head.map_or(0, |head| answer.len() - head - 4);
        let is_well = answer.starts_with(b"HTTP/1.1 200") && body > 0;
        match is_well {
            true => Ok(Scrape {
                is_gzip,
                ms,
                bytes: body,
            }),
            false => Err(silent(0, 1)),
        }
    }

    /// Returns the processor time of the process so far. Source: proc(5), utime and stime in ticks of 10 ms.
    pub fn cpu(&self) -> Result<Duration, BenchError> {
        let file = format!("/proc/{}/stat", self.process.pid());
        let text = std::fs::read_to_string(&file).map_err(BenchError::store("reading", &file))?;
        let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        Ok(Duration::from_millis(10 * ticks))
    }

    /// Returns the resident memory of the process. Source: proc(5), VmRSS in KiB.
    pub fn rss_bytes(&self) -> Result<f64, BenchError> {
        let file = format!("/proc/{}/status", self.process.pid());
        let text = std::fs::read_to_string(&file).map_err(BenchError::store("reading", &file))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        Ok(kib.unwrap_or_default() * 1024.0)
    }
}

/// Returns the slot that both classes have read last, if it is the same one.
fn read_of(status: &Value) -> Option<Read> {
    let last = |class: usize| &status["classes"][class]["last"];
    let sum = |key: &str| Some(last(0)[key].as_u64()? + last(1)[key].as_u64()?);
    let number = last(0)["number"].as_u64()?;
    let end = |class: usize| last(class)["last_sample_us"].as_u64();
    let begin = |class: usize| Some(end(class)?.saturating_sub(last(class)["took_us"].as_u64()?));
    let us = end(0)?.max(end(1)?) - begin(0)?.min(begin(1)?);
    let read = Read {
        number,
        ms: us as f64 / 1e3,
        requests: sum("requests")?,
        ports: last(0)["read"].as_u64()? + last(0)["derived"].as_u64()?,
        missing: sum("missing")?,
    };
    (last(1)["number"].as_u64() == Some(number)).then_some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_read_when_both_classes_are() {
        let check = |numbers: [u64; 2], want: Option<(f64, u64, u64)>| {
            let class = |number: u64, took: u64, last: u64| {
                serde_json::json!({"last": {"number": number, "took_us": took, "last_sample_us": last, "requests": 3,
                    "read": 5, "derived": 2, "missing": 0}})
            };
            let classes = [class(numbers[0], 4_000, 5_000), class(numbers[1], 3_000, 6_000)];
            let read = read_of(&serde_json::json!({ "classes": classes }));
            assert_eq!(
                read.map(|read| (read.ms, read.requests, read.ports)),
                want,
                "{numbers:?}"
            );
        };
        check([7, 7], Some((5.0, 6, 7)));
        check([7, 6], None);
    }
}
