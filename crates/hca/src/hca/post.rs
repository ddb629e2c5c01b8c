//! Verbs of the data path: post, poll, notify.

use super::Hca;
use crate::attr::{Access, QpState, Transport};
use crate::error::{VerbsError, in_range};
use crate::handle::{CompChannel, Cq, Qp, Srq};
use crate::qp::{QueuePair, ready_at};
use crate::requester;
use crate::responder;
use crate::time::Ps;
use crate::work::{RecvWr, SendOp, SendWr, Wc, WcStatus};

/// Longest message in bytes. Source: IBA vol 1 §9.7.7 (2^31).
const MESSAGE_MAX: u32 = 1 << 31;

impl Hca {
    /// Posts a request to a send queue. In SQE and ERR it is flushed at once.
    pub fn post_send(&mut self, now: Ps, qp: Qp, wr: &SendWr) -> Result<(), VerbsError> {
        let found = self.qps.get(qp)?;
        match found.state {
            QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Err => {}
            QpState::Reset | QpState::Init | QpState::Rtr => {
                return Err(VerbsError::WrongState {
                    verb: "post_send",
                    state: found.state,
                });
            }
        }
        self.check_send(found, wr)?;
        let flushed = !found.sends();
        let refused = self.refusal(found, wr);
        let ready_at = ready_at(now, &self.config.costs, wr);
        let index = qp.index() as u32;
        let posted = requester::In::Posted {
            wr: *wr,
            ready_at,
            refused,
        };
        self.run_sender(now, index, posted);
        if flushed {
            self.run_sender(now, index, requester::In::Flush);
        }
        self.kick(now, index);
        Ok(())
    }

    fn check_send(&self, qp: &QueuePair, wr: &SendWr) -> Result<(), VerbsError> {
        let transport = qp.init.transport;
        let legal = match transport {
            Transport::Rc => true,
            Transport::Uc => !wr.op.is_answered(),
            Transport::Ud => matches!(wr.op, SendOp::Send { .. }),
        };
        if !legal {
            let operation = wr.op.name();
            return Err(VerbsError::NoSuchOperation { transport, operation });
        }
        let limit = qp.init.cap.max_send_wr;
        if qp.requester.len() >= limit as usize {
            return Err(VerbsError::QueueFull {
                what: "send queue",
                limit,
            });
        }
        let most = match transport {
            Transport::Rc | Transport::Uc => MESSAGE_MAX,
            Transport::Ud => u32::from(self.port(qp.path.in_use().port)?.attr().mtu.bytes()),
        };
        if wr.sge.bytes > most {
            return Err(VerbsError::TooLong {
                bytes: u64::from(wr.sge.bytes),
                transport,
                most: u64::from(most),
            });
        }
        if matches!(wr.op, SendOp::Atomic(_)) {
            in_range("length of an atomic", u64::from(wr.sge.bytes), 8, 8)?;
        }
        if wr.op.is_answered() {
            let limit = u64::from(qp.attr.max_rd_atomic);
            in_range("max_rd_atomic of a queue pair with READs or atomics", limit, 1, 255)?;
        }
        if wr.inline {
            let most = u64::from(qp.init.cap.max_inline_data);
            in_range("length of an inline message", u64::from(wr.sge.bytes), 0, most)?;
        }
        self.check_datagram(qp, wr)
    }

    fn check_datagram(&self, qp: &QueuePair, wr: &SendWr) -> Result<(), VerbsError> {
        let operation = match (qp.init.transport, &wr.datagram) {
            (Transport::Rc | Transport::Uc, None) => return Ok(()),
            (Transport::Rc | Transport::Uc, Some(_)) => "destination in the work request",
            (Transport::Ud, None) => "message without a destination",
            (Transport::Ud, Some(to)) => {
                let ah = self.ahs.get(to.ah)?;
                let most = u64::from(crate::packet::MULTICAST_QP);
                in_range("number of a remote queue pair", u64::from(to.remote_qpn), 1, most)?;
                if ah.pd != qp.pd {
                    return Err(VerbsError::Foreign {
                        what: "address handle",
                        owner: "protection domain",
                    });
                }
                let port = u64::from(qp.path.in_use().port);
                return in_range("port of the address handle", u64::from(ah.port), port, port);
            }
        };
        Err(VerbsError::NoSuchOperation {
            transport: qp.init.transport,
            operation,
        })
    }

