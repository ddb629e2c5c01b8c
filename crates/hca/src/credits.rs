//! End-to-end credits of reliable connections: with each acknowledgement the receiver tells how many receives it has
//! posted, so that the sender does not send messages for which there is none. Source: IBA vol 1 §9.7.7.2.
//!
//! A SEND, and a WRITE with immediate data, takes a receive; other requests need no credit. The standard lets a sender
//! send one packet beyond its credits. This one does so for the first message of a connection, and when nothing was
//! told for the local ACK time-out; else it waits for credits, which the receiver sends unasked when it posts a receive
//! after it had none. A receiver with a shared receive queue tells nothing, and the sender has no limit.

use crate::packet::unwrap_psn;
use crate::time::Ps;

/// Credits by their code in the AETH. Source: IBA vol 1 §9.7.5.2.1, table "End-to-End Flow Control Credit Encoding".
const COUNTS: [u32; 31] = [
    0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048, 3_072, 4_096,
    6_144, 8_192, 12_288, 16_384, 24_576, 32_768,
];

/// The code that tells nothing.
pub(crate) const NOT_TOLD: u8 = 31;

/// Returns the code of so many receives, or of fewer if there is none for that number.
fn code(receives: usize) -> u8 {
    // The first count is 0, so there is one.
    (COUNTS.partition_point(|&count| count as usize <= receives) - 1) as u8
}

fn count(code: u8) -> Option<u64> {
    COUNTS.get(usize::from(code)).map(|&count| count.into())
}

/// A message of a sender: its number, from 1, and that of the last receive which messages up to it take, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub message: u64,
    pub receive: u64,
}

/// What a sender knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct SenderCredits {
    /// The last message that was posted, and the last one that is complete.
    posted: Place,
    complete: Place,
    /// The last receive that the other end has told of.
    limit: u64,
    /// True if the other end tells nothing.
    unlimited: bool,
    /// From then on one packet is sent beyond the limit.
    beyond_at: Ps,
}

/// What a sender may do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// Send it.
    Send,
    /// Send its first packet, from this time on.
    SendOne(Ps),
    /// Wait.
    Wait,
}

impl SenderCredits {
    /// Numbers a message that was posted.
    pub fn post(&mut self, takes_receive: bool) -> Place {
        self.posted.message += 1;
        self.posted.receive += u64::from(takes_receive);
        self.posted
    }

    /// Notes the last message that is complete.
    pub const fn completed(&mut self, place: Place) {
        self.complete = place;
    }

    /// Takes what an acknowledgement tells: the number of messages that the other end has completed (24 bits), and a
    /// code. `nth` returns the messages that are not complete here.
    pub fn told(&mut self, now: Ps, timeout: Option<Ps>, (msn, code): (u32, u8), nth: impl Fn(usize) -> Option<Place>) {
        self.unlimited = code == NOT_TOLD;
        let Some(credits) = count(code) else { return };
        let base = 1 << 24;
        let message = unwrap_psn(base + self.complete.message, msn).saturating_sub(base);
        let done = match message.checked_sub(self.complete.message) {
            // An old acknowledgement.
            None => return,
            Some(0) => Some(self.complete),
            Some(further) => nth(further as usize - 1),
        };
        let Some(done) = done else { return };
        self.limit = self.limit.max(done.receive + credits);
        self.beyond_at = now + timeout.unwrap_or(0);
    }

    /// Returns what may be done with a message that takes a receive.
    pub const fn may(&self, place: Place) -> May {
        if self.unlimited || place.receive <= self.limit {
            May::Send
        } else if place.receive == self.limit + 1 {
            May::SendOne(self.beyond_at)
        } else {
            May::Wait
        }
    }
}

/// What a receiver has told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiverCredits {
    /// Receives that messages have taken, and the last one that the other end was told of.
    taken: u64,
    told: u64,
    /// True if a request has arrived.
    heard: bool,
}

impl ReceiverCredits {
    pub const fn heard(&mut self) {
        self.heard = true;
    }

    pub const fn took(&mut self) {
        self.taken += 1;
    }

    /// Returns the code to tell, with so many receives posted, and one taken by a message that is not complete.
    pub fn tell(&mut self, posted: usize, held: bool) -> u8 {
        let code = code(posted + usize::from(held));
        self.told = self.done(held) + count(code).unwrap_or(0);
        code
    }

    /// True if the other end waits for credits as far as it was told.
    pub fn is_awaited(&self, held: bool) -> bool {
        self.heard && self.told <= self.done(held)
    }

    /// Receives that complete messages have taken.
    fn done(&self, held: bool) -> u64 {
        self.taken - u64::from(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_standard() {
        let check = |receives: usize, want: u8, credits: u64| {
            assert_eq!((code(receives), count(want)), (want, Some(credits)), "{receives}");
        };
        check(0, 0, 0);
        check(4, 4, 4);
        check(5, 4, 4);
        check(6, 5, 6);
        check(1_000, 19, 768);
        check(99_999, 30, 32_768);
        assert_eq!(count(NOT_TOLD), None);
    }

    #[test]
    fn requests_that_take_no_receive_need_no_credit() {
        let mut credits = SenderCredits::default();
        let send = credits.post(true);
        let write = credits.post(false);
        let (second, third) = (credits.post(true), credits.post(true));
        assert_eq!(credits.may(send), May::SendOne(0), "the first message");
        assert_eq!(credits.may(second), May::Wait);
        let all = [send, write, second, third];
        // The first two messages are complete at the other end, which has one receive.
        credits.told(50, Some(7), (2, 1), |place| all.get(place).copied());
        assert_eq!(credits.may(second), May::Send);
        assert_eq!(credits.may(third), May::SendOne(57));
        // An older acknowledgement takes nothing back.
        credits.told(60, Some(7), (1, 0), |place| all.get(place).copied());
        assert_eq!(credits.may(second), May::Send);
        credits.told(60, Some(7), (2, NOT_TOLD), |place| all.get(place).copied());
        assert_eq!(credits.may(third), May::Send);
    }
}
