//! Gives every end port its LIDs and takes none away that is right.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{LidConflict, Lids, Policy};
use selvedge_types::{Guid, Lid, LidRange, Lmc, NodeKind, PortNum};

use crate::event::Event;
use crate::lid_layout;

/// The LIDs there are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SLV-SM-0014: {wanted} LIDs wanted, a subnet has 49151: lower the LMC or split the subnet")]
pub struct OutOfLids {
    /// LIDs wanted.
    pub wanted: usize,
}

/// LIDs of every end port that needs some: a switch's port 0, and every port of another node with a trained link.
///
/// In this order: what the port holds, what it is known to have had, the lowest free ones. A LID that two ports hold
/// stays with the port it is known to belong to, else with the lower GUID.
pub fn assign(
    fabric: &Fabric,
    policy: &Policy,
    known: &BTreeMap<Guid, LidRange>,
    events: &mut Vec<Event>,
) -> Result<Lids, OutOfLids> {
    let ports: Vec<(PortRef, Guid, Lmc, LidRange)> = fabric
        .end_ports()
        .filter(|(at, port)| at.port == PortNum::MANAGEMENT || port.is_up())
        .map(|(at, port)| (at, port.guid, lmc_of(fabric, policy, at), port.settings.lids))
        .collect();
    let wanted: usize = ports.iter().map(|(_, _, lmc, _)| usize::from(lmc.lids())).sum();
    let mut lids = Lids::new();
    let known_range = |guid: Guid| {
        known
            .get(&guid)
            .or_else(|| policy.known_lids.get(&guid))
            .map(|r| r.base)
    };
    if !policy.reassign_lids {
        // Ports whose LID is also the one they are known to have come first: a clash is then decided for them.
        let (sure, other): (Vec<_>, Vec<_>) = ports
            .iter()
            .copied()
            .partition(|(_, guid, _, held)| known_range(*guid) == Some(held.base));
        for (at, guid, lmc, held) in sure.into_iter().chain(other) {
            keep(fabric, &mut lids, (at, guid), LidRange { base: held.base, lmc }, events);
        }
    }
    let leaving = Leaving::of(&ports, &lids, policy.reassign_lids);
    let mut needy = Vec::new();
    for (at, guid, lmc, _) in ports {
        if lids.range(at).is_some() {
            continue;
        }
        let range = known_range(guid).map(|base| LidRange { base, lmc });
        let range = range.filter(|range| leaving.is_free(*range, at));
        if range.is_none_or(|range| lids.insert(at, range).is_err()) {
            needy.push((at, lmc));
        }
    }
    lid_layout::arrange(fabric, policy, (&lids, known), &mut needy);
    // A known LID of a port that is away just now is given to somebody else only if nothing else is left.
    let reserved: Vec<LidRange> = known.values().chain(policy.known_lids.values()).copied().collect();
    let mut free = FreeLids::new(&reserved, leaving);
    for (at, lmc) in needy {
        let range = free.next(&lids, at, lmc).ok_or(OutOfLids { wanted })?;
        // The range was found free, aligned and unicast.
        let _: Result<(), LidConflict> = lids.insert(at, range);
    }
    Ok(lids)
}

/// LMC of a port: switches have one LID. Source: IBA vol 1 §14.2.5.6: LMC of a base switch port 0 is 0.
fn lmc_of(fabric: &Fabric, policy: &Policy, at: PortRef) -> Lmc {
    if fabric.node(at.node).kind == NodeKind::Switch {
        Lmc::ZERO
    } else {
        policy.lmc
    }
}

fn keep(fabric: &Fabric, lids: &mut Lids, (at, guid): (PortRef, Guid), held: LidRange, events: &mut Vec<Event>) {
    if held.base == Lid::NONE {
        return;
    }
    if let Err(LidConflict::Taken { lid, owner }) = lids.insert(at, held) {
        let keeps = fabric.port(owner).map(|p| p.guid).unwrap_or_default();
        events.push(Event::LidConflict {
            lid,
            keeps,
            loses: guid,
        });
    }
}

