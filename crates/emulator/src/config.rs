//! Configuration of agents and links.

use core::time::Duration;

/// Parameters of an emulator. Defaults are those of [`EmulatorConfig::default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatorConfig {
    /// Requests in an agent's queue, including the one in service. Further requests are dropped and cost their sender a
    /// time-out, because VL15 has no flow control. Default 16.
    pub queue_depth: u16,
    /// How long an agent takes for one request. Default 5 µs.
    pub service_time: Duration,
    /// How long a MAD takes from one end of a cable to the other. Default 100 ns: 290 bytes at 25 Gbit/s.
    pub link_delay: Duration,
    /// How long a switch takes to relay a LID-routed MAD. Default 150 ns.
    pub relay_delay: Duration,
    /// How long a switch takes to relay a directed-route SMP, because its management interface rewrites the SMP.
    /// Default 500 ns.
    pub directed_delay: Duration,
    /// How long both ends poll before they start training. Default 1 ms.
    pub polling_time: Duration,
    /// How long a link trains. Default 4 ms.
    pub training_time: Duration,
    /// If true, links are up at time zero; if false, they train first. Default true.
    pub links_up: bool,
    /// Shortest time between two repetitions of a trap. The port's SubnetTimeOut applies if it is longer. Default 100
    /// ms.
    pub trap_interval: Duration,
    /// How often a trap is sent before its sender gives up. The standard has no limit, but without one a fabric without
    /// a manager would send for ever. Default 64.
    pub trap_sends_max: u32,
    /// Most MADs in flight at once, in links, queues and clients. Further ones are dropped. Default 262,144 (75 MB).
    pub in_flight_max: u32,
}

impl Default for EmulatorConfig {
    fn default() -> Self {
        Self {
            queue_depth: 16,
            service_time: Duration::from_micros(5),
            link_delay: Duration::from_nanos(100),
            relay_delay: Duration::from_nanos(150),
            directed_delay: Duration::from_nanos(500),
            polling_time: Duration::from_millis(1),
            training_time: Duration::from_millis(4),
            links_up: true,
            trap_interval: Duration::from_millis(100),
            trap_sends_max: 64,
            in_flight_max: 1 << 18,
        }
    }
}

/// Returns a duration in nanoseconds; 584 years at most.
pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
