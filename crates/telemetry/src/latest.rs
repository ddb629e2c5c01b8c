//! The last totals of every port: what exporters show.

use std::collections::BTreeMap;

use selvedge_types::Guid;

use crate::clock::Wall;
use crate::group::{Group, Row};
use crate::{How, Metric, Sample, SampleKey, Slot, SlotData};

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
    /// Growth from the sample before to the last one; `None` if the times of both are not known.
    pub growth: Option<Growth>,
    /// How many readings showed a reset of a counter.
    pub resets: u32,
    /// When the last sample was known; `None`: it came without its time.
    at: Option<Wall>,
}

/// How counters grew from one sample to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// By how much.
    pub by: Row,
    /// Within this time, in microseconds; at least 1.
    pub within_us: u64,
}

impl Growth {
    /// Returns the growth of a counter in a second, rounded down.
    #[must_use]
    pub fn per_s(&self, counter: usize) -> u64 {
        let by = self.by.get(counter).copied().unwrap_or_default();
        let per_s = u128::from(by) * 1_000_000 / u128::from(self.within_us.max(1));
        u64::try_from(per_s).unwrap_or(u64::MAX)
    }
}

/// The last totals of every port. A counter that once had a value keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latest(BTreeMap<SampleKey, Shown>);

impl Latest {
    /// Takes a sample without the time of its slot, so that no rate follows from it.
    pub fn take(&mut self, sample: &Sample) {
        self.take_at(sample, None);
    }

    /// Takes the samples of a slot.
    pub fn take_slot(&mut self, slot: &SlotData) {
        for sample in &slot.samples {
            self.take_at(sample, Some(slot.known_at(sample)));
        }
    }

    fn take_at(&mut self, sample: &Sample, at: Option<Wall>) {
        let last = self.0.get(&sample.key);
        let growth = last.and_then(|last| {
            let within = at?.0.checked_sub(last.at?.0)?;
            Some(Growth {
                by: core::array::from_fn(|i| sample.totals[i].saturating_sub(last.totals[i])),
                within_us: (within / 1_000).max(1),
            })
        });
        let shown = Shown {
            totals: sample.totals,
            known: sample.known | last.map_or(0, |last| last.known),
            how: sample.how,
            slot: sample.slot,
            growth,
            resets: sample.resets,
            at,
        };
        self.0.insert(sample.key, shown);
    }

    /// Forgets the ports of a node.
    pub fn forget(&mut self, node: Guid) {
        self.0.retain(|key, _| key.node != node);
    }

    /// Returns all ports and groups in order, with their last totals.
    pub fn iter(&self) -> impl Iterator<Item = (&SampleKey, &Shown)> {
        self.0.iter()
    }

    /// Forgets nodes for which `is_kept` is false.
    pub fn retain(&mut self, mut is_kept: impl FnMut(Guid) -> bool) {
        self.0.retain(|key, _| is_kept(key.node));
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

    /// Returns the last totals of a port by metric.
    #[must_use]
    pub fn port(&self, node: Guid, port: u8) -> PortTotals<'_> {
        let of = |group| self.0.get(&SampleKey { node, port, group });
        PortTotals([Group::Extended, Group::Base].map(|group| (group, of(group))))
    }

    /// Returns the total of a metric: by PortCountersExtended if it has a value there, by PortCounters otherwise.
    #[must_use]
    pub fn metric(&self, node: Guid, port: u8, metric: Metric) -> Option<u64> {
        self.port(node, port).metric(metric)
    }

    /// Returns how much a metric grew in a second, from the sample before to the last one; `None` if it has no two
    /// samples. It is taken from the group that [`Self::metric`] takes.
    #[must_use]
    pub fn per_s(&self, node: Guid, port: u8, metric: Metric) -> Option<u64> {
        [Group::Extended, Group::Base].into_iter().find_map(|group| {
            let (key, place) = (SampleKey { node, port, group }, group.place(metric)?);
            self.counter(key, place)?;
            Some(self.get(key)?.growth.map(|growth| growth.per_s(place)))
        })?
    }
}

/// The last totals of a port by metric.
#[derive(Clone, Copy, Debug)]
pub struct PortTotals<'a>([(Group, Option<&'a Shown>); 2]);

impl PortTotals<'_> {
    /// Returns the total of a metric: by PortCountersExtended if it has a value there, by PortCounters otherwise.
    #[must_use]
    pub fn metric(&self, metric: Metric) -> Option<u64> {
        self.0.iter().find_map(|(group, shown)| {
            let (shown, place) = (shown.as_ref()?, group.place(metric)?);
            (shown.known >> place & 1 != 0).then(|| shown.totals[place])
        })
    }
}

impl Shown {
    /// Returns when the last sample was known; `None`: it came without its time.
    #[must_use]
    pub const fn at(&self) -> Option<Wall> {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::SlotReport;
    use crate::group::WIDEST;

    const KEY: SampleKey = SampleKey {
        node: Guid(1),
        port: 2,
        group: Group::Extended,
    };

    fn slot(number: u64, offset_us: u32, words: u64) -> SlotData {
        let mut totals = [0; WIDEST];
        totals[Metric::XmitData as usize] = words;
        let slot = Slot { epoch: 0, number };
        let sample = Sample {
            key: KEY,
            class: 0,
            slot,
            offset_us,
            rtt_us: 0,
            agent: 0,
            how: How::Read,
            totals,
            raw: None,
            known: 0xFF,
            full: 0,
            resets: 0,
        };
        SlotData {
            report: SlotReport {
                slot,
                ..SlotReport::default()
            },
            interval: Duration::from_secs(2),
            samples: vec![Box::new(sample)],
            inventory: std::sync::Arc::default(),
        }
    }

    #[test]
    fn rates_are_by_the_times_at_which_values_were_known() {
        let mut latest = Latest::default();
        let per_s = |latest: &Latest, metric| latest.per_s(Guid(1), 2, metric);
        latest.take_slot(&slot(10, 1_000, 500));
        assert_eq!(per_s(&latest, Metric::XmitData), None, "one sample");
        latest.take_slot(&slot(11, 501_000, 1_000_500));
        assert_eq!(per_s(&latest, Metric::XmitData), Some(400_000), "2.5 s");
        assert_eq!(per_s(&latest, Metric::RcvData), Some(0));
        assert_eq!(per_s(&latest, Metric::SymbolErrors), None, "the agent does not have it");
        // A clock that was set back does not show how much time passed.
        latest.take_slot(&slot(9, 0, 1_000_600));
        assert_eq!(per_s(&latest, Metric::XmitData), None);
        assert_eq!(latest.metric(Guid(1), 2, Metric::XmitData), Some(1_000_600));
    }
}
