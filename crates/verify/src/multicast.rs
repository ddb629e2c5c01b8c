//! Judges multicast tables. Every member gets each packet of every other member exactly once, other ports get none, and
//! no packet loops, neither under the tables nor during the change to them.
//!
//! # Why the shape of the masks is enough
//! A switch copies a packet of a group to every port of its mask except the port of arrival. Assume that both ends of
//! every used cable are in the masks, and that the used cables form no loop. Then a packet that enters at one switch
//! reaches each connected switch exactly once, and stops. So each packet of a member leaves by every port of those
//! masks once. It remains to show that the members are connected, that their ports are in the masks, and that no port
//! of another host is in a mask. `tests/multicast.rs` compares this reasoning with simulated copies.
//!
//! # During the change
//! Within a phase any mix of old and new blocks may be in force. Therefore the cables that the old or the new masks
//! use, at either end, must form no loop. A phase that only removes ports of a group may begin with a loop that already
//! existed. A packet in flight has followed old entries up to some switch and follows new entries from there. Neither
//! the old nor the new entries form a loop, so it stops too.
//!
//! # Together with unicast routes
//! Copies wait for each other and for unicast packets: `turns` explains how. With the old tables, the new tables and
//! every mix of both, no dependency cycle may contain a copy. Packets copied by the old tables count until the last
//! phase is done.
//!
//! # Cost
//! O(switches) per group, and the same per phase for each group that the phase changes.

mod turns;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::multicast::{
    MFT_LIDS, MftSet, MulticastChange, MulticastGroup, MulticastGroups, MulticastTables, PortMask, entry_of,
};
use selvedge_types::{Idx, Lid, Mtu, PortNum, PortState, Sl};
use serde::Serialize;

use crate::figures::Figures;
use crate::finding::{Fault, Finding, Place, Severity};
use crate::judged::{JudgeOptions, Judged, Refusal, passed};
use crate::verdict::{Docket, Verdict};

pub use turns::{OtherBlock, RouteTurns};

/// Multicast tables and the groups that they serve.
#[derive(Clone, Copy, Debug)]
pub struct MulticastSubject<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// Groups and their members.
    pub groups: &'a MulticastGroups,
    /// Current multicast tables of the switches.
    pub held: &'a MulticastTables,
    /// Planned multicast tables.
    pub wanted: &'a MulticastTables,
    /// Channel dependencies of unicast routes: of the plan in force, and of older entries that packets in flight may
    /// still follow.
    pub routes: &'a RouteTurns,
    /// Groups that cannot connect all their members: every tree would allow a deadlock between copies and unicast
    /// packets. The planner of the multicast tables supplies this set. The judge reports one warning for each member
    /// left out.
    pub apart: &'a BTreeSet<Lid>,
}

/// Why a switch must not copy to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stray {
    /// The port does not exist, or its link is not ACTIVE.
    NoLink,
    /// The port behind the egress is not a member that receives.
    NoMember,
    /// There is no such group.
    NoGroup,
    /// The switch behind the port does not have this link in its mask.
    OneWay,
    /// The branch leads to no receiver.
    NoNeed,
    /// The link's MTU is less than the group's.
    Mtu,
}

/// Judges multicast tables without a transition to them.
#[must_use]
pub fn verify_multicast(subject: &MulticastSubject<'_>, options: &JudgeOptions) -> Verdict {
    let mut docket = Docket::new(options);
    let mut judge = Judge::new(subject, &mut docket);
    judge.tables();
    judge.beside_routes(0, &[subject.wanted], &[subject.wanted]);
    docket.verdict(Figures::default())
}

/// Judges multicast tables and the change that leads to them from the current ones.
///
/// # Errors
/// A refusal with the whole verdict, if there is any error.
pub fn judge_multicast(
    subject: &MulticastSubject<'_>,
    change: MulticastChange,
    options: &JudgeOptions,
) -> Result<Judged<MulticastChange>, Box<Refusal>> {
    let mut docket = Docket::new(options);
    let mut judge = Judge::new(subject, &mut docket);
    judge.tables();
    judge.beside_routes(0, &[subject.wanted], &[subject.wanted]);
    judge.way(&change);
    passed(change, docket.verdict(Figures::default()))
}

