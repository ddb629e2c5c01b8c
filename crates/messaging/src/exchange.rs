//! Carries messages between hosts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use selvedge_hca::{Ah, Notice, PS_PER_NS, Ps, Qp, Transport, Wc, WcOpcode, WcStatus};
use selvedge_tolerance::Cluster;

use crate::error::MessagingError;
use crate::host::{Host, Piece, address, connect, datagrams, post};
use crate::policy::{Kind, Policy, Turn};

/// Number of a message.
pub type MessageId = u64;

/// Costs and limits of the message passing library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// The processor's work to post a work request. Default 200 ns; estimate.
    pub post_ps: Ps,
    /// The processor's work to take a completion. Default 200 ns; estimate.
    pub poll_ps: Ps,
    /// Longest message that is sent at once; longer ones need a request and an answer first. Default 8,192 bytes, of
    /// the order of MVAPICH's.
    pub eager_max: u32,
    /// Length of a request and of its answer. Default 64 bytes.
    pub control_bytes: u32,
    /// Largest piece of a message, where queue pairs take turns. Default 8,192 bytes.
    pub piece_bytes: u32,
}

impl Default for Library {
    fn default() -> Self {
        Self {
            post_ps: 200 * PS_PER_NS,
            poll_ps: 200 * PS_PER_NS,
            eager_max: 8_192,
            control_bytes: 64,
            piece_bytes: 8_192,
        }
    }
}

/// What two hosts have to send messages to each other. The side of a host is 0 or 1, as the channel was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel(u32);

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The receiver's program has a message.
    Arrived {
        /// When.
        at: Ps,
        /// The message.
        message: MessageId,
        /// Its channel.
        channel: Channel,
        /// The side of the receiver.
        side: usize,
        /// When the message was given to the library.
        posted: Ps,
        /// Payload bytes.
        bytes: u32,
    },
    /// The sender's program may use the buffer of a message again: with RC it was acknowledged, with UD it has left.
    Sent {
        /// When.
        at: Ps,
        /// The message.
        message: MessageId,
        /// Its channel.
        channel: Channel,
        /// The side of the sender.
        side: usize,
    },
}

/// Queue pairs between two hosts.
#[derive(Clone, Debug)]
struct Way {
    hosts: [usize; 2],
    policy: Policy,
    /// By place in the policy: the queue pair of each side.
    queue_pairs: Vec<[Qp; 2]>,
    /// By service level: the address handle of each side for the other one (UD).
    addresses: BTreeMap<u8, [Ah; 2]>,
    turns: [Turn; 2],
}

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Message {
    way: u32,
    side: usize,
    bytes: u32,
    posted: Ps,
    /// Bytes that have not arrived.
    missing: u32,
    /// Pieces that have not been completed at the sender.
    pieces: u32,
}

/// What a work request belongs to, in the lowest bits of its tag.
mod part {
    pub const DATA: u64 = 0;
    pub const REQUEST: u64 = 1;
    pub const ANSWER: u64 = 2;
    pub const BITS: u32 = 2;
}

/// What the library does at a time.
#[derive(Clone, Copy, Debug)]
enum Due {
    Post { host: usize, qp: Qp, piece: Piece },
    Tell(Event),
}

/// Hosts of a simulated subnet with the library on each.
#[derive(Debug)]
pub struct Exchange {
    cluster: Cluster,
    library: Library,
    hosts: Vec<Host>,
    ways: Vec<Way>,
    messages: BTreeMap<MessageId, Message>,
    next: MessageId,
    /// By time, then number.
    due: BinaryHeap<Reverse<(Ps, u64)>>,
    dues: BTreeMap<u64, Due>,
    number: u64,
    completions: Vec<Wc>,
}

impl Exchange {
    /// Opens the adapters of all hosts.
    pub fn new(mut cluster: Cluster, library: Library) -> Result<Self, MessagingError> {
        let hosts: Result<Vec<_>, _> = (0..cluster.len()).map(|host| Host::open(&mut cluster, host)).collect();
        Ok(Self {
            hosts: hosts?,
            cluster,
            library,
            ways: Vec::new(),
            messages: BTreeMap::new(),
            next: 0,
            due: BinaryHeap::new(),
            dues: BTreeMap::new(),
            number: 0,
            completions: Vec::new(),
        })
    }

    /// Returns the hosts and their subnet.
    #[must_use]
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the present time.
    #[must_use]
    pub fn now(&self) -> Ps {
        self.cluster.now()
    }

