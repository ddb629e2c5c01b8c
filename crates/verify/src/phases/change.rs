//! The way of a change set: what it does to traffic on the fabric it is for.

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, LostLink, Op, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_types::{Idx, Lid, PortState};
use serde::Serialize;

use super::report::{TransitionProof, TransitionRefusal};
use super::{
    Links, PhaseOptions, PhaseStep, Proposal, QuickProof, StandingTurns, Trial, Wake, Write, drain_bound_ns,
    lifetimes_of_waits, lifetimes_to_wait, newcomers, newcomers_may_meet, prove_quickly, prove_trial, refusal,
    takes_away_only,
};
use crate::finding::{Fault, Finding, Severity};
use crate::judged::JudgeOptions;
use crate::subject::Subject;

/// What was found of the way to a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Passage {
    /// No packet can be under way between switches; or no entry changes, and nobody comes who could meet packets of
    /// entries that changed a moment ago: nothing to prove.
    #[default]
    Still,
    /// Proved by what it adds to the dependencies that stand.
    Quick(QuickProof),
    /// Proved step by step.
    Proved(Box<TransitionProof>),
    /// The tables in force, or steps that have just been taken, can deadlock or make packets go round by themselves;
    /// entries are only taken away until packets have drained, and from then on nothing is wrong.
    Inherited(Box<TransitionRefusal>),
    /// Not proved.
    Refused(Box<TransitionRefusal>),
}

impl Passage {
    /// What the verdict says of it.
    pub(crate) fn finding(&self) -> Option<Finding> {
        let (severity, refusal) = match self {
            Self::Still | Self::Quick(_) | Self::Proved(_) => return None,
            Self::Inherited(refusal) => (Severity::Warning, refusal),
            Self::Refused(refusal) => (Severity::Error, refusal),
        };
        let first = Box::new(refusal.findings.first()?.clone());
        let fault = match severity {
            Severity::Error => Fault::UnsafeWay { first },
            Severity::Info | Severity::Warning => Fault::InheritedCycle { first },
        };
        Some(Finding::new(severity, fault))
    }
}

/// Judges the way from what `installed` says to `plan`, on `fabric` as it was seen. Lanes in force are the plan's
/// unless `lanes_in_force` or `installed` says otherwise.
#[must_use]
pub fn passage(
    fabric: &Fabric,
    installed: &Installed,
    plan: &Plan,
    changes: &ChangeSet,
    lanes_in_force: Option<(&ServiceLevels, &SlToVl)>,
    options: &JudgeOptions,
) -> Passage {
    if !is_live(fabric) {
        return Passage::Still;
    }
    let held = in_force(installed, plan);
    let wake = Wake::of_changes(fabric, &held, changes);
    let tables = wake.in_force(&held);
    let lanes_in_force = lanes_in_force.or_else(|| installed.lanes_in_force());
    let (levels, map) = lanes_in_force.unwrap_or((&plan.service_levels, &plan.sl_to_vl));
    let mut proposal = as_met(fabric, &held, plan, (&wake, changes));
    let is_still = proposal.steps.is_empty() && (levels, map) == (&plan.service_levels, &plan.sl_to_vl);
    let past = Past::new(installed, &tables);
    let subject = Subject::tables(fabric, &plan.lids, &tables, levels, map);
    let may_meet = |past| newcomers_may_meet(subject, past, changes);
    if is_still && !past.as_ref().is_some_and(may_meet) {
        return Passage::Still;
    }
    newcomers::add_their_wait(&mut proposal, fabric, changes);
    let known = |taken, age_ns| {
        let as_met = |changes: &ChangeSet| as_met(fabric, &held, plan, (&wake, changes)).steps;
        let joins = newcomers::joins((&proposal, age_ns), fabric, changes, as_met);
        Known { taken, joins }
    };
    // What is kept knows nothing of entries that wake, nor of who comes.
    let standing = options.turns.as_deref().filter(|_| wake.is_empty() && !is_still);
    let lifetimes = lifetimes(fabric, changes);
    let phase_options = phase_options(changes, options);
    let Some(past) = past else {
        let steps = (&proposal, known(0, 0));
        return of_proposal(subject, standing, steps, &lifetimes, &phase_options);
    };
    // Dependencies that are kept with those that linger know of the past.
    let knowing = standing.filter(|standing| standing.lingers());
    let quick = knowing.and_then(|standing| prove_quickly(subject, standing, &proposal, &phase_options));
    if let Some(proof) = quick {
        return Passage::Quick(proof);
    }
    let phase_options = PhaseOptions {
        lost: past.lost.clone(),
        ..phase_options
    };
    let subject = Subject::tables(fabric, &plan.lids, &past.tables, levels, map);
    let judge = |age_ns: u64| {
        let known = known(past.steps.len(), age_ns);
        let mut proposal = proposal.clone();
        past.put_before(&mut proposal, age_ns);
        of_proposal(subject, None, (&proposal, known), &lifetimes, &phase_options)
    };
    match judge(past.age_ns) {
        // Who comes has met no packet of before, or none that matters.
        Passage::Inherited(_) | Passage::Proved(_) if is_still => Passage::Still,
        // Where the tables in force go round by themselves they still do after such a wait.
        Passage::Refused(_) if past.age_ns > 0 && !is_still => judge(0),
        passage => passage,
    }
}

