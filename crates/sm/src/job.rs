//! The long work: LIDs, tables, settings, then the judge. Runs off the core's thread; a pure function of its inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use selvedge_plan::{
    ChangeSet, EngineName, Generation, Installed, Lids, MulticastLane, Op, Phase, Plan, Policy, RebalanceWhen, SlToVl,
    Tables, UnderWay,
};
use selvedge_routing::{
    Engine, FatTreeOptions, FtreeOptions, HostLists, Note, Options, Routed, UpDnOptions, WeaveOptions,
};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Guid, Lid, LidRange};
use selvedge_verify::phases::Passage;
use selvedge_verify::phases::is_live;
use selvedge_verify::{Judged, Refusal, Verdict};

use crate::adopt::Adopt;
use crate::aim::Aim;
use crate::backups::BackUp;
use crate::event::Event;
use crate::held::{covering, gained_capacity, has_idle_link, previous_tables};
use crate::inventory::Inventory;
use crate::judge::{Accepted, DefaultJudge, Judge};
use crate::multicast::{Copies, MulticastPlan, MulticastTask, TakenApart};
use crate::ports::{DeclinedByGuid, Ports};
use crate::rebalance::{Balance, Rebalance};
use crate::register::Asks;
use crate::repair::Repair;
use crate::settle::{Settle, Settled};
use crate::told::Told;
use crate::warm::{Prepare, Warm};
use crate::way::{self, WayOptions};
use crate::{lanes, lid, ports, register};

/// What a job is for.
#[derive(Clone, Debug)]
pub enum Task {
    /// Plan the whole fabric.
    Plan,
    /// Plan around what was lost.
    Repair(Box<Repair>),
    /// Prepare for what may be lost.
    Prepare(Box<Prepare>),
    /// Plan a step towards balance.
    Rebalance(Box<Rebalance>),
    /// Plan multicast trees.
    Multicast(Box<MulticastTask>),
    /// Work out for how long packets under way matter.
    Settle(Box<Settle>),
    /// Work out repairs of links that are up.
    BackUp(Box<BackUp>),
}

/// Entries (switches × LIDs) up to which `weave` repairs in place. It searches: 5 ms with 256 switches of two hosts.
pub(crate) const WOVEN_MAX: usize = 200_000;

/// The same of others.
const ENTRIES_MAX: usize = 8_000_000;

/// True if repairs in place take a few milliseconds at most: with so many entries, planned by `weave` or not.
pub(crate) const fn is_small(entries: usize, is_woven: bool) -> bool {
    entries <= if is_woven { WOVEN_MAX } else { ENTRIES_MAX }
}

/// Plan this fabric.
#[derive(Clone, Debug)]
pub struct Job {
    /// Which plan it will be.
    pub generation: Generation,
    /// The fabric.
    pub inventory: Arc<Inventory>,
    /// What its switches hold as far as known.
    pub installed: Arc<Installed>,
    /// What packets may still be under way by, for a repair; a plan has it in `installed`.
    pub under_way: Option<Arc<UnderWay>>,
    /// For how long packets may still be under way by entries that nobody knows.
    pub(crate) fog: Duration,
    /// LIDs to which packets may be under way: nobody gets them.
    pub(crate) resting: Arc<BTreeSet<Lid>>,
    /// What the operator wants.
    pub policy: Arc<Policy>,
    /// LIDs by port GUID, as stored.
    pub known_lids: Arc<BTreeMap<Guid, LidRange>>,
    /// LIDs that ports may hold besides: of a plan that they have not taken, or had not.
    pub(crate) spared_lids: Arc<Vec<LidRange>>,
    /// Lanes of destination switches in force, by GUID.
    pub known_lanes: Arc<BTreeMap<Guid, u8>>,
    /// Service levels in force.
    pub(crate) told: Arc<Told>,
    /// Settings that agents would not take.
    pub(crate) declined: Arc<DeclinedByGuid>,
    /// Who decides.
    pub judge: Arc<dyn Judge>,
    /// A clock, if whoever runs the job has one: to say what judging takes.
    pub clock: Option<fn() -> Duration>,
    /// The operator asked: then a link that carries nothing is reason enough to balance afresh.
    pub(crate) rebalances: bool,
    /// Who is asked to register again.
    pub(crate) asks: Asks,
    /// Whose the tables in force are.
    pub(crate) adopt: Adopt,
    /// The plan that was left half-way.
    pub(crate) aim: Option<Arc<Aim>>,
    /// What switches copy.
    pub(crate) copies: Arc<Copies>,
    /// The plan in force, for a job that plans trees beside it.
    pub(crate) plan_in_force: Option<Arc<Plan>>,
    /// What is to be done.
    pub(crate) task: Task,
}

