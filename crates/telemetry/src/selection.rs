//! The metric selection file of Sandia's LDMS sampler (OpenFabrics Alliance Workshop 2017): a name a line, `#` disables
//! it. Without a file, all metrics are selected.

use crate::Metric;

/// A metric of a set, with one value per port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selected {
    /// LID of the port at the other end.
    RemoteLid,
    /// Number of the port at the other end.
    RemotePort,
    /// CounterSelect2 of PortCounters: 0, because nothing is ever reset.
    CounterSelect2,
    /// A counter.
    Counter(Metric),
    /// State of the port's link: 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE. Not in Sandia's file: a set has the ports that have
    /// gone down, too.
    State,
}

/// The order of the metrics in Sandia's file.
const ORDER: [Metric; 22] = [
    Metric::SymbolErrors,
    Metric::LinkRecoveries,
    Metric::LinkDowned,
    Metric::RcvErrors,
    Metric::RcvRemotePhysicalErrors,
    Metric::RcvSwitchRelayErrors,
    Metric::XmitDiscards,
    Metric::XmitConstraintErrors,
    Metric::RcvConstraintErrors,
    Metric::LocalLinkIntegrityErrors,
    Metric::ExcessiveBufferOverruns,
    Metric::Vl15Dropped,
    Metric::XmitData,
    Metric::RcvData,
    Metric::XmitPackets,
    Metric::RcvPackets,
    Metric::XmitWait,
    Metric::UnicastXmitPackets,
    Metric::UnicastRcvPackets,
    Metric::MulticastXmitPackets,
    Metric::MulticastRcvPackets,
    Metric::Qp1Dropped,
];

impl Selected {
    /// Returns the name of the metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RemoteLid => "Remote_LID",
            Self::RemotePort => "Remote_port",
            Self::CounterSelect2 => "COUNTER_SELECT2_F",
            Self::Counter(metric) => metric.ldms_name(),
            Self::State => "port_state",
        }
    }

    /// Returns all metrics in the order of Sandia's file, then those that it does not have.
    pub fn all() -> impl Iterator<Item = Self> {
        let remote = [Self::RemoteLid, Self::RemotePort].into_iter();
        let counters = ORDER.into_iter().map(Self::Counter);
        remote.chain(counters).chain([Self::CounterSelect2, Self::State])
    }
}

/// A metric selection file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// SLV-TELEMETRY-0101: a line names a metric that does not exist.
    #[error("SLV-TELEMETRY-0101: line {line}: there is no metric {found:?}; did you mean {closest}?")]
    Unknown {
        /// Number of the line, from 1.
        line: usize,
        /// The name that was found.
        found: String,
        /// The metric with the most similar name.
        closest: &'static str,
    },
    /// SLV-TELEMETRY-0102: a metric selection file selects nothing.
    #[error("SLV-TELEMETRY-0102: every line is disabled by #; remove one #, or the file to select all metrics")]
    Empty,
    /// SLV-TELEMETRY-0103: a metric is selected twice.
    #[error("SLV-TELEMETRY-0103: line {line}: {name} is selected twice; remove one line")]
    Twice {
        /// Number of the line, from 1.
        line: usize,
        /// Name of the metric.
        name: &'static str,
    },
}

/// Reads a metric selection file.
pub fn parse(text: &str) -> Result<Vec<Selected>, SelectionError> {
    let mut selected = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let name = line.split('#').next().unwrap_or_default().trim();
        if name.is_empty() {
            continue;
        }
        let line = at + 1;
        let Some(metric) = Selected::all().find(|metric| metric.name() == name) else {
            return Err(unknown(line, name));
        };
        if selected.contains(&metric) {
            let name = metric.name();
            return Err(SelectionError::Twice { line, name });
        }
        selected.push(metric);
    }
    match selected.is_empty() {
        true => Err(SelectionError::Empty),
        false => Ok(selected),
    }
}

fn unknown(line: usize, found: &str) -> SelectionError {
    let ranked = Selected::all().map(|metric| {
        let name = metric.name();
        let distance = strsim::damerau_levenshtein(&found.to_lowercase(), &name.to_lowercase());
        (distance, name)
    });
    SelectionError::Unknown {
        line,
        found: found.to_owned(),
        closest: ranked.min().map_or("port_xmit_data", |(_, name)| name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_file() {
        let text = "Remote_LID\nRemote_port\n#symbol_error\n#COUNTER_SELECT2_F\nport_xmit_data\n  port_rcv_data  \n\
                    port_xmit_packets # both directions\n\nport_rcv_packets\n#port_xmit_wait\n";
        let found: Vec<&str> = parse(text)
            .expect("the seed's file")
            .into_iter()
            .map(Selected::name)
            .collect();
        let want = "Remote_LID Remote_port port_xmit_data port_rcv_data port_xmit_packets port_rcv_packets";
        assert_eq!(found.join(" "), want);
    }

    #[test]
    fn every_name_selects_its_metric() {
        for metric in Selected::all() {
            assert_eq!(parse(metric.name()), Ok(vec![metric]));
        }
        assert_eq!(Selected::all().count(), 26);
    }

    #[test]
    fn wrong_files() {
        let check = |text: &str, want: &str| {
            let error = parse(text).expect_err(text);
            assert_eq!(error.to_string(), want);
        };
        check(
            "Remote_LID\nport_xmit_date\n",
            "SLV-TELEMETRY-0101: line 2: there is no metric \"port_xmit_date\"; did you mean port_xmit_data?",
        );
        check(
            "vl15_drop",
            "SLV-TELEMETRY-0101: line 1: there is no metric \"vl15_drop\"; did you mean VL15_dropped?",
        );
        check(
            "#Remote_LID\n\n",
            "SLV-TELEMETRY-0102: every line is disabled by #; remove one #, or the file to select all metrics",
        );
        check(
            "link_downed\nlink_downed",
            "SLV-TELEMETRY-0103: line 2: link_downed is selected twice; remove one line",
        );
    }
}
