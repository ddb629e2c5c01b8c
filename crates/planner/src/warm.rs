//! Preparations for repairs, made while the manager is idle, so that a repair has little left to do.

use std::ops::Range;
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{BLOCK_LIDS, EmptiedLink, Installed, NO_PATH, Plan, UnderWay};
use selvedge_routing::{Engine, InForce, LikelyTurn, Mender};
use selvedge_sim::Par;
use selvedge_types::{IdxVec, Lid};
use selvedge_verify::Subject;
use selvedge_verify::standing::{Backup, Entry, Replaced, Standing, Turn};

use crate::adopt::Adopt;
use crate::basis::Basis;
use crate::changed::Changed;
use crate::engine::options;
use crate::inventory::Inventory;

/// Largest number of entries (switches × LIDs) for which a repair in place may search the dependency graph. The search
/// takes 5 ms with 256 switches of two hosts each.
pub(crate) const SEARCHED_MAX: usize = 200_000;

/// Largest number of entries for which a repair by a rule is prepared.
const ENTRIES_MAX: usize = 8_000_000;

/// Returns true if repairs in place take a few milliseconds at most with this number of entries. `searches`: the engine
/// searches the dependency graph (`weave`); otherwise it repairs by a rule (`fat-tree`).
#[must_use]
pub const fn is_small(entries: usize, searches: bool) -> bool {
    entries <= if searches { SEARCHED_MAX } else { ENTRIES_MAX }
}

/// Data that makes a repair fast. The manager keeps this data between jobs, and hands it to a repair while the repair
/// runs. Without it a repair takes longer and gives the same plan.
#[derive(Clone, Debug, Default)]
pub struct Warm {
    /// The judge's proof of the plan in force; `None` if the plan is not covered. Memory: see [`Standing`].
    pub standing: Option<Standing>,
    /// Repairs the tables in force when links are lost, if their engine can.
    pub mender: Option<Mender>,
    /// Copies to be changed in place. Memory: as much as the plan, the tables and the fabric take.
    pub spare: Option<Spare>,
    /// Replaced entries with packets that may be in flight, precomputed.
    pub left: Option<Left>,
    /// A backup that is in force, but to which `standing` and `mender` have not been updated yet.
    pub known: Option<Arc<Backup>>,
}

/// Recently replaced entries, precomputed.
#[derive(Clone, Debug)]
pub struct Left {
    past: Arc<UnderWay>,
    replaced: Vec<Replaced>,
}

impl Left {
    /// Returns the replaced entries, if they were computed for these changes.
    pub fn of(self, past: &UnderWay) -> Option<Vec<Replaced>> {
        let is_same =
            self.past.before == past.before && self.past.phases == past.phases && self.past.emptied == past.emptied;
        is_same.then_some(self.replaced)
    }
}

impl Warm {
    /// True if a repair in place is possible.
    #[must_use]
    pub const fn can_repair(&self) -> bool {
        self.standing.is_some() && self.mender.is_some()
    }

    /// Returns true if repairs search the dependency graph.
    #[must_use]
    pub fn searches(&self) -> bool {
        self.mender.as_ref().is_some_and(Mender::searches)
    }

    /// Updates the standing proof and the mender after a backup has come into force. `plan` is the plan in
    /// force, including that backup. What cannot be updated is dropped.
    pub(crate) fn catch_up(&mut self, fabric: &Fabric, plan: &Plan) {
        let Some(backup) = self.known.take() else { return };
        let links: Vec<_> = backup.links().iter().map(|link| (link.switch, link.port)).collect();
        let follows = self.standing.as_mut().is_some_and(|standing| {
            let mut tables = plan.tables.clone();
            for (switch, block) in backup.blocks() {
                if let Some(row) = standing.row(switch, block) {
                    *tables.block_mut(switch, block) = *row;
                }
            }
            let tables_of = (&plan.lids, &mut tables);
            let led = (self.mender.as_mut()).and_then(|mender| Changed::by(mender, tables_of, &links, standing, true));
            if led.is_none() || tables != plan.tables {
                self.mender = None;
            }
            standing.follow(fabric, &backup)
        });
        if !follows {
            (self.standing, self.mender) = (None, None);
        }
    }

    /// Returns the address ranges of the largest parts. A repair reads a little in all of them. So if a driver puts
    /// them into larger memory pages, most page-table look-ups are saved.
    #[must_use]
    pub fn memory(&self) -> Vec<Range<usize>> {
        let standing = self.standing.iter().flat_map(Standing::memory);
        let tables = self.spare.iter().map(|spare| spare.plan.tables.memory());
        standing.chain(tables).collect()
    }
}

/// Copies of the state in force.
#[derive(Debug)]
pub struct Spare {
    /// The plan.
    pub plan: Plan,
    /// The fabric and the directed routes to its agents. Not shared with any other value.
    pub inventory: Inventory,
    /// The tables of the switches.
    pub installed: Installed,
}

impl Clone for Spare {
    fn clone(&self) -> Self {
        Self::new(&self.inventory, &self.installed, &self.plan)
    }
}

