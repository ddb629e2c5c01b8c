//! Reports to subscribers: ports that joined and left, forwarded traps, groups, and repetitions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Bench, Value, Wish, number};
use records::inform_info as f;
use selvedge_fabric::{Fabric, FabricBuilder, PortRef, PortSettings};
use selvedge_sa::Input;
use selvedge_types::TransactionId;
use selvedge_wire::sa::{Field, SaStatus, records};
use selvedge_wire::{Address, Class, Datagram, Gid, Mad, Method, Notice, Status, Trap};

const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";

fn tree() -> Bench {
    Bench::new(&Wish::new(TREE))
}

fn subscription(trap: u64, subscribe: u64) -> Vec<(Field, Value)> {
    vec![
        (f::LID_BEGIN, number(0xFFFF_u16)),
        (f::IS_GENERIC, number(1_u8)),
        (f::SUBSCRIBE, number(subscribe)),
        (f::TYPE, number(0xFFFF_u16)),
        (f::TRAP_NUMBER, number(trap)),
        (f::PRODUCER, number(0xFF_FFFF_u32)),
    ]
}

fn subscribe(bench: &mut Bench, host: usize, trap: u64, subscribe: u64) -> Status {
    bench.lid = bench.host(host);
    bench
        .ask(Method::Set, &records::INFORM_INFO, &subscription(trap, subscribe))
        .status
}

/// Returns the trap number, the destination, and the GID that the report is about.
fn told(datagrams: &[Datagram]) -> Vec<(u64, u16, Gid)> {
    let reports = datagrams.iter().filter(|d| d.mad.method() == Method::Report);
    reports
        .map(|d| {
            let data = d.mad.sa_data();
            let about = Gid(core::array::from_fn(|i| data[16 + i]));
            (records::notice::TRAP_NUMBER.get(data), d.address.lid.0, about)
        })
        .collect()
}

fn datagrams(out: Vec<selvedge_sa::Output>) -> Vec<Datagram> {
    out.into_iter().map(|output| output.datagram).collect()
}

#[test]
fn tell_who_came_and_went() {
    let mut bench = tree();
    let (first, second) = (bench.host(0).0, bench.host(1).0);
    assert_eq!(subscribe(&mut bench, 0, 65, 1), Status::OK);
    assert_eq!(subscribe(&mut bench, 1, 0xFFFF, 1), Status::OK);
    let gone = bench.gid(7);
    let without = Wish {
        gone: vec![7],
        generation: 2,
        ..Wish::new(TREE)
    }
    .snapshot();
    let out = datagrams(bench.feed(Input::Committed(without)));
    assert_eq!(told(&out), [(65, first, gone), (65, second, gone)]);
    let all = Wish {
        generation: 3,
        ..Wish::new(TREE)
    }
    .snapshot();
    let out = datagrams(bench.feed(Input::Committed(all)));
    assert_eq!(told(&out), [(64, second, gone)]);
    assert_eq!(subscribe(&mut bench, 1, 0xFFFF, 0), Status::OK);
    assert_eq!(subscribe(&mut bench, 1, 0xFFFF, 0), SaStatus::REQUEST_INVALID);
}

/// Returns the fabric of a sweep that does not find a host, or finds it without its link.
fn seen(bench: &Bench, without: Option<(usize, bool)>) -> Arc<Fabric> {
    let all = bench.snapshot.fabric();
    let host = without.map(|(host, is_found)| (all.find_port(bench.guid(host)).unwrap().node, is_found));
    let mut builder = FabricBuilder::new();
    let mut keys = BTreeMap::new();
    for (index, node) in all.nodes().iter_enumerated() {
        if host != Some((index, false)) {
            keys.insert(index, builder.add(node.clone()));
        }
    }
    let is_there = |at: PortRef| host.is_none_or(|(node, _)| node != at.node);
    for link in all.links().filter(|link| is_there(link.a) && is_there(link.b)) {
        let [a, b] = [link.a, link.b].map(|at| (keys[&at.node], at.port));
        builder.link(a, b).unwrap();
    }
    Arc::new(builder.finish().unwrap())
}

