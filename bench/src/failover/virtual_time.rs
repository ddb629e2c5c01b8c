//! Measures Selvedge on the built-in emulator in virtual time: how long a repair takes if agents need a given time for
//! an SMP.
//!
//! Computation takes no virtual time here. Its time is measured on ibsim, and tables show it beside these figures.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use selvedge_emulator::{Delivery, Emulator, EmulatorConfig, Fault as Damage};
use selvedge_fabric::PortRef;
use selvedge_plan::Policy;
use selvedge_planner::DefaultJudge;
use selvedge_rehearsal::{Options, Rehearsal, Tamper};
use selvedge_sim::{Seed, Time};
use selvedge_sm::{Config, Input, Mode, Output, Sm, Wait};
use selvedge_transport::ibsim::Way;
use selvedge_types::{Guid, PortNum, TransactionId};
use selvedge_wire::{Datagram, LocalPort};

use crate::case::Case;
use crate::error::BenchError;
use crate::failover::faults::Fault;
use crate::failover::observer::{Observer, Passing};
use crate::failover::told::Told;
use crate::failover::{Before, Carrier, REST, Row, SILENCE, Who, micros, until_last_change};

/// Longest bring-up and longest repair, in virtual time.
const BOUND: Duration = Duration::from_secs(300);
/// How long the plain sender waits for an answer, in virtual time.
const TIMEOUT: Time = Time::from_millis(200);

/// The datagrams that the manager sent and received, with time, direction, and whether a request was returned
/// unanswered.
type Passed = Arc<Mutex<Vec<(Time, Way, bool, Datagram)>>>;

/// A recorder of all datagrams and waits of the manager, which changes nothing.
#[derive(Debug, Default)]
struct Ear {
    passed: Passed,
    /// Number of waits for packets in flight.
    waits: Arc<AtomicU64>,
    /// The last wait; `None` if none has followed since.
    wait: Option<Wait>,
}

impl Ear {
    fn hear(&self, now: Time, way: Way, is_returned: bool, datagram: Datagram) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.push((now, way, is_returned, datagram));
    }
}

impl Tamper for Ear {
    fn input(&mut self, now: Time, input: Input) -> Option<Input> {
        match &input {
            Input::Received(datagram) => self.hear(now, Way::Down, false, *datagram),
            Input::Returned(datagram) => self.hear(now, Way::Down, true, *datagram),
            _ => {}
        }
        Some(input)
    }

    fn output(&mut self, now: Time, output: Output, out: &mut Vec<Output>, _back: &mut Vec<Input>) {
        if let Output::Send { datagram, .. } = &output {
            self.hear(now, Way::Up, false, *datagram);
        }
        out.push(output);
    }

    fn hurry(&mut self, sm: &Sm, _now: Time) -> Duration {
        let wait = sm.view().wait;
        let begins = wait.is_some() && wait != self.wait;
        self.waits.fetch_add(u64::from(begins), Ordering::Relaxed);
        self.wait = wait;
        Duration::ZERO
    }
}

/// Measures every fault on one fabric with agents that take `service` for a request.
pub fn measure(case: &Case, service: Duration, drawn: &[Fault], bar: &ProgressBar) -> Result<Vec<Row>, BenchError> {
    let emulator = EmulatorConfig {
        service_time: service,
        ..EmulatorConfig::default()
    };
    let failed = |error: selvedge_rehearsal::RehearsalError| BenchError::NotUp {
        manager: "selvedge, in virtual time,".to_owned(),
        fabric: case.spec.clone(),
        cause: error.to_string(),
    };
    let mut world = Rehearsal::new(
        &case.fabric,
        Options {
            emulator,
            seed: Seed(1),
        },
    );
    world.set_jobs_free();
    let config = config();
    let seat = case.fabric.port_name(PortRef {
        node: case.host,
        port: case.host_port(),
    });
    let id = world.add_manager("selvedge", &seat, config, Arc::new(DefaultJudge::default()));
    let ear = Ear::default();
    let (passed, waits) = (Arc::clone(&ear.passed), Arc::clone(&ear.waits));
    world.tamper(id, Box::new(ear));
    let mut observer = Observer::new(case);
    world.start(id).map_err(failed)?;
    world.run_until_quiet(BOUND).map_err(failed)?;
    // As on ibsim: until the check after the plan is over, a fault leads to a sweep.
    world.run_for(REST).map_err(failed)?;
    let mut rows = Vec::new();
    for fault in drawn {
        drain(&passed, &mut observer);
        let before = Before::new(case, &observer, fault);
        observer.begin();
        waits.store(0, Ordering::Relaxed);
        let start = Duration::from_nanos(world.now().0);
        for damage in damages(case, fault, false) {
            world.fault(&damage).map_err(failed)?;
        }
        world.run_until_quiet(BOUND).map_err(failed)?;
        drain(&passed, &mut observer);
        let span = observer.span.clone();
        let floor = floor(case, emulator, fault, &until_last_change(&span))?;
        let service_us = micros(service);
        let who = (&Who::Selvedge, Carrier::Emulator { service_us });
        let told = Told {
            drain_waits: waits.load(Ordering::Relaxed),
            ..Told::default()
        };
        rows.push(Row {
            told,
            ..before.row(case, who, &span, start, (floor, floor))
        });
        world.run_for(SILENCE).map_err(failed)?;
        for damage in damages(case, fault, true) {
            world.fault(&damage).map_err(failed)?;
        }
        world.run_until_quiet(BOUND).map_err(failed)?;
        world.run_for(SILENCE).map_err(failed)?;
        bar.inc(1);
    }
    Ok(rows)
}

