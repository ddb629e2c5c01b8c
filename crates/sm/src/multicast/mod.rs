//! Multicast trees: planned when routes are in force and groups or links have changed, judged, written by difference.
//!
//! Nothing of unicast waits for them: they are planned by a job of their own and written while nothing else is to be
//! done. What needs a look, a repair or a sweep interrupts that at once; blocks whose Sets were under way are read
//! again afterwards. Without groups nothing of this happens, and not a MAD is sent for it.
//!
//! A block is read before it is first written, so that what another manager left is known, and taken away before
//! anything is added to it.
//!
//! Every plan, repair and step towards balance passes through `Sm::begin_applying` in this file before its Sets go out,
//! as multicast trees may have to be taken apart first.

mod copying;
mod event;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::multicast::{MftBlock, MftBlocks, MulticastGroup, MulticastGroups, MulticastTables, blocks_up_to};
use selvedge_plan::{Installed, Plan};
use selvedge_planner::multicast::{Beside, MulticastResult, MulticastTask, PlannedTrees};
use selvedge_planner::rebalance::budget;
use selvedge_planner::{Copies, Inventory, JobId, TakenApart, Task};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};
use selvedge_verify::standing::{CopyTurns, wait_ns};

use crate::apply::Apply;
use crate::config::Mode;
use crate::core::Sm;
use crate::event::Event;
use crate::io::Output;
use crate::stage::Stage;
use crate::timer::Timer;
use crate::{readback, registration};

pub use event::MulticastEvent;

/// How long a switch that refused its multicast table, or does not answer for it, is left out if nothing else happens:
/// at first, as it may be its answers that were lost, and twice as long each time that it happens again, up to the
/// second of these.
const MUTE_FIRST: Duration = Duration::from_secs(4);
const MUTE: Duration = Duration::from_secs(60);

/// What the manager remembers of multicast.
#[derive(Debug, Default)]
pub struct Multicast {
    groups: Arc<MulticastGroups>,
    /// Groups whose trees are to be planned.
    stale: BTreeSet<Lid>,
    /// Highest LID that a group had: blocks up to it are kept known.
    top: Option<Lid>,
    /// What switches hold, block by block as far as known, by GUID.
    held: Arc<BTreeMap<Guid, MftBlocks>>,
    roots: BTreeMap<Lid, Guid>,
    /// Switches that are left out, until when.
    mute: BTreeMap<Guid, Time>,
    /// Switches that have been, until when and for how long the last time.
    was_mute: BTreeMap<Guid, (Time, Duration)>,
    /// When something is to be done, if nothing else is.
    due: Option<Time>,
    /// The job on its way, with what it plans for.
    planning: Option<Planning>,
    /// Members that could not be reached, as told last.
    unreached: Vec<(Lid, Guid)>,
    /// What copies may wait for now, and when what is being written is done.
    turns: (Arc<CopyTurns>, Arc<CopyTurns>),
    /// What trees have to fit beside, with the fabric and the plan that it is for.
    beside: Option<(Arc<Fabric>, Arc<Plan>, Arc<Beside>)>,
    /// Groups that must be taken apart before the plan on its way is applied.
    first: Option<Box<TakenApart>>,
    /// Trees wait until packets that are under way are gone.
    until: Option<Time>,
    /// Trees for which there are better ones are to be moved.
    moves: bool,
    /// Members that are left apart, as told last.
    apart: Vec<(Lid, Guid)>,
}

#[derive(Debug)]
struct Planning {
    id: JobId,
    plan: Arc<Plan>,
    stale: BTreeSet<Lid>,
}

impl Multicast {
    /// What switches copy as far as known.
    pub fn held(&self) -> &Arc<BTreeMap<Guid, MftBlocks>> {
        &self.held
    }

    /// Returns the switches that are left out for now.
    pub fn left_out(&self) -> BTreeSet<Guid> {
        self.mute.keys().copied().collect()
    }

    /// A block is not as it was known: it is known from now on as it is, and all trees are planned again from there.
    pub fn holds_otherwise(&mut self, switch: Guid, place: (u16, u8), holds: MftBlock, now: Time) {
        self.learn(switch, place, holds);
        self.all_stale(now);
    }

    fn all_stale(&mut self, now: Time) {
        if self.groups.is_empty() && self.top.is_none() {
            return;
        }
        self.stale.extend(self.groups.iter().map(|group| group.mlid));
        self.due = Some(now);
    }

