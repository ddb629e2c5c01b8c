//! Clients that ask for paths at a steady rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Guid, Lid, Sl, TransactionId};
use selvedge_wire::sa::records;
use selvedge_wire::{
    Address, Arrival, AttributeId, Class, Datagram, DirectedRoute, Mad, MadPort, Method, PortError, PortInfo, Status,
};

use crate::case::Case;
use crate::error::BenchError;

/// Number of clients, each at a host of its own.
const CLIENTS: usize = 4;
/// Time between two queries of a client.
const INTERVAL: Duration = Duration::from_millis(8);
/// Time after which a query is repeated that got no answer, or the answer BUSY.
const AGAIN: Duration = Duration::from_millis(20);
/// Longest wait for the first answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// One query.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// When the query was due. A client that still waits for an earlier answer cannot send it, and that wait counts:
    /// the clock runs from here.
    due: Instant,
    /// Time from `due` to the answer.
    took: Duration,
    /// Number of repeats because no answer came.
    repeats: u32,
    /// Number of answers BUSY.
    busy: u32,
    /// True if no answer with a path ever came.
    lost: bool,
}

/// Figures of the queries in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Number of queries.
    pub asked: u64,
    /// Repeats of queries that had no answer in time.
    pub repeats: u64,
    /// Answers BUSY, after which the query was repeated.
    pub busy: u64,
    /// Queries without an answer until the clients were stopped.
    pub lost: u64,
    /// Median time from the due time of a query to its answer, in ms.
    pub p50_ms: f64,
    /// The 99th percentile of this time.
    pub p99_ms: f64,
    /// The longest of these times.
    pub max_ms: f64,
    /// The longest time without any answer while at least one client waited.
    pub silence_ms: f64,
}

impl Figures {
    fn of(samples: &[Sample]) -> Self {
        let mut times: Vec<f64> = samples.iter().map(|s| s.took.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let at = (times.len() as f64 * share).ceil() as usize;
            times.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        let sum = |of: fn(&Sample) -> u64| samples.iter().map(of).sum();
        Self {
            asked: samples.len() as u64,
            repeats: sum(|s| u64::from(s.repeats)),
            busy: sum(|s| u64::from(s.busy)),
            lost: sum(|s| u64::from(s.lost)),
            p50_ms: rank(0.5),
            p99_ms: rank(0.99),
            max_ms: times.last().copied().unwrap_or(0.0),
            silence_ms: silence(samples).as_secs_f64() * 1e3,
        }
    }
}

/// Returns the longest time without an answer while a query waited.
fn silence(samples: &[Sample]) -> Duration {
    let mut answers: Vec<(Instant, Instant)> = samples.iter().map(|s| (s.due + s.took, s.due)).collect();
    answers.sort_unstable();
    let (mut longest, mut last) = (Duration::ZERO, None::<Instant>);
    for &(answered, due) in &answers {
        // It has waited since it was due, but some client has got an answer since the one before.
        let since = last.map_or(due, |last| last.max(due));
        longest = longest.max(answered.saturating_duration_since(since));
        last = Some(answered);
    }
    longest
}

/// The figures of all clients.
pub struct Asked {
    paths: Vec<Sample>,
    agent: Vec<Sample>,
}

impl Asked {
    /// Figures of path queries due in this time.
    pub fn paths(&self, from: Instant, to: Instant) -> Figures {
        between(&self.paths, from, to)
    }

