//! Plans repairs for lost and returned links: the plan in force, changed in as few entries as possible.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::qos::{PathRules, Resolved};
use selvedge_plan::{ChangeSet, Installed, Lids, Op, Phase, Plan, Tables, UnderWay};
use selvedge_routing::{Engine, Options, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, PortNum};
use selvedge_verify::Verdict;
use selvedge_verify::standing::LinkChange;

use crate::adopt::{Adopt, mended};
use crate::backups::{Backups, End};
use crate::basis::{Basis, Outcome};
use crate::changed::Changed;
use crate::copies::TakenApart;
use crate::damage::Damage;
use crate::engine::{in_words, options};
use crate::event::PlanEvent;
use crate::held::with_top;
use crate::inventory::Inventory;
use crate::judge::Accepted;
use crate::ports::{self, DeclinedByGuid};
use crate::qos::Quality;
use crate::warm::{Spare, Warm, replaced};
use crate::way::{self, WayOptions};
use crate::{lanes, past};

/// A task: plan around links that were lost or came back.
#[derive(Clone, Debug)]
pub struct Repair {
    /// The state that the task starts from: inventory and tables before the damage.
    pub basis: Basis,
    /// The lost and returned links.
    pub damage: Damage,
    /// Origin of the tables in force.
    pub adopt: Adopt,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// The verdict on the plan in force.
    pub verdict: Arc<Verdict>,
    /// Data that were prepared for this repair.
    pub warm: Option<Box<Warm>>,
    /// Backups computed before.
    pub backups: Vec<Arc<Backups>>,
    /// A clock, if there is one, to measure the time of judging.
    pub clock: Option<fn() -> Duration>,
}

/// Result of [`Repair`].
#[derive(Clone, Debug, Default)]
pub struct RepairResult {
    /// The repaired plan; `None`: a sweep is needed.
    pub mended: Option<Mended>,
    /// Events for the operator.
    pub events: Vec<PlanEvent>,
    /// Data for the next repair.
    pub warm: Option<Box<Warm>>,
    /// Time that the repair took: its virtual cost, or measured by a clock.
    pub took: Duration,
}

impl RepairResult {
    /// Returns the repaired plan, and the change set that leads to it.
    #[must_use]
    pub fn outcome(&self) -> Option<&Arc<Outcome>> {
        self.mended.as_ref().map(|mended| &mended.outcome)
    }

    /// True if the prepared data was changed in place.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        self.mended.as_ref().is_some_and(|mended| mended.installed.is_some())
    }

    /// True if a backup was used.
    #[must_use]
    pub fn was_known(&self) -> bool {
        self.mended.as_ref().is_some_and(|mended| mended.was_known)
    }
}

/// A repaired plan.
#[derive(Clone, Debug)]
pub struct Mended {
    /// The plan, and the change set that leads to it.
    pub outcome: Arc<Outcome>,
    /// The tables of the switches, if the repair was made in place. `None`: they are those given to the job.
    pub installed: Option<Installed>,
    /// Time spent judging; 0 without a clock.
    pub judged: Duration,
    /// True if a backup was used.
    pub was_known: bool,
    /// Multicast groups that must be taken apart before the plan is applied.
    pub copies_first: Option<Box<TakenApart>>,
}

impl Repair {
    /// Returns a task without preparations, for a plan in force and its verdict.
    #[must_use]
    pub const fn new(basis: Basis, damage: Damage, plan: Arc<Plan>, verdict: Arc<Verdict>) -> Self {
        Self {
            basis,
            damage,
            adopt: Adopt::No,
            plan,
            verdict,
            warm: None,
            backups: Vec::new(),
            clock: None,
        }
    }

    /// Returns the cost of the repair under virtual time.
    pub(crate) fn virtual_cost(&self) -> Duration {
        let switches = self.basis.inventory.fabric.switches().len() as u64;
        Duration::from_nanos(50_000 + switches * 2_000)
    }

    /// True if the repair can be made in place.
    #[must_use]
    pub(crate) fn is_prepared(&self) -> bool {
        self.damage.returned.is_empty() && self.warm.as_ref().is_some_and(|warm| warm.spare.is_some())
    }

    /// True if a repair from the prepared data searches the dependency graph (engine `weave`), instead of using a rule.
    #[must_use]
    pub(crate) fn searches(&self) -> bool {
        self.warm.as_ref().is_some_and(|warm| warm.searches())
    }

