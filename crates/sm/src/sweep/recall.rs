//! Nodes and ports that did not answer in a sweep, but still exist.
//!
//! A port that is still ACTIVE has not lost its link since it was activated: the node behind it is the same, with the
//! same settings and tables, whether its agent answers or not. If the node were left out, entries that lead to it would
//! be removed, and the judge would ignore its traffic. So it stays in the inventory until its link is found down; light
//! sweeps continue to ask it. A switch that answers nothing at all is left out: its tables cannot be changed.

use selvedge_fabric::{Node, PortRef};
use selvedge_planner::{Found, FoundPort, Inventory, PortReason};
use selvedge_types::{NodeKind, PortNum, PortState};
use selvedge_wire::{NodeInfo, PortInfo};

use crate::smp;

/// Completes an inventory from earlier ones. Nodes that the `last` sweep did not find are taken from the last completed
/// sweep (`ended`).
pub fn recall(found: &mut Vec<Found>, last: &Inventory, ended: Option<&Inventory>) {
    for node in 0..found.len() {
        let is_in_last = last.fabric.find(found[node].info.node_guid).is_some();
        let known = ended.filter(|_| !is_in_last).unwrap_or(last);
        name(&mut found[node], known);
        switch_itself(found, known, node);
        for port in 0..found[node].ports.len() {
            let Some(port) = u8::try_from(port).ok().and_then(PortNum::new) else {
                continue;
            };
            if found[node].ports[port.index()].trouble == Some(PortReason::PeerSilent) {
                silent_port(found, known, (node, port));
            }
        }
    }
}

/// Completes a node that did not answer for NodeDescription with its last known description.
fn name(found: &mut Found, known: &Inventory) {
    let before = known.fabric.find(found.info.node_guid);
    if let Some(before) = before.filter(|_| found.description.is_empty()) {
        found.description.clone_from(&known.fabric.node(before).description);
    }
}

/// Completes a switch that did not answer for SwitchInfo or port 0, if it has not been off: one of its links is ACTIVE.
fn switch_itself(found: &mut [Found], known: &Inventory, node: usize) {
    let now = &mut found[node];
    if now.left_out != Some(PortReason::PeerSilent) || !now.ports.iter().skip(1).any(is_active) {
        return;
    }
    let Some(node) = known.fabric.find(now.info.node_guid) else {
        return;
    };
    // As last set: its own earlier answer may be from a time before it had tables.
    let settings = known.fabric.node(node).switch_settings;
    let seen = known.agents.get(node).and_then(|agent| agent.switch);
    let set = seen.map(|seen| smp::switch_info(&seen, settings));
    let port = held(known, now, PortNum::MANAGEMENT);
    let (Some(switch), Some(port)) = (now.switch.or(set), now.ports[0].info.or(port)) else {
        return;
    };
    (now.switch, now.ports[0].info, now.left_out) = (Some(switch), Some(port), None);
    now.ports[0].trouble = Some(PortReason::PeerSilent);
}

/// Completes a port that did not answer, or behind which no node answered.
fn silent_port(found: &mut Vec<Found>, known: &Inventory, (node, num): (usize, PortNum)) {
    let here = &found[node];
    let Some(at) = place(known, here, num) else { return };
    let Some(far) = known.fabric.peer(at).filter(|_| is_known_active(known, at)) else {
        return;
    };
    let far_guid = known.fabric.node(far.node).guid;
    let there = found.iter().position(|other| other.info.node_guid == far_guid);
    let is_switch = here.info.kind == NodeKind::Switch;
    let says_changed = here.switch.is_none_or(|switch| switch.port_state_change);
    let far_port = there.and_then(|there| found[there].ports.get(far.port.index()));
    let far_is_active = far_port.is_some_and(is_active);
    // A host behind a port without an answer is not asked. Another port of the switch may be the one that has changed,
    // and the host goes on sending; if it was this port, packets to the host are lost, as they would be without a
    // route.
    let is_of_host = known.fabric.switch_index(far.node).is_none() && far_port.is_none_or(|port| port.peer.is_none());
    let may_be_up = is_switch && (!says_changed || is_of_host);
    if here.ports[num.index()].info.is_none() && (far_is_active || may_be_up) {
        let info = held(known, here, num);
        found[node].ports[num.index()].info = info;
    }
    if !is_switch || !is_active(&found[node].ports[num.index()]) || known.fabric.switch_index(far.node).is_some() {
        return join(found, (node, num), there.map(|there| (there, far.port)));
    }
    // A silent host behind a link that was never lost.
    let there = there.unwrap_or_else(|| {
        found.push(host(known, far, found[node].route.then(num)));
        found.len() - 1
    });
    let Some(route) = found[node].route.then(num) else {
        return;
    };
    let info = held(known, &found[there], far.port);
    let Some(port) = found[there]
        .ports
        .get_mut(far.port.index())
        .filter(|port| port.info.is_none())
    else {
        return;
    };
    port.info = info;
    if port.route.is_none() {
        let was = known.fabric.port(far);
        port.route = Some(route);
        port.guid = was.map(|was| was.guid).unwrap_or_default();
        port.pkeys = was.map(|was| was.pkeys.clone()).unwrap_or_default();
    }
    if found[node].ports[num.index()].pkeys.is_empty() {
        // The filter of its switch port was not read, because no host was known there.
        let before = known.fabric.peer(far).and_then(|before| known.fabric.port(before));
        found[node].ports[num.index()].pkeys = before.map(|before| before.pkeys.clone()).unwrap_or_default();
    }
    join(found, (node, num), Some((there, far.port)));
}

