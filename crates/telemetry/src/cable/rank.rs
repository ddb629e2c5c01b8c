//! Cables ranked by what both ends counted.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::BTreeMap;

use selvedge_types::Rate;

use crate::cable::BerEstimate;
use crate::{End, Inventory, Metric, rates::Growth};

/// What one end of a cable counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CableEnd {
    /// Over this time; `ZERO`: the end was not read.
    pub over: Duration,
    /// SymbolErrorCounter.
    pub symbol_errors: u64,
    /// LinkErrorRecoveryCounter.
    pub recoveries: u64,
    /// LinkDownedCounter.
    pub downs: u64,
    /// PortRcvErrors.
    pub rcv_errors: u64,
    /// The bit error rate of what it received.
    pub ber: Option<BerEstimate>,
    /// The rate before error correction, by PortBer; `None`: the agent does not have it.
    pub raw: Option<BerEstimate>,
    /// The rate after error correction, by PortBer.
    pub effective: Option<BerEstimate>,
}

impl CableEnd {
    /// Returns what an end counted. `rate` is that of its link.
    #[must_use]
    pub fn new(growth: &Growth, rate: Option<Rate>) -> Self {
        let of = |metric| growth.metric(metric).unwrap_or(0);
        let symbol_errors = of(Metric::SymbolErrors);
        let ber = rate.filter(|_| growth.metric(Metric::SymbolErrors).is_some());
        Self {
            over: growth.over,
            symbol_errors,
            recoveries: of(Metric::LinkRecoveries),
            downs: of(Metric::LinkDowned),
            rcv_errors: of(Metric::RcvErrors),
            ber: ber.and_then(|rate| BerEstimate::new(symbol_errors, growth.over, rate)),
            raw: None,
            effective: None,
        }
    }
}

/// A link that was lost, with what is remembered of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostLink {
    /// The lower end.
    pub a: End,
    /// The other end.
    pub b: End,
    /// Rate of the link.
    pub rate: Option<Rate>,
}

/// The order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankBy {
    /// The worst first: links that are down, then losses of the link, then recoveries, then bit errors, then errors of
    /// packets. A cable that loses its link hurts more than one that only has symbol errors.
    #[default]
    Worst,
    /// By symbol errors.
    SymbolErrors,
    /// By recoveries.
    Recoveries,
    /// By losses of the link.
    Downs,
    /// By bit error rate: by its lower bound, so that a single error in a short time is not the worst of all.
    Ber,
}

/// A cable with what was counted at both ends.
#[derive(Clone, Debug, PartialEq)]
pub struct CableRank {
    /// The lower end.
    pub a: End,
    /// The other end.
    pub b: End,
    /// Rate of the link; of one that is down, the rate that it had.
    pub rate: Option<Rate>,
    /// True if the link was lost and is down.
    pub is_down: bool,
    /// What the lower end counted.
    pub at_a: CableEnd,
    /// What the other end counted.
    pub at_b: CableEnd,
}

impl CableRank {
    /// Returns the symbol errors of both ends.
    #[must_use]
    pub const fn symbol_errors(&self) -> u64 {
        self.at_a.symbol_errors.saturating_add(self.at_b.symbol_errors)
    }

    /// Returns the recoveries. Both ends count the same one, so it is the larger count.
    #[must_use]
    pub fn recoveries(&self) -> u64 {
        self.at_a.recoveries.max(self.at_b.recoveries)
    }

    /// Returns the losses of the link. Both ends count the same one, so it is the larger count.
    #[must_use]
    pub fn downs(&self) -> u64 {
        self.at_a.downs.max(self.at_b.downs)
    }

    /// Returns the packets that arrived with errors at both ends.
    #[must_use]
    pub const fn rcv_errors(&self) -> u64 {
        self.at_a.rcv_errors.saturating_add(self.at_b.rcv_errors)
    }

    /// Returns the bit error rate of the worse direction.
    #[must_use]
    pub fn ber(&self) -> Option<BerEstimate> {
        self.worse(|end| end.ber)
    }

    /// Returns the rate before error correction of the worse direction.
    #[must_use]
    pub fn raw_ber(&self) -> Option<BerEstimate> {
        self.worse(|end| end.raw)
    }

    /// Returns the rate after error correction of the worse direction.
    #[must_use]
    pub fn effective_ber(&self) -> Option<BerEstimate> {
        self.worse(|end| end.effective)
    }

    fn worse(&self, of: fn(&CableEnd) -> Option<BerEstimate>) -> Option<BerEstimate> {
        let both = [of(&self.at_a), of(&self.at_b)];
        both.into_iter()
            .flatten()
            .max_by(|a, b| a.low.total_cmp(&b.low).then(a.rate.total_cmp(&b.rate)))
    }

    /// True if the link is up, and neither end counted anything.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.is_down
            && self.symbol_errors() == 0
            && self.recoveries() == 0
            && self.downs() == 0
            && self.rcv_errors() == 0
    }

    fn cmp_by(&self, other: &Self, by: RankBy) -> Ordering {
        let ber = |cable: &Self| cable.ber().map_or((0.0, 0.0), |ber| (ber.low, ber.rate));
        let by_ber = || {
            let (a, b) = (ber(self), ber(other));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        match by {
            RankBy::SymbolErrors => self.symbol_errors().cmp(&other.symbol_errors()),
            RankBy::Recoveries => self.recoveries().cmp(&other.recoveries()),
            RankBy::Downs => self.downs().cmp(&other.downs()),
            RankBy::Ber => by_ber(),
            RankBy::Worst => {
                let counts = |cable: &Self| (cable.is_down, cable.downs(), cable.recoveries());
                let by_counts = counts(self).cmp(&counts(other));
                by_counts
                    .then_with(by_ber)
                    .then(self.rcv_errors().cmp(&other.rcv_errors()))
            }
        }
    }
}

/// Returns all cables of a fabric in this order, the worst first; of equal ones, the one with the lower end. `lost` are
/// the links that are down, which the inventory does not have any more; `counted` is what each port counted.
#[must_use]
pub fn rank(inventory: &Inventory, lost: &[LostLink], counted: &BTreeMap<End, CableEnd>, by: RankBy) -> Vec<CableRank> {
    let at = |end: End| counted.get(&end).copied().unwrap_or_default();
    let lost = lost.iter().map(|link| CableRank {
        a: link.a,
        b: link.b,
        rate: link.rate,
        is_down: true,
        at_a: at(link.a),
        at_b: at(link.b),
    });
    let mut cables: Vec<CableRank> = lost.collect();
    for (guid, node) in &inventory.nodes {
        for port in &node.ports {
            let a = End {
                node: *guid,
                port: port.num,
            };
            let Some(b) = port.peer else { continue };
            let is_listed_there = b < a && inventory.port(b).is_some_and(|far| far.peer == Some(a));
            if is_listed_there {
                continue;
            }
            let (low, high) = (a.min(b), a.max(b));
            cables.push(CableRank {
                a: low,
                b: high,
                rate: port.rate,
                is_down: false,
                at_a: at(low),
                at_b: at(high),
            });
        }
    }
    cables.sort_by(|x, y| y.cmp_by(x, by).then_with(|| (x.a, x.b).cmp(&(y.a, y.b))));
    cables
}
