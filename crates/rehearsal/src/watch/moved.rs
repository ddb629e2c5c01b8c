//! Cables that were moved, and who could have told a manager.
//!
//! A Set by directed route goes where its ports lead now. If a cable on its way was moved, and nothing has come since
//! that could have shown it (its switches' traps were lost, say, as one of them held no table), then nobody but the
//! switch that takes the Set could tell that it was meant for another: to ask before each repair who is there would cost
//! every repair a round trip.

use std::collections::BTreeMap;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::ClientId;
use selvedge_sim::Time;
use selvedge_types::Lid;
use selvedge_wire::{AttributeId, DirectedRoute, Mad, Method, Notice};

use super::heard::{along, asked_about, route_of};
use crate::subnet::ports_of;

/// Where cables were, and what managers have heard since.
#[derive(Clone, Debug, Default)]
pub(super) struct Moved {
    /// By port: the other end of its cable.
    peers: Vec<Option<PortIdx>>,
    /// By port: when that last changed, and what it was before.
    changed: BTreeMap<PortIdx, (Time, Option<PortIdx>)>,
    /// By port whose cable was moved: when a life of a manager first got a MAD after that which could have told of it:
    /// one that came through it, a trap or SwitchInfo of a node where it ends or ended, PortInfo of the port there.
    told: BTreeMap<(ClientId, PortIdx), Time>,
    /// Where lives of managers sit.
    seats: BTreeMap<ClientId, PortIdx>,
}

fn all_ports(chassis: &Chassis) -> impl Iterator<Item = PortIdx> + use<> {
    (0..chassis.port_count()).filter_map(|port| u32::try_from(port).ok().map(PortIdx))
}

impl Moved {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            peers: all_ports(chassis).map(|port| chassis.wire(port).peer()).collect(),
            ..Self::default()
        }
    }

    /// Something happened to the fabric.
    pub fn look(&mut self, now: Time, chassis: &Chassis) {
        for (port, known) in all_ports(chassis).zip(&mut self.peers) {
            let peer = chassis.wire(port).peer();
            let before = std::mem::replace(known, peer);
            if before != peer {
                self.changed.insert(port, (now, before));
                self.told.retain(|(_, told), _| *told != port);
            }
        }
    }

    /// A manager at a port gets a MAD. Where no cable has been moved there is nothing to tell of.
    pub fn hear(&mut self, now: Time, (client, at): (ClientId, PortIdx), chassis: &Chassis, mad: &Mad) {
        self.seats.insert(client, at);
        if self.changed.is_empty() {
            return;
        }
        let mut told = Vec::new();
        let issuer = |mad: &Mad| holder(chassis, mad.read::<Notice>().ok()?.issuer_lid);
        let from = match (mad.method(), route_of(mad)) {
            (Method::Trap, _) => issuer(mad),
            (_, Some(route)) => along(chassis, at, &route, |from, to| told.extend([from, to])),
            (_, None) => None,
        };
        if let Some(from) = from {
            let says_all = mad.method() == Method::Trap || mad.attribute() == AttributeId::SWITCH_INFO;
            let all = Some(chassis.wire(from).node()).filter(|_| says_all);
            told.extend(all.into_iter().flat_map(|node| ports_of(chassis, node)));
            told.extend(asked_about(chassis, from, mad));
        }
        for (&port, &(_, before)) in &self.changed {
            let far = chassis.wire(port).peer();
            let far_before = far.and_then(|far| self.changed.get(&far)?.1);
            let mut ends = [Some(port), far, before, far_before].into_iter().flatten();
            if ends.any(|end| told.contains(&end)) {
                self.told.entry((client, port)).or_insert(now);
            }
        }
    }

    /// True if a Set that was sent then crossed a moved cable of which nothing had told its manager.
    pub fn is_untold(&self, client: ClientId, (sent, route): (Time, &DirectedRoute), chassis: &Chassis) -> bool {
        let mut is_untold = false;
        let mut cross = |port: PortIdx| {
            let is_moved = self.changed.get(&port).is_some_and(|(at, _)| *at <= sent);
            let is_told = self.told.get(&(client, port)).is_some_and(|told| *told <= sent);
            is_untold |= is_moved && !is_told;
        };
        if let Some(&at) = self.seats.get(&client).filter(|_| !self.changed.is_empty()) {
            along(chassis, at, route, |from, _| cross(from));
        }
        is_untold
    }
}

