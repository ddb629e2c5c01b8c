//! The classes of sampling with their intervals, and the limits of a sampler.

use core::time::Duration;

use selvedge_types::Sl;

use crate::Group;

/// A sampling class: counter groups that are read together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingClass {
    /// Name of the class.
    pub name: String,
    /// Interval between two readings. Slots begin at multiples of it since the Unix epoch; at least 1 ms.
    pub interval: Duration,
    /// The groups. An agent without PortCountersExtended is asked for PortCounters instead.
    pub groups: Vec<Group>,
    /// Which ports of a switch are read.
    pub triage: Triage,
    /// Which ends of a link are read.
    pub ends: Ends,
}

/// Which ports of a switch are read in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triage {
    /// Every port.
    EveryPort,
    /// Only ports of switches on which the sum of all ports (AllPortSelect) shows new errors. Every port is read in one
    /// of this number of slots, because a reset at one port can hide errors of another.
    BySum {
        /// Slots from one full read to the next; at least 1.
        full_read_every: u32,
    },
}

/// Which ends of a link are read in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Both ends.
    Both,
    /// One end, as long as neither end had errors for this time. Data and packets of the other end are derived.
    One {
        /// How long both ends are read after an error.
        both_after_error: Duration,
    },
}

/// Parameters of a sampler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The classes; at most 255.
    pub classes: Vec<SamplingClass>,
    /// Time from one reading of each cable by CableInfo to the next; `None`: cables are not read. Default `None`: only
    /// agents of the built-in emulator have the attribute.
    pub cable_info: Option<Duration>,
    /// Number of this sampler, carried in each sample.
    pub agent: u32,
    /// Service level of requests.
    pub sl: Sl,
    /// Most requests in flight. Default 64: more did not read faster on ibsim.
    pub window: usize,
    /// Most requests in flight to one node. Default 3: an agent serves one at a time and its queue is short.
    pub node_window: u8,
    /// Time after which a request is repeated. Default 200 ms.
    pub timeout: Duration,
    /// Repeats of a request. Default 1.
    pub retries: u8,
    /// Time after which a request without an answer leaves the window to others. Default 20 ms.
    pub stale_after: Duration,
    /// First pause of a silent agent; it doubles with each further failure. Default 5 s.
    pub back_off: Duration,
    /// Longest pause. Default 5 min.
    pub back_off_max: Duration,
    /// A change of the wall clock below this is a correction, not a step. Default 50 ms.
    pub step_min: Duration,
    /// Longest wait for a clock that was set back; after it, slots are numbered again from the beginning. Default 60 s.
    pub clock_wait_max: Duration,
}

impl Config {
    /// Returns the default parameters for these classes.
    #[must_use]
    pub fn new(classes: Vec<SamplingClass>) -> Self {
        Self {
            classes,
            cable_info: None,
            agent: 0,
            sl: Sl::default(),
            window: 64,
            node_window: 3,
            timeout: Duration::from_millis(200),
            retries: 1,
            stale_after: Duration::from_millis(20),
            back_off: Duration::from_secs(5),
            back_off_max: Duration::from_secs(300),
            step_min: Duration::from_millis(50),
            clock_wait_max: Duration::from_secs(60),
        }
    }
}

impl SamplingClass {
    /// Returns a class that reads every port at both ends.
    #[must_use]
    pub fn new(name: &str, interval: Duration, groups: &[Group]) -> Self {
        Self {
            name: name.to_owned(),
            interval,
            groups: groups.to_vec(),
            triage: Triage::EveryPort,
            ends: Ends::Both,
        }
    }

    /// Returns the classes of a manager without a configuration: data every 10 s, errors every 30 s, details every 5
    /// min. Source: UFM reads 30 counters every 30 s and 120 every 300 s.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        let errors = Self {
            triage: Triage::BySum { full_read_every: 20 },
            ..Self::new("errors", Duration::from_secs(30), &[Group::Base])
        };
        let details = [
            Group::RcvErrors,
            Group::XmitDiscards,
            Group::VlXmitWait,
            Group::VlCongestion,
        ];
        vec![
            Self::new("data", Duration::from_secs(10), &[Group::Extended]),
            errors,
            Self::new("detail", Duration::from_secs(300), &details),
        ]
    }
}
