//! Inputs and outputs of a server of the ibsim protocol.

use std::io;
use std::time::Duration;

use selvedge_wire::{Address, Datagram, Mad};

use super::backend::AttachPoint;
use super::socket::BASE_NAME_MAX;

/// Largest number of clients attached at once. ibsim allows 10; libumad2sim accepts any number. 32
/// are enough for the diagnostics of 32 hosts or for a few hundred SMs one after another. Each slot costs one
/// descriptor.
pub const SLOTS: usize = 32;

/// A client's slot, 0–31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// Returns the number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number in the form of control messages.
    pub(super) fn number(self) -> u32 {
        u32::from(self.0)
    }
}

/// Returns all slots.
pub(super) fn slots() -> impl Iterator<Item = Slot> {
    (0..SLOTS as u8).map(Slot) // 32
}

/// Handling of clients' requests by a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// How long a request may stay unanswered before it is sent again or returned. Default 200 ms, as in OpenSM.
    pub response_timeout: Duration,
    /// How often a request is sent again. Default 3, as in OpenSM. libumad2sim never does
    /// this, even if its program requests it.
    pub retries: u32,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            response_timeout: Duration::from_millis(200),
            retries: 3,
        }
    }
}

/// An error of a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// SLV-PORT-0104: a base name cannot be part of a socket name.
    #[error("SLV-PORT-0104: base name '{base}' fits into no socket name; use 1 to {BASE_NAME_MAX} bytes, without ':'")]
    BaseName {
        /// The name.
        base: String,
    },
    /// SLV-PORT-0105: a socket cannot be created.
    #[error("SLV-PORT-0105: cannot bind abstract socket '{name}': {cause}; end its server or choose another name")]
    Bind {
        /// Name of the socket.
        name: String,
        /// The reason.
        cause: io::Error,
    },
    /// SLV-PORT-0106: waiting for the sockets failed.
    #[error("SLV-PORT-0106: cannot wait for clients: {cause}")]
    Wait {
        /// The reason.
        cause: io::Error,
    },
}

/// An event at a server.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all events are datagrams; a box would cost an allocation each"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A client attached.
    Attached {
        /// Slot of the client.
        slot: Slot,
        /// The port to which the client is attached.
        at: AttachPoint,
        /// Name of the node of this port.
        node: String,
    },
    /// A client left or died. If it was the last SM at its port, an [`ServerEvent::IsSm`] precedes this event.
    Detached {
        /// Slot of the client.
        slot: Slot,
        /// The port to which the client was attached.
        at: AttachPoint,
    },
    /// A port got its first client that is an SM, or lost its last one: PortInfo.CapabilityMask.IsSM of `at` changes.
    IsSm {
        /// Slot of the client by which the bit changes.
        slot: Slot,
        /// The port.
        at: AttachPoint,
        /// True if the client is an SM now.
        is_sm: bool,
    },
    /// A client sent a datagram; it enters the fabric at `at`.
    Datagram {
        /// Slot of the client.
        slot: Slot,
        /// The port where the datagram enters the fabric.
        at: AttachPoint,
        /// Source queue pair.
        from_qp: u32,
        /// Destination and MAD. A request carries the slot and the agent in the upper half of its transaction id;
        /// the upper half of a TrapRepress is cleared, so agents use the low 32 bits for traps.
        datagram: Datagram,
    },
}

/// A datagram that arrived at a port to which clients are attached.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The port.
    pub at: AttachPoint,
    /// The source.
    pub from: Address,
    /// The destination address at the port.
    pub to: Address,
    /// The datagram.
    pub mad: Mad,
}

/// Counters of a server since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams from clients.
    pub received: u64,
    /// Datagrams to clients.
    pub sent: u64,
    /// Requests sent again because no response came.
    pub retried: u64,
    /// Requests returned unanswered.
    pub returned: u64,
    /// Responses to requests that are no longer waiting.
    pub late: u64,
    /// Datagrams dropped because the client has stopped reading.
    pub dropped_full: u64,
    /// Number of datagrams for which there was no client.
    pub dropped_unwanted: u64,
    /// Control messages and packets that could not be decoded.
    pub malformed: u64,
    /// Control messages refused.
    pub refused: u64,
    /// Refused messages that came from a socket other than that of the client they name.
    pub foreign: u64,
    /// Clients that ended without detaching.
    pub died: u64,
}