/// The steps of a change set as packets meet them.
fn as_met<'a>(fabric: &Fabric, held: &Tables, plan: &'a Plan, (wake, changes): (&Wake, &ChangeSet)) -> Proposal<'a> {
    Proposal {
        service_levels: Some(&plan.service_levels),
        sl_to_vl: Some(&plan.sl_to_vl),
        steps: match wake.is_empty() {
            true => Proposal::of_changes(fabric, held, changes).steps,
            false => wake.steps(fabric, held, changes),
        },
    }
}

/// How many lifetimes the longest wait of a change set must last, if it activates links between switches on its way:
/// to packets, entries over them are none until then. 0 without a wait, or without such links; `None` if it makes no
/// sense.
#[must_use]
pub fn longest_wait(
    fabric: &Fabric,
    installed: &Installed,
    plan: &Plan,
    changes: &ChangeSet,
    lanes_in_force: Option<(&ServiceLevels, &SlToVl)>,
    switch_pairs: Severity,
) -> Option<u32> {
    if changes.phases.iter().all(|phase| phase.wait_before_ns == 0) {
        return Some(0);
    }
    let held = in_force(installed, plan);
    let wake = Wake::of_changes(fabric, &held, changes);
    if wake.is_empty() {
        return Some(0);
    }
    let tables = wake.in_force(&held);
    let mut proposal = as_met(fabric, &held, plan, (&wake, changes));
    let mut options = PhaseOptions {
        links: links_of(changes),
        switch_pairs,
        ..PhaseOptions::default()
    };
    newcomers::add_their_wait(&mut proposal, fabric, changes);
    let past = Past::new(installed, &tables);
    if let Some(past) = &past {
        past.put_before(&mut proposal, past.age_ns);
        options.lost.clone_from(&past.lost);
    }
    let (levels, map) = lanes_in_force.unwrap_or((&plan.service_levels, &plan.sl_to_vl));
    let first = past.as_ref().map_or(&tables, |past| &past.tables);
    let needed = lifetimes_to_wait(
        Subject::tables(fabric, &plan.lids, first, levels, map),
        &proposal,
        &options,
    )?;
    needed.into_iter().max()
}

/// The tables in force as far as a plan writes them: whole blocks, as entries above its highest LID may be left in the
/// last.
#[must_use]
pub fn in_force(installed: &Installed, plan: &Plan) -> Tables {
    let last = plan.tables.blocks() * BLOCK_LIDS - 1;
    // Blocks go up to LID 0xBFFF, which is the last of its block.
    let top = u16::try_from(last).map_or(Lid::UNICAST_MAX, Lid);
    installed.tables(plan.tables.switches(), top)
}

/// Changes before this one whose packets may still be under way: steps that have been taken.
#[derive(Debug)]
pub struct Past {
    /// The tables before.
    pub tables: Tables,
    /// The steps since, the last one with whatever else differs from what is in force.
    pub steps: Vec<PhaseStep>,
    /// How long ago the last was acknowledged.
    pub age_ns: u64,
    /// Links that have gone down since.
    pub lost: Vec<LostLink>,
}

