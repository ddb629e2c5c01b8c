//! Multicast trees. They are planned when routes are in force and groups or links have changed, then judged, and
//! written by difference.
//!
//! Unicast routing never waits for them: a separate job plans them, and they are written while the manager is idle. A
//! probe, a repair or a sweep interrupts this at once; blocks with Sets in flight are read again afterwards. Without
//! groups no MAD is sent.
//!
//! A block is read before it is first written, so that entries of another manager are known, and are removed before
//! others are added.
//!
//! `core/multicast.rs` hands out the job. `apply` sends the Gets and Sets, and `core/apply.rs` hands in what switches
//! answer.

mod event;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::multicast::{MftBlock, MftBlocks, MulticastChange, MulticastGroup, MulticastGroups, blocks_up_to};
use selvedge_plan::{Installed, Plan, Policy};
use selvedge_planner::multicast::{Beside, MulticastPlan, MulticastResult, MulticastTask, PlannedTrees, TreesInForce};
use selvedge_planner::rebalance::budget;
use selvedge_planner::{Basis, Copies, Inventory, JobId, TakenApart};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};
use selvedge_verify::Judged;
use selvedge_verify::standing::{CopyTurns, wait_ns};

use crate::config::Mode;
use crate::event::Event;

pub use event::MulticastEvent;

/// How long a switch is left out after it first refused its MFT or did not answer, if no other event comes first. The
/// first pause is short, because perhaps only the answers were lost; each further pause is twice as long, up to
/// [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_secs(4);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A block of a switch's multicast table: its number and position.
type Place = (u16, u8);

/// Multicast groups, and the trees that connect their members.
#[derive(Debug, Default)]
pub struct Multicast {
    groups: Arc<MulticastGroups>,
    /// Groups with trees to be planned.
    stale: BTreeSet<Lid>,
    /// Highest LID that a group has had. Blocks up to it are kept known.
    top: Option<Lid>,
    /// MFT blocks that switches hold as far as known, by GUID.
    held: Arc<BTreeMap<Guid, MftBlocks>>,
    /// Switches that are left out now, or were earlier.
    silent: BTreeMap<Guid, Silence>,
    trees: Trees,
    /// True if trees must be moved to better ones.
    moves: bool,
    /// When trees are planned, or the blocks that planning needs are read.
    due: Option<Time>,
    /// Earliest time to plan trees: until then packets are in flight that could deadlock with trees.
    until: Option<Time>,
    /// The current job, with its inputs.
    planning: Option<Planning>,
    /// Groups that must be taken apart before the current plan is applied.
    first: Option<Box<TakenApart>>,
    /// The last plan of the whole fabric.
    whole: Option<Whole>,
}

/// A plan of the whole fabric: one that leaves room for trees, as far as any engine of the policy can.
#[derive(Debug)]
struct Whole {
    plan: Arc<Plan>,
    /// The groups for which it was made.
    groups: Arc<MulticastGroups>,
    /// When it was made.
    made: Time,
}

/// A switch that refused its multicast table, or did not answer a request for it.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// The switch is left out until this time, unless a plan comes into force before.
    until: Time,
    /// Length of the pause.
    pause: Duration,
    /// True if the switch is no longer left out.
    is_over: bool,
}

/// The trees in force.
#[derive(Debug, Default)]
struct Trees {
    roots: BTreeMap<Lid, Guid>,
    /// Members that no tree can reach.
    unreached: Vec<(Lid, Guid)>,
    /// Members that no tree reaches, because a tree to them could cause a deadlock.
    apart: Vec<(Lid, Guid)>,
    /// Dependencies of multicast copies: of the trees in force, and of those when the current change is written.
    turns: (Arc<CopyTurns>, Arc<CopyTurns>),
    /// The routes with which trees must cause no credit loop, and their fabric and plan.
    beside: Option<(Arc<Fabric>, Arc<Plan>, Arc<Beside>)>,
}

#[derive(Debug)]
struct Planning {
    id: JobId,
    plan: Arc<Plan>,
    stale: BTreeSet<Lid>,
}

/// The state of other sub-machines that this one may read.
#[derive(Debug)]
pub struct Ctx<'a> {
    /// The time of the input.
    pub now: Time,
    /// The mode of the manager.
    pub mode: Mode,
    /// The operator's policy.
    pub policy: &'a Policy,
    /// The last complete inventory.
    pub inventory: Option<&'a Arc<Inventory>>,
    /// The plan in force.
    pub plan: Option<&'a Arc<Plan>>,
}

