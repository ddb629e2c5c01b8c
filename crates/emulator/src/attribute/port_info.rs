//! PortInfo: address, state, link and limits of a port, and the rules for Sets.
//!
//! A Set is checked as a whole first. If any field is illegal, the response is BAD_FIELD and nothing has changed.
//! Source of the rules: IBA vol 1 §14.2.5.6.

use selvedge_chassis::{Chassis, PortIdx, SpeedSet, TableKind};
use selvedge_fabric::{PortCapability, PortSettings};
use selvedge_types::{Lid, LidRange, LinkSpeed, PhysState, PortNum, PortState};
use selvedge_wire::{
    Attribute, Bits, CapabilityMask, CapabilityMask2, ExtLinkSpeeds, ExtSpeedEnable, LinkDownDefault, LinkSpeeds,
    LinkWidths, PortInfo, SmpData, Status, VlCount,
};

use super::{Effects, LinkChange, Request, port_named};

/// RespTimeValue: an agent responds within 4.096 µs × 2^16 = 268 ms. Source: observed, ibsim 0.12.
const RESPONSE_TIME: u8 = 16;
/// SDR, DDR, QDR in the order of LinkSpeedSupported's bits. Source: IBA vol 1 §14.2.5.6.
const BASIC: [LinkSpeed; 3] = [LinkSpeed::Sdr, LinkSpeed::Ddr, LinkSpeed::Qdr];
/// FDR to NDR in the order of LinkSpeedExtSupported's bits. Source: IBA vol 1 §14.2.5.6.
const EXTENDED: [LinkSpeed; 4] = [LinkSpeed::Fdr, LinkSpeed::Edr, LinkSpeed::Hdr, LinkSpeed::Ndr];

/// Byte and bit of ClientReregister. Source: IBA vol 1 §14.2.5.6.
pub(crate) const CLIENT_REREGISTER: (usize, u8) = (51, 0x80);

pub(crate) fn get(chassis: &Chassis, request: &Request) -> Result<SmpData, Status> {
    let port = place(chassis, request)?;
    Ok(answer(chassis, port, request, request.m_key_shown))
}

pub(crate) fn set(
    chassis: &mut Chassis,
    request: &Request,
    data: &SmpData,
    effects: &mut Effects,
) -> Result<SmpData, Status> {
    let wanted = PortInfo::parse(data).map_err(|_| Status::BAD_FIELD)?;
    let port = place(chassis, request)?;
    // A CA's agent belongs to one port and changes no other. Source: observed, ibsim 0.12.
    if !chassis.is_switch(request.node) && port != request.ingress {
        return Err(Status::BAD_FIELD);
    }
    let capability = capability(chassis, port);
    let settings = checked_settings(chassis, port, &wanted)?;
    let widths = checked_widths(chassis, port, &capability, &wanted)?;
    let speeds = checked_speeds(chassis, port, &capability, &wanted)?;
    let state = checked_state(chassis, port, &wanted)?;
    chassis.set_settings(port, settings);
    let held = chassis.port_mut(port, TableKind::Settings);
    (held.widths_enabled, held.speeds_enabled) = (widths, speeds);
    held.down_default = match wanted.link_down_default {
        Some(LinkDownDefault::Sleep) => PhysState::Sleep,
        Some(LinkDownDefault::Polling) => PhysState::Polling,
        None => held.down_default,
    };
    held.enforcement = u8::from(wanted.partition_enforcement_in) << 3
        | u8::from(wanted.partition_enforcement_out) << 2
        | u8::from(wanted.filter_raw_in) << 1
        | u8::from(wanted.filter_raw_out);
    // Violation counters can be cleared but not set.
    for (counter, value) in [
        (&mut held.m_key_violations, wanted.m_key_violations),
        (&mut held.p_key_violations, wanted.p_key_violations),
        (&mut held.q_key_violations, wanted.q_key_violations),
    ] {
        if value == 0 {
            *counter = 0;
        }
    }
    match state {
        StateChange::None => {}
        StateChange::Logical(to) => {
            chassis.set_logical(port, to);
        }
        StateChange::Reset => effects.link = Some((port, LinkChange::Reset)),
        StateChange::Link(to) => effects.link = Some((port, LinkChange::Down(to))),
    }
    let mut answer = answer(chassis, port, request, true);
    // Source: IBA vol 1 §14.2.5.6 (ClientReregister): the response to a Set shows that the bit was accepted.
    let (byte, bit) = CLIENT_REREGISTER;
    answer[byte] |= data[byte] & bit;
    Ok(answer)
}