/// LIDs that ports hold and lose by this very plan. Sets go out side by side: whoever got such a LID at once could have
/// it before its holder has given it up.
#[derive(Debug, Default)]
struct Leaving(BTreeMap<Lid, PortRef>);

impl Leaving {
    /// What no port keeps; nothing if all LIDs are new.
    fn of(ports: &[(PortRef, Guid, Lmc, LidRange)], kept: &Lids, reassign: bool) -> Self {
        let losers = ports.iter().filter(|(at, ..)| !reassign && kept.range(*at).is_none());
        let held = losers.flat_map(|(at, _, _, held)| held.iter().map(|lid| (lid, *at)));
        Self(held.filter(|(lid, _)| lid.is_unicast()).collect())
    }

    /// True if nobody else than `at` still holds a LID of the range.
    fn is_free(&self, range: LidRange, at: PortRef) -> bool {
        self.0.is_empty()
            || range
                .iter()
                .all(|lid| self.0.get(&lid).is_none_or(|holder| *holder == at))
    }
}

/// Hands out free ranges, lowest first; reserved ones, and those that are still held, last.
struct FreeLids {
    reserved: Vec<bool>,
    leaving: Leaving,
    next: [u32; 8],
}

impl FreeLids {
    fn new(ranges: &[LidRange], leaving: Leaving) -> Self {
        let mut reserved = vec![false; Lid::UNICAST_MAX.index() + 1];
        for lid in ranges.iter().flat_map(|r| r.iter()).filter(|lid| lid.is_unicast()) {
            reserved[lid.index()] = true;
        }
        Self {
            reserved,
            leaving,
            next: [1; 8],
        }
    }

    fn next(&mut self, lids: &Lids, at: PortRef, lmc: Lmc) -> Option<LidRange> {
        let cursor = self.next[usize::from(lmc.get())];
        let found = self
            .scan(lids, (at, lmc), cursor, true)
            .or_else(|| self.scan(lids, (at, lmc), 1, false))?;
        if found.base.0 >= u16::try_from(cursor).unwrap_or(u16::MAX) {
            self.next[usize::from(lmc.get())] = u32::from(found.base.0) + u32::from(lmc.lids());
        }
        Some(found)
    }

