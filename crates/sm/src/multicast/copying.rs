//! What becomes of blocks of multicast tables that are read or written.

use selvedge_plan::multicast::MftBlock;
use selvedge_sim::Time;
use selvedge_types::Guid;

use super::{Multicast, MulticastEvent};
use crate::core::Sm;
use crate::event::Event;
use crate::io::Output;

impl Multicast {
    /// A switch holds this block; `None` if it is not known what.
    pub fn take_block(&mut self, switch: Guid, place: (u16, u8), holds: Option<MftBlock>) {
        match holds {
            Some(holds) => self.learn(switch, place, holds),
            None => self.forget(switch, place),
        }
    }

    /// A switch did not take its block, or does not answer.
    pub fn leave_out(&mut self, switch: Guid, now: Time) {
        self.silence(switch, now);
    }

    /// All trees are planned again.
    pub fn plan_all_again(&mut self, now: Time) {
        self.all_stale(now);
    }

    /// Blocks that were to be known were asked for.
    pub const fn plan_now(&mut self, now: Time) {
        self.due = Some(now);
    }
}

impl Sm {
    /// Trees are written: all Sets, so many, are acknowledged. Returns the event that says so.
    pub(crate) fn copies_written(&mut self, sets: usize) -> Output {
        self.multicast_written(self.now);
        if !self.multicast.stale.is_empty() {
            self.multicast.due = Some(self.now);
        }
        let groups = self.multicast.groups.len();
        Output::Event(Event::Multicast(MulticastEvent::InForce { groups, sets }))
    }
}
