//! Hosts: take messages from the workload, cut them into packets, send and receive.

use crate::Simulation;
use crate::layout::NOT_SET;
use crate::packet::{NIL, Opcode, Packet};
use crate::settings::{SlChoice, Transport};
use crate::state::{Posted, hash, kind};
use crate::stats::Drop;
use crate::traffic::{Arrival, Host, Message, Workload};
use crate::units::{Ps, blocks};

impl<W: Workload> Simulation<W> {
    /// Handles a host's event.
    pub(crate) fn host_wake<const PLAIN: bool>(&mut self, host: Host) {
        // An event made unnecessary by an earlier one is ignored.
        if self.hosts[host as usize].wake_at == self.now {
            self.hosts[host as usize].wake_at = NOT_SET;
            self.host_send::<PLAIN>(host);
        }
    }

    /// Schedules an event of a host at a time, or earlier.
    #[inline]
    pub(crate) fn wake_at(&mut self, host: Host, at: Ps) {
        if at < self.hosts[host as usize].wake_at {
            self.hosts[host as usize].wake_at = at;
            self.schedule(at, self.layout.first_host() + host, kind::HOST, 0);
        }
    }

    /// Schedules the posting of a host's next message.
    pub(crate) fn wake_for_next(&mut self, host: Host) {
        if let Some(message) = self.hosts[host as usize].next {
            let free_at = self.ports[self.layout.hosts[host as usize].port as usize].free_at;
            self.wake_at(host, message.at.max(free_at).max(self.now));
        }
    }

    /// Posts messages that are due, sends a packet if the port is free, and schedules the next event.
    pub(crate) fn host_send<const PLAIN: bool>(&mut self, host: Host) {
        self.post_due::<PLAIN>(host, self.now);
        let port = self.layout.hosts[host as usize].port;
        if self.ports[port as usize].free_at > self.now {
            if self.hosts[host as usize].lanes != 0 {
                let at = self.ports[port as usize].free_at;
                self.wake_at(host, at);
            } else {
                self.wake_for_next(host);
            }
            return;
        }
        let sent = self.send_one::<PLAIN>(host, port);
        let state = &self.hosts[host as usize];
        if sent && state.lanes != 0 {
            let at = self.ports[port as usize].free_at;
            self.wake_at(host, at);
        } else if state.lanes == 0 || self.settings.vls > 1 || self.settings.transport != Transport::None {
            // The next message may use another lane or queue pair and be able to go although waiting ones are not.
            self.wake_for_next(host);
        }
    }

    /// Posts messages that are due, or counts them as missed if too many are waiting.
    pub(crate) fn post_due<const PLAIN: bool>(&mut self, host: Host, until: Ps) {
        while let Some(message) = self.hosts[host as usize].next {
            if message.at > until {
                break;
            }
            let (sl, vl) = self.lane_of(host, &message);
            let vls = usize::from(self.settings.vls);
            if self.waiting[host as usize * vls + usize::from(vl)] < self.settings.source_queue {
                self.post::<PLAIN>(host, message, sl, vl);
            } else {
                self.window.missed(&message);
            }
            self.hosts[host as usize].next = self.workload.next(host, message.at.max(self.now));
        }
    }

    /// Returns the service level and lane of a message.
    fn lane_of(&mut self, host: Host, message: &Message) -> (u8, u8) {
        let vls = self.settings.vls;
        let sl = message.sl.unwrap_or_else(|| match self.settings.sl {
            SlChoice::Routing | SlChoice::DestHash => self.sls[message.to as usize],
            SlChoice::Random => self.hosts[host as usize].rng.below(u64::from(vls)) as u8,
            SlChoice::Flow => {
                let lid = |host: Host| u64::from(self.layout.hosts[host as usize].lid.0);
                (hash(lid(host) << 16 | lid(message.to)) % u64::from(vls)) as u8
            }
        });
        (sl, self.layout.lanes[usize::from(sl % 16)].min(vls - 1))
    }

