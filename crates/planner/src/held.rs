//! Compares the tables of the switches with their known contents, before a plan is made.

use selvedge_fabric::{Fabric, Node, NodeIdx, Port, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Installed, NO_PATH, Plan, Tables};
use selvedge_types::{Idx, Lid, LidRange, PortNum, PortState};

use crate::inventory::Inventory;
use crate::lanes;

/// True if a link between switches is up and carries nothing yet. Keeping every entry that is still good would leave
/// the link unused, so tables are then planned from scratch, as OpenSM does when a switch port was reset. By contrast,
/// when a link is lost or hosts join or leave, only the entries that must change are changed.
pub(crate) fn gained_capacity(fabric: &Fabric) -> bool {
    let carries_nothing = |at: PortRef| {
        fabric.node(at.node).is_switch() && fabric.port(at).is_some_and(|p| p.link.state != PortState::Active)
    };
    fabric
        .links()
        .any(|l| carries_nothing(l.a) && carries_nothing(l.b) && fabric.link_is_up(l.a))
}

/// True if a link between switches is up but no entry uses it: it came back, and no entry has moved to it yet.
pub(crate) fn has_idle_link(fabric: &Fabric, installed: &Installed) -> bool {
    let used: Vec<[bool; 256]> = (installed.lfts.iter())
        .map(|blocks| {
            let mut used = [false; 256];
            let entries = blocks.iter().flatten().flatten();
            entries.for_each(|&port| used[usize::from(port)] = true);
            used
        })
        .collect();
    let is_idle = |at: PortRef| {
        let switch = fabric.switch_index(at.node);
        switch.is_some_and(|s| used.get(s.to_usize()).is_some_and(|used| !used[at.port.index()]))
    };
    fabric
        .links()
        .any(|link| fabric.link_is_up(link.a) && is_idle(link.a) && is_idle(link.b))
}

/// Returns the known contents of the switches as tables, from which engines keep entries that are still good. `None` if
/// nothing is known.
pub(crate) fn previous_tables(installed: &Installed, switches: usize, top: Lid) -> Option<Tables> {
    let mut tables = Tables::new(switches, top);
    let mut known = false;
    for (switch, blocks) in installed
        .lfts
        .iter_enumerated()
        .filter(|(s, _)| s.to_usize() < switches)
    {
        for (block, data) in blocks.iter().enumerate().take(tables.blocks()) {
            if let Some(data) = data {
                *tables.block_mut(switch, block) = *data;
                known |= data.iter().any(|&port| port != NO_PATH);
            }
        }
    }
    known.then_some(tables)
}

/// Extends tables until they cover all entries in force. If the highest LIDs are gone, a lower LinearFDBTop would only
/// hide their entries; if it is raised again later, these entries take effect before they are rewritten. Entries of the
/// last block above the highest LID count as well.
pub(crate) fn covering(tables: Tables, installed: &Installed) -> Tables {
    let last_of = |block: usize, data: &[u8; BLOCK_LIDS]| {
        let last = data.iter().rposition(|&port| port != NO_PATH)?;
        u16::try_from(block * BLOCK_LIDS + last).ok()
    };
    let beyond = |blocks: &Vec<Option<[u8; BLOCK_LIDS]>>| {
        let known = blocks.iter().enumerate().skip(tables.blocks());
        known.filter_map(|(block, held)| last_of(block, held.as_ref()?)).max()
    };
    let last = tables.blocks() - 1;
    let stay = tables.tile(last).iter().filter_map(|data| last_of(last, data));
    let held = installed.lfts.iter().filter_map(beyond);
    let Some(top) = held.chain(stay).max().filter(|&top| top > tables.top().0) else {
        return tables;
    };
    with_top(tables, Lid(top))
}

/// Returns tables with another LinearFDBTop, and as many of the entries as fit.
pub(crate) fn with_top(tables: Tables, top: Lid) -> Tables {
    if tables.top() == top {
        return tables;
    }
    let mut other = Tables::new(tables.switches(), top);
    for switch in tables.switch_indices() {
        for block in 0..tables.blocks().min(other.blocks()) {
            *other.block_mut(switch, block) = *tables.block(switch, block);
        }
    }
    other
}