/// Judges a change that only removes ports from masks. A part of a tree has no loop that the whole tree does not have,
/// so this is always safe. Until the masks are complete again, some members do not reach each other.
///
/// # Errors
/// A refusal if the change adds a port.
pub fn judge_taking_away(
    fabric: &Fabric,
    held: &MulticastTables,
    change: MulticastChange,
    options: &JudgeOptions,
) -> Result<Judged<MulticastChange>, Box<Refusal>> {
    let mut docket = Docket::new(options);
    let mut now = held.clone();
    for set in change.phases.iter().flatten() {
        let place = (set.block, set.position);
        let held = now.block(set.switch, set.block, set.position);
        if set.data.iter().zip(&held).any(|(new, old)| new & !old != 0) {
            docket.add(Finding::new(Severity::Error, not_as_planned(fabric, set.switch, place)));
        }
        now.set_block(set.switch, place, set.data);
    }
    passed(change, docket.verdict(Figures::default()))
}

fn not_as_planned(fabric: &Fabric, switch: SwitchIdx, (block, position): (u16, u8)) -> Fault {
    let place = match fabric.switches().get(switch) {
        Some(&node) => Place::node(fabric, node),
        None => Place {
            node_guid: selvedge_types::Guid::NONE,
            port: None,
            name: format!("switch {}", switch.0),
        },
    };
    Fault::MulticastChange {
        switch: place,
        block,
        position,
    }
}

/// Returns the groups with copies that are part of a dependency cycle under these tables, with each other or with
/// unicast packets.
#[must_use]
pub fn circular_groups(routes: &RouteTurns, groups: &MulticastGroups, tables: &MulticastTables) -> BTreeSet<Lid> {
    let mut found = BTreeSet::new();
    // The remaining groups may be free of cycles after one is removed.
    loop {
        let level = |mlid| (!found.contains(&mlid)).then(|| level_of(groups, mlid));
        let copies = routes.of_copies(level, (&[tables], &[tables]));
        let circles = routes.circles(&copies, 1);
        let Some(((_, mlid), _)) = circles.first() else {
            return found;
        };
        found.insert(*mlid);
    }
}

/// Returns the service level of a group's packets. Entries of a LID without a group count on level 0.
pub(crate) fn level_of(groups: &MulticastGroups, mlid: Lid) -> Sl {
    groups.find(mlid).map_or(Sl::default(), |group| group.sl)
}

/// Sets of connected switches (union-find).
struct Parts(Vec<u32>);

impl Parts {
    fn new(count: usize) -> Self {
        Self((0..count as u32).collect())
    }

    fn of(&mut self, mut at: u32) -> u32 {
        while self.0[at as usize] != at {
            self.0[at as usize] = self.0[self.0[at as usize] as usize];
            at = self.0[at as usize];
        }
        at
    }

    /// Joins two sets. Returns false if they already were one set.
    fn join(&mut self, a: SwitchIdx, b: SwitchIdx) -> bool {
        let (a, b) = (self.of(a.0), self.of(b.0));
        self.0[a.max(b) as usize] = a.min(b);
        a != b
    }
}

type End = (SwitchIdx, PortNum);

struct Judge<'a, 'd, 'o> {
    subject: &'a MulticastSubject<'a>,
    docket: &'d mut Docket<'o>,
    /// Switches that groups may use, by MTU and by the number of switches with room.
    lands: BTreeMap<(Mtu, usize), Vec<u32>>,
}

impl<'a, 'd, 'o> Judge<'a, 'd, 'o> {
    fn new(subject: &'a MulticastSubject<'a>, docket: &'d mut Docket<'o>) -> Self {
        let lands = BTreeMap::new();
        Self { subject, docket, lands }
    }

    fn switches(&self) -> impl Iterator<Item = SwitchIdx> + use<> {
        (0..self.subject.fabric.switches().len()).map(SwitchIdx::from_usize)
    }

    fn error(&mut self, fault: Fault) {
        self.docket.add(Finding::new(Severity::Error, fault));
    }

