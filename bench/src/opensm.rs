//! OpenSM's bring-up, timed by its own log.

use std::time::{Duration, Instant};

use selvedge_conformance::{OpenSmOptions, PeerLab};

use crate::case::Case;
use crate::error::BenchError;

/// Longest wait for a bring-up; the slowest known one takes 17 s on a quiet machine.
const LIMIT: Duration = Duration::from_secs(180);

/// How OpenSM is started.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variant {
    /// Routing engine.
    pub engine: String,
    /// `max_wire_smps`: SMPs in flight; 4 is its default.
    pub window: usize,
}

impl Variant {
    /// Returns the options with which OpenSM is started: without light sweeps, so that it sends nothing that is not
    /// part of the measurement.
    pub fn options(&self) -> OpenSmOptions {
        OpenSmOptions {
            engine: self.engine.clone(),
            lines: vec!["sweep_interval 0".to_owned(), format!("max_wire_smps {}", self.window)],
            ..OpenSmOptions::default()
        }
    }
}

/// The result of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Time from the log line with which discovery begins to the line SUBNET UP, in seconds.
    pub bringup_s: f64,
    /// Time from the start of the process to SUBNET UP in its log, as measured from outside, in seconds.
    pub process_s: f64,
}

/// Brings a fresh fabric up with OpenSM.
pub fn run(case: &Case, variant: &Variant) -> Result<Run, BenchError> {
    let lab = PeerLab::new()?;
    let _simulator = lab.ibsim_sized(&case.net, case.size)?;
    let start = Instant::now();
    let mut opensm = lab.opensm(case.host_name(), &variant.options())?;
    opensm.wait_up(1, LIMIT)?;
    let process_s = start.elapsed().as_secs_f64();
    let log = opensm.log();
    let not_up = |cause: &str| BenchError::NotUp {
        manager: format!("OpenSM {}", variant.engine),
        fabric: case.spec.clone(),
        cause: cause.to_owned(),
    };
    let read = read_log(&log).ok_or_else(|| not_up("its log has no time of its start"))?;
    if read.engine.as_ref().is_some_and(|used| *used != variant.engine) {
        // OpenSM falls back to another engine without an error.
        return Err(not_up(&format!("it used {} instead", read.engine.unwrap_or_default())));
    }
    Ok(Run {
        bringup_s: read.bringup.as_secs_f64(),
        process_s,
    })
}

/// The contents of a log.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    bringup: Duration,
    engine: Option<String>,
}

fn read_log(log: &str) -> Option<Read> {
    let first_with = |text: &str| log.lines().filter(|line| line.contains(text)).find_map(stamp);
    let (first, up) = (first_with("Entering DISCOVERING state")?, first_with("SUBNET UP")?);
    let day_us = 86_400_000_000;
    // Stamps have no year; a run is shorter than a day, so midnight is the only wrap.
    let bringup = Duration::from_micros((up + day_us - first) % day_us);
    let engine = log
        .lines()
        .rev()
        .find_map(|line| line.split_once(" tables configured on all switches"));
    let engine = engine.and_then(|(before, _)| Some(before.rsplit(' ').next()?.to_owned()));
    Some(Read { bringup, engine })
}

/// Returns the microseconds since midnight of a line that begins with `Jul 14 20:58:06 123456 [`.
pub fn stamp(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip(2);
    let mut clock = words.next()?.splitn(3, ':').map(|word| word.parse::<u64>().ok());
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    let micros: u64 = words.next()?.parse().ok()?;
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs() {
        let check = |log: &str, want: Option<(u64, Option<&str>)>| {
            let got = read_log(log).map(|read| (read.bringup.as_micros() as u64, read.engine));
            assert_eq!(got, want.map(|(us, engine)| (us, engine.map(str::to_owned))), "{log}");
        };
        // From OpenSM 3.3.23 with `-R updn` on a fabric without roots.
        let log = "Nov 21 21:21:55 927702 [9D953740] 0x03 -> OpenSM 3.3.23
Nov 21 21:21:55 931431 [9D953740] 0x80 -> Entering DISCOVERING state
Nov 21 21:21:55 939203 [9A94C6C0] 0x01 -> ucast_mgr_route: updn: cannot build lid matrices
Nov 21 21:21:55 939246 [9A94C6C0] 0x02 -> osm_ucast_mgr_process: minhop tables configured on all switches
Nov 21 21:21:55 939935 [9A94C6C0] 0x02 -> SUBNET UP
Nov 21 21:21:56 960851 [9D953740] 0x02 -> SUBNET UP";
        check(log, Some((8_504, Some("minhop"))));
        let midnight = "Dec 31 23:59:59 900000 [1] 0x80 -> Entering DISCOVERING state
Jan  1 00:00:00 200000 [1] 0x02 -> SUBNET UP";
        check(midnight, Some((300_000, None)));
        check("", None);
        check("Nov 21 21:21 SUBNET UP\nEntering DISCOVERING state", None);
    }
}