    /// Blocks of switches that must be known before anything is planned, in turn by switch.
    fn unknown(&self, fabric: &Fabric, left_out: &BTreeSet<Guid>) -> Vec<(SwitchIdx, (u16, u8))> {
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
            let is_known = |place: &(u16, u8)| held.is_some_and(|held| held.contains_key(place));
            let places = blocks_up_to(node.port_count(), last).filter(|place| !is_known(place));
            unknown.extend(places.map(|place| (switch, place)));
        }
        unknown.sort_unstable_by_key(|&(switch, place)| std::cmp::Reverse((place, switch)));
        unknown
    }

    /// What is known, by switches of a fabric. Of switches that are left out nothing is: nobody can change it.
    fn tables(&self, fabric: &Fabric, left_out: &BTreeSet<Guid>) -> MulticastTables {
        let mut tables = MulticastTables::new(fabric.switches().len());
        for switch in fabric.switches().indices() {
            let guid = fabric.switch(switch).guid;
            let held = self.held.get(&guid).filter(|_| !left_out.contains(&guid));
            for (&place, &data) in held.into_iter().flatten() {
                tables.set_block(switch, place, data);
            }
        }
        tables
    }

    fn learn(&mut self, switch: Guid, place: (u16, u8), data: MftBlock) {
        Arc::make_mut(&mut self.held)
            .entry(switch)
            .or_default()
            .insert(place, data);
    }

    fn forget(&mut self, switch: Guid, place: (u16, u8)) {
        if let Some(blocks) = Arc::make_mut(&mut self.held).get_mut(&switch) {
            blocks.remove(&place);
        }
    }

    fn silence(&mut self, switch: Guid, now: Time) {
        // Other blocks of it that were under way fail for the same reason.
        if self.mute.get(&switch).is_some_and(|until| *until > now) {
            return;
        }
        let last = self.was_mute.get(&switch).filter(|(until, _)| now.since(*until) < MUTE);
        let pause = last.map_or(MUTE_FIRST, |(_, pause)| pause.saturating_mul(2).min(MUTE));
        self.was_mute.insert(switch, (now + pause, pause));
        self.mute.insert(switch, now + pause);
    }
}

impl Sm {
    /// Groups have changed.
    pub(crate) fn groups_changed(&mut self, groups: Vec<MulticastGroup>) {
        if self.config.mode != Mode::Manage {
            return;
        }
        let multicast = &mut self.multicast;
        for group in groups {
            let mlid = group.mlid;
            if Arc::make_mut(&mut multicast.groups).put(group) {
                multicast.stale.insert(mlid);
                multicast.top = multicast.top.max(Some(mlid));
                multicast.due = Some(self.now);
            }
        }
        self.view.groups = Arc::clone(&multicast.groups);
    }

    /// A plan is in force: links may have changed, and who did not answer may answer now.
    pub(crate) fn multicast_after_apply(&mut self) {
        self.multicast.mute.clear();
        self.multicast.all_stale(self.now);
    }

    /// Another manager is in charge: what it writes is not known here, and members tell it who they are.
    pub(crate) fn leave_what_hosts_registered(&mut self) {
        self.leave_aliases();
        self.multicast = Multicast::default();
        self.tell_read_back(readback::In::AnotherManages);
        self.view.groups = Arc::default();
    }

    /// Tables of switches that hold nothing that this manager wrote are not known.
    pub(crate) fn forget_copies(&mut self, fabric: &Fabric, installed: &Installed) {
        if self.multicast.held.is_empty() {
            return;
        }
        let is_kept = |guid: &Guid| {
            let switch = fabric.find(*guid).and_then(|node| fabric.switch_index(node));
            switch.is_some_and(|switch| installed.lfts.get(switch).is_some_and(|blocks| !blocks.is_empty()))
        };
        Arc::make_mut(&mut self.multicast.held).retain(|guid, _| is_kept(guid));
    }

    /// When trees are to be looked at; never while something else is to be done first, which has a time of its own:
    /// a wake-up that nobody serves comes again at once, for ever.
    pub(crate) fn multicast_due(&self) -> Option<Time> {
        let multicast = &self.multicast;
        let due = multicast
            .due
            .into_iter()
            .chain(multicast.mute.values().copied())
            .min()?;
        let due = multicast.until.map_or(due, |until| due.max(until));
        let is_free = self.sweep_due.is_none() && !self.has_suspects();
        (is_free && multicast.planning.is_none() && self.knows_the_fabric()).then_some(due)
    }

