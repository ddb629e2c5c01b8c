//! Results of a simulation.

use serde::{Deserialize, Serialize};

use super::{Hosts, QpCounts, Workload, steady_from};
use crate::Simulation;
use crate::counters::{Account, Utilisation};
use crate::deadlock::Deadlock;
use crate::settings::Settings;
use crate::stats::{Drops, Histogram};
use crate::units::{BLOCK_BYTES, PS_PER_NS};

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

impl<W: Workload> Simulation<Hosts<W>> {
    /// Ends the simulation: counts messages that were due, and computes the results.
    #[must_use]
    pub fn finish(mut self) -> Results {
        let end = self.subnet.now.min(self.subnet.settings.end());
        for host in 0..self.endpoint.hosts.len() as u32 {
            self.endpoint.post_due(host, end, &mut self.subnet);
        }
        let subnet = &self.subnet;
        let window = &self.endpoint.window;
        let time = end.saturating_sub(window.from);
        let rate = |port: u32| {
            let time = subnet.byte_time(port).of(1 << 20);
            (1_u64 << 20) as f64 / time as f64
        };
        let bytes_per_ps: f64 = (0..subnet.end_ports().len() as u32).map(rate).sum();
        let mtu = f64::from(subnet.settings.mtu.bytes());
        let payload_share = mtu / (mtu + f64::from(subnet.settings.headers()));
        let capacity = (bytes_per_ps * time as f64).max(f64::MIN_POSITIVE);
        let completed_at = self.endpoint.workload.completed_at();
        Results {
            hosts: subnet.end_ports().len() as u64,
            switches: subnet.layout.switches.len() as u64,
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
            drops: subnet.drops,
            qps: self.endpoint.qps.counts,
            packets: subnet.account(),
            series: self.series(bytes_per_ps * payload_share),
            completed_ns: completed_at.map(|at| at.div_ceil(PS_PER_NS)),
            simulated_ns: subnet.now / PS_PER_NS,
            events: subnet.events,
            events_per_packet: subnet.events as f64 / window.all_packets.max(1) as f64,
            links: subnet.utilisation(time),
            deadlock: subnet.deadlock.clone(),
            settings: self.subnet.settings,
        }
    }

    fn series(&self, bytes_per_ps: f64) -> Series {
        let series = &self.endpoint.window.series;
        let (ended, step) = (series.ended(self.subnet.now), series.step() as f64);
        let steady = steady_from(&series.accepted[..ended]).map(|step| step as u64 * series.step());
        let load = |bytes: &u64| *bytes as f64 / (step * bytes_per_ps);
        Series {
            step_ns: series.step() / PS_PER_NS,
            accepted_load: series.accepted[..ended].iter().map(load).collect(),
            offered_load: series.offered[..ended].iter().map(load).collect(),
            dropped: series.dropped[..ended].to_vec(),
            steady_from_ns: steady.map(|at| at / PS_PER_NS),
            warmup_suffices: steady.is_some_and(|at| at <= self.endpoint.window.from),
        }
    }
}
