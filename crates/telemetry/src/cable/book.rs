//! What each end of each cable counted lately.

use core::time::Duration;
use std::collections::BTreeMap;

use selvedge_sim::Time;
use selvedge_types::Rate;
use selvedge_wire::CableInfo;

use crate::cable::{BerEstimate, CableEnd, CableReading, LostLink};
use crate::rates::Growth;
use crate::{End, Group, How, Inventory, Metric, Sample, SlotData};

/// What an end counted, for each counter over the time in which it was known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    over: Duration,
    symbol_errors: u64,
    recoveries: u64,
    downs: u64,
    rcv_errors: u64,
    /// The time in which bits in error were counted.
    bits_over: Duration,
    /// Bits in error before and after error correction.
    bits: [u64; 2],
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
            bits_over: self.bits_over.saturating_add(other.bits_over),
            bits: [
                self.bits[0].saturating_add(other.bits[0]),
                self.bits[1].saturating_add(other.bits[1]),
            ],
        }
    }
}

/// The link of a port: the one that it has, or the one that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    peer: End,
    rate: Option<Rate>,
    /// When the port was first seen without it.
    lost_at: Option<Time>,
}

/// What the ends of cables counted within the last window: the half of it in progress, and the half before. Links that
/// were lost within the window are kept: a port that is down has no other end, and the cable is of interest then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableBook {
    half: Duration,
    ends: BTreeMap<End, (Counts, Counts)>,
    links: BTreeMap<End, Link>,
    /// The last samples of PortBer.
    bits: BTreeMap<End, Sample>,
    /// What ports read from their cables.
    info: BTreeMap<End, CableInfo>,
}

impl CableBook {
    /// Returns a book with the counts of this time, and of half of it at least.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        Self {
            half: window / 2,
            ends: BTreeMap::new(),
            links: BTreeMap::new(),
            bits: BTreeMap::new(),
            info: BTreeMap::new(),
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

    /// Takes the samples of PortBer of a slot; others are ignored.
    pub fn take_bits(&mut self, slot: &SlotData) {
        let samples = slot.samples.iter();
        for sample in samples.filter(|sample| sample.key.group == Group::BitErrors) {
            let end = End {
                node: sample.key.node,
                port: sample.key.port,
            };
            // While the link is down, nothing is received.
            let before = match sample.how {
                How::Down => self.bits.remove(&end).and(None),
                How::Read | How::Unchanged | How::Derived => self.bits.insert(end, **sample),
            };
            let growth = before.and_then(|before| Growth::between(&before, sample, slot.interval));
            let Some(growth) = growth else { continue };
            let (now, _) = self.ends.entry(end).or_default();
            now.bits_over += growth.over;
            for (counter, bits) in now.bits.iter_mut().enumerate() {
                *bits = bits.saturating_add(growth.counter(counter).unwrap_or(0));
            }
        }
    }

    /// Takes what a port read from its cable.
    pub fn take_info(&mut self, reading: &CableReading) {
        self.info.insert(reading.end, reading.info);
    }

    /// Returns what each port read from its cable last, even if its link is down since.
    #[must_use]
    pub const fn info(&self) -> &BTreeMap<End, CableInfo> {
        &self.info
    }

    /// Takes the ports of the fabric from `now` on: forgets those that it does not have, and links that were lost
    /// longer ago than the window.
    pub fn take_inventory(&mut self, now: Time, inventory: &Inventory) {
        self.ends.retain(|end, _| inventory.port(*end).is_some());
        self.bits.retain(|end, _| inventory.port(*end).is_some());
        self.info.retain(|end, _| inventory.port(*end).is_some());
        for (guid, node) in &inventory.nodes {
            for port in &node.ports {
                let end = End {
                    node: *guid,
                    port: port.num,
                };
                if let Some(peer) = port.peer {
                    let link = Link {
                        peer,
                        rate: port.rate,
                        lost_at: None,
                    };
                    let before = self.links.insert(end, link);
                    // Another cable.
                    if before.is_some_and(|before| before.peer != peer) {
                        self.info.remove(&end);
                    }
                } else if let Some(link) = self.links.get_mut(&end) {
                    link.lost_at.get_or_insert(now);
                }
            }
        }
        let window = 2 * self.half;
        self.links.retain(|end, link| {
            let is_recent = link.lost_at.is_none_or(|at| now.since(at) < window);
            is_recent && inventory.port(*end).is_some()
        });
    }

    /// Returns the links that were lost within the window and are still down, the lower end first. A port that has
    /// another link, and one with an end in another place, has lost none.
    #[must_use]
    pub fn lost(&self, now: Time) -> Vec<LostLink> {
        let window = 2 * self.half;
        let is_lost = |link: &Link| link.lost_at.is_some_and(|at| now.since(at) < window);
        let both_lost = |end: End, link: &Link| {
            let far = self.links.get(&link.peer);
            // A node that has left took its end along.
            is_lost(link) && far.is_none_or(|far| far.peer == end && is_lost(far))
        };
        let lost = self.links.iter().filter(|(end, link)| both_lost(**end, link));
        let lost = lost.map(|(end, link)| LostLink {
            a: (*end).min(link.peer),
            b: (*end).max(link.peer),
            rate: link.rate,
        });
        let mut lost: Vec<LostLink> = lost.collect();
        lost.sort_by_key(|link| (link.a, link.b));
        lost.dedup_by_key(|link| (link.a, link.b));
        lost
    }