/// What a job made.
#[derive(Clone, Debug, Default)]
pub struct JobResult {
    /// The plan and the way to it, or nothing if no engine's plan was accepted.
    pub outcome: Option<Arc<Outcome>>,
    /// What an operator should know.
    pub events: Vec<Event>,
    /// What a repair planned for, if it is not what the job was given.
    pub inventory: Option<Arc<Inventory>>,
    /// The tables that its switches hold, for whoever applies it; `None`: those the job was given.
    pub installed: Option<Installed>,
    /// What a repair took: its virtual cost unless somebody with a clock says otherwise.
    pub took: Duration,
    /// How much of that a repair was judged for; 0 without a clock.
    pub judged: Duration,
    /// What was prepared for the next repair.
    pub warm: Option<Box<Warm>>,
    /// What came of planning a step towards balance; the step is the outcome.
    pub balance: Option<Balance>,
    /// Multicast trees, accepted.
    pub multicast: Option<Box<MulticastPlan>>,
    /// Groups that must be taken apart before the outcome is applied: beside its routes their copies could deadlock.
    pub copies_first: Option<Box<TakenApart>>,
    /// Trees must wait until packets that are under way now are gone.
    pub copies_later: bool,
    /// The outcome's tables are those that were found.
    pub keeps_found: bool,
    /// What is known of packets under way.
    pub settled: Option<Box<Settled>>,
    /// Repairs of links that are up, and what is left to do.
    pub backups: Option<Box<BackUp>>,
    /// A repair that was worked out before.
    pub was_known: bool,
}

impl JobResult {
    /// The result of a job that broke off: it costs the plan, and what is in the switches stays.
    #[must_use]
    pub fn no_plan() -> Self {
        Self {
            events: vec![Event::NoPlan],
            ..Self::default()
        }
    }
}

/// An accepted plan.
#[derive(Debug)]
pub struct Outcome {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The judged way to it.
    pub changes: Judged<ChangeSet>,
    /// What the judge said.
    pub verdict: Arc<Verdict>,
    /// Who is asked to register again.
    pub(crate) asks: Asks,
    /// How long it waits for packets that nobody knows. A wait that is no longer than that was not measured by those
    /// that are known.
    pub(crate) fog: Duration,
    /// How much of that is for packets of entries which it drops itself, and first.
    pub(crate) out_of_sight: Duration,
}

impl Outcome {
    /// Of what is mended in place: it asks nobody, and waits for nobody who is not known.
    pub(crate) fn in_place(plan: Plan, accepted: Accepted) -> Self {
        Self {
            plan: Arc::new(plan),
            changes: accepted.changes,
            verdict: Arc::new(accepted.verdict),
            asks: Asks::Nobody,
            fog: Duration::ZERO,
            out_of_sight: Duration::ZERO,
        }
    }
}

