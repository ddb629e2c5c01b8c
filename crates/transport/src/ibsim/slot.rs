//! One client's place at a server.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixDatagram;

use super::AttachPoint;
use super::protocol::{PACKET_LEN, Packet};
use super::socket::{is_dead, is_full};

/// Packets kept for a client whose socket is full; more are dropped.
///
/// A socket holds about 270 packets (its send buffer); a client with 1,024 more unread has stopped reading: one packet
/// here costs 288 bytes, so a slot costs 288 KiB at most.
const BACKLOG_MAX: usize = 1024;

/// Who is attached.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// What its socket names end with.
    pub(super) id: u32,
    /// Queue pair beside 0 and 1 that it answers for; 0 if none.
    pub(super) qp: u32,
    /// It is an SM.
    pub(super) is_sm: bool,
    /// Where.
    pub(super) at: AttachPoint,
    /// Name of its data socket.
    pub(super) data_name: String,
}

/// What became of a packet for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It left, or waits until the client reads.
    Accepted,
    /// The backlog is full: dropped.
    Dropped,
    /// The client's socket is gone.
    Dead,
}

/// A data socket and the client behind it.
pub(super) struct Place {
    /// `<base>:out<slot>`.
    pub(super) socket: UnixDatagram,
    /// Its client; none if the slot is free.
    pub(super) client: Option<Client>,
    backlog: VecDeque<[u8; PACKET_LEN]>,
}

impl Place {
    /// A free place.
    pub(super) const fn new(socket: UnixDatagram) -> Self {
        Self {
            socket,
            client: None,
            backlog: VecDeque::new(),
        }
    }

    /// Frees the place.
    pub(super) fn free(&mut self) -> Option<Client> {
        self.backlog.clear();
        self.client.take()
    }

    /// True if packets wait for room in the client's socket.
    pub(super) fn wants_room(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Sends `packet`, behind those that wait.
    pub(super) fn send(&mut self, packet: &Packet) -> Sent {
        match self.flush() {
            Sent::Accepted if self.backlog.is_empty() => match self.transmit(&packet.emit()) {
                Ok(()) => Sent::Accepted,
                Err(error) if is_full(&error) => self.keep(packet),
                Err(error) if is_dead(&error) => Sent::Dead,
                Err(_) => Sent::Dropped,
            },
            Sent::Accepted => self.keep(packet),
            other => other,
        }
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn flush(&mut self) -> Sent {
        while let Some(bytes) = self.backlog.front() {
            match self.transmit(bytes) {
                Ok(()) => drop(self.backlog.pop_front()),
                Err(error) if is_full(&error) => break,
                Err(_) => return Sent::Dead,
            }
        }
        Sent::Accepted
    }

    fn transmit(&self, bytes: &[u8; PACKET_LEN]) -> io::Result<()> {
        self.socket.send(bytes).map(drop)
    }

    fn keep(&mut self, packet: &Packet) -> Sent {
        if self.backlog.len() >= BACKLOG_MAX {
            return Sent::Dropped;
        }
        self.backlog.push_back(packet.emit());
        Sent::Accepted
    }
}