fn answer(chassis: &Chassis, port: PortIdx, request: &Request, m_key_shown: bool) -> SmpData {
    let mut info = port_info(chassis, port, request.ingress, m_key_shown);
    if !request.speeds_shown {
        (info.ext_speed_active, info.ext_speed_supported, info.ext_speed_enabled) = (None, None, None);
        (info.ext2_speed_active, info.ext2_speed_supported) = (Bits::default(), Bits::default());
        info.ext2_speed_enabled = Bits::default();
    }
    info.emit()
}

/// Returns the PortInfo of `port` for a request that arrived through `ingress`.
pub(crate) fn describe(chassis: &Chassis, port: PortIdx, ingress: PortIdx, m_key_shown: bool) -> SmpData {
    port_info(chassis, port, ingress, m_key_shown).emit()
}

fn port_info(chassis: &Chassis, port: PortIdx, ingress: PortIdx, m_key_shown: bool) -> PortInfo {
    let (wire, held) = (chassis.wire(port), chassis.port(port));
    let (capability, settings) = (capability(chassis, port), held.settings());
    let is_up = wire.phys() == PhysState::LinkUp;
    let is_end_port = chassis.end_port(port) == port;
    let enabled = held.speeds_enabled;
    let supported = SpeedSet::up_to(capability.speed);
    PortInfo {
        m_key: if m_key_shown { settings.m_key } else { 0 },
        gid_prefix: settings.subnet_prefix,
        lid: settings.lids.base,
        sm_lid: settings.sm_lid,
        capabilities: CapabilityMask(if is_end_port { held.capability_mask } else { 0 }),
        m_key_lease: settings.m_key_lease_s,
        local_port: chassis.wire(ingress).num().get(),
        width_enabled: LinkWidths::new(held.widths_enabled),
        width_supported: LinkWidths::new(capability.widths),
        width_active: Some(LinkWidths::only(held.rate.width)).filter(|_| is_up),
        speed_supported: LinkSpeeds::new(bits(supported, &BASIC)),
        state: Some(wire.state()),
        phys_state: Some(wire.phys()),
        link_down_default: Some(match held.down_default {
            PhysState::Sleep => LinkDownDefault::Sleep,
            _ => LinkDownDefault::Polling,
        }),
        m_key_protect: Bits::saturating(settings.m_key_protect),
        lmc: settings.lids.lmc,
        speed_active: LinkSpeeds::new(basic_code(held.rate.speed)).filter(|_| is_up),
        speed_enabled: LinkSpeeds::new(bits(enabled, &BASIC)),
        neighbor_mtu: Some(settings.mtu),
        sm_sl: settings.sm_sl,
        vl_cap: VlCount::from_code(capability.vls),
        vl_high_limit: settings.vl_high_limit,
        vl_arb_high_cap: capability.vl_arb_high,
        vl_arb_low_cap: capability.vl_arb_low,
        mtu_cap: Some(capability.mtu),
        vl_stall_count: Bits::saturating(settings.vl_stall_count),
        hoq_life: Bits::saturating(settings.hoq_life),
        oper_vls: VlCount::from_code(settings.oper_vls),
        partition_enforcement_in: held.enforcement & 8 != 0,
        partition_enforcement_out: held.enforcement & 4 != 0,
        filter_raw_in: held.enforcement & 2 != 0,
        filter_raw_out: held.enforcement & 1 != 0,
        m_key_violations: held.m_key_violations,
        p_key_violations: held.p_key_violations,
        q_key_violations: held.q_key_violations,
        guid_cap: if is_end_port { capability.guids } else { 0 },
        subnet_timeout: Bits::saturating(settings.subnet_timeout),
        resp_time: Bits::saturating(RESPONSE_TIME),
        local_phy_errors: Bits::saturating(settings.local_phy_errors),
        overrun_errors: Bits::saturating(settings.overrun_errors),
        capabilities2: CapabilityMask2(if is_end_port { held.capability_mask2 } else { 0 }),
        ext_speed_active: ExtLinkSpeeds::new(extended_code(held.rate.speed)).filter(|_| is_up),
        ext_speed_supported: ExtLinkSpeeds::new(bits(supported, &EXTENDED)),
        ext_speed_enabled: extended_enable(enabled, supported),
        ext2_speed_active: Bits::saturating(if is_up {
            xdr(SpeedSet::EMPTY.with(held.rate.speed))
        } else {
            0
        }),
        ext2_speed_supported: Bits::saturating(xdr(supported)),
        ext2_speed_enabled: Bits::saturating(xdr(enabled)),
        ..PortInfo::default()
    }
}

/// Effect of a legal Set on a port's state.
enum StateChange {
    None,
    Logical(PortState),
    /// Both ends go to INIT; the link stays trained.
    Reset,
    /// The link goes down, and the port enters this physical state.
    Link(PhysState),
}

