//! Quality of service: which service level, P_Key and limits a path gets from OpenSM's policy file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{Bench, Value, Wish, number};
use selvedge_plan::partition::Partitions;
use selvedge_plan::qos::{Level, LevelRef, MatchRule, PathRules, PlannedQos, PolicyFile, PortLanes, Resolved};
use selvedge_plan::{LaneTables, Plan, ServiceLevels};
use selvedge_sa::{Input, Snapshot};
use selvedge_types::{Mtu, PKey, Sl, Vl};
use selvedge_wire::sa::{Field, SaStatus, records};
use selvedge_wire::{Method, Status};

use records::path as f;

const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";

const fn sl(sl: u8) -> Sl {
    Sl::new(sl).unwrap()
}

/// A row with these service levels on lane 15.
fn row(dropped: &[u8]) -> [Vl; Sl::COUNT] {
    std::array::from_fn(|level| {
        let is_dropped = dropped.iter().any(|sl| usize::from(*sl) == level);
        if is_dropped { Vl::MANAGEMENT } else { Vl::default() }
    })
}

/// Two levels, and rules for a QoS class and a service ID.
fn policy() -> PolicyFile {
    let level = |name: &str, level: Level| Level {
        name: name.to_owned(),
        ..level
    };
    PolicyFile {
        levels: vec![
            level(
                "DEFAULT",
                Level {
                    sl: sl(2),
                    ..Level::default()
                },
            ),
            level(
                "narrow",
                Level {
                    sl: sl(5),
                    mtu: Some(Mtu::B512),
                    rate: Some(3),
                    packet_life: Some(7),
                    ..Level::default()
                },
            ),
            level(
                "keyed",
                Level {
                    sl: sl(6),
                    pkeys: [(0x10, 0x20)].into_iter().collect(),
                    ..Level::default()
                },
            ),
        ],
        rules: vec![
            MatchRule {
                classes: [(7, 9)].into_iter().collect(),
                level: LevelRef::Level(1),
                ..MatchRule::default()
            },
            MatchRule {
                service_ids: [(0x100_0000_0000_0001, 0x100_0000_0000_0010)].into_iter().collect(),
                level: LevelRef::Level(2),
                ..MatchRule::default()
            },
        ],
        default: LevelRef::Level(0),
        ..PolicyFile::default()
    }
}

/// An administrator with this policy. Hosts drop SL 3, and the last switch port of each path drops SL 4.
fn bench(policy: Option<PolicyFile>) -> Bench {
    let wish = Wish {
        keys: (0..4)
            .map(|host| (host, vec![PKey::DEFAULT_FULL, PKey(0x8011)]))
            .collect(),
        ..Wish::new(TREE)
    };
    let mut bench = Bench::new(&wish);
    let mut sources = wish.sources();
    let fabric = Arc::clone(&sources.fabric);
    let lanes = |at: &selvedge_fabric::PortRef| PortLanes {
        row: Some(if fabric.switch_index(at.node).is_some() {
            row(&[4])
        } else {
            row(&[3])
        }),
        ..PortLanes::default()
    };
    let policy = policy.map(|policy| {
        let policy = Arc::new(policy);
        Arc::new(Resolved {
            members: vec![Default::default(); policy.groups.len()],
            policy,
        })
    });
    let plan: &mut Plan = Arc::make_mut(&mut sources.plan);
    plan.lane_tables = Some(LaneTables {
        lanes: 1,
        copies: None,
        levels: ServiceLevels::default(),
        qos: Some(Arc::new(PlannedQos {
            ports: plan.ports.keys().map(|at| (*at, lanes(at))).collect::<BTreeMap<_, _>>(),
            rules: PathRules::OpenSm(policy),
            promises: Vec::new(),
        })),
    });
    let mut partitions = Partitions::only_default(&[]);
    for (key, level) in [(Partitions::DEFAULT, 1), (0x11, 8)] {
        let named = partitions.partitions.get(&Partitions::DEFAULT).cloned().unwrap();
        let partition = selvedge_plan::partition::Partition {
            key,
            sl: sl(level),
            ..named
        };
        partitions.partitions.insert(key, partition);
    }
    sources.partitions = Arc::new(partitions);
    bench.feed(Input::Committed(Arc::new(Snapshot::new(sources))));
    bench
}

