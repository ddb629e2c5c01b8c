//! A lane of a port: what its output may send and what its input has, in one line of the cache.
//!
//! Moving a packet touches the ports that it comes by and goes by, a lane of each, the lane of the sender that gets its
//! credits, and the packet. In a large fabric none of them is in the cache, and waiting for them is most of the time:
//! so each is one line, and what is rarely needed lies elsewhere.

use std::collections::VecDeque;

use crate::packet::NIL;
use crate::units::{NEVER, Ps};

/// A queue of packets, chained by `next`: of an input's lane, or of an input's lane to one output. At hosts: of
/// messages to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub head: u32,
    pub tail: u32,
}

impl Queue {
    pub const EMPTY: Self = Self { head: NIL, tail: NIL };
}

/// The age of a queue's first packet, where lifetimes can end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Age {
    /// Since when the first packet is the first.
    pub head_since: Ps,
    /// True if an event will look at it.
    pub watched: bool,
}

/// Credits of an output's lane, the packets that want it, and the queue of the input's lane.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Lane {
    /// Inputs 1 to 64 that want it.
    pub requests: u64,
    /// When credits that a packet waits for will have come; in the past: none are waited for; [`STARVED`]: they are not
    /// on their way yet.
    pub wake_at: Ps,
    /// Bytes sent while it is measured.
    pub bytes: u64,
    /// Packets sent while it is measured.
    pub packets: u64,
    /// When credits come that are on their way: the first ones; others are in a list.
    coming_at: [Ps; NEAR],
    /// What waits at the input.
    pub queue: Queue,
    /// Blocks that may be sent, without those that have come but were not looked at.
    credits: u16,
    coming: [u8; NEAR],
    /// Of the first ones, those that there are.
    near: u8,
    /// True if the list has some; then `near` is full.
    has_far: bool,
    /// Input served last.
    pub turn: u8,
}

/// Credits whose coming a lane knows itself. An input sends one packet at a time, so that there are rarely more than
/// those of the packet that leaves and of the one before it.
const NEAR: usize = 2;

/// [`Lane::wake_at`] of a lane whose packet waits for credits that are not on their way yet.
pub(crate) const STARVED: Ps = NEVER;

/// Credits that come later than those that a lane knows itself: when, and how many; by time.
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

    /// A packet takes credits that it has.
    #[inline]
    pub const fn take(&mut self, blocks: u8) {
        self.credits -= blocks as u16;
    }

    /// True if there are credits for so many blocks.
    #[inline]
    pub fn has(&mut self, blocks: u8, now: Ps, far: &mut [Far], lane: usize) -> bool {
        if self.credits >= u16::from(blocks) {
            return true;
        }
        self.collect(now, far, lane);
        self.credits >= u16::from(blocks)
    }

    /// Counts credits that have come.
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

    /// Takes the next one from the list.
    #[cold]
    fn fetch(&mut self, far: &mut Far) {
        if let Some((at, blocks)) = far.pop_front() {
            self.coming_at[usize::from(self.near)] = at;
            self.coming[usize::from(self.near)] = blocks;
            self.near += 1;
        }
        self.has_far = !far.is_empty();
    }

    /// Credits will come at a time.
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

    /// Puts credits where they belong by time.
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

    /// When there will be credits for so many blocks; [`STARVED`]: not with those on their way.
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

    /// Credits, with those that are on their way.
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

    /// Credits on their way, by time.
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
    use crate::layout::Port;
    use crate::packet::Packet;

    #[test]
    fn each_is_one_line() {
        let sizes = [size_of::<Lane>(), size_of::<Port>(), size_of::<Packet>()];
        assert_eq!(sizes, [64; 3]);
    }

    /// Credits at random times, early and late, beside a sorted list of all of them.
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
