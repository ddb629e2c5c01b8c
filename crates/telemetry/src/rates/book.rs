//! The rates of all ports, kept from slot to slot.

use core::time::Duration;
use std::collections::BTreeMap;

use selvedge_types::Guid;

use crate::group::Row;
use crate::rates::{Capacity, Growth, PortRates, WaitTick};
use crate::{End, Group, How, Inventory, Metric, Sample, SampleKey, Slot, SlotData};

/// What the slots of a sampling class are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassUse {
    /// Data, packets and PortXmitWait, by PortCountersExtended or, of an agent without it, by PortCounters.
    Data,
    /// Error counters, by PortCounters.
    Errors,
}

/// The last sample of a port, group and class, without what rates do not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Last {
    slot: Slot,
    offset_us: u32,
    how: How,
    totals: Row,
    known: u32,
    full: u32,
    resets: u32,
}

impl Last {
    const fn of(sample: &Sample) -> Self {
        Self {
            slot: sample.slot,
            offset_us: sample.offset_us,
            how: sample.how,
            totals: sample.totals,
            known: sample.known,
            full: sample.full,
            resets: sample.resets,
        }
    }

    /// Returns it as a sample of the same port, group and class as `like`.
    const fn sample(&self, like: &Sample) -> Sample {
        Sample {
            key: like.key,
            class: like.class,
            slot: self.slot,
            offset_us: self.offset_us,
            rtt_us: 0,
            agent: like.agent,
            how: self.how,
            totals: self.totals,
            raw: None,
            known: self.known,
            full: self.full,
            resets: self.resets,
        }
    }
}

/// What is known of a port.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kept {
    rates: PortRates,
    /// The data class shows PortXmitWait.
    has_wait: bool,
    /// Metrics that PortCountersExtended counts, by number.
    extended: u32,
}

/// What a slot has shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moved {
    /// Ports with new rates.
    pub rates: Vec<End>,
    /// The growth of the counters of ports, each counter once: those of PortCountersExtended, and those of PortCounters
    /// that the former does not have.
    pub grown: Vec<Growth>,
}

/// The rates of all ports by their last two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateBook {
    last: BTreeMap<(SampleKey, u8), Last>,
    ports: BTreeMap<End, Kept>,
}

impl RateBook {
    /// Takes a slot. `tick` is the tick of PortXmitWait of a node's ports.
    pub fn take(&mut self, slot: &SlotData, class: ClassUse, tick: impl Fn(Guid) -> WaitTick) -> Moved {
        let mut moved = Moved::default();
        for sample in &slot.samples {
            if !matches!(sample.key.group, Group::Base | Group::Extended) {
                continue;
            }
            let end = End {
                node: sample.key.node,
                port: sample.key.port,
            };
            if sample.how == How::Down {
                self.forget(sample);
                continue;
            }
            let Some(growth) = self.growth(sample, slot.interval) else {
                continue;
            };
            let rate = slot.inventory.port(end).and_then(|port| port.rate);
            let rates = PortRates::new(&growth, rate.and_then(Capacity::of), tick(end.node));
            let has_moved = match class {
                ClassUse::Data => self.take_data(rates, &growth),
                ClassUse::Errors => self.take_wait(rates),
            };
            if has_moved {
                moved.rates.push(end);
            }
            moved.grown.extend(self.counted_once(growth, class));
        }
        moved
    }

    /// Returns the rates of all ports.
    pub fn rates(&self) -> impl Iterator<Item = &PortRates> {
        self.ports.values().map(|kept| &kept.rates)
    }

    /// Returns the rates of a port.
    #[must_use]
    pub fn of(&self, end: End) -> Option<&PortRates> {
        self.ports.get(&end).map(|kept| &kept.rates)
    }

    /// Forgets the rates of ports that are not up, and the samples of nodes that have left.
    pub fn take_inventory(&mut self, inventory: &Inventory) {
        self.last.retain(|(key, _), _| inventory.nodes.contains_key(&key.node));
        self.ports
            .retain(|end, _| inventory.port(*end).is_some_and(|port| port.is_up()));
    }

