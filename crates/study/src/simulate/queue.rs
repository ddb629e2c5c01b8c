//! Measures the cost of an event, in the simulation and in the bare event queue.

use selvedge_dataplane::{Hosts, Simulation};
use selvedge_workload::Traffic;

use super::STEPS;
use crate::error::StudyError;
use crate::meter::Meter;
use crate::watch::Reporter;

/// The cost of an event, in ns of processor time; `None` where it is not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EventCost {
    /// Cost in the simulation.
    pub here: Option<f64>,
    /// Cost in the bare queue.
    pub queue: Option<f64>,
}

/// Number of events that pass through the bare queue.
const QUEUE_EVENTS: usize = 2_000_000;

/// Puts the first events of a simulation through the bare queue. Returns the processor time of one, in ns.
pub(super) fn bare_queue(
    mut simulation: Simulation<Hosts<Traffic>>,
    end: u64,
    meter: &dyn Meter,
    reporter: &Reporter<'_>,
) -> Result<Option<f64>, StudyError> {
    simulation.note_events(QUEUE_EVENTS);
    for step in 1..=STEPS {
        reporter.check()?;
        simulation.run_until(end / STEPS * step);
        if simulation.noted_events().is_none_or(|log| log.len() >= QUEUE_EVENTS) {
            break;
        }
    }
    let Some(log) = simulation.noted_events() else {
        return Ok(None);
    };
    // The first time is for the caches.
    std::hint::black_box(log.replay());
    let began = meter.thread_cpu_ns();
    std::hint::black_box(log.replay());
    Ok(per_event(meter, began, log.len() as u64))
}

/// Returns the processor time since `began`, divided by a number of events, in ns.
pub(super) fn per_event(meter: &dyn Meter, began: Option<u64>, events: u64) -> Option<f64> {
    let spent = meter.thread_cpu_ns()?.checked_sub(began?)?;
    (events > 0).then(|| spent as f64 / events as f64)
}
