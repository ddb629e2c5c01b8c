//! Entries that packets may have used before a block was written or LinearFDBTop was lowered: such packets may still be
//! in flight.

use selvedge_fabric::{NodeIdx, PortRef, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_planner::past::goes_unnoticed;
use selvedge_types::PortNum;
use selvedge_verify::phases;

use super::PlanSets;

/// Entries of a block.
type Block = [u8; BLOCK_LIDS];

impl PlanSets {
    /// Records that a block was or may have been written: packets that its earlier contents forwarded may be in flight.
    pub(super) fn note_taken(&mut self, (node, block): (NodeIdx, u16), data: &[u8; BLOCK_LIDS]) {
        if !self.traffic.may_be_live {
            return;
        }
        self.traffic.taken.note_sent();
        let switch = self.fabric.switch_index(node);
        let known = switch.and_then(|switch| self.installed.block(switch, usize::from(block)).copied());
        let met = switch.and_then(|switch| known.map(|known| self.as_met(switch, block, known, data)));
        let is_looked_up = self.is_looked_up(node, block);
        if known.is_none() && is_looked_up {
            self.traffic.taken.note_blind();
        }
        if !goes_unnoticed(met.as_ref(), is_looked_up, data) {
            self.traffic
                .taken
                .note((self.fabric.node(node).guid, block, *data), met);
        }
    }

    /// Records a Set of a block without an answer: the block may change at any time from now on.
    pub(super) fn note_unanswered(&mut self, (node, block): (NodeIdx, u16), data: &Block) {
        if self.traffic.may_be_live {
            let switch = self.fabric.switch_index(node);
            let known = switch.and_then(|switch| self.installed.block(switch, usize::from(block)).copied());
            let guid = self.fabric.node(node).guid;
            self.traffic.unanswered.note((guid, block, *data), known);
        }
    }

    /// Records that LinearFDBTop of a switch was or may have been lowered. Entries above it drop packets from now on,
    /// also entries that are written above it later.
    pub(super) fn note_lowered(&mut self, node: NodeIdx, top: u16) {
        let before = self.fabric.node(node).switch_settings.linear_top;
        let (Some(switch), true) = (self.fabric.switch_index(node), self.traffic.may_be_live && top < before) else {
            return;
        };
        for block in top / BLOCK_LIDS as u16..=before / BLOCK_LIDS as u16 {
            let Some(known) = self.installed.block(switch, usize::from(block)).copied() else {
                self.traffic.taken.note_blind();
                continue;
            };
            let mut data = known;
            let lids = usize::from(block) * BLOCK_LIDS..;
            let above = lids.zip(&mut data).filter(|(lid, _)| *lid > usize::from(top));
            above.for_each(|(_, entry)| *entry = NO_PATH);
            let met = self.as_met(switch, block, known, &data);
            if met != data {
                self.traffic
                    .taken
                    .note((self.fabric.node(node).guid, block, data), Some(met));
            }
        }
    }

    /// True if a block is used for forwarding: its first LID is not above LinearFDBTop.
    fn is_looked_up(&self, node: NodeIdx, block: u16) -> bool {
        let top = self.inventory.fabric.node(node).switch_settings.linear_top;
        top > 0 && usize::from(block) * BLOCK_LIDS <= usize::from(top)
    }

    /// Returns the entries that packets could use before a block was written. Entries to a link that is not ACTIVE yet
    /// and entries of LIDs above LinearFDBTop are left out, because no packet could use them.
    fn as_met(&self, switch: SwitchIdx, block: u16, mut before: Block, now: &Block) -> Block {
        let node = self.fabric.switches()[switch];
        let top = usize::from(self.fabric.node(node).switch_settings.linear_top);
        let is_asleep = |egress: u8| {
            PortNum::new(egress).is_some_and(|port| phases::is_asleep(&self.fabric, PortRef { node, port }))
        };
        let lids = usize::from(block) * BLOCK_LIDS..;
        let replaced = lids
            .zip(before.iter_mut().zip(now))
            .filter(|(_, (old, new))| old != new);
        for (_, (old, _)) in replaced.filter(|(lid, (old, _))| *lid > top || is_asleep(**old)) {
            *old = NO_PATH;
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use selvedge_plan::Installed;
    use selvedge_planner::Outcome;
    use selvedge_planner::past::{After, Past};
    use selvedge_sim::Time;

    use super::*;
    use crate::apply::{Apply, Wait};
    use crate::made::{FIRST, guid, outcome};

    /// Begins to apply a plan that `change` has changed. Returns the work before its first Set, and the state after it
    /// for the record of packets in flight.
    fn begun(change: impl Fn(&mut Outcome)) -> (Apply, After) {
        let mut outcome = outcome();
        change(Arc::get_mut(&mut outcome).unwrap());
        let fabric = Arc::clone(&outcome.inventory.fabric);
        let mut installed = Installed::unknown(2);
        for switch in fabric.switches().indices() {
            installed.learn(switch, 0, [1; BLOCK_LIDS]);
        }
        let after = After {
            fabric,
            plan: Arc::clone(&outcome.plan),
            installed: Arc::new(installed.clone()),
        };
        let inventory = Arc::clone(&outcome.inventory);
        (Apply::new(outcome, inventory, installed), after)
    }

    #[test]
    fn entries_above_a_lowered_top_have_been_dropped() {
        // LinearFDBTop is 9, and all entries of block 0 lead to port 1. `want`: the LIDs with packets that may be in
        // flight.
        let check = |top: u16, want: &[usize]| {
            let (mut apply, after) = begun(|_| {});
            let fabric = Arc::clone(&after.fabric);
            let node = fabric.find(guid(FIRST)).unwrap();
            apply.work.note_lowered(node, top);
            let mut past = Past::default();
            past.add(apply.work.traffic.taken, false, Time::ZERO, after);
            let under_way = past.under_way(&fabric, Time::ZERO);
            let found = under_way.map_or_else(Vec::new, |under_way| {
                let (before, after) = (&under_way.before[0].2, &under_way.phases[0][0].2);
                (0..BLOCK_LIDS).filter(|&lid| before[lid] != after[lid]).collect()
            });
            assert_eq!(found, want, "{top}");
        };
        check(9, &[]);
        check(12, &[]);
        check(6, &[7, 8, 9]);
    }

    #[test]
    fn what_was_dropped_out_of_sight_is_under_way_until_it_was_waited_for() {
        // How long it may be, and how long the plan has waited.
        let check = |out_of_sight: u64, waited_ns: u64, want: bool| {
            let (mut apply, after) = begun(|outcome| outcome.out_of_sight = Duration::from_nanos(out_of_sight));
            let wait = Wait {
                until: Time::ZERO,
                wait_ns: waited_ns,
                phase: 1,
                phases: 1,
                label: "",
            };
            apply.work.pause.begin(wait, Time::ZERO);
            apply.work.pause.end_if_over(Time::ZERO);
            let applied = apply.end();
            let mut past = Past::default();
            past.add(applied.traffic.taken, applied.traffic.has_drained, Time::ZERO, after);
            assert_eq!(!past.fog(Time::ZERO).is_zero(), want, "{out_of_sight} {waited_ns}");
        };
        check(0, 0, false);
        check(9, 0, true);
        check(9, 8, true);
        check(9, 9, false);
    }
}