    fn at(&self, (switch, port): End) -> PortRef {
        PortRef {
            node: self.subject.fabric.switches()[switch],
            port,
        }
    }

    fn place(&self, end: End) -> Place {
        Place::port(self.subject.fabric, self.at(end))
    }

    /// Returns the switch port at the other end of an ACTIVE link. `Err` if the port has no such link.
    fn beyond(&self, end: End) -> Result<Option<End>, Stray> {
        let fabric = self.subject.fabric;
        let at = self.at(end);
        let is_active = |at| fabric.port(at).is_some_and(|p| p.link.state == PortState::Active);
        let peer = fabric.peer(at).filter(|&peer| is_active(at) && is_active(peer));
        let peer = peer.ok_or(Stray::NoLink)?;
        Ok(fabric.switch_index(peer.node).map(|switch| (switch, peer.port)))
    }

    fn mtu(&self, end: End) -> Mtu {
        self.subject
            .fabric
            .port(self.at(end))
            .map_or(Mtu::B256, |p| p.settings.mtu)
    }

    fn has_room(&self, switch: SwitchIdx, mlid: Lid) -> bool {
        let room = self.subject.fabric.switch(switch).switch.map_or(0, |s| s.mcast_cap);
        mlid.0 - Lid::MULTICAST_MIN.0 < room
    }

    fn tables(&mut self) {
        let subject = self.subject;
        for mlid in subject.wanted.mlids() {
            if subject.groups.find(mlid).is_none() {
                let mut ports = self.switches().filter_map(|switch| {
                    let mask = subject.wanted.mask(switch, mlid);
                    mask.iter().next().map(|port| (switch, port))
                });
                if let Some(end) = ports.next() {
                    self.stray(mlid, end, Stray::NoGroup);
                }
            }
        }
        for group in subject.groups.iter() {
            self.group(group);
        }
    }

    fn stray(&mut self, mlid: Lid, end: End, why: Stray) {
        let port = self.place(end);
        self.error(Fault::MulticastStray { mlid, port, why });
    }

    fn group(&mut self, group: &MulticastGroup) {
        let fabric = self.subject.fabric;
        // Ports at which members send into the fabric, and ports that receive.
        let (mut senders, mut receivers) = (BTreeMap::new(), BTreeSet::new());
        for member in group.members.iter() {
            let at = fabric.find_port(member.guid);
            let entry = at.and_then(|at| entry_of(fabric, at));
            match entry.filter(|(switch, _)| self.has_room(*switch, group.mlid)) {
                Some(entry) => {
                    senders.entry(entry.0).or_insert(entry.1);
                    if member.receives {
                        receivers.insert(entry);
                    }
                }
                None => {
                    let member = match at {
                        Some(at) => Place::port(fabric, at),
                        None => Place {
                            node_guid: member.guid,
                            port: None,
                            name: member.guid.to_string(),
                        },
                    };
                    let fault = Fault::MulticastUnreached {
                        mlid: group.mlid,
                        member,
                    };
                    self.docket.add(Finding::new(Severity::Warning, fault));
                }
            }
        }
        let (mut parts, branches) = self.shape(group, &receivers);
        for &end in &receivers {
            if !self.subject.wanted.mask(end.0, group.mlid).contains(end.1) {
                self.missed(group.mlid, end);
            }
        }
        for (&switch, &port) in branches.iter().filter(|(switch, _)| !senders.contains_key(*switch)) {
            self.stray(group.mlid, (switch, port), Stray::NoNeed);
        }
        // Members with a possible path between them must be connected.
        let land = self.land(group);
        let mut first = BTreeMap::new();
        for (switch, port) in senders {
            let part = parts.of(switch.0);
            if *first.entry(land[switch.to_usize()]).or_insert(part) == part {
                continue;
            }
            if self.subject.apart.contains(&group.mlid) {
                let (mlid, member) = (group.mlid, self.place((switch, port)));
                let fault = Fault::MulticastApart { mlid, member };
                self.docket.add(Finding::new(Severity::Warning, fault));
            } else {
                self.missed(group.mlid, (switch, port));
            }
        }
    }

