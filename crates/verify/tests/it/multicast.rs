//! The judge of multicast tables, compared with simulated copies, switch by switch, on random fabrics.

use crate::support;
use std::collections::{BTreeMap, BTreeSet};

use crate::support::port;
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::Generation;
use selvedge_plan::multicast::{
    Member, MulticastChange, MulticastGroup, MulticastGroups, MulticastTables, PortMask, multicast_changes,
};
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Guid, Lid, Mtu, NodeKind, PortNum, Sl};
use selvedge_verify::{JudgeOptions, Kind, MulticastSubject, RouteTurns, judge_multicast, verify_multicast};

const MLID: Lid = Lid(0xC003);

/// A connected random fabric, and a port GUID for each host.
fn fabric(rng: &mut Rng) -> Fabric {
    let mut net = support::Net::new(6, 30);
    for i in 1..6 {
        net.link(i, rng.below(i as u64) as usize);
    }
    for _ in 0..5 {
        let a = rng.below(6) as usize;
        net.link(a, (a + 1 + rng.below(5) as usize) % 6);
    }
    for host in 0..12 {
        net.host(rng.below(6) as usize);
        let keys: Vec<_> = net.builder().nodes().map(|(key, _)| key).collect();
        let node = net.builder().node_mut(*keys.last().unwrap());
        node.port_mut(port(1)).unwrap().guid = Guid(0x9000 + host);
    }
    net.finish(selvedge_types::PortState::Active)
}

fn hosts(fabric: &Fabric) -> Vec<Guid> {
    let ends = fabric
        .end_ports()
        .filter(|(at, _)| fabric.node(at.node).kind == NodeKind::Ca);
    ends.map(|(_, port)| port.guid).collect()
}

fn groups(members: &[Guid]) -> MulticastGroups {
    let mut groups = MulticastGroups::default();
    let member = |&guid: &Guid| Member { guid, receives: true };
    groups.put(MulticastGroup {
        mlid: MLID,
        mtu: Mtu::B256,
        sl: Sl::default(),
        members: members.iter().map(member).collect(),
    });
    groups
}

fn switches(fabric: &Fabric) -> impl Iterator<Item = SwitchIdx> + use<> {
    (0..fabric.switches().len() as u32).map(SwitchIdx)
}

fn insert(masks: &mut BTreeMap<u32, PortMask>, fabric: &Fabric, at: PortRef) {
    if let Some(switch) = fabric.switch_index(at.node) {
        masks.entry(switch.0).or_default().insert(at.port);
    }
}

/// Returns a tree over a random spanning tree, reduced to what members need.
fn tree(fabric: &Fabric, members: &[Guid], rng: &mut Rng) -> MulticastTables {
    let mut links: Vec<_> = fabric.links().collect();
    rng.shuffle(&mut links);
    let mut part: Vec<u32> = (0..fabric.switches().len() as u32).collect();
    let mut kept = Vec::new();
    for link in links {
        let ends = fabric.switch_index(link.a.node).zip(fabric.switch_index(link.b.node));
        let Some((a, b)) = ends.map(|(a, b)| (part[a.0 as usize], part[b.0 as usize])) else {
            continue;
        };
        if a != b {
            part.iter_mut().filter(|p| **p == b).for_each(|p| *p = a);
            kept.push(link);
        }
    }
    let doors: Vec<PortRef> = members
        .iter()
        .map(|&guid| fabric.peer(fabric.find_port(guid).unwrap()).unwrap())
        .collect();
    loop {
        let ends = |node| {
            kept.iter()
                .filter(|link| link.a.node == node || link.b.node == node)
                .count()
        };
        let is_idle = |node| ends(node) == 1 && doors.iter().all(|door| door.node != node);
        let Some(at) = kept
            .iter()
            .position(|link| is_idle(link.a.node) || is_idle(link.b.node))
        else {
            break;
        };
        kept.remove(at);
    }
    // Without a member nearby, the remaining switches are a separate part.
    let mut masks = BTreeMap::new();
    for link in kept {
        insert(&mut masks, fabric, link.a);
        insert(&mut masks, fabric, link.b);
    }
    doors.into_iter().for_each(|door| insert(&mut masks, fabric, door));
    let mut tables = MulticastTables::new(fabric.switches().len());
    masks
        .into_iter()
        .for_each(|(switch, mask)| tables.set_mask(SwitchIdx(switch), MLID, mask));
    tables
}

