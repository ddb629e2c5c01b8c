//! The side of the fabric: packets out by pull, packets in.

use selvedge_types::PKey;

use super::Hca;
use crate::attr::{QpState, Transport};
use crate::event::EventType;
use crate::outgoing::{Next, Outgoing};
use crate::packet::{Body, Deth, PSN_MASK, Packet};
use crate::path::{self, Arrival};
use crate::port::Port;
use crate::qp::{Half, QueuePair};
use crate::requester;
use crate::responder;
use crate::time::Ps;
use crate::work::Datagram;

impl Hca {
    /// Returns the service levels on which queue pairs of a port wait for their turn, as bits. A bit may be set
    /// although [`Hca::peek`] has no packet.
    #[must_use]
    pub fn waiting(&self, port: u8) -> u16 {
        self.port(port).map_or(0, Port::waiting)
    }

    /// Returns the length on the wire of the packet that [`Hca::take`] would return now.
    pub fn peek(&mut self, now: Ps, port: u8, sl: u8) -> Option<u32> {
        self.front(now, port, sl).map(|(_, packet)| packet.wire_bytes())
    }

    /// Returns the next packet of a service level, which is on the wire from now on.
    pub fn take(&mut self, now: Ps, port: u8, sl: u8) -> Option<Packet> {
        let (index, packet) = self.front(now, port, sl)?;
        let at = &mut self.ports[usize::from(port) - 1];
        at.drop_turn(sl);
        at.counts.sent += 1;
        if let Some(qp) = self.qps.at_mut(index) {
            qp.turn = None;
        }
        self.advance(now, index);
        self.kick(now, index);
        if packet.dlid.is_multicast() {
            // Members at this port get their copy here: switches send none back.
            self.hand_to_members(now, port, &packet, Some(index));
        }
        Some(packet)
    }

    /// Returns the queue pair with the next turn and its packet. Turns that are not valid any more are removed.
    fn front(&mut self, now: Ps, port: u8, sl: u8) -> Option<(u32, Packet)> {
        if !self.port(port).is_ok_and(Port::is_active) {
            return None;
        }
        let pace = self.pace();
        loop {
            let (index, ticket) = self.ports[usize::from(port) - 1].next_turn(sl)?;
            let stands = |qp: &&QueuePair| qp.ticket == ticket && qp.turn == Some((port, sl));
            let Some(qp) = self.qps.at(index).filter(stands) else {
                self.ports[usize::from(port) - 1].drop_turn(sl);
                continue;
            };
            if let (Next::Now(next), half) = qp.next(now, pace)
                && self.place(qp, next.datagram.as_ref()) == (port, sl)
                && !self.must_load(now, index)
                && let Some(qp) = self.qps.at(index)
            {
                return Some((index, self.build(qp, &next, half)));
            }
            self.ports[usize::from(port) - 1].drop_turn(sl);
            if let Some(qp) = self.qps.at_mut(index) {
                qp.turn = None;
            }
            self.kick(now, index);
        }
    }

    /// Looks for the context of a queue pair in the cache. True if it has to be loaded before the next packet.
    fn must_load(&mut self, now: Ps, index: u32) -> bool {
        let cost = self.config.costs.context_load_ps;
        let Some(qp) = self.qps.at_mut(index) else { return false };
        if qp.loaded || !self.cache.touch(index) {
            return false;
        }
        qp.loaded = true;
        qp.occupy(now, cost);
        cost > 0
    }

    /// Returns the port and service level of a packet of a queue pair.
    pub(super) fn place(&self, qp: &QueuePair, datagram: Option<&Datagram>) -> (u8, u8) {
        let path = qp.path.in_use();
        let address = datagram.and_then(|to| self.ahs.get(to.ah).ok());
        let sl = address.map_or(path.ah.sl, |ah| ah.attr.sl);
        (path.port, sl.get())
    }

    fn build(&self, qp: &QueuePair, next: &Outgoing, half: Half) -> Packet {
        let path = qp.path.in_use();
        let to = next.datagram.as_ref();
        let ah = to.and_then(|to| self.ahs.get(to.ah).ok()).map_or(path.ah, |ah| ah.attr);
        let port = &self.ports[usize::from(path.port) - 1];
        Packet {
            slid: port.source(ah.src_path_bits),
            dlid: ah.dlid,
            sl: ah.sl,
            pkey: port.pkey(path.pkey_index).unwrap_or(PKey::NOBODYS),
            grh: ah.grh,
            dest_qp: to.map_or(qp.attr.dest_qp_num, |to| to.remote_qpn),
            psn: (next.psn & PSN_MASK) as u32,
            mig_req: qp.path.mig_req(),
            msn: match half {
                Half::Request => 0,
                Half::Answer => qp.responder.msn(),
            },
            deth: to.map(|to| Deth {
                // Bit 31 chooses the queue pair's own key. Source: IBA vol 1 §10.2.5.
                qkey: if to.remote_qkey >> 31 == 1 {
                    qp.attr.qkey
                } else {
                    to.remote_qkey
                },
                src_qp: qp.number,
            }),
            body: next.body,
            payload: next.payload,
            tag: next.tag,
        }
    }

