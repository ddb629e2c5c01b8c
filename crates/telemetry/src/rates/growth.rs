//! The growth of counters between two samples.

use core::time::Duration;

use crate::group::{Group, Row, WIDEST};
use crate::{How, Metric, Sample, SampleKey, Wall};

/// How much the counters of a port and group grew between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Node, port, group.
    pub key: SampleKey,
    /// The time between the moments at which the two samples were known.
    pub over: Duration,
    /// By how much each counter grew.
    pub grown: Row,
    /// Counters that have a value in both samples.
    pub known: u32,
    /// Counters that grew by at least this much: they were reset between the samples, or stood at their maximum.
    pub at_least: u32,
    /// True if a value was derived from the other end of the link, or is assumed to be unchanged.
    pub is_derived: bool,
}

impl Growth {
    /// Returns the growth from one sample to a later one of the same port, group and epoch. `interval` is that of their
    /// sampling class. `None`: they do not belong together, or the second was not known after the first.
    #[must_use]
    pub fn between(before: &Sample, after: &Sample, interval: Duration) -> Option<Self> {
        if before.key != after.key || before.class != after.class || before.slot.epoch != after.slot.epoch {
            return None;
        }
        let at = |sample: &Sample| {
            let Wall(begin) = sample.slot.begin(interval);
            begin.saturating_add(u64::from(sample.offset_us) * 1_000)
        };
        let over = at(after).checked_sub(at(before)).filter(|ns| *ns > 0)?;
        let mut grown = [0; WIDEST];
        for (i, grown) in grown.iter_mut().enumerate() {
            *grown = after.totals[i].saturating_sub(before.totals[i]);
        }
        let known = before.known & after.known;
        let was_reset = if before.resets == after.resets { 0 } else { known };
        Some(Self {
            key: after.key,
            over: Duration::from_nanos(over),
            grown,
            known,
            at_least: (before.full | after.full | was_reset) & known,
            is_derived: [before.how, after.how].contains(&How::Derived),
        })
    }

    /// Returns by how much a counter grew; `None` if it has no value.
    #[must_use]
    pub fn counter(&self, counter: usize) -> Option<u64> {
        (self.known >> counter & 1 != 0).then(|| self.grown[counter])
    }

    /// Returns by how much a metric grew; `None` if the group does not have it.
    #[must_use]
    pub fn metric(&self, metric: Metric) -> Option<u64> {
        self.counter(self.key.group.place(metric)?)
    }

    /// Returns the growth of a metric per second.
    #[must_use]
    pub fn per_second(&self, metric: Metric) -> Option<f64> {
        Some(self.metric(metric)? as f64 / self.over.as_secs_f64())
    }

    /// Returns how many counters there are in its group.
    #[must_use]
    pub const fn counters(&self) -> usize {
        let group: Group = self.key.group;
        group.counters()
    }
}
