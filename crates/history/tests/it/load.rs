//! Counters that move: half of the ports all the time, the others now and then.

use core::time::Duration;

use selvedge_sim::{Rng, Seed};
use selvedge_telemetry::{Group, How, Row, Sample, SampleKey, Slot, WIDEST};
use selvedge_types::Guid;

/// Ports of a switch.
const PORTS: u64 = 36;
/// Most words of four bytes that a link of 400 Gb/s carries in a second.
const WORDS_MAX: u64 = 12_500_000_000;

/// Counters of many ports.
pub struct Load {
    rng: Rng,
    ports: Vec<(SampleKey, Row)>,
    interval: Duration,
    epoch: u32,
}

impl Load {
    /// Returns ports with counters at random values.
    pub fn new(ports: u64, interval: Duration, seed: u64) -> Self {
        let mut rng = Seed(seed).rng();
        let port = |i: u64| {
            let key = SampleKey {
                node: Guid(0x0002_c903_0000_0000 | ((Seed(i / PORTS).mixed().0 >> 56) << 16) | (i / PORTS)),
                port: (i % PORTS + 1) as u8,
                group: Group::Extended,
            };
            let mut totals = [0; WIDEST];
            totals[..8].fill_with(|| rng.below(1 << 44));
            (key, totals)
        };
        let ports = (0..ports).map(port).collect();
        Self {
            rng,
            ports,
            interval,
            epoch: 0,
        }
    }

    /// From the next slot on the clock was set back.
    pub fn set_back(&mut self) {
        self.epoch += 1;
    }

    /// Returns the samples of a slot.
    pub fn slot(&mut self, number: u64) -> impl Iterator<Item = Sample> {
        let seconds_max = WORDS_MAX * self.interval.as_secs().max(1);
        for (i, (_, totals)) in self.ports.iter_mut().enumerate() {
            if i % 2 == 0 || self.rng.below(50) == 0 {
                grow(&mut self.rng, totals, seconds_max);
            }
        }
        let slot = Slot {
            epoch: self.epoch,
            number,
        };
        let rng = &mut self.rng;
        self.ports.iter().map(move |(key, totals)| {
            // The device counted before the manager did: totals are ahead of it.
            let raw = totals.map(|total| total.wrapping_sub(1_000));
            Sample {
                key: *key,
                class: 0,
                slot,
                offset_us: 1_000 + rng.below(20_000) as u32,
                rtt_us: 100,
                agent: 0,
                how: How::Read,
                totals: *totals,
                raw: Some(raw),
                known: Group::Extended.mask(),
                full: 0,
                resets: 0,
            }
        })
    }
}

fn grow(rng: &mut Rng, totals: &mut Row, words_max: u64) {
    let mut add = |i: usize, by: u64| totals[i] += by;
    // Data and packets of both directions; packets of 64 to 1,088 words.
    for side in 0..2 {
        let words = words_max / 4 + rng.below(words_max / 2);
        let packets = words / (64 + rng.below(1_024));
        let multicast = rng.below(3);
        add(side, words);
        add(2 + side, packets + multicast);
        add(4 + side, packets);
        add(6 + side, multicast);
    }
    add(20, rng.below(words_max / 8));
    if rng.below(200) == 0 {
        add(8 + rng.below(10) as usize, 1);
    }
}
