//! The inventory: the result of discovery as an immutable snapshot, with the directed route to every agent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{
    BuildError, Fabric, FabricBuilder, LinkState, Node, NodeIdx, NodeKey, Port, PortCapability, PortRef, PortSettings,
    SwitchAttributes, SwitchSettings,
};
use selvedge_types::{Guid, Idx, IdxVec, LidRange, LinkSpeed, Mtu, NodeKind, PKey, PortNum, PortState};
use selvedge_wire::{DirectedRoute, ExtLinkSpeeds, LinkSpeeds, LinkWidths, NodeInfo, PortInfo, SwitchInfo, VlCount};

use crate::port_reason::PortReason;
use crate::withdrawn::Withdrawn;

/// A node during discovery.
#[derive(Clone, Debug)]
pub struct Found {
    /// NodeInfo of the node.
    pub info: NodeInfo,
    /// Directed route to the node's agent.
    pub route: DirectedRoute,
    /// NodeDescription of the node.
    pub description: String,
    /// SwitchInfo of the node, if it is a switch.
    pub switch: Option<SwitchInfo>,
    /// Ports of the node; the index is the port number.
    pub ports: Vec<FoundPort>,
    /// Reason why the node is left out of the fabric, if it is: a required answer did not arrive, or its GUID was seen
    /// twice.
    pub left_out: Option<PortReason>,
}

/// A port during discovery.
#[derive(Clone, Debug, Default)]
pub struct FoundPort {
    /// PortInfo of the port.
    pub info: Option<PortInfo>,
    /// GUID of the port, if NodeInfo showed it.
    pub guid: Guid,
    /// The directed route that enters the node by this port. Present only if it differs from the route of the node:
    /// channel adapters do not forward, so their ports are reached separately.
    pub route: Option<DirectedRoute>,
    /// P_Keys of the port.
    pub pkeys: Vec<PKey>,
    /// The reason for which the peer is left out of the fabric, if it is.
    pub trouble: Option<PortReason>,
    /// The other end of its cable: index in the list of found nodes, and port.
    pub peer: Option<(usize, PortNum)>,
    /// True if the peer is known, or NodeInfo of the peer has been requested.
    pub probed: bool,
}

/// The directed route to an agent, and its answers.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Directed route to the agent.
    pub route: DirectedRoute,
    /// Other directed routes to the agent, by the port through which they enter.
    pub port_routes: BTreeMap<PortNum, DirectedRoute>,
    /// SwitchInfo.
    pub switch: Option<SwitchInfo>,
    /// PortInfo by port number.
    pub ports: Vec<Option<PortInfo>>,
    /// Reasons why ports are not ACTIVE, as far as discovery knows them, by port number.
    pub troubles: BTreeMap<PortNum, PortReason>,
}

impl Agent {
    /// Returns the directed route to the agent through `port`.
    #[must_use]
    pub fn route_to(&self, port: PortNum) -> &DirectedRoute {
        self.port_routes.get(&port).unwrap_or(&self.route)
    }
}

/// A snapshot of a fabric, with the directed route to every agent.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The snapshot.
    pub fabric: Arc<Fabric>,
    /// Agents by node. Snapshots share them as long as no agent changes.
    pub agents: Arc<IdxVec<NodeIdx, Agent>>,
    /// The manager's own port.
    pub local: PortRef,
    /// The links and ports that the operator has taken out of service.
    pub withdrawn: Arc<Withdrawn>,
}

impl Inventory {
    /// Makes a snapshot of the fabric. Incomplete nodes are left out.
    pub fn build(mut found: Vec<Found>, local: (usize, PortNum)) -> Result<Self, BuildError> {
        let left_out: Vec<Option<PortReason>> = found.iter().map(|f| f.left_out).collect();
        for port in found.iter_mut().flat_map(|f| &mut f.ports) {
            let reason = port.peer.and_then(|(peer, _)| left_out[peer]);
            port.trouble = port.trouble.or(reason);
        }
        let mut builder = FabricBuilder::new();
        let keys: Vec<Option<NodeKey>> = found
            .iter_mut()
            .map(|f| f.left_out.is_none().then(|| builder.add(node_of(f))))
            .collect();
        for (f, key) in found.iter().zip(&keys) {
            for (port, num) in f.ports.iter().zip(0..) {
                let ends = (*key, port.peer, PortNum::new(num));
                if let (Some(key), Some((peer, peer_port)), Some(num)) = ends
                    && let Some(peer) = keys[peer]
                {
                    builder.link((key, num), (peer, peer_port))?;
                }
            }
        }
        let local_guid = found[local.0].info.node_guid;
        let fabric = builder.finish()?;
        let mut by_node: Vec<(Guid, Agent)> = found
            .into_iter()
            .filter(|f| f.left_out.is_none())
            .map(|f| (f.info.node_guid, agent_of(f)))
            .collect();
        by_node.sort_by_key(|(guid, _)| *guid);
        let agents = Arc::new(by_node.into_iter().map(|(_, agent)| agent).collect());
        let node = fabric.find(local_guid).unwrap_or(NodeIdx(0));
        Ok(Self {
            fabric: Arc::new(fabric),
            agents,
            local: PortRef { node, port: local.1 },
            withdrawn: Arc::default(),
        })
    }

