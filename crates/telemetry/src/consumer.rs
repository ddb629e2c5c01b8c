//! What a sampler found in a slot, for those that keep it, show it or judge it.

use core::time::Duration;
use std::sync::Arc;

use crate::clock::Wall;
use crate::{Inventory, Sample, SlotReport};

/// A slot that is complete: the samples of all ports of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotData {
    /// What became of the slot.
    pub report: SlotReport,
    /// The interval of its class.
    pub interval: Duration,
    /// The samples, in the order in which they were known. No two have the same node, port and group.
    pub samples: Vec<Box<Sample>>,
    /// The fabric when the slot ended.
    pub inventory: Arc<Inventory>,
}

impl SlotData {
    /// Returns when the slot began.
    #[must_use]
    pub fn begin(&self) -> Wall {
        self.report.slot.begin(self.interval)
    }

    /// Returns when the values of a sample were known.
    #[must_use]
    pub fn known_at(&self, sample: &Sample) -> Wall {
        Wall(self.begin().0.saturating_add(u64::from(sample.offset_us) * 1_000))
    }
}

/// Takes every slot: a store, an exporter, alarms. A driver calls its consumers one after the other, on a thread that
/// neither the manager nor the sampler waits for.
pub trait Consumer: Send {
    /// Takes a slot.
    fn take(&mut self, slot: &SlotData);
}
