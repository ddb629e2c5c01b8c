//! Writes tables from the short forms of `rows`: mostly copying.

use selvedge_plan::{BLOCK_LIDS, Lids, NO_PATH};
use selvedge_sim::Par;
use selvedge_types::Lid;

use super::FatTree;
use super::rows::{OWN, Piece, SLOW};
use super::targets::Target;
use crate::error::EngineError;

/// The kind of a run of LIDs within one block.
#[derive(Clone, Debug)]
enum Run {
    /// No port has these LIDs.
    Unused,
    /// LIDs at leaves: their numbers are consecutive, and each LID is at the same leaf as the LID before it, or at a
    /// later one.
    Leaves { number: u32 },
    /// Consecutive destinations at upper switches.
    Uppers { first: u32 },
}

/// A run of LIDs in a block.
#[derive(Clone, Debug)]
struct Span {
    from: usize,
    to: usize,
    run: Run,
    /// By class of period: the number of the first LID, modulo the period.
    offset: Vec<u32>,
    /// By leaf, from the leaf of the first LID on: the index in the block at which the LIDs of that leaf start.
    starts: Vec<u8>,
}

/// A block's LIDs.
struct Block {
    spans: Vec<Span>,
    /// Place of each LID's leaf in the order of leaves; only for LIDs at leaves.
    leaf: [u32; BLOCK_LIDS],
    number: [u32; BLOCK_LIDS],
    /// The egress ports, with room for one more block, so that a whole block can be copied from any index.
    egress: [u8; 2 * BLOCK_LIDS],
}

/// A row that is being written. It is always written in whole blocks, because copies of a known length are the
/// quickest. The next copy overwrites surplus entries, and entries beyond the end of the row are dropped.
struct Draft([u8; 2 * BLOCK_LIDS]);

impl Draft {
    #[inline]
    fn put(&mut self, at: usize, source: Option<&[u8; BLOCK_LIDS]>) {
        let into = self.0.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<BLOCK_LIDS>);
        if let (Some(into), Some(source)) = (into, source) {
            *into = *source;
        }
    }
}

/// The current position of a switch in its row: the piece, and its index among the switch's pieces.
#[derive(Clone, Copy)]
struct Cursor {
    piece: Piece,
    at: u32,
}

/// Stands after the last piece.
const PIECE_NONE: Piece = Piece {
    from: 0,
    to: 0,
    pattern: 0,
    class: SLOW,
};

fn chunk(bytes: &[u8], at: usize) -> Option<&[u8; BLOCK_LIDS]> {
    bytes.get(at..)?.first_chunk()
}

impl FatTree {
    /// Writes every byte of `tiles`: all tiles of this fabric's tables, in order. A tile has one LFT block of every
    /// switch.
    pub(super) fn write(
        &self,
        lids: &Lids,
        mut tiles: Vec<&mut [[u8; BLOCK_LIDS]]>,
        par: Par,
    ) -> Result<(), EngineError> {
        /// Number of jobs: enough to share the work, but few, because each job first looks up its positions in the
        /// rows.
        const JOBS: usize = 16;
        let at_once = match par {
            Par::Sequential => tiles.len(),
            Par::Rayon => tiles.len().div_ceil(JOBS),
        };
        let at_once = at_once.max(1);
        let blocks = (0..tiles.len())
            .map(|b| self.block(lids, b))
            .collect::<Result<Vec<Block>, _>>()?;
        let mut jobs: Vec<&mut [&mut [[u8; BLOCK_LIDS]]]> = tiles.chunks_mut(at_once).collect();
        par.for_each_mut(&mut jobs, |job, tiles| {
            let mut cursors: Vec<Cursor> = (0..self.rule.net.real).map(|s| self.cursor_at(s, 0)).collect();
            for (i, tile) in tiles.iter_mut().enumerate() {
                let block = &blocks[job * at_once + i];
                match &block.spans[..] {
                    [whole] if matches!(whole.run, Run::Leaves { .. }) => {
                        self.write_whole(block, whole, &mut cursors, tile);
                    }
                    _ => {
                        for (s, (row, cursor)) in tile.iter_mut().zip(&mut cursors).enumerate() {
                            self.write_row(s, block, cursor, row);
                        }
                    }
                }
            }
        });
        Ok(())
    }