    /// Handles a packet with the last byte arriving now at a port, from 1.
    pub fn receive(&mut self, now: Ps, port: u8, packet: &Packet) {
        if self.port(port).is_err() {
            return;
        }
        let at = &mut self.ports[usize::from(port) - 1];
        at.counts.received += 1;
        if !at.is_active() {
            at.counts.received_down += 1;
            return;
        }
        if packet.dlid.is_multicast() {
            return self.hand_to_members(now, port, packet, None);
        }
        if !at.attr().lids.contains(packet.dlid) {
            at.counts.wrong_lid += 1;
            return;
        }
        // A number has the place in its lower 18 bits, after the numbers 0 and 1.
        let index = (packet.dest_qp & 0x3_FFFF).wrapping_sub(2);
        let fits = |qp: &&QueuePair| qp.number == packet.dest_qp && is_for(qp, packet);
        if self.qps.at(index).filter(fits).is_none() {
            self.ports[usize::from(port) - 1].counts.no_qp += 1;
            return;
        }
        self.deliver(now, port, index, packet);
        self.kick(now, index);
    }

    fn hand_to_members(&mut self, now: Ps, port: u8, packet: &Packet, sender: Option<u32>) {
        for index in self.groups.of(packet.grh, packet.dlid) {
            let fits = |qp: &&QueuePair| qp.path.in_use().port == port && is_for(qp, packet);
            if sender != Some(index) && self.qps.at(index).filter(fits).is_some() {
                self.deliver(now, port, index, packet);
            }
        }
    }

    /// Checks keys and path of a packet, and hands it to its half of the queue pair.
    fn deliver(&mut self, now: Ps, port: u8, index: u32, packet: &Packet) {
        let load = self.config.costs.context_load_ps;
        let Some(qp) = self.qps.at_mut(index) else { return };
        let at = &mut self.ports[usize::from(port) - 1];
        let indexes = [qp.path.in_use().pkey_index, qp.path.alternate().pkey_index];
        let keys = indexes.map(|index| at.pkey(index));
        if !keys.into_iter().flatten().any(|key| key.matches(packet.pkey)) {
            at.counts.pkey_violations += 1;
            return;
        }
        if let Some(deth) = packet.deth
            && deth.qkey != qp.attr.qkey
        {
            at.counts.qkey_violations += 1;
            return;
        }
        if self.cache.touch(index) {
            qp.occupy(now, load);
        }
        let transport = qp.init.transport;
        if transport != Transport::Ud && !self.by_a_path(now, port, index, packet) {
            self.ports[usize::from(port) - 1].counts.wrong_path += 1;
            return;
        }
        let Some(qp) = self.qps.at_mut(index) else { return };
        let begins = qp.state == QpState::Rtr && !core::mem::replace(&mut qp.established, true);
        if begins {
            self.raise_of(now, index, EventType::CommEst);
        }
        match packet.body {
            Body::Request { .. } => self.run_receiver(now, index, responder::In::Request(packet)),
            body => {
                let psn = packet.psn;
                self.run_sender(now, index, requester::In::Answer { psn, body });
            }
        }
    }

    /// Shows a packet to the path machine. False if the packet is dropped.
    fn by_a_path(&mut self, now: Ps, port: u8, index: u32, packet: &Packet) -> bool {
        let arrival = Arrival {
            port,
            slid: packet.slid,
            dlid: packet.dlid,
            mig_req: packet.mig_req,
        };
        match self.run_path(now, index, path::In::Arrived(arrival)) {
            path::Out::Accept | path::Out::Armed | path::Out::Migrated => true,
            path::Out::Drop | path::Out::Refused { .. } => false,
        }
    }
}

/// True if a packet has the transport of a queue pair that handles packets now.
fn is_for(qp: &QueuePair, packet: &Packet) -> bool {
    let datagram = packet.deth.is_some();
    let is_request = matches!(packet.body, Body::Request { .. });
    let transport = match qp.init.transport {
        Transport::Rc => !datagram,
        Transport::Uc => !datagram && is_request,
        Transport::Ud => datagram && is_request,
    };
    // Answers come to a send queue that has sent something.
    let half = is_request || qp.sends();
    transport && half && qp.state.receives()
}
