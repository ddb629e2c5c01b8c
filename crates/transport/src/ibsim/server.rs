//! A server of the ibsim protocol: external programs attach to a fabric of this program.
//!
//! The server also does the work of the kernel's umad layer, because libumad2sim has no
//! timers: it sends an unanswered request again, and finally returns it with status 110.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use selvedge_types::{PortNum, TransactionId};
use selvedge_wire::{Address, Class, Datagram, Method};

use super::backend::{AttachPoint, Backend};
use super::event::{Counters, Delivery, SLOTS, ServerError, ServerEvent, ServerOptions, Slot, slots};
use super::protocol::{
    CONTROL_LEN, Connect, Control, End, Facts, Kind, PACKET_LEN, Packet, STATUS_TIMED_OUT, emit_pkeys,
};
use super::slot::{Client, Place, Sent};
use super::socket::{self, BASE_NAME_MAX};
use crate::outstanding::Outstanding;
use crate::poll::PollSet;
use crate::{OWN_TRANSACTION_BITS, is_answer, wants_answer};

/// Largest number of packets and control messages that are read from one socket before the next socket.
const BURST: usize = 64;

/// How often the server checks whether silent clients still exist.
const REAP_INTERVAL: Duration = Duration::from_millis(500);

/// Bit offset of the slot in a transaction id.
const SLOT_SHIFT: u32 = 48;

/// Interrupts [`IbsimServer::poll`] from another thread.
#[derive(Debug)]
pub struct Waker(UnixDatagram);

impl Waker {
    /// Makes the running or next `poll` return at once. If the queue is full, a wake-up is already pending.
    pub fn wake(&self) {
        let _ = self.0.send(&[0]);
    }
}

#[derive(Clone)]
struct Waiting {
    slot: Slot,
    tries_left: u32,
    packet: Packet,
}

/// A server of the ibsim protocol.
pub struct IbsimServer {
    base: String,
    options: ServerOptions,
    control: UnixDatagram,
    places: Vec<Place>,
    outstanding: Outstanding<Waiting>,
    poll_set: PollSet,
    next_reap: Instant,
    counters: Counters,
    // Both ends are kept, so that the waker's end stays valid.
    woken: UnixDatagram,
    waker: UnixDatagram,
}

impl IbsimServer {
    /// Fails if `base` is not valid as a base name. Only [`Self::bind`] finds out whether another process uses the
    /// name.
    pub fn check(base: &str) -> Result<(), ServerError> {
        match base.is_empty() || base.len() > BASE_NAME_MAX || base.contains([':', '\0']) {
            true => Err(ServerError::BaseName { base: base.to_owned() }),
            false => Ok(()),
        }
    }

    /// Binds all sockets of a server named `base`.
    pub fn bind(base: &str, options: ServerOptions) -> Result<Self, ServerError> {
        Self::check(base)?;
        let open = |name: String| socket::bind(&name).map_err(|cause| ServerError::Bind { name, cause });
        let control = open(format!("{base}:ctl"))?;
        let no_wait = |cause| ServerError::Wait { cause };
        let parking = socket::address(&format!("{base}:ctl")).map_err(no_wait)?;
        let places = (0..SLOTS)
            .map(|slot| open(format!("{base}:out{slot}")).map(|socket| Place::new(socket, parking.clone())))
            .collect::<Result<_, _>>()?;
        let (woken, waker) = wake_pair().map_err(no_wait)?;
        Ok(Self {
            base: base.to_owned(),
            options,
            control,
            places,
            outstanding: Outstanding::default(),
            poll_set: PollSet::default(),
            next_reap: Instant::now() + REAP_INTERVAL,
            counters: Counters::default(),
            woken,
            waker,
        })
    }

    /// Returns the base name, which clients set in `IBSIM_SOCKNAME`.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the counters.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the attached clients: slot, port, SM or not.
    pub fn clients(&self) -> impl Iterator<Item = (Slot, AttachPoint, bool)> {
        slots().filter_map(|slot| {
            let client = self.places[slot.index()].client.as_ref()?;
            Some((slot, client.at, client.is_sm))
        })
    }

