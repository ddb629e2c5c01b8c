//! Transition safety: proves or refuses a *proposed* list of steps. The judge plans nothing.
//!
//! # What is judged
//! Each step writes forwarding entries. The next step begins when all Sets of the step are acknowledged. Within a step
//! Sets arrive in any order, late, or more than once, so any mix of old and new entries may be in force. (One SMP
//! carries 64 entries, which change together. The judge treats them one by one, so it considers more mixes than can
//! occur. Every proof stays valid; at worst it refuses a step because of a mix that cannot occur.)
//!
//! A GetResp does not mean that packets have drained. Packets in flight when an entry was replaced still occupy the
//! channels that the old entry sent them to, and use the current entry of each later switch. Their dependencies, here
//! called *ghosts*, end only with a wait of the *drain bound* ([`drain_bound_ns`]). After that time every such packet
//! has been delivered or discarded, or is at a place that packets of the entries in force also use.
//!
//! So the *mixed graph* of a step has, for each LID that changes, a dependency a → b in this case: a packet may have
//! entered channel a since the last wait, and an entry that led to channel b may have been in force when it arrived.
//! Together with the dependencies of the unchanged LIDs, the graph must have no cycle. If the dependencies of each
//! single LID have no loop, all dependencies of the graph can really occur together: Sets may arrive in the order from
//! the sources towards the LID, while packets stay where they are. So no safe step is refused, except because of mixes
//! that cannot occur within a block.
//!
//! As elsewhere in the judge, traffic of hosts, of switch agents, and between switches is kept apart. Only links that
//! are up at both ends carry dependencies. If the service level of a LID changes, sources may use the old or the new
//! one until they repeat their path query, so both count throughout. The same applies to SL2VL tables.
//!
//! # What is assumed
//! No Set of a step arrives after the step was acknowledged. If a block is written again without a wait between, a late
//! copy of the first Set could restore old entries; such blocks are counted ([`TransitionFigures::blocks_rewritten`]).
//! LinearFDBTop is high enough, and every lane exists on every link: otherwise packets are dropped, which the judge of
//! plans reports.
//!
//! # Cost
//! The LIDs that change are followed once per wait, and once per step that writes them. The graph of all dependencies
//! is sorted once per wait. With a [`StandingTurns`] graph no other LID is followed.

mod aging;
mod alike;
mod change;
mod drift;
mod drops;
pub(crate) mod net;
mod newcomers;
mod quick;
mod report;
mod standing;
mod trial;
mod turns;
mod wake;
mod way;
mod witness;

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, LostLink, Op, ServiceLevels, SlToVl, Tables};
use selvedge_sim::Par;
use selvedge_types::{Idx, Lid};
use serde::Serialize;

pub use aging::Aging;
pub use alike::newcomers_may_meet;
pub use change::{Passage, Past, in_force, is_live, lifetimes, links_of, longest_wait, passage};
pub use net::Links;
pub use newcomers::{come as newcomers_come, gives_lids};
pub use report::{
    Dropped, Era, MixedStep, PhaseFault, PhaseFinding, StepFigures, TransitionFigures, TransitionProof,
    TransitionRefusal,
};
pub use standing::StandingTurns;
pub use wake::{Wake, is_asleep};
pub use way::lifetimes_after;

use crate::finding::{Place, Severity, Traffic};
use crate::subject::Subject;
use net::Net;
use trial::{Bad, Segments, Trial};
use witness::Finder;

/// One forwarding entry to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    /// The switch.
    pub switch: SwitchIdx,
    /// The LID.
    pub lid: Lid,
    /// The egress port; 255: drop.
    pub egress: u8,
}

/// Entries that one step writes, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseStep {
    /// Wait after the acknowledgement of the previous step, in nanoseconds. A wait below the drain bound counts as
    /// none.
    pub wait_before_ns: u64,
    /// Entries to write. Entries that already have the value are skipped.
    pub writes: Vec<Write>,
}

