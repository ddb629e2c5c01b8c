//! Switches copy multicast packets.
//!
//! Copies wait one behind the other in the queue of the packet's input and leave one by one, as other packets do. They
//! share the packet's blocks in the buffer, which are free when the last copy has left. Source: IBA vol 1 §18.2.4.3.3
//! (which ports get a copy: those of the table's entry, except the input).

use core::fmt::Debug;

use selvedge_fabric::SwitchIdx;
use selvedge_plan::multicast::PortMask;
use selvedge_types::Lid;

use crate::Simulation;
use crate::endpoint::Endpoint;
use crate::packet::{NIL, Spot};
use crate::queues::Here;
use crate::stats::DropReason;
use crate::subnet::Subnet;
use crate::units::Ps;

impl<H: Copy + Debug> Subnet<H> {
    /// Frees the blocks of a packet that has left an input, when its last copy has left.
    #[inline]
    pub(crate) fn leave_buffer(&mut self, into: u32, index: u32, spot: Spot, at: Ps) {
        let copies = self.packets.get(index).copies;
        let mut free_at = at;
        if copies != NIL {
            self.packets.get_mut(index).copies = NIL;
            let (left, until) = &mut self.copies[copies as usize];
            *left -= 1;
            *until = at.max(*until);
            free_at = *until;
            if *left > 0 {
                return;
            }
            self.free_copies.push(copies);
        }
        if spot.shared {
            self.free_shared(into, spot.vl, spot.blocks, free_at);
        } else {
            self.give_back(into, spot.vl, spot.blocks, free_at);
        }
    }

    /// Returns a record of this many copies of a packet; [`NIL`] if there is only the packet.
    fn share_buffer(&mut self, copies: u32) -> u32 {
        if copies < 2 {
            return NIL;
        }
        if let Some(place) = self.free_copies.pop() {
            self.copies[place as usize] = (copies, 0);
            return place;
        }
        self.copies.push((copies, 0));
        (self.copies.len() - 1) as u32
    }

    /// Delays a packet that some output could not get in time. Returns true once per packet.
    fn holds_copies_back(&mut self, switch: Here, index: u32, mask: PortMask) -> bool {
        let input = self.packets.get(index).input;
        let ports = self.layout.switches[switch.index as usize].ports;
        let outputs = mask
            .iter()
            .map(|port| port.get())
            .filter(|&port| port > 0 && port <= ports);
        let fastest = outputs
            .map(|port| switch.port(port))
            .min_by_key(|&out| self.ports[out as usize].byte_time.of(1 << 20));
        fastest.is_some_and(|out| self.holds_back(switch, index, switch.port(input), out))
    }

    /// Returns the outputs of a multicast packet with their lanes. Those that are down or have no lane count a drop.
    fn outputs(&mut self, switch: Here, index: u32, mask: PortMask) -> Vec<(u8, u8)> {
        let packet = self.packets.get(index);
        let (input, sl) = (packet.input, packet.sl);
        let ports = self.layout.switches[switch.index as usize].ports;
        let mut outputs = Vec::new();
        for output in mask.iter().map(|port| port.get()) {
            // The switch's own port takes no packets here.
            if output == 0 || output > ports || output == input {
                continue;
            }
            let vl = self.layout.lane(switch.index, input, output, sl);
            if !self.ports[switch.port(output) as usize].up {
                self.count_drop(switch.port(output), DropReason::LinkDown);
            } else if vl >= self.settings.vls {
                self.count_drop(switch.port(input), DropReason::Lane);
            } else {
                outputs.push((output, vl));
            }
        }
        outputs
    }
}

impl<E: Endpoint> Simulation<E> {
    /// Called when a multicast packet's first byte can be forwarded.
    pub(crate) fn copy(&mut self, switch: Here, index: u32) {
        let subnet = &mut self.subnet;
        let packet = *subnet.packets.get(index);
        let input = switch.port(packet.input);
        let mask = subnet.layout.multicast.mask(SwitchIdx(switch.index), Lid(packet.dlid));
        if subnet.layout.mixed && !packet.held && subnet.holds_copies_back(switch, index, mask) {
            return;
        }
        let outputs = subnet.outputs(switch, index, mask);
        if outputs.is_empty() {
            if mask.is_empty() {
                subnet.count_drop(input, DropReason::NoEntry);
            }
            return self.drop_arrived(index, input, DropReason::NoEntry);
        }
        let shared = subnet.take_shared(input, packet.vl, packet.blocks);
        if shared {
            subnet.give_back(input, packet.vl, packet.blocks, subnet.now);
        }
        let mut copy = packet;
        (copy.arrived, copy.shared, copy.held, copy.next) = (subnet.now, shared, false, NIL);
        copy.copies = subnet.share_buffer(outputs.len() as u32);
        subnet.sent += outputs.len() as u64 - 1;
        subnet.ports[input as usize].queued += outputs.len() as u32;
        let mut indexes = Vec::with_capacity(outputs.len());
        for (number, &(output, vl)) in outputs.iter().enumerate() {
            (copy.output, copy.output_vl) = (output, vl);
            if number == 0 {
                *subnet.packets.get_mut(index) = copy;
                indexes.push(index);
            } else {
                indexes.push(subnet.packets.insert(copy));
            }
        }
        for index in indexes {
            let spot = self.subnet.packets.get(index).spot();
            self.join_queue::<false>(switch, index, spot);
        }
    }
}
