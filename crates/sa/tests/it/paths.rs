//! PathRecord and MultiPathRecord: which paths exist, their properties, and which queries are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::{Bench, Value, Wish, number};
use selvedge_apm::{Hosts, Index, Policy, Routes, Subnet};
use selvedge_fabric::FabricBuilder;
use selvedge_plan::{LaneTables, ServiceLevels};
use selvedge_sa::{Input, Snapshot};
use selvedge_types::{LinkSpeed, LinkWidth, Mtu, PKey, Rate, Sl};
use selvedge_wire::sa::{Field, SaData, SaStatus, records};
use selvedge_wire::{Gid, Method, Status};

use records::path as f;

const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";

/// Returns a fabric in which the host with this number has a slow link.
fn with_slow(host: usize) -> Wish {
    let rate = Rate {
        width: LinkWidth::X4,
        speed: LinkSpeed::Qdr,
    };
    Wish {
        slow: BTreeMap::from([(host, (rate, Mtu::B2048))]),
        ..Wish::new(TREE)
    }
}

fn between(bench: &Bench, from: usize, to: usize) -> Vec<(Field, Value)> {
    vec![
        (f::SLID, number(bench.host(from).0)),
        (f::DLID, number(bench.host(to).0)),
    ]
}

fn fields(row: &SaData) -> [u64; 4] {
    [f::MTU, f::RATE, f::LIFE, f::SL].map(|field: Field| field.get(row))
}

/// A plan that leads around a lost link keeps the LID behind it; queries for its paths are refused.
#[test]
fn an_end_port_without_a_link_has_no_path() {
    let mut bench = Bench::new(&Wish::new(TREE));
    let mut sources = Wish::new(TREE).sources();
    let (lone, mut builder, mut keys) = (bench.hosts()[3].at, FabricBuilder::new(), Vec::new());
    for (_, node) in sources.fabric.nodes().iter_enumerated() {
        keys.push(builder.add(node.clone()));
    }
    for link in sources.fabric.links().filter(|link| ![link.a, link.b].contains(&lone)) {
        let [a, b] = [link.a, link.b].map(|end| (keys[end.node.0 as usize], end.port));
        builder.link(a, b).unwrap();
    }
    sources.fabric = Arc::new(builder.finish().unwrap());
    bench.feed(Input::Committed(Arc::new(Snapshot::new(sources))));
    for (from, to) in [(3, 1), (1, 3)] {
        let question = between(&bench, from, to);
        let told = bench.ask(Method::Get, &records::PATH, &question);
        assert_eq!(told.status, SaStatus::NO_RECORDS, "{from} {to}");
    }
    assert_eq!(
        bench
            .ask(Method::GetTable, &records::PATH, &between(&bench, 3, 1))
            .rows
            .len(),
        0
    );
}

#[test]
fn a_path_carries_what_its_slowest_link_does() {
    let mut bench = Bench::new(&with_slow(5));
    let check = |bench: &mut Bench, from, to, want: [u64; 4]| {
        let question = between(bench, from, to);
        let told = bench.ask(Method::Get, &records::PATH, &question);
        assert_eq!(told.status, Status::OK);
        let row = &told.rows[0];
        assert_eq!(fields(row), want, "{from} {to}");
        assert_eq!(f::PKEY.get(row), 0xFFFF);
        assert_eq!(f::REVERSIBLE.get(row), 1);
        assert_eq!(Gid(f::SGID.wide(row)), bench.gid(from));
        assert_eq!(Gid(f::DGID.wide(row)), bench.gid(to));
        assert_eq!(
            [f::MTU_SELECTOR, f::RATE_SELECTOR, f::LIFE_SELECTOR].map(|s: Field| s.get(row)),
            [2; 3]
        );
    };
    check(&mut bench, 0, 1, [5, 17, 18, 0]);
    check(&mut bench, 0, 7, [5, 17, 18, 0]);
    check(&mut bench, 0, 5, [4, 7, 18, 0]);
    check(&mut bench, 5, 0, [4, 7, 18, 0]);
    check(&mut bench, 5, 5, [4, 7, 0, 0]);
}

