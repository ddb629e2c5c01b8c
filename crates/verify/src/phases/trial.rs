//! A prepared proposal: which LIDs change when, which turns exist in which step, and which steps have a cycle.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::SwitchIdx;
use selvedge_sim::Par;
use selvedge_types::{Idx, Lid};

use super::drift::{Drift, LaneRules, Made};
use super::net::{Net, Owner};
use super::report::{PhaseFault, PhaseFinding};
use super::standing::{ByTraffic, StandingTurns, TRAFFIC, chunks, follow_all};
use super::turns::{Layout, TurnGraph, TurnSet, Vertex};
use super::{PhaseOptions, Proposal, Write};
use crate::finding::{Place, Severity, Traffic};
use crate::subject::Subject;

/// A written entry of one LID: (step, switch, egress port).
pub type Entry = (u32, u32, u8);

/// One LID and its writes.
#[derive(Clone, Debug)]
pub struct LidPlan {
    /// The LID.
    pub lid: Lid,
    /// Owner of the LID.
    pub owner: Owner,
    /// Entries by (step, switch).
    pub writes: Vec<Entry>,
}

/// Turns of the LIDs that change, by first step and the step that ends them.
pub type Segments = BTreeMap<(u32, u32), ByTraffic>;

/// A cycle in some step.
#[derive(Clone, Debug)]
pub struct Bad {
    /// The step.
    pub step: u32,
    /// The smallest class of traffic that has a cycle.
    pub traffic: Traffic,
    /// The cycle.
    pub cycle: Vec<Vertex>,
}

/// A proposal, prepared to be tried with any waits.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The state in force.
    pub subject: Subject<'a>,
    /// Switches, cables, hosts.
    pub net: Net,
    /// Positions of the bits of turns.
    pub layout: Layout,
    /// Lanes before and after the transition.
    pub rules: LaneRules<'a>,
    /// LIDs that change, ascending.
    pub plans: Vec<LidPlan>,
    /// LIDs that do not change.
    pub others: Vec<Lid>,
    /// Turns of the LIDs that do not change.
    pub base: ByTraffic,
    /// Number of steps, including the start.
    pub steps: u32,
    par: Par,
}

impl<'a> Trial<'a> {
    /// Prepares a proposal. Fails if a write has no switch, or if a step writes an entry twice.
    pub fn new(
        subject: Subject<'a>,
        standing: Option<&StandingTurns>,
        proposal: &Proposal<'a>,
        options: &PhaseOptions,
    ) -> Result<Self, Vec<PhaseFinding>> {
        let mut trial = Self::bare(subject, standing, proposal, options)?;
        let standing = standing.filter(|standing| standing.net.is_cabled_like(&trial.net));
        trial.base = match standing {
            // Chooses the smaller set of LIDs to follow.
            Some(standing) if trial.plans.len() <= trial.others.len() => {
                let changed: Vec<Lid> = trial.plans.iter().map(|plan| plan.lid).collect();
                standing.without(subject, &changed)
            }
            _ => at_rest(subject, (&trial.net, &trial.layout), &trial.others, options.par),
        };
        Ok(trial)
    }

    /// Prepares a proposal without the turns of LIDs that do not change.
    pub fn bare(
        subject: Subject<'a>,
        standing: Option<&StandingTurns>,
        proposal: &Proposal<'a>,
        options: &PhaseOptions,
    ) -> Result<Self, Vec<PhaseFinding>> {
        let mut net = Net::new(subject.fabric, options.links);
        net.lost.clone_from(&options.lost);
        let layout = Layout::new(&net);
        let rules = rules(subject, proposal);
        let standing = standing.filter(|standing| standing.net.is_cabled_like(&net));
        let mut by_lid = sorted(subject, proposal)?;
        let all = subject.lids_in_use();
        let touched = touched((subject, &all), &net, &rules, standing);
        touched.into_iter().for_each(|lid| {
            by_lid.entry(lid).or_default();
        });
        let others: Vec<Lid> = all.into_iter().filter(|lid| !by_lid.contains_key(lid)).collect();
        let plan = |(lid, writes)| LidPlan {
            lid,
            owner: net.owner(subject.fabric, subject.lids, lid),
            writes,
        };
        Ok(Self {
            plans: by_lid.into_iter().map(plan).collect(),
            subject,
            layout,
            rules,
            others,
            base: ByTraffic::default(),
            steps: proposal.steps.len() as u32 + 1,
            par: options.par,
            net,
        })
    }

