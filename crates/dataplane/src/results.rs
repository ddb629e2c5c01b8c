//! What a simulation found.

use serde::{Deserialize, Serialize};

use crate::Simulation;
use crate::deadlock::Deadlock;
use crate::packet::NIL;
use crate::qp_state::QpCounts;
use crate::series::steady_from;
use crate::settings::Settings;
use crate::stats::{Drops, Histogram};
use crate::traffic::Workload;
use crate::units::{BLOCK_BYTES, PS_PER_NS, Ps, header};

/// Times between posting and arrival, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: u64,
    /// 95 of 100 are not above.
    pub p95: u64,
    /// 99 of 100 are not above.
    pub p99: u64,
    /// 999 of 1,000 are not above.
    pub p999: u64,
    /// The longest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
}

impl From<&Histogram> for Latency {
    fn from(histogram: &Histogram) -> Self {
        Self {
            p50: histogram.quantile(500),
            p95: histogram.quantile(950),
            p99: histogram.quantile(990),
            p999: histogram.quantile(999),
            max: histogram.max(),
            mean: histogram.mean(),
        }
    }
}

/// What a port's counters say, as its PMA tells them, while it was measured. A time that credits are waited for is in
/// nanoseconds: the standard leaves the length of a tick to the hardware. Source: IBA vol 1 §16.1.3.5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// PortXmitData: words of four bytes, VCRCs not counted.
    pub xmit_data: u64,
    /// PortXmitPkts.
    pub xmit_packets: u64,
    /// PortRcvData.
    pub rcv_data: u64,
    /// PortRcvPkts.
    pub rcv_packets: u64,
    /// PortXmitWait: something to send, but no credits.
    pub xmit_wait_ns: u64,
    /// PortXmitDiscards: packets for this output that were dropped; it was down, or they had waited for too long.
    pub xmit_discards: u64,
    /// PortRcvSwitchRelayErrors: packets from this input that had no entry, or no lane.
    pub rcv_switch_relay_errors: u64,
    /// LinkDowned.
    pub link_downed: u64,
}

/// One direction of a link, while it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkUse {
    /// The sending port.
    pub port: String,
    /// Share of the time in which it sent.
    pub utilisation: f64,
    /// Share of the time in which it had something to send, but no credits (PortXmitWait).
    pub wait: f64,
    /// Share of the time in which it sent, by lane.
    pub lanes: Vec<f64>,
    /// The counters of the port.
    pub counters: PortCounters,
}

/// Where all packets are: nothing is lost without a reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Sent by hosts.
    pub sent: u64,
    /// Received by the hosts they were for, acknowledgements and repeated ones too.
    pub delivered: u64,
    /// Dropped, for any reason.
    pub dropped: u64,
    /// Still on a link or in a switch.
    pub under_way: u64,
}

impl Account {
    /// True if every packet that was sent is somewhere.
    #[must_use]
    pub const fn balances(&self) -> bool {
        self.sent == self.delivered + self.dropped + self.under_way
    }
}

/// What a simulation found. Loads are fractions of the payload rate that the hosts' links can carry at the MTU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// How it was simulated, every default stated.
    pub settings: Settings,
    /// Hosts with a link and a LID.
    pub hosts: u64,
    /// Switches.
    pub switches: u64,
    /// What hosts wanted to send while it was measured.
    pub offered_load: f64,
    /// What arrived.
    pub accepted_load: f64,
    /// What arrived with headers, as a fraction of the links' data rate.
    pub wire_load: f64,
    /// From the posting of its message to the last byte of a packet.
    pub latency_ns: Latency,
    /// From the posting of a message to its last byte.
    pub message_latency_ns: Latency,
    /// Payload bytes ÷ 64 that arrived from the start to the end, warm-up included.
    pub units_delivered: u64,
    /// Packets with payload that arrived from the start to the end; those of a connection once each.
    pub packets_delivered: u64,
    /// Packets that arrived while it was measured.
    pub packets_measured: u64,
    /// Messages that arrived whole while it was measured.
    pub messages_measured: u64,
    /// Messages of which something was lost.
    pub messages_lost: u64,
    /// Messages that were due, but not posted because too many waited.
    pub messages_missed: u64,
    /// Jain's index of what senders got through: 1 if all got the same, 1/n if one got all.
    pub fairness: f64,
    /// The same of what receivers got.
    pub fairness_receivers: f64,
    /// Packets dropped, from the start to the end.
    pub drops: Drops,
    /// What queue pairs did; nothing without a transport.
    pub qps: QpCounts,
    /// Where all packets are.
    pub packets: Account,
    /// Packets that wait for each other for ever; the simulation ends where it is found.
    pub deadlock: Option<Deadlock>,
    /// Accepted load in equal steps from the start on, warm-up included.
    pub series: Series,
    /// When the workload was done; absent if it has no end, or did not come to it.
    pub completed_ns: Option<u64>,
    /// Simulated time.
    pub simulated_ns: u64,
    /// Events handled.
    pub events: u64,
    /// Events per packet delivered.
    pub events_per_packet: f64,
    /// Links between switches.
    pub links: Utilisation,
}

