//! A client of the ibsim protocol: a port of a simulated fabric, without a preloaded library.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use selvedge_types::{Guid, Lid, PortNum, TransactionId};
use selvedge_wire::attribute::NodeInfo;
use selvedge_wire::{
    Address, Arrival, Attribute, AttributeId, Datagram, DirectedRoute, LocalPort, Mad, MadPort, Method, PortError,
};

use super::batch::{Inbox, Outbox};
use super::protocol::{self, CONTROL_LEN, Connect, Control, End, Kind, Packet};
use super::socket::{self, is_dead, is_full};
use crate::poll::PollSet;
use crate::{OWN_TRANSACTION_BITS, is_answer};

/// How long a server may take to answer a control message. A busy ibsim reads its control socket once per round.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long `open` waits for the answer to its own NodeInfo Get, for each of three attempts.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a port that receives nothing checks its attachment to the server. A datagram socket is not notified when
/// its peer closes, so without the check an idle manager would wait for ever.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long `flush` waits for room in the server's queue before it returns the error that the queue is full.
const SEND_WAIT: Duration = Duration::from_millis(100);
/// Distance between the ids of several ports of one process: the highest process id of Linux (`PID_MAX_LIMIT`).
const ID_STEP: u32 = 1 << 22;
/// Largest number of ports of one process at one server, because ids are signed 32-bit numbers in socket names.
const PORTS_PER_PROCESS: u32 = (i32::MAX as u32) / ID_STEP;

const ADVICE_START: &str = "start ibsim or 'selvedge emulate' with the same name (ibsim: environment IBSIM_SOCKNAME)";
const ADVICE_NODE: &str = "name a node as the server's net file does, or none; ibsim takes 10 clients at most, \
                           and one SM per node";

/// A port of a fabric behind a server of the ibsim protocol.
///
/// The server returns unanswered requests, as the kernel's umad layer does. If the server itself loses a request, only
/// the caller can notice. Sent datagrams leave with the next [`MadPort::receive`] or [`MadPort::flush`], or when a
/// batch is full.
pub struct IbsimPort {
    control: UnixDatagram,
    data: UnixDatagram,
    /// The address of the server's end of `data`.
    out: SocketAddr,
    next_check: Instant,
    slot: u32,
    node: String,
    local: LocalPort,
    is_sm: bool,
    /// Queue pair of this port besides QP1; 0: none.
    qp: u32,
    inbox: Inbox,
    outbox: Outbox,
    poll_set: PollSet,
}

impl IbsimPort {
    /// Attaches to `node` (empty: the default node) of the server named `base`.
    pub fn open(base: &str, node: &str) -> Result<Self, PortError> {
        Self::open_at(base, node, 0)
    }

    /// Opens a port as [`Self::open`] does, with a queue pair of its own (above 1), which is the source of datagrams to
    /// QP1. Without such a queue pair, ibsim delivers only responses to this client; other datagrams go to the client
    /// that is an SM. With it, the client also gets unsolicited datagrams for its queue pair, for example reports after
    /// a subscription.
    pub fn open_at(base: &str, node: &str, qp: u32) -> Result<Self, PortError> {
        let failed = |cause: String, advice| PortError::Open {
            port: format!("ibsim:{base}{}{node}", if node.is_empty() { "" } else { "/" }),
            cause,
            advice,
        };
        let io_failed = |error: io::Error| failed(error.to_string(), ADVICE_START);
        let (id, control, data) = bind_both(base).map_err(io_failed)?;
        let server = socket::address(&format!("{base}:ctl")).map_err(io_failed)?;
        control.connect_addr(&server).map_err(io_failed)?;
        let wish = Connect {
            id,
            qp,
            is_sm: false,
            node: node.to_owned(),
        };
        let answer = ask(&control, &Control::new(Kind::Connect, 0, &wish.emit())).map_err(io_failed)?;
        if answer.kind == Kind::Error {
            return Err(failed("the server refuses to attach us".to_owned(), ADVICE_NODE));
        }
        let place = Connect::parse(&answer.data);
        let out = socket::address(&format!("{base}:out{}", place.id)).map_err(io_failed)?;
        data.connect_addr(&out).map_err(io_failed)?;
        let mut port = Self {
            control,
            data,
            out,
            next_check: Instant::now() + CHECK_INTERVAL,
            slot: place.id,
            node: place.node,
            local: LocalPort {
                node_guid: Guid::NONE,
                port_guid: Guid::NONE,
                port: PortNum::MANAGEMENT,
            },
            is_sm: false,
            qp,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
            poll_set: PollSet::default(),
        };
        port.local = port.ask_who_we_are()?.ok_or_else(|| {
            let cause = format!("node '{}' does not answer a NodeInfo Get from itself", port.node);
            failed(cause, "see whether the simulated node is alive")
        })?;
        Ok(port)
    }