    /// Writes a block of hosts with consecutive numbers: the usual case, and the only one that must be fast.
    fn write_whole(&self, block: &Block, span: &Span, cursors: &mut [Cursor], tile: &mut [[u8; BLOCK_LIDS]]) {
        let (first, last) = (block.leaf[span.from], block.leaf[span.to - 1]);
        let patterns = &self.rows.patterns[..];
        let mut draft = Draft([NO_PATH; 2 * BLOCK_LIDS]);
        for (s, (row, cursor)) in tile.iter_mut().zip(cursors).enumerate() {
            let piece = &cursor.piece;
            if piece.from <= first && last < piece.to {
                let source = span.offset.get(piece.class as usize).and_then(|&offset| {
                    patterns
                        .get(piece.pattern as usize + offset as usize..)?
                        .first_chunk::<BLOCK_LIDS>()
                });
                if let Some(source) = source {
                    *row = *source;
                    continue;
                }
            }
            self.write_span(s, block, span, cursor, &mut draft);
            row.copy_from_slice(&draft.0[..BLOCK_LIDS]);
        }
    }

    fn write_row(&self, s: usize, block: &Block, cursor: &mut Cursor, row: &mut [u8; BLOCK_LIDS]) {
        let mut draft = Draft([NO_PATH; 2 * BLOCK_LIDS]);
        for span in &block.spans {
            match span.run {
                Run::Unused => draft.put(span.from, Some(&[NO_PATH; BLOCK_LIDS])),
                Run::Uppers { first } => {
                    let from = s * self.targets.uppers.len() + first as usize;
                    draft.put(span.from, chunk(&self.rows.uppers, from));
                }
                Run::Leaves { .. } => self.write_span(s, block, span, cursor, &mut draft),
            }
        }
        row.copy_from_slice(&draft.0[..BLOCK_LIDS]);
    }

    fn write_span(&self, s: usize, block: &Block, span: &Span, cursor: &mut Cursor, draft: &mut Draft) {
        let first = block.leaf[span.from];
        let mut at = span.from;
        while at < span.to {
            let leaf = block.leaf[at];
            if leaf == cursor.piece.to {
                cursor.at += 1;
                cursor.piece = *self.rows.pieces.get(s).get(cursor.at as usize).unwrap_or(&PIECE_NONE);
            } else if leaf < cursor.piece.from || leaf > cursor.piece.to {
                *cursor = self.cursor_at(s, leaf);
            }
            let piece = cursor.piece;
            // A piece that ends before it begins does not exist: behind the last leaf there is no destination.
            let end = span.starts.get(piece.to.saturating_sub(first) as usize);
            let end = end.map_or(span.to, |&end| usize::from(end).max(at + 1));
            if piece.class == OWN {
                draft.put(at, chunk(&block.egress, at));
            } else if piece.class == SLOW {
                for i in at..end {
                    draft.0[i] = self.leaf_entry(s, block.leaf[i], block.number[i], block.egress[i], None);
                }
            } else {
                let from = piece.pattern as usize + span.offset[piece.class as usize] as usize + at - span.from;
                draft.put(at, chunk(&self.rows.patterns, from));
            }
            at = end;
        }
    }

    /// Egress of a switch towards a destination at a leaf.
    pub(super) fn leaf_entry(&self, s: usize, leaf: u32, number: u32, egress: u8, lost: Option<u8>) -> u8 {
        let at = self.rule.shape.leaves[leaf as usize] as usize;
        if at == s {
            egress
        } else {
            self.rule.towards_leaf(s, at, number, lost)
        }
    }

    /// Returns the number of a LID at a leaf. LIDs of one port (LMC) get numbers that lead to different positions.
    pub(super) fn number_of(&self, number: u32, offset: u32) -> u32 {
        let n = self.planes;
        number - number % n + (number % n + offset) % n
    }

    fn cursor_at(&self, s: usize, leaf: u32) -> Cursor {
        let pieces = self.rows.pieces.get(s);
        let at = pieces.partition_point(|p| p.to <= leaf);
        Cursor {
            piece: *pieces.get(at).unwrap_or(&PIECE_NONE),
            at: u32::try_from(at).unwrap_or(u32::MAX),
        }
    }

    /// Returns the target of a LID. Its number takes the offset of the LID from the base LID of its port into account.
    pub(super) fn target(&self, lids: &Lids, lid: Lid) -> Result<Target, EngineError> {
        let Some(port) = lids.owner(lid) else {
            return Ok(Target::Nowhere);
        };
        let target = self.targets.get(port).ok_or(EngineError::ForeignLid { lid, port })?;
        Ok(match target {
            Target::Leaf { leaf, number, egress } if egress != 0 => {
                // A port's LIDs are aligned to their number, so the first has the same owner and the lowest bits 0.
                let same = |back: &u16| lid.0 >= *back && lids.owner(Lid(lid.0 - back)) == Some(port);
                let offset = (1..128).take_while(same).count();
                let number = self.number_of(number, u32::try_from(offset).unwrap_or(0));
                Target::Leaf { leaf, number, egress }
            }
            other => other,
        })
    }

