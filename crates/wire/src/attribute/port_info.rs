//! PortInfo: address, state, link and limits of one port.

use core::fmt;

use selvedge_types::{Lid, LinkSpeed, LinkWidth, Lmc, Mtu, PhysState, PortState, Rate, Sl};

use super::bytes::{Bits, put, put_u24, u16_at, u24_at, u32_at, u64_at};
use super::{Attribute, AttributeId, CapabilityMask, CapabilityMask2};
use super::{ExtLinkSpeeds, ExtSpeedEnable, LinkSpeeds, LinkWidths, VlCount};
use crate::{DecodeError, SmpData};

/// Behaviour of a port when its link goes down (LinkDownDefaultState).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkDownDefault {
    /// Sleep until a Set wakes the port (1).
    Sleep,
    /// Poll for a peer (2).
    Polling,
}

/// Address, state, link and limits of one port.
///
/// Modifier: bits 0–7 the port (0: on a switch its management port, on a CA the port that received the request), bit 31
/// [`PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS`].
///
/// Source: IBA vol 1 §14.2.5.6; offsets as in rdma-core `libibmad/fields.c`. A field that is `None` has code 0: "no
/// change" in a Set, "does not apply" in a response (ports that are down, a switch's port 0). Reserved codes of
/// enumerations are refused. Reserved bits are ignored on receipt and sent as 0.
/// ```text
///  0 M_Key                     8 GidPrefix
/// 16 LID                      18 MasterSMLID                20 CapabilityMask
/// 24 DiagCode                 26 M_KeyLeasePeriod
/// 28 LocalPortNum             29 LinkWidthEnabled           30 LinkWidthSupported   31 LinkWidthActive
/// 32 LinkSpeedSupported, PortState                          33 PortPhysicalState, LinkDownDefaultState
/// 34 M_KeyProtectBits (2), reserved (3), LMC (3)            35 LinkSpeedActive, LinkSpeedEnabled
/// 36 NeighborMTU, MasterSMSL  37 VLCap, InitType
/// 38 VLHighLimit              39 VLArbitrationHighCap       40 VLArbitrationLowCap
/// 41 InitTypeReply, MTUCap    42 VLStallCount (3), HOQLife (5)
/// 43 OperationalVLs (4), PartitionEnforcementInbound, Outbound, FilterRawInbound, Outbound (1 each)
/// 44 M_KeyViolations          46 P_KeyViolations            48 Q_KeyViolations      50 GUIDCap
/// 51 ClientReregister (1), MulticastPKeyTrapSuppressionEnabled (2), SubnetTimeOut (5)
/// 52 reserved (3), RespTimeValue (5)                        53 LocalPhyErrors, OverrunErrors
/// 54 MaxCreditHint
/// 56 reserved (1), LinkSpeedExtActive2 (2), LinkSpeedExtSupported2 (2), LinkSpeedExtEnabled2 (3)
/// 57 LinkRoundTripLatency (24)
/// 60 CapabilityMask2          62 LinkSpeedExtActive, LinkSpeedExtSupported
/// 63 reserved (3), LinkSpeedExtEnabled (5)
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// M_Key that Sets must contain; 0: none. A response contains 0 unless the request contained the key.
    pub m_key: u64,
    /// Upper half of the port's GIDs.
    pub gid_prefix: u64,
    /// Base LID.
    pub lid: Lid,
    /// LID of the master subnet manager.
    pub sm_lid: Lid,
    /// Capabilities of the port. On a switch only port 0 has them.
    pub capabilities: CapabilityMask,
    /// Vendor's diagnostic code; 0 is "good".
    pub diag_code: u16,
    /// Seconds without a valid M_Key after which a port drops its M_Key protection; 0: never.
    pub m_key_lease: u16,
    /// Port by which the request arrived.
    pub local_port: u8,
    /// Enabled widths.
    pub width_enabled: Option<LinkWidths>,
    /// Supported widths.
    pub width_supported: Option<LinkWidths>,
    /// Width in use; see [`Self::rate_active`].
    pub width_active: Option<LinkWidths>,
    /// Supported speeds, SDR to QDR.
    pub speed_supported: Option<LinkSpeeds>,
    /// Logical state.
    pub state: Option<PortState>,
    /// Physical state.
    pub phys_state: Option<PhysState>,
    /// Physical state after the link goes down.
    pub link_down_default: Option<LinkDownDefault>,
    /// M_Key protection level: 0 checks only Sets, 1 also hides the key in responses, 2 and 3 also check Gets.
    pub m_key_protect: Bits<2>,
    /// LID mask control.
    pub lmc: Lmc,
    /// Speed in use, SDR to QDR; `None` also if an extended one is in use. See [`Self::rate_active`].
    pub speed_active: Option<LinkSpeeds>,
    /// Enabled speeds, SDR to QDR.
    pub speed_enabled: Option<LinkSpeeds>,
    /// Largest payload in use on the link.
    pub neighbor_mtu: Option<Mtu>,
    /// Service level to the master subnet manager.
    pub sm_sl: Sl,
    /// Number of data lanes that the port has.
    pub vl_cap: Option<VlCount>,
    /// Kind of initialisation that the port asks for.
    pub init_type: Bits<4>,
    /// Amount of high-priority traffic before a low-priority packet, in units of 4,096 bytes; 255: unlimited.
    pub vl_high_limit: u8,
    /// Number of entries of the high-priority arbitration table.
    pub vl_arb_high_cap: u8,
    /// Number of entries of the low-priority arbitration table.
    pub vl_arb_low_cap: u8,
    /// Kind of initialisation that the manager did.
    pub init_type_reply: Bits<4>,
    /// Largest payload that the port supports.
    pub mtu_cap: Option<Mtu>,
    /// Packets dropped in a row after which a lane is stalled.
    pub vl_stall_count: Bits<3>,
    /// Longest time of a packet at the head of a queue: 4.096 µs · 2^value; above 19: unlimited.
    pub hoq_life: Bits<5>,
    /// Number of data lanes in use.
    pub oper_vls: Option<VlCount>,
    /// Checks P_Keys of incoming packets (switches).
    pub partition_enforcement_in: bool,
    /// Checks P_Keys of outgoing packets (switches).
    pub partition_enforcement_out: bool,
    /// Drops incoming raw packets (switches).
    pub filter_raw_in: bool,
    /// Drops outgoing raw packets (switches).
    pub filter_raw_out: bool,
    /// SMPs with a wrong M_Key.
    pub m_key_violations: u16,
    /// Packets with a wrong P_Key.
    pub p_key_violations: u16,
    /// Packets with a wrong Q_Key.
    pub q_key_violations: u16,
    /// Number of GUIDs that the port can have.
    pub guid_cap: u8,
    /// In a Set: asks clients to register again with subnet administration.
    pub client_reregister: bool,
    /// Multicast P_Key violations for which no trap is sent.
    pub mcast_pkey_trap_suppression: Bits<2>,
    /// Shortest time between two traps, and longest delay in the subnet: 4.096 µs · 2^value.
    pub subnet_timeout: Bits<5>,
    /// Longest response time of the agent: 4.096 µs · 2^value.
    pub resp_time: Bits<5>,
    /// Local link integrity errors after which trap 129 is sent.
    pub local_phy_errors: Bits<4>,
    /// Buffer overruns in a row after which trap 130 is sent.
    pub overrun_errors: Bits<4>,
    /// Hint for the credits of a connection.
    pub max_credit_hint: u16,
    /// Round-trip latency of the link in units of 4 ns, 24 bits; higher bits are not sent.
    pub link_round_trip: u32,
    /// Further capabilities, valid if [`CapabilityMask::CAPABILITY_MASK2`] is set.
    pub capabilities2: CapabilityMask2,
    /// Extended speed in use. See [`Self::rate_active`].
    pub ext_speed_active: Option<ExtLinkSpeeds>,
    /// Supported extended speeds.
    pub ext_speed_supported: Option<ExtLinkSpeeds>,
    /// Enabled extended speeds.
    pub ext_speed_enabled: Option<ExtSpeedEnable>,
    /// Speed in use beyond NDR: 0 for none, or [`Self::XDR`]. Valid with [`CapabilityMask2::EXTENDED_SPEEDS_2`].
    pub ext2_speed_active: Bits<2>,
    /// Supported speeds beyond NDR: a bit set of [`Self::XDR`].
    pub ext2_speed_supported: Bits<2>,
    /// Enabled speeds beyond NDR; 0 in a Set: "no change".
    pub ext2_speed_enabled: Bits<3>,
}

