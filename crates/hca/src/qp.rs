//! A queue pair: its state, attributes and sub-machines.

use crate::attr::{Path, QpAttr, QpState, Transport};
use crate::costs::Costs;
use crate::handle::{Context, Cq, Pd, Srq};
use crate::outgoing::Next;
use crate::path::PathMachine;
use crate::receive_queue::ReceiveQueue;
use crate::requester::{Requester, SendCounts, SendCtx};
use crate::responder::{RecvCounts, Responder};
use crate::time::{Ps, ack_timeout};

/// What a program wants when it creates a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpInit {
    /// Transport.
    pub transport: Transport,
    /// Completion queue of sends.
    pub send_cq: Cq,
    /// Completion queue of receives.
    pub recv_cq: Cq,
    /// Shared receive queue, if receives come from one.
    pub srq: Option<Srq>,
    /// Sizes.
    pub cap: crate::attr::QpCap,
    /// True if every send completes, signaled or not.
    pub sq_sig_all: bool,
}

/// Counters of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCounts {
    /// Of the send queue.
    pub send: SendCounts,
    /// Of the receive side.
    pub recv: RecvCounts,
    /// Migrations to the alternate path.
    pub migrations: u64,
}

/// A queue pair. Its file and those of the outer machine read the fields; sub-machines see a context only.
#[derive(Clone, Debug)]
pub(crate) struct QueuePair {
    pub number: u32,
    pub context: Context,
    pub pd: Pd,
    pub init: QpInit,
    pub state: QpState,
    /// Attributes except those that the sub-machines hold: state, paths, path migration state.
    pub attr: QpAttr,
    pub path: PathMachine,
    pub requester: Requester,
    pub responder: Responder,
    pub receives: ReceiveQueue,
    /// Until then the HCA works on the context of the queue pair, which neither sends nor answers.
    busy_until: Ps,
    /// The same, from one time to another, of a command that waits for others.
    command: (Ps, Ps),
    /// Until then no packet is sent, because the path has a static rate.
    pub paced_until: Ps,
    pub migrations: u64,
    /// True if COMM_EST was reported, or is not due.
    pub established: bool,
    /// True while SQ_DRAINED is due.
    pub drain_event_due: bool,
    /// Ticket of the turn that stands, and its port and service level.
    pub ticket: u32,
    pub turn: Option<(u8, u8)>,
    /// When timers are set, the earliest one last.
    pub timers: Vec<Ps>,
    /// True if the context was loaded for the next packet, which is sent even if it has left the cache since.
    pub loaded: bool,
    /// True if an answer was sent last, so that a request is next.
    pub answered_last: bool,
    /// Asynchronous events fetched and not acknowledged.
    pub unacknowledged: u32,
}

/// Which half of a queue pair a packet comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Request,
    Answer,
}

/// Device-wide settings of send queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub window: u32,
    pub ack_every: u32,
    pub credits: bool,
}

impl QueuePair {
    pub fn new(number: u32, context: Context, pd: Pd, init: QpInit) -> Self {
        let attr = QpAttr {
            cap: init.cap,
            ..QpAttr::default()
        };
        Self {
            number,
            context,
            pd,
            init,
            state: QpState::Reset,
            attr,
            path: PathMachine::new(attr.primary),
            requester: Requester::default(),
            responder: Responder::default(),
            receives: ReceiveQueue::new(init.cap.max_recv_wr),
            busy_until: 0,
            command: (0, 0),
            paced_until: 0,
            migrations: 0,
            established: false,
            drain_event_due: false,
            ticket: 0,
            turn: None,
            timers: Vec::new(),
            loaded: false,
            answered_last: false,
            unacknowledged: 0,
        }
    }

    /// Returns the largest payload of a packet.
    pub fn mtu(&self) -> u32 {
        u32::from(self.attr.path_mtu.bytes())
    }

    pub fn send_ctx(&self, now: Ps, pace: Pace) -> SendCtx {
        SendCtx {
            now,
            transport: self.init.transport,
            mtu: self.mtu(),
            window: u64::from(pace.window.max(1)),
            ack_every: u64::from(pace.ack_every.max(1)),
            credits: pace.credits && self.init.transport == Transport::Rc,
            max_rd_atomic: self.attr.max_rd_atomic,
            retry_cnt: self.attr.retry_cnt,
            rnr_retry: self.attr.rnr_retry,
            timeout: ack_timeout(self.path.in_use().timeout),
            draining: self.state == QpState::Sqd,
        }
    }

