//! What was written, step by step, while packets by what it replaced may be under way.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_plan::{BLOCK_LIDS, BlockOf, NO_PATH};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};

/// Steps that are kept; of more, two are taken for one, which allows for more than can be. Where that cannot be done,
/// as when the same blocks change back and forth, nobody knows any more by what packets are under way.
const STEPS_MAX: usize = 64;

/// Blocks that were written, by GUID, as switches are numbered anew in every sweep.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// As they were before the first of them was written.
    pub(super) before: BTreeMap<(Guid, u16), [u8; BLOCK_LIDS]>,
    /// By step.
    pub(super) steps: Vec<Vec<BlockOf<Guid>>>,
    /// By step: when its change was acknowledged, once that is over.
    pub(super) ended: Vec<Time>,
    /// The step that is being taken.
    open: Vec<BlockOf<Guid>>,
    /// Some block was in force, and nobody knew what it held; or too much has changed to be kept.
    pub(super) is_blind: bool,
}

impl Taken {
    /// A block was written, or may have been.
    pub fn note(&mut self, block: BlockOf<Guid>, before: Option<[u8; BLOCK_LIDS]>) {
        let held = before.unwrap_or([NO_PATH; BLOCK_LIDS]);
        self.before.entry((block.0, block.1)).or_insert(held);
        self.open.push(block);
    }

    /// A block was overwritten by whose entries packets may have been forwarded, and nobody had read it.
    pub const fn note_blind(&mut self) {
        self.is_blind = true;
    }

    /// Another change followed, acknowledged at this time.
    pub(super) fn follow(&mut self, taken: Self, now: Time) {
        self.found(taken.before);
        for step in taken.steps {
            self.open = step;
            self.end_phase();
        }
        let unknown = self.ended.iter_mut().filter(|at| **at == Time::ZERO);
        unknown.for_each(|at| *at = now);
    }

    /// Blocks as they were before more of them was written. Where one was not as it had been written last (others had
    /// changed it, or it went by another name), packets have been forwarded by it as well.
    fn found(&mut self, before: BTreeMap<(Guid, u16), [u8; BLOCK_LIDS]>) {
        let written = self.steps.iter().flatten();
        let last: BTreeMap<_, _> = written.map(|(guid, block, data)| ((*guid, *block), *data)).collect();
        for (at, held) in before {
            self.before.entry(at).or_insert(held);
            if last.get(&at).is_some_and(|last| *last != held) {
                self.open.push((at.0, at.1, held));
            }
        }
        self.end_phase();
    }

    /// The step is acknowledged.
    pub fn end_phase(&mut self) {
        if !self.open.is_empty() {
            self.steps.push(std::mem::take(&mut self.open));
            self.ended.push(Time::ZERO);
        }
        if self.steps.len() > STEPS_MAX && !self.join_two() {
            self.is_blind = true;
        }
    }

    /// The same of a step that was not part of a change, at this time. False if it writes nothing.
    pub(super) fn end_open(&mut self, at: Time) -> bool {
        let writes = !self.open.is_empty();
        self.end_phase();
        if let Some(ended) = self.ended.last_mut().filter(|_| writes) {
            *ended = at;
        }
        writes
    }

    /// True if a block was last written so that it leads nowhere.
    pub(super) fn ends_empty(&self, (guid, block): (Guid, u16)) -> bool {
        let mut written = self.steps.iter().flatten().rev();
        let last = written.find(|written| (written.0, written.1) == (guid, block));
        last.is_some_and(|last| last.2 == [NO_PATH; BLOCK_LIDS])
    }

    /// Takes two steps for one, the earliest that have no block in common: a step writes nothing twice. False if all
    /// have one in common with the next.
    fn join_two(&mut self) -> bool {
        let blocks = |step: &[BlockOf<Guid>]| step.iter().map(|b| (b.0, b.1)).collect::<BTreeSet<_>>();
        let are_apart = |two: &[Vec<BlockOf<Guid>>]| blocks(&two[0]).is_disjoint(&blocks(&two[1]));
        let Some(at) = self.steps.windows(2).position(are_apart) else {
            return false;
        };
        let later = self.steps.remove(at + 1);
        self.steps[at].extend(later);
        // That of the later one counts.
        self.ended.remove(at);
        true
    }

