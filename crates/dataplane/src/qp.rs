//! Queue pairs: connections between two hosts on a service level, reliable (RC) or not (UC).
//!
//! A pair is created when the first message between two hosts is posted, and stays. Messages of a pair are sent in
//! order. Pairs of a lane take turns, one packet each. RC keeps a window of packets in flight, and repeats from the
//! first unacknowledged packet after a NAK or a time-out. It goes to ERROR when its retries are used up. Sequence
//! numbers are not truncated here, although headers have only their lower 24 bits, because a window is far smaller than
//! that.
//!
//! Source: IBA vol 1 §9.7 (reliable), §9.8 (unreliable), §10.3.1 (states). All messages are SENDs; acknowledgements
//! have an AETH.

use std::collections::{BTreeMap, VecDeque};

use crate::Simulation;
use crate::packet::{NIL, Opcode, Packet};
use crate::qp_state::{QpCounts, QpState};
use crate::settings::Transport;
use crate::state::kind;
use crate::traffic::{Host, Workload};
use crate::units::{NEVER, PS_PER_NS, Ps, blocks, header};

/// Both ends of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Qp {
    pub from: Host,
    pub to: Host,
    pub sl: u8,
    pub vl: u8,
    state: QpState,
    /// Messages posted and not completed, in order.
    messages: VecDeque<u32>,
    /// Sequence number of the next packet to send.
    next: u32,
    /// Sequence number after that of the last packet of the last message.
    end: u32,
    /// Sequence number of the first unacknowledged packet.
    unacknowledged: u32,
    /// Sequence number after the highest one sent so far.
    furthest: u32,
    /// Index in `messages` of the message of packet `next`.
    sending: usize,
    retries_left: u8,
    /// When the sender's time-out expires.
    timer_at: Ps,
    has_timer: bool,
    in_turn: bool,
    /// Number of the packet that the receiver expects next.
    expected: u32,
    /// Index in `messages` of the message that is being received.
    receiving: usize,
    nak_wanted: bool,
    nak_sent: bool,
    ack_waits: bool,
}

/// Queue pairs of all hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Qps {
    pub all: Vec<Qp>,
    by_ends: BTreeMap<(Host, Host, u8), u32>,
    /// By host and lane: pairs with packets to send, in turn.
    turns: Vec<VecDeque<u32>>,
    /// By host and lane: acknowledgements to send, with the earliest time.
    acks: Vec<VecDeque<(Ps, u32)>>,
    pub counts: QpCounts,
}

impl Qps {
    pub fn new(places: usize) -> Self {
        Self {
            turns: vec![VecDeque::new(); places],
            acks: vec![VecDeque::new(); places],
            ..Self::default()
        }
    }
}

impl<W: Workload> Simulation<W> {
    fn place(&self, host: Host, vl: u8) -> usize {
        host as usize * usize::from(self.settings.vls) + usize::from(vl)
    }

    /// Appends a message to its queue pair.
    pub(crate) fn post_to_qp(&mut self, message: u32, packets: u32) {
        let posted = &mut self.messages[message as usize];
        let ends = (posted.from, posted.to, posted.sl);
        let (sl, vl) = (posted.sl, posted.vl);
        let index = match self.qps.by_ends.get(&ends) {
            Some(&index) => index,
            None => {
                let index = self.qps.all.len() as u32;
                self.qps.by_ends.insert(ends, index);
                self.qps
                    .all
                    .push(Qp::connected(ends.0, ends.1, (sl, vl), self.settings.qp.retry_count));
                self.qps.counts.pairs += 1;
                index
            }
        };
        let qp = &mut self.qps.all[index as usize];
        if qp.state == QpState::Error {
            return self.flush(message);
        }
        self.messages[message as usize].first_psn = qp.end;
        qp.end += packets;
        qp.messages.push_back(message);
        self.take_turn(index);
    }

