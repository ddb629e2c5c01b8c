//! Assigns LIDs to end ports. A port keeps its current LIDs unless they are wrong.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{LidConflict, Lids, Policy};
use selvedge_types::{Guid, Lid, LidRange, Lmc, NodeKind, PortNum};

use crate::event::PlanEvent;
use crate::lid_layout;

/// More LIDs are wanted than a subnet has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SLV-SM-0014: {wanted} LIDs wanted, a subnet has 49151: lower the LMC or split the subnet")]
pub struct OutOfLids {
    /// Number of LIDs wanted.
    pub wanted: usize,
}

/// Assigns LIDs to every end port that needs some: port 0 of a switch, and every port of another node with a trained
/// link.
///
/// A port gets its current LIDs, otherwise those that it is known to have had, otherwise the lowest free ones. If two
/// ports have the same LID, the port that the LID is known to belong to keeps it, otherwise the port with the lower
/// GUID. A new LMC moves a port only if its LID range cannot begin at the same base: the base is not aligned, or a
/// switch has one of the further LIDs.
///
/// Sets are sent in parallel. So no port gets a LID that another port still has, or that a port gave up so recently
/// that packets to it may be in flight (`resting`). If a port's range would contain such LIDs, the port keeps its
/// current LIDs until a later plan (see `short`).
pub fn assign(
    fabric: &Fabric,
    policy: &Policy,
    known: &BTreeMap<Guid, LidRange>,
    resting: &BTreeSet<Lid>,
    events: &mut Vec<PlanEvent>,
) -> Result<Lids, OutOfLids> {
    assign_sparing(fabric, policy, (known, &[]), resting, events)
}

/// Assigns LIDs as [`assign`] does. In addition, LIDs in `spared` are given to ports only if no other LID is left:
/// absent ports may hold them, although other LIDs are known for these ports.
pub(crate) fn assign_sparing(
    fabric: &Fabric,
    policy: &Policy,
    (known, spared): (&BTreeMap<Guid, LidRange>, &[LidRange]),
    resting: &BTreeSet<Lid>,
    events: &mut Vec<PlanEvent>,
) -> Result<Lids, OutOfLids> {
    let ports: Vec<Claim> = fabric
        .end_ports()
        .filter(|(at, port)| at.port == PortNum::MANAGEMENT || port.is_up())
        .map(|(at, port)| Claim {
            at,
            guid: port.guid,
            lmc: lmc_of(fabric, policy, at),
            held: port.settings.lids,
        })
        .collect();
    let known_range = |guid: Guid| {
        known
            .get(&guid)
            .or_else(|| policy.known_lids.get(&guid))
            .map(|r| r.base)
    };
    let mut lids = Lids::new();
    let mut held = Held::default();
    if !policy.reassign_lids {
        held = Held::of(&ports, resting, known);
        // Ports with a current LID that is also the known one come first, so that they win a conflict.
        let (sure, other): (Vec<_>, Vec<_>) = ports
            .iter()
            .copied()
            .partition(|claim| known_range(claim.guid) == Some(claim.held.base));
        let in_order: Vec<Claim> = sure.into_iter().chain(other).collect();
        in_order
            .iter()
            .for_each(|claim| keep(fabric, &mut lids, *claim, events));
        switches_first(&ports, known_range, &mut lids, &mut held);
        in_order.iter().for_each(|claim| grow(&mut lids, &mut held, *claim));
    }
    let mut needy = Vec::new();
    for claim in &ports {
        if lids.range(claim.at).is_some() {
            continue;
        }
        let known = known_range(claim.guid);
        if known.is_none_or(|base| !come_back(&mut lids, &mut held, *claim, base)) {
            needy.push((claim.at, claim.lmc));
        }
    }
    lid_layout::arrange(fabric, policy, (&lids, known), &mut needy);
    let mut free = FreeLids::new(&reserved(fabric, policy, known, spared), held);
    for (at, lmc) in needy {
        // Its current LIDs are better than none, and later ports may leave room.
        let has = || fabric.port(at).map(|port| port.settings.lids);
        let range = free.next(&lids, at, lmc);
        let range = range.or_else(|| has().filter(|_| !policy.reassign_lids));
        if range.is_none_or(|range| lids.insert(at, range).is_err()) {
            let wanted = ports.iter().map(|claim| usize::from(claim.lmc.lids())).sum();
            return Err(OutOfLids { wanted });
        }
    }
    Ok(lids)
}

