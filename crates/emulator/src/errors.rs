//! Errors of ports, injected as single amounts or as rates.
//!
//! A rate costs work only when a counter is read, as a load does. Counters advance as the standard demands: those of 4
//! to 32 bits stop at their maximum, those of 64 bits go on (IBA vol 1 §16.1.3.5, §16.1.4.11; agents that wrap:
//! [`selvedge_chassis::AtMaximum`]).

use core::fmt;
use core::str::FromStr;
use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, Counters, DetailRow, PortIdx};
use selvedge_sim::Time;

use crate::meter::{Meter, PER_SECOND};
use crate::{EmulatorError, text};

/// A counter of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorCounter {
    /// SymbolErrorCounter.
    Symbol,
    /// LinkErrorRecoveryCounter.
    LinkRecovery,
    /// LinkDownedCounter. The link stays up; `cut` and `flap` take it down.
    LinkDowned,
    /// PortRcvErrors.
    Rcv,
    /// PortRcvRemotePhysicalErrors.
    RcvRemotePhysical,
    /// PortRcvSwitchRelayErrors.
    RcvSwitchRelay,
    /// PortXmitDiscards.
    XmitDiscards,
    /// PortXmitConstraintErrors.
    XmitConstraint,
    /// PortRcvConstraintErrors.
    RcvConstraint,
    /// LocalLinkIntegrityErrors.
    LinkIntegrity,
    /// ExcessiveBufferOverrunErrors.
    BufferOverrun,
    /// VL15Dropped.
    Vl15Dropped,
    /// QP1Dropped.
    Qp1Dropped,
    /// PortXmitWait.
    XmitWait,
}

/// Every counter, with its word and its name in perfquery's output. The parser takes both.
const COUNTERS: [(ErrorCounter, &str, &str); 14] = [
    (ErrorCounter::Symbol, "symbol", "SymbolErrorCounter"),
    (ErrorCounter::LinkRecovery, "link-recovery", "LinkErrorRecoveryCounter"),
    (ErrorCounter::LinkDowned, "link-downed", "LinkDownedCounter"),
    (ErrorCounter::Rcv, "rcv", "PortRcvErrors"),
    (
        ErrorCounter::RcvRemotePhysical,
        "rcv-remote-physical",
        "PortRcvRemotePhysicalErrors",
    ),
    (
        ErrorCounter::RcvSwitchRelay,
        "rcv-switch-relay",
        "PortRcvSwitchRelayErrors",
    ),
    (ErrorCounter::XmitDiscards, "xmit-discards", "PortXmitDiscards"),
    (
        ErrorCounter::XmitConstraint,
        "xmit-constraint",
        "PortXmitConstraintErrors",
    ),
    (ErrorCounter::RcvConstraint, "rcv-constraint", "PortRcvConstraintErrors"),
    (
        ErrorCounter::LinkIntegrity,
        "link-integrity",
        "LocalLinkIntegrityErrors",
    ),
    (
        ErrorCounter::BufferOverrun,
        "buffer-overrun",
        "ExcessiveBufferOverrunErrors",
    ),
    (ErrorCounter::Vl15Dropped, "vl15-dropped", "VL15Dropped"),
    (ErrorCounter::Qp1Dropped, "qp1-dropped", "QP1Dropped"),
    (ErrorCounter::XmitWait, "xmit-wait", "PortXmitWait"),
];

impl ErrorCounter {
    const fn of(self, c: &mut Counters) -> &mut u64 {
        match self {
            Self::Symbol => &mut c.symbol_errors,
            Self::LinkRecovery => &mut c.link_recoveries,
            Self::LinkDowned => &mut c.link_downed,
            Self::Rcv => &mut c.rcv_errors,
            Self::RcvRemotePhysical => &mut c.rcv_remote_physical_errors,
            Self::RcvSwitchRelay => &mut c.rcv_switch_relay_errors,
            Self::XmitDiscards => &mut c.xmit_discards,
            Self::XmitConstraint => &mut c.xmit_constraint_errors,
            Self::RcvConstraint => &mut c.rcv_constraint_errors,
            Self::LinkIntegrity => &mut c.local_link_integrity_errors,
            Self::BufferOverrun => &mut c.excessive_buffer_overruns,
            Self::Vl15Dropped => &mut c.vl15_dropped,
            Self::Qp1Dropped => &mut c.qp1_dropped,
            Self::XmitWait => &mut c.xmit_wait,
        }
    }