    /// Adds a queue pair that has packets to send to the queue of its host and lane.
    fn take_turn(&mut self, index: u32) {
        let window = self.window_packets();
        let qp = &mut self.qps.all[index as usize];
        if !qp.in_turn && qp.can_send(window) {
            qp.in_turn = true;
            let (host, vl) = (qp.from, qp.vl);
            let place = self.place(host, vl);
            self.qps.turns[place].push_back(index);
            self.hosts[host as usize].lanes |= 1 << vl;
        }
    }

    fn window_packets(&self) -> u32 {
        match self.settings.transport {
            Transport::Rc => self.settings.qp.window_packets,
            Transport::Uc | Transport::None => u32::MAX,
        }
    }

    /// Returns the length on the wire of the next packet of a host's lane. `None` if the next packet is an
    /// acknowledgement that is not ready yet.
    pub(crate) fn next_of_qps(&mut self, host: Host, vl: u8) -> Option<u32> {
        let place = self.place(host, vl);
        if let Some(&(ready_at, _)) = self.qps.acks[place].front() {
            if ready_at <= self.now {
                return Some(self.settings.headers() + u32::from(header::AETH));
            }
            self.wake_at(host, ready_at);
        }
        let window = self.window_packets();
        while let Some(&index) = self.qps.turns[place].front() {
            if self.qps.all[index as usize].can_send(window) {
                let payload = self.next_payload(index);
                return Some(payload + self.settings.overhead(payload, self.begins_message(index)));
            }
            // The packets to repeat have been acknowledged meanwhile.
            self.qps.all[index as usize].in_turn = false;
            self.qps.turns[place].pop_front();
        }
        if self.qps.acks[place].is_empty() {
            self.hosts[host as usize].lanes &= !(1 << vl);
        }
        None
    }

    /// Returns the payload length of a pair's next packet.
    fn next_payload(&self, index: u32) -> u32 {
        let qp = &self.qps.all[index as usize];
        let mtu = u32::from(self.settings.mtu.bytes());
        let Some(&message) = qp.messages.get(qp.sending) else {
            return 0;
        };
        let posted = &self.messages[message as usize];
        let before = (qp.next - posted.first_psn) * mtu;
        posted.bytes.saturating_sub(before).min(mtu)
    }

    /// True if a pair's next packet is the first of its message.
    fn begins_message(&self, index: u32) -> bool {
        let qp = &self.qps.all[index as usize];
        let message = qp.messages.get(qp.sending);
        message.is_some_and(|&message| self.messages[message as usize].first_psn == qp.next)
    }

    /// Creates the next packet of a host's lane.
    pub(crate) fn cut_of_qps(&mut self, host: Host, vl: u8) -> Packet {
        let place = self.place(host, vl);
        let ready = self.qps.acks[place].front().is_some_and(|&(at, _)| at <= self.now);
        let packet = match self.qps.acks[place].pop_front() {
            Some((_, index)) if ready => self.cut_ack(index),
            waits => {
                if let Some(ack) = waits {
                    self.qps.acks[place].push_front(ack);
                }
                // The caller has checked that there is a packet to send, so a pair is waiting.
                let index = self.qps.turns[place].pop_front().unwrap_or_default();
                self.cut_request(index)
            }
        };
        let empty = self.qps.turns[place].is_empty() && self.qps.acks[place].is_empty();
        if empty {
            self.hosts[host as usize].lanes &= !(1 << vl);
        }
        packet
    }

    fn cut_ack(&mut self, index: u32) -> Packet {
        let qp = &mut self.qps.all[index as usize];
        qp.ack_waits = false;
        let opcode = if core::mem::take(&mut qp.nak_wanted) {
            Opcode::Nak
        } else {
            Opcode::Ack
        };
        let (from, to, sl, vl, psn) = (qp.from, qp.to, qp.sl, qp.vl, qp.expected);
        let mut packet = self.blank(to, from, sl, vl);
        (packet.opcode, packet.psn, packet.qp) = (opcode, psn, index);
        packet.overhead += header::AETH as u8;
        packet.blocks = blocks(u32::from(packet.overhead)) as u8;
        packet
    }