/// Accepted load over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Length of a step.
    pub step_ns: u64,
    /// Accepted load of each step.
    pub accepted_load: Vec<f64>,
    /// Offered load of each step.
    pub offered_load: Vec<f64>,
    /// Packets dropped in each step.
    pub dropped: Vec<u64>,
    /// From when on the load is steady, by the marginal standard error rule; absent if it is not steady at all.
    pub steady_from_ns: Option<u64>,
    /// True if it is steady before the warm-up ends.
    pub warmup_suffices: bool,
}

/// Utilisation of links between switches, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Utilisation {
    /// Mean over all directions of links.
    pub mean: f64,
    /// The busiest.
    pub max: f64,
    /// Mean share of the time with something to send, but no credits.
    pub wait_mean: f64,
    /// The longest such.
    pub wait_max: f64,
}

/// Jain's index of fairness; 1 of nothing.
fn jain(values: &[u64]) -> f64 {
    let sum: f64 = values.iter().map(|&v| v as f64).sum();
    let squares: f64 = values.iter().map(|&v| v as f64 * v as f64).sum();
    if squares == 0.0 {
        1.0
    } else {
        sum * sum / (values.len() as f64 * squares)
    }
}

impl<W: Workload> Simulation<W> {
    /// Ends the simulation: what was due is counted, and everything is summed up.
    #[must_use]
    pub fn finish(mut self) -> Results {
        let end = self.now.min(self.settings.end());
        for host in 0..self.hosts.len() as u32 {
            self.post_due::<false>(host, end);
        }
        let time = end.saturating_sub(self.window.from);
        let rate = |at: &crate::layout::HostPort| {
            let time = self.ports[at.port as usize].byte_time.of(1 << 20);
            (1_u64 << 20) as f64 / time as f64
        };
        let bytes_per_ps: f64 = self.layout.hosts.iter().map(rate).sum();
        let mtu = f64::from(self.settings.mtu.bytes());
        let payload_share = mtu / (mtu + f64::from(self.settings.headers()));
        let capacity = (bytes_per_ps * time as f64).max(f64::MIN_POSITIVE);
        let window = &self.window;
        let account = self.account();
        Results {
            hosts: self.layout.hosts.len() as u64,
            switches: self.layout.switches.len() as u64,
            offered_load: window.offered_bytes as f64 / (capacity * payload_share),
            accepted_load: window.accepted_bytes as f64 / (capacity * payload_share),
            wire_load: window.wire_bytes as f64 / capacity,
            latency_ns: (&window.packet_latency).into(),
            message_latency_ns: (&window.message_latency).into(),
            units_delivered: window.all_bytes / u64::from(BLOCK_BYTES),
            packets_delivered: window.all_packets,
            packets_measured: window.packets,
            messages_measured: window.messages,
            messages_lost: window.messages_lost,
            messages_missed: window.messages_missed,
            fairness: jain(&window.by_sender),
            fairness_receivers: jain(&window.by_receiver),
            drops: self.drops,
            qps: self.qps.counts,
            packets: account,
            series: self.series(bytes_per_ps * payload_share),
            completed_ns: self.workload.completed_at().map(|at| at.div_ceil(PS_PER_NS)),
            simulated_ns: self.now / PS_PER_NS,
            events: self.events,
            events_per_packet: self.events as f64 / window.all_packets.max(1) as f64,
            links: self.utilisation(time),
            deadlock: self.deadlock.clone(),
            settings: self.settings,
        }
    }