    /// Returns the turns of LIDs that change, with these waits.
    pub fn segments(&self, waits: &[bool]) -> Segments {
        let (length, chunks) = chunks(self.plans.len(), self.par);
        let parts = self.par.map(chunks, |chunk| {
            let mut segments = Segments::new();
            let mut drift = Drift::new(&self.net, self.subject.tables, &self.rules);
            for plan in self.plans.iter().skip(chunk * length).take(length) {
                drift.follow(plan.lid, plan.owner, &plan.writes, waits);
                // Grouped by first and last step, so that the turns of one span are adjacent.
                let of_one_span = |a: &Made, b: &Made| (a.since, a.until) == (b.since, b.until);
                for made in drift.made.chunk_by(of_one_span) {
                    let segment = segments.entry((made[0].since, made[0].until)).or_default();
                    for made in made {
                        segment[made.traffic as usize].insert(&self.layout, made.turn);
                    }
                }
            }
            segments
        });
        let mut all = Segments::new();
        for (span, sets) in parts.into_iter().flatten() {
            let mine = all.entry(span).or_default();
            mine.iter_mut().zip(&sets).for_each(|(mine, more)| mine.merge(more));
        }
        all
    }

    /// Returns all turns of a step made by traffic up to `upto`.
    pub fn mixed(&self, segments: &Segments, step: u32, upto: Traffic) -> TurnSet {
        let upto = upto as usize;
        let alive = segments
            .iter()
            .filter(|((since, until), _)| (*since..*until).contains(&step));
        let mut set = TurnSet::default();
        for sets in std::iter::once(&self.base).chain(alive.map(|(_, sets)| sets)) {
            sets[..=upto].iter().for_each(|more| set.merge(more));
        }
        set
    }

    /// Returns the steps with a cycle. `upto` selects the classes of traffic that count: the first class alone is
    /// traffic of hosts, each later class includes the classes before it. Between two waits only the first step with a
    /// cycle is returned, and any later step with a cycle in an earlier class.
    ///
    /// Turns are only added until the next wait. So if the last step before a wait has no cycle, no other step between
    /// the same two waits has one.
    pub fn audit_segments(&self, segments: &Segments, waits: &[bool], upto: Traffic) -> Vec<Bad> {
        let found = self.look((segments, waits), upto, |graph| graph.cycle());
        let bad = found
            .into_iter()
            .map(|(step, traffic, cycle)| Bad { step, traffic, cycle });
        bad.collect()
    }

    /// Does the same as [`Self::audit_segments`], for the segments that these waits give.
    pub fn audit(&self, waits: &[bool], upto: Traffic) -> Vec<Bad> {
        self.audit_segments(&self.segments(waits), waits, upto)
    }

    /// Returns the same steps as `audit` without their cycles, because finding short cycles takes long.
    pub fn bad_steps(&self, waits: &[bool], upto: Traffic) -> Vec<u32> {
        let found = self.look((&self.segments(waits), waits), upto, |graph| {
            graph.is_cyclic().then_some(())
        });
        found.into_iter().map(|(step, ..)| step).collect()
    }