    /// Makes the repaired plan in place, if possible.
    pub(crate) fn run_in_place(&mut self) -> Option<RepairResult> {
        // With a clock the time is measured instead.
        let took = self.clock.map_or_else(|| self.virtual_cost(), |_| Duration::ZERO);
        let mut warm = self.warm.take().unwrap_or_default();
        let is_lost = self.damage.returned.is_empty();
        match is_lost.then(|| self.quickly(&mut warm)).flatten() {
            Some(mended) => Some(RepairResult {
                events: vec![accepted_event(&mended.outcome)],
                mended: Some(mended),
                warm: Some(warm),
                took,
            }),
            None => {
                // Half-changed data must not be used again.
                (warm.spare, warm.mender, warm.left) = (None, None, None);
                self.warm = Some(warm);
                None
            }
        }
    }

    /// Makes the repaired plan, and determines which multicast groups must be taken apart first.
    pub(crate) fn run(&mut self, par: Par) -> RepairResult {
        let made = self.run_in_place();
        let mut result = made.unwrap_or_else(|| self.slowly(par));
        result.took = self.virtual_cost();
        if let Some(mended) = &mut result.mended {
            let installed = mended.installed.as_ref().unwrap_or(&self.basis.installed);
            mended.copies_first = self.basis.copies_first(&mended.outcome, installed);
        }
        result
    }

    /// Plans with the engine, which changes as few entries as possible.
    fn slowly(&mut self, par: Par) -> RepairResult {
        let mut warm = self.warm.take().unwrap_or_default();
        let mut result = RepairResult::default();
        let left = self.damage.apply_to(&self.basis.inventory);
        // A switch that is gone must not be planned for; a sweep does not see it either.
        let Some(inventory) = left.filter(|left| !left.lacks_switches()).map(Arc::new) else {
            return result;
        };
        warm.catch_up(&self.basis.inventory.fabric, &self.plan);
        let made = self.tables(&inventory, par);
        let made = made.and_then(|tables| self.judged(&inventory, tables, &mut warm, par));
        match made {
            Ok((outcome, judged)) => {
                result.events.push(accepted_event(&outcome));
                result.mended = Some(Mended {
                    outcome: Arc::new(outcome),
                    installed: None,
                    judged,
                    was_known: false,
                    copies_first: None,
                });
                result.warm = warm.standing.is_some().then_some(warm);
            }
            Err(why) => result.events.push(PlanEvent::Refused {
                engine: self.plan.engine.0.clone(),
                why,
            }),
        }
        result
    }

    /// Changes the prepared data in place, and judges only the changed entries. Returns `None` if that is not possible.
    fn quickly(&self, warm: &mut Warm) -> Option<Mended> {
        let Spare {
            mut plan,
            mut inventory,
            mut installed,
        } = warm.spare.take()?;
        let standing = warm.standing.as_mut()?;
        standing.set_copies(&inventory.fabric, &self.basis.copies.turns);
        let ends = self.damage.ends(&inventory.fabric);
        self.damage.apply(&mut inventory)?;
        let fabric = &inventory.fabric;
        let of_switch = |at: &PortRef| Some((fabric.switch_index(at.node)?, at.port));
        let is_between = |at: &&PortRef| fabric.peer(**at).is_some_and(|p| fabric.switch_index(p.node).is_some());
        let links: Vec<_> = ends.iter().filter(is_between).filter_map(of_switch).collect();
        for at in &ends {
            plan.ports.remove(at);
            plan.end_ports.remove(at);
        }
        plan.generation = self.basis.generation;
        let is_one = ends.len() == 2 && links.len() == 2 && self.damage.gone.is_empty();
        let known = (is_one && self.basis.under_way.is_none())
            .then(|| self.as_known(warm, (&inventory, &mut plan), &links))
            .flatten();
        let was_known = known.is_some();
        let (accepted, judged) = match known {
            Some(known) => known,
            None => self.anew(warm, (&inventory, &mut plan), &links)?,
        };
        // A switch that comes back may have any tables.
        for switch in self.damage.gone.iter().filter_map(|&node| fabric.switch_index(node)) {
            installed.lfts.get_mut(switch).into_iter().for_each(Vec::clear);
        }
        Some(Mended {
            outcome: Arc::new(Outcome::in_place(Arc::new(inventory), plan, accepted)),
            installed: Some(installed),
            judged,
            was_known,
            copies_first: None,
        })
    }

    /// Returns the backup, if there is one: the judge has accepted it before, and only the check whether it still fits
    /// is made now. The prepared data is updated after the repair.
    fn as_known(
        &self,
        warm: &mut Warm,
        (inventory, plan): (&Inventory, &mut Plan),
        links: &[End],
    ) -> Option<(Accepted, Duration)> {
        let standing = warm.standing.as_ref()?;
        let backup = self.backups.iter().find_map(|of| of.find(standing.state(), links))?;
        let what = (plan.generation, self.quiet(&inventory.fabric, plan));
        let judge = || {
            self.basis
                .judge
                .judge_backup(standing, inventory, backup, what, &self.verdict)
        };
        let (accepted, judged) = self.timed(judge);
        let accepted = accepted?;
        for op in accepted.changes.value().phases.iter().flat_map(|phase| &phase.ops) {
            if let Op::Lft { node, block, data } = op
                && let Some(switch) = inventory.fabric.switch_index(*node)
            {
                *plan.tables.block_mut(switch, usize::from(*block)) = *data;
            }
        }
        warm.known = Some(Arc::clone(backup));
        Some((accepted, judged))
    }

