//! The send queue of a queue pair: packets of requests, acknowledgements, repeats.
//!
//! Sequence numbers are counted in 64 bits from 2^24 plus the first number, so that they never wrap; packets carry the
//! lower 24 bits. A repeat always goes back to the first packet that is not acknowledged, which is a packet of the
//! first request in the queue. READ and atomic requests are complete when their answer has arrived. An acknowledgement
//! beyond an answer that is missing asks for a repeat from there. Source: IBA vol 1 §9.7.5, §9.7.6, §9.8.2.

use std::collections::VecDeque;

use crate::attr::Transport;
use crate::credits::{May, Place, SenderCredits};
use crate::outgoing::{Next, Outgoing};
use crate::packet::{Body, Nak, PSN_MASK, Range, Request, Syndrome, unwrap_psn};
use crate::time::{Ps, rnr_timer};
use crate::work::{SendOp, SendWr, WcOpcode, WcStatus};

/// What the send queue reads and never changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendCtx {
    pub now: Ps,
    pub transport: Transport,
    pub mtu: u32,
    /// Largest number of request packets that are not acknowledged.
    pub window: u64,
    /// An acknowledgement is requested every this many packets.
    pub ack_every: u64,
    /// True if the end-to-end credits of the other end count.
    pub credits: bool,
    pub max_rd_atomic: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub timeout: Option<Ps>,
    /// True in SQD: no message begins.
    pub draining: bool,
}

/// What happens to the send queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum In {
    /// The queue pair was reset.
    Reset,
    /// The first sequence number is set.
    Begin {
        /// 24 bits.
        psn: u32,
    },
    /// A request was posted; the HCA knows it at this time.
    Posted {
        wr: SendWr,
        ready_at: Ps,
        /// The status with which the request fails when its turn comes.
        refused: Option<WcStatus>,
    },
    /// A packet was sent.
    Sent(Outgoing),
    /// An answer has arrived.
    Answer {
        /// 24 bits.
        psn: u32,
        /// Messages that the other end has completed (24 bits), and the code of its credits.
        told: (u32, u8),
        body: Body,
    },
    /// Time has passed.
    Wake,
    /// The path has changed: retries are counted anew.
    Migrated {
        /// True if packets that are not acknowledged are sent again.
        repeat: bool,
    },
    /// The first request fails.
    Fail(WcStatus),
    /// All requests are flushed.
    Flush,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    /// A request is complete.
    Completed {
        wr: SendWr,
        status: WcStatus,
        opcode: WcOpcode,
    },
    /// Retries are used up. The outer machine answers with `Migrated` or `Fail`.
    Exhausted,
    /// The first request has failed: the queue pair leaves RTS.
    Failed,
}

/// Counters of a send queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounts {
    /// Packets sent again.
    pub repeated: u64,
    /// Time-outs.
    pub timeouts: u64,
    /// NAKs for a missing packet, and missing answers.
    pub naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Wqe {
    wr: SendWr,
    ready_at: Ps,
    refused: Option<WcStatus>,
    first: u64,
    /// Sequence numbers, at least 1.
    count: u64,
    place: Place,
}

/// Memory of a posted send.
#[cfg(test)]
pub(crate) const WQE_BYTES: usize = size_of::<Wqe>();

impl Wqe {
    const fn end(&self) -> u64 {
        self.first + self.count
    }

    /// True if the other end needs a receive for it.
    const fn takes_receive(&self) -> bool {
        takes_receive(&self.wr.op)
    }
}

/// The send queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requester {
    queue: VecDeque<Wqe>,
    /// Index in the queue of the request of packet `next`.
    sending: usize,
    /// The next packet to send.
    next: u64,
    /// After the last packet of the last request.
    end: u64,
    /// The first packet that is not acknowledged.
    unacked: u64,
    /// After the furthest packet sent so far.
    furthest: u64,
    /// READs and atomics among the requests before `sending`, and their sequence numbers.
    answers_due: u64,
    answer_psns: u64,
    retries_left: u8,
    rnr_left: u8,
    timer_at: Option<Ps>,
    blocked_until: Ps,
    /// The packet at which a missing answer was noticed last.
    missing_at: Option<u64>,
    credits: SenderCredits,
    counts: SendCounts,
}

