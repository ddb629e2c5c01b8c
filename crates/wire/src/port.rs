//! The one door to a fabric: send a datagram, receive a datagram.

use core::time::Duration;

use selvedge_types::{Guid, Lid, PortNum, Sl};

use crate::Mad;

/// The other end of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Its LID; permissive for purely directed-route SMPs.
    pub lid: Lid,
    /// Its queue pair: 0 for SMPs, 1 for GMPs.
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

    /// The subnet management agent at `lid`.
    #[must_use]
    pub fn smi(lid: Lid) -> Self {
        Self {
            lid,
            qp: 0,
            sl: Sl::default(),
        }
    }

    /// The general services agent at `lid`.
    #[must_use]
    pub fn gsi(lid: Lid, sl: Sl) -> Self {
        Self { lid, qp: 1, sl }
    }
}

/// A MAD and its other end: the destination when sent, the source when received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Datagram {
    /// The other end.
    pub address: Address,
    /// The 256 bytes.
    pub mad: Mad,
}

/// What comes out of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A datagram from the fabric.
    Received(Datagram),
    /// A request of ours without an answer, handed back by the layer below (umad status 110, ETIMEDOUT).
    Returned(Datagram),
}

/// Where a port sits.
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
    /// Where this port sits.
    fn local(&self) -> LocalPort;

    /// Sends one datagram. `timeout` bounds how long the layer below waits before it hands a request back. A port may
    /// keep it until [`Self::receive`] or [`Self::flush`] is called, to send several at once.
    fn send(&mut self, datagram: &Datagram, timeout: Duration) -> Result<(), PortError>;

    /// Waits at most `wait` for the next arrival.
    fn receive(&mut self, wait: Duration) -> Result<Option<Arrival>, PortError>;

    /// Sends what [`Self::send`] kept.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Tells the fabric whether a subnet manager sits here (PortInfo.CapabilityMask.IsSM).
    fn set_is_sm(&mut self, is_sm: bool) -> Result<(), PortError>;
}

/// A port that does not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// SLV-PORT-0001: opening it failed.
    #[error("SLV-PORT-0001: cannot open {port}: {cause}; {advice}")]
    Open {
        /// What was to be opened.
        port: String,
        /// What the layer below said.
        cause: String,
        /// What to do.
        advice: &'static str,
    },
    /// SLV-PORT-0002: it was closed or its device went away.
    #[error("SLV-PORT-0002: the port is gone while {operation}: {cause}")]
    Gone {
        /// What was tried.
        operation: &'static str,
        /// What the layer below said.
        cause: String,
    },
    /// SLV-PORT-0003: its queue is full; the datagram was not sent.
    #[error("SLV-PORT-0003: the port's send queue is full")]
    Full,
}
