//! What each end of each cable counted lately.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::cable::{BerEstimate, CableEnd};
use crate::rates::Growth;
use crate::{End, Inventory, Metric};

/// What an end counted, for each counter over the time in which it was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    over: Duration,
    symbol_errors: u64,
    recoveries: u64,
    downs: u64,
    rcv_errors: u64,
}

impl Counts {
    fn add(&mut self, growth: &Growth) {
        // Several growths may each have a part of the counters of the same time.
        if growth.metric(Metric::SymbolErrors).is_some() {
            self.over += growth.over;
        }
        let of = |metric| growth.metric(metric).unwrap_or(0);
        self.symbol_errors = self.symbol_errors.saturating_add(of(Metric::SymbolErrors));
        self.recoveries = self.recoveries.saturating_add(of(Metric::LinkRecoveries));
        self.downs = self.downs.saturating_add(of(Metric::LinkDowned));
        self.rcv_errors = self.rcv_errors.saturating_add(of(Metric::RcvErrors));
    }

    const fn plus(self, other: Self) -> Self {
        Self {
            over: self.over.saturating_add(other.over),
            symbol_errors: self.symbol_errors.saturating_add(other.symbol_errors),
            recoveries: self.recoveries.saturating_add(other.recoveries),
            downs: self.downs.saturating_add(other.downs),
            rcv_errors: self.rcv_errors.saturating_add(other.rcv_errors),
        }
    }
}

/// What the ends of cables counted within the last window: the half of it in progress, and the half before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableBook {
    half: Duration,
    ends: BTreeMap<End, (Counts, Counts)>,
}

impl CableBook {
    /// Returns a book with the counts of this time, and of half of it at least.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self {
            half: window / 2,
            ends: BTreeMap::new(),
        }
    }

    /// Takes the growth of a port's counters, each counter once.
    pub fn take(&mut self, growth: &Growth) {
        let end = End {
            node: growth.key.node,
            port: growth.key.port,
        };
        let (now, before) = self.ends.entry(end).or_default();
        if now.over >= self.half {
            *before = core::mem::take(now);
        }
        now.add(growth);
    }

    /// Forgets ports that the fabric does not have.
    pub fn take_inventory(&mut self, inventory: &Inventory) {
        self.ends.retain(|end, _| inventory.port(*end).is_some());
    }

    /// Returns what a port counted, with the bit error rate of what it received.
    #[must_use]
    pub fn of(&self, inventory: &Inventory, end: End) -> Option<CableEnd> {
        let (now, before) = self.ends.get(&end)?;
        let counts = now.plus(*before);
        let rate = inventory.port(end).and_then(|port| port.rate);
        Some(CableEnd {
            over: counts.over,
            symbol_errors: counts.symbol_errors,
            recoveries: counts.recoveries,
            downs: counts.downs,
            rcv_errors: counts.rcv_errors,
            ber: rate.and_then(|rate| BerEstimate::new(counts.symbol_errors, counts.over, rate)),
        })
    }

    /// Returns what all ports counted.
    #[must_use]
    pub fn counted(&self, inventory: &Inventory) -> BTreeMap<End, CableEnd> {
        let ends = self.ends.keys();
        ends.filter_map(|end| Some((*end, self.of(inventory, *end)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Guid;

    use super::*;
    use crate::group::WIDEST;
    use crate::{Group, SampleKey};

    fn growth(metric: Metric, by: u64) -> Growth {
        let group = Group::Base;
        let mut grown = [0; WIDEST];
        grown[group.place(metric).unwrap()] = by;
        Growth {
            key: SampleKey {
                node: Guid(1),
                port: 2,
                group,
            },
            over: Duration::from_secs(60),
            grown,
            known: group.mask(),
            at_least: 0,
            is_derived: false,
        }
    }

    #[test]
    fn counts_leave_after_a_window_and_not_before_half_of_it() {
        let mut book = CableBook::new(Duration::from_secs(600));
        let end = End { node: Guid(1), port: 2 };
        let inventory = Inventory::default();
        book.take(&growth(Metric::LinkDowned, 2));
        let mut seen = Vec::new();
        for _ in 0..12 {
            book.take(&growth(Metric::SymbolErrors, 1));
            let counted = book.of(&inventory, end).unwrap();
            seen.push((counted.downs, counted.symbol_errors, counted.over.as_secs()));
            assert_eq!(counted.ber, None, "the rate of the link is not known");
        }
        assert_eq!(seen[3], (2, 4, 300));
        assert_eq!(seen[8], (2, 9, 600));
        assert_eq!(seen[9], (0, 6, 360));
        assert_eq!(seen[11], (0, 8, 480));
        book.take_inventory(&inventory);
        assert_eq!(book.of(&inventory, end), None);
    }
}
