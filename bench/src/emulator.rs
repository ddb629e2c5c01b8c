//! Measures the MADs a second that the built-in emulator carries on one core: with the load of the load generator
//! (blaster), and every hop routed.

use std::fmt;
use std::time::Instant;

use selvedge_emulator::{ClientId, Delivery, Emulator, EmulatorConfig, Fault};
use selvedge_fabric::PortRef;
use selvedge_sim::{Seed, Time};
use selvedge_types::TransactionId;
use selvedge_wire::Datagram;

use crate::case::Case;
use crate::ceiling::Load;
use crate::error::BenchError;

/// Requests in flight.
pub const WINDOW: usize = 64;
/// Requests of one measurement: about 2 s.
pub const REQUESTS: u64 = 1_000_000;
/// Requests of one measurement in quick mode.
pub const QUICK_REQUESTS: u64 = 20_000;
/// Number of different requests, which are sent again and again.
const LOAD: usize = 100_000;
/// How long the client waits for an answer, in virtual time: far longer than the longest queue.
const TIMEOUT: Time = Time::from_millis(10);
/// Faults that are on everywhere, and a second time at the client's own port.
const WRAPPERS: [&str; 4] = ["loss 1%", "duplicate 1%", "delay 1% max=1ms", "corrupt 0.1%"];

/// Whether faults are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrappers {
    /// No faults: MADs are lost only if queues are full.
    None,
    /// Loss, duplication, delay and corruption.
    All,
}

impl fmt::Display for Wrappers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::All => "all",
        })
    }
}

/// The result of one measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Whether faults were on.
    pub wrappers: Wrappers,
    /// MADs (requests and responses) created per second of wall time, including the time of the client.
    pub mads_per_s: f64,
    /// Requests answered per second of wall time.
    pub requests_per_s: f64,
    /// Requests without a response, which were replaced by new ones.
    pub timeouts: u64,
}

/// Measures once, on the caller's thread.
pub fn run(case: &Case, wrappers: Wrappers, requests: u64) -> Result<Run, BenchError> {
    let failed = |cause: String| BenchError::NotUp {
        manager: "the emulator".to_owned(),
        fabric: case.spec.clone(),
        cause,
    };
    let mut emulator = Emulator::new(&case.fabric, EmulatorConfig::default(), Seed(1));
    let home = PortRef {
        node: case.host,
        port: case.host_port(),
    };
    let client = emulator.attach(home).map_err(|error| failed(error.to_string()))?;
    if wrappers == Wrappers::All {
        let here = format!(" at {}", case.fabric.port_name(home));
        for text in WRAPPERS
            .iter()
            .flat_map(|what| [(*what).to_owned(), format!("{what}{here}")])
        {
            let fault: Fault = text.parse().map_err(|error| failed(format!("{text}: {error}")))?;
            emulator
                .apply(Time::ZERO, &fault)
                .map_err(|error| failed(error.to_string()))?;
        }
    }
    let load = Load::new(case, LOAD);
    let mut client = Client {
        id: client,
        load: load.datagrams(),
        open: vec![(0, Time::MAX); WINDOW],
        sent: 0,
        timeouts: 0,
    };
    let start = Instant::now();
    client.run(&mut emulator, requests);
    let seconds = start.elapsed().as_secs_f64();
    Ok(Run {
        wrappers,
        mads_per_s: emulator.counts().created() as f64 / seconds,
        requests_per_s: requests as f64 / seconds,
        timeouts: client.timeouts,
    })
}

struct Client<'a> {
    id: ClientId,
    load: &'a [Datagram],
    /// Transaction id and deadline by slot of the window.
    open: Vec<(u64, Time)>,
    sent: u64,
    timeouts: u64,
}

impl Client<'_> {
    fn run(&mut self, emulator: &mut Emulator, requests: u64) {
        let mut received: Vec<Delivery> = Vec::new();
        let mut answers = 0;
        (0..self.open.len()).for_each(|slot| self.send(emulator, Time::ZERO, slot));
        while answers < requests {
            received.clear();
            let deadline = self.open.iter().map(|&(_, at)| at).min().unwrap_or(Time::MAX);
            let now = emulator.advance_to_delivery(deadline, &mut received);
            for delivery in &received {
                let id = delivery.datagram.mad.transaction().0;
                let slot = (id % self.open.len() as u64) as usize;
                if self.open[slot].0 == id {
                    answers += 1;
                    self.send(emulator, delivery.at, slot);
                }
            }
            for slot in 0..self.open.len() {
                if received.is_empty() && self.open[slot].1 <= now {
                    self.timeouts += 1;
                    self.send(emulator, now, slot);
                }
            }
        }
    }

    fn send(&mut self, emulator: &mut Emulator, now: Time, slot: usize) {
        let mut datagram = self.load[self.sent as usize % self.load.len()];
        self.sent += 1;
        let id = self.sent * self.open.len() as u64 + slot as u64;
        datagram.mad.set_transaction(TransactionId(id));
        self.open[slot] = (id, Time(now.0 + TIMEOUT.0));
        emulator.send(now, self.id, &datagram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_answer_every_request() {
        let case = Case::new("karytree:k=3,n=2").unwrap();
        let check = |wrappers: Wrappers, lossy: bool| {
            let run = run(&case, wrappers, 5_000).unwrap();
            assert_eq!(run.timeouts > 0, lossy, "{run:?}");
            assert!(run.mads_per_s > run.requests_per_s);
        };
        check(Wrappers::None, false);
        check(Wrappers::All, true);
    }
}