/// Steps that lead from the tables in force to other tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal<'a> {
    /// The steps. Each begins when the previous one is acknowledged.
    pub steps: Vec<PhaseStep>,
    /// Service levels that sources use afterwards, if they differ from those in force.
    pub service_levels: Option<&'a ServiceLevels>,
    /// Lanes afterwards, if they differ from those in force.
    pub sl_to_vl: Option<&'a SlToVl>,
}

impl Proposal<'_> {
    /// Returns the forwarding entries of a change set, phase by phase with the waits. Phases that write no entry are
    /// left out.
    #[must_use]
    pub fn of_changes(fabric: &Fabric, in_force: &Tables, changes: &ChangeSet) -> Self {
        let mut steps = Vec::new();
        // Blocks written by earlier phases.
        let mut written: BTreeMap<(SwitchIdx, u16), &[u8; BLOCK_LIDS]> = BTreeMap::new();
        // A wait before a phase that changes no entry is added to the next phase.
        let mut wait_before_ns = 0_u64;
        for phase in &changes.phases {
            wait_before_ns = wait_before_ns.saturating_add(phase.wait_before_ns);
            let mut writes = Vec::new();
            for op in &phase.ops {
                let Op::Lft { node, block, data } = op else { continue };
                let Some(switch) = fabric.switch_index(*node) else {
                    continue;
                };
                let first = usize::from(*block) * BLOCK_LIDS;
                let known = (switch.to_usize() < in_force.switches() && usize::from(*block) < in_force.blocks())
                    .then(|| in_force.block(switch, usize::from(*block)));
                let held = written.get(&(switch, *block)).copied().or(known);
                let entries = (first..).zip(data.iter()).enumerate();
                let is_new = |i: usize, egress: u8| held.is_none_or(|held| held[i] != egress);
                writes.extend(entries.filter(|(i, (_, egress))| is_new(*i, **egress)).filter_map(
                    |(_, (lid, &egress))| {
                        let lid = Lid(u16::try_from(lid).ok()?);
                        Some(Write { switch, lid, egress })
                    },
                ));
            }
            // If one phase writes a block twice, the order is not known, so both are compared with the contents before
            // the phase.
            if changes.phases.len() > 1 {
                for op in &phase.ops {
                    if let Op::Lft { node, block, data } = op
                        && let Some(switch) = fabric.switch_index(*node)
                    {
                        written.insert((switch, *block), data);
                    }
                }
            }
            if !writes.is_empty() {
                steps.push(PhaseStep { wait_before_ns, writes });
                wait_before_ns = 0;
            }
        }
        Self {
            steps,
            ..Self::default()
        }
    }
}

/// Options of a proof.
#[derive(Clone, Debug)]
pub struct PhaseOptions {
    /// Nanoseconds after which packets in flight need not be considered any longer: see [`drain_bound_ns`]. `None`:
    /// there is no such time, so waits do not help. Default: `None`.
    pub drain_ns: Option<u64>,
    /// Which links carry packets. Default: those that are ACTIVE.
    pub links: Links,
    /// Links that went down recently. Packets to LIDs with changing entries may have crossed such a link before it went
    /// down, and count as in flight until the first wait. Default: none.
    pub lost: Vec<LostLink>,
    /// Severity of cycles and loops that concern only traffic from switch to switch. Default: warning, as in
    /// [`JudgeOptions`](crate::JudgeOptions).
    pub switch_pairs: Severity,
    /// Most loops reported per step, and most live pairs named. Default 100: more than an operator reads.
    pub listed_max: usize,
    /// Figures to measure for a proposal that is proved. Default: all.
    pub measured: Measured,
    /// Whether LIDs may be followed on several threads. The answer is the same. Default: sequential.
    pub par: Par,
}

impl Default for PhaseOptions {
    fn default() -> Self {
        Self {
            drain_ns: None,
            links: Links::default(),
            lost: Vec::new(),
            switch_pairs: Severity::Warning,
            listed_max: 100,
            measured: Measured::All,
            par: Par::Sequential,
        }
    }
}

/// Figures to measure for a proposal that is proved, in addition to the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// All of [`TransitionFigures`].
    #[default]
    All,
    /// Only the costs: entries, waits, dropped packets. It is not tested whether fewer waits would do, because that
    /// takes a proof for each wait: dependencies and ghosts are 0, `waits_spare` is empty, and no pairs are named.
    Costs,
}