    /// Returns what the queue pair sends next, and from which half.
    pub fn next(&self, now: Ps, pace: Pace) -> (Next, Half) {
        let requests = match self.state {
            QpState::Rts | QpState::Sqd => self.requester.next(&self.send_ctx(now, pace)),
            QpState::Reset | QpState::Init | QpState::Rtr | QpState::Sqe | QpState::Err => Next::Idle,
        };
        let answers = match self.state {
            QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err => {
                self.responder.next(now, self.mtu())
            }
            QpState::Reset | QpState::Init => Next::Idle,
        };
        let (next, half) = match (requests, answers) {
            (Next::Now(_), Next::Now(_)) if self.answered_last => (requests, Half::Request),
            (_, Next::Now(_)) => (answers, Half::Answer),
            (Next::Now(_) | Next::Fail(_), _) => (requests, Half::Request),
            (Next::At(a), Next::At(b)) => (Next::At(a.min(b)), Half::Answer),
            (Next::At(_), Next::Idle | Next::Fail(_)) => (requests, Half::Request),
            (Next::Idle, _) => (answers, Half::Answer),
        };
        let free_at = self.free_at(now);
        match next {
            Next::Now(_) | Next::Fail(_) if free_at > now => (Next::At(free_at), half),
            Next::Now(_) if self.paced_until > now => (Next::At(self.paced_until), half),
            Next::At(at) => (Next::At(self.free_at(at)), half),
            Next::Now(_) | Next::Fail(_) | Next::Idle => (next, half),
        }
    }

    /// True if the send queue takes requests that will be sent.
    pub const fn sends(&self) -> bool {
        matches!(self.state, QpState::Rts | QpState::Sqd)
    }

    /// Returns the first time from `at` on when the HCA does not work on the context.
    pub fn free_at(&self, at: Ps) -> Ps {
        let at = at.max(self.busy_until);
        let (from, until) = self.command;
        if from <= at { at.max(until) } else { at }
    }

    /// Lets the HCA work on the context for some time.
    pub fn occupy(&mut self, now: Ps, cost: Ps) {
        self.busy_until = self.free_at(now) + cost;
    }

    /// Lets the HCA work on the context from one time to another, for a command.
    pub fn occupy_between(&mut self, now: Ps, from: Ps, until: Ps) {
        if from <= now {
            self.busy_until = self.busy_until.max(until);
            return;
        }
        let waits = self.command.1 > now;
        let first = if waits { self.command.0.min(from) } else { from };
        self.command = (first, until);
    }

    /// Returns all attributes, as `query_qp` does.
    pub fn query(&self) -> QpAttr {
        QpAttr {
            state: self.state,
            cur_state: self.state,
            path_mig_state: self.path.state(),
            primary: *self.path.in_use(),
            alternate: *self.path.alternate(),
            sq_draining: self.state == QpState::Sqd && !self.requester.is_drained(),
            sq_psn: self.requester.psn(),
            ..self.attr
        }
    }

    pub fn counts(&self) -> QpCounts {
        QpCounts {
            send: self.requester.counts(),
            recv: self.responder.counts(),
            migrations: self.migrations,
        }
    }
}

/// Returns when the HCA knows a posted request: it was told, it has read the request and the begin of the payload.
pub(crate) const fn ready_at(now: Ps, costs: &Costs, wr: &crate::work::SendWr) -> Ps {
    if wr.inline {
        // Request and payload come with the doorbell.
        return now + costs.doorbell_ps;
    }
    let payload = if wr.sge.bytes > 0 && !wr.op.is_answered() {
        costs.dma_read_ps
    } else {
        0
    };
    now + costs.doorbell_ps + costs.dma_read_ps + payload
}

/// A path with the attributes that the mask names replaced.
pub(crate) const fn merged(old: &Path, new: &Path, mask: crate::attr::AttrMask) -> Path {
    use crate::attr::AttrMask as M;
    Path {
        port: if mask.has(M::PORT) { new.port } else { old.port },
        ah: if mask.has(M::AV) { new.ah } else { old.ah },
        pkey_index: if mask.has(M::PKEY_INDEX) {
            new.pkey_index
        } else {
            old.pkey_index
        },
        timeout: if mask.has(M::TIMEOUT) { new.timeout } else { old.timeout },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The crate's documentation states 1.0 kB with empty queues.
    #[test]
    fn a_queue_pair_takes_the_memory_that_is_stated() {
        let bytes = size_of::<QueuePair>();
        assert!((950..1_050).contains(&bytes), "{bytes} bytes");
        assert_eq!(crate::requester::WQE_BYTES, 144, "for each posted send");
    }
}
