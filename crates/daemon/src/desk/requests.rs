//! Requests of the sampler at the desk: they go to the port after SMPs and after messages to hosts.

use std::collections::VecDeque;
use std::time::Duration;

use selvedge_coordinator::{In, Sampled};
use selvedge_sim::Time;
use selvedge_telemetry::Wall;
use selvedge_wire::{Datagram, PortError};

use super::Desk;

/// Requests waiting to be sent. The sampler's window bounds them, so this limit only detects a defect.
const WAITING_MAX: usize = 4_096;
/// How often the coordinator gets the wall clock. The clock of the process and the wall clock drift apart by less than
/// a millisecond in this time.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Requests of the sampler that wait.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: VecDeque<(Datagram, Duration)>,
    /// None is sent before.
    held_until: Time,
    /// When the coordinator got the wall clock last.
    clock_shown: Option<Time>,
}

impl Desk {
    /// Holds the sampler's requests until then, because a fault is repaired. [`Time::ZERO`] releases them.
    pub(crate) const fn hold_requests(&mut self, until: Time) {
        self.requests.held_until = until;
    }

    /// Sends a request of the sampler, or lets it wait.
    pub(super) fn request(&mut self, now: Time, datagram: Datagram, timeout: Duration) -> Result<(), PortError> {
        let may_go = now >= self.requests.held_until && self.requests.waiting.is_empty() && !self.has_pending();
        if may_go {
            match self.port.send(&datagram, timeout) {
                Err(PortError::Full) => {}
                result => return result,
            }
        }
        // The sampler repeats lost requests.
        if self.requests.waiting.len() < WAITING_MAX {
            self.requests.waiting.push_back((datagram, timeout));
        }
        Ok(())
    }

    /// Sends requests that wait, as far as the port has room. To be called when nothing else waits.
    pub(super) fn send_requests(&mut self) -> Result<(), PortError> {
        if self.requests.waiting.is_empty() || self.shared.clock.now() < self.requests.held_until {
            return Ok(());
        }
        while let Some((datagram, timeout)) = self.requests.waiting.front() {
            match self.port.send(datagram, *timeout) {
                Ok(()) => drop(self.requests.waiting.pop_front()),
                Err(PortError::Full) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Hands the coordinator the wall clock, if it is time for that and there is a sampler.
    pub(super) fn show_clock(&mut self, now: Time) -> Result<(), PortError> {
        let is_due = self
            .requests
            .clock_shown
            .is_none_or(|at| now.since(at) >= CLOCK_INTERVAL);
        if self.gatherer.is_none() || !is_due {
            return Ok(());
        }
        self.requests.clock_shown = Some(now);
        let wall = Wall(self.shared.clock.unix_ns());
        self.handle(In::Clock(wall)).map(drop)
    }

    /// Gathers what the sampler found.
    pub(super) fn gather(&mut self, now: Time, sampled: Sampled) {
        if let (Some(gatherer), Some(sampler)) = (&mut self.gatherer, self.coordinator.sampler()) {
            gatherer.take(now, sampled, sampler.counters());
        }
    }
}