/// Returns the largest class of traffic with cycles that are errors.
fn strict(options: &PhaseOptions) -> Traffic {
    if options.switch_pairs == Severity::Error {
        Traffic::Switches
    } else {
        Traffic::Agents
    }
}

/// Proves a proposal, or refuses it with a witness. `in_force` is what the switches have before the first step.
///
/// With `standing`, the LIDs that do not change need not be followed. `standing` must have been built on, or updated
/// to, the same tables. It is not used if the cabling differs.
///
/// # Errors
/// A refusal, if a step can deadlock or make packets loop, or if its writes are contradictory.
pub fn prove<'a>(
    in_force: Subject<'a>,
    standing: Option<&StandingTurns>,
    proposal: &Proposal<'a>,
    options: &PhaseOptions,
) -> Result<TransitionProof, Box<TransitionRefusal>> {
    let trial = Trial::new(in_force, standing, proposal, options).map_err(refusal)?;
    prove_trial(&trial, proposal, None, options)
}

/// Proves a prepared proposal. `lifetimes_max` is the number of lifetimes that waits must last, if it is known already.
fn prove_trial(
    trial: &Trial<'_>,
    proposal: &Proposal<'_>,
    lifetimes_max: Option<u32>,
    options: &PhaseOptions,
) -> Result<TransitionProof, Box<TransitionRefusal>> {
    let (waits, short) = declared(proposal, options);
    let segments = trial.segments(&waits);
    let bad = trial.audit_segments(&segments, &waits, Traffic::Switches);
    let findings = findings(trial, &waits, &bad, options);
    if findings.first().is_some_and(|first| first.severity == Severity::Error) {
        return Err(refusal(findings));
    }
    let lifetimes_max = lifetimes_max.unwrap_or_else(|| {
        let lifetimes = way::lifetimes(trial, &waits, strict(options));
        lifetimes.into_iter().max().unwrap_or(0)
    });
    Ok(TransitionProof {
        figures: figures(trial, &segments, (&waits, short, lifetimes_max), proposal, options),
        warnings: findings,
    })
}

/// Figures of [`prove_quickly`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QuickProof {
    /// Number of LIDs with an entry that changes.
    pub lids: u64,
    /// Existing dependencies of all traffic.
    pub standing: u64,
    /// Dependencies that the steps add.
    pub added: u64,
}

impl QuickProof {
    /// Returns the sum with the proof of later steps.
    pub(crate) fn and(self, later: Self) -> Self {
        Self {
            lids: self.lids.max(later.lids),
            standing: self.standing,
            added: self.added + later.added,
        }
    }
}

/// Proves a proposal, ignoring its waits, from the dependencies that it adds to the existing ones. For each written
/// entry this takes the links of its switch and the path onwards, and in addition one sort of the graph.
///
/// `None` means that this method does not apply; [`prove`] may still prove the proposal. It can use waits, and it lets
/// packets beyond a lost link drain before the first step. If [`prove`] fails too, it returns the witness. This
/// function handles neither proposals that change lanes nor lanes that differ from hop to hop. `standing` must have the
/// same cabling.
#[must_use]
pub fn prove_quickly<'a>(
    in_force: Subject<'a>,
    standing: &StandingTurns,
    proposal: &Proposal<'a>,
    options: &PhaseOptions,
) -> Option<QuickProof> {
    let net = Net::new(in_force.fabric, options.links);
    let rules = trial::rules(in_force, proposal);
    if !standing.net.is_cabled_like(&net) || rules.maps.len() > 1 {
        return None;
    }
    let by_lid = trial::sorted(in_force, proposal).ok()?;
    // Packets in flight to a recently changed LID may be at a place that its current entries do not lead to.
    if by_lid.keys().any(|lid| standing.lingering.contains(lid)) {
        return None;
    }
    let layout = turns::Layout::new(&net);
    let mut added = quick::Added::new(&net, in_force.tables, &rules)?;
    let mut set = turns::TurnSet::default();
    let upto = strict(options) as usize;
    standing.sets[..=upto].iter().for_each(|more| set.merge(more));
    standing.ghosts[..=upto].iter().for_each(|more| set.merge(more));
    let lost = |c: &usize| standing.net.is_alive(*c) && !net.is_alive(*c);
    for channel in (0..net.channels.len()).filter(lost) {
        set.remove_channel(&layout, &net, channel as u32);
    }
    let before = set.len();
    for (&lid, writes) in &by_lid {
        let owner = net.owner(in_force.fabric, in_force.lids, lid);
        added.follow(lid, owner, writes)?;
        for (turn, _) in added.made.iter().filter(|(_, traffic)| *traffic as usize <= upto) {
            set.insert(&layout, *turn);
        }
    }
    let is_cyclic = turns::TurnGraph::new(&layout, &set).is_cyclic();
    (!is_cyclic).then(|| QuickProof {
        lids: by_lid.len() as u64,
        standing: before,
        added: set.len() - before,
    })
}

