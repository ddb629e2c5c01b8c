//! Carries out what sub-machines of queue pairs ask for.

use std::cmp::Reverse;

use super::{Hca, Notice};
use crate::attr::{PathState, QpState, Transport};
use crate::cq::Pushed;
use crate::event::{Element, EventType};
use crate::handle::{Context, Cq, Qp};
use crate::outgoing::{Next, Outgoing};
use crate::path::{self, PathCtx};
use crate::port::LOOPBACK;
use crate::qp::{Half, QueuePair};
use crate::requester;
use crate::responder::{self, RecvCtx};
use crate::time::Ps;
use crate::work::{Wc, WcOpcode, WcStatus};

impl Hca {
    /// Looks at what a queue pair wants next: a turn at its port, or a timer.
    pub(super) fn kick(&mut self, now: Ps, index: u32) {
        let ready_at = loop {
            let pace = self.pace();
            let Some(qp) = self.qps.at(index) else { return };
            let (next, half) = qp.next(now, pace);
            match next {
                Next::Fail(status) => self.run_sender(now, index, requester::In::Fail(status)),
                Next::Now(packet) => {
                    let place = self.place(qp, packet.datagram.as_ref());
                    let port = &mut self.ports[usize::from(place.0) - 1];
                    if port.is_active() {
                        self.give_turn(now, index, place);
                        break None;
                    }
                    // Sent by a port that is not ACTIVE: it goes nowhere.
                    port.counts.sent_down += 1;
                    self.advance(now, index, packet, half);
                }
                Next::At(at) => break Some(at),
                Next::Idle => break None,
            }
        };
        self.set_timer(index, ready_at);
        self.check_drained(now, index);
    }

    fn give_turn(&mut self, now: Ps, index: u32, place: (u8, u8)) {
        let Some(qp) = self.qps.at_mut(index) else { return };
        if qp.turn != Some(place) {
            qp.ticket = qp.ticket.wrapping_add(1);
            qp.turn = Some(place);
            let (port, sl) = place;
            self.ports[usize::from(port) - 1].add_turn(sl, index, qp.ticket);
            if sl == LOOPBACK {
                self.set_loopback(now, port);
            } else {
                self.ready_ports[usize::from(port) / 64] |= 1 << (port % 64);
            }
        }
    }

    /// Has a queue pair called when a packet of it is ready, or when the time-out expires. A time-out that was put off
    /// keeps its entry, which then sets the later one: so a queue pair has few entries, however many packets it sends.
    fn set_timer(&mut self, index: u32, ready_at: Option<Ps>) {
        let Some(qp) = self.qps.at_mut(index) else { return };
        let due = [ready_at, qp.requester.timer_at()].into_iter().flatten().min();
        if let Some(at) = due
            && qp.timers.last().is_none_or(|&set| at < set)
        {
            qp.timers.push(at);
            self.timers.push(Reverse((at, index)));
        }
    }

    fn check_drained(&mut self, now: Ps, index: u32) {
        let Some(qp) = self.qps.at_mut(index) else { return };
        if qp.drain_event_due && qp.state == QpState::Sqd && qp.requester.is_drained() {
            qp.drain_event_due = false;
            self.raise_of(now, index, EventType::SqDrained);
        }
    }

    /// Counts the next packet of a queue pair as sent.
    pub(super) fn advance(&mut self, now: Ps, index: u32, packet: Outgoing, half: Half) {
        let Some(qp) = self.qps.at_mut(index) else { return };
        qp.answered_last = half == Half::Answer;
        qp.loaded = false;
        match half {
            Half::Request => self.run_sender(now, index, requester::In::Sent(packet)),
            Half::Answer => self.run_receiver(now, index, responder::In::Sent(packet)),
        }
    }

    /// Appends an event of a queue pair to its context.
    pub(super) fn raise_of(&mut self, now: Ps, index: u32, kind: EventType) {
        if let Some((context, handle)) = self.owner(index) {
            self.raise(now, context, kind, Element::Qp(handle));
        }
    }

    fn owner(&self, index: u32) -> Option<(Context, Qp)> {
        let qp = self.qps.at(index)?;
        Some((qp.context, self.qps.handle_at(index)?))
    }

