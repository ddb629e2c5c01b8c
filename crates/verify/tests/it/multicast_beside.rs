//! Copies together with routes: the judge's cycles, compared with packets followed one by one.

use crate::support;
use std::collections::{BTreeMap, BTreeSet};

use crate::support::port;
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::multicast::{Member, MulticastGroup, MulticastGroups, MulticastTables, multicast_changes};
use selvedge_plan::{BLOCK_LIDS, COPIES_LEVEL, Generation, Lids, ServiceLevels, SlToVl, Tables};
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Guid, Lid, LidRange, Mtu, PortNum, PortState, Sl, Vl};
use selvedge_verify::standing::{CopyTurns, Standing};
use selvedge_verify::{JudgeOptions, Kind, MulticastSubject, RouteTurns, Subject, circular_groups, judge_multicast};

const SWITCHES: usize = 6;

struct World {
    fabric: Fabric,
    lids: Lids,
    tables: Tables,
    groups: MulticastGroups,
    copies: MulticastTables,
}

fn fabric(rng: &mut Rng) -> Fabric {
    let mut net = support::Net::new(SWITCHES as u64, 30);
    for i in 1..SWITCHES {
        net.link(i, rng.below(i as u64) as usize);
    }
    for _ in 0..4 {
        let a = rng.below(SWITCHES as u64) as usize;
        net.link(a, (a + 1 + rng.below(SWITCHES as u64 - 1) as usize) % SWITCHES);
    }
    for host in 0..SWITCHES {
        net.host(host);
        let keys: Vec<_> = net.builder().nodes().map(|(key, _)| key).collect();
        let node = net.builder().node_mut(*keys.last().unwrap());
        node.port_mut(port(1)).unwrap().guid = Guid(0x9000 + host as u64);
    }
    net.finish(PortState::Active)
}

/// A spanning tree towards a switch, drawn at random: the port by which each other switch leaves.
fn towards(fabric: &Fabric, goal: SwitchIdx, rng: &mut Rng) -> BTreeMap<SwitchIdx, PortNum> {
    let mut reached = vec![goal];
    let mut by = BTreeMap::new();
    while by.len() + 1 < SWITCHES {
        let mut exits = Vec::new();
        for switch in (0..SWITCHES as u32).map(SwitchIdx).filter(|s| !reached.contains(s)) {
            let node = fabric.switches()[switch];
            for (port, _) in fabric.node(node).external_ports() {
                let far = fabric
                    .peer(PortRef { node, port })
                    .and_then(|far| fabric.switch_index(far.node));
                exits.extend(far.filter(|far| reached.contains(far)).map(|_| (switch, port)));
            }
        }
        let (switch, port) = exits[rng.below(exits.len() as u64) as usize];
        by.insert(switch, port);
        reached.push(switch);
    }
    by
}

fn world(rng: &mut Rng) -> World {
    let fabric = fabric(rng);
    let mut lids = Lids::new();
    let ends: Vec<PortRef> = fabric.end_ports().map(|(at, _)| at).collect();
    for (at, lid) in ends.iter().zip(1..) {
        lids.insert(*at, LidRange::single(Lid(lid))).unwrap();
    }
    let mut tables = Tables::new(SWITCHES, lids.top());
    for (lid, at) in lids.by_lid() {
        let own = fabric.switch_index(at.node);
        let peer = fabric.peer(at);
        let (goal, last) = match own {
            Some(own) => (own, PortNum::MANAGEMENT),
            None => (fabric.switch_index(peer.unwrap().node).unwrap(), peer.unwrap().port),
        };
        for (switch, port) in towards(&fabric, goal, rng) {
            tables.set(switch, lid, port.get());
        }
        tables.set(goal, lid, last.get());
    }
    let (mut groups, mut copies) = (MulticastGroups::default(), MulticastTables::new(SWITCHES));
    for mlid in [Lid(0xC000), Lid(0xC001)] {
        let member = |host| Member {
            guid: Guid(0x9000 + host as u64),
            receives: true,
        };
        groups.put(MulticastGroup {
            mlid,
            mtu: Mtu::B256,
            sl: Sl::default(),
            members: (0..SWITCHES).map(member).collect(),
        });
        let goal = SwitchIdx(rng.below(SWITCHES as u64) as u32);
        let mut ends: Vec<(SwitchIdx, PortNum)> = Vec::new();
        for (switch, port) in towards(&fabric, goal, rng) {
            let far = fabric
                .peer(PortRef {
                    node: fabric.switches()[switch],
                    port,
                })
                .unwrap();
            ends.extend([(switch, port), (fabric.switch_index(far.node).unwrap(), far.port)]);
        }
        for (at, _) in lids.iter().filter(|(at, _)| fabric.switch_index(at.node).is_none()) {
            let far = fabric.peer(at).unwrap();
            ends.push((fabric.switch_index(far.node).unwrap(), far.port));
        }
        for (switch, port) in ends {
            let mut mask = copies.mask(switch, mlid);
            mask.insert(port);
            copies.set_mask(switch, mlid, mask);
        }
    }
    World {
        fabric,
        lids,
        tables,
        groups,
        copies,
    }
}

