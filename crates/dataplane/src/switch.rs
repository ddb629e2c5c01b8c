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
use crate::lane::Queue;
use crate::packet::{NIL, Spot};
use crate::sets::{bit_of, next_bit, next_port};
use crate::settings::Queueing;
use crate::state::kind;
use crate::stats::Drop;
use crate::traffic::Workload;
use crate::units::Ps;

/// The switch of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    index: u32,
    /// Index of the switch's port 0 among all ports.
    first_port: u32,
}

impl Here {
    /// Returns the component that handles the switch's events.
    #[inline]
    pub const fn component(self) -> u32 {
        1 + self.index
    }

    /// Returns the index of one of the switch's ports among all ports.
    #[inline]
    pub const fn port(self, num: u8) -> u32 {
        self.first_port + num as u32
    }
}

impl<W: Workload> Simulation<W> {
    #[inline]
    pub(crate) fn vls(&self) -> usize {
        usize::from(self.settings.vls)
    }

    /// Returns the number of words of a set of ports.
    #[inline]
    fn words<const PLAIN: bool>(&self) -> usize {
        if PLAIN { 1 } else { self.layout.words }
    }

    #[inline]
    fn speedup<const PLAIN: bool>(&self) -> u8 {
        if PLAIN { 1 } else { self.settings.speedup }
    }

    #[inline]
    pub(crate) fn is_voq<const PLAIN: bool>(&self) -> bool {
        !PLAIN && self.settings.queueing == Queueing::Voq
    }

    /// Returns the switch of an event.
    #[inline]
    pub(crate) fn here(&self, component: u32) -> Here {
        let index = component - 1;
        let first_port = self.layout.switches[index as usize].first_port;
        Here { index, first_port }
    }

    /// Returns the index of the queue of packets from an input for an output.
    #[inline]
    fn voq(&self, switch: Here, input: u8, output: u8, vl: u8) -> usize {
        let switch = &self.layout.switches[switch.index as usize];
        let ports = usize::from(switch.ports);
        let pair = (usize::from(input) - 1) * ports + usize::from(output) - 1;
        self.lanes.len() + (switch.first_voq as usize + pair) * self.vls() + usize::from(vl)
    }

    /// Returns the index of the queue in which a packet waits.
    #[inline]
    fn queue_of<const PLAIN: bool>(&self, switch: Here, packet: Spot) -> usize {
        if self.is_voq::<PLAIN>() {
            self.voq(switch, packet.input, packet.output, packet.output_vl)
        } else {
            switch.port(packet.input) as usize * self.vls() + usize::from(packet.vl)
        }
    }

    /// Returns the queue with an index.
    #[inline]
    pub(crate) fn queue<const PLAIN: bool>(&self, place: usize) -> &Queue {
        match place.checked_sub(self.lanes.len()) {
            Some(voq) if !PLAIN => &self.voqs[voq],
            _ => &self.lanes[place].queue,
        }
    }

    #[inline]
    fn queue_mut<const PLAIN: bool>(&mut self, place: usize) -> &mut Queue {
        match place.checked_sub(self.lanes.len()) {
            Some(voq) if !PLAIN => &mut self.voqs[voq],
            _ => &mut self.lanes[place].queue,
        }
    }

    /// Returns a word of the set of inputs with packets for an output's lane.
    #[inline]
    pub(crate) fn requests(&self, lane: usize, word: usize) -> u64 {
        match word.checked_sub(1) {
            None => self.lanes[lane].requests,
            Some(word) => self.more_requests[lane * (self.layout.words - 1) + word],
        }
    }

    #[inline]
    fn requests_mut(&mut self, lane: usize, word: usize) -> &mut u64 {
        match word.checked_sub(1) {
            None => &mut self.lanes[lane].requests,
            Some(word) => &mut self.more_requests[lane * (self.layout.words - 1) + word],
        }
    }

