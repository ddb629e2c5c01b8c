//! Preparations of repairs, made while nothing happens, so that a repair has little left to do.

use std::ops::Range;
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::{Installed, Plan, UnderWay};
use selvedge_routing::{Engine, FatTree, LikelyTurn, TreeMender, WeaveMender};
use selvedge_sim::Par;
use selvedge_types::IdxVec;
use selvedge_verify::Subject;
use selvedge_verify::standing::{Backup, Replaced, Standing, Turn};

use crate::adopt::Adopt;
use crate::changed::Changed;
use crate::inventory::Inventory;
use crate::job::{Job, WOVEN_MAX};
use crate::repair::replaced;

/// What makes a repair fast. It is owned by the manager between jobs and by the repair while it runs; without it a
/// repair takes longer and comes to the same.
#[derive(Clone, Debug, Default)]
pub struct Warm {
    /// The judge's proof of the plan in force; `None` if it is not covered. Memory: see [`Standing`].
    pub standing: Option<Standing>,
    /// The tree, if the plan in force is one of `fat-tree`.
    pub mender: Option<TreeMender>,
    /// The order of the dependency graph, if the plan in force is one of `weave`.
    pub weave: Option<WeaveMender>,
    /// Copies to be changed in place. Memory: as much as the plan, the tables and the fabric take.
    pub spare: Option<Spare>,
    /// Entries by which packets may be under way.
    pub left: Option<Left>,
    /// A repair that was worked out before, and is in force: proof and tree are still those from before it.
    pub known: Option<Arc<Backup>>,
}

/// Entries that were replaced lately, worked out before they are needed.
#[derive(Clone, Debug)]
pub struct Left {
    past: Arc<UnderWay>,
    replaced: Vec<Replaced>,
}

impl Left {
    /// Those by which packets may be under way, if this is about them.
    pub fn of(self, past: &UnderWay) -> Option<Vec<Replaced>> {
        let is_same =
            self.past.before == past.before && self.past.phases == past.phases && self.past.emptied == past.emptied;
        is_same.then_some(self.replaced)
    }
}

impl Warm {
    /// True if nothing is missing.
    #[must_use]
    pub const fn can_repair(&self) -> bool {
        self.standing.is_some() && (self.mender.is_some() || self.weave.is_some())
    }

    /// Brings proof and tree up to a repair that was worked out before; `plan` is the one in force, with it. What does
    /// not come to that is dropped.
    pub fn catch_up(&mut self, fabric: &Fabric, plan: &Plan) {
        let Some(backup) = self.known.take() else { return };
        let links: Vec<_> = backup.links().iter().map(|link| (link.switch, link.port)).collect();
        let follows = self.standing.as_mut().is_some_and(|standing| {
            let mut tables = plan.tables.clone();
            for (switch, block) in backup.blocks() {
                if let Some(row) = standing.row(switch, block) {
                    *tables.block_mut(switch, block) = *row;
                }
            }
            let menders = (&mut self.mender, &mut self.weave);
            let led = Changed::by(menders, (&plan.lids, &mut tables), &links, standing, true);
            if led.is_none() || tables != plan.tables {
                (self.mender, self.weave) = (None, None);
            }
            standing.follow(fabric, &backup)
        });
        if !follows {
            (self.standing, self.mender, self.weave) = (None, None, None);
        }
    }

    /// Where the largest parts lie in memory, as addresses. A repair reads a little everywhere in them: whoever can put
    /// them into larger pages saves it most of the looks at page tables.
    #[must_use]
    pub fn memory(&self) -> Vec<Range<usize>> {
        let standing = self.standing.iter().flat_map(Standing::memory);
        let tables = self.spare.iter().map(|spare| spare.plan.tables.memory());
        standing.chain(tables).collect()
    }
}

/// Copies of what is in force.
#[derive(Debug)]
pub struct Spare {
    /// The plan.
    pub plan: Plan,
    /// The fabric and the ways to its agents; nobody else holds either.
    pub inventory: Inventory,
    /// What the switches hold.
    pub installed: Installed,
}

impl Clone for Spare {
    fn clone(&self) -> Self {
        Self::new(&self.inventory, &self.installed, &self.plan)
    }
}

impl Spare {
    /// Copies.
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

fn turn(turn: LikelyTurn) -> Turn {
    Turn {
        switch: turn.from,
        port: turn.port,
        onward: turn.onward,
    }
}

/// Prepares for what may happen to a plan in force.
#[derive(Clone, Debug)]
pub struct Prepare {
    /// The plan.
    pub plan: Arc<Plan>,
    /// What is left of earlier preparations: not made again.
    pub warm: Option<Box<Warm>>,
}

impl Prepare {
    /// Makes what is missing. Takes about as long as judging the plan did, at most.
    pub fn run(self, job: &Job, par: Par) -> Warm {
        let (inventory, plan) = (&job.inventory, &self.plan);
        let mut warm = self.warm.map(|warm| *warm).unwrap_or_default();
        warm.catch_up(&inventory.fabric, plan);
        if warm.standing.is_none() {
            warm.standing = Standing::new(Subject::plan(&inventory.fabric, plan), par).ok();
        }
        warm.left = None;
        if let Some(standing) = &mut warm.standing {
            standing.set_copies(&inventory.fabric, &job.copies.turns);
            standing.catch_up();
            warm.left = job.under_way.as_ref().map(|past| {
                let replaced = replaced(past, standing);
                standing.prepare_for(&replaced);
                let past = Arc::clone(past);
                Left { past, replaced }
            });
        }
        // Found tables have an order of their own, whatever engine is to plan: of those that are small enough for it
        // the weaver finds it, and leads around what is lost so that old and new entries can be mixed.
        let entries = inventory.fabric.switches().len() * plan.lids.len();
        let is_found = job.adopt == Adopt::Kept && entries <= WOVEN_MAX && plan.lanes == 1;
        if warm.mender.is_none() && plan.engine.0 == Engine::FatTree.name() && !is_found {
            let options = job.options(None).fat_tree;
            let tree = FatTree::detect(&inventory.fabric, &options, par).ok();
            // Without a proof nobody knows; then there is no repair in place either.
            let standing = warm.standing.as_ref();
            let by_hosts = |switch, lid| standing.is_none_or(|standing| standing.carries_hosts(switch, lid));
            warm.mender = tree.map(|tree| TreeMender::new(tree).with_detours(&plan.lids, &plan.tables, by_hosts));
            if let (Some(standing), Some(mender)) = (&mut warm.standing, &warm.mender) {
                standing.make_room_for(mender.likely_turns().map(turn));
            }
        }
        if warm.weave.is_none() && warm.standing.is_some() && (is_found || plan.engine.0 == Engine::Weave.name()) {
            let levels = (&plan.service_levels, plan.lanes);
            warm.weave = WeaveMender::new(&inventory.fabric, &plan.lids, &plan.tables, levels);
        }
        if warm.spare.is_none() && warm.can_repair() {
            warm.spare = Some(Spare::new(inventory, &job.installed, plan));
        }
        warm
    }
}