    /// Joins two hosts for messages of a policy.
    pub fn join(&mut self, hosts: [usize; 2], policy: &Policy) -> Result<Channel, MessagingError> {
        let [from, to] = hosts;
        if from == to || from.max(to) >= self.hosts.len() {
            let hosts = self.hosts.len();
            return Err(MessagingError::Hosts { from, to, hosts });
        }
        let mut way = Way {
            hosts,
            policy: policy.clone(),
            queue_pairs: Vec::new(),
            addresses: BTreeMap::new(),
            turns: [Turn::default(); 2],
        };
        if policy.transport() == Transport::Ud {
            let [a, b] = hosts.map(|host| datagrams(&mut self.cluster, &mut self.hosts, host));
            way.queue_pairs.push([a?, b?]);
            for sl in policy.levels() {
                let [a, b] =
                    [[from, to], [to, from]].map(|[from, to]| address(&mut self.cluster, &self.hosts, from, to, sl));
                way.addresses.insert(sl.get(), [a?, b?]);
            }
        } else {
            for sl in policy.queue_pairs() {
                way.queue_pairs
                    .push(connect(&mut self.cluster, &self.hosts, hosts, sl)?);
            }
        }
        self.ways.push(way);
        Ok(Channel(self.ways.len() as u32 - 1))
    }

    /// Gives the library of a side a message for the other side.
    pub fn send(&mut self, channel: Channel, side: usize, bytes: u32) -> Result<MessageId, MessagingError> {
        let Some(way) = self.ways.get(channel.0 as usize).filter(|_| bytes > 0 && side < 2) else {
            let channel = channel.0;
            return Err(MessagingError::Message { channel, bytes });
        };
        let needs_answer = bytes > self.library.eager_max && way.policy.transport() == Transport::Rc;
        let id = self.next;
        self.next += 1;
        let message = Message {
            way: channel.0,
            side,
            bytes,
            posted: self.now(),
            missing: bytes,
            pieces: 0,
        };
        self.messages.insert(id, message);
        match needs_answer {
            true => self.control(id, side, part::REQUEST)?,
            false => self.data(id)?,
        }
        Ok(id)
    }

    /// Runs until something has happened, at most until a time. `None`: nothing has.
    pub fn next_event(&mut self, until: Ps) -> Result<Option<Event>, MessagingError> {
        loop {
            let first = self.due.peek().map(|&Reverse((at, _))| at);
            if first.is_some_and(|at| at <= self.now()) {
                if let Some(event) = self.do_due()? {
                    return Ok(Some(event));
                }
                continue;
            }
            if self.cluster.run_to_notice(first.map_or(until, |at| at.min(until))) {
                self.take_notices()?;
            } else if first.is_none_or(|at| at > until) {
                return Ok(None);
            }
        }
    }

    fn at(&mut self, at: Ps, due: Due) {
        self.number += 1;
        self.due.push(Reverse((at, self.number)));
        self.dues.insert(self.number, due);
    }

    /// Does what is due first.
    fn do_due(&mut self) -> Result<Option<Event>, MessagingError> {
        let due = self
            .due
            .pop()
            .and_then(|Reverse((_, number))| self.dues.remove(&number));
        match due {
            Some(Due::Post { host, qp, piece }) => {
                let objects = self.hosts[host].objects;
                self.cluster
                    .act(host, |hca, now| post(hca, now, &objects, qp, &piece))?;
                Ok(None)
            }
            Some(Due::Tell(event)) => Ok(Some(event)),
            None => Ok(None),
        }
    }

    /// Lets a host's processor work for a time. Returns when it has done it.
    fn work(&mut self, host: usize, takes: Ps) -> Ps {
        let now = self.now();
        let host = &mut self.hosts[host];
        host.free_at = host.free_at.max(now) + takes;
        host.free_at
    }

    /// Posts a piece of a message from a side by what its policy chooses.
    fn post(&mut self, id: MessageId, side: usize, kind: Kind, piece: Piece) {
        let message = self.messages[&id];
        let way = &mut self.ways[message.way as usize];
        let bytes = if kind == Kind::Data { message.bytes } else { piece.bytes };
        let choice = way.policy.choose(&mut way.turns[side], kind, bytes);
        let (host, other) = (way.hosts[side], way.hosts[1 - side]);
        let (qp, ah) = (
            way.queue_pairs[choice.queue_pair][side],
            way.addresses.get(&choice.sl.get()).map(|pair| pair[side]),
        );
        let number = self.hosts[other].datagrams.filter(|_| ah.is_some());
        let number = number.and_then(|qp| self.cluster.hca(other).and_then(|hca| hca.qp_num(qp)).ok());
        let piece = Piece {
            datagram: ah.zip(number),
            ..piece
        };
        let at = self.work(host, self.library.post_ps);
        self.at(at, Due::Post { host, qp, piece });
    }