impl Past {
    /// What `installed` says of the past; `None` if no packet can be under way by other entries than those in force,
    /// which are `now`.
    #[must_use]
    pub fn new(installed: &Installed, now: &Tables) -> Option<Self> {
        let under_way = installed.under_way.as_ref()?;
        let mut tables = now.clone();
        for (switch, block, data) in &under_way.before {
            let (at, block) = (*switch, usize::from(*block));
            if at.to_usize() < tables.switches() && block < tables.blocks() {
                *tables.block_mut(at, block) = *data;
            }
        }
        let mut held = tables.clone();
        let mut steps = Vec::new();
        for phase in &under_way.phases {
            let mut writes = Vec::new();
            for (switch, block, data) in phase {
                let (at, block) = (*switch, usize::from(*block));
                if at.to_usize() < held.switches() && block < held.blocks() {
                    add_writes(&mut writes, (at, block), held.block(at, block), data);
                    *held.block_mut(at, block) = *data;
                }
            }
            steps.push(writes);
        }
        let mut writes = Vec::new();
        // Only what has changed can be otherwise.
        let mut changed: Vec<(SwitchIdx, u16)> = under_way.before.iter().map(|(at, block, _)| (*at, *block)).collect();
        changed.extend(under_way.phases.iter().flatten().map(|(at, block, _)| (*at, *block)));
        changed.sort_unstable();
        changed.dedup();
        for (at, block) in changed {
            let block = usize::from(block);
            if at.to_usize() < held.switches() && block < held.blocks() {
                add_writes(&mut writes, (at, block), held.block(at, block), now.block(at, block));
            }
        }
        steps.push(writes);
        let steps: Vec<PhaseStep> = steps
            .into_iter()
            .filter(|writes| !writes.is_empty())
            .map(|writes| PhaseStep {
                wait_before_ns: 0,
                writes,
            })
            .collect();
        (!steps.is_empty()).then_some(Self {
            tables,
            steps,
            age_ns: under_way.age_ns,
            lost: under_way.lost.clone(),
        })
    }

    /// Puts these steps before those of a proposal that starts from the tables in force. Time that has passed counts as
    /// waited, or as much of it.
    pub fn put_before(&self, proposal: &mut Proposal<'_>, age_ns: u64) {
        if let Some(first) = proposal.steps.first_mut() {
            first.wait_before_ns = first.wait_before_ns.saturating_add(age_ns);
        }
        proposal.steps.splice(0..0, self.steps.iter().cloned());
    }
}

fn add_writes(
    writes: &mut Vec<Write>,
    (switch, block): (SwitchIdx, usize),
    held: &[u8; BLOCK_LIDS],
    data: &[u8; BLOCK_LIDS],
) {
    if held == data {
        return;
    }
    let entries = (block * BLOCK_LIDS..)
        .zip(held.iter().zip(data))
        .filter(|(_, (old, new))| old != new);
    writes.extend(entries.filter_map(|(lid, (_, &egress))| {
        let lid = Lid(u16::try_from(lid).ok()?);
        Some(Write { switch, lid, egress })
    }));
}

fn phase_options(changes: &ChangeSet, options: &JudgeOptions) -> PhaseOptions {
    PhaseOptions {
        drain_ns: None,
        links: links_of(changes),
        lost: Vec::new(),
        switch_pairs: options.switch_pairs,
        listed_max: options.findings_max,
        measured: options.measured,
        par: options.par,
    }
}

/// What is known of steps.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// So many have been taken already.
    taken: usize,
    /// Who comes does so after so many of the others; `None` if nobody does.
    joins: Option<usize>,
}

