//! Receive queues, of one queue pair or shared.

use std::collections::VecDeque;

use crate::error::VerbsError;
use crate::handle::Pd;
use crate::work::RecvWr;

/// Posted receives in order.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveQueue {
    posted: VecDeque<RecvWr>,
    size: u32,
}

impl ReceiveQueue {
    pub const fn new(size: u32) -> Self {
        Self {
            posted: VecDeque::new(),
            size,
        }
    }

    pub fn post(&mut self, wr: RecvWr, what: &'static str) -> Result<(), VerbsError> {
        if self.posted.len() >= self.size as usize {
            return Err(VerbsError::QueueFull { what, limit: self.size });
        }
        self.posted.push_back(wr);
        Ok(())
    }

    pub fn take(&mut self) -> Option<RecvWr> {
        self.posted.pop_front()
    }

    pub fn clear(&mut self) {
        self.posted.clear();
    }

    pub fn len(&self) -> usize {
        self.posted.len()
    }
}

/// A shared receive queue.
#[derive(Clone, Debug)]
pub(crate) struct SharedQueue {
    pub pd: Pd,
    pub queue: ReceiveQueue,
    /// SRQ_LIMIT_REACHED is due when fewer receives than this are left; 0: never. It is due once.
    limit: u32,
}

impl SharedQueue {
    pub const fn new(pd: Pd, size: u32, limit: u32) -> Self {
        Self {
            pd,
            queue: ReceiveQueue::new(size),
            limit,
        }
    }

    /// Sets the limit, which arms the event.
    pub const fn arm(&mut self, limit: u32) {
        self.limit = limit;
    }

    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// True if the limit event is due now. It is then disarmed.
    pub fn limit_reached(&mut self) -> bool {
        let reached = self.queue.len() < self.limit as usize;
        if reached {
            self.limit = 0;
        }
        reached
    }
}
