//! LFT blocks that were written, step by step, with packets in flight that may still use the replaced entries.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_plan::{BLOCK_LIDS, BlockOf, NO_PATH};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};

use super::unanswered::Late;

/// Largest number of steps that are kept. If there are more, two steps are merged into one: the proof then considers
/// more mixes of entries than can occur. If steps cannot be merged, as when the same entries change back and forth, the
/// entries that packets in flight may use are unknown from then on. With a lifetime of 1.07 s, three lifetimes need 256
/// steps if a fault takes two steps and the next one follows after 25 ms.
const STEPS_MAX: usize = 256;

/// A block with no entries.
const EMPTY: [u8; BLOCK_LIDS] = [NO_PATH; BLOCK_LIDS];

/// LFT blocks that a change has written up to now.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub(super) written: Written,
    /// The step in progress.
    open: Vec<BlockOf<Guid>>,
    /// True if some block was sent, even if packets do not notice the change.
    pub(super) is_sent: bool,
}

/// LFT blocks that were written, by switch GUID, because switch numbers change in every sweep.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// Contents of the blocks before the first of these writes.
    pub(super) before: BTreeMap<(Guid, u16), [u8; BLOCK_LIDS]>,
    pub(super) steps: Vec<Step>,
    /// True if this record is incomplete: a block was overwritten unread, or more has changed than is recorded.
    pub(super) is_blind: bool,
}

/// LFT blocks that one step wrote.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) blocks: Vec<BlockOf<Guid>>,
    /// When the step was acknowledged; `None`: not yet.
    pub(super) ended: Option<Time>,
}

impl Taken {
    /// Records that a block was written, or may have been.
    pub fn note(&mut self, block: BlockOf<Guid>, before: Option<[u8; BLOCK_LIDS]>) {
        let held = before.unwrap_or(EMPTY);
        self.written.before.entry((block.0, block.1)).or_insert(held);
        self.open.push(block);
    }

    /// Records that a block was sent. Packets are affected if another switch received it.
    pub const fn note_sent(&mut self) {
        self.is_sent = true;
    }

    /// Records that an unread block was overwritten, and that packets may have been forwarded by its entries.
    pub const fn note_blind(&mut self) {
        self.written.is_blind = true;
    }

    /// Ends a step, because its blocks are acknowledged.
    pub fn end_phase(&mut self) {
        self.written.push(std::mem::take(&mut self.open), None);
    }

    /// Forgets everything, because no packet of these entries is left.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Written {
    /// Adds a step, if it writes anything.
    fn push(&mut self, blocks: Vec<BlockOf<Guid>>, ended: Option<Time>) {
        if !blocks.is_empty() {
            self.steps.push(Step { blocks, ended });
        }
        if self.steps.len() > STEPS_MAX && !self.join_two() {
            self.is_blind = true;
        }
    }

    /// Appends another change, acknowledged at this time.
    pub(super) fn follow(&mut self, taken: Self, now: Time) {
        self.found(taken.before, now);
        for step in taken.steps {
            self.push(step.blocks, Some(now));
        }
    }

    /// Adds blocks that were written at an unknown time up to now, with their contents in order.
    pub(super) fn note_late(&mut self, late: &Late, now: Time) {
        self.push(Vec::new(), None);
        let in_turn = |turn: usize| late.iter().filter_map(move |(at, held)| Some((*at, *held.get(turn)?)));
        self.found(in_turn(0).collect(), now);
        let most = late.values().map(Vec::len).max().unwrap_or(0);
        for turn in 1..most {
            let written = in_turn(turn).map(|((guid, block), data)| (guid, block, data));
            self.push(written.collect(), Some(now));
        }
    }

