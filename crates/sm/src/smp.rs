//! Builds the SMPs a manager sends.

use selvedge_fabric::{Fabric, PortRef, PortSettings, SwitchSettings};
use selvedge_types::{Lid, LinkSpeed, PKey, PortNum, PortState};
use selvedge_wire::{
    Address, Attribute, AttributeId, Bits, Datagram, DirectedRoute, LinearForwardingTable, Mad, Method, PKeyTable,
    PortInfo, SmpData, SwitchInfo, VlCount,
};

/// SMInfo changed: bit 3 of trap 144's changes. Source: IBA vol 1 §14.2.5.1 (SM priority).
pub const SM_PRIORITY: u16 = 1 << 3;

/// A request by directed route, before it is encoded as a datagram: most requests wait in a queue.
#[derive(Clone, Debug)]
pub struct Smp {
    method: Method,
    attribute: AttributeId,
    modifier: u32,
    /// The directed route.
    pub route: DirectedRoute,
    m_key: u64,
    /// The data of a Set.
    data: Option<Box<SmpData>>,
}

impl Smp {
    /// Returns the datagram; its transaction id is the sender's to fill in.
    pub fn datagram(&self) -> Datagram {
        let mut datagram = Datagram {
            address: Address::DIRECTED,
            mad: Mad::directed(self.method, self.attribute, self.modifier, &self.route),
        };
        self.write(&mut datagram);
        datagram
    }

    /// Writes the datagram over whatever was there; its transaction id is the sender's to fill in.
    pub fn write(&self, place: &mut Datagram) {
        place.address = Address::DIRECTED;
        let mad = &mut place.mad;
        mad.write_directed(self.method, self.attribute, self.modifier, &self.route);
        mad.set_m_key(self.m_key);
        if let Some(data) = &self.data {
            mad.set_smp_data(data);
        }
    }
}

/// A Get along `route`.
pub const fn get(attribute: AttributeId, modifier: u32, route: &DirectedRoute, m_key: u64) -> Smp {
    Smp {
        method: Method::Get,
        attribute,
        modifier,
        route: *route,
        m_key,
        data: None,
    }
}

/// Returns the M_Key that guards a port: another one than this manager's until its PortInfo is set.
pub fn key_of(fabric: &Fabric, at: PortRef, m_key: u64) -> u64 {
    match fabric.port(at).map_or(0, |port| port.settings.m_key) {
        0 => m_key,
        shown => shown,
    }
}

/// A PortInfo Get of a port that is known.
pub fn get_port(fabric: &Fabric, at: PortRef, route: &DirectedRoute, m_key: u64) -> Smp {
    get(AttributeId::PORT_INFO, known_port(fabric, at), route, m_key)
}

/// Returns the modifier of such a Get: an agent may show extended speeds only if bit 31 is set.
pub fn known_port(fabric: &Fabric, at: PortRef) -> u32 {
    let has_extended = |speed| speed >= LinkSpeed::Fdr;
    let extended = fabric.port(at).is_some_and(|port| has_extended(port.capability.speed));
    modifier(at.port, extended)
}

/// A Set along `route`.
pub fn set<A: Attribute>(value: &A, modifier: u32, route: &DirectedRoute, m_key: u64) -> Smp {
    Smp {
        method: Method::Set,
        attribute: A::ID,
        modifier,
        route: *route,
        m_key,
        data: Some(Box::new(value.emit())),
    }
}

/// A LinearForwardingTable block.
pub fn lft(data: &[u8; 64]) -> LinearForwardingTable {
    LinearForwardingTable { ports: *data }
}

/// The modifier of a P_KeyTable's block: only a switch has several tables.
pub fn pkeys_modifier(fabric: &Fabric, at: PortRef, block: u16) -> u32 {
    match fabric.switch_index(at.node) {
        Some(_) => PKeyTable::modifier(block, at.port.get()),
        None => PKeyTable::modifier(block, 0),
    }
}