/// Returns the configuration of a manager that sweeps only for a reason, such as a trap.
fn config() -> Config {
    let local = LocalPort {
        node_guid: Guid::NONE,
        port_guid: Guid::NONE,
        port: PortNum::MANAGEMENT,
    };
    let config = Config::new(Mode::Manage, local, Arc::new(Policy::default()));
    Config {
        sweep_interval: None,
        ..config
    }
}

fn drain(passed: &Passed, observer: &mut Observer<'_>) {
    let passed = std::mem::take(&mut *passed.lock().unwrap_or_else(PoisonError::into_inner));
    for (at, way, is_returned, datagram) in &passed {
        observer.take(&Passing {
            at: Duration::from_nanos(at.0),
            way: *way,
            address: datagram.address,
            is_returned: *is_returned,
            mad: &datagram.mad,
        });
    }
}

/// Returns the commands that cut the cables of a fault, or plug them in again.
fn damages(case: &Case, fault: &Fault, again: bool) -> Vec<Damage> {
    let mut met = BTreeSet::new();
    let ends = fault.dead_ends(case).into_iter();
    let one_of_each = ends.filter(|&at| {
        let peer = case.fabric.peer(at);
        met.insert(peer.map_or(at, |peer| peer.min(at)))
    });
    let verb = if again { "restore" } else { "cut" };
    // Names of a generated fabric can be read back.
    let texts = one_of_each.map(|at| format!("{verb} {}", case.fabric.port_name(at)));
    texts.filter_map(|text| text.parse().ok()).collect()
}

/// Returns the time of the same requests, sent by a program that does nothing else, on a fabric with the same fault; in
/// microseconds.
fn floor(case: &Case, config: EmulatorConfig, fault: &Fault, requests: &[Datagram]) -> Result<Option<f64>, BenchError> {
    let failed = |cause: String| BenchError::NotUp {
        manager: "the emulator".to_owned(),
        fabric: case.spec.clone(),
        cause,
    };
    if requests.is_empty() {
        return Ok(None);
    }
    let mut emulator = Emulator::new(&case.fabric, config, Seed(1));
    for damage in damages(case, fault, false) {
        emulator
            .apply(Time::ZERO, &damage)
            .map_err(|error| failed(error.to_string()))?;
    }
    let home = PortRef {
        node: case.host,
        port: case.host_port(),
    };
    let client = emulator.attach(home).map_err(|error| failed(error.to_string()))?;
    let mut open = BTreeSet::new();
    let (mut next, mut now, mut end) = (0, Time::ZERO, Time::ZERO);
    let mut received: Vec<Delivery> = Vec::new();
    while next < requests.len() || !open.is_empty() {
        while open.len() < Who::Selvedge.window() && next < requests.len() {
            let mut datagram = requests[next];
            next += 1;
            datagram.mad.set_transaction(TransactionId(next as u64));
            open.insert(next as u64);
            emulator.send(now, client, &datagram);
        }
        received.clear();
        now = emulator.advance_to_delivery(Time(now.0 + TIMEOUT.0), &mut received);
        if received.is_empty() {
            // Requests over the cut get no answer.
            open.clear();
            continue;
        }
        for delivery in &received {
            if open.remove(&delivery.datagram.mad.transaction().0) {
                end = delivery.at;
            }
        }
    }
    Ok(Some(end.0 as f64 / 1e3))
}