/// The inputs of this sub-machine.
#[derive(Debug)]
pub enum In<'a> {
    /// Groups have changed.
    GroupsChanged(Vec<MulticastGroup>),
    /// A plan is in force: links may have changed, and a switch that did not answer may answer now.
    PlanInForce,
    /// This plan of the whole fabric was made, for these groups.
    Whole(Arc<Plan>, Arc<MulticastGroups>),
    /// Another manager is master: its MFTs are not known here, and members register with it.
    AnotherManages,
    /// A heavy sweep has found this fabric, and these LFT blocks are known. If no block of a switch is known, the
    /// switch holds no MFT of this manager either.
    Swept(&'a Fabric, &'a Installed),
    /// Rebalancing cannot make the load of routes more even: trees are replaced where better ones exist.
    MoveTrees,
    /// Trees must be planned, and the manager is idle.
    Due,
    /// This job plans the trees, beside the routes of this plan.
    Planning(JobId, Arc<Plan>),
    /// The job is done.
    Planned {
        /// The result.
        result: MulticastResult,
        /// True if the manager is idle.
        is_free: bool,
    },
    /// These groups must be taken apart before the current plan is applied.
    TakeApartFirst(Option<Box<TakenApart>>),
    /// A plan, a repair or a rebalancing step is about to be applied.
    Applying,
    /// A switch holds this block, or has acknowledged it with the contents that were sent.
    Holds(Guid, Place, MftBlock),
    /// A switch does not answer a request for a block, or holds other contents than were written.
    Refuses {
        /// The switch.
        switch: Guid,
        /// Description of the switch.
        what: String,
        /// The block.
        place: Place,
        /// The contents, if the switch answered.
        holds: Option<MftBlock>,
    },
    /// An MFT block differs from its known contents. The contents that were read become the known ones, and all trees
    /// are planned again.
    HoldsOtherwise(Guid, Place, MftBlock),
    /// All blocks that had to be read have been requested.
    BlocksRead,
    /// Trees have been written: this number of Sets was acknowledged.
    Written(usize),
    /// Trees are not written as planned: Sets have failed.
    WrittenInPart,
    /// A block may have been written or not.
    Unknown(Guid, Place),
    /// Other work interrupted the reading or writing of blocks.
    Interrupted,
}

/// The effects that the outer machine carries out.
#[derive(Debug)]
pub enum Effect {
    /// Report this event.
    Event(Event),
    /// Read these blocks, the last one first.
    Read(Vec<(SwitchIdx, Place)>),
    /// Hand out the job of [`Multicast::task`].
    Plan {
        /// Switches that are left out.
        left_out: BTreeSet<Guid>,
    },
    /// Write a change that the judge has accepted.
    Write(Judged<MulticastChange>),
    /// Write a change before the plan is applied.
    WriteFirst(Judged<MulticastChange>),
    /// Plan the whole fabric, because no tree beside the routes in force reaches some members.
    PlanWhole,
}

impl Multicast {
    /// Handles one input and appends its effects.
    pub fn handle(&mut self, ctx: &Ctx<'_>, input: In<'_>, effects: &mut Vec<Effect>) {
        let now = ctx.now;
        match input {
            In::GroupsChanged(groups) => self.groups_changed(ctx, groups),
            In::PlanInForce => {
                self.silent.values_mut().for_each(|silence| silence.is_over = true);
                self.all_stale(now);
            }
            In::Whole(plan, groups) => {
                let made = now;
                self.whole = Some(Whole { plan, groups, made });
            }
            In::AnotherManages => *self = Self::default(),
            In::Swept(fabric, installed) => self.forget_unwritten(fabric, installed),
            In::MoveTrees if self.groups.is_empty() => {}
            In::MoveTrees => {
                self.moves = true;
                self.due.get_or_insert(now);
            }
            In::Due => self.serve(ctx, effects),
            In::Planning(id, plan) => {
                let (stale, _) = self.to_plan();
                self.stale.clear();
                self.planning = Some(Planning { id, plan, stale });
            }
            In::Planned { result, is_free } => self.planned(ctx, result, is_free, effects),
            In::TakeApartFirst(first) => self.first = first,
            In::Applying => {
                let first = self.first.take().filter(|first| first.change.value().sets() > 0);
                if let Some(first) = first {
                    effects.push(taken_apart(&first));
                    self.stale.extend(first.groups.iter().copied());
                    effects.push(Effect::WriteFirst(first.change));
                }
            }
            In::Holds(switch, place, holds) => self.learn(switch, place, holds),
            In::Refuses {
                switch,
                what,
                place,
                holds,
            } => {
                match holds {
                    Some(holds) => self.learn(switch, place, holds),
                    None => self.forget(switch, place),
                }
                self.leave_out(switch, now);
                effects.push(tell(MulticastEvent::Silent { what }));
            }
            In::HoldsOtherwise(switch, place, holds) => {
                self.learn(switch, place, holds);
                self.all_stale(now);
            }
            In::BlocksRead => self.due = Some(now),
            In::Written(sets) => {
                let groups = self.groups.len();
                effects.push(tell(MulticastEvent::InForce { groups, sets }));
                self.in_force(ctx);
                if !self.stale.is_empty() {
                    self.due = Some(now);
                }
            }
            In::WrittenInPart | In::Interrupted => self.all_stale(now),
            In::Unknown(switch, place) => self.forget(switch, place),
        }
    }