impl Spare {
    /// Copies the state in force.
    pub fn new(inventory: &Inventory, installed: &Installed, plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            inventory: Inventory {
                fabric: Arc::new(Fabric::clone(&inventory.fabric)),
                agents: Arc::new(IdxVec::clone(&inventory.agents)),
                ..inventory.clone()
            },
            installed: installed.clone(),
        }
    }
}

/// Returns the former values of recently changed entries, each with the phases in which it was written and replaced.
pub(crate) fn replaced(past: &UnderWay, standing: &Standing) -> Vec<Replaced> {
    let all = (0_u16..).zip(std::iter::once(&past.before).chain(&past.phases));
    let mut held: Vec<_> = all
        .flat_map(|(phase, blocks)| {
            blocks
                .iter()
                .map(move |(switch, block, data)| (*switch, *block, phase, data))
        })
        .collect();
    // The contents of a block in order of time; those in force come last.
    held.sort_by_key(|&(switch, block, phase, _)| (switch, block, phase));
    let is_emptied = |entry: Entry, until: u16| {
        let of_entry = |link: &&EmptiedLink| (link.from, link.port) == (entry.switch, entry.egress);
        past.emptied
            .iter()
            .filter(of_entry)
            .any(|link| usize::from(until) <= link.phases)
    };
    let mut replaced = Vec::new();
    for values in held.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let (switch, block, first, mut old) = values[0];
        let mut since = [first; BLOCK_LIDS];
        let now = standing.row(switch, usize::from(block)).map(|now| (u16::MAX, now));
        for (phase, new) in values[1..].iter().map(|&(_, _, phase, data)| (phase, data)).chain(now) {
            if old == new {
                continue;
            }
            for i in (0..BLOCK_LIDS).filter(|&i| old[i] != new[i]) {
                let lid = u16::try_from(usize::from(block) * BLOCK_LIDS + i).map_or(Lid::NONE, Lid);
                let since = std::mem::replace(&mut since[i], phase);
                let entry = Entry {
                    switch,
                    lid,
                    egress: old[i],
                };
                let is_way = entry.egress != NO_PATH;
                replaced.extend(is_way.then_some(Replaced {
                    entry,
                    since,
                    until: phase,
                    is_emptied: is_emptied(entry, phase),
                }));
            }
            old = new;
        }
    }
    replaced
}

fn turn(turn: LikelyTurn) -> Turn {
    Turn {
        switch: turn.from,
        port: turn.port,
        onward: turn.onward,
    }
}

/// Task: prepare repairs of links that may be lost next.
#[derive(Clone, Debug)]
pub struct Prepare {
    /// The state that the task starts from. `under_way` is used if it is known already.
    pub basis: Basis,
    /// Origin of the tables in force.
    pub adopt: Adopt,
    /// The plan in force.
    pub plan: Arc<Plan>,
    /// What is left of earlier preparations, so that the task need not make it again.
    pub warm: Option<Box<Warm>>,
}

impl Prepare {
    /// Makes the missing preparations. Takes at most about as long as judging the plan did.
    pub(crate) fn run(&mut self, par: Par) -> Warm {
        let (basis, plan) = (&self.basis, &self.plan);
        let inventory = &basis.inventory;
        let mut warm = self.warm.take().map(|warm| *warm).unwrap_or_default();
        warm.catch_up(&inventory.fabric, plan);
        if warm.standing.is_none() {
            warm.standing = Standing::new(Subject::plan(&inventory.fabric, plan), par).ok();
        }
        warm.left = None;
        if let Some(standing) = &mut warm.standing {
            standing.set_copies(&inventory.fabric, &basis.copies.turns);
            standing.catch_up();
            warm.left = basis.under_way.as_ref().map(|past| {
                let replaced = replaced(past, standing);
                standing.prepare_for(&replaced);
                let past = Arc::clone(past);
                Left { past, replaced }
            });
        }
        if warm.mender.is_none() {
            warm.mender = warm.standing.as_mut().and_then(|standing| self.mender(standing, par));
        }
        if warm.spare.is_none() && warm.can_repair() {
            warm.spare = Some(Spare::new(inventory, &basis.installed, plan));
        }
        warm
    }

    /// Returns the mender for the plan in force: that of the plan's engine. If the plan keeps found tables, these have
    /// an order of their own, whichever engine is configured; it is computed if the tables are small enough for a
    /// search.
    fn mender(&self, standing: &mut Standing, par: Par) -> Option<Mender> {
        let (basis, plan) = (&self.basis, &self.plan);
        let fabric = &basis.inventory.fabric;
        let entries = fabric.switches().len() * plan.lids.len();
        let is_found = self.adopt == Adopt::Kept && entries <= SEARCHED_MAX && plan.lanes == 1;
        let force = InForce {
            fabric,
            lids: &plan.lids,
            tables: &plan.tables,
            service_levels: &plan.service_levels,
            lanes: plan.lanes,
            options: &options(&basis.policy, &Arc::default(), None),
            par,
            by_hosts: &|switch, lid| standing.carries_hosts(switch, lid),
        };
        let mender = match is_found {
            true => Mender::of_any_tables(&force),
            false => Engine::try_from(&plan.engine).ok()?.mender(&force),
        }?;
        standing.make_room_for(mender.likely_turns().map(turn));
        Some(mender)
    }
}
