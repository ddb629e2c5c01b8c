//! Transition safety: a *proposed* list of steps is proved or refused. The judge plans nothing.
//!
//! # What is judged
//! Each step writes forwarding entries; the next begins when all its Sets are acknowledged. Inside a step Sets arrive
//! in any order, late, or more than once, so any mix of old and new entries may be in force. (One SMP carries 64
//! entries, which change together; taking them one by one only adds mixes, so what is proved holds, and a refusal can
//! at worst be for a mix that blocks exclude.)
//!
//! A GetResp is not a drain. Packets that were under way when an entry was replaced still hold the channels it sent
//! them to; they meet each later switch's entry of the moment. Their dependencies, here called ghosts, end only with a
//! wait of the *drain bound* ([`drain_bound_ns`]): the time after which every packet that was under way has arrived,
//! been discarded, or come to where packets of the entries in force are as well.
//!
//! So the *mixed graph* of a step has, for each LID that changes, a dependency a → b wherever a packet may have entered
//! channel a by an entry in force now or since the last wait, and met the entry of b since. With the dependencies of
//! the LIDs that do not change it must have no cycle. If every LID's own part is free of circles, then all of it can
//! really come about (let the Sets arrive from the sources on towards the LID, and packets linger), so but for blocks
//! the proof refuses nothing that is safe.
//!
//! Traffic of hosts, of agents in switches, and between switches is kept apart, as in the rest of the judge. Only
//! links that are up at both ends carry dependencies. Where a LID has another service level before than after, sources
//! may use either until they ask again, so both count throughout; the same goes for SL2VL tables.
//!
//! # What is assumed
//! Sets of a step do not arrive after the step was acknowledged; where a block is written again without a wait between,
//! a late copy could bring old entries back: such blocks are counted ([`TransitionFigures::blocks_rewritten`]).
//! LinearFDBTop is high enough, and every lane exists on every link: otherwise packets are dropped, which the judge of
//! plans reports.
//!
//! # Cost
//! The LIDs that change are followed once per wait, and once per step where they are written; the graph of all turns
//! is sorted once per wait. With a [`StandingTurns`] graph no other LID is looked at.

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

/// Entries that are written in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseStep {
    /// How long the manager waits after the acknowledgement of the step before, in nanoseconds. Less than the drain
    /// bound counts as nothing.
    pub wait_before_ns: u64,
    /// What is written; entries that already have the value are skipped.
    pub writes: Vec<Write>,
}

/// Steps from the tables in force to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposal<'a> {
    /// The steps; each begins when the one before is acknowledged.
    pub steps: Vec<PhaseStep>,
    /// Service levels that sources are told afterwards, if others than in force.
    pub service_levels: Option<&'a ServiceLevels>,
    /// Lanes afterwards, if others than in force.
    pub sl_to_vl: Option<&'a SlToVl>,
}

impl Proposal<'_> {
    /// The forwarding entries of a change set, phase by phase with its waits, and without phases that write none.
    #[must_use]
    pub fn of_changes(fabric: &Fabric, in_force: &Tables, changes: &ChangeSet) -> Self {
        let mut steps = Vec::new();
        // What earlier phases have written.
        let mut written: BTreeMap<(SwitchIdx, u16), &[u8; BLOCK_LIDS]> = BTreeMap::new();
        // What was waited before a phase that changes no entry counts for the next.
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
            // A block that a phase writes twice is compared with what was there before: its order is not known.
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

/// How to prove.
#[derive(Clone, Debug)]
pub struct PhaseOptions {
    /// After how many nanoseconds packets that were under way no longer matter; see [`drain_bound_ns`]. `None`: there
    /// is no such time, no wait helps. Default: none.
    pub drain_ns: Option<u64>,
    /// Which links carry packets. Default: those that are ACTIVE.
    pub links: Links,
    /// Links that went down a short while ago: packets to LIDs that change, which had crossed one, may be under way
    /// until the first wait. Default: none.
    pub lost: Vec<LostLink>,
    /// Severity of what concerns only traffic from switch to switch. Default: warning, as in
    /// [`JudgeOptions`](crate::JudgeOptions).
    pub switch_pairs: Severity,
    /// Loops that are reported of a step, and live pairs that are named. Default 100: more than anybody reads.
    pub listed_max: usize,
    /// What is measured of a proposal that is proved. Default: everything.
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

/// What is measured of a proposal that is proved, beside the proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// All of [`TransitionFigures`].
    #[default]
    All,
    /// What it costs: entries, waits, packets dropped. Left out is what compares it with other waits, which takes a
    /// proof for each of them: dependencies and ghosts are 0, no wait is said to be spare, no pairs are named.
    Costs,
}

/// The largest traffic whose cycles are errors.
fn strict(options: &PhaseOptions) -> Traffic {
    if options.switch_pairs == Severity::Error {
        Traffic::Switches
    } else {
        Traffic::Agents
    }
}

/// Proves a proposal, or refuses it with the witness. `in_force` is what the switches hold before the first step.
///
/// `standing` spares following the LIDs that do not change; it must have been built on, or brought up to, the same
/// tables. One of another cabling is not used.
///
/// # Errors
/// A refusal, if some step can deadlock or make packets go round, or does not say what it writes.
pub fn prove<'a>(
    in_force: Subject<'a>,
    standing: Option<&StandingTurns>,
    proposal: &Proposal<'a>,
    options: &PhaseOptions,
) -> Result<TransitionProof, Box<TransitionRefusal>> {
    let trial = Trial::new(in_force, standing, proposal, options).map_err(refusal)?;
    prove_trial(&trial, proposal, None, options)
}

