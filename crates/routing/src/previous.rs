//! Carries the tables of an earlier snapshot over to this one.

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{NO_PATH, Tables};
use selvedge_types::Lid;

/// Returns the tables that were in force on fabric `old`, with the switch indices of fabric `new`. Rows follow the GUID
/// of their switch; a switch that is not in `old` gets a row without entries.
#[must_use]
pub fn carry_over(old: &Fabric, tables: &Tables, new: &Fabric) -> Tables {
    let mut carried = Tables::new(new.switches().len(), tables.top());
    for (to, &node) in new.switches().iter_enumerated() {
        let from = old.find(new.node(node).guid).and_then(|n| old.switch_index(n));
        let Some(from) = from.filter(|&SwitchIdx(s)| (s as usize) < tables.switches()) else {
            continue;
        };
        for block in 0..tables.blocks() {
            *carried.block_mut(to, block) = *tables.block(from, block);
        }
    }
    carried
}

/// Returns the previous egress for a LID, if there was one.
pub(crate) fn egress(previous: Option<&Tables>, switch: SwitchIdx, lid: Lid) -> Option<u8> {
    previous.map(|t| t.get(switch, lid)).filter(|&port| port != NO_PATH)
}
