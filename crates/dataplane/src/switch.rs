//! What a switch does with packets: they arrive, wait, are chosen, and leave.
//!
//! An output looks for a packet when something has changed for it: a packet that wants it has become the first of its
//! queue, its own packet has ended, an input that has something for it can send again, or credits have come. The end
//! of a packet is an event only if somebody waits for it.

use crate::Simulation;
use crate::packet::{NIL, Spot};
use crate::settings::Queueing;
use crate::state::{Queue, kind};
use crate::stats::Drop;
use crate::traffic::Workload;
use crate::units::Ps;

/// The first set bit after `last` in `a & b`, going around; bit `n` stands for port `n + 1`.
#[inline]
pub(crate) fn next_port(a: &[u64], b: &[u64], last: u8) -> Option<u8> {
    if let ([a], [b]) = (a, b) {
        let both = a & b;
        if both == 0 {
            return None;
        }
        // Bits from `last` on: port `last + 1` and above.
        let above = if last >= 64 { 0 } else { both >> last << last };
        let bits = if above == 0 { both } else { above };
        return Some(bits.trailing_zeros() as u8 + 1);
    }
    let words = a.len();
    let (first, shift) = (usize::from(last) / 64, last % 64);
    for step in 0..=words {
        let word = (first + step) % words;
        let mut both = a[word] & b[word];
        if step == 0 {
            both = both >> shift << shift;
        }
        if both != 0 {
            return Some((word * 64) as u8 + both.trailing_zeros() as u8 + 1);
        }
    }
    None
}

impl<W: Workload> Simulation<W> {
    #[inline]
    pub(crate) fn vls(&self) -> usize {
        usize::from(self.settings.vls)
    }

    #[inline]
    pub(crate) fn port_of(&self, switch: usize, num: u8) -> u32 {
        self.layout.switches[switch].first_port + u32::from(num)
    }

    #[inline]
    fn is_voq(&self) -> bool {
        self.settings.queueing == Queueing::Voq
    }

    /// Where the queue of packets from an input for an output lies.
    #[inline]
    fn voq(&self, switch: usize, input: u8, output: u8, vl: u8) -> usize {
        let switch = &self.layout.switches[switch];
        let ports = usize::from(switch.ports);
        let pair = (usize::from(input) - 1) * ports + usize::from(output) - 1;
        self.first_voq + (switch.first_voq as usize + pair) * self.vls() + usize::from(vl)
    }

    /// The queue that a packet waits in.
    #[inline]
    fn queue_of(&self, switch: usize, packet: Spot) -> usize {
        if self.is_voq() {
            self.voq(switch, packet.input, packet.output, packet.output_vl)
        } else {
            self.port_of(switch, packet.input) as usize * self.vls() + usize::from(packet.vl)
        }
    }

    /// A packet's first byte can be forwarded.
    pub(crate) fn arrive(&mut self, switch: usize, index: u32) {
        let packet = self.packets.get(index);
        let (dlid, sl, epoch, held, mut spot) = (packet.dlid, packet.sl, packet.epoch, packet.held, packet.spot());
        let bytes = packet.wire_bytes();
        let input = self.port_of(switch, spot.input);
        if epoch != self.ports[input as usize].epoch {
            return self.lose_on_link(index, input);
        }
        if !held {
            self.came_in(input, bytes);
        }
        let output = self.layout.entry(switch, dlid);
        let out = self.port_of(switch, output);
        let reason = match output {
            255 => Some(Drop::NoEntry),
            0 => Some(Drop::ToSwitch),
            _ if !self.ports[out as usize].up => Some(Drop::LinkDown),
            _ => None,
        };
        if let Some(reason) = reason {
            self.count_drop(if reason == Drop::LinkDown { out } else { input }, reason);
            return self.drop_arrived(index, input, reason);
        }
        let output_vl = self.layout.lane(switch, spot.input, output, sl);
        if output_vl >= self.settings.vls {
            self.count_drop(input, Drop::Lane);
            return self.drop_arrived(index, input, Drop::Lane);
        }
        if self.layout.mixed && !held && self.holds_back(switch, index, input, out) {
            return;
        }
        let shared = !self.pools.is_empty() && self.take_shared(input, spot.blocks);
        if shared {
            self.give_back(input, spot.vl, spot.blocks, self.now);
        }
        let now = self.now;
        let stored = self.packets.get_mut(index);
        (stored.arrived, stored.output, stored.output_vl) = (now, output, output_vl);
        (stored.shared, stored.held, stored.next) = (shared, false, NIL);
        (spot.output, spot.output_vl, spot.shared) = (output, output_vl, shared);
        self.ports[input as usize].queued += 1;
        self.join_queue(switch, index, spot);
    }

