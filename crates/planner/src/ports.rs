//! Port and switch settings of a plan: PortInfo, SwitchInfo, P_Key tables.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, NodeIdx, Port, PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_plan::qos::Resolved;
use selvedge_plan::{EndPortPlan, Lids, PartEnforce, Policy};
use selvedge_types::{Guid, IdxVec, Lid, NodeKind, PortNum, PortState};

use crate::lanes::code_for;
use crate::qos::{self, Meaning};

/// Settings that an agent does not accept. If every sweep requested them again, the sweeps would never converge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declined {
    /// The requested settings.
    pub wanted: PortSettings,
    /// The settings that the agent has instead.
    pub held: PortSettings,
}

/// Settings that agents do not accept, by node GUID and port.
pub type DeclinedByGuid = BTreeMap<(Guid, PortNum), Declined>;

/// The planned settings of every port.
#[derive(Clone, Debug)]
pub struct Ports {
    /// PortInfo.
    pub settings: BTreeMap<PortRef, PortSettings>,
    /// P_Keys of end ports.
    pub end_ports: BTreeMap<PortRef, EndPortPlan>,
    /// Ports without room for all P_Keys of their partitions.
    pub too_many: Vec<PortRef>,
    /// The meaning of the policy's quality of service on the fabric.
    pub(crate) quality: Meaning,
}

impl Ports {
    /// Returns the settings according to `policy`. `sm` is the manager's own port.
    pub(crate) fn plan(fabric: &Fabric, policy: &Policy, lids: &Lids, sm: PortRef, declined: &DeclinedByGuid) -> Self {
        let quality = Meaning::new(fabric, policy, sm);
        let wanted = (policy, quality.resolved.as_deref());
        let settings = plan_ports(fabric, wanted, lids, sm, declined);
        let (end_ports, too_many) = plan_end_ports(fabric, policy, sm, &settings);
        Self {
            settings,
            end_ports,
            too_many,
            quality,
        }
    }
}

/// Plans the settings of every port with a trained link and a known peer, and of every switch's port 0.
fn plan_ports(
    fabric: &Fabric,
    wanted: (&Policy, Option<&Resolved>),
    lids: &Lids,
    sm: PortRef,
    declined: &DeclinedByGuid,
) -> BTreeMap<PortRef, PortSettings> {
    // In order, so that the map is built in one pass.
    let mut plan = Vec::new();
    for (node, n) in fabric.nodes().iter_enumerated() {
        for (num, _) in n.all_ports() {
            let at = PortRef { node, port: num };
            let settings = plan_port(fabric, wanted, (lids, sm), declined, at);
            plan.extend(settings.map(|settings| (at, settings)));
        }
    }
    plan.into_iter().collect()
}

/// Returns the settings of one port; `None` if its link is not up, or it lacks LIDs that it needs. With the policy
/// comes its QoS policy file, if it has one.
pub(crate) fn plan_port(
    fabric: &Fabric,
    (policy, qos_file): (&Policy, Option<&Resolved>),
    (lids, sm): (&Lids, PortRef),
    declined: &DeclinedByGuid,
    at: PortRef,
) -> Option<PortSettings> {
    let (node, port) = (fabric.node(at.node), fabric.port(at)?);
    if at.port != PortNum::MANAGEMENT && !fabric.link_is_up(at) {
        return None;
    }
    let mut settings = port.settings;
    if node.kind != NodeKind::Switch || at.port == PortNum::MANAGEMENT {
        let range = lids.range(at)?;
        end_port(&mut settings, policy, lids.base(sm).unwrap_or(Lid::NONE));
        settings.lids = range;
    }
    if at.port != PortNum::MANAGEMENT {
        link(&mut settings, (fabric, policy), (at, port), sm);
    }
    let high_limit = qos::high_limit(fabric, policy, qos_file, at);
    settings.vl_high_limit = high_limit.unwrap_or(settings.vl_high_limit);
    // Settings that the agent refused once are not requested again. The plan contains the settings that it has.
    let known = declined.get(&(node.guid, at.port));
    let futile = known.is_some_and(|d| d.wanted == settings && d.held == port.settings);
    // But packets depend on partition enforcement of switches, and the judge refuses a wrong setting: an answer may
    // have had a flipped bit.
    let futile = futile && port.settings.enforcement == settings.enforcement;
    Some(if futile { port.settings } else { settings })
}

fn end_port(settings: &mut PortSettings, policy: &Policy, sm_lid: Lid) {
    settings.sm_lid = sm_lid;
    settings.sm_sl = policy.sm_sl;
    settings.m_key = policy.m_key;
    settings.m_key_lease_s = policy.m_key_lease_s;
    // Without an M_Key the protection bits protect nothing, but would look like a hidden M_Key.
    settings.m_key_protect = if policy.m_key == 0 { 0 } else { policy.m_key_protect };
    settings.subnet_prefix = policy.subnet_prefix;
    settings.subnet_timeout = policy.subnet_timeout;
}

