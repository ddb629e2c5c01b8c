//! The transition from the tables in force to those of a plan: which entries change in which step, and where packets
//! must drain first. This module only proposes; `selvedge_verify` proves or refuses each proposal.
//!
//! 1. If no link between switches carries packets, one step is enough, because there is no traffic to protect.
//! 2. Normally, steps in which no LID can loop (`split`), most often one. The judge decides whether they could
//!    deadlock.
//! 3. Otherwise the graph of all dependencies (`windows`) gives steps and waits. Entries are dropped first only if
//!    nothing else helps.

mod arbiters;
mod clear;
mod lanes;
mod net;
mod newcomers;
mod order;
mod patience;
mod show;
mod split;
mod track;
mod wake;
mod windows;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{
    BLOCK_LIDS, ChangeSet, ENFORCE, Installed, NO_PATH, Op, Phase, Plan, ServiceLevels, SlToVl, Tables, changes,
    enforce_before_lanes,
};
use selvedge_sim::Par;
use selvedge_types::{Lid, PortState};
use selvedge_verify::phases::{
    self, Links, Measured, Past, PhaseOptions, PhaseStep, Proposal, StandingTurns, Word, Write, drain_bound_ns,
    lifetimes,
};
use selvedge_verify::{Severity, Subject};

pub use clear::let_clear;
pub use show::{StepSummary, in_words, summary};
pub use wake::out_of_sight;

use lanes::Lanes;
use net::Net;
use split::Split;
use windows::{Ground, Mode, Start, Taken, Task};

/// Options of [`propose`].
#[derive(Clone, Copy, Debug)]
pub struct WayOptions<'a> {
    /// The dependencies of the tables in force, if they are kept; a small change is then proved quickly.
    pub standing: Option<&'a StandingTurns>,
    /// Service levels and lanes in force, if they differ from those of the plan.
    pub lanes_in_force: Option<(&'a ServiceLevels, &'a SlToVl)>,
    /// Severity of findings that concern only traffic from switch to switch, as for the judge.
    pub switch_pairs: Severity,
    /// Whether proofs may use several threads.
    pub par: Par,
}

impl Default for WayOptions<'_> {
    fn default() -> Self {
        Self {
            standing: None,
            lanes_in_force: None,
            switch_pairs: Severity::Warning,
            par: Par::Sequential,
        }
    }
}

/// Purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Entries change.
    Change,
    /// Entries become 255.
    Drop,
    /// Dropped entries get their new values.
    Fill,
}

impl What {
    const fn label(self, waits: bool) -> &'static str {
        match (self, waits) {
            (Self::Change, false) => "change entries",
            (Self::Change, true) => "change entries that packets of old ones must not meet",
            (Self::Drop, _) => "drop entries that must not be mixed with new ones",
            (Self::Fill, _) => "write new entries where old ones were dropped",
        }
    }
}

/// A step of table changes.
#[derive(Clone, Debug)]
struct Step {
    what: What,
    waits: bool,
    writes: Vec<Write>,
}

/// Largest number of changed entries that are sorted by use. With more, the order has no effect and takes too long.
const SORTED_MAX: usize = 20_000;

/// Returns the Sets that turn `fabric` with `installed` tables into `plan`, in steps that the judge should be able to
/// prove. If no such steps are found, returns the result of [`changes`], which the judge then refuses with a reason.
#[must_use]
pub fn propose(fabric: &Fabric, installed: &Installed, plan: &Plan, options: &WayOptions<'_>) -> ChangeSet {
    let base = changes(fabric, installed, plan);
    if !phases::is_live(fabric) {
        return base;
    }
    let with = |steps: Find| {
        let set = match wake::drop_first(fabric, installed, plan, &base, options) {
            Some((held, dropped)) => {
                let mut set = way_to(fabric, &held, plan, changes(fabric, &held, plan), options, steps);
                set.phases.insert(0, dropped);
                set
            }
            None => way_to(fabric, installed, plan, base.clone(), options, steps),
        };
        patience::with_waits(set, (fabric, installed), plan, options)
    };
    let chosen = patience::choose(with(|way, lids| way.steps(lids)), || {
        with(|way, lids| way.at_once(lids))
    });
    arbiters::keep_served(chosen, fabric, installed, plan)
}

