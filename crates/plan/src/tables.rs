//! Linear forwarding tables of all switches, in tiles.

use selvedge_fabric::SwitchIdx;
use selvedge_types::{Idx, Lid};

/// LIDs per LinearForwardingTable block. Source: IBA vol 1 §14.2.5.10.
pub const BLOCK_LIDS: usize = 64;
/// The entry of a LID that is not forwarded: packets are dropped.
pub const NO_PATH: u8 = 255;

/// The egress port of every (switch, LID).
///
/// Tile `b` contains block `b` of every switch, one after another. A row of a tile is one cache line and one SMP's
/// payload. Tiles are independent, so they are filled in parallel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    switches: usize,
    top: Lid,
    rows: Vec<[u8; BLOCK_LIDS]>,
}

impl Tables {
    /// Returns tables with all entries [`NO_PATH`], for LIDs 0 to `top`.
    #[must_use]
    pub fn new(switches: usize, top: Lid) -> Self {
        let blocks = top.index() / BLOCK_LIDS + 1;
        Self {
            switches,
            top,
            rows: vec![[NO_PATH; BLOCK_LIDS]; switches * blocks],
        }
    }

    /// Returns the address range of the entries, so that a caller can ask for larger pages there.
    #[must_use]
    pub fn memory(&self) -> std::ops::Range<usize> {
        let std::ops::Range { start, end } = self.rows.as_ptr_range();
        start.addr()..end.addr()
    }

    /// Returns the number of switches.
    #[must_use]
    pub const fn switches(&self) -> usize {
        self.switches
    }

    /// Returns the highest LID.
    #[must_use]
    pub const fn top(&self) -> Lid {
        self.top
    }

    /// Returns the number of blocks of each switch.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        self.top.index() / BLOCK_LIDS + 1
    }

    /// Returns the egress port of `lid` at `switch`; [`NO_PATH`] above [`Self::top`].
    #[inline]
    #[must_use]
    pub fn get(&self, switch: SwitchIdx, lid: Lid) -> u8 {
        if lid > self.top {
            return NO_PATH;
        }
        self.rows[self.row(switch, lid.index() / BLOCK_LIDS)][lid.index() % BLOCK_LIDS]
    }

    /// Changes an entry.
    ///
    /// # Panics
    /// If `lid` is above [`Self::top`].
    pub fn set(&mut self, switch: SwitchIdx, lid: Lid, egress: u8) {
        assert!(lid <= self.top, "LID {lid} above {}", self.top);
        let row = self.row(switch, lid.index() / BLOCK_LIDS);
        self.rows[row][lid.index() % BLOCK_LIDS] = egress;
    }

    /// Returns one block of one switch, which is the payload of one SMP.
    #[inline]
    #[must_use]
    pub fn block(&self, switch: SwitchIdx, block: usize) -> &[u8; BLOCK_LIDS] {
        &self.rows[self.row(switch, block)]
    }

    /// Returns one block of all switches, by switch.
    ///
    /// # Panics
    /// If there is no such block.
    #[must_use]
    pub fn tile(&self, block: usize) -> &[[u8; BLOCK_LIDS]] {
        &self.rows[block * self.switches..(block + 1) * self.switches]
    }

    /// Returns one block of one switch for changes.
    pub fn block_mut(&mut self, switch: SwitchIdx, block: usize) -> &mut [u8; BLOCK_LIDS] {
        let row = self.row(switch, block);
        &mut self.rows[row]
    }

    /// Returns the tiles in order of blocks; each has a row per switch.
    pub fn tiles_mut(&mut self) -> Vec<&mut [[u8; BLOCK_LIDS]]> {
        self.rows.chunks_mut(self.switches.max(1)).collect()
    }

    #[inline]
    const fn row(&self, switch: SwitchIdx, block: usize) -> usize {
        block * self.switches + switch.0 as usize
    }

    /// Returns the indexes of all switches.
    pub fn switch_indices(&self) -> impl Iterator<Item = SwitchIdx> + use<> {
        (0..self.switches).map(SwitchIdx::from_usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_blocks_are_the_same_bytes() {
        let mut tables = Tables::new(3, Lid(130));
        assert_eq!(tables.blocks(), 3);
        tables.set(SwitchIdx(2), Lid(65), 7);
        assert_eq!(tables.get(SwitchIdx(2), Lid(65)), 7);
        assert_eq!(tables.block(SwitchIdx(2), 1)[1], 7);
        assert_eq!(tables.get(SwitchIdx(1), Lid(65)), NO_PATH);
        assert_eq!(tables.get(SwitchIdx(1), Lid(131)), NO_PATH);
        assert_eq!(tables.tiles_mut()[1][2][1], 7);
    }
}