    /// Plans around the lost links and has the plan judged.
    fn anew(
        &self,
        warm: &mut Warm,
        (inventory, plan): (&Inventory, &mut Plan),
        links: &[End],
    ) -> Option<(Accepted, Duration)> {
        let (standing, fabric) = (warm.standing.as_mut()?, &inventory.fabric);
        let mender = warm.mender.as_mut()?;
        let tables = (&self.plan.lids, &mut plan.tables);
        let changed = Changed::by(mender, tables, links, standing, self.basis.under_way.is_none())?;
        let tables = (&self.plan.tables, &plan.tables);
        let changes = ChangeSet {
            generation: plan.generation,
            phases: changed.phases(self.quiet(fabric, plan), fabric, tables, standing)?,
        };
        let lost = |&(switch, port): &End| LinkChange {
            switch,
            port,
            is_up: false,
        };
        let lost: Vec<LinkChange> = links.iter().map(lost).collect();
        let left = self.basis.under_way.as_ref().map_or_else(Vec::new, |past| {
            let known = warm.left.take().and_then(|left| left.of(past));
            known.unwrap_or_else(|| replaced(past, standing))
        });
        let judge = || {
            self.basis
                .judge
                .judge_entries(standing, inventory, &lost, changes, &left, &self.verdict)
        };
        let (accepted, judged) = self.timed(judge);
        Some((accepted?, judged))
    }