/// True if every member gets every packet of each other member once, and no other port gets any.
fn is_good(fabric: &Fabric, members: &[Guid], tables: &MulticastTables) -> bool {
    members.iter().all(|&sender| {
        let at = fabric.find_port(sender).unwrap();
        let (mut got, mut hops) = (Vec::new(), 0);
        let mut under_way = vec![fabric.peer(at).unwrap()];
        while let Some(at) = under_way.pop() {
            hops += 1;
            if hops > 5_000 {
                return false;
            }
            match fabric.switch_index(at.node) {
                None => got.push(fabric.port(at).unwrap().guid),
                Some(switch) => {
                    let exits = tables.mask(switch, MLID).iter().filter(|exit| *exit != at.port);
                    under_way.extend(exits.filter_map(|port| fabric.peer(PortRef { node: at.node, port })));
                }
            }
        }
        got.sort_unstable();
        let want: Vec<Guid> = members.iter().copied().filter(|member| *member != sender).collect();
        got == want
    })
}

fn is_accepted(fabric: &Fabric, members: &[Guid], wanted: &MulticastTables) -> bool {
    let (groups, held) = (groups(members), MulticastTables::new(wanted.switches()));
    let subject = MulticastSubject {
        fabric,
        groups: &groups,
        held: &held,
        wanted,
        routes: &RouteTurns::none(fabric),
        apart: &BTreeSet::new(),
    };
    verify_multicast(&subject, &JudgeOptions::default()).is_ok()
}

fn pick(fabric: &Fabric, rng: &mut Rng) -> Vec<Guid> {
    let mut members = hosts(fabric);
    rng.shuffle(&mut members);
    members.truncate(2 + rng.below(6) as usize);
    members.sort_unstable();
    members
}

#[test]
fn what_is_accepted_arrives_once_and_any_other_bit_is_refused() {
    let (mut refused, mut wrong) = (0, 0);
    for seed in 1..=30 {
        let mut rng = Seed(seed).rng();
        let fabric = fabric(&mut rng);
        let members = pick(&fabric, &mut rng);
        let good = tree(&fabric, &members, &mut rng);
        assert!(is_good(&fabric, &members, &good), "seed {seed}");
        assert!(is_accepted(&fabric, &members, &good), "seed {seed}");
        for switch in switches(&fabric) {
            for number in 0..=30 {
                let (mut tables, mask) = (good.clone(), good.mask(switch, MLID));
                let mut flipped = PortMask::default();
                let bit = PortNum::new(number).unwrap();
                mask.iter()
                    .filter(|port| *port != bit)
                    .for_each(|port| flipped.insert(port));
                if !mask.contains(bit) {
                    flipped.insert(bit);
                }
                tables.set_mask(switch, MLID, flipped);
                assert!(
                    !is_accepted(&fabric, &members, &tables),
                    "seed {seed}: {} port {number}",
                    switch.0
                );
                refused += 1;
                wrong += u32::from(!is_good(&fabric, &members, &tables));
            }
        }
        // Two trees at once, and other members.
        let other = tree(&fabric, &members, &mut rng);
        let mut both = good.clone();
        for switch in switches(&fabric) {
            both.set_mask(switch, MLID, good.mask(switch, MLID).union(other.mask(switch, MLID)));
        }
        assert!(
            !is_accepted(&fabric, &members, &both) || is_good(&fabric, &members, &both),
            "seed {seed}"
        );
        let others = pick(&fabric, &mut rng);
        assert_eq!(is_accepted(&fabric, &others, &good), others == members, "seed {seed}");
    }
    assert!(
        refused > 5_000 && wrong > 200,
        "{refused} refused, {wrong} of them wrong"
    );
}

