//! Faults of the medium: loss, duplication, delay, corruption, everywhere or on one link.

use std::collections::BTreeMap;

use selvedge_chassis::PortIdx;
use selvedge_sim::{Ratio, Rng, Seed};
use selvedge_wire::MAD_LEN;

use crate::count::DropReason;
use crate::emulator::{Emulator, Event};
use crate::flight::Slot;

/// One property of the medium, to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Impairment {
    Loss(Ratio),
    Duplicate(Ratio),
    Corrupt(Ratio),
    Delay { ratio: Ratio, max_ns: u64 },
}

/// All properties of the medium at one place.
#[derive(Clone, Copy, Debug)]
struct Medium {
    loss: Ratio,
    duplicate: Ratio,
    corrupt: Ratio,
    delay: Ratio,
    delay_max_ns: u64,
}

impl Medium {
    const PERFECT: Self = Self {
        loss: Ratio::NEVER,
        duplicate: Ratio::NEVER,
        corrupt: Ratio::NEVER,
        delay: Ratio::NEVER,
        delay_max_ns: 0,
    };

    const fn is_perfect(&self) -> bool {
        self.loss.numerator == 0
            && self.duplicate.numerator == 0
            && self.corrupt.numerator == 0
            && self.delay.numerator == 0
    }

    const fn set(&mut self, impairment: Impairment) {
        match impairment {
            Impairment::Loss(ratio) => self.loss = ratio,
            Impairment::Duplicate(ratio) => self.duplicate = ratio,
            Impairment::Corrupt(ratio) => self.corrupt = ratio,
            Impairment::Delay { ratio, max_ns } => (self.delay, self.delay_max_ns) = (ratio, max_ns),
        }
    }
}

/// The medium everywhere and on single links, and the dice: one generator per kind of fault.
#[derive(Clone, Debug)]
pub(crate) struct Wrappers {
    everywhere: Medium,
    links: BTreeMap<PortIdx, Medium>,
    loss: Rng,
    duplicate: Rng,
    corrupt: Rng,
    delay: Rng,
}

impl Wrappers {
    pub fn new(seed: Seed) -> Self {
        Self {
            everywhere: Medium::PERFECT,
            links: BTreeMap::new(),
            loss: seed.child("loss").rng(),
            duplicate: seed.child("duplicate").rng(),
            corrupt: seed.child("corrupt").rng(),
            delay: seed.child("delay").rng(),
        }
    }

    /// True if something may happen to any MAD.
    pub const fn is_on(&self) -> bool {
        !self.everywhere.is_perfect()
    }
}

impl Emulator {
    /// Changes the medium everywhere, or on the link of a port.
    pub(crate) fn impair(&mut self, link: Option<PortIdx>, impairment: Impairment) {
        let Some(port) = link else {
            self.wrappers.everywhere.set(impairment);
            return;
        };
        let key = self.lower_end(port);
        let medium = self.wrappers.links.entry(key).or_insert(Medium::PERFECT);
        medium.set(impairment);
        let perfect = medium.is_perfect();
        if perfect {
            self.wrappers.links.remove(&key);
        }
        self.chassis.mark(port, !perfect);
    }

    /// Nothing is wrong with the cable of a port any more.
    pub(crate) fn mend(&mut self, port: PortIdx) {
        let key = self.lower_end(port);
        if self.wrappers.links.remove(&key).is_some() {
            self.chassis.mark(port, false);
        }
    }

    /// A MAD crosses a cable where something may happen to it: faults "everywhere" strike once, on its first cable,
    /// faults of a link on each crossing.
    pub(crate) fn cross_wrapped(&mut self, slot: Slot, to: PortIdx, delay: u64, first: bool) {
        let key = self.lower_end(to);
        let everywhere = first.then_some(self.wrappers.everywhere);
        let here = self.wrappers.links.get(&key).copied();
        let mut delay = delay;
        let mut copies = 0;
        for medium in [everywhere, here].into_iter().flatten() {
            let dice = &mut self.wrappers;
            if dice.loss.chance(medium.loss) {
                let flight = self.flights.at(slot);
                self.watch.note_lost(flight.origin, &flight.mad);
                return self.drop(slot, DropReason::Lost);
            }
            if dice.corrupt.chance(medium.corrupt) {
                let bit = dice.corrupt.below(8 * MAD_LEN as u64);
                // The bit number is below 2,048, so byte and bit are in range.
                self.flights.at_mut(slot).mad.as_bytes_mut()[bit as usize / 8] ^= 1 << (bit % 8);
            }
            if dice.delay.chance(medium.delay) {
                delay = delay.saturating_add(dice.delay.below(medium.delay_max_ns.saturating_add(1).max(1)));
            }
            copies += u32::from(dice.duplicate.chance(medium.duplicate));
        }
        self.schedule(delay, to, Event::Arrive(slot));
        for _ in 0..copies {
            let copy = *self.flights.at(slot);
            if let Some(slot) = self.launch(&copy) {
                self.counts.duplicates += 1;
                self.schedule(delay, to, Event::Arrive(slot));
            }
        }
    }
}
