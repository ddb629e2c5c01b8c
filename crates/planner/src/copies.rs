//! Multicast tables during route planning: what switches copy meanwhile, and groups that must be taken apart first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::multicast::{MftBlocks, MulticastChange, MulticastGroups, MulticastTables};
use selvedge_types::{Guid, Lid};
use selvedge_verify::Judged;
use selvedge_verify::standing::CopyTurns;

/// Multicast groups and tables in force while routes are planned.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// All groups.
    pub groups: Arc<MulticastGroups>,
    /// Current MFT blocks of the switches, by GUID.
    pub held: Arc<BTreeMap<Guid, MftBlocks>>,
    /// Channel dependencies of copies, for a standing proof.
    pub turns: Arc<CopyTurns>,
}

impl Copies {
    /// Returns the current multicast tables of a fabric.
    pub(crate) fn tables(&self, fabric: &Fabric) -> MulticastTables {
        let mut tables = MulticastTables::new(fabric.switches().len());
        for switch in fabric.switches().indices() {
            let held = self.held.get(&fabric.switch(switch).guid);
            for (&place, &data) in held.into_iter().flatten() {
                tables.set_block(switch, place, data);
            }
        }
        tables
    }
}

/// Groups that are taken apart: each switch copies only to its own members.
#[derive(Clone, Debug)]
pub struct TakenApart {
    /// The judged change that does this.
    pub change: Judged<MulticastChange>,
    /// The groups.
    pub groups: BTreeSet<Lid>,
}
