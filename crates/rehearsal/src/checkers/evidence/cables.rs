//! Moved cables about which no trap has reached the manager yet.
//!
//! A block is sent by directed route, also over links that are not ACTIVE, and the answer does not name the switch that
//! sent it. So until a trap reports that a cable was moved, a wrong switch may store blocks of a repair. A NodeInfo Get
//! to every switch would double the MADs and the time of a repair, and switches repeat their traps: the checkers excuse
//! such blocks until then.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_sim::Time;
use selvedge_sm::Role;
use selvedge_types::PortNum;
use selvedge_wire::{AttributeId, Class, Mad, Method, Notice};

use crate::checkers::holders::holder;
use crate::checkers::seen::{Scene, Seen};
use crate::checkers::taken::Astray;

/// Longest time from the sending of a trap until the manager has handled it.
const TRAP_WAY: Duration = Duration::from_millis(30);

/// Moved cables, and the traps about them that managers got.
#[derive(Clone, Debug, Default)]
pub(in crate::checkers) struct MovedCables {
    /// The other end of the cable, by port.
    far: Vec<Option<PortIdx>>,
    /// When a cable was last moved, by each of its present ports.
    at: BTreeMap<PortIdx, Time>,
    /// When a manager last received a trap from a node.
    told: BTreeMap<NodeIdx, Time>,
    /// When a block last went to a wrong switch over a moved cable without the manager being able to know, and until
    /// when it could not know.
    unheard: Option<(Time, Time)>,
}

impl MovedCables {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            far: cables(chassis).collect(),
            ..Self::default()
        }
    }

    /// Records cables that lead elsewhere now.
    pub fn look(&mut self, now: Time, chassis: &Chassis) {
        for (port, far) in (0..).map(PortIdx).zip(cables(chassis)) {
            if std::mem::replace(&mut self.far[port.0 as usize], far) != far && far.is_some() {
                self.at.insert(port, now);
            }
        }
    }

    /// Records the traps that masters receive.
    pub fn see(&mut self, scene: &Scene<'_>, seen: &Seen<'_>) {
        let Seen::Receives { id, datagram, .. } = *seen else {
            return;
        };
        let is_master = scene.life(id).is_some_and(|life| life.sm.role() == Role::Master);
        if datagram.mad.method() == Method::Trap && is_master {
            let notice = datagram.mad.read::<Notice>().ok();
            let issuer = notice.and_then(|notice| holder(scene.chassis(), notice.issuer_lid));
            let node = issuer.map(|port| scene.chassis().wire(port).node());
            self.told.extend(node.map(|node| (node, scene.now)));
        }
    }

    /// Records a block that a wrong switch has stored. Returns true if the manager could not know that a cable had been
    /// moved.
    pub fn note_astray(&mut self, now: Time, chassis: &Chassis, astray: &Astray) -> bool {
        let until = self.unheard_until(now, chassis, astray);
        if let Some(until) = until {
            self.unheard = Some((now, until));
        }
        until.is_some()
    }

    /// True if a manager that began a sweep or a probe at `since` cannot know the effects of a block at a wrong switch:
    /// no trap has reached it, and traps are not repeated yet. `are_out`: some of these blocks have not been read
    /// since, so their effects last.
    pub fn is_unheard(&self, since: Time, now: Time, are_out: bool) -> bool {
        let is_out = |(at, until): (Time, Time)| at >= since || are_out && until >= now;
        self.unheard.is_some_and(is_out)
    }

    /// Returns until when the switches at the moved cable repeat their traps; `None` if a trap has arrived since the
    /// move, or if that time is over. A trap may be missing because the medium lost it, because its route led over that
    /// cable, or because an earlier trap is not repressed yet.
    fn unheard_until(&self, now: Time, chassis: &Chassis, astray: &Astray) -> Option<Time> {
        let moved = *self.at.get(&astray.port)?;
        let near = chassis.wire(astray.port).node();
        let all = || [near].into_iter().chain(astray.ends);
        let is_told = |node: NodeIdx| self.told.get(&node).is_some_and(|at| *at >= moved);
        let switches = all().filter(|&node| chassis.is_switch(node));
        let until = switches.map(|node| moved + repeats_after(chassis, node)).min()?;
        (now <= until && !all().any(is_told)).then_some(until)
    }
}

/// Returns the time until the manager gets the repeat of a trap that was not repressed: SubnetTimeOut of the switch,
/// and the trap's time to the manager.
fn repeats_after(chassis: &Chassis, node: NodeIdx) -> Duration {
    let own = chassis.port_at(node, 0).map(|own| chassis.port(own).settings());
    let exponent = own.map_or(18, |settings| settings.subnet_timeout).min(31);
    Duration::from_nanos(4_096 << exponent) + TRAP_WAY
}

fn cables(chassis: &Chassis) -> impl Iterator<Item = Option<PortIdx>> + '_ {
    let ports = u32::try_from(chassis.port_count()).unwrap_or(u32::MAX);
    (0..ports).map(|port| chassis.wire(PortIdx(port)).peer())
}

