//! Links through which MADs have come to a process of a manager, and links through which they were lost.

use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{ClientId, Emulator};
use selvedge_wire::{AttributeId, Class, Mad, Method, PortInfo};

use crate::checkers::seen::{Scene, Seen};

/// The known links of each process of a manager, since that process started.
#[derive(Clone, Debug, Default)]
pub(in crate::checkers) struct Links {
    heard: BTreeMap<ClientId, Heard>,
    lost: Vec<(ClientId, Mad)>,
}

impl Links {
    /// Records MADs that the medium has lost.
    pub fn note_lost(&mut self, emulator: &mut Emulator) {
        emulator.take_lost(&mut self.lost);
        let chassis = emulator.chassis();
        for (client, mad) in self.lost.drain(..) {
            if let Some(at) = emulator.port_of(client) {
                let heard = self.heard.entry(client).or_insert_with(|| Heard::new(chassis));
                heard.lost(chassis, at, &mad);
            }
        }
    }

    /// Records answers that managers receive.
    pub fn see(&mut self, scene: &Scene<'_>, seen: &Seen<'_>) {
        let Seen::Receives { id, client, datagram } = *seen else {
            return;
        };
        let is_answer = datagram.mad.method() == Method::GetResp && scene.life(id).is_some();
        if let Some(at) = scene.emulator.port_of(client).filter(|_| is_answer) {
            let chassis = scene.chassis();
            let heard = self.heard.entry(client).or_insert_with(|| Heard::new(chassis));
            heard.answer(chassis, at, &datagram.mad);
        }
    }

    /// True if no answer ever came to a manager through the link of a port, because the medium lost it.
    pub fn is_unseen(&self, client: ClientId, chassis: &Chassis, port: PortIdx) -> bool {
        let heard = self.heard.get(&client);
        heard.is_some_and(|heard| heard.is_unseen(chassis, port))
    }
}

/// Links as one process of a manager knows them, by port.
#[derive(Clone, Debug)]
struct Heard {
    /// The port at the other end of the cable, if an answer came through it.
    through: Vec<Option<PortIdx>>,
    /// By port: whether a request to the node behind the link, or its answer, was lost.
    is_cut_off: Vec<bool>,
    /// True if the last request for the port's PortInfo, or its answer, was lost. Then the manager does not know that
    /// the link is up, and sends nothing through it.
    is_unknown: Vec<bool>,
}

impl Heard {
    fn new(chassis: &Chassis) -> Self {
        let ports = chassis.port_count();
        Self {
            through: vec![None; ports],
            is_cut_off: vec![false; ports],
            is_unknown: vec![false; ports],
        }
    }

    /// Records an answer: every link on its route lets MADs pass.
    fn answer(&mut self, chassis: &Chassis, at: PortIdx, mad: &Mad) {
        let end = along(chassis, at, mad, |from, to| {
            self.through[from.0 as usize] = Some(to);
            self.through[to.0 as usize] = Some(from);
        });
        if let Some(port) = end.and_then(|end| asked_about(chassis, end, mad)) {
            self.is_unknown[port.0 as usize] = false;
        }
    }

    /// Records that a request or its answer was lost.
    fn lost(&mut self, chassis: &Chassis, at: PortIdx, mad: &Mad) {
        let mut last = None;
        let end = along(chassis, at, mad, |from, to| last = Some((from, to)));
        for port in last.into_iter().flat_map(|(from, to)| [from, to]) {
            self.is_cut_off[port.0 as usize] = true;
        }
        if let Some(port) = end.and_then(|end| asked_about(chassis, end, mad)) {
            self.is_unknown[port.0 as usize] = true;
        }
    }

    /// True if the medium let no answer through a port's link since the manager started: it lost the MADs through the
    /// link, or the PortInfo that shows that the link is up.
    fn is_unseen(&self, chassis: &Chassis, port: PortIdx) -> bool {
        let Some(far) = chassis.wire(port).peer() else {
            return false;
        };
        let ends = [port, far].map(|end| end.0 as usize);
        let is_heard = self.through[ends[0]] == Some(far) || self.through[ends[1]] == Some(port);
        !is_heard && ends.into_iter().any(|end| self.is_cut_off[end] || self.is_unknown[end])
    }
}