/// A function that finds steps.
type Find = fn(&Way<'_>, &BTreeMap<Lid, Vec<Write>>) -> Option<(Vec<Step>, Word)>;

/// Does the same as [`propose`], for `installed` tables in which no unwanted entry leads over a link that is about to
/// be activated. `find` gives the steps.
fn way_to(
    fabric: &Fabric,
    installed: &Installed,
    plan: &Plan,
    base: ChangeSet,
    options: &WayOptions<'_>,
    find: Find,
) -> ChangeSet {
    let in_force = phases::in_force(installed, plan);
    let past = Past::new(installed, &in_force);
    let way = Way::new((fabric, &in_force, past), plan, &base, options);
    let by_lid = way.by_lid(&base);
    if by_lid.is_empty() {
        return way.with_newcomers(base);
    }
    let Some((steps, word)) = find(&way, &by_lid) else {
        return base;
    };
    way.assemble(base, &steps, word)
}

/// Most changed LIDs for which all planning modes are tried. Beyond that, each takes about a second.
const SMALL_MAX: usize = 2_000;
const SETTINGS: &str = "configure ports and switches";
const CLEARED: &str = "clear tables that are not in force yet";
const LANES: &str = "put service levels on their lanes";
const TABLES: &str = "configure tables";

/// The inputs from which a transition is proposed.
struct Way<'a> {
    fabric: &'a Fabric,
    in_force: &'a Tables,
    plan: &'a Plan,
    options: WayOptions<'a>,
    links: Links,
    net: Net,
    lifetimes: Vec<u8>,
    /// Earlier changes with packets that may still be in flight.
    past: Option<Past>,
}

impl<'a> Way<'a> {
    fn new(
        (fabric, in_force, past): (&'a Fabric, &'a Tables, Option<Past>),
        plan: &'a Plan,
        base: &ChangeSet,
        options: &WayOptions<'a>,
    ) -> Self {
        let links = phases::links_of(base);
        Self {
            fabric,
            in_force,
            plan,
            options: *options,
            links,
            net: Net::new(fabric, links == Links::Trained),
            lifetimes: lifetimes(fabric, base),
            past,
        }
    }

    /// Returns the subject of a proof with these tables: those in force, or those before the recent steps.
    fn subject<'s>(&'s self, tables: &'s Tables) -> Subject<'s> {
        let (levels, map) = self.lanes();
        Subject::tables(self.fabric, &self.plan.lids, tables, levels, map)
    }

    fn before(&self) -> &Tables {
        self.past.as_ref().map_or(self.in_force, |past| &past.tables)
    }

    fn lanes(&self) -> (&'a ServiceLevels, &'a SlToVl) {
        let plans = (&self.plan.service_levels, &self.plan.sl_to_vl);
        self.options.lanes_in_force.unwrap_or(plans)
    }

    /// Returns the entries to change, by LID. Includes LIDs that no port has any more, because packets to them may be
    /// in flight.
    fn by_lid(&self, base: &ChangeSet) -> BTreeMap<Lid, Vec<Write>> {
        let mut by_lid: BTreeMap<Lid, Vec<Write>> = BTreeMap::new();
        for op in base.phases.iter().flat_map(|phase| &phase.ops) {
            let Op::Lft { node, block, data } = op else { continue };
            let Some(switch) = self.fabric.switch_index(*node) else {
                continue;
            };
            let held = self.in_force.block(switch, usize::from(*block));
            for (place, (&egress, _)) in data.iter().zip(held).enumerate().filter(|(_, (new, old))| new != old) {
                // Blocks go up to LID 0xBFFF.
                let lid = Lid((usize::from(*block) * BLOCK_LIDS + place) as u16);
                by_lid.entry(lid).or_default().push(Write { switch, lid, egress });
            }
        }
        by_lid
    }

