//! Parameters of the simulated hardware, each with unit and default.

use selvedge_fabric::PortRef;
use selvedge_types::Mtu;
use serde::{Deserialize, Serialize};

use crate::arbitration::VlArb;
use crate::layout::Network;
use crate::units::{BLOCKS_MAX, LinkRate, PS_PER_NS, Ps, Speed, blocks, header};

/// Queueing at an input of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queueing {
    /// One queue per lane: a packet that cannot be sent blocks those behind it, whatever their output.
    #[default]
    Fifo,
    /// One queue per output and lane (virtual output queues); they share the lane's buffer.
    Voq,
}

/// Choice of a packet's service level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlChoice {
    /// The level that the routing assigns to the destination, as a host gets it from the subnet manager.
    #[default]
    Routing,
    /// By a hash of the destination LID, over all lanes.
    DestHash,
    /// A random lane for each message.
    Random,
    /// By a hash of source and destination LID, over all lanes.
    Flow,
}

/// Transport of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Plain packets: headers, no connection, no acknowledgements.
    #[default]
    None,
    /// Unreliable connections: packets are numbered, and a message with a gap is lost.
    Uc,
    /// Reliable connections: acknowledged, and repeated after a time-out or a NAK.
    Rc,
}

/// Operation of a connection's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// SEND: only the base header.
    #[default]
    Send,
    /// RDMA WRITE: its first packet has an RDMA header, 16 bytes.
    Write,
}

/// Input buffers, in blocks of 64 bytes.
///
/// Credits are those of a lane, and a lane never has more of them than private blocks are free: this is what the
/// receiver's flow-control limit (FCCL) of the lane says. A packet that finds room in the shared pool is stored there,
/// so that the lane's private blocks are free again, and their credits return at once. So a lane can always store its
/// private blocks, whatever other lanes have stored, and beyond them what it may take of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffers {
    /// Blocks private to each lane of each input; at most 2,048. `None`: 128 (8 KiB), or as many as four packets of the
    /// MTU need.
    pub per_vl_blocks: Option<u32>,
    /// Blocks of each input that all its lanes share. A packet stored there returns its lane's credits at once. Default
    /// 0.
    pub shared_blocks: u32,
    /// Largest number of these blocks that one lane may hold. `None` (default): all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_per_vl_blocks: Option<u32>,
}

/// A cable of kilometres, with a buffer of its own at both ends, as range extenders have: they end the flow control of
/// the subnet, so that the buffer is not limited to 2,048 blocks.
///
/// A lane fills the link if its buffer holds what is sent in a round trip: delay × 2 × rate. With a smaller one its
/// throughput is buffer ÷ round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongHaul {
    /// One end of the cable.
    pub at: PortRef,
    /// Delay in one direction, in ns; light in a fibre takes 5 µs for a kilometre.
    pub delay_ns: u64,
    /// Blocks private to each lane at each end, at most 65,535.
    pub per_vl_blocks: u32,
}

/// Delays and limits of queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QpSettings {
    /// Local ACK time-out as an IBA code: 4.096 µs × 2^value; 0: never. Default 14 (67 ms).
    pub ack_timeout: u8,
    /// How often a request is sent again before the queue pair goes to ERROR. Default 7. Source: IBA vol 1 §9.7.6.1.3.
    pub retry_count: u8,
    /// Largest number of packets in flight before the sender waits for an acknowledgement. Default 64.
    pub window_packets: u32,
    /// An acknowledgement is requested every this many packets, and with the last packet of a message. Default 16.
    pub ack_every: u32,
    /// Time that the HCA takes to acknowledge a packet, in ns. Default 200.
    pub ack_delay_ns: u64,
    /// Operation of messages. Default SEND.
    pub operation: Operation,
}

impl Default for QpSettings {
    fn default() -> Self {
        Self {
            ack_timeout: 14,
            retry_count: 7,
            window_packets: 64,
            ack_every: 16,
            ack_delay_ns: 200,
            operation: Operation::Send,
        }
    }
}