impl Job {
    /// A job by itself, with the usual judge, of generation 1.
    #[must_use]
    pub fn new(inventory: &Arc<Inventory>, installed: &Arc<Installed>, policy: Arc<Policy>, task: Task) -> Self {
        Self {
            generation: Generation(1),
            inventory: Arc::clone(inventory),
            installed: Arc::clone(installed),
            policy,
            known_lids: Arc::default(),
            spared_lids: Arc::default(),
            known_lanes: Arc::default(),
            told: Arc::default(),
            under_way: None,
            fog: Duration::ZERO,
            resting: Arc::default(),
            declined: Arc::default(),
            judge: Arc::new(DefaultJudge::default()),
            clock: None,
            rebalances: false,
            asks: Asks::Nobody,
            adopt: Adopt::No,
            aim: None,
            copies: Arc::default(),
            plan_in_force: None,
            task,
        }
    }

    /// What the job costs under virtual time: about what one core needs. A plan takes 20 µs a switch and 2 ns
    /// a (switch, LID), preparations half the first, a repair 50 µs and 2 µs a switch, packets under way 8 µs a switch;
    /// backups as much as the repairs, and at first as a plan.
    #[must_use]
    pub fn virtual_cost(&self) -> Duration {
        let switches = self.inventory.fabric.switches().len() as u64;
        let lids = self.inventory.fabric.end_ports().count() as u64;
        match self.task {
            Task::Plan | Task::Rebalance(_) => Duration::from_nanos(switches * 20_000 + switches * lids * 2),
            Task::Prepare(_) => Duration::from_nanos(switches * 10_000 + switches * lids * 2),
            Task::Repair(_) => Duration::from_nanos(50_000 + switches * 2_000),
            Task::Settle(_) => Duration::from_nanos(switches * 8_000),
            Task::BackUp(ref task) => {
                let copies = u64::from(task.is_new()) * (switches * 20_000 + switches * lids * 2);
                Duration::from_nanos(copies + BackUp::at_once() as u64 * (50_000 + switches * 2_000))
            }
            Task::Multicast(ref task) => task.virtual_cost(switches),
        }
    }

