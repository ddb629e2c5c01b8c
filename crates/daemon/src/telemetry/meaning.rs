//! What the counters mean, kept from slot to slot: rates, ports that wait, alarms, what cables counted. A thread of its
//! own traces ports that wait to the root, because with 5,832 hosts that takes longer than a slot may.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use selvedge_api::Severity;
use selvedge_fabric::Fabric;
use selvedge_plan::Plan;
use selvedge_sim::Time;
use selvedge_sm::View;
use selvedge_telemetry::alarm::{AlarmBook, AlarmIn, AlarmNews, AlarmRules};
use selvedge_telemetry::cable::{BerEstimate, CableBook, CableReading};
use selvedge_telemetry::congestion::{Congestion, Load, Routes, WaitWatch, trace};
use selvedge_telemetry::rates::{ClassUse, RateBook, WaitTick};
use selvedge_telemetry::{Config, End, Group, Inventory, Metric, SlotData};
use selvedge_transport::put_this_thread_last;
use selvedge_types::Guid;

use super::alarms;
use super::history::refusal;
use crate::DaemonError;
use crate::shared::Shared;

/// Time over which the counts of cables are summed. Source: ours; an hour of HDR is 7 · 10^14 bits, so that a bit error
/// rate of 1e-14 shows.
const CABLES_LOOK_BACK: Duration = Duration::from_secs(3_600);

/// What the counters mean, for readers.
#[derive(Debug)]
pub(crate) struct Meaning(Mutex<State>);

/// What the counters mean at present.
#[derive(Debug)]
pub(super) struct State {
    /// The thresholds of the alarms.
    pub(super) rules: AlarmRules,
    pub(super) rates: RateBook,
    pub(super) watch: WaitWatch,
    pub(super) alarms: AlarmBook,
    pub(super) cables: CableBook,
    pub(super) traced: Arc<Traced>,
}

/// The result of a trace.
#[derive(Debug, Default)]
pub(super) struct Traced {
    /// Number of the slot with the loads that were traced, counted by the thread that takes slots.
    number: u64,
    /// When it began; `None`: nothing has been traced.
    pub(super) at: Option<Time>,
    /// How long it took.
    pub(super) took: Duration,
    pub(super) congestion: Congestion,
    /// The fabric and the plan along which it was traced; `None` if no port waited.
    pub(super) routes: Option<(Arc<Fabric>, Arc<Plan>)>,
}

impl State {
    fn new(rules: AlarmRules) -> Self {
        Self {
            rates: RateBook::default(),
            watch: WaitWatch::default(),
            alarms: AlarmBook::new(rules.clone()),
            rules,
            cables: CableBook::new(CABLES_LOOK_BACK),
            traced: Arc::default(),
        }
    }
}

impl Meaning {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::new(AlarmRules::default())))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loads that are to be traced along the tables in force.
struct ToTrace {
    number: u64,
    watch: WaitWatch,
    fabric: Arc<Fabric>,
    plan: Arc<Plan>,
}

/// Makes meaning of slots, on the thread that takes them.
pub(super) struct Interpreter {
    shared: Arc<Shared>,
    /// By class: what its slots are for.
    uses: Vec<Option<ClassUse>>,
    /// The fabric that the ticks are of.
    fabric: Option<Arc<Fabric>>,
    ticks: BTreeMap<Guid, WaitTick>,
    /// Number of slots so far with evaluated loads.
    number: u64,
    /// True if the alarms go on that were in force when this manager was master last.
    has_resumed: bool,
    tracer: Option<Sender<ToTrace>>,
    thread: Option<JoinHandle<()>>,
}