/// All parameters of a simulation except fabric, tables and traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Rate of every link; `None` (default): the rate of each link in the fabric.
    pub link: Option<LinkRate>,
    /// Largest payload. Default 2,048.
    pub mtu: Mtu,
    /// True if every packet has a global route header, 40 bytes. Default: none has.
    pub grh: bool,
    /// Data lanes in use, 1–15. Default 1.
    pub vls: u8,
    /// Buffers of switch and host inputs.
    pub buffers: Buffers,
    /// FIFO or VOQ. Default FIFO.
    pub queueing: Queueing,
    /// Packets that one input may send into the crossbar at the same time, each at the rate of its output. Default 1.
    pub speedup: u8,
    /// Delay of a cable in one direction, in ns. Default 25 (5 m).
    pub cable_delay_ns: u64,
    /// Cables that are longer. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub long_haul: Vec<LongHaul>,
    /// Time from the first byte of a packet at an input to its first byte at an idle output, in ns. Default 100.
    pub switch_delay_ns: u64,
    /// Time from the end of a packet in a buffer to the sending of its credits, in ns. Default 0.
    pub credit_delay_ns: u64,
    /// Arbitration between lanes at every output. Default: lanes take turns, one packet each.
    pub vl_arb: VlArb,
    /// Source of service levels. Default: the routing.
    pub sl: SlChoice,
    /// Head-of-queue lifetime at switch outputs: 4.096 µs × 2^value; 20 and more: infinite. Default 18, OpenSM's.
    pub hoq_life: u8,
    /// How long a packet may stay in a switch: 4.096 µs × 2^value; 20 and more: infinite. Default 18, OpenSM's.
    pub switch_life: u8,
    /// Largest number of messages that wait on a lane of a host. Further messages are counted as missed instead of
    /// posted. Default 256.
    pub source_queue: u32,
    /// Transport of messages. Default: none.
    pub transport: Transport,
    /// Queue pair settings.
    pub qp: QpSettings,
    /// Simulated time before the measurement begins, in ns.
    pub warmup_ns: u64,
    /// Duration of the measurement, in ns.
    pub duration_ns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            link: None,
            mtu: Mtu::B2048,
            grh: false,
            vls: 1,
            buffers: Buffers {
                per_vl_blocks: None,
                shared_blocks: 0,
                shared_per_vl_blocks: None,
            },
            queueing: Queueing::Fifo,
            speedup: 1,
            cable_delay_ns: 25,
            long_haul: Vec::new(),
            switch_delay_ns: 100,
            credit_delay_ns: 0,
            vl_arb: VlArb::default(),
            sl: SlChoice::Routing,
            hoq_life: 18,
            switch_life: 18,
            source_queue: 256,
            transport: Transport::None,
            qp: QpSettings::default(),
            warmup_ns: 20_000,
            duration_ns: 100_000,
        }
    }
}

/// Returns the local ACK time-out of a code: 4.096 µs × 2^code; `None` for 0: never. Source: IBA vol 1 §9.7.6.1.3.
#[must_use]
pub const fn ack_timeout(code: u8) -> Option<Ps> {
    match code {
        0 => None,
        1..=31 => Some(4_096_000 << code),
        _ => Some(4_096_000 << 31),
    }
}

/// Returns 4.096 µs × 2^value in picoseconds; `None` from 20 on: infinite. Source: IBA vol 1 §18.2.5.4.
#[must_use]
pub const fn lifetime(value: u8) -> Option<Ps> {
    if value < 20 { Some(4_096_000 << value) } else { None }
}

