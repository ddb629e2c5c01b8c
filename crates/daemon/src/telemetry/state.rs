//! The last totals of every port and the last slot of each class, for readers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use selvedge_telemetry::{Config, Counters, Event, Inventory, Latest, SlotData, SlotReport, Why};
use selvedge_types::Guid;

use super::baseline::{self, Baselines};
use super::history::{Place, Store};
use super::meaning::Meaning;

/// What the sampler found so far, for readers.
#[derive(Debug)]
pub struct Telemetry {
    /// Parameters of the sampler; `None`: there is none.
    config: Option<Config>,
    /// True if `/metrics` has the family of guilbaults' exporter without being asked.
    pub(super) shows_guilbaults: bool,
    /// The store of counters, events and versions of the topology.
    pub(super) store: Store,
    state: Mutex<State>,
    /// What the counters mean.
    pub(super) meaning: Meaning,
    /// Slots that wait for the thread.
    pub(super) backlog: AtomicUsize,
    /// Slots that were dropped, because too many waited.
    pub(super) lost: AtomicU64,
}

/// A consistent state of everything that the sampler found.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The ports that are read; none while nothing is sampled.
    pub inventory: Arc<Inventory>,
    /// The last totals of every port.
    pub latest: Arc<Latest>,
    /// Totals from which an operator counts.
    pub(super) baselines: baseline::Shared,
    /// By class: its slots so far.
    pub classes: Arc<Vec<ClassState>>,
    /// Requests so far.
    pub requests: Counters,
    /// How often the wall clock was set.
    pub clock_sets: u64,
}

/// The slots of a class so far.
#[derive(Clone, Debug, Default)]
pub struct ClassState {
    /// Slots that ended.
    pub slots: u64,
    /// Those that ended with the beginning of the next.
    pub overruns: u64,
    /// Slots in which nothing was sampled.
    pub skipped: u64,
    /// The last slot that ended.
    pub last: Option<SlotReport>,
    /// True if that slot ended with the beginning of the next.
    pub has_overrun: bool,
    /// True if this becomes of the slot that ends next: its event comes first.
    overruns_now: bool,
    /// From its beginning to its last sample, in microseconds.
    pub last_sample_us: u64,
}

type State = Snapshot;

impl Telemetry {
    /// Returns the state before the first slot. `config`: `None` if there is no sampler. `shows_guilbaults`: whether
    /// `/metrics` has the family of guilbaults' exporter.
    pub(crate) fn new(config: Option<Config>, shows_guilbaults: bool, place: Option<Place>) -> Self {
        let classes = config.iter().flat_map(|config| &config.classes);
        let classes = classes.map(|_| ClassState::default()).collect();
        Self {
            // Without a sampler nothing fills a store.
            store: Store::new(place.filter(|_| config.is_some())),
            config,
            shows_guilbaults,
            state: Mutex::new(State {
                classes: Arc::new(classes),
                ..State::default()
            }),
            meaning: Meaning::new(),
            backlog: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// True if this process has a sampler.
    #[must_use]
    pub const fn has_sampler(&self) -> bool {
        self.config.is_some()
    }

    /// Returns the parameters of the sampler; without one, parameters without classes.
    #[must_use]
    pub fn config(&self) -> Config {
        self.config.clone().unwrap_or_else(|| Config::new(Vec::new()))
    }

    /// Returns the present state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.lock().clone()
    }

    pub(super) fn take_inventory(&self, inventory: Arc<Inventory>) {
        let mut state = self.lock();
        Arc::make_mut(&mut state.latest).retain(|node| inventory.nodes.contains_key(&node));
        state.inventory = inventory;
    }

    pub(super) fn take_event(&self, event: &Event) {
        let mut state = self.lock();
        match event {
            Event::ClockSet { .. } => state.clock_sets += 1,
            Event::Overrun { class, .. } => {
                if let Some(class) = Arc::make_mut(&mut state.classes).get_mut(usize::from(*class)) {
                    class.overruns += 1;
                    class.overruns_now = true;
                }
            }
            _ => {}
        }
    }

    /// Takes a slot that ended. The event of an overrun comes before its slot.
    pub(super) fn take_slot(&self, slot: &SlotData, requests: Counters) {
        let mut state = self.lock();
        let state = &mut *state;
        // A copy is made only if a reader still has the totals before.
        Arc::make_mut(&mut state.latest).take_slot(slot);
        state.requests = requests;
        let report = &slot.report;
        let Some(class) = Arc::make_mut(&mut state.classes).get_mut(usize::from(report.class)) else {
            return;
        };
        let offsets = slot.samples.iter().map(|sample| u64::from(sample.offset_us));
        class.slots += 1;
        class.skipped += report.skipped;
        class.has_overrun = std::mem::take(&mut class.overruns_now);
        class.last_sample_us = offsets.max().unwrap_or_default();
        class.last = Some(report.clone());
    }

    pub(super) fn change_baselines(&self, change: impl FnOnce(&mut Baselines)) {
        change(Arc::make_mut(&mut self.lock().baselines));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot {
    /// Returns the ports without a sample in the last slot of any class, by node.
    pub(super) fn silent(&self) -> BTreeMap<Guid, u64> {
        let mut silent: BTreeMap<Guid, BTreeSet<u8>> = BTreeMap::new();
        let reports = self.classes.iter().filter_map(|class| class.last.as_ref());
        for missing in reports.flat_map(|report| &report.missing) {
            if matches!(missing.why, Why::Silent | Why::BackOff) {
                silent.entry(missing.key.node).or_default().insert(missing.key.port);
            }
        }
        let counted = silent.into_iter().map(|(node, ports)| (node, ports.len() as u64));
        counted.collect()
    }
}
