//! The queues of switches: which packet waits where, which outputs and inputs may send, and what a link carries.

use core::fmt::Debug;

use crate::lane::Queue;
use crate::packet::{NIL, Spot};
use crate::sets::{bit_of, next_bit, next_port};
use crate::settings::Queueing;
use crate::subnet::{Subnet, kind};
use crate::units::Ps;

/// The switch of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    pub(crate) index: u32,
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

impl<H: Copy + Debug> Subnet<H> {
    #[inline]
    pub(crate) fn vls(&self) -> usize {
        usize::from(self.settings.vls)
    }

    /// Returns the number of words of a set of ports.
    #[inline]
    pub(crate) fn words<const PLAIN: bool>(&self) -> usize {
        if PLAIN { 1 } else { self.layout.words }
    }

    #[inline]
    pub(crate) fn speedup<const PLAIN: bool>(&self) -> u8 {
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
    pub(crate) fn voq(&self, switch: Here, input: u8, output: u8, vl: u8) -> usize {
        let switch = &self.layout.switches[switch.index as usize];
        let ports = usize::from(switch.ports);
        let pair = (usize::from(input) - 1) * ports + usize::from(output) - 1;
        self.lanes.len() + (switch.first_voq as usize + pair) * self.vls() + usize::from(vl)
    }

    /// Returns the index of the queue in which a packet waits.
    #[inline]
    pub(crate) fn queue_of<const PLAIN: bool>(&self, switch: Here, packet: Spot) -> usize {
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
    pub(crate) fn queue_mut<const PLAIN: bool>(&mut self, place: usize) -> &mut Queue {
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
    pub(crate) fn requests_mut(&mut self, lane: usize, word: usize) -> &mut u64 {
        match word.checked_sub(1) {
            None => &mut self.lanes[lane].requests,
            Some(word) => &mut self.more_requests[lane * (self.layout.words - 1) + word],
        }
    }

    /// Counts a packet at the port by which it arrived.
    #[inline]
    pub(crate) fn came_in(&mut self, input: u32, bytes: u32) {
        if self.now >= self.counts_from {
            let port = &mut self.ports[input as usize];
            port.received += 1;
            port.received_bytes += u64::from(bytes);
        }
    }

    /// Delays a packet from a slow link to a fast one, so that its bytes arrive in time. Returns true once per packet.
    pub(crate) fn holds_back(&mut self, switch: Here, index: u32, input: u32, out: u32) -> bool {
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

    /// Handles a packet that has become the first of its queue, so that its output may send it.
    #[inline]
    pub(crate) fn is_first<const PLAIN: bool>(&mut self, switch: Here, place: usize, packet: Spot) {
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
    pub(crate) fn look_after_input<const PLAIN: bool>(&mut self, switch: Here, input: u8) {
        let port = &self.ports[switch.port(input) as usize];
        if self.speedup::<PLAIN>() == 1 && port.input_free_at > self.now {
            let output = port.sending_to;
            self.end_is_event(switch, output);
        } else if self.speedup::<PLAIN>() == 1 {
            self.set_idle::<PLAIN>(switch, input, true);
        }
    }

    #[inline]
    pub(crate) fn set_idle<const PLAIN: bool>(&mut self, switch: Here, input: u8, idle: bool) {
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
    pub(crate) fn is_idle<const PLAIN: bool>(&self, switch: Here, input: u8) -> bool {
        let (word, bit) = bit_of(input);
        self.idle_inputs[switch.index as usize * self.words::<PLAIN>() + if PLAIN { 0 } else { word }] & bit != 0
    }

    /// Schedules an event for the end of the packet that an output sends.
    #[inline]
    pub(crate) fn end_is_event(&mut self, switch: Here, output: u8) {
        let port = &mut self.ports[switch.port(output) as usize];
        if !port.end_is_event {
            port.end_is_event = true;
            let at = port.free_at;
            self.schedule(at, switch.component(), kind::END, u32::from(output));
        }
    }

    /// Returns the next input in turn that has a packet for an output's lane and can send.
    #[inline]
    pub(crate) fn next_input<const PLAIN: bool>(&self, switch: Here, lane: usize) -> Option<u8> {
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

    /// Chooses a lane of an output out of those that are ready, at least one.
    #[inline]
    pub(crate) fn choose<const PLAIN: bool>(&mut self, out: usize, ready: u16) -> u8 {
        let was_idle = self.ports[out].free_at < self.now;
        let arbiter = &mut self.arbiters[out];
        let tables = match arbiter.tables.checked_sub(1) {
            Some(own) if !PLAIN => &self.own_arbitration[own as usize],
            _ => &self.arbitration,
        };
        if was_idle {
            tables.idle(arbiter);
        }
        tables.choose(arbiter, ready)
    }

    /// Records that the chosen lane of an output sends this many blocks.
    #[inline]
    pub(crate) fn chosen_sends<const PLAIN: bool>(&mut self, out: usize, blocks: u8) {
        let arbiter = &mut self.arbiters[out];
        let tables = match arbiter.tables.checked_sub(1) {
            Some(own) if !PLAIN => &self.own_arbitration[own as usize],
            _ => &self.arbitration,
        };
        tables.sent(arbiter, u32::from(blocks));
    }

    /// Waits for credits if no lane of an output can send. If one lane can send, the other lanes are examined again
    /// when its packet has left.
    pub(crate) fn wait_on_lanes(&mut self, out: u32, mut lanes: u16, chosen: &[u32; 16]) {
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
    pub(crate) fn clear_voq_output(&mut self, switch: Here, packet: Spot) {
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
        let arrives = arrives + self.layout.extra_delay(out);
        let (ends, component) = (port.free_at, port.peer_component);
        if core::mem::take(&mut port.waits) {
            self.port_stats[out as usize].waited(self.now, self.counts_from);
        }
        let lane = &mut self.lanes[out as usize * usize::from(self.settings.vls) + usize::from(vl)];
        lane.take(blocks);
        if self.now >= self.counts_from {
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