    fn series(&self, bytes_per_ps: f64) -> Series {
        let series = &self.window.series;
        let (ended, step) = (series.ended(self.now), series.step() as f64);
        let steady = steady_from(&series.accepted[..ended]).map(|step| step as u64 * series.step());
        let load = |bytes: &u64| *bytes as f64 / (step * bytes_per_ps);
        Series {
            step_ns: series.step() / PS_PER_NS,
            accepted_load: series.accepted[..ended].iter().map(load).collect(),
            offered_load: series.offered[..ended].iter().map(load).collect(),
            dropped: series.dropped[..ended].to_vec(),
            steady_from_ns: steady.map(|at| at / PS_PER_NS),
            warmup_suffices: steady.is_some_and(|at| at <= self.window.from),
        }
    }

    /// Where all packets are.
    #[must_use]
    pub fn account(&self) -> Account {
        Account {
            sent: self.sent,
            delivered: self.received,
            dropped: self.drops.total(),
            under_way: u64::from(self.packets.live()),
        }
    }

    /// Payload bytes that each host has received while it was measured, by host.
    #[must_use]
    pub fn received_bytes(&self) -> &[u64] {
        &self.window.by_receiver
    }

    /// Payload bytes of each host that have arrived while it was measured, by host.
    #[must_use]
    pub fn accepted_bytes(&self) -> &[u64] {
        &self.window.by_sender
    }

    /// Every direction of every link, by node and port.
    #[must_use]
    pub fn link_use(&self) -> Vec<LinkUse> {
        let time = self.measured().max(1) as f64;
        let vls = usize::from(self.settings.vls);
        let of = |(index, port): (usize, &crate::layout::Port)| {
            if port.peer == crate::layout::NO_PORT {
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

    /// How long it was measured so far.
    fn measured(&self) -> Ps {
        self.now.min(self.settings.end()).saturating_sub(self.window.from)
    }

    /// How long an output had something to send but no credits.
    fn waited(&self, port: usize) -> Ps {
        let stats = &self.port_stats[port];
        let still = stats
            .waits_since
            .map_or(0, |since| self.now.saturating_sub(since.max(self.window.from)));
        stats.wait + still
    }

    fn utilisation(&self, time: Ps) -> Utilisation {
        let vls = usize::from(self.settings.vls);
        let time = time.max(1) as f64;
        let mut found = Utilisation::default();
        let mut links = 0_u32;
        let hosts = self.layout.hosts[0].port as usize;
        for (index, port) in self.ports[..hosts].iter().enumerate() {
            if port.peer == crate::layout::NO_PORT || port.to_host {
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

    /// What must hold at any time, or a text that says what does not. For tests: it walks over everything.
    pub fn check(&self) -> Result<(), String> {
        if !self.account().balances() {
            return Err(format!("packets do not balance: {:?}", self.account()));
        }
        let vls = usize::from(self.settings.vls);
        for (index, lane) in self.lanes.iter().enumerate() {
            let (found, most) = (
                u32::from(lane.all_credits(&self.far[index])),
                self.settings.lane_blocks(),
            );
            if found > most {
                let name = self.lane_name(index);
                return Err(format!("{name} has {} credits too many", found - most));
            }
        }
        for (number, switch) in self.layout.switches.iter().enumerate() {
            for port in 1..=switch.ports {
                let port = switch.first_port as usize + usize::from(port);
                let queued: u32 = self.queued_at(number, port, vls);
                if queued != u32::from(self.ports[port].queued) {
                    return Err(format!("{} has lost count of its packets", self.lane_name(port * vls)));
                }
            }
        }
        Ok(())
    }

    fn queued_at(&self, switch: usize, port: usize, vls: usize) -> u32 {
        let ports = usize::from(self.layout.switches[switch].ports);
        let queues = match self.settings.queueing {
            crate::Queueing::Fifo => port * vls..(port + 1) * vls,
            crate::Queueing::Voq => {
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