    /// Returns a handle that interrupts [`Self::poll`].
    pub fn waker(&self) -> Result<Waker, ServerError> {
        self.waker
            .try_clone()
            .map(Waker)
            .map_err(|cause| ServerError::Wait { cause })
    }

    /// Waits at most `wait`, answers control messages, and appends what happened to `events`.
    ///
    /// Returns early after any activity, even if it gave no event, for example after a wake-up.
    pub fn poll(
        &mut self,
        backend: &dyn Backend,
        wait: Duration,
        events: &mut Vec<ServerEvent>,
    ) -> Result<(), ServerError> {
        self.wait_for_sockets(wait)?;
        let mut scrap = [0; 16];
        while self.woken.recv(&mut scrap).is_ok() {}
        for _ in 0..BURST {
            if !self.serve_control(backend, events) {
                break;
            }
        }
        for slot in slots() {
            let place = &self.places[slot.index()];
            if place.client.is_some() && self.poll_set.is_ready(place.socket.as_raw_fd()) {
                self.serve_data(slot, events);
            }
        }
        let now = Instant::now();
        self.serve_timeouts(now, events);
        if now >= self.next_reap {
            self.next_reap = now + REAP_INTERVAL;
            self.reap(events);
        }
        Ok(())
    }

    /// Delivers a datagram that arrived at `delivery.at`. False if there is no client for it.
    ///
    /// A response goes to the client that sent the request. Any other datagram goes to the client that owns the queue
    /// pair, or for queue pairs 0 and 1 to the client that is an SM.
    pub fn deliver(&mut self, delivery: &Delivery) -> bool {
        let slot = if delivery.mad.method().is_response() {
            self.requester(delivery)
        } else {
            self.unsolicited(delivery)
        };
        let Some(slot) = slot else {
            return false;
        };
        let packet = Packet {
            to: End::from(delivery.to),
            from: End::from(delivery.from),
            status: 0,
            mad: delivery.mad,
        };
        self.send(slot, &packet);
        true
    }

    /// Returns a request to its client at once as unanswered. Fabrics use this if they know that a request cannot be
    /// delivered.
    pub fn give_back(&mut self, transaction: TransactionId) {
        if let Some(waiting) = self.outstanding.take(transaction.0) {
            self.hand_back(&waiting);
        }
    }

    fn wait_for_sockets(&mut self, wait: Duration) -> Result<(), ServerError> {
        self.poll_set.clear();
        self.poll_set.readable(self.control.as_raw_fd());
        self.poll_set.readable(self.woken.as_raw_fd());
        for place in self.places.iter().filter(|place| place.client.is_some()) {
            if place.wants_room() {
                self.poll_set.readable_or_writable(place.socket.as_raw_fd());
            } else {
                self.poll_set.readable(place.socket.as_raw_fd());
            }
        }
        let now = Instant::now();
        let due = self
            .outstanding
            .next_deadline()
            .map_or(self.next_reap, |at| at.min(self.next_reap));
        let wait = wait.min(due.saturating_duration_since(now));
        self.poll_set.wait(wait).map_err(|cause| ServerError::Wait { cause })
    }

    // ---- control ----

    /// Answers one control message. Returns false if there is none.
    fn serve_control(&mut self, backend: &dyn Backend, events: &mut Vec<ServerEvent>) -> bool {
        let mut bytes = [0; CONTROL_LEN + 1];
        let Ok((length, from)) = self.control.recv_from(&mut bytes) else {
            return false;
        };
        match Control::parse(&bytes[..length]) {
            Ok(message) => {
                let answer = if self.speaks_for_itself(&message, &from) {
                    self.control_answer(&message, backend, events)
                } else {
                    self.counters.foreign += 1;
                    message.refusal()
                };
                self.counters.refused += u64::from(answer.kind == Kind::Error);
                // If a client does not wait for its answer, the answer is lost.
                let _ = self.control.send_to_addr(&answer.emit(), &from);
            }
            Err(_) => self.counters.malformed += 1,
        }
        true
    }