#[test]
fn tell_whom_a_sweep_did_not_find() {
    // The events: a sweep that finds all but one host, or every host; a plan in force without that host, or with every
    // host. The result: no report about the host, or the number of a trap.
    const OUT: Option<u64> = Some(65);
    const IN: Option<u64> = Some(64);
    enum Step {
        Missed,
        Unlinked,
        Found,
        Without,
        Whole,
    }
    use Step::{Found, Missed, Unlinked, Whole, Without};
    let sequences: [&[(Step, Option<u64>)]; 5] = [
        &[(Missed, OUT), (Without, None), (Found, None), (Whole, IN)],
        // It is back before a plan without it is in force: a port has joined only when packets reach it.
        &[(Missed, OUT), (Missed, None), (Found, None), (Whole, IN), (Whole, None)],
        &[
            (Unlinked, OUT),
            (Found, None),
            (Unlinked, None),
            (Without, None),
            (Whole, IN),
        ],
        // A plan that was made before it went.
        &[
            (Missed, OUT),
            (Whole, None),
            (Without, None),
            (Found, None),
            (Whole, IN),
        ],
        &[
            (Found, None),
            (Whole, None),
            (Without, OUT),
            (Missed, None),
            (Found, None),
            (Whole, IN),
        ],
    ];
    for (number, steps) in sequences.iter().enumerate() {
        let mut bench = tree();
        assert_eq!(subscribe(&mut bench, 0, 0xFFFF, 1), Status::OK);
        let (to, gid) = (bench.host(0).0, bench.gid(7));
        let [all, missed, unlinked] = [None, Some((7, false)), Some((7, true))].map(|without| seen(&bench, without));
        for (place, (step, want)) in steps.iter().enumerate() {
            let plan = |gone| {
                Input::Committed(
                    Wish {
                        gone,
                        ..Wish::new(TREE)
                    }
                    .snapshot(),
                )
            };
            let out = bench.feed(match step {
                Missed => Input::Swept(Arc::clone(&missed)),
                Unlinked => Input::Swept(Arc::clone(&unlinked)),
                Found => Input::Swept(Arc::clone(&all)),
                Without => plan(vec![7]),
                Whole => plan(Vec::new()),
            });
            let want: Vec<_> = want.iter().map(|&trap| (trap, to, gid)).collect();
            assert_eq!(told(&datagrams(out)), want, "sequence {number}, step {place}");
        }
    }
}

#[test]
fn are_for_nobody_while_a_lid_is_contested() {
    let ends = |bench: &Bench| [6, 7].map(|host| bench.snapshot.fabric().find_port(bench.guid(host)).unwrap());
    // Two hosts have each other's LIDs, in a sweep or in a plan being applied.
    for is_seen in [true, false] {
        let mut bench = tree();
        let [a, b] = ends(&bench);
        let mut fabric = Fabric::clone(bench.snapshot.fabric());
        let mut plan = bench.snapshot.plan().clone();
        let [of_a, of_b] = [a, b].map(|at| plan.lids.range(at).unwrap());
        match is_seen {
            true => {
                for (at, lids) in [(a, of_b), (b, of_a)] {
                    let port = fabric.port(at).unwrap().clone();
                    let settings = PortSettings { lids, ..port.settings };
                    fabric.set_port(at, port.link, settings);
                }
                bench.feed(Input::Swept(Arc::new(fabric)));
            }
            false => {
                plan.lids.remove(a);
                plan.lids.remove(b);
                plan.lids.insert(a, of_b).unwrap();
                plan.lids.insert(b, of_a).unwrap();
                bench.feed(Input::Coming(Arc::new(fabric), Arc::new(plan)));
            }
        }
        for (host, want) in [(5, Status::OK), (6, Status::BUSY), (7, Status::BUSY)] {
            assert_eq!(subscribe(&mut bench, host, 65, 1), want, "{is_seen} {host}");
        }
        bench.commit(&Wish::new(TREE));
        assert_eq!(subscribe(&mut bench, 6, 65, 1), Status::OK);
    }
}

#[test]
fn hosts_that_no_plan_has_are_to_be_asked() {
    let without = Wish {
        gone: vec![7],
        ..Wish::new(TREE)
    };
    let all = tree();
    let (guid, fabric) = (all.guid(7), seen(&all, None));
    let mut bench = Bench::new(&without);
    let forgotten = |bench: &Bench| bench.sa.registrations().forgotten().clone();
    bench.feed(Input::Swept(fabric));
    assert_eq!(forgotten(&bench), [guid].into());
    // The plan has it; whether it was asked to register again is independent.
    for (unasked, want) in [([guid].into(), [guid].into()), (BTreeSet::new(), BTreeSet::new())] {
        bench.commit(&Wish {
            unasked,
            ..Wish::new(TREE)
        });
        assert_eq!(forgotten(&bench), want);
    }
}

