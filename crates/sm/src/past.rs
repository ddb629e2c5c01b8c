//! Tables that have changed a short while ago: packets may be under way by entries that are no longer in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_fabric::Fabric;
use selvedge_plan::{BLOCK_LIDS, BlockOf, Installed, Lids, NO_PATH, UnderWay};
use selvedge_sim::Time;
use selvedge_types::{Guid, Lid};
use selvedge_verify::phases::{drain_bound_ns, lifetimes_after};

/// Steps that are kept apart; more are taken for one, which allows for more than can be.
const STEPS_MAX: usize = 64;
/// Where switches keep packets for ever, those of an earlier change are taken to be gone after so long. It is an
/// assumption: nothing bounds it.
pub const ASSUMED_GONE: Duration = Duration::from_secs(60);

/// Blocks that were written, by GUID, as switches are numbered anew in every sweep.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// As they were before the first of them was written.
    before: BTreeMap<(Guid, u16), [u8; BLOCK_LIDS]>,
    /// By step.
    steps: Vec<Vec<BlockOf<Guid>>>,
    /// The step that is being taken.
    open: Vec<BlockOf<Guid>>,
}

impl Taken {
    /// A block was written, or may have been.
    pub fn note(&mut self, block: BlockOf<Guid>, before: Option<[u8; BLOCK_LIDS]>) {
        let held = before.unwrap_or([NO_PATH; BLOCK_LIDS]);
        self.before.entry((block.0, block.1)).or_insert(held);
        self.open.push(block);
    }

    /// The step is acknowledged.
    pub fn end_phase(&mut self) {
        if !self.open.is_empty() {
            self.steps.push(std::mem::take(&mut self.open));
        }
        if self.steps.len() > STEPS_MAX {
            let second = self.steps.remove(1);
            self.steps[0].extend(second);
        }
    }

    /// All packets are gone that were under way.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    const fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.open.is_empty()
    }

    /// LIDs of which an entry changed.
    fn lids(&self) -> BTreeSet<Lid> {
        let mut held = self.before.clone();
        let mut lids = BTreeSet::new();
        for (guid, block, data) in self.steps.iter().flatten().chain(&self.open) {
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
}

/// The fabric, LIDs and tables after a change.
#[derive(Clone, Copy, Debug)]
pub struct After<'a> {
    /// What agents hold.
    pub fabric: &'a Fabric,
    /// Whose LIDs are whose.
    pub lids: &'a Lids,
    /// Tables as acknowledged.
    pub installed: &'a Installed,
}

/// The last changes, until packets under way are gone.
#[derive(Clone, Debug, Default)]
pub struct Past {
    taken: Taken,
    /// When the last step was acknowledged.
    at: Time,
    /// How many lifetimes after that its packets matter.
    lifetimes: u32,
}

impl Past {
    /// A change was applied, wholly or up to a wait. `waited`: it has let packets drain on its way.
    pub fn add(&mut self, mut taken: Taken, waited: bool, now: Time, after: After<'_>) {
        taken.end_phase();
        if waited {
            self.taken.clear();
        }
        if taken.is_empty() {
            return;
        }
        self.at = now;
        for (at, block) in taken.before {
            self.taken.before.entry(at).or_insert(block);
        }
        for step in taken.steps {
            self.taken.open = step;
            self.taken.end_phase();
        }
        let entry = |switch, lid| after.installed.get(switch, lid).unwrap_or(NO_PATH);
        self.lifetimes = lifetimes_after(after.fabric, after.lids, entry, self.taken.lids());
    }

    /// What may still be under way on a fabric.
    pub fn under_way(&mut self, fabric: &Fabric, now: Time) -> Option<Arc<UnderWay>> {
        if self.taken.is_empty() {
            return None;
        }
        let age = now.since(self.at);
        let switches = fabric.switches();
        let lifetimes = switches.iter().map(|&node| fabric.node(node).switch_settings.lifetime);
        let bound = drain_bound_ns(lifetimes, self.lifetimes);
        if age >= bound.map_or(ASSUMED_GONE, Duration::from_nanos) {
            self.taken.clear();
            return None;
        }
        let switch = |guid: Guid| fabric.find(guid).and_then(|node| fabric.switch_index(node));
        let before = self.taken.before.iter();
        let step = |step: &Vec<BlockOf<Guid>>| {
            let blocks = step
                .iter()
                .filter_map(|(guid, block, data)| Some((switch(*guid)?, *block, *data)));
            blocks.collect()
        };
        Some(Arc::new(UnderWay {
            before: before
                .filter_map(|((guid, block), data)| Some((switch(*guid)?, *block, *data)))
                .collect(),
            phases: self.taken.steps.iter().map(step).collect(),
            age_ns: u64::try_from(age.as_nanos()).unwrap_or(u64::MAX),
        }))
    }
}
