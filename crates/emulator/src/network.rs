//! Transport of MADs from port to port: LID routing along the installed tables, and delivery.

use selvedge_chassis::{Counters, DetailRow, Egress, PortIdx};
use selvedge_types::{Lid, PhysState, PortState};
use selvedge_wire::{Address, Class, Datagram, Method};

use crate::client::RequestKey;
use crate::count::DropReason;
use crate::emulator::{Emulator, Event};
use crate::flight::Slot;
use crate::{ClientId, Delivery};

/// Number of links after which a MAD is dropped. The longest useful path is in a ring: 500 hops with a thousand
/// switches.
const HOPS_MAX: u16 = 1_000;

impl Emulator {
    /// Starts a MAD at the client or agent that created it.
    pub(crate) fn inject(&mut self, slot: Slot) {
        let flight = self.flights.at(slot);
        if !self.chassis.is_powered(self.chassis.wire(flight.at).node()) {
            return self.drop(slot, DropReason::NoPower);
        }
        if flight.mad.base_version() != 1 {
            return self.drop(slot, DropReason::Malformed);
        }
        match flight.mad.class() {
            Class::SubnDirected => self.start_directed(slot),
            Class::SubnLid | Class::SubnAdm | Class::PerfMgt | Class::Other(_) => self.start_by_lid(slot),
        }
    }

    /// Handles a MAD at the end of a link.
    pub(crate) fn arrive(&mut self, slot: Slot) {
        let flight = self.flights.at(slot);
        let wire = self.chassis.wire(flight.at);
        // The link may have gone down while the MAD was on it.
        if wire.phys() != PhysState::LinkUp {
            return self.drop(slot, DropReason::LinkDown);
        }
        if flight.dlid != Lid::PERMISSIVE {
            return self.arrive_by_lid(slot);
        }
        if flight.mad.class() == Class::SubnDirected {
            return self.arrive_directed(slot);
        }
        self.take_in(slot);
    }

    /// Sends a MAD to its destination LID from its current port: a CA's, or any of a switch.
    pub(crate) fn start_by_lid(&mut self, slot: Slot) {
        let flight = self.flights.at(slot);
        let at = flight.at;
        if flight.dlid == Lid::PERMISSIVE {
            return self.take_in(slot);
        }
        if self.chassis.wire(self.chassis.end_port(at)).answers_to(flight.dlid) {
            return self.reached_lid(slot);
        }
        let node = self.chassis.wire(at).node();
        if self.chassis.is_switch(node) {
            self.relay(slot, None);
        } else {
            self.cross(slot, at, 0);
        }
    }

    fn arrive_by_lid(&mut self, slot: Slot) {
        let flight = self.flights.at(slot);
        let node = self.chassis.wire(flight.at).node();
        if self
            .chassis
            .wire(self.chassis.end_port(flight.at))
            .answers_to(flight.dlid)
        {
            self.reached_lid(slot);
        } else if self.chassis.is_switch(node) {
            let ingress = flight.at;
            self.relay(slot, Some(ingress));
        } else {
            self.drop(slot, DropReason::WrongLid);
        }
    }

    fn reached_lid(&mut self, slot: Slot) {
        if self.flights.at(slot).mad.class() == Class::SubnDirected {
            self.arrive_directed(slot);
        } else {
            self.take_in(slot);
        }
    }

    /// Relays a MAD along the switch's linear forwarding table.
    pub(crate) fn relay(&mut self, slot: Slot, ingress: Option<PortIdx>) {
        let flight = self.flights.at(slot);
        let node = self.chassis.wire(flight.at).node();
        let reason = match self.chassis.egress(node, flight.dlid) {
            // Source: IBA vol 1 §16.1.3.5 (PortRcvSwitchRelayErrors): output port equal to input port is an error.
            Egress::Port(out) if Some(out) == ingress => DropReason::TurnedBack,
            Egress::Port(out) => return self.cross(slot, out, self.delays.relay),
            Egress::Own => DropReason::WrongLid,
            Egress::NoPath => DropReason::NoPath,
            Egress::NoSuchPort => DropReason::NoSuchPort,
        };
        if let Some(port) = ingress {
            Counters::count(&mut self.chassis.counters_mut(port).rcv_switch_relay_errors);
            // Source: IBA vol 1 §16.1.4.1: PortDLIDMappingErrors, PortLoopingErrors.
            let cause = if reason == DropReason::TurnedBack { 5 } else { 3 };
            Counters::count(&mut self.chassis.detail_mut(port, DetailRow::RcvErrors)[cause]);
        }
        self.drop(slot, reason);
    }

