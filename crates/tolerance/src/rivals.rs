//! Ways to carry messages over paths that fail, behind one trait: path migration and its rivals, on the same traffic.
//!
//! A carrier brings messages from one host of a [`Cluster`] to another, in the order in which the application sent
//! them, each once. It has objects of its own at both, at least a completion queue, so that there may be several
//! between the same hosts. It is given the ways from host to host: paths, each as both ends have it.

mod apm;
mod failover;
mod striping;

use selvedge_hca::{AttrMask as M, Hca, Path, Ps, Qp, QpAttr, QpState, SendOp, Transport, VerbsError, Wc};

use crate::cluster::Cluster;
use crate::error::ToleranceError;
use crate::objects::Objects;
use crate::rails::attributes;

pub use apm::Apm;
pub use failover::{Failover, FailoverSettings};
pub use striping::{Striping, StripingSettings};

/// Carries messages.
pub trait Carrier {
    /// Sends a message. Messages are numbered from 0 in the order of the calls.
    fn send(&mut self, cluster: &mut Cluster, bytes: u32) -> Result<(), VerbsError>;
    /// Handles what has become visible, and what is due.
    fn progress(&mut self, cluster: &mut Cluster) -> Result<(), VerbsError>;
    /// Returns when [`Carrier::progress`] is due besides.
    fn next_wake(&self) -> Option<Ps>;
    /// Moves the messages that the application at the receiving host has got since the last call to the end of `out`,
    /// with times, in the order in which it got them.
    fn take_delivered(&mut self, out: &mut Vec<(u64, Ps)>);
    /// Returns what the carrier has done.
    fn done(&self) -> &Progress;
    /// Returns the hosts, and the objects on them: sender, then receiver.
    fn ends(&self) -> &Ends;
    /// Returns when all connections stand.
    fn ready_at(&self) -> Ps;

    /// Returns how many messages have arrived as far as the sender knows.
    fn acknowledged(&self) -> u64 {
        self.done().acknowledged
    }

    /// Returns why no more messages are carried, if that is so.
    fn failure(&self) -> Option<&ToleranceError> {
        self.done().failure.as_ref()
    }

    /// Returns how many messages, or parts of them, were sent again by software.
    fn repeated(&self) -> u64 {
        self.done().repeated
    }

    /// Returns how many connections of the carrier have failed.
    fn connections_failed(&self) -> u32 {
        self.done().count_failed() as u32
    }
}

/// What a carrier has done.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Messages handed to it.
    sent: u64,
    inbox: Inbox,
    acknowledged: u64,
    repeated: u64,
    /// By way: true if its connection has failed.
    failed: Vec<bool>,
    failure: Option<ToleranceError>,
    /// The way that is next in turn.
    turn: usize,
}

impl Progress {
    fn new(ways: usize) -> Self {
        Self {
            failed: vec![false; ways],
            ..Self::default()
        }
    }

    /// Numbers a message.
    const fn send(&mut self) -> u64 {
        self.sent += 1;
        self.sent - 1
    }

    fn count_failed(&self) -> usize {
        self.failed.iter().filter(|failed| **failed).count()
    }

    /// Returns the next way in turn that has not failed, another one than `not` if there is one.
    fn next_way(&mut self, not: Option<usize>) -> Option<usize> {
        let count = self.failed.len();
        let mut ways = (0..count).map(|step| (self.turn + step) % count);
        let way = ways
            .clone()
            .find(|way| !self.failed[*way] && Some(*way) != not)
            .or_else(|| ways.find(|way| !self.failed[*way]))?;
        self.turn = way + 1;
        Some(way)
    }

    /// Notes that a way has failed; false if it had before. The carrier has failed if no way is left, or if the fault
    /// is not `bearable`.
    fn fail(&mut self, way: usize, bearable: bool) -> bool {
        if core::mem::replace(&mut self.failed[way], true) {
            return false;
        }
        let (failed, paths) = (self.count_failed() - 1, self.failed.len());
        if !bearable || failed + 1 == paths {
            let path = way + 1;
            self.failure = Some(ToleranceError::NoPathLeft { path, failed, paths });
        }
        true
    }
}

/// Hands messages to the application in order, and each once.
#[derive(Clone, Debug, Default)]
struct Inbox {
    next: u64,
    early: std::collections::BTreeSet<u64>,
    delivered: Vec<(u64, Ps)>,
}

impl Inbox {
    /// True if the message had not come before.
    fn arrived(&mut self, now: Ps, message: u64) -> bool {
        if self.has(message) {
            return false;
        }
        self.early.insert(message);
        while self.early.remove(&self.next) {
            self.delivered.push((self.next, now));
            self.next += 1;
        }
        true
    }

    fn has(&self, message: u64) -> bool {
        message < self.next || self.early.contains(&message)
    }
}

/// Time-out code and number of retries of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Retries {
    timeout: u8,
    retry_cnt: u8,
}

/// Room of each queue of a connection.
const REQUESTS: u32 = 4_096;
/// Receives that are posted at each end.
const RECEIVES: u32 = 16;
/// Longest message of carriers.
const BYTES_MAX: u32 = 1 << 20;

/// A path as both ends have it: sender, then receiver.
pub type Way = [Path; 2];

/// The objects at both ends of a carrier.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// The hosts: sender, then receiver.
    pub hosts: [usize; 2],
    /// Their objects.
    pub objects: [Objects; 2],
}