    /// Returns the detailed counter that counts the most frequent cause of the error, if there is one.
    ///
    /// Source: IBA vol 1 §16.1.4.1 (PortLocalPhysicalErrors, PortDLIDMappingErrors), §16.1.4.2
    /// (PortSwHOQLifetimeLimitDiscards).
    const fn cause(self) -> Option<(DetailRow, usize)> {
        match self {
            Self::Rcv => Some((DetailRow::RcvErrors, 0)),
            Self::RcvSwitchRelay => Some((DetailRow::RcvErrors, 3)),
            Self::XmitDiscards => Some((DetailRow::XmitDiscards, 3)),
            Self::XmitWait => Some((DetailRow::VlXmitWait, 0)),
            Self::Symbol
            | Self::LinkRecovery
            | Self::LinkDowned
            | Self::RcvRemotePhysical
            | Self::XmitConstraint
            | Self::RcvConstraint
            | Self::LinkIntegrity
            | Self::BufferOverrun
            | Self::Vl15Dropped
            | Self::Qp1Dropped => None,
        }
    }

    fn add(self, chassis: &mut Chassis, port: PortIdx, count: u64) {
        let counter = self.of(chassis.counters_mut(port));
        *counter = counter.saturating_add(count);
        if let Some((row, at)) = self.cause().filter(|_| count > 0) {
            let counter = &mut chassis.detail_mut(port, row)[at];
            *counter = counter.saturating_add(count);
        }
    }
}

impl FromStr for ErrorCounter {
    type Err = EmulatorError;

    fn from_str(word: &str) -> Result<Self, EmulatorError> {
        let is_named = |(_, short, long): &&(Self, &str, &str)| word == *short || word.eq_ignore_ascii_case(long);
        match COUNTERS.iter().find(is_named) {
            Some((counter, _, _)) => Ok(*counter),
            None => Err(text::unknown(
                "error counter",
                word,
                &COUNTERS.map(|(_, short, _)| short),
            )),
        }
    }
}

impl fmt::Display for ErrorCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = COUNTERS.iter().find(|(counter, _, _)| counter == self);
        f.write_str(name.map_or("", |(_, short, _)| short))
    }
}

/// How many errors there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of errors at once.
    Once(u64),
    /// A number of errors in a million seconds, until another rate is set.
    Rate {
        /// The number as it was given.
        count: u64,
        /// The time as it was given.
        per: Per,
    },
}

/// Unit of time of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

impl Per {
    const fn word(self) -> &'static str {
        match self {
            Self::Second => "s",
            Self::Minute => "min",
            Self::Hour => "h",
        }
    }

    const fn seconds(self) -> u64 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
        }
    }
}

/// Largest rate and largest amount: a million million, so that a century of it fits into a meter.
const AMOUNT_MAX: u64 = 1_000_000_000_000;
const WANT: &str = "an AMOUNT: N at once, or N/s, N/min or N/h (0/s ends it), N up to 1000000000000";

impl FromStr for Amount {
    type Err = EmulatorError;

    fn from_str(word: &str) -> Result<Self, EmulatorError> {
        let number = |text: &str| text.parse().ok().filter(|count: &u64| *count <= AMOUNT_MAX);
        let amount = match word.split_once('/') {
            None => number(word).map(Self::Once),
            Some((count, unit)) => {
                let units = [Per::Second, Per::Minute, Per::Hour];
                let per = units.into_iter().find(|per| per.word() == unit);
                number(count).zip(per).map(|(count, per)| Self::Rate { count, per })
            }
        };
        amount.ok_or_else(|| text::no(word, WANT))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(count) => count.fmt(f),
            Self::Rate { count, per } => write!(f, "{count}/{}", per.word()),
        }
    }
}