    /// True if a control message comes from the control socket of the client that it names. Every local user can write
    /// to the server's socket, but only one process at a time can bind a socket name.
    fn speaks_for_itself(&self, message: &Control, from: &SocketAddr) -> bool {
        let id = if message.kind == Kind::Connect {
            Some(Connect::parse(&message.data).id)
        } else {
            let slot = slots().find(|slot| slot.number() == message.client);
            slot.and_then(|slot| Some(self.places[slot.index()].client.as_ref()?.id))
        };
        // For a slot without a client, a foreign message can do no harm.
        id.is_none_or(|id| socket::is_named(from, &format!("{}:ctl{id}", self.base)))
    }

    fn control_answer(&mut self, ask: &Control, backend: &dyn Backend, events: &mut Vec<ServerEvent>) -> Control {
        if ask.kind == Kind::Connect {
            return self
                .connect(&Connect::parse(&ask.data), backend, events)
                .map_or(ask.refusal(), |answer| ask.answer(&answer.emit()));
        }
        let slot = slots().find(|slot| slot.number() == ask.client);
        let Some((slot, at)) = slot.and_then(|slot| Some((slot, self.places[slot.index()].client.as_ref()?.at))) else {
            // Detaching a client that is not attached is no error: ibsim does the same.
            return if ask.kind == Kind::Disconnect {
                *ask
            } else {
                ask.refusal()
            };
        };
        let node_info = backend.node_info(at);
        let port_info = backend.port_info(at, at.port);
        let facts = Facts {
            node_info: &node_info,
            port_info: &port_info,
        };
        match ask.kind {
            Kind::Error | Kind::Connect => ask.refusal(),
            Kind::Disconnect => {
                self.detach(slot, events);
                *ask
            }
            Kind::Port => ask.answer(&facts.port()),
            Kind::Vendor => ask.answer(&facts.vendor()),
            Kind::Gid => ask.answer(&facts.gid()),
            Kind::Guid => ask.answer(&facts.guid()),
            Kind::NodeInfo => ask.answer(&facts.shim_node_info()),
            Kind::PortInfo => match PortNum::new(ask.data[0]) {
                None | Some(PortNum::MANAGEMENT) => ask.answer(&port_info),
                Some(port) => ask.answer(&backend.port_info(at, port)),
            },
            Kind::SetIsSm => {
                if ask.is_sm() {
                    // A killed manager may still occupy a slot at this port.
                    self.reap(events);
                }
                self.set_is_sm(slot, ask.is_sm(), events);
                *ask
            }
            Kind::PKeys => ask.answer(&emit_pkeys(&backend.p_keys(at))),
        }
    }

    fn connect(&mut self, wish: &Connect, backend: &dyn Backend, events: &mut Vec<ServerEvent>) -> Option<Connect> {
        // If the same id connects again, its former owner is gone, because only one process can bind the name.
        let former = slots().find(|slot| {
            self.places[slot.index()]
                .client
                .as_ref()
                .is_some_and(|c| c.id == wish.id)
        });
        if let Some(slot) = former {
            self.detach(slot, events);
        }
        let at = backend.find(&wish.node)?;
        if wish.is_sm && self.sm_at(at).is_some() {
            self.reap(events);
            if self.sm_at(at).is_some() {
                return None;
            }
        }
        let is_free = |server: &Self, slot: Slot| server.places[slot.index()].client.is_none();
        let slot = slots().find(|&slot| is_free(self, slot)).or_else(|| {
            self.reap(events);
            slots().find(|&slot| is_free(self, slot))
        })?;
        let data_name = format!("{}:in{}", self.base, wish.id);
        let place = &mut self.places[slot.index()];
        place.socket.connect_addr(&socket::address(&data_name).ok()?).ok()?;
        place.client = Some(Client {
            id: wish.id,
            qp: wish.qp,
            is_sm: false,
            at,
            data_name,
        });
        let node = backend.name(at);
        events.push(ServerEvent::Attached {
            slot,
            at,
            node: node.clone(),
        });
        self.set_is_sm(slot, wish.is_sm, events);
        Some(Connect {
            id: slot.number(),
            node,
            ..wish.clone()
        })
    }