/// Sets the link parameters. MTU and lanes are the largest that both ends support. Queue limits exist only on switches.
fn link(settings: &mut PortSettings, (fabric, policy): (&Fabric, &Policy), (at, port): (PortRef, &Port), sm: PortRef) {
    let Some(peer_at) = port.peer else { return };
    let Some(peer) = fabric.port(peer_at) else { return };
    settings.mtu = port.capability.mtu.min(peer.capability.mtu).min(policy.mtu_max);
    settings.oper_vls = oper_vls(port, peer, policy.link_lanes());
    settings.local_phy_errors = policy.local_phy_errors;
    settings.overrun_errors = policy.overrun_errors;
    if fabric.node(at.node).kind == NodeKind::Switch {
        let to_switch = fabric.node(peer_at.node).kind == NodeKind::Switch;
        settings.hoq_life = if to_switch {
            policy.hoq_life
        } else {
            policy.leaf_hoq_life
        };
        settings.vl_stall_count = policy.vl_stall_count;
        let is_enforced = || policy.partitions.enforced(fabric, at, sm).is_some();
        settings.enforcement = match policy.part_enforce {
            PartEnforce::Off => 0,
            wanted if is_enforced() => wanted.bits(),
            PartEnforce::In | PartEnforce::Out | PartEnforce::Both => 0,
        };
    }
}

/// Returns OperationalVLs of a link: as many as the plan's lanes need, if both ends support that. An ACTIVE link with
/// more lanes keeps them, because changing lanes under traffic drops packets for no gain.
fn oper_vls(port: &Port, peer: &Port, lanes: u8) -> u8 {
    let limit = port.capability.vls.min(peer.capability.vls).max(1);
    let wanted = code_for(lanes).min(limit);
    let held = port.settings.oper_vls;
    let live = port.link.state == PortState::Active && peer.link.state == PortState::Active;
    if live && held == peer.settings.oper_vls && held >= wanted && held <= limit {
        held
    } else {
        wanted
    }
}

/// Plans P_Key tables from the policy's partitions, and finds ports without room for all P_Keys.
fn plan_end_ports(
    fabric: &Fabric,
    policy: &Policy,
    sm: PortRef,
    plan: &BTreeMap<PortRef, PortSettings>,
) -> (BTreeMap<PortRef, EndPortPlan>, Vec<PortRef>) {
    let mut too_many = Vec::new();
    let mut planned = Vec::new();
    for (at, _) in fabric.end_ports().filter(|(at, _)| plan.contains_key(at)) {
        if let Some((pkeys, over)) = policy.partitions.table(fabric, at, sm) {
            planned.push((at, EndPortPlan { pkeys }));
            too_many.extend((over > 0).then_some(at));
        }
        let before = fabric.peer(at).filter(|before| plan.contains_key(before));
        planned.extend(before.and_then(|before| Some((before, enforced(fabric, policy, sm, before)?))));
    }
    (planned.into_iter().collect(), too_many)
}

/// Returns the P_Key table of a switch port that must enforce partitions.
fn enforced(fabric: &Fabric, policy: &Policy, sm: PortRef, at: PortRef) -> Option<EndPortPlan> {
    let pkeys = match policy.part_enforce {
        PartEnforce::Off => None,
        PartEnforce::In | PartEnforce::Out | PartEnforce::Both => policy.partitions.enforced(fabric, at, sm),
    };
    Some(EndPortPlan { pkeys: pkeys? })
}

/// Returns the P_Key table of an end port, or of a switch port that must enforce partitions; `None` for any other port.
pub(crate) fn plan_end_port(fabric: &Fabric, policy: &Policy, sm: PortRef, at: PortRef) -> Option<EndPortPlan> {
    match policy.partitions.table(fabric, at, sm) {
        Some((pkeys, _)) => Some(EndPortPlan { pkeys }),
        None => enforced(fabric, policy, sm, at),
    }
}

/// Returns the SwitchInfo of every switch.
pub(crate) fn plan_switches(fabric: &Fabric, policy: &Policy, top: Lid) -> IdxVec<SwitchIdx, SwitchSettings> {
    let settings = |_: &NodeIdx| SwitchSettings {
        multicast_top: 0,
        linear_top: top.0,
        lifetime: policy.packet_life,
        port_state_change: false,
    };
    fabric.switches().iter().map(settings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_enough_and_live_links_keep_theirs() {
        let check = |caps: (u8, u8), held: (u8, u8), live: bool, lanes: u8, want: u8| {
            let port = |cap, held| {
                let mut port = Port::default();
                port.capability.vls = cap;
                port.settings.oper_vls = held;
                port.link.state = if live { PortState::Active } else { PortState::Init };
                port
            };
            assert_eq!(
                oper_vls(&port(caps.0, held.0), &port(caps.1, held.1), lanes),
                want,
                "{caps:?} {held:?}"
            );
        };
        check((4, 4), (1, 1), false, 1, 1);
        check((4, 4), (4, 4), false, 1, 1);
        check((4, 4), (4, 4), true, 1, 4);
        check((4, 4), (4, 3), true, 1, 1);
        check((4, 2), (0, 0), false, 4, 2);
        check((5, 5), (0, 0), false, 5, 4);
        check((3, 3), (4, 4), true, 1, 1);
    }
}