    /// Returns the steps and the expected judgement. If no safe steps are found, returns the steps for which the
    /// judge's refusal explains the problem best.
    fn steps(&self, by_lid: &BTreeMap<Lid, Vec<Write>>) -> Option<(Vec<Step>, Word)> {
        let safe = |steps: &Vec<Step>| (self.word(steps) == Word::Safe).then(|| (steps.clone(), Word::Safe));
        let early = self.split(by_lid);
        if let Some(found) = early.as_ref().and_then(safe) {
            return Some(found);
        }
        let lids = by_lid.iter().map(|(lid, writes)| (*lid, &writes[..]));
        let ranked = split::by_rank(&self.net, self.in_force, lids).map(in_turn);
        // With a single step both are the same.
        let is_new = |steps: &&Vec<Step>| early.as_ref().is_none_or(|early| early.len() + steps.len() > 2);
        if let Some(found) = ranked.as_ref().filter(is_new).and_then(safe) {
            return Some(found);
        }
        if self.past.is_some() && by_lid.len() > SMALL_MAX {
            // Without earlier packets in flight, simple steps may be enough.
            for mut steps in [early, ranked].into_iter().flatten() {
                wait_first(&mut steps);
                if let Some(found) = safe(&steps) {
                    return Some(found);
                }
            }
        }
        let found = self.by_windows(by_lid);
        // The last resort drops everything. This is always safe if old and new tables are safe on the same lanes.
        let all = || self.drop_all(by_lid);
        let judged = |steps: Vec<Step>| {
            let word = self.word(&steps);
            (word != Word::Unsafe).then_some((steps, word))
        };
        let best = found.clone().and_then(judged).or_else(|| judged(all()?));
        best.or_else(|| Some((all().or(found)?, Word::Unsafe)))
    }

    /// Returns the steps that drop the fewest entries and, among those, wait least often.
    fn by_windows(&self, by_lid: &BTreeMap<Lid, Vec<Write>>) -> Option<Vec<Step>> {
        let (levels, map) = self.lanes();
        let lanes = Lanes::new([levels, &self.plan.service_levels], [map, &self.plan.sl_to_vl])?;
        let past = self.past.as_ref().map(Taken::new);
        let ground = Ground {
            fabric: self.fabric,
            lids: &self.plan.lids,
            net: &self.net,
            lanes: &lanes,
            strict: self.options.switch_pairs == Severity::Error,
            past: past.as_ref(),
        };
        let task = |(&lid, writes): (&Lid, &Vec<Write>)| Task::new(&self.net, self.in_force, lid, writes);
        let start = Start::new(&ground, self.in_force, by_lid.iter().map(task).collect());
        let all = [(false, true), (false, false), (true, true), (true, false)];
        let modes = if by_lid.len() > SMALL_MAX { &all[..2] } else { &all };
        let found = self.options.par.map(modes.len(), |number| {
            let (halves, by_rank) = modes[number];
            windows::steps(&ground, &start, Mode { halves, by_rank }, self.drain_ns(1).is_some())
        });
        let cost = |steps: &Vec<Step>| {
            let dropped = steps.iter().filter(|step| step.what == What::Drop);
            let waits = steps.iter().filter(|step| step.waits).count();
            (dropped.map(|step| step.writes.len()).sum::<usize>(), waits, steps.len())
        };
        found.into_iter().flatten().min_by_key(cost)
    }

    fn split(&self, by_lid: &BTreeMap<Lid, Vec<Write>>) -> Option<Vec<Step>> {
        let mut split = Split::new(&self.net, self.in_force);
        let mut steps = Vec::new();
        for (&lid, writes) in by_lid {
            if !split.lid(lid, writes, &mut steps) {
                return None;
            }
        }
        Some(in_turn(steps))
    }

    fn drain_ns(&self, switches: u32) -> Option<u64> {
        drain_bound_ns(self.lifetimes.iter().copied(), switches)
    }

