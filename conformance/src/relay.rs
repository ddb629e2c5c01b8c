//! A relay between clients and a simulator that counts what clients send, and shows every packet to an observer.
//!
//! The relay counts without the help of the manager, so that "sent 0 Sets" is an observation. A relay adds some
//! microseconds to every MAD, as many for each manager behind it.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use selvedge_transport::ibsim::protocol::{CONTROL_LEN, Connect, Control, Kind, Packet};
use selvedge_transport::ibsim::{Pipe, Way};
use selvedge_wire::{Class, Mad, Method};

use crate::{LabError, until};

/// Interval at which a relay's threads check whether they must end.
const TICK: Duration = Duration::from_millis(20);
/// Limit for the simulator's answer to a control message.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit for the time that a name stays taken after its socket was closed. It is shorter than the time that clients
/// wait for an answer.
const NAME_TIMEOUT: Duration = Duration::from_secs(3);

/// A kind of MAD that has its own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MadKind {
    /// Management class.
    pub class: Class,
    /// Method.
    pub method: Method,
    /// Code of the attribute.
    pub attribute: u16,
}

/// Datagrams by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadCounts(BTreeMap<MadKind, u64>);

impl MadCounts {
    fn add(&mut self, mad: &Mad) {
        let kind = MadKind {
            class: mad.class(),
            method: mad.method(),
            attribute: mad.attribute().code(),
        };
        *self.0.entry(kind).or_default() += 1;
    }

    /// Returns the number of all MADs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the number of MADs of the kinds that `pick` accepts.
    #[must_use]
    pub fn count(&self, pick: impl Fn(&MadKind) -> bool) -> u64 {
        self.0
            .iter()
            .filter(|(kind, _)| pick(kind))
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns the number of SMPs with method Set. An observer must never send one.
    #[must_use]
    pub fn subnet_sets(&self) -> u64 {
        self.count(|kind| kind.class.is_smp() && kind.method == Method::Set)
    }

    /// Returns each kind and its number of MADs.
    pub fn iter(&self) -> impl Iterator<Item = (&MadKind, u64)> {
        self.0.iter().map(|(kind, &count)| (kind, count))
    }
}

impl fmt::Display for MadCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, count) in &self.0 {
            let (class, method) = (kind.class.code(), kind.method.code());
            writeln!(
                f,
                "{count:8} class {class:#04x} method {method:#04x} attribute {:#06x}",
                kind.attribute
            )?;
        }
        Ok(())
    }
}

/// A packet that passes a relay.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Time at which the relay received the packet.
    pub at: Instant,
    /// The client: the number at the end of the names of its sockets.
    pub client: u32,
    /// Direction of the packet.
    pub way: Way,
    /// The packet. A request that the simulator returns unanswered has a status other than 0.
    pub packet: Packet,
}

/// Number of times that a client set IsSM.
type Claims = Arc<AtomicU64>;

/// Counts by client. A client's key is the number at the end of the names of its sockets: for a program that preloads
/// the shim, its process id.
type Shared = Arc<Mutex<BTreeMap<u32, MadCounts>>>;

/// A relay between clients and a simulator; ends when dropped.
pub struct Relay {
    base: String,
    counts: Shared,
    claims: Claims,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay that serves clients under `base` and passes everything to the simulator named `upstream`.
    pub fn start(base: &str, upstream: &str) -> Result<Self, LabError> {
        Self::observed(base, upstream, None)
    }

