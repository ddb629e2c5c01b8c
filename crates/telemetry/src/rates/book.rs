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
