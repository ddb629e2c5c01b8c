//! PortInfo answers that arrive after a probe has ended, while the repair for its findings is planned.
//!
//! Such an answer may show that a port went down and came up again: it has a link and is not ACTIVE. Then its cable may
//! have been moved, and a Set that crosses this cable may reach the wrong switch. So a sweep takes the place of the
//! repair.

use std::collections::BTreeSet;

use selvedge_fabric::{NodeIdx, PortRef};
use selvedge_planner::Inventory;
use selvedge_types::{PortNum, PortState};
use selvedge_wire::{Attribute, AttributeId, Class, DirectedRoute, Mad, PortInfo};

/// Returns true if an answer without an error shows a port up but no longer ACTIVE, and the current repair does not
/// concern this port.
pub(super) fn is_news(inventory: &Inventory, repaired: &BTreeSet<PortRef>, mad: &Mad) -> bool {
    if mad.class() != Class::SubnDirected || mad.attribute() != AttributeId::PORT_INFO {
        return false;
    }
    let number = u8::try_from(mad.modifier() & 0xff).ok().and_then(PortNum::new);
    let node = mad.route().ok().and_then(|route| end_of(inventory, &route));
    let (Some(node), Some(port), Ok(info)) = (node, number, PortInfo::parse(mad.smp_data())) else {
        return false;
    };
    let at = PortRef { node, port };
    let was_active = inventory
        .fabric
        .port(at)
        .is_some_and(|port| port.link.state == PortState::Active);
    let is_idle = matches!(info.state, Some(PortState::Init | PortState::Armed));
    let is_external = port != PortNum::MANAGEMENT && inventory.fabric.node(node).is_switch();
    is_external && was_active && info.is_up() && is_idle && !repaired.contains(&at)
}

/// Returns the node at the end of a directed route, by the known cables.
fn end_of(inventory: &Inventory, route: &DirectedRoute) -> Option<NodeIdx> {
    let mut ports = route.ports().iter();
    ports.try_fold(inventory.local.node, |node, &port| {
        let port = PortNum::new(port)?;
        Some(inventory.fabric.peer(PortRef { node, port })?.node)
    })
}

#[cfg(test)]
mod tests {
    use selvedge_wire::{Method, SmpData};

    use super::*;
    use crate::made::{info, inventory, row};

    #[test]
    fn a_port_that_is_up_and_not_active_any_more_is_news() {
        let inventory = inventory(row());
        let near = PortNum::new(1).unwrap();
        // The port of the first switch in the answer, its state, and whether the repair is for it.
        let check = |port: u8, state: PortState, is_repaired: bool, want: bool| {
            let route = DirectedRoute::LOCAL.then(near).unwrap();
            let mut mad = Mad::directed(Method::GetResp, AttributeId::PORT_INFO, port.into(), &route);
            let data: SmpData = info(state).emit();
            mad.set_smp_data(&data);
            let at = PortRef {
                node: end_of(&inventory, &route).unwrap(),
                port: PortNum::new(port).unwrap(),
            };
            let repaired: BTreeSet<PortRef> = Some(at).filter(|_| is_repaired).into_iter().collect();
            assert_eq!(
                is_news(&inventory, &repaired, &mad),
                want,
                "{port} {state:?} {is_repaired}"
            );
        };
        use PortState::{Active, Down, Init};
        check(2, Init, false, true);
        check(2, Init, true, false);
        check(2, Active, false, false);
        // Its own trap reports that.
        check(2, Down, false, false);
        check(0, Init, false, false);
    }
}