#[test]
fn gids_and_lids_name_the_same_ports() {
    let mut bench = Bench::new(&Wish::new(TREE));
    let (a, b) = (bench.gid(0), bench.gid(6));
    let foreign = Gid::new(0x1234, bench.guid(6));
    let nobody = Gid::new(0xFE80_0000_0000_0000, selvedge_types::Guid(0xDEAD));
    let check = |bench: &mut Bench, question: &[(Field, Value)], want: Result<u64, Status>| {
        let told = bench.ask(Method::Get, &records::PATH, question);
        let got = told.rows.first().map(|row| f::DLID.get(row)).ok_or(told.status);
        assert_eq!(got, want, "{question:?}");
    };
    let lid = u64::from(bench.host(6).0);
    check(
        &mut bench,
        &[(f::SGID, Value::Gid(a)), (f::DGID, Value::Gid(b))],
        Ok(lid),
    );
    check(&mut bench, &[(f::SGID, Value::Gid(a)), (f::DLID, number(lid))], Ok(lid));
    check(
        &mut bench,
        &[
            (f::SGID, Value::Gid(a)),
            (f::DGID, Value::Gid(b)),
            (f::DLID, number(lid)),
        ],
        Ok(lid),
    );
    let wrong = [
        (f::SGID, Value::Gid(a)),
        (f::DGID, Value::Gid(b)),
        (f::DLID, number(lid - 1)),
    ];
    check(&mut bench, &wrong, Err(SaStatus::NO_RECORDS));
    check(
        &mut bench,
        &[(f::SGID, Value::Gid(a)), (f::DGID, Value::Gid(foreign))],
        Err(SaStatus::INVALID_GID),
    );
    check(
        &mut bench,
        &[(f::SGID, Value::Gid(a)), (f::DGID, Value::Gid(nobody))],
        Err(SaStatus::INVALID_GID),
    );
    check(
        &mut bench,
        &[(f::SLID, number(1_u16)), (f::DLID, number(0xBFFF_u16))],
        Err(SaStatus::NO_RECORDS),
    );
}

#[test]
fn selectors_select() {
    let mut bench = Bench::new(&with_slow(5));
    let check = |bench: &mut Bench, to: usize, more: [(Field, u64); 2], want: Option<[u64; 4]>| {
        let mut question = between(bench, 0, to);
        question.extend(more.map(|(field, value)| (field, number(value))));
        let told = bench.ask(Method::Get, &records::PATH, &question);
        assert_eq!(told.rows.first().map(fields), want, "{to} {more:?}");
        assert_eq!(told.status == Status::OK, want.is_some());
    };
    let mtu = |selector, value| [(f::MTU_SELECTOR, selector), (f::MTU, value)];
    check(&mut bench, 1, mtu(0, 4), Some([5, 17, 18, 0]));
    check(&mut bench, 5, mtu(0, 4), None);
    check(&mut bench, 1, mtu(2, 3), Some([3, 17, 18, 0]));
    check(&mut bench, 5, mtu(2, 5), None);
    check(&mut bench, 1, mtu(1, 5), Some([4, 17, 18, 0]));
    check(&mut bench, 5, mtu(3, 0), Some([4, 7, 18, 0]));
    let rate = |selector, value| [(f::RATE_SELECTOR, selector), (f::RATE, value)];
    check(&mut bench, 1, rate(0, 16), Some([5, 17, 18, 0]));
    check(&mut bench, 5, rate(0, 16), None);
    check(&mut bench, 5, rate(2, 7), Some([4, 7, 18, 0]));
    // The next slower one: 12x FDR.
    check(&mut bench, 1, rate(1, 17), Some([5, 14, 18, 0]));
    let life = |selector, value| [(f::LIFE_SELECTOR, selector), (f::LIFE, value)];
    check(&mut bench, 1, life(1, 19), Some([5, 17, 18, 0]));
    check(&mut bench, 1, life(1, 18), None);
}

#[test]
fn only_ports_of_one_partition_talk() {
    let keys = BTreeMap::from([
        (0, vec![PKey(0x8001), PKey(0xFFFF)]),
        (1, vec![PKey(0x0001)]),
        (2, vec![PKey(0x8002)]),
        (3, vec![PKey(0x0001)]),
    ]);
    let mut bench = Bench::new(&Wish {
        keys,
        ..Wish::new(TREE)
    });
    bench.key = 1;
    let check = |bench: &mut Bench, from, to, wanted: Option<u64>, want: Option<u64>| {
        let mut question = between(bench, from, to);
        question.extend(wanted.map(|key| (f::PKEY, number(key))));
        let told = bench.ask(Method::Get, &records::PATH, &question);
        assert_eq!(
            told.rows.first().map(|row| f::PKEY.get(row)),
            want,
            "{from} {to} {wanted:?}"
        );
    };
    check(&mut bench, 0, 1, None, Some(0x8001));
    check(&mut bench, 1, 0, None, Some(0x0001));
    check(&mut bench, 1, 3, None, None);
    check(&mut bench, 0, 2, None, None);
    check(&mut bench, 0, 4, None, Some(0xFFFF));
    check(&mut bench, 0, 4, Some(0x7FFF), Some(0xFFFF));
    check(&mut bench, 0, 4, Some(0x8001), None);
    // An untrusted requester sees only ports of its partitions.
    bench.key = 0;
    bench.lid = bench.host(4);
    check(&mut bench, 0, 1, None, None);
    bench.lid = bench.host(0);
    check(&mut bench, 0, 1, None, Some(0x8001));
}

