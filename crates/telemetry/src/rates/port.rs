//! Rates of one port.

use core::time::Duration;

use selvedge_types::{LinkSpeed, Rate};

use crate::rates::{Growth, WaitTick};
use crate::{End, Group, Metric};

/// What a link can carry in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes per second, without the coding of the link.
    pub bytes_per_s: u64,
    /// Number of physical lanes of the link.
    pub lanes: u8,
}

impl Capacity {
    /// Returns the capacity of a link: speed × width × coding. Source: IBA vol 2 §5; 8b/10b up to QDR, 64b/66b from
    /// FDR10 on. `None`: the speed is not known.
    #[must_use]
    pub fn of(rate: Rate) -> Option<Self> {
        (rate.speed != LinkSpeed::Unknown).then(|| Self {
            bytes_per_s: rate.data_bytes_per_s(),
            lanes: rate.width.lanes(),
        })
    }
}

/// Bytes of a packet on the link that PortXmitData and PortRcvData do not count: its VCRC. Source: IBA vol 1 §16.1.3.5.
const VCRC_BYTES: u64 = 2;

/// The rates of a port over an interval. A value is absent if its counters have no value, and shares are absent if the
/// rate of the link is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PortRates {
    /// The port.
    pub end: End,
    /// The interval.
    pub over: Duration,
    /// Bytes sent per second: 4 × PortXmitData.
    pub xmit_bytes_per_s: Option<f64>,
    /// Bytes received per second: 4 × PortRcvData.
    pub rcv_bytes_per_s: Option<f64>,
    /// Packets sent per second.
    pub xmit_packets_per_s: Option<f64>,
    /// Packets received per second.
    pub rcv_packets_per_s: Option<f64>,
    /// Share of the link's capacity that was sent, 0 to 1.
    pub xmit_utilisation: Option<f64>,
    /// Share of the link's capacity that was received, 0 to 1.
    pub rcv_utilisation: Option<f64>,
    /// Share of the interval in which it had data to send and sent nothing, by PortXmitWait, 0 to 1.
    pub wait_share: Option<f64>,
    /// True if the true rates may be higher: a counter was reset, or stood at its maximum.
    pub is_lower_bound: bool,
    /// True if a value was derived from the other end of the link.
    pub is_derived: bool,
}

impl PortRates {
    /// Returns the rates of a port from the growth of PortCounters or PortCountersExtended. `link` is what its link
    /// can carry, `tick` the length of its tick.
    #[must_use]
    pub fn new(growth: &Growth, link: Option<Capacity>, tick: WaitTick) -> Self {
        const USED: [Metric; 5] = [
            Metric::XmitData,
            Metric::RcvData,
            Metric::XmitPackets,
            Metric::RcvPackets,
            Metric::XmitWait,
        ];
        let bytes = |data: Metric| growth.per_second(data).map(|words| 4.0 * words);
        let utilisation = |data, packets| {
            let on_link =
                4.0 * growth.per_second(data)? + VCRC_BYTES as f64 * growth.per_second(packets).unwrap_or_default();
            Some((on_link / link?.bytes_per_s as f64).clamp(0.0, 1.0))
        };
        let wait = |ticks| Some(link?.wait_share(tick, ticks, growth.over));
        let used = growth.key.group.mask_of(|metric| USED.contains(&metric));
        Self {
            end: End {
                node: growth.key.node,
                port: growth.key.port,
            },
            over: growth.over,
            xmit_bytes_per_s: bytes(Metric::XmitData),
            rcv_bytes_per_s: bytes(Metric::RcvData),
            xmit_packets_per_s: growth.per_second(Metric::XmitPackets),
            rcv_packets_per_s: growth.per_second(Metric::RcvPackets),
            xmit_utilisation: utilisation(Metric::XmitData, Metric::XmitPackets),
            rcv_utilisation: utilisation(Metric::RcvData, Metric::RcvPackets),
            wait_share: growth.metric(Metric::XmitWait).and_then(wait),
            is_lower_bound: growth.at_least & used != 0,
            is_derived: growth.is_derived,
        }
    }
}

/// Returns the share of the interval in which each lane waited, from the growth of PortVLXmitWaitCounters; empty for
/// another group. The tick is that of PortXmitWait.
#[must_use]
pub fn vl_wait_shares(growth: &Growth, link: Option<Capacity>, tick: WaitTick) -> Vec<(u8, f64)> {
    let (Group::VlXmitWait, Some(link)) = (growth.key.group, link) else {
        return Vec::new();
    };
    let lanes = (0..growth.counters()).zip(0_u8..);
    let share = |(counter, vl)| Some((vl, link.wait_share(tick, growth.counter(counter)?, growth.over)));
    lanes.filter_map(share).collect()
}
