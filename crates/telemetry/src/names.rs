//! Names of metrics elsewhere.

use crate::{Group, Metric};

impl Metric {
    /// Returns its name in LDMS and in sysfs of Linux. Source: the metric selection file of Sandia's fabric sampler
    /// (OpenFabrics Alliance Workshop 2017); LDMS `ibnet`.
    #[must_use]
    pub const fn ldms_name(self) -> &'static str {
        match self {
            Self::XmitData => "port_xmit_data",
            Self::RcvData => "port_rcv_data",
            Self::XmitPackets => "port_xmit_packets",
            Self::RcvPackets => "port_rcv_packets",
            Self::UnicastXmitPackets => "port_unicast_xmit_packets",
            Self::UnicastRcvPackets => "port_unicast_rcv_packets",
            Self::MulticastXmitPackets => "port_multicast_xmit_packets",
            Self::MulticastRcvPackets => "port_multicast_rcv_packets",
            Self::SymbolErrors => "symbol_error",
            Self::LinkRecoveries => "link_error_recovery",
            Self::LinkDowned => "link_downed",
            Self::RcvErrors => "port_rcv_errors",
            Self::RcvRemotePhysicalErrors => "port_rcv_remote_physical_errors",
            Self::RcvSwitchRelayErrors => "port_rcv_switch_relay_errors",
            Self::XmitDiscards => "port_xmit_discards",
            Self::XmitConstraintErrors => "port_xmit_constraint_errors",
            Self::RcvConstraintErrors => "port_rcv_constraint_errors",
            Self::LocalLinkIntegrityErrors => "local_link_integrity_errors",
            Self::ExcessiveBufferOverruns => "excessive_buffer_overrun_errors",
            Self::Vl15Dropped => "VL15_dropped",
            Self::XmitWait => "port_xmit_wait",
            Self::Qp1Dropped => "QP1_dropped",
        }
    }

    /// Returns the part of the metric's name after `infiniband_switch_port_` or `infiniband_hca_port_`. Source:
    /// treydock/infiniband_exporter 0.10.0, `collectors/switch.go`.
    #[must_use]
    pub const fn exporter_name(self) -> &'static str {
        match self {
            Self::XmitData => "transmit_data_bytes_total",
            Self::RcvData => "receive_data_bytes_total",
            Self::XmitPackets => "transmit_packets_total",
            Self::RcvPackets => "receive_packets_total",
            Self::UnicastXmitPackets => "unicast_transmit_packets_total",
            Self::UnicastRcvPackets => "unicast_receive_packets_total",
            Self::MulticastXmitPackets => "multicast_transmit_packets_total",
            Self::MulticastRcvPackets => "multicast_receive_packets_total",
            Self::SymbolErrors => "symbol_error_total",
            Self::LinkRecoveries => "link_error_recovery_total",
            Self::LinkDowned => "link_downed_total",
            Self::RcvErrors => "receive_errors_total",
            Self::RcvRemotePhysicalErrors => "receive_remote_physical_errors_total",
            Self::RcvSwitchRelayErrors => "receive_switch_relay_errors_total",
            Self::XmitDiscards => "transmit_discards_total",
            Self::XmitConstraintErrors => "transmit_constraint_errors_total",
            Self::RcvConstraintErrors => "receive_constraint_errors_total",
            Self::LocalLinkIntegrityErrors => "local_link_integrity_errors_total",
            Self::ExcessiveBufferOverruns => "excessive_buffer_overrun_errors_total",
            Self::Vl15Dropped => "vl15_dropped_total",
            Self::XmitWait => "transmit_wait_total",
            Self::Qp1Dropped => "qp1_dropped_total",
        }
    }

    /// Returns the name of the metric in the standard.
    #[must_use]
    pub const fn iba_name(self) -> &'static str {
        match self {
            Self::XmitData => "PortXmitData",
            Self::RcvData => "PortRcvData",
            Self::XmitPackets => "PortXmitPkts",
            Self::RcvPackets => "PortRcvPkts",
            Self::UnicastXmitPackets => "PortUnicastXmitPkts",
            Self::UnicastRcvPackets => "PortUnicastRcvPkts",
            Self::MulticastXmitPackets => "PortMulticastXmitPkts",
            Self::MulticastRcvPackets => "PortMulticastRcvPkts",
            Self::SymbolErrors => "SymbolErrorCounter",
            Self::LinkRecoveries => "LinkErrorRecoveryCounter",
            Self::LinkDowned => "LinkDownedCounter",
            Self::RcvErrors => "PortRcvErrors",
            Self::RcvRemotePhysicalErrors => "PortRcvRemotePhysicalErrors",
            Self::RcvSwitchRelayErrors => "PortRcvSwitchRelayErrors",
            Self::XmitDiscards => "PortXmitDiscards",
            Self::XmitConstraintErrors => "PortXmitConstraintErrors",
            Self::RcvConstraintErrors => "PortRcvConstraintErrors",
            Self::LocalLinkIntegrityErrors => "LocalLinkIntegrityErrors",
            Self::ExcessiveBufferOverruns => "ExcessiveBufferOverrunErrors",
            Self::Vl15Dropped => "VL15Dropped",
            Self::XmitWait => "PortXmitWait",
            Self::Qp1Dropped => "QP1Dropped",
        }
    }

    /// Returns what it counts.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::XmitData | Self::RcvData => "4-byte words",
            Self::XmitPackets
            | Self::RcvPackets
            | Self::UnicastXmitPackets
            | Self::UnicastRcvPackets
            | Self::MulticastXmitPackets
            | Self::MulticastRcvPackets => "packets",
            Self::XmitWait => "ticks",
            _ => "events",
        }
    }

    /// Returns the metric of this name: in the standard, in LDMS, or of the exporter. Case does not matter.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| {
            let names = [metric.iba_name(), metric.ldms_name(), metric.exporter_name()];
            names.iter().any(|known| known.eq_ignore_ascii_case(name))
        })
    }

    /// Returns a total in the unit of the exporter: data in bytes, everything else as counted.
    #[must_use]
    pub const fn exported(self, total: u64) -> u128 {
        match self {
            Self::XmitData | Self::RcvData => 4 * total as u128,
            _ => total as u128,
        }
    }
}

