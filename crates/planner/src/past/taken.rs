//! LFT blocks that were written, step by step, while packets may be under way by the entries that they replaced.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_plan::{BLOCK_LIDS, BlockOf, NO_PATH};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};

use super::unanswered::Late;

/// Steps that are kept; of more, two are taken for one, which allows for more than can be. Where that cannot be done,
/// as when the same entries change back and forth, nobody knows any more by what packets are under way. Three lifetimes
/// of 1.07 s have room for 256 steps if a fault takes two and the next comes 25 ms later.
const STEPS_MAX: usize = 256;

/// Entries that lead nowhere.
const EMPTY: [u8; BLOCK_LIDS] = [NO_PATH; BLOCK_LIDS];

/// LFT blocks that a change has written up to now.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub(super) written: Written,
    /// The step that is being taken.
    open: Vec<BlockOf<Guid>>,
    /// Some block was sent, whether packets of the switch that it was for noticed or not.
    pub(super) is_sent: bool,
}

/// LFT blocks that were written, by switch GUID, as switches are numbered anew in every sweep.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// As they were before the first of them was written.
    pub(super) before: BTreeMap<(Guid, u16), [u8; BLOCK_LIDS]>,
    pub(super) steps: Vec<Step>,
    /// Some block was in force, and nobody knew what it held; or too much has changed to be kept.
    pub(super) is_blind: bool,
}

/// LFT blocks that were written before anything else was.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) blocks: Vec<BlockOf<Guid>>,
    /// When its change was acknowledged; `None`: that is not over.
    pub(super) ended: Option<Time>,
}

impl Taken {
    /// Records that a block was written, or may have been.
    pub fn note(&mut self, block: BlockOf<Guid>, before: Option<[u8; BLOCK_LIDS]>) {
        let held = before.unwrap_or(EMPTY);
        self.written.before.entry((block.0, block.1)).or_insert(held);
        self.open.push(block);
    }

    /// Records that a block was sent: packets notice it if another switch took it.
    pub const fn note_sent(&mut self) {
        self.is_sent = true;
    }

    /// Records that a block was overwritten which had not been read, and by whose entries packets may have been
    /// forwarded.
    pub const fn note_blind(&mut self) {
        self.written.is_blind = true;
    }

    /// Ends a step: its blocks are acknowledged.
    pub fn end_phase(&mut self) {
        self.written.push(std::mem::take(&mut self.open), None);
    }

    /// Forgets everything, as no packet is left that was under way.
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

    /// Another change followed, acknowledged at this time.
    pub(super) fn follow(&mut self, taken: Self, now: Time) {
        self.found(taken.before, now);
        for step in taken.steps {
            self.push(step.blocks, Some(now));
        }
    }

    /// Blocks were written some time up to now, nobody knows when: they held these in turn.
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

    /// Blocks as they were before more of them was written. Where one was not as it had been written last (others had
    /// changed it, or it went by another name), packets have been forwarded by it as well.
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

    /// A switch held these blocks and lost all entries at this time; returns false if it had lost them before.
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

    /// Takes two steps for one, the earliest that have no entry in common: a step writes nothing twice. False if all
    /// have one in common with the next.
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

    /// All blocks, as time went by.
    pub(super) fn blocks(&self) -> impl DoubleEndedIterator<Item = &BlockOf<Guid>> {
        self.steps.iter().flat_map(|step| &step.blocks)
    }

    /// Entries that each step changes.
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

    /// What changed, by LID, then as time went by.
    pub(super) fn changes(&self) -> Vec<Change> {
        let mut all: Vec<Change> = self.changes_by_step().flatten().collect();
        all.sort_by_key(|change| (change.lid, change.step));
        all
    }

    /// Forgets changes of LIDs, of each up to a step: packets that were under way by what they replaced are gone.
    pub(super) fn forget(&mut self, upto: &BTreeMap<Lid, usize>) {
        let is_forgotten = |block: u16, i: usize, step: usize| {
            let lid = u16::try_from(usize::from(block) * BLOCK_LIDS + i).map(Lid);
            lid.is_ok_and(|lid| upto.get(&lid).is_some_and(|last| step <= *last))
        };
        // What is known to have been there before what is left.
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

    /// True if there are so many steps that those whose packets are gone should be forgotten before more come.
    pub(super) const fn is_long(&self) -> bool {
        self.steps.len() > STEPS_MAX / 2
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// LIDs of which an entry changed.
    pub(super) fn lids(&self) -> BTreeSet<Lid> {
        self.changes_by_step().flatten().map(|change| change.lid).collect()
    }
}

/// Returns true if packets do not notice that a block was written: it held the same (`met`), or the switch looks up no
/// LID of it and so drops what comes. A switch that was off gets its tables emptied by each sweep until they are in
/// force. If that counted, a repeating trap could put off for ever what waits for packets.
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
    /// What it was.
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
        // It may have led somewhere; and it will, once it is in force.
        check(None, true, NO_PATH, false);
        check(None, false, 1, false);
    }

    #[test]
    fn no_step_writes_a_block_twice_however_many_there_are() {
        // Blocks that are written in turn, and whether that can be kept in so many steps as are allowed.
        let check = |blocks: u16, steps: usize, is_kept: bool| {
            let mut taken = Taken::default();
            for step in 0..steps {
                // Every step changes the first entry of its block; the next tells more than 251 of them apart.
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

    /// Changes of entries of one switch, each a step of its own: LID and port.
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
            // What each entry was, in turn, is known all the same.
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
        // Changes, up to which step each LID's are forgotten, and what is left: LID, step, port before.
        let check = |changes: &[(usize, u8)], upto: &[(u16, usize)], want: &[(u16, usize, u8)]| {
            let mut taken = steps(changes);
            let held = *taken.blocks().last().map(|block| &block.2).unwrap();
            taken.forget(&upto.iter().map(|&(lid, step)| (Lid(lid), step)).collect());
            let left: Vec<_> = taken.changes().iter().map(|c| (c.lid.0, c.step, c.before)).collect();
            assert_eq!(left, want, "{changes:?} {upto:?}");
            assert_eq!(taken.before.is_empty(), want.is_empty());
            // What is in force in the end is as it was, of the blocks that are left.
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