    /// Counts a packet at the port where it came in.
    #[inline]
    pub(crate) fn came_in(&mut self, input: u32, bytes: u32) {
        if self.now >= self.window.from {
            let port = &mut self.ports[input as usize];
            port.received += 1;
            port.received_bytes += u64::from(bytes);
        }
    }

    /// A packet from a slow link for a fast one must not run dry on the way: it begins later. Returns true once.
    fn holds_back(&mut self, switch: usize, index: u32, input: u32, out: u32) -> bool {
        let bytes = self.packets.get(index).wire_bytes();
        let comes = self.ports[input as usize].byte_time.of(bytes);
        let goes = self.ports[out as usize].byte_time.of(bytes);
        if comes <= goes {
            return false;
        }
        let at = self.now + (comes - goes);
        self.packets.get_mut(index).held = true;
        self.schedule(at, 1 + switch as u32, kind::ARRIVE, index);
        true
    }

    fn join_queue(&mut self, switch: usize, index: u32, packet: Spot) {
        let place = self.queue_of(switch, packet);
        let queue = &mut self.queues[place];
        if queue.head == NIL {
            (queue.head, queue.tail) = (index, index);
            self.is_first(switch, place, index);
            self.look_after_input(switch, packet.input);
            self.try_output(switch, packet.output);
        } else {
            let tail = core::mem::replace(&mut queue.tail, index);
            self.packets.get_mut(tail).next = index;
            self.look_after_input(switch, packet.input);
        }
    }

    /// A packet has become the first of its queue: its output may take it.
    #[inline]
    fn is_first(&mut self, switch: usize, place: usize, index: u32) {
        let packet = self.packets.get(index);
        let (input, output, vl) = (packet.input, packet.output, packet.output_vl);
        let out = self.port_of(switch, output);
        self.ports[out as usize].wanted |= 1 << vl;
        let words = self.layout.words;
        let (word, bit) = (usize::from(input - 1) / 64, (input - 1) % 64);
        let row = (out as usize * self.vls() + usize::from(vl)) * words;
        self.requests[row + word] |= 1 << bit;
        if self.is_voq() {
            let row = self.port_of(switch, input) as usize * words;
            self.voq_outputs[row + usize::from(output - 1) / 64] |= 1 << ((output - 1) % 64);
        }
        self.queues[place].head_since = self.now;
        if self.hoq.is_some() || self.switch_life.is_some() {
            self.watch_age(switch, place);
        }
    }

    /// An input has packets: they are looked at when it can send again, if it cannot now.
    #[inline]
    fn look_after_input(&mut self, switch: usize, input: u8) {
        let port = &self.ports[self.port_of(switch, input) as usize];
        if self.settings.speedup == 1 && port.input_free_at > self.now {
            let output = port.sending_to;
            self.end_is_event(switch, output);
        } else if self.settings.speedup == 1 {
            self.set_idle(switch, input, true);
        }
    }