    /// Adds blocks with the contents that a sweep has read, before further writes. If a block differed from its last
    /// known contents (another manager changed it, or the switch showed another GUID), packets have been forwarded by
    /// these entries too.
    fn found(&mut self, before: BTreeMap<(Guid, u16), [u8; BLOCK_LIDS]>, now: Time) {
        let last: BTreeMap<_, _> = self
            .blocks()
            .map(|(guid, block, data)| ((*guid, *block), *data))
            .collect();
        let mut others = Vec::new();
        for (at, held) in before {
            self.before.entry(at).or_insert(held);
            if last.get(&at).is_some_and(|last| *last != held) {
                others.push((at.0, at.1, held));
            }
        }
        self.push(others, Some(now));
    }

    /// Records that a switch with these blocks lost all entries at this time. False if it had lost them before.
    pub(super) fn empty(&mut self, guid: Guid, row: &[Option<[u8; BLOCK_LIDS]>], at: Time) -> bool {
        self.push(Vec::new(), None);
        let mut emptied = Vec::new();
        for (block, held) in (0_u16..).zip(row) {
            let last = self
                .blocks()
                .rev()
                .find(|written| (written.0, written.1) == (guid, block));
            let is_known = last.is_some_and(|last| last.2 == EMPTY);
            if let Some(held) = held.filter(|held| *held != EMPTY && !is_known) {
                self.before.entry((guid, block)).or_insert(held);
                emptied.push((guid, block, EMPTY));
            }
        }
        let is_new = !emptied.is_empty();
        self.push(emptied, Some(at));
        is_new
    }

    /// Merges the two earliest consecutive steps that have no entry in common (a step must write no entry twice).
    /// Returns false if there are no such steps.
    fn join_two(&mut self) -> bool {
        let entries = |changes: Vec<Change>| changes.iter().map(|change| (change.lid, change.switch)).collect();
        let changed: Vec<BTreeSet<(Lid, Guid)>> = self.changes_by_step().map(entries).collect();
        let Some(at) = changed.windows(2).position(|two| two[0].is_disjoint(&two[1])) else {
            return false;
        };
        let earlier = self.steps.remove(at).blocks;
        let later = &mut self.steps[at].blocks;
        let blocks: BTreeSet<(Guid, u16)> = later.iter().map(|b| (b.0, b.1)).collect();
        later.splice(0..0, earlier.into_iter().filter(|b| !blocks.contains(&(b.0, b.1))));
        true
    }

    /// Returns all blocks in order of time.
    pub(super) fn blocks(&self) -> impl DoubleEndedIterator<Item = &BlockOf<Guid>> {
        self.steps.iter().flat_map(|step| &step.blocks)
    }

    /// Returns the changed entries of each step.
    fn changes_by_step(&self) -> impl Iterator<Item = Vec<Change>> {
        let mut held = self.before.clone();
        self.steps.iter().enumerate().map(move |(step, Step { blocks, .. })| {
            let mut changes = Vec::new();
            for &(switch, block, data) in blocks {
                let first = usize::from(block) * BLOCK_LIDS;
                let Some(before) = held.insert((switch, block), data) else {
                    continue;
                };
                let changed = (first..)
                    .zip(before.into_iter().zip(data))
                    .filter(|(_, (old, new))| old != new);
                changes.extend(changed.filter_map(|(lid, (before, _))| {
                    let lid = Lid(u16::try_from(lid).ok()?);
                    Some(Change {
                        lid,
                        switch,
                        step,
                        before,
                    })
                }));
            }
            changes
        })
    }