    /// Plans trees, or reads what must be known for it, if nothing else is to be done.
    pub(crate) fn multicast_if_due(&mut self, now: Time, out: &mut Vec<Output>) {
        if !self.is_due(Timer::Trees) {
            return;
        }
        let (Some(inventory), Some(plan)) = (self.inventory.clone(), self.view.plan.clone()) else {
            return;
        };
        let multicast = &mut self.multicast;
        multicast.due = None;
        let muted = multicast.mute.len();
        multicast.mute.retain(|_, until| *until > now);
        if multicast.mute.len() < muted {
            multicast.all_stale(now);
            multicast.due = None;
        }
        let mut left_out = inventory.out_of_reach();
        left_out.extend(multicast.mute.keys());
        let unknown = multicast.unknown(&inventory.fabric, &left_out);
        if !unknown.is_empty() {
            return self.read_copies(inventory, unknown);
        }
        multicast.until = None;
        let moves = multicast.stale.is_empty() && multicast.moves;
        if multicast.stale.is_empty() && !moves {
            return;
        }
        let mut stale = std::mem::take(&mut multicast.stale);
        if !moves {
            // Whoever is left apart may find a tree now.
            let apart = multicast.apart.iter().map(|(mlid, _)| *mlid);
            stale.extend(apart.filter(|mlid| multicast.groups.find(*mlid).is_some()));
        }
        let is_known = |(fabric, of, _): &&(Arc<Fabric>, Arc<Plan>, _)| {
            Arc::ptr_eq(fabric, &inventory.fabric) && Arc::ptr_eq(of, &plan)
        };
        let beside = multicast
            .beside
            .as_ref()
            .filter(is_known)
            .map(|known| Arc::clone(&known.2));
        self.generation = self.generation.next();
        let under_way = self.past.under_way(&inventory.fabric, now);
        let basis = self.basis(&inventory, &self.view.installed, under_way);
        let multicast = &self.multicast;
        let task = MulticastTask {
            basis,
            plan: Arc::clone(&plan),
            groups: Arc::clone(&multicast.groups),
            held: multicast.tables(&inventory.fabric, &left_out),
            roots: multicast.roots.clone(),
            stale: stale.clone(),
            left_out,
            beside,
            apart: multicast.apart.clone(),
            moves: moves.then(|| budget(&self.config.policy, &plan.tables)),
        };
        let id = self.compute(Task::Multicast(Box::new(task)), out);
        self.multicast.planning = Some(Planning { id, plan, stale });
    }

    /// True if a job is the one that plans trees.
    pub(crate) fn is_planning_multicast(&self, id: JobId) -> bool {
        let planning = self.multicast.planning.as_ref();
        planning.is_some_and(|planning| planning.id == id)
    }

    /// Takes trees that were planned, if all is still as it was.
    pub(crate) fn multicast_planned(&mut self, result: MulticastResult, out: &mut Vec<Output>) {
        let Some(planning) = self.multicast.planning.take() else {
            return;
        };
        let is_same = self
            .view
            .plan
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, &planning.plan));
        let is_free = matches!(self.stage, Stage::Idle) && self.sweep_due.is_none() && !self.has_suspects();
        let multicast = &mut self.multicast;
        let refused = !result.events.is_empty();
        out.extend(result.events.into_iter().map(Event::Plan).map(Output::Event));
        let (planned, inventory) = match (result.trees, self.inventory.clone()) {
            (PlannedTrees::Accepted(planned), Some(inventory)) if is_same && is_free => (*planned, inventory),
            (trees, _) => {
                // Planned anew when that is dealt with; a plan that the judge refused, when something changes.
                multicast.stale.extend(planning.stale);
                multicast.moves &= matches!(trees, PlannedTrees::Later(_));
                multicast.due = (!refused).then_some(self.now);
                if let PlannedTrees::Later(first) = trees
                    && is_same
                    && is_free
                {
                    self.trees_later(first, out);
                }
                return;
            }
        };
        multicast.roots = planned.roots;
        multicast.turns = planned.turns;
        multicast.beside = Some((Arc::clone(&inventory.fabric), planning.plan, planned.beside));
        if planned.moved.0 > 0 {
            let (trees, left) = planned.moved;
            out.push(Output::Event(Event::Multicast(MulticastEvent::Moved { trees, left })));
        }
        multicast.moves = planned.moved.1 > 0 || multicast.moves && !planning.stale.is_empty();
        if multicast.apart != planned.apart {
            multicast.apart = planned.apart;
            if let Some(&(mlid, member)) = multicast.apart.first() {
                let members = multicast.apart.len();
                out.push(Output::Event(Event::Multicast(MulticastEvent::Apart {
                    members,
                    mlid,
                    member,
                })));
            }
        }
        if multicast.unreached != planned.unreached {
            multicast.unreached = planned.unreached;
            if let Some((mlid, member)) = multicast.unreached.first() {
                out.push(Output::Event(Event::Multicast(MulticastEvent::Unreached {
                    members: multicast.unreached.len(),
                    mlid: *mlid,
                    member: *member,
                })));
            }
        }
        if planned.change.value().sets() == 0 {
            return self.multicast_written(self.now);
        }
        self.write_copies(inventory, &planned.change);
    }
}

