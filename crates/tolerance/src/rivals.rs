//! Ways to carry messages over paths that fail, behind one trait: path migration and its rivals, on the same traffic.
//!
//! A carrier brings messages from one host of a [`Network`] to another, in the order in which the application sent
//! them, each once. It opens objects of its own at both, so that there may be several between the same hosts.

mod apm;
mod failover;
mod striping;

use selvedge_hca::{AttrMask as M, Hca, Path, Ps, Qp, QpAttr, QpState, SendOp, Transport, VerbsError, Wc};

use crate::error::ToleranceError;
use crate::lab::attributes;
use crate::network::{Network, Objects, act};

pub use apm::Apm;
pub use failover::{Failover, FailoverSettings};
pub use striping::{Striping, StripingSettings};

/// Carries messages.
pub trait Carrier {
    /// Sends a message. Messages are numbered from 0 in the order of the calls.
    fn send(&mut self, network: &mut dyn Network, bytes: u32) -> Result<(), VerbsError>;
    /// Handles what has become visible, and what is due.
    fn progress(&mut self, network: &mut dyn Network) -> Result<(), VerbsError>;
    /// Returns when [`Carrier::progress`] is due besides.
    fn next_wake(&self) -> Option<Ps>;
    /// Returns the messages that the application at the receiving host has got, with times, in the order in which it
    /// got them.
    fn delivered(&self) -> &[(u64, Ps)];
    /// Returns why no more messages are carried, if that is so.
    fn failure(&self) -> Option<&ToleranceError>;
    /// Returns how many messages, or parts of them, were sent again by software.
    fn repeated(&self) -> u64;
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
/// Longest message of carriers.
const BYTES_MAX: u32 = 1 << 20;

/// The objects at both ends of a carrier.
#[derive(Clone, Copy, Debug)]
struct Ends {
    hosts: [usize; 2],
    objects: [Objects; 2],
}

/// Room of a carrier's completion queue.
const COMPLETIONS: u32 = 1 << 20;

impl Ends {
    fn open(network: &mut dyn Network, hosts: [usize; 2]) -> Result<Self, VerbsError> {
        let [a, b] = hosts.map(|host| act(network, host, |hca| Objects::open(hca, COMPLETIONS)));
        Ok(Self {
            hosts,
            objects: [a?, b?],
        })
    }

    /// Number of ports that both hosts have.
    fn ports(&self, network: &mut dyn Network) -> Result<u8, VerbsError> {
        let [a, b] = self.hosts.map(|host| act(network, host, |hca| Ok(hca.config().ports)));
        Ok(a?.min(b?))
    }

    fn path(&self, network: &dyn Network, end: usize, port: u8, timeout: u8) -> Path {
        network.path(self.hosts[end], self.hosts[1 - end], port, timeout)
    }

    /// Connects both ends by a port, with all receives posted.
    fn connect(&self, network: &mut dyn Network, port: u8, retries: Retries) -> Result<[Qp; 2], VerbsError> {
        let mut create = |end: usize| {
            act(network, self.hosts[end], |hca| {
                let qp = self.objects[end].create_qp(hca, Transport::Rc, REQUESTS)?;
                Ok((qp, hca.qp_num(qp)?))
            })
        };
        let made = [create(0)?, create(1)?];
        let now = network.now();
        for end in [0, 1] {
            let primary = self.path(network, end, port, retries.timeout);
            let attr = QpAttr {
                retry_cnt: retries.retry_cnt,
                ..attributes(made[1 - end].1, primary)
            };
            let qp = made[end].0;
            act(network, self.hosts[end], |hca| {
                to_rts(hca, now, qp, &attr)?;
                self.objects[end].post_receives(hca, now, qp, REQUESTS, BYTES_MAX)
            })?;
        }
        Ok(made.map(|(qp, _)| qp))
    }

    fn send(
        &self,
        network: &mut dyn Network,
        end: usize,
        qp: Qp,
        op: SendOp,
        number: u64,
        bytes: u32,
    ) -> Result<(), VerbsError> {
        let now = network.now();
        act(network, self.hosts[end], |hca| {
            self.objects[end].post(hca, now, qp, op, number, bytes)
        })
    }

    fn poll(&self, network: &mut dyn Network, end: usize) -> Result<Vec<Wc>, VerbsError> {
        let now = network.now();
        let mut done = Vec::new();
        act(network, self.hosts[end], |hca| {
            self.objects[end].poll(hca, now, &mut done)
        })?;
        Ok(done)
    }

    /// Key of all memory at the receiving end.
    fn rkey(&self, network: &mut dyn Network) -> Result<u32, VerbsError> {
        let keys = act(network, self.hosts[1], |hca| hca.query_mr(self.objects[1].mr))?;
        Ok(keys.rkey)
    }

    /// Returns the asynchronous events of an end that were announced since.
    fn announced(&self, network: &mut dyn Network, end: usize) -> Vec<Ps> {
        network.take_announced(self.hosts[end], self.objects[end].context)
    }
}

/// A connection for data or probes, with the numbers of its queue pairs.
#[derive(Clone, Copy, Debug)]
struct Connection {
    qps: [Qp; 2],
    numbers: [u32; 2],
}

impl Connection {
    fn open(ends: &Ends, network: &mut dyn Network, port: u8, retries: Retries) -> Result<Self, VerbsError> {
        let qps = ends.connect(network, port, retries)?;
        let mut number = |end: usize| act(network, ends.hosts[end], |hca| hca.qp_num(qps[end]));
        let numbers = [number(0)?, number(1)?];
        Ok(Self { qps, numbers })
    }
}

fn to_rts(hca: &mut Hca, now: Ps, qp: Qp, attr: &QpAttr) -> Result<(), VerbsError> {
    let steps = [
        (QpState::Reset, QpState::Init),
        (QpState::Init, QpState::Rtr),
        (QpState::Rtr, QpState::Rts),
    ];
    for (from, state) in steps {
        let required = selvedge_hca::masks(Transport::Rc, from, state).map_or(M::NONE, |masks| masks.required);
        hca.modify_qp(now, qp, &QpAttr { state, ..*attr }, required.with(M::STATE))?;
    }
    Ok(())
}
