//! Packets that a switch drops: on a broken link, without a route, or too old.

use crate::Simulation;
use crate::layout::{NO_PORT, Port};
use crate::packet::NIL;
use crate::sets::next_port;
use crate::state::kind;
use crate::stats::Drop;
use crate::switch::Here;
use crate::traffic::Workload;

impl<W: Workload> Simulation<W> {
    /// Counts a dropped packet at the port with the counter for the reason.
    pub(crate) fn count_drop(&mut self, port: u32, reason: Drop) {
        if self.now >= self.window.from {
            let stats = &mut self.port_stats[port as usize];
            match reason {
                Drop::NoEntry | Drop::ToSwitch | Drop::Lane => stats.relay_errors += 1,
                Drop::LinkDown | Drop::HeadOfQueue | Drop::SwitchLife => stats.discards += 1,
                Drop::InFlight | Drop::WrongHost => {}
            }
        }
    }

    /// Drops a packet on a link that broke. Its blocks at the receiver were never filled.
    pub(crate) fn lose_on_link(&mut self, index: u32, input: u32) {
        let packet = *self.packets.get(index);
        let Port { peer, .. } = self.ports[input as usize];
        if peer != NO_PORT {
            self.credit(peer, packet.vl, packet.blocks, self.now);
        }
        self.lose(index, Drop::InFlight);
    }

    /// Drops a packet that has just arrived. Its blocks are free when its last byte has arrived.
    pub(crate) fn drop_arrived(&mut self, index: u32, input: u32, reason: Drop) {
        let packet = *self.packets.get(index);
        let comes = self.ports[input as usize].byte_time.of(packet.wire_bytes());
        self.give_back(input, packet.vl, packet.blocks, self.now + comes);
        self.lose(index, reason);
    }

    /// Drops the first packet of a queue.
    pub(crate) fn drop_first(&mut self, switch: Here, index: u32, reason: Drop) {
        self.leave_queue::<false>(switch, index);
        let packet = self.packets.get(index).spot();
        let into = switch.port(packet.input);
        self.count_drop(switch.port(packet.output), reason);
        if packet.shared {
            self.free_shared(into, packet.blocks, self.now);
        } else {
            self.give_back(into, packet.vl, packet.blocks, self.now);
        }
        self.lose(index, reason);
        if self.settings.speedup > 1 || self.ports[into as usize].input_free_at <= self.now {
            self.offer_input::<false>(switch, packet.input);
        }
    }

    /// Schedules a check of the age of a queue's first packet.
    pub(crate) fn watch_age(&mut self, switch: Here, place: usize) {
        let (age, head) = (self.ages[place], self.queue::<false>(place).head);
        if age.watched || head == NIL {
            return;
        }
        let arrived = self.packets.get(head).arrived;
        let hoq = self.hoq.map(|life| age.head_since + life);
        let whole = self.switch_life.map(|life| arrived + life);
        let Some(at) = hoq.into_iter().chain(whole).min() else {
            return;
        };
        self.ages[place].watched = true;
        self.schedule(at.max(self.now), switch.component(), kind::LIFETIME, place as u32);
    }

    /// Checks whether the first packet of a queue has waited too long.
    pub(crate) fn check_lifetime(&mut self, switch: Here, place: u32) {
        let place = place as usize;
        self.ages[place].watched = false;
        let (head_since, head) = (self.ages[place].head_since, self.queue::<false>(place).head);
        if head == NIL {
            return;
        }
        let arrived = self.packets.get(head).arrived;
        if self.switch_life.is_some_and(|life| arrived + life <= self.now) {
            self.drop_first(switch, head, Drop::SwitchLife);
        } else if self.hoq.is_some_and(|life| head_since + life <= self.now) {
            self.drop_first(switch, head, Drop::HeadOfQueue);
        }
        self.watch_age(switch, place);
    }

    /// Drops all packets that wait for an output with a broken link.
    pub(crate) fn drop_waiting(&mut self, switch: Here, output: u8) {
        let out = switch.port(output);
        // Packets behind the first ones of their queues are dropped when they become first.
        while let Some(index) = self.first_waiting(switch, out, output) {
            self.drop_first(switch, index, Drop::LinkDown);
        }
    }

    fn first_waiting(&self, switch: Here, out: u32, output: u8) -> Option<u32> {
        let words = self.layout.words;
        (0..self.settings.vls).find_map(|vl| {
            let lane = out as usize * self.vls() + usize::from(vl);
            let input = next_port(words, |word| self.requests(lane, word), 0)?;
            Some(self.first_for::<false>(switch, input, output, vl)).filter(|&index| index != NIL)
        })
    }
}
