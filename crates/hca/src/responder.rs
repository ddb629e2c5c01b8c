//! The receive side of a queue pair: requests from the other end, and the answers to them.
//!
//! RC takes packets in order only, answers duplicates (a READ is carried out again, an atomic is answered from a
//! cache), and sends one NAK per gap. UC drops a message with a gap and begins again with the next message. UD takes
//! single packets. Source: IBA vol 1 §9.7.4, §9.7.5.1, §9.8.2.2, §9.8.3.

use std::collections::VecDeque;

use crate::attr::{Access, Transport};
use crate::credits::{NOT_TOLD, ReceiverCredits};
use crate::event::EventType;
use crate::handle::Pd;
use crate::memory::Memory;
use crate::outgoing::{Next, Outgoing};
use crate::packet::{Atomic, Body, Nak, PSN_MASK, Packet, Range, Request, Syndrome, unwrap_psn};
use crate::receive_queue::ReceiveQueue;
use crate::requester::packets;
use crate::time::Ps;
use crate::work::{RecvWr, Sge, Wc, WcOpcode, WcStatus};

/// Bytes in front of a datagram for a global route header. Source: IBA vol 1 §11.4.1.2.
pub(crate) const GRH_BYTES: u32 = 40;

/// What the receive side works with.
pub(crate) struct RecvCtx<'a> {
    pub transport: Transport,
    pub mtu: u32,
    pub pd: Pd,
    /// Remote operations that the queue pair allows.
    pub access: Access,
    pub memory: &'a mut Memory,
    pub receives: &'a mut ReceiveQueue,
    pub min_rnr_timer: u8,
    /// True if end-to-end credits are given.
    pub credits: bool,
    pub max_dest_rd_atomic: u8,
    /// When an acknowledgement of a packet that arrives now may be sent, and when data read from memory may.
    pub ack_at: Ps,
    pub data_at: Ps,
}

/// What happens to the receive side.
pub(crate) enum In<'a> {
    /// The queue pair was reset.
    Reset,
    /// The first sequence number is set.
    Begin {
        /// 24 bits.
        psn: u32,
    },
    /// A request packet has arrived.
    Request(&'a Packet),
    /// A receive was posted.
    Posted,
    /// An answer was sent.
    Sent(Outgoing),
    /// The queue pair is in ERR: a NAK that tells the reason is still sent, with the answers before it.
    Stop,
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    /// A receive is complete.
    Received { wc: Wc, solicited: bool },
    /// The queue pair goes to ERR, with an event if no completion tells of it.
    Failed { event: Option<EventType> },
    /// A datagram found no receive.
    NoReceive,
}

/// Counters of a receive side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvCounts {
    /// Duplicate requests.
    pub duplicates: u64,
    /// Packets after a gap.
    pub after_gap: u64,
    /// RNR NAKs sent.
    pub rnr_naks: u64,
    /// Messages that were dropped because of a gap (UC).
    pub dropped_messages: u64,
}

/// A message of which packets are expected.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    is_write: bool,
    bytes: u32,
    /// Length that an RDMA WRITE has announced.
    announced: u32,
}

/// An answer to send.
#[derive(Clone, Copy, Debug)]
struct Answer {
    body: Body,
    /// Full sequence number of the next packet, and after the last packet.
    next: u64,
    end: u64,
    bytes_left: u32,
    ready_at: Ps,
    msn: u32,
    credits: u8,
}

/// The receive side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Responder {
    expected: u64,
    msn: u32,
    /// True if the sender knows that the packet `expected` is missing: nothing more is sent until it arrives.
    nak_sent: bool,
    incoming: Option<Incoming>,
    /// The receive that a SEND has taken.
    held: Option<RecvWr>,
    answers: VecDeque<Answer>,
    credits: ReceiverCredits,
    /// Results of the last atomics, by full sequence number.
    results: VecDeque<(u64, u64)>,
    counts: RecvCounts,
}

type Refusal = (Nak, Option<EventType>);