/// Records a cable, if neither of its ends is known to lead elsewhere.
fn join(found: &mut [Found], near: (usize, PortNum), far: Option<(usize, PortNum)>) {
    let Some(far) = far.filter(|far| found[far.0].ports.len() > far.1.index()) else {
        return;
    };
    let is_free = |(node, port): (usize, PortNum)| found[node].ports[port.index()].peer.is_none();
    if is_free(near) && is_free(far) {
        found[near.0].ports[near.1.index()].peer = Some(far);
        found[far.0].ports[far.1.index()].peer = Some(near);
    }
}

fn place(known: &Inventory, found: &Found, port: PortNum) -> Option<PortRef> {
    let node = known.fabric.find(found.info.node_guid)?;
    Some(PortRef { node, port })
}

fn is_active(port: &FoundPort) -> bool {
    port.info.is_some_and(|info| info.state == Some(PortState::Active))
}

fn is_known_active(known: &Inventory, at: PortRef) -> bool {
    let port = |at| known.fabric.port(at);
    let is_active = |at| port(at).is_some_and(|port| port.link.state == PortState::Active);
    is_active(at) && known.fabric.peer(at).is_some_and(is_active)
}

/// Returns PortInfo of a port as last set.
fn held(known: &Inventory, found: &Found, port: PortNum) -> Option<PortInfo> {
    let at = place(known, found, port)?;
    let (seen, port) = (known.port_info(at)?, known.fabric.port(at)?);
    Some(PortInfo {
        state: Some(port.link.state),
        phys_state: Some(port.link.phys),
        link_down_default: seen.link_down_default,
        width_enabled: seen.width_enabled,
        speed_enabled: seen.speed_enabled,
        ext_speed_enabled: seen.ext_speed_enabled,
        ext2_speed_enabled: seen.ext2_speed_enabled,
        ..smp::port_info(seen, &port.settings, None)
    })
}

/// Returns a host from earlier knowledge, without ports.
fn host(known: &Inventory, at: PortRef, route: Option<selvedge_wire::DirectedRoute>) -> Found {
    let node: &Node = known.fabric.node(at.node);
    Found {
        info: NodeInfo {
            kind: node.kind,
            node_guid: node.guid,
            port_count: node.port_count(),
            system_guid: node.system_guid,
            vendor_id: node.vendor_id,
            device_id: node.device_id,
            revision: node.revision,
            partition_cap: node.partition_cap,
            port_guid: known.fabric.port(at).map(|port| port.guid).unwrap_or_default(),
            local_port: at.port.get(),
            base_version: 1,
            class_version: 1,
        },
        route: route.unwrap_or(known.agents[at.node].route),
        description: node.description.clone(),
        switch: None,
        ports: vec![FoundPort::default(); usize::from(node.port_count()) + 1],
        left_out: None,
    }
}

#[cfg(test)]
mod tests {
    use selvedge_types::Guid;

    use super::*;
    use crate::made::{FAR, FIRST, NEAR, SECOND, guid, info, inventory, port, row};

    /// Changes the findings of a sweep: neither switch got an answer from the other one over the link between them.
    fn silent_link(found: &mut [Found]) {
        for (node, num) in [(FIRST, 2), (SECOND, 1)] {
            let seen = &mut found[node].ports[num];
            (seen.peer, seen.trouble) = (None, Some(PortReason::PeerSilent));
        }
    }

