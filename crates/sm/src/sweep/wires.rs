//! Cables between switches: one record each, with its evidence and how long it holds.
//!
//! A switch without any answer in a sweep is left out of the inventory, and so are its links. If it answers again while
//! one of its links loses MADs, both ends of that link report ACTIVE and neither end shows its peer: the plan would
//! lack a link that carries packets. But only a manager makes a link ACTIVE, and a lost link is not ACTIVE: while both
//! ends are ACTIVE, the cable has not been moved. A standby may have seen a cable before the master made it ACTIVE. As
//! long as neither end shows another peer, such a cable has not been moved either.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_planner::{Found, FoundPort};
use selvedge_types::{Guid, PortNum, PortState};

/// A port of a switch.
pub type End = (Guid, PortNum);

/// Cables between switches. Each is listed under both its ends.
#[derive(Clone, Debug, Default)]
pub struct Wires {
    /// Cables by end, ascending: a large fabric has 100,000 of them.
    cables: Vec<(End, Cable)>,
}

/// A cable, recorded under one of its ends. The record is kept until a sweep shows that one end is not ACTIVE or has
/// another peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cable {
    /// The other end of the cable.
    far: End,
    /// The states of both ends, when a sweep last read both.
    evidence: Evidence,
}

/// The evidence that a cable carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// Both ends were up, but not both ACTIVE. Another manager may have made them ACTIVE since.
    Up,
    /// Both ends were seen ACTIVE.
    Active,
}

impl Wires {
    /// Handles the fabric of a sweep. Cables with two ends that the sweep did not find stay unchanged.
    pub fn note(&mut self, fabric: &Fabric) {
        // Whether a switch reports a port as lost or with another peer, unless the port is ACTIVE without a visible
        // peer.
        let shows = |(guid, port): End| {
            let node = fabric.find(guid).filter(|&node| fabric.switch_index(node).is_some());
            let at = node.map(|node| PortRef { node, port });
            at.and_then(|at| Some((fabric.port(at)?.link.state, fabric.peer(at))))
                .is_some_and(|(state, peer)| state != PortState::Active || peer.is_some())
        };
        self.cables.retain(|&(near, cable)| !shows(near) && !shows(cable.far));
        // A standby sees cables that another manager makes ACTIVE afterwards.
        let state = |at| fabric.port(at).map_or(PortState::Down, |port| port.link.state);
        let is_up = |at| state(at) != PortState::Down;
        let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
        for link in fabric.links().filter(|link| is_switch(link.a) && is_switch(link.b)) {
            if is_up(link.a) && is_up(link.b) {
                let [a, b] = [link.a, link.b].map(|at| (fabric.node(at.node).guid, at.port));
                let evidence = match [link.a, link.b].map(state) {
                    [PortState::Active, PortState::Active] => Evidence::Active,
                    _ => Evidence::Up,
                };
                self.cables
                    .extend([(a, b), (b, a)].map(|(near, far)| (near, Cable { far, evidence })));
            }
        }
        self.cables.sort_unstable_by_key(|(near, _)| *near);
        self.cables.shrink_to_fit();
    }

    /// True if a cable between two ports is known, and both ports were ACTIVE.
    fn were_active(&self, near: End, far: End) -> bool {
        let evidence = Evidence::Active;
        let place = self.cables.binary_search_by_key(&near, |(end, _)| *end);
        place.is_ok_and(|at| self.cables[at].1 == Cable { far, evidence })
    }

    /// True if a link between switches is ACTIVE `now` and was not ACTIVE in the `known` fabric: another manager has
    /// made it ACTIVE. If that fabric lacks one of the ends, the link counts only if its cable was not ACTIVE when last
    /// seen.
    pub fn has_new_active(&self, known: &Fabric, now: &Fabric) -> bool {
        let is_active = |fabric: &Fabric, at| fabric.port(at).is_some_and(|port| port.link.state == PortState::Active);
        let is_switch = |at: PortRef| now.switch_index(at.node).is_some();
        let guid = |at: PortRef| now.node(at.node).guid;
        let was_active = |at: PortRef| {
            let node = known.find(guid(at))?;
            Some(is_active(known, PortRef { node, port: at.port }))
        };
        let mut links = now.links().filter(|link| is_switch(link.a) && is_switch(link.b));
        links.any(|link| {
            let is_new = match (was_active(link.a), was_active(link.b)) {
                (Some(a), Some(b)) => !a && !b,
                // One end had been made so by this manager.
                (Some(true), None) | (None, Some(true)) => false,
                (Some(false) | None, None) | (None, Some(false)) => {
                    let [a, b] = [link.a, link.b].map(|at| (guid(at), at.port));
                    !self.were_active(a, b)
                }
            };
            is_new && is_active(now, link.a) && is_active(now, link.b)
        })
    }