/// Kinds of errors of a change.
fn errors(
    fabric: &Fabric,
    members: &[Guid],
    (held, wanted): (&MulticastTables, &MulticastTables),
    change: MulticastChange,
) -> BTreeSet<Kind> {
    let groups = groups(members);
    let subject = MulticastSubject {
        fabric,
        groups: &groups,
        held,
        wanted,
        routes: &RouteTurns::none(fabric),
        apart: &BTreeSet::new(),
    };
    match judge_multicast(&subject, change, &JudgeOptions::default()) {
        Ok(_) => BTreeSet::new(),
        // If packets can loop, their dependencies form a cycle too; `multicast_beside.rs` tests that.
        Err(refusal) => {
            let kinds = refusal.verdict.errors().map(|finding| finding.fault.kind());
            kinds.filter(|kind| *kind != Kind::MulticastCircle).collect()
        }
    }
}

/// True if the links of both tables together form a loop.
fn has_circle(fabric: &Fabric, a: &MulticastTables, b: &MulticastTables) -> bool {
    let mut part: Vec<u32> = (0..fabric.switches().len() as u32).collect();
    let is_used = |at: PortRef| {
        let switch = fabric.switch_index(at.node);
        switch.is_some_and(|switch| a.mask(switch, MLID).union(b.mask(switch, MLID)).contains(at.port))
    };
    fabric
        .links()
        .filter(|link| is_used(link.a) || is_used(link.b))
        .any(|link| {
            let ends = fabric.switch_index(link.a.node).zip(fabric.switch_index(link.b.node));
            ends.is_some_and(|(a, b)| {
                let (a, b) = (part[a.0 as usize], part[b.0 as usize]);
                part.iter_mut().filter(|p| **p == b).for_each(|p| *p = a);
                a == b
            })
        })
}

#[test]
fn ways_without_a_circle_pass_and_others_do_not() {
    let mut circles = 0;
    for seed in 100..=140 {
        let mut rng = Seed(seed).rng();
        let fabric = fabric(&mut rng);
        let members = pick(&fabric, &mut rng);
        let (held, wanted) = (tree(&fabric, &members, &mut rng), tree(&fabric, &members, &mut rng));
        let change = multicast_changes(Generation(1), &held, &wanted);
        let judged = |change| errors(&fabric, &members, (&held, &wanted), change);
        assert_eq!(judged(change.clone()), BTreeSet::new(), "seed {seed}");
        let Some(last) = change.phases.last().cloned() else {
            continue;
        };
        // All at once.
        let mut at_once = change.clone();
        let mut sets: BTreeMap<_, _> = BTreeMap::new();
        for set in at_once.phases.iter().flatten() {
            sets.insert((set.switch, set.block, set.position), set.clone());
        }
        at_once.phases = vec![sets.into_values().collect()];
        let want = match has_circle(&fabric, &held, &wanted) {
            true => BTreeSet::from([Kind::MulticastWay]),
            false => BTreeSet::new(),
        };
        circles += u32::from(!want.is_empty());
        assert_eq!(judged(at_once), want, "seed {seed}");
        // One Set is missing; one writes ports that are not planned.
        let mut short = change.clone();
        short.phases.last_mut().unwrap().pop();
        assert!(judged(short).contains(&Kind::MulticastChange), "seed {seed}");
        let mut beyond = change.clone();
        let mut set = last[0].clone();
        set.data[20] = 2;
        beyond.phases.last_mut().unwrap()[0] = set;
        assert!(judged(beyond).contains(&Kind::MulticastChange), "seed {seed}");
    }
    assert!(circles > 10, "{circles}");
}