    /// Returns the last known PortInfo of a port.
    #[must_use]
    pub fn port_info(&self, at: PortRef) -> Option<&PortInfo> {
        self.agents.get(at.node)?.ports.get(at.port.index())?.as_ref()
    }

    /// Returns the GUIDs of the switches that the manager cannot reach over ACTIVE links. A change must not wait for
    /// answers of their agents.
    #[must_use]
    pub fn out_of_reach(&self) -> BTreeSet<Guid> {
        let fabric = &self.fabric;
        let is_active = |at| fabric.port(at).is_some_and(|port| port.link.state == PortState::Active);
        let mut seen = vec![false; fabric.nodes().len()];
        let mut todo = vec![self.local.node];
        while let Some(node) = todo.pop() {
            if std::mem::replace(&mut seen[node.to_usize()], true) {
                continue;
            }
            // A channel adapter forwards no packets of other nodes.
            let is_way = fabric.node(node).is_switch() || node == self.local.node;
            for (port, _) in fabric.node(node).external_ports().filter(|_| is_way) {
                let at = PortRef { node, port };
                todo.extend(
                    fabric
                        .peer(at)
                        .filter(|&peer| is_active(at) && is_active(peer))
                        .map(|peer| peer.node),
                );
            }
        }
        let switches = fabric.switches().iter().filter(|node| !seen[node.to_usize()]);
        switches.map(|node| fabric.node(*node).guid).collect()
    }
}

fn agent_of(found: Found) -> Agent {
    let num = |i: usize| u8::try_from(i).ok().and_then(PortNum::new);
    let ports = found.ports.iter().enumerate();
    Agent {
        route: found.route,
        port_routes: ports.clone().filter_map(|(i, p)| Some((num(i)?, p.route?))).collect(),
        troubles: ports.filter_map(|(i, p)| Some((num(i)?, p.trouble?))).collect(),
        switch: found.switch,
        ports: found.ports.into_iter().map(|p| p.info).collect(),
    }
}

/// Returns the node for the snapshot. Data that only the snapshot needs is moved there.
fn node_of(found: &mut Found) -> Node {
    let info = &found.info;
    let description = std::mem::take(&mut found.description);
    let mut node = Node::new(info.kind, info.node_guid, info.port_count, description);
    node.system_guid = info.system_guid;
    node.vendor_id = info.vendor_id;
    node.device_id = info.device_id;
    node.revision = info.revision;
    node.partition_cap = info.partition_cap;
    if let Some(switch) = &found.switch {
        node.switch = Some(SwitchAttributes {
            linear_cap: switch.linear_cap,
            mcast_cap: switch.mcast_cap,
            enforce_cap: switch.enforce_cap,
            enhanced_port0: switch.enhanced_port0,
            optimized_sl2vl: switch.optimized_sl2vl.get() != 0,
        });
        node.switch_settings = SwitchSettings {
            linear_top: switch.linear_top.0,
            multicast_top: switch.mcast_top.0,
            lifetime: switch.lifetime_value.get(),
            port_state_change: switch.port_state_change,
        };
    }
    for (i, seen) in found.ports.iter_mut().enumerate() {
        let Some(num) = u8::try_from(i).ok().and_then(PortNum::new) else {
            continue;
        };
        if let Some(port) = node.port_mut(num) {
            *port = port_of(seen, info, num);
        }
    }
    node
}

fn port_of(seen: &mut FoundPort, node: &NodeInfo, num: PortNum) -> Port {
    let guid = match node.kind {
        NodeKind::Switch if num == PortNum::MANAGEMENT => node.port_guid,
        NodeKind::Switch => Guid::NONE,
        NodeKind::Ca | NodeKind::Router => seen.guid,
    };
    let Some(info) = &seen.info else {
        return Port {
            guid,
            unread: true,
            ..Port::default()
        };
    };
    Port {
        guid,
        capability: capability(info),
        link: link_state(info),
        settings: match node.kind {
            NodeKind::Switch if num != PortNum::MANAGEMENT => external_settings(info),
            NodeKind::Switch | NodeKind::Ca | NodeKind::Router => port_settings(info),
        },
        pkeys: std::mem::take(&mut seen.pkeys),
        peer: None,
        unread: false,
    }
}

