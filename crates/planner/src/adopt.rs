//! Keeps tables that another manager left in the switches, as long as the judge accepts them.
//!
//! A routing engine keeps only entries that fit its own order of switches, and tables of another manager may follow
//! another order: the `updn` of OpenSM and that of Selvedge rank an irregular graph differently. Such tables may still
//! be correct, and then they stay. If some entries are wrong, only the LIDs with packets that would not be delivered
//! get new routes, as after a lost link, in an order that fits the other entries. Later repairs do the same as long as
//! found tables are kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, NO_PATH, Policy, Tables};
use selvedge_routing::{Engine, Note, Options, WeaveOptions};
use selvedge_sim::{Par, Seed};
use selvedge_types::{IdxVec, Lid, PortNum};

/// Origin of the tables in force, as far as a plan needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Adopt {
    /// An engine of this manager made the tables, and decides which entries stay.
    #[default]
    No,
    /// The tables were found when this manager became master.
    Found,
    /// The tables were found, and have been kept since.
    Kept,
}

impl Adopt {
    /// Returns the origin of the tables in force. It follows from three facts: whether there is a plan in force,
    /// whether that plan keeps found tables, and whether this manager made the tables with other engines than those of
    /// the current policy.
    pub const fn of(has_plan: bool, keeps_found: bool, wants_others: bool) -> Self {
        match (has_plan, keeps_found, wants_others) {
            (false, _, false) => Self::Found,
            (true, true, _) => Self::Kept,
            (false, _, true) | (true, false, _) => Self::No,
        }
    }
}

/// Returns found tables with new routes for the LIDs with packets that would not be delivered, as after a lost link.
/// `None` if more would have to change: the tables can deadlock as they are, or more than a tenth of the entries would
/// move.
pub(crate) fn mended(fabric: &Fabric, lids: &Lids, found: &Tables, par: Par) -> Option<Tables> {
    let options = Options {
        previous: Some(Arc::new(found.clone())),
        weave: WeaveOptions {
            previous_levels: Some(Arc::default()),
            ..WeaveOptions::default()
        },
        lanes: Some(1),
        ..Options::default()
    };
    let routed = Engine::Weave.route(fabric, lids, &options, Seed(0), par).ok()?;
    // If more must change, the policy's engine plans instead.
    let most = fabric.switches().len() * lids.len() / 10;
    let is_mended = |note: &Note| matches!(note, Note::Repaired { rewoven: 0, entries, .. } if *entries <= most);
    routed.notes.iter().any(is_mended).then_some(routed.tables)
}

/// Removes entries that form a loop which no host sends into. For LIDs without an owner, every entry at a switch on the
/// path into the loop is removed too. For LIDs of switches, the loop itself is removed if no host is attached to it.
/// Otherwise stray packets could fill the links of the loop, and the judge would refuse all found tables. Loops of host
/// LIDs, and loops that packets of hosts reach, stay: the judge decides on those.
pub(crate) fn drop_idle_circles(fabric: &Fabric, lids: &Lids, tables: &mut Tables) {
    let next = |tables: &Tables, switch: SwitchIdx, lid: Lid| {
        let port = PortNum::new(tables.get(switch, lid))?;
        let node = fabric.switches()[switch];
        let far = fabric.peer(PortRef { node, port })?;
        fabric.switch_index(far.node).filter(|_| port != PortNum::MANAGEMENT)
    };
    let has_hosts = |switch: SwitchIdx| {
        let mut far = fabric.switch(switch).external_ports().filter_map(|(_, port)| port.peer);
        far.any(|far| fabric.switch_index(far.node).is_none())
    };
    let with_hosts: Vec<SwitchIdx> = fabric.switches().indices().filter(|&at| has_hosts(at)).collect();
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    for lid in (1..=tables.top().0).map(Lid) {
        let owner = lids.owner(lid);
        if owner.is_some_and(|at| !is_switch(at)) {
            continue;
        }
        let round = going_round(fabric, |switch| next(tables, switch, lid));
        let is_idle = !with_hosts.iter().any(|switch| round.contains(switch));
        for switch in fabric.switches().indices().filter(|_| !round.is_empty()) {
            if owner.is_none() || is_idle && round.contains(&switch) {
                tables.set(switch, lid, NO_PATH);
            }
        }
    }
}