impl Responder {
    /// The only way in.
    pub fn handle(&mut self, ctx: &mut RecvCtx<'_>, input: In<'_>, out: &mut Vec<Out>) {
        match input {
            In::Reset => *self = Self::default(),
            In::Begin { psn } => self.expected = (PSN_MASK + 1) | u64::from(psn),
            In::Request(packet) => match ctx.transport {
                Transport::Rc => self.reliable(ctx, packet, out),
                Transport::Uc => self.unreliable(ctx, packet, out),
                Transport::Ud => datagram(ctx, packet, out),
            },
            In::Posted => self.posted(ctx),
            In::Sent(packet) => self.sent(ctx, &packet),
            In::Stop => {
                let refused = |answer: &Answer| matches!(answer.body, Body::Ack(Syndrome::Nak(_)));
                if !self.answers.back().is_some_and(refused) {
                    self.answers.clear();
                }
                self.incoming = None;
            }
        }
    }

    fn reliable(&mut self, ctx: &mut RecvCtx<'_>, packet: &Packet, out: &mut Vec<Out>) {
        let psn = unwrap_psn(self.expected, packet.psn);
        self.credits.heard();
        if psn < self.expected {
            self.counts.duplicates += 1;
            return self.duplicate(ctx, packet, psn);
        }
        if psn > self.expected {
            self.counts.after_gap += 1;
            if !core::mem::replace(&mut self.nak_sent, true) {
                self.push_ack(ctx, self.expected, Syndrome::Nak(Nak::Sequence));
            }
            return;
        }
        match self.in_order(ctx, packet, out) {
            Ok(()) => {}
            Err((nak, event)) => {
                self.push_ack(ctx, psn, Syndrome::Nak(nak));
                out.push(Out::Failed { event });
            }
        }
    }

    fn in_order(&mut self, ctx: &mut RecvCtx<'_>, packet: &Packet, out: &mut Vec<Out>) -> Result<(), Refusal> {
        let psn = self.expected;
        let Body::Request { request, ack_req, .. } = packet.body else {
            return Ok(());
        };
        self.nak_sent = false;
        match request {
            Request::Send | Request::Write(_) => {
                if !self.part(ctx, packet, out)? {
                    self.not_ready(ctx);
                    return Ok(());
                }
                self.expected += 1;
                if ack_req {
                    self.push_ack(ctx, psn, Syndrome::Ack);
                }
            }
            Request::Read(range) => {
                self.can_answer(ctx)?;
                self.check_access(ctx, &range, Access::REMOTE_READ)?;
                self.msn = next_msn(self.msn);
                self.push_read(ctx, psn, range.bytes);
                self.expected += packets(range.bytes, ctx.mtu);
            }
            Request::Atomic(atomic) => {
                self.can_answer(ctx)?;
                let value = self.atomic(ctx, &atomic)?;
                self.msn = next_msn(self.msn);
                self.results.push_back((psn, value));
                if self.results.len() > usize::from(ctx.max_dest_rd_atomic) {
                    self.results.pop_front();
                }
                self.push_result(ctx, psn, value);
                self.expected += 1;
            }
        }
        Ok(())
    }