    /// Sends a request or an answer.
    fn control(&mut self, id: MessageId, side: usize, part: u64) -> Result<(), MessagingError> {
        let piece = Piece {
            tag: id << part::BITS | part,
            bytes: self.library.control_bytes,
            signaled: false,
            is_write: false,
            datagram: None,
        };
        self.post(id, side, Kind::Control, piece);
        Ok(())
    }

    /// Sends the payload.
    fn data(&mut self, id: MessageId) -> Result<(), MessagingError> {
        let message = self.messages[&id];
        let way = &self.ways[message.way as usize];
        let is_datagram = way.policy.transport() == Transport::Ud;
        let most = match (is_datagram, way.policy.has_turns()) {
            (true, _) => u32::from(self.hosts[way.hosts[message.side]].mtu.bytes()),
            (false, true) => self.library.piece_bytes,
            (false, false) => u32::MAX,
        };
        let mut left = message.bytes;
        while left > 0 {
            let bytes = left.min(most);
            left -= bytes;
            // Of datagrams only the last one is reported, because it leaves last.
            let signaled = !is_datagram || left == 0;
            if let Some(message) = self.messages.get_mut(&id) {
                message.pieces += u32::from(signaled);
            }
            let piece = Piece {
                tag: id << part::BITS | part::DATA,
                bytes,
                signaled,
                is_write: message.bytes > self.library.eager_max && !is_datagram,
                datagram: None,
            };
            self.post(id, message.side, Kind::Data, piece);
        }
        Ok(())
    }

    /// Takes all completions that programs can see now.
    fn take_notices(&mut self) -> Result<(), MessagingError> {
        while let Some((host, notice)) = self.cluster.take_notice() {
            if !matches!(notice, Notice::Completion(..)) {
                continue;
            }
            let mut completions = std::mem::take(&mut self.completions);
            let objects = self.hosts[host].objects;
            self.cluster
                .act(host, |hca, now| objects.poll(hca, now, &mut completions))?;
            for wc in completions.drain(..) {
                self.completed(host, &wc)?;
            }
            self.completions = completions;
        }
        Ok(())
    }

    fn completed(&mut self, host: usize, wc: &Wc) -> Result<(), MessagingError> {
        if wc.status != WcStatus::Success {
            let status = wc.status;
            return Err(MessagingError::Failed { host, status });
        }
        let at = self.work(host, self.library.poll_ps);
        if !matches!(wc.opcode, WcOpcode::Recv | WcOpcode::RecvRdmaWithImm) {
            self.sent(wc.wr_id >> part::BITS, at);
            return Ok(());
        }
        let own = self.hosts[host];
        self.cluster.act(host, |hca, _| own.post_receive(hca))?;
        let id = wc.tag >> part::BITS;
        let Some(&message) = self.messages.get(&id) else {
            return Ok(());
        };
        match wc.tag & ((1 << part::BITS) - 1) {
            part::REQUEST => self.control(id, 1 - message.side, part::ANSWER),
            part::ANSWER => self.data(id),
            _ => {
                let is_datagram = self.ways[message.way as usize].policy.transport() == Transport::Ud;
                // A receive of a datagram counts its global route header.
                self.arrived(id, wc.bytes - if is_datagram { 40 } else { 0 }, at);
                Ok(())
            }
        }
    }

    fn arrived(&mut self, id: MessageId, bytes: u32, at: Ps) {
        let Some(message) = self.messages.get_mut(&id) else {
            return;
        };
        message.missing = message.missing.saturating_sub(bytes);
        let message = *message;
        if message.missing == 0 {
            let event = Event::Arrived {
                at,
                message: id,
                channel: Channel(message.way),
                side: 1 - message.side,
                posted: message.posted,
                bytes: message.bytes,
            };
            self.at(at, Due::Tell(event));
            self.forget(id);
        }
    }

    fn sent(&mut self, id: MessageId, at: Ps) {
        let Some(message) = self.messages.get_mut(&id) else {
            return;
        };
        message.pieces -= 1;
        let message = *message;
        if message.pieces == 0 {
            let event = Event::Sent {
                at,
                message: id,
                channel: Channel(message.way),
                side: message.side,
            };
            self.at(at, Due::Tell(event));
            self.forget(id);
        }
    }

    /// Forgets a message that has arrived and was completed.
    fn forget(&mut self, id: MessageId) {
        if self
            .messages
            .get(&id)
            .is_some_and(|of| of.missing == 0 && of.pieces == 0)
        {
            self.messages.remove(&id);
        }
    }
}
