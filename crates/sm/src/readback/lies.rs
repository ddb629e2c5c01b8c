//! Finds switches that acknowledge LFT blocks but hold other contents.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_types::Guid;

/// Number of light sweeps in a row with a block that differs from the acknowledged one, after which SLV-SM-0043 is
/// reported for the switch.
const LIES: u32 = 3;

/// Switches that acknowledge LFT blocks but hold other contents.
#[derive(Clone, Debug, Default)]
pub(super) struct Lies {
    /// Light sweeps in a row in which a switch had a differing block.
    in_row: BTreeMap<Guid, u32>,
    /// Switches with a block that was read in this light sweep and differs.
    wrong: BTreeSet<Guid>,
    /// Switches with a block that was read in this light sweep and is correct.
    right: BTreeSet<Guid>,
}

impl Lies {
    /// Drops the findings of the last light sweep, if it did not complete.
    pub(super) fn forget_sweep(&mut self) {
        self.wrong.clear();
        self.right.clear();
    }

    /// Records that a switch holds a block with the contents that it acknowledged.
    pub(super) fn holds(&mut self, switch: Guid) {
        self.right.insert(switch);
    }

    /// Records a differing block of a switch. If this makes the switch one that must be reported, returns the number of
    /// light sweeps in a row in which a block differed.
    pub(super) fn differs(&mut self, switch: Guid) -> Option<u32> {
        let is_first = self.wrong.insert(switch);
        let times = self.in_row.get(&switch).copied().unwrap_or(0) + 1;
        (is_first && times == LIES).then_some(times)
    }

    /// Ends a light sweep.
    pub(super) fn count(&mut self) {
        let (wrong, right) = (std::mem::take(&mut self.wrong), std::mem::take(&mut self.right));
        for switch in right.difference(&wrong) {
            self.in_row.remove(switch);
        }
        for switch in wrong {
            *self.in_row.entry(switch).or_default() += 1;
        }
    }

    /// Returns the switches that repeatedly held other contents than they acknowledged.
    pub(super) fn liars(&self) -> impl Iterator<Item = Guid> + '_ {
        let liars = self.in_row.iter().filter(|(_, times)| **times >= LIES);
        liars.map(|(switch, _)| *switch)
    }
}
