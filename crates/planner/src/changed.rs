//! Entries that a repair changes in place after lost links, and the Sets that write them.

use std::cmp::Reverse;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, Lids, Op, Phase, Tables};
use selvedge_routing::{Mender, Moved, Rehung};
use selvedge_types::{IdxVec, Lid, PortNum};
use selvedge_verify::standing::Standing;

use crate::rehang;

/// The entries that a repair has changed in place.
#[derive(Debug)]
pub enum Changed {
    /// Entries of a fat tree.
    Tree(Vec<Moved>),
    /// Entries of any other graph: a search found them that keeps the order of the dependency graph (engine `weave`).
    Woven(Vec<Rehung>),
}

impl Changed {
    /// Changes `tables`, which `standing` proves, so that no entry leads over the given links (both ends of each are in
    /// `links`). Returns the changed entries; `None` if no such change is found: then `mender` must not be used again.
    /// `is_quiet`: no packets of other entries are in flight.
    pub fn by(
        mender: &mut Mender,
        (lids, tables): (&Lids, &mut Tables),
        links: &[(SwitchIdx, PortNum)],
        standing: &Standing,
        is_quiet: bool,
    ) -> Option<Self> {
        let by_hosts = |switch, lid| standing.carries_hosts(switch, lid);
        Some(match mender {
            Mender::Tree(tree) => Self::Tree(tree.lose(lids, tables, links, by_hosts)?),
            Mender::Ordered(weave) => Self::Woven(weave.lose(tables, links, is_quiet)?),
        })
    }

    /// Restores all entries.
    pub fn undo(&self, tables: &mut Tables) {
        match self {
            Self::Tree(moved) => moved.iter().rev().for_each(|m| tables.set(m.switch, m.lid, m.before)),
            Self::Woven(moved) => moved.iter().rev().for_each(|m| tables.set(m.switch, m.lid, m.before)),
        }
    }

    /// Returns the Sets that write the entries. `quiet` are Sets with no effect on packets: they go before the first
    /// step that waits, or to the end. `before` and `now` are the tables before and after the change. `None` if the
    /// change must wait but a switch has an infinite packet lifetime.
    pub fn phases(
        &self,
        quiet: Phase,
        fabric: &Fabric,
        (before, now): (&Tables, &Tables),
        standing: &Standing,
    ) -> Option<Vec<Phase>> {
        match self {
            Self::Woven(moved) => rehang::phases(moved, quiet, fabric, (before, standing)),
            Self::Tree(moved) => {
                let mut phases = steps(moved, fabric, now, standing);
                phases.extend((!quiet.ops.is_empty()).then_some(quiet));
                Some(phases)
            }
        }
    }
}

/// Returns the Sets that write entries of a tree: first entries that packets of hosts use, then entries that only
/// packets of agents use, then later steps.
fn steps(moved: &[Moved], fabric: &Fabric, tables: &Tables, standing: &Standing) -> Vec<Phase> {
    let ranked = moved.iter().map(|m| {
        let rank = match (m.step, standing.carries_hosts(m.switch, m.lid)) {
            (0, true) => 0,
            (0, false) => 1,
            (step, _) => FIRST_LATER + step - 1,
        };
        (block_of(m), rank)
    });
    let mut blocks: Vec<(Block, u8)> = ranked.collect();
    blocks.sort_unstable();
    // A block is written once, at the rank of its latest entry. The lowest rank comes first.
    blocks.dedup_by(|next, held| {
        let is_same = next.0 == held.0;
        if is_same && next.1 >= FIRST_LATER {
            held.1 = next.1;
        }
        is_same
    });
    fill_later_step(&mut blocks, moved, fabric.switches().len());
    let mut left: IdxVec<SwitchIdx, usize> = IdxVec::filled(0, fabric.switches().len());
    blocks.iter().for_each(|&((_, switch), _)| left[switch] += 1);
    // An agent processes one Set after another, so the agent with the most Sets begins first.
    let order = blocks.iter().map(|&((block, switch), rank)| {
        let waits = left[switch];
        left[switch] -= 1;
        (rank, Reverse(waits), block, switch)
    });
    let mut order: Vec<(u8, Reverse<usize>, usize, SwitchIdx)> = order.collect();
    order.sort_unstable();
    let of_rank = |rank: u8| {
        let blocks = order.iter().filter(move |block| block.0 == rank);
        blocks.map(|&(_, _, block, switch)| Op::Lft {
            node: fabric.switches()[switch],
            block: u16::try_from(block).unwrap_or(u16::MAX),
            data: *tables.block(switch, block),
        })
    };
    let mut steps = vec![(
        "change entries that lead over lost links",
        of_rank(0).chain(of_rank(1)).collect(),
    )];
    let last = order.last().map_or(0, |block| block.0);
    for rank in FIRST_LATER..=last {
        let label = match rank {
            FIRST_LATER => "change entries of switches that got these packets before, and the rest",
            _ => "change entries of switches that send to these",
        };
        steps.push((label, of_rank(rank).collect()));
    }
    let steps = steps.into_iter().filter(|(_, ops): &(_, Vec<Op>)| !ops.is_empty());
    let phase = |(label, ops)| Phase {
        label,
        wait_before_ns: 0,
        ops,
    };
    steps.map(phase).collect()
}

/// Rank of the first later step. Lower ranks are blocks of hosts, then blocks of agents.
const FIRST_LATER: u8 = 2;

/// An LFT block of a switch.
type Block = (usize, SwitchIdx);

fn block_of(m: &Moved) -> Block {
    (m.lid.index() / BLOCK_LIDS, m.switch)
}

/// Moves some LFT blocks of switches with many Sets in the first step into the next step. The agents of these switches
/// then have work in both steps, so fewer Sets delay the next step. A block may move if none of its LIDs has an entry
/// in a later step: for such LIDs the division into steps makes no difference.
fn fill_later_step(blocks: &mut [(Block, u8)], moved: &[Moved], switches: usize) {
    /// Number of agents that can be busy at once.
    const AT_ONCE: usize = 32;
    let is_later = |m: &&Moved| {
        let place = blocks.binary_search_by_key(&block_of(m), |&(block, _)| block);
        place.is_ok_and(|place| blocks[place].1 >= FIRST_LATER)
    };
    let mut ordered: Vec<Lid> = moved.iter().filter(is_later).map(|m| m.lid).collect();
    if ordered.is_empty() {
        return;
    }
    ordered.sort_unstable();
    let bound = moved
        .iter()
        .filter(|m| ordered.binary_search(&m.lid).is_ok() && !is_later(m));
    let mut bound: Vec<Block> = bound.map(block_of).collect();
    bound.sort_unstable();
    bound.dedup();
    let mut first: IdxVec<SwitchIdx, usize> = IdxVec::filled(0, switches);
    bound.iter().for_each(|&(_, switch)| first[switch] += 1);
    let most = first.iter().copied().max().unwrap_or(0);
    let most = most.max(bound.len().div_ceil(AT_ONCE));
    for ((block, switch), rank) in blocks.iter_mut().filter(|(_, rank)| *rank < FIRST_LATER) {
        if bound.binary_search(&(*block, *switch)).is_ok() {
            continue;
        }
        let count = &mut first[*switch];
        *count += 1;
        if *count > most {
            *rank = FIRST_LATER;
        }
    }
}
