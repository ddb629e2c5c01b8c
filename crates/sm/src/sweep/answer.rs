//! Evaluates answers of a light sweep and of the check after a plan. A missing answer is `None`; others have status 0.

use std::collections::BTreeSet;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_planner::{Inventory, is_behind};
use selvedge_types::{Guid, PortState};
use selvedge_wire::{Attribute, Mad, NodeInfo, PortInfo, SwitchInfo};

use super::Ask;

/// True if an answer, or a missing answer, shows that the fabric differs from the inventory. A switch that shows
/// PortStateChange is handled elsewhere: its ports are probed.
pub fn differs(ask: Ask, answer: Option<&Mad>, inventory: Option<&Inventory>, twins: &BTreeSet<Guid>) -> bool {
    let node = || answer.and_then(|mad| NodeInfo::parse(mad.smp_data()).ok());
    match ask {
        Ask::Switch(node) => says_changed(answer).is_none() || has_lower_top(inventory, node, answer),
        Ask::Held(at) => inventory.is_none_or(|inventory| is_other_port(at, answer, inventory)),
        // Finds a link that came up before its switch knew where to send traps, or changed before PortStateChange was
        // cleared.
        Ask::Unwatched(at) => match answer.map(|mad| PortInfo::parse(mad.smp_data())) {
            Some(Ok(info)) => is_other_link(at, &info, inventory),
            Some(Err(_)) | None => true,
        },
        // Its earlier answer may have had a flipped bit.
        Ask::Torn(at) => {
            let info = answer.and_then(|mad| PortInfo::parse(mad.smp_data()).ok());
            info.is_some_and(|info| is_other_link(at, &info, inventory))
        }
        // A node answers behind a port where none did.
        Ask::Knock => node().is_some(),
        // A node shows another GUID than those that two have.
        Ask::Twin => node().is_some_and(|info| !twins.contains(&info.node_guid)),
        // No answer here is no difference: other requests ask the same node.
        Ask::Who(at) => {
            let known = inventory.and_then(|inventory| inventory.fabric.nodes().get(at));
            node()
                .zip(known)
                .is_some_and(|(info, known)| info.node_guid != known.guid)
        }
        // NodeInfo by the directed route to a port shows the GUID of that port.
        Ask::Whose(at) => {
            let known = inventory.and_then(|inventory| inventory.fabric.port(at));
            node()
                .zip(known)
                .is_some_and(|(info, known)| info.port_guid != known.guid)
        }
        // A silent agent may be busy; if it is gone, its switch reports the link down.
        Ask::AtLink(at) => {
            let fabric = inventory.map(|inventory| &inventory.fabric);
            let far = fabric.and_then(|fabric| Some((fabric, fabric.peer(at)?)));
            node()
                .zip(far)
                .is_some_and(|(info, (fabric, far))| !is_behind(fabric, far, &info))
        }
    }
}

/// Returns whether a switch shows PortStateChange; `None`: no answer.
pub fn says_changed(answer: Option<&Mad>) -> Option<bool> {
    let info = SwitchInfo::parse(answer?.smp_data()).ok()?;
    Some(info.port_state_change)
}

/// True if the state of a port's link differs from the inventory.
fn is_other_link(at: PortRef, info: &PortInfo, inventory: Option<&Inventory>) -> bool {
    let state = info.state.unwrap_or(PortState::Down);
    let known = inventory.and_then(|inventory| inventory.fabric.port(at));
    known.is_none_or(|known| state != known.link.state || info.is_up() != known.is_up())
}

/// True if the link of the local port went up or down, or another manager set its MasterSMLID: a manager that took over
/// while this one was cut off, or that this one did not find in time. For port 0 of a switch: true if its LID is lost,
/// because the switch was off.
pub fn is_other_port(at: PortRef, answer: Option<&Mad>, inventory: &Inventory) -> bool {
    let info = answer.and_then(|mad| PortInfo::parse(mad.smp_data()).ok());
    let (Some(known), Some(info)) = (inventory.fabric.port(at), info) else {
        return true;
    };
    let state = info.state.unwrap_or(PortState::Down);
    (state, info.lid, info.sm_lid) != (known.link.state, known.settings.lids.base, known.settings.sm_lid)
}

