//! The receiver of a message.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_wire::Mad;
use selvedge_wire::sa::{Rmpp, RmppFlags, RmppKind, RmppStatus, SA_DATA_LEN};

/// Limits of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Largest number of segments of a message.
    pub segments_max: u32,
    /// Number of segments by which the sender may be ahead of the last acknowledgement; at least 1.
    pub window: u32,
    /// Time without a segment after which the transfer fails.
    pub timeout: Duration,
}

/// Result of receiving a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Send nothing.
    Nothing,
    /// Send this acknowledgement.
    Answer(Rmpp),
    /// The message is complete: send this acknowledgement, and use the data.
    Done(Rmpp, Vec<u8>),
    /// The transfer has failed: send this header with the status, if there is one.
    Failed(Option<Rmpp>),
}

/// A message being received. Only the next segment in order is accepted, because the sender repeats the others.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    data: Vec<u8>,
    /// Last segment accepted.
    taken: u32,
    /// Length of the data according to the first segment, if stated.
    told: Option<usize>,
    done: bool,
    due: Time,
}

impl Receiver {
    /// Returns a receiver without any segment.
    #[must_use]
    pub fn new(config: ReceiverConfig, now: Time) -> Self {
        Self {
            config,
            data: Vec::new(),
            taken: 0,
            told: None,
            done: false,
            due: now + config.timeout,
        }
    }

    /// Handles a datagram of the sender.
    pub fn received(&mut self, now: Time, mad: &Mad) -> Taken {
        let Some(rmpp) = mad.rmpp() else {
            return Taken::Failed(Some(Rmpp::abort(RmppStatus::BAD_TYPE)));
        };
        if rmpp.version != 1 {
            return Taken::Failed(Some(Rmpp::abort(RmppStatus::BAD_VERSION)));
        }
        match rmpp.kind {
            RmppKind::Data => self.segment(now, &rmpp, mad),
            // The sender's acknowledgement ends a two-way transfer; nothing to do.
            RmppKind::Ack => Taken::Nothing,
            RmppKind::Stop | RmppKind::Abort => Taken::Failed(None),
            RmppKind::Other(_) => Taken::Failed(Some(Rmpp::abort(RmppStatus::BAD_TYPE))),
        }
    }

    fn segment(&mut self, now: Time, rmpp: &Rmpp, mad: &Mad) -> Taken {
        let failed = |status| Taken::Failed(Some(Rmpp::abort(status)));
        if rmpp.segment == 0 || (rmpp.segment == 1) != rmpp.flags.contains(RmppFlags::FIRST) {
            return failed(RmppStatus::BAD_FIRST);
        }
        self.due = now + self.config.timeout;
        if self.done || rmpp.segment != self.taken + 1 {
            // Repeated, too early or after a gap: acknowledges what was received.
            return Taken::Answer(self.ack());
        }
        let last = rmpp.flags.contains(RmppFlags::LAST);
        if rmpp.segment > self.config.segments_max {
            return Taken::Failed(Some(Rmpp {
                kind: RmppKind::Stop,
                ..Rmpp::abort(RmppStatus::NO_RESOURCES)
            }));
        }
        if rmpp.segment == 1 && rmpp.length > 0 {
            let segments = (rmpp.length as usize).div_ceil(Rmpp::SEGMENT_PAYLOAD as usize).max(1);
            let headers = segments * Rmpp::HEADER_IN_PAYLOAD as usize;
            self.told = (rmpp.length as usize).checked_sub(headers);
        }
        let used = match (last, rmpp.segment) {
            (false, _) => SA_DATA_LEN,
            // If there is one segment, its length is that of the whole message.
            (true, _) => match (rmpp.length as usize).checked_sub(Rmpp::HEADER_IN_PAYLOAD as usize) {
                Some(used) if used <= SA_DATA_LEN => used,
                _ => return failed(RmppStatus::BAD_LENGTH),
            },
        };
        self.taken = rmpp.segment;
        self.data.extend_from_slice(&mad.sa_data()[..used]);
        if !last {
            return if self.told.is_some_and(|told| self.data.len() >= told) {
                failed(RmppStatus::BAD_LENGTH)
            } else {
                Taken::Answer(self.ack())
            };
        }
        if self.told.is_some_and(|told| self.data.len() != told) {
            return failed(RmppStatus::BAD_LENGTH);
        }
        self.done = true;
        Taken::Done(self.ack(), std::mem::take(&mut self.data))
    }

    fn ack(&self) -> Rmpp {
        let ahead = if self.done { 0 } else { self.config.window.max(1) };
        Rmpp::ack(self.taken, self.taken.saturating_add(ahead))
    }

    /// Returns when the transfer fails if nothing arrives.
    #[must_use]
    pub const fn next_wake(&self) -> Time {
        self.due
    }

    /// True if no segment arrived for too long.
    #[must_use]
    pub fn is_expired(&self, now: Time) -> bool {
        self.due <= now
    }
}
