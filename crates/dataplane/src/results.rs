//! Results of a simulation.

use selvedge_fabric::PortRef;
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
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Maximum.
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
    /// Number of packets sent by hosts.
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

/// Results of a simulation. Loads are fractions of the payload rate that the hosts' links can carry at the MTU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The settings, with every default filled in.
    pub settings: Settings,
    /// Hosts with a link and a LID.
    pub hosts: u64,
    /// Switches.
    pub switches: u64,
    /// Load that hosts wanted to send during the measurement.
    pub offered_load: f64,
    /// Load that was delivered.
    pub accepted_load: f64,
    /// Load delivered including headers, as a fraction of the links' data rate.
    pub wire_load: f64,
    /// Time from the posting of a message to the last byte of each of its packets.
    pub latency_ns: Latency,
    /// Time from the posting of a message to its last byte.
    pub message_latency_ns: Latency,
    /// Delivered payload bytes ÷ 64, over the whole simulation including warm-up.
    pub units_delivered: u64,
    /// Delivered packets with payload, over the whole simulation; repeated packets count once.
    pub packets_delivered: u64,
    /// Packets delivered during the measurement.
    pub packets_measured: u64,
    /// Messages completely delivered during the measurement.
    pub messages_measured: u64,
    /// Messages with a lost part.
    pub messages_lost: u64,
    /// Messages that were due but not posted, because too many were waiting.
    pub messages_missed: u64,
    /// Jain's fairness index over senders: 1 if all sent equally much, 1/n if one sent everything.
    pub fairness: f64,
    /// Fairness over the receiving hosts.
    pub fairness_receivers: f64,
    /// Packets dropped over the whole simulation.
    pub drops: Drops,
    /// Counters of queue pairs; empty without a transport.
    pub qps: QpCounts,
    /// Account of all packets.
    pub packets: Account,
    /// Packets that wait for each other for ever; the simulation ends when they are detected.
    pub deadlock: Option<Deadlock>,
    /// Accepted load in equal steps, including warm-up.
    pub series: Series,
    /// When the workload was completed; absent if it has no end or was not completed.
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
    /// Time from which the load is steady, by the marginal standard error rule; absent if it never is.
    pub steady_from_ns: Option<u64>,
    /// True if the load is steady before the warm-up ends.
    pub warmup_suffices: bool,
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

/// Returns Jain's fairness index; 1 without values.
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
    /// Ends the simulation: counts messages that were due, and computes the results.
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

    /// Returns the payload bytes that each host has received during the measurement.
    #[must_use]
    pub fn received_bytes(&self) -> &[u64] {
        &self.window.by_receiver
    }

    /// Returns the payload bytes of each host that were delivered during the measurement, by sender.
    #[must_use]
    pub fn accepted_bytes(&self) -> &[u64] {
        &self.window.by_sender
    }

    /// Returns every direction of every link, by node and port.
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

    /// Returns the counters of every port with a cable, by node and port.
    #[must_use]
    pub fn port_counters(&self) -> Vec<(PortRef, PortCounters)> {
        let cabled = (0..self.ports.len()).filter(|index| self.ports[*index].peer != crate::layout::NO_PORT);
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
        self.now.min(self.settings.end()).saturating_sub(self.window.from)
    }

    /// Returns how long an output had packets to send but no credits.
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

    /// Checks all invariants; the error is a text. For tests, because it reads the whole state.
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