/// A channel: the switch port that a packet leaves by, and its lane.
type Channel = (PortRef, Vl);

/// Channels that wait for each other.
type Waits = BTreeSet<(Channel, Channel)>;

/// Levels of destinations, and the lanes of every hop.
type OnLanes<'a> = (&'a ServiceLevels, &'a SlToVl);

impl World {
    fn is_trunk(&self, at: PortRef) -> bool {
        let far = self.fabric.peer(at);
        self.fabric.switch_index(at.node).is_some()
            && far.is_some_and(|far| self.fabric.switch_index(far.node).is_some())
    }

    /// Follows a packet from each end port to each LID, except from switch to switch.
    fn routes(&self, tables: &Tables, (levels, map): OnLanes<'_>) -> Waits {
        let mut waits = Waits::new();
        for (from, _) in self.lids.iter() {
            for (lid, to) in self.lids.by_lid() {
                let is_switch = |at: PortRef| self.fabric.switch_index(at.node).is_some();
                if is_switch(from) && is_switch(to) {
                    continue;
                }
                let mut came = if is_switch(from) {
                    from
                } else {
                    self.fabric.peer(from).unwrap()
                };
                let mut held = None;
                for _ in 0..2 * SWITCHES {
                    let Some(switch) = self.fabric.switch_index(came.node) else {
                        break;
                    };
                    let Some(port) = PortNum::new(tables.get(switch, lid)) else {
                        break;
                    };
                    let at = PortRef { port, ..came };
                    if !self.is_trunk(at) {
                        break;
                    }
                    let channel = (at, map.vl(switch, came.port, port, levels.to(lid)));
                    waits.extend(held.map(|held| (held, channel)));
                    held = Some(channel);
                    came = self.fabric.peer(at).unwrap();
                }
            }
        }
        waits
    }

    /// Copies a packet from each host, group by group.
    fn copies(&self, copies: &MulticastTables, map: &SlToVl) -> Waits {
        let mut waits = Waits::new();
        for (from, _) in self
            .lids
            .iter()
            .filter(|(at, _)| self.fabric.switch_index(at.node).is_none())
        {
            for group in self.groups.iter() {
                let mut open = vec![(self.fabric.peer(from).unwrap(), None::<Channel>)];
                while let Some((came, held)) = open.pop() {
                    let switch = self.fabric.switch_index(came.node).unwrap();
                    for port in copies.mask(switch, group.mlid).iter().filter(|port| *port != came.port) {
                        let at = PortRef { node: came.node, port };
                        if self.is_trunk(at) {
                            let channel = (at, map.vl(switch, came.port, port, group.sl));
                            waits.extend(held.map(|held| (held, channel)));
                            open.push((self.fabric.peer(at).unwrap(), Some(channel)));
                        }
                    }
                }
            }
        }
        waits
    }
}

/// True if there is a cycle: removes channels that wait for no other until none is left or none can be removed.
fn has_circle(waits: &Waits) -> bool {
    let mut left = waits.clone();
    loop {
        let holds: BTreeSet<Channel> = left.iter().map(|(held, _)| *held).collect();
        let before = left.len();
        left.retain(|(_, wanted)| holds.contains(wanted));
        if left.is_empty() || left.len() == before {
            return !left.is_empty();
        }
    }
}