    /// Returns what a port counted, with the bit error rate of what it received.
    #[must_use]
    pub fn of(&self, inventory: &Inventory, end: End) -> Option<CableEnd> {
        let (now, before) = self.ends.get(&end)?;
        let counts = now.plus(*before);
        let rate = inventory.port(end).and_then(|port| port.rate);
        // While the link is down, what was received before still has its rate.
        let rate = rate.or_else(|| self.links.get(&end)?.rate);
        let corrected = |counter: usize| BerEstimate::new(counts.bits[counter], counts.bits_over, rate?);
        Some(CableEnd {
            over: counts.over,
            raw: corrected(0),
            effective: corrected(1),
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
    use selvedge_types::{Guid, Lid, LinkSpeed, LinkWidth, NodeKind, PortState};

    use super::*;
    use crate::cable::{RankBy, rank};
    use crate::group::WIDEST;
    use crate::{NodeEntry, PortEntry, SampleKey, Slot, SlotReport};

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
        book.take_inventory(Time::ZERO, &inventory);
        assert_eq!(book.of(&inventory, end), None);
    }

    fn fabric(state: PortState) -> Inventory {
        let (a, b) = (End { node: Guid(1), port: 2 }, End { node: Guid(2), port: 1 });
        let node = |own: End, peer: End| {
            let is_up = state != PortState::Down;
            let port = PortEntry {
                num: own.port,
                lid: Lid(own.node.0 as u16),
                state,
                peer: is_up.then_some(peer),
                rate: is_up.then_some(Rate {
                    width: LinkWidth::X4,
                    speed: LinkSpeed::Hdr,
                }),
            };
            let node = NodeEntry {
                kind: NodeKind::Switch,
                description: String::new(),
                ports: vec![port],
            };
            (own.node, node)
        };
        Inventory {
            nodes: [node(a, b), node(b, a)].into(),
        }
    }

    #[test]
    fn bits_in_error_are_counted_while_the_link_is_up() {
        let mut book = CableBook::new(Duration::from_secs(600));
        let inventory = std::sync::Arc::new(fabric(PortState::Active));
        let end = End { node: Guid(1), port: 2 };
        let slot = |number: u64, how: How, bits: [u64; 2]| {
            let mut totals = [0; WIDEST];
            totals[..2].copy_from_slice(&bits);
            let slot = Slot { epoch: 0, number };
            let sample = Sample {
                key: SampleKey {
                    node: end.node,
                    port: end.port,
                    group: Group::BitErrors,
                },
                class: 3,
                slot,
                offset_us: 0,
                rtt_us: 0,
                agent: 0,
                how,
                totals,
                raw: None,
                known: Group::BitErrors.mask(),
                full: 0,
                resets: 0,
            };
            SlotData {
                report: SlotReport {
                    slot,
                    ..SlotReport::default()
                },
                interval: Duration::from_secs(10),
                samples: vec![Box::new(sample)],
                inventory: std::sync::Arc::clone(&inventory),
            }
        };
        book.take_bits(&slot(1, How::Read, [5, 0]));
        assert_eq!(book.of(&inventory, end), None, "one sample");
        book.take_bits(&slot(2, How::Read, [1_005, 10]));
        // 212.5 Gbit/s for 10 s.
        let found = book.of(&inventory, end).unwrap();
        let (raw, effective) = (found.raw.unwrap(), found.effective.unwrap());
        assert_eq!((raw.errors, effective.errors, raw.bits), (1_000, 10, 2.125e12));
        // What grew while the link was down, or between, is not of the time in which it received.
        book.take_bits(&slot(3, How::Down, [1_005, 10]));
        book.take_bits(&slot(4, How::Read, [9_005, 90]));
        assert_eq!(book.of(&inventory, end), Some(found));
        book.take_bits(&slot(5, How::Read, [10_005, 90]));
        assert_eq!(book.of(&inventory, end).unwrap().raw.unwrap().errors, 2_000);
    }

    #[test]
    fn a_link_that_is_down_keeps_its_cable_and_its_bit_error_rate_for_a_window() {
        let mut book = CableBook::new(Duration::from_secs(600));
        let at = Time::from_secs;
        let (up, down) = (fabric(PortState::Active), fabric(PortState::Down));
        let end = End { node: Guid(1), port: 2 };
        book.take_inventory(at(0), &up);
        book.take(&growth(Metric::SymbolErrors, 6));
        let ber = book.of(&up, end).unwrap().ber;
        assert!(ber.is_some());
        assert_eq!(book.lost(at(0)), []);
        book.take_inventory(at(10), &down);
        assert_eq!(book.of(&down, end).unwrap().ber, ber, "of what it received before");
        let lost = book.lost(at(11));
        assert_eq!(lost.len(), 1, "both ends are one cable");
        assert_eq!((lost[0].a, lost[0].b), (end, End { node: Guid(2), port: 1 }));
        let ranked = rank(&down, &lost, &book.counted(&down), RankBy::Worst);
        assert!(
            ranked[0].is_down && !ranked[0].is_clean() && ranked[0].rate.is_some(),
            "{ranked:?}"
        );
        // Another plan changes nothing; after the window it is forgotten; if the link comes back, nothing is lost.
        book.take_inventory(at(300), &down);
        assert_eq!((book.lost(at(609)).len(), book.lost(at(610)).len()), (1, 0));
        book.take_inventory(at(400), &up);
        assert_eq!(book.lost(at(400)), []);
        // A host that leaves takes its end along.
        let mut alone = fabric(PortState::Down);
        alone.nodes.remove(&Guid(2));
        book.take_inventory(at(500), &alone);
        assert_eq!(book.lost(at(501)).len(), 1);
    }
}