#[test]
fn are_repeated_until_they_are_answered() {
    let mut bench = tree();
    assert_eq!(subscribe(&mut bench, 0, 65, 1), Status::OK);
    assert_eq!(subscribe(&mut bench, 1, 65, 1), Status::OK);
    let without = Wish {
        gone: vec![7],
        generation: 2,
        ..Wish::new(TREE)
    }
    .snapshot();
    let out = datagrams(bench.feed(Input::Committed(without)));
    let answer = |report: &Datagram| {
        let mut mad = report.mad;
        mad.set_method(Method::ReportResp);
        Input::Received(Datagram { mad, ..*report })
    };
    bench.feed(answer(&out[0]));
    let mut repeated = 0;
    for _ in 0..6 {
        bench.now += Duration::from_millis(500);
        let out = bench.feed(Input::Wake);
        assert!(out.iter().all(|o| o.datagram.address.lid == bench.host(1)));
        repeated += out.len();
    }
    assert_eq!(repeated, 3);
    assert_eq!(bench.sa.counters().reports_lost, 1);
    // A subscriber that may have been out of reach for a moment gets the report again; one that does not answer for a
    // minute does not.
    bench.lid = bench.host(0);
    let told = bench.ask(Method::GetTable, &records::INFORM_INFO_RECORD, &[]);
    assert_eq!(told.rows.len(), 2);
    bench.now += Duration::from_secs(60);
    let without = Wish {
        gone: vec![6, 7],
        generation: 3,
        ..Wish::new(TREE)
    }
    .snapshot();
    let out = datagrams(bench.feed(Input::Committed(without)));
    assert_eq!(out.len(), 2);
    bench.feed(answer(&out[0]));
    for _ in 0..6 {
        bench.now += Duration::from_millis(500);
        bench.feed(Input::Wake);
    }
    let told = bench.ask(Method::GetTable, &records::INFORM_INFO_RECORD, &[]);
    assert_eq!(told.rows.len(), 1);
    let gid = Gid(records::inform_info_record::SUBSCRIBER_GID.wide(&told.rows[0]));
    assert_eq!(gid, bench.gid(0));
}

#[test]
fn hand_traps_on() {
    let mut bench = tree();
    assert_eq!(subscribe(&mut bench, 0, 128, 1), Status::OK);
    assert_eq!(subscribe(&mut bench, 1, 144, 1), Status::OK);
    assert_eq!(
        subscribe(&mut bench, 2, 257, 1),
        SaStatus::DENIED,
        "about keys: for trusted eyes"
    );
    bench.key = 1;
    assert_eq!(subscribe(&mut bench, 2, 257, 1), Status::OK);
    let switch = bench.snapshot.end(0).unwrap().lids.base;
    let trap = Trap::LinkState { lid: switch };
    let notice = Notice::new(2, switch, &trap);
    let mut mad = Mad::request(Class::SubnLid, Method::Trap, selvedge_wire::AttributeId::NOTICE, 0);
    mad.set_transaction(TransactionId(5));
    mad.write(&notice);
    let out = datagrams(bench.feed(Input::Trap(Datagram {
        address: Address::smi(switch),
        mad,
    })));
    assert_eq!(
        told(&out).iter().map(|(trap, to, _)| (*trap, *to)).collect::<Vec<_>>(),
        [(128, bench.host(0).0)]
    );
}

#[test]
fn tell_of_groups() {
    use records::member as m;
    let mut bench = tree();
    assert_eq!(subscribe(&mut bench, 3, 66, 1), Status::OK);
    assert_eq!(subscribe(&mut bench, 3, 67, 1), Status::OK);
    bench.lid = bench.host(0);
    let mut fields = vec![(m::PORT_GID, Value::Gid(bench.gid(0))), (m::JOIN_STATE, number(1_u8))];
    fields.extend([m::QKEY, m::TRAFFIC_CLASS, m::SL, m::FLOW_LABEL].map(|field: Field| (field, number(0_u8))));
    fields.push((m::PKEY, number(0xFFFF_u16)));
    let joined = bench.ask(Method::Set, &records::MEMBER, &fields);
    let mgid = Gid(m::MGID.wide(&joined.rows[0]));
    let to = bench.host(3).0;
    assert_eq!(told(&bench.beside), [(66, to, mgid)]);
    bench.beside.clear();
    // Its only member leaves, so the group ends.
    let without = Wish {
        gone: vec![0],
        generation: 2,
        ..Wish::new(TREE)
    }
    .snapshot();
    let out = datagrams(bench.feed(Input::Committed(without)));
    assert_eq!(told(&out), [(67, to, mgid)]);
}