    /// Forgets the first of its steps, up to so many: packets that were under way by what they replaced are gone.
    /// Packets to a switch may go on for longer where its LID has changed again since; as many are forgotten as share
    /// none of these with those that stay.
    pub(super) fn forget_first(&mut self, most: usize, is_of_switch: impl Fn(Lid) -> bool) {
        let mut held = self.before.clone();
        let mut changed: Vec<BTreeSet<Lid>> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let mut lids = changed_in(step, &mut held);
            lids.retain(|lid| is_of_switch(*lid));
            changed.push(lids);
        }
        let union = |steps: &[BTreeSet<Lid>]| steps.iter().flatten().copied().collect::<BTreeSet<Lid>>();
        let is_apart = |count: &usize| union(&changed[..*count]).is_disjoint(&union(&changed[*count..]));
        let Some(count) = (1..=most.min(changed.len())).rev().find(is_apart) else {
            return;
        };
        self.ended.drain(..count);
        for (guid, block, data) in self.steps.drain(..count).flatten() {
            self.before.insert((guid, block), data);
        }
        let left: BTreeSet<(Guid, u16)> = self.steps.iter().flatten().map(|b| (b.0, b.1)).collect();
        self.before.retain(|at, _| left.contains(at));
    }

    /// All packets are gone that were under way.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.open.is_empty()
    }

    /// LIDs of which an entry changed.
    pub(super) fn lids(&self) -> BTreeSet<Lid> {
        let mut held = self.before.clone();
        let steps = self.steps.iter().chain([&self.open]);
        steps.flat_map(|step| changed_in(step, &mut held)).collect()
    }
}

/// True if packets do not notice that a block was written, which held this or nobody knows what: whoever looks up no
/// LID drops what comes. A switch that was off has its tables emptied by each sweep until they are in force: if that
/// counted, a trap that is repeated could put off for ever what waits for packets.
pub fn goes_unnoticed(met: Option<&[u8; BLOCK_LIDS]>, is_looked_up: bool, data: &[u8; BLOCK_LIDS]) -> bool {
    match met {
        Some(met) => met == data,
        None => !is_looked_up && *data == [NO_PATH; BLOCK_LIDS],
    }
}

/// LIDs of which a step changes an entry; what is held follows.
fn changed_in(step: &[BlockOf<Guid>], held: &mut BTreeMap<(Guid, u16), [u8; BLOCK_LIDS]>) -> BTreeSet<Lid> {
    let mut lids = BTreeSet::new();
    for (guid, block, data) in step {
        let first = usize::from(*block) * BLOCK_LIDS;
        let Some(before) = held.insert((*guid, *block), *data) else {
            continue;
        };
        let changed = (first..)
            .zip(before.iter().zip(data))
            .filter(|(_, (old, new))| old != new);
        lids.extend(changed.filter_map(|(lid, _)| u16::try_from(lid).ok().map(Lid)));
    }
    lids
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
                let block = (Guid(1), step as u16 % blocks, [step as u8; BLOCK_LIDS]);
                taken.note(block, Some([NO_PATH; BLOCK_LIDS]));
                taken.end_phase();
            }
            for step in &taken.steps {
                let met: BTreeSet<_> = step.iter().map(|b| (b.0, b.1)).collect();
                assert_eq!(met.len(), step.len(), "{blocks} {steps}");
            }
            let written: Vec<_> = taken.steps.iter().flatten().map(|b| b.2[0]).collect();
            assert!(written.iter().map(|&by| usize::from(by)).eq(0..steps), "in turn");
            assert_eq!(
                (!taken.is_blind, taken.steps.len() <= STEPS_MAX),
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

    #[test]
    fn aged_steps_are_forgotten_unless_their_switches_changed_again() {
        // LIDs below 8 are switches'. Each step changes one LID of block 0 of one switch; how many are aged, and how
        // many are left.
        let check = |lids: &[usize], aged: usize, want: usize| {
            let mut taken = Taken::default();
            let mut data = [NO_PATH; BLOCK_LIDS];
            for (number, &lid) in lids.iter().enumerate() {
                let before = data;
                data[lid] = number as u8;
                taken.note((Guid(1), 0, data), Some(before));
                taken.end_phase();
            }
            let all = taken.lids();
            taken.forget_first(aged, |lid| lid.0 < 8);
            assert_eq!((taken.steps.len(), taken.ended.len()), (want, want), "{lids:?}");
            let left: BTreeSet<Lid> = lids[lids.len() - want..].iter().map(|&lid| Lid(lid as u16)).collect();
            assert_eq!(taken.lids(), left, "{lids:?}");
            assert!(left.is_subset(&all));
        };
        check(&[10, 11, 12], 2, 1);
        check(&[10, 10, 10], 2, 1);
        check(&[1, 2, 3], 2, 1);
        check(&[1, 2, 1], 2, 3);
        check(&[1, 2, 2, 3], 3, 1);
        check(&[3, 1, 2, 1], 2, 3);
        check(&[3, 1], 0, 2);
    }
}