    fn growth(&mut self, sample: &Sample, interval: Duration) -> Option<Growth> {
        let before = self.last.insert((sample.key, sample.class), Last::of(sample))?;
        Growth::between(&before.sample(sample), sample, interval)
    }

    fn forget(&mut self, sample: &Sample) {
        self.last.remove(&(sample.key, sample.class));
        self.ports.remove(&End {
            node: sample.key.node,
            port: sample.key.port,
        });
    }

    fn take_data(&mut self, mut rates: PortRates, growth: &Growth) -> bool {
        let has_wait = rates.wait_share.is_some();
        let before = self.ports.get(&rates.end);
        let extended = match growth.key.group {
            Group::Extended => growth.known,
            _ => 0,
        };
        if !has_wait {
            // The share by PortCounters of the errors class stays.
            rates.wait_share = before.and_then(|kept| kept.rates.wait_share);
        }
        let kept = Kept {
            rates,
            has_wait,
            extended,
        };
        self.ports.insert(rates.end, kept);
        true
    }

    /// Takes the share of waiting by a sample of the errors class, if the data class does not show it.
    fn take_wait(&mut self, rates: PortRates) -> bool {
        let Some(kept) = self.ports.get_mut(&rates.end).filter(|kept| !kept.has_wait) else {
            return false;
        };
        kept.rates.wait_share = rates.wait_share.or(kept.rates.wait_share);
        rates.wait_share.is_some()
    }