    pub(super) fn run_sender(&mut self, now: Ps, index: u32, input: requester::In) {
        let pace = self.pace();
        let Some(qp) = self.qps.at_mut(index) else { return };
        let mut out = core::mem::take(&mut self.sent_out);
        let ctx = qp.send_ctx(now, pace);
        qp.requester.handle(&ctx, input, &mut out);
        let (cq, all, number) = (qp.init.send_cq, qp.init.sq_sig_all, qp.number);
        let (mut exhausted, mut failed) = (false, false);
        for effect in out.drain(..) {
            match effect {
                requester::Out::Completed { wr, status, opcode } => {
                    if wr.signaled || all || status != WcStatus::Success {
                        let wc = Wc {
                            qp_num: number,
                            ..Wc::plain(wr.wr_id, status, opcode, wr.sge.bytes)
                        };
                        self.complete(now, index, cq, wc, false);
                    }
                }
                requester::Out::Exhausted => exhausted = true,
                requester::Out::Failed => failed = true,
            }
        }
        self.sent_out = out;
        if exhausted && !self.path_failed(now, index) {
            self.run_sender(now, index, requester::In::Fail(WcStatus::RetryExcErr));
        }
        if failed {
            self.sender_failed(now, index);
        }
    }

    fn sender_failed(&mut self, now: Ps, index: u32) {
        let Some(qp) = self.qps.at_mut(index) else { return };
        match qp.init.transport {
            Transport::Rc => self.enter_error(now, index, None),
            // Source: IBA vol 1 §10.3.1.6: the receive queue is not affected.
            Transport::Uc | Transport::Ud => {
                if qp.sends() {
                    qp.state = QpState::Sqe;
                }
                self.run_sender(now, index, requester::In::Flush);
            }
        }
    }

    /// Moves a queue pair to ERR, and flushes its queues: sends first, each queue in order.
    pub(super) fn enter_error(&mut self, now: Ps, index: u32, event: Option<EventType>) {
        let Some(qp) = self.qps.at_mut(index) else { return };
        if qp.state == QpState::Err {
            return;
        }
        qp.state = QpState::Err;
        qp.drain_event_due = false;
        self.run_sender(now, index, requester::In::Flush);
        self.run_receiver(now, index, responder::In::Stop);
        self.flush_receives(now, index);
        let shared = self.qps.at(index).is_some_and(|qp| qp.init.srq.is_some());
        if shared {
            self.raise_of(now, index, EventType::QpLastWqeReached);
        }
        if let Some(event) = event {
            self.raise_of(now, index, event);
        }
        self.kick(now, index);
    }

    /// Completes all receives that the queue pair holds with WR_FLUSH_ERR.
    pub(super) fn flush_receives(&mut self, now: Ps, index: u32) {
        loop {
            let Some(qp) = self.qps.at_mut(index) else { return };
            let receive = qp.responder.take_held().or_else(|| qp.receives.take());
            let Some(receive) = receive else { return };
            let wc = Wc {
                qp_num: qp.number,
                ..Wc::plain(receive.wr_id, WcStatus::WrFlushErr, WcOpcode::Recv, 0)
            };
            let cq = qp.init.recv_cq;
            self.complete(now, index, cq, wc, false);
        }
    }

    pub(super) fn run_receiver(&mut self, now: Ps, index: u32, input: responder::In<'_>) {
        let Some(qp) = self.qps.at_mut(index) else { return };
        let ready_at = qp.free_at(now);
        let mut out = core::mem::take(&mut self.received_out);
        let (handle, shared) = match qp.init.srq {
            Some(srq) => (Some(srq), self.srqs.get_mut(srq).ok()),
            None => (None, None),
        };
        let receives = match shared {
            Some(at) => &mut at.shared.queue,
            None => &mut qp.receives,
        };
        let costs = &self.config.costs;
        let mut ctx = RecvCtx {
            transport: qp.init.transport,
            mtu: u32::from(qp.attr.path_mtu.bytes()),
            pd: qp.pd,
            access: qp.attr.access,
            memory: &mut self.memory,
            receives,
            min_rnr_timer: qp.attr.min_rnr_timer,
            credits: self.config.end_to_end_credits && qp.init.srq.is_none(),
            max_dest_rd_atomic: qp.attr.max_dest_rd_atomic,
            ack_at: ready_at + costs.ack_ps,
            data_at: ready_at + costs.ack_ps + costs.dma_read_ps,
        };
        qp.responder.handle(&mut ctx, input, &mut out);
        let (cq, number, port) = (qp.init.recv_cq, qp.number, qp.path.in_use().port);
        let mut failed = None;
        for effect in out.drain(..) {
            match effect {
                responder::Out::Received { wc, solicited } => {
                    let wc = Wc { qp_num: number, ..wc };
                    self.complete(now, index, cq, wc, solicited);
                }
                responder::Out::Failed { event } => failed = Some(event),
                responder::Out::NoReceive => self.ports[usize::from(port) - 1].counts.no_receive += 1,
            }
        }
        self.received_out = out;
        if let Some(srq) = handle
            && let Ok(at) = self.srqs.get_mut(srq)
            && at.shared.limit_reached()
        {
            let context = at.context;
            self.raise(now, context, EventType::SrqLimitReached, Element::Srq(srq));
        }
        if let Some(event) = failed {
            self.enter_error(now, index, event);
        }
    }