    /// Completes a sweep: the peer of an ACTIVE port behind which no agent answered is the far end of its cable.
    pub fn recall(&self, found: &mut [Found]) {
        let place: BTreeMap<Guid, usize> = (0..).zip(&*found).map(|(at, node)| (node.info.node_guid, at)).collect();
        let open = |found: &[Found], (guid, port): End| {
            let node = *place.get(&guid)?;
            let is_open = found[node].ports.get(port.index()).is_some_and(is_open);
            is_open.then_some((node, port))
        };
        for &(near, cable) in &self.cables {
            if let (Some(near), Some(far)) = (open(found, near), open(found, cable.far)) {
                found[near.0].ports[near.1.index()].peer = Some(far);
                found[far.0].ports[far.1.index()].peer = Some(near);
            }
        }
    }
}

/// True if a port is ACTIVE, but its peer is not known.
fn is_open(port: &FoundPort) -> bool {
    port.peer.is_none() && port.info.is_some_and(|info| info.state == Some(PortState::Active))
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, LinkState, Node};
    use selvedge_types::NodeKind;

    use super::*;
    use crate::made::{FIRST, SECOND, info, inventory, row};

    fn port(n: u8) -> PortNum {
        PortNum::new(n).unwrap()
    }

    /// Returns switches with these GUIDs. Port 1 of the first is cabled to port 2 of the second, and both ports have
    /// this state.
    fn pair(guids: &[u64], state: PortState) -> Fabric {
        let mut b = FabricBuilder::new();
        let keys: Vec<_> = guids
            .iter()
            .map(|&guid| {
                let mut node = Node::new(NodeKind::Switch, Guid(guid), 2, format!("s{guid}"));
                for n in [1, 2] {
                    let link = &mut node.port_mut(port(n)).unwrap().link;
                    *link = LinkState { state, ..*link };
                }
                b.add(node)
            })
            .collect();
        if let [first, second] = keys[..] {
            b.link((first, port(1)), (second, port(2))).unwrap();
        }
        b.finish().unwrap()
    }

    fn check(seen: &[(&[u64], PortState)], want: usize) {
        let mut wires = Wires::default();
        for &(guids, state) in seen {
            wires.note(&pair(guids, state));
        }
        assert_eq!(wires.cables.len(), want, "{seen:?}");
    }

    #[test]
    fn a_cable_is_known_as_long_as_its_ends_are_active() {
        let (active, down, init) = (PortState::Active, PortState::Down, PortState::Init);
        check(&[(&[1, 2], down)], 0);
        // Another manager may activate it before the next sweep of this one.
        check(&[(&[1, 2], init), (&[1], active)], 2);
        check(&[(&[1, 2], init), (&[1], init)], 0);
        check(&[(&[1, 2], active)], 2);
        // The second switch is out of sight, and the port that leads there is still ACTIVE.
        check(&[(&[1, 2], active), (&[1], active)], 2);
        check(&[(&[1, 2], active), (&[1], down)], 0);
        // Another one is there now.
        check(&[(&[1, 2], active), (&[1, 3], active)], 2);
    }

    #[test]
    fn only_another_manager_makes_a_link_active() {
        use PortState::{Active, Init};
        // The ends of the link between the switches, before and now.
        let check = |known: [PortState; 2], now: [PortState; 2], want: bool| {
            let [known, now] = [known, now].map(|states| {
                let mut found = row();
                for ((at, num), state) in [(FIRST, 2), (SECOND, 1)].into_iter().zip(states) {
                    found[at].ports[num].info = Some(info(state));
                }
                inventory(found).fabric
            });
            assert_eq!(Wires::default().has_new_active(&known, &now), want, "{known:?} {now:?}");
        };
        check([Init, Init], [Active, Active], true);
        check([Init, Init], [Active, Init], false);
        check([Active, Active], [Active, Active], false);
        // One end had been made so by this one, which died before the other.
        check([Active, Init], [Active, Active], false);
    }

    #[test]
    fn what_comes_into_sight_set_up_was_set_up_by_another_manager() {
        // Whether the second switch is known, and its link was seen before; the link as it is now.
        let check = |is_known: bool, was_seen: bool, state: PortState, want: bool| {
            let mut found = row();
            for (at, num) in [(FIRST, 2), (SECOND, 1)] {
                found[at].ports[num].info = Some(info(state));
            }
            let (now, all) = (inventory(found).fabric, inventory(row()).fabric);
            let mut before = row();
            if !is_known {
                before[FIRST].ports[2].peer = None;
                before[FIRST].ports[2].info = Some(info(PortState::Init));
                before.truncate(SECOND);
            }
            let mut seen = Wires::default();
            if was_seen {
                seen.note(&all);
            }
            let known = inventory(before).fabric;
            assert_eq!(
                seen.has_new_active(&known, &now),
                want,
                "{is_known} {was_seen} {state:?}"
            );
        };
        check(true, true, PortState::Active, false);
        check(false, false, PortState::Active, true);
        check(false, false, PortState::Init, false);
        // It was out of sight for a time.
        check(false, true, PortState::Active, false);
    }
}
