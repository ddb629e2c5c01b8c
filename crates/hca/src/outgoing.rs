//! The next packet of a queue pair, before addresses are filled in.

use crate::packet::Body;
use crate::time::Ps;
use crate::work::{Datagram, WcStatus};

/// A packet that may be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub body: Body,
    pub payload: u32,
    /// Full sequence number.
    pub psn: u64,
    /// Full sequence number after this packet: a READ request takes those of its response.
    pub next_psn: u64,
    pub tag: u64,
    /// Destination of a datagram.
    pub datagram: Option<Datagram>,
}

/// What a queue pair can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing until something else happens.
    Idle,
    /// Something at this time.
    At(Ps),
    /// This packet.
    Now(Outgoing),
    /// The first request cannot be sent, and fails with this status.
    Fail(WcStatus),
}
