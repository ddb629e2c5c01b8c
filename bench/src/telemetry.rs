//! Measures full reads of all counters on ibsim: by the manager's sampler, and by a bare poller that sends the same
//! requests and does nothing else. Each is one process; both use the same transport, in the same run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use selvedge_conformance::{HeavyLock, PeerLab, until};
use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Lid, Sl, TransactionId};
use selvedge_wire::{Address, Arrival, AttributeId, Class, Datagram, Mad, MadPort, Method, PortCountersExtended};
use serde_json::Value;

use crate::case::Case;
use crate::error::BenchError;
use crate::stats::Spread;

/// Window of both readers.
const WINDOW: usize = 64;
/// Interval of slots: long enough for a full read and an answer about it.
const INTERVAL_MS: u64 = 4_000;
/// Time after which a request is sent again.
const TIMEOUT: Duration = Duration::from_millis(200);
/// Longest wait for anything.
const LIMIT: Duration = Duration::from_secs(300);

/// The figures of one fabric.
#[derive(Debug)]
pub struct Figures {
    spec: String,
    /// Ports that are read.
    ports: u64,
    /// Requests of a slot.
    requests: u64,
    /// Ports without a sample, in all slots.
    missing: u64,
    /// Milliseconds from the first request to the last sample.
    ours_ms: Spread,
    /// Milliseconds of the bare poller.
    bare_ms: Spread,
    /// Milliseconds of common diagnostic tools, by name.
    tools_ms: Vec<(&'static str, f64)>,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            spec,
            ports,
            requests,
            missing,
            ours_ms,
            bare_ms,
            tools_ms,
        } = self;
        writeln!(
            f,
            "{spec}: {ports} ports, {requests} requests a slot, {missing} samples missing"
        )?;
        writeln!(f, "  manager, window {WINDOW}, ms: {ours_ms:.0}")?;
        writeln!(f, "  bare poller, window {WINDOW}, ms: {bare_ms:.0}")?;
        writeln!(f, "  manager / bare poller: {:.2}", ours_ms.median / bare_ms.median)?;
        for (tool, ms) in tools_ms {
            writeln!(
                f,
                "  {tool}, ms: {ms:.0}, that is {:.1} times the manager's",
                ms / ours_ms.median
            )?;
        }
        Ok(())
    }
}

/// Measures a fabric: `repeats` slots of the manager, and as many runs of the bare poller.
pub fn measure(case: &Case, program: &Path, repeats: usize) -> Result<Figures, BenchError> {
    let lab = PeerLab::new()?;
    let _simulator = lab.ibsim_sized(&case.net, case.size)?;
    let _quiet = HeavyLock::acquire()?;
    let manager = Manager::start(case, &lab, program)?;
    let first = manager.slot_after(0)?;
    let (mut number, mut ours, mut missing) = (first.number, Vec::new(), 0);
    let (mut requests, mut ports) = (0, 0);
    for _ in 0..repeats {
        let slot = manager.slot_after(number)?;
        (number, requests, ports) = (slot.number, slot.requests, slot.read);
        missing += slot.missing;
        ours.push(slot.took_us as f64 / 1e3);
    }
    let targets = manager.targets()?;
    drop(manager);
    let mut port = IbsimPort::open(lab.base(), case.host_name())?;
    let mut bare = Vec::new();
    for _ in 0..repeats {
        bare.push(poll(&mut port, &targets)?.as_secs_f64() * 1e3);
    }
    drop(port);
    let mut tools_ms = Vec::new();
    for tool in ["ibqueryerrors", "iblinkinfo"] {
        let begin = Instant::now();
        lab.spawn(lab.base(), case.host_name(), tool, &[])?.finish(LIMIT)?;
        tools_ms.push((tool, begin.elapsed().as_secs_f64() * 1e3));
    }
    let nothing = || silent(0, repeats);
    Ok(Figures {
        spec: case.spec.clone(),
        ports,
        requests,
        missing,
        ours_ms: Spread::of(ours).ok_or_else(nothing)?,
        bare_ms: Spread::of(bare).ok_or_else(nothing)?,
        tools_ms,
    })
}