    /// Returns all groups.
    pub const fn groups(&self) -> &Arc<MulticastGroups> {
        &self.groups
    }

    /// Returns the MFT blocks that switches hold, as far as known.
    pub const fn held(&self) -> &Arc<BTreeMap<Guid, MftBlocks>> {
        &self.held
    }

    /// Returns the switches that are left out for now.
    pub fn left_out(&self) -> BTreeSet<Guid> {
        let silent = self.silent.iter().filter(|(_, silence)| !silence.is_over);
        silent.map(|(switch, _)| *switch).collect()
    }

    /// Returns the members that no tree connects with the other members of their group without a conflict with the
    /// routes in force, as pairs of MLID and GUID in the order of groups.
    pub fn left_apart(&self) -> &[(Lid, Guid)] {
        &self.trees.apart
    }

    /// Returns the multicast state that jobs need.
    pub fn copies(&self) -> Copies {
        Copies {
            groups: Arc::clone(&self.groups),
            held: Arc::clone(&self.held),
            turns: Arc::clone(&self.trees.turns.0),
        }
    }

    /// Returns when trees are planned, or blocks are read for that.
    pub fn due(&self) -> Option<Time> {
        let left_out = self.silent.values().filter(|silence| !silence.is_over);
        let due = self
            .due
            .into_iter()
            .chain(left_out.map(|silence| silence.until))
            .min()?;
        let due = self.until.map_or(due, |until| due.max(until));
        self.planning.is_none().then_some(due)
    }

    /// Returns true if this job plans trees.
    pub fn is_planning(&self, id: JobId) -> bool {
        self.planning.as_ref().is_some_and(|planning| planning.id == id)
    }

    /// Returns the task that plans trees from a basis, beside the routes of the plan in force.
    pub fn task(&self, basis: Basis, plan: Arc<Plan>, left_out: BTreeSet<Guid>) -> MulticastTask {
        let (stale, moves) = self.to_plan();
        let fabric = &basis.inventory.fabric;
        let beside = self.trees.beside.as_ref();
        let beside = beside.filter(|(of, beside, _)| Arc::ptr_eq(of, fabric) && Arc::ptr_eq(beside, &plan));
        MulticastTask {
            stale,
            beside: beside.map(|(_, _, beside)| Arc::clone(beside)),
            moves: moves.then(|| budget(&basis.policy, &plan.tables)),
            ..self.trees_in_force().task(basis, plan, left_out)
        }
    }

    /// Returns the groups, and the trees in force for them.
    pub fn trees_in_force(&self) -> TreesInForce {
        TreesInForce {
            copies: self.copies(),
            roots: self.trees.roots.clone(),
            apart: self.trees.apart.clone(),
        }
    }

    fn groups_changed(&mut self, ctx: &Ctx<'_>, groups: Vec<MulticastGroup>) {
        if ctx.mode != Mode::Manage {
            return;
        }
        for group in groups {
            let mlid = group.mlid;
            if Arc::make_mut(&mut self.groups).put(group) {
                self.stale.insert(mlid);
                self.top = self.top.max(Some(mlid));
                self.due = Some(ctx.now);
            }
        }
    }

    fn all_stale(&mut self, now: Time) {
        if self.groups.is_empty() && self.top.is_none() {
            return;
        }
        self.stale.extend(self.groups.iter().map(|group| group.mlid));
        self.due = Some(now);
    }

    /// Marks the tables of switches as unknown if the switches hold no table that this manager wrote.
    fn forget_unwritten(&mut self, fabric: &Fabric, installed: &Installed) {
        if self.held.is_empty() {
            return;
        }
        let is_kept = |guid: &Guid| {
            let switch = fabric.find(*guid).and_then(|node| fabric.switch_index(node));
            switch.is_some_and(|switch| installed.lfts.get(switch).is_some_and(|blocks| !blocks.is_empty()))
        };
        Arc::make_mut(&mut self.held).retain(|guid, _| is_kept(guid));
    }