impl Sm {
    /// Members of groups that no tree joins with the others beside the routes in force, by group.
    #[must_use]
    pub fn left_apart(&self) -> &[(Lid, Guid)] {
        &self.multicast.apart
    }

    /// What jobs have to know of copies.
    pub(crate) fn copies(&self) -> Arc<Copies> {
        let multicast = &self.multicast;
        Arc::new(Copies {
            groups: Arc::clone(&multicast.groups),
            held: Arc::clone(&multicast.held),
            turns: Arc::clone(&multicast.turns.0),
        })
    }

    /// What was planned is in force; trees that are to move follow, a step at a time.
    fn multicast_written(&mut self, now: Time) {
        let multicast = &mut self.multicast;
        multicast.turns.0 = Arc::clone(&multicast.turns.1);
        if multicast.moves {
            let pause = Duration::from_secs(self.config.policy.rebalance_pause_s.into());
            multicast.due = Some(multicast.due.map_or(now + pause, |due| due.min(now + pause)));
        }
    }

    /// Trees are looked at: those for which there is a better one move.
    pub(crate) fn move_trees(&mut self) {
        let multicast = &mut self.multicast;
        if !multicast.groups.is_empty() {
            multicast.moves = true;
            multicast.due.get_or_insert(self.now);
        }
    }

    /// Trees can be laid when packets that are under way are gone.
    fn trees_later(&mut self, first: Option<Box<TakenApart>>, out: &mut Vec<Output>) {
        let Some(inventory) = self.inventory.clone() else {
            return;
        };
        let drained = wait_ns(&inventory.fabric).map_or(MUTE, Duration::from_nanos);
        let multicast = &mut self.multicast;
        multicast.until = Some(self.now + drained);
        multicast.due = multicast.until;
        if let Some(first) = first {
            out.push(taken_apart(&first));
            let sets = first.change.value().sets();
            if sets > 0 {
                self.write_copies(inventory, &first.change);
            }
        }
    }

    /// Groups that must be taken apart before the plan on its way is applied.
    pub(crate) fn note_copies_first(&mut self, first: Option<Box<TakenApart>>) {
        self.multicast.first = first;
    }

    /// Begins to apply a plan, a repair or a step towards balance: all of them pass here. Groups that could deadlock
    /// beside it are taken apart first.
    pub(crate) fn begin_applying(&mut self, apply: Apply, inventory: Arc<Inventory>, out: &mut Vec<Output>) {
        self.tell_read_back(readback::In::Writing);
        let apply = apply.with_traffic_of_late(self.carried_lately(&inventory.fabric));
        self.update_registration(registration::In::Applying {
            fabric: apply.fabric(),
            outcome: apply.outcome(),
        });
        self.failover.repeats = self.exchange.counters().repeats;
        self.stage = Stage::Applying(Box::new(apply), inventory);
        let first = self.multicast.first.take();
        if let Some(first) = first.filter(|first| first.change.value().sets() > 0) {
            out.push(taken_apart(&first));
            self.multicast.stale.extend(first.groups.iter().copied());
            self.write_copies_first(&first.change);
        }
    }
}

fn taken_apart(first: &TakenApart) -> Output {
    Output::Event(Event::Multicast(MulticastEvent::TakenApart {
        groups: first.groups.len(),
        mlid: first.groups.first().copied().unwrap_or(Lid::NONE),
    }))
}