impl Interpreter {
    /// Starts the thread that traces.
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self, DaemonError> {
        let (tracer, queue) = channel();
        let thread = thread::Builder::new().name("congestion".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || trace_all(&shared, &queue)
        });
        Ok(Self {
            uses: uses(&shared.telemetry.config()),
            shared,
            fabric: None,
            ticks: BTreeMap::new(),
            number: 0,
            has_resumed: false,
            tracer: Some(tracer),
            thread: Some(thread.map_err(|cause| DaemonError::Thread { cause })?),
        })
    }

    /// Takes the ports from now on. None: this manager is not master any more, and forgets everything.
    pub(super) fn take_inventory(&mut self, inventory: &Arc<Inventory>) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.telemetry.meaning.lock();
        let mut news = Vec::new();
        if inventory.nodes.is_empty() {
            *state = State::new(state.rules.clone());
            self.has_resumed = false;
        } else {
            state.rates.take_inventory(inventory);
            state.cables.take_inventory(self.shared.clock.now(), inventory);
            let is_up = |end: End| inventory.port(end).is_some_and(|port| port.is_up());
            state.watch.retain(is_up);
            let input = AlarmIn::Inventory(Arc::clone(inventory));
            state.alarms.handle(self.shared.clock.now(), input, &mut news);
            self.resume(&mut state.alarms, &mut news);
        }
        alarms::publish(&self.shared, &state, inventory, &news);
    }

    /// Goes on with the stored alarms, as soon as the database is open. If it cannot be read, an event says so.
    fn resume(&mut self, book: &mut AlarmBook, news: &mut Vec<AlarmNews>) {
        if self.has_resumed {
            return;
        }
        let Some(found) = self.shared.telemetry.store.alarms_in_force() else {
            return;
        };
        self.has_resumed = true;
        let now = self.shared.clock.now();
        match found {
            Ok(alarms) => book.handle(now, AlarmIn::Resume(alarms), news),
            Err(error) => {
                let error = refusal(&error);
                self.shared.event(now, Severity::Warning, &error.code, &error.message);
            }
        }
    }

    /// Takes what a port read from its cable.
    pub(super) fn take_cable(&self, reading: &CableReading) {
        self.shared.telemetry.meaning.lock().cables.take_info(reading);
    }

    /// Takes a slot.
    pub(super) fn take_slot(&mut self, slot: &SlotData) {
        let class = self.uses.get(usize::from(slot.report.class)).copied().flatten();
        let Some(class) = class else {
            return self.shared.telemetry.meaning.lock().cables.take_bits(slot);
        };
        let view = self.shared.view().0;
        self.take_ticks(view.fabric.as_ref());
        let shared = Arc::clone(&self.shared);
        let mut state = shared.telemetry.meaning.lock();
        let state = &mut *state;
        let ticks = &self.ticks;
        let tick = |node: Guid| ticks.get(&node).copied().unwrap_or(WaitTick::Symbols(1));
        let moved = state.rates.take(slot, class, tick);
        for end in &moved.rates {
            match state.rates.of(*end).and_then(Load::of) {
                Some(load) => state.watch.take(*end, load),
                None => state.watch.forget(*end),
            }
        }
        if class == ClassUse::Data {
            for missing in &slot.report.missing {
                state.watch.forget(End {
                    node: missing.key.node,
                    port: missing.key.port,
                });
            }
        }
        for growth in &moved.grown {
            state.cables.take(growth);
        }
        let had_errors = moved
            .grown
            .iter()
            .filter(|growth| growth.metric(Metric::SymbolErrors) > Some(0));
        let bit_errors: Vec<(End, BerEstimate)> = had_errors
            .filter_map(|growth| {
                let (node, port) = (growth.key.node, growth.key.port);
                let end = End { node, port };
                Some((end, state.cables.of(&slot.inventory, end)?.ber?))
            })
            .collect();
        let mut news = Vec::new();
        self.resume(&mut state.alarms, &mut news);
        let now = self.shared.clock.now();
        state.alarms.handle(now, AlarmIn::Grown(&moved.grown), &mut news);
        state.alarms.handle(now, AlarmIn::BitErrors(&bit_errors), &mut news);
        if !moved.rates.is_empty() {
            self.number += 1;
            self.look_at_loads(state, &view, &mut news);
        }
        alarms::publish(&self.shared, state, &slot.inventory, &news);
    }

    /// Hands the loads to the thread that traces. If no port waits, there is nothing to trace.
    fn look_at_loads(&self, state: &mut State, view: &View, news: &mut Vec<AlarmNews>) {
        let is_quiet = state.watch.waiting().next().is_none();
        match (is_quiet, view.fabric.clone(), view.plan.clone()) {
            (false, Some(fabric), Some(plan)) => {
                let job = ToTrace {
                    number: self.number,
                    watch: state.watch.clone(),
                    fabric,
                    plan,
                };
                // A thread that has panicked takes nothing more.
                let _ = self.tracer.as_ref().map(|tracer| tracer.send(job));
            }
            _ => {
                let now = self.shared.clock.now();
                let traced = Traced {
                    number: self.number,
                    at: Some(now),
                    ..Traced::default()
                };
                let input = AlarmIn::Congestion(&traced.congestion);
                state.alarms.handle(now, input, news);
                state.traced = Arc::new(traced);
            }
        }
    }

    /// Returns how long nothing is due.
    pub(super) fn quiet_for(&self) -> Option<Duration> {
        let due = self.shared.telemetry.meaning.lock().alarms.next_wake()?;
        Some(due.since(self.shared.clock.now()))
    }

    /// Ends the alarms that are due.
    pub(super) fn wake(&mut self) {
        let inventory = self.shared.telemetry.snapshot().inventory;
        let mut state = self.shared.telemetry.meaning.lock();
        let mut news = Vec::new();
        let now = self.shared.clock.now();
        state.alarms.handle(now, AlarmIn::Wake, &mut news);
        alarms::publish(&self.shared, &state, &inventory, &news);
    }

    /// Finds the ticks of PortXmitWait of the nodes of a fabric, once.
    fn take_ticks(&mut self, fabric: Option<&Arc<Fabric>>) {
        let Some(fabric) = fabric else { return };
        if self.fabric.as_ref().is_some_and(|known| Arc::ptr_eq(known, fabric)) {
            return;
        }
        let nodes = fabric.nodes().iter();
        let ticks = nodes.map(|node| (node.guid, WaitTick::of_node(node)));
        self.ticks = ticks.collect();
        self.fabric = Some(Arc::clone(fabric));
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.tracer = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns what the slots of each class are for. Details are no rates.
fn uses(config: &Config) -> Vec<Option<ClassUse>> {
    let of = |groups: &[Group]| match groups {
        groups if groups.contains(&Group::Extended) => Some(ClassUse::Data),
        groups if groups.contains(&Group::Base) => Some(ClassUse::Errors),
        _ => None,
    };
    config.classes.iter().map(|class| of(&class.groups)).collect()
}

/// The work of the thread that traces. Newer loads replace those that still wait.
fn trace_all(shared: &Shared, queue: &Receiver<ToTrace>) {
    put_this_thread_last();
    while let Ok(mut job) = queue.recv() {
        while let Ok(newer) = queue.try_recv() {
            job = newer;
        }
        let began = Instant::now();
        let at = shared.clock.now();
        let routes = Routes {
            fabric: &job.fabric,
            lids: &job.plan.lids,
            tables: &job.plan.tables,
        };
        // A defect costs this slot its trace.
        let Ok(congestion) = catch_unwind(AssertUnwindSafe(|| trace(&routes, &job.watch))) else {
            continue;
        };
        let traced = Traced {
            number: job.number,
            at: Some(at),
            took: began.elapsed(),
            congestion,
            routes: Some((job.fabric, job.plan)),
        };
        let inventory = shared.telemetry.snapshot().inventory;
        let mut state = shared.telemetry.meaning.lock();
        // Meanwhile no port may wait any more, or this manager is not master.
        if traced.number <= state.traced.number || inventory.nodes.is_empty() {
            continue;
        }
        let mut news = Vec::new();
        let now = shared.clock.now();
        state
            .alarms
            .handle(now, AlarmIn::Congestion(&traced.congestion), &mut news);
        state.traced = Arc::new(traced);
        alarms::publish(shared, &state, &inventory, &news);
    }
}

#[cfg(test)]
mod tests {
    use selvedge_config::TelemetryOptions;

    use super::*;

    #[test]
    fn rates_come_from_data_and_alarms_from_errors() {
        let config = super::super::config(&TelemetryOptions::default(), &["PortRcvErrorDetails".to_owned()], true);
        assert_eq!(
            uses(&config),
            [Some(ClassUse::Data), Some(ClassUse::Errors), None, None]
        );
    }
}