/// Returns the port that the modifier names. Bit 31 of the modifier shows that the sender supports extended speeds.
fn place(chassis: &Chassis, request: &Request) -> Result<PortIdx, Status> {
    let num = u8::try_from(request.modifier & !PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS).map_err(|_| Status::BAD_FIELD)?;
    port_named(chassis, request, num)
}

fn capability(chassis: &Chassis, port: PortIdx) -> PortCapability {
    let built = chassis.fabric().port(chassis.port_ref(port));
    built.map(|p| p.capability).unwrap_or_default()
}

fn checked_settings(chassis: &Chassis, port: PortIdx, wanted: &PortInfo) -> Result<PortSettings, Status> {
    let held = *chassis.port(port).settings();
    let capability = capability(chassis, port);
    let lids = LidRange {
        base: wanted.lid,
        lmc: wanted.lmc,
    };
    // A port without a LID may get other settings before its LID.
    let lids_legal = if wanted.lid == Lid::NONE {
        held.lids.base == Lid::NONE
    } else {
        wanted.lid.is_unicast() && wanted.lid.0.is_multiple_of(wanted.lmc.lids()) && lids.last().is_unicast()
    };
    let is_end_port = chassis.end_port(port) == port;
    if is_end_port && !lids_legal || wanted.sm_lid > Lid::UNICAST_MAX {
        return Err(Status::BAD_FIELD);
    }
    if wanted.neighbor_mtu.is_some_and(|mtu| mtu > capability.mtu) {
        return Err(Status::BAD_FIELD);
    }
    if wanted.oper_vls.is_some_and(|vls| vls.code() > capability.vls) {
        return Err(Status::BAD_FIELD);
    }
    Ok(PortSettings {
        lids,
        sm_lid: wanted.sm_lid,
        sm_sl: wanted.sm_sl,
        mtu: wanted.neighbor_mtu.unwrap_or(held.mtu),
        oper_vls: wanted.oper_vls.map_or(held.oper_vls, VlCount::code),
        vl_high_limit: wanted.vl_high_limit,
        hoq_life: wanted.hoq_life.get(),
        vl_stall_count: wanted.vl_stall_count.get(),
        enforcement: (u8::from(wanted.partition_enforcement_in) * PortSettings::ENFORCE_IN)
            | (u8::from(wanted.partition_enforcement_out) * PortSettings::ENFORCE_OUT),
        m_key: wanted.m_key,
        m_key_lease_s: wanted.m_key_lease,
        m_key_protect: wanted.m_key_protect.get(),
        subnet_prefix: wanted.gid_prefix,
        subnet_timeout: wanted.subnet_timeout.get(),
        local_phy_errors: wanted.local_phy_errors.get(),
        overrun_errors: wanted.overrun_errors.get(),
    })
}

fn checked_widths(
    chassis: &Chassis,
    port: PortIdx,
    capability: &PortCapability,
    wanted: &PortInfo,
) -> Result<u8, Status> {
    match wanted.width_enabled {
        None => Ok(chassis.port(port).widths_enabled),
        Some(LinkWidths::ALL_SUPPORTED) => Ok(capability.widths),
        Some(widths) if widths.bits() & !capability.widths == 0 => Ok(widths.bits()),
        Some(_) => Err(Status::BAD_FIELD),
    }
}

fn checked_speeds(
    chassis: &Chassis,
    port: PortIdx,
    capability: &PortCapability,
    wanted: &PortInfo,
) -> Result<SpeedSet, Status> {
    let (held, supported) = (chassis.port(port).speeds_enabled, SpeedSet::up_to(capability.speed));
    let basic = match wanted.speed_enabled {
        None => bits(held, &BASIC),
        Some(LinkSpeeds::ALL_SUPPORTED) => bits(supported, &BASIC),
        Some(speeds) => speeds.bits(),
    };
    let extended = match wanted.ext_speed_enabled {
        None => bits(held, &EXTENDED),
        Some(ExtSpeedEnable::ALL_SUPPORTED) => bits(supported, &EXTENDED),
        Some(ExtSpeedEnable::DISABLED) => 0,
        Some(enable) => enable.speeds().ok_or(Status::BAD_FIELD)?.bits(),
    };
    if basic & !bits(supported, &BASIC) != 0 || extended & !bits(supported, &EXTENDED) != 0 {
        return Err(Status::BAD_FIELD);
    }
    let both = BASIC.iter().zip(0..).map(|(s, bit)| (s, basic >> bit & 1));
    let both = both.chain(EXTENDED.iter().zip(0..).map(|(s, bit)| (s, extended >> bit & 1)));
    let mut set = both
        .filter(|(_, on)| *on != 0)
        .fold(SpeedSet::EMPTY, |set, (speed, _)| set.with(*speed));
    let with_xdr = match wanted.ext2_speed_enabled.get() {
        0 => held.contains(LinkSpeed::Xdr),
        PortInfo::XDR if supported.contains(LinkSpeed::Xdr) => true,
        _ => return Err(Status::BAD_FIELD),
    };
    if with_xdr {
        set = set.with(LinkSpeed::Xdr);
    }
    // FDR10 has no field of its own, so it stays unchanged.
    if held.contains(LinkSpeed::Fdr10) {
        set = set.with(LinkSpeed::Fdr10);
    }
    Ok(set)
}