/// Returns the switches from which packets loop, given the next switch of each.
fn going_round(fabric: &Fabric, next: impl Fn(SwitchIdx) -> Option<SwitchIdx>) -> BTreeSet<SwitchIdx> {
    // By switch: the walk that visited it first.
    let mut met: IdxVec<SwitchIdx, Option<SwitchIdx>> = IdxVec::filled(None, fabric.switches().len());
    let mut round = BTreeSet::new();
    for first in fabric.switches().indices() {
        let mut way = Vec::new();
        let mut at = Some(first);
        while let Some(here) = at.filter(|&here| met[here].is_none()) {
            met[here] = Some(first);
            way.push(here);
            at = next(here);
        }
        if at.is_some_and(|here| met[here] == Some(first) || round.contains(&here)) {
            round.extend(way);
        }
    }
    round
}

/// True if two policies want the same routes on the same fabric.
pub fn route_alike(a: &Policy, b: &Policy) -> bool {
    a.engines == b.engines
        && a.count_switches == b.count_switches
        && a.lmc == b.lmc
        && a.used_lanes == b.used_lanes
        && a.assume_sl_aware == b.assume_sl_aware
        && a.multicast_lane == b.multicast_lane
        && a.roots == b.roots
        && a.compute == b.compute
        && a.io == b.io
        && a.guid_order == b.guid_order
}

#[cfg(test)]
mod tests {
    use selvedge_types::{Guid, LidRange, Lmc};

    use super::*;
    use crate::made::{FAR, FIRST, NEAR, SECOND, guid, inventory, row};

    #[test]
    fn circles_that_no_host_fills_are_dropped() {
        // Arguments: the owner of LID 5, whether there is a host at each switch, the entries for LID 5 at the two
        // switches, and what is left of them.
        let check = |owner: Option<usize>, hosts: bool, entries: [u8; 2], want: [u8; 2]| {
            let mut found = row();
            for (node, num) in [(FIRST, 1), (SECOND, 2)] {
                if !hosts {
                    found[node].ports[num].peer = None;
                }
            }
            if !hosts {
                (found[NEAR].ports[1].peer, found[FAR].ports[1].peer) = (None, None);
            }
            let fabric = inventory(found).fabric;
            let switch = |at| fabric.switch_index(fabric.find(guid(at)).unwrap()).unwrap();
            let [first, second] = [FIRST, SECOND].map(switch);
            let mut tables = Tables::new(2, Lid(9));
            tables.set(first, Lid(5), entries[0]);
            tables.set(second, Lid(5), entries[1]);
            let mut lids = Lids::new();
            if let Some(owner) = owner {
                let of_host = u64::from(owner == FAR);
                let at = fabric.find_port(Guid(guid(owner).0 + of_host)).unwrap();
                let (base, lmc) = (Lid(5), Lmc::default());
                lids.insert(at, LidRange { base, lmc }).unwrap();
            }
            drop_idle_circles(&fabric, &lids, &mut tables);
            let left = [first, second].map(|switch| tables.get(switch, Lid(5)));
            assert_eq!(left, want, "{owner:?} {hosts} {entries:?}");
        };
        check(None, true, [2, 1], [NO_PATH, NO_PATH]);
        check(None, true, [2, 2], [2, 2]);
        check(None, true, [1, 1], [1, 1]);
        check(None, true, [0, 1], [0, 1]);
        // The judge decides on this case.
        check(Some(FIRST), true, [2, 1], [2, 1]);
        check(Some(FAR), false, [2, 1], [2, 1]);
        check(Some(FIRST), false, [2, 1], [NO_PATH, NO_PATH]);
        check(Some(FIRST), false, [0, 1], [0, 1]);
    }
}