    fn leads_to(found: &[Found], node: usize, num: u8) -> Option<Guid> {
        let peer = found[node].ports[usize::from(num)].peer;
        peer.map(|(far, _)| found[far].info.node_guid)
    }

    #[test]
    fn a_silent_link_leads_where_it_did() {
        let check = |known: PortState, now: PortState, moved: bool, want: Option<Guid>| {
            let mut before = row();
            before[FIRST].ports[2].info = Some(info(known));
            let mut found = row();
            silent_link(&mut found);
            found[FIRST].ports[2].info = Some(info(now));
            if moved {
                // The other switch reports that its port leads to another node.
                found[SECOND].ports[1].peer = Some((NEAR, port(1)));
            }
            recall(&mut found, &inventory(before), None);
            assert_eq!(leads_to(&found, FIRST, 2), want, "{known:?} {now:?} {moved}");
        };
        use PortState::{Active, Init};
        check(Active, Active, false, Some(guid(SECOND)));
        check(Active, Active, true, None);
        // It carried nothing when it was last seen.
        check(Init, Active, false, None);
    }

    #[test]
    fn a_silent_host_stays_behind_a_link_that_was_not_lost() {
        let check = |now: PortState, want: Option<Guid>| {
            let mut found = row();
            found.truncate(FAR);
            let seen = &mut found[SECOND].ports[2];
            (seen.peer, seen.trouble, seen.info) = (None, Some(PortReason::PeerSilent), Some(info(now)));
            recall(&mut found, &inventory(row()), None);
            assert_eq!(leads_to(&found, SECOND, 2), want, "{now:?}");
            let is_there = found.iter().any(|node| node.info.node_guid == guid(FAR));
            assert_eq!(is_there, want.is_some());
        };
        check(PortState::Active, Some(guid(FAR)));
        check(PortState::Init, None);
    }

    #[test]
    fn a_host_stays_behind_a_port_that_says_nothing_unless_it_is_found_elsewhere() {
        // The switch shows PortStateChange, or does not.
        let check = |says_changed: bool, is_elsewhere: bool, want: Option<Guid>| {
            let mut found = row();
            if is_elsewhere {
                found[FAR].ports[1].peer = Some((FIRST, port(3)));
                found[FAR].ports[1].info = None;
            } else {
                found.truncate(FAR);
            }
            found[SECOND].switch.as_mut().unwrap().port_state_change = says_changed;
            let seen = &mut found[SECOND].ports[2];
            (seen.peer, seen.trouble, seen.info) = (None, Some(PortReason::PeerSilent), None);
            recall(&mut found, &inventory(row()), None);
            assert_eq!(leads_to(&found, SECOND, 2), want, "{says_changed} {is_elsewhere}");
            assert_eq!(found[SECOND].ports[2].info.is_some(), want.is_some());
        };
        check(false, false, Some(guid(FAR)));
        check(true, false, Some(guid(FAR)));
        check(true, true, None);
    }

    #[test]
    fn a_lost_node_description_leaves_the_name_as_it_was() {
        let check = |before: &str, now: &str, want: &str| {
            let mut known = row();
            known[FAR].description = before.to_owned();
            let mut found = row();
            found[FAR].description = now.to_owned();
            recall(&mut found, &inventory(known), None);
            assert_eq!(found[FAR].description, want, "{before:?} {now:?}");
        };
        check("H-3", "", "H-3");
        check("H-3", "node 3", "node 3");
        check("", "H-3", "H-3");
        check("", "", "");
    }

    #[test]
    fn a_switch_that_was_not_off_is_as_it_was() {
        let check = |state: PortState, want: Option<PortReason>| {
            let mut found = row();
            found[SECOND].left_out = Some(PortReason::PeerSilent);
            (found[SECOND].switch, found[SECOND].ports[0].info) = (None, None);
            for num in [1, 2] {
                found[SECOND].ports[num].info = Some(info(state));
            }
            recall(&mut found, &inventory(row()), None);
            assert_eq!(found[SECOND].left_out, want, "{state:?}");
            let top = found[SECOND].switch.map(|switch| switch.linear_top.0);
            assert_eq!(top, want.is_none().then_some(9));
        };
        check(PortState::Active, None);
        // It may have been off, and then its tables are gone.
        check(PortState::Init, Some(PortReason::PeerSilent));
    }
}