/// Rates of errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorRates {
    meters: BTreeMap<(PortIdx, ErrorCounter), Meter>,
}

impl ErrorRates {
    /// True if there are errors at any port.
    #[inline]
    pub fn is_on(&self) -> bool {
        !self.meters.is_empty()
    }

    /// Adds errors at `now`, or sets their rate from now on.
    pub fn inject(
        &mut self,
        chassis: &mut Chassis,
        now: Time,
        port: PortIdx,
        (counter, amount): (ErrorCounter, Amount),
    ) {
        match amount {
            Amount::Once(count) => counter.add(chassis, port, count),
            Amount::Rate { count, per } => {
                self.settle(chassis, now, port);
                let rate = u128::from(count) * u128::from(PER_SECOND) / u128::from(per.seconds());
                let meter = self.meters.entry((port, counter)).or_default();
                meter.set_rate(now, u64::try_from(rate).unwrap_or(u64::MAX));
                if count == 0 {
                    self.meters.remove(&(port, counter));
                }
            }
        }
    }

    /// Ends all rates of a port at `now`.
    pub fn end(&mut self, chassis: &mut Chassis, now: Time, port: PortIdx) {
        self.settle(chassis, now, port);
        self.meters.retain(|(at, _), _| *at != port);
    }

    /// Counts the errors of a port up to `now`.
    pub fn settle(&mut self, chassis: &mut Chassis, now: Time, port: PortIdx) {
        let all = (port, ErrorCounter::Symbol)..=(port, ErrorCounter::XmitWait);
        for ((_, counter), meter) in self.meters.range_mut(all) {
            counter.add(chassis, port, meter.take(now));
        }
    }

    /// Forgets the errors of a port up to `now`, because its counters are lost. Its rates go on.
    pub fn forget(&mut self, now: Time, port: PortIdx) {
        let all = (port, ErrorCounter::Symbol)..=(port, ErrorCounter::XmitWait);
        for (_, meter) in self.meters.range_mut(all) {
            meter.take(now);
        }
    }

    /// Returns the ports with errors.
    pub fn ports(&self) -> Vec<PortIdx> {
        let mut ports: Vec<PortIdx> = self.meters.keys().map(|(port, _)| *port).collect();
        ports.dedup();
        ports
    }
}

#[cfg(test)]
mod tests {
    use crate::Fault;

    #[test]
    fn errors_are_read_and_printed() {
        let check = |text: &str, printed: &str| {
            let fault: Fault = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(fault.to_string(), printed);
            assert_eq!(printed.parse::<Fault>().unwrap(), fault, "{printed}");
        };
        check("errors H-3 symbol 5/s", "errors \"H-3\" symbol 5/s");
        check("errors S[2] VL15Dropped 7", "errors \"S\"[2] vl15-dropped 7");
        check("errors S[2] portrcverrors 0/h", "errors \"S\"[2] rcv 0/h");
        check("errors S[2] link-downed 3/min", "errors \"S\"[2] link-downed 3/min");
        check("errors S[2] off", "errors \"S\"[2] off");
        let refused = |text: &str, want: &str| {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        refused("errors S[2]", "errors PORT COUNTER AMOUNT");
        refused(
            "errors S[2] symbols 1",
            "there is no error counter 'symbols' (did you mean 'symbol'?)",
        );
        refused("errors S[2] symbol 1/d", "cannot read '1/d': want an AMOUNT");
        refused("errors S[2] symbol -1", "want an AMOUNT");
        refused("errors S[2] symbol 2000000000000", "up to 1000000000000");
    }
}