    /// Removes the counters that another sample of the port counts too.
    fn counted_once(&self, mut growth: Growth, class: ClassUse) -> Option<Growth> {
        let end = End {
            node: growth.key.node,
            port: growth.key.port,
        };
        match (class, growth.key.group) {
            (ClassUse::Data, Group::Extended) => {}
            // The errors class reads PortCounters as well.
            (ClassUse::Data, _) => return None,
            (ClassUse::Errors, group) => {
                let extended = self.ports.get(&end).map_or(0, |kept| kept.extended);
                growth.known &= !group.mask_of(|metric: Metric| extended >> metric as u32 & 1 != 0);
            }
        }
        (growth.known != 0).then_some(growth)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use selvedge_types::{Lid, LinkSpeed, LinkWidth, NodeKind, PortState, Rate};

    use super::*;
    use crate::group::WIDEST;
    use crate::{NodeEntry, PortEntry, SlotReport};

    const END: End = End { node: Guid(1), port: 3 };

    fn inventory() -> Inventory {
        let port = PortEntry {
            num: END.port,
            lid: Lid(7),
            state: PortState::Active,
            peer: None,
            rate: Some(Rate {
                width: LinkWidth::X4,
                speed: LinkSpeed::Qdr,
            }),
        };
        let node = NodeEntry {
            kind: NodeKind::Switch,
            description: String::new(),
            ports: vec![port],
        };
        Inventory {
            nodes: [(END.node, node)].into(),
        }
    }

    /// A slot with one sample: values by metric; others are not known.
    fn slot(number: u64, group: Group, how: How, values: &[(Metric, u64)]) -> SlotData {
        let slot = Slot { epoch: 0, number };
        let mut totals = [0; WIDEST];
        for (metric, value) in values {
            totals[group.place(*metric).unwrap()] = *value;
        }
        let sample = Sample {
            key: SampleKey {
                node: END.node,
                port: END.port,
                group,
            },
            class: u8::from(group == Group::Base),
            slot,
            offset_us: 0,
            rtt_us: 0,
            agent: 0,
            how,
            totals,
            raw: None,
            known: group.mask_of(|metric| values.iter().any(|(known, _)| *known == metric)),
            full: 0,
            resets: 0,
        };
        SlotData {
            report: SlotReport {
                slot,
                ..SlotReport::default()
            },
            interval: Duration::from_secs(1),
            samples: vec![Box::new(sample)],
            inventory: Arc::new(inventory()),
        }
    }

    fn take(book: &mut RateBook, slot: &SlotData, class: ClassUse) -> Moved {
        book.take(slot, class, |_| WaitTick::PortBytes(4))
    }

    fn wait(book: &RateBook) -> Option<f64> {
        book.of(END).and_then(|rates| rates.wait_share)
    }

    /// At 4xQDR, 4 GB/s: 10^9 ticks of 4 bytes in a second.
    #[test]
    fn errors_are_counted_once_and_waiting_comes_from_either_attribute() {
        let mut book = RateBook::default();
        let data = |number, symbols| {
            let values = [(Metric::XmitData, 5 * number), (Metric::SymbolErrors, symbols)];
            slot(number, Group::Extended, How::Read, &values)
        };
        let errors = |number, how, waited| {
            let values = [
                (Metric::SymbolErrors, 7 * number),
                (Metric::RcvErrors, 2 * number),
                (Metric::XmitWait, waited),
            ];
            slot(number, Group::Base, how, &values)
        };
        assert_eq!(
            take(&mut book, &data(1, 10), ClassUse::Data),
            Moved::default(),
            "one sample"
        );
        let moved = take(&mut book, &data(2, 13), ClassUse::Data);
        assert_eq!((moved.rates.as_slice(), moved.grown.len()), (&[END][..], 1));
        assert_eq!(moved.grown[0].metric(Metric::SymbolErrors), Some(3));
        assert_eq!(wait(&book), None);
        take(&mut book, &errors(1, How::Read, 0), ClassUse::Errors);
        let moved = take(&mut book, &errors(2, How::Read, 250_000_000), ClassUse::Errors);
        // PortCountersExtended has the symbol errors already.
        assert_eq!(moved.grown[0].metric(Metric::SymbolErrors), None);
        assert_eq!(moved.grown[0].metric(Metric::RcvErrors), Some(2));
        assert_eq!((moved.rates.as_slice(), wait(&book)), (&[END][..], Some(0.25)));
        // The next slot of data does not know of waiting; the share stays until the errors class shows another.
        take(&mut book, &data(3, 13), ClassUse::Data);
        assert_eq!(wait(&book), Some(0.25));
        // The sum of the switch shows that no port waited any more.
        take(&mut book, &errors(3, How::Unchanged, 250_000_000), ClassUse::Errors);
        assert_eq!(wait(&book), Some(0.0));
    }

    #[test]
    fn an_agent_without_64_bits_is_read_by_both_classes_and_counted_once() {
        let mut book = RateBook::default();
        let values = |number| [(Metric::XmitData, 5 * number), (Metric::RcvErrors, 2 * number)];
        let sample = |number| slot(number, Group::Base, How::Read, &values(number));
        let by_class = |number, class| {
            let mut slot = sample(number);
            slot.samples[0].class = class;
            slot
        };
        take(&mut book, &by_class(1, 0), ClassUse::Data);
        take(&mut book, &by_class(1, 1), ClassUse::Errors);
        assert_eq!(take(&mut book, &by_class(2, 0), ClassUse::Data).grown, []);
        let moved = take(&mut book, &by_class(2, 1), ClassUse::Errors);
        assert_eq!(moved.grown[0].metric(Metric::RcvErrors), Some(2));
        assert_eq!(book.of(END).and_then(|rates| rates.xmit_bytes_per_s), Some(20.0));
    }

    #[test]
    fn a_port_that_is_down_has_no_rates() {
        let mut book = RateBook::default();
        let up = |number| slot(number, Group::Extended, How::Read, &[(Metric::XmitData, number)]);
        take(&mut book, &up(1), ClassUse::Data);
        take(&mut book, &up(2), ClassUse::Data);
        assert_eq!(book.rates().count(), 1);
        take(&mut book, &slot(3, Group::Extended, How::Down, &[]), ClassUse::Data);
        assert_eq!(book.rates().count(), 0);
        // Nor has it any from before it went down.
        assert_eq!(take(&mut book, &up(4), ClassUse::Data), Moved::default());
        let mut gone = inventory();
        take(&mut book, &up(5), ClassUse::Data);
        gone.nodes.get_mut(&END.node).unwrap().ports[0].state = PortState::Down;
        book.take_inventory(&gone);
        assert_eq!(book.rates().count(), 0);
    }
}
