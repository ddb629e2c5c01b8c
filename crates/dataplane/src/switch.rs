//! Switches: packets arrive, wait, are chosen, and leave.
//!
//! An output looks for a packet after each of these events:
//!
//! - a packet for it has become the first of its queue;
//! - its current packet has ended;
//! - an input with a packet for it can send again;
//! - credits have arrived.
//!
//! The end of a packet is an event only if another packet waits for it.

use crate::Simulation;
use crate::endpoint::Endpoint;
use crate::layout::MULTICAST;
use crate::packet::{NIL, Spot};
use crate::queues::Here;
use crate::sets::next_port;
use crate::stats::DropReason;

impl<E: Endpoint> Simulation<E> {
    /// Called when a packet's first byte can be forwarded.
    #[inline]
    pub(crate) fn arrive<const PLAIN: bool>(&mut self, switch: Here, index: u32) {
        let packet = self.subnet.packets.get(index);
        let (dlid, sl, epoch, mut spot) = (packet.dlid, packet.sl, packet.epoch, packet.spot());
        let held = !PLAIN && packet.held;
        let bytes = packet.wire_bytes();
        let input = switch.port(spot.input);
        if epoch != self.subnet.ports[input as usize].epoch {
            return self.lose_on_link(index, input);
        }
        if !held {
            self.subnet.came_in(input, bytes);
        }
        let output = self.subnet.layout.entry(switch.index, dlid);
        if !PLAIN && dlid >= MULTICAST {
            return self.copy(switch, index);
        }
        let out = switch.port(output);
        let reason = match output {
            255 => Some(DropReason::NoEntry),
            0 => Some(DropReason::ToSwitch),
            _ if !self.subnet.ports[out as usize].up => Some(DropReason::LinkDown),
            _ => None,
        };
        if let Some(reason) = reason {
            self.subnet
                .count_drop(if reason == DropReason::LinkDown { out } else { input }, reason);
            return self.drop_arrived(index, input, reason);
        }
        let output_vl = if PLAIN {
            self.subnet.layout.lanes[usize::from(sl % 16)]
        } else {
            self.subnet.layout.lane(switch.index, spot.input, output, sl)
        };
        if output_vl >= self.subnet.settings.vls {
            self.subnet.count_drop(input, DropReason::Lane);
            return self.drop_arrived(index, input, DropReason::Lane);
        }
        if !PLAIN && self.subnet.layout.mixed && !held && self.subnet.holds_back(switch, index, input, out) {
            return;
        }
        let shared = !PLAIN && !self.subnet.pools.is_empty() && self.subnet.take_shared(input, spot.vl, spot.blocks);
        if shared {
            self.subnet.give_back(input, spot.vl, spot.blocks, self.subnet.now);
        }
        let now = self.subnet.now;
        let stored = self.subnet.packets.get_mut(index);
        (stored.arrived, stored.output, stored.output_vl) = (now, output, output_vl);
        (stored.shared, stored.held, stored.next) = (shared, false, NIL);
        (spot.output, spot.output_vl, spot.shared) = (output, output_vl, shared);
        self.subnet.ports[input as usize].queued += 1;
        self.join_queue::<PLAIN>(switch, index, spot);
    }

    #[inline]
    pub(crate) fn join_queue<const PLAIN: bool>(&mut self, switch: Here, index: u32, packet: Spot) {
        let place = self.subnet.queue_of::<PLAIN>(switch, packet);
        let queue = self.subnet.queue_mut::<PLAIN>(place);
        if queue.head == NIL {
            (queue.head, queue.tail) = (index, index);
            self.subnet.is_first::<PLAIN>(switch, place, packet);
            self.subnet.look_after_input::<PLAIN>(switch, packet.input);
            self.try_output::<PLAIN>(switch, packet.output);
        } else {
            let tail = core::mem::replace(&mut queue.tail, index);
            self.subnet.packets.get_mut(tail).next = index;
            self.subnet.look_after_input::<PLAIN>(switch, packet.input);
        }
    }

    /// Lets an output look for a packet: now if it is idle, otherwise when its current packet has ended. An output does
    /// not know by itself of a packet that has become first after it began to send: that packet may have stood behind a
    /// shorter one.
    #[inline]
    fn try_output<const PLAIN: bool>(&mut self, switch: Here, output: u8) {
        let out = switch.port(output);
        if self.subnet.ports[out as usize].free_at > self.subnet.now {
            self.subnet.end_is_event(switch, output);
        } else {
            self.arbitrate::<PLAIN>(switch, output);
        }
    }

    /// The packet that an output and an input were sending has ended.
    #[inline]
    pub(crate) fn end_of_packet<const PLAIN: bool>(&mut self, switch: Here, output: u8) {
        let out = switch.port(output);
        let port = &mut self.subnet.ports[out as usize];
        port.end_is_event = false;
        let input = port.sending_from;
        let into = switch.port(input);
        let from = &mut self.subnet.ports[into as usize];
        if self.subnet.settings.speedup > 1 && !PLAIN {
            from.reads -= 1;
            self.subnet.set_idle::<PLAIN>(switch, input, true);
        } else if from.input_free_at <= self.subnet.now {
            self.subnet.set_idle::<PLAIN>(switch, input, true);
        }
        self.arbitrate::<PLAIN>(switch, output);
        self.offer_input::<PLAIN>(switch, input);
    }