    /// Returns the expected judgement.
    fn word(&self, steps: &[Step]) -> Word {
        let proposal = self.proposal(steps);
        let options = self.phase_options();
        let standing = self
            .options
            .standing
            // The kept dependencies do not cover new hosts.
            .filter(|standing| !steps.is_empty() && (self.past.is_none() || standing.lingers()));
        if let Some(standing) = standing
            && !steps.iter().any(|step| step.waits)
            && phases::prove_quickly(self.subject(self.in_force), standing, &proposal, &options).is_some()
        {
            return Word::Safe;
        }
        let standing = standing.filter(|_| self.past.is_none());
        let taken = self.past.as_ref().map_or(0, |past| past.steps.len());
        let proposal = self.with_past(proposal);
        phases::word(self.subject(self.before()), standing, (&proposal, taken), &options)
    }

    fn phase_options(&self) -> PhaseOptions {
        PhaseOptions {
            // Any wait counts here. Its length is computed later.
            drain_ns: Some(1),
            links: self.links,
            lost: self.past.as_ref().map_or_else(Vec::new, |past| past.lost.clone()),
            switch_pairs: self.options.switch_pairs,
            listed_max: 1,
            measured: Measured::Costs,
            par: self.options.par,
        }
    }

    fn proposal(&self, steps: &[Step]) -> Proposal<'a> {
        let step = |step: &Step| PhaseStep {
            wait_before_ns: u64::from(step.waits),
            writes: step.writes.clone(),
        };
        Proposal {
            steps: steps.iter().map(step).collect(),
            service_levels: Some(&self.plan.service_levels),
            sl_to_vl: Some(&self.plan.sl_to_vl),
        }
    }

    /// Puts the recent steps before a proposal.
    fn with_past<'p>(&self, mut proposal: Proposal<'p>) -> Proposal<'p> {
        if let Some(past) = &self.past {
            proposal.steps.splice(0..0, past.steps.iter().cloned());
        }
        proposal
    }

    /// Returns the wait before each step, in nanoseconds. The time since the last change counts.
    fn waits_ns(&self, steps: &[Step]) -> Vec<u64> {
        if !steps.iter().any(|step| step.waits) {
            return vec![0; steps.len()];
        }
        let proposal = self.with_past(self.proposal(steps));
        let needed = phases::lifetimes_to_wait(self.subject(self.before()), &proposal, &self.phase_options());
        let needed = needed.unwrap_or_else(|| vec![self.net.switches as u32; proposal.steps.len()]);
        let (taken, age_ns) = (self.past.as_ref()).map_or((0, 0), |past| (past.steps.len(), past.age_ns));
        let mut age_ns = Some(age_ns);
        let wait = |(step, lifetimes): (&Step, &u32)| {
            let age_ns = age_ns.take().unwrap_or(0);
            let wait_ns = if step.waits { self.drain_ns(*lifetimes) } else { None };
            wait_ns.unwrap_or(0).saturating_sub(age_ns)
        };
        steps.iter().zip(&needed[taken..]).map(wait).collect()
    }

    /// Returns the change set with its entries divided into these steps. Settings come first. Then links between
    /// switches are activated, so that no entry leads to a link that does not carry packets yet. The steps follow.
    /// Ports of hosts are activated before the first wait, or last. If the tables in force can deadlock, ports get
    /// their LIDs and are activated last, after a wait.
    fn assemble(&self, base: ChangeSet, steps: &[Step], word: Word) -> ChangeSet {
        let generation = base.generation;
        let (mut settings, mut blocks, mut links, mut hosts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut lids, mut lanes) = (Vec::new(), Vec::new());
        let leads_out = word == Word::LeadsOut;
        for op in base.phases.into_iter().flat_map(|phase| phase.ops) {
            match &op {
                Op::Lft { .. } => blocks.push(op),
                Op::Port { port, state, .. } if *state == Some(PortState::Active) => {
                    match self.is_between_switches(*port) {
                        true => links.push(op),
                        false => hosts.push(op),
                    }
                }
                // Packets to a LID that loops may be sent as soon as a port has it.
                Op::Port { .. } if leads_out && phases::gives_lids(self.fabric, &op) => lids.push(op),
                // Its P_Key table goes first.
                Op::Port { .. } if op.begins_enforcing(self.fabric) => hosts.push(op),
                Op::SlToVl { .. } => lanes.push(op),
                Op::Port { .. } | Op::Link { .. } | Op::Switch { .. } | Op::PKeys { .. } | Op::Arbitration { .. } => {
                    settings.push(op)
                }
            }
        }
        let mut phases = vec![phase(CLEARED, 0, self.cleared(&blocks))];
        phases.push(phase(SETTINGS, 0, settings));
        let enforce = phase(
            ENFORCE,
            0,
            enforce_before_lanes(self.fabric, !lanes.is_empty(), &mut hosts),
        );
        let lanes = phase(LANES, 0, lanes);
        let links = phase("activate links between switches", 0, links);
        if leads_out {
            // Nothing is added until the packets in question are gone.
            self.add_steps(steps, blocks, &mut phases);
            // A link that comes up makes entries effective while packets of removed entries are in flight, and hosts
            // send.
            let all_come = [&links.ops, &lids, &hosts].into_iter().any(|ops| !ops.is_empty());
            let joins = all_come && !steps.iter().any(|step| step.waits);
            // The Set that gives a port its LID also gives its link the lanes that rows towards it use.
            let mut rest = [
                phase("give ports their LIDs", 0, lids),
                enforce,
                lanes,
                links,
                phase("activate", 0, std::mem::take(&mut hosts)),
            ];
            if let Some(first) = rest.iter_mut().find(|phase| joins && !phase.ops.is_empty()) {
                first.wait_before_ns = self.wait_behind_ns(steps);
            }
            phases.extend(rest);
        } else {
            phases.extend([enforce, lanes, links]);
            self.add_steps(steps, blocks, &mut phases);
        }
        let activation = phase("activate", 0, hosts);
        match phases.iter().position(|phase| phase.wait_before_ns > 0) {
            // Hosts that join while packets of a cycle are in flight would feed it.
            Some(first_wait) if !leads_out => phases.insert(first_wait, activation),
            Some(_) | None => phases.push(activation),
        }
        phases.retain(|phase| !phase.ops.is_empty());
        merge_first(&mut phases);
        ChangeSet { generation, phases }
    }

    /// Returns Sets that empty unknown blocks above LinearFDBTop, for example of a switch that was rebooted. Packets do
    /// not use such blocks yet, but when the settings raise LinearFDBTop, their entries take effect.
    fn cleared(&self, blocks: &[Op]) -> Vec<Op> {
        let is_fresh = |node: NodeIdx, block: u16| {
            let switch = self.fabric.switch_index(node);
            let held = switch.map(|switch| self.in_force.block(switch, usize::from(block)));
            let is_unknown = held.is_some_and(|held| held.iter().all(|&entry| entry == NO_PATH));
            let top = self.fabric.node(node).switch_settings.linear_top;
            is_unknown && (top == 0 || usize::from(block) * BLOCK_LIDS > usize::from(top))
        };
        let clear = |op: &Op| match *op {
            Op::Lft { node, block, .. } if is_fresh(node, block) => Some(Op::Lft {
                node,
                block,
                data: [NO_PATH; BLOCK_LIDS],
            }),
            _ => None,
        };
        blocks.iter().filter_map(clear).collect()
    }

    fn is_between_switches(&self, at: PortRef) -> bool {
        let is_switch = |at: PortRef| self.fabric.switch_index(at.node).is_some();
        is_switch(at) && self.fabric.peer(at).is_some_and(is_switch)
    }

    fn add_steps(&self, steps: &[Step], mut blocks: Vec<Op>, phases: &mut Vec<Phase>) {
        if let [only] = steps
            && !only.waits
        {
            self.sort_by_use(&only.writes, &mut blocks);
            phases.push(phase(TABLES, 0, blocks));
            return;
        }
        let waits_ns = self.waits_ns(steps);
        let mut tables = self.in_force.clone();
        let mut written = BTreeSet::new();
        for (step, wait_ns) in steps.iter().zip(waits_ns) {
            let mut ops = self.blocks(&mut tables, &step.writes, &mut written);
            self.sort_by_use(&step.writes, &mut ops);
            phases.push(phase(step.what.label(step.waits), wait_ns, ops));
        }
        // Blocks with unknown contents.
        blocks.retain(|op| matches!(op, Op::Lft { node, block, .. } if !written.contains(&(*node, *block))));
        if let Some(phase) = phases.last_mut() {
            phase.ops.extend(blocks);
        }
    }

    /// Returns the blocks that a step writes, block by block over all switches, so that agents work in parallel.
    fn blocks(&self, tables: &mut Tables, writes: &[Write], written: &mut BTreeSet<(NodeIdx, u16)>) -> Vec<Op> {
        let mut touched: Vec<(usize, SwitchIdx)> = Vec::with_capacity(writes.len());
        for write in writes {
            tables.set(write.switch, write.lid, write.egress);
            touched.push((write.lid.index() / BLOCK_LIDS, write.switch));
        }
        touched.sort_unstable();
        touched.dedup();
        let op = |(block, switch): (usize, SwitchIdx)| {
            let node = self.fabric.switches()[switch];
            written.insert((node, block as u16));
            Op::Lft {
                node,
                block: block as u16,
                data: *tables.block(switch, block),
            }
        };
        touched.into_iter().map(op).collect()
    }

    /// Sorts blocks that have an entry used by packets of hosts to the front. Only packets of switch agents use the
    /// entries of the other blocks.
    fn sort_by_use(&self, writes: &[Write], blocks: &mut [Op]) {
        if writes.len() > SORTED_MAX {
            return;
        }
        let used: BTreeSet<(SwitchIdx, usize)> = writes
            .iter()
            .filter(|write| self.hosts_use(write))
            .map(|write| (write.switch, write.lid.index() / BLOCK_LIDS))
            .collect();
        blocks.sort_by_key(|op| {
            let Op::Lft { node, block, .. } = op else { return false };
            let switch = self.fabric.switch_index(*node);
            !switch.is_some_and(|switch| used.contains(&(switch, usize::from(*block))))
        });
    }

    /// True if hosts send to the LID through the switch under the new tables. Searches backwards to the first host.
    fn hosts_use(&self, write: &Write) -> bool {
        let senders = self.net.senders(self.fabric, &self.plan.lids, write.lid, false);
        let mut met = vec![write.switch.0];
        let mut done = 0;
        while let Some(&at) = met.get(done) {
            done += 1;
            if self.net.has_host(at, senders) {
                return true;
            }
            for &channel in self.net.entering(at) {
                let from = self.net.channels[channel as usize].src;
                let entry = self.plan.tables.get(SwitchIdx(from), write.lid);
                // Tables without loops are trees, so no switch is visited twice.
                if self.net.way(from, entry) == channel && done < self.net.switches {
                    met.push(from);
                }
            }
        }
        false
    }
}

fn wait_first(steps: &mut [Step]) {
    if let Some(first) = steps.first_mut() {
        first.waits = true;
    }
}

/// Returns steps without a wait.
fn in_turn(steps: Vec<Vec<Write>>) -> Vec<Step> {
    let step = |writes| Step {
        what: What::Change,
        waits: false,
        writes,
    };
    steps.into_iter().map(step).collect()
}

/// Merges the first step of tables with the settings: they do not depend on each other.
fn merge_first(phases: &mut Vec<Phase>) {
    let is_table = |phase: &Phase| phase.ops.iter().any(|op| matches!(op, Op::Lft { .. }));
    let Some(at) = phases.iter().position(|phase| phase.label == SETTINGS) else {
        return;
    };
    if let [settings, step, ..] = &mut phases[at..]
        && is_table(step)
        && step.wait_before_ns == 0
    {
        settings.ops.append(&mut step.ops);
        settings.label = "configure ports, switches and tables";
        phases.remove(at + 1);
    }
}

const fn phase(label: &'static str, wait_before_ns: u64, ops: Vec<Op>) -> Phase {
    Phase {
        label,
        wait_before_ns,
        ops,
    }
}