/// Settings that contradict each other or the standard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// SLV-DATA-0002: the number of lanes is out of range.
    #[error("SLV-DATA-0002: {vls} data lanes; want 1 to 15")]
    Lanes {
        /// The number given.
        vls: u8,
    },
    /// SLV-DATA-0003: the size of a buffer is out of range.
    #[error("SLV-DATA-0003: buffers of {blocks} blocks per lane; want {least} (one packet of the MTU) to {most}")]
    Buffer {
        /// The number given.
        blocks: u32,
        /// Number of blocks for one packet.
        least: u32,
        /// Largest number that credits can count.
        most: u32,
    },
    /// SLV-DATA-0004: the speed-up is out of range.
    #[error("SLV-DATA-0004: a crossbar speed-up of 0 moves nothing; want 1 to 255")]
    Speedup,
    /// SLV-DATA-0005: the duration of the measurement is zero.
    #[error("SLV-DATA-0005: the measured time is 0; want at least 1 ns")]
    Duration,
    /// SLV-DATA-0006: an arbitration entry names a lane that is not in use.
    #[error("SLV-DATA-0006: arbitration table with lane {vl}, but lanes 0 to {last} are in use")]
    ArbitrationLane {
        /// The lane.
        vl: u8,
        /// The highest lane in use.
        last: u8,
    },
    /// SLV-DATA-0007: no arbitration table has an entry for a lane in use.
    #[error("SLV-DATA-0007: lane {vl} has no weight in any arbitration table: its packets would wait for ever")]
    Unserved {
        /// The lane.
        vl: u8,
    },
    /// SLV-DATA-0008: a time is longer than allowed.
    #[error("SLV-DATA-0008: a time is longer than {most} ns; want a shorter one")]
    TooLong {
        /// Longest allowed time.
        most: u64,
    },
    /// SLV-DATA-0013: an arbitration table has more entries than a port can have.
    #[error("SLV-DATA-0013: the {table}-priority arbitration table has {found} entries; a port has at most 64")]
    ArbitrationLength {
        /// `high` or `low`.
        table: &'static str,
        /// Entries given.
        found: usize,
    },
}

/// Default number of blocks private to a lane: enough to cover the round trip with small packets.
const LANE_BLOCKS: u32 = 128;

/// Most blocks of a lane of a [`LongHaul`]: 4 MiB.
const LONG_BLOCKS_MAX: u32 = u16::MAX as u32;

/// Longest time in a setting, in ns: one hour.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

impl Settings {
    /// Returns the bytes of headers and CRCs of every packet.
    #[must_use]
    #[inline]
    pub const fn headers(&self) -> u32 {
        if self.grh {
            header::LOCAL as u32 + header::GRH as u32
        } else {
            header::LOCAL as u32
        }
    }

    /// Returns the overhead of a packet with this payload in bytes; the first packet of a message may have more.
    #[must_use]
    #[inline]
    pub const fn overhead(&self, payload: u32, is_first: bool) -> u32 {
        let is_write = matches!(self.qp.operation, Operation::Write) && !matches!(self.transport, Transport::None);
        let extended = if is_write && is_first { header::RETH as u32 } else { 0 };
        self.headers() + extended + header::pad(payload)
    }

    /// Returns the length of the largest packet in bytes, including headers.
    #[must_use]
    pub const fn packet_bytes(&self) -> u32 {
        let mtu = self.mtu.bytes() as u32;
        mtu + self.overhead(mtu, true)
    }

    /// Returns the blocks of the largest packet: the one that begins an RDMA message.
    #[must_use]
    pub const fn packet_blocks(&self) -> u32 {
        blocks(self.packet_bytes())
    }

    /// Returns the blocks private to a lane of an input.
    #[must_use]
    pub fn lane_blocks(&self) -> u32 {
        self.buffers
            .per_vl_blocks
            .unwrap_or_else(|| LANE_BLOCKS.max(4 * self.packet_blocks()))
    }

    /// Returns the settings with fabric-dependent defaults filled in, for the results.
    #[must_use]
    pub fn resolved(&self, network: &Network<'_>) -> Self {
        let mut settings = self.clone();
        settings.buffers.per_vl_blocks = Some(self.lane_blocks());
        settings.link = self.link.or_else(|| network.one_rate());
        settings.vl_arb = self.vl_arb.filled(self.vls);
        settings
    }

    /// Returns when the measurement begins.
    #[must_use]
    pub const fn measure_from(&self) -> Ps {
        self.warmup_ns * PS_PER_NS
    }

    /// Returns when the simulation ends.
    #[must_use]
    pub const fn end(&self) -> Ps {
        (self.warmup_ns + self.duration_ns) * PS_PER_NS
    }

    /// Reference rate of loads if links have no rate: 4x HDR.
    pub const DEFAULT_LINK: LinkRate = LinkRate::four(Speed::Hdr);

