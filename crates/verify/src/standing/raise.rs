//! Computes the first sums of a standing proof: every column is followed once from every switch.

use selvedge_plan::BLOCK_LIDS;
use selvedge_sim::Par;

use crate::standing::flows::{Sign, Sums};
use crate::standing::shape::{Goal, NOWHERE, Shape};

/// Number of groups of blocks that may be followed in parallel. Each group then has its own sums.
const CHUNKS: usize = 4;

/// Number of hosts with packets that leave each switch, in the layout of the entries.
pub type Pairs = Vec<[u16; BLOCK_LIDS]>;

/// Returns the sums, or a (LID, switch) with packets that loop.
pub fn raise(shape: &Shape, next: &[u16], rows: &[[u8; BLOCK_LIDS]], par: Par) -> Result<(Pairs, Sums), (u16, u16)> {
    let blocks = rows.len() / shape.switches.max(1);
    let chunks = match par {
        Par::Sequential => 1,
        Par::Rayon => CHUNKS.min(blocks).max(1),
    };
    let length = blocks.div_ceil(chunks).max(1);
    let parts = par.map(blocks.div_ceil(length), |chunk| -> Result<(Pairs, Sums), (u16, u16)> {
        let mut column = Column::new(shape, next);
        let end = blocks.min((chunk + 1) * length);
        for block in chunk * length..end {
            column.block(block, &rows[block * shape.switches..(block + 1) * shape.switches])?;
        }
        Ok((column.pairs, column.sums))
    });
    let mut pairs = Vec::with_capacity(rows.len());
    let mut sums: Option<Sums> = None;
    for part in parts {
        let (more_pairs, more) = part?;
        pairs.extend(more_pairs);
        match &mut sums {
            Some(sums) => sums.add(&more),
            None => sums = Some(more),
        }
    }
    let mut sums = sums.unwrap_or_else(|| Sums::empty(shape));
    sums.complete(shape);
    Ok((pairs, sums))
}

/// Arrays for one column, reused for the next.
struct Column<'s> {
    shape: &'s Shape,
    next: &'s [u16],
    pairs: Pairs,
    sums: Sums,
    /// By switch: the column that visited it last, and the walk within that column.
    met: Vec<(u32, u32)>,
    column: u32,
    /// Switches, each after the one that its entry leads to: cell, switch, next.
    order: Vec<(u32, u16, u16)>,
    path: Vec<(u32, u16, u16)>,
}

impl<'s> Column<'s> {
    fn new(shape: &'s Shape, next: &'s [u16]) -> Self {
        Self {
            shape,
            next,
            pairs: Vec::new(),
            sums: Sums::empty(shape),
            met: vec![(0, 0); shape.switches],
            column: 0,
            order: Vec::with_capacity(shape.switches),
            path: Vec::new(),
        }
    }

    fn block(&mut self, block: usize, rows: &[[u8; BLOCK_LIDS]]) -> Result<(), (u16, u16)> {
        let first = self.pairs.len();
        self.pairs.resize(first + self.shape.switches, [0; BLOCK_LIDS]);
        for column in 0..BLOCK_LIDS {
            let lid = block * BLOCK_LIDS + column;
            let goal = self.shape.goals[lid];
            if goal == Goal::Unused {
                continue;
            }
            self.walk(rows, column).map_err(|switch| (lid as u16, switch))?;
            self.count(rows, first, lid);
        }
        Ok(())
    }

    /// Orders the switches. Fails with a switch of a loop.
    fn walk(&mut self, rows: &[[u8; BLOCK_LIDS]], column: usize) -> Result<(), u16> {
        self.column += 1;
        self.order.clear();
        for (first, walk) in (0..self.shape.switches).zip(1..) {
            let mut at = first as u16;
            self.path.clear();
            while self.met[usize::from(at)].0 != self.column {
                self.met[usize::from(at)] = (self.column, walk);
                let cell = self.shape.cell(usize::from(at), rows[usize::from(at)][column]);
                let next = self.next[cell];
                self.path.push((cell as u32, at, next));
                if next == NOWHERE {
                    break;
                }
                at = next;
            }
            let met_own_way = self.path.last().is_some_and(|last| last.2 == at);
            if met_own_way && self.met[usize::from(at)].1 == walk {
                return Err(at);
            }
            self.order.extend(self.path.drain(..).rev());
        }
        Ok(())
    }

    fn count(&mut self, rows: &[[u8; BLOCK_LIDS]], first: usize, lid: usize) {
        let (shape, column) = (self.shape, lid % BLOCK_LIDS);
        let goal = shape.goals[lid];
        let lane = usize::from(shape.lanes[lid]) * shape.total();
        let pairs = &mut self.pairs[first..];
        for (pairs, own) in pairs.iter_mut().zip(&shape.own) {
            pairs[column] = *own;
        }
        if let Goal::Host { switch, .. } = goal {
            pairs[usize::from(switch)][column] -= 1;
        }
        let is_counted = matches!(goal, Goal::Host { is_base: true, .. });
        for &(cell, at, next) in self.order.iter().rev() {
            let sent = pairs[usize::from(at)][column];
            let entry = rows[usize::from(at)][column];
            if next == NOWHERE {
                let end = (usize::from(at), entry);
                self.sums.dead_end(shape, end, goal, Sign::Add);
                self.sums.end(shape, end, goal, u64::from(sent), Sign::Add);
                continue;
            }
            pairs[usize::from(next)][column] += sent;
            let vertex = lane + cell as usize;
            self.sums.loads[vertex] += if is_counted { u32::from(sent) } else { 0 };
            let out = rows[usize::from(next)][column];
            if self.next[shape.cell(usize::from(next), out)] != NOWHERE {
                let count = &mut self.sums.counts[vertex * shape.ports() + usize::from(out)];
                count.change(goal, true, sent > 0, Sign::Add);
            }
        }
    }
}