    fn post<const PLAIN: bool>(&mut self, host: Host, message: Message, sl: u8, vl: u8) {
        self.window.posted(&message);
        let to = self.layout.hosts[message.to as usize];
        let from = self.layout.hosts[host as usize];
        let vls = usize::from(self.settings.vls);
        let mtu = u32::from(self.settings.mtu.bytes());
        let posted = Posted {
            created: message.at,
            tag: message.tag,
            from: host,
            to: message.to,
            unsent: message.bytes,
            bytes: message.bytes,
            first_psn: 0,
            missing: message.bytes.div_ceil(mtu).max(1),
            next: NIL,
            dlid: to.lid.0,
            sl,
            vl,
            lost: false,
        };
        let index = if let Some(place) = self.messages.get_mut(self.free_message as usize) {
            let index = self.free_message;
            self.free_message = place.next;
            *place = posted;
            index
        } else {
            self.messages.push(posted);
            (self.messages.len() - 1) as u32
        };
        self.waiting[host as usize * vls + usize::from(vl)] += 1;
        if !PLAIN && self.settings.transport != Transport::None {
            return self.post_to_qp(index, posted.missing);
        }
        let queue = &mut self.lanes[from.port as usize * vls + usize::from(vl)].queue;
        if queue.head == NIL {
            queue.head = index;
        } else {
            self.messages[queue.tail as usize].next = index;
        }
        queue.tail = index;
        self.hosts[host as usize].lanes |= 1 << vl;
    }

    /// Sends a packet of the lane that has the turn. False if there is none, or if it has no credits.
    fn send_one<const PLAIN: bool>(&mut self, host: Host, port: u32) -> bool {
        if !self.ports[port as usize].up {
            return false;
        }
        let vls = usize::from(self.settings.vls);
        let mut lanes = self.hosts[host as usize].lanes;
        let mut ready = 0_u16;
        let mut short = [0_u8; 16];
        while lanes != 0 {
            let vl = lanes.trailing_zeros() as u8;
            lanes &= lanes - 1;
            let bytes = if PLAIN || self.settings.transport == Transport::None {
                let head = self.lanes[port as usize * vls + usize::from(vl)].queue.head;
                self.next_packet_bytes(head)
            } else if let Some(bytes) = self.next_of_qps(host, vl) {
                bytes
            } else {
                continue;
            };
            let wanted = blocks(bytes) as u8;
            if self.has_credits(port as usize * vls + usize::from(vl), wanted) {
                ready |= 1 << vl;
            } else {
                short[usize::from(vl)] = wanted;
            }
        }
        if ready == 0 {
            for (vl, &wanted) in (0..).zip(&short[..vls]).filter(|(_, wanted)| **wanted > 0) {
                self.wait_for_credits(port, vl, wanted);
            }
            return false;
        }
        let arbiter = &mut self.arbiters[port as usize];
        let vl = match vls {
            1 => 0,
            _ => self.arbitration.choose(arbiter, ready),
        };
        let packet = if PLAIN || self.settings.transport == Transport::None {
            let head = self.lanes[port as usize * vls + usize::from(vl)].queue.head;
            self.cut(host, head)
        } else {
            self.cut_of_qps(host, vl)
        };
        if vls > 1 {
            self.arbitration
                .sent(&mut self.arbiters[port as usize], u32::from(packet.blocks));
        }
        self.sent += 1;
        let index = self.packets.insert(packet);
        if packet.last && packet.opcode == Opcode::Data {
            self.message_sent(host, port, vl);
        }
        self.put_on_wire(port, vl, index);
        true
    }

    /// Returns the length on the wire of a message's next packet, in bytes.
    #[inline]
    fn next_packet_bytes(&self, message: u32) -> u32 {
        let posted = &self.messages[message as usize];
        let payload = posted.unsent.min(u32::from(self.settings.mtu.bytes()));
        payload + self.settings.overhead(payload, posted.unsent == posted.bytes)
    }