    /// Returns the name of the node that this port belongs to, as the server knows it.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Reads this port's own NodeInfo along the empty route, because the NodeInfo in control messages is modified for
    /// libumad2sim.
    fn ask_who_we_are(&mut self) -> Result<Option<LocalPort>, PortError> {
        let mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &DirectedRoute::LOCAL);
        for attempt in 1..=3 {
            let mut mad = mad;
            mad.set_transaction(TransactionId(attempt));
            let address = Address::DIRECTED;
            self.send(&Datagram { address, mad }, PROBE_TIMEOUT)?;
            let deadline = Instant::now() + PROBE_TIMEOUT;
            while let Some(arrival) = self.receive(deadline.saturating_duration_since(Instant::now()))? {
                let Arrival::Received(found) = arrival else { break };
                if found.mad.method() != Method::GetResp || found.mad.attribute() != AttributeId::NODE_INFO {
                    continue;
                }
                if let Ok(info) = NodeInfo::parse(found.mad.smp_data()) {
                    return Ok(Some(LocalPort {
                        node_guid: info.node_guid,
                        port_guid: info.port_guid,
                        port: PortNum::new(info.local_port).unwrap_or_default(),
                    }));
                }
            }
        }
        Ok(None)
    }

    /// Returns the next arrival among the packets that were read. Malformed packets are dropped.
    #[inline]
    fn next_read(&mut self) -> Option<Arrival> {
        loop {
            let packet = Packet::parse(self.inbox.next()?);
            if let Ok(packet) = packet {
                return Some(arrival(&packet));
            }
        }
    }

    /// Sends the waiting packets. Returns false if there is not enough room.
    fn transmit(&mut self) -> Result<bool, PortError> {
        match self.outbox.flush(&self.data) {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(gone("sending", &error)),
        }
    }

    /// Reads the packets that have arrived. Returns false if there are none.
    fn fill(&mut self) -> Result<bool, PortError> {
        match self.inbox.fill(&self.data) {
            Ok(()) => Ok(true),
            Err(error) if is_full(&error) => Ok(false),
            Err(error) => Err(gone("receiving", &error)),
        }
    }

    /// Fails if the server has ended or has detached this port. To find out, the port connects its socket again: if the
    /// server has connected its socket to another peer, the attempt is refused.
    fn check_attached(&mut self, now: Instant) -> Result<(), PortError> {
        if now < self.next_check {
            return Ok(());
        }
        self.next_check = now + CHECK_INTERVAL;
        self.data
            .connect_addr(&self.out)
            .map_err(|error| gone("waiting", &error))
    }

    /// Waits until a packet arrives or, if `for_room`, until there is room to send.
    fn wait(&mut self, wait: Duration, for_room: bool) -> Result<(), PortError> {
        self.poll_set.clear();
        if for_room {
            self.poll_set.readable_or_writable(self.data.as_raw_fd());
        } else {
            self.poll_set.readable(self.data.as_raw_fd());
        }
        self.poll_set.wait(wait).map_err(|error| gone("waiting", &error))
    }
}

impl MadPort for IbsimPort {
    fn local(&self) -> LocalPort {
        self.local
    }

    fn send(&mut self, datagram: &Datagram, _timeout: Duration) -> Result<(), PortError> {
        if self.outbox.is_crowded() {
            self.transmit()?;
        }
        let place = self.outbox.place().ok_or(PortError::Full)?;
        let mad = &datagram.mad;
        let own = mad.transaction().0 & OWN_TRANSACTION_BITS;
        let transaction = if is_answer(mad) { mad.transaction().0 } else { own };
        let to = End::from(datagram.address);
        // Source LID 0 means the port's own LID. Directed routes start and end with the permissive LID.
        let lid = if to.lid == Lid::PERMISSIVE { to.lid } else { Lid::NONE };
        let qp = if self.qp > 1 && to.qp == 1 { self.qp } else { to.qp };
        let from = End { lid, qp };
        protocol::emit(place, (to, from), 0, mad);
        protocol::set_transaction(place, transaction);
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Arrival>, PortError> {
        let mut end = None;
        loop {
            if let Some(arrival) = self.next_read() {
                return Ok(Some(arrival));
            }
            // A server that cannot send its answers may stop reading requests (ibsim does), so read in any case.
            let all_sent = self.transmit()?;
            if self.fill()? {
                continue;
            }
            let now = Instant::now();
            self.check_attached(now)?;
            if wait.is_zero() {
                return Ok(None);
            }
            let left = end.get_or_insert(now + wait).saturating_duration_since(now);
            if left.is_zero() {
                return Ok(None);
            }
            let left = left.min(self.next_check.saturating_duration_since(now));
            self.wait(left, !all_sent)?;
        }
    }

    fn flush(&mut self) -> Result<(), PortError> {
        let end = Instant::now() + SEND_WAIT;
        while !self.transmit()? {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(PortError::Full);
            }
            self.poll_set.clear();
            self.poll_set.writable(self.data.as_raw_fd());
            self.poll_set.wait(left).map_err(|error| gone("sending", &error))?;
        }
        Ok(())
    }

