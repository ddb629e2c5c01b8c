//! Messages: taken from the workload, cut into packets, and completed.

use super::{Arrival, Header, Host, Hosts, Message, Opcode, Posted, Workload, hash};
use crate::packet::{NIL, Packet};
use crate::settings::{Settings, SlChoice, Transport};
use crate::subnet::Subnet;
use crate::units::Ps;

impl<W: Workload> Hosts<W> {
    /// Posts messages that are due, or counts them as missed if too many are waiting.
    #[inline(always)]
    pub(super) fn post_due(&mut self, host: Host, until: Ps, subnet: &mut Subnet<Header>) {
        while let Some(next) = &self.hosts[host as usize].next
            && next.at <= until
        {
            let message = *next;
            let (sl, vl) = self.lane_of(host, &message, subnet);
            if self.waiting[Self::place(subnet, host, vl)].count < subnet.settings().source_queue {
                self.post(host, message, (sl, vl), subnet);
            } else {
                self.window.missed(&message);
            }
            self.hosts[host as usize].next = self.workload.next(host, message.at.max(subnet.now()));
        }
    }

    /// Returns the service level and lane of a message.
    fn lane_of(&mut self, host: Host, message: &Message, subnet: &Subnet<Header>) -> (u8, u8) {
        let settings = subnet.settings();
        let vls = settings.vls;
        let sl = message.sl.unwrap_or_else(|| match settings.sl {
            SlChoice::Routing | SlChoice::DestHash => self.sls[message.to as usize],
            SlChoice::Random => self.hosts[host as usize].rng.below(u64::from(vls)) as u8,
            SlChoice::Flow => {
                let lid = |host: Host| u64::from(subnet.end_ports()[host as usize].lid.0);
                (hash(lid(host) << 16 | lid(message.to)) % u64::from(vls)) as u8
            }
        });
        (sl, subnet.lane(host, sl).min(vls - 1))
    }

    fn post(&mut self, host: Host, message: Message, (sl, vl): (u8, u8), subnet: &Subnet<Header>) {
        self.window.posted(&message);
        let settings = subnet.settings();
        let mtu = u32::from(settings.mtu.bytes());
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
            dlid: subnet.end_ports()[message.to as usize].lid.0,
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
        let waiting = &mut self.waiting[Self::place(subnet, host, vl)];
        waiting.count += 1;
        if settings.transport != Transport::None {
            return self.post_to_qp(index, posted.missing, subnet);
        }
        if waiting.head == NIL {
            waiting.head = index;
        } else {
            self.messages[waiting.tail as usize].next = index;
        }
        waiting.tail = index;
        self.hosts[host as usize].lanes |= 1 << vl;
    }

    /// Returns the length on the wire of a message's next packet, in bytes.
    #[inline]
    pub(super) fn next_packet_bytes(&self, message: u32, settings: &Settings) -> u32 {
        let posted = &self.messages[message as usize];
        let payload = posted.unsent.min(u32::from(settings.mtu.bytes()));
        payload + settings.overhead(payload, posted.unsent == posted.bytes)
    }

    /// Creates the next packet of a lane's first message. The last one removes the message from the lane.
    #[inline(always)]
    pub(super) fn cut(&mut self, host: Host, vl: u8, subnet: &Subnet<Header>) -> Packet<Header> {
        let settings = subnet.settings();
        let waiting = &mut self.waiting[Self::place(subnet, host, vl)];
        let message = waiting.head;
        let posted = &mut self.messages[message as usize];
        let payload = posted.unsent.min(u32::from(settings.mtu.bytes()));
        let overhead = settings.overhead(payload, posted.unsent == posted.bytes);
        posted.unsent -= payload;
        let header = Header {
            created: posted.created,
            message,
            qp: NIL,
            psn: 0,
            opcode: Opcode::Data,
            last: posted.unsent == 0,
        };
        if posted.unsent == 0 {
            waiting.head = posted.next;
            waiting.count -= 1;
            if posted.next == NIL {
                self.hosts[host as usize].lanes &= !(1 << vl);
            }
        }
        let lids = (subnet.end_ports()[host as usize].lid.0, posted.dlid);
        Packet::new(header, lids, posted.sl, payload as u16, overhead as u8)
    }

    /// Called when one packet of a message has arrived or was lost.
    #[inline]
    pub(super) fn packet_done(&mut self, message: u32, lost: bool, subnet: &mut Subnet<Header>) {
        let posted = &mut self.messages[message as usize];
        posted.missing -= 1;
        posted.lost |= lost;
        if posted.missing == 0 {
            let whole = !posted.lost;
            self.message_ended(message, whole, subnet);
            self.free(message);
        }
    }

    /// Removes a message.
    pub(super) fn free(&mut self, message: u32) {
        self.messages[message as usize].next = self.free_message;
        self.free_message = message;
    }

    /// Informs the workload that a message has arrived, or that some of it was lost.
    pub(super) fn message_ended(&mut self, message: u32, whole: bool, subnet: &mut Subnet<Header>) {
        let posted = &self.messages[message as usize];
        let arrival = Arrival {
            from: posted.from,
            to: posted.to,
            tag: posted.tag,
            posted: posted.created,
            whole,
        };
        let now = subnet.now();
        self.window.message(now, &arrival);
        let mut ready = core::mem::take(&mut self.ready);
        self.workload.arrived(arrival, now, &mut ready);
        for host in ready.drain(..) {
            if let Some(early) = self.hosts[host as usize].next.take() {
                self.workload.take_back(host, early);
            }
            self.hosts[host as usize].next = self.workload.next(host, now);
            self.wake_for_next(host, subnet);
        }
        self.ready = ready;
        self.done = self.workload.is_done();
    }
}