impl PortInfo {
    /// Bit of the modifier: the manager supports extended speeds. OpenSM sets it in Sets (observed, see
    /// `tests/golden/peers.txt`); agents may ignore it.
    pub const SM_SUPPORTS_EXTENDED_SPEEDS: u32 = 1 << 31;

    /// XDR in the second fields of extended speeds. Source: rdma-core 65 (`libibmad/fields.c`, `dump.c`: 1 is 212.5
    /// Gb/s), Linux 6.8 (`mlx5_query_mad_ifc_port`).
    pub const XDR: u8 = 1;

    /// Returns the port of a modifier, without the higher bits.
    #[must_use]
    pub const fn port(modifier: u32) -> u8 {
        modifier as u8
    }

    /// True if the link is trained and the port state is INIT, ARMED or ACTIVE.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.phys_state.is_some_and(PhysState::is_trained) && self.says_up()
    }

    /// True if the port state shows the link as up and the physical state does not. No port has such a
    /// state, so the response has a flipped bit. Source: IBA vol 1 §7.2.7 (without PhyLinkUp the state is LinkDown).
    #[must_use]
    pub fn is_contradictory(&self) -> bool {
        self.says_up() && !self.is_up()
    }

    fn says_up(&self) -> bool {
        self.state.is_some_and(|state| state != PortState::Down)
    }

    /// Returns width and speed in use. `None` if PortInfo states no width, several widths or no speed.
    ///
    /// An extended speed overrides SDR to QDR, whatever the capability mask has, because switches have a mask on port
    /// 0 only.
    #[must_use]
    pub fn rate_active(&self) -> Option<Rate> {
        Some(Rate {
            width: self.width_active()?,
            speed: self.speed_active()?,
        })
    }

    /// Returns width and speed in use, for a snapshot. A port with a link but an undecodable rate gets an unknown
    /// speed, never a slow one.
    #[must_use]
    pub fn rate_or_unknown(&self) -> Rate {
        let unknown = Rate {
            width: self.width_active().unwrap_or_default(),
            speed: LinkSpeed::Unknown,
        };
        match self.rate_active() {
            Some(rate) => rate,
            None if self.is_up() => unknown,
            None => Rate::default(),
        }
    }

    /// Returns the width in use.
    #[must_use]
    pub fn width_active(&self) -> Option<LinkWidth> {
        self.width_active.and_then(LinkWidths::single)
    }

    /// Returns the speed in use, basic or extended; [`LinkSpeed::Unknown`] for an undefined code. FDR10 is returned as
    /// QDR, because PortInfo has no code for it (see [`super::MlnxExtPortInfo`]).
    #[must_use]
    pub fn speed_active(&self) -> Option<LinkSpeed> {
        let known = match (self.ext2_speed_active.get(), self.ext_speed_active, self.speed_active) {
            (Self::XDR, ..) => Some(LinkSpeed::Xdr),
            (1.., ..) => None,
            (0, Some(extended), _) => extended.single(),
            (0, None, Some(basic)) => basic.single(),
            (0, None, None) => return None,
        };
        Some(known.unwrap_or(LinkSpeed::Unknown))
    }

    /// Reads PortState from an encoded PortInfo without decoding the rest. `None` for 0 and reserved codes.
    #[must_use]
    pub const fn state_in(data: &SmpData) -> Option<PortState> {
        PortState::from_code(data[32] & 0x0F)
    }

    /// Reads the LID from an encoded PortInfo without decoding the rest.
    #[must_use]
    pub const fn lid_in(data: &SmpData) -> Lid {
        Lid(u16::from_be_bytes([data[16], data[17]]))
    }

    /// Writes bytes 36–43: MTUs, lanes, arbitration and queue limits.
    fn emit_limits(&self, data: &mut SmpData) {
        data[36] = self.neighbor_mtu.map_or(0, Mtu::code) << 4 | self.sm_sl.get();
        data[37] = self.vl_cap.map_or(0, VlCount::code) << 4 | self.init_type.get();
        data[38] = self.vl_high_limit;
        data[39] = self.vl_arb_high_cap;
        data[40] = self.vl_arb_low_cap;
        data[41] = self.init_type_reply.get() << 4 | self.mtu_cap.map_or(0, Mtu::code);
        data[42] = self.vl_stall_count.get() << 5 | self.hoq_life.get();
        data[43] = self.oper_vls.map_or(0, VlCount::code) << 4
            | u8::from(self.partition_enforcement_in) << 3
            | u8::from(self.partition_enforcement_out) << 2
            | u8::from(self.filter_raw_in) << 1
            | u8::from(self.filter_raw_out);
    }
}