/// Returns LIDs that are given to other ports only if no other LID is left: known LIDs of absent ports, and the LID of
/// an absent master. If this manager took the LID of an absent master, the MasterSMLID of a host would no longer show
/// which of the two managers has set it.
fn reserved(fabric: &Fabric, policy: &Policy, known: &BTreeMap<Guid, LidRange>, spared: &[LidRange]) -> Vec<LidRange> {
    let masters = fabric
        .end_ports()
        .map(|(_, port)| LidRange::single(port.settings.sm_lid));
    let known = known.values().chain(policy.known_lids.values()).chain(spared);
    known
        .copied()
        .chain(masters.filter(|_| !policy.reassign_lids))
        .collect()
}

/// Returns the ports that have fewer LIDs than the policy wants, because other ports have them now or had them a moment
/// ago. The next plan may assign them.
pub(crate) fn short(fabric: &Fabric, policy: &Policy, lids: &Lids) -> impl Iterator<Item = PortRef> {
    let is_short = |(at, range): &(PortRef, LidRange)| range.lmc != lmc_of(fabric, policy, *at);
    lids.iter().filter(is_short).map(|(at, _)| at)
}

/// True if any port has fewer LIDs than the policy wants.
pub fn is_short(fabric: &Fabric, policy: &Policy, lids: &Lids) -> bool {
    short(fabric, policy, lids).next().is_some()
}

/// An end port, its current LIDs and its wanted LMC.
#[derive(Clone, Copy, Debug)]
struct Claim {
    at: PortRef,
    guid: Guid,
    lmc: Lmc,
    held: LidRange,
}

impl Claim {
    const fn from(self, base: Lid) -> LidRange {
        LidRange { base, lmc: self.lmc }
    }

    /// Returns the LIDs that the port gets if it keeps its base LID.
    const fn wanted(self) -> LidRange {
        self.from(self.held.base)
    }
}

/// Returns the LMC of a port. Switches have one LID. Source: IBA vol 1 §14.2.5.6: LMC of a base switch port 0 is 0.
fn lmc_of(fabric: &Fabric, policy: &Policy, at: PortRef) -> Lmc {
    if fabric.node(at.node).kind == NodeKind::Switch {
        Lmc::ZERO
    } else {
        policy.lmc
    }
}

/// Keeps the base LID of a port, and its current number of LIDs, up to the wanted number.
fn keep(fabric: &Fabric, lids: &mut Lids, claim: Claim, events: &mut Vec<PlanEvent>) {
    let (held, wanted) = (claim.held, claim.wanted());
    if held.base == Lid::NONE || !held.base.0.is_multiple_of(claim.lmc.lids()) {
        return;
    }
    let range = if held.lmc.get() < wanted.lmc.get() {
        held
    } else {
        wanted
    };
    if let Err(LidConflict::Taken { lid, owner }) = lids.insert(claim.at, range) {
        let keeps = fabric.port(owner).map(|p| p.guid).unwrap_or_default();
        events.push(PlanEvent::LidConflict {
            lid,
            keeps,
            loses: claim.guid,
        });
    }
}

/// Gives a port with too few LIDs the missing ones, if they are free. If another port permanently keeps one of them,
/// this port must get another range. If the other port will give them up, they are reserved for this port.
fn grow(lids: &mut Lids, held: &mut Held, claim: Claim) {
    let wanted = claim.wanted();
    if lids.range(claim.at).is_none_or(|range| range == wanted) {
        return;
    }
    let is_kept = |lid| lids.owner(lid).is_some_and(|owner| owner != claim.at);
    if wanted.last().0 > Lid::UNICAST_MAX.0 || wanted.iter().any(is_kept) {
        lids.remove(claim.at);
    } else if held.is_free(wanted, claim.at) {
        // Free, aligned and unicast.
        let _: Result<(), LidConflict> = lids.insert(claim.at, wanted);
    } else {
        held.keep_for(wanted, claim.at);
    }
}

