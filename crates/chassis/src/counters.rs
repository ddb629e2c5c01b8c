//! Counters of a port.

/// Counters of a port at full width; agents limit them to the width of their attribute.
///
/// Source: IBA vol 1 §16.1.3.5 and §16.1.4.11. Data are counted in 4-byte words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Words sent.
    pub xmit_data: u64,
    /// Words received.
    pub rcv_data: u64,
    /// Packets sent.
    pub xmit_packets: u64,
    /// Packets received.
    pub rcv_packets: u64,
    /// Unicast packets sent.
    pub unicast_xmit_packets: u64,
    /// Unicast packets received.
    pub unicast_rcv_packets: u64,
    /// Multicast packets sent.
    pub multicast_xmit_packets: u64,
    /// Multicast packets received.
    pub multicast_rcv_packets: u64,
    /// Minor link errors.
    pub symbol_errors: u64,
    /// Successful link recoveries.
    pub link_recoveries: u64,
    /// Number of times that the link went down.
    pub link_downed: u64,
    /// Packets received with an error.
    pub rcv_errors: u64,
    /// Packets received that another switch had marked as bad.
    pub rcv_remote_physical_errors: u64,
    /// Packets received that the switch could not forward.
    pub rcv_switch_relay_errors: u64,
    /// Packets not sent because the port was down or congested.
    pub xmit_discards: u64,
    /// Packets not sent because of P_Key or raw filters.
    pub xmit_constraint_errors: u64,
    /// Packets dropped at reception because of P_Key or raw filters.
    pub rcv_constraint_errors: u64,
    /// Number of times that local physical errors exceeded the threshold.
    pub local_link_integrity_errors: u64,
    /// Number of times that buffer overruns lasted too long.
    pub excessive_buffer_overruns: u64,
    /// SMPs dropped because of missing resources.
    pub vl15_dropped: u64,
    /// Ticks with data to send, but without credits or without a turn of the arbiter.
    pub xmit_wait: u64,
    /// Packets for QP1 dropped because of missing resources.
    pub qp1_dropped: u64,
}

impl Counters {
    /// Length of a packet with a MAD in 4-byte words: local, transport and datagram header, 256 bytes, invariant CRC.
    ///
    /// Source: IBA vol 1 §16.1.3.5 (PortXmitData counts from the local header up to the variant CRC, exclusive): 8 + 12
    /// + 8 + 256 + 4 = 288 bytes.
    pub const MAD_WORDS: u64 = 72;

    /// Adds one to a counter, which stops at its maximum.
    pub const fn count(counter: &mut u64) {
        *counter = counter.saturating_add(1);
    }

    /// Adds unicast packets with MADs. Counters stop at their maximum.
    pub const fn add_mads(&mut self, sent: u64, received: u64) {
        self.xmit_packets = self.xmit_packets.saturating_add(sent);
        self.unicast_xmit_packets = self.unicast_xmit_packets.saturating_add(sent);
        self.xmit_data = self.xmit_data.saturating_add(sent * Self::MAD_WORDS);
        self.rcv_packets = self.rcv_packets.saturating_add(received);
        self.unicast_rcv_packets = self.unicast_rcv_packets.saturating_add(received);
        self.rcv_data = self.rcv_data.saturating_add(received * Self::MAD_WORDS);
    }
}