    #[inline]
    fn set_idle(&mut self, switch: usize, input: u8, idle: bool) {
        let word = &mut self.idle_inputs[switch * self.layout.words + usize::from(input - 1) / 64];
        let bit = 1 << ((input - 1) % 64);
        if idle {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    /// The end of the packet that an output sends becomes an event.
    #[inline]
    fn end_is_event(&mut self, switch: usize, output: u8) {
        let port = &mut self.ports[self.layout.switches[switch].first_port as usize + usize::from(output)];
        if !port.end_is_event {
            port.end_is_event = true;
            let at = port.free_at;
            self.schedule(at, 1 + switch as u32, kind::END, u32::from(output));
        }
    }

    /// An output is wanted: now if it is idle, else when its packet has ended.
    #[inline]
    fn try_output(&mut self, switch: usize, output: u8) {
        let out = self.port_of(switch, output);
        if self.ports[out as usize].free_at > self.now {
            self.end_is_event(switch, output);
        } else {
            self.arbitrate(switch, output);
        }
    }

    /// An output has sent its packet, and so has the input that it came from.
    pub(crate) fn end_of_packet(&mut self, switch: usize, output: u8) {
        let out = self.port_of(switch, output);
        let port = &mut self.ports[out as usize];
        port.end_is_event = false;
        let input = port.sending_from;
        let into = self.port_of(switch, input);
        let from = &mut self.ports[into as usize];
        if self.settings.speedup > 1 {
            from.reads -= 1;
            self.set_idle(switch, input, true);
        } else if from.input_free_at <= self.now {
            self.set_idle(switch, input, true);
        }
        self.arbitrate(switch, output);
        self.offer_input(switch, input);
    }

    /// An input can send: outputs that it has packets for are asked, each in its turn, until one takes a packet.
    pub(crate) fn offer_input(&mut self, switch: usize, input: u8) {
        let into = self.port_of(switch, input) as usize;
        if self.ports[into].queued == 0 {
            return;
        }
        let words = self.layout.words;
        let (word, bit) = (switch * words + usize::from(input - 1) / 64, 1 << ((input - 1) % 64));
        let start = self.ports[into].turn;
        if self.is_voq() {
            let ports = u16::from(self.layout.switches[switch].ports);
            let behind = |output: u8| (u16::from(output) + ports - u16::from(start) - 1) % ports;
            let (mut last, mut tried) = (start, 0);
            while self.idle_inputs[word] & bit != 0 {
                let row = &self.voq_outputs[into * words..(into + 1) * words];
                let Some(output) = next_port(row, row, last) else {
                    break;
                };
                if behind(output) < tried {
                    break;
                }
                tried = behind(output) + 1;
                last = output;
                self.ask(switch, output);
            }
            self.ports[into].turn = last;
        } else {
            let vls = self.settings.vls;
            for step in 1..=vls {
                if self.idle_inputs[word] & bit == 0 {
                    break;
                }
                let vl = (start + step) % vls;
                let head = self.queues[into * usize::from(vls) + usize::from(vl)].head;
                if head != NIL {
                    self.ports[into].turn = vl;
                    let output = self.packets.get(head).output;
                    self.ask(switch, output);
                }
            }
        }
    }

    /// An idle output looks for a packet.
    #[inline]
    fn ask(&mut self, switch: usize, output: u8) {
        if self.ports[self.port_of(switch, output) as usize].free_at <= self.now {
            self.arbitrate(switch, output);
        }
    }

    /// An output sends a packet, if it is idle and there is one that can go.
    pub(crate) fn arbitrate(&mut self, switch: usize, output: u8) {
        let out = self.port_of(switch, output);
        let port = &self.ports[out as usize];
        // An end that is due at this instant, but not handled yet, counts as busy.
        if port.free_at > self.now || port.end_is_event || port.wanted == 0 {
            return;
        }
        if !port.up {
            return self.drop_waiting(switch, output);
        }
        let (mut lanes, words, vls) = (port.wanted, self.layout.words, self.vls());
        let idle = switch * words..(switch + 1) * words;
        let mut chosen = [NIL; 16];
        let (mut ready, mut short) = (0_u16, 0_u16);
        while lanes != 0 {
            let vl = lanes.trailing_zeros() as u8;
            lanes &= lanes - 1;
            let lane = out as usize * vls + usize::from(vl);
            let wanted = &self.requests[lane * words..(lane + 1) * words];
            let Some(input) = next_port(wanted, &self.idle_inputs[idle.clone()], self.lanes[lane].turn) else {
                continue;
            };
            let index = self.first_for(switch, input, output, vl);
            if index == NIL {
                continue;
            }
            let blocks = self.packets.get(index).blocks;
            chosen[usize::from(vl)] = index;
            if self.has_credits(out, vl, blocks) {
                ready |= 1 << vl;
            } else {
                short |= 1 << vl;
            }
        }
        if ready == 0 {
            return self.wait_on_lanes(out, short, &chosen);
        }
        let vl = if vls == 1 {
            0
        } else {
            let arbiter = &mut self.arbiters[out as usize];
            let vl = self.arbitration.choose(arbiter, ready);
            let blocks = self.packets.get(chosen[usize::from(vl)]).blocks;
            self.arbitration.sent(arbiter, u32::from(blocks));
            vl
        };
        self.send(switch, out, vl, chosen[usize::from(vl)]);
    }

    /// No lane of an output can go on. Where one can, the others are looked at again when its packet has ended.
    fn wait_on_lanes(&mut self, out: u32, mut lanes: u16, chosen: &[u32; 16]) {
        while lanes != 0 {
            let vl = lanes.trailing_zeros() as u8;
            lanes &= lanes - 1;
            let blocks = self.packets.get(chosen[usize::from(vl)]).blocks;
            self.wait_for_credits(out, vl, blocks);
        }
    }

    /// The packet that an input has for an output and lane.
    #[inline]
    pub(crate) fn first_for(&self, switch: usize, input: u8, output: u8, vl: u8) -> u32 {
        if self.is_voq() {
            return self.queues[self.voq(switch, input, output, vl)].head;
        }
        let vls = self.vls();
        let first = self.port_of(switch, input) as usize * vls;
        let fits = |head: u32| {
            let packet = self.packets.get(head);
            packet.output == output && packet.output_vl == vl
        };
        // Nearly always a packet stays on its lane.
        let own = self.queues[first + usize::from(vl)].head;
        if !self.layout.has_exceptions || own != NIL && fits(own) {
            return own;
        }
        let heads = self.queues[first..first + vls].iter().map(|queue| queue.head);
        heads.into_iter().find(|&head| head != NIL && fits(head)).unwrap_or(NIL)
    }

    /// Takes a packet, the first of its queue, out of it.
    pub(crate) fn leave_queue(&mut self, switch: usize, index: u32) {
        let (packet, next) = (self.packets.get(index).spot(), self.packets.get(index).next);
        let place = self.queue_of(switch, packet);
        let queue: &mut Queue = &mut self.queues[place];
        queue.head = next;
        let head = queue.head;
        let into = self.port_of(switch, packet.input);
        self.ports[into as usize].queued -= 1;
        let words = self.layout.words;
        let out = self.port_of(switch, packet.output);
        let row = (out as usize * self.vls() + usize::from(packet.output_vl)) * words;
        let still = if self.is_voq() {
            head != NIL
        } else {
            // Where packets keep their lanes nobody else is of this input, output and lane; the next one asks itself.
            self.vls() > 1
                && self.layout.has_exceptions
                && self.first_for(switch, packet.input, packet.output, packet.output_vl) != NIL
        };
        if !still {
            self.requests[row + usize::from(packet.input - 1) / 64] &= !(1 << ((packet.input - 1) % 64));
            if self.requests[row..row + words].iter().all(|&word| word == 0) {
                self.ports[out as usize].wanted &= !(1 << packet.output_vl);
            }
        }
        if head != NIL {
            self.is_first(switch, place, head);
        } else if self.is_voq() {
            let lanes = 0..self.settings.vls;
            let any = lanes.into_iter().any(|vl| {
                let place = self.voq(switch, packet.input, packet.output, vl);
                self.queues[place].head != NIL
            });
            if !any {
                let row = into as usize * words + usize::from(packet.output - 1) / 64;
                self.voq_outputs[row] &= !(1 << ((packet.output - 1) % 64));
            }
        }
    }

    /// Sends the first packet of a queue.
    fn send(&mut self, switch: usize, out: u32, vl: u8, index: u32) {
        self.leave_queue(switch, index);
        let packet = self.packets.get(index).spot();
        let into = self.port_of(switch, packet.input);
        let lane = out as usize * self.vls() + usize::from(vl);
        self.lanes[lane].turn = packet.input;
        let ends = self.put_on_wire(out, vl, index);
        let input = &mut self.ports[into as usize];
        input.input_free_at = ends;
        input.sending_to = packet.output;
        let (has_more, several) = (input.queued > 0, self.settings.speedup > 1);
        if several {
            input.reads += 1;
            let is_full = input.reads >= self.settings.speedup;
            self.set_idle(switch, packet.input, !is_full);
        } else {
            self.set_idle(switch, packet.input, false);
        }
        if packet.shared {
            self.free_shared(into, packet.blocks, ends);
        } else {
            self.give_back(into, packet.vl, packet.blocks, ends);
        }
        self.ports[out as usize].sending_from = packet.input;
        if has_more || several || self.ports[out as usize].wanted != 0 {
            self.end_is_event(switch, packet.output);
        }
        // With several reads the input may have something for another output now.
        if several && has_more {
            self.offer_input(switch, packet.input);
        }
    }

    /// Starts to send a packet on a link; returns when its last byte is gone.
    #[inline]
    pub(crate) fn put_on_wire(&mut self, out: u32, vl: u8, index: u32) -> Ps {
        let packet = self.packets.get_mut(index);
        let bytes = packet.wire_bytes();
        let port = &mut self.ports[out as usize];
        let time = port.byte_time.of(bytes);
        port.free_at = self.now + time;
        packet.vl = vl;
        packet.epoch = port.epoch;
        packet.input = self.layout.refs[port.peer as usize].port.get();
        let arrives = self.now + port.head_delay + if port.to_host { time } else { 0 };
        let (ends, component) = (port.free_at, port.peer_component);
        let lane = out as usize * usize::from(self.settings.vls) + usize::from(vl);
        self.lanes[lane].credits -= u32::from(packet.blocks);
        if self.now >= self.window.from {
            self.lane_bytes[lane] += u64::from(bytes);
            self.port_stats[out as usize].sent(self.now, self.window.from);
        } else {
            self.port_stats[out as usize].waits_since = None;
        }
        if out == self.watched {
            self.departures.push(self.now);
        }
        self.schedule(arrives, component, kind::ARRIVE, index);
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::next_port;

    #[test]
    fn ports_take_turns() {
        let check = |a: &[u64], b: &[u64], last, want| assert_eq!(next_port(a, b, last), want, "{a:x?} {last}");
        check(&[0b1011], &[0b1111], 0, Some(1));
        check(&[0b1011], &[0b1111], 1, Some(2));
        check(&[0b1011], &[0b1111], 2, Some(4));
        check(&[0b1011], &[0b1111], 4, Some(1));
        check(&[0b1011], &[0b0100], 4, None);
        check(&[1 << 63], &[u64::MAX], 64, Some(64));
        check(&[1, 2], &[3, 3], 1, Some(66));
        check(&[1, 2], &[3, 3], 66, Some(1));
        check(&[2, 0], &[3, 3], 1, Some(2));
        check(&[1, 0], &[3, 3], 1, Some(1));
        check(&[0, 0], &[3, 3], 1, None);
    }
}