    /// Figures of Gets to the agent that were due in this time.
    pub fn agent(&self, from: Instant, to: Instant) -> Figures {
        between(&self.agent, from, to)
    }
}

fn between(samples: &[Sample], from: Instant, to: Instant) -> Figures {
    let within = |s: &&Sample| (from..to).contains(&s.due);
    Figures::of(&samples.iter().filter(within).copied().collect::<Vec<_>>())
}

type Found = Result<Vec<Sample>, PortError>;

/// Clients at work, each on a thread.
pub struct Clients {
    stop: Arc<AtomicBool>,
    paths: Vec<JoinHandle<Found>>,
    agent: JoinHandle<Found>,
}

impl Clients {
    /// Attaches clients to hosts of a fabric that is up, and lets them ask.
    pub fn start(case: &Case, base: &str) -> Result<Self, BenchError> {
        let fabric = &case.fabric;
        let hosts: Vec<(&str, Guid)> = (fabric.end_ports())
            .filter(|(at, _)| !fabric.node(at.node).is_switch() && at.node != case.host)
            .map(|(at, port)| (fabric.node(at.node).description.as_str(), port.guid))
            .collect();
        let guids: Arc<[Guid]> = hosts.iter().map(|(_, guid)| *guid).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let step = (hosts.len() / (CLIENTS + 1)).max(1);
        let mut seats = hosts.iter().step_by(step).cycle();
        let mut start = |kind: Kind, number: u64| {
            // A fabric without another host is not measured here.
            let (node, guid) = seats.next().copied().unwrap_or((case.host_name(), Guid::NONE));
            let client = Client::attach(base, node, guid, (kind, number), Arc::clone(&guids))?;
            let stop = Arc::clone(&stop);
            thread::Builder::new()
                .name(format!("client {number}"))
                .spawn(move || client.run(&stop))
                .map_err(BenchError::store("starting", "a client"))
        };
        let paths = (1..=CLIENTS as u64).map(|number| start(Kind::Paths, number));
        let paths = paths.collect::<Result<Vec<_>, BenchError>>()?;
        let agent = start(Kind::Agent, 0)?;
        Ok(Self { stop, paths, agent })
    }

    /// Stops the clients, and returns their figures.
    pub fn stop(self) -> Result<Asked, BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = |thread: JoinHandle<Found>| match thread.join() {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let mut paths = Vec::new();
        for thread in self.paths {
            paths.extend(joined(thread)?);
        }
        Ok(Asked {
            paths,
            agent: joined(self.agent)?,
        })
    }
}

/// What a client queries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The administrator, for paths.
    Paths,
    /// The agent of the port at which the manager sits.
    Agent,
}

struct Client {
    port: IbsimPort,
    kind: Kind,
    manager: Lid,
    prefix: u64,
    own: Guid,
    to: Arc<[Guid]>,
    transaction: u64,
    chance: u64,
}

/// How a query ended.
enum Ended {
    Answered,
    Busy,
    Silent,
}

impl Client {
    fn attach(
        base: &str,
        node: &str,
        own: Guid,
        (kind, number): (Kind, u64),
        to: Arc<[Guid]>,
    ) -> Result<Self, BenchError> {
        let mut port = IbsimPort::open(base, node)?;
        let number_of_port = u32::from(port.local().port.get());
        let mut mad = Mad::directed(
            Method::Get,
            AttributeId::PORT_INFO,
            number_of_port,
            &DirectedRoute::LOCAL,
        );
        mad.set_transaction(TransactionId(1));
        let address = Address::DIRECTED;
        port.send(&Datagram { address, mad }, PATIENCE)?;
        let info = loop {
            match port.receive(PATIENCE)? {
                Some(Arrival::Received(found)) if found.mad.attribute() == AttributeId::PORT_INFO => {
                    break found.mad.read::<PortInfo>().ok();
                }
                Some(_) => {}
                None => break None,
            }
        };
        let info = info.ok_or(BenchError::Silent {
            answered: 0,
            wanted: 1,
            limit_s: PATIENCE.as_secs(),
        })?;
        Ok(Self {
            port,
            kind,
            manager: info.sm_lid,
            prefix: info.gid_prefix,
            own,
            to,
            transaction: 1,
            chance: number + 1,
        })
    }