fn capability(info: &PortInfo) -> PortCapability {
    let beyond_ndr = (info.ext2_speed_supported.get() & PortInfo::XDR != 0).then_some(LinkSpeed::Xdr);
    let extended = [LinkSpeed::Ndr, LinkSpeed::Hdr, LinkSpeed::Edr, LinkSpeed::Fdr]
        .into_iter()
        .find(|&s| info.ext_speed_supported.is_some_and(|e| ExtLinkSpeeds::contains(e, s)));
    let basic = [LinkSpeed::Qdr, LinkSpeed::Ddr, LinkSpeed::Sdr]
        .into_iter()
        .find(|&s| info.speed_supported.is_some_and(|e| LinkSpeeds::contains(e, s)));
    PortCapability {
        mtu: info.mtu_cap.unwrap_or(Mtu::B256),
        vls: info.vl_cap.map_or(1, VlCount::code),
        widths: info.width_supported.map_or(0, LinkWidths::bits),
        speed: beyond_ndr.or(extended).or(basic).unwrap_or_default(),
        mask: info.capabilities.0,
        mask2: info.capabilities2.0,
        vl_arb_high: info.vl_arb_high_cap,
        vl_arb_low: info.vl_arb_low_cap,
        guids: info.guid_cap,
    }
}

/// True if `info` is the NodeInfo expected behind the link of `port`.
pub fn is_behind(fabric: &Fabric, port: PortRef, info: &NodeInfo) -> bool {
    let guid = fabric.port(port).map(|port| port.guid);
    let is_same_port = fabric.switch_index(port.node).is_some() || guid == Some(info.port_guid);
    info.node_guid == fabric.node(port.node).guid && info.local_port == port.port.get() && is_same_port
}

/// Returns the state of a link from the PortInfo of one end.
pub fn link_state(info: &PortInfo) -> LinkState {
    LinkState {
        state: info.state.unwrap_or(PortState::Down),
        phys: info.phys_state.unwrap_or_default(),
        rate: info.rate_or_unknown(),
    }
}

/// Returns the settings of an external port from its PortInfo. Only port 0 of a switch has LIDs and talks to the
/// manager. At any other port of a switch, LID, MasterSMLID and MasterSMSL have no meaning; such values may remain from
/// a Set that reached the wrong port while cables were moved. Source: IBA vol 1 §14.2.5.6 (LID, MasterSMLID,
/// MasterSMSL).
pub fn external_settings(info: &PortInfo) -> PortSettings {
    let none = PortSettings::default();
    PortSettings {
        lids: none.lids,
        sm_lid: none.sm_lid,
        sm_sl: none.sm_sl,
        enforcement: (u8::from(info.partition_enforcement_in) * PortSettings::ENFORCE_IN)
            | (u8::from(info.partition_enforcement_out) * PortSettings::ENFORCE_OUT),
        ..port_settings(info)
    }
}

/// Returns the settings of an end port from its PortInfo. Only external ports of switches enforce partitions, so these
/// bits have no meaning at other ports. Source: IBA vol 1 §14.2.5.6 (PartitionEnforcementInbound and Outbound).
pub fn port_settings(info: &PortInfo) -> PortSettings {
    PortSettings {
        lids: LidRange {
            base: info.lid,
            lmc: info.lmc,
        },
        sm_lid: info.sm_lid,
        sm_sl: info.sm_sl,
        mtu: info.neighbor_mtu.unwrap_or(Mtu::B256),
        oper_vls: info.oper_vls.map_or(0, VlCount::code),
        vl_high_limit: info.vl_high_limit,
        hoq_life: info.hoq_life.get(),
        vl_stall_count: info.vl_stall_count.get(),
        enforcement: 0,
        m_key: info.m_key,
        m_key_lease_s: info.m_key_lease,
        m_key_protect: info.m_key_protect.get(),
        subnet_prefix: info.gid_prefix,
        subnet_timeout: info.subnet_timeout.get(),
        local_phy_errors: info.local_phy_errors.get(),
        overrun_errors: info.overrun_errors.get(),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Lid;

    use super::*;

    #[test]
    fn only_external_ports_of_switches_enforce_partitions() {
        let info = PortInfo {
            lid: Lid(7),
            partition_enforcement_in: true,
            partition_enforcement_out: true,
            ..PortInfo::default()
        };
        let (end, external) = (port_settings(&info), external_settings(&info));
        assert_eq!((end.lids.base, end.enforcement), (Lid(7), 0));
        let both = PortSettings::ENFORCE_IN | PortSettings::ENFORCE_OUT;
        assert_eq!((external.lids.base, external.enforcement), (Lid::NONE, both));
    }
}
