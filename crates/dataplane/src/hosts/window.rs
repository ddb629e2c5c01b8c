//! What is counted of messages, during the measurement and over the whole simulation.

use super::series::Series;
use super::{Arrival, Header, Host, Message};
use crate::packet::Packet;
use crate::stats::Histogram;
use crate::units::Ps;

/// Counters of the measurement.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub from: Ps,
    pub to: Ps,
    /// Payload bytes of messages that were due, whether or not they were posted.
    pub offered_bytes: u64,
    /// Payload bytes delivered.
    pub accepted_bytes: u64,
    /// Bytes delivered, headers included.
    pub wire_bytes: u64,
    pub packets: u64,
    pub messages: u64,
    pub messages_missed: u64,
    pub messages_lost: u64,
    pub packet_latency: Histogram,
    pub message_latency: Histogram,
    /// Payload bytes by receiving host.
    pub by_receiver: Vec<u64>,
    /// Payload bytes by sending host.
    pub by_sender: Vec<u64>,
    /// Load over time, for the whole simulation.
    pub series: Series,
    /// Number of packets over the whole simulation.
    pub all_packets: u64,
    /// Number of payload bytes over the whole simulation.
    pub all_bytes: u64,
}

impl Window {
    pub fn new(from: Ps, to: Ps, hosts: usize) -> Self {
        Self {
            from,
            to,
            offered_bytes: 0,
            accepted_bytes: 0,
            wire_bytes: 0,
            packets: 0,
            messages: 0,
            messages_missed: 0,
            messages_lost: 0,
            packet_latency: Histogram::default(),
            message_latency: Histogram::default(),
            by_receiver: vec![0; hosts],
            by_sender: vec![0; hosts],
            series: Series::new(to),
            all_packets: 0,
            all_bytes: 0,
        }
    }

    #[inline]
    const fn contains(&self, at: Ps) -> bool {
        at >= self.from && at < self.to
    }

    #[inline]
    pub fn posted(&mut self, message: &Message) {
        self.series.offer(message.at, u64::from(message.bytes));
        if self.contains(message.at) {
            self.offered_bytes += u64::from(message.bytes);
        }
    }

    pub fn missed(&mut self, message: &Message) {
        self.series.offer(message.at, u64::from(message.bytes));
        if self.contains(message.at) {
            self.offered_bytes += u64::from(message.bytes);
            self.messages_missed += 1;
        }
    }

    #[inline]
    pub fn delivered(&mut self, now: Ps, packet: &Packet<Header>, (from, to): (Host, Host)) {
        self.series.accept(now, u64::from(packet.payload));
        self.all_packets += 1;
        self.all_bytes += u64::from(packet.payload);
        if self.contains(now) {
            let payload = u64::from(packet.payload);
            self.accepted_bytes += payload;
            self.wire_bytes += u64::from(packet.wire_bytes());
            self.packets += 1;
            self.packet_latency.add((now - packet.header.created) / 1_000);
            self.by_receiver[to as usize] += payload;
            self.by_sender[from as usize] += payload;
        }
    }

    /// Counts a message that was dropped before any part of it was sent.
    pub const fn flushed(&mut self, now: Ps) {
        if self.contains(now) {
            self.messages_lost += 1;
        }
    }

    #[inline]
    pub fn message(&mut self, now: Ps, arrival: &Arrival) {
        if self.contains(now) {
            if arrival.whole {
                self.messages += 1;
                self.message_latency.add((now - arrival.posted) / 1_000);
            } else {
                self.messages_lost += 1;
            }
        }
    }
}