    fn cut_request(&mut self, index: u32) -> Packet {
        let payload = self.next_payload(index);
        let overhead = self.settings.overhead(payload, self.begins_message(index));
        let window = self.window_packets();
        let qp = &mut self.qps.all[index as usize];
        qp.in_turn = false;
        let message = qp.messages.get(qp.sending).copied().unwrap_or(NIL);
        let (from, to, sl, vl, psn) = (qp.from, qp.to, qp.sl, qp.vl, qp.next);
        let posted = &self.messages[message as usize];
        let (created, bytes, first) = (posted.created, posted.bytes, posted.first_psn);
        let last = (psn - first + 1) * u32::from(self.settings.mtu.bytes()) >= bytes;
        qp.next += 1;
        if psn < qp.furthest {
            self.qps.counts.repeated += 1;
        }
        qp.furthest = qp.furthest.max(qp.next);
        qp.sending += usize::from(last);
        let is_rc = self.settings.transport == Transport::Rc;
        if !is_rc && last {
            // UC gets no acknowledgement.
            qp.messages.pop_front();
            qp.sending -= 1;
            self.sent_whole(from, vl);
        } else if is_rc {
            self.start_timer(index);
        }
        let qp = &mut self.qps.all[index as usize];
        let asks = last || (psn + 1) % self.settings.qp.ack_every.max(1) == 0;
        let asks = is_rc && (asks || !qp.can_send(window));
        self.take_turn(index);
        let mut packet = self.blank(from, to, sl, vl);
        (packet.created, packet.message, packet.qp) = (created, message, index);
        (packet.opcode, packet.psn) = (Opcode::Request { asks }, psn);
        (packet.payload, packet.last) = (payload as u16, last);
        (packet.overhead, packet.blocks) = (overhead as u8, blocks(payload + overhead) as u8);
        packet
    }

    /// Returns a packet without payload.
    fn blank(&self, from: Host, to: Host, sl: u8, vl: u8) -> Packet {
        Packet {
            created: self.now,
            arrived: self.now,
            next: NIL,
            message: NIL,
            qp: NIL,
            psn: 0,
            source: from,
            destination: to,
            dlid: self.layout.hosts[to as usize].lid.0,
            payload: 0,
            overhead: self.settings.headers() as u8,
            blocks: 1,
            sl,
            vl,
            input: 0,
            output: 0,
            output_vl: 0,
            opcode: Opcode::Data,
            epoch: 0,
            last: true,
            shared: false,
            held: false,
        }
    }

    /// Handles a packet of a connection at its destination host.
    pub(crate) fn receive(&mut self, packet: &Packet) {
        match packet.opcode {
            Opcode::Data => {}
            Opcode::Request { asks } if self.settings.transport == Transport::Rc => self.receive_reliable(packet, asks),
            Opcode::Request { .. } => {
                let first = self.messages[packet.message as usize].first_psn;
                let qp = &mut self.qps.all[packet.qp as usize];
                // A message may begin after a gap but not continue after one.
                let fits = packet.psn == qp.expected || packet.psn == first;
                qp.expected = packet.psn + 1;
                if fits {
                    self.window.delivered(self.now, packet);
                } else {
                    self.qps.counts.discarded += 1;
                }
                self.packet_done(packet.message, !fits);
            }
            Opcode::Ack => self.acknowledged(packet.qp, packet.psn, false),
            Opcode::Nak => self.acknowledged(packet.qp, packet.psn, true),
        }
    }

    fn receive_reliable(&mut self, packet: &Packet, asks: bool) {
        let qp = &mut self.qps.all[packet.qp as usize];
        if packet.psn == qp.expected {
            qp.expected += 1;
            qp.nak_sent = false;
            let message = packet.last.then(|| qp.messages.get(qp.receiving).copied()).flatten();
            qp.receiving += usize::from(packet.last);
            self.window.delivered(self.now, packet);
            if asks {
                self.answer(packet.qp);
            }
            if let Some(message) = message {
                self.arrived(message, true);
            }
            return;
        }
        self.qps.counts.discarded += 1;
        let behind_a_gap = packet.psn > qp.expected;
        if !behind_a_gap {
            // A repeated packet: its acknowledgement was lost.
            self.answer(packet.qp);
        } else if !qp.nak_sent {
            qp.nak_sent = true;
            qp.nak_wanted = true;
            self.answer(packet.qp);
        }
    }

