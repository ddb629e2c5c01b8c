//! End ports send: the subnet asks an endpoint for packets, and delivers those that arrive.

use core::fmt::Debug;

use crate::Simulation;
use crate::endpoint::{EndPort, Endpoint};
use crate::layout::MULTICAST;
use crate::stats::DropReason;
use crate::subnet::Subnet;
use crate::units::blocks;

impl<H: Copy + Debug> Subnet<H> {
    /// Lets an end port send a packet if it can, and plans when to pull it next.
    pub fn pull<E: Endpoint<Header = H>>(&mut self, endpoint: &mut E, port: EndPort) {
        endpoint.prepare(port, self);
        if self.free_at(port) <= self.now && !self.send_one(endpoint, port) || endpoint.lanes(port) == 0 {
            return self.wake_when_due(endpoint, port);
        }
        // More waits, and the port sends.
        self.wake(port, self.free_at(port));
    }

    /// Plans to pull a port when its endpoint will have something more.
    fn wake_when_due<E: Endpoint<Header = H>>(&mut self, endpoint: &E, port: EndPort) {
        if let Some(at) = endpoint.next_due(port, self) {
            self.wake(port, at.max(self.free_at(port)).max(self.now));
        }
    }

    /// Sends a packet of the lane that has the turn. False if there is none, or if it has no credits.
    #[inline]
    fn send_one<E: Endpoint<Header = H>>(&mut self, endpoint: &mut E, port: EndPort) -> bool {
        let out = self.port_of(port);
        if !self.ports[out].up {
            return false;
        }
        let vls = self.vls();
        let mut lanes = endpoint.lanes(port);
        let mut ready = 0_u16;
        let mut short = [0_u8; 16];
        while lanes != 0 {
            let vl = lanes.trailing_zeros() as u8;
            lanes &= lanes - 1;
            let Some(bytes) = endpoint.offer(port, vl, self) else {
                continue;
            };
            let wanted = blocks(bytes) as u8;
            if self.has_credits(out * vls + usize::from(vl), wanted) {
                ready |= 1 << vl;
            } else {
                short[usize::from(vl)] = wanted;
            }
        }
        if ready == 0 {
            for (vl, &wanted) in (0..).zip(&short[..vls]).filter(|(_, wanted)| **wanted > 0) {
                self.wait_for_credits(out as u32, vl, wanted);
            }
            return false;
        }
        let vl = match vls {
            1 => 0,
            _ => self.choose(out, ready),
        };
        let packet = endpoint.take(port, vl, self);
        if vls > 1 {
            self.chosen_sends(out, packet.blocks);
        }
        self.sent += 1;
        let index = self.packets.insert(packet);
        self.put_on_wire(out as u32, vl, index);
        true
    }
}

impl<E: Endpoint> Simulation<E> {
    /// Called when a packet's last byte has reached an end port. Its buffer is free at once.
    #[inline]
    pub(crate) fn deliver(&mut self, to: EndPort, index: u32) {
        let subnet = &mut self.subnet;
        let packet = *subnet.packets.get(index);
        let at = subnet.layout.hosts[to as usize];
        if packet.epoch != subnet.ports[at.port as usize].epoch {
            return self.lose_on_link(index, at.port);
        }
        subnet.give_back(at.port, packet.vl, packet.blocks, subnet.now);
        subnet.came_in(at.port, packet.wire_bytes());
        if packet.dlid.wrapping_sub(at.lid.0) >= at.lids && packet.dlid < MULTICAST {
            return self.lose(index, DropReason::WrongHost);
        }
        subnet.packets.remove(index);
        subnet.received += 1;
        self.endpoint.arrived(to, &packet, &mut self.subnet);
    }

    /// Handles a lost packet.
    pub(crate) fn lose(&mut self, index: u32, reason: DropReason) {
        let packet = *self.subnet.packets.get(index);
        self.subnet.packets.remove(index);
        self.subnet.drops.count(reason);
        self.endpoint.lost(&packet, reason, &mut self.subnet);
    }
}