impl Group {
    /// Returns the name of a counter: in the standard, or the attribute with the counter's number, which is that of a
    /// lane or of a service level.
    #[must_use]
    pub fn counter_name(self, counter: usize) -> String {
        let known = match self {
            Self::Base | Self::Extended => self.metric(counter).map(Metric::iba_name),
            Self::RcvErrors => RCV_ERROR_DETAILS.get(counter).map(|(_, name)| *name),
            Self::XmitDiscards => XMIT_DISCARD_DETAILS.get(counter).copied(),
            Self::BitErrors => BIT_ERRORS.get(counter).copied(),
            _ => None,
        };
        known.map_or_else(|| format!("{}[{counter}]", self.name()), str::to_owned)
    }

    /// Returns what a counter counts.
    #[must_use]
    pub fn unit(self, counter: usize) -> &'static str {
        match self {
            Self::Base | Self::Extended => self.metric(counter).map_or("events", Metric::unit),
            Self::VlData | Self::SlXmitData | Self::SlRcvData => "4-byte words",
            Self::VlPackets | Self::FlowControl => "packets",
            Self::OpRcv if counter == 0 => "packets",
            Self::OpRcv => "4-byte words",
            Self::VlXmitWait | Self::TimeCongested | Self::VlTimeCongested => "ticks",
            Self::BitErrors => "bits",
            Self::RcvErrors
            | Self::XmitDiscards
            | Self::VlCongestion
            | Self::Marks
            | Self::SlFecn
            | Self::SlBecn
            | Self::ExtendedSpeeds => "events",
        }
    }
}

/// The counters of PortXmitDiscardDetails. Source: IBA vol 1 §16.1.4.2.
const XMIT_DISCARD_DETAILS: [&str; 4] = [
    "PortInactiveDiscards",
    "PortNeighborMTUDiscards",
    "PortSwLifetimeLimitDiscards",
    "PortSwHOQLifetimeLimitDiscards",
];

/// The counters of PortBer: bits in error before and after error correction.
const BIT_ERRORS: [&str; 2] = ["RawBitErrors", "EffectiveBitErrors"];

/// What comes after the prefix for PortRcvErrorDetails, in the order of the attribute. Source: as above; `dli` is the
/// exporter's spelling.
pub(crate) const RCV_ERROR_DETAILS: [(&str, &str); 6] = [
    ("local_physical_errors_total", "PortLocalPhysicalErrors"),
    ("malformed_packet_errors_total", "PortMalformedPktErrors"),
    ("buffer_overrun_errors_total", "PortBufferOverrunErrors"),
    ("dli_mapping_errors_total", "PortDLIDMappingErrors"),
    ("vl_mapping_errors_total", "PortVLMappingErrors"),
    ("looping_errors_total", "PortLoopingErrors"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_found_by_each_of_its_names() {
        for metric in Metric::ALL {
            for name in [metric.iba_name(), metric.ldms_name(), metric.exporter_name()] {
                assert_eq!(Metric::of_name(&name.to_uppercase()), Some(metric));
            }
        }
        assert_eq!(Metric::of_name("PortXmitDate"), None);
    }

    #[test]
    fn counters_have_names_of_their_own() {
        for group in Group::ALL {
            let names: std::collections::BTreeSet<String> = (0..group.counters())
                .map(|counter| group.counter_name(counter))
                .collect();
            assert_eq!(names.len(), group.counters(), "{group:?}");
        }
        assert_eq!(Group::VlXmitWait.counter_name(3), "PortVLXmitWaitCounters[3]");
        assert_eq!(Group::XmitDiscards.counter_name(3), "PortSwHOQLifetimeLimitDiscards");
        assert_eq!(Group::XmitDiscards.counters(), XMIT_DISCARD_DETAILS.len());
    }
}
