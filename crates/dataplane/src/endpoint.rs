//! What sits on the end ports: the interface between the subnet and host channel adapters.

use core::fmt::Debug;

use selvedge_fabric::PortRef;
use selvedge_types::Lid;

use crate::packet::Packet;
use crate::stats::DropReason;
use crate::subnet::Subnet;
use crate::units::Ps;

/// Index of an end port of a node other than a switch, by node and port number.
pub type EndPort = u32;

/// An end port: where it is, and its LIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndPortInfo {
    /// Node and port number. Ports with the same node belong to one channel adapter.
    pub at: PortRef,
    /// The port's first LID.
    pub lid: Lid,
    /// Number of its LIDs, `1 << LMC`; path bits choose one of them.
    pub lids: u16,
    /// Index of the port among all ports.
    pub(crate) port: u32,
}

/// The channel adapters of all end ports.
///
/// One value stands for all of them, so an adapter with several ports is its own business. The subnet pulls packets: it
/// asks a port what it would send on each lane, chooses a lane by credits and arbitration, and takes the packet. A
/// port is pulled at the times of [`Subnet::wake`], when it has sent a packet and another lane or packet waits, when
/// credits arrive that an offered packet lacked, and when its link comes up.
///
/// An endpoint learns only what hardware learns, with one exception: [`Self::lost`], for statistics.
pub trait Endpoint: Sized {
    /// What a packet carries for endpoints. A packet is one cache line if this is at most 24 bytes.
    type Header: Copy + Debug;

    /// Called once, at time 0.
    fn begin(&mut self, subnet: &mut Subnet<Self::Header>) {
        let _ = subnet;
    }

    /// Makes ready what has become due. This is the first call of every pull, also while the port sends or is down.
    fn prepare(&mut self, port: EndPort, subnet: &mut Subnet<Self::Header>) {
        let _ = (port, subnet);
    }

    /// Returns the lanes on which packets wait, as a bit mask. A lane may be in it although its packet is not ready.
    fn lanes(&self, port: EndPort) -> u16;

    /// Returns the length on the wire, in bytes, of the next packet of a lane in [`Self::lanes`]. `None`: it is not
    /// ready; the port is then pulled again only after [`Subnet::wake`] or another event.
    ///
    /// The packet stays where it is, because the port may lack credits or prefer another lane.
    fn offer(&mut self, port: EndPort, vl: u8, subnet: &mut Subnet<Self::Header>) -> Option<u32>;

    /// Takes the packet that was offered on a lane. Its first byte is sent now.
    fn take(&mut self, port: EndPort, vl: u8, subnet: &mut Subnet<Self::Header>) -> Packet<Self::Header>;

    /// Returns when [`Self::prepare`] will make something ready that a pull could send. The port is pulled then, or
    /// when it has sent its current packet. `None`: at no time that is known.
    fn next_due(&self, port: EndPort, subnet: &Subnet<Self::Header>) -> Option<Ps> {
        let _ = (port, subnet);
        None
    }

    /// Called when the last byte of a packet has arrived. Its DLID is one of this port, or a multicast LID. All copies
    /// of a multicast packet have the same header.
    fn arrived(&mut self, port: EndPort, packet: &Packet<Self::Header>, subnet: &mut Subnet<Self::Header>);

    /// Called at the time of a [`Subnet::set_timer`].
    fn timer(&mut self, port: EndPort, token: u32, subnet: &mut Subnet<Self::Header>) {
        let _ = (port, token, subnet);
    }

    /// Called when the port's link has gone down or come up. When it has come up, the port is pulled next.
    fn link(&mut self, port: EndPort, up: bool, subnet: &mut Subnet<Self::Header>) {
        let _ = (port, up, subnet);
    }

    /// Called when a packet was dropped, wherever that was. No hardware reports this: it is for statistics, and for
    /// models that leave recovery out.
    fn lost(&mut self, packet: &Packet<Self::Header>, reason: DropReason, subnet: &mut Subnet<Self::Header>) {
        let _ = (packet, reason, subnet);
    }

    /// True if nothing more is to happen, so that the simulation ends.
    fn is_over(&self) -> bool {
        false
    }
}