    /// Schedules an acknowledgement or NAK of a pair's receiver.
    fn answer(&mut self, index: u32) {
        let qp = &mut self.qps.all[index as usize];
        if core::mem::replace(&mut qp.ack_waits, true) {
            return;
        }
        let (host, vl) = (qp.to, qp.vl);
        let at = self.now + self.settings.qp.ack_delay_ns * PS_PER_NS;
        let place = self.place(host, vl);
        self.qps.acks[place].push_back((at, index));
        self.hosts[host as usize].lanes |= 1 << vl;
        let free_at = self.ports[self.layout.hosts[host as usize].port as usize].free_at;
        self.wake_at(host, at.max(free_at));
    }

    /// Handles an acknowledgement of all packets before a number.
    fn acknowledged(&mut self, index: u32, psn: u32, is_nak: bool) {
        let now = self.now;
        let timeout = self.ack_timeout();
        let counts = &mut self.qps.counts;
        *(if is_nak { &mut counts.naks } else { &mut counts.acks }) += 1;
        let qp = &mut self.qps.all[index as usize];
        if qp.state == QpState::Error || psn < qp.unacknowledged {
            return;
        }
        if psn > qp.unacknowledged {
            qp.retries_left = self.settings.qp.retry_count;
            qp.unacknowledged = psn;
        }
        qp.timer_at = timeout.map_or(NEVER, |timeout| now + timeout);
        let (from, vl) = (qp.from, qp.vl);
        let mtu = u32::from(self.settings.mtu.bytes());
        while let Some(&message) = self.qps.all[index as usize].messages.front() {
            let posted = &self.messages[message as usize];
            if posted.first_psn + posted.bytes.div_ceil(mtu).max(1) > psn {
                break;
            }
            let qp = &mut self.qps.all[index as usize];
            qp.messages.pop_front();
            qp.sending = qp.sending.saturating_sub(1);
            qp.receiving = qp.receiving.saturating_sub(1);
            self.free(message);
            self.sent_whole(from, vl);
        }
        let qp = &mut self.qps.all[index as usize];
        // Acknowledged packets are not sent again.
        if qp.next < psn {
            self.go_to(index, psn);
        } else if is_nak {
            self.repeat(index);
        }
        self.take_turn(index);
        self.host_send::<false>(from);
    }

    /// Repeats from the first unacknowledged packet. Without retries left the pair goes to ERROR.
    fn repeat(&mut self, index: u32) {
        let qp = &mut self.qps.all[index as usize];
        if qp.retries_left == 0 {
            return self.fail(index);
        }
        qp.retries_left -= 1;
        let psn = qp.unacknowledged;
        self.go_to(index, psn);
        self.take_turn(index);
    }

    /// Sets the next packet to send.
    fn go_to(&mut self, index: u32, psn: u32) {
        let qp = &self.qps.all[index as usize];
        let begun = |&&message: &&u32| self.messages[message as usize].first_psn <= psn;
        let sending = qp.messages.iter().take_while(begun).count().saturating_sub(1);
        let qp = &mut self.qps.all[index as usize];
        (qp.next, qp.sending) = (psn, sending);
    }

    fn fail(&mut self, index: u32) {
        self.qps.counts.errors += 1;
        let qp = &mut self.qps.all[index as usize];
        qp.state = QpState::Error;
        let (from, vl) = (qp.from, qp.vl);
        qp.next = qp.end;
        if core::mem::take(&mut qp.in_turn) {
            let place = self.place(from, vl);
            self.qps.turns[place].retain(|&other| other != index);
            if self.qps.turns[place].is_empty() && self.qps.acks[place].is_empty() {
                self.hosts[from as usize].lanes &= !(1 << vl);
            }
        }
        let qp = &mut self.qps.all[index as usize];
        let received = core::mem::take(&mut qp.receiving);
        let messages = core::mem::take(&mut qp.messages);
        for (place, message) in messages.into_iter().enumerate() {
            self.sent_whole(from, vl);
            // Messages that the receiver has completed are not counted as lost.
            if place >= received {
                self.arrived(message, false);
            }
            self.free(message);
        }
    }

