//! What goes in and out of a server of the ibsim protocol.

use std::io;
use std::time::Duration;

use selvedge_wire::{Address, Datagram, Mad};

use super::backend::AttachPoint;
use super::socket::BASE_NAME_MAX;

/// Clients that can be attached at once. ibsim has 10; the shim accepts any number. 32 hosts' diagnostics, or a few
/// hundred SMs in a row, never fill it; each slot costs one descriptor.
pub const SLOTS: usize = 32;

/// A client's place, 0–31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// The number.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number as it stands in control messages.
    pub(super) fn number(self) -> u32 {
        u32::from(self.0)
    }
}

/// All places.
pub(super) fn slots() -> impl Iterator<Item = Slot> {
    (0..SLOTS as u8).map(Slot) // 32
}

/// How a server treats requests of its clients.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// How long a request may go unanswered before it is sent again or handed back. Default 200 ms, OpenSM's own.
    pub response_timeout: Duration,
    /// How often it is sent again. Default 3, OpenSM's own. The shim never does it, whatever its program asks for.
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

/// A server that cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// SLV-PORT-0104: a base name that fits into no socket name.
    #[error("SLV-PORT-0104: base name '{base}' fits into no socket name; use 1 to {BASE_NAME_MAX} bytes, without ':'")]
    BaseName {
        /// The name.
        base: String,
    },
    /// SLV-PORT-0105: a socket that cannot be had.
    #[error("SLV-PORT-0105: cannot bind abstract socket '{name}': {cause}; end its server or choose another name")]
    Bind {
        /// Its name.
        name: String,
        /// Why.
        cause: io::Error,
    },
    /// SLV-PORT-0106: waiting failed.
    #[error("SLV-PORT-0106: cannot wait for clients: {cause}")]
    Wait {
        /// Why.
        cause: io::Error,
    },
}

/// What happened at a server.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all events are datagrams; a box would cost an allocation each"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A client attached.
    Attached {
        /// Its place.
        slot: Slot,
        /// Where.
        at: AttachPoint,
        /// Name of that node.
        node: String,
    },
    /// A client left or died. If it was the last SM at its port, an [`ServerEvent::IsSm`] precedes this event.
    Detached {
        /// Its place.
        slot: Slot,
        /// Where it was.
        at: AttachPoint,
    },
    /// A port got its first client that is an SM, or lost its last one: PortInfo.CapabilityMask.IsSM of `at` changes.
    IsSm {
        /// The slot of that client.
        slot: Slot,
        /// Where.
        at: AttachPoint,
        /// True if it now is one.
        is_sm: bool,
    },
    /// A client sent a datagram; it enters the fabric at `at`.
    Datagram {
        /// Its place.
        slot: Slot,
        /// Where it enters.
        at: AttachPoint,
        /// Queue pair it comes from.
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
    /// Who sent it.
    pub from: Address,
    /// To which address of that port.
    pub to: Address,
    /// The datagram.
    pub mad: Mad,
}

/// What a server did since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams from clients.
    pub received: u64,
    /// Datagrams to clients.
    pub sent: u64,
    /// Requests sent again because nobody answered.
    pub retried: u64,
    /// Requests handed back unanswered.
    pub returned: u64,
    /// Answers to requests that nobody waits for any more.
    pub late: u64,
    /// Datagrams for a client that has stopped reading.
    pub dropped_full: u64,
    /// Datagrams that no client wants.
    pub dropped_unwanted: u64,
    /// Control messages and packets that could not be read.
    pub malformed: u64,
    /// Control messages refused.
    pub refused: u64,
    /// Refused messages that came from a socket other than that of the client they name.
    pub foreign: u64,
    /// Clients that vanished without saying so.
    pub died: u64,
}
