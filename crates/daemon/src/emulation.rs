//! An emulated fabric without a manager: outside clients manage it (`selvedge emulate`).

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use selvedge_api::{
    Check, CheckRequest, Error, ErrorKind, Events, FaultReport, FaultRequest, Findings, ForgetRequest, Forgotten,
    Health, OutOfService, OutOfServiceChange, OutOfServiceRequest, Partitions, Plan, PolicyChange, PolicyChanges,
    Ports, Rebalance, RebalanceRequest, Status, WouldSend, ports,
};
use selvedge_fabric::Fabric;
use selvedge_sim::Time;

use crate::DaemonError;
use crate::clock::Clock;
use crate::events::{EventLog, LogSink};
use crate::host::{EmulationOptions, Host, HostHandle};
use crate::notice::Notice;
use crate::service::Service;
use crate::telemetry::TelemetryService;
use crate::user_jobs::JobService;

/// An emulated fabric as its front ends see it.
#[derive(Clone)]
pub struct Emulation {
    host: HostHandle,
    clock: Clock,
    events: Arc<EventLog>,
}

/// An emulated fabric on its own thread.
pub struct RunningEmulation {
    /// The interface of the fabric for front ends.
    pub emulation: Emulation,
    thread: JoinHandle<Result<(), DaemonError>>,
}

/// Longest sleep of the emulator's thread: how long it takes to notice that it shall stop if a wake-up got lost.
const WAIT_MAX: Duration = Duration::from_millis(500);

impl RunningEmulation {
    /// Waits for the end of the fabric's thread.
    pub fn join(self) -> Result<(), DaemonError> {
        match self.thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Switches a fabric on and serves outside clients.
pub fn emulate(
    fabric: &Fabric,
    options: &EmulationOptions,
    event_ring: usize,
    log: Box<dyn LogSink>,
) -> Result<RunningEmulation, DaemonError> {
    let clock = Clock::start();
    let (mut host, handle) = Host::new(fabric, options, clock)?;
    let thread = thread::Builder::new()
        .name("emulator".to_owned())
        .spawn(move || {
            while !host.is_stopped() {
                host.step(|_| ())?;
                host.wait(WAIT_MAX)?;
            }
            Ok(())
        })
        .map_err(|cause| DaemonError::Thread { cause })?;
    let events = Arc::new(EventLog::new(clock, event_ring, log));
    Ok(RunningEmulation {
        emulation: Emulation {
            host: handle,
            clock,
            events,
        },
        thread,
    })
}

impl Emulation {
    fn no_manager<T>() -> Result<T, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    fn now(&self) -> Time {
        self.clock.now()
    }
}

impl TelemetryService for Emulation {}

impl JobService for Emulation {}

impl Service for Emulation {
    fn status(&self) -> Result<Status, Error> {
        Self::no_manager()
    }

    fn health(&self) -> Result<Health, Error> {
        Self::no_manager()
    }

    fn forget(&self, _: &ForgetRequest) -> Result<Forgotten, Error> {
        Self::no_manager()
    }

    fn out_of_service(&self) -> Result<OutOfService, Error> {
        Self::no_manager()
    }

    fn change_service(&self, _: &OutOfServiceRequest) -> Result<OutOfServiceChange, Error> {
        Self::no_manager()
    }

    fn fabric(&self) -> Result<Arc<Fabric>, Error> {
        self.host.snapshot().map(Arc::new)
    }

    fn ports(&self) -> Result<Ports, Error> {
        Ok(ports(&*self.fabric()?, |_| true, |_| None))
    }

    fn plan(&self) -> Result<Plan, Error> {
        Self::no_manager()
    }

    fn findings(&self) -> Result<Findings, Error> {
        Self::no_manager()
    }

    fn partitions(&self) -> Result<Partitions, Error> {
        Self::no_manager()
    }

    fn events(&self, since: u64) -> Events {
        self.events.since(since)
    }

    fn sweep(&self) -> Result<(), Error> {
        Self::no_manager()
    }

    fn rebalance(&self, _: RebalanceRequest) -> Result<Rebalance, Error> {
        Self::no_manager()
    }

    fn check(&self, _: &CheckRequest) -> Result<Check, Error> {
        Self::no_manager()
    }

    fn reload(&self) -> Result<PolicyChange, Error> {
        Self::no_manager()
    }

    fn would_send(&self) -> Result<WouldSend, Error> {
        Self::no_manager()
    }

    fn policy_changes(&self) -> Result<PolicyChanges, Error> {
        Self::no_manager()
    }

    fn hang_up(&self) {
        // There is nothing to read, and nothing to sweep.
    }

    fn fault(&self, request: &FaultRequest) -> Result<FaultReport, Error> {
        let events_since = self.events.last();
        let at = self.now();
        let done = self.host.fault(request)?;
        let notice = Notice::Fault { done: done.clone() };
        self.events
            .push(at, notice.severity(), notice.code(), notice.to_string());
        Ok(FaultReport { done, events_since })
    }

    fn reopen_log(&self) {
        self.events.reopen();
    }

    fn stop(&self) {
        self.host.stop();
    }
}
