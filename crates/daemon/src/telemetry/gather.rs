//! Gathers at the desk what the sampler found, and gives the thread whole slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use selvedge_coordinator::Sampled;
use selvedge_sim::Time;
use selvedge_telemetry::{Consumer, Counters, Event, Inventory, Sample, SlotData, SlotReport};

use super::BACKLOG_MAX;
use super::reports::Reports;
use crate::DaemonError;
use crate::shared::Shared;

/// What the thread gets.
pub(super) enum Gathered {
    /// The ports from now on.
    Inventory(Arc<Inventory>),
    /// A slot, and the requests of the sampler so far.
    Slot(Box<SlotData>, Counters),
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
    samples: Vec<Vec<Sample>>,
    to: Option<Sender<Gathered>>,
    thread: Option<JoinHandle<()>>,
}

impl Gatherer {
    /// Starts the thread.
    pub(crate) fn start(shared: Arc<Shared>, mut consumers: Vec<Box<dyn Consumer>>) -> Result<Self, DaemonError> {
        let (to, gathered) = channel();
        let thread = thread::Builder::new().name("telemetry".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut reports = Reports::default();
                for gathered in gathered {
                    take(&shared, &mut consumers, &mut reports, gathered);
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
                    samples.push(*sample);
                }
                return;
            }
            Sampled::Inventory(inventory) => {
                self.inventory = Arc::clone(&inventory);
                Gathered::Inventory(inventory)
            }
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

/// The thread's work.
fn take(shared: &Shared, consumers: &mut [Box<dyn Consumer>], reports: &mut Reports, gathered: Gathered) {
    match gathered {
        Gathered::Inventory(inventory) => shared.telemetry.take_inventory(inventory),
        Gathered::Event(at, event) => {
            shared.telemetry.take_event(&event);
            reports.take(shared, at, event);
        }
        Gathered::Slot(slot, counters) => {
            shared.telemetry.backlog.fetch_sub(1, Ordering::Relaxed);
            shared.telemetry.take_slot(&slot, counters);
            for consumer in consumers {
                consumer.take(&slot);
            }
            reports.end(shared);
        }
    }
}