    fn look<C>(
        &self,
        (segments, waits): (&Segments, &[bool]),
        upto: Traffic,
        cycle: impl Fn(TurnGraph<'_>) -> Option<C>,
    ) -> Vec<(u32, Traffic, C)> {
        let mut found = Vec::new();
        let mut first = 0;
        while first < self.steps {
            let next = (first + 1..self.steps).find(|&step| waits[step as usize]);
            let end = next.unwrap_or(self.steps);
            self.look_at_window(segments, (first, end), (upto, &cycle), &mut found);
            first = end;
        }
        found
    }

    fn look_at_window<C>(
        &self,
        segments: &Segments,
        (first, end): (u32, u32),
        (upto, cycle): (Traffic, &impl Fn(TurnGraph<'_>) -> Option<C>),
        found: &mut Vec<(u32, Traffic, C)>,
    ) {
        let is_cyclic = |traffic: &Traffic| {
            let set = self.mixed(segments, end - 1, *traffic);
            TurnGraph::new(&self.layout, &set).is_cyclic()
        };
        // The smallest class of traffic comes last. Once it has a cycle, larger classes are skipped.
        let all = TRAFFIC[..=upto as usize].iter().rev().copied();
        let mut open: Vec<Traffic> = all.take_while(is_cyclic).collect();
        for step in first..end {
            let with_cycle = |i: usize| {
                let set = self.mixed(segments, step, open[i]);
                Some((i, cycle(TurnGraph::new(&self.layout, &set))?))
            };
            if let Some((place, cycle)) = (0..open.len()).rev().find_map(with_cycle) {
                found.push((step, open[place], cycle));
                open.drain(..=place);
            }
        }
    }
}

/// Returns the lanes before the transition, and those after it if they differ.
pub fn rules<'a>(subject: Subject<'a>, proposal: &Proposal<'a>) -> LaneRules<'a> {
    let mut rules = LaneRules::of(subject);
    let new_levels = proposal
        .service_levels
        .filter(|&levels| levels != subject.service_levels);
    rules.levels.extend(new_levels);
    rules
        .maps
        .extend(proposal.sl_to_vl.filter(|&map| map != subject.sl_to_vl));
    rules
}

/// Returns the writes by LID, then step, then switch. Writes that change nothing are left out.
pub fn sorted(subject: Subject<'_>, proposal: &Proposal<'_>) -> Result<BTreeMap<Lid, Vec<Entry>>, Vec<PhaseFinding>> {
    let mut all: Vec<(Lid, u32, u32, u8)> = Vec::new();
    let mut found = Vec::new();
    let mut refuse = |step: u32, fault| {
        found.push(PhaseFinding::plain(Severity::Error, step, fault));
    };
    for (number, step) in (1..).zip(&proposal.steps) {
        for &Write { switch, lid, egress } in &step.writes {
            if switch.to_usize() >= subject.tables.switches().min(subject.fabric.switches().len()) {
                refuse(number, PhaseFault::NoSuchSwitch { switch: switch.0, lid });
            } else {
                all.push((lid, number, switch.0, egress));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    for pair in all
        .windows(2)
        .filter(|p| (p[0].0, p[0].1, p[0].2) == (p[1].0, p[1].1, p[1].2))
    {
        let (lid, number, switch, one) = pair[0];
        let switch = Place::node(subject.fabric, subject.fabric.switches()[SwitchIdx(switch)]);
        let other = pair[1].3;
        refuse(
            number,
            PhaseFault::WrittenTwice {
                switch,
                lid,
                one,
                other,
            },
        );
    }
    if !found.is_empty() {
        return Err(found);
    }
    let mut by_lid: BTreeMap<Lid, Vec<Entry>> = BTreeMap::new();
    // By switch: the last LID written there, and its entry since.
    let mut now: Vec<(Option<Lid>, u8)> = vec![(None, 0); subject.tables.switches()];
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        let lid = same[0].0;
        let mut writes = Vec::new();
        for &(_, step, switch, egress) in same {
            let (of, entry) = &mut now[switch as usize];
            if of.replace(lid) != Some(lid) {
                *entry = subject.tables.get(SwitchIdx(switch), lid);
            }
            if *entry != egress {
                *entry = egress;
                writes.push((step, switch, egress));
            }
        }
        if !writes.is_empty() {
            by_lid.insert(lid, writes);
        }
    }
    Ok(by_lid)
}

/// Returns LIDs that must be followed again although none of their entries changes: their lanes change, or links went
/// down after the dependencies in `standing` were counted.
fn touched(
    (subject, lids): (Subject<'_>, &[Lid]),
    net: &Net,
    rules: &LaneRules<'_>,
    standing: Option<&StandingTurns>,
) -> BTreeSet<Lid> {
    let all = || lids.iter().copied();
    if rules.maps.len() > 1 {
        return all().collect();
    }
    let moved = all().filter(|lid| rules.levels.len() > 1 && rules.levels_to(*lid).len() > 1);
    let mut touched: BTreeSet<Lid> = moved.collect();
    let lost = |c: &usize| standing.is_some_and(|then| then.net.is_alive(*c)) && !net.is_alive(*c);
    for channel in (0..net.channels.len()).filter(lost) {
        let channel = net.channels[channel];
        touched.extend(all().filter(|lid| subject.tables.get(SwitchIdx(channel.src), *lid) == channel.out));
    }
    touched
}

/// Returns the turns of tables that do not change.
fn at_rest(subject: Subject<'_>, (net, layout): (&Net, &Layout), lids: &[Lid], par: Par) -> ByTraffic {
    let rules = LaneRules::of(subject);
    let (length, chunks) = chunks(lids.len(), par);
    let parts = par.map(chunks, |chunk| {
        let mut sets = ByTraffic::default();
        let lids = &lids[chunk * length..lids.len().min((chunk + 1) * length)];
        let tables = (subject.fabric, subject.lids, subject.tables);
        follow_all(net, tables, &rules, lids, |made| {
            sets[made.traffic as usize].insert(layout, made.turn)
        });
        sets
    });
    let mut all = ByTraffic::default();
    for sets in &parts {
        all.iter_mut().zip(sets).for_each(|(all, more)| all.merge(more));
    }
    all
}