/// The same on its bench; with the lifetimes that waits must last, if somebody has counted them.
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

/// What [`prove_quickly`] measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QuickProof {
    /// LIDs that change an entry.
    pub lids: u64,
    /// Dependencies that stand, all traffic.
    pub standing: u64,
    /// Dependencies that the steps add.
    pub added: u64,
}

impl QuickProof {
    /// With the proof of steps that come later.
    pub(crate) fn and(self, later: Self) -> Self {
        Self {
            lids: self.lids.max(later.lids),
            standing: self.standing,
            added: self.added + later.added,
        }
    }
}

/// Proves a proposal, its waits not looked at, by what it adds to the standing dependencies. Work: per written entry
/// the links of its switch and the way on from there, and one sorting of the graph.
///
/// `None` says nothing: [`prove`] may still prove it, by its waits or because it lets what was beyond a lost link drain
/// before the first step, and finds the witness if not. Proposals that change lanes, and lanes that change from hop to
/// hop, are not looked at; `standing` must be of the same cabling.
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
    // Packets under way of a LID that changed a moment ago may be where its entries of now do not lead.
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

/// The steps (from 1) before which packets must drain, as few as can be; waits that the proposal declares are not
/// looked at. Each wait is as late as possible: before the first step that without it would have a cycle.
///
/// # Errors
/// A refusal, if some step cannot be proved even after a wait.
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

/// How long packets of before each declared wait matter, in lifetimes: what [`drain_bound_ns`] asks for. After so many
/// they make no dependency but those that the entries in force make, or they have arrived. By step, 0 without a wait.
/// Traffic from switch to switch is left out unless the options make its cycles errors. `None` if a step does not say
/// what it writes.
#[must_use]
pub fn lifetimes_to_wait<'a>(
    in_force: Subject<'a>,
    proposal: &Proposal<'a>,
    options: &PhaseOptions,
) -> Option<Vec<u32>> {
    let trial = Trial::bare(in_force, None, proposal, options).ok()?;
    Some(lifetimes_of_waits(&trial, &proposal.steps, options))
}

/// The same of steps on their bench.
fn lifetimes_of_waits(trial: &Trial<'_>, steps: &[PhaseStep], options: &PhaseOptions) -> Vec<u32> {
    let waits: Vec<bool> = std::iter::once(false)
        .chain(steps.iter().map(|step| step.wait_before_ns > 0))
        .collect();
    let mut needed = way::lifetimes(trial, &waits, strict(options));
    // The start has no wait.
    needed.remove(0);
    needed
}

/// What there is to say of a proposal in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Nothing is wrong.
    Safe,
    /// What was in force, or was a moment ago, can deadlock or go round by itself; the proposal only takes entries away
    /// until packets have drained, and from then on nothing is wrong.
    LeadsOut,
    /// It adds to the danger.
    Unsafe,
}

/// What [`prove`] would say, without figures and witnesses. The first `taken` steps are the past: they have been done.
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

/// True if the steps after those that are `taken`, up to the first wait, add no way from switch to switch.
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

/// How long packets can be in so many switches, one after the other, in nanoseconds: at most the longest lifetime of
/// any switch in each (IBA vol 1 §18.2.5.4: a packet that has been in a switch for LifeTimeValue is discarded).
/// `None` if a switch keeps packets for ever.
///
/// `switches` is what [`TransitionFigures::lifetimes_max`] says of a proposal; any bound on the length of ways will do.
/// `lifetimes` are the values in force, 4.096 µs × 2^value; 20 and more: infinite. The head-of-queue limit discards
/// only the packet at the head, and so bounds nothing without knowing how many are queued.
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

/// Waits that are long enough, by step, and steps with one that is not.
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

/// Cycles as findings, errors first. A cycle that one LID makes alone by going round is reported as a loop.
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

/// Waits that may be left out, all together: each is tried without, the later ones as declared.
fn spare(trial: &Trial<'_>, waits: &[bool], options: &PhaseOptions) -> Vec<u32> {
    let mut needed = waits.to_vec();
    for step in numbers(waits) {
        needed[step as usize] = false;
        // Before the first step nothing is under way that could be let drain.
        needed[step as usize] = step > 1 && !trial.bad_steps(&needed, strict(options)).is_empty();
    }
    let spare: Vec<bool> = waits
        .iter()
        .zip(&needed)
        .map(|(wait, needed)| *wait && !*needed)
        .collect();
    numbers(&spare)
}

/// Blocks that two steps between two waits write.
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