    /// Runs `work` and returns how long it took; 0 without a clock.
    fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let now = || self.clock.map_or(Duration::ZERO, |clock| clock());
        let began = now();
        let made = work();
        (made, now().saturating_sub(began))
    }

    /// Returns the Sets that clear PortStateChange.
    fn quiet(&self, fabric: &Fabric, plan: &Plan) -> Phase {
        let quiet = self.damage.flagged.iter().filter_map(|&node| {
            let settings = *plan.switches.get(fabric.switch_index(node)?)?;
            Some(Op::Switch { node, settings })
        });
        Phase {
            label: "clear PortStateChange",
            wait_before_ns: 0,
            ops: quiet.collect(),
        }
    }

    fn tables(&self, inventory: &Inventory, par: Par) -> Result<Tables, String> {
        let (fabric, plan) = (&inventory.fabric, &self.plan);
        let between_switches = |at: &PortRef| {
            let is_switch = |end: PortRef| fabric.switch_index(end.node).is_some();
            is_switch(*at) && fabric.peer(*at).is_some_and(is_switch)
        };
        if !self.damage.lost.iter().any(between_switches) {
            // An absent host usually comes back to the same place.
            return Ok(plan.tables.clone());
        }
        let away = away(fabric, &plan.lids);
        let mut lids = plan.lids.clone();
        for &at in &away {
            lids.remove(at);
        }
        if self.adopt == Adopt::Kept
            && plan.lanes == 1
            && let Some(tables) = mended(fabric, &lids, &plan.tables, par)
        {
            return Ok(with_columns_of(&plan.tables, tables, &plan.lids, &away));
        }
        let engine = Engine::try_from(&plan.engine).map_err(|e| e.to_string())?;
        let options = Options {
            weave: WeaveOptions {
                previous_levels: Some(Arc::new(plan.service_levels.clone())),
                ..WeaveOptions::default()
            },
            lanes: Some(plan.lanes),
            ..options(&self.basis.policy, &Arc::default(), Some(Arc::new(plan.tables.clone())))
        };
        let routed = engine
            .route(fabric, &lids, &options, Seed(0), par)
            .map_err(|e| e.to_string())?;
        if routed.lanes != plan.lanes || routed.service_levels != plan.service_levels {
            return Err("service levels would change".to_owned());
        }
        Ok(with_columns_of(&plan.tables, routed.tables, &plan.lids, &away))
    }

    /// Plans the lane tables of ports that came back, as the plan's quality of service gives them.
    fn add_quality(&self, fabric: &Fabric, plan: &mut Plan) {
        let returned = self.damage.returned.iter().flat_map(|back| [back.near.0, back.far.0]);
        let Some(qos) = plan.lane_tables.as_mut().and_then(|tables| tables.qos.as_mut()) else {
            return;
        };
        let quality = Quality {
            fabric,
            policy: &self.basis.policy,
            ports: &plan.ports,
            layers: plan.lanes,
            in_force: None,
        };
        returned.for_each(|at| quality.add(Arc::make_mut(qos), at));
    }

    fn judged(
        &self,
        inventory: &Arc<Inventory>,
        tables: Tables,
        warm: &mut Warm,
        par: Par,
    ) -> Result<(Outcome, Duration), String> {
        let mut plan = Plan {
            generation: self.basis.generation,
            tables,
            ..Plan::clone(&self.plan)
        };
        for at in self.damage.ends(&inventory.fabric) {
            plan.ports.remove(&at);
            plan.end_ports.remove(&at);
        }
        let (fabric, policy) = (&inventory.fabric, &self.basis.policy);
        let qos_file = qos_file(&plan);
        for at in self.damage.returned.iter().flat_map(|back| [back.near.0, back.far.0]) {
            let end = ports::plan_port(
                fabric,
                (policy, qos_file.as_deref()),
                (&plan.lids, inventory.local),
                &DeclinedByGuid::new(),
                at,
            );
            plan.ports.insert(at, end.ok_or("a port that came back has no LID")?);
            let pkeys = ports::plan_end_port(fabric, policy, inventory.local, at);
            plan.end_ports.extend(pkeys.map(|pkeys| (at, pkeys)));
        }
        self.add_quality(fabric, &mut plan);
        let past = self.basis.under_way.as_deref();
        let under_way = past.map(|past| with_lost(past, &self.basis.inventory, inventory));
        let installed = Installed {
            under_way: match self.damage.returned.is_empty() {
                true => under_way,
                false => past::with_links_asleep(
                    under_way,
                    Some(&self.basis.inventory.fabric),
                    fabric,
                    &self.basis.installed,
                ),
            },
            lanes: lanes::without(&self.basis.installed.lanes, fabric, &self.damage.returned),
            ..Installed::clone(&self.basis.installed)
        };
        let change_set = || {
            let options = WayOptions {
                par,
                ..WayOptions::default()
            };
            way::propose(&inventory.fabric, &installed, &plan, &options)
        };
        if let Some(standing) = &mut warm.standing {
            standing.set_copies(fabric, &self.basis.copies.turns);
        }
        let judge = || {
            let standing = &mut warm.standing;
            self.basis
                .judge
                .judge_repair(standing, inventory, &installed, &plan, &change_set, par)
        };
        let (accepted, judged) = self.timed(judge);
        let accepted = accepted.map_err(|refusal| in_words(&refusal))?;
        let outcome = Outcome::in_place(Arc::clone(inventory), plan, accepted);
        Ok((outcome, judged))
    }
}

/// Returns the QoS policy file of a plan, with the ports of its groups.
fn qos_file(plan: &Plan) -> Option<Arc<Resolved>> {
    match &plan.lane_tables.as_ref()?.qos.as_ref()?.rules {
        PathRules::OpenSm(file) => file.clone(),
        PathRules::Classes(_) => None,
    }
}

/// Adds the lost links that the repair handles to the record of packets in flight: packets that crossed them may still
/// be in flight.
fn with_lost(past: &UnderWay, before: &Inventory, now: &Inventory) -> Arc<UnderWay> {
    let mut past = past.clone();
    past.lost.extend(past::lost(&before.fabric, &now.fabric));
    Arc::new(past)
}

/// Returns the end ports that have LIDs but no link.
pub(crate) fn away(fabric: &Fabric, lids: &Lids) -> BTreeSet<PortRef> {
    let is_away = |at: &PortRef| at.port != PortNum::MANAGEMENT && !fabric.link_is_up(*at);
    lids.iter().map(|(at, _)| at).filter(is_away).collect()
}

/// Returns new tables with the old entries of absent hosts, so that these entries need not be deleted.
fn with_columns_of(old: &Tables, new: Tables, lids: &Lids, away: &BTreeSet<PortRef>) -> Tables {
    let mut tables = with_top(new, old.top());
    let columns: Vec<Lid> = away
        .iter()
        .filter_map(|&at| lids.range(at))
        .flat_map(|range| range.iter().collect::<Vec<_>>())
        .collect();
    for switch in old.switch_indices() {
        for &lid in &columns {
            tables.set(switch, lid, old.get(switch, lid));
        }
    }
    tables
}

fn accepted_event(outcome: &Outcome) -> PlanEvent {
    let count = outcome.changes.value().count();
    PlanEvent::Accepted {
        engine: outcome.plan.engine.0.clone(),
        sets: count.total(),
        lft_blocks: count.lft_blocks,
    }
}
