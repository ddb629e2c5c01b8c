//! The slot of one client at a server.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use selvedge_types::Lid;
use selvedge_wire::Class;

use super::AttachPoint;
use super::protocol::{PACKET_LEN, Packet};
use super::socket::{is_dead, is_full};
use crate::turns::Turns;

/// Largest number of packets that are kept for a client with a full socket: this many directed-route SMPs, and this
/// many other packets of each sender. Further packets are dropped. If the packets of all other senders together reach
/// the limit, each sender has an equal share.
///
/// A socket queues ten to 270 packets (Linux' `net.unix.max_dgram_qlen`, its send buffer). A client with 1,024 more
/// unread packets has stopped reading. A packet costs 288 bytes here, so a slot costs at most 576 KiB plus one packet
/// for each sender.
const BACKLOG_MAX: usize = 1_024;

/// An attached client.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// Suffix of the client's socket names.
    pub(super) id: u32,
    /// Queue pair of the client besides 0 and 1; 0 if none.
    pub(super) qp: u32,
    /// True if the client is a subnet manager.
    pub(super) is_sm: bool,
    /// The port to which the client is attached.
    pub(super) at: AttachPoint,
    /// Name of the client's data socket.
    pub(super) data_name: String,
}

/// Result of sending a packet to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The packet was sent, or waits until the client reads.
    Accepted,
    /// The backlog is full; the packet was dropped.
    Dropped,
    /// The client's socket is gone.
    Dead,
}

/// A data socket, with the client behind it.
pub(super) struct Place {
    /// `<base>:out<slot>`.
    pub(super) socket: UnixDatagram,
    /// The address to which the socket is connected while the slot is free. Linux refuses writes of other sockets to a
    /// connected socket (EPERM). A detached client thus gets an error, and its packets do not fill an unread queue.
    parking: SocketAddr,
    /// Client of the slot; `None` if the slot is free.
    pub(super) client: Option<Client>,
    backlog: Backlog,
}

/// Packets that wait for room. Directed-route SMPs have their own queue and go first, so traffic of hosts neither
/// delays nor displaces a manager's responses. All other senders take turns, for GMPs and traps alike: a host that
/// floods the client loses only its own packets.
#[derive(Default)]
struct Backlog {
    /// Directed-route SMPs: responses to a manager.
    directed: VecDeque<[u8; PACKET_LEN]>,
    /// All other packets, by the LID of the sender.
    by_lid: Turns<Lid, [u8; PACKET_LEN]>,
}

impl Backlog {
    fn is_empty(&self) -> bool {
        self.directed.is_empty() && self.by_lid.is_empty()
    }

    /// Returns the next packet to send.
    fn front(&self) -> Option<&[u8; PACKET_LEN]> {
        self.directed.front().or_else(|| self.by_lid.front())
    }

    /// Removes the packet that was sent.
    fn left(&mut self) {
        if self.directed.pop_front().is_none() {
            self.by_lid.pop();
        }
    }

    /// Queues a packet, if there is room.
    fn keep(&mut self, packet: &Packet) -> Sent {
        let is_kept = match packet.mad.class() {
            Class::SubnDirected if self.directed.len() >= BACKLOG_MAX => false,
            Class::SubnDirected => {
                self.directed.push_back(packet.emit());
                true
            }
            _ => self.by_lid.push(packet.from.lid, packet.emit(), BACKLOG_MAX),
        };
        match is_kept {
            true => Sent::Accepted,
            false => Sent::Dropped,
        }
    }
}

impl Place {
    /// Returns a free slot.
    pub(super) fn new(socket: UnixDatagram, parking: SocketAddr) -> Self {
        let mut place = Self {
            socket,
            parking,
            client: None,
            backlog: Backlog::default(),
        };
        place.free();
        place
    }

    /// Frees the slot.
    pub(super) fn free(&mut self) -> Option<Client> {
        self.backlog = Backlog::default();
        // A failure here is harmless; the former client only learns later that it was detached.
        let _ = self.socket.connect_addr(&self.parking);
        self.client.take()
    }

    /// True if packets wait for room in the client's socket.
    pub(super) fn wants_room(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Sends `packet` after those that are waiting.
    pub(super) fn send(&mut self, packet: &Packet) -> Sent {
        match self.flush() {
            Sent::Accepted if self.backlog.is_empty() => match self.transmit(&packet.emit()) {
                Ok(()) => Sent::Accepted,
                Err(error) if is_full(&error) => self.backlog.keep(packet),
                Err(error) if is_dead(&error) => Sent::Dead,
                Err(_) => Sent::Dropped,
            },
            Sent::Accepted => self.backlog.keep(packet),
            other => other,
        }
    }

    /// Sends waiting packets while there is room.
    pub(super) fn flush(&mut self) -> Sent {
        while let Some(bytes) = self.backlog.front() {
            match self.transmit(bytes) {
                Ok(()) => self.backlog.left(),
                Err(error) if is_full(&error) => break,
                Err(_) => return Sent::Dead,
            }
        }
        Sent::Accepted
    }

    fn transmit(&self, bytes: &[u8; PACKET_LEN]) -> io::Result<()> {
        self.socket.send(bytes).map(drop)
    }
}