/// Room of a carrier's completion queue.
const COMPLETIONS: u32 = 1 << 20;

impl Ends {
    /// Opens the adapters of both hosts: a context for this carrier alone.
    pub fn open(cluster: &mut Cluster, hosts: [usize; 2]) -> Result<Self, VerbsError> {
        let [a, b] = hosts.map(|host| cluster.act(host, |hca, _| Objects::open(hca, COMPLETIONS)));
        Ok(Self {
            hosts,
            objects: [a?, b?],
        })
    }

    /// Creates completion queues beside objects that the hosts have: an adapter has few contexts, and many queues. The
    /// owner of the contexts handles their asynchronous events.
    pub fn beside(cluster: &mut Cluster, hosts: [usize; 2], objects: [Objects; 2]) -> Result<Self, VerbsError> {
        let mut queue = |end: usize| cluster.act(hosts[end], |hca, _| objects[end].with_queue(hca, COMPLETIONS));
        Ok(Self {
            hosts,
            objects: [queue(0)?, queue(1)?],
        })
    }

    /// Connects both ends by all ways.
    fn connect_all(
        &self,
        cluster: &mut Cluster,
        ways: &[Way],
        retries: Retries,
    ) -> Result<Vec<Connection>, VerbsError> {
        ways.iter().map(|way| self.connect(cluster, way, retries)).collect()
    }

    /// Connects both ends, with receives posted.
    fn connect(&self, cluster: &mut Cluster, way: &Way, retries: Retries) -> Result<Connection, VerbsError> {
        let mut create = |end: usize| {
            cluster.act(self.hosts[end], |hca, _| {
                let qp = self.objects[end].create_qp(hca, Transport::Rc, REQUESTS)?;
                Ok((qp, hca.qp_num(qp)?))
            })
        };
        let made = [create(0)?, create(1)?];
        let mut ready_at = 0;
        for end in [0, 1] {
            let primary = Path {
                timeout: retries.timeout,
                ..way[end]
            };
            let attr = QpAttr {
                retry_cnt: retries.retry_cnt,
                path_mtu: cluster.simulation().subnet().settings().mtu,
                ..attributes(made[1 - end].1, primary)
            };
            let qp = made[end].0;
            let done = cluster.act(self.hosts[end], |hca, now| {
                let done = to_rts(hca, now, qp, &attr)?;
                self.objects[end].post_receives(hca, now, qp, RECEIVES, BYTES_MAX)?;
                Ok(done)
            })?;
            ready_at = ready_at.max(done);
        }
        Ok(Connection {
            ready_at,
            qps: made.map(|(qp, _)| qp),
            numbers: made.map(|(_, number)| number),
        })
    }

    fn send(
        &self,
        cluster: &mut Cluster,
        end: usize,
        qp: Qp,
        op: SendOp,
        number: u64,
        bytes: u32,
    ) -> Result<(), VerbsError> {
        cluster.act(self.hosts[end], |hca, now| {
            self.objects[end].post(hca, now, qp, op, number, bytes)
        })
    }

    /// Posts a receive for one that was used.
    fn receive_again(&self, cluster: &mut Cluster, end: usize, qp: Qp) -> Result<(), VerbsError> {
        cluster.act(self.hosts[end], |hca, now| {
            self.objects[end].post_receives(hca, now, qp, 1, BYTES_MAX)
        })
    }

    fn poll(&self, cluster: &mut Cluster, end: usize) -> Result<Vec<Wc>, VerbsError> {
        let mut done = Vec::new();
        let cq = self.objects[end].cq;
        let first = cluster.hca(self.hosts[end])?.first_completion(cq)?;
        if first.is_some_and(|at| at <= cluster.now()) {
            cluster.act(self.hosts[end], |hca, now| self.objects[end].poll(hca, now, &mut done))?;
        }
        Ok(done)
    }

    /// Key of all memory at the receiving end.
    fn rkey(&self, cluster: &Cluster) -> Result<u32, VerbsError> {
        let keys = cluster.hca(self.hosts[1])?.query_mr(self.objects[1].mr)?;
        Ok(keys.rkey)
    }

    /// Returns the asynchronous events of an end that were announced since.
    fn announced(&self, cluster: &mut Cluster, end: usize) -> Vec<Ps> {
        cluster.take_announced(self.hosts[end], self.objects[end].context)
    }
}

/// A connection, with the numbers of its queue pairs.
#[derive(Clone, Copy, Debug)]
struct Connection {
    ready_at: Ps,
    qps: [Qp; 2],
    numbers: [u32; 2],
}

/// Takes a queue pair from RESET to RTS; returns when it is there.
fn to_rts(hca: &mut Hca, now: Ps, qp: Qp, attr: &QpAttr) -> Result<Ps, VerbsError> {
    let mut done = now;
    let steps = [
        (QpState::Reset, QpState::Init),
        (QpState::Init, QpState::Rtr),
        (QpState::Rtr, QpState::Rts),
    ];
    for (from, state) in steps {
        let required = selvedge_hca::masks(Transport::Rc, from, state).map_or(M::NONE, |masks| masks.required);
        done = hca.modify_qp(now, qp, &QpAttr { state, ..*attr }, required.with(M::STATE))?;
    }
    Ok(done)
}