    /// Records whether a client is an SM. The IsSM bit belongs to the port: the first SM client at the port sets it,
    /// and the end of the last one clears it.
    fn set_is_sm(&mut self, slot: Slot, is_sm: bool, events: &mut Vec<ServerEvent>) {
        let Some(client) = &mut self.places[slot.index()].client else {
            return;
        };
        // A client that sets it again has seen it cleared.
        if !is_sm && !client.is_sm {
            return;
        }
        client.is_sm = is_sm;
        let at = client.at;
        let others = |(other, place, is_sm): (Slot, AttachPoint, bool)| is_sm && place == at && other != slot;
        if !self.clients().any(others) {
            events.push(ServerEvent::IsSm { slot, at, is_sm });
        }
    }

    fn detach(&mut self, slot: Slot, events: &mut Vec<ServerEvent>) {
        self.set_is_sm(slot, false, events);
        if let Some(client) = self.places[slot.index()].free() {
            self.outstanding.retain(|waiting| waiting.slot != slot);
            events.push(ServerEvent::Detached { slot, at: client.at });
        }
    }

    /// Frees the slots of clients with a closed socket.
    fn reap(&mut self, events: &mut Vec<ServerEvent>) {
        for slot in slots() {
            let client = self.places[slot.index()].client.as_ref();
            if client.is_some_and(|client| !socket::is_alive(&client.data_name)) {
                self.counters.died += 1;
                self.detach(slot, events);
            }
        }
    }

    // ---- data ----

    fn serve_data(&mut self, slot: Slot, events: &mut Vec<ServerEvent>) {
        if self.places[slot.index()].flush() == Sent::Dead {
            self.counters.died += 1;
            self.detach(slot, events);
            return;
        }
        let mut bytes = [0; PACKET_LEN + 1];
        for _ in 0..BURST {
            // An error here means that no packet is there, or that the client is dead, which `reap` detects too.
            let Ok(length) = self.places[slot.index()].socket.recv(&mut bytes) else {
                return;
            };
            match Packet::parse(&bytes[..length]) {
                Ok(packet) => self.accept(slot, packet, events),
                Err(_) => self.counters.malformed += 1,
            }
        }
    }

    fn accept(&mut self, slot: Slot, mut packet: Packet, events: &mut Vec<ServerEvent>) {
        self.counters.received += 1;
        let mad = &mut packet.mad;
        let transaction = mad.transaction().0;
        if mad.method() == Method::TrapRepress {
            // A trap that a client sent, for example a standby to its master. No agent knows its transaction id.
            if let Some(waiting) = self.outstanding.take(transaction) {
                let answer = Packet {
                    to: waiting.packet.from,
                    from: waiting.packet.to,
                    ..packet
                };
                return self.send(waiting.slot, &answer);
            }
            // libumad2sim took it for a request and overwrote the trap's own id with its agent number.
            mad.set_transaction(TransactionId(transaction & OWN_TRANSACTION_BITS));
        } else if !is_answer(mad) {
            let marked = transaction & !(0xFFFF << SLOT_SHIFT) | slot_mark(slot);
            mad.set_transaction(TransactionId(marked));
        }
        // A manager waits for the answer to its trap and must be informed if there is none; OpenSM would wait for ever.
        // Source: Linux `ib_send_mad`, which times a trap out like a request.
        let is_trap = packet.mad.class().is_smp() && packet.mad.method() == Method::Trap;
        if is_trap || wants_answer(&packet.mad) {
            let waiting = Waiting {
                slot,
                tries_left: if is_trap { 0 } else { self.options.retries },
                packet,
            };
            self.wait_for_answer(waiting, Instant::now());
        }
        self.announce(slot, &packet, events);
    }

