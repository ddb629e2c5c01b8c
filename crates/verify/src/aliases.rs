//! Judges Sets of GUIDInfo (alias GUIDs). A port keeps its own GUID in entry 0 and gets the planned aliases, as far as
//! its table has entries. No two ports ever have the same GUID.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::aliases::{AliasChange, BLOCK_GUIDS, GuidSet, HeldGuids, PortAliases, aliases_in};
use selvedge_types::{Guid, PortNum, PortState};
use serde::Serialize;

use crate::figures::Figures;
use crate::finding::{Fault, Finding, Place, Severity};
use crate::judged::{JudgeOptions, Judged, Refusal, passed};
use crate::verdict::Docket;

/// What is wrong with a Set of GUIDInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AliasFault {
    /// The port does not exist, or is no end port.
    NoPort,
    /// The first entry is not the port's own GUID.
    OwnGuid,
    /// The port has no room for an entry.
    NoRoom,
    /// The Set differs from the aliases planned for the port.
    NotAsWanted,
    /// Another port has one of the GUIDs when the Set is sent.
    Taken(
        /// The GUID.
        Guid,
    ),
}

/// Judges a change of alias GUIDs.
///
/// `held` is the last known GUIDInfo of each port, `wanted` the planned one. A port without an ACTIVE link is not
/// checked for conflicts, because no other port can reach its GUIDs. If the manager activates the link later, it must
/// first read the GUIDInfo of the port.
///
/// # Errors
/// A refusal with the whole verdict, if there is any error.
pub fn judge_aliases(
    fabric: &Fabric,
    held: &HeldGuids,
    wanted: &BTreeMap<Guid, PortAliases>,
    change: AliasChange,
    options: &JudgeOptions,
) -> Result<Judged<AliasChange>, Box<Refusal>> {
    let mut docket = Docket::new(options);
    // For each GUID, the ports that have it and in how many blocks. Ports missing from the fabric have no GUID.
    let mut holders: BTreeMap<Guid, BTreeMap<Guid, u32>> = BTreeMap::new();
    let mut now = HeldGuids::new();
    let sets = change.phases.iter().flatten();
    let written: BTreeSet<Guid> = sets.flat_map(|set| set.guids).collect();
    for (&(port, _), block) in held.iter().filter(|((port, _), _)| is_seen(fabric, *port)) {
        for guid in aliases_in(port, block).filter(|guid| written.contains(guid)) {
            *holders.entry(guid).or_default().entry(port).or_default() += 1;
        }
    }
    for phase in &change.phases {
        // Agents may apply the Sets of one phase in any order, so a GUID removed in a phase is free only after that
        // phase.
        let mut freed = Vec::new();
        for set in phase {
            let own = match of_port(fabric, wanted, set) {
                Ok(own) => own,
                Err(why) => {
                    docket.add(refused(fabric, set, why));
                    continue;
                }
            };
            let place = (own, set.block);
            let before = now.insert(place, set.guids).or_else(|| held.get(&place).copied());
            let before = before.unwrap_or_default();
            for guid in aliases_in(own, &set.guids) {
                let others = holders.entry(guid).or_default();
                *others.entry(own).or_default() += 1;
                let is_others = fabric.find_port(guid).is_some() || others.keys().any(|port| *port != own);
                if is_others {
                    docket.add(refused(fabric, set, AliasFault::Taken(guid)));
                }
            }
            freed.extend(aliases_in(own, &before).map(|guid| (guid, own)));
        }
        for (guid, own) in freed {
            let Some(others) = holders.get_mut(&guid) else { continue };
            let left = others.get(&own).map_or(0, |count| count.saturating_sub(1));
            match left {
                0 => drop(others.remove(&own)),
                left => drop(others.insert(own, left)),
            }
        }
    }
    passed(change, docket.verdict(Figures::default()))
}

/// True if other ports can see the port's GUIDs: its link is ACTIVE, or it is port 0 of a switch.
fn is_seen(fabric: &Fabric, port: Guid) -> bool {
    let at = fabric.find_port(port);
    at.is_some_and(|at| {
        let link = fabric.port(at).map(|port| port.link.state);
        at.port == PortNum::MANAGEMENT || link == Some(PortState::Active)
    })
}

