//! Summarises a transition as figures and as a line of text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_plan::{BLOCK_LIDS, ChangeSet, Installed, NO_PATH, Op};

/// One phase of a change set, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSummary {
    /// Purpose of the step, as a name.
    pub label: &'static str,
    /// Wait before the step until packets in flight are gone, in nanoseconds.
    pub wait_ns: u64,
    /// Number of Sets.
    pub sets: usize,
    /// Number of forwarding entries that change.
    pub entries: usize,
    /// Number of entries that become 255, so that packets are dropped until a later step.
    pub dropped: usize,
    /// Number of switches with changed entries.
    pub switches: usize,
}

/// Returns the counts of each phase of a change set.
#[must_use]
pub fn summary(fabric: &Fabric, installed: &Installed, changes: &ChangeSet) -> Vec<StepSummary> {
    const UNKNOWN: [u8; BLOCK_LIDS] = [NO_PATH; BLOCK_LIDS];
    let mut written: BTreeMap<(SwitchIdx, u16), &[u8; BLOCK_LIDS]> = BTreeMap::new();
    let mut steps = Vec::new();
    for phase in &changes.phases {
        let (mut entries, mut dropped, mut switches) = (0, 0, BTreeSet::new());
        for op in &phase.ops {
            let Op::Lft { node, block, data } = op else { continue };
            let Some(switch) = fabric.switch_index(*node) else {
                continue;
            };
            let known = installed.block(switch, usize::from(*block)).unwrap_or(&UNKNOWN);
            let held = written.insert((switch, *block), data).unwrap_or(known);
            let changed = held.iter().zip(data).filter(|(old, new)| old != new);
            let (all, gone) = changed.fold((0, 0), |(all, gone), (_, new)| {
                (all + 1, gone + usize::from(*new == NO_PATH))
            });
            entries += all;
            dropped += gone;
            if all > 0 {
                switches.insert(switch);
            }
        }
        steps.push(StepSummary {
            label: phase.label,
            wait_ns: phase.wait_before_ns,
            sets: phase.ops.len(),
            entries,
            dropped,
            switches: switches.len(),
        });
    }
    steps
}

/// Returns the steps as one line of text.
#[must_use]
pub fn in_words(steps: &[StepSummary]) -> String {
    let words = (1..)
        .zip(steps)
        .map(|(number, step): (usize, _)| format!("step {number}: {step}"));
    words.collect::<Vec<_>>().join("; ")
}

impl fmt::Display for StepSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.wait_ns > 0 {
            let wait = Duration::from_nanos(self.wait_ns).as_secs_f64();
            write!(f, "after {wait:.2} s, when packets in flight are gone, ")?;
        }
        f.write_str(self.label)?;
        if self.entries == 0 {
            return write!(f, " ({} Sets)", self.sets);
        }
        write!(
            f,
            " ({} entries on {} switches, {} Sets)",
            self.entries, self.switches, self.sets
        )
    }
}