    /// Called when an input can send: outputs that it has packets for are tried in turn, until one takes a packet.
    #[inline]
    pub(crate) fn offer_input<const PLAIN: bool>(&mut self, switch: Here, input: u8) {
        let into = switch.port(input) as usize;
        if self.subnet.ports[into].queued == 0 {
            return;
        }
        if self.subnet.is_voq::<PLAIN>() {
            return self.offer_voqs(switch, input);
        }
        let (start, vls) = (self.subnet.ports[into].turn, self.subnet.settings.vls);
        let mut vl = start;
        for _ in 0..vls {
            if !self.subnet.is_idle::<PLAIN>(switch, input) {
                break;
            }
            vl = if vl + 1 >= vls { 0 } else { vl + 1 };
            let head = self.subnet.lanes[into * usize::from(vls) + usize::from(vl)].queue.head;
            if head != NIL {
                self.subnet.ports[into].turn = vl;
                let output = self.subnet.packets.get(head).output;
                self.try_output::<PLAIN>(switch, output);
            }
        }
    }

    /// Offers the packets of an input to outputs, with virtual output queues.
    fn offer_voqs(&mut self, switch: Here, input: u8) {
        let into = switch.port(input) as usize;
        let (words, start) = (self.subnet.layout.words, self.subnet.ports[into].turn);
        let ports = u16::from(self.subnet.layout.switches[switch.index as usize].ports);
        let behind = |output: u8| (u16::from(output) + ports - u16::from(start) - 1) % ports;
        let (mut last, mut tried) = (start, 0);
        while self.subnet.is_idle::<false>(switch, input) {
            let row = &self.subnet.voq_outputs[into * words..(into + 1) * words];
            let Some(output) = next_port(words, |word| row[word], last) else {
                break;
            };
            if behind(output) < tried {
                break;
            }
            tried = behind(output) + 1;
            last = output;
            self.try_output::<false>(switch, output);
        }
        self.subnet.ports[into].turn = last;
    }

    /// Sends a packet from an output, if it is idle and a packet can be sent.
    pub(crate) fn arbitrate<const PLAIN: bool>(&mut self, switch: Here, output: u8) {
        let out = switch.port(output);
        let port = &self.subnet.ports[out as usize];
        // A packet end that is due now but not handled yet counts as busy.
        if port.free_at > self.subnet.now || port.end_is_event || port.wanted == 0 {
            return;
        }
        if !port.up {
            return self.drop_waiting(switch, output);
        }
        let (mut lanes, vls) = (port.wanted, self.subnet.vls());
        let mut chosen = [NIL; 16];
        let (mut ready, mut short) = (0_u16, 0_u16);
        while lanes != 0 {
            let vl = lanes.trailing_zeros() as u8;
            lanes &= lanes - 1;
            let lane = out as usize * vls + usize::from(vl);
            let Some(input) = self.subnet.next_input::<PLAIN>(switch, lane) else {
                continue;
            };
            let index = self.subnet.first_for::<PLAIN>(switch, input, output, vl);
            if index == NIL {
                continue;
            }
            let blocks = self.subnet.packets.get(index).blocks;
            chosen[usize::from(vl % 16)] = index;
            if self.subnet.has_credits(lane, blocks) {
                ready |= 1 << vl;
            } else {
                short |= 1 << vl;
            }
        }
        if ready == 0 {
            return self.subnet.wait_on_lanes(out, short, &chosen);
        }
        let vl = if vls == 1 {
            0
        } else {
            let vl = self.subnet.choose::<PLAIN>(out as usize, ready);
            let blocks = self.subnet.packets.get(chosen[usize::from(vl)]).blocks;
            self.subnet.chosen_sends::<PLAIN>(out as usize, blocks);
            vl
        };
        self.send::<PLAIN>(switch, out, vl, chosen[usize::from(vl)]);
    }

    /// Sends the first packet of a queue.
    #[inline]
    fn send<const PLAIN: bool>(&mut self, switch: Here, out: u32, vl: u8, index: u32) {
        self.subnet.leave_queue::<PLAIN>(switch, index);
        let packet = self.subnet.packets.get(index).spot();
        let into = switch.port(packet.input);
        let lane = out as usize * self.subnet.vls() + usize::from(vl);
        self.subnet.lanes[lane].turn = packet.input;
        let ends = self.subnet.put_on_wire(out, vl, index);
        let several = self.subnet.speedup::<PLAIN>() > 1;
        let input = &mut self.subnet.ports[into as usize];
        input.input_free_at = ends;
        input.sending_to = packet.output;
        let has_more = input.queued > 0;
        if several {
            input.reads += 1;
            let is_full = input.reads >= self.subnet.settings.speedup;
            self.subnet.set_idle::<PLAIN>(switch, packet.input, !is_full);
        } else {
            self.subnet.set_idle::<PLAIN>(switch, packet.input, false);
        }
        if PLAIN {
            self.subnet.give_back(into, packet.vl, packet.blocks, ends);
        } else {
            self.subnet.leave_buffer(into, index, packet, ends);
        }
        self.subnet.ports[out as usize].sending_from = packet.input;
        if has_more || several || self.subnet.ports[out as usize].wanted != 0 {
            self.subnet.end_is_event(switch, packet.output);
        }
        // With several reads the input may have a packet for another output now.
        if several && has_more {
            self.offer_input::<PLAIN>(switch, packet.input);
        }
    }
}
