//! Judges the transition of a change set: its effect on the traffic of its fabric.

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

/// Result of judging the transition to a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Passage {
    /// Nothing to prove. Either no packet can be in flight between switches, or no entry changes and no packet of a new
    /// host can meet packets of recently changed entries.
    #[default]
    Still,
    /// The transition was proved by the dependencies that it adds to the existing ones.
    Quick(QuickProof),
    /// The transition was proved step by step.
    Proved(Box<TransitionProof>),
    /// The tables in force, or steps that were just taken, can by themselves deadlock or loop. The change set only
    /// removes entries until packets have drained, and from then on the transition has no fault.
    Inherited(Box<TransitionRefusal>),
    /// Not proved.
    Refused(Box<TransitionRefusal>),
}

impl Passage {
    /// Returns the finding for the verdict, if there is one.
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

/// Judges the transition from the state in `installed` to `plan`, on the discovered `fabric`. The lanes in force are
/// those of the plan unless `lanes_in_force` or `installed` has others.
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
    // The kept dependencies do not cover ports that become ACTIVE or new hosts.
    let standing = options.turns.as_deref().filter(|_| wake.is_empty() && !is_still);
    let lifetimes = lifetimes(fabric, changes);
    let phase_options = phase_options(changes, options);
    let Some(past) = past else {
        let steps = (&proposal, known(0, 0));
        return of_proposal(subject, standing, steps, &lifetimes, &phase_options);
    };
    // Kept dependencies that include those of packets in flight cover earlier changes.
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
        // New hosts have met no packets of earlier entries, or none that matters.
        Passage::Inherited(_) | Passage::Proved(_) if is_still => Passage::Still,
        // If the tables in force loop by themselves, waiting does not help.
        Passage::Refused(_) if past.age_ns > 0 && !is_still => judge(0),
        passage => passage,
    }
}

/// Returns the steps of a change set in the order in which packets see them.
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

/// Returns how many packet lifetimes the longest wait of a change set must last, if the change set activates links
/// between switches. Until such a link is ACTIVE, packets treat entries over it as missing. 0 without a wait or without
/// such links; `None` if the change set is not consistent.
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

/// Returns the part of the tables in force that a plan writes. These are whole blocks, so the last one may have entries
/// above the highest LID.
#[must_use]
pub fn in_force(installed: &Installed, plan: &Plan) -> Tables {
    let last = plan.tables.blocks() * BLOCK_LIDS - 1;
    // Blocks go up to LID 0xBFFF, the last LID of its block.
    let top = u16::try_from(last).map_or(Lid::UNICAST_MAX, Lid);
    installed.tables(plan.tables.switches(), top)
}

/// Earlier changes with packets that may still be in flight: steps that have been taken.
#[derive(Debug)]
pub struct Past {
    /// The tables before these steps.
    pub tables: Tables,
    /// The steps since then. The last one also contains all other differences from the tables in force.
    pub steps: Vec<PhaseStep>,
    /// Time since the last step was acknowledged, in nanoseconds.
    pub age_ns: u64,
    /// Links that have gone down since the tables were in force.
    pub lost: Vec<LostLink>,
}

impl Past {
    /// Returns the steps that `installed` records as taken, if packets of replaced entries may still be in flight.
    /// `None` if all packets in flight use the entries in force, which are in `now`.
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
        // Only changed blocks can differ.
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

    /// Makes a proposal begin with these earlier steps instead of the tables in force. The time since the last of them,
    /// up to `age_ns`, counts as a wait before the proposal's own first step.
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

/// Facts about the steps of a proposal.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Number of steps that have been taken already.
    taken: usize,
    /// Step after which new hosts join; `None` if no host joins.
    joins: Option<usize>,
}

/// Proves the steps of a proposal. A wait counts only if it is at least as long as the drain bound that follows from
/// `lifetimes` (LifeTimeValues of switches).
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
        // Waits that are shorter than necessary are removed.
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
            // How long packets must be considered does not depend on the kept dependencies, so the trial runs without
            // them.
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

/// A proposal without the waits that are too short for its packets to drain.
struct Counted<'a> {
    proposal: Proposal<'a>,
    /// The steps of the removed waits.
    short: Vec<u32>,
    /// Lifetimes that the longest remaining wait must last, once known.
    lifetimes_max: Option<u32>,
}

impl Counted<'_> {
    /// Removes the waits that are too short, one after another, shortest first. After each removal the trial shows how
    /// long the others must be.
    fn look(&mut self, trial: &Trial<'_>, lifetimes: &[u8], options: &PhaseOptions) {
        loop {
            let needed = lifetimes_of_waits(trial, &self.proposal.steps, options);
            let is_short = |(step, lifetimes_needed): &(&PhaseStep, &u32)| {
                let bound = drain_bound_ns(lifetimes.iter().copied(), **lifetimes_needed);
                step.wait_before_ns > 0 && bound.is_none_or(|bound| step.wait_before_ns < bound)
            };
            let steps = self.proposal.steps.iter().zip(&needed).enumerate();
            let waits = steps.filter(|(_, step)| is_short(step));
            // After the shortest wait is removed, the others may have to last longer, or may be long enough because a
            // later step removes the entries that loop.
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

/// True if a link between switches carries packets. Packets between hosts on one switch wait for no channel.
#[must_use]
pub fn is_live(fabric: &Fabric) -> bool {
    let is_active = |end| fabric.port(end).is_some_and(|p| p.link.state == PortState::Active);
    // Iterates over switches: hosts are many and have no such link.
    fabric.switches().iter().any(|&node| {
        fabric.node(node).external_ports().any(|(_, port)| {
            let far = port.peer.filter(|far| fabric.switch_index(far.node).is_some());
            port.link.state == PortState::Active && far.is_some_and(is_active)
        })
    })
}

/// Returns the links that carry packets while a change set is applied. If the change set activates ports, all trained
/// links count from the start.
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

/// Returns LifeTimeValue of each switch while a change set waits: the value that the change set writes before its first
/// wait, else the current one.
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