    fn scan(&self, lids: &Lids, (at, lmc): (PortRef, Lmc), from: u32, spare_reserved: bool) -> Option<LidRange> {
        let step = u32::from(lmc.lids());
        // `from` is at least 1, so LID 0 is never reached.
        let mut base = from.next_multiple_of(step);
        while base + step - 1 <= u32::from(Lid::UNICAST_MAX.0) {
            let range = LidRange {
                base: Lid(u16::try_from(base).ok()?),
                lmc,
            };
            let usable = |lid: Lid| lids.owner(lid).is_none() && !(spare_reserved && self.reserved[lid.index()]);
            if range.iter().all(usable) && (!spare_reserved || self.leaving.is_free(range, at)) {
                return Some(range);
            }
            base += step;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node, NodeIdx};
    use selvedge_types::{PhysState, PortState};

    use super::*;

    /// A switch with GUID 1 and hosts 2, 3, … that hold the given LIDs.
    fn star(held: &[u16]) -> Fabric {
        let mut b = FabricBuilder::new();
        let port = |n: usize| PortNum::new(u8::try_from(n).unwrap()).unwrap();
        let mut switch = Node::new(NodeKind::Switch, Guid(1), 36, "s");
        switch.port_mut(PortNum::MANAGEMENT).unwrap().settings.lids = LidRange::single(Lid(held[0]));
        let switch = b.add(switch);
        for (i, &lid) in held.iter().enumerate().skip(1) {
            let guid = Guid(i as u64 + 1);
            let mut host = Node::new(NodeKind::Ca, guid, 1, format!("h{i}"));
            let p = host.port_mut(port(1)).unwrap();
            p.guid = guid;
            p.link.phys = PhysState::LinkUp;
            p.link.state = PortState::Init;
            p.settings.lids = LidRange::single(Lid(lid));
            let host = b.add(host);
            b.link((host, port(1)), (switch, port(i))).unwrap();
        }
        b.finish().unwrap()
    }

    fn check(held: &[u16], lmc: u8, known: &[(u64, u16)], want: &[u16]) -> Vec<Event> {
        let fabric = star(held);
        let policy = Policy {
            lmc: Lmc::new(lmc).unwrap(),
            ..Policy::default()
        };
        let known = known
            .iter()
            .map(|&(g, l)| (Guid(g), LidRange::single(Lid(l))))
            .collect();
        let mut events = Vec::new();
        let lids = assign(&fabric, &policy, &known, &mut events).unwrap();
        let found: Vec<u16> = (0..held.len())
            .map(|i| {
                let port = PortNum::new(u8::from(i > 0)).unwrap();
                lids.base(PortRef {
                    node: NodeIdx(u32::try_from(i).unwrap()),
                    port,
                })
                .unwrap()
                .0
            })
            .collect();
        assert_eq!(found, want, "held {held:?}");
        events
    }

    #[test]
    fn existing_lids_stay_and_new_ones_fill_up() {
        check(&[0, 0, 0], 0, &[], &[1, 2, 3]);
        check(&[7, 0, 2], 0, &[], &[7, 1, 2]);
        check(&[0, 0, 0], 0, &[(2, 40)], &[1, 40, 2]);
        check(&[0, 9, 0], 0, &[(2, 40)], &[1, 9, 2]);
    }

    #[test]
    fn clashes_go_to_the_known_owner_then_to_the_lower_guid() {
        assert_eq!(check(&[5, 8, 8], 0, &[], &[5, 8, 1]).len(), 1);
        assert_eq!(check(&[5, 8, 8], 0, &[(3, 8)], &[5, 1, 8]).len(), 1);
    }

    #[test]
    fn masks_align() {
        check(&[0, 0, 0], 2, &[], &[1, 4, 8]);
        check(&[0, 6, 8], 2, &[], &[1, 4, 8]);
    }

    #[test]
    fn illegal_lids_are_replaced() {
        check(&[0xC001, 0xFFFF, 3], 0, &[], &[1, 2, 3]);
    }

    #[test]
    fn lids_of_absent_ports_are_spared() {
        check(&[0, 0], 0, &[(77, 1)], &[2, 3]);
    }

    #[test]
    fn a_lid_that_is_still_held_is_given_to_nobody() {
        // Host 2 holds 9, which an LMC of 1 does not allow: it gets 2 and 3. Port 1 had 9 once, but not in this plan.
        check(&[0, 9], 1, &[(1, 9)], &[1, 2]);
        check(&[0, 10], 1, &[(1, 9)], &[9, 10]);
    }

    fn port0(node: u32) -> PortRef {
        PortRef {
            node: NodeIdx(node),
            port: PortNum::MANAGEMENT,
        }
    }

    #[test]
    fn a_subnet_has_49151_lids() {
        let fabric = star(&[0; 37]);
        let policy = Policy {
            lmc: Lmc::new(7).unwrap(),
            ..Policy::default()
        };
        assert!(assign(&fabric, &policy, &BTreeMap::new(), &mut Vec::new()).is_ok());
        let mut free = FreeLids::new(&[], Leaving::default());
        let (mut lids, lmc) = (Lids::new(), Lmc::new(7).unwrap());
        for node in 0..383 {
            let range = free.next(&lids, port0(node), lmc).unwrap();
            lids.insert(port0(node), range).unwrap();
        }
        assert_eq!(free.next(&lids, port0(400), lmc), None);
    }
}