    /// Does something, and says how long it took.
    pub(crate) fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let now = || self.clock.map_or(Duration::ZERO, |clock| clock());
        let began = now();
        let made = work();
        (made, now().saturating_sub(began))
    }

    /// True if it plans the whole fabric.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self.task, Task::Plan)
    }

    /// True if nothing may wait for it.
    #[must_use]
    pub const fn is_background(&self) -> bool {
        matches!(self.task, Task::Rebalance(_) | Task::Settle(_))
    }

    /// True if it works out repairs of links that are up: beside whatever else is planned, and after it.
    #[must_use]
    pub const fn is_backing_up(&self) -> bool {
        matches!(self.task, Task::BackUp(_))
    }

    /// True if it plans multicast trees: beside whatever else is planned.
    #[must_use]
    pub const fn is_multicast(&self) -> bool {
        matches!(self.task, Task::Multicast(_))
    }

    /// True if [`Self::run_in_place`] takes a few milliseconds at most: a repair of a fabric that is not too large, and
    /// prepared for.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        let Task::Repair(repair) = &self.task else { return false };
        let entries = self.inventory.fabric.switches().len() * repair.plan.lids.len();
        repair.is_prepared() && is_small(entries, repair.is_woven())
    }

    /// Makes a repair that is prepared for in place, if that does. If not, [`Self::run`] is to be called: it takes
    /// longer.
    #[must_use]
    pub fn run_in_place(&mut self) -> Option<JobResult> {
        // Whoever has a clock knows better, and counting hosts takes as long as the rest of a small repair.
        let took = self.clock.map_or_else(|| self.virtual_cost(), |_| Duration::ZERO);
        let mut task = std::mem::replace(&mut self.task, Task::Plan);
        let result = match &mut task {
            Task::Repair(repair) => repair.run_in_place(self),
            _ => None,
        };
        if result.is_none() {
            self.task = task;
        }
        result.map(|result| JobResult { took, ..result })
    }

    /// Does what is to be done.
    #[must_use]
    pub fn run(&mut self, par: Par) -> JobResult {
        let took = self.virtual_cost();
        let result = self.run_task(par);
        let result = self.with_copies_first(result);
        JobResult { took, ..result }
    }

    fn run_task(&mut self, par: Par) -> JobResult {
        match std::mem::replace(&mut self.task, Task::Plan) {
            Task::Plan => self.plan(par),
            Task::Repair(mut repair) => repair.run(self, par),
            Task::Rebalance(rebalance) => rebalance.run(self, par),
            Task::Multicast(task) => task.run(self),
            Task::Settle(settle) => settle.run(),
            Task::BackUp(task) => task.run(self, par),
            Task::Prepare(prepare) => JobResult {
                warm: Some(Box::new(prepare.run(self, par))),
                ..JobResult::default()
            },
        }
    }

    /// Makes the plan: engines in the policy's order, until the judge accepts one.
    fn plan(&self, par: Par) -> JobResult {
        let mut events = Vec::new();
        let fabric = &self.inventory.fabric;
        let known = (&*self.known_lids, self.spared_lids.as_slice());
        let lids = match lid::assign_sparing(fabric, &self.policy, known, &self.resting, &mut events) {
            Ok(lids) => lids,
            Err(error) => {
                events.push(Event::OutOfLids { wanted: error.wanted });
                events.push(Event::NoPlan);
                return JobResult {
                    events,
                    ..JobResult::default()
                };
            }
        };
        let ports = lid::short(fabric, &self.policy, &lids).count();
        events.extend((ports > 0).then_some(Event::LidsLater { ports }));
        let is_afresh = self.balances_afresh();
        if let Some(aimed) = (!is_afresh).then(|| self.aimed(&lids, par)).flatten() {
            return self.aims(aimed, events);
        }
        let previous = match is_afresh {
            true => None,
            false => previous_tables(&self.installed, fabric.switches().len(), lids.top()).map(Arc::new),
        };
        for engine in &self.policy.engines {
            if let Some(outcome) = self.kept(engine, &lids, previous.as_deref(), par) {
                return self.keeps(outcome, events);
            }
            // What ports shall hold depends on no table: it is planned beside them.
            let (ports, routed) = par.join(
                || self.plan_ports(&lids),
                || self.route(engine, &lids, previous.clone(), par),
            );
            events.extend(self.full_tables(&ports));
            events.extend(lanes::short(fabric, &self.policy, &ports.settings));
            events.extend(routed.iter().flat_map(choices));
            let made = (engine, routed.as_ref().ok());
            if let Some(outcome) = self.kept_instead(made, &lids, previous.as_deref(), par) {
                return self.keeps(outcome, events);
            }
            match routed.and_then(|routed| self.attempt(routed, &lids, ports, par)) {
                Ok(outcome) => return self.accepted(outcome, events),
                Err(why) => {
                    events.push(Event::PlanRefused {
                        engine: engine.0.clone(),
                        why,
                    });
                    if let Some(outcome) = self.on_all_lanes(engine, &lids, previous.clone(), par) {
                        return self.accepted(outcome, events);
                    }
                }
            }
        }
        self.without_levels(events, par)
    }

    /// The engine's plan with the lane that it left to copies, if it was to leave one: routes come first.
    fn on_all_lanes(
        &self,
        engine: &EngineName,
        lids: &Lids,
        previous: Option<Arc<Tables>>,
        par: Par,
    ) -> Option<Outcome> {
        let all = Self {
            policy: Arc::new(Policy {
                multicast_lane: MulticastLane::Shared,
                ..Policy::clone(&self.policy)
            }),
            ..self.clone()
        };
        let gives = self.policy.multicast_lane == MulticastLane::Auto && self.lane_use().routes < all.lane_use().routes;
        let routed = gives.then(|| all.route(engine, lids, previous, par))?.ok()?;
        all.attempt(routed, lids, all.plan_ports(lids), par).ok()
    }

    pub(crate) fn accepted(&self, outcome: Outcome, mut events: Vec<Event>) -> JobResult {
        let count = outcome.changes.value().count();
        let (sets, lft_blocks) = (count.total(), count.lft_blocks);
        events.push(Event::PlanAccepted {
            engine: outcome.plan.engine.0.clone(),
            sets,
            lft_blocks,
        });
        events.extend(self.way_in_words(&outcome));
        JobResult {
            outcome: Some(Arc::new(outcome)),
            events,
            ..JobResult::default()
        }
    }

    /// True if entries in force count for nothing: nobody uses them yet, or the operator wants balance at once.
    fn balances_afresh(&self) -> bool {
        let fabric = &self.inventory.fabric;
        let is_idle = || self.rebalances && has_idle_link(fabric, &self.installed);
        match self.policy.rebalance {
            RebalanceWhen::AtOnce => gained_capacity(fabric) || is_idle(),
            RebalanceWhen::Later | RebalanceWhen::Never => gained_capacity(fabric) && !is_live(fabric),
        }
    }

    /// Lanes of routes and of copies. In a fabric that nobody uses yet no level is in use.
    pub(crate) fn lane_use(&self) -> lanes::Use {
        let fabric = &self.inventory.fabric;
        let in_force = if is_live(fabric) { self.told.lanes() } else { 0 };
        lanes::to_use(fabric, &self.policy, in_force)
    }

    /// One lane, whatever the engine could do with more, unless all senders are said to use the levels they are told.
    pub(crate) fn options(&self, previous: Option<Arc<Tables>>) -> Options {
        Options {
            lanes: Some(self.lane_use().routes),
            ..options(&self.policy, &self.known_lanes, previous)
        }
    }

    /// The steps, if tables change in more than one or packets must be gone first.
    fn way_in_words(&self, outcome: &Outcome) -> Option<Event> {
        let changes = outcome.changes.value();
        let has_tables = |phase: &&Phase| phase.ops.iter().any(|op| matches!(op, Op::Lft { .. }));
        let waits = changes.phases.iter().any(|phase| phase.wait_before_ns > 0);
        if !waits && changes.phases.iter().filter(has_tables).count() < 2 {
            return None;
        }
        let steps = way::summary(&self.inventory.fabric, &self.installed, changes);
        let mut what = way::in_words(&steps);
        if let Passage::Proved(proof) = outcome.changes.passage() {
            let lost = proof.figures.steps.iter().map(|step| step.live_dropped.hosts).max();
            if let Some(pairs) = lost.filter(|pairs| *pairs > 0) {
                let _ = write!(
                    what,
                    "; meanwhile packets of {pairs} pairs that had a way may be dropped"
                );
            }
        }
        Some(Event::Way { what })
    }

    /// Tells of ports that are in more partitions than their tables have room for.
    fn full_tables(&self, ports: &Ports) -> Option<Event> {
        let first = *ports.too_many.first()?;
        let fabric = &self.inventory.fabric;
        Some(Event::PKeysFull {
            ports: ports.too_many.len(),
            what: fabric.port_name(first),
            room: fabric.node(first.node).partition_cap.max(1),
        })
    }

    pub(crate) fn plan_ports(&self, lids: &Lids) -> Ports {
        let inventory = &self.inventory;
        Ports::plan(&inventory.fabric, &self.policy, lids, inventory.local, &self.declined)
    }

    fn route(&self, name: &EngineName, lids: &Lids, previous: Option<Arc<Tables>>, par: Par) -> Result<Routed, String> {
        let engine = Engine::try_from(name).map_err(|e| e.to_string())?;
        let mut options = self.options(previous);
        options.weave.previous_levels = self.found_levels(lids, options.lanes);
        engine
            .route(&self.inventory.fabric, lids, &options, Seed(0), par)
            .map_err(|e| e.to_string())
    }

    pub(crate) fn attempt(&self, routed: Routed, lids: &Lids, ports: Ports, par: Par) -> Result<Outcome, String> {
        let fabric = &self.inventory.fabric;
        let tables = covering(routed.tables, &self.installed);
        let top = tables.top();
        let routes = (&routed.engine, routed.lanes, routed.service_levels);
        let levels = lanes::of_routes(
            fabric,
            (&self.policy, self.lane_use()),
            lids,
            &self.installed.lanes,
            routes,
        );
        let copies = levels.tables.as_ref().and_then(|tables| tables.copies);
        let plan = Plan {
            generation: self.generation,
            engine: routed.engine,
            lids: lids.clone(),
            tables,
            service_levels: levels.relied_on,
            sl_to_vl: SlToVl::with_copies(levels.lanes, copies.filter(|_| levels.lanes > 1)),
            lanes: levels.lanes,
            lane_tables: levels.tables,
            end_ports: ports.end_ports,
            ports: ports.settings,
            switches: ports::plan_switches(fabric, &self.policy, top),
        };
        let relied_on = self.told.in_force(fabric, &plan, &self.installed);
        let installed = relied_on.as_ref().unwrap_or(&self.installed);
        let out_of_sight = way::out_of_sight(fabric, installed, &plan);
        let fog = self.fog.max(out_of_sight);
        let change_set = || {
            let options = WayOptions {
                par,
                lanes_in_force: installed.lanes_in_force(),
                ..WayOptions::default()
            };
            let mut changes = way::propose(fabric, installed, &plan, &options);
            way::let_clear(&mut changes, (fabric, installed), fog);
            register::ask(&self.asks, fabric, &plan, &mut changes);
            changes
        };
        let accepted = self
            .judge
            .judge(&self.inventory, installed, &plan, &change_set, par)
            .map_err(|refusal| in_words(&refusal))?;
        Ok(Outcome {
            plan: Arc::new(plan),
            changes: accepted.changes,
            verdict: Arc::new(accepted.verdict),
            asks: self.asks.clone(),
            fog,
            out_of_sight,
        })
    }
}