/// Decodes `code`: `None` for 0, an error for a code that `decode` does not know.
fn coded<T>(
    code: u8,
    decode: impl Fn(u8) -> Option<T>,
    field: &'static str,
    want: &'static str,
) -> Result<Option<T>, DecodeError> {
    match (code, decode(code)) {
        (0, _) => Ok(None),
        (_, Some(value)) => Ok(Some(value)),
        (_, None) => Err(DecodeError::Field {
            field,
            want,
            found: u64::from(code),
        }),
    }
}

const fn link_down_default(code: u8) -> Option<LinkDownDefault> {
    match code {
        1 => Some(LinkDownDefault::Sleep),
        2 => Some(LinkDownDefault::Polling),
        _ => None,
    }
}

impl Attribute for PortInfo {
    const ID: AttributeId = AttributeId::PORT_INFO;

    fn parse(data: &SmpData) -> Result<Self, DecodeError> {
        let (high, low) = (|at: usize| data[at] >> 4, |at: usize| data[at] & 0x0F);
        let bit = |at: usize, bit: u8| data[at] >> bit & 1 != 0;
        let mtu = |code, field| coded(code, Mtu::from_code, field, "0-5");
        let vls = |code, field| coded(code, VlCount::from_code, field, "0-5");
        Ok(Self {
            m_key: u64_at(data, 0),
            gid_prefix: u64_at(data, 8),
            lid: Lid(u16_at(data, 16)),
            sm_lid: Lid(u16_at(data, 18)),
            capabilities: CapabilityMask(u32_at(data, 20)),
            diag_code: u16_at(data, 24),
            m_key_lease: u16_at(data, 26),
            local_port: data[28],
            width_enabled: LinkWidths::new(data[29]),
            width_supported: LinkWidths::new(data[30]),
            width_active: LinkWidths::new(data[31]),
            speed_supported: LinkSpeeds::new(high(32)),
            state: coded(low(32), PortState::from_code, "PortInfo.PortState", "0-4")?,
            phys_state: coded(high(33), PhysState::from_code, "PortInfo.PortPhysicalState", "0-7")?,
            link_down_default: coded(low(33), link_down_default, "PortInfo.LinkDownDefaultState", "0-2")?,
            m_key_protect: Bits::low(data[34] >> 6),
            // Three bits are always an LMC and four always an SL, so the defaults are never taken.
            lmc: Lmc::new(data[34] & 0x07).unwrap_or_default(),
            speed_active: LinkSpeeds::new(high(35)),
            speed_enabled: LinkSpeeds::new(low(35)),
            neighbor_mtu: mtu(high(36), "PortInfo.NeighborMTU")?,
            sm_sl: Sl::new(low(36)).unwrap_or_default(),
            vl_cap: vls(high(37), "PortInfo.VLCap")?,
            init_type: Bits::low(data[37]),
            vl_high_limit: data[38],
            vl_arb_high_cap: data[39],
            vl_arb_low_cap: data[40],
            init_type_reply: Bits::low(high(41)),
            mtu_cap: mtu(low(41), "PortInfo.MTUCap")?,
            vl_stall_count: Bits::low(data[42] >> 5),
            hoq_life: Bits::low(data[42]),
            oper_vls: vls(high(43), "PortInfo.OperationalVLs")?,
            partition_enforcement_in: bit(43, 3),
            partition_enforcement_out: bit(43, 2),
            filter_raw_in: bit(43, 1),
            filter_raw_out: bit(43, 0),
            m_key_violations: u16_at(data, 44),
            p_key_violations: u16_at(data, 46),
            q_key_violations: u16_at(data, 48),
            guid_cap: data[50],
            client_reregister: bit(51, 7),
            mcast_pkey_trap_suppression: Bits::low(data[51] >> 5),
            subnet_timeout: Bits::low(data[51]),
            resp_time: Bits::low(data[52]),
            local_phy_errors: Bits::low(high(53)),
            overrun_errors: Bits::low(data[53]),
            max_credit_hint: u16_at(data, 54),
            ext2_speed_active: Bits::low(data[56] >> 5),
            ext2_speed_supported: Bits::low(data[56] >> 3),
            ext2_speed_enabled: Bits::low(data[56]),
            link_round_trip: u24_at(data, 57),
            capabilities2: CapabilityMask2(u16_at(data, 60)),
            ext_speed_active: ExtLinkSpeeds::new(high(62)),
            ext_speed_supported: ExtLinkSpeeds::new(low(62)),
            ext_speed_enabled: ExtSpeedEnable::new(data[63]),
        })
    }

