//! Soft zeros: an operator begins to count from zero without a reset of any device, so no other reader notices.

use std::collections::BTreeMap;

use crate::group::{Row, WIDEST};
use crate::{Sample, SampleKey};

/// Totals from which an operator counts. Totals never fall, so the differences never fall either.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baselines(BTreeMap<SampleKey, Row>);

impl Baselines {
    /// Makes the totals of this sample the baseline of its port.
    pub fn set(&mut self, sample: &Sample) {
        self.0.insert(sample.key, sample.totals);
    }

    /// Counts a port from its first reading on again; false if it had no baseline.
    pub fn clear(&mut self, key: SampleKey) -> bool {
        self.0.remove(&key).is_some()
    }

    /// Returns the counts of the port since its baseline, or its totals if it has none.
    #[must_use]
    pub fn since(&self, sample: &Sample) -> Row {
        let zero = self.0.get(&sample.key).copied().unwrap_or([0; WIDEST]);
        core::array::from_fn(|i| sample.totals[i].saturating_sub(zero[i]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Group, How, Slot};
    use selvedge_types::Guid;

    #[test]
    fn counts_from_the_baseline() {
        let key = SampleKey {
            node: Guid(1),
            port: 2,
            group: Group::Base,
        };
        let sample = |total| {
            let mut totals = [0; WIDEST];
            totals[3] = total;
            Sample {
                key,
                class: 0,
                slot: Slot::default(),
                offset_us: 0,
                rtt_us: 0,
                agent: 0,
                how: How::Read,
                totals,
                raw: None,
                known: u32::MAX,
                full: 0,
                resets: 0,
            }
        };
        let mut baselines = Baselines::default();
        assert_eq!(baselines.since(&sample(70))[3], 70);
        baselines.set(&sample(70));
        assert_eq!(baselines.since(&sample(75))[3], 5);
        assert_eq!(baselines.since(&sample(60))[3], 0, "an older sample");
        assert!(baselines.clear(key));
        assert!(!baselines.clear(key));
        assert_eq!(baselines.since(&sample(75))[3], 75);
    }
}
