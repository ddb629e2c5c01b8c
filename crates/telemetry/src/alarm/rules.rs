//! The thresholds of alarms, as values with defaults.

use core::time::Duration;
use std::collections::BTreeMap;

use selvedge_sim::Time;

use crate::Metric;
use crate::alarm::{Level, Subject};

/// When the growth of a counter is an alarm. Growth is that within [`AlarmRules::window`]. Thresholds are at least 1,
/// and those of graver levels are not lower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterRule {
    /// An alarm is of level info from this growth on; `None`: never.
    pub info: Option<u64>,
    /// It is a warning from this growth on; `None`: never.
    pub warning: Option<u64>,
    /// It is critical from this growth on; `None`: never.
    pub critical: Option<u64>,
    /// It may clear when the growth is below this; at most the lowest threshold.
    pub clears_below: u64,
    /// Its time to live, as [`AlarmRules::ttl`]; `None`: `AlarmRules::ttl` applies.
    pub ttl: Option<Duration>,
}

impl CounterRule {
    /// Returns a rule for warnings that clear below half the threshold and never become critical.
    #[must_use]
    pub fn warning(begins_at: u64) -> Self {
        Self {
            warning: Some(begins_at),
            clears_below: begins_at.div_ceil(2),
            ..Self::default()
        }
    }

    fn info(begins_at: u64) -> Self {
        Self {
            info: Some(begins_at),
            clears_below: begins_at.div_ceil(2),
            ..Self::default()
        }
    }

    fn critical(self, at: u64) -> Self {
        Self {
            critical: Some(at),
            ..self
        }
    }

    fn thresholds(&self) -> impl Iterator<Item = (Level, u64)> {
        let levels = [
            (Level::Info, self.info),
            (Level::Warning, self.warning),
            (Level::Critical, self.critical),
        ];
        levels.into_iter().filter_map(|(level, at)| Some((level, at?)))
    }

    /// Returns from which growth on there is an alarm, and its level. A growth below every threshold keeps an alarm at
    /// the lowest level. `None`: there is no threshold.
    #[must_use]
    pub fn level(&self, growth: u64) -> Option<(u64, Level)> {
        let (lowest, begins_at) = self.thresholds().next()?;
        let reached = self.thresholds().filter(|(_, at)| growth >= *at);
        Some((begins_at, reached.last().map_or(lowest, |(level, _)| level)))
    }
}

/// All rules.
#[derive(Clone, Debug, PartialEq)]
pub struct AlarmRules {
    /// Growth is summed over this time. Default 5 min.
    pub window: Duration,
    /// An alarm clears no earlier than this after its last evidence; `ZERO`: never by itself, only when an operator
    /// clears it. Default 5 min. Source: UFM's default TTL of threshold events, 300 s.
    pub ttl: Duration,
    /// Rules by counter. A counter without one has no alarms.
    pub counters: BTreeMap<Metric, CounterRule>,
    /// A link flaps if it goes down so often within `flap_window`; at least 2. Default 3.
    pub flaps: u64,
    /// Default 10 min.
    pub flap_window: Duration,
    /// A bit error rate above this is an alarm, if it is above it with 95 % confidence. Default 1e-12. Source: IBA vol
    /// 2 §6: the electrical and optical links are specified for a bit error ratio of 1e-12.
    pub ber_max: f64,
    /// A bit error rate above this is critical. Default 1e-9.
    pub ber_critical: f64,
    /// A link that is the root of congestion for this long is an alarm. Default 1 min.
    pub congested_for: Duration,
    /// Most alarms that are kept; the newest of the lowest level is dropped beyond it. Default 10,000: two of each link
    /// of 5,832 hosts would be more than operators read.
    pub alarms_max: usize,
}

impl AlarmRules {
    /// Returns when an alarm with evidence now is looked at again; `None`: never.
    pub(super) fn check_at(&self, now: Time, subject: Subject) -> Option<Time> {
        let own = match subject {
            Subject::Counter(metric) => self.counters.get(&metric).and_then(|rule| rule.ttl),
            Subject::Flaps | Subject::BitErrors | Subject::Congestion => None,
        };
        let ttl = own.unwrap_or(self.ttl);
        (!ttl.is_zero()).then(|| now + ttl)
    }
}

impl Default for AlarmRules {
    /// Returns the default thresholds. Source of a counter's threshold, if no other is named: `error_thresholds` of
    /// infiniband-diags, which `ibqueryerrors` reads. Those of UFM are the defaults of its threshold events 116, 117,
    /// 120 and 121 (UFM-SDN Appliance user manual 4.18, "Supported Traps and Events").
    fn default() -> Self {
        let warning = CounterRule::warning;
        let counters = [
            (Metric::SymbolErrors, warning(10).critical(10_000)),
            (Metric::LinkRecoveries, warning(10)),
            // One loss of a link is reported, and is no fault by itself: a host may have been restarted. Many are
            // flaps.
            (Metric::LinkDowned, CounterRule::info(1)),
            (Metric::RcvErrors, warning(10).critical(10_000)),
            // Packets that another port damaged and marked: the fault is elsewhere on their way.
            (Metric::RcvRemotePhysicalErrors, CounterRule::info(100)),
            (Metric::RcvSwitchRelayErrors, CounterRule::info(100)),
            // UFM.
            (Metric::XmitDiscards, warning(200)),
            // UFM.
            (Metric::XmitConstraintErrors, warning(200)),
            (Metric::RcvConstraintErrors, warning(100)),
            (Metric::LocalLinkIntegrityErrors, warning(10)),
            // UFM has 100.
            (Metric::ExcessiveBufferOverruns, warning(10)),
            // UFM.
            (Metric::Vl15Dropped, warning(50)),
        ];
        Self {
            window: Duration::from_secs(300),
            ttl: Duration::from_secs(300),
            counters: counters.into_iter().collect(),
            flaps: 3,
            flap_window: Duration::from_secs(600),
            ber_max: 1e-12,
            ber_critical: 1e-9,
            congested_for: Duration::from_secs(60),
            alarms_max: 10_000,
        }
    }
}