/// Returns the blocks of one switch that must be read back before a plan can be compared with them.
fn blocks_to_read(installed: &Installed, switch: SwitchIdx, linear_top: u16) -> Vec<usize> {
    (0..=usize::from(linear_top) / 64)
        .filter(|&block| installed.block(switch, block).is_none())
        .collect()
}

/// True if a switch may have been powered off since its tables were known. (It may have its LID and LinearFDBTop
/// nevertheless, from Sets that were in flight when it came back.) This is assumed if no link of the switch has stayed
/// ACTIVE since the last plan. `seen` is the fabric before that plan, `left` the fabric after it. For a switch that was
/// new in `seen`, links that the plan itself activated count too, because the plan wrote all its tables before.
pub fn may_have_been_off(now: &Fabric, node: NodeIdx, seen: &Fabric, left: &Fabric) -> bool {
    let guid = now.node(node).guid;
    let find = |fabric: &Fabric| fabric.find(guid).filter(|&at| fabric.switch_index(at).is_some());
    let was_fresh = find(seen).is_none_or(|at| seen.node(at).switch_settings.linear_top == 0);
    let before = if was_fresh { left } else { seen };
    let is_active = |fabric: &Fabric, node: NodeIdx, port: PortNum| {
        let port = fabric.port(PortRef { node, port });
        port.is_some_and(|port| port.link.state == PortState::Active)
    };
    let Some(known) = find(before) else { return true };
    let mut ports = now.node(node).external_ports().map(|(port, _)| port);
    !ports.any(|port| is_active(before, known, port) && is_active(now, node, port))
}

/// State of the fabric and its tables at the manager's last plan.
#[derive(Clone, Copy, Debug)]
pub struct LastKnown<'a> {
    /// The plan in force.
    pub plan: &'a Plan,
    /// The fabric after the plan was applied.
    pub fabric: &'a Fabric,
    /// The fabric of the last plan.
    pub seen: &'a Fabric,
    /// The tables of the switches when the last plan was made.
    pub installed: &'a Installed,
}

/// Returns the tables that remain known: those of switches that still have the settings that the manager wrote. Nothing
/// remains known in these cases: the local port was down (another master may even have its LID), cables were moved, or
/// ports have other LIDs.
#[must_use]
pub fn carried(last: &LastKnown<'_>, inventory: &Inventory) -> Installed {
    let (old, fabric) = (last.fabric, &inventory.fabric);
    let mut installed = Installed::unknown(fabric.switches().len());
    let own = fabric.port(inventory.local);
    let is_down = |own: &Port| inventory.local.port != PortNum::MANAGEMENT && own.link.state != PortState::Active;
    if own.is_none_or(is_down) || is_recabled(old, fabric) || is_renumbered(old, fabric) {
        return installed;
    }
    installed.lanes = lanes::carried(&last.installed.lanes, old, fabric);
    for (switch, &node) in fabric.switches().iter_enumerated() {
        let seen = fabric.node(node);
        let before = old.find(seen.guid).and_then(|n| old.switch_index(n));
        let sm_lid = |n: &Node| n.port(PortNum::MANAGEMENT).map(|p| p.settings.sm_lid);
        // Another manager may have been master meanwhile.
        let is_ours = |before: SwitchIdx| sm_lid(seen) == sm_lid(old.switch(before));
        let same_top = seen.switch_settings.linear_top == last.plan.tables.top().0;
        let stayed_on = || !may_have_been_off(fabric, node, last.seen, old);
        if let Some(before) = before.filter(|&before| same_top && is_ours(before) && stayed_on()) {
            installed.lfts[switch].clone_from(&last.installed.lfts[before]);
        }
    }
    installed
}