    /// Requests a plan of trees, or first the blocks that the plan needs.
    fn serve(&mut self, ctx: &Ctx<'_>, effects: &mut Vec<Effect>) {
        let (Some(inventory), Some(_)) = (ctx.inventory, ctx.plan) else {
            return;
        };
        let ended = |silence: &&mut Silence| !silence.is_over && silence.until <= ctx.now;
        let mut has_ended = false;
        for silence in self.silent.values_mut().filter(ended) {
            silence.is_over = true;
            has_ended = true;
        }
        if has_ended {
            self.all_stale(ctx.now);
        }
        self.due = None;
        let mut left_out = inventory.out_of_reach();
        left_out.extend(self.left_out());
        let unknown = self.unknown(&inventory.fabric, &left_out);
        if !unknown.is_empty() {
            return effects.push(Effect::Read(unknown));
        }
        self.until = None;
        if !self.stale.is_empty() || self.moves {
            effects.push(Effect::Plan { left_out });
        }
    }

    /// Returns the groups that need new trees; true if trees must be moved instead.
    fn to_plan(&self) -> (BTreeSet<Lid>, bool) {
        if self.stale.is_empty() {
            return (BTreeSet::new(), self.moves);
        }
        // A member that is left apart may find a tree now.
        let apart = self.trees.apart.iter().map(|(mlid, _)| *mlid);
        let apart = apart.filter(|mlid| self.groups.find(*mlid).is_some());
        (self.stale.iter().copied().chain(apart).collect(), false)
    }

    /// Handles planned trees, if the state is unchanged.
    fn planned(&mut self, ctx: &Ctx<'_>, result: MulticastResult, is_free: bool, effects: &mut Vec<Effect>) {
        let Some(planning) = self.planning.take() else {
            return;
        };
        let is_of_use = is_free && ctx.plan.is_some_and(|plan| Arc::ptr_eq(plan, &planning.plan));
        effects.extend(result.events.into_iter().map(Event::Plan).map(Effect::Event));
        match (result.trees, ctx.inventory) {
            (PlannedTrees::Accepted(planned), Some(inventory)) if is_of_use => {
                self.take(ctx, *planned, (planning, &inventory.fabric), effects);
            }
            (trees, inventory) => {
                // Planned again when that is dealt with; trees that the judge refused, when something changes, as it
                // may have done meanwhile.
                let is_refused = matches!(trees, PlannedTrees::Refused);
                let waits = is_refused && self.stale.is_empty();
                if is_refused && is_of_use {
                    self.seek_room(ctx, &planning.plan, effects);
                }
                self.stale.extend(planning.stale);
                self.moves &= matches!(trees, PlannedTrees::Later(_));
                self.due = (!waits).then_some(ctx.now);
                if let (PlannedTrees::Later(first), Some(inventory), true) = (trees, inventory, is_of_use) {
                    self.wait(ctx, first, &inventory.fabric, effects);
                }
            }
        }
    }

    fn take(
        &mut self,
        ctx: &Ctx<'_>,
        planned: MulticastPlan,
        (planning, fabric): (Planning, &Arc<Fabric>),
        effects: &mut Vec<Effect>,
    ) {
        let (trees, left) = planned.moved;
        let plan = Arc::clone(&planning.plan);
        let had = std::mem::replace(
            &mut self.trees,
            Trees {
                roots: planned.roots,
                unreached: planned.unreached,
                apart: planned.apart,
                turns: planned.turns,
                beside: Some((Arc::clone(fabric), planning.plan, planned.beside)),
            },
        );
        if trees > 0 {
            effects.push(tell(MulticastEvent::Moved { trees, left }));
        }
        self.moves = left > 0 || self.moves && !planning.stale.is_empty();
        let (apart, unreached) = (&self.trees.apart, &self.trees.unreached);
        if let Some(&(mlid, member)) = apart.first().filter(|_| *apart != had.apart) {
            let members = apart.len();
            effects.push(tell(MulticastEvent::Apart { members, mlid, member }));
        }
        if let Some(&(mlid, member)) = unreached.first().filter(|_| *unreached != had.unreached) {
            let members = unreached.len();
            effects.push(tell(MulticastEvent::Unreached { members, mlid, member }));
        }
        let is_any_apart = !apart.is_empty();
        match planned.change.value().sets() {
            0 => self.in_force(ctx),
            _ => effects.push(Effect::Write(planned.change)),
        }
        if is_any_apart {
            self.seek_room(ctx, &plan, effects);
        }
    }