    /// Does the same as [`Self::start`]; `observer` also gets every packet.
    pub fn observed(base: &str, upstream: &str, observer: Option<Sender<Seen>>) -> Result<Self, LabError> {
        let control = bind(&format!("{base}:ctl")).map_err(LabError::io("binding", base))?;
        let counts = Shared::default();
        let claims = Claims::default();
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            base: base.to_owned(),
            upstream: upstream.to_owned(),
            control,
            counts: counts.clone(),
            claims: claims.clone(),
            observer,
            stop: stop.clone(),
            lines: BTreeMap::new(),
        };
        let thread = std::thread::spawn(move || worker.run());
        Ok(Self {
            base: base.to_owned(),
            counts,
            claims,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the name under which the relay serves.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Returns the counts of MADs that the client with process id `pid` has sent so far.
    #[must_use]
    pub fn sent_by(&self, pid: u32) -> MadCounts {
        lock(&self.counts).get(&pid).cloned().unwrap_or_default()
    }

    /// Returns how often clients have set IsSM so far.
    #[must_use]
    pub fn sm_claims(&self) -> u64 {
        self.claims.load(Ordering::Relaxed)
    }

    /// Returns the counts of MADs that all clients together have sent so far.
    #[must_use]
    pub fn sent(&self) -> MadCounts {
        let mut sum = MadCounts::default();
        for counts in lock(&self.counts).values() {
            counts
                .0
                .iter()
                .for_each(|(&kind, count)| *sum.0.entry(kind).or_default() += count);
        }
        sum
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// One client's connection.
struct Line {
    id: u32,
    control: UnixDatagram,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    base: String,
    upstream: String,
    control: UnixDatagram,
    counts: Shared,
    claims: Claims,
    observer: Option<Sender<Seen>>,
    stop: Arc<AtomicBool>,
    /// Connections of clients, by the slot that the simulator gave to each.
    lines: BTreeMap<u32, Line>,
}

impl Worker {
    fn run(mut self) {
        let mut bytes = [0; CONTROL_LEN];
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((length, from)) = self.control.recv_from(&mut bytes) else {
                continue;
            };
            let Ok(question) = Control::parse(&bytes[..length]) else {
                continue;
            };
            let answer = self.answer(&question).unwrap_or_else(|error| {
                // The client gets only a refusal; the reader of a failed test needs to know that it came from the
                // relay.
                eprintln!("relay {}: {:?} refused: {error}", self.base, question.kind);
                question.refusal()
            });
            let _ = self.control.send_to_addr(&answer.emit(), &from);
        }
    }

    fn answer(&mut self, question: &Control) -> io::Result<Control> {
        let claims = match question.kind {
            Kind::Connect => Connect::parse(&question.data).is_sm,
            Kind::SetIsSm => question.is_sm(),
            _ => false,
        };
        self.claims.fetch_add(claims.into(), Ordering::Relaxed);
        if question.kind == Kind::Connect {
            return self.connect(question);
        }
        let line = self.lines.get(&question.client).ok_or(io::ErrorKind::NotConnected)?;
        let answer = pass_on(&line.control, question)?;
        if question.kind == Kind::Disconnect {
            self.lines.remove(&question.client);
        }
        Ok(answer)
    }

    fn connect(&mut self, question: &Control) -> io::Result<Control> {
        let id = Connect::parse(&question.data).id;
        self.lines.retain(|_, line| line.id != id);
        let control = bind_when_free(&format!("{}:ctl{id}", self.upstream))?;
        control.set_read_timeout(Some(CONTROL_TIMEOUT))?;
        control.connect_addr(&address(&format!("{}:ctl", self.upstream))?)?;
        let up = bind_when_free(&format!("{}:in{id}", self.upstream))?;
        let answer = pass_on(&control, question)?;
        if answer.kind == Kind::Error {
            eprintln!("relay {}: the simulator refuses client {id}", self.base);
            return Ok(answer);
        }
        let slot = Connect::parse(&answer.data).id;
        // A slot given anew: its former owner is gone.
        self.lines.remove(&slot);
        up.connect_addr(&address(&format!("{}:out{slot}", self.upstream))?)?;
        let down = bind_when_free(&format!("{}:out{slot}", self.base))?;
        down.connect_addr(&address(&format!("{}:in{id}", self.base))?)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (counts, observer) = (self.counts.clone(), self.observer.clone());
        let look = move |way, bytes: &[u8]| {
            let Ok(packet) = Packet::parse(bytes) else { return };
            if way == Way::Up {
                lock(&counts).entry(id).or_default().add(&packet.mad);
            }
            if let Some(observer) = &observer {
                let (at, client) = (Instant::now(), id);
                // An observer that has gone away sees nothing.
                let _ = observer.send(Seen {
                    at,
                    client,
                    way,
                    packet,
                });
            }
        };
        let thread = Some(pump(Pipe::new(down, up)?, stop.clone(), look));
        let line = Line {
            id,
            control,
            stop,
            thread,
        };
        self.lines.insert(slot, line);
        Ok(answer)
    }
}

/// Passes packets on until it is stopped.
fn pump(mut pipe: Pipe, stop: Arc<AtomicBool>, mut look: impl FnMut(Way, &[u8]) + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(
        move || {
            while !stop.load(Ordering::Relaxed) && pipe.turn(TICK, &mut look).is_ok() {}
        },
    )
}

fn pass_on(control: &UnixDatagram, question: &Control) -> io::Result<Control> {
    control.send(&question.emit())?;
    let mut bytes = [0; CONTROL_LEN];
    let length = control.recv(&mut bytes)?;
    Control::parse(&bytes[..length]).map_err(io::Error::other)
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{name}\0"))
}

fn bind(name: &str) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::bind_addr(&address(name)?)?;
    socket.set_read_timeout(Some(TICK))?;
    Ok(socket)
}

/// Binds as [`bind`] does, to a name that another process used a moment ago.
///
/// While another thread of this process starts a program, the child holds copies of all sockets of this process until
/// the program runs. So a name can still be taken for that long after its socket was closed here.
fn bind_when_free(name: &str) -> io::Result<UnixDatagram> {
    let look = || match bind(name) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(LabError::io("binding", name)(error)),
    };
    until("a socket name to be free", NAME_TIMEOUT, String::new, look).map_err(io::Error::other)
}

/// Locks the counts, also after a thread panicked while it held the lock: counts are only ever added to, so they are
/// valid at any time.
fn lock(counts: &Mutex<BTreeMap<u32, MadCounts>>) -> std::sync::MutexGuard<'_, BTreeMap<u32, MadCounts>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_copy_of_its_socket_still_holds_is_waited_for() {
        let name = format!("slv-relay-name-{}", std::process::id());
        let first = bind(&name).unwrap();
        let copy = first.try_clone().unwrap();
        drop(first);
        assert_eq!(bind(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let (done, told) = std::sync::mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            // No message: the copy is still open for a while.
            assert!(told.recv_timeout(Duration::from_millis(30)).is_err());
            drop(copy);
        });
        bind_when_free(&name).unwrap();
        drop(done);
        holder.join().unwrap();
    }
}
