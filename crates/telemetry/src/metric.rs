//! Counters of a port by meaning, whichever attribute they were read from.

/// A counter of PortCounters or PortCountersExtended, in the order of PortCountersExtended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// PortXmitData; words of 4 bytes.
    XmitData,
    /// PortRcvData; words of 4 bytes.
    RcvData,
    /// PortXmitPkts.
    XmitPackets,
    /// PortRcvPkts.
    RcvPackets,
    /// PortUnicastXmitPkts.
    UnicastXmitPackets,
    /// PortUnicastRcvPkts.
    UnicastRcvPackets,
    /// PortMulticastXmitPkts.
    MulticastXmitPackets,
    /// PortMulticastRcvPkts.
    MulticastRcvPackets,
    /// SymbolErrorCounter.
    SymbolErrors,
    /// LinkErrorRecoveryCounter.
    LinkRecoveries,
    /// LinkDownedCounter.
    LinkDowned,
    /// PortRcvErrors.
    RcvErrors,
    /// PortRcvRemotePhysicalErrors.
    RcvRemotePhysicalErrors,
    /// PortRcvSwitchRelayErrors.
    RcvSwitchRelayErrors,
    /// PortXmitDiscards.
    XmitDiscards,
    /// PortXmitConstraintErrors.
    XmitConstraintErrors,
    /// PortRcvConstraintErrors.
    RcvConstraintErrors,
    /// LocalLinkIntegrityErrors.
    LocalLinkIntegrityErrors,
    /// ExcessiveBufferOverrunErrors.
    ExcessiveBufferOverruns,
    /// VL15Dropped.
    Vl15Dropped,
    /// PortXmitWait; ticks.
    XmitWait,
    /// QP1Dropped.
    Qp1Dropped,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 22] = [
        Self::XmitData,
        Self::RcvData,
        Self::XmitPackets,
        Self::RcvPackets,
        Self::UnicastXmitPackets,
        Self::UnicastRcvPackets,
        Self::MulticastXmitPackets,
        Self::MulticastRcvPackets,
        Self::SymbolErrors,
        Self::LinkRecoveries,
        Self::LinkDowned,
        Self::RcvErrors,
        Self::RcvRemotePhysicalErrors,
        Self::RcvSwitchRelayErrors,
        Self::XmitDiscards,
        Self::XmitConstraintErrors,
        Self::RcvConstraintErrors,
        Self::LocalLinkIntegrityErrors,
        Self::ExcessiveBufferOverruns,
        Self::Vl15Dropped,
        Self::XmitWait,
        Self::Qp1Dropped,
    ];

    /// True for error counters, which do not change on a healthy link.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.mirror().is_none() && !matches!(self, Self::XmitWait)
    }

    /// Returns the counter at the other end of the link that counts the same packets; `None` if there is none.
    #[must_use]
    pub const fn mirror(self) -> Option<Self> {
        match self {
            Self::XmitData => Some(Self::RcvData),
            Self::RcvData => Some(Self::XmitData),
            Self::XmitPackets => Some(Self::RcvPackets),
            Self::RcvPackets => Some(Self::XmitPackets),
            Self::UnicastXmitPackets => Some(Self::UnicastRcvPackets),
            Self::UnicastRcvPackets => Some(Self::UnicastXmitPackets),
            Self::MulticastXmitPackets => Some(Self::MulticastRcvPackets),
            Self::MulticastRcvPackets => Some(Self::MulticastXmitPackets),
            Self::SymbolErrors
            | Self::LinkRecoveries
            | Self::LinkDowned
            | Self::RcvErrors
            | Self::RcvRemotePhysicalErrors
            | Self::RcvSwitchRelayErrors
            | Self::XmitDiscards
            | Self::XmitConstraintErrors
            | Self::RcvConstraintErrors
            | Self::LocalLinkIntegrityErrors
            | Self::ExcessiveBufferOverruns
            | Self::Vl15Dropped
            | Self::XmitWait
            | Self::Qp1Dropped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_pairs() {
        for (at, metric) in Metric::ALL.into_iter().enumerate() {
            assert_eq!(metric as usize, at);
            if let Some(mirror) = metric.mirror() {
                assert_eq!(mirror.mirror(), Some(metric));
                assert_ne!(mirror, metric);
            }
        }
        assert_eq!(Metric::ALL.into_iter().filter(|metric| metric.is_error()).count(), 13);
    }
}
