//! A port: its capabilities, the state of its link, and its settings.

use selvedge_types::{Guid, Lid, LidRange, LinkSpeed, LinkWidth, Lmc, Mtu, PKey, PhysState, PortState, Rate, Sl};
use serde::{Deserialize, Serialize};

use crate::PortRef;

/// Capabilities of a port, fixed by its hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCapability {
    /// Largest MTU (PortInfo.MTUCap).
    pub mtu: Mtu,
    /// Data lanes as a PortInfo.VLCap code: 1 = VL0, 2 = VL0–1, 3 = VL0–3, 4 = VL0–7, 5 = VL0–14.
    pub vls: u8,
    /// Widths as in PortInfo.LinkWidthSupported: a bit set of [`LinkWidth::bit`].
    pub widths: u8,
    /// Fastest speed.
    pub speed: LinkSpeed,
    /// PortInfo.CapabilityMask.
    pub mask: u32,
    /// PortInfo.CapabilityMask2.
    pub mask2: u16,
    /// Number of entries of the high-priority arbitration table.
    pub vl_arb_high: u8,
    /// Number of entries of the low-priority arbitration table.
    pub vl_arb_low: u8,
    /// Number of entries of the GUID table.
    pub guids: u8,
}

impl PortCapability {
    /// PortInfo.CapabilityMask bit 1: a subnet manager runs on this port.
    pub const IS_SM: u32 = 1 << 1;

    /// Returns the number of data lanes of a VLCap or OperationalVLs code: 1, 2, 4, 8 or 15; 0 for an illegal code.
    #[must_use]
    pub const fn lanes_of_code(code: u8) -> u8 {
        match code {
            1 => 1,
            2 => 2,
            3 => 4,
            4 => 8,
            5 => 15,
            _ => 0,
        }
    }
}

impl Default for PortCapability {
    /// Returns the values of a current port: MTU 4096, 8 data lanes, 1x/4x, HDR.
    fn default() -> Self {
        Self {
            mtu: Mtu::B4096,
            vls: 4,
            widths: LinkWidth::X1.bit() | LinkWidth::X4.bit(),
            speed: LinkSpeed::Hdr,
            mask: 0,
            mask2: 0,
            vl_arb_high: 8,
            vl_arb_low: 8,
            guids: 1,
        }
    }
}

/// State of the link at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkState {
    /// Port state.
    pub state: PortState,
    /// Physical state.
    pub phys: PhysState,
    /// Width and speed negotiated with the peer; valid while `phys` is LinkUp.
    pub rate: Rate,
}

/// Settings of a port that a subnet manager may write through PortInfo: current ones in a `Port`, planned ones in a
/// plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortSettings {
    /// The LIDs of the port; base 0 if none (and on a switch's external ports).
    pub lids: LidRange,
    /// LID of the master subnet manager.
    pub sm_lid: Lid,
    /// Service level of packets to the subnet manager.
    pub sm_sl: Sl,
    /// Largest payload that may be sent (NeighborMTU).
    pub mtu: Mtu,
    /// Data lanes in use, as a code like [`PortCapability::vls`] (OperationalVLs).
    pub oper_vls: u8,
    /// Limit of high priority (VLHighLimit), in 4,096-byte units; 255: unlimited.
    pub vl_high_limit: u8,
    /// Head-of-queue lifetime: 4.096 µs × 2^value; 20–31: infinite. Switch external ports only.
    pub hoq_life: u8,
    /// Head-of-queue drops in a row after which a lane stalls, 0–7. Switch external ports only.
    pub vl_stall_count: u8,
    /// Partition enforcement of a switch at an external port, as PortInfo bits: [`Self::ENFORCE_IN`],
    /// [`Self::ENFORCE_OUT`].
    #[serde(default)]
    pub enforcement: u8,
    /// M_Key; 0: unprotected.
    pub m_key: u64,
    /// Lease of the M_Key in seconds; 0: infinite.
    pub m_key_lease_s: u16,
    /// M_Key protection bits, 0–3.
    pub m_key_protect: u8,
    /// Subnet prefix (GidPrefix).
    pub subnet_prefix: u64,
    /// SubnetTimeOut: 4.096 µs × 2^value, 0–31.
    pub subnet_timeout: u8,
    /// Threshold of local physical errors, 0–15.
    pub local_phy_errors: u8,
    /// Threshold of buffer overruns, 0–15.
    pub overrun_errors: u8,
}

impl PortSettings {
    /// The link-local subnet prefix. Source: IBA vol 1 §4.1.1.
    pub const DEFAULT_SUBNET_PREFIX: u64 = 0xFE80_0000_0000_0000;
    /// PartitionEnforcementInbound: packets from the host are dropped unless their P_Key is in the port's table.
    pub const ENFORCE_IN: u8 = 8;
    /// PartitionEnforcementOutbound: packets to the host are dropped unless their P_Key is in the port's table.
    pub const ENFORCE_OUT: u8 = 4;
}

impl Default for PortSettings {
    /// Returns the settings of an unconfigured agent.
    fn default() -> Self {
        Self {
            lids: LidRange {
                base: Lid::NONE,
                lmc: Lmc::ZERO,
            },
            sm_lid: Lid::NONE,
            sm_sl: Sl::default(),
            mtu: Mtu::B256,
            oper_vls: 1,
            vl_high_limit: 0,
            hoq_life: 0,
            vl_stall_count: 0,
            enforcement: 0,
            m_key: 0,
            m_key_lease_s: 0,
            m_key_protect: 0,
            subnet_prefix: Self::DEFAULT_SUBNET_PREFIX,
            subnet_timeout: 0,
            local_phy_errors: 8,
            overrun_errors: 8,
        }
    }
}

/// One port of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// GUID of the port; on a switch only port 0 has one.
    pub guid: Guid,
    /// Capabilities of the port.
    pub capability: PortCapability,
    /// State of the port's link.
    pub link: LinkState,
    /// Current settings of the port.
    pub settings: PortSettings,
    /// The first P_Keys of its current table, without empty entries at the end. On switches: of port 0, and of external
    /// ports that enforce partitions, as far as they were read.
    pub pkeys: Vec<PKey>,
    /// The port at the other end of the cable.
    pub peer: Option<PortRef>,
    /// True if the agent never answered for this port: only GUID and peer are known, everything else is a default.
    #[serde(default)]
    pub unread: bool,
}

impl Port {
    /// True if the link is trained and the port state is INIT, ARMED or ACTIVE.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.link.phys.is_trained() && self.link.state != PortState::Down
    }
}