    fn emit(&self) -> SmpData {
        let widths = |set: Option<LinkWidths>| set.map_or(0, LinkWidths::bits);
        let speeds = |set: Option<LinkSpeeds>| set.map_or(0, LinkSpeeds::bits);
        let extended = |set: Option<ExtLinkSpeeds>| set.map_or(0, ExtLinkSpeeds::bits);
        let mut data = [0; 64];
        put(&mut data, 0, self.m_key.to_be_bytes());
        put(&mut data, 8, self.gid_prefix.to_be_bytes());
        put(&mut data, 16, self.lid.0.to_be_bytes());
        put(&mut data, 18, self.sm_lid.0.to_be_bytes());
        put(&mut data, 20, self.capabilities.0.to_be_bytes());
        put(&mut data, 24, self.diag_code.to_be_bytes());
        put(&mut data, 26, self.m_key_lease.to_be_bytes());
        data[28] = self.local_port;
        data[29] = widths(self.width_enabled);
        data[30] = widths(self.width_supported);
        data[31] = widths(self.width_active);
        data[32] = speeds(self.speed_supported) << 4 | self.state.map_or(0, PortState::code);
        data[33] = self.phys_state.map_or(0, PhysState::code) << 4 | self.link_down_default.map_or(0, |d| d as u8 + 1);
        data[34] = self.m_key_protect.get() << 6 | self.lmc.get();
        data[35] = speeds(self.speed_active) << 4 | speeds(self.speed_enabled);
        self.emit_limits(&mut data);
        put(&mut data, 44, self.m_key_violations.to_be_bytes());
        put(&mut data, 46, self.p_key_violations.to_be_bytes());
        put(&mut data, 48, self.q_key_violations.to_be_bytes());
        data[50] = self.guid_cap;
        data[51] = u8::from(self.client_reregister) << 7
            | self.mcast_pkey_trap_suppression.get() << 5
            | self.subnet_timeout.get();
        data[52] = self.resp_time.get();
        data[53] = self.local_phy_errors.get() << 4 | self.overrun_errors.get();
        put(&mut data, 54, self.max_credit_hint.to_be_bytes());
        data[56] =
            self.ext2_speed_active.get() << 5 | self.ext2_speed_supported.get() << 3 | self.ext2_speed_enabled.get();
        put_u24(&mut data, 57, self.link_round_trip);
        put(&mut data, 60, self.capabilities2.0.to_be_bytes());
        data[62] = extended(self.ext_speed_active) << 4 | extended(self.ext_speed_supported);
        data[63] = self.ext_speed_enabled.map_or(0, ExtSpeedEnable::bits);
        data
    }
}

