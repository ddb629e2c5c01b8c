//! Builds the SMPs a manager sends.

use selvedge_fabric::{Fabric, PortRef, PortSettings, SwitchSettings};
use selvedge_plan::LinkOrder;
use selvedge_types::{Lid, LinkSpeed, PKey, PhysState, PortNum, PortState, SecretKey};
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
    /// The M_Key that the port showed, for which the request is; 0: none was shown, so the key ring decides.
    shown: SecretKey,
    /// The M_Keys of a request that changes a key or is sent with several keys; `None` for most requests.
    keys: Option<Box<Keys>>,
    /// The data of a Set.
    data: Option<Box<SmpData>>,
}

/// M_Keys of a request.
#[derive(Clone, Debug, Default)]
struct Keys {
    /// The key that the agent has once it has executed this Set, if the Set can change it.
    gives: Option<SecretKey>,
    /// The M_Keys that the request was sent with. Recorded only while there are former keys.
    tried: Vec<SecretKey>,
}

impl Smp {
    /// Returns the same request with the M_Key that a port has shown, for an agent that guards its ports with this key;
    /// 0: the port showed none.
    pub const fn shown(mut self, m_key: u64) -> Self {
        self.shown = SecretKey::new(m_key);
        self
    }

    /// Returns the same Set with a note that it gives the agent this M_Key.
    pub fn giving(mut self, m_key: u64) -> Self {
        self.keys.get_or_insert_default().gives = Some(SecretKey::new(m_key));
        self
    }

    /// Returns the M_Key that the port showed, if it showed one.
    pub fn shown_key(&self) -> Option<SecretKey> {
        Some(self.shown).filter(|key| *key != SecretKey::default())
    }

    /// Returns the M_Key that the agent has after this Set, if the Set can change it.
    pub fn given_key(&self) -> Option<SecretKey> {
        self.keys.as_ref().and_then(|keys| keys.gives)
    }

    /// Returns the M_Keys that the request was sent with so far. While there are no former keys, none are recorded.
    pub fn tried(&self) -> &[SecretKey] {
        self.keys.as_ref().map_or(&[], |keys| &keys.tried)
    }

    /// Records an M_Key that the request is sent with.
    pub fn note_tried(&mut self, m_key: SecretKey) {
        self.keys.get_or_insert_default().tried.push(m_key);
    }

    /// Returns true for a Set.
    pub fn is_set(&self) -> bool {
        self.method == Method::Set
    }

    /// Returns true if the request is for SMInfo, which another manager answers.
    pub fn is_to_manager(&self) -> bool {
        self.attribute == AttributeId::SM_INFO
    }

    /// Returns true for a Get of PortInfo.
    pub fn reads_port(&self) -> bool {
        self.method == Method::Get && self.attribute == AttributeId::PORT_INFO
    }

    /// Returns the datagram with this M_Key. The sender fills in the transaction id.
    pub fn datagram(&self, m_key: SecretKey) -> Datagram {
        let mut datagram = Datagram {
            address: Address::DIRECTED,
            mad: Mad::directed(self.method, self.attribute, self.modifier, &self.route),
        };
        self.write(m_key, &mut datagram);
        datagram
    }

    /// Overwrites `place` with the datagram, with this M_Key. The sender fills in the transaction id.
    pub fn write(&self, m_key: SecretKey, place: &mut Datagram) {
        place.address = Address::DIRECTED;
        let mad = &mut place.mad;
        mad.write_directed(self.method, self.attribute, self.modifier, &self.route);
        mad.set_m_key(m_key.expose());
        if let Some(data) = &self.data {
            mad.set_smp_data(data);
        }
    }
}

/// Returns a Get along `route`.
pub const fn get(attribute: AttributeId, modifier: u32, route: &DirectedRoute) -> Smp {
    Smp {
        method: Method::Get,
        attribute,
        modifier,
        route: *route,
        shown: SecretKey::new(0),
        keys: None,
        data: None,
    }
}

/// Returns the M_Key that a port showed; 0 if it showed none. It can differ from the manager's M_Key until the port's
/// PortInfo is set.
pub fn shown_by(fabric: &Fabric, at: PortRef) -> u64 {
    fabric.port(at).map_or(0, |port| port.settings.m_key)
}

/// Returns a PortInfo Get of a port that is known.
pub fn get_port(fabric: &Fabric, at: PortRef, route: &DirectedRoute) -> Smp {
    get(AttributeId::PORT_INFO, known_port(fabric, at), route)
}

