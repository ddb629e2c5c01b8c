//! The only interface to a fabric: send a datagram, receive a datagram.

use core::time::Duration;

use selvedge_types::{Guid, Lid, PortNum, Sl};

use crate::Mad;

/// The other end of a datagram: its sender or its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// LID of the port; permissive for purely directed-route SMPs.
    pub lid: Lid,
    /// Queue pair of the port: 0 for SMPs, 1 for GMPs.
    pub qp: u32,
    /// Service level of GMPs; SMPs have none.
    pub sl: Sl,
}

impl Address {
    /// The address of a purely directed-route SMP.
    pub const DIRECTED: Self = Self {
        lid: Lid::PERMISSIVE,
        qp: 0,
        sl: match Sl::new(0) {
            Some(sl) => sl,
            None => unreachable!(),
        },
    };

    /// Returns the address of the subnet management agent at `lid`.
    #[must_use]
    pub fn smi(lid: Lid) -> Self {
        Self {
            lid,
            qp: 0,
            sl: Sl::default(),
        }
    }

    /// Returns the address of the general services agent at `lid`.
    #[must_use]
    pub fn gsi(lid: Lid, sl: Sl) -> Self {
        Self { lid, qp: 1, sl }
    }
}

/// A MAD with the address of its other end: the destination when sent, the source when received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Datagram {
    /// The sender or the receiver.
    pub address: Address,
    /// The 256 bytes.
    pub mad: Mad,
}

/// Result of receiving from a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A datagram from the fabric.
    Received(Datagram),
    /// A request of this program without a response, returned by the lower layer (umad status 110, ETIMEDOUT).
    Returned(Datagram),
}

/// Identity of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalPort {
    /// GUID of the node.
    pub node_guid: Guid,
    /// GUID of the port.
    pub port_guid: Guid,
    /// Number of the port.
    pub port: PortNum,
}

/// A port through which MADs enter and leave a fabric: a real HCA, ibsim, or the built-in emulator.
pub trait MadPort: Send {
    /// Returns the identity of this port.
    fn local(&self) -> LocalPort;

    /// Sends one datagram. `timeout` limits how long the lower layer waits for a response before it returns a request.
    /// To send several datagrams at once, a port may keep them until [`Self::receive`] or [`Self::flush`] is called.
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), PortError>;

    /// Waits at most `wait` for the next datagram.
    fn receive(&mut self, wait: Duration) -> Result<Option<Arrival>, PortError>;

    /// Sends the datagrams that [`Self::send`] kept.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Sets whether a subnet manager runs on this port (PortInfo.CapabilityMask.IsSM).
    fn set_is_sm(&mut self, is_sm: bool) -> Result<(), PortError>;
}

/// An error of a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// SLV-PORT-0001: the port cannot be opened.
    #[error("SLV-PORT-0001: cannot open {port}: {cause}; {advice}")]
    Open {
        /// The port to open.
        port: String,
        /// Error of the lower layer.
        cause: String,
        /// Advice for the operator.
        advice: &'static str,
    },
    /// SLV-PORT-0002: the port was closed, or its device is gone.
    #[error("SLV-PORT-0002: the port is gone while {operation}: {cause}")]
    Gone {
        /// The attempted operation.
        operation: &'static str,
        /// Error of the lower layer.
        cause: String,
    },
    /// SLV-PORT-0003: the send queue of the port is full; the datagram was not sent.
    #[error("SLV-PORT-0003: the port's send queue is full")]
    Full,
}
