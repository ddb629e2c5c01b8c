//! What a simulation costs: processor time of the process, and of an event beside the same event in the bare queue.

use std::fs;

use selvedge_dataplane::Simulation;
use selvedge_workload::Traffic;

use crate::simulate::STEPS;

/// What an event costs, in ns of processor time.
#[derive(Clone, Copy, Default)]
pub struct EventCost {
    /// In the simulation.
    pub here: Option<f64>,
    /// In the bare queue.
    pub queue: Option<f64>,
}

/// Events that are put through the bare queue.
const QUEUE_EVENTS: usize = 2_000_000;

/// Puts the first events of a simulation through the bare queue.
pub fn bare_queue(mut simulation: Simulation<Traffic>, end: u64) -> Option<f64> {
    simulation.note_events(QUEUE_EVENTS);
    for step in 1..=STEPS {
        simulation.run_until(end / STEPS * step);
        if simulation.noted_events()?.len() >= QUEUE_EVENTS {
            break;
        }
    }
    let log = simulation.noted_events()?;
    // The first time is for the caches.
    std::hint::black_box(log.replay());
    let began = thread_cpu_ns();
    std::hint::black_box(log.replay());
    per_event(began, log.len() as u64)
}

/// Since `began`, for each of so many events.
pub fn per_event(began: Option<u64>, events: u64) -> Option<f64> {
    let spent = thread_cpu_ns()?.checked_sub(began?)?;
    (events > 0).then(|| spent as f64 / events as f64)
}

/// Processor time of this thread so far, where the system tells (Linux).
pub fn thread_cpu_ns() -> Option<u64> {
    // Until another thread could run, the system counts in whole ticks of some milliseconds.
    std::thread::yield_now();
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Processor time of this process so far, where the system tells (Linux).
pub fn cpu_seconds() -> Option<f64> {
    /// Ticks of /proc in a second, on every Linux there is.
    const TICKS_PER_S: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_was_used() {
        assert!(cpu_seconds().is_none_or(|seconds| seconds >= 0.0));
    }
}
