//! Which ports wait, with hysteresis.

use std::collections::BTreeMap;

use crate::End;
use crate::rates::PortRates;

/// The load of the sending side of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Share of the link's capacity that it sent, 0 to 1.
    pub utilisation: f64,
    /// Share of the time in which it had data to send and sent nothing, 0 to 1.
    pub wait: f64,
}

impl Load {
    /// Returns the load of a port with rates; `None` if the rate of its link or its counters are not known.
    #[must_use]
    pub fn of(rates: &PortRates) -> Option<Self> {
        Some(Self {
            utilisation: rates.xmit_utilisation?,
            wait: rates.wait_share?,
        })
    }
}

/// When a port counts as waiting, and a link as saturated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitThresholds {
    /// A port begins to wait at this share. Default 0.1: a tenth of the time lost shows in applications, and bursts of
    /// an unsaturated fabric stay below it (observed in the packet simulator up to a load of 0.35).
    pub begins_at: f64,
    /// A port ends to wait below this share. Default 0.05.
    pub ends_below: f64,
    /// How many samples in a row must show a change. Default 1.
    pub samples: u8,
    /// A link with this utilisation is saturated. Default 0.9: a full link with packets of 256 bytes loses 10 % to the
    /// headers and delimiters of its packets and to flow control.
    pub saturated_at: f64,
}

impl Default for WaitThresholds {
    fn default() -> Self {
        Self {
            begins_at: 0.1,
            ends_below: 0.05,
            samples: 1,
            saturated_at: 0.9,
        }
    }
}

/// What is known of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Watched {
    load: Load,
    is_waiting: bool,
    /// Samples in a row that contradict `is_waiting`.
    against: u8,
}

/// Which ports wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitWatch {
    thresholds: WaitThresholds,
    ports: BTreeMap<End, Watched>,
}

impl WaitWatch {
    /// Returns a watch without ports.
    #[must_use]
    pub const fn new(thresholds: WaitThresholds) -> Self {
        Self {
            thresholds,
            ports: BTreeMap::new(),
        }
    }

    /// Takes the load of a port in a new sample.
    pub fn take(&mut self, end: End, load: Load) {
        let thresholds = self.thresholds;
        let port = self.ports.entry(end).or_default();
        port.load = load;
        let contradicts = match port.is_waiting {
            true => load.wait < thresholds.ends_below,
            false => load.wait >= thresholds.begins_at,
        };
        port.against = if contradicts { port.against.saturating_add(1) } else { 0 };
        if contradicts && port.against >= thresholds.samples {
            port.is_waiting = !port.is_waiting;
            port.against = 0;
        }
    }

    /// Forgets a port: its link is down, or its node has left.
    pub fn forget(&mut self, end: End) {
        self.ports.remove(&end);
    }

    /// Forgets all ports for which `is_there` is false.
    pub fn retain(&mut self, is_there: impl Fn(End) -> bool) {
        self.ports.retain(|end, _| is_there(*end));
    }

    /// Returns the ports that wait, with their loads.
    pub fn waiting(&self) -> impl Iterator<Item = (End, Load)> {
        let waiting = self.ports.iter().filter(|(_, port)| port.is_waiting);
        waiting.map(|(end, port)| (*end, port.load))
    }

    /// True if the port waits.
    #[must_use]
    pub fn is_waiting(&self, end: End) -> bool {
        self.ports.get(&end).is_some_and(|port| port.is_waiting)
    }

    /// Returns the last load of a port.
    #[must_use]
    pub fn load(&self, end: End) -> Option<Load> {
        self.ports.get(&end).map(|port| port.load)
    }

    /// True if the link of a port carries all that it can in this direction.
    #[must_use]
    pub fn is_saturated(&self, end: End) -> bool {
        self.load(end)
            .is_some_and(|load| load.utilisation >= self.thresholds.saturated_at)
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Guid;

    use super::*;

    #[test]
    fn a_port_waits_from_10_percent_to_5_percent() {
        let end = End { node: Guid(1), port: 2 };
        let mut watch = WaitWatch::default();
        let mut check = |wait, want| {
            let load = Load { utilisation: 0.5, wait };
            watch.take(end, load);
            assert_eq!(watch.is_waiting(end), want, "{wait}");
        };
        for (wait, want) in [
            (0.0, false),
            (0.09, false),
            (0.1, true),
            (0.06, true),
            (0.05, true),
            (0.04, false),
        ] {
            check(wait, want);
        }
        check(0.09, false);
    }

    #[test]
    fn one_sample_is_not_enough_if_two_are_asked_for() {
        let end = End { node: Guid(1), port: 2 };
        let mut watch = WaitWatch::new(WaitThresholds {
            samples: 2,
            ..WaitThresholds::default()
        });
        let waits = [0.5, 0.0, 0.5, 0.5, 0.0, 0.5, 0.0, 0.0];
        let found: Vec<bool> = waits
            .into_iter()
            .map(|wait| {
                watch.take(end, Load { utilisation: 0.0, wait });
                watch.is_waiting(end)
            })
            .collect();
        assert_eq!(found, [false, false, false, true, true, true, true, false]);
        watch.forget(end);
        assert_eq!((watch.waiting().count(), watch.load(end)), (0, None));
    }
}