    fn missed(&mut self, mlid: Lid, end: End) {
        let member = self.place(end);
        self.error(Fault::MulticastMissed { mlid, member });
    }

    /// Reads all masks of a group. Returns the connected sets of switches. Also returns each switch that ends a branch
    /// and has no receiver, with its port towards the rest of the tree.
    fn shape(&mut self, group: &MulticastGroup, receivers: &BTreeSet<End>) -> (Parts, BTreeMap<SwitchIdx, PortNum>) {
        let wanted = self.subject.wanted;
        let mut parts = Parts::new(self.subject.fabric.switches().len());
        let mut branches = BTreeMap::new();
        for switch in self.switches() {
            let mask = wanted.mask(switch, group.mlid);
            let (mut links, mut receives) = (Vec::new(), false);
            for port in mask.iter() {
                let end = (switch, port);
                receives |= receivers.contains(&end);
                if port == PortNum::MANAGEMENT {
                    if !receivers.contains(&end) {
                        self.stray(group.mlid, end, Stray::NoMember);
                    }
                    continue;
                }
                match self.beyond(end) {
                    Err(why) => self.stray(group.mlid, end, why),
                    Ok(None) if !receivers.contains(&end) => self.stray(group.mlid, end, Stray::NoMember),
                    Ok(None) => {}
                    Ok(Some(far)) if !wanted.mask(far.0, group.mlid).contains(far.1) => {
                        self.stray(group.mlid, end, Stray::OneWay);
                    }
                    Ok(Some(_)) if self.mtu(end) < group.mtu => self.stray(group.mlid, end, Stray::Mtu),
                    Ok(Some(far)) => {
                        links.push(port);
                        // Each cable once, from its smaller end.
                        if end < far && !parts.join(switch, far.0) {
                            let port = self.place(end);
                            let mlid = group.mlid;
                            self.error(Fault::MulticastLoop { mlid, port });
                        }
                    }
                }
            }
            if let ([only], false) = (&links[..], receives) {
                branches.insert(switch, *only);
            }
        }
        (parts, branches)
    }

    /// Returns the switches that a group could use, each with the number of its connected part.
    fn land(&mut self, group: &MulticastGroup) -> Vec<u32> {
        let able: Vec<bool> = self
            .switches()
            .map(|switch| self.has_room(switch, group.mlid))
            .collect();
        // Room is a count, so an equal number of switches means the same switches.
        let key = (group.mtu, able.iter().filter(|able| **able).count());
        if let Some(land) = self.lands.get(&key) {
            return land.clone();
        }
        let mut parts = Parts::new(able.len());
        for link in self.subject.fabric.links() {
            let fabric = self.subject.fabric;
            let Some(switch) = fabric.switch_index(link.a.node) else {
                continue;
            };
            let end = (switch, link.a.port);
            if let Ok(Some(far)) = self.beyond(end)
                && able[switch.to_usize()]
                && able[far.0.to_usize()]
                && self.mtu(end).min(self.mtu(far)) >= group.mtu
            {
                parts.join(switch, far.0);
            }
        }
        let land: Vec<u32> = (0..able.len() as u32).map(|switch| parts.of(switch)).collect();
        self.lands.insert(key, land.clone());
        land
    }

    /// Checks that no dependency cycle exists while switches copy by `now` the packets that arrived by `before`.
    fn beside_routes(&mut self, phase: u32, before: &[&MulticastTables], now: &[&MulticastTables]) {
        let MulticastSubject { routes, groups, .. } = *self.subject;
        let copies = routes.of_copies(|mlid| Some(level_of(groups, mlid)), (before, now));
        for ((turn, mlid), circle) in routes.circles(&copies, 1) {
            let channels = circle.iter().map(|&cell| self.place(routes.place(cell))).collect();
            self.error(Fault::MulticastCircle {
                mlid,
                vl: turn.0,
                phase,
                channels,
            });
        }
    }