    fn block(&self, lids: &Lids, block: usize) -> Result<Block, EngineError> {
        let mut out = Block {
            spans: Vec::new(),
            leaf: [0; BLOCK_LIDS],
            number: [0; BLOCK_LIDS],
            egress: [0; 2 * BLOCK_LIDS],
        };
        for i in 0..BLOCK_LIDS {
            let lid = u16::try_from(block * BLOCK_LIDS + i).map(Lid).unwrap_or(Lid::NONE);
            let run = match self.target(lids, lid)? {
                Target::Nowhere => Run::Unused,
                Target::Leaf { leaf, number, egress } => {
                    (out.leaf[i], out.number[i], out.egress[i]) = (leaf, number, egress);
                    Run::Leaves { number }
                }
                Target::Upper { upper } => Run::Uppers { first: upper },
            };
            let grows = out.spans.last().is_some_and(|last| match (&last.run, &run) {
                (Run::Unused, Run::Unused) => true,
                (Run::Leaves { .. }, Run::Leaves { number }) => {
                    out.number[i - 1] + 1 == *number && out.leaf[i - 1] <= out.leaf[i]
                }
                (Run::Uppers { first: from }, Run::Uppers { first }) => {
                    *from as usize + i - last.from == *first as usize
                }
                _ => false,
            });
            match out.spans.last_mut().filter(|_| grows) {
                Some(last) => last.to = i + 1,
                None => out.spans.push(self.span(i, run)),
            }
        }
        for span in &mut out.spans {
            let mut next = out.leaf[span.from];
            for i in span.from..span.to {
                let leaf = out.leaf[i];
                let so_far = u8::try_from(i).unwrap_or(u8::MAX);
                span.starts.extend((next..=leaf).map(|_| so_far));
                next = next.max(leaf + 1);
            }
        }
        Ok(out)
    }

    fn span(&self, at: usize, run: Run) -> Span {
        let offset = match run {
            Run::Leaves { number } => self.rows.periods.iter().map(|p| number % p).collect(),
            Run::Unused | Run::Uppers { .. } => Vec::new(),
        };
        Span {
            from: at,
            to: at + 1,
            run,
            offset,
            starts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::Fabric;
    use selvedge_plan::Tables;
    use selvedge_topology::Spec;
    use selvedge_types::LidRange;

    use super::super::FatTreeOptions;
    use super::*;

    fn make(spec: &str) -> Fabric {
        match spec.parse().unwrap() {
            Spec::Generated(recipe) => recipe.fabric().unwrap(),
            Spec::File(path) => panic!("{path:?} is a file"),
        }
    }

    #[test]
    fn short_forms_say_what_the_rule_says() {
        for spec in [
            "sx6536",
            "sx6536:remove-links=3%,seed=3",
            "karytree:k=4,n=3",
            "karytree:k=4,n=3,remove-links=5%,seed=2,guids=shuffled",
            "karytree:k=2,n=5,remove-links=2%",
            "mport:m=8,n=3,remove-links=3%,seed=4",
            "pgft:m=4x4x4,w=1x2x2,p=1x2x2,remove-links=5%",
            "xgft:m=4x4x3,w=1x2x2",
            "karytree:k=4,n=2,rails=2",
        ] {
            let fabric = make(spec);
            let mut lids = Lids::new();
            for ((at, _), lid) in fabric.end_ports().zip(3..) {
                lids.insert(at, LidRange::single(Lid(lid))).unwrap();
            }
            let tree = FatTree::detect(&fabric, &FatTreeOptions::default(), Par::Sequential).unwrap();
            let mut tables = Tables::new(fabric.switches().len(), lids.top());
            tree.fill(&lids, &mut tables, Par::Sequential).unwrap();
            for lid in (0..=lids.top().0).map(Lid) {
                for (s, at) in tables.switch_indices().enumerate() {
                    let want = match tree.target(&lids, lid).unwrap() {
                        Target::Nowhere => NO_PATH,
                        Target::Leaf { leaf, number, egress } => tree.leaf_entry(s, leaf, number, egress, None),
                        Target::Upper { upper } => {
                            let to = tree.targets.uppers[upper as usize];
                            tree.rule.towards_upper(s, to, upper, None)
                        }
                    };
                    assert_eq!(tables.get(at, lid), want, "{spec}: switch {s}, LID {lid}");
                }
            }
        }
    }
}
