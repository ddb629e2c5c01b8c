//! The side of the fabric: packets out by pull, packets in.

use std::cmp::Reverse;

use selvedge_types::PKey;

use super::Hca;
use crate::attr::{AhAttr, QpState, Transport};
use crate::credits::NOT_TOLD;
use crate::event::EventType;
use crate::outgoing::{Next, Outgoing};
use crate::packet::{Body, Deth, PSN_MASK, Packet};
use crate::path::{self, Arrival};
use crate::port::{LOOPBACK, Port};
use crate::qp::{Half, QueuePair};
use crate::requester;
use crate::responder;
use crate::time::{Ps, rate_time};
use crate::work::Datagram;

/// Bit of a timer that is not of a queue pair, but of a port's packets to itself; the lower bits are its number.
pub(super) const LOOPBACK_TIMER: u32 = 1 << 31;

/// The packet that a port sends next on a service level.
struct Front {
    /// The queue pair.
    index: u32,
    packet: Packet,
    next: Outgoing,
    half: Half,
    /// The queue pair's next packet follows after this time, or later.
    pace: Ps,
}

impl Hca {
    /// Returns the service levels on which queue pairs of a port wait for their turn, as bits. A bit may be set
    /// although [`Hca::peek`] has no packet.
    #[must_use]
    pub fn waiting(&self, port: u8) -> u16 {
        self.port(port).map_or(0, Port::waiting)
    }

    /// Returns the length on the wire of the packet that [`Hca::take`] would return now.
    pub fn peek(&mut self, now: Ps, port: u8, sl: u8) -> Option<u32> {
        self.front(now, port, sl).map(|front| front.packet.wire_bytes())
    }

    /// Returns the next packet of a service level, which is on the wire from now on.
    pub fn take(&mut self, now: Ps, port: u8, sl: u8) -> Option<Packet> {
        let Front {
            index,
            packet,
            next,
            half,
            pace,
        } = self.front(now, port, sl)?;
        let at = &mut self.ports[usize::from(port) - 1];
        at.drop_turn(sl);
        at.counts.sent += u64::from(sl != LOOPBACK);
        if let Some(qp) = self.qps.at_mut(index) {
            qp.turn = None;
            qp.paced_until = now + pace;
        }
        self.advance(now, index, next, half);
        self.kick(now, index);
        if packet.dlid.is_multicast() {
            // Members at this port get their copy here: switches send none back.
            self.hand_to_members(now, port, &packet, Some(index));
        }
        Some(packet)
    }

    /// Has the next packet of a port to itself come back, one at a time. Source: IBA vol 1 §17.2.2 (no such packet
    /// leaves the adapter).
    pub(super) fn set_loopback(&mut self, now: Ps, port: u8) {
        let at = &mut self.ports[usize::from(port) - 1];
        if !core::mem::replace(&mut at.loopback_set, true) {
            let entry = (now + self.config.costs.loopback_ps, LOOPBACK_TIMER | u32::from(port));
            self.timers.push(Reverse(entry));
        }
    }

    /// Handles the next packet of a port to itself.
    pub(super) fn loop_back(&mut self, now: Ps, port: u8) {
        self.ports[usize::from(port) - 1].loopback_set = false;
        if let Some(packet) = self.take(now, port, LOOPBACK) {
            self.accept(now, port, &packet);
        }
        if self.ports[usize::from(port) - 1].next_turn(LOOPBACK).is_some() {
            self.set_loopback(now, port);
        }
    }

    /// Returns the packet with the next turn. Turns that are not valid any more are removed.
    fn front(&mut self, now: Ps, port: u8, sl: u8) -> Option<Front> {
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
                let packet = self.build(qp, &next, half);
                let rate = self.address(qp, next.datagram.as_ref()).static_rate;
                return Some(Front {
                    pace: rate_time(rate, packet.wire_bytes()),
                    index,
                    packet,
                    next,
                    half,
                });
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

    /// Returns the port and service level of a packet of a queue pair; [`LOOPBACK`] if it is for the port itself.
    pub(super) fn place(&self, qp: &QueuePair, datagram: Option<&Datagram>) -> (u8, u8) {
        let (port, ah) = (qp.path.in_use().port, self.address(qp, datagram));
        let own = self.ports[usize::from(port) - 1].is_own(ah.dlid);
        (port, if own { LOOPBACK } else { ah.sl.get() })
    }

    /// Returns the address of a packet of a queue pair.
    fn address<'a>(&'a self, qp: &'a QueuePair, datagram: Option<&Datagram>) -> &'a AhAttr {
        let address = datagram.and_then(|to| self.ahs.get(to.ah).ok());
        address.map_or(&qp.path.in_use().ah, |ah| &ah.attr)
    }

    fn build(&self, qp: &QueuePair, next: &Outgoing, half: Half) -> Packet {
        let path = qp.path.in_use();
        let to = next.datagram.as_ref();
        let ah = self.address(qp, to);
        let port = &self.ports[usize::from(path.port) - 1];
        let (msn, credits) = match half {
            Half::Request => (0, NOT_TOLD),
            Half::Answer => qp.responder.told(),
        };
        Packet {
            slid: port.source(ah.src_path_bits),
            dlid: ah.dlid,
            sl: ah.sl,
            pkey: port.pkey(path.pkey_index).unwrap_or(PKey::NOBODYS),
            grh: ah.grh,
            dest_qp: to.map_or(qp.attr.dest_qp_num, |to| to.remote_qpn),
            psn: (next.psn & PSN_MASK) as u32,
            mig_req: qp.path.mig_req(),
            msn,
            credits,
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
        self.accept(now, port, packet);
    }

    /// Handles a unicast packet that has arrived at an ACTIVE port.
    fn accept(&mut self, now: Ps, port: u8, packet: &Packet) {
        let at = &mut self.ports[usize::from(port) - 1];
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
                let (psn, told) = (packet.psn, (packet.msn, packet.credits));
                self.run_sender(now, index, requester::In::Answer { psn, told, body });
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
