//! One client's place at a server.

use std::collections::VecDeque;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use selvedge_types::Lid;
use selvedge_wire::Class;

use super::AttachPoint;
use super::protocol::{PACKET_LEN, Packet};
use super::socket::{is_dead, is_full};
use crate::turns::Turns;

/// SMPs by directed route, and other packets of one sender, that are kept for a client whose socket is full; more are
/// dropped. With so many others of all senders together each keeps its share.
///
/// A socket holds ten to 270 packets (Linux' `net.unix.max_dgram_qlen`, its send buffer); a client with 1,024 more
/// unread has stopped reading: one packet here costs 288 bytes, so a slot costs 576 KiB, and one packet a sender, at
/// most.
const BACKLOG_MAX: usize = 1_024;

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
    /// To which the socket is connected while it has no client. Linux refuses what others write to a connected socket
    /// (EPERM): so a client that was detached learns of it, and its packets do not fill a queue that is not read.
    parking: SocketAddr,
    /// Its client; none if the slot is free.
    pub(super) client: Option<Client>,
    backlog: Backlog,
}

/// What waits for room. SMPs by directed route have a queue of their own and go first: a manager's answers do not stand
/// behind what hosts send, and are not lost for it. All other senders take turns, with GMPs and traps alike: a host
/// that sends either without end loses what is its own.
#[derive(Default)]
struct Backlog {
    /// SMPs by directed route: answers, to a manager.
    directed: VecDeque<[u8; PACKET_LEN]>,
    /// All others, by the LID of the sender.
    by_lid: Turns<Lid, [u8; PACKET_LEN]>,
}

impl Backlog {
    fn is_empty(&self) -> bool {
        self.directed.is_empty() && self.by_lid.is_empty()
    }

    /// The next one to leave.
    fn front(&self) -> Option<&[u8; PACKET_LEN]> {
        self.directed.front().or_else(|| self.by_lid.front())
    }

    /// It has left.
    fn left(&mut self) {
        if self.directed.pop_front().is_none() {
            self.by_lid.pop();
        }
    }

    /// Keeps one, if there is room.
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
    /// A free place.
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

    /// Frees the place.
    pub(super) fn free(&mut self) -> Option<Client> {
        self.backlog = Backlog::default();
        // Without this the place works all the same; its former client learns later that it was detached.
        let _ = self.socket.connect_addr(&self.parking);
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