/// True if another block of P_Keys follows this one, in a table of this size: its last place is not 0
/// (`Partitions::table` guarantees that).
pub fn more_pkeys(table: &PKeyTable, block: u16, room: u16) -> bool {
    let next = (usize::from(block) + 1) * PKeyTable::PER_BLOCK;
    next < usize::from(room) && table.keys.last().is_some_and(|last| last.0 != 0)
}

/// A P_KeyTable block that starts with `keys`.
pub fn pkeys(keys: &[PKey]) -> PKeyTable {
    let mut table = PKeyTable {
        keys: [PKey(0); PKeyTable::PER_BLOCK],
    };
    for (slot, key) in table.keys.iter_mut().zip(keys) {
        *slot = *key;
    }
    table
}

/// SwitchInfo as seen, with what the plan wants. PortStateChange set to 1 clears it: only a change that was seen is
/// cleared, not a later one.
pub fn switch_info(seen: &SwitchInfo, settings: SwitchSettings) -> SwitchInfo {
    SwitchInfo {
        linear_top: Lid(settings.linear_top),
        mcast_top: Lid(settings.multicast_top),
        lifetime_value: Bits::saturating(settings.lifetime),
        port_state_change: seen.port_state_change && !settings.port_state_change,
        ..*seen
    }
}

/// PortInfo as seen, with the planned settings. Each field with a "no change" code that is not planned gets that code,
/// so a Set never retrains a link by accident. Source: IBA vol 1 §14.2.5.6 (0 in state, physical state, link-down
/// default, widths and speeds enabled).
pub fn port_info(seen: &PortInfo, settings: &PortSettings, state: Option<PortState>) -> PortInfo {
    PortInfo {
        m_key: settings.m_key,
        gid_prefix: settings.subnet_prefix,
        lid: settings.lids.base,
        lmc: settings.lids.lmc,
        sm_lid: settings.sm_lid,
        sm_sl: settings.sm_sl,
        m_key_lease: settings.m_key_lease_s,
        m_key_protect: Bits::saturating(settings.m_key_protect),
        neighbor_mtu: Some(settings.mtu),
        oper_vls: VlCount::from_code(settings.oper_vls),
        vl_high_limit: settings.vl_high_limit,
        hoq_life: Bits::saturating(settings.hoq_life),
        vl_stall_count: Bits::saturating(settings.vl_stall_count),
        partition_enforcement_in: settings.enforcement & PortSettings::ENFORCE_IN != 0,
        partition_enforcement_out: settings.enforcement & PortSettings::ENFORCE_OUT != 0,
        subnet_timeout: Bits::saturating(settings.subnet_timeout),
        local_phy_errors: Bits::saturating(settings.local_phy_errors),
        overrun_errors: Bits::saturating(settings.overrun_errors),
        state,
        phys_state: None,
        link_down_default: None,
        width_enabled: None,
        speed_enabled: None,
        ext_speed_enabled: None,
        ext2_speed_enabled: Bits::default(),
        client_reregister: false,
        ..*seen
    }
}

/// Returns the modifier of a PortInfo Set. Bit 31 is set for an agent with extended speeds; without it the agent may
/// take the link down to QDR. Source: OpenSM (`osm_link_mgr.c` sets bit 31 under the same condition).
pub fn port_modifier(seen: &PortInfo, port: PortNum) -> u32 {
    modifier(port, seen.ext_speed_supported.is_some())
}

/// The modifier for a port that has extended speeds, or not.
fn modifier(port: PortNum, extended: bool) -> u32 {
    let known = if extended {
        PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS
    } else {
        0
    };
    u32::from(port.get()) | known
}

/// Returns the answer to a trap. The agent's own M_Key guards it. Source: IBA vol 1 §14.2.4.
pub fn repress(datagram: &Datagram, m_key: u64) -> Datagram {
    let mut repress = *datagram;
    repress.mad.set_method(Method::TrapRepress);
    repress.mad.set_m_key(m_key);
    repress
}
