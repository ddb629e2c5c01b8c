//! What becomes of blocks of GUIDInfo that are read or written.

use selvedge_plan::aliases::GuidBlock;
use selvedge_sim::Time;
use selvedge_types::Guid;

use super::{AliasEvent, AliasGuids, Place};
use crate::apply::Counts;

impl AliasGuids {
    /// A port holds this block: it was read, or has been `acknowledged`.
    pub fn take_block(&mut self, place: Place, holds: Option<GuidBlock>, acknowledged: bool) {
        if let Some(holds) = holds {
            self.learn(place, holds);
        }
        if acknowledged {
            self.was_mute.remove(&place.0);
        }
    }

    /// A port did not take its block, or does not answer. Returns true if that is news.
    pub fn leave_alone(&mut self, place: Place, holds: Option<GuidBlock>, now: Time) -> bool {
        self.take_block(place, holds, false);
        self.silence(place, now)
    }

    /// A block may have been written or not.
    pub fn doubt(&mut self, place: Place) {
        self.unread.insert(place);
    }

    /// A port may not hold what it shall have.
    pub fn plan_again(&mut self, port: Guid) {
        self.stale.insert(port);
    }

    /// Blocks were asked for, or may have been written.
    pub const fn plan_now(&mut self, now: Time) {
        self.due = Some(now);
    }

    /// Sets have ended. Returns the event that says so.
    pub fn written(&mut self, counts: Counts, now: Time) -> Option<AliasEvent> {
        if !self.stale.is_empty() {
            self.due = Some(now);
        }
        let (ports, sets) = (self.wanted.len(), counts.acknowledged);
        (sets > 0 && counts.failed == 0).then_some(AliasEvent::InForce { ports, sets })
    }
}