/// Returns the GUID of the port that a Set is for, if the Set itself is valid.
fn of_port(fabric: &Fabric, wanted: &BTreeMap<Guid, PortAliases>, set: &GuidSet) -> Result<Guid, AliasFault> {
    let is_end = fabric.nodes().get(set.port.node).is_some_and(|node| {
        let is_own = set.port.port == PortNum::MANAGEMENT;
        node.is_switch() == is_own
    });
    let port = fabric.port(set.port).filter(|_| is_end).ok_or(AliasFault::NoPort)?;
    if set.block == 0 && set.guids[0] != port.guid {
        return Err(AliasFault::OwnGuid);
    }
    let room = usize::from(port.capability.guids).saturating_sub(usize::from(set.block) * BLOCK_GUIDS);
    if set.guids.iter().skip(room).any(|guid| *guid != Guid::NONE) {
        return Err(AliasFault::NoRoom);
    }
    let shall = wanted.get(&port.guid);
    for (place, guid) in set.guids.iter().enumerate() {
        let entry = u8::try_from(usize::from(set.block) * BLOCK_GUIDS + place);
        let entry = entry.map_err(|_| AliasFault::NoRoom)?;
        let want = shall.and_then(|shall| shall.guids.get(&entry).copied());
        let is_right = match entry {
            0 => true,
            _ => *guid == want.unwrap_or(Guid::NONE) || *guid == Guid::NONE,
        };
        if !is_right {
            return Err(AliasFault::NotAsWanted);
        }
    }
    Ok(port.guid)
}

fn refused(fabric: &Fabric, set: &GuidSet, why: AliasFault) -> Finding {
    let port = match fabric.port(set.port) {
        Some(_) => Place::port(fabric, set.port),
        None => nowhere(set.port),
    };
    let block = set.block;
    Finding::new(Severity::Error, Fault::AliasChange { port, block, why })
}

