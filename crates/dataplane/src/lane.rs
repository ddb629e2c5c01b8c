//! A lane of a port in one cache line: the credits of its output, and the queue of its input.
//!
//! Moving a packet touches two ports, a lane of each, the lane of the sender that gets the credits, and the packet. In
//! a large fabric none of them is in the cache, and cache misses take most of the time. So each is one cache line, and
//! rarely used data is stored elsewhere.

use std::collections::VecDeque;

use crate::packet::NIL;
use crate::units::{NEVER, Ps};

/// A linked list of packets: of an input's lane, or of an input's lane to one output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub head: u32,
    pub tail: u32,
}

impl Queue {
    pub const EMPTY: Self = Self { head: NIL, tail: NIL };
}

/// Age of a queue's first packet, if lifetimes are finite.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Age {
    /// When the first packet became first.
    pub head_since: Ps,
    /// True if a check is scheduled.
    pub watched: bool,
}

/// Credits of an output's lane, the inputs with packets for it, and the queue of the input's lane.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Lane {
    /// Bit mask of those inputs 1 to 64 that have packets for this lane.
    pub requests: u64,
    /// Arrival time of the credits that a packet waits for. A time in the past means that no packet waits; [`STARVED`]
    /// means that the credits have not been sent yet.
    pub wake_at: Ps,
    /// Bytes sent during the measurement.
    pub bytes: u64,
    /// Packets sent during the measurement.
    pub packets: u64,
    /// Arrival times of the first credits in transit; the others are in a list.
    coming_at: [Ps; NEAR],
    /// Packets waiting at the input.
    pub queue: Queue,
    /// Blocks that may be sent, without credits that have arrived but were not counted yet.
    credits: u16,
    coming: [u8; NEAR],
    /// Number of valid entries of `coming_at`.
    near: u8,
    /// True if the list of further credits is not empty; `coming_at` is then full.
    has_far: bool,
    /// Input served last.
    pub turn: u8,
}

/// Number of arriving credits that are stored in the lane itself. An input sends one packet at a time, so there are
/// rarely more than those of the current packet and the previous one.
const NEAR: usize = 2;

/// Value of [`Lane::wake_at`] if a packet waits for credits that are not in transit yet.
pub(crate) const STARVED: Ps = NEVER;

/// Later credits: (time, number), by time.
pub(crate) type Far = VecDeque<(Ps, u8)>;

impl Lane {
    pub const fn new(credits: u16) -> Self {
        Self {
            requests: 0,
            wake_at: 0,
            bytes: 0,
            packets: 0,
            coming_at: [0; NEAR],
            queue: Queue::EMPTY,
            credits,
            coming: [0; NEAR],
            near: 0,
            has_far: false,
            turn: 0,
        }
    }

    /// Takes credits for a packet. There must be enough of them.
    #[inline]
    pub const fn take(&mut self, blocks: u8) {
        self.credits -= blocks as u16;
    }

    /// True if there are credits for this many blocks.
    #[inline]
    pub fn has(&mut self, blocks: u8, now: Ps, far: &mut [Far], lane: usize) -> bool {
        if self.credits >= u16::from(blocks) {
            return true;
        }
        self.collect(now, far, lane);
        self.credits >= u16::from(blocks)
    }

    /// Counts credits that have arrived.
    #[inline]
    fn collect(&mut self, now: Ps, far: &mut [Far], lane: usize) {
        while self.near > 0 && self.coming_at[0] <= now {
            self.credits += u16::from(self.coming[0]);
            self.coming_at[0] = self.coming_at[1];
            self.coming[0] = self.coming[1];
            self.near -= 1;
            if self.has_far {
                self.fetch(&mut far[lane]);
            }
        }
    }

    /// Moves the next entry from the list into the lane.
    #[cold]
    fn fetch(&mut self, far: &mut Far) {
        if let Some((at, blocks)) = far.pop_front() {
            self.coming_at[usize::from(self.near)] = at;
            self.coming[usize::from(self.near)] = blocks;
            self.near += 1;
        }
        self.has_far = !far.is_empty();
    }

    /// Records that credits will arrive at a time.
    #[inline]
    pub fn will_get(&mut self, (at, blocks): (Ps, u8), now: Ps, far: &mut [Far], lane: usize) {
        if usize::from(self.near) == NEAR {
            self.collect(now, far, lane);
        }
        let near = usize::from(self.near);
        if near == NEAR || near > 0 && self.coming_at[near - 1] > at {
            return self.insert((at, blocks), &mut far[lane]);
        }
        self.coming_at[near] = at;
        self.coming[near] = blocks;
        self.near += 1;
    }