/// Asks for the path from host 0 to host 3. Returns SL, P_Key, and codes of MTU, rate and lifetime.
fn ask(bench: &mut Bench, more: &[(Field, u64)]) -> Option<[u64; 5]> {
    let mut question: Vec<(Field, Value)> =
        vec![(f::SLID, number(bench.host(0).0)), (f::DLID, number(bench.host(3).0))];
    question.extend(more.iter().map(|(field, value)| (*field, number(*value))));
    let told = bench.ask(Method::Get, &records::PATH, &question);
    if told.status == SaStatus::NO_RECORDS {
        return None;
    }
    assert_eq!(told.status, Status::OK);
    Some([f::SL, f::PKEY, f::MTU, f::RATE, f::LIFE].map(|field| field.get(&told.rows[0])))
}

#[test]
fn requests_levels_and_partitions_have_opensms_precedence() {
    let level = |found: Option<[u64; 5]>| found.map(|found| (found[0], found[1]));
    let (mut with, mut without) = (bench(Some(policy())), bench(None));
    let mut check = |more: &[(Field, u64)], by_policy: Option<(u64, u64)>, by_partition: Option<(u64, u64)>| {
        assert_eq!(level(ask(&mut with, more)), by_policy, "with a policy: {more:?}");
        assert_eq!(level(ask(&mut without, more)), by_partition, "without: {more:?}");
    };
    let id = [(f::SERVICE_ID_MSB, 1), (f::SERVICE_ID_LSB, 5)];
    check(&[], Some((2, 0xFFFF)), Some((1, 0xFFFF)));
    check(&[(f::PKEY, 0x11)], Some((2, 0x8011)), Some((8, 0x8011)));
    check(&[(f::QOS_CLASS, 8)], Some((5, 0xFFFF)), Some((1, 0xFFFF)));
    check(&[(f::QOS_CLASS, 10)], Some((2, 0xFFFF)), Some((1, 0xFFFF)));
    // The level's P_Key has no membership bit, as in OpenSM.
    check(&id, Some((6, 0x11)), Some((1, 0xFFFF)));
    check(&[id[0], id[1], (f::PKEY, 0xFFFF)], None, Some((1, 0xFFFF)));
    // A requested service level must be that of the policy's level, and needs a lane at every hop.
    check(&[(f::SL, 2)], Some((2, 0xFFFF)), Some((2, 0xFFFF)));
    check(&[(f::SL, 7)], None, Some((7, 0xFFFF)));
    check(&[(f::SL, 3)], None, None);
    check(&[(f::SL, 4)], None, None);
}

#[test]
fn a_level_limits_mtu_rate_and_lifetime() {
    let mut bench = bench(Some(policy()));
    let plain = ask(&mut bench, &[]).unwrap();
    let narrow = ask(&mut bench, &[(f::QOS_CLASS, 7)]).unwrap();
    assert_eq!(narrow[2..], [u64::from(Mtu::B512.code()), 3, 7]);
    assert!(plain[2] > narrow[2] && plain[4] > 7, "{plain:?}");
    // A query for more than the limit has no path.
    let larger = [
        (f::QOS_CLASS, 7),
        (f::MTU_SELECTOR, 0),
        (f::MTU, u64::from(Mtu::B512.code())),
    ];
    assert_eq!(ask(&mut bench, &larger), None);
}

#[test]
fn several_sources_get_the_same_levels() {
    use records::multi_path as m;
    let mut bench = bench(Some(policy()));
    let gids: Vec<u8> = [0, 1, 3].iter().flat_map(|host| bench.gid(*host).0).collect();
    let question = [
        (m::SGID_COUNT, number(2_u8)),
        (m::DGID_COUNT, number(1_u8)),
        (m::QOS_CLASS, number(9_u16)),
        (m::GIDS, Value::Bytes(gids)),
    ];
    let told = bench.ask(Method::GetMulti, &records::MULTI_PATH, &question);
    assert_eq!(told.status, Status::OK);
    let levels: Vec<u64> = told.rows.iter().map(|row| f::SL.get(row)).collect();
    assert_eq!(levels, [5, 5]);
}