    /// Has the whole fabric planned if no tree beside the routes of this plan, which is in force, reaches some members.
    /// If this plan was made for other groups, and could not leave room for all of those either, no other is made
    /// within [`PAUSE_MAX`]: hosts that join one after the other would cause a sweep each.
    fn seek_room(&self, ctx: &Ctx<'_>, plan: &Arc<Plan>, effects: &mut Vec<Effect>) {
        let known = self.whole.as_ref().filter(|whole| Arc::ptr_eq(&whole.plan, plan));
        let is_sought = |whole: &Whole| whole.groups == self.groups || ctx.now.since(whole.made) < PAUSE_MAX;
        if !known.is_some_and(is_sought) {
            effects.push(Effect::PlanWhole);
        }
    }

    /// Waits until packets in flight are gone, so that trees can be written.
    fn wait(&mut self, ctx: &Ctx<'_>, first: Option<Box<TakenApart>>, fabric: &Fabric, effects: &mut Vec<Effect>) {
        let drained = wait_ns(fabric).map_or(PAUSE_MAX, Duration::from_nanos);
        self.until = Some(ctx.now + drained);
        self.due = self.until;
        if let Some(first) = first {
            effects.push(taken_apart(&first));
            if first.change.value().sets() > 0 {
                effects.push(Effect::Write(first.change));
            }
        }
    }

    /// Called when the planned trees are in force. Trees that are to be moved follow, one step at a time.
    fn in_force(&mut self, ctx: &Ctx<'_>) {
        self.trees.turns.0 = Arc::clone(&self.trees.turns.1);
        if self.moves {
            let next = ctx.now + Duration::from_secs(ctx.policy.rebalance_pause_s.into());
            self.due = Some(self.due.map_or(next, |due| due.min(next)));
        }
    }

    /// Returns the blocks that must be known before anything is planned, in an order in which consecutive blocks belong
    /// to different switches.
    fn unknown(&self, fabric: &Fabric, left_out: &BTreeSet<Guid>) -> Vec<(SwitchIdx, Place)> {
        let Some(top) = self.top else { return Vec::new() };
        let mut unknown = Vec::new();
        for switch in fabric.switches().indices() {
            let node = fabric.switch(switch);
            let room = node.switch.map_or(0, |s| s.mcast_cap);
            if room == 0 || left_out.contains(&node.guid) {
                continue;
            }
            let last =
                Lid((Lid::MULTICAST_MIN.0 + (room - 1).min(Lid::PERMISSIVE.0 - 1 - Lid::MULTICAST_MIN.0)).min(top.0));
            let held = self.held.get(&node.guid);
            let is_known = |place: &Place| held.is_some_and(|held| held.contains_key(place));
            let places = blocks_up_to(node.port_count(), last).filter(|place| !is_known(place));
            unknown.extend(places.map(|place| (switch, place)));
        }
        unknown.sort_unstable_by_key(|&(switch, place)| std::cmp::Reverse((place, switch)));
        unknown
    }

    fn learn(&mut self, switch: Guid, place: Place, data: MftBlock) {
        Arc::make_mut(&mut self.held)
            .entry(switch)
            .or_default()
            .insert(place, data);
    }

    fn forget(&mut self, switch: Guid, place: Place) {
        if let Some(blocks) = Arc::make_mut(&mut self.held).get_mut(&switch) {
            blocks.remove(&place);
        }
    }

    fn leave_out(&mut self, switch: Guid, now: Time) {
        let before = self.silent.get(&switch);
        // Other blocks of it that were in flight fail for the same reason.
        if before.is_some_and(|before| !before.is_over && before.until > now) {
            return;
        }
        let lately = before.filter(|before| now.since(before.until) < PAUSE_MAX);
        let pause = lately.map_or(PAUSE_FIRST, |before| before.pause.saturating_mul(2).min(PAUSE_MAX));
        let silence = Silence {
            until: now + pause,
            pause,
            is_over: false,
        };
        self.silent.insert(switch, silence);
    }
}

fn taken_apart(first: &TakenApart) -> Effect {
    tell(MulticastEvent::TakenApart {
        groups: first.groups.len(),
        mlid: first.groups.first().copied().unwrap_or(Lid::NONE),
    })
}

const fn tell(event: MulticastEvent) -> Effect {
    Effect::Event(Event::Multicast(event))
}

#[cfg(test)]
mod tests;
