//! Gathers at the desk what the sampler found, and gives the thread whole slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use selvedge_coordinator::Sampled;
use selvedge_sim::Time;
use selvedge_telemetry::cable::CableReading;
use selvedge_telemetry::{Consumer, Counters, Event, Inventory, Sample, SlotData, SlotReport};
use selvedge_transport::put_this_thread_behind;

use super::BACKLOG_MAX;
use super::meaning::Interpreter;
use super::reports::Reports;
use crate::DaemonError;
use crate::shared::Shared;

/// What the thread gets.
pub(super) enum Gathered {
    /// The ports from now on.
    Inventory(Arc<Inventory>),
    /// A slot, and the requests of the sampler so far.
    Slot(Box<SlotData>, Counters),
    /// What a port read from its cable.
    Cable(Box<CableReading>),
    /// An event, and its time.
    Event(Time, Event),
}

/// Gathers samples until their slot is complete. The thread ends when this is dropped.
pub(crate) struct Gatherer {
    shared: Arc<Shared>,
    inventory: Arc<Inventory>,
    /// The intervals of the classes.
    intervals: Vec<Duration>,
    /// Samples of the slots in progress, by class.
    #[expect(
        clippy::vec_box,
        reason = "the sampler hands out boxes; half a kilobyte a sample would be copied again"
    )]
    samples: Vec<Vec<Box<Sample>>>,
    to: Option<Sender<Gathered>>,
    thread: Option<JoinHandle<()>>,
}

impl Gatherer {
    /// Starts the thread.
    pub(crate) fn start(shared: Arc<Shared>, mut consumers: Vec<Box<dyn Consumer>>) -> Result<Self, DaemonError> {
        let (to, gathered) = channel();
        let mut interpreter = Interpreter::start(Arc::clone(&shared))?;
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                // What a slot shows may wait; the manager, and what answers it on this host, may not.
                put_this_thread_behind();
                let mut reports = Reports::default();
                while let Some(gathered) = next(&gathered, &mut interpreter) {
                    take(&shared, &mut consumers, &mut reports, &mut interpreter, gathered);
                }
            }
        });
        let classes = shared.telemetry.config().classes;
        Ok(Self {
            samples: classes.iter().map(|_| Vec::new()).collect(),
            intervals: classes.into_iter().map(|class| class.interval).collect(),
            shared,
            inventory: Arc::default(),
            to: Some(to),
            thread: Some(thread.map_err(|cause| DaemonError::Thread { cause })?),
        })
    }

    /// Takes what the sampler found, and its requests so far.
    pub(crate) fn take(&mut self, now: Time, sampled: Sampled, counters: Counters) {
        let gathered = match sampled {
            Sampled::Sample(sample) => {
                if let Some(samples) = self.samples.get_mut(usize::from(sample.class)) {
                    samples.push(sample);
                }
                return;
            }
            Sampled::Inventory(inventory) => {
                self.inventory = Arc::clone(&inventory);
                Gathered::Inventory(inventory)
            }
            Sampled::Cable(reading) => Gathered::Cable(reading),
            Sampled::Ended(report) => match self.ended(*report) {
                Some(slot) => Gathered::Slot(slot, counters),
                None => return,
            },
            Sampled::Event(event) => Gathered::Event(now, event),
        };
        // A thread that has panicked takes nothing more.
        let _ = self.to.as_ref().map(|to| to.send(gathered));
    }

    /// Returns a complete slot; `None` if the thread is too far behind.
    fn ended(&mut self, report: SlotReport) -> Option<Box<SlotData>> {
        let telemetry = &self.shared.telemetry;
        let class = usize::from(report.class);
        let capacity = self.samples.get(class)?.len();
        let samples = std::mem::replace(self.samples.get_mut(class)?, Vec::with_capacity(capacity));
        if telemetry.backlog.fetch_add(1, Ordering::Relaxed) >= BACKLOG_MAX {
            telemetry.backlog.fetch_sub(1, Ordering::Relaxed);
            telemetry.lost.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Box::new(SlotData {
            interval: *self.intervals.get(class)?,
            report,
            samples,
            inventory: Arc::clone(&self.inventory),
        }))
    }
}

impl Drop for Gatherer {
    fn drop(&mut self) {
        self.shared.telemetry.close();
        self.to = None;
        if let Some(thread) = self.thread.take() {
            // The consumers have taken everything then.
            let _ = thread.join();
        }
    }
}

/// Waits for what comes next, and ends alarms that are due meanwhile. `None`: nothing comes any more.
fn next(gathered: &Receiver<Gathered>, interpreter: &mut Interpreter) -> Option<Gathered> {
    loop {
        let Some(quiet) = interpreter.quiet_for() else {
            return gathered.recv().ok();
        };
        match gathered.recv_timeout(quiet) {
            Ok(gathered) => return Some(gathered),
            Err(RecvTimeoutError::Timeout) => interpreter.wake(),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// The thread's work.
fn take(
    shared: &Shared,
    consumers: &mut [Box<dyn Consumer>],
    reports: &mut Reports,
    interpreter: &mut Interpreter,
    gathered: Gathered,
) {
    match gathered {
        Gathered::Inventory(inventory) => {
            shared.telemetry.take_inventory(Arc::clone(&inventory));
            interpreter.take_inventory(&inventory);
        }
        Gathered::Cable(reading) => interpreter.take_cable(&reading),
        Gathered::Event(at, event) => {
            shared.telemetry.take_event(&event);
            reports.take(shared, at, event);
        }
        Gathered::Slot(slot, counters) => {
            shared.telemetry.backlog.fetch_sub(1, Ordering::Relaxed);
            shared.telemetry.take_slot(&slot, counters);
            interpreter.take_slot(&slot);
            for consumer in consumers {
                consumer.take(&slot);
            }
            reports.end(shared);
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_telemetry::{Config, Group, SamplingClass};
    use selvedge_types::{Guid, PortNum};
    use selvedge_wire::LocalPort;

    use super::*;
    use crate::clock::Clock;
    use crate::events::NoLog;
    use crate::names::Names;
    use crate::telemetry::Telemetry;

    /// The seed: samplers "report when there are synchronization issues".
    #[test]
    fn a_clock_that_was_set_is_said_and_counted() {
        let class = SamplingClass::new("data", Duration::from_secs(1), &[Group::Extended]);
        let local = LocalPort {
            node_guid: Guid(1),
            port_guid: Guid(2),
            port: PortNum::MANAGEMENT,
        };
        let shared = Arc::new(Shared::new(
            Clock::start(),
            Names::default(),
            (10, Box::new(NoLog)),
            ("test".to_owned(), local),
            Telemetry::new(Some(Config::new(vec![class])), false, None),
        ));
        let mut interpreter = Interpreter::start(Arc::clone(&shared)).unwrap();
        let set = Event::ClockSet { by_ns: -3_000_000_000 };
        let (mut reports, event) = (Reports::default(), Gathered::Event(Time::ZERO, set));
        take(&shared, &mut [], &mut reports, &mut interpreter, event);
        let events = shared.events.since(0).events;
        assert_eq!(events.len(), 1);
        let event = &events[0];
        assert_eq!(
            (event.code.as_str(), event.severity),
            ("SLV-TELEMETRY-0007", selvedge_api::Severity::Warning)
        );
        assert!(event.text.starts_with("the clock was set by -3.000 s"), "{event:?}");
        assert_eq!(shared.telemetry.shown().clock_sets, 1);
    }
}
