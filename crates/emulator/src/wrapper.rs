//! Faults of the medium: loss, duplication, delay, corruption, on all links or on one.
//!
//! The outcome for a MAD is drawn from the MAD itself: its place, its sender, its bytes, and how often it passed there
//! before. It does not depend on the order in which MADs cross. So if a sender changes the order of its requests, the
//! same requests are lost.

use std::collections::BTreeMap;

use selvedge_chassis::PortIdx;
use selvedge_sim::{Ratio, Rng, Seed};
use selvedge_wire::MAD_LEN;

use crate::count::DropReason;
use crate::emulator::{Emulator, Event};
use crate::flight::Slot;

/// A change of one property of the medium.
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

/// Most MADs for which the medium counts passages, up to 64 bytes each. Beyond that all counts are reset.
const REMEMBERED_MAX: usize = 65_536;

/// Bytes of the transaction ID in a MAD. They are ignored, so that equal requests count as the same MAD whatever number
/// the sender gives them. Source: IBA vol 1 §13.4.2.
const TRANSACTION_ID: core::ops::Range<usize> = 8..16;

/// Draws the outcomes for MADs.
#[derive(Clone, Debug)]
struct Dice {
    seed: Seed,
    /// Number of passages of each MAD at each place, by a hash of both.
    passed: BTreeMap<u64, u32>,
    /// Number of times that `passed` was full and was cleared.
    emptied: u64,
}

impl Dice {
    /// Returns the seed for one passage of a MAD, and counts the passage.
    fn throw(&mut self, mad: u64) -> Throw {
        if self.passed.len() >= REMEMBERED_MAX && !self.passed.contains_key(&mad) {
            self.passed.clear();
            self.emptied += 1;
        }
        let passed = self.passed.entry(mad).or_default();
        let throw = self.seed.nth(self.emptied).nth(mad).nth((*passed).into());
        *passed = passed.wrapping_add(1);
        Throw(throw)
    }
}

/// One passage of a MAD. Each kind of fault has its own generator.
struct Throw(Seed);

impl Throw {
    /// Returns the generator of a kind of fault, if that fault happens.
    fn strikes(&self, fault: &str, ratio: Ratio) -> Option<Rng> {
        if ratio.numerator == 0 {
            return None;
        }
        let mut rng = self.0.child(fault).rng();
        rng.chance(ratio).then_some(rng)
    }
}

/// Properties of the medium on all links and on single links, and the dice.
#[derive(Clone, Debug)]
pub(crate) struct Wrappers {
    everywhere: Medium,
    links: BTreeMap<PortIdx, Medium>,
    dice: Dice,
}

impl Wrappers {
    pub fn new(seed: Seed) -> Self {
        Self {
            everywhere: Medium::PERFECT,
            links: BTreeMap::new(),
            dice: Dice {
                seed: seed.child("medium"),
                passed: BTreeMap::new(),
                emptied: 0,
            },
        }
    }

    /// True if some fault is possible.
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

    /// Removes all faults of a port's cable.
    pub(crate) fn mend(&mut self, port: PortIdx) {
        let key = self.lower_end(port);
        if self.wrappers.links.remove(&key).is_some() {
            self.chassis.mark(port, false);
        }
    }

    /// Applies faults of the medium to a MAD that crosses a link. Faults that are set for all links apply once, on the
    /// MAD's first link. Faults that are set for one link apply at each crossing of it.
    pub(crate) fn cross_wrapped(&mut self, slot: Slot, to: PortIdx, delay: u64, first: bool) {
        let key = self.lower_end(to);
        let everywhere = first.then_some((Place::Sender, self.wrappers.everywhere));
        let here = self.wrappers.links.get(&key).map(|medium| (Place::Link, *medium));
        let mut delay = delay;
        let mut copies = 0;
        for (place, medium) in [everywhere, here].into_iter().flatten() {
            if medium.is_perfect() {
                continue;
            }
            let passage = self.passage(slot, place, to);
            let throw = self.wrappers.dice.throw(passage);
            if throw.strikes("loss", medium.loss).is_some() {
                let flight = self.flights.at(slot);
                self.watch.note_lost(flight.origin, &flight.mad);
                return self.drop(slot, DropReason::Lost);
            }
            if let Some(mut rng) = throw.strikes("corrupt", medium.corrupt) {
                let bit = rng.below(8 * MAD_LEN as u64);
                // The bit number is below 2,048, so byte and bit are in range.
                self.flights.at_mut(slot).mad.as_bytes_mut()[bit as usize / 8] ^= 1 << (bit % 8);
            }
            if let Some(mut rng) = throw.strikes("delay", medium.delay) {
                delay = delay.saturating_add(rng.below(medium.delay_max_ns.saturating_add(1).max(1)));
            }
            copies += u32::from(throw.strikes("duplicate", medium.duplicate).is_some());
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

    /// Returns a hash of a MAD that goes to `to`, and of the place of the fault.
    fn passage(&self, slot: Slot, place: Place, to: PortIdx) -> u64 {
        let flight = self.flights.at(slot);
        // A node counts as the same sender if it uses another port.
        let at = match place {
            Place::Sender => {
                let from = self.chassis.wire(to).peer().unwrap_or(to);
                u64::from(self.chassis.wire(from).node().0)
            }
            Place::Link => 1 << 32 | u64::from(to.0),
        };
        let client = flight.origin.and_then(|id| self.clients.get(id));
        let client = client.map_or(u64::MAX, |client| client.port.0.into());
        let lids = u64::from(flight.slid.0) << 16 | u64::from(flight.dlid.0);
        let head = [at, client, lids];
        let bytes = flight.mad.as_bytes();
        let [before, behind] = [&bytes[..TRANSACTION_ID.start], &bytes[TRANSACTION_ID.end..]];
        let words = [before, behind].into_iter().flat_map(|part| part.as_chunks::<8>().0);
        let words = words.map(|word| u64::from_be_bytes(*word));
        let mix = |hash: Seed, word: u64| Seed(hash.0 ^ word).mixed();
        head.into_iter().chain(words).fold(Seed(0), mix).0
    }
}

/// Place of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Faults on the first link of the MAD.
    Sender,
    /// Faults on one link, in one direction.
    Link,
}