    /// Creates a message's next packet.
    #[inline(always)]
    fn cut(&mut self, host: Host, message: u32) -> Packet {
        let posted = &mut self.messages[message as usize];
        let payload = posted.unsent.min(u32::from(self.settings.mtu.bytes()));
        let overhead = self.settings.overhead(payload, posted.unsent == posted.bytes);
        posted.unsent -= payload;
        Packet {
            created: posted.created,
            arrived: self.now,
            next: NIL,
            message,
            qp: NIL,
            psn: 0,
            source: host,
            destination: posted.to,
            dlid: posted.dlid,
            payload: payload as u16,
            overhead: overhead as u8,
            blocks: blocks(payload + overhead) as u8,
            sl: posted.sl,
            vl: posted.vl,
            input: 0,
            output: 0,
            output_vl: 0,
            opcode: Opcode::Data,
            epoch: 0,
            last: posted.unsent == 0,
            shared: false,
            held: false,
        }
    }

    /// Removes the first message of a lane, which has been sent.
    #[inline]
    fn message_sent(&mut self, host: Host, port: u32, vl: u8) {
        let queue = &mut self.lanes[port as usize * usize::from(self.settings.vls) + usize::from(vl)].queue;
        queue.head = self.messages[queue.head as usize].next;
        let state = &mut self.hosts[host as usize];
        if queue.head == NIL {
            state.lanes &= !(1 << vl);
        }
        self.waiting[host as usize * usize::from(self.settings.vls) + usize::from(vl)] -= 1;
    }

    /// Called when a packet's last byte has reached a host. Its buffer is free at once.
    pub(crate) fn deliver(&mut self, host: Host, index: u32) {
        let packet = *self.packets.get(index);
        let HostAt { port, lid, lids } = self.host_at(host);
        if packet.epoch != self.ports[port as usize].epoch {
            return self.lose_on_link(index, port);
        }
        self.give_back(port, packet.vl, packet.blocks, self.now);
        self.came_in(port, packet.wire_bytes());
        if packet.dlid.wrapping_sub(lid) >= lids {
            return self.lose(index, Drop::WrongHost);
        }
        self.packets.remove(index);
        self.received += 1;
        if packet.opcode == Opcode::Data {
            self.window.delivered(self.now, &packet);
            self.packet_done(packet.message, false);
        } else {
            self.receive(&packet);
        }
    }

    fn host_at(&self, host: Host) -> HostAt {
        let at = self.layout.hosts[host as usize];
        HostAt {
            port: at.port,
            lid: at.lid.0,
            lids: at.lids,
        }
    }

    /// Handles a lost packet.
    pub(crate) fn lose(&mut self, index: u32, reason: Drop) {
        let packet = *self.packets.get(index);
        self.packets.remove(index);
        self.drops.count(reason);
        self.window.series.drop(self.now);
        match packet.opcode {
            Opcode::Data => self.packet_done(packet.message, true),
            Opcode::Request { .. } => self.request_lost(&packet),
            Opcode::Ack | Opcode::Nak => {}
        }
    }

    /// Called when one packet of a message has arrived or was lost.
    #[inline]
    pub(crate) fn packet_done(&mut self, message: u32, lost: bool) {
        let posted = &mut self.messages[message as usize];
        posted.missing -= 1;
        posted.lost |= lost;
        if posted.missing == 0 {
            let whole = !posted.lost;
            self.arrived(message, whole);
            self.free(message);
        }
    }

    /// Removes a message.
    pub(crate) fn free(&mut self, message: u32) {
        self.messages[message as usize].next = self.free_message;
        self.free_message = message;
    }

    /// Informs the workload that a message has arrived, or that some of it was lost.
    pub(crate) fn arrived(&mut self, message: u32, whole: bool) {
        let posted = &self.messages[message as usize];
        let arrival = Arrival {
            from: posted.from,
            to: posted.to,
            tag: posted.tag,
            posted: posted.created,
            whole,
        };
        self.window.message(self.now, &arrival);
        let mut ready = core::mem::take(&mut self.ready);
        self.workload.arrived(arrival, self.now, &mut ready);
        for host in ready.drain(..) {
            if let Some(early) = self.hosts[host as usize].next.take() {
                self.workload.take_back(host, early);
            }
            self.hosts[host as usize].next = self.workload.next(host, self.now);
            self.wake_for_next(host);
        }
        self.ready = ready;
        self.done = self.workload.is_done();
    }
}

struct HostAt {
    port: u32,
    lid: u16,
    lids: u16,
}
