//! Compares what switches hold with what is known, before a plan is made.

use selvedge_fabric::{Fabric, NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Installed, NO_PATH, Tables};
use selvedge_types::{Idx, Lid, LidRange, PortNum, PortState};

/// True if a link between switches is up that carries nothing yet. Keeping every entry that is still good would leave
/// it idle for ever, so tables are then balanced afresh, as OpenSM does when a switch port was reset. (A link that is
/// lost, and hosts that come and go, move only what they must.)
pub fn gained_capacity(fabric: &Fabric) -> bool {
    let carries_nothing = |at: PortRef| {
        fabric.node(at.node).is_switch() && fabric.port(at).is_some_and(|p| p.link.state != PortState::Active)
    };
    fabric
        .links()
        .any(|l| carries_nothing(l.a) && carries_nothing(l.b) && fabric.link_is_up(l.a))
}

/// True if a link between switches is up and no entry uses it: it came back, and nothing has moved yet.
pub fn has_idle_link(fabric: &Fabric, installed: &Installed) -> bool {
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

/// What the switches hold, as tables: engines keep entries that are still good. `None` if nothing is known.
pub fn previous_tables(installed: &Installed, switches: usize, top: Lid) -> Option<Tables> {
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

/// Tables that reach as far as entries in force: where the highest LIDs are gone, a lower LinearFDBTop would only put
/// their entries to sleep, and whoever raised it again would bring them into force before they are written. In blocks
/// that the tables have, those are the entries that stay.
pub fn covering(tables: Tables, installed: &Installed) -> Tables {
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
    let mut wider = Tables::new(tables.switches(), Lid(top));
    for switch in tables.switch_indices() {
        for block in 0..tables.blocks().min(wider.blocks()) {
            *wider.block_mut(switch, block) = *tables.block(switch, block);
        }
    }
    wider
}

/// Blocks of one switch that must be read back before a plan can be compared with them.
#[must_use]
pub fn blocks_to_read(installed: &Installed, switch: SwitchIdx, linear_top: u16) -> Vec<usize> {
    (0..=usize::from(linear_top) / 64)
        .filter(|&block| installed.block(switch, block).is_none())
        .collect()
}

/// True if a switch may have been off since its tables were known, and have got its LID and its LinearFDBTop back by
/// what was on its way: none of its links is ACTIVE still that was when the last plan was made of what was `seen`. Of
/// one that was fresh then, and was given all its tables, those count that were activated after them, as in the fabric
/// that the plan left.
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

/// Blocks that must be known before anything is planned, in the order in which they are taken from the end: consecutive
/// ones go to different agents.
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

/// True if a port holds other LIDs than it was left with: Sets went to others than they were meant for, over a cable
/// that was moved and may be back where it was, and so may those of tables have done.
pub fn is_renumbered(old: &Fabric, new: &Fabric) -> bool {
    let is_other = |at: PortRef, held: LidRange| {
        let node = old.find(new.node(at.node).guid)?;
        let before = old.port(PortRef { node, port: at.port })?.settings.lids;
        Some(held.base.is_unicast() && before.base.is_unicast() && before != held)
    };
    let mut ports = new.end_ports();
    ports.any(|(at, port)| is_other(at, port.settings.lids) == Some(true))
}

/// True if a cable that is still plugged in leads elsewhere than before: Sets that were sent by routes over it may have
/// been taken by other switches.
pub fn is_recabled(old: &Fabric, new: &Fabric) -> bool {
    let named = |fabric: &Fabric, at: PortRef| (fabric.node(at.node).guid, at.port);
    let leads_elsewhere = |at: PortRef, to: PortRef| {
        let node = new.find(old.node(at.node).guid);
        let peer = node.and_then(|node| new.peer(PortRef { node, port: at.port }));
        peer.is_some_and(|peer| named(new, peer) != named(old, to))
    };
    old.links()
        .any(|link| leads_elsewhere(link.a, link.b) || leads_elsewhere(link.b, link.a))
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::SwitchIdx;
    use selvedge_types::Idx;

    use super::*;
    use crate::made::{SECOND, guid, info, inventory, row};

    #[test]
    fn a_switch_none_of_whose_links_stayed_active_may_have_been_off() {
        use PortState::{Active, Init};
        // Its ports when the plan was made, after it, and now; `is_fresh`: it had no tables then.
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
        // One was activated by the plan: it may have been off before that.
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
}