    fn set_is_sm(&mut self, is_sm: bool) -> Result<(), PortError> {
        let data = u32::from(is_sm).to_ne_bytes();
        let answer = ask(&self.control, &Control::new(Kind::SetIsSm, self.slot, &data));
        match answer {
            Ok(answer) if answer.kind == Kind::Error => Err(PortError::Gone {
                operation: "setting IsSM",
                cause: "the server no longer knows us".to_owned(),
            }),
            Ok(_) => {
                self.is_sm = is_sm;
                Ok(())
            }
            Err(error) => Err(gone("setting IsSM", &error)),
        }
    }
}

impl Drop for IbsimPort {
    fn drop(&mut self) {
        let _ = self.outbox.flush(&self.data);
        // The answers to these messages are not read.
        let say = |kind, data: &[u8]| drop(self.control.send(&Control::new(kind, self.slot, data).emit()));
        if self.is_sm {
            // ibsim leaves the IsSM bit set when a client disconnects.
            say(Kind::SetIsSm, &[0; 4]);
        }
        say(Kind::Disconnect, &[]);
    }
}

/// Returns the content of a packet: a datagram, or a returned request.
#[inline]
fn arrival(packet: &Packet) -> Arrival {
    let datagram = |end: End| {
        let (address, mut mad) = (Address::from(end), packet.mad);
        if packet.status != 0 || mad.method().is_response() {
            mad.set_transaction(TransactionId(mad.transaction().0 & OWN_TRANSACTION_BITS));
        }
        Datagram { address, mad }
    };
    if packet.status == 0 {
        Arrival::Received(datagram(packet.from))
    } else {
        Arrival::Returned(datagram(packet.to))
    }
}

/// Binds a control socket and a data socket. Returns them with their id: the process id, or the next free number above
/// it.
///
/// A number may be in use by another port of this process, or for a moment by a port that was just closed: a child
/// process that is starting has copies of its parent's sockets until it executes its program.
fn bind_both(base: &str) -> io::Result<(u32, UnixDatagram, UnixDatagram)> {
    let own = std::process::id();
    for port in 0..PORTS_PER_PROCESS {
        let id = own + port * ID_STEP;
        let bind = |end| socket::bind(&format!("{base}:{end}{id}"));
        match bind("ctl").and_then(|control| Ok((id, control, bind("in")?))) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Sends a control message and waits for its answer.
fn ask(control: &UnixDatagram, message: &Control) -> io::Result<Control> {
    let mut bytes = [0; CONTROL_LEN];
    // Discards answers to earlier messages that arrived too late.
    while control.recv(&mut bytes).is_ok() {}
    control.send(&message.emit())?;
    let deadline = Instant::now() + CONTROL_TIMEOUT;
    let mut set = PollSet::default();
    set.readable(control.as_raw_fd());
    loop {
        match control.recv(&mut bytes) {
            Ok(length) => {
                let answer = Control::parse(&bytes[..length]).map_err(io::Error::other)?;
                // The answer to a former port of this process may arrive at this socket, because it has the same name.
                if answer.kind == message.kind || answer.kind == Kind::Error {
                    return Ok(answer);
                }
                continue;
            }
            Err(error) if is_full(&error) => {}
            Err(error) => return Err(error),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        set.wait(left)?;
    }
}

fn gone(operation: &'static str, error: &io::Error) -> PortError {
    let cause = if is_dead(error) {
        "the server has ended".to_owned()
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "the server has detached this client".to_owned()
    } else {
        error.to_string()
    };
    PortError::Gone { operation, cause }
}