impl Requester {
    /// The only way in.
    pub fn handle(&mut self, ctx: &SendCtx, input: In, out: &mut Vec<Out>) {
        match input {
            In::Reset => *self = Self::default(),
            In::Begin { psn } => {
                let first = (PSN_MASK + 1) | u64::from(psn);
                (self.next, self.end, self.unacked, self.furthest) = (first, first, first, first);
                self.reload(ctx);
            }
            In::Posted { wr, ready_at, refused } => self.post(ctx, wr, ready_at, refused),
            In::Sent(packet) => self.sent(ctx, &packet, out),
            In::Answer { psn, told, body } => self.answer(ctx, (psn, told), body, out),
            In::Wake => self.wake(ctx, out),
            In::Migrated { repeat } => {
                self.reload(ctx);
                if repeat && ctx.transport == Transport::Rc {
                    self.go_back();
                }
                self.restart_timer(ctx);
            }
            In::Fail(status) => self.fail(status, out),
            In::Flush => self.flush(out),
        }
    }

    fn reload(&mut self, ctx: &SendCtx) {
        (self.retries_left, self.rnr_left) = (ctx.retry_cnt, ctx.rnr_retry);
        self.missing_at = None;
    }

    fn post(&mut self, ctx: &SendCtx, wr: SendWr, ready_at: Ps, refused: Option<WcStatus>) {
        let count = match wr.op {
            SendOp::Atomic(_) => 1,
            SendOp::Send { .. } | SendOp::Write { .. } | SendOp::Read { .. } => packets(wr.sge.bytes, ctx.mtu),
        };
        let first = self.end;
        let place = self.credits.post(takes_receive(&wr.op));
        self.end += count;
        self.queue.push_back(Wqe {
            wr,
            ready_at,
            refused,
            first,
            count,
            place,
        });
    }

    /// Returns the next packet, without taking it.
    pub fn next(&self, ctx: &SendCtx) -> Next {
        let Some(wqe) = self.queue.get(self.sending) else {
            return Next::Idle;
        };
        let begins = self.next == wqe.first;
        let is_begun = !begins || self.furthest > wqe.first;
        if ctx.draining && !is_begun {
            return Next::Idle;
        }
        let mut waits_until = wqe.ready_at.max(self.blocked_until);
        if ctx.transport == Transport::Rc {
            let in_flight = (self.next - self.unacked).saturating_sub(self.answer_psns);
            let answers_full = wqe.wr.op.is_answered() && self.answers_due >= u64::from(ctx.max_rd_atomic);
            let fenced = wqe.wr.fence && begins && self.answers_due > 0;
            if in_flight >= ctx.window || answers_full || fenced {
                return Next::Idle;
            }
            match self.may(ctx, wqe) {
                May::Send => {}
                May::SendOne(at) if begins => waits_until = waits_until.max(at),
                May::SendOne(_) | May::Wait => return Next::Idle,
            }
        }
        if waits_until > ctx.now {
            return Next::At(waits_until);
        }
        if let Some(status) = wqe.refused {
            // Requests before this one are completed first.
            return if self.sending == 0 {
                Next::Fail(status)
            } else {
                Next::Idle
            };
        }
        Next::Now(self.packet(ctx, wqe))
    }

    /// Returns what end-to-end credits allow.
    const fn may(&self, ctx: &SendCtx, wqe: &Wqe) -> May {
        if ctx.credits && wqe.takes_receive() {
            self.credits.may(wqe.place)
        } else {
            May::Send
        }
    }

