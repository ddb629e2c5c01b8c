//! Tables that leave no entry in force above them.

use selvedge_plan::{BLOCK_LIDS, Installed, NO_PATH, Tables};
use selvedge_types::Lid;

/// Tables that reach as far as entries in force: where the highest LIDs are gone, a lower LinearFDBTop would only put
/// their entries to sleep, and whoever raised it again would bring them into force before they are written.
pub fn covering(tables: Tables, installed: &Installed) -> Tables {
    let beyond = |blocks: &Vec<Option<[u8; BLOCK_LIDS]>>| {
        let known = blocks.iter().enumerate().skip(tables.blocks());
        let lids = known.filter_map(|(block, held)| {
            let last = held.as_ref()?.iter().rposition(|&port| port != NO_PATH)?;
            u16::try_from(block * BLOCK_LIDS + last).ok()
        });
        lids.max()
    };
    let Some(top) = installed.lfts.iter().filter_map(beyond).max() else {
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

#[cfg(test)]
mod tests {
    use selvedge_fabric::SwitchIdx;
    use selvedge_types::Idx;

    use super::*;

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
}
