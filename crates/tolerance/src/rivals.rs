//! Ways to carry messages over paths that fail, behind one trait: path migration and its rivals, on the same traffic.
//!
//! A carrier brings messages from host 0 to host 1 of a [`crate::Lab`], in the order in which the application sent
//! them, each once.

mod apm;
mod failover;
mod striping;

use selvedge_hca::{AttrMask as M, Ps, Qp, QpState, Transport, VerbsError};

use crate::error::ToleranceError;
use crate::lab::{Lab, attributes, path};

pub use apm::Apm;
pub use failover::{Failover, FailoverSettings};
pub use striping::{Striping, StripingSettings};

/// Carries messages.
pub trait Carrier {
    /// Sends a message. Messages are numbered from 0 in the order of the calls.
    fn send(&mut self, lab: &mut Lab, bytes: u32) -> Result<(), VerbsError>;
    /// Handles what has become visible, and what is due.
    fn progress(&mut self, lab: &mut Lab) -> Result<(), VerbsError>;
    /// Returns when [`Carrier::progress`] is due besides.
    fn next_wake(&self) -> Option<Ps>;
    /// Returns the messages that the application at host 1 has got, in the order in which it got them, with times.
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

/// Connects host 0 and host 1 by a port, with all receives posted.
fn connect(lab: &mut Lab, port: u8, retries: Retries) -> Result<[Qp; 2], VerbsError> {
    let [a, b] = [0, 1].map(|host: usize| lab.hosts[host].create_qp(Transport::Rc, REQUESTS));
    let qps = [a?, b?];
    let now = lab.now;
    for host in [0, 1] {
        let number = lab.hosts[1 - host].hca.qp_num(qps[1 - host])?;
        let attr = selvedge_hca::QpAttr {
            retry_cnt: retries.retry_cnt,
            ..attributes(number, path(host, port, retries.timeout))
        };
        let steps = [
            (QpState::Reset, QpState::Init),
            (QpState::Init, QpState::Rtr),
            (QpState::Rtr, QpState::Rts),
        ];
        for (from, state) in steps {
            let required = selvedge_hca::masks(Transport::Rc, from, state).map_or(M::NONE, |masks| masks.required);
            let attr = selvedge_hca::QpAttr { state, ..attr };
            lab.hosts[host]
                .hca
                .modify_qp(now, qps[host], &attr, required.with(M::STATE))?;
        }
        lab.hosts[host].post_receives(now, qps[host], REQUESTS, BYTES_MAX)?;
    }
    Ok(qps)
}