#[test]
fn the_service_level_is_the_plans() {
    let mut levels = vec![Sl::default(); 64];
    let plain = Bench::new(&Wish::new(TREE));
    levels[plain.host(3).index()] = Sl::new(5).unwrap();
    let wish = Wish {
        levels: ServiceLevels::PerDestination(levels),
        ..Wish::new(TREE)
    };
    let mut bench = Bench::new(&wish);
    let check = |bench: &mut Bench, (from, to): (usize, usize), more: &[(Field, u64)], want: Option<(u64, u64)>| {
        let mut question = between(bench, from, to);
        question.extend(more.iter().map(|(field, value)| (*field, number(*value))));
        let told = bench.ask(Method::Get, &records::PATH, &question);
        let got = told.rows.first().map(|row| (f::SL.get(row), f::REVERSIBLE.get(row)));
        assert_eq!(got, want, "{from} {to} {more:?}");
    };
    check(&mut bench, (0, 1), &[], Some((0, 1)));
    // The reverse path has another level: a reply on this level was never judged.
    check(&mut bench, (0, 3), &[], Some((5, 0)));
    check(&mut bench, (3, 0), &[], Some((0, 0)));
    check(&mut bench, (0, 3), &[(f::REVERSIBLE, 1)], None);
    check(&mut bench, (0, 3), &[(f::REVERSIBLE, 0)], Some((5, 0)));
    check(&mut bench, (0, 3), &[(f::SL, 5)], Some((5, 0)));
    check(&mut bench, (0, 3), &[(f::SL, 0)], None);
}

#[test]
fn where_no_proof_relies_on_levels_any_will_do_both_ways() {
    let mut levels = vec![Sl::default(); 64];
    let plain = Bench::new(&Wish::new(TREE));
    levels[plain.host(3).index()] = Sl::new(3).unwrap();
    let wish = Wish {
        lanes: Some(LaneTables {
            lanes: 4,
            copies: None,
            levels: ServiceLevels::PerDestination(levels),
            qos: None,
        }),
        ..Wish::new(TREE)
    };
    let mut bench = Bench::new(&wish);
    let check = |bench: &mut Bench, (from, to): (usize, usize), more: &[(Field, u64)], want: (u64, u64)| {
        let mut question = between(bench, from, to);
        question.extend(more.iter().map(|(field, value)| (*field, number(*value))));
        let told = bench.ask(Method::Get, &records::PATH, &question);
        let got = told.rows.first().map(|row| (f::SL.get(row), f::REVERSIBLE.get(row)));
        assert_eq!(got, Some(want), "{from} {to} {more:?}");
    };
    check(&mut bench, (0, 1), &[], (0, 1));
    check(&mut bench, (0, 3), &[], (3, 1));
    check(&mut bench, (3, 0), &[(f::REVERSIBLE, 1)], (0, 1));
    check(&mut bench, (0, 3), &[(f::SL, 9)], (9, 1));
}