/// Prints a value, or `-` for `None`.
struct OrDash<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrDash<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Prints a value with its name in the code.
struct Named<T>(T);

impl<T: fmt::Debug> fmt::Display for Named<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PortInfo {
    /// The M_Key is a secret, so the text only shows whether there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PortInfo lid={} lmc={} {}/{} down={} rate={} width={}/{}/{} speed={}/{}/{} ext={}/{}/{} \
             mtu={}/{} vls={}/{}",
            self.lid,
            self.lmc.get(),
            OrDash(self.state),
            OrDash(self.phys_state.map(Named)),
            OrDash(self.link_down_default.map(Named)),
            OrDash(self.rate_active()),
            OrDash(self.width_active),
            OrDash(self.width_enabled),
            OrDash(self.width_supported),
            OrDash(self.speed_active),
            OrDash(self.speed_enabled),
            OrDash(self.speed_supported),
            OrDash(self.ext_speed_active),
            OrDash(self.ext_speed_enabled),
            OrDash(self.ext_speed_supported),
            OrDash(self.neighbor_mtu.map(Mtu::bytes)),
            OrDash(self.mtu_cap.map(Mtu::bytes)),
            OrDash(self.oper_vls),
            OrDash(self.vl_cap),
        )?;
        self.fmt_settings(f)
    }
}

