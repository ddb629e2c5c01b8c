//! Directed routes: each hop rewrites the SMP. Source: IBA vol 1 §14.2.2.
//!
//! The hop pointer counts the completed hops. On the way out each switch records its ingress port in the return path
//! and uses the initial path; on the way back it uses the return path. A directed route may begin and end with a
//! LID-routed part; without one, DrSLID or DrDLID is permissive.

use selvedge_types::Lid;

use crate::count::DropReason;
use crate::emulator::Emulator;
use crate::flight::Slot;

/// Largest number of hops. Source: IBA vol 1 §14.2.1.2: the path vectors have 64 bytes, byte 0 unused.
const HOP_COUNT_MAX: u8 = 63;

impl Emulator {
    /// Starts a directed-route SMP of a client or agent.
    pub(crate) fn start_directed(&mut self, slot: Slot) {
        let flight = self.flights.at_mut(slot);
        let mad = &mut flight.mad;
        if mad.hop_count() > HOP_COUNT_MAX {
            return self.drop(slot, DropReason::Malformed);
        }
        if mad.is_returning() {
            // Senders may leave the hop pointer as they received it, or (on ibsim) at 0, because the starting point of
            // a response is known.
            mad.set_hop_pointer(mad.hop_count() + 1);
            return self.directed_back(slot, false);
        }
        if mad.hop_pointer() != 0 {
            return self.drop(slot, DropReason::Malformed);
        }
        if flight.dlid != Lid::PERMISSIVE {
            return self.start_by_lid(slot);
        }
        if mad.hop_count() == 0 {
            return self.end_of_route(slot);
        }
        mad.set_hop_pointer(1);
        let (exit, at) = (mad.initial_path(1), flight.at);
        // A channel adapter sends only by the sender's own port.
        let wire = self.chassis.wire(at);
        if !self.chassis.is_switch(wire.node()) && wire.num().get() != exit {
            return self.drop(slot, DropReason::NoSuchPort);
        }
        self.leave_by(slot, exit, 0);
    }

    /// Handles a directed-route SMP that arrives at a node from a link, or at the end of a LID-routed part.
    pub(crate) fn arrive_directed(&mut self, slot: Slot) {
        let flight = self.flights.at_mut(slot);
        let mad = &mut flight.mad;
        let (pointer, count) = (mad.hop_pointer(), mad.hop_count());
        if count > HOP_COUNT_MAX {
            return self.drop(slot, DropReason::Malformed);
        }
        if mad.is_returning() {
            return self.directed_back(slot, true);
        }
        let wire = self.chassis.wire(flight.at);
        let by_lid = flight.dlid != Lid::PERMISSIVE;
        let is_switch = self.chassis.is_switch(wire.node());
        if pointer > count {
            // The LID-routed part after the directed one has ended here.
            let expected = pointer == count + 1 && by_lid;
            return if expected {
                self.take_in(slot)
            } else {
                self.drop(slot, DropReason::Malformed)
            };
        }
        if pointer == count {
            if count > 0 {
                mad.set_return_path(pointer, wire.num().get());
            }
            return self.end_of_route(slot);
        }
        if pointer == 0 && !by_lid {
            return self.drop(slot, DropReason::Malformed);
        }
        if !is_switch {
            return self.drop(slot, DropReason::NotASwitch);
        }
        if pointer > 0 {
            mad.set_return_path(pointer, wire.num().get());
        }
        mad.set_hop_pointer(pointer + 1);
        let exit = mad.initial_path(pointer + 1);
        (flight.slid, flight.dlid) = (Lid::PERMISSIVE, Lid::PERMISSIVE);
        self.leave_by(slot, exit, self.delays.directed);
    }

    /// Handles an SMP at the end of its directed part.
    fn end_of_route(&mut self, slot: Slot) {
        let flight = self.flights.at_mut(slot);
        flight.mad.set_hop_pointer(flight.mad.hop_count() + 1);
        let onward = flight.mad.dr_dlid();
        if onward == Lid::PERMISSIVE {
            return self.take_in(slot);
        }
        let own = self.chassis.end_port(flight.at);
        if !self.chassis.is_switch(self.chassis.wire(own).node()) {
            return self.drop(slot, DropReason::NotASwitch);
        }
        // The response must come back to this switch, so its LID is the source of the LID-routed part.
        (flight.slid, flight.dlid) = (self.chassis.port(own).settings().lids.base, onward);
        self.start_by_lid(slot);
    }

    /// Makes one step on the return path. `relayed`: the SMP came from another node, so this node must be a switch to
    /// forward it.
    fn directed_back(&mut self, slot: Slot, relayed: bool) {
        let flight = self.flights.at_mut(slot);
        let mad = &mut flight.mad;
        let (pointer, count) = (mad.hop_pointer(), mad.hop_count());
        let is_switch = self.chassis.is_switch(self.chassis.wire(flight.at).node());
        // A response that starts with a LID-routed part: the switch at its end makes the first directed step.
        if !relayed && mad.dr_dlid() != Lid::PERMISSIVE && flight.dlid != Lid::PERMISSIVE {
            return self.start_by_lid(slot);
        }
        match pointer {
            0 => self.take_in(slot),
            1 => self.back_at_start(slot, is_switch),
            pointer if pointer <= count + 1 => {
                if relayed && !is_switch {
                    return self.drop(slot, DropReason::NotASwitch);
                }
                let exit = mad.return_path(pointer - 1);
                mad.set_hop_pointer(pointer - 1);
                (flight.slid, flight.dlid) = (Lid::PERMISSIVE, Lid::PERMISSIVE);
                let delay = if relayed { self.delays.directed } else { 0 };
                self.leave_by(slot, exit, delay);
            }
            _ => self.drop(slot, DropReason::Malformed),
        }
    }

    /// Handles a response at the end of the directed part of its way back.
    fn back_at_start(&mut self, slot: Slot, is_switch: bool) {
        let flight = self.flights.at_mut(slot);
        flight.mad.set_hop_pointer(0);
        let home = flight.mad.dr_slid();
        if home == Lid::PERMISSIVE {
            return self.take_in(slot);
        }
        if !is_switch {
            return self.drop(slot, DropReason::NotASwitch);
        }
        let own = self.chassis.end_port(flight.at);
        (flight.slid, flight.dlid) = (self.chassis.port(own).settings().lids.base, home);
        self.start_by_lid(slot);
    }

    fn leave_by(&mut self, slot: Slot, exit: u8, delay: u64) {
        let node = self.chassis.wire(self.flights.at(slot).at).node();
        match self.chassis.port_at(node, exit).filter(|_| exit != 0) {
            Some(out) => self.cross(slot, out, delay),
            None => self.drop(slot, DropReason::NoSuchPort),
        }
    }
}