/// The port that holds a LID.
fn holder(chassis: &Chassis, lid: Lid) -> Option<PortIdx> {
    all_ports(chassis).find(|&port| chassis.wire(port).answers_to(lid))
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::{Guid, NodeKind, PortNum};

    use super::*;

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    /// A host at a switch, and behind its ports 2 and 3 two others, or the same the other way round.
    fn star(is_moved: bool) -> Chassis {
        let mut b = FabricBuilder::new();
        let host = b.add(Node::new(NodeKind::Ca, Guid(1), 1, "h"));
        let keys = [2, 3, 4].map(|guid| b.add(Node::new(NodeKind::Switch, Guid(guid), 3, "s")));
        b.link((host, port(1)), (keys[0], port(1))).unwrap();
        let far = if is_moved {
            [keys[2], keys[1]]
        } else {
            [keys[1], keys[2]]
        };
        b.link((keys[0], port(2)), (far[0], port(1))).unwrap();
        b.link((keys[0], port(3)), (far[1], port(1))).unwrap();
        Chassis::new(&b.finish().unwrap())
    }

    fn route(ports: &[u8]) -> DirectedRoute {
        let all = ports.iter().copied().map(port);
        all.fold(DirectedRoute::LOCAL, |route, num| route.then(num).unwrap())
    }

    fn answer(by: &[u8], about: Option<u32>) -> Mad {
        let attribute = about.map_or(AttributeId::SWITCH_INFO, |_| AttributeId::PORT_INFO);
        Mad::directed(Method::GetResp, attribute, about.unwrap_or(0), &route(by))
    }

    #[test]
    fn a_moved_cable_is_untold_until_something_could_have_told_of_it() {
        let client = ClientId(0);
        // Answers that came at these times by these routes (SwitchInfo, or PortInfo of a port), and whether a Set sent at
        // a time by another is excused.
        let check = |heard: &[(u64, &[u8], Option<u32>)], sent: (u64, &[u8]), want: bool| {
            let (before, now) = (star(false), star(true));
            let at = now.port_at(now.fabric().find(Guid(1)).unwrap(), 1).unwrap();
            let mut moved = Moved::new(&before);
            moved.hear(Time(1), (client, at), &before, &answer(&[], None));
            moved.look(Time(10), &now);
            for &(time, by, about) in heard {
                moved.hear(Time(time), (client, at), &now, &answer(by, about));
            }
            let is_untold = moved.is_untold(client, (Time(sent.0), &route(sent.1)), &now);
            assert_eq!(is_untold, want, "{heard:?} {sent:?}");
        };
        check(&[], (20, &[1, 2]), true);
        // It crossed no moved cable, or was sent before.
        check(&[], (20, &[1]), false);
        check(&[], (9, &[1, 2]), false);
        // Its switch said that something changed, or what became of the port.
        check(&[(15, &[1], None)], (20, &[1, 2]), false);
        check(&[(15, &[1], Some(2))], (20, &[1, 2]), false);
        check(&[(15, &[1], Some(1))], (20, &[1, 2]), true);
        check(&[(25, &[1], None)], (20, &[1, 2]), true);
        // Somebody through the cable, or at its old end.
        check(&[(15, &[1, 2], Some(2))], (20, &[1, 2]), false);
        check(&[(15, &[1, 3], None)], (20, &[1, 2]), false);
        check(&[(15, &[], None)], (20, &[1, 2]), true);
    }
}