    fn packet(&self, ctx: &SendCtx, wqe: &Wqe) -> Outgoing {
        let (psn, first) = (self.next, self.next == wqe.first);
        let offset = (psn - wqe.first) * u64::from(ctx.mtu);
        // Less than 2^32, because the request is no longer than that.
        let rest = wqe.wr.sge.bytes - (offset as u32).min(wqe.wr.sge.bytes);
        let (request, payload, next_psn) = match wqe.wr.op {
            SendOp::Send { .. } => (Request::Send, rest.min(ctx.mtu), psn + 1),
            SendOp::Write { .. } => {
                let range = wqe.wr.remote().filter(|_| first);
                (Request::Write(range), rest.min(ctx.mtu), psn + 1)
            }
            SendOp::Read { addr, rkey } => {
                let range = Range {
                    addr: addr.wrapping_add(offset),
                    rkey,
                    bytes: rest,
                };
                (Request::Read(range), 0, wqe.end())
            }
            SendOp::Atomic(atomic) => (Request::Atomic(atomic), 0, psn + 1),
        };
        let last = next_psn == wqe.end();
        let window_full = (next_psn - self.unacked).saturating_sub(self.answer_psns) >= ctx.window;
        let last_allowed = window_full || self.may(ctx, wqe) != May::Send;
        let ack_req = last || next_psn.is_multiple_of(ctx.ack_every.max(1)) || last_allowed;
        Outgoing {
            body: Body::Request {
                request,
                first,
                last,
                immediate: wqe.wr.immediate().filter(|_| last),
                solicited: wqe.wr.solicited && last,
                ack_req: ack_req && ctx.transport == Transport::Rc,
            },
            payload,
            psn,
            next_psn,
            tag: wqe.wr.tag,
            datagram: wqe.wr.datagram,
        }
    }

    fn sent(&mut self, ctx: &SendCtx, packet: &Outgoing, out: &mut Vec<Out>) {
        let Some(wqe) = self.queue.get(self.sending).copied() else {
            return;
        };
        self.counts.repeated += u64::from(packet.psn < self.furthest);
        self.next = packet.next_psn;
        self.furthest = self.furthest.max(self.next);
        if self.next == wqe.end() {
            self.sending += 1;
            if wqe.wr.op.is_answered() {
                self.answers_due += 1;
                self.answer_psns += wqe.count;
            }
        }
        if ctx.transport == Transport::Rc {
            if self.timer_at.is_none() {
                self.restart_timer(ctx);
            }
        } else if self.sending > 0 {
            // Without acknowledgements a request is complete when it is sent.
            self.unacked = self.next;
            self.complete_first(WcStatus::Success, opcode(&wqe.wr, 0), out);
        }
    }

    /// Removes the first request from the queue.
    fn complete_first(&mut self, status: WcStatus, opcode: WcOpcode, out: &mut Vec<Out>) {
        let Some(wqe) = self.queue.pop_front() else {
            return;
        };
        self.credits.completed(wqe.place);
        if self.sending > 0 {
            self.sending -= 1;
            if wqe.wr.op.is_answered() {
                self.answers_due -= 1;
                self.answer_psns -= wqe.count;
            }
        } else {
            // It had been taken back for a repeat, and its answer came nevertheless.
            self.next = self.next.max(wqe.end());
        }
        let wr = wqe.wr;
        out.push(Out::Completed { wr, status, opcode });
    }

    /// Handles an acknowledgement of all packets before a number. Requests that wait for data are not complete by it.
    fn acknowledge(&mut self, ctx: &SendCtx, psn: u64, out: &mut Vec<Out>) {
        let before = self.unacked;
        while self.unacked < psn {
            let Some(wqe) = self.queue.front().copied() else {
                break;
            };
            if wqe.wr.op.is_answered() {
                break;
            }
            if psn < wqe.end() {
                self.unacked = psn;
                self.next = self.next.max(psn);
                break;
            }
            self.unacked = wqe.end();
            self.complete_first(WcStatus::Success, opcode(&wqe.wr, 0), out);
        }
        if self.unacked > before {
            self.progress(ctx);
        }
    }