/// Returns the node that receives a Set of LinearForwardingTable or PortInfo, if a moved cable makes its directed route
/// end at another node than the manager believes.
pub(in crate::checkers) fn astray(chassis: &Chassis, known: &Fabric, at: Option<PortIdx>, mad: &Mad) -> Option<Astray> {
    let counts = matches!(mad.attribute(), AttributeId::LINEAR_FORWARDING | AttributeId::PORT_INFO);
    let at = at.filter(|_| counts && mad.method() == Method::Set && mad.class() == Class::SubnDirected)?;
    let place = |guid| {
        chassis
            .fabric()
            .nodes()
            .indices()
            .find(|&node| chassis.node_guid(node) == guid)
    };
    let mut node = known.find(chassis.node_guid(chassis.wire(at).node()))?;
    let mut found = None;
    for &num in mad.route().ok()?.ports() {
        let port = PortNum::new(num)?;
        let from = chassis.port_at(place(known.node(node).guid)?, num)?;
        let to = known.peer(PortRef { node, port })?;
        let known_end = (place(known.node(to.node).guid)?, to.port);
        let end = chassis.wire(from).peer().map(|far| chassis.wire(far));
        if let Some(end) = end.filter(|end| found.is_none() && (end.node(), end.num()) != known_end) {
            found = Some((from, [known_end.0, end.node()]));
        }
        node = to.node;
    }
    let (port, ends) = found?;
    Some(Astray {
        meant: place(known.node(node).guid)?,
        port,
        ends,
    })
}

#[cfg(test)]
mod tests {
    use selvedge_emulator::{Emulator, EmulatorConfig};
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_sim::Seed;
    use selvedge_types::{Guid, NodeKind};
    use selvedge_wire::DirectedRoute;

    use super::*;

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    /// Returns a host, a switch with the host at port 1, and two further switches. Port 2 of the first switch leads to
    /// the switch at position `to`.
    fn fabric(to: usize) -> Fabric {
        let mut b = FabricBuilder::new();
        let host = b.add(Node::new(NodeKind::Ca, Guid(1), 1, "h"));
        let switches = [2, 3, 4].map(|guid| b.add(Node::new(NodeKind::Switch, Guid(guid), 2, "s")));
        b.link((host, port(1)), (switches[0], port(1))).unwrap();
        b.link((switches[0], port(2)), (switches[to], port(1))).unwrap();
        b.finish().unwrap()
    }

    #[test]
    fn a_table_goes_astray_where_a_cable_was_moved() {
        let (before, now) = (fabric(1), fabric(2));
        let route = DirectedRoute::new(&[port(1), port(2)]).unwrap();
        let check = |known: &Fabric, attribute: AttributeId, want: bool| {
            let chassis = Chassis::new(&now);
            let at = chassis.port_at(now.find(Guid(1)).unwrap(), 1);
            let mad = Mad::directed(Method::Set, attribute, 0, &route);
            let [near, meant, taken] = [2, 3, 4].map(|guid| now.find(Guid(guid)).unwrap());
            let found = astray(&chassis, known, at, &mad);
            let want = want.then_some(Astray {
                meant,
                port: chassis.port_at(near, 2).unwrap(),
                ends: [meant, taken],
            });
            assert_eq!(found, want);
        };
        check(&before, AttributeId::LINEAR_FORWARDING, true);
        check(&before, AttributeId::PORT_INFO, true);
        check(&before, AttributeId::SWITCH_INFO, false);
        check(&now, AttributeId::LINEAR_FORWARDING, false);
    }

    /// Default SubnetTimeOut of a chassis, 2^18 × 4.096 µs, and the trap's time to the manager.
    const REPEATED_MS: u64 = 1_103;

    #[test]
    fn it_is_unheard_until_somebody_tells_or_traps_are_repeated() {
        let now = fabric(2);
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        // When the cable was moved, from which node a trap came and when, and when a block goes astray.
        let check = |moved: u64, told: Option<(u64, u64)>, when: u64, want: bool| {
            let emulator = Emulator::new(&now, EmulatorConfig::default(), Seed(1));
            let chassis = emulator.chassis();
            let mut cables = MovedCables::new(chassis);
            let [near, meant, taken] = [2, 3, 4].map(|guid| now.find(Guid(guid)).unwrap());
            let port = chassis.port_at(near, 2).unwrap();
            cables.far[port.0 as usize] = None;
            cables.look(at(moved), chassis);
            cables
                .told
                .extend(told.map(|(guid, told)| (now.find(Guid(guid)).unwrap(), at(told))));
            let astray = Astray {
                meant,
                port,
                ends: [meant, taken],
            };
            let is_unheard = cables.note_astray(at(when), chassis, &astray);
            assert_eq!(is_unheard, want, "{moved} {told:?} {when}");
            let is_excused = |looked: u64, when: u64| cables.is_unheard(at(looked), at(when), is_unheard);
            assert_eq!(is_excused(when, when), want, "{moved} {told:?} {when}");
            // A manager that sweeps later still does not know, until the trap is repeated.
            assert_eq!(is_excused(when + 1, when + 1), want);
            assert!(!is_excused(when + 1, moved + REPEATED_MS + 1));
        };
        check(10, None, 11, true);
        // The traps were repeated.
        check(10, None, 10 + REPEATED_MS + 1, false);
        // A trap about it came from one end, from the switch that is there now, or from the one before. Or from another
        // node, or before the move.
        check(10, Some((2, 10)), 11, false);
        check(10, Some((3, 10)), 11, false);
        check(10, Some((4, 10)), 11, false);
        check(10, Some((1, 10)), 11, true);
        check(10, Some((2, 9)), 11, true);
    }
}