/// Returns the steps (counted from 1) before which packets must drain, as few steps as possible. Waits declared by the
/// proposal are ignored. Each wait is as late as possible: before the first step that would otherwise have a cycle.
///
/// # Errors
/// A refusal, if a step cannot be proved even after a wait.
pub fn needs_wait<'a>(
    in_force: Subject<'a>,
    standing: Option<&StandingTurns>,
    proposal: &Proposal<'a>,
    options: &PhaseOptions,
) -> Result<Vec<u32>, Box<TransitionRefusal>> {
    let trial = Trial::new(in_force, standing, proposal, options).map_err(refusal)?;
    let mut waits = vec![false; trial.steps as usize];
    while let Some(&first) = trial.bad_steps(&waits, strict(options)).first() {
        let step = first as usize;
        if step < 2 || waits[step] {
            let bad = trial.audit(&waits, strict(options));
            return Err(refusal(findings(&trial, &waits, &bad, options)));
        }
        waits[step] = true;
    }
    Ok(numbers(&waits))
}

/// Returns for each step how many packet lifetimes its declared wait must last, as input for [`drain_bound_ns`]; 0 for
/// a step without a wait.
///
/// After that time, a packet that was sent before the wait either has been delivered, or causes only dependencies that
/// the entries in force cause too. Traffic from switch to switch is left out unless the options make its cycles errors.
/// `None` if the writes of a step are contradictory.
#[must_use]
pub fn lifetimes_to_wait<'a>(
    in_force: Subject<'a>,
    proposal: &Proposal<'a>,
    options: &PhaseOptions,
) -> Option<Vec<u32>> {
    let trial = Trial::bare(in_force, None, proposal, options).ok()?;
    Some(lifetimes_of_waits(&trial, &proposal.steps, options))
}

/// Returns the lifetimes for the steps of a prepared proposal.
fn lifetimes_of_waits(trial: &Trial<'_>, steps: &[PhaseStep], options: &PhaseOptions) -> Vec<u32> {
    let waits: Vec<bool> = std::iter::once(false)
        .chain(steps.iter().map(|step| step.wait_before_ns > 0))
        .collect();
    let mut needed = way::lifetimes(trial, &waits, strict(options));
    // The start has no wait.
    needed.remove(0);
    needed
}

/// Result of [`word`]: the verdict on a proposal without details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// No fault.
    Safe,
    /// The tables in force, or the steps already taken, can by themselves deadlock or loop. The proposal only removes
    /// entries until packets have drained, and from then on the transition has no fault.
    LeadsOut,
    /// The proposal adds a cycle or a loop.
    Unsafe,
}

/// Returns the result of [`prove`] without figures and witnesses. The first `taken` steps have been done already.
#[must_use]
pub fn word<'a>(
    in_force: Subject<'a>,
    standing: Option<&StandingTurns>,
    (proposal, taken): (&Proposal<'a>, usize),
    options: &PhaseOptions,
) -> Word {
    let Ok(trial) = Trial::new(in_force, standing, proposal, options) else {
        return Word::Unsafe;
    };
    let (waits, _) = declared(proposal, options);
    let bad = trial.bad_steps(&waits, strict(options));
    if bad.is_empty() {
        Word::Safe
    } else if bad.iter().all(|step| *step as usize <= taken) && only_takes(&trial.net, (proposal, taken), &waits) {
        Word::LeadsOut
    } else {
        Word::Unsafe
    }
}

