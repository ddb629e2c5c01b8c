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

use super::{Header, Host, Hosts, Opcode, QpCounts, QpState, Workload};
use crate::packet::{NIL, Packet};
use crate::settings::{Settings, Transport, ack_timeout};
use crate::subnet::Subnet;
use crate::units::{NEVER, PS_PER_NS, Ps, header};

/// Both ends of a connection.
#[derive(Clone, Debug)]
pub(super) struct Qp {
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
pub(super) struct Qps {
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

impl<W: Workload> Hosts<W> {
    /// Appends a message to its queue pair.
    pub(super) fn post_to_qp(&mut self, message: u32, packets: u32, subnet: &Subnet<Header>) {
        let posted = &mut self.messages[message as usize];
        let ends = (posted.from, posted.to, posted.sl);
        let (sl, vl) = (posted.sl, posted.vl);
        let index = match self.qps.by_ends.get(&ends) {
            Some(&index) => index,
            None => {
                let index = self.qps.all.len() as u32;
                self.qps.by_ends.insert(ends, index);
                self.qps.all.push(Qp::connected(
                    ends.0,
                    ends.1,
                    (sl, vl),
                    subnet.settings().qp.retry_count,
                ));
                self.qps.counts.pairs += 1;
                index
            }
        };
        let qp = &mut self.qps.all[index as usize];
        if qp.state == QpState::Error {
            return self.flush(message, subnet);
        }
        self.messages[message as usize].first_psn = qp.end;
        qp.end += packets;
        qp.messages.push_back(message);
        self.take_turn(index, subnet);
    }

    /// Adds a queue pair that has packets to send to the queue of its host and lane.
    fn take_turn(&mut self, index: u32, subnet: &Subnet<Header>) {
        let window = window_packets(subnet.settings());
        let qp = &mut self.qps.all[index as usize];
        if !qp.in_turn && qp.can_send(window) {
            qp.in_turn = true;
            let (host, vl) = (qp.from, qp.vl);
            let place = Self::place(subnet, host, vl);
            self.qps.turns[place].push_back(index);
            self.hosts[host as usize].lanes |= 1 << vl;
        }
    }