/// Gives switches that come back their known LID. A switch has one LID under any policy. So if the growing range of a
/// port would include this LID, the port gets another range, as if the switch had never lost the LID.
fn switches_first(ports: &[Claim], known: impl Fn(Guid) -> Option<Lid>, lids: &mut Lids, held: &mut Held) {
    for claim in ports.iter().filter(|claim| claim.at.port == PortNum::MANAGEMENT) {
        let base = known(claim.guid).filter(|_| lids.range(claim.at).is_none());
        if let Some(base) = base {
            come_back(lids, held, *claim, base);
        }
    }
}

/// Gives a port without LIDs the range that it once had, or as many LIDs of that range as are free; the others are
/// reserved for this port. Returns false if the base LID is not free.
fn come_back(lids: &mut Lids, held: &mut Held, claim: Claim, base: Lid) -> bool {
    let wanted = claim.from(base);
    let is_kept = |lid| lids.owner(lid).is_some();
    if !base.0.is_multiple_of(claim.lmc.lids()) || wanted.iter().any(is_kept) {
        return false;
    }
    let lmcs = (0..=claim.lmc.get()).rev().filter_map(Lmc::new);
    let ranges = lmcs.map(|lmc| LidRange { base, lmc });
    let Some(range) = ranges.into_iter().find(|range| held.is_free(*range, claim.at)) else {
        return false;
    };
    held.keep_for(wanted, claim.at);
    lids.insert(claim.at, range).is_ok()
}

/// The port that has a LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// This port has the LID now, or will have it.
    Port(PortRef),
    /// Several ports have it, or none has it and packets to it may be in flight.
    Nobody,
}

/// LIDs in use. They must not be assigned at once: Sets are sent in parallel, so another port could get such a LID
/// before the old port has given it up.
#[derive(Debug, Default)]
struct Held(Vec<Option<Holder>>);

impl Held {
    fn of(ports: &[Claim], resting: &BTreeSet<Lid>, known: &BTreeMap<Guid, LidRange>) -> Self {
        let mut held = Self::default();
        for &lid in resting.iter().filter(|lid| lid.is_unicast()) {
            *held.slot(lid) = Some(Holder::Nobody);
        }
        // Packets to a LID that a port gave up recently may reach the port itself.
        for claim in ports {
            for lid in known.get(&claim.guid).into_iter().flat_map(|range| range.iter()) {
                let holder = held.0.get_mut(lid.index()).and_then(Option::as_mut);
                holder.into_iter().for_each(|holder| *holder = Holder::Port(claim.at));
            }
        }
        for claim in ports {
            for lid in claim.held.iter().filter(|lid| lid.is_unicast()) {
                let holder = held.slot(lid);
                *holder = match *holder {
                    None => Some(Holder::Port(claim.at)),
                    Some(Holder::Port(at)) if at == claim.at => Some(Holder::Port(at)),
                    Some(_) => Some(Holder::Nobody),
                };
            }
        }
        held
    }

    /// Returns the slot of a LID. The table grows up to the largest LID in use.
    fn slot(&mut self, lid: Lid) -> &mut Option<Holder> {
        if self.0.len() <= lid.index() {
            self.0.resize(lid.index() + 1, None);
        }
        &mut self.0[lid.index()]
    }

    /// True if no port other than `at` has a LID of the range.
    fn is_free(&self, range: LidRange, at: PortRef) -> bool {
        let holder = |lid: Lid| self.0.get(lid.index()).copied().flatten();
        let mut holders = range.iter().filter_map(holder);
        holders.all(|holder| holder == Holder::Port(at))
    }

    /// Reserves these LIDs for a port.
    fn keep_for(&mut self, range: LidRange, at: PortRef) {
        for lid in range.iter().filter(|lid| lid.is_unicast()) {
            self.slot(lid).get_or_insert(Holder::Port(at));
        }
    }
}

/// Hands out free ranges, lowest first; reserved ranges come last.
struct FreeLids {
    reserved: Vec<bool>,
    held: Held,
    next: [u32; 8],
}

