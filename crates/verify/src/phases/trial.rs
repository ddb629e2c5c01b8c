//! A proposal on its bench: which LIDs change when, which turns exist in which step, which steps have a cycle.

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

/// A written entry of some LID: (step, switch, egress port).
pub type Entry = (u32, u32, u8);

/// One LID and what happens to it.
#[derive(Clone, Debug)]
pub struct LidPlan {
    /// The LID.
    pub lid: Lid,
    /// Whose it is.
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
    /// The smallest traffic that has one.
    pub traffic: Traffic,
    /// The cycle.
    pub cycle: Vec<Vertex>,
}

/// A proposal, ready to be tried with any waits.
#[derive(Debug)]
pub struct Trial<'a> {
    /// What is in force.
    pub subject: Subject<'a>,
    /// Switches, cables, hosts.
    pub net: Net,
    /// Where bits are.
    pub layout: Layout,
    /// Lanes before and after.
    pub rules: LaneRules<'a>,
    /// LIDs that change, ascending.
    pub plans: Vec<LidPlan>,
    /// LIDs that do not.
    pub others: Vec<Lid>,
    /// Turns of those that do not.
    pub base: ByTraffic,
    /// Number of steps, the start included.
    pub steps: u32,
    par: Par,
}

impl<'a> Trial<'a> {
    /// Reads a proposal. What it says must make sense: every write somewhere, none twice.
    pub fn new(
        subject: Subject<'a>,
        standing: Option<&StandingTurns>,
        proposal: &Proposal<'a>,
        options: &PhaseOptions,
    ) -> Result<Self, Vec<PhaseFinding>> {
        let mut trial = Self::bare(subject, standing, proposal, options)?;
        let standing = standing.filter(|standing| standing.net.is_cabled_like(&trial.net));
        trial.base = match standing {
            // Whatever is less to follow.
            Some(standing) if trial.plans.len() <= trial.others.len() => {
                let changed: Vec<Lid> = trial.plans.iter().map(|plan| plan.lid).collect();
                standing.without(subject, &changed)
            }
            _ => at_rest(subject, (&trial.net, &trial.layout), &trial.others, options.par),
        };
        Ok(trial)
    }

    /// The same without the turns of LIDs that do not change.
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

    /// The turns of LIDs that change, with these waits.
    pub fn segments(&self, waits: &[bool]) -> Segments {
        let (length, chunks) = chunks(self.plans.len(), self.par);
        let parts = self.par.map(chunks, |chunk| {
            let mut segments = Segments::new();
            let mut drift = Drift::new(&self.net, self.subject.tables, &self.rules);
            for plan in self.plans.iter().skip(chunk * length).take(length) {
                drift.follow(plan.lid, plan.owner, &plan.writes, waits);
                // Step by step, so those of one step come together.
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

    /// All turns of a step that traffic up to `upto` makes.
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

    /// Steps with a cycle in traffic up to `upto`: from one wait to the next only the first, and later ones of
    /// smaller traffic.
    ///
    /// Turns only come until a wait, so where the last step before it has no cycle none has.
    pub fn audit_segments(&self, segments: &Segments, waits: &[bool], upto: Traffic) -> Vec<Bad> {
        let found = self.look((segments, waits), upto, |graph| graph.cycle());
        let bad = found
            .into_iter()
            .map(|(step, traffic, cycle)| Bad { step, traffic, cycle });
        bad.collect()
    }

    /// The same with the segments of these waits.
    pub fn audit(&self, waits: &[bool], upto: Traffic) -> Vec<Bad> {
        self.audit_segments(&self.segments(waits), waits, upto)
    }

    /// The same steps, without the cycles: short ones take long to find.
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
        // The smallest traffic comes last; once it has its cycle, larger ones are not looked at.
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

/// Lanes before, and after if they differ.
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

/// Writes by LID, then step, then switch; those that change nothing left out.
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
    // By switch: the last LID that was written there, and its entry since.
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

/// LIDs that are to be followed anew although none of their entries changes: other lanes, or links that went down
/// since the standing turns were counted.
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

/// Turns of tables at rest.
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