    /// Handles a packet of a SEND or WRITE. `Ok(false)`: there is no receive, and the packet counts as not arrived.
    fn part(&mut self, ctx: &mut RecvCtx<'_>, packet: &Packet, out: &mut Vec<Out>) -> Result<bool, Refusal> {
        let Body::Request {
            request,
            first,
            last,
            immediate,
            solicited,
            ..
        } = packet.body
        else {
            return Ok(true);
        };
        let is_write = matches!(request, Request::Write(_));
        let wants_receive = if is_write { last && immediate.is_some() } else { first };
        if wants_receive && self.held.is_none() {
            self.held = ctx.receives.take();
            if self.held.is_none() {
                return Ok(false);
            }
            self.credits.took();
        }
        let invalid: Refusal = (Nak::InvalidRequest, Some(EventType::QpFatal));
        if first != self.incoming.is_none() || (!last && packet.payload != ctx.mtu) {
            return Err(invalid);
        }
        let mut message = self.incoming.unwrap_or(Incoming {
            is_write,
            bytes: 0,
            announced: 0,
        });
        if message.is_write != is_write {
            return Err(invalid);
        }
        if let Request::Write(Some(range)) = request {
            self.check_access(ctx, &range, Access::REMOTE_WRITE)?;
            message.announced = range.bytes;
        }
        message.bytes = message.bytes.saturating_add(packet.payload);
        if is_write {
            if message.bytes > message.announced || (last && message.bytes != message.announced) {
                return Err(invalid);
            }
        } else {
            self.check_receive(ctx, message.bytes, out)?;
        }
        self.incoming = (!last).then_some(message);
        if last {
            self.msn = next_msn(self.msn);
            self.received(packet, &message, solicited, out);
        }
        Ok(true)
    }

    /// Completes the receive of a message, if it has one.
    fn received(&mut self, packet: &Packet, message: &Incoming, solicited: bool, out: &mut Vec<Out>) {
        let Some(receive) = self.held.take() else {
            return;
        };
        let opcode = if message.is_write {
            WcOpcode::RecvRdmaWithImm
        } else {
            WcOpcode::Recv
        };
        let Body::Request { immediate, .. } = packet.body else {
            return;
        };
        let wc = Wc {
            immediate,
            tag: packet.tag,
            ..Wc::plain(receive.wr_id, WcStatus::Success, opcode, message.bytes)
        };
        out.push(Out::Received { wc, solicited });
    }

    /// Fails if a message does not fit its receive; the receive is then complete with an error.
    fn check_receive(&mut self, ctx: &RecvCtx<'_>, bytes: u32, out: &mut Vec<Out>) -> Result<(), Refusal> {
        let Some(receive) = self.held else {
            return Err((Nak::InvalidRequest, Some(EventType::QpFatal)));
        };
        let (status, nak) = if bytes > receive.sge.bytes {
            (WcStatus::LocLenErr, Nak::InvalidRequest)
        } else if !ctx.memory.allows_local(ctx.pd, &receive.sge, Access::LOCAL_WRITE) {
            (WcStatus::LocProtErr, Nak::RemoteOperation)
        } else {
            return Ok(());
        };
        self.held = None;
        let wc = Wc::plain(receive.wr_id, status, WcOpcode::Recv, bytes);
        out.push(Out::Received { wc, solicited: false });
        Err((nak, None))
    }

    fn not_ready(&mut self, ctx: &RecvCtx<'_>) {
        self.counts.rnr_naks += 1;
        self.push_ack(ctx, self.expected, Syndrome::Rnr(ctx.min_rnr_timer));
        // The packets behind this one are dropped without a NAK.
        self.nak_sent = true;
    }

    fn check_access(&self, ctx: &RecvCtx<'_>, range: &Range, access: Access) -> Result<(), Refusal> {
        if ctx.access.has(access) && ctx.memory.allows_remote(ctx.pd, range, access) {
            Ok(())
        } else {
            Err((Nak::RemoteAccess, Some(EventType::QpAccessErr)))
        }
    }

    /// Fails if the other end has more READs and atomics outstanding than agreed.
    fn can_answer(&self, ctx: &RecvCtx<'_>) -> Result<(), Refusal> {
        let data = |answer: &&Answer| !matches!(answer.body, Body::Ack(_));
        let outstanding = self.answers.iter().filter(data).count();
        if self.incoming.is_some() || outstanding >= usize::from(ctx.max_dest_rd_atomic) {
            return Err((Nak::InvalidRequest, Some(EventType::QpFatal)));
        }
        Ok(())
    }