/// Calls `call` for every link on a directed route. Returns the ingress port of the route's last node, if all links of
/// the route are up.
pub(in crate::checkers) fn along(
    chassis: &Chassis,
    at: PortIdx,
    mad: &Mad,
    mut call: impl FnMut(PortIdx, PortIdx),
) -> Option<PortIdx> {
    if mad.class() != Class::SubnDirected {
        return None;
    }
    let mut at = at;
    for &num in mad.route().ok()?.ports() {
        let from = chassis.port_at(chassis.wire(at).node(), num)?;
        let to = chassis.wire(from).peer()?;
        call(from, to);
        at = to;
    }
    Some(at)
}

/// Returns the port that a PortInfo MAD names, on the node of `end`.
fn asked_about(chassis: &Chassis, end: PortIdx, mad: &Mad) -> Option<PortIdx> {
    if mad.attribute() != AttributeId::PORT_INFO {
        return None;
    }
    let num = mad.modifier() & !PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS;
    chassis.port_at(chassis.wire(end).node(), u8::try_from(num).ok()?)
}

#[cfg(test)]
pub(in crate::checkers) mod tests {
    use selvedge_fabric::{Fabric, FabricBuilder, Node};
    use selvedge_types::{Guid, NodeKind, PortNum};
    use selvedge_wire::DirectedRoute;

    use super::*;

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    /// Returns a host and two switches in a row: port 1 of a switch leads towards the host, port 2 away from it.
    pub fn row() -> Fabric {
        let mut b = FabricBuilder::new();
        let host = b.add(Node::new(NodeKind::Ca, Guid(1), 1, "h"));
        let first = b.add(Node::new(NodeKind::Switch, Guid(2), 2, "s1"));
        let second = b.add(Node::new(NodeKind::Switch, Guid(3), 2, "s2"));
        b.link((host, port(1)), (first, port(1))).unwrap();
        b.link((first, port(2)), (second, port(1))).unwrap();
        b.finish().unwrap()
    }

    /// Checks whether the link between the switches counts as unseen after some requests. Each is (hops, port of
    /// PortInfo or `None` for NodeInfo, answered or not).
    fn check(asked: &[(u8, Option<u32>, bool)], want: bool) {
        let chassis = Chassis::new(&row());
        let find = |guid| chassis.fabric().find(Guid(guid)).unwrap();
        let at = chassis.port_at(find(1), 1).unwrap();
        let mut heard = Heard::new(&chassis);
        for &(hops, num, is_answered) in asked {
            let way = [1, 2].into_iter().take(hops.into());
            let route = way.fold(DirectedRoute::LOCAL, |route, num| route.then(port(num)).unwrap());
            let attribute = num.map_or(AttributeId::NODE_INFO, |_| AttributeId::PORT_INFO);
            let mad = Mad::directed(Method::Get, attribute, num.unwrap_or(0), &route);
            match is_answered {
                true => heard.answer(&chassis, at, &mad),
                false => heard.lost(&chassis, at, &mad),
            }
        }
        for (guid, num) in [(2, 2), (3, 1)] {
            let end = chassis.port_at(find(guid), num).unwrap();
            assert_eq!(heard.is_unseen(&chassis, end), want, "{asked:?}");
        }
    }

    #[test]
    fn a_link_is_unseen_only_by_the_mediums_doing() {
        // The manager has not asked: that is its own fault.
        check(&[], false);
        check(&[(1, None, true)], false);
        check(&[(1, None, true), (2, None, false)], true);
        check(&[(2, None, false), (2, None, true)], false);
        check(&[(2, None, true), (2, None, false)], false);
        // PortInfo was lost, and then it came.
        check(&[(1, Some(2), false)], true);
        check(&[(1, Some(2), false), (1, Some(2), true)], false);
        // Another port, another link.
        check(&[(1, Some(1), false), (1, None, false)], false);
    }
}