/// Proves steps whose waits are held against the drain bound of these lifetimes.
fn of_proposal(
    subject: Subject<'_>,
    standing: Option<&StandingTurns>,
    (proposal, Known { taken, joins }): (&Proposal<'_>, Known),
    lifetimes: &[u8],
    options: &PhaseOptions,
) -> Passage {
    let quick = standing.and_then(|standing| prove_quickly(subject, standing, proposal, options));
    if let Some(proof) = quick {
        return Passage::Quick(proof);
    }
    let options = PhaseOptions {
        // Waits that are shorter than they must be are taken out.
        drain_ns: Some(1),
        ..options.clone()
    };
    let mut counted = Counted {
        proposal: proposal.clone(),
        short: Vec::new(),
        lifetimes_max: None,
    };
    let proof = Trial::new(subject, standing, proposal, &options).map_err(refusal);
    let proof = proof.and_then(|trial| {
        match standing {
            None => counted.look(&trial, lifetimes, &options),
            // What stood is no part of how long packets matter: on a bench without it.
            Some(_) => {
                let trial = Trial::bare(subject, None, proposal, &options).map_err(refusal)?;
                counted.look(&trial, lifetimes, &options);
                counted.lifetimes_max = None;
            }
        }
        prove_trial(&trial, &counted.proposal, counted.lifetimes_max, &options)
    });
    let counted_and_taken = (&counted.proposal, taken);
    match proof {
        Ok(mut proof) => {
            proof.figures.waits_short = counted.short;
            Passage::Proved(Box::new(proof))
        }
        Err(refusal)
            if refusal.is_inherited(taken)
                && takes_away_only(subject, counted_and_taken, &options)
                && joins.is_none_or(|joins| newcomers::come_late(counted_and_taken, joins)) =>
        {
            Passage::Inherited(refusal)
        }
        Err(refusal) => Passage::Refused(refusal),
    }
}

/// A proposal without the waits that are shorter than its packets matter.
struct Counted<'a> {
    proposal: Proposal<'a>,
    /// The steps of those waits.
    short: Vec<u32>,
    /// How many lifetimes the longest of the others must last, once that is known.
    lifetimes_max: Option<u32>,
}

impl Counted<'_> {
    /// Takes out the waits that are too short, on the bench of the proposal: where they are changes nothing of that.
    fn look(&mut self, trial: &Trial<'_>, lifetimes: &[u8], options: &PhaseOptions) {
        loop {
            let needed = lifetimes_of_waits(trial, &self.proposal.steps, options);
            let is_short = |(step, lifetimes_needed): &(&PhaseStep, &u32)| {
                let bound = drain_bound_ns(lifetimes.iter().copied(), **lifetimes_needed);
                step.wait_before_ns > 0 && bound.is_none_or(|bound| step.wait_before_ns < bound)
            };
            let steps = self.proposal.steps.iter().zip(&needed).enumerate();
            let waits = steps.filter(|(_, step)| is_short(step));
            // Without the shortest the others may have to last longer, or be long enough: a step behind it may take
            // away what went round.
            let Some((at, _)) = waits.min_by_key(|(_, (step, _))| step.wait_before_ns) else {
                self.short.sort_unstable();
                self.lifetimes_max = Some(needed.into_iter().max().unwrap_or(0));
                return;
            };
            self.proposal.steps[at].wait_before_ns = 0;
            self.short.push(at as u32 + 1);
        }
    }
}

/// True if a link between switches carries packets. Packets of hosts on one switch wait for no channel.
#[must_use]
pub fn is_live(fabric: &Fabric) -> bool {
    let is_active = |end| fabric.port(end).is_some_and(|p| p.link.state == PortState::Active);
    // By switch: hosts are many, and have no such link.
    fabric.switches().iter().any(|&node| {
        fabric.node(node).external_ports().any(|(_, port)| {
            let far = port.peer.filter(|far| fabric.switch_index(far.node).is_some());
            port.link.state == PortState::Active && far.is_some_and(is_active)
        })
    })
}

/// The links that carry packets while a change set is applied: if it activates ports, all that are trained count from
/// the start.
#[must_use]
pub fn links_of(changes: &ChangeSet) -> Links {
    let activates = |op: &Op| {
        let active = Some(PortState::Active);
        matches!(op, Op::Port { state, .. } if *state == active)
    };
    if changes.phases.iter().flat_map(|phase| &phase.ops).any(activates) {
        Links::Trained
    } else {
        Links::Active
    }
}

/// LifeTimeValue of each switch while a change set waits: what it sets before its first wait, else what is in force.
#[must_use]
pub fn lifetimes(fabric: &Fabric, changes: &ChangeSet) -> Vec<u8> {
    let in_force = fabric
        .switches()
        .iter()
        .map(|&node| fabric.node(node).switch_settings.lifetime);
    let mut lifetimes: Vec<u8> = in_force.collect();
    for op in changes
        .phases
        .iter()
        .take_while(|phase| phase.wait_before_ns == 0)
        .flat_map(|phase| &phase.ops)
    {
        if let Op::Switch { node, settings } = op
            && let Some(switch) = fabric.switch_index(*node)
            && let Some(place) = lifetimes.get_mut(switch.0 as usize)
        {
            *place = settings.lifetime;
        }
    }
    lifetimes
}