    fn way(&mut self, change: &MulticastChange) {
        let MulticastSubject { held, wanted, .. } = *self.subject;
        let mut now = held.clone();
        let mut past = vec![held.clone()];
        for (phase, number) in change.phases.iter().zip(1_u32..) {
            let before = now.clone();
            for set in phase {
                if !self.is_between(set) {
                    self.amiss(set.switch, (set.block, set.position));
                }
                now.set_block(set.switch, (set.block, set.position), set.data);
            }
            let mut places = BTreeSet::new();
            if phase
                .iter()
                .any(|set| !places.insert((set.switch, set.block, set.position)))
            {
                // The order within a phase is not known.
                let set = &phase[0];
                self.amiss(set.switch, (set.block, set.position));
            }
            for mlid in touched(phase, &before) {
                self.mix(mlid, number, (&before, &now));
            }
            past.push(now.clone());
            // A phase that only removes ports may begin with a loop that already existed.
            let grows = |set: &MftSet| {
                let old = before.block(set.switch, set.block, set.position);
                old.iter().zip(&set.data).any(|(old, new)| new & !old != 0)
            };
            if phase.iter().any(grows) {
                let came_by: Vec<&MulticastTables> = past.iter().collect();
                self.beside_routes(number, &came_by, &[&before, &now]);
            }
        }
        for switch in self.switches() {
            let blocks = [now.blocks(switch), wanted.blocks(switch)];
            let places: BTreeSet<(u16, u8)> = blocks.into_iter().flatten().flat_map(|b| b.keys().copied()).collect();
            for (block, position) in places {
                if now.block(switch, block, position) != wanted.block(switch, block, position) {
                    self.amiss(switch, (block, position));
                }
            }
        }
    }

    /// True if a Set removes no port that stays and adds no port that is not planned.
    fn is_between(&self, set: &MftSet) -> bool {
        let MulticastSubject {
            held, wanted, fabric, ..
        } = *self.subject;
        let of = |tables: &MulticastTables| tables.block(set.switch, set.block, set.position);
        let (old, new) = (of(held), of(wanted));
        let fits = (0..MFT_LIDS).all(|i| {
            let (least, most) = (old[i] & new[i], old[i] | new[i]);
            set.data[i] & least == least && set.data[i] | most == most
        });
        fits && set.switch.to_usize() < fabric.switches().len()
    }

    fn amiss(&mut self, switch: SwitchIdx, place: (u16, u8)) {
        self.error(not_as_planned(self.subject.fabric, switch, place));
    }

    /// Checks that no mix of a group's old and new masks has a loop, unless the phase only removes ports.
    fn mix(&mut self, mlid: Lid, phase: u32, (before, after): (&MulticastTables, &MulticastTables)) {
        let masks = |switch| (before.mask(switch, mlid), after.mask(switch, mlid));
        if self.switches().all(|switch| {
            let (old, new) = masks(switch);
            new.is_within(old)
        }) {
            return;
        }
        let union: Vec<PortMask> = (self.switches())
            .map(|switch| {
                let (old, new) = masks(switch);
                old.union(new)
            })
            .collect();
        let mut parts = Parts::new(union.len());
        for switch in self.switches() {
            for port in union[switch.to_usize()]
                .iter()
                .filter(|port| *port != PortNum::MANAGEMENT)
            {
                let end = (switch, port);
                let Ok(Some(far)) = self.beyond(end) else { continue };
                // Counted from the other end already, if that end uses the cable too.
                let is_second = far < end && union[far.0.to_usize()].contains(far.1);
                if !is_second && !parts.join(switch, far.0) {
                    let port = self.place(end);
                    self.error(Fault::MulticastWay { mlid, phase, port });
                    return;
                }
            }
        }
    }
}

/// Returns the multicast LIDs with a mask that a phase changes.
fn touched(phase: &[MftSet], before: &MulticastTables) -> BTreeSet<Lid> {
    let lids = phase.iter().flat_map(|set| {
        let old = before.block(set.switch, set.block, set.position);
        let changed = (0..MFT_LIDS as u16).filter(move |i| old[usize::from(*i)] != set.data[usize::from(*i)]);
        changed.map(|i| {
            Lid(Lid::MULTICAST_MIN
                .0
                .saturating_add(set.block.saturating_mul(MFT_LIDS as u16))
                .saturating_add(i))
        })
    });
    lids.collect()
}
