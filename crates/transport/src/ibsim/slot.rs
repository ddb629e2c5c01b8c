//! One client's place at a server.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::UnixDatagram;

use super::AttachPoint;
use super::protocol::{PACKET_LEN, Packet};
use super::socket::{is_dead, is_full};

/// Packets of a queue pair kept for a client whose socket is full; more are dropped.
///
/// A socket holds ten to 270 packets (Linux' `net.unix.max_dgram_qlen`, its send buffer); a client with 1,024 more
/// unread has stopped reading: one packet here costs 288 bytes, so a slot costs 576 KiB at most.
const BACKLOG_MAX: usize = 1_024;
/// With so many packets before it a manager has more to read than it can.
const CROWD: usize = 32;

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
    backlog: Backlog,
}

/// What waits for room. Queue pairs 0 and 1 have queues of their own, as in an HCA: SMPs do not stand behind what hosts
/// send, and are not lost for it.
#[derive(Default)]
struct Backlog {
    smps: VecDeque<[u8; PACKET_LEN]>,
    gmps: VecDeque<[u8; PACKET_LEN]>,
}

impl Backlog {
    fn is_empty(&self) -> bool {
        self.smps.is_empty() && self.gmps.is_empty()
    }

    /// The next one to leave.
    fn front(&self) -> Option<&[u8; PACKET_LEN]> {
        self.smps.front().or_else(|| self.gmps.front())
    }

    /// It has left.
    fn left(&mut self) {
        if self.smps.pop_front().is_none() {
            self.gmps.pop_front();
        }
    }

    /// Keeps one, if there is room.
    fn keep(&mut self, packet: &Packet) -> Sent {
        let queue = match packet.mad.class().is_smp() {
            true => &mut self.smps,
            false => &mut self.gmps,
        };
        if queue.len() >= BACKLOG_MAX {
            return Sent::Dropped;
        }
        queue.push_back(packet.emit());
        Sent::Accepted
    }
}

impl Place {
    /// A free place.
    pub(super) fn new(socket: UnixDatagram) -> Self {
        Self {
            socket,
            client: None,
            backlog: Backlog::default(),
        }
    }

    /// Frees the place.
    pub(super) fn free(&mut self) -> Option<Client> {
        self.backlog = Backlog::default();
        self.client.take()
    }

    /// True if packets wait for room in the client's socket.
    pub(super) fn wants_room(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// True if hosts send a manager more than it can read.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_manager() && self.backlog.gmps.len() > CROWD
    }

    /// True if its client is a manager.
    pub(super) fn is_manager(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.is_sm)
    }

    /// Sends `packet`, behind those that wait.
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

    /// Sends what waits, as far as there is room.
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