    /// Returns the changes by LID, then in order of time.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut all: Vec<Change> = self.changes_by_step().flatten().collect();
        all.sort_by_key(|change| (change.lid, change.step));
        all
    }

    /// Forgets the changes of LIDs, each up to a step, because the packets that the replaced entries forwarded are
    /// gone.
    pub(super) fn forget(&mut self, upto: &BTreeMap<Lid, usize>) {
        let is_forgotten = |block: u16, i: usize, step: usize| {
            let lid = u16::try_from(usize::from(block) * BLOCK_LIDS + i).map(Lid);
            lid.is_ok_and(|lid| upto.get(&lid).is_some_and(|last| step <= *last))
        };
        // Known contents before the remaining steps.
        let mut first = std::mem::take(&mut self.before);
        for (number, step) in self.steps.iter().enumerate() {
            for (guid, block, data) in &step.blocks {
                let known = first.entry((*guid, *block)).or_insert(*data);
                let forgotten = (0..BLOCK_LIDS).filter(|&i| is_forgotten(*block, i, number));
                forgotten.for_each(|i| known[i] = data[i]);
            }
        }
        let mut held = first.clone();
        for (number, step) in self.steps.iter_mut().enumerate() {
            step.blocks.retain_mut(|(guid, block, data)| {
                let at = (*guid, *block);
                let known = first.get(&at).unwrap_or(data);
                let kept: [u8; BLOCK_LIDS] = std::array::from_fn(|i| match is_forgotten(*block, i, number) {
                    true => known[i],
                    false => data[i],
                });
                *data = kept;
                held.insert(at, kept) != Some(kept)
            });
        }
        self.steps.retain(|step| !step.blocks.is_empty());
        let left: BTreeSet<(Guid, u16)> = self.blocks().map(|b| (b.0, b.1)).collect();
        first.retain(|at, _| left.contains(at));
        self.before = first;
    }

    /// True if there are so many steps that old ones should be forgotten before more are added.
    pub(super) const fn is_long(&self) -> bool {
        self.steps.len() > STEPS_MAX / 2
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the LIDs with a changed entry.
    pub(super) fn lids(&self) -> BTreeSet<Lid> {
        self.changes_by_step().flatten().map(|change| change.lid).collect()
    }
}

/// True if writing a block affects no packet: the block had the same contents before (`met`), or all its LIDs are above
/// LinearFDBTop, so the switch drops packets to them anyway.
///
/// The difference is important because each sweep empties the tables of a switch that was off, until a plan is in
/// force. If these writes counted, a repeating trap could delay all work that waits for packets to drain.
pub fn goes_unnoticed(met: Option<&[u8; BLOCK_LIDS]>, is_looked_up: bool, data: &[u8; BLOCK_LIDS]) -> bool {
    match met {
        Some(met) => met == data,
        None => !is_looked_up && *data == EMPTY,
    }
}

