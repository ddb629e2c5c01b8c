//! Packets that a switch drops: on a broken link, without a route, or too old.

use core::fmt::Debug;

use crate::Simulation;
use crate::endpoint::Endpoint;
use crate::layout::{NO_PORT, Port};
use crate::packet::NIL;
use crate::queues::Here;
use crate::sets::next_port;
use crate::stats::DropReason;
use crate::subnet::{Subnet, kind};

impl<H: Copy + Debug> Subnet<H> {
    /// Counts a dropped packet at the port with the counter for the reason.
    pub(crate) fn count_drop(&mut self, port: u32, reason: DropReason) {
        if self.now >= self.counts_from {
            let stats = &mut self.port_stats[port as usize];
            match reason {
                DropReason::NoEntry | DropReason::ToSwitch | DropReason::Lane => stats.relay_errors += 1,
                DropReason::LinkDown | DropReason::HeadOfQueue | DropReason::SwitchLife => stats.discards += 1,
                DropReason::InFlight | DropReason::WrongHost => {}
            }
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

    pub(crate) fn first_waiting(&self, switch: Here, out: u32, output: u8) -> Option<u32> {
        let words = self.layout.words;
        (0..self.settings.vls).find_map(|vl| {
            let lane = out as usize * self.vls() + usize::from(vl);
            let input = next_port(words, |word| self.requests(lane, word), 0)?;
            Some(self.first_for::<false>(switch, input, output, vl)).filter(|&index| index != NIL)
        })
    }
}

impl<E: Endpoint> Simulation<E> {
    /// Drops a packet on a link that broke. Its blocks at the receiver were never filled.
    pub(crate) fn lose_on_link(&mut self, index: u32, input: u32) {
        let packet = *self.subnet.packets.get(index);
        let Port { peer, .. } = self.subnet.ports[input as usize];
        if peer != NO_PORT {
            self.subnet.credit(peer, packet.vl, packet.blocks, self.subnet.now);
        }
        self.lose(index, DropReason::InFlight);
    }

    /// Drops a packet that has just arrived. Its blocks are free when its last byte has arrived.
    pub(crate) fn drop_arrived(&mut self, index: u32, input: u32, reason: DropReason) {
        let packet = *self.subnet.packets.get(index);
        let comes = self.subnet.ports[input as usize].byte_time.of(packet.wire_bytes());
        self.subnet
            .give_back(input, packet.vl, packet.blocks, self.subnet.now + comes);
        self.lose(index, reason);
    }

    /// Drops the first packet of a queue.
    pub(crate) fn drop_first(&mut self, switch: Here, index: u32, reason: DropReason) {
        self.subnet.leave_queue::<false>(switch, index);
        let packet = self.subnet.packets.get(index).spot();
        let into = switch.port(packet.input);
        self.subnet.count_drop(switch.port(packet.output), reason);
        self.subnet.leave_buffer(into, index, packet, self.subnet.now);
        self.lose(index, reason);
        if self.subnet.settings.speedup > 1 || self.subnet.ports[into as usize].input_free_at <= self.subnet.now {
            self.offer_input::<false>(switch, packet.input);
        }
    }

    /// Checks whether the first packet of a queue has waited too long.
    pub(crate) fn check_lifetime(&mut self, switch: Here, place: u32) {
        let place = place as usize;
        self.subnet.ages[place].watched = false;
        let (head_since, head) = (
            self.subnet.ages[place].head_since,
            self.subnet.queue::<false>(place).head,
        );
        if head == NIL {
            return;
        }
        let arrived = self.subnet.packets.get(head).arrived;
        if self
            .subnet
            .switch_life
            .is_some_and(|life| arrived + life <= self.subnet.now)
        {
            self.drop_first(switch, head, DropReason::SwitchLife);
        } else if self.subnet.hoq.is_some_and(|life| head_since + life <= self.subnet.now) {
            self.drop_first(switch, head, DropReason::HeadOfQueue);
        }
        self.subnet.watch_age(switch, place);
    }

    /// Drops all packets that wait for an output with a broken link.
    pub(crate) fn drop_waiting(&mut self, switch: Here, output: u8) {
        let out = switch.port(output);
        // Packets behind the first ones of their queues are dropped when they become first.
        while let Some(index) = self.subnet.first_waiting(switch, out, output) {
            self.drop_first(switch, index, DropReason::LinkDown);
        }
    }
}
