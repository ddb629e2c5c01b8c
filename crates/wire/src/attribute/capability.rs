//! Capabilities of a port: the two capability masks of PortInfo.

use core::fmt;

/// PortInfo.CapabilityMask. On a switch only port 0 has one. Source: IBA vol 1 §14.2.5.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilityMask(pub u32);

impl CapabilityMask {
    /// A subnet manager runs on this port.
    pub const IS_SM: Self = Self(1 << 1);
    /// Answers Get and Set of Notice.
    pub const NOTICE: Self = Self(1 << 2);
    /// Sends traps.
    pub const TRAP: Self = Self(1 << 3);
    /// The port supports inter-packet delay values beyond the mandatory ones (IsOptionalIPDSupported).
    pub const OPTIONAL_IPD: Self = Self(1 << 4);
    /// Supports automatic path migration.
    pub const AUTOMATIC_MIGRATION: Self = Self(1 << 5);
    /// Has an SLtoVLMappingTable.
    pub const SL_MAPPING: Self = Self(1 << 6);
    /// The port keeps its M_Key in non-volatile memory.
    pub const M_KEY_NVRAM: Self = Self(1 << 7);
    /// The port keeps its P_Keys in non-volatile memory.
    pub const P_KEY_NVRAM: Self = Self(1 << 8);
    /// Has LedInfo.
    pub const LED_INFO: Self = Self(1 << 9);
    /// The subnet manager of the port is disabled.
    pub const SM_DISABLED: Self = Self(1 << 10);
    /// Has a system image GUID.
    pub const SYSTEM_IMAGE_GUID: Self = Self(1 << 11);
    /// Sends trap 259 for external ports of a switch.
    pub const P_KEY_SWITCH_TRAP: Self = Self(1 << 12);
    /// Has CableInfo.
    pub const CABLE_INFO: Self = Self(1 << 13);
    /// Supports the extended speeds FDR to NDR.
    pub const EXTENDED_SPEEDS: Self = Self(1 << 14);
    /// CapabilityMask2 is valid.
    pub const CAPABILITY_MASK2: Self = Self(1 << 15);
    /// Supports communication management.
    pub const COMMUNICATION_MANAGEMENT: Self = Self(1 << 16);
    /// Supports SNMP tunnelling.
    pub const SNMP_TUNNELING: Self = Self(1 << 17);
    /// Supports reinitialisation.
    pub const REINIT: Self = Self(1 << 18);
    /// Supports device management.
    pub const DEVICE_MANAGEMENT: Self = Self(1 << 19);
    /// Supports a vendor class.
    pub const VENDOR_CLASS: Self = Self(1 << 20);
    /// Traps may carry a directed route.
    pub const DR_NOTICE: Self = Self(1 << 21);
    /// The port sends trap 144 when this mask changes.
    pub const CAPABILITY_MASK_NOTICE: Self = Self(1 << 22);
    /// Supports boot management.
    pub const BOOT_MANAGEMENT: Self = Self(1 << 23);
    /// The port measures the round-trip latency of its link.
    pub const LINK_ROUND_TRIP: Self = Self(1 << 24);
    /// Supports ClientReregister.
    pub const CLIENT_REREGISTRATION: Self = Self(1 << 25);
    /// The port sends trap 144 for other local changes.
    pub const OTHER_LOCAL_CHANGES: Self = Self(1 << 26);
    /// Has LinkSpeedWidthPairsTable.
    pub const SPEED_WIDTH_PAIRS: Self = Self(1 << 27);
    /// Supports vendor-specific MADs.
    pub const VENDOR_MADS: Self = Self(1 << 28);
    /// Can suppress traps about multicast P_Key violations.
    pub const MULTICAST_PKEY_TRAP_SUPPRESSION: Self = Self(1 << 29);
    /// Honours SwitchInfo.MulticastFDBTop.
    pub const MULTICAST_FDB_TOP: Self = Self(1 << 30);
    /// Has HierarchyInfo.
    pub const HIERARCHY_INFO: Self = Self(1 << 31);

    /// True if every bit of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the mask with the bits of `other` set.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the mask with the bits of `other` cleared.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl fmt::Display for CapabilityMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// PortInfo.CapabilityMask2, valid with [`CapabilityMask::CAPABILITY_MASK2`]. Source: IBA vol 1 §14.2.5.6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CapabilityMask2(pub u16);

impl CapabilityMask2 {
    /// NodeDescription can be Set.
    pub const SET_NODE_DESCRIPTION: Self = Self(1 << 0);
    /// Has PortInfoExtended.
    pub const PORT_INFO_EXTENDED: Self = Self(1 << 1);
    /// Has virtual ports.
    pub const VIRTUALIZATION: Self = Self(1 << 2);
    /// Has SwitchPortStateTable.
    pub const SWITCH_PORT_STATE_TABLE: Self = Self(1 << 3);
    /// Supports width 2x.
    pub const LINK_WIDTH_2X: Self = Self(1 << 4);
    /// Supports HDR.
    pub const LINK_SPEED_HDR: Self = Self(1 << 5);
    /// Supports NDR.
    pub const LINK_SPEED_NDR: Self = Self(1 << 10);
    /// Has the second set of extended-speed fields. Source: `ib_mad.h` of Linux 6.8, `iba_types.h` of rdma-core 58.
    pub const EXTENDED_SPEEDS_2: Self = Self(1 << 11);
    /// Supports XDR. Source: as for [`Self::EXTENDED_SPEEDS_2`].
    pub const LINK_SPEED_XDR: Self = Self(1 << 12);

    /// True if every bit of `other` is set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for CapabilityMask2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}