    fn atomic(&self, ctx: &mut RecvCtx<'_>, atomic: &Atomic) -> Result<u64, Refusal> {
        if !atomic.addr.is_multiple_of(8) {
            return Err((Nak::InvalidRequest, Some(EventType::QpFatal)));
        }
        let refused: Refusal = (Nak::RemoteAccess, Some(EventType::QpAccessErr));
        if !ctx.access.has(Access::REMOTE_ATOMIC) {
            return Err(refused);
        }
        ctx.memory.atomic(ctx.pd, atomic).ok_or(refused)
    }

    /// Answers a request that has been carried out before. Source: IBA vol 1 §9.7.5.1.5, §9.7.5.1.6.
    fn duplicate(&mut self, ctx: &RecvCtx<'_>, packet: &Packet, psn: u64) {
        let Body::Request { request, ack_req, .. } = packet.body else {
            return;
        };
        match request {
            Request::Send | Request::Write(_) => {
                if ack_req {
                    self.push_ack(ctx, psn, Syndrome::Ack);
                }
            }
            Request::Read(range) => {
                let end = psn + packets(range.bytes, ctx.mtu);
                if end <= self.expected && self.check_access(ctx, &range, Access::REMOTE_READ).is_ok() {
                    self.drop_answers_from(psn);
                    self.push_read(ctx, psn, range.bytes);
                }
            }
            Request::Atomic(_) => {
                let found = self.results.iter().find(|(at, _)| *at == psn);
                if let Some(&(_, value)) = found {
                    self.drop_answers_from(psn);
                    self.push_result(ctx, psn, value);
                }
            }
        }
    }

    /// The requester has gone back to a packet, so it requests all later answers again.
    fn drop_answers_from(&mut self, psn: u64) {
        self.answers.retain(|answer| answer.end <= psn);
    }

    /// Queues an acknowledgement. One that waits already is replaced: the later one acknowledges more.
    fn push_ack(&mut self, ctx: &RecvCtx<'_>, psn: u64, syndrome: Syndrome) {
        let ack = Answer {
            body: Body::Ack(syndrome),
            next: psn,
            end: psn + 1,
            bytes_left: 0,
            ready_at: ctx.ack_at,
            msn: self.msn,
            credits: self.tell(ctx),
        };
        match self.answers.back_mut() {
            Some(last) if last.body == Body::Ack(Syndrome::Ack) && last.next <= psn => {
                let ready_at = last.ready_at;
                *last = Answer { ready_at, ..ack };
            }
            _ => self.answers.push_back(ack),
        }
    }

    /// Returns the code of end-to-end credits.
    fn tell(&mut self, ctx: &RecvCtx<'_>) -> u8 {
        if ctx.credits {
            self.credits.tell(ctx.receives.len(), self.held.is_some())
        } else {
            NOT_TOLD
        }
    }

    /// Acknowledges the last packet once more if the other end waits for credits. Source: IBA vol 1 §9.7.7.2.
    fn posted(&mut self, ctx: &RecvCtx<'_>) {
        if ctx.transport == Transport::Rc && ctx.credits && self.credits.is_awaited(self.held.is_some()) {
            self.push_ack(ctx, self.expected - 1, Syndrome::Ack);
        }
    }

    fn push_read(&mut self, ctx: &RecvCtx<'_>, psn: u64, bytes: u32) {
        let credits = self.tell(ctx);
        self.answers.push_back(Answer {
            body: Body::ReadResponse { last: false },
            next: psn,
            end: psn + packets(bytes, ctx.mtu),
            bytes_left: bytes,
            ready_at: ctx.data_at,
            msn: self.msn,
            credits,
        });
    }

    fn push_result(&mut self, ctx: &RecvCtx<'_>, psn: u64, value: u64) {
        let credits = self.tell(ctx);
        self.answers.push_back(Answer {
            body: Body::AtomicAck(value),
            next: psn,
            end: psn + 1,
            bytes_left: 0,
            ready_at: ctx.data_at,
            msn: self.msn,
            credits,
        });
    }

