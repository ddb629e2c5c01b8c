//! Why a policy is refused, or a message cannot be carried.

use selvedge_hca::{Transport, VerbsError, WcStatus};

/// Reasons why a policy is refused, or messages end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessagingError {
    /// SLV-MESSAGING-0001: a policy by size has no threshold, or too many.
    #[error("SLV-MESSAGING-0001: {found} thresholds of message sizes; want 1 to 3")]
    Thresholds {
        /// Thresholds given.
        found: usize,
    },
    /// SLV-MESSAGING-0002: a threshold is out of range, or not above the one before.
    #[error("SLV-MESSAGING-0002: threshold {found} after {before}; want ascending sizes from 1024 to 8192 bytes")]
    Threshold {
        /// The threshold.
        found: u32,
        /// The one before, or 0.
        before: u32,
    },
    /// SLV-MESSAGING-0003: the number of queue pairs or of service levels in turn is out of range.
    #[error("SLV-MESSAGING-0003: {queue_pairs} queue pairs on {levels} service levels in turn; want 1 to 8 of each")]
    Turns {
        /// Queue pairs.
        queue_pairs: u8,
        /// Service levels.
        levels: usize,
    },
    /// SLV-MESSAGING-0004: the transport has no policies.
    #[error("SLV-MESSAGING-0004: messages by {transport}; want RC or UD")]
    Transport {
        /// The transport.
        transport: Transport,
    },
    /// SLV-MESSAGING-0005: two hosts cannot be joined.
    #[error("SLV-MESSAGING-0005: hosts {from} and {to} cannot be joined; want two of the {hosts} hosts")]
    Hosts {
        /// One host.
        from: usize,
        /// The other host.
        to: usize,
        /// Number of hosts.
        hosts: usize,
    },
    /// SLV-MESSAGING-0006: a work request failed.
    #[error("SLV-MESSAGING-0006: host {host}: a work request ended with {}; nothing else is sent", .status.name())]
    Failed {
        /// The host.
        host: usize,
        /// Status of the completion.
        status: WcStatus,
    },
    /// SLV-MESSAGING-0007: a message has no bytes, or the channel is unknown.
    #[error("SLV-MESSAGING-0007: a message of {bytes} bytes on channel {channel}; want 1 byte or more, and a channel")]
    Message {
        /// The channel.
        channel: u32,
        /// Bytes of the message.
        bytes: u32,
    },
    /// A verb was refused.
    #[error(transparent)]
    Verbs(#[from] VerbsError),
}