    /// Fails if settings contradict each other or the standard.
    pub fn check(&self) -> Result<(), SettingsError> {
        if !(1..=15).contains(&self.vls) {
            return Err(SettingsError::Lanes { vls: self.vls });
        }
        let (least, found) = (self.packet_blocks(), self.lane_blocks());
        if !(least..=BLOCKS_MAX).contains(&found) {
            return Err(SettingsError::Buffer {
                blocks: found,
                least,
                most: BLOCKS_MAX,
            });
        }
        if self.speedup == 0 {
            return Err(SettingsError::Speedup);
        }
        if self.duration_ns == 0 {
            return Err(SettingsError::Duration);
        }
        let long = self.long_haul.iter().map(|long| long.per_vl_blocks);
        if let Some(found) = long
            .into_iter()
            .find(|found| !(least..=LONG_BLOCKS_MAX).contains(found))
        {
            return Err(SettingsError::Buffer {
                blocks: found,
                least,
                most: LONG_BLOCKS_MAX,
            });
        }
        let times = [
            self.duration_ns,
            self.warmup_ns,
            self.cable_delay_ns,
            self.switch_delay_ns,
            self.credit_delay_ns,
            self.qp.ack_delay_ns,
        ];
        let long = self.long_haul.iter().map(|long| long.delay_ns);
        if times.into_iter().chain(long).any(|ns| ns > TIME_MAX_NS) {
            return Err(SettingsError::TooLong { most: TIME_MAX_NS });
        }
        self.vl_arb.check(self.vls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn long(delay_ns: u64, per_vl_blocks: u32) -> LongHaul {
        let at = PortRef {
            node: selvedge_fabric::NodeIdx(0),
            port: selvedge_types::PortNum::MANAGEMENT,
        };
        LongHaul {
            at,
            delay_ns,
            per_vl_blocks,
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let check = |change: fn(&mut Settings), want: &str| {
            let mut settings = Settings::default();
            change(&mut settings);
            let error = settings.check().err().map(|e| e.to_string()).unwrap_or_default();
            assert!(
                error.starts_with(want) && (want.is_empty() == error.is_empty()),
                "{error}"
            );
        };
        check(|_| {}, "");
        check(|s| s.vls = 16, "SLV-DATA-0002");
        check(|s| s.buffers.per_vl_blocks = Some(32), "SLV-DATA-0003");
        check(|s| s.buffers.per_vl_blocks = Some(33), "");
        check(|s| s.buffers.per_vl_blocks = Some(2_049), "SLV-DATA-0003");
        check(|s| s.speedup = 0, "SLV-DATA-0004");
        check(|s| s.duration_ns = 0, "SLV-DATA-0005");
        check(|s| s.vl_arb.low.push((3, 1)), "SLV-DATA-0006");
        check(
            |s| {
                s.vls = 2;
                s.vl_arb.low.push((1, 1));
            },
            "SLV-DATA-0007",
        );
        check(|s| s.duration_ns = u64::MAX, "SLV-DATA-0008");
        check(|s| s.long_haul.push(long(1, 65_535)), "");
        check(|s| s.long_haul.push(long(1, 65_536)), "SLV-DATA-0003");
        check(|s| s.long_haul.push(long(1, 32)), "SLV-DATA-0003");
        check(|s| s.long_haul.push(long(u64::MAX, 100)), "SLV-DATA-0008");
    }

    #[test]
    fn headers_are_those_of_the_standard() {
        let check = |change: fn(&mut Settings), payload, is_first, want| {
            let mut settings = Settings::default();
            change(&mut settings);
            assert_eq!(settings.overhead(payload, is_first), want, "{payload} {is_first}");
        };
        let write = |s: &mut Settings| (s.transport, s.qp.operation) = (Transport::Rc, Operation::Write);
        check(|_| {}, 2_048, true, 8 + 12 + 4 + 2);
        check(|_| {}, 2_047, true, 27);
        check(|s| s.grh = true, 2_048, true, 66);
        check(write, 2_048, true, 42);
        check(write, 2_048, false, 26);
        check(|s| s.qp.operation = Operation::Write, 2_048, true, 26);
    }

    #[test]
    fn lifetimes() {
        assert_eq!(lifetime(0), Some(4_096_000));
        assert_eq!(lifetime(18), Some(1_073_741_824_000));
        assert_eq!(lifetime(20), None);
    }
}
