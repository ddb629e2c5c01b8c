//! The entries that a manager changes after each cut.

use selvedge_fabric::PortRef;
use selvedge_plan::{BLOCK_LIDS, Tables};
use selvedge_routing::{EngineError, FatTree, TreeMender};
use selvedge_sim::{Par, Seed};
use selvedge_types::Lid;
use std::sync::Arc;

use super::Entry;
use crate::damage::Damaged;
use crate::in_force::InForce;

/// A fabric that loses cables one after another, and the tables of its manager.
pub(super) struct Repairs<'a> {
    force: &'a InForce,
    damaged: Damaged,
    /// Repairs fat trees in place, until it cannot.
    mender: Option<TreeMender>,
    tables: Tables,
}

impl<'a> Repairs<'a> {
    pub(super) fn new(force: &'a InForce) -> Self {
        let tree = FatTree::detect(&force.fabric, &force.options.fat_tree, Par::Sequential);
        let is_tree = force.engine == selvedge_routing::Engine::FatTree;
        Self {
            mender: tree.ok().filter(|_| is_tree).map(TreeMender::new),
            tables: force.routed.tables.clone(),
            damaged: Damaged::new(&force.fabric),
            force,
        }
    }

    /// Loses a cable, and returns the entries of the repair. A cable of a host needs none.
    pub(super) fn lose(&mut self, at: PortRef) -> Result<Vec<Entry>, EngineError> {
        let fabric = &self.force.fabric;
        let ends: Vec<_> = std::iter::once(at)
            .chain(fabric.peer(at))
            .filter_map(|end| Some((fabric.switch_index(end.node)?, end.port)))
            .collect();
        if ends.len() < 2 || !self.damaged.fabric.link_is_up(at) {
            return Ok(Vec::new());
        }
        self.damaged.lose(&[at]);
        let before = self.tables.clone();
        let lids = &self.force.lids;
        let in_place = self
            .mender
            .as_mut()
            .and_then(|mender| mender.lose(lids, &mut self.tables, &ends, |_, _| true));
        if in_place.is_none() {
            self.mender = None;
            let mut options = self.force.options.clone();
            options.previous = Some(Arc::new(before.clone()));
            let engine = self.force.engine;
            let routed = engine.route(&self.damaged.fabric, lids, &options, Seed(0), Par::Sequential)?;
            self.tables = routed.tables;
        }
        Ok(self.differences(&before))
    }

    fn differences(&self, old: &Tables) -> Vec<Entry> {
        let mut entries = Vec::new();
        for block in 0..old.blocks().min(self.tables.blocks()) {
            let rows = old.tile(block).iter().zip(self.tables.tile(block));
            for (switch, (was, now)) in (0..).zip(rows).filter(|(_, (was, now))| was != now) {
                for (column, (_, &egress)) in was.iter().zip(now).enumerate().filter(|(_, (was, now))| was != now) {
                    entries.push(Entry {
                        switch: selvedge_fabric::SwitchIdx(switch),
                        lid: Lid((block * BLOCK_LIDS + column) as u16),
                        egress,
                    });
                }
            }
        }
        entries
    }
}
