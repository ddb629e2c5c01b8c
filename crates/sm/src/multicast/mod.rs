//! Multicast trees: planned when routes are in force and groups or links have changed, judged, written by difference.
//!
//! Nothing of unicast waits for them: they are planned by a job of their own and written while nothing else is to be
//! done. What needs a look, a repair or a sweep interrupts that at once; blocks whose Sets were under way are read
//! again afterwards. Without groups nothing of this happens, and not a MAD is sent for it.
//!
//! A block is read before it is first written, so that what another manager left is known, and taken away before
//! anything is added to it.

mod copying;
mod event;
mod job;
mod read_back;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::multicast::{MftBlocks, MulticastGroup, MulticastGroups, MulticastTables, blocks_up_to};
use selvedge_plan::{Generation, Installed, Plan};
use selvedge_sim::Time;
use selvedge_types::{Guid, Idx, Lid, PortState};

use crate::config::Mode;
use crate::core::Sm;
use crate::event::Event;
use crate::inventory::Inventory;
use crate::io::Output;
use crate::job::{JobResult, Task};
use crate::stage::Stage;

pub use copying::{CopyId, Copying};
pub use event::MulticastEvent;
pub use job::{MulticastPlan, MulticastTask};

/// How long a switch that refused its multicast table, or does not answer for it, is left out if nothing else happens.
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
    /// When something is to be done, if nothing else is.
    due: Option<Time>,
    /// The job on its way, with what it plans for.
    planning: Option<Planning>,
    /// Members that could not be reached, as told last.
    unreached: Vec<(Lid, Guid)>,
    /// Blocks that were written and have not been read back since.
    fresh: BTreeSet<Place>,
    /// The block that was read back last in turn.
    last_read: Option<Place>,
}

/// A block of a switch: its GUID; block and position.
type Place = (Guid, (u16, u8));

#[derive(Debug)]
struct Planning {
    generation: Generation,
    plan: Arc<Plan>,
    stale: BTreeSet<Lid>,
}

impl Multicast {
    /// What switches copy as far as known.
    pub fn held(&self) -> &Arc<BTreeMap<Guid, MftBlocks>> {
        &self.held
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

    fn learn(&mut self, switch: Guid, place: (u16, u8), data: selvedge_plan::multicast::MftBlock) {
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
        self.mute.insert(switch, now + MUTE);
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
    pub(crate) fn leave_multicast(&mut self) {
        self.multicast = Multicast::default();
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

    /// When trees are to be looked at, if nothing else is to be done.
    pub(crate) fn multicast_due(&self) -> Option<Time> {
        let multicast = &self.multicast;
        let due = multicast
            .due
            .into_iter()
            .chain(multicast.mute.values().copied())
            .min()?;
        (multicast.planning.is_none() && self.knows_the_fabric()).then_some(due)
    }

    /// Plans trees, or reads what must be known for it, if nothing else is to be done.
    pub(crate) fn multicast_if_due(&mut self, now: Time, out: &mut Vec<Output>) {
        let is_free = matches!(self.stage, Stage::Idle) && self.sweep_due.is_none() && !self.has_suspects();
        if !is_free || self.multicast_due().is_none_or(|at| at > now) {
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
        let mut left_out = out_of_reach(&inventory);
        left_out.extend(multicast.mute.keys());
        let unknown = multicast.unknown(&inventory.fabric, &left_out);
        if !unknown.is_empty() {
            self.stage = Stage::Copying(Box::new(Copying::reading(inventory, unknown)));
            return;
        }
        if multicast.stale.is_empty() {
            return;
        }
        let stale = std::mem::take(&mut multicast.stale);
        let task = MulticastTask {
            groups: Arc::clone(&multicast.groups),
            held: multicast.tables(&inventory.fabric, &left_out),
            roots: multicast.roots.clone(),
            stale: stale.clone(),
            left_out,
        };
        self.generation = self.generation.next();
        let installed = Arc::clone(&self.view.installed);
        let job = self.job(&inventory, &installed, Task::Multicast(Box::new(task)));
        let generation = self.generation;
        self.multicast.planning = Some(Planning {
            generation,
            plan,
            stale,
        });
        out.push(Output::Compute(Box::new(job)));
    }

    /// True if `generation` is of the trees that are planned.
    pub(crate) fn is_planning_multicast(&self, generation: Generation) -> bool {
        let planning = self.multicast.planning.as_ref();
        planning.is_some_and(|planning| planning.generation == generation)
    }

    /// Takes trees that were planned, if all is still as it was.
    pub(crate) fn multicast_planned(&mut self, result: JobResult, out: &mut Vec<Output>) {
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
        let planned = result.multicast.map(|planned| *planned);
        let (Some(planned), true, true, Some(inventory)) = (planned, is_same, is_free, self.inventory.clone()) else {
            // Planned anew when that is dealt with; a plan that the judge refused, when something changes.
            let refused = !result.events.is_empty();
            multicast.stale.extend(planning.stale);
            multicast.due = (!refused).then_some(self.now);
            out.extend(result.events.into_iter().map(Output::Event));
            return;
        };
        out.extend(result.events.into_iter().map(Output::Event));
        multicast.roots = planned.roots;
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
            return;
        }
        self.stage = Stage::Copying(Box::new(Copying::writing(inventory, planned.change)));
    }
}

/// Switches to which no way of ACTIVE links leads from the manager: nobody waits for their agents.
fn out_of_reach(inventory: &Inventory) -> BTreeSet<Guid> {
    let fabric = &inventory.fabric;
    let is_active = |at| fabric.port(at).is_some_and(|port| port.link.state == PortState::Active);
    let mut seen = vec![false; fabric.nodes().len()];
    let mut todo = vec![inventory.local.node];
    while let Some(node) = todo.pop() {
        if std::mem::replace(&mut seen[node.to_usize()], true) {
            continue;
        }
        // A channel adapter lets nothing through but what it sends itself.
        let is_way = fabric.node(node).is_switch() || node == inventory.local.node;
        for (port, _) in fabric.node(node).external_ports().filter(|_| is_way) {
            let at = PortRef { node, port };
            todo.extend(
                fabric
                    .peer(at)
                    .filter(|&peer| is_active(at) && is_active(peer))
                    .map(|peer| peer.node),
            );
        }
    }
    let switches = fabric.switches().iter().filter(|node| !seen[node.to_usize()]);
    switches.map(|node| fabric.node(*node).guid).collect()
}
