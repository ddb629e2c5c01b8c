//! What ports count, and checks of the state.

use core::fmt::Debug;

use selvedge_fabric::PortRef;
use serde::{Deserialize, Serialize};

use crate::Simulation;
use crate::endpoint::Endpoint;
use crate::layout::NO_PORT;
use crate::packet::NIL;
use crate::settings::Queueing;
use crate::subnet::Subnet;
use crate::units::{PS_PER_NS, Ps, header};

/// Counters of a port during the measurement, in the form of its PMA. PortXmitWait is in nanoseconds, because the
/// standard leaves the length of a tick to the hardware. Source: IBA vol 1 §16.1.3.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// PortXmitData: words of four bytes, without VCRCs.
    pub xmit_data: u64,
    /// PortXmitPkts.
    pub xmit_packets: u64,
    /// PortRcvData.
    pub rcv_data: u64,
    /// PortRcvPkts.
    pub rcv_packets: u64,
    /// PortXmitWait: time with packets to send but no credits.
    pub xmit_wait_ns: u64,
    /// PortXmitDiscards: packets for this output that were dropped because it was down or they had waited too long.
    pub xmit_discards: u64,
    /// PortRcvSwitchRelayErrors: packets from this input that had no entry or no lane.
    pub rcv_switch_relay_errors: u64,
    /// LinkDowned.
    pub link_downed: u64,
}

/// One direction of a link during the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkUse {
    /// Name of the sending port.
    pub port: String,
    /// Share of the time in which the link sent.
    pub utilisation: f64,
    /// Share of the time with packets to send but no credits (PortXmitWait).
    pub wait: f64,
    /// Share of the time in which the link sent, by lane.
    pub lanes: Vec<f64>,
    /// The counters of the port.
    pub counters: PortCounters,
}

/// Account of all packets, to prove that none is lost without a reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Number of packets sent by hosts, and of further copies that switches made of them.
    pub sent: u64,
    /// Number of packets received by their destination hosts, including acknowledgements and repeated packets.
    pub delivered: u64,
    /// Number of packets dropped, for any reason.
    pub dropped: u64,
    /// Number of packets still on a link or in a switch.
    pub under_way: u64,
}

impl Account {
    /// True if the numbers add up.
    #[must_use]
    pub const fn balances(&self) -> bool {
        self.sent == self.delivered + self.dropped + self.under_way
    }
}

/// Utilisation of links between switches, summarised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Mean over all directions of links.
    pub mean: f64,
    /// Utilisation of the busiest direction of a link.
    pub max: f64,
    /// Mean share of the time with packets to send but no credits.
    pub wait_mean: f64,
    /// Largest share of the time, of any direction of a link, with packets to send but no credits.
    pub wait_max: f64,
}

impl<H: Copy + Debug> Subnet<H> {
    /// Returns the account of all packets.
    #[must_use]
    pub fn account(&self) -> Account {
        Account {
            sent: self.sent,
            delivered: self.received,
            dropped: self.drops.total(),
            under_way: u64::from(self.packets.live()),
        }
    }

    /// Returns every direction of every link, by node and port.
    #[must_use]
    pub fn link_use(&self) -> Vec<LinkUse> {
        let time = self.measured().max(1) as f64;
        let vls = usize::from(self.settings.vls);
        let of = |(index, port): (usize, &crate::layout::Port)| {
            if port.peer == NO_PORT {
                return None;
            }
            let lanes = self.lanes[index * vls..(index + 1) * vls].iter().map(|lane| lane.bytes);
            let share = |bytes: u64| bytes as f64 * port.byte_time.of(1 << 20) as f64 / (1_u64 << 20) as f64 / time;
            Some(LinkUse {
                port: self.fabric.port_name(self.layout.refs[index]),
                utilisation: share(lanes.clone().sum()),
                wait: self.waited(index) as f64 / time,
                lanes: lanes.map(share).collect(),
                counters: self.counters(index),
            })
        };
        self.ports.iter().enumerate().filter_map(of).collect()
    }

    /// Returns the counters of every port with a cable, by node and port.
    #[must_use]
    pub fn port_counters(&self) -> Vec<(PortRef, PortCounters)> {
        let cabled = (0..self.ports.len()).filter(|index| self.ports[*index].peer != NO_PORT);
        cabled
            .map(|index| (self.layout.refs[index], self.counters(index)))
            .collect()
    }

    fn counters(&self, index: usize) -> PortCounters {
        let vls = usize::from(self.settings.vls);
        let (port, stats) = (&self.ports[index], &self.port_stats[index]);
        let lanes = &self.lanes[index * vls..(index + 1) * vls];
        let sent: u64 = lanes.iter().map(|lane| lane.bytes).sum();
        let packets: u64 = lanes.iter().map(|lane| lane.packets).sum();
        let words = |bytes: u64, packets: u64| (bytes - packets * u64::from(header::VCRC)) / 4;
        PortCounters {
            xmit_data: words(sent, packets),
            xmit_packets: packets,
            rcv_data: words(port.received_bytes, port.received),
            rcv_packets: port.received,
            xmit_wait_ns: self.waited(index) / PS_PER_NS,
            xmit_discards: stats.discards,
            rcv_switch_relay_errors: stats.relay_errors,
            link_downed: stats.downed,
        }
    }

