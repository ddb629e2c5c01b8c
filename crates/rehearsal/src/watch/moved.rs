//! Cables that were moved while no trap about it came.
//!
//! A table goes by a directed route, over links that are not ACTIVE as well, and its answer does not name the switch
//! that took it. So as long as nobody has told a manager that a cable leads elsewhere, a repair's tables may be taken
//! by a switch that they are not meant for. To ask every switch for its name before would double what a repair sends
//! and how long it takes, and switches repeat their traps: it is let pass until then.

use std::collections::BTreeMap;
use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_sim::Time;
use selvedge_types::PortNum;
use selvedge_wire::{AttributeId, Class, Mad, Method, Notice};

use super::{Rule, Sent, Watcher};

/// How long a trap takes to the manager and until it is heard, at most.
const TRAP_WAY: Duration = Duration::from_millis(30);

/// What is known of cables that were moved.
#[derive(Clone, Debug, Default)]
pub(super) struct MovedCables {
    /// Where cables lead, by port.
    far: Vec<Option<PortIdx>>,
    /// When a cable was last moved, by both ports where it is now.
    at: BTreeMap<PortIdx, Time>,
    /// When a manager last received a trap of a node.
    told: BTreeMap<NodeIdx, Time>,
}

/// A table on a way that is not what its manager takes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Astray {
    /// Whom it is meant for.
    meant: NodeIdx,
    /// The first port on the way whose cable leads elsewhere, and the nodes where it did and does.
    port: PortIdx,
    ends: [NodeIdx; 2],
}

impl MovedCables {
    pub fn new(chassis: &Chassis) -> Self {
        Self {
            far: cables(chassis).collect(),
            ..Self::default()
        }
    }

    /// Cables may lead elsewhere now.
    pub fn look(&mut self, now: Time, chassis: &Chassis) {
        for (port, far) in (0..).map(PortIdx).zip(cables(chassis)) {
            if std::mem::replace(&mut self.far[port.0 as usize], far) != far && far.is_some() {
                self.at.insert(port, now);
            }
        }
    }

    fn told(&mut self, now: Time, node: NodeIdx) {
        self.told.insert(node, now);
    }

    /// When those who could tell that the cable was moved will have told, if no trap of theirs has come since: the
    /// medium lost it, its way led over that cable, or one before it is not repressed yet. Each is sent again.
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

/// How long until a switch repeats a trap that nobody has repressed: SubnetTimeOut, and the way to the manager.
fn repeats_after(chassis: &Chassis, node: NodeIdx) -> Duration {
    let own = chassis.port_at(node, 0).map(|own| chassis.port(own).settings());
    let exponent = own.map_or(18, |settings| settings.subnet_timeout).min(31);
    Duration::from_nanos(4_096 << exponent) + TRAP_WAY
}

fn cables(chassis: &Chassis) -> impl Iterator<Item = Option<PortIdx>> + '_ {
    let ports = u32::try_from(chassis.port_count()).unwrap_or(u32::MAX);
    (0..ports).map(|port| chassis.wire(PortIdx(port)).peer())
}

