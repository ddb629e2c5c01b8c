//! A repair that was judged before there was need of it.
//!
//! What is written, and what was proved of it, is kept until the links are lost: then nothing is left to judge, if the
//! proof is still about the same tables, links and owners ([`State`]), and no packets are under way by other entries.
//! A block is kept as what differs in it: two bytes an entry.

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

/// A block that is written, and how many entries differ in it.
#[derive(Clone, Copy, Debug)]
struct Block {
    switch: u16,
    block: u16,
    entries: u8,
}

/// A phase: what it is for, how long it waits, and how many blocks it writes.
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
    /// Of one block after another: places, and what they hold from then on.
    entries: Box<[(u8, u8)]>,
    way: QuickProof,
    proof: Proof,
}

impl Backup {
    /// What it was judged for.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// The links that are lost.
    #[must_use]
    pub fn links(&self) -> &[LinkChange] {
        &self.links
    }

    /// Blocks that it writes; one of several steps more than once.
    pub fn blocks(&self) -> impl Iterator<Item = (SwitchIdx, usize)> {
        self.blocks
            .iter()
            .map(|of| (SwitchIdx(of.switch.into()), usize::from(of.block)))
    }

    /// What it takes in memory, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.links)
            + size_of_val(&*self.parts)
            + size_of_val(&*self.blocks)
            + size_of_val(&*self.entries)
            + size_of_val(&*self.proof.lanes)
    }

    /// Blocks as they are written, one after another; `None` where there is no such block.
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

    /// The change set, with `quiet` before the first phase that waits, or else last.
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
    /// Judges what is to be done when `links` are lost, as [`super::judge_repair`] would with no packets under way, and
    /// goes back to what stands. `None` if it would not let it pass, something else than entries is set, or a switch is
    /// gone with the links.
    #[must_use]
    pub fn back_up(&mut self, fabric: &Fabric, links: &[LinkChange], changes: &ChangeSet) -> Option<Backup> {
        let state = self.state;
        let (mut blocks, mut entries) = (Vec::new(), Vec::new());
        for op in changes.phases.iter().flat_map(|phase| &phase.ops) {
            let Op::Lft { node, block, data } = op else { return None };
            let switch = fabric.switch_index(*node)?;
            let held = self.row(switch, usize::from(*block))?;
            let before = entries.len();
            // Less than 64 columns, so they fit.
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

    /// A judged change set once more, now that there is need of it, with `quiet`, Sets that clear PortStateChange.
    /// `before` is the verdict on what stands. `None` if that is not what the change set was judged for. The proof
    /// stays what it was, until [`Self::follow`].
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

    /// Takes what [`Self::recall`] gave. False if it does not come to what was proved of it: then this proof is of no
    /// use any more. To be called when there is time, and before anything else is asked of it.
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