    /// Returns the duration of the measurement so far.
    fn measured(&self) -> Ps {
        self.now
            .min(self.end.unwrap_or(Ps::MAX))
            .saturating_sub(self.counts_from)
    }

    /// Returns how long an output had packets to send but no credits.
    fn waited(&self, port: usize) -> Ps {
        let stats = &self.port_stats[port];
        let still = stats
            .waits_since
            .map_or(0, |since| self.now.saturating_sub(since.max(self.counts_from)));
        stats.wait + still
    }

    pub(crate) fn utilisation(&self, time: Ps) -> Utilisation {
        let vls = usize::from(self.settings.vls);
        let time = time.max(1) as f64;
        let mut found = Utilisation::default();
        let mut links = 0_u32;
        let hosts = self.layout.hosts[0].port as usize;
        for (index, port) in self.ports[..hosts].iter().enumerate() {
            if port.peer == NO_PORT || port.to_host {
                continue;
            }
            let lanes = &self.lanes[index * vls..(index + 1) * vls];
            let bytes: u64 = lanes.iter().map(|lane| lane.bytes).sum();
            let busy = bytes as f64 * port.byte_time.of(1 << 20) as f64 / (1_u64 << 20) as f64 / time;
            let wait = self.waited(index) as f64 / time;
            links += 1;
            found.mean += busy;
            found.wait_mean += wait;
            found.max = found.max.max(busy);
            found.wait_max = found.wait_max.max(wait);
        }
        found.mean /= f64::from(links.max(1));
        found.wait_mean /= f64::from(links.max(1));
        found
    }

    /// Checks all invariants; the error is a text. For tests, because it reads the whole state.
    pub fn check(&self) -> Result<(), String> {
        if !self.account().balances() {
            return Err(format!("packets do not balance: {:?}", self.account()));
        }
        let vls = usize::from(self.settings.vls);
        for (index, lane) in self.lanes.iter().enumerate() {
            let (found, most) = (
                u32::from(lane.all_credits(&self.far[index])),
                self.layout.lane_blocks(index / vls, &self.settings),
            );
            if found > most {
                let name = self.lane_name(index);
                return Err(format!("{name} has {} credits too many", found - most));
            }
            if found < most && self.packets.live() == 0 {
                let name = self.lane_name(index);
                return Err(format!(
                    "{name} lacks {} credits, and no packet is under way",
                    most - found
                ));
            }
        }
        self.check_pools(vls)?;
        for (number, switch) in self.layout.switches.iter().enumerate() {
            for port in 1..=switch.ports {
                let port = switch.first_port as usize + usize::from(port);
                let queued: u32 = self.queued_at(number, port, vls);
                if queued != self.ports[port].queued {
                    return Err(format!("{} has lost count of its packets", self.lane_name(port * vls)));
                }
            }
        }
        Ok(())
    }

    /// Checks the pools that lanes share: nothing is lost, and no lane holds more than it may.
    fn check_pools(&self, vls: usize) -> Result<(), String> {
        let buffers = &self.settings.buffers;
        let pools = self.pools.iter().enumerate();
        let pools = pools.map(|(port, pool)| (port, pool, buffers.shared_blocks));
        let most = buffers.shared_per_vl_blocks.unwrap_or(0);
        let shares = self.pool_shares.iter().enumerate();
        let shares = shares.map(|(lane, share)| (lane / vls, share, most));
        for (port, pool, most) in pools.chain(shares) {
            let found = pool.all();
            if found > most || found < most && self.packets.live() == 0 {
                let name = self.lane_name(port * vls);
                return Err(format!("a pool at {name} has {found} free blocks of {most}"));
            }
        }
        Ok(())
    }

    fn queued_at(&self, switch: usize, port: usize, vls: usize) -> u32 {
        let ports = usize::from(self.layout.switches[switch].ports);
        let queues = match self.settings.queueing {
            Queueing::Fifo => port * vls..(port + 1) * vls,
            Queueing::Voq => {
                let input = port - self.layout.switches[switch].first_port as usize - 1;
                let first = self.layout.switches[switch].first_voq as usize + input * ports;
                self.lanes.len() + first * vls..self.lanes.len() + (first + ports) * vls
            }
        };
        let mut count = 0;
        for place in queues {
            let mut index = self.queue::<false>(place).head;
            while index != NIL {
                count += 1;
                index = self.packets.get(index).next;
            }
        }
        count
    }
}

impl<E: Endpoint> Simulation<E> {
    /// Returns the account of all packets.
    #[must_use]
    pub fn account(&self) -> Account {
        self.subnet.account()
    }

    /// Returns every direction of every link, by node and port.
    #[must_use]
    pub fn link_use(&self) -> Vec<LinkUse> {
        self.subnet.link_use()
    }

    /// Returns the counters of every port with a cable, by node and port.
    #[must_use]
    pub fn port_counters(&self) -> Vec<(PortRef, PortCounters)> {
        self.subnet.port_counters()
    }

    /// Checks all invariants of the subnet; the error is a text. For tests, because it reads the whole state.
    pub fn check(&self) -> Result<(), String> {
        self.subnet.check()
    }
}