#[test]
fn alternates_come_from_lmc_offsets() {
    let mut bench = Bench::new(&Wish {
        lmc: 2,
        ..Wish::new(TREE)
    });
    let (a, b) = (bench.gid(0), bench.gid(7));
    let gids = |more: &[(Field, u64)]| {
        let mut question = vec![(f::SGID, Value::Gid(a)), (f::DGID, Value::Gid(b))];
        question.extend(more.iter().map(|(field, value)| (*field, number(*value))));
        question
    };
    let lids =
        |rows: &[SaData]| -> Vec<(u64, u64)> { rows.iter().map(|row| (f::SLID.get(row), f::DLID.get(row))).collect() };
    let (from, to) = (u64::from(bench.host(0).0), u64::from(bench.host(7).0));
    let all = bench.ask(Method::GetTable, &records::PATH, &gids(&[]));
    assert_eq!(lids(&all.rows), (0..4).map(|k| (from + k, to + k)).collect::<Vec<_>>());
    let preferences: Vec<u64> = all.rows.iter().map(|row| f::PREFERENCE.get(row)).collect();
    assert_eq!(preferences, [0, 1, 2, 3]);
    let two = bench.ask(Method::GetTable, &records::PATH, &gids(&[(f::NUMB_PATH, 2)]));
    assert_eq!(two.rows.len(), 2);
    // The two leave the leaf by different cables: there are two spines.
    let exits: BTreeSet<u8> = lids(&two.rows)
        .iter()
        .map(|(_, dlid)| {
            let at = bench.hosts()[0].at;
            let leaf = bench.snapshot.fabric().peer(at).unwrap().node;
            let switch = bench.snapshot.fabric().switch_index(leaf).unwrap();
            bench
                .snapshot
                .plan()
                .tables
                .get(switch, selvedge_types::Lid(*dlid as u16))
        })
        .collect();
    assert_eq!(exits.len(), 2);
    let one = bench.ask(Method::Get, &records::PATH, &gids(&[]));
    assert_eq!(lids(&one.rows), [(from, to)]);
    let none = bench.ask(Method::GetTable, &records::PATH, &gids(&[(f::NUMB_PATH, 0)]));
    assert_eq!(none.status, SaStatus::REQUEST_INVALID);
}

/// The second of two paths is the alternate path that `selvedge apm show --policy manager` names: one function orders
/// both, by disjointness and then by load.
#[test]
fn the_second_path_is_the_managers_alternate() {
    let mut bench = Bench::new(&Wish {
        lmc: 2,
        ..Wish::new("karytree:k=3,n=2,remove-links=3")
    });
    let snapshot = bench.snapshot.clone();
    let (plan, fabric) = (snapshot.plan(), snapshot.fabric());
    let subnet = Subnet {
        fabric,
        lids: &plan.lids,
        tables: &plan.tables,
        levels: plan.told_levels(),
    };
    let index = Index::new(subnet);
    let (routes, hosts) = (Routes { subnet, index: &index }, Hosts::of(subnet, &index));
    let mut others = BTreeSet::new();
    for from in 0..9 {
        for to in (0..9).filter(|&to| to != from) {
            let pair = (&hosts.all()[from], &hosts.all()[to]);
            let found = routes.alternate(pair, 0, Policy::Manager).unwrap();
            let question = vec![
                (f::SGID, Value::Gid(bench.gid(from))),
                (f::DGID, Value::Gid(bench.gid(to))),
                (f::NUMB_PATH, number(2_u8)),
            ];
            let told = bench.ask(Method::GetTable, &records::PATH, &question);
            let lids = told.rows.iter().map(|row| (f::SLID.get(row), f::DLID.get(row)));
            let want = [found.primary, found.alternate].map(|path| (u64::from(path.slid.0), u64::from(path.dlid.0)));
            assert_eq!(lids.collect::<Vec<_>>(), want, "{from} {to}");
            others.insert(found.alternate.bits);
        }
    }
    assert!(others.len() > 1, "the order differs from that of the LIDs: {others:?}");
}

#[test]
fn every_pair_of_a_source() {
    let mut bench = Bench::new(&Wish::new(TREE));
    let source = bench.host(2).0;
    let told = bench.ask(Method::GetTable, &records::PATH, &[(f::SLID, number(source))]);
    assert_eq!(told.rows.len(), bench.snapshot.end_count() as usize);
    let lids: BTreeSet<u64> = told.rows.iter().map(|row| f::DLID.get(row)).collect();
    assert_eq!(lids.len(), told.rows.len());
    assert!(told.rows.iter().all(|row| f::SLID.get(row) == u64::from(source)));
}