/// True if the steps after the first `taken` ones, up to the first wait, add no path from switch to switch.
fn takes_away_only(subject: Subject<'_>, proposal: (&Proposal<'_>, usize), options: &PhaseOptions) -> bool {
    let (waits, _) = declared(proposal.0, options);
    only_takes(&Net::new(subject.fabric, options.links), proposal, &waits)
}

fn only_takes(net: &Net, (proposal, taken): (&Proposal<'_>, usize), waits: &[bool]) -> bool {
    let leads = |write: &Write| matches!(net.way(write.switch.to_usize(), write.egress), net::Way::Channel(_));
    let steps = (taken + 1..).zip(&proposal.steps[taken..]);
    let mut before_wait = steps.take_while(|(number, _)| !waits[*number]);
    !before_wait.any(|(_, step)| step.writes.iter().any(leads))
}

/// Returns the longest time that a packet can spend in the given number of switches in a row, in nanoseconds. Each
/// switch keeps it for at most the longest lifetime of any switch. Source: IBA vol 1 §18.2.5.4 (a switch discards a
/// packet after LifeTimeValue). `None` if a switch has an infinite lifetime.
///
/// `switches` comes from [`TransitionFigures::lifetimes_max`] of a proposal; any upper bound on the path length is
/// valid. `lifetimes` are the LifeTimeValues in force: 4.096 µs × 2^value, infinite for 20 and more. The head-of-queue
/// limit (HOQLife) discards only the packet at the head, so it gives no bound without the queue length.
#[must_use]
pub fn drain_bound_ns(lifetimes: impl IntoIterator<Item = u8>, switches: u32) -> Option<u64> {
    const UNIT_NS: u64 = 4_096;
    const INFINITE: u8 = 20;
    let longest = lifetimes.into_iter().max().unwrap_or(0);
    (longest < INFINITE).then(|| (UNIT_NS << longest) * u64::from(switches))
}

fn refusal(findings: Vec<PhaseFinding>) -> Box<TransitionRefusal> {
    Box::new(TransitionRefusal { findings })
}

/// Returns whether each step has a wait that is long enough, and the steps with a wait that is too short.
fn declared(proposal: &Proposal<'_>, options: &PhaseOptions) -> (Vec<bool>, Vec<u32>) {
    let (mut waits, mut short) = (vec![false], Vec::new());
    for (number, step) in (1..).zip(&proposal.steps) {
        let is_enough = options.drain_ns.is_some_and(|bound| step.wait_before_ns >= bound);
        waits.push(is_enough && step.wait_before_ns > 0);
        if step.wait_before_ns > 0 && !is_enough {
            short.push(number);
        }
    }
    (waits, short)
}

fn numbers(waits: &[bool]) -> Vec<u32> {
    (0..)
        .zip(waits)
        .filter(|(_, wait)| **wait)
        .map(|(step, _)| step)
        .collect()
}

/// Returns cycles as findings, errors first. A cycle made by one LID alone is reported as a forwarding loop.
fn findings(trial: &Trial<'_>, waits: &[bool], bad: &[Bad], options: &PhaseOptions) -> Vec<PhaseFinding> {
    let finder = Finder { trial, waits };
    let mut found = Vec::new();
    for bad in bad {
        let severity_of = |traffic: Traffic| {
            if traffic == Traffic::Switches {
                options.switch_pairs
            } else {
                Severity::Error
            }
        };
        let loops = trial
            .plans
            .iter()
            .filter_map(|plan| finder.of_loop(plan, bad.step, bad.traffic));
        let loops: Vec<PhaseFault> = loops.take(options.listed_max.max(1)).collect();
        if loops.is_empty() {
            let witness = finder.of_cycle(bad);
            let fault = PhaseFault::MixedCycle {
                traffic: bad.traffic,
                length: bad.cycle.len() as u32,
                ghosts: witness.iter().filter(|step| step.era == Era::Ghost).count() as u32,
            };
            found.push(PhaseFinding::proven(severity_of(bad.traffic), bad.step, fault, witness));
        }
        found.extend(loops.into_iter().map(|fault| {
            let severity = severity_of(bad.traffic);
            PhaseFinding::plain(severity, bad.step, fault)
        }));
    }
    found.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.step));
    found
}

