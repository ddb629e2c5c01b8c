//! The way of a change set: what it does to traffic on the fabric it is for.

use selvedge_fabric::Fabric;
use selvedge_plan::{ChangeSet, Installed, Op, Plan, ServiceLevels, SlToVl};
use selvedge_types::PortState;
use serde::Serialize;

use super::report::{TransitionProof, TransitionRefusal};
use super::{
    Links, PhaseOptions, Proposal, QuickProof, StandingTurns, drain_bound_ns, prove, prove_quickly, switches_max,
};
use crate::finding::{Fault, Finding, Severity};
use crate::judged::JudgeOptions;
use crate::subject::Subject;

/// What was found of the way to a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Passage {
    /// No packet can be under way between switches, or no entry changes: nothing to prove.
    #[default]
    Still,
    /// Proved by what it adds to the dependencies that stand.
    Quick(QuickProof),
    /// Proved step by step.
    Proved(Box<TransitionProof>),
    /// The tables in force can deadlock or make packets go round by themselves; from the first wait on nothing is
    /// wrong.
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
/// unless `lanes_in_force` says otherwise.
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
    let tables = installed.tables(fabric.switches().len(), plan.tables.top());
    let proposal = Proposal {
        service_levels: Some(&plan.service_levels),
        sl_to_vl: Some(&plan.sl_to_vl),
        ..Proposal::of_changes(fabric, &tables, changes)
    };
    let (levels, map) = lanes_in_force.unwrap_or((&plan.service_levels, &plan.sl_to_vl));
    if proposal.steps.is_empty() && (levels, map) == (&plan.service_levels, &plan.sl_to_vl) {
        return Passage::Still;
    }
    let subject = Subject::tables(fabric, &plan.lids, &tables, levels, map);
    let standing = options.turns.as_deref();
    of_proposal(
        subject,
        standing,
        &proposal,
        &lifetimes(fabric, changes),
        &phase_options(changes, options),
    )
}

fn phase_options(changes: &ChangeSet, options: &JudgeOptions) -> PhaseOptions {
    PhaseOptions {
        drain_ns: None,
        links: links_of(changes),
        switch_pairs: options.switch_pairs,
        listed_max: options.findings_max,
        par: options.par,
    }
}

/// Proves steps whose waits are held against the drain bound of these lifetimes.
fn of_proposal(
    subject: Subject<'_>,
    standing: Option<&StandingTurns>,
    proposal: &Proposal<'_>,
    lifetimes: &[u8],
    options: &PhaseOptions,
) -> Passage {
    let quick = standing.and_then(|standing| prove_quickly(subject, standing, proposal, options));
    if let Some(proof) = quick {
        return Passage::Quick(proof);
    }
    let mut options = options.clone();
    if proposal.steps.iter().any(|step| step.wait_before_ns > 0) {
        options.drain_ns = switches_max(subject, standing, proposal, &options)
            .and_then(|switches| drain_bound_ns(lifetimes.iter().copied(), switches));
    }
    match prove(subject, standing, proposal, &options) {
        Ok(proof) => Passage::Proved(Box::new(proof)),
        Err(refusal) if refusal.is_inherited() => Passage::Inherited(refusal),
        Err(refusal) => Passage::Refused(refusal),
    }
}

/// True if a link between switches carries packets. Packets of hosts on one switch wait for no channel.
#[must_use]
pub fn is_live(fabric: &Fabric) -> bool {
    let is_active = |end| fabric.port(end).is_some_and(|p| p.link.state == PortState::Active);
    fabric.links().any(|link| {
        let between = fabric.switch_index(link.a.node).is_some() && fabric.switch_index(link.b.node).is_some();
        between && is_active(link.a) && is_active(link.b)
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