#[test]
fn several_ends_at_once() {
    use records::multi_path as m;
    let mut bench = Bench::new(&Wish {
        lmc: 1,
        ..Wish::new(TREE)
    });
    let check =
        |bench: &mut Bench, (from, to): (&[usize], &[usize]), more: &[(Field, u64)], want: Result<usize, Status>| {
            let gids: Vec<u8> = from.iter().chain(to).flat_map(|host| bench.gid(*host).0).collect();
            let mut question = vec![
                (m::SGID_COUNT, number(from.len() as u64)),
                (m::DGID_COUNT, number(to.len() as u64)),
                (m::GIDS, Value::Bytes(gids)),
            ];
            question.extend(more.iter().map(|(field, value)| (*field, number(*value))));
            let told = bench.ask(Method::GetMulti, &records::MULTI_PATH, &question);
            let got = if told.status == Status::OK {
                Ok(told.rows.len())
            } else {
                Err(told.status)
            };
            assert_eq!(got, want, "{from:?} {to:?} {more:?}");
        };
    check(&mut bench, (&[0, 1], &[2, 3, 4]), &[], Ok(12));
    check(&mut bench, (&[0, 1], &[2, 3, 4]), &[(m::NUMB_PATH, 1)], Ok(6));
    check(&mut bench, (&[0], &[7]), &[(m::INDEPENDENCE, 2)], Ok(2));
    check(&mut bench, (&[0], &[7]), &[(m::SL, 3)], Ok(0));
    check(&mut bench, (&[], &[7]), &[], Err(SaStatus::REQUEST_INVALID));
    let twelve = [0; 12];
    check(
        &mut bench,
        (&twelve[..6], &twelve[..6]),
        &[],
        Err(SaStatus::REQUEST_INVALID),
    );
    let missing = bench.ask(Method::GetMulti, &records::MULTI_PATH, &[(m::SGID_COUNT, number(1_u8))]);
    assert_eq!(missing.status, SaStatus::INSUFFICIENT_COMPONENTS);
}

/// A query with both ports of two hosts gives the primary path first, then the alternate that `apm show` names,
/// whichever ports these use. One pair of ports after the other would give a path of the same two ports, if there are
/// several.
#[test]
fn paths_of_several_ports_are_apart_in_their_order() {
    use records::multi_path as m;
    for lmc in [0, 1] {
        let mut bench = Bench::new(&Wish {
            lmc,
            ..Wish::new("karytree:k=3,n=2,ports-per-host=2")
        });
        let snapshot = bench.snapshot.clone();
        let (plan, fabric) = (snapshot.plan(), snapshot.fabric());
        let subnet = Subnet {
            fabric,
            lids: &plan.lids,
            tables: &plan.tables,
            levels: plan.told_levels(),
        };
        let index = Index::new(subnet);
        let (routes, hosts) = (Routes { subnet, index: &index }, Hosts::of(subnet, &index));
        let mut other_ports = 0;
        for (from, to) in (0..9).flat_map(|from| (0..9).map(move |to| (from, to))) {
            if from == to {
                continue;
            }
            let found = routes.alternate((&hosts.all()[from], &hosts.all()[to]), 0, Policy::Manager);
            let found = found.unwrap();
            other_ports += usize::from(found.alternate.source != found.primary.source);
            let ends = [2 * from, 2 * from + 1, 2 * to, 2 * to + 1];
            let gids: Vec<u8> = ends.iter().flat_map(|end| bench.gid(*end).0).collect();
            let mut question = vec![
                (m::SGID_COUNT, number(2_u64)),
                (m::DGID_COUNT, number(2_u64)),
                (m::GIDS, Value::Bytes(gids)),
                (m::NUMB_PATH, number(2_u64)),
            ];
            let told = bench.ask(Method::GetMulti, &records::MULTI_PATH, &question);
            let lids = |row: &SaData| (f::SLID.get(row), f::DLID.get(row));
            let got: Vec<_> = told.rows.iter().map(lids).collect();
            let want = [found.primary, found.alternate].map(|path| (u64::from(path.slid.0), u64::from(path.dlid.0)));
            assert_eq!(got[..2], want, "{lmc} {from} {to}");
            assert_eq!(got.len(), 4 << lmc, "{lmc} {from} {to}");
            assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), got.len());
            // Without a wish, one pair of ports after the other.
            question.pop();
            let told = bench.ask(Method::GetMulti, &records::MULTI_PATH, &question);
            let sources = told.rows.iter().map(|row| f::SGID.wide(row));
            assert!(sources.collect::<Vec<_>>().chunk_by(|a, b| a == b).count() == 2);
        }
        assert!(other_ports > 0, "{lmc}");
    }
}

#[test]
fn too_many_pairs_are_refused() {
    let config = selvedge_sa::Config {
        records_max: 100,
        ..Default::default()
    };
    let mut bench = Bench::with(&Wish::new(TREE), config);
    assert_eq!(
        bench.ask(Method::GetTable, &records::PATH, &[]).status,
        SaStatus::NO_RESOURCES
    );
    let source = bench.host(0).0;
    let told = bench.ask(Method::GetTable, &records::PATH, &[(f::SLID, number(source))]);
    assert_eq!(told.status, Status::OK);
}