    /// Returns the status with which a request will fail because of its local range.
    fn refusal(&self, qp: &QueuePair, wr: &SendWr) -> Option<WcStatus> {
        let access = if wr.op.is_answered() {
            Access::LOCAL_WRITE
        } else {
            Access::NONE
        };
        let allowed = wr.inline || self.memory.allows_local(qp.pd, &wr.sge, access);
        (!allowed).then_some(WcStatus::LocProtErr)
    }

    /// Posts a receive. In ERR it is flushed at once.
    pub fn post_recv(&mut self, now: Ps, qp: Qp, wr: &RecvWr) -> Result<(), VerbsError> {
        let found = self.qps.get_mut(qp)?;
        if found.init.srq.is_some() {
            return Err(VerbsError::NoSuchOperation {
                transport: found.init.transport,
                operation: "receive queue of its own beside a shared one",
            });
        }
        if found.state == QpState::Reset {
            return Err(VerbsError::WrongState {
                verb: "post_recv",
                state: found.state,
            });
        }
        found.receives.post(*wr, "receive queue")?;
        let index = qp.index() as u32;
        if found.state == QpState::Err {
            self.flush_receives(now, index);
        } else if self.config.end_to_end_credits {
            self.run_receiver(now, index, responder::In::Posted);
            self.kick(now, index);
        }
        Ok(())
    }

    /// Posts a receive to a shared queue.
    pub fn post_srq_recv(&mut self, srq: Srq, wr: &RecvWr) -> Result<(), VerbsError> {
        self.srqs.get_mut(srq)?.shared.queue.post(*wr, "shared receive queue")
    }

    /// Moves up to `most` completions that are visible to the end of `out`, and returns how many.
    pub fn poll_cq(&mut self, now: Ps, cq: Cq, most: usize, out: &mut Vec<Wc>) -> Result<usize, VerbsError> {
        Ok(self.cqs.get_mut(cq)?.poll(now, most, out))
    }

    /// Returns when the first completion of a queue is visible; `None`: it has none.
    pub fn first_completion(&self, cq: Cq) -> Result<Option<Ps>, VerbsError> {
        Ok(self.cqs.get(cq)?.first_visible())
    }

    /// True if a completion queue was overrun. It takes no more completions.
    pub fn is_overrun(&self, cq: Cq) -> Result<bool, VerbsError> {
        Ok(self.cqs.get(cq)?.is_overrun())
    }

    /// Asks for an event on the channel at the next completion, or at the next solicited one or error.
    pub fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), VerbsError> {
        self.cqs.get_mut(cq)?.request_notify(solicited_only);
        Ok(())
    }

    /// Returns the queue of the next event of a channel that is visible, if any. It must be acknowledged.
    pub fn get_cq_event(&mut self, now: Ps, channel: CompChannel) -> Result<Option<Cq>, VerbsError> {
        let event = self.channels.get_mut(channel)?.fetch(now);
        if let Some(cq) = event
            && let Ok(queue) = self.cqs.get_mut(cq)
        {
            queue.unacknowledged += 1;
        }
        Ok(event)
    }

    /// Acknowledges events of a completion queue. The queue cannot be destroyed before.
    pub fn ack_cq_events(&mut self, cq: Cq, count: u32) -> Result<(), VerbsError> {
        let queue = self.cqs.get_mut(cq)?;
        queue.unacknowledged = queue.unacknowledged.saturating_sub(count);
        Ok(())
    }
}