#[test]
fn circles_of_copies_and_routes_are_those_of_packets() {
    let (mut free, mut circular, mut by_routes) = (0, 0, 0);
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    for seed in 0..600 {
        let world = world(&mut Seed(seed).rng());
        let routes = world.routes(&world.tables, (&levels, &lanes));
        if has_circle(&routes) {
            by_routes += 1;
            continue;
        }
        let copies = world.copies(&world.copies, &lanes);
        let want = has_circle(&routes.union(&copies).copied().collect());
        let subject = Subject::tables(&world.fabric, &world.lids, &world.tables, &levels, &lanes);
        let turns = RouteTurns::new(subject, &[]);
        let held = MulticastTables::new(SWITCHES);
        let judged = judge_multicast(
            &MulticastSubject {
                fabric: &world.fabric,
                groups: &world.groups,
                held: &held,
                wanted: &world.copies,
                routes: &turns,
                apart: &BTreeSet::new(),
            },
            multicast_changes(Generation(1), &held, &world.copies),
            &JudgeOptions::default(),
        );
        let kinds: Vec<Kind> = judged.err().map_or_else(Vec::new, |refusal| {
            refusal.verdict.totals.iter().map(|total| total.kind).collect()
        });
        assert_eq!(
            kinds,
            if want { vec![Kind::MulticastCircle] } else { vec![] },
            "seed {seed}"
        );
        let found = circular_groups(&turns, &world.groups, &world.copies);
        assert_eq!(!found.is_empty(), want, "seed {seed}: {found:?}");
        // A standing proof gives the same result.
        let mut standing = Standing::new(subject, selvedge_sim::Par::Sequential).unwrap();
        assert!(standing.proof().holds(), "seed {seed}");
        let ways = (&[&world.copies][..], &[&world.copies][..]);
        let of_copies = CopyTurns::new(&world.fabric, &turns, &world.groups, ways);
        standing.set_copies(&world.fabric, &of_copies.into());
        assert_eq!(!standing.proof().holds(), want, "seed {seed}");
        standing.set_copies(&world.fabric, &CopyTurns::default().into());
        assert!(standing.proof().holds(), "seed {seed}: copies are gone");
        *(if want { &mut circular } else { &mut free }) += 1;
    }
    println!("{free} free, {circular} circular, {by_routes} by routes alone");
    assert!(free > 20 && circular > 20, "{free} free, {circular} circular");
}

/// A repair keeps the cable of a lost link. Packets from switch to switch do not count, so if no host has a link that
/// is up, packets to switches count no more.
#[test]
fn a_host_with_a_lost_link_sends_no_packet_to_switches() {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let mut differ = 0;
    for seed in 0..50 {
        let world = world(&mut Seed(seed).child("lost").rng());
        let mut lost = world.fabric.clone();
        let (mut hosts, mut to_hosts) = (Vec::new(), Lids::new());
        for (at, range) in world.lids.iter().filter(|(at, _)| lost.switch_index(at.node).is_none()) {
            hosts.push(at);
            to_hosts.insert(at, range).unwrap();
        }
        for at in hosts {
            let (mut link, settings) = (lost.port(at).unwrap().link, lost.port(at).unwrap().settings);
            link.state = PortState::Down;
            lost.set_port(at, link, settings);
        }
        let of = |fabric: &Fabric, lids: &Lids| {
            RouteTurns::new(Subject::tables(fabric, lids, &world.tables, &levels, &lanes), &[])
        };
        let routes = of(&lost, &world.lids);
        assert_eq!(routes, of(&lost, &to_hosts), "seed {seed}");
        differ += usize::from(routes != of(&world.fabric, &world.lids));
    }
    assert!(differ > 20, "{differ}");
}

