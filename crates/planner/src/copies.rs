//! Multicast tables during route planning: the copies that switches make in the meantime, and the groups that must be
//! taken apart first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::multicast::{MftBlocks, MulticastChange, MulticastGroups, MulticastTables, PortMask};
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
        self.tables_without(fabric, &BTreeSet::new())
    }

    /// Returns the current multicast tables of a fabric. Switches that are left out count as unknown, because their
    /// tables cannot be changed.
    pub(crate) fn tables_without(&self, fabric: &Fabric, left_out: &BTreeSet<Guid>) -> MulticastTables {
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

    /// Returns the ports of switches to which packets of some group are copied, as far as known.
    #[must_use]
    pub fn ports(&self, fabric: &Fabric) -> BTreeSet<PortRef> {
        let tables = self.tables(fabric);
        let mlids = tables.mlids();
        let mut ports = BTreeSet::new();
        for (switch, &node) in fabric.switches().iter_enumerated() {
            let masks = mlids.iter().map(|&mlid| tables.mask(switch, mlid));
            let copied_to = masks.fold(PortMask::default(), PortMask::union);
            let all = fabric.node(node).external_ports().map(|(port, _)| port);
            let used = all.filter(|&port| copied_to.contains(port));
            ports.extend(used.map(|port| PortRef { node, port }));
        }
        ports
    }
}

/// Groups that are taken apart: each switch copies only to its own members.
#[derive(Clone, Debug)]
pub struct TakenApart {
    /// The judged change that takes the groups apart.
    pub change: Judged<MulticastChange>,
    /// The groups.
    pub groups: BTreeSet<Lid>,
}
