//! States of queue pairs, and what is counted of them.

use serde::{Deserialize, Serialize};

/// Communication state of a queue pair. Source: IBA vol 1 §10.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum QpState {
    /// Nothing is set.
    #[default]
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Retries are used up: everything posted is flushed.
    Error,
}

impl QpState {
    /// True if a queue pair may be brought from this state to another.
    #[must_use]
    pub const fn may_become(self, to: Self) -> bool {
        matches!(
            (self, to),
            (_, Self::Error | Self::Reset)
                | (Self::Reset, Self::Init)
                | (Self::Init, Self::Init | Self::Rtr)
                | (Self::Rtr, Self::Rts)
                | (Self::Rts, Self::Rts)
        )
    }
}

/// What queue pairs did, from the start to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QpCounts {
    /// Queue pairs that were made.
    pub pairs: u64,
    /// Acknowledgements received.
    pub acks: u64,
    /// NAKs received: a packet was missing.
    pub naks: u64,
    /// Times that a sender heard nothing for too long.
    pub timeouts: u64,
    /// Packets sent again.
    pub repeated: u64,
    /// Packets that came twice, or behind a gap, and were thrown away.
    pub discarded: u64,
    /// Queue pairs that went to ERROR.
    pub errors: u64,
}