    /// Adds a completion to a queue. If the queue overruns, all its queue pairs go to ERR.
    fn complete(&mut self, now: Ps, index: u32, cq: Cq, wc: Wc, solicited: bool) {
        let visible_at = now + self.config.costs.dma_write_ps;
        let Ok(queue) = self.cqs.get_mut(cq) else { return };
        let (channel, context) = (queue.channel, queue.context);
        match queue.push(visible_at, wc, solicited) {
            Pushed::Quiet => self.notice(Notice::Completion(visible_at, cq)),
            Pushed::Event => {
                self.notice(Notice::Completion(visible_at, cq));
                let at = visible_at + self.config.costs.interrupt_ps;
                if let Some(handle) = channel
                    && let Ok(channel) = self.channels.get_mut(handle)
                {
                    channel.push(at, cq);
                    self.notice(Notice::Channel(at, handle));
                }
            }
            Pushed::Overrun => {
                self.raise(now, context, EventType::CqErr, Element::Cq(cq));
                let users = self.qps.iter().filter(|(_, qp)| uses(qp, cq));
                let users: Vec<u32> = users.map(|(handle, _)| handle.index() as u32).collect();
                for user in users {
                    self.enter_error_unless_reset(now, user);
                }
            }
            Pushed::Lost => self.enter_error_unless_reset(now, index),
        }
    }

    fn enter_error_unless_reset(&mut self, now: Ps, index: u32) {
        if self.qps.at(index).is_some_and(|qp| qp.state != QpState::Reset) {
            self.enter_error(now, index, Some(EventType::QpFatal));
        }
    }

    pub(super) fn run_path(&mut self, now: Ps, index: u32, input: path::In) -> path::Out {
        let costs = self.config.costs;
        let Some(qp) = self.qps.at_mut(index) else {
            return path::Out::Drop;
        };
        let ctx = PathCtx {
            ports: &self.ports,
            check: self.config.path_check,
        };
        let out = qp.path.handle(ctx, input);
        match out {
            path::Out::Armed => {
                qp.occupy(now, costs.arm_ps);
                if self.config.armed_events {
                    self.raise_of(now + costs.arm_ps, index, EventType::PathArmed);
                }
            }
            path::Out::Migrated => {
                qp.occupy(now, costs.migrate_ps);
                qp.migrations += 1;
                self.raise_of(now + costs.migrate_ps, index, EventType::PathMig);
                let repeat = matches!(input, path::In::Failed);
                self.run_sender(now, index, requester::In::Migrated { repeat });
            }
            path::Out::Refused { report: true } => self.raise_of(now, index, EventType::PathMigErr),
            path::Out::Accept | path::Out::Drop | path::Out::Refused { report: false } => {}
        }
        out
    }

    /// Migrates a connection that can send no more by its primary path. False if it has no path left.
    pub(super) fn path_failed(&mut self, now: Ps, index: u32) -> bool {
        let armed = self.qps.at(index).is_some_and(|qp| {
            let in_use = matches!(qp.state, QpState::Rtr | QpState::Rts | QpState::Sqd);
            in_use && qp.path.state() == PathState::Armed
        });
        armed && self.run_path(now, index, path::In::Failed) == path::Out::Migrated
    }
}

fn uses(qp: &QueuePair, cq: Cq) -> bool {
    qp.init.send_cq == cq || qp.init.recv_cq == cq
}