    fn progress(&mut self, ctx: &SendCtx) {
        self.reload(ctx);
        self.restart_timer(ctx);
    }

    fn restart_timer(&mut self, ctx: &SendCtx) {
        let due = ctx.timeout.filter(|_| self.unacked < self.furthest);
        self.timer_at = due.map(|timeout| ctx.now.saturating_add(timeout));
    }

    fn answer(&mut self, ctx: &SendCtx, (psn, told): (u32, (u32, u8)), body: Body, out: &mut Vec<Out>) {
        if ctx.transport != Transport::Rc {
            return;
        }
        let psn = unwrap_psn(self.unacked, psn);
        if psn >= self.furthest {
            return;
        }
        if ctx.credits && !matches!(body, Body::Ack(Syndrome::Rnr(_) | Syndrome::Nak(_))) {
            let queue = &self.queue;
            let nth = |place: usize| queue.get(place).map(|wqe| wqe.place);
            self.credits.told(ctx.now, ctx.timeout, told, nth);
        }
        if psn < self.unacked {
            return;
        }
        match body {
            Body::Ack(Syndrome::Ack) => {
                self.acknowledge(ctx, psn + 1, out);
                if self.unacked <= psn {
                    self.answer_missing(ctx, out);
                }
            }
            Body::Ack(syndrome) => {
                self.acknowledge(ctx, psn, out);
                if self.unacked < psn {
                    self.answer_missing(ctx, out);
                } else {
                    self.negative(ctx, syndrome, out);
                }
            }
            Body::ReadResponse { .. } | Body::AtomicAck(_) => {
                self.acknowledge(ctx, psn, out);
                if self.unacked < psn {
                    self.answer_missing(ctx, out);
                } else {
                    self.data(ctx, body, out);
                }
            }
            Body::Request { .. } => {}
        }
    }

    /// Handles the answer of the first request, with the sequence number that is due.
    fn data(&mut self, ctx: &SendCtx, body: Body, out: &mut Vec<Out>) {
        let Some(wqe) = self.queue.front().copied() else {
            return;
        };
        match (wqe.wr.op, body) {
            (SendOp::Read { .. }, Body::ReadResponse { .. }) => {
                self.unacked += 1;
                self.next = self.next.max(self.unacked);
                if self.unacked == wqe.end() {
                    self.complete_first(WcStatus::Success, WcOpcode::RdmaRead, out);
                }
                self.progress(ctx);
            }
            (SendOp::Atomic(_), Body::AtomicAck(value)) => {
                self.unacked += 1;
                self.complete_first(WcStatus::Success, WcOpcode::Atomic(value), out);
                self.progress(ctx);
            }
            // An answer of another kind than the request: it is ignored, and the time-out repeats the request.
            _ => {}
        }
    }

    /// An answer with data was lost: an implied NAK. Source: IBA vol 1 §9.7.5.2.3.
    fn answer_missing(&mut self, ctx: &SendCtx, out: &mut Vec<Out>) {
        if self.missing_at == Some(self.unacked) {
            return;
        }
        self.missing_at = Some(self.unacked);
        self.counts.naks += 1;
        self.repeat(ctx, out);
    }

    fn negative(&mut self, ctx: &SendCtx, syndrome: Syndrome, out: &mut Vec<Out>) {
        match syndrome {
            Syndrome::Ack => {}
            Syndrome::Rnr(code) => self.not_ready(ctx, code, out),
            Syndrome::Nak(Nak::Sequence) => {
                self.counts.naks += 1;
                self.repeat(ctx, out);
            }
            Syndrome::Nak(Nak::InvalidRequest) => self.fail(WcStatus::RemInvReqErr, out),
            Syndrome::Nak(Nak::RemoteAccess) => self.fail(WcStatus::RemAccessErr, out),
            Syndrome::Nak(Nak::RemoteOperation) => self.fail(WcStatus::RemOpErr, out),
        }
    }