    fn run(mut self, stop: &AtomicBool) -> Found {
        let mut samples = Vec::new();
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            if due > now {
                // Nothing is expected; what comes is late.
                self.port.receive(due - now)?;
                continue;
            }
            let mut sample = self.question(due, stop)?;
            sample.took = due.elapsed();
            samples.push(sample);
            due += INTERVAL;
        }
        Ok(samples)
    }

    /// Sends a query until there is an answer.
    fn question(&mut self, due: Instant, stop: &AtomicBool) -> Result<Sample, PortError> {
        let datagram = self.next();
        let mut sample = Sample {
            due,
            took: Duration::ZERO,
            repeats: 0,
            busy: 0,
            lost: false,
        };
        loop {
            self.port.send(&datagram, AGAIN)?;
            let sent = Instant::now();
            match self.wait(&datagram, sent + AGAIN)? {
                Ended::Answered => return Ok(sample),
                Ended::Busy => {
                    sample.busy += 1;
                    self.wait(&datagram, sent + AGAIN)?;
                }
                Ended::Silent => sample.repeats += 1,
            }
            if stop.load(Ordering::Relaxed) {
                sample.lost = true;
                return Ok(sample);
            }
        }
    }

    fn wait(&mut self, asked: &Datagram, until: Instant) -> Result<Ended, PortError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Ended::Silent);
            }
            let arrival = self.port.receive(left)?;
            let Some(Arrival::Received(found)) = arrival else {
                continue;
            };
            if found.mad.transaction() != asked.mad.transaction() || !found.mad.method().is_response() {
                continue;
            }
            match found.mad.status() {
                Status::OK => return Ok(Ended::Answered),
                Status::BUSY => return Ok(Ended::Busy),
                // A path that is not there just now: asked again, as hosts do.
                _ => {}
            }
        }
    }

    /// Returns the next query: the path to a random host.
    fn next(&mut self) -> Datagram {
        self.transaction += 1;
        let mut datagram = match self.kind {
            Kind::Agent => Datagram {
                address: Address::smi(self.manager),
                mad: Mad::request(Class::SubnLid, Method::Get, AttributeId::NODE_INFO, 0),
            },
            Kind::Paths => {
                use records::path as f;
                let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::PATH.id, 0);
                self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let to = self.to[(self.chance >> 33) as usize % self.to.len()];
                let gid = |guid: Guid| (u128::from(self.prefix) << 64 | u128::from(guid.0)).to_be_bytes();
                f::SGID.put(mad.sa_data_mut(), &gid(self.own));
                f::DGID.put(mad.sa_data_mut(), &gid(to));
                f::NUMB_PATH.set(mad.sa_data_mut(), 1);
                mad.set_component_mask(f::SGID.mask() | f::DGID.mask() | f::NUMB_PATH.mask());
                Datagram {
                    address: Address::gsi(self.manager, Sl::default()),
                    mad,
                }
            }
        };
        datagram.mad.set_transaction(TransactionId(self.transaction));
        datagram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns queries that were due at these milliseconds and waited this long.
    fn samples(of: &[(u64, u64)]) -> Vec<Sample> {
        let start = Instant::now();
        let sample = |&(due, took): &(u64, u64)| Sample {
            due: start + Duration::from_millis(due),
            took: Duration::from_millis(took),
            repeats: 1,
            busy: 0,
            lost: false,
        };
        of.iter().map(sample).collect()
    }

    #[test]
    fn figures() {
        let of: Vec<(u64, u64)> = (1..=200).map(|i| (i, i)).collect();
        let figures = Figures::of(&samples(&of));
        assert_eq!((figures.asked, figures.repeats, figures.lost), (200, 200, 0));
        assert_eq!((figures.p50_ms, figures.p99_ms, figures.max_ms), (100.0, 198.0, 200.0));
        assert_eq!(Figures::of(&[]), Figures::default());
    }

    #[test]
    fn silence_is_when_somebody_waits_and_nobody_hears() {
        let check = |of: &[(u64, u64)], want: u64| {
            assert_eq!(silence(&samples(of)), Duration::from_millis(want), "{of:?}");
        };
        check(&[], 0);
        check(&[(0, 5)], 5);
        // No client waits between 1 and 1,000.
        check(&[(0, 1), (1_000, 2)], 2);
        // One waits for 100, but another gets an answer after 60.
        check(&[(0, 100), (50, 10)], 40);
    }
}