    /// Inserts credits by time.
    #[cold]
    fn insert(&mut self, new: (Ps, u8), far: &mut Far) {
        let mut last = new;
        for place in 0..usize::from(self.near) {
            if self.coming_at[place] > last.0 {
                last = (
                    core::mem::replace(&mut self.coming_at[place], last.0),
                    core::mem::replace(&mut self.coming[place], last.1),
                );
            }
        }
        let near = usize::from(self.near);
        if near < NEAR {
            (self.coming_at[near], self.coming[near]) = last;
            self.near += 1;
            return;
        }
        let place = far.iter().rposition(|&(at, _)| at <= last.0).map_or(0, |i| i + 1);
        far.insert(place, last);
        self.has_far = true;
    }

    /// Returns when there will be credits for this many blocks. [`STARVED`]: those in transit are not enough.
    pub fn enough_at(&self, blocks: u8, far: &Far) -> Ps {
        let mut sum = self.credits;
        for place in 0..usize::from(self.near) {
            sum += u16::from(self.coming[place]);
            if sum >= u16::from(blocks) {
                return self.coming_at[place];
            }
        }
        let mut later = far.iter().take(if self.has_far { far.len() } else { 0 });
        let enough = later.find(|&&(_, count)| {
            sum += u16::from(count);
            sum >= u16::from(blocks)
        });
        enough.map_or(STARVED, |&(at, _)| at)
    }

    /// Returns the number of credits, including those in transit.
    pub fn all_credits(&self, far: &Far) -> u16 {
        let near: u16 = self.coming[..usize::from(self.near)]
            .iter()
            .copied()
            .map(u16::from)
            .sum();
        let far = match self.has_far {
            true => far.iter().map(|&(_, blocks)| u16::from(blocks)).sum(),
            false => 0,
        };
        self.credits + near + far
    }

    /// Returns the credits in transit, by time.
    #[cfg(test)]
    pub fn coming<'a>(&'a self, far: &'a Far) -> impl Iterator<Item = (Ps, u16)> + 'a {
        let near = self.coming_at.iter().copied().zip(self.coming);
        let all = near.take(usize::from(self.near)).chain(far.iter().copied());
        all.map(|(at, blocks)| (at, u16::from(blocks)))
    }
}

#[cfg(test)]
mod tests {
    use selvedge_sim::Seed;

    use super::*;
    use crate::hosts::Header;
    use crate::layout::Port;
    use crate::packet::Packet;

    #[test]
    fn each_is_one_line() {
        let sizes = [size_of::<Lane>(), size_of::<Port>(), size_of::<Packet<Header>>()];
        assert_eq!(sizes, [64; 3]);
    }

    /// Compares credits at random times with a sorted list of all of them.
    #[test]
    fn credits_come_at_their_times() {
        for seed in 0..50 {
            let mut rng = Seed(seed).rng();
            let (mut lane, mut far) = (Lane::new(100), vec![Far::new()]);
            let (mut now, mut credits, mut list) = (0, 100_u16, Vec::new());
            for _ in 0..500 {
                now += rng.below(20);
                let blocks = 1 + rng.below(33) as u8;
                list.sort_unstable();
                while list.first().is_some_and(|&(at, _)| at <= now) {
                    credits += u16::from(list.remove(0).1);
                }
                assert_eq!(lane.has(blocks, now, &mut far, 0), credits >= u16::from(blocks));
                if credits >= u16::from(blocks) {
                    credits -= u16::from(blocks);
                    lane.take(blocks);
                    let back = (now + rng.below(60), blocks);
                    lane.will_get(back, now, &mut far, 0);
                    list.push(back);
                }
                list.sort_unstable();
                assert_eq!(lane.all_credits(&far[0]), 100);
                let waiting: u16 = list.iter().map(|&(_, blocks)| u16::from(blocks)).sum();
                assert_eq!(credits + waiting, 100);
                let times: Vec<Ps> = lane.coming(&far[0]).map(|(at, _)| at).filter(|&at| at > now).collect();
                let want: Vec<Ps> = list.iter().map(|&(at, _)| at).filter(|&at| at > now).collect();
                assert_eq!(times, want);
            }
        }
    }
}