/// True if a switch shows a lower LinearFDBTop than was set: it has been off since, or an earlier copy of a repeated
/// Set arrived after a newer Set.
fn has_lower_top(known: Option<&Inventory>, node: NodeIdx, answer: Option<&Mad>) -> bool {
    let known = known.and_then(|known| known.fabric.nodes().get(node));
    let info = answer.and_then(|mad| SwitchInfo::parse(mad.smp_data()).ok());
    known
        .zip(info)
        .is_some_and(|(known, info)| info.linear_top.0 < known.switch_settings.linear_top)
}

#[cfg(test)]
mod tests {
    use selvedge_types::Lid;
    use selvedge_wire::{AttributeId, DirectedRoute, Method};

    use super::*;
    use crate::made::{SECOND, info, inventory, place, row};

    #[test]
    fn a_port_that_nobody_told_of_differs_if_its_state_does() {
        let known = inventory(row());
        let at = place(&known, SECOND, 1);
        let check = |state: Option<PortState>, want: bool| {
            let mad = state.map(|state| {
                let mut mad = Mad::directed(Method::GetResp, AttributeId::PORT_INFO, 1, &DirectedRoute::LOCAL);
                mad.set_smp_data(&info(state).emit());
                mad
            });
            let is_other = differs(Ask::Unwatched(at), mad.as_ref(), Some(&known), &BTreeSet::new());
            assert_eq!(is_other, want, "{state:?}");
        };
        check(Some(PortState::Active), false);
        check(Some(PortState::Init), true);
        check(Some(PortState::Down), true);
        check(None, true);
    }

    #[test]
    fn a_port_is_another_one_if_its_lid_or_state_is() {
        let known = inventory(row());
        // The port, and its answer.
        let check = |at: PortRef, answer: Option<PortInfo>, want: bool| {
            let mad = answer.map(|info| {
                let modifier = at.port.get().into();
                let mut mad = Mad::directed(Method::GetResp, AttributeId::PORT_INFO, modifier, &DirectedRoute::LOCAL);
                mad.set_smp_data(&info.emit());
                mad
            });
            let is_other = differs(Ask::Held(at), mad.as_ref(), Some(&known), &BTreeSet::new());
            assert_eq!(is_other, want, "{at:?} {answer:?}");
        };
        let with_lid = PortInfo {
            lid: Lid(7),
            ..info(PortState::Active)
        };
        for at in [known.local, place(&known, SECOND, 0)] {
            check(at, Some(info(PortState::Active)), false);
            check(at, Some(info(PortState::Init)), true);
            check(at, Some(with_lid), true);
            check(at, None, true);
        }
    }

    #[test]
    fn a_switch_that_looks_up_fewer_lids_than_it_was_set_to_differs() {
        let known = inventory(row());
        let node = place(&known, SECOND, 0).node;
        let set = known.fabric.node(node).switch_settings.linear_top;
        let check = |top: u16, want: bool| {
            let mut mad = Mad::directed(Method::GetResp, AttributeId::SWITCH_INFO, 0, &DirectedRoute::LOCAL);
            let info = SwitchInfo {
                linear_top: Lid(top),
                ..row()[SECOND].switch.unwrap()
            };
            mad.set_smp_data(&info.emit());
            let is_other = differs(Ask::Switch(node), Some(&mad), Some(&known), &BTreeSet::new());
            assert_eq!(is_other, want, "{top}");
        };
        check(set, false);
        check(set + 1, false);
        check(set - 1, true);
        check(0, true);
    }

    #[test]
    fn a_node_is_asked_by_its_own_way_who_it_is() {
        let known = inventory(row());
        // A port's GUID is another thing than its node's.
        let port = place(&known, SECOND, 0);
        let (node, own) = (known.fabric.node(port.node).guid, known.fabric.port(port).unwrap().guid);
        let check = |ask: Ask, guids: [Guid; 2], want: bool| {
            let mut mad = Mad::directed(Method::GetResp, AttributeId::NODE_INFO, 0, &DirectedRoute::LOCAL);
            let [node_guid, port_guid] = guids;
            let info = NodeInfo {
                node_guid,
                port_guid,
                ..row()[SECOND].info
            };
            mad.set_smp_data(&info.emit());
            let is_other = differs(ask, Some(&mad), Some(&known), &BTreeSet::new());
            assert_eq!(is_other, want, "{guids:?}");
        };
        let other = Guid(0x77);
        check(Ask::Who(port.node), [node, own], false);
        check(Ask::Who(port.node), [other, own], true);
        check(Ask::Whose(port), [node, own], false);
        check(Ask::Whose(port), [node, other], true);
    }
}