    /// Sends a MAD by the port `out`, `delay` ns from now.
    pub(crate) fn cross(&mut self, slot: Slot, out: PortIdx, delay: u64) {
        let wire = self.chassis.wire(out);
        let Some(peer) = wire.peer() else {
            return self.drop(slot, DropReason::LinkDown);
        };
        let (state, phys) = (wire.state(), wire.phys());
        if phys != PhysState::LinkUp || state == PortState::Down {
            Counters::count(&mut self.chassis.counters_mut(out).xmit_discards);
            // Source: IBA vol 1 §16.1.4.2: PortInactiveDiscards.
            Counters::count(&mut self.chassis.detail_mut(out, DetailRow::XmitDiscards)[0]);
            return self.drop(slot, DropReason::LinkDown);
        }
        let wrapped = wire.is_marked();
        let flight = self.flights.at_mut(slot);
        // Source: IBA vol 1 §7.2.7: only SMPs pass a link if its ports are not ACTIVE.
        let active = state == PortState::Active && self.chassis.wire(peer).state() == PortState::Active;
        if !active && !flight.mad.class().is_smp() {
            return self.drop(slot, DropReason::NotActive);
        }
        if flight.hops >= HOPS_MAX {
            return self.drop(slot, DropReason::HopLimit);
        }
        let first = flight.hops == 0;
        flight.hops += 1;
        flight.at = peer;
        self.chassis.count_mad(out, peer);
        let delay = delay + self.delays.link;
        if wrapped || first && self.wrappers.is_on() {
            self.cross_wrapped(slot, peer, delay, first);
        } else {
            self.schedule(delay, peer, Event::Arrive(slot));
        }
    }

    /// Handles a MAD at its destination node.
    pub(crate) fn take_in(&mut self, slot: Slot) {
        let flight = self.flights.at(slot);
        let own = self.chassis.end_port(flight.at);
        let class = flight.mad.class();
        if !class.is_smp() {
            if self.chassis.wire(own).state() != PortState::Active {
                return self.drop(slot, DropReason::NotActive);
            }
            if !self.chassis.port(own).pkeys.iter().any(|key| key.matches(flight.pkey)) {
                return self.bad_p_key(slot, own);
            }
        }
        match (class, flight.mad.method()) {
            (Class::SubnLid | Class::SubnDirected | Class::PerfMgt, Method::Get | Method::Set)
            | (Class::SubnLid | Class::SubnDirected, Method::TrapRepress) => {
                let for_manager = class.is_smp() && flight.mad.attribute() == selvedge_wire::AttributeId::SM_INFO;
                match self.clients.manager(own) {
                    Some(manager) if for_manager => self.deliver(slot, own, manager),
                    _ => self.enqueue(slot),
                }
            }
            (_, method) if method.is_response() => self.answer_arrived(slot, own),
            (Class::SubnLid | Class::SubnDirected | Class::SubnAdm, _) => {
                // Reports go to the subscriber, not to the manager.
                let to_manager = flight.mad.method() != Method::Report;
                let manager = self.clients.manager(own).filter(|_| to_manager);
                let client = manager.or_else(|| self.clients.listener(own).filter(|_| !to_manager));
                self.deliver_or_drop(slot, own, client);
            }
            (Class::PerfMgt, _) => self.enqueue(slot),
            (Class::Other(_), _) if flight.mad.is_vendor() => self.enqueue(slot),
            (Class::Other(_), _) => self.deliver_or_drop(slot, own, self.clients.listener(own)),
        }
    }

    /// Delivers a response to the requesting client.
    fn answer_arrived(&mut self, slot: Slot, own: PortIdx) {
        let flight = self.flights.at(slot);
        let sits_here = |id: &ClientId| self.clients.get(*id).is_some_and(|c| c.port == own);
        let asked = flight.origin.filter(sits_here);
        let key = request_key(flight.slid, &flight.mad);
        let client = asked.or_else(|| self.clients.seat(own)?.asker(key));
        // The route was corrupted, or a manager answered under another LID: if there is a single client, it must be the
        // one.
        let client = client.or_else(|| match self.clients.seat(own)?.clients[..] {
            [only] => Some(only),
            _ => None,
        });
        self.deliver_or_drop(slot, own, client);
    }

    fn deliver_or_drop(&mut self, slot: Slot, own: PortIdx, client: Option<ClientId>) {
        match client {
            Some(client) => self.deliver(slot, own, client),
            None => self.drop(slot, DropReason::NoClient),
        }
    }

    fn deliver(&mut self, slot: Slot, own: PortIdx, client: ClientId) {
        let flight = self.flights.at(slot);
        if !flight.mad.method().is_response() {
            self.remember_asker(slot, own);
        }
        let flight = self.flights.at(slot);
        self.counts.delivered.add(&flight.mad);
        self.outbox.push(Delivery {
            client,
            at: self.now,
            datagram: Datagram {
                address: Address {
                    lid: flight.slid,
                    qp: flight.qp,
                    sl: flight.sl,
                },
                mad: flight.mad,
            },
        });
        self.flights.release(slot);
    }

    /// Records the requesting client for a request to another client, because the response will be a new datagram.
    fn remember_asker(&mut self, slot: Slot, own: PortIdx) {
        let flight = self.flights.at(slot);
        let Some((asker, from)) = flight.origin.and_then(|id| Some((id, self.clients.get(id)?.port))) else {
            return;
        };
        let peer = match flight.slid {
            Lid::PERMISSIVE => Lid::PERMISSIVE,
            _ => self.chassis.port(own).settings().lids.base,
        };
        let key = request_key(peer, &flight.mad);
        if let Some(seat) = self.clients.seat_mut(from) {
            seat.remember(key, asker);
        }
    }
}

fn request_key(peer: Lid, mad: &selvedge_wire::Mad) -> RequestKey {
    RequestKey {
        peer,
        class: mad.class().code(),
        transaction: mad.transaction(),
    }
}