    /// Returns the next answer, without taking it.
    pub fn next(&self, now: Ps, mtu: u32) -> Next {
        let Some(answer) = self.answers.front() else {
            return Next::Idle;
        };
        if answer.ready_at > now {
            return Next::At(answer.ready_at);
        }
        let next_psn = answer.next + 1;
        let body = match answer.body {
            Body::ReadResponse { .. } => Body::ReadResponse {
                last: next_psn == answer.end,
            },
            body => body,
        };
        Next::Now(Outgoing {
            body,
            payload: answer.bytes_left.min(mtu),
            psn: answer.next,
            next_psn,
            tag: 0,
            datagram: None,
        })
    }

    fn sent(&mut self, ctx: &RecvCtx<'_>, packet: &Outgoing) {
        let Some(answer) = self.answers.front_mut() else {
            return;
        };
        answer.next = packet.next_psn;
        answer.bytes_left = answer.bytes_left.saturating_sub(ctx.mtu);
        if answer.next >= answer.end {
            self.answers.pop_front();
        }
    }

    fn unreliable(&mut self, ctx: &mut RecvCtx<'_>, packet: &Packet, out: &mut Vec<Out>) {
        let psn = unwrap_psn(self.expected, packet.psn);
        let Body::Request {
            request, first, last, ..
        } = packet.body
        else {
            return;
        };
        if matches!(request, Request::Read(_) | Request::Atomic(_)) {
            return;
        }
        let gap = psn != self.expected;
        self.counts.after_gap += u64::from(gap);
        self.expected = psn + 1;
        let interrupted = self.incoming.is_some() && (gap || first);
        if interrupted {
            // The receive of the broken message is used for the next one.
            self.incoming = None;
            self.counts.dropped_messages += 1;
        }
        if !first && self.incoming.is_none() {
            // The rest of a message that has lost its begin.
            self.counts.dropped_messages += u64::from(last && !interrupted);
            return;
        }
        match self.part(ctx, packet, out) {
            Ok(true) => {}
            // Without a receive a message is lost; no NAK tells the sender.
            Ok(false) => {
                self.incoming = None;
                self.counts.dropped_messages += 1;
            }
            Err((_, event)) => out.push(Out::Failed { event }),
        }
    }

    /// Takes the receive of a broken or unfinished message, to flush it.
    pub const fn take_held(&mut self) -> Option<RecvWr> {
        self.held.take()
    }

    pub const fn counts(&self) -> RecvCounts {
        self.counts
    }

    /// Returns the number of completed messages, 24 bits, and the code of credits, as the next answer shows them.
    pub fn told(&self) -> (u32, u8) {
        let of = |answer: &Answer| (answer.msn, answer.credits);
        self.answers.front().map_or((self.msn, NOT_TOLD), of)
    }
}

const fn next_msn(msn: u32) -> u32 {
    (msn + 1) & PSN_MASK as u32
}

fn datagram(ctx: &mut RecvCtx<'_>, packet: &Packet, out: &mut Vec<Out>) {
    let Body::Request {
        request: Request::Send,
        immediate,
        solicited,
        ..
    } = packet.body
    else {
        return;
    };
    let Some(receive) = ctx.receives.take() else {
        return out.push(Out::NoReceive);
    };
    let bytes = packet.payload + GRH_BYTES;
    let sge: &Sge = &receive.sge;
    let status = if bytes > sge.bytes {
        WcStatus::LocLenErr
    } else if !ctx.memory.allows_local(ctx.pd, sge, Access::LOCAL_WRITE) {
        WcStatus::LocProtErr
    } else {
        WcStatus::Success
    };
    let wc = Wc {
        immediate,
        src_qp: packet.deth.map_or(0, |deth| deth.src_qp),
        slid: packet.slid.0,
        sl: packet.sl.get(),
        tag: packet.tag,
        ..Wc::plain(receive.wr_id, status, WcOpcode::Recv, bytes)
    };
    out.push(Out::Received { wc, solicited });
    if status != WcStatus::Success {
        out.push(Out::Failed { event: None });
    }
}