/// An entry that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) lid: Lid,
    pub(super) switch: Guid,
    /// The step, from 0.
    pub(super) step: usize,
    /// The previous value.
    pub(super) before: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_packets_do_not_notice_is_no_step() {
        let check = |met: Option<u8>, is_looked_up: bool, data: u8, want: bool| {
            let met = met.map(|entry| [entry; BLOCK_LIDS]);
            let is_it = goes_unnoticed(met.as_ref(), is_looked_up, &[data; BLOCK_LIDS]);
            assert_eq!(is_it, want, "{met:?} {is_looked_up} {data}");
        };
        check(Some(1), true, 1, true);
        check(Some(1), true, 2, false);
        check(Some(1), true, NO_PATH, false);
        check(None, false, NO_PATH, true);
        // The entry may have led somewhere, and it will have effect once LinearFDBTop is raised.
        check(None, true, NO_PATH, false);
        check(None, false, 1, false);
    }

    #[test]
    fn no_step_writes_a_block_twice_however_many_there_are() {
        // Arguments: number of blocks written in turn, number of steps, and whether they can be kept within the limit.
        let check = |blocks: u16, steps: usize, is_kept: bool| {
            let mut taken = Taken::default();
            for step in 0..steps {
                // Every step changes the first entry of its block. The second entry distinguishes more than 251 blocks.
                let mut data = [NO_PATH; BLOCK_LIDS];
                (data[0], data[1]) = ((step % 251) as u8, (step / 251) as u8);
                let block = (Guid(1), step as u16 % blocks, data);
                taken.note(block, Some([NO_PATH; BLOCK_LIDS]));
                taken.end_phase();
            }
            for Step { blocks: step, .. } in &taken.written.steps {
                let met: BTreeSet<_> = step.iter().map(|b| (b.0, b.1)).collect();
                assert_eq!(met.len(), step.len(), "{blocks} {steps}");
            }
            let written = taken
                .written
                .blocks()
                .map(|(_, _, data)| usize::from(data[0]) + 251 * usize::from(data[1]));
            assert!(written.eq(0..steps), "in turn");
            assert_eq!(
                (!taken.written.is_blind, taken.written.steps.len() <= STEPS_MAX),
                (is_kept, is_kept),
                "{blocks} {steps}"
            );
        };
        check(1, STEPS_MAX, true);
        check(1, STEPS_MAX + 1, false);
        check(2, 2 * STEPS_MAX, true);
        check(3, 3 * STEPS_MAX, true);
        check(2, 2 * STEPS_MAX + 1, false);
    }

    /// Returns changes of entries of one switch, each in its own step: LID and port.
    fn steps(changes: &[(usize, u8)]) -> Written {
        let (mut taken, mut data) = (Taken::default(), [NO_PATH; BLOCK_LIDS]);
        for &(lid, egress) in changes {
            let before = data;
            data[lid] = egress;
            taken.note((Guid(1), 0, data), Some(before));
            taken.end_phase();
        }
        taken.written
    }

    #[test]
    fn steps_that_change_different_entries_of_a_block_become_one() {
        let check = |lids: usize, steps_made: usize, is_kept: bool| {
            let changes: Vec<_> = (0..steps_made).map(|step| (step % lids, step as u8)).collect();
            let taken = steps(&changes);
            assert_eq!((!taken.is_blind, taken.steps.len() <= STEPS_MAX), (is_kept, is_kept));
            // All former values of each entry are still known.
            for lid in (0..lids).filter(|_| is_kept) {
                let want = changes.iter().filter(|change| change.0 == lid).map(|change| change.1);
                let want: Vec<u8> = std::iter::once(NO_PATH).chain(want).collect();
                let found = taken.changes().into_iter().filter(|change| change.lid.index() == lid);
                let found: Vec<u8> = found.map(|change| change.before).collect();
                assert_eq!(found, want[..want.len() - 1], "LID {lid} of {lids}");
            }
        };
        check(1, STEPS_MAX, true);
        check(2, 2 * STEPS_MAX, true);
        check(7, 7 * STEPS_MAX, true);
        check(1, STEPS_MAX + 1, false);
        check(2, 2 * STEPS_MAX + 1, false);
    }

    #[test]
    fn changes_are_forgotten_by_lid() {
        // Arguments: changes, the step up to which each LID is forgotten, and what is left: LID, step, port before.
        let check = |changes: &[(usize, u8)], upto: &[(u16, usize)], want: &[(u16, usize, u8)]| {
            let mut taken = steps(changes);
            let held = *taken.blocks().last().map(|block| &block.2).unwrap();
            taken.forget(&upto.iter().map(|&(lid, step)| (Lid(lid), step)).collect());
            let left: Vec<_> = taken.changes().iter().map(|c| (c.lid.0, c.step, c.before)).collect();
            assert_eq!(left, want, "{changes:?} {upto:?}");
            assert_eq!(taken.before.is_empty(), want.is_empty());
            // The final contents of the remaining blocks are unchanged.
            let last = taken.blocks().last().map(|block| block.2);
            assert_eq!(last.unwrap_or(held), held);
        };
        let three = [(1, 4), (2, 5), (1, 6)];
        check(&three, &[], &[(1, 0, NO_PATH), (1, 2, 4), (2, 1, NO_PATH)]);
        check(&three, &[(2, 1)], &[(1, 0, NO_PATH), (1, 1, 4)]);
        check(&three, &[(1, 0)], &[(1, 1, 4), (2, 0, NO_PATH)]);
        check(&three, &[(1, 1), (2, 1)], &[(1, 0, 4)]);
        check(&three, &[(1, 2)], &[(2, 0, NO_PATH)]);
        check(&three, &[(1, 2), (2, 2)], &[]);
    }
}