/// Of engines, by the policy.
pub fn options(policy: &Policy, lanes: &Arc<BTreeMap<Guid, u8>>, previous: Option<Arc<Tables>>) -> Options {
    let roots = || policy.roots.clone();
    Options {
        previous,
        fat_tree: FatTreeOptions {
            roots: roots(),
            ..FatTreeOptions::default()
        },
        updn: UpDnOptions {
            roots: roots(),
            ..UpDnOptions::default()
        },
        ftree: FtreeOptions {
            roots: roots(),
            ..FtreeOptions::default()
        },
        weave: WeaveOptions {
            previous_lanes: (!lanes.is_empty()).then(|| Arc::clone(lanes)),
            ..WeaveOptions::default()
        },
        hosts: HostLists {
            compute: policy.compute.clone(),
            io: policy.io.clone(),
        },
        guid_order: policy.guid_order.clone(),
        count_switches: policy.count_switches,
        lanes: Some(1),
        ..Options::default()
    }
}

/// What `auto` saw and took, as events.
fn choices(routed: &Routed) -> impl Iterator<Item = Event> + '_ {
    let about_choice = |note: &&Note| matches!(note, Note::Recognised { .. } | Note::Chosen { .. });
    let notes = routed.notes.iter().filter(about_choice).map(ToString::to_string);
    notes.map(|note| Event::EngineChosen { note })
}

/// Why a plan is refused, and the path or cycle that shows it.
pub fn in_words(refusal: &Refusal) -> String {
    match refusal.verdict.errors().next().map(|first| first.witness.to_string()) {
        Some(witness) if !witness.is_empty() => format!("{refusal}; {witness}"),
        Some(_) | None => refusal.to_string(),
    }
}