/// Checks a change of state. Legal port states are: ARMED from INIT, ACTIVE from ARMED, ARMED and ACTIVE unchanged, and
/// DOWN from any state. Legal physical states are Sleep, Polling and Disabled. No Set leads to INIT. A physical state
/// may only be combined with port state DOWN.
///
/// DOWN alone resets the port states of both ends, which continue to INIT because the link is still trained. Source:
/// IBA vol 1 §7.2.7 (link state machine). Observed: OpenSM does this after each change of MTU or lanes and expects both
/// ends in INIT at once.
fn checked_state(chassis: &Chassis, port: PortIdx, wanted: &PortInfo) -> Result<StateChange, Status> {
    let wire = chassis.wire(port);
    let on_board = wire.num() == PortNum::MANAGEMENT;
    let logical = match (wire.state(), wanted.state) {
        (_, None) => StateChange::None,
        (PortState::Active, Some(PortState::Active)) => StateChange::None,
        (_, Some(_)) if on_board => return Err(Status::BAD_FIELD),
        (PortState::Down, Some(PortState::Down)) => StateChange::None,
        (_, Some(PortState::Down)) => StateChange::Reset,
        (PortState::Armed, Some(PortState::Armed)) => StateChange::None,
        (PortState::Init, Some(PortState::Armed)) => StateChange::Logical(PortState::Armed),
        (PortState::Armed, Some(PortState::Active)) => StateChange::Logical(PortState::Active),
        (_, Some(PortState::Init | PortState::Armed | PortState::Active)) => return Err(Status::BAD_FIELD),
    };
    match (wanted.phys_state, wanted.state) {
        (None, _) => Ok(logical),
        (Some(to @ (PhysState::Sleep | PhysState::Polling | PhysState::Disabled)), None | Some(PortState::Down))
            if !on_board =>
        {
            Ok(StateChange::Link(to))
        }
        (Some(_), _) => Err(Status::BAD_FIELD),
    }
}

/// Returns the bits of those speeds in `order` that are in `set`.
fn bits(set: SpeedSet, order: &[LinkSpeed]) -> u8 {
    let ones = order.iter().zip(0..).filter(|(speed, _)| set.contains(**speed));
    ones.fold(0, |bits, (_, bit)| bits | 1 << bit)
}

/// Returns LinkSpeedActive. FDR10 is shown as QDR, because only a vendor attribute has a field for it.
const fn basic_code(speed: LinkSpeed) -> u8 {
    match speed {
        LinkSpeed::Sdr => 1,
        LinkSpeed::Ddr => 2,
        LinkSpeed::Qdr | LinkSpeed::Fdr10 => 4,
        // Source: IBA vol 1 §14.2.5.6: with an extended speed active the basic field shows the fastest basic one.
        LinkSpeed::Fdr | LinkSpeed::Edr | LinkSpeed::Hdr | LinkSpeed::Ndr | LinkSpeed::Xdr | LinkSpeed::Unknown => 4,
    }
}

/// Returns LinkSpeedExtActive.
const fn extended_code(speed: LinkSpeed) -> u8 {
    match speed {
        LinkSpeed::Sdr | LinkSpeed::Ddr | LinkSpeed::Qdr | LinkSpeed::Fdr10 => 0,
        LinkSpeed::Fdr => 1,
        LinkSpeed::Edr => 2,
        LinkSpeed::Hdr => 4,
        // With XDR active this field shows its fastest value, as the basic field does.
        LinkSpeed::Ndr | LinkSpeed::Xdr | LinkSpeed::Unknown => 8,
    }
}

/// Returns the code for the second fields of extended speeds.
const fn xdr(set: SpeedSet) -> u8 {
    if set.contains(LinkSpeed::Xdr) { PortInfo::XDR } else { 0 }
}

/// Returns LinkSpeedExtEnabled: 0 on a port without extended speeds, 30 if they are disabled.
fn extended_enable(enabled: SpeedSet, supported: SpeedSet) -> Option<ExtSpeedEnable> {
    match (ExtLinkSpeeds::new(bits(enabled, &EXTENDED)), bits(supported, &EXTENDED)) {
        (Some(speeds), _) => Some(ExtSpeedEnable::only(speeds)),
        (None, 0) => None,
        (None, _) => Some(ExtSpeedEnable::DISABLED),
    }
}