    /// Called when a packet's first byte can be forwarded.
    #[inline]
    pub(crate) fn arrive<const PLAIN: bool>(&mut self, switch: Here, index: u32) {
        let packet = self.packets.get(index);
        let (dlid, sl, epoch, mut spot) = (packet.dlid, packet.sl, packet.epoch, packet.spot());
        let held = !PLAIN && packet.held;
        let bytes = packet.wire_bytes();
        let input = switch.port(spot.input);
        if epoch != self.ports[input as usize].epoch {
            return self.lose_on_link(index, input);
        }
        if !held {
            self.came_in(input, bytes);
        }
        let output = self.layout.entry(switch.index, dlid);
        let out = switch.port(output);
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
        let output_vl = if PLAIN {
            self.layout.lanes[usize::from(sl % 16)]
        } else {
            self.layout.lane(switch.index, spot.input, output, sl)
        };
        if output_vl >= self.settings.vls {
            self.count_drop(input, Drop::Lane);
            return self.drop_arrived(index, input, Drop::Lane);
        }
        if !PLAIN && self.layout.mixed && !held && self.holds_back(switch, index, input, out) {
            return;
        }
        let shared = !PLAIN && !self.pools.is_empty() && self.take_shared(input, spot.blocks);
        if shared {
            self.give_back(input, spot.vl, spot.blocks, self.now);
        }
        let now = self.now;
        let stored = self.packets.get_mut(index);
        (stored.arrived, stored.output, stored.output_vl) = (now, output, output_vl);
        (stored.shared, stored.held, stored.next) = (shared, false, NIL);
        (spot.output, spot.output_vl, spot.shared) = (output, output_vl, shared);
        self.ports[input as usize].queued += 1;
        self.join_queue::<PLAIN>(switch, index, spot);
    }

    /// Counts a packet at the port by which it arrived.
    #[inline]
    pub(crate) fn came_in(&mut self, input: u32, bytes: u32) {
        if self.now >= self.window.from {
            let port = &mut self.ports[input as usize];
            port.received += 1;
            port.received_bytes += u64::from(bytes);
        }
    }

    /// Delays a packet from a slow link to a fast one, so that its bytes arrive in time. Returns true once per packet.
    fn holds_back(&mut self, switch: Here, index: u32, input: u32, out: u32) -> bool {
        let bytes = self.packets.get(index).wire_bytes();
        let comes = self.ports[input as usize].byte_time.of(bytes);
        let goes = self.ports[out as usize].byte_time.of(bytes);
        if comes <= goes {
            return false;
        }
        let at = self.now + (comes - goes);
        self.packets.get_mut(index).held = true;
        self.schedule(at, switch.component(), kind::ARRIVE, index);
        true
    }

    #[inline]
    fn join_queue<const PLAIN: bool>(&mut self, switch: Here, index: u32, packet: Spot) {
        let place = self.queue_of::<PLAIN>(switch, packet);
        let queue = self.queue_mut::<PLAIN>(place);
        if queue.head == NIL {
            (queue.head, queue.tail) = (index, index);
            self.is_first::<PLAIN>(switch, place, packet);
            self.look_after_input::<PLAIN>(switch, packet.input);
            self.try_output::<PLAIN>(switch, packet.output);
        } else {
            let tail = core::mem::replace(&mut queue.tail, index);
            self.packets.get_mut(tail).next = index;
            self.look_after_input::<PLAIN>(switch, packet.input);
        }
    }

    /// Handles a packet that has become the first of its queue, so that its output may send it.
    #[inline]
    fn is_first<const PLAIN: bool>(&mut self, switch: Here, place: usize, packet: Spot) {
        let out = switch.port(packet.output) as usize;
        self.ports[out].wanted |= 1 << packet.output_vl;
        let (word, bit) = bit_of(packet.input);
        *self.requests_mut(
            out * self.vls() + usize::from(packet.output_vl),
            if PLAIN { 0 } else { word },
        ) |= bit;
        if self.is_voq::<PLAIN>() {
            let row = switch.port(packet.input) as usize * self.layout.words;
            let (word, bit) = bit_of(packet.output);
            self.voq_outputs[row + word] |= bit;
        }
        if !PLAIN && let Some(age) = self.ages.get_mut(place) {
            age.head_since = self.now;
            self.watch_age(switch, place);
        }
    }

    /// Examines the packets of an input now, or when it can send again.
    #[inline]
    fn look_after_input<const PLAIN: bool>(&mut self, switch: Here, input: u8) {
        let port = &self.ports[switch.port(input) as usize];
        if self.speedup::<PLAIN>() == 1 && port.input_free_at > self.now {
            let output = port.sending_to;
            self.end_is_event(switch, output);
        } else if self.speedup::<PLAIN>() == 1 {
            self.set_idle::<PLAIN>(switch, input, true);
        }
    }