impl FreeLids {
    fn new(ranges: &[LidRange], held: Held) -> Self {
        let mut reserved = Vec::new();
        for lid in ranges.iter().flat_map(|r| r.iter()).filter(|lid| lid.is_unicast()) {
            if reserved.len() <= lid.index() {
                reserved.resize(lid.index() + 1, false);
            }
            reserved[lid.index()] = true;
        }
        Self {
            reserved,
            held,
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
            let is_reserved = |lid: Lid| self.reserved.get(lid.index()).is_some_and(|reserved| *reserved);
            let usable = |lid: Lid| lids.owner(lid).is_none() && !(spare_reserved && is_reserved(lid));
            if range.iter().all(usable) && self.held.is_free(range, at) {
                return Some(range);
            }
            base += step;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node, NodeIdx, PortSettings};
    use selvedge_types::{PhysState, PortState};

    use super::*;

    /// Returns a switch with GUID 1 and hosts 2, 3, … with the given LIDs.
    fn star(held: &[u16]) -> Fabric {
        star_of(held, 0)
    }

    /// Returns the fabric of [`star`] with this LMC at the ports of hosts.
    fn star_of(held: &[u16], lmc: u8) -> Fabric {
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
            p.settings.lids = LidRange {
                base: Lid(lid),
                lmc: Lmc::new(lmc).unwrap(),
            };
            let host = b.add(host);
            b.link((host, port(1)), (switch, port(i))).unwrap();
        }
        b.finish().unwrap()
    }

    #[test]
    fn the_lid_of_a_master_who_is_away_is_given_last() {
        // Arguments: the MasterSMLID of the hosts, whether LIDs are reassigned, and the LID that the second host gets,
        // which has none.
        let check = |master: u16, reassigns: bool, want: u16| {
            let mut fabric = star(&[1, 2, 0]);
            for at in fabric.end_ports().map(|(at, _)| at).collect::<Vec<_>>() {
                let port = fabric.port(at).unwrap().clone();
                let settings = PortSettings {
                    sm_lid: Lid(master),
                    ..port.settings
                };
                fabric.set_port(at, port.link, settings);
            }
            let policy = Policy {
                reassign_lids: reassigns,
                ..Policy::default()
            };
            let lids = assign(&fabric, &policy, &BTreeMap::new(), &BTreeSet::new(), &mut Vec::new()).unwrap();
            let at = fabric.find_port(Guid(3)).unwrap();
            assert_eq!(lids.base(at), Some(Lid(want)), "{master} {reassigns}");
        };
        check(0, false, 3);
        check(2, false, 3);
        check(3, false, 4);
        check(3, true, 3);
    }

    fn check(held: &[u16], lmc: u8, known: &[(u64, u16)], want: &[u16]) -> Vec<PlanEvent> {
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
        let lids = assign(&fabric, &policy, &known, &BTreeSet::new(), &mut events).unwrap();
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
        // Host 2 has LID 9, which is not aligned for LMC 1, so it gets 2 and 3. Port 1 had 9 once, but not in this
        // plan.
        check(&[0, 9], 1, &[(1, 9)], &[1, 2]);
        check(&[0, 10], 1, &[(1, 9)], &[9, 10]);
    }

    /// Changes the LMC plan by plan until nothing changes, and compares the bases and LMCs of the hosts after each
    /// plan. No plan gives a port a LID that another port still has.
    fn relabel(held: &[u16], from: u8, to: u8, resting: &[u16], plans: &[&[(u16, u8)]]) {
        let mut fabric = star_of(held, from);
        let policy = Policy {
            lmc: Lmc::new(to).unwrap(),
            ..Policy::default()
        };
        let resting: BTreeSet<Lid> = resting.iter().map(|&lid| Lid(lid)).collect();
        for (step, want) in plans.iter().enumerate() {
            let lids = assign(&fabric, &policy, &BTreeMap::new(), &resting, &mut Vec::new()).unwrap();
            let hosts: Vec<(PortRef, LidRange)> =
                lids.iter().filter(|(at, _)| at.port != PortNum::MANAGEMENT).collect();
            let found: Vec<(u16, u8)> = hosts.iter().map(|(_, range)| (range.base.0, range.lmc.get())).collect();
            assert_eq!(&found, want, "held {held:?}, plan {step}");
            let is_last = step + 1 == plans.len();
            assert_eq!(
                is_short(&fabric, &policy, &lids),
                !is_last || !resting.is_empty(),
                "{held:?}"
            );
            for (at, range) in lids.iter() {
                let mut others = fabric.end_ports().filter(|(other, _)| *other != at);
                let overlap =
                    others.find(|(_, port)| port.settings.lids.iter().any(|lid| range.iter().any(|l| l == lid)));
                assert!(overlap.is_none(), "{held:?}: {range:?} is held by {overlap:?}");
            }
            for (at, lids) in hosts {
                let port = fabric.port(at).unwrap();
                let (link, settings) = (port.link, PortSettings { lids, ..port.settings });
                fabric.set_port(at, link, settings);
            }
        }
    }

