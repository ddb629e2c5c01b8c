//! Plans around lost links, and around links that came back: the plan in force with as few entries changed as possible.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, EmptiedLink, Installed, Lids, NO_PATH, Op, Phase, Plan, Tables, UnderWay};
use selvedge_routing::{Engine, Options, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{Lid, PortNum};
use selvedge_verify::Verdict;
use selvedge_verify::standing::{Entry, LinkChange, Replaced, Standing};

use crate::adopt::{Adopt, mended};
use crate::backups::{Backups, End};
use crate::changed::Changed;
use crate::damage::Damage;
use crate::event::PlanEvent;
use crate::inventory::Inventory;
use crate::job::{Job, JobResult, Outcome};
use crate::judge::Accepted;
use crate::warm::{Spare, Warm};
use crate::way::{self, WayOptions};
use crate::{lanes, past, ports};

/// What a repair starts from.
#[derive(Clone, Debug)]
pub struct Repair {
    /// What was lost.
    pub damage: Damage,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// What the judge said of it.
    pub verdict: Arc<Verdict>,
    /// What was prepared for it.
    pub warm: Option<Box<Warm>>,
    /// Repairs that were worked out before.
    pub backups: Vec<Arc<Backups>>,
}

impl Repair {
    /// True if it can be made in place.
    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.damage.returned.is_empty() && self.warm.as_ref().is_some_and(|warm| warm.spare.is_some())
    }

    /// True if what was prepared is for `weave`.
    #[must_use]
    pub fn is_woven(&self) -> bool {
        self.warm.as_ref().is_some_and(|warm| warm.weave.is_some())
    }

    /// Makes the repaired plan in place, if that can be done.
    pub fn run_in_place(&mut self, job: &mut Job) -> Option<JobResult> {
        let mut warm = self.warm.take().unwrap_or_default();
        let is_lost = self.damage.returned.is_empty();
        let result = is_lost.then(|| self.quickly(job, &mut warm)).flatten();
        if result.is_none() {
            // What was changed half-way is of no use.
            (warm.spare, warm.mender, warm.weave, warm.left) = (None, None, None, None);
            self.warm = Some(warm);
        }
        result
    }

    /// Makes the repaired plan; no outcome means that only a sweep can help.
    pub fn run(&mut self, job: &mut Job, par: Par) -> JobResult {
        if let Some(result) = self.run_in_place(job) {
            return result;
        }
        let mut warm = self.warm.take().unwrap_or_default();
        let mut result = JobResult::default();
        let left = self.damage.apply_to(&job.inventory);
        // What is gone must not be planned for; a sweep does not even see it.
        let Some(inventory) = left.filter(|left| !left.lacks_switches()).map(Arc::new) else {
            return result;
        };
        warm.catch_up(&job.inventory.fabric, &self.plan);
        let made = self.tables(&inventory, job, par);
        let made = made.and_then(|tables| self.judged(&inventory, job, tables, &mut warm, par));
        match made {
            Ok((outcome, judged)) => {
                result.judged = judged;
                result.events.push(accepted_event(&outcome));
                job.inventory = Arc::clone(&inventory);
                result.inventory = Some(inventory);
                result.outcome = Some(Arc::new(outcome));
                result.warm = warm.standing.is_some().then_some(warm);
            }
            Err(why) => result.events.push(PlanEvent::Refused {
                engine: self.plan.engine.0.clone(),
                why,
            }),
        }
        result
    }

    /// Changes what was prepared in place, judged by the entries alone; `None` if that does not do.
    fn quickly(&self, job: &mut Job, warm: &mut Warm) -> Option<JobResult> {
        let Spare {
            mut plan,
            mut inventory,
            mut installed,
        } = warm.spare.take()?;
        let standing = warm.standing.as_mut()?;
        standing.set_copies(&inventory.fabric, &job.copies.turns);
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
        plan.generation = job.generation;
        let is_one = ends.len() == 2 && links.len() == 2 && self.damage.gone.is_empty();
        let known = (is_one && job.under_way.is_none())
            .then(|| self.as_known(job, warm, (&inventory, &mut plan), &links))
            .flatten();
        let was_known = known.is_some();
        let (accepted, judged) = match known {
            Some(known) => known,
            None => self.anew(job, warm, (&inventory, &mut plan), &links)?,
        };
        // Whoever comes back may hold anything.
        for switch in self.damage.gone.iter().filter_map(|&node| fabric.switch_index(node)) {
            installed.lfts.get_mut(switch).into_iter().for_each(Vec::clear);
        }
        let outcome = Outcome::in_place(plan, accepted);
        let inventory = Arc::new(inventory);
        job.inventory = Arc::clone(&inventory);
        Some(JobResult {
            events: vec![accepted_event(&outcome)],
            outcome: Some(Arc::new(outcome)),
            inventory: Some(inventory),
            installed: Some(installed),
            judged,
            was_known,
            warm: Some(Box::new(std::mem::take(warm))),
            ..JobResult::default()
        })
    }

    /// As it was worked out before, if it was: judged then, and what it took to see that it still holds. What is
    /// prepared stays behind, until there is time.
    fn as_known(
        &self,
        job: &Job,
        warm: &mut Warm,
        (inventory, plan): (&Inventory, &mut Plan),
        links: &[End],
    ) -> Option<(Accepted, Duration)> {
        let standing = warm.standing.as_ref()?;
        let backup = self.backups.iter().find_map(|of| of.find(standing.state(), links))?;
        let what = (plan.generation, self.quiet(&inventory.fabric, plan));
        let judge = || job.judge.judge_backup(standing, inventory, backup, what, &self.verdict);
        let (accepted, judged) = job.timed(judge);
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

    /// Plans around what is lost, and has that judged.
    fn anew(
        &self,
        job: &Job,
        warm: &mut Warm,
        (inventory, plan): (&Inventory, &mut Plan),
        links: &[End],
    ) -> Option<(Accepted, Duration)> {
        let (standing, fabric) = (warm.standing.as_mut()?, &inventory.fabric);
        let menders = (&mut warm.mender, &mut warm.weave);
        let tables = (&self.plan.lids, &mut plan.tables);
        let changed = Changed::by(menders, tables, links, standing, job.under_way.is_none())?;
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
        let left = job.under_way.as_ref().map_or_else(Vec::new, |past| {
            let known = warm.left.take().and_then(|left| left.of(past));
            known.unwrap_or_else(|| replaced(past, standing))
        });
        let judge = || {
            job.judge
                .judge_entries(standing, inventory, &lost, changes, &left, &self.verdict)
        };
        let (accepted, judged) = job.timed(judge);
        Some((accepted?, judged))
    }

    /// The Sets that clear PortStateChange.
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

    fn tables(&self, inventory: &Inventory, job: &Job, par: Par) -> Result<Tables, String> {
        let (fabric, plan) = (&inventory.fabric, &self.plan);
        let between_switches = |at: &PortRef| {
            let is_switch = |end: PortRef| fabric.switch_index(end.node).is_some();
            is_switch(*at) && fabric.peer(*at).is_some_and(is_switch)
        };
        if !self.damage.lost.iter().any(between_switches) {
            // Whoever went away comes back to the same place, more often than not.
            return Ok(plan.tables.clone());
        }
        let away = away(fabric, &plan.lids);
        let mut lids = plan.lids.clone();
        for &at in &away {
            lids.remove(at);
        }
        if job.adopt == Adopt::Kept
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
            ..job.options(Some(Arc::new(plan.tables.clone())))
        };
        let routed = engine
            .route(fabric, &lids, &options, Seed(0), par)
            .map_err(|e| e.to_string())?;
        if routed.lanes != plan.lanes || routed.service_levels != plan.service_levels {
            return Err("service levels would change".to_owned());
        }
        Ok(with_columns_of(&plan.tables, routed.tables, &plan.lids, &away))
    }

    fn judged(
        &self,
        inventory: &Inventory,
        job: &Job,
        tables: Tables,
        warm: &mut Warm,
        par: Par,
    ) -> Result<(Outcome, Duration), String> {
        let mut plan = Plan {
            generation: job.generation,
            tables,
            ..Plan::clone(&self.plan)
        };
        for at in self.damage.ends(&inventory.fabric) {
            plan.ports.remove(&at);
            plan.end_ports.remove(&at);
        }
        let (fabric, policy) = (&inventory.fabric, &job.policy);
        for at in self.damage.returned.iter().flat_map(|back| [back.near.0, back.far.0]) {
            let end = ports::plan_port(fabric, policy, (&plan.lids, inventory.local), &job.declined, at);
            plan.ports.insert(at, end.ok_or("a port that came back has no LID")?);
            let pkeys = ports::plan_end_port(fabric, policy, inventory.local, at);
            plan.end_ports.extend(pkeys.map(|pkeys| (at, pkeys)));
        }
        let past = job.under_way.as_deref();
        let under_way = past.map(|past| with_lost(past, &job.inventory, inventory));
        let installed = Installed {
            under_way: match self.damage.returned.is_empty() {
                true => under_way,
                false => past::with_links_asleep(under_way, Some(&job.inventory.fabric), fabric, &job.installed),
            },
            lanes: lanes::without(&job.installed.lanes, fabric, &self.damage.returned),
            ..Installed::clone(&job.installed)
        };
        let change_set = || {
            let options = WayOptions {
                par,
                ..WayOptions::default()
            };
            way::propose(&inventory.fabric, &installed, &plan, &options)
        };
        if let Some(standing) = &mut warm.standing {
            standing.set_copies(fabric, &job.copies.turns);
        }
        let judge = || {
            let standing = &mut warm.standing;
            job.judge
                .judge_repair(standing, inventory, &installed, &plan, &change_set, par)
        };
        let (accepted, judged) = job.timed(judge);
        let accepted = accepted.map_err(|refusal| crate::job::in_words(&refusal))?;
        let outcome = Outcome::in_place(plan, accepted);
        Ok((outcome, judged))
    }
}