/// Returns the LFT blocks that must be read before a plan can be made. The caller takes them from the end of the list.
/// Consecutive blocks of the list belong to different agents, so that agents are read in parallel.
pub fn unread(fabric: &Fabric, installed: &Installed) -> Vec<(SwitchIdx, usize)> {
    let mut todo = Vec::new();
    for switch in fabric.switches().indices() {
        let node = fabric.switch(switch);
        let top = node.switch_settings.linear_top;
        if top > 0 {
            let cap = node.switch.map_or(0, |s| s.linear_cap.saturating_sub(1));
            let blocks = blocks_to_read(installed, switch, top.min(cap));
            todo.extend(blocks.into_iter().map(|block| (switch, block)));
        }
    }
    todo.sort_unstable_by_key(|&(switch, block)| std::cmp::Reverse((block, switch)));
    todo
}

/// True if a port has LIDs other than those that this manager set. Then Sets of LIDs reached the wrong ports, over a
/// cable that was moved and may be back in its place. Sets of tables may have reached wrong switches in the same way.
fn is_renumbered(old: &Fabric, new: &Fabric) -> bool {
    let is_other = |at: PortRef, held: LidRange| {
        let node = old.find(new.node(at.node).guid)?;
        let before = old.port(PortRef { node, port: at.port })?.settings.lids;
        Some(held.base.is_unicast() && before.base.is_unicast() && before != held)
    };
    let mut ports = new.end_ports();
    ports.any(|(at, port)| is_other(at, port.settings.lids) == Some(true))
}

/// True if a cable that is still plugged in leads to another port than before. Sets that were sent by directed routes
/// over this cable may have reached other switches.
fn is_recabled(old: &Fabric, new: &Fabric) -> bool {
    let named = |fabric: &Fabric, at: PortRef| (fabric.node(at.node).guid, at.port);
    let leads_elsewhere = |at: PortRef, to: PortRef| {
        let node = new.find(old.node(at.node).guid);
        let peer = node.and_then(|node| new.peer(PortRef { node, port: at.port }));
        peer.is_some_and(|peer| named(new, peer) != named(old, to))
    };
    old.links()
        .any(|link| leads_elsewhere(link.a, link.b) || leads_elsewhere(link.b, link.a))
}