fn figures(
    trial: &Trial<'_>,
    segments: &Segments,
    (waits, waits_short, lifetimes_max): (&[bool], Vec<u32>, u32),
    proposal: &Proposal<'_>,
    options: &PhaseOptions,
) -> TransitionFigures {
    let place = |switch: u32| Place::node(trial.subject.fabric, trial.subject.fabric.switches()[SwitchIdx(switch)]);
    let measures_all = options.measured == Measured::All;
    // With a wait before every step there are no ghosts.
    let fresh = (measures_all && trial.steps > 2).then(|| trial.segments(&vec![true; trial.steps as usize]));
    let costs = drops::drops(trial, if measures_all { options.listed_max } else { 0 });
    let step = |(number, drops): (u32, drops::Drops)| {
        let turns = match options.measured {
            Measured::All => trial.mixed(segments, number, Traffic::Switches).len(),
            Measured::Costs => 0,
        };
        let fresh = fresh
            .as_ref()
            .map(|fresh| trial.mixed(fresh, number, Traffic::Switches).len());
        let writes = trial.plans.iter().flat_map(|plan| &plan.writes);
        StepFigures {
            step: number,
            entries: writes.filter(|write| write.0 == number).count() as u64,
            turns,
            ghosts: turns.saturating_sub(fresh.unwrap_or(turns)),
            live_dropped: drops.live,
            waiting: drops.waiting,
            live_examples: drops
                .examples
                .iter()
                .map(|&(lid, at)| Dropped { lid, switch: place(at) })
                .collect(),
        }
    };
    let steps: Vec<StepFigures> = (0..).zip(costs.steps).skip(1).map(step).collect();
    TransitionFigures {
        lids: trial.plans.len() as u64,
        entries: steps.iter().map(|step| step.entries).sum(),
        blocks_rewritten: blocks_rewritten(proposal, waits),
        turns_max: steps.iter().map(|step| step.turns).max().unwrap_or(0),
        ghosts_max: steps.iter().map(|step| step.ghosts).max().unwrap_or(0),
        waits: numbers(waits),
        waits_spare: match options.measured {
            Measured::All => spare(trial, waits, options),
            Measured::Costs => Vec::new(),
        },
        waits_short,
        lifetimes_max,
        lost: costs.lost,
        steps,
    }
}

/// Returns the waits that may be left out, all together. Each is tried in turn, with the later ones as declared.
fn spare(trial: &Trial<'_>, waits: &[bool], options: &PhaseOptions) -> Vec<u32> {
    let mut needed = waits.to_vec();
    for step in numbers(waits) {
        needed[step as usize] = false;
        // Before the first step no packet of earlier entries is in flight.
        needed[step as usize] = step > 1 && !trial.bad_steps(&needed, strict(options)).is_empty();
    }
    let spare: Vec<bool> = waits
        .iter()
        .zip(&needed)
        .map(|(wait, needed)| *wait && !*needed)
        .collect();
    numbers(&spare)
}

/// Returns the number of blocks that two steps write without a wait between.
fn blocks_rewritten(proposal: &Proposal<'_>, waits: &[bool]) -> u64 {
    let mut written = BTreeMap::new();
    let mut again = std::collections::BTreeSet::new();
    let mut window = 0;
    for (number, step) in (1..).zip(&proposal.steps) {
        if waits[number] {
            window = number;
        }
        for write in &step.writes {
            let block = (write.switch, write.lid.index() / BLOCK_LIDS);
            if let Some((of, at)) = written.insert(block, (window, number))
                && of == window
                && at != number
            {
                again.insert(block);
            }
        }
    }
    again.len() as u64
}