fn nowhere(at: PortRef) -> Place {
    Place {
        node_guid: Guid::NONE,
        port: Some(at.port),
        name: format!("node {}[{}]", at.node.0, at.port),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node, NodeIdx};
    use selvedge_types::NodeKind;

    use super::*;

    /// Hosts with GUIDs 1, 2, 3 and room for the given numbers of entries. The link of the third host is down.
    fn fabric(rooms: [u8; 3]) -> Fabric {
        let mut builder = FabricBuilder::new();
        for (number, room) in (1..).zip(rooms) {
            let mut node = Node::new(NodeKind::Ca, Guid(0x10 + number), 1, "h");
            let port = node.port_mut(PortNum::new(1).unwrap()).unwrap();
            port.guid = Guid(number);
            port.capability.guids = room;
            port.link.state = if number == 3 {
                PortState::Down
            } else {
                PortState::Active
            };
            builder.add(node);
        }
        builder.finish().unwrap()
    }

    /// One Set: node, block and the GUIDs it writes.
    type Phase<'a> = &'a [(u32, u8, &'a [u64])];

    /// Compares the faults that the judge finds with the expected ones. Each Set is (port, block, GUIDs), grouped by
    /// phase.
    fn check(held: &[(u64, u8, &[u64])], wanted: &[(u64, u8, u64)], phases: &[Phase<'_>], want: &[AliasFault]) {
        let fabric = fabric([16, 5, 16]);
        let block = |guids: &[u64]| core::array::from_fn(|at| Guid(guids.get(at).copied().unwrap_or(0)));
        let holds: HeldGuids = held
            .iter()
            .map(|&(port, number, guids)| ((Guid(port), number), block(guids)))
            .collect();
        let mut shall: BTreeMap<Guid, PortAliases> = BTreeMap::new();
        for &(port, entry, guid) in wanted {
            let port = Guid(port);
            let guids = BTreeMap::new();
            let of = shall.entry(port).or_insert(PortAliases { port, guids });
            of.guids.insert(entry, Guid(guid));
        }
        let set = |&(node, number, guids): &(u32, u8, &[u64])| GuidSet {
            port: PortRef {
                node: NodeIdx(node),
                port: PortNum::new(1).unwrap(),
            },
            block: number,
            guids: block(guids),
        };
        let sets = phases.iter().map(|phase| phase.iter().map(set).collect());
        let change = AliasChange { phases: sets.collect() };
        let said = judge_aliases(&fabric, &holds, &shall, change, &JudgeOptions::default());
        let found: Vec<AliasFault> = match said {
            Ok(_) => Vec::new(),
            Err(refusal) => {
                let errors = refusal.verdict.errors();
                let why = errors.filter_map(|finding| match finding.fault {
                    Fault::AliasChange { why, .. } => Some(why),
                    _ => None,
                });
                why.collect()
            }
        };
        assert_eq!(found, want, "{held:?} {wanted:?} {phases:?}");
    }

    #[test]
    fn sets_write_what_is_wanted() {
        let wanted = [(1, 1, 11), (1, 9, 19), (2, 4, 24)];
        check(
            &[],
            &wanted,
            &[&[(0, 0, &[1, 11]), (0, 1, &[0, 19]), (1, 0, &[2, 0, 0, 0, 24])]],
            &[],
        );
        // A first part of the planned aliases is accepted.
        check(&[], &wanted, &[&[(0, 0, &[1])]], &[]);
        check(&[], &wanted, &[&[(0, 0, &[1, 12])]], &[AliasFault::NotAsWanted]);
        check(&[], &wanted, &[&[(1, 0, &[2, 11])]], &[AliasFault::NotAsWanted]);
        check(&[], &wanted, &[&[(0, 0, &[0, 11])]], &[AliasFault::OwnGuid]);
        check(&[], &wanted, &[&[(1, 0, &[2, 0, 0, 0, 24, 25])]], &[AliasFault::NoRoom]);
        check(&[], &wanted, &[&[(0, 2, &[7])]], &[AliasFault::NoRoom]);
        check(&[], &wanted, &[&[(0, 2, &[])]], &[]);
        check(&[], &wanted, &[&[(7, 0, &[1])]], &[AliasFault::NoPort]);
    }

    #[test]
    fn no_two_ports_have_one_guid() {
        let moved = [(2, 1, 11)];
        let (gives, takes): (Phase<'_>, Phase<'_>) = (&[(0, 0, &[1])], &[(1, 0, &[2, 11])]);
        let held: [(u64, u8, &[u64]); 1] = [(1, 0, &[1, 11])];
        check(&held, &moved, &[gives, takes], &[]);
        // A GUID moves in one phase, or is given to the new port before the old port releases it.
        check(&held, &moved, &[&[gives[0], takes[0]]], &[AliasFault::Taken(Guid(11))]);
        check(&held, &moved, &[takes], &[AliasFault::Taken(Guid(11))]);
        check(&held, &moved, &[takes, gives], &[AliasFault::Taken(Guid(11))]);
        // A port missing from the fabric has no GUID, and GUIDs of a port with a link that is down are not visible.
        let gone: [(u64, u8, &[u64]); 2] = [(9, 0, &[9, 11]), (3, 0, &[3, 11])];
        check(&gone, &moved, &[takes], &[]);
        // A port's own GUID cannot be an alias of another port.
        check(&[], &[(2, 1, 1)], &[&[(1, 0, &[2, 1])]], &[AliasFault::Taken(Guid(1))]);
        // Both ports are planned to have the same GUID.
        let both = [(1, 1, 11), (2, 1, 11)];
        check(
            &[],
            &both,
            &[&[(0, 0, &[1, 11])], takes],
            &[AliasFault::Taken(Guid(11))],
        );
        // Writing the same GUID twice to one port is accepted, also in another block for a moment.
        check(&held, &[(1, 1, 11)], &[&[(0, 0, &[1, 11])]], &[]);
        check(&held, &[(1, 9, 11)], &[&[(0, 1, &[0, 11])], gives], &[]);
        check(
            &held,
            &[(1, 9, 11), (2, 1, 11)],
            &[&[(0, 1, &[0, 11])], gives, takes],
            &[AliasFault::Taken(Guid(11))],
        );
    }
}