/// True if a port of a switch is ACTIVE and no known node is behind it.
pub fn has_silent_link(fabric: &Fabric) -> bool {
    let is_silent = |node: NodeIdx, port: PortNum, state: PortState| {
        state == PortState::Active && fabric.peer(PortRef { node, port }).is_none()
    };
    fabric.switches().iter().any(|&node| {
        let mut ports = fabric.node(node).external_ports();
        ports.any(|(port, seen)| is_silent(node, port, seen.link.state))
    })
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::SwitchIdx;
    use selvedge_types::Idx;

    use super::*;
    use crate::made::{FAR, FIRST, SECOND, guid, info, inventory, port, row};

    #[test]
    fn a_switch_none_of_whose_links_stayed_active_may_have_been_off() {
        use PortState::{Active, Init};
        // Arguments: the port states when the plan was made, after it, and now. `is_fresh`: the switch had no tables
        // when the plan was made.
        let check = |is_fresh: bool, states: [[PortState; 2]; 3], want: bool| {
            let [seen, left, now] =
                [(states[0], is_fresh), (states[1], false), (states[2], false)].map(|(ports, is_fresh)| {
                    let mut found = row();
                    for (port, state) in [1, 2].into_iter().zip(ports) {
                        found[SECOND].ports[port].info = Some(info(state));
                    }
                    if is_fresh {
                        found[SECOND].switch.as_mut().unwrap().linear_top = Lid::NONE;
                    }
                    inventory(found).fabric
                });
            let node = now.find(guid(SECOND)).unwrap();
            assert_eq!(
                may_have_been_off(&now, node, &seen, &left),
                want,
                "{is_fresh} {states:?}"
            );
        };
        check(false, [[Active; 2]; 3], false);
        check(false, [[Active; 2], [Active; 2], [Active, Init]], false);
        check(false, [[Active; 2], [Active; 2], [Init; 2]], true);
        // The plan activated one port. The switch may have been off before that.
        check(false, [[Init, Active], [Active; 2], [Active, Init]], true);
        check(true, [[Init; 2], [Active; 2], [Active, Init]], false);
        check(true, [[Init; 2], [Active; 2], [Init; 2]], true);
    }

    #[test]
    fn tables_reach_as_far_as_entries_in_force() {
        let check = |top: u16, held: &[(usize, Option<usize>)], want: u16| {
            let mut installed = Installed::unknown(2);
            for &(block, entry) in held {
                let mut data = [NO_PATH; BLOCK_LIDS];
                entry.into_iter().for_each(|entry| data[entry] = 3);
                installed.learn(SwitchIdx::from_usize(1), block, data);
            }
            let mut tables = Tables::new(2, Lid(top));
            tables.set(SwitchIdx::from_usize(0), Lid(top), 7);
            let wider = covering(tables, &installed);
            assert_eq!(wider.top(), Lid(want), "{held:?}");
            assert_eq!(wider.get(SwitchIdx::from_usize(0), Lid(top)), 7);
            assert_eq!(wider.get(SwitchIdx::from_usize(1), Lid(want)), NO_PATH);
        };
        check(63, &[], 63);
        check(60, &[(0, Some(5)), (1, None)], 60);
        check(63, &[(1, Some(0))], 64);
        check(10, &[(1, Some(9)), (3, Some(2))], 194);
    }

    #[test]
    fn tables_reach_as_far_as_their_own_entries() {
        let check = |top: u16, kept: Option<usize>, want: u16| {
            let mut tables = Tables::new(2, Lid(top));
            let last = tables.blocks() - 1;
            let entry = kept.map(|column| &mut tables.block_mut(SwitchIdx::from_usize(1), last)[column]);
            entry.into_iter().for_each(|entry| *entry = 3);
            let wider = covering(tables, &Installed::unknown(2));
            assert_eq!(wider.top(), Lid(want), "{top} {kept:?}");
            let held = kept.map(|column| wider.block(SwitchIdx::from_usize(1), last)[column]);
            assert_eq!(held, kept.map(|_| 3));
        };
        check(20, None, 20);
        check(20, Some(19), 20);
        check(20, Some(24), 24);
        check(63, Some(63), 63);
        check(64, Some(3), 67);
    }

    #[test]
    fn tables_are_not_carried_over_cables_that_were_moved() {
        let check = |cables: &[(usize, u8)], want: bool| {
            let old = inventory(row());
            let mut found = row();
            for &(node, num) in cables {
                found[node].ports[usize::from(num)].peer = None;
            }
            if let [(a, from), _, (b, to), ..] = *cables {
                found[a].ports[usize::from(from)].peer = Some((b, port(to)));
                found[b].ports[usize::from(to)].peer = Some((a, port(from)));
            }
            assert_eq!(is_recabled(&old.fabric, &inventory(found).fabric), want, "{cables:?}");
        };
        check(&[], false);
        // Unplugged at both ends.
        check(&[(FIRST, 2), (SECOND, 1)], false);
        // The far host is behind the first switch now.
        check(&[(FIRST, 2), (SECOND, 1), (FAR, 1), (SECOND, 2)], true);
    }

    #[test]
    fn tables_are_not_carried_over_if_a_port_holds_other_lids_than_it_was_left_with() {
        let check = |left_with: u16, holds: u16, want: bool| {
            for (node, num) in [(SECOND, 0), (FAR, 1)] {
                let fabric = |lid: u16| {
                    let mut found = row();
                    found[node].ports[num].info.as_mut().unwrap().lid = Lid(lid);
                    inventory(found).fabric
                };
                let is_so = is_renumbered(&fabric(left_with), &fabric(holds));
                assert_eq!(is_so, want, "{node} {left_with} {holds}");
            }
        };
        check(4, 4, false);
        check(4, 5, true);
        // The switch was reset, or has just got its tables.
        check(4, 0, false);
        check(0, 4, false);
    }
}