/// Entries that may also be in force: under every mix, all dependencies of packets are counted.
#[test]
fn mixes_are_covered() {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let mut circles = 0;
    for seed in 0..300 {
        let mut rng = Seed(seed).child("mix").rng();
        let world = world(&mut rng);
        let mut other = world.tables.clone();
        let by_lid: Vec<_> = world.lids.by_lid().collect();
        for _ in 0..2 {
            let (lid, at) = by_lid[rng.below(by_lid.len() as u64) as usize];
            let at = world
                .fabric
                .switch_index(at.node)
                .map_or_else(|| world.fabric.peer(at).unwrap().node, |_| at.node);
            for (switch, port) in towards(&world.fabric, world.fabric.switch_index(at).unwrap(), &mut rng) {
                other.set(switch, lid, port.get());
            }
        }
        let mut mix = world.tables.clone();
        for (lid, _) in &by_lid {
            for switch in mix.switch_indices() {
                if rng.below(2) == 0 {
                    mix.set(switch, *lid, other.get(switch, *lid));
                }
            }
        }
        let routes = world.routes(&mix, (&levels, &lanes));
        if has_circle(&routes) {
            continue;
        }
        let together: Waits = routes.union(&world.copies(&world.copies, &lanes)).copied().collect();
        if !has_circle(&together) {
            continue;
        }
        circles += 1;
        let blocks: Vec<(SwitchIdx, u16, [u8; BLOCK_LIDS])> = other
            .switch_indices()
            .map(|switch| (switch, 0, *other.block(switch, 0)))
            .collect();
        let others: Vec<_> = blocks
            .iter()
            .map(|(switch, block, data)| (*switch, *block, data))
            .collect();
        let subject = Subject::tables(&world.fabric, &world.lids, &world.tables, &levels, &lanes);
        let turns = RouteTurns::new(subject, &others);
        assert!(
            !circular_groups(&turns, &world.groups, &world.copies).is_empty(),
            "seed {seed}"
        );
    }
    assert!(circles > 20, "{circles}");
}

/// Copies on their own lane wait only for copies, and the judge finds that. If some ports put them on other lanes,
/// every cycle of channels and lanes is found.
#[test]
fn copies_count_on_the_lane_that_they_take() {
    let lane = |vl| Vl::new(vl).unwrap();
    let usual = SlToVl::with_copies(2, Some(lane(2)));
    let (mut spared, mut strayed, mut free) = (0, 0, 0);
    for seed in 0..900 {
        let mut rng = Seed(seed).child("lanes").rng();
        let mut world = world(&mut rng);
        let of_lids = (0..=world.lids.top().0).map(|_| Sl::new(rng.below(2) as u8).unwrap());
        let levels = ServiceLevels::PerDestination(of_lids.collect());
        let routes = world.routes(&world.tables, (&levels, &usual));
        if has_circle(&routes) {
            continue;
        }
        let found = |world: &World, map: &SlToVl| {
            let subject = Subject::tables(&world.fabric, &world.lids, &world.tables, &levels, map);
            !circular_groups(&RouteTurns::new(subject, &[]), &world.groups, &world.copies).is_empty()
        };
        let circular = |world: &World, map: &SlToVl| {
            let copies = world.copies(&world.copies, map);
            has_circle(&routes.union(&copies).copied().collect())
        };
        let beside = circular(&world, &usual);
        assert_eq!(found(&world, &usual), beside, "seed {seed}: with routes");
        world.groups = world.groups.on_level(COPIES_LEVEL);
        let own = circular(&world, &usual);
        assert_eq!(found(&world, &usual), own, "seed {seed}: on their own");
        spared += u32::from(beside && !own);
        // Rows that put them on a lane of routes.
        let mut map = usual.clone();
        let kind = rng.below(4);
        for (switch, &node) in world.fabric.switches().iter_enumerated() {
            for (egress, _) in world.fabric.node(node).external_ports() {
                for ingress in (0..=world.fabric.node(node).port_count()).filter_map(PortNum::new) {
                    if kind == 0 || rng.below(6) < kind {
                        let mut row = usual.default;
                        row[usize::from(COPIES_LEVEL.get())] = lane(rng.below(2) as u8);
                        map.exceptions.insert((switch, ingress, egress), row);
                    }
                }
            }
        }
        let strays = circular(&world, &map);
        assert!(
            !strays || found(&world, &map),
            "seed {seed}: {:?}",
            map.exceptions.len()
        );
        strayed += u32::from(strays && !own);
        free += u32::from(!own);
    }
    println!("{spared} free on a lane of their own only, {strayed} not where they leave it, {free} free");
    assert!(spared > 20 && strayed > 20 && free > 20, "{spared} {strayed} {free}");
}
