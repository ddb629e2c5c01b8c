//! Credits: what a sender may send on a lane, and how blocks return.
//!
//! A packet takes all its blocks when its first byte is sent. They are free again when its last byte has left the
//! buffer at the other end, and the sender learns that after the cable's delay. The time when credits return is known
//! as soon as the packet starts to leave, so they stay in a list and are counted on demand. Only a sender that waits
//! for them needs an event.

use core::fmt::Debug;
use std::collections::VecDeque;

use crate::lane::STARVED;
use crate::layout::NO_PORT;
use crate::subnet::{Subnet, kind};
use crate::units::Ps;

/// Adds blocks to a list sorted by time. They nearly always come last.
#[inline]
fn insert(returns: &mut VecDeque<(Ps, u16)>, at: Ps, blocks: u16) {
    match returns.back() {
        Some(&(last, _)) if last > at => {
            let place = returns.iter().rposition(|&(t, _)| t <= at).map_or(0, |i| i + 1);
            returns.insert(place, (at, blocks));
        }
        _ => returns.push_back((at, blocks)),
    }
}

/// Removes the blocks due by `now` from a list. Returns their number.
#[inline]
fn collect(returns: &mut VecDeque<(Ps, u16)>, now: Ps) -> u32 {
    let mut blocks = 0;
    while let Some(&(at, count)) = returns.front() {
        if at > now {
            break;
        }
        blocks += u32::from(count);
        returns.pop_front();
    }
    blocks
}

impl<H: Copy + Debug> Subnet<H> {
    /// True if an output has credits for this many blocks of a lane.
    #[inline]
    pub(crate) fn has_credits(&mut self, lane: usize, blocks: u8) -> bool {
        self.lanes[lane].has(blocks, self.now, &mut self.far, lane)
    }

    /// Schedules an event for the arrival of the credits that an output waits for.
    pub(crate) fn wait_for_credits(&mut self, port: u32, vl: u8, blocks: u8) {
        let index = port as usize * usize::from(self.settings.vls) + usize::from(vl);
        if !self.ports[port as usize].waits {
            self.ports[port as usize].waits = true;
            self.port_stats[port as usize].waits_since = Some(self.now);
        }
        let lane = &mut self.lanes[index];
        // A lane without credits in transit gets its event when credits are returned.
        if lane.wake_at > self.now {
            return;
        }
        let at = lane.enough_at(blocks, &self.far[index]);
        lane.wake_at = at;
        if at != STARVED {
            self.wake_for_credits(port, at);
        }
    }

    fn wake_for_credits(&mut self, port: u32, at: Ps) {
        let component = self.layout.components[port as usize];
        let num = self.layout.refs[port as usize].port.get();
        self.schedule(at, component, kind::CREDIT, u32::from(num));
    }

    /// Returns credits to the sender for blocks of the input `port` that are free at `freed_at`.
    #[inline]
    pub(crate) fn give_back(&mut self, port: u32, vl: u8, blocks: u8, freed_at: Ps) {
        let sender = self.ports[port as usize].peer;
        if sender != NO_PORT {
            let at = freed_at + self.layout.credit_delay + self.layout.extra_delay(sender);
            self.credit(sender, vl, blocks, at);
        }
    }

    /// Gives an output credits that arrive at this time.
    #[inline]
    pub(crate) fn credit(&mut self, sender: u32, vl: u8, blocks: u8, at: Ps) {
        let index = sender as usize * usize::from(self.settings.vls) + usize::from(vl);
        let lane = &mut self.lanes[index];
        lane.will_get((at, blocks), self.now, &mut self.far, index);
        if lane.wake_at == STARVED {
            lane.wake_at = at;
            self.wake_for_credits(sender, at);
        }
    }

    /// Returns the credits of an output's lane, including those in transit.
    pub(crate) fn credits_of(&self, lane: usize) -> u32 {
        u32::from(self.lanes[lane].all_credits(&self.far[lane]))
    }

    /// Takes blocks of the buffer that all lanes of an input share, if it has enough, and the lane may have them.
    #[inline]
    pub(crate) fn take_shared(&mut self, port: u32, vl: u8, blocks: u8) -> bool {
        let lane = port as usize * usize::from(self.settings.vls) + usize::from(vl);
        let Some(pool) = self.pools.get_mut(port as usize) else {
            return false;
        };
        let mut share = self.pool_shares.get_mut(lane);
        let fits = pool.has(blocks, self.now) && share.as_mut().is_none_or(|share| share.has(blocks, self.now));
        if fits {
            pool.free -= u32::from(blocks);
            if let Some(share) = share {
                share.free -= u32::from(blocks);
            }
        }
        fits
    }

    /// Returns blocks to the buffer that all lanes of an input share.
    pub(crate) fn free_shared(&mut self, port: u32, vl: u8, blocks: u8, at: Ps) {
        let lane = port as usize * usize::from(self.settings.vls) + usize::from(vl);
        let share = self.pool_shares.get_mut(lane);
        for pool in self.pools.get_mut(port as usize).into_iter().chain(share) {
            insert(&mut pool.returns, at, u16::from(blocks));
        }
    }
}

/// The pool of blocks that lanes share, or one lane's part of the pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    free: u32,
    /// Blocks that become free: (time, number), by time.
    returns: VecDeque<(Ps, u16)>,
}

impl Pool {
    pub const fn new(free: u32) -> Self {
        Self {
            free,
            returns: VecDeque::new(),
        }
    }

    /// True if so many blocks are free.
    #[inline]
    fn has(&mut self, blocks: u8, now: Ps) -> bool {
        self.free += collect(&mut self.returns, now);
        self.free >= u32::from(blocks)
    }

    /// Returns the blocks that are free or will be, because their packets are leaving.
    pub fn all(&self) -> u32 {
        let returns: u32 = self.returns.iter().map(|&(_, blocks)| u32::from(blocks)).sum();
        self.free + returns
    }
}