/// Where the way of a Set of a linear table or of a port is another one than by the cables that its manager knows.
pub(super) fn astray(chassis: &Chassis, known: &Fabric, at: Option<PortIdx>, mad: &Mad) -> Option<Astray> {
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

impl Watcher {
    /// A manager receives a trap.
    pub(super) fn note_told(&mut self, now: Time, chassis: &Chassis, mad: &Mad) {
        let notice = mad.read::<Notice>().ok();
        let holder = notice.and_then(|notice| self.lids.holder(chassis, notice.issuer_lid));
        if let Some(port) = holder {
            self.moved.told(now, chassis.wire(port).node());
        }
    }

    /// Why packets may go wrong of a manager that looked then: it does not know what a table did that went astray, as
    /// nobody has told it before the traps are repeated.
    pub(super) fn unheard_excuse(&self, looked_at: Option<Time>, now: Time) -> Option<Rule> {
        let since = looked_at.unwrap_or(Time::ZERO);
        let are_out = self.strays.values().any(|rule| *rule == Rule::Unheard);
        let is_out = |(at, until): (Time, Time)| at >= since || are_out && until >= now;
        self.unheard_at.is_some_and(is_out).then_some(Rule::Unheard)
    }

    /// A Set was taken that may have gone over a cable which had been moved.
    pub(super) fn note_astray(
        &mut self,
        chassis: &Chassis,
        (node, attribute, modifier): (NodeIdx, AttributeId, u32),
        sent: Option<Sent>,
    ) {
        let astray = sent.and_then(|sent| Some((sent.manager, sent.astray?)));
        let Some((manager, astray)) = astray.filter(|(_, astray)| astray.meant != node) else {
            return;
        };
        if attribute == AttributeId::LINEAR_FORWARDING {
            return self.note_unheard(chassis, (node, modifier), astray);
        }
        // Whoever took it may answer like the port that was meant, which its manager takes to have those LIDs then.
        let port = |node| chassis.port_at(node, u8::try_from(modifier & 0xff).ok()?);
        let end_port = |node| port(node).filter(|&port| chassis.end_port(port) == port);
        if let (Some(meant), Some(taken)) = (end_port(astray.meant), end_port(node)) {
            let lids = chassis.port(taken).settings().lids;
            self.mistaken.insert((manager, chassis.port_guid(meant), lids.base));
        }
    }

    /// A switch has taken a block. If a cable took it there of which nobody could know, nobody knows either by what it
    /// and the one that was meant forward until both are read, or it comes again.
    fn note_unheard(&mut self, chassis: &Chassis, (node, modifier): (NodeIdx, u32), astray: Astray) {
        if let Some(until) = self.moved.unheard_until(self.now, chassis, &astray) {
            let both = [(node, modifier), (astray.meant, modifier)];
            self.strays.extend(both.map(|block| (block, Rule::Unheard)));
            self.unheard_at = Some((self.now, until));
        }
    }
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

    /// A host at a switch, port 2 of which leads to the second of two others, or to the third.
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

    /// SubnetTimeOut of a chassis that nobody has set, 2^18 × 4.096 µs, and the way.
    const REPEATED_MS: u64 = 1_103;

    #[test]
    fn it_is_unheard_until_somebody_tells_or_traps_are_repeated() {
        let now = fabric(2);
        let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
        // When the cable was moved, of whom a trap came and when, and when a table goes astray.
        let check = |moved: u64, told: Option<(u64, u64)>, when: u64, want: bool| {
            let mut emulator = Emulator::new(&now, EmulatorConfig::default(), Seed(1));
            let mut watcher = Watcher::new(&mut emulator);
            let chassis = emulator.chassis();
            let [near, meant, taken] = [2, 3, 4].map(|guid| now.find(Guid(guid)).unwrap());
            let port = chassis.port_at(near, 2).unwrap();
            watcher.moved.far[port.0 as usize] = None;
            watcher.moved.look(at(moved), chassis);
            if let Some((guid, told)) = told {
                watcher.moved.told(at(told), now.find(Guid(guid)).unwrap());
            }
            let astray = Astray {
                meant,
                port,
                ends: [meant, taken],
            };
            watcher.now = at(when);
            watcher.note_unheard(chassis, (taken, 0), astray);
            let is_excused = |looked: u64, when: u64| watcher.unheard_excuse(Some(at(looked)), at(when)).is_some();
            assert_eq!(is_excused(when, when), want, "{moved} {told:?} {when}");
            assert_eq!(watcher.strays.len(), if want { 2 } else { 0 });
            // Whoever looks later still does not know, until the trap is repeated.
            assert_eq!(is_excused(when + 1, when + 1), want);
            assert!(!is_excused(when + 1, moved + REPEATED_MS + 1));
        };
        check(10, None, 11, true);
        // They were repeated.
        check(10, None, 10 + REPEATED_MS + 1, false);
        // One end, or who is there now, or was, told of it; or somebody else did, or told of something before.
        check(10, Some((2, 10)), 11, false);
        check(10, Some((3, 10)), 11, false);
        check(10, Some((4, 10)), 11, false);
        check(10, Some((1, 10)), 11, true);
        check(10, Some((2, 9)), 11, true);
    }
}