    /// Returns the length on the wire of the next packet of a host's lane. `None` if the next packet is an
    /// acknowledgement that is not ready yet.
    pub(super) fn next_of_qps(&mut self, host: Host, vl: u8, subnet: &mut Subnet<Header>) -> Option<u32> {
        let place = Self::place(subnet, host, vl);
        if let Some(&(ready_at, _)) = self.qps.acks[place].front() {
            if ready_at <= subnet.now() {
                return Some(subnet.settings().headers() + u32::from(header::AETH));
            }
            subnet.wake(host, ready_at);
        }
        let window = window_packets(subnet.settings());
        while let Some(&index) = self.qps.turns[place].front() {
            if self.qps.all[index as usize].can_send(window) {
                let payload = self.next_payload(index, subnet.settings());
                return Some(payload + subnet.settings().overhead(payload, self.begins_message(index)));
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
    fn next_payload(&self, index: u32, settings: &Settings) -> u32 {
        let qp = &self.qps.all[index as usize];
        let mtu = u32::from(settings.mtu.bytes());
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
    pub(super) fn cut_of_qps(&mut self, host: Host, vl: u8, subnet: &mut Subnet<Header>) -> Packet<Header> {
        let place = Self::place(subnet, host, vl);
        let ready = self.qps.acks[place].front().is_some_and(|&(at, _)| at <= subnet.now());
        let packet = match self.qps.acks[place].pop_front() {
            Some((_, index)) if ready => self.cut_ack(index, subnet),
            waits => {
                if let Some(ack) = waits {
                    self.qps.acks[place].push_front(ack);
                }
                // The caller has checked that there is a packet to send, so a pair is waiting.
                let index = self.qps.turns[place].pop_front().unwrap_or_default();
                self.cut_request(index, subnet)
            }
        };
        let empty = self.qps.turns[place].is_empty() && self.qps.acks[place].is_empty();
        if empty {
            self.hosts[host as usize].lanes &= !(1 << vl);
        }
        packet
    }

    fn cut_ack(&mut self, index: u32, subnet: &Subnet<Header>) -> Packet<Header> {
        let qp = &mut self.qps.all[index as usize];
        qp.ack_waits = false;
        let opcode = if core::mem::take(&mut qp.nak_wanted) {
            Opcode::Nak
        } else {
            Opcode::Ack
        };
        let (from, to, sl, psn) = (qp.from, qp.to, qp.sl, qp.expected);
        let header = Header {
            created: subnet.now(),
            message: NIL,
            qp: index,
            psn,
            opcode,
            last: true,
        };
        let overhead = subnet.settings().headers() + u32::from(header::AETH);
        packet_between(subnet, (to, from), sl, (header, 0, overhead))
    }

    fn cut_request(&mut self, index: u32, subnet: &mut Subnet<Header>) -> Packet<Header> {
        let payload = self.next_payload(index, subnet.settings());
        let overhead = subnet.settings().overhead(payload, self.begins_message(index));
        let window = window_packets(subnet.settings());
        let qp = &mut self.qps.all[index as usize];
        qp.in_turn = false;
        let message = qp.messages.get(qp.sending).copied().unwrap_or(NIL);
        let (from, to, sl, vl, psn) = (qp.from, qp.to, qp.sl, qp.vl, qp.next);
        let posted = &self.messages[message as usize];
        let (created, bytes, first) = (posted.created, posted.bytes, posted.first_psn);
        let last = (psn - first + 1) * u32::from(subnet.settings().mtu.bytes()) >= bytes;
        qp.next += 1;
        if psn < qp.furthest {
            self.qps.counts.repeated += 1;
        }
        qp.furthest = qp.furthest.max(qp.next);
        qp.sending += usize::from(last);
        let is_rc = subnet.settings().transport == Transport::Rc;
        if !is_rc && last {
            // UC gets no acknowledgement.
            qp.messages.pop_front();
            qp.sending -= 1;
            self.sent_whole(from, vl, subnet);
        } else if is_rc {
            self.start_timer(index, subnet);
        }
        let qp = &mut self.qps.all[index as usize];
        let asks = last || (psn + 1) % subnet.settings().qp.ack_every.max(1) == 0;
        let asks = is_rc && (asks || !qp.can_send(window));
        self.take_turn(index, subnet);
        let header = Header {
            created,
            message,
            qp: index,
            psn,
            opcode: Opcode::Request { asks },
            last,
        };
        packet_between(subnet, (from, to), sl, (header, payload, overhead))
    }

    /// Handles a packet of a connection at its destination host.
    pub(super) fn receive(&mut self, packet: &Packet<Header>, subnet: &mut Subnet<Header>) {
        let header = packet.header;
        match header.opcode {
            Opcode::Data => {}
            Opcode::Request { asks } if subnet.settings().transport == Transport::Rc => {
                self.receive_reliable(packet, asks, subnet)
            }
            Opcode::Request { .. } => {
                let first = self.messages[header.message as usize].first_psn;
                let qp = &mut self.qps.all[header.qp as usize];
                // A message may begin after a gap but not continue after one.
                let fits = header.psn == qp.expected || header.psn == first;
                qp.expected = header.psn + 1;
                let ends = (qp.from, qp.to);
                if fits {
                    self.window.delivered(subnet.now(), packet, ends);
                } else {
                    self.qps.counts.discarded += 1;
                }
                self.packet_done(header.message, !fits, subnet);
            }
            Opcode::Ack => self.acknowledged((header.qp, header.psn), false, subnet),
            Opcode::Nak => self.acknowledged((header.qp, header.psn), true, subnet),
        }
    }

    fn receive_reliable(&mut self, packet: &Packet<Header>, asks: bool, subnet: &mut Subnet<Header>) {
        let header = packet.header;
        let qp = &mut self.qps.all[header.qp as usize];
        if header.psn == qp.expected {
            qp.expected += 1;
            qp.nak_sent = false;
            let message = header.last.then(|| qp.messages.get(qp.receiving).copied()).flatten();
            qp.receiving += usize::from(header.last);
            let ends = (qp.from, qp.to);
            self.window.delivered(subnet.now(), packet, ends);
            if asks {
                self.answer(header.qp, subnet);
            }
            if let Some(message) = message {
                self.message_ended(message, true, subnet);
            }
            return;
        }
        self.qps.counts.discarded += 1;
        let behind_a_gap = header.psn > qp.expected;
        if !behind_a_gap {
            // A repeated packet: its acknowledgement was lost.
            self.answer(header.qp, subnet);
        } else if !qp.nak_sent {
            qp.nak_sent = true;
            qp.nak_wanted = true;
            self.answer(header.qp, subnet);
        }
    }

    /// Schedules an acknowledgement or NAK of a pair's receiver.
    fn answer(&mut self, index: u32, subnet: &mut Subnet<Header>) {
        let qp = &mut self.qps.all[index as usize];
        if core::mem::replace(&mut qp.ack_waits, true) {
            return;
        }
        let (host, vl) = (qp.to, qp.vl);
        let at = subnet.now() + subnet.settings().qp.ack_delay_ns * PS_PER_NS;
        let place = Self::place(subnet, host, vl);
        self.qps.acks[place].push_back((at, index));
        self.hosts[host as usize].lanes |= 1 << vl;
        subnet.wake(host, at.max(subnet.free_at(host)));
    }

    /// Handles an acknowledgement of all packets before a number.
    fn acknowledged(&mut self, (index, psn): (u32, u32), is_nak: bool, subnet: &mut Subnet<Header>) {
        let now = subnet.now();
        let timeout = ack_timeout(subnet.settings().qp.ack_timeout);
        let counts = &mut self.qps.counts;
        *(if is_nak { &mut counts.naks } else { &mut counts.acks }) += 1;
        let qp = &mut self.qps.all[index as usize];
        if qp.state == QpState::Error || psn < qp.unacknowledged {
            return;
        }
        if psn > qp.unacknowledged {
            qp.retries_left = subnet.settings().qp.retry_count;
            qp.unacknowledged = psn;
        }
        qp.timer_at = timeout.map_or(NEVER, |timeout| now + timeout);
        let (from, vl) = (qp.from, qp.vl);
        let mtu = u32::from(subnet.settings().mtu.bytes());
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
            self.sent_whole(from, vl, subnet);
        }
        let qp = &mut self.qps.all[index as usize];
        // Acknowledged packets are not sent again.
        if qp.next < psn {
            self.go_to(index, psn);
        } else if is_nak {
            self.repeat(index, subnet);
        }
        self.take_turn(index, subnet);
        subnet.pull(self, from);
    }

    /// Repeats from the first unacknowledged packet. Without retries left the pair goes to ERROR.
    fn repeat(&mut self, index: u32, subnet: &mut Subnet<Header>) {
        let qp = &mut self.qps.all[index as usize];
        if qp.retries_left == 0 {
            return self.fail(index, subnet);
        }
        qp.retries_left -= 1;
        let psn = qp.unacknowledged;
        self.go_to(index, psn);
        self.take_turn(index, subnet);
    }

    /// Sets the next packet to send.
    fn go_to(&mut self, index: u32, psn: u32) {
        let qp = &self.qps.all[index as usize];
        let begun = |&&message: &&u32| self.messages[message as usize].first_psn <= psn;
        let sending = qp.messages.iter().take_while(begun).count().saturating_sub(1);
        let qp = &mut self.qps.all[index as usize];
        (qp.next, qp.sending) = (psn, sending);
    }

    fn fail(&mut self, index: u32, subnet: &mut Subnet<Header>) {
        self.qps.counts.errors += 1;
        let qp = &mut self.qps.all[index as usize];
        qp.state = QpState::Error;
        let (from, vl) = (qp.from, qp.vl);
        qp.next = qp.end;
        if core::mem::take(&mut qp.in_turn) {
            let place = Self::place(subnet, from, vl);
            self.qps.turns[place].retain(|&other| other != index);
            if self.qps.turns[place].is_empty() && self.qps.acks[place].is_empty() {
                self.hosts[from as usize].lanes &= !(1 << vl);
            }
        }
        let qp = &mut self.qps.all[index as usize];
        let received = core::mem::take(&mut qp.receiving);
        let messages = core::mem::take(&mut qp.messages);
        for (place, message) in messages.into_iter().enumerate() {
            self.sent_whole(from, vl, subnet);
            // Messages that the receiver has completed are not counted as lost.
            if place >= received {
                self.message_ended(message, false, subnet);
            }
            self.free(message);
        }
    }

    /// Ends a message posted to a pair in ERROR at once.
    fn flush(&mut self, message: u32, subnet: &Subnet<Header>) {
        let posted = self.messages[message as usize];
        self.sent_whole(posted.from, posted.vl, subnet);
        self.free(message);
        self.window.flushed(subnet.now());
    }

    /// Subtracts one from the number of waiting messages of a host.
    fn sent_whole(&mut self, host: Host, vl: u8, subnet: &Subnet<Header>) {
        let place = Self::place(subnet, host, vl);
        self.waiting[place].count -= 1;
    }

    fn start_timer(&mut self, index: u32, subnet: &mut Subnet<Header>) {
        let Some(timeout) = ack_timeout(subnet.settings().qp.ack_timeout) else {
            return;
        };
        let at = subnet.now() + timeout;
        let qp = &mut self.qps.all[index as usize];
        if qp.next - 1 == qp.unacknowledged {
            qp.timer_at = at;
        }
        if !core::mem::replace(&mut qp.has_timer, true) {
            subnet.set_timer(qp.from, at, index);
        }
    }

    /// Handles the timer of a queue pair. An acknowledgement may have arrived since it was set.
    pub(super) fn qp_timer(&mut self, host: Host, index: u32, subnet: &mut Subnet<Header>) {
        let qp = &mut self.qps.all[index as usize];
        qp.has_timer = false;
        if qp.unacknowledged >= qp.furthest || qp.state == QpState::Error {
            return;
        }
        let due = qp.timer_at;
        if due <= subnet.now() {
            qp.timer_at = subnet.now();
            self.qps.counts.timeouts += 1;
            self.repeat(index, subnet);
            subnet.pull(self, host);
        }
        let timeout = ack_timeout(subnet.settings().qp.ack_timeout).unwrap_or(NEVER);
        let qp = &mut self.qps.all[index as usize];
        if qp.state != QpState::Error && !qp.has_timer {
            qp.has_timer = true;
            let at = if due > subnet.now() {
                due
            } else {
                subnet.now().saturating_add(timeout)
            };
            qp.timer_at = at;
            subnet.set_timer(host, at, index);
        }
    }
}

/// Returns a packet from one host to another: its header, payload bytes and overhead.
fn packet_between(
    subnet: &Subnet<Header>,
    (from, to): (Host, Host),
    sl: u8,
    (header, payload, overhead): (Header, u32, u32),
) -> Packet<Header> {
    let lid = |host: Host| subnet.end_ports()[host as usize].lid.0;
    Packet::new(header, (lid(from), lid(to)), sl, payload as u16, overhead as u8)
}

/// Returns how many packets may be under way.
const fn window_packets(settings: &Settings) -> u32 {
    match settings.transport {
        Transport::Rc => settings.qp.window_packets,
        Transport::Uc | Transport::None => u32::MAX,
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