    #[inline]
    fn set_idle<const PLAIN: bool>(&mut self, switch: Here, input: u8, idle: bool) {
        let words = self.words::<PLAIN>();
        let (word, bit) = bit_of(input);
        let word = &mut self.idle_inputs[switch.index as usize * words + if PLAIN { 0 } else { word }];
        if idle {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    #[inline]
    fn is_idle<const PLAIN: bool>(&self, switch: Here, input: u8) -> bool {
        let (word, bit) = bit_of(input);
        self.idle_inputs[switch.index as usize * self.words::<PLAIN>() + if PLAIN { 0 } else { word }] & bit != 0
    }

    /// Schedules an event for the end of the packet that an output sends.
    #[inline]
    fn end_is_event(&mut self, switch: Here, output: u8) {
        let port = &mut self.ports[switch.port(output) as usize];
        if !port.end_is_event {
            port.end_is_event = true;
            let at = port.free_at;
            self.schedule(at, switch.component(), kind::END, u32::from(output));
        }
    }

    /// Lets an output look for a packet: now if it is idle, otherwise when its current packet has ended.
    #[inline]
    fn try_output<const PLAIN: bool>(&mut self, switch: Here, output: u8) {
        let out = switch.port(output);
        if self.ports[out as usize].free_at > self.now {
            self.end_is_event(switch, output);
        } else {
            self.arbitrate::<PLAIN>(switch, output);
        }
    }

    /// The packet that an output and an input were sending has ended.
    #[inline]
    pub(crate) fn end_of_packet<const PLAIN: bool>(&mut self, switch: Here, output: u8) {
        let out = switch.port(output);
        let port = &mut self.ports[out as usize];
        port.end_is_event = false;
        let input = port.sending_from;
        let into = switch.port(input);
        let from = &mut self.ports[into as usize];
        if self.settings.speedup > 1 && !PLAIN {
            from.reads -= 1;
            self.set_idle::<PLAIN>(switch, input, true);
        } else if from.input_free_at <= self.now {
            self.set_idle::<PLAIN>(switch, input, true);
        }
        self.arbitrate::<PLAIN>(switch, output);
        self.offer_input::<PLAIN>(switch, input);
    }

    /// Called when an input can send: outputs that it has packets for are tried in turn, until one takes a packet.
    #[inline]
    pub(crate) fn offer_input<const PLAIN: bool>(&mut self, switch: Here, input: u8) {
        let into = switch.port(input) as usize;
        if self.ports[into].queued == 0 {
            return;
        }
        if self.is_voq::<PLAIN>() {
            return self.offer_voqs(switch, input);
        }
        let (start, vls) = (self.ports[into].turn, self.settings.vls);
        let mut vl = start;
        for _ in 0..vls {
            if !self.is_idle::<PLAIN>(switch, input) {
                break;
            }
            vl = if vl + 1 >= vls { 0 } else { vl + 1 };
            let head = self.lanes[into * usize::from(vls) + usize::from(vl)].queue.head;
            if head != NIL {
                self.ports[into].turn = vl;
                let output = self.packets.get(head).output;
                self.ask::<PLAIN>(switch, output);
            }
        }
    }

    /// Offers the packets of an input to outputs, with virtual output queues.
    fn offer_voqs(&mut self, switch: Here, input: u8) {
        let into = switch.port(input) as usize;
        let (words, start) = (self.layout.words, self.ports[into].turn);
        let ports = u16::from(self.layout.switches[switch.index as usize].ports);
        let behind = |output: u8| (u16::from(output) + ports - u16::from(start) - 1) % ports;
        let (mut last, mut tried) = (start, 0);
        while self.is_idle::<false>(switch, input) {
            let row = &self.voq_outputs[into * words..(into + 1) * words];
            let Some(output) = next_port(words, |word| row[word], last) else {
                break;
            };
            if behind(output) < tried {
                break;
            }
            tried = behind(output) + 1;
            last = output;
            self.ask::<false>(switch, output);
        }
        self.ports[into].turn = last;
    }

    /// Lets an idle output look for a packet.
    #[inline]
    fn ask<const PLAIN: bool>(&mut self, switch: Here, output: u8) {
        if self.ports[switch.port(output) as usize].free_at <= self.now {
            self.arbitrate::<PLAIN>(switch, output);
        }
    }

    /// Returns the next input in turn that has a packet for an output's lane and can send.
    #[inline]
    fn next_input<const PLAIN: bool>(&self, switch: Here, lane: usize) -> Option<u8> {
        let turn = self.lanes[lane].turn;
        if PLAIN {
            return next_bit(
                self.lanes[lane].requests & self.idle_inputs[switch.index as usize],
                turn,
            );
        }
        let words = self.layout.words;
        let word = |word| self.requests(lane, word) & self.idle_inputs[switch.index as usize * words + word];
        next_port(words, word, turn)
    }

    /// Sends a packet from an output, if it is idle and a packet can be sent.
    pub(crate) fn arbitrate<const PLAIN: bool>(&mut self, switch: Here, output: u8) {
        let out = switch.port(output);
        let port = &self.ports[out as usize];
        // A packet end that is due now but not handled yet counts as busy.
        if port.free_at > self.now || port.end_is_event || port.wanted == 0 {
            return;
        }
        if !port.up {
            return self.drop_waiting(switch, output);
        }
        let (mut lanes, vls) = (port.wanted, self.vls());
        let mut chosen = [NIL; 16];
        let (mut ready, mut short) = (0_u16, 0_u16);
        while lanes != 0 {
            let vl = lanes.trailing_zeros() as u8;
            lanes &= lanes - 1;
            let lane = out as usize * vls + usize::from(vl);
            let Some(input) = self.next_input::<PLAIN>(switch, lane) else {
                continue;
            };
            let index = self.first_for::<PLAIN>(switch, input, output, vl);
            if index == NIL {
                continue;
            }
            let blocks = self.packets.get(index).blocks;
            chosen[usize::from(vl % 16)] = index;
            if self.has_credits(lane, blocks) {
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
        self.send::<PLAIN>(switch, out, vl, chosen[usize::from(vl)]);
    }

    /// Waits for credits if no lane of an output can send. If one lane can send, the other lanes are examined again
    /// when its packet has left.
    fn wait_on_lanes(&mut self, out: u32, mut lanes: u16, chosen: &[u32; 16]) {
        while lanes != 0 {
            let vl = lanes.trailing_zeros() as u8;
            lanes &= lanes - 1;
            let blocks = self.packets.get(chosen[usize::from(vl)]).blocks;
            self.wait_for_credits(out, vl, blocks);
        }
    }

    /// Returns the packet that an input has for an output and lane.
    #[inline]
    pub(crate) fn first_for<const PLAIN: bool>(&self, switch: Here, input: u8, output: u8, vl: u8) -> u32 {
        if self.is_voq::<PLAIN>() {
            return self.queue::<PLAIN>(self.voq(switch, input, output, vl)).head;
        }
        let vls = self.vls();
        let first = switch.port(input) as usize * vls;
        // A packet nearly always stays on its lane.
        let own = self.lanes[first + usize::from(vl)].queue.head;
        let fits = |head: u32| {
            let packet = self.packets.get(head);
            packet.output == output && packet.output_vl == vl
        };
        if PLAIN || !self.layout.has_exceptions || own != NIL && fits(own) {
            return own;
        }
        let heads = self.lanes[first..first + vls].iter().map(|lane| lane.queue.head);
        heads.into_iter().find(|&head| head != NIL && fits(head)).unwrap_or(NIL)
    }

    /// Removes a packet, the first of its queue.
    #[inline]
    pub(crate) fn leave_queue<const PLAIN: bool>(&mut self, switch: Here, index: u32) {
        let (packet, next) = (self.packets.get(index).spot(), self.packets.get(index).next);
        let place = self.queue_of::<PLAIN>(switch, packet);
        self.queue_mut::<PLAIN>(place).head = next;
        let into = switch.port(packet.input);
        self.ports[into as usize].queued -= 1;
        let out = switch.port(packet.output);
        let still = if self.is_voq::<PLAIN>() {
            next != NIL
        } else {
            // If packets keep their lanes, no other packet has this input, output and lane; the next one makes its own
            // request.
            !PLAIN
                && self.vls() > 1
                && self.layout.has_exceptions
                && self.first_for::<PLAIN>(switch, packet.input, packet.output, packet.output_vl) != NIL
        };
        if !still {
            let lane = out as usize * self.vls() + usize::from(packet.output_vl);
            let (word, bit) = bit_of(packet.input);
            *self.requests_mut(lane, if PLAIN { 0 } else { word }) &= !bit;
            if (0..self.words::<PLAIN>()).all(|word| self.requests(lane, word) == 0) {
                self.ports[out as usize].wanted &= !(1 << packet.output_vl);
            }
        }
        if next != NIL {
            let packet = self.packets.get(next).spot();
            self.is_first::<PLAIN>(switch, place, packet);
        } else if self.is_voq::<PLAIN>() {
            self.clear_voq_output(switch, packet);
        }
    }

    /// Called when an input has no more packets for an output, except on another lane.
    fn clear_voq_output(&mut self, switch: Here, packet: Spot) {
        let any = (0..self.settings.vls).any(|vl| {
            let place = self.voq(switch, packet.input, packet.output, vl);
            self.queue::<false>(place).head != NIL
        });
        if !any {
            let row = switch.port(packet.input) as usize * self.layout.words;
            let (word, bit) = bit_of(packet.output);
            self.voq_outputs[row + word] &= !bit;
        }
    }

    /// Sends the first packet of a queue.
    #[inline]
    fn send<const PLAIN: bool>(&mut self, switch: Here, out: u32, vl: u8, index: u32) {
        self.leave_queue::<PLAIN>(switch, index);
        let packet = self.packets.get(index).spot();
        let into = switch.port(packet.input);
        let lane = out as usize * self.vls() + usize::from(vl);
        self.lanes[lane].turn = packet.input;
        let ends = self.put_on_wire(out, vl, index);
        let several = self.speedup::<PLAIN>() > 1;
        let input = &mut self.ports[into as usize];
        input.input_free_at = ends;
        input.sending_to = packet.output;
        let has_more = input.queued > 0;
        if several {
            input.reads += 1;
            let is_full = input.reads >= self.settings.speedup;
            self.set_idle::<PLAIN>(switch, packet.input, !is_full);
        } else {
            self.set_idle::<PLAIN>(switch, packet.input, false);
        }
        if packet.shared && !PLAIN {
            self.free_shared(into, packet.blocks, ends);
        } else {
            self.give_back(into, packet.vl, packet.blocks, ends);
        }
        self.ports[out as usize].sending_from = packet.input;
        if has_more || several || self.ports[out as usize].wanted != 0 {
            self.end_is_event(switch, packet.output);
        }
        // With several reads the input may have a packet for another output now.
        if several && has_more {
            self.offer_input::<PLAIN>(switch, packet.input);
        }
    }

    /// Starts to send a packet on a link. Returns when its last byte is sent.
    #[inline]
    pub(crate) fn put_on_wire(&mut self, out: u32, vl: u8, index: u32) -> Ps {
        let packet = self.packets.get_mut(index);
        let bytes = packet.wire_bytes();
        let port = &mut self.ports[out as usize];
        let time = port.byte_time.of(bytes);
        port.free_at = self.now + time;
        packet.vl = vl;
        packet.epoch = port.epoch;
        packet.input = port.peer_num;
        let blocks = packet.blocks;
        let arrives = if port.to_host {
            port.free_at + self.layout.host_head_delay
        } else {
            self.now + self.layout.switch_head_delay
        };
        let (ends, component) = (port.free_at, port.peer_component);
        if core::mem::take(&mut port.waits) {
            self.port_stats[out as usize].waited(self.now, self.window.from);
        }
        let lane = &mut self.lanes[out as usize * usize::from(self.settings.vls) + usize::from(vl)];
        lane.take(blocks);
        if self.now >= self.window.from {
            lane.bytes += u64::from(bytes);
            lane.packets += 1;
        }
        if out == self.watched {
            self.departures.push(self.now);
        }
        self.schedule(arrives, component, kind::ARRIVE, index);
        ends
    }
}