    /// Ends a message posted to a pair in ERROR at once.
    fn flush(&mut self, message: u32) {
        let posted = self.messages[message as usize];
        self.sent_whole(posted.from, posted.vl);
        self.free(message);
        self.window.flushed(self.now);
    }

    /// Subtracts one from the number of waiting messages of a host.
    fn sent_whole(&mut self, host: Host, vl: u8) {
        let place = self.place(host, vl);
        self.waiting[place] -= 1;
    }

    fn ack_timeout(&self) -> Option<Ps> {
        match self.settings.qp.ack_timeout {
            0 => None,
            value => Some(4_096_000 << value.min(31)),
        }
    }

    fn start_timer(&mut self, index: u32) {
        let Some(timeout) = self.ack_timeout() else { return };
        let at = self.now + timeout;
        let qp = &mut self.qps.all[index as usize];
        if qp.next - 1 == qp.unacknowledged {
            qp.timer_at = at;
        }
        if !core::mem::replace(&mut qp.has_timer, true) {
            let component = self.layout.first_host() + qp.from;
            self.schedule(at, component, kind::TIMER, index);
        }
    }

    /// Handles the timer of a queue pair. An acknowledgement may have arrived since it was set.
    pub(crate) fn timer(&mut self, host: Host, index: u32) {
        let qp = &mut self.qps.all[index as usize];
        qp.has_timer = false;
        if qp.unacknowledged >= qp.furthest || qp.state == QpState::Error {
            return;
        }
        let due = qp.timer_at;
        if due <= self.now {
            qp.timer_at = self.now;
            self.qps.counts.timeouts += 1;
            self.repeat(index);
            self.host_send::<false>(host);
        }
        let timeout = self.ack_timeout().unwrap_or(NEVER);
        let qp = &mut self.qps.all[index as usize];
        if qp.state != QpState::Error && !qp.has_timer {
            qp.has_timer = true;
            let at = if due > self.now {
                due
            } else {
                self.now.saturating_add(timeout)
            };
            qp.timer_at = at;
            self.schedule(at, self.layout.first_host() + host, kind::TIMER, index);
        }
    }

    /// Handles the loss of a packet of a connection.
    pub(crate) fn request_lost(&mut self, packet: &Packet) {
        if self.settings.transport == Transport::Uc {
            self.packet_done(packet.message, true);
        }
    }
}

impl Qp {
    /// Returns a pair in RTS, having passed all states: connecting costs no time here.
    fn connected(from: Host, to: Host, (sl, vl): (u8, u8), retries_left: u8) -> Self {
        let ways = [QpState::Init, QpState::Rtr, QpState::Rts];
        let state = ways
            .into_iter()
            .fold(QpState::Reset, |state, next| match state.may_become(next) {
                true => next,
                false => state,
            });
        Self {
            from,
            to,
            sl,
            vl,
            state,
            messages: VecDeque::new(),
            next: 0,
            end: 0,
            unacknowledged: 0,
            furthest: 0,
            sending: 0,
            retries_left,
            timer_at: NEVER,
            has_timer: false,
            in_turn: false,
            expected: 0,
            receiving: 0,
            nak_wanted: false,
            nak_sent: false,
            ack_waits: false,
        }
    }

    fn can_send(&self, window: u32) -> bool {
        self.state == QpState::Rts && self.next < self.end && self.next - self.unacknowledged < window
    }
}

#[cfg(test)]
mod tests {
    use super::QpState::{self, *};

    #[test]
    fn states_follow_each_other() {
        let check = |from: QpState, to, want| assert_eq!(from.may_become(to), want, "{from:?} {to:?}");
        check(Reset, Init, true);
        check(Reset, Rtr, false);
        check(Init, Rtr, true);
        check(Init, Rts, false);
        check(Rtr, Rts, true);
        check(Rts, Error, true);
        check(Error, Rts, false);
        check(Error, Reset, true);
    }
}
