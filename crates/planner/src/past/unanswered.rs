//! LFT blocks that were sent and never acknowledged.
//!
//! An agent that hangs may carry out such a Set when it recovers, however long after the last attempt. Until then its
//! switch forwards by the old contents. Nothing reports the moment of the change. A block that is read later may have
//! been written just before it is read.

use std::collections::BTreeMap;

use selvedge_fabric::Fabric;
use selvedge_plan::{BLOCK_LIDS, Installed};
use selvedge_sim::Time;
use selvedge_types::Guid;

use super::Past;

/// Entries of a block.
type Block = [u8; BLOCK_LIDS];

/// Blocks that may have been written late, with their contents in order.
pub(super) type Late = BTreeMap<(Guid, u16), Vec<Block>>;

/// Largest number of different contents that are kept for one block. If there are more, their order is ignored.
const TABLES_MAX: usize = 8;

/// LFT blocks with unanswered Sets.
#[derive(Clone, Debug, Default)]
pub struct Unanswered {
    blocks: BTreeMap<(Guid, u16), Sets>,
}

/// The unanswered Sets of a block.
#[derive(Clone, Debug)]
struct Sets {
    /// Contents before the Sets, if known.
    met: Option<Block>,
    /// The different contents that the Sets carried, in order of sending.
    sent: Vec<Block>,
}

impl Unanswered {
    /// Records an unanswered Set. `met` is the contents before the Set, if known, or the contents of an earlier
    /// unanswered Set.
    pub fn note(&mut self, (guid, block, data): (Guid, u16, Block), met: Option<Block>) {
        let Sets { sent, .. } = self
            .blocks
            .entry((guid, block))
            .or_insert(Sets { met, sent: Vec::new() });
        if sent.len() <= TABLES_MAX && !sent.contains(&data) {
            sent.push(data);
        }
    }

    /// Removes the blocks that have been read since. Returns the contents that each block has had, in order of time,
    /// and whether the contents of some block are unknown.
    fn take_read(&mut self, fabric: &Fabric, read: &Installed) -> (Late, bool) {
        let (mut late, mut is_any_unknown) = (Late::new(), false);
        self.blocks.retain(|&(guid, block), Sets { met, sent }| {
            let Some(switch) = fabric.find(guid).and_then(|node| fabric.switch_index(node)) else {
                return true;
            };
            // A switch that was off has lost its tables and the Sets sent to it.
            if fabric.switch(switch).switch_settings.linear_top == 0 {
                return false;
            }
            let Some(now) = read.block(switch, usize::from(block)).copied() else {
                return true;
            };
            let others = sent.iter().copied().filter(|data| *data != now);
            match *met {
                Some(met) if met == now => {}
                Some(met) if sent.len() <= TABLES_MAX => {
                    let held = std::iter::once(met).chain(others).chain([now]);
                    late.insert((guid, block), held.collect());
                }
                Some(_) | None => is_any_unknown = true,
            }
            false
        });
        (late, is_any_unknown)
    }
}

impl Past {
    /// Adds the unanswered Sets of a change.
    pub fn note_unanswered(&mut self, unanswered: Unanswered) {
        self.revision += 1;
        for ((guid, block), Sets { met, sent }) in unanswered.blocks {
            for data in sent {
                self.unanswered.note((guid, block, data), met);
            }
        }
    }

