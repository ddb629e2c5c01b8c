//! Backups: repairs that are judged before the links fail.
//!
//! The written blocks and the proof are kept until the links are lost. Then the repair need not be judged again, if two
//! conditions hold. The proof must still be about the same tables, links and owners of LIDs ([`State`]), and no packets
//! of other entries may be in flight. A block is stored as its changed entries: two bytes each.

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Generation, Op, Phase};
use selvedge_types::Idx;

use super::repair::{differing, is_quiet, wait_ns};
use super::state::State;
use super::take::last;
use super::{Change, LinkChange, Proof, Standing};
use crate::judged::{Judged, proved};
use crate::phases::{Passage, QuickProof};
use crate::verdict::Verdict;

/// A written block, with the number of entries that change in it.
#[derive(Clone, Copy, Debug)]
struct Block {
    switch: u16,
    block: u16,
    entries: u8,
}

/// A phase: its purpose, its wait, and the number of blocks that it writes.
#[derive(Clone, Copy, Debug)]
struct Part {
    label: &'static str,
    wait_before_ns: u64,
    blocks: usize,
}

/// A judged change set for links that may be lost.
#[derive(Clone, Debug)]
pub struct Backup {
    state: State,
    links: Box<[LinkChange]>,
    parts: Box<[Part]>,
    blocks: Box<[Block]>,
    /// Changed entries of all blocks in sequence: (index in the block, new value).
    entries: Box<[(u8, u8)]>,
    way: QuickProof,
    proof: Proof,
}

impl Backup {
    /// Returns the state that the backup was judged for.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Returns the lost links.
    #[must_use]
    pub fn links(&self) -> &[LinkChange] {
        &self.links
    }

    /// Returns the blocks that it writes. A block written in several steps appears more than once.
    pub fn blocks(&self) -> impl Iterator<Item = (SwitchIdx, usize)> {
        self.blocks
            .iter()
            .map(|of| (SwitchIdx(of.switch.into()), usize::from(of.block)))
    }

    /// Returns the memory of the backup, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.links)
            + size_of_val(&*self.parts)
            + size_of_val(&*self.blocks)
            + size_of_val(&*self.entries)
            + size_of_val(&*self.proof.lanes)
    }

    /// Returns the blocks as they are written, in order; `None` where a block does not exist.
    fn written<'a>(&'a self, standing: &'a Standing) -> impl Iterator<Item = Option<(Block, [u8; BLOCK_LIDS])>> + 'a {
        let mut entries = &self.entries[..];
        self.blocks.iter().map(move |&block| {
            let (here, further) = entries.split_at_checked(usize::from(block.entries))?;
            entries = further;
            let mut data = *standing.row(SwitchIdx(block.switch.into()), block.block.into())?;
            for &(column, egress) in here {
                *data.get_mut(usize::from(column))? = egress;
            }
            Some((block, data))
        })
    }

    /// Returns the change set. `quiet` goes before the first phase that waits, or to the end.
    fn changes(&self, standing: &Standing, fabric: &Fabric, generation: Generation, quiet: Phase) -> Option<ChangeSet> {
        let mut quiet = (!quiet.ops.is_empty()).then_some(quiet);
        let mut phases = Vec::with_capacity(self.parts.len() + 1);
        let mut written = self.written(standing);
        for part in &self.parts {
            if part.wait_before_ns > 0 {
                phases.extend(quiet.take());
            }
            let ops = written.by_ref().take(part.blocks).map(|written| {
                let (of, data) = written?;
                Some(Op::Lft {
                    node: *fabric.switches().get(SwitchIdx(of.switch.into()))?,
                    block: of.block,
                    data,
                })
            });
            phases.push(Phase {
                label: part.label,
                wait_before_ns: part.wait_before_ns,
                ops: ops.collect::<Option<_>>()?,
            });
        }
        phases.extend(quiet);
        Some(ChangeSet { generation, phases })
    }
}

impl Standing {
    /// Judges a change set for the loss of `links`, as [`super::judge_repair`] would with no packets in flight, and
    /// then restores the proof. `None` if the judge would refuse it, if it sets something other than entries, or if a
    /// switch loses all its links.
    #[must_use]
    pub fn back_up(&mut self, fabric: &Fabric, links: &[LinkChange], changes: &ChangeSet) -> Option<Backup> {
        let state = self.state;
        let (mut blocks, mut entries) = (Vec::new(), Vec::new());
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            let Op::Lft { node, block, data } = op else { return None };
            let switch = fabric.switch_index(*node)?;
            let held = self.row(switch, usize::from(*block))?;
            let before = entries.len();
            // There are fewer than 64 columns, so they fit.
            entries.extend(differing(held, data).map(|column| (column as u8, data[column])));
            blocks.push(Block {
                switch: u16::try_from(switch.to_usize()).ok()?,
                block: *block,
                entries: u8::try_from(entries.len() - before).ok()?,
            });
        }
        let parts = changes.phases.iter().map(|phase| Part {
            label: phase.label,
            wait_before_ns: phase.wait_before_ns,
            blocks: phase.ops.len(),
        });
        let taken = self.take_all((fabric, links), changes, &[])?;
        self.give_back(&taken);
        (taken.gone.is_empty() && self.state == state).then(|| Backup {
            state,
            links: links.into(),
            parts: parts.collect(),
            blocks: blocks.into(),
            entries: entries.into(),
            way: taken.way,
            proof: taken.proof,
        })
    }

    /// Returns the judged change set after the links have failed, with the Sets in `quiet` (which clear
    /// PortStateChange) added. `before` is the verdict on the proved state. `None` if the change set was judged for
    /// another state. The proof stays unchanged until [`Self::follow`].
    #[must_use]
    pub fn recall(
        &self,
        fabric: &Fabric,
        backup: &Backup,
        (generation, quiet): (Generation, Phase),
        before: &Verdict,
    ) -> Option<Judged<ChangeSet>> {
        let is_of_this = self.state == backup.state && fabric.switches().len() == self.flows.shape.switches;
        let is_long =
            |part: &Part| part.wait_before_ns == 0 || wait_ns(fabric).is_some_and(|ns| part.wait_before_ns >= ns);
        let is_quiet = quiet.wait_before_ns == 0 && quiet.ops.iter().all(|op| is_quiet(fabric, op));
        if !is_of_this || !is_quiet || !backup.parts.iter().all(is_long) {
            return None;
        }
        let changes = backup.changes(self, fabric, generation, quiet)?;
        let verdict = self.verdict_of(backup.proof.clone(), before);
        proved(verdict, changes, Passage::Quick(backup.way))
    }

    /// Updates the proof to the result of [`Self::recall`]. Returns false if the result differs from what was proved;
    /// this proof can then no longer be used. Call it before any other use of the proof, at a time when speed does not
    /// matter.
    #[must_use]
    pub fn follow(&mut self, fabric: &Fabric, backup: &Backup) -> bool {
        if self.state != backup.state {
            return false;
        }
        let quiet = Phase {
            label: "",
            wait_before_ns: 0,
            ops: Vec::new(),
        };
        let changes = backup.changes(self, fabric, Generation::default(), quiet);
        let Some(steps) = changes.and_then(|changes| self.steps(fabric, &changes)) else {
            return false;
        };
        let change = Change {
            links: backup.links.to_vec(),
            entries: last(&steps),
        };
        self.apply(&change).is_ok() && self.proof() == backup.proof
    }
}
