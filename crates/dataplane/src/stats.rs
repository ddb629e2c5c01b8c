//! Counters of a simulation.

use serde::{Deserialize, Serialize};

use crate::units::Ps;

/// Reason why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The switch has no forwarding entry.
    NoEntry,
    /// The forwarding entry leads to the switch's own port 0.
    ToSwitch,
    /// The link of the output port is down.
    LinkDown,
    /// The link broke while the packet was on it.
    InFlight,
    /// The lane map drops the packet, or names a lane that is not in use.
    Lane,
    /// The packet was first in its queue for longer than the head-of-queue lifetime.
    HeadOfQueue,
    /// The packet was in a switch for longer than the switch lifetime.
    SwitchLife,
    /// The packet was forwarded to an end port that does not have the destination LID.
    WrongHost,
}

/// Packets that were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// Packets for which the switch had no forwarding entry.
    pub no_entry: u64,
    /// Packets with a forwarding entry that leads to the switch's own port 0.
    pub to_switch: u64,
    /// Packets with an output port on which the link was down.
    pub link_down: u64,
    /// Packets that were on a link when it broke.
    pub in_flight: u64,
    /// Packets that the lane map drops, or for which it names a lane that is not in use.
    pub lane: u64,
    /// Packets that were first in their queue for longer than the head-of-queue lifetime.
    pub head_of_queue: u64,
    /// Packets that were in a switch for longer than the switch lifetime.
    pub switch_life: u64,
    /// Packets forwarded to a host that does not have the destination LID.
    pub wrong_host: u64,
}

impl Drops {
    pub(crate) fn count(&mut self, reason: DropReason) {
        *match reason {
            DropReason::NoEntry => &mut self.no_entry,
            DropReason::ToSwitch => &mut self.to_switch,
            DropReason::LinkDown => &mut self.link_down,
            DropReason::InFlight => &mut self.in_flight,
            DropReason::Lane => &mut self.lane,
            DropReason::HeadOfQueue => &mut self.head_of_queue,
            DropReason::SwitchLife => &mut self.switch_life,
            DropReason::WrongHost => &mut self.wrong_host,
        } += 1;
    }

    /// Returns the sum.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.no_entry
            + self.to_switch
            + self.link_down
            + self.in_flight
            + self.lane
            + self.head_of_queue
            + self.switch_life
            + self.wrong_host
    }
}

/// Number of steps per power of two in a histogram: exact to less than 1 %.
const STEPS: u64 = 128;

/// Counts of values, finer where they are smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        let place = Self::place(value);
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.total += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    #[inline]
    const fn place(value: u64) -> usize {
        if value < 2 * STEPS {
            return value as usize;
        }
        let shift = value.ilog2() - STEPS.ilog2();
        (STEPS * shift as u64 + (value >> shift)) as usize
    }

    /// Returns the middle of the values in a step.
    const fn value(place: usize) -> u64 {
        let place = place as u64;
        if place < 2 * STEPS {
            return place;
        }
        let shift = place / STEPS - 1;
        let low = (place - STEPS * shift) << shift;
        low + (1 << shift) / 2
    }

    /// Returns the quantile in per mille; 0 without values.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = (self.total * per_mille).div_ceil(1_000).max(1);
        let mut seen = 0;
        for (place, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Self::value(place).min(self.max);
            }
        }
        0
    }

    /// Returns the exact mean; 0 without values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.total == 0 {
            0.0
        } else {
            self.sum as f64 / self.total as f64
        }
    }

    /// Returns the largest value.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the number of values.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}

/// Counters of a port during the measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PortStats {
    /// Time with packets to send but no credits.
    pub wait: Ps,
    /// The time since which the port has been waiting.
    pub waits_since: Option<Ps>,
    /// Packets for this output that were dropped.
    pub discards: u64,
    /// Packets from this input without a route.
    pub relay_errors: u64,
    /// How often the port's link broke.
    pub downed: u64,
}

impl PortStats {
    /// Ends a wait, because a packet is sent now.
    pub fn waited(&mut self, now: Ps, measured_from: Ps) {
        if let Some(since) = self.waits_since.take() {
            self.wait += now.saturating_sub(since.max(measured_from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_exact_to_a_percent() {
        for exponent in 0..50 {
            for value in [1_u64 << exponent, (1 << exponent) * 5 / 4, (1 << exponent) * 3 / 2 + 1] {
                let found = Histogram::value(Histogram::place(value));
                let error = found.abs_diff(value) as f64 / value as f64;
                assert!(error < 0.01, "{value} {found}");
            }
        }
    }

    #[test]
    fn quantiles() {
        let mut histogram = Histogram::default();
        (1..=100).for_each(|value| histogram.add(value));
        assert_eq!((histogram.quantile(500), histogram.quantile(990)), (50, 99));
        assert_eq!((histogram.mean(), histogram.max()), (50.5, 100));
        assert_eq!(Histogram::default().quantile(500), 0);
    }
}