    /// Handles tables that were read: an unacknowledged Set may have been carried out just before.
    pub(super) fn note_late(&mut self, fabric: &Fabric, read: &Installed, now: Time) {
        let (late, is_any_unknown) = self.unanswered.take_read(fabric, read);
        self.revision += u64::from(is_any_unknown || !late.is_empty());
        // The order among several blocks is unknown. Any order is covered if each was written once.
        let is_mixed = late.len() > 1 && late.values().any(|held| held.len() > 2);
        if is_mixed || is_any_unknown {
            self.fog_from(now, fabric);
        }
        if late.is_empty() {
            return;
        }
        self.know_lifetimes();
        self.recent.written.note_late(&late, now);
        self.note_written(now);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::made::{FIRST, SECOND, guid, inventory, row};

    const fn block(entry: u8) -> Block {
        [entry; BLOCK_LIDS]
    }

    #[test]
    fn what_was_not_acknowledged_may_have_been_taken_when_it_is_read() {
        let fabric = Arc::unwrap_or_clone(inventory(row()).fabric);
        let switch = fabric.switch_index(fabric.find(guid(SECOND)).unwrap()).unwrap();
        // Arguments: the contents before, the contents sent, the contents read long after; then the contents that
        // packets in flight may use, and whether they are unknown.
        let check = |met: Option<u8>, sent: &[u8], read: Option<u8>, want: (&[u8], bool)| {
            let mut past = Past::default();
            let mut unanswered = Unanswered::default();
            for data in sent {
                unanswered.note((guid(SECOND), 0, block(*data)), met.map(block));
            }
            past.note_unanswered(unanswered);
            let mut installed = Installed::unknown(fabric.switches().len());
            if let Some(read) = read {
                installed.learn(switch, 0, block(read));
            }
            let now = Time::ZERO + Duration::from_secs(100);
            past.note_late(&fabric, &installed, now);
            // Nothing is recorded twice.
            let steps = past.recent.written.steps.len();
            past.note_late(&fabric, &installed, now);
            assert_eq!(past.recent.written.steps.len(), steps);
            let before = past.recent.written.before.values().map(|held| held[0]);
            let steps = past.recent.written.blocks().map(|block| block.2[0]);
            let held: Vec<u8> = before.chain(steps).collect();
            assert_eq!((&*held, !past.fog(now).is_zero()), want, "{met:?} {sent:?} {read:?}");
            let is_kept = !past.unanswered.blocks.is_empty();
            assert_eq!(is_kept, read.is_none());
            assert!(past.recent.written.steps.iter().all(|step| step.ended == Some(now)));
        };
        check(Some(1), &[2], Some(2), (&[1, 2], false));
        // It was never carried out.
        check(Some(1), &[2], Some(1), (&[], false));
        check(Some(1), &[2, 3], Some(3), (&[1, 2, 3], false));
        // Another manager has written it.
        check(Some(1), &[2], Some(4), (&[1, 2, 4], false));
        check(None, &[2], Some(2), (&[], true));
        // It has not been read.
        check(Some(1), &[2], None, (&[], false));
    }

    #[test]
    fn blocks_that_were_taken_late_were_taken_in_any_order() {
        let fabric = Arc::unwrap_or_clone(inventory(row()).fabric);
        let [first, second] = [FIRST, SECOND].map(|at| fabric.switch_index(fabric.find(guid(at)).unwrap()).unwrap());
        let check = |sent: &[u8], want: (usize, bool)| {
            let mut past = Past::default();
            let mut unanswered = Unanswered::default();
            for data in sent {
                unanswered.note((guid(FIRST), 0, block(*data)), Some(block(1)));
            }
            unanswered.note((guid(SECOND), 0, block(2)), Some(block(1)));
            past.note_unanswered(unanswered);
            let mut installed = Installed::unknown(fabric.switches().len());
            let last = sent.last().copied().unwrap();
            installed.learn(first, 0, block(last));
            installed.learn(second, 0, block(2));
            let now = Time::ZERO + Duration::from_secs(100);
            past.note_late(&fabric, &installed, now);
            assert_eq!(past.recent.written.steps[0].blocks.len(), 2, "{sent:?}");
            assert_eq!(
                (past.recent.written.steps.len(), !past.fog(now).is_zero()),
                want,
                "{sent:?}"
            );
        };
        // One step covers any mix of old and new.
        check(&[2], (1, false));
        // It is unknown which contents of the one block were in force together with which of the other.
        check(&[2, 3], (2, true));
    }
}
