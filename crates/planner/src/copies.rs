//! Multicast tables beside routes: what switches copy while routes are planned, and groups that are taken apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::Fabric;
use selvedge_plan::multicast::{MftBlocks, MulticastChange, MulticastGroups, MulticastTables};
use selvedge_types::{Guid, Lid};
use selvedge_verify::Judged;
use selvedge_verify::standing::CopyTurns;

/// What switches copy while routes are planned.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// All groups.
    pub groups: Arc<MulticastGroups>,
    /// MFT blocks that switches hold, by GUID.
    pub held: Arc<BTreeMap<Guid, MftBlocks>>,
    /// What copies wait for, for a proof that stands.
    pub turns: Arc<CopyTurns>,
}

impl Copies {
    /// Returns what switches of a fabric hold.
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

/// Groups that are taken apart.
#[derive(Clone, Debug)]
pub struct TakenApart {
    /// The way there.
    pub change: Judged<MulticastChange>,
    /// The groups.
    pub groups: BTreeSet<Lid>,
}