/// A running manager that reads data only.
struct Manager<'a> {
    lab: &'a PeerLab,
    socket: String,
    _process: selvedge_conformance::Running,
    program: PathBuf,
}

/// A slot that ended.
struct Slot {
    number: u64,
    took_us: u64,
    requests: u64,
    read: u64,
    missing: u64,
}

impl<'a> Manager<'a> {
    fn start(case: &Case, lab: &'a PeerLab, program: &Path) -> Result<Self, BenchError> {
        let [settings, socket] = ["telemetry.toml", "telemetry.sock"].map(|name| lab.folder().join(name));
        let text = format!(
            "[telemetry]\ninterval_ms = {INTERVAL_MS}\nerrors_interval_ms = 86400000\ndetail_interval_ms = 0\n\
             window = {WINDOW}\nretries = 3\n"
        );
        std::fs::write(&settings, text).map_err(BenchError::store("writing", settings.display()))?;
        let (settings, socket) = (settings.display().to_string(), socket.display().to_string());
        let port = format!("ibsim:{}/{}", lab.base(), case.host_name());
        let process = lab.start_selvedge(&["run", "--port", &port, "--config", &settings, "--socket", &socket])?;
        Ok(Self {
            lab,
            socket,
            _process: process,
            program: program.to_owned(),
        })
    }

    fn ask(&self, command: &[&str]) -> Option<Value> {
        let asked = [&["telemetry"], command, &["--json", "--socket", &self.socket]].concat();
        let output = std::process::Command::new(&self.program).args(asked).output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Waits for a slot of data with a higher number.
    fn slot_after(&self, number: u64) -> Result<Slot, BenchError> {
        let found = until(
            "a slot of data",
            LIMIT,
            || self.lab.base().to_owned(),
            || {
                let Some(status) = self.ask(&["status"]) else {
                    return Ok(None);
                };
                let last = &status["classes"][0]["last"];
                let count = |key: &str| last[key].as_u64();
                let slot = || {
                    Some(Slot {
                        number: count("number")?,
                        took_us: count("took_us")?,
                        requests: count("requests")?,
                        read: count("read")?,
                        missing: count("missing")?,
                    })
                };
                Ok(slot().filter(|slot| slot.number > number))
            },
        );
        Ok(found?)
    }

    /// Returns LID and number of each port that is read.
    fn targets(&self) -> Result<Vec<(Lid, u8)>, BenchError> {
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
}

/// Reads each port once, and returns how long that took.
fn poll(port: &mut IbsimPort, targets: &[(Lid, u8)]) -> Result<Duration, BenchError> {
    let request = |at: usize| {
        let (lid, number) = targets[at];
        let mut mad = Mad::request(Class::PerfMgt, Method::Get, AttributeId::PORT_COUNTERS_EXTENDED, 0);
        mad.write_gmp(&PortCountersExtended {
            port_select: number,
            ..PortCountersExtended::default()
        });
        mad.set_transaction(TransactionId(at as u64 + 1));
        let address = Address::gsi(lid, Sl::default());
        Datagram { address, mad }
    };
    let begin = Instant::now();
    let (mut next, mut open, mut answered) = (0, 0, 0);
    while answered < targets.len() {
        while open < WINDOW && next < targets.len() {
            port.send(&request(next), TIMEOUT)?;
            (next, open) = (next + 1, open + 1);
        }
        match port.receive(TIMEOUT)? {
            Some(Arrival::Received(answer)) if answer.mad.method() == Method::GetResp => {
                (open, answered) = (open - 1, answered + 1);
            }
            Some(_) => {}
            None => return Err(silent(answered, targets.len())),
        }
    }
    Ok(begin.elapsed())
}

fn silent(answered: usize, wanted: usize) -> BenchError {
    BenchError::Silent {
        answered,
        wanted,
        limit_s: LIMIT.as_secs(),
    }
}
