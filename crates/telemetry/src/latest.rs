//! The last totals of every port: what exporters show.

use std::collections::BTreeMap;

use selvedge_types::Guid;

use crate::group::{Group, Row};
use crate::{How, Metric, Sample, SampleKey, Slot};

/// The last totals of a port and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The totals.
    pub totals: Row,
    /// Counters with a value.
    pub known: u32,
    /// How the values of the last sample were obtained.
    pub how: How,
    /// The slot of the last sample.
    pub slot: Slot,
}

/// The last totals of every port. A counter that once had a value keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latest(BTreeMap<SampleKey, Shown>);

impl Latest {
    /// Takes a sample.
    pub fn take(&mut self, sample: &Sample) {
        let before = self.0.get(&sample.key).map_or(0, |shown| shown.known);
        let shown = Shown {
            totals: sample.totals,
            known: sample.known | before,
            how: sample.how,
            slot: sample.slot,
        };
        self.0.insert(sample.key, shown);
    }

    /// Forgets the ports of a node.
    pub fn forget(&mut self, node: Guid) {
        self.0.retain(|key, _| key.node != node);
    }

    /// Returns the last totals of a port and group.
    #[must_use]
    pub fn get(&self, key: SampleKey) -> Option<&Shown> {
        self.0.get(&key)
    }

    /// Returns the total of a counter; `None` if it has no value.
    #[must_use]
    pub fn counter(&self, key: SampleKey, counter: usize) -> Option<u64> {
        let shown = self.0.get(&key)?;
        (shown.known >> counter & 1 != 0).then(|| shown.totals[counter])
    }

    /// Returns the total of a metric: by PortCountersExtended if it has a value there, by PortCounters otherwise.
    #[must_use]
    pub fn metric(&self, node: Guid, port: u8, metric: Metric) -> Option<u64> {
        [Group::Extended, Group::Base].into_iter().find_map(|group| {
            let key = SampleKey { node, port, group };
            self.counter(key, group.place(metric)?)
        })
    }
}
