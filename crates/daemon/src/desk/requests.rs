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
    /// No request is sent before this time.
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use selvedge_coordinator::Coordinator;
    use selvedge_plan::Policy;
    use selvedge_sm::{Config, Mode};
    use selvedge_types::{Guid, Lid, PortNum, Sl};
    use selvedge_wire::{Address, Arrival, AttributeId, Class, LocalPort, Mad, MadPort, Method};

    use super::*;
    use crate::clock::Clock;
    use crate::events::NoLog;
    use crate::names::Names;
    use crate::shared::Shared;
    use crate::telemetry::Telemetry;

    const LOCAL: LocalPort = LocalPort {
        node_guid: Guid(1),
        port_guid: Guid(2),
        port: PortNum::MANAGEMENT,
    };

    /// A port that has room for so many datagrams, and the classes of those that it took.
    #[derive(Clone, Default)]
    struct Narrow(Arc<Mutex<(usize, Vec<Class>)>>);

    impl MadPort for Narrow {
        fn local(&self) -> LocalPort {
            LOCAL
        }

        fn send(&mut self, datagram: &Datagram, _: Duration) -> Result<(), PortError> {
            let mut inner = self.0.lock().unwrap();
            inner.0 = inner.0.checked_sub(1).ok_or(PortError::Full)?;
            inner.1.push(datagram.mad.class());
            Ok(())
        }

        fn receive(&mut self, _: Duration) -> Result<Option<Arrival>, PortError> {
            Ok(None)
        }

        fn set_is_sm(&mut self, _: bool) -> Result<(), PortError> {
            Ok(())
        }
    }

    fn desk(port: &Narrow) -> Desk {
        let config = Config::new(Mode::Manage, LOCAL, Arc::new(Policy::default()));
        let shared = Shared::new(
            Clock::start(),
            Names::default(),
            (10, Box::new(NoLog)),
            ("test".to_owned(), LOCAL),
            Telemetry::new(None, false, None),
        );
        let coordinator = Coordinator::new(Time::ZERO, &config, None);
        Desk::new(Box::new(port.clone()), coordinator, None, None, Arc::new(shared))
    }

    fn datagram(class: Class) -> Datagram {
        Datagram {
            address: Address::gsi(Lid(7), Sl::default()),
            mad: Mad::request(class, Method::Get, AttributeId::PORT_COUNTERS, 0),
        }
    }

    #[test]
    fn requests_of_the_sampler_go_after_everything_else() {
        let port = Narrow::default();
        let mut desk = desk(&port);
        let now = desk.shared.clock.now();
        for class in [Class::PerfMgt, Class::SubnAdm, Class::SubnLid, Class::PerfMgt] {
            match class {
                Class::PerfMgt => desk.request(now, datagram(class), TIMEOUT).unwrap(),
                class => desk.send(&datagram(class), TIMEOUT).unwrap(),
            }
        }
        assert!(port.0.lock().unwrap().1.is_empty(), "the port is full");
        port.0.lock().unwrap().0 = 3;
        desk.send_pending().unwrap();
        let want = [Class::SubnLid, Class::SubnAdm, Class::PerfMgt];
        assert_eq!(port.0.lock().unwrap().1, want);
        // An SMP overtakes the request that waits.
        desk.send(&datagram(Class::SubnLid), TIMEOUT).unwrap();
        port.0.lock().unwrap().0 = 2;
        desk.send_pending().unwrap();
        let want = [&want[..], &[Class::SubnLid, Class::PerfMgt]].concat();
        assert_eq!(port.0.lock().unwrap().1, want);
    }

    #[test]
    fn requests_wait_while_a_fault_is_repaired() {
        let port = Narrow::default();
        port.0.lock().unwrap().0 = 9;
        let mut desk = desk(&port);
        let now = desk.shared.clock.now();
        desk.hold_requests(now + Duration::from_secs(3_600));
        desk.request(now, datagram(Class::PerfMgt), TIMEOUT).unwrap();
        desk.send(&datagram(Class::SubnLid), TIMEOUT).unwrap();
        desk.send_pending().unwrap();
        assert_eq!(port.0.lock().unwrap().1, [Class::SubnLid]);
        assert!(!desk.has_pending(), "nothing that the manager's thread has to wait for");
        desk.hold_requests(Time::ZERO);
        desk.send_pending().unwrap();
        assert_eq!(port.0.lock().unwrap().1, [Class::SubnLid, Class::PerfMgt]);
    }

    const TIMEOUT: Duration = Duration::from_secs(1);
}