impl PortInfo {
    /// Prints the second half of the line: settings other than address, state and link.
    fn fmt_settings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            " sm={}/sl{} prefix={:#018x} cap={} cap2={} mkey={} protect={} lease={}s local_port={} hoq={} stall={}",
            self.sm_lid,
            self.sm_sl.get(),
            self.gid_prefix,
            self.capabilities,
            self.capabilities2,
            if self.m_key == 0 { "none" } else { "set" },
            self.m_key_protect,
            self.m_key_lease,
            self.local_port,
            self.hoq_life,
            self.vl_stall_count,
        )?;
        write!(
            f,
            " arb={}/{}/{} enforce={}{} raw={}{} violations={}/{}/{} guids={} rereg={} timeout={} resp={} errors={}/{}",
            self.vl_high_limit,
            self.vl_arb_high_cap,
            self.vl_arb_low_cap,
            u8::from(self.partition_enforcement_in),
            u8::from(self.partition_enforcement_out),
            u8::from(self.filter_raw_in),
            u8::from(self.filter_raw_out),
            self.m_key_violations,
            self.p_key_violations,
            self.q_key_violations,
            self.guid_cap,
            u8::from(self.client_reregister),
            self.subnet_timeout,
            self.resp_time,
            self.local_phy_errors,
            self.overrun_errors,
        )?;
        write!(
            f,
            " init={}/{} suppress={} credits={} roundtrip={} diag={:#x}",
            self.init_type,
            self.init_type_reply,
            self.mcast_pkey_trap_suppression,
            self.max_credit_hint,
            self.link_round_trip,
            self.diag_code,
        )?;
        let beyond_ndr = (
            self.ext2_speed_active,
            self.ext2_speed_enabled,
            self.ext2_speed_supported,
        );
        if beyond_ndr != (Bits::default(), Bits::default(), Bits::default()) {
            write!(f, " ext2={}/{}/{}", beyond_ndr.0, beyond_ndr.1, beyond_ndr.2)?;
        }
        Ok(())
    }
}