    fn wait_for_answer(&mut self, waiting: Waiting, now: Instant) {
        let transaction = waiting.packet.mad.transaction().0;
        self.outstanding
            .insert(transaction, now + self.options.response_timeout, waiting);
    }

    fn announce(&self, slot: Slot, packet: &Packet, events: &mut Vec<ServerEvent>) {
        if let Some(client) = &self.places[slot.index()].client {
            events.push(ServerEvent::Datagram {
                slot,
                at: client.at,
                from_qp: packet.from.qp,
                datagram: Datagram {
                    address: Address::from(packet.to),
                    mad: packet.mad,
                },
            });
        }
    }

    fn serve_timeouts(&mut self, now: Instant, events: &mut Vec<ServerEvent>) {
        while let Some(mut waiting) = self.outstanding.expire(now) {
            if waiting.tries_left == 0 {
                self.hand_back(&waiting);
            } else {
                waiting.tries_left -= 1;
                self.counters.retried += 1;
                self.announce(waiting.slot, &waiting.packet, events);
                self.wait_for_answer(waiting, now);
            }
        }
    }

    fn hand_back(&mut self, waiting: &Waiting) {
        self.counters.returned += 1;
        let packet = Packet {
            status: STATUS_TIMED_OUT,
            ..waiting.packet
        };
        self.send(waiting.slot, &packet);
    }

    /// Sends a packet to a client. A dead client is only counted here; `reap` frees its slot and reports it.
    fn send(&mut self, slot: Slot, packet: &Packet) {
        match self.places[slot.index()].send(packet) {
            Sent::Accepted => self.counters.sent += 1,
            Sent::Dropped => self.counters.dropped_full += 1,
            Sent::Dead => {
                self.counters.dropped_unwanted += 1;
                self.next_reap = Instant::now();
            }
        }
    }

    fn requester(&mut self, delivery: &Delivery) -> Option<Slot> {
        let transaction = delivery.mad.transaction().0;
        let mark = transaction & (0xFFFF << SLOT_SHIFT);
        let slot = slots().find(|&slot| slot_mark(slot) == mark)?;
        if self.places[slot.index()].client.as_ref()?.at != delivery.at {
            return None;
        }
        // An RMPP transfer has many responses to one request. The client recognises repeated ones.
        let in_parts = delivery.mad.class() == Class::SubnAdm && delivery.mad.rmpp().is_some();
        if self.outstanding.take(transaction).is_none() && !in_parts {
            self.counters.late += 1;
            return None;
        }
        Some(slot)
    }

    fn unsolicited(&mut self, delivery: &Delivery) -> Option<Slot> {
        let wanted = match delivery.to.qp {
            // An SM has registered agents for these classes. libumad2sim crashes on a class without a registered agent.
            0 | 1 if delivery.mad.class().is_smp() || delivery.mad.class() == Class::SubnAdm => self.sm_at(delivery.at),
            0 | 1 => None,
            qp => slots().find(|slot| {
                let client = self.places[slot.index()].client.as_ref();
                client.is_some_and(|client| client.at == delivery.at && client.qp == qp)
            }),
        };
        self.counters.dropped_unwanted += u64::from(wanted.is_none());
        wanted
    }

    fn sm_at(&self, at: AttachPoint) -> Option<Slot> {
        self.clients()
            .find(|&(_, place, is_sm)| is_sm && place == at)
            .map(|(slot, ..)| slot)
    }
}

/// Returns the slot as stored in a transaction id: counted from 1, so that 0 marks a request from elsewhere.
fn slot_mark(slot: Slot) -> u64 {
    u64::from(slot.number() + 1) << SLOT_SHIFT
}

fn wake_pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
    let (woken, waker) = UnixDatagram::pair()?;
    woken.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    Ok((woken, waker))
}