    #[test]
    fn another_lmc_gives_nobody_a_lid_that_is_held() {
        // Host 2 stays at 2. It gets 3 when the host with LID 3 has moved to 4.
        relabel(&[1, 2, 3], 0, 1, &[], &[&[(2, 0), (4, 1)], &[(2, 1), (4, 1)]]);
        // LID 3 is reserved for host 2: no port that needs new LIDs gets 2 or 3.
        relabel(
            &[1, 4, 5, 0],
            0,
            1,
            &[],
            &[&[(4, 0), (2, 1), (6, 1)], &[(4, 1), (2, 1), (6, 1)]],
        );
        // A switch keeps its LID, so the host must go.
        relabel(&[3, 2], 0, 1, &[], &[&[(4, 1)]]);
        // Fewer LIDs: every port keeps its base.
        relabel(&[1, 4, 8], 2, 0, &[], &[&[(4, 0), (8, 0)]]);
        relabel(&[1, 4, 8], 2, 1, &[], &[&[(4, 1), (8, 1)]]);
        // The largest possible number.
        relabel(
            &[1, 0xBFFF, 0xBFFE],
            0,
            1,
            &[],
            &[&[(2, 1), (0xBFFE, 0)], &[(2, 1), (0xBFFE, 1)]],
        );
    }

    #[test]
    fn a_port_that_comes_back_begins_where_it_did() {
        // Host 3 has LID 11 and must move. Until then host 2 has only 10.
        check(&[1, 0, 11], 1, &[(2, 10)], &[1, 10, 2]);
        // A switch has 11 and keeps it.
        check(&[11, 0], 1, &[(2, 10)], &[11, 2]);
    }

    #[test]
    fn a_switch_that_comes_back_is_not_grown_over() {
        // Host 2 could grow to 24 to 27, but the switch, which has no LID now, is known by 25.
        check(&[0, 24], 2, &[(1, 25)], &[25, 4]);
        // An absent host blocks no LID.
        check(&[1, 24], 2, &[(9, 25)], &[1, 24]);
    }

    #[test]
    fn what_absent_ports_may_hold_is_spared() {
        let fabric = star(&[0, 0]);
        let spared = [LidRange::single(Lid(1)), LidRange::single(Lid(2))];
        let known = (&BTreeMap::new(), &spared[..]);
        let lids = assign_sparing(&fabric, &Policy::default(), known, &BTreeSet::new(), &mut Vec::new()).unwrap();
        let found: Vec<u16> = lids.iter().map(|(_, range)| range.base.0).collect();
        assert_eq!(found, [3, 4]);
    }

    #[test]
    fn what_was_given_up_a_moment_ago_is_given_to_nobody() {
        relabel(&[1, 2], 0, 1, &[3], &[&[(2, 0)]]);
        check(&[1, 0], 0, &[], &[1, 2]);
        let fabric = star(&[1, 0]);
        let resting = BTreeSet::from([Lid(2), Lid(3)]);
        let lids = assign(&fabric, &Policy::default(), &BTreeMap::new(), &resting, &mut Vec::new()).unwrap();
        assert_eq!(lids.top(), Lid(4));
        // Except for the port that had it.
        let known = BTreeMap::from([(Guid(2), LidRange::single(Lid(3)))]);
        let lids = assign(&fabric, &Policy::default(), &known, &resting, &mut Vec::new()).unwrap();
        assert_eq!(lids.top(), Lid(3));
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
        assert!(assign(&fabric, &policy, &BTreeMap::new(), &BTreeSet::new(), &mut Vec::new()).is_ok());
        let mut free = FreeLids::new(&[], Held::default());
        let (mut lids, lmc) = (Lids::new(), Lmc::new(7).unwrap());
        for node in 0..383 {
            let range = free.next(&lids, port0(node), lmc).unwrap();
            lids.insert(port0(node), range).unwrap();
        }
        assert_eq!(free.next(&lids, port0(400), lmc), None);
    }
}