/// What is under way, with links that the repair is for.
fn with_lost(past: &UnderWay, before: &Inventory, now: &Inventory) -> Arc<UnderWay> {
    let mut past = past.clone();
    past.lost.extend(past::lost(&before.fabric, &now.fabric));
    Arc::new(past)
}

/// Entries that changed lately, as they were, and in which phase they came and went.
pub fn replaced(past: &UnderWay, standing: &Standing) -> Vec<Replaced> {
    let all = (0_u16..).zip(std::iter::once(&past.before).chain(&past.phases));
    let mut held: Vec<_> = all
        .flat_map(|(phase, blocks)| {
            blocks
                .iter()
                .map(move |(switch, block, data)| (*switch, *block, phase, data))
        })
        .collect();
    // A block's values as time goes by; what is in force now comes last.
    held.sort_by_key(|&(switch, block, phase, _)| (switch, block, phase));
    let is_emptied = |entry: Entry, until: u16| {
        let of_entry = |link: &&EmptiedLink| (link.from, link.port) == (entry.switch, entry.egress);
        past.emptied
            .iter()
            .filter(of_entry)
            .any(|link| usize::from(until) <= link.phases)
    };
    let mut replaced = Vec::new();
    for values in held.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (switch, block, first, mut old) = values[0];
        let mut since = [first; BLOCK_LIDS];
        let now = standing.row(switch, usize::from(block)).map(|now| (u16::MAX, now));
        for (phase, new) in values[1..].iter().map(|&(_, _, phase, data)| (phase, data)).chain(now) {
            if old == new {
                continue;
            }
            for i in (0..BLOCK_LIDS).filter(|&i| old[i] != new[i]) {
                let lid = u16::try_from(usize::from(block) * BLOCK_LIDS + i).map_or(Lid::NONE, Lid);
                let since = std::mem::replace(&mut since[i], phase);
                let entry = Entry {
                    switch,
                    lid,
                    egress: old[i],
                };
                let is_way = entry.egress != NO_PATH;
                replaced.extend(is_way.then_some(Replaced {
                    entry,
                    since,
                    until: phase,
                    is_emptied: is_emptied(entry, phase),
                }));
            }
            old = new;
        }
    }
    replaced
}

/// End ports that have LIDs and no link.
pub fn away(fabric: &Fabric, lids: &Lids) -> BTreeSet<PortRef> {
    let is_away = |at: &PortRef| at.port != PortNum::MANAGEMENT && !fabric.link_is_up(*at);
    lids.iter().map(|(at, _)| at).filter(is_away).collect()
}

/// New tables for as many LIDs as the old ones have.
pub fn widened(old: &Tables, new: Tables) -> Tables {
    if new.top() == old.top() {
        return new;
    }
    let mut wider = Tables::new(old.switches(), old.top());
    for switch in old.switch_indices() {
        for block in 0..new.blocks().min(wider.blocks()) {
            *wider.block_mut(switch, block) = *new.block(switch, block);
        }
    }
    wider
}

/// New tables with the old entries of hosts that are away: nobody has to forget them.
fn with_columns_of(old: &Tables, new: Tables, lids: &Lids, away: &BTreeSet<PortRef>) -> Tables {
    let mut tables = widened(old, new);
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
