//! States of queue pairs, and their counters.

use serde::{Deserialize, Serialize};

/// Communication state of a queue pair. Source: IBA vol 1 §10.3.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum QpState {
    /// Initial state without attributes.
    #[default]
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// Retries are used up. Posted messages are flushed.
    Error,
}

impl QpState {
    /// True if a queue pair may change from this state to another.
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

/// Counters of queue pairs over the whole simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QpCounts {
    /// Queue pairs created.
    pub pairs: u64,
    /// Acknowledgements received.
    pub acks: u64,
    /// NAKs received: a packet was missing.
    pub naks: u64,
    /// Time-outs of senders.
    pub timeouts: u64,
    /// Packets sent again.
    pub repeated: u64,
    /// Packets discarded because they were repeated or came after a gap.
    pub discarded: u64,
    /// Queue pairs that went to ERROR.
    pub errors: u64,
}