/// Returns the modifier of a PortInfo Get: an agent may show extended speeds only if bit 31 is set.
pub fn known_port(fabric: &Fabric, at: PortRef) -> u32 {
    let has_extended = |speed| speed >= LinkSpeed::Fdr;
    let extended = fabric.port(at).is_some_and(|port| has_extended(port.capability.speed));
    modifier(at.port, extended)
}

/// Returns a Set along `route`.
pub fn set<A: Attribute>(value: &A, modifier: u32, route: &DirectedRoute) -> Smp {
    Smp {
        method: Method::Set,
        attribute: A::ID,
        modifier,
        route: *route,
        shown: SecretKey::new(0),
        keys: None,
        data: Some(Box::new(value.emit())),
    }
}

/// Returns a LinearForwardingTable block.
pub fn lft(data: &[u8; 64]) -> LinearForwardingTable {
    LinearForwardingTable { ports: *data }
}

/// Returns the modifier of a P_KeyTable's block: only a switch has several tables.
pub fn pkeys_modifier(fabric: &Fabric, at: PortRef, block: u16) -> u32 {
    match fabric.switch_index(at.node) {
        Some(_) => PKeyTable::modifier(block, at.port.get()),
        None => PKeyTable::modifier(block, 0),
    }
}

/// True if a P_KeyTable of this size continues after this block. That is so if the last entry of the block is not 0
/// (`Partitions::table` guarantees that).
pub fn more_pkeys(table: &PKeyTable, block: u16, room: u16) -> bool {
    let next = (usize::from(block) + 1) * PKeyTable::PER_BLOCK;
    next < usize::from(room) && table.keys.last().is_some_and(|last| last.0 != 0)
}

/// Returns a P_KeyTable block that starts with `keys`.
pub fn pkeys(keys: &[PKey]) -> PKeyTable {
    let mut table = PKeyTable {
        keys: [PKey(0); PKeyTable::PER_BLOCK],
    };
    for (slot, key) in table.keys.iter_mut().zip(keys) {
        *slot = *key;
    }
    table
}

/// Returns the data of a SwitchInfo Set: the SwitchInfo that was read, with the planned settings. PortStateChange is
/// written back as it was read, and a 1 clears it. So only a change that the manager has seen is cleared, not a later
/// one.
pub fn switch_info(seen: &SwitchInfo, settings: SwitchSettings) -> SwitchInfo {
    SwitchInfo {
        linear_top: Lid(settings.linear_top),
        mcast_top: Lid(settings.multicast_top),
        lifetime_value: Bits::saturating(settings.lifetime),
        port_state_change: seen.port_state_change && !settings.port_state_change,
        ..*seen
    }
}

/// Returns the data of a PortInfo Set: the PortInfo that was read, with the planned settings. Each field with a "no
/// change" code that is not planned gets that code, so a Set never retrains a link by accident. Source: IBA vol 1
/// §14.2.5.6 (0 in state, physical state, link-down default, widths and speeds enabled).
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

/// Returns the data of a PortInfo Set that takes a link down or enables its port again; all other settings stay as they
/// are. Source: ibportstate (infiniband-diags) sets PortState Down with PortPhysicalState Disabled, and Polling to
/// enable.
pub fn link_order(seen: &PortInfo, held: &PortSettings, order: LinkOrder) -> PortInfo {
    let (state, phys_state) = match order {
        LinkOrder::Down => (Some(PortState::Down), None),
        LinkOrder::Disable => (Some(PortState::Down), Some(PhysState::Disabled)),
        LinkOrder::Poll => (None, Some(PhysState::Polling)),
    };
    PortInfo {
        phys_state,
        ..port_info(seen, held, state)
    }
}

/// Returns the modifier of a PortInfo Set. Bit 31 is set for an agent with extended speeds; without it the agent may
/// take the link down to QDR. Source: OpenSM (`osm_link_mgr.c` sets bit 31 under the same condition).
pub fn port_modifier(seen: &PortInfo, port: PortNum) -> u32 {
    modifier(port, seen.ext_speed_supported.is_some())
}

/// Returns the modifier for a port, with bit 31 if it has extended speeds.
fn modifier(port: PortNum, extended: bool) -> u32 {
    let known = if extended {
        PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS
    } else {
        0
    };
    u32::from(port.get()) | known
}

/// Returns the TrapRepress that answers a trap. It carries `m_key`, which must be the M_Key of the agent. Source: IBA
/// vol 1 §14.2.4.
pub fn repress(datagram: &Datagram, m_key: u64) -> Datagram {
    let mut repress = *datagram;
    repress.mad.set_method(Method::TrapRepress);
    repress.mad.set_m_key(m_key);
    repress
}