    fn not_ready(&mut self, ctx: &SendCtx, code: u8, out: &mut Vec<Out>) {
        self.counts.rnr_naks += 1;
        // 7 means "for ever". Source: IBA vol 1 §9.7.6.1.2.
        if ctx.rnr_retry < 7 {
            if self.rnr_left == 0 {
                return self.fail(WcStatus::RnrRetryExcErr, out);
            }
            self.rnr_left -= 1;
        }
        self.go_back();
        self.blocked_until = ctx.now + rnr_timer(code);
        // The other end has answered, so nothing is outstanding until the request is sent again.
        self.timer_at = None;
    }

    /// Repeats from the first packet that is not acknowledged.
    fn repeat(&mut self, ctx: &SendCtx, out: &mut Vec<Out>) {
        if self.retries_left == 0 {
            self.timer_at = None;
            return out.push(Out::Exhausted);
        }
        self.retries_left -= 1;
        self.go_back();
        self.restart_timer(ctx);
    }

    const fn go_back(&mut self) {
        self.next = self.unacked;
        self.sending = 0;
        (self.answers_due, self.answer_psns) = (0, 0);
    }

    fn wake(&mut self, ctx: &SendCtx, out: &mut Vec<Out>) {
        if self.timer_at.is_none_or(|at| at > ctx.now) {
            return;
        }
        self.timer_at = None;
        if self.unacked < self.furthest {
            self.counts.timeouts += 1;
            self.missing_at = None;
            self.repeat(ctx, out);
        }
    }

    fn fail(&mut self, status: WcStatus, out: &mut Vec<Out>) {
        if let Some(wqe) = self.queue.front().copied() {
            self.complete_first(status, opcode(&wqe.wr, 0), out);
        }
        self.timer_at = None;
        out.push(Out::Failed);
    }

    fn flush(&mut self, out: &mut Vec<Out>) {
        for wqe in self.queue.drain(..) {
            out.push(Out::Completed {
                wr: wqe.wr,
                status: WcStatus::WrFlushErr,
                opcode: opcode(&wqe.wr, 0),
            });
        }
        let counts = self.counts;
        let end = self.end;
        *self = Self::default();
        (self.next, self.end, self.unacked, self.furthest) = (end, end, end, end);
        self.counts = counts;
    }

    /// Returns when the time-out expires.
    pub const fn timer_at(&self) -> Option<Ps> {
        self.timer_at
    }

    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// True if no message is under way.
    pub fn is_drained(&self) -> bool {
        let begun = self.queue.front().is_some_and(|wqe| self.furthest > wqe.first);
        self.unacked >= self.furthest && !begun
    }

    pub const fn counts(&self) -> SendCounts {
        self.counts
    }

    /// Returns the next sequence number that is not used by a posted request, 24 bits.
    pub const fn psn(&self) -> u32 {
        (self.end & PSN_MASK) as u32
    }
}

const fn takes_receive(op: &SendOp) -> bool {
    matches!(op, SendOp::Send { .. } | SendOp::Write { immediate: Some(_), .. })
}

/// Returns the number of packets of a message.
pub(crate) fn packets(bytes: u32, mtu: u32) -> u64 {
    u64::from(bytes.div_ceil(mtu).max(1))
}

const fn opcode(wr: &SendWr, value: u64) -> WcOpcode {
    match wr.op {
        SendOp::Send { .. } => WcOpcode::Send,
        SendOp::Write { .. } => WcOpcode::RdmaWrite,
        SendOp::Read { .. } => WcOpcode::RdmaRead,
        SendOp::Atomic(_) => WcOpcode::Atomic(value),
    }
}
