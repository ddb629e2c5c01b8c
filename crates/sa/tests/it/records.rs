//! Every record of the snapshot: the number of rows, their contents, and access rights.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::{Bench, Value, Wish, number};
use selvedge_plan::{LaneTables, ServiceLevels};
use selvedge_sa::Config;
use selvedge_types::{Lid, Sl, Vl};
use selvedge_wire::sa::{Field, Layout, Rmpp, RmppFlags, RmppStatus, SaData, SaStatus, records};
use selvedge_wire::{Method, Status};

/// A tree of 4 leaves, 2 spines and 8 hosts.
const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";

fn tree() -> Bench {
    Bench::new(&Wish::new(TREE))
}

/// Rows of a table as texts.
fn table(bench: &mut Bench, layout: &Layout, fields: &[(Field, Value)]) -> usize {
    let told = bench.ask(Method::GetTable, layout, fields);
    assert_eq!(
        (told.status, told.method),
        (Status::OK, Method::GetTableResp),
        "{}",
        layout.name
    );
    told.rows.len()
}

#[test]
fn every_table_has_the_rows_it_should() {
    let mut bench = tree();
    bench.key = 1;
    let fabric = bench.snapshot.fabric();
    let (switches, hosts) = (fabric.switches().len(), fabric.host_count());
    let switch_ports: usize = fabric
        .switches()
        .iter()
        .map(|&n| usize::from(fabric.node(n).port_count()))
        .sum();
    let cables = fabric.links().count();
    let blocks = bench.snapshot.plan().tables.blocks();
    for (layout, want) in [
        (&records::NODE, switches + hosts),
        (&records::PORT_INFO, switches + switch_ports + hosts),
        (&records::SWITCH_INFO, switches),
        (&records::LINK, 2 * cables),
        (&records::LINEAR_FORWARDING, switches * blocks),
        (&records::MULTICAST_FORWARDING, 0),
        // Lane tables were neither read nor set, so no row is known.
        (&records::SL_TO_VL, 0),
        (&records::VL_ARBITRATION, 0),
        (&records::PKEY_TABLE, switches + hosts),
        (&records::GUID_INFO, switches + hosts),
        (&records::SM_INFO, 1),
        (&records::SERVICE, 0),
        (&records::MEMBER, 0),
        (&records::INFORM_INFO_RECORD, 0),
        (&records::PATH, (switches + hosts) * (switches + hosts)),
    ] {
        assert_eq!(table(&mut bench, layout, &[]), want, "{}", layout.name);
    }
}

/// A fabric with three lanes, and the LID of a switch.
fn with_lanes(own_row: Option<[Vl; Sl::COUNT]>) -> (Bench, Lid) {
    let bench = Bench::new(&Wish {
        own_row,
        lanes: Some(LaneTables {
            lanes: 3,
            copies: None,
            levels: ServiceLevels::default(),
            qos: None,
        }),
        ..Wish::new(TREE)
    });
    let lids = &bench.snapshot.plan().lids;
    let switch = lids
        .iter()
        .find(|(at, _)| at.port == selvedge_types::PortNum::MANAGEMENT)
        .map(|(_, lids)| lids.base);
    (bench, switch.unwrap())
}

/// Rows of a switch: from each port to each other and to itself. Of the rows to port 0 only the one that was read is
/// shown.
#[test]
fn rows_of_a_switch_are_told_as_they_are_known() {
    use records::sl_to_vl as f;
    let read: [Vl; Sl::COUNT] = std::array::from_fn(|sl| Vl::new(7 - sl as u8 / 2).unwrap());
    for own_row in [None, Some(read)] {
        let (mut bench, switch) = with_lanes(own_row);
        let of_switch = [(f::LID, number(switch.0))];
        let rows = bench.ask(Method::GetTable, &records::SL_TO_VL, &of_switch).rows;
        let ports = |row: &SaData| (f::IN_PORT.get(row), f::OUT_PORT.get(row));
        let is_known = |(input, output): &(u64, u64)| *output > 0 || *input == 0 && own_row.is_some();
        let all = (0..5).flat_map(|input| (0..5).map(move |output| (input, output)));
        let want: Vec<(u64, u64)> = all.filter(is_known).collect();
        assert_eq!(rows.iter().map(ports).collect::<Vec<_>>(), want);
        for row in &rows {
            let want = match ports(row) {
                (0, 0) => [0x77, 0x66],
                _ => [0x01, 0x20],
            };
            assert_eq!(f::TABLE.slice(row)[..2], want, "{:?}", ports(row));
        }
    }
}

#[test]
fn lane_tables_are_those_that_ports_hold() {
    let (mut bench, switch) = with_lanes(None);
    let host = bench.host(2);
    let lid = number(host.0);
    let rows = bench
        .ask(Method::GetTable, &records::SL_TO_VL, &[(records::sl_to_vl::LID, lid)])
        .rows;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        records::sl_to_vl::TABLE.slice(&rows[0]),
        [0x01, 0x20, 0x12, 0x01, 0x20, 0x12, 0x01, 0x20]
    );
    let lid = number(bench.host(2).0);
    let rows = bench
        .ask(
            Method::GetTable,
            &records::VL_ARBITRATION,
            &[(records::vl_arbitration::LID, lid)],
        )
        .rows;
    // Only the first block of either priority has entries: the ports have eight each.
    let blocks: Vec<u64> = rows.iter().map(|row| records::vl_arbitration::BLOCK.get(row)).collect();
    assert_eq!(blocks, [1, 2, 3, 4]);
    let turns = |row: usize| records::vl_arbitration::TABLE.slice(&rows[row])[..8].to_vec();
    assert_eq!(turns(0), [0, 64, 1, 64, 2, 64, 0, 0]);
    assert!((1..4).all(|row| turns(row) == [0; 8]));
    // For a host's only port any number matches; a switch has none after its last port, and port 0 has no entries.
    let mut has = |lid: u16, port: u8| {
        use records::vl_arbitration as f;
        let wanted = [
            (f::LID, number(lid)),
            (f::OUT_PORT, number(port)),
            (f::BLOCK, number(1_u8)),
        ];
        let told = bench.ask(Method::Get, &records::VL_ARBITRATION, &wanted);
        let row = told
            .rows
            .first()
            .map(|row| (f::OUT_PORT.get(row), f::TABLE.slice(row)[1]));
        row.filter(|_| told.status == Status::OK)
    };
    let (host, switch) = (host.0, switch.0);
    assert_eq!((has(host, 0), has(host, 1)), (Some((1, 64)), Some((1, 64))));
    assert_eq!((has(switch, 0), has(switch, 1)), (Some((0, 0)), Some((1, 64))));
    assert_eq!((has(switch, 99), has(0x7777, 1)), (None, None));
}

#[test]
fn a_lid_selects_its_port() {
    let mut bench = Bench::new(&Wish {
        lmc: 2,
        ..Wish::new(TREE)
    });
    let host = bench.host(3);
    let check = |bench: &mut Bench, lid: u16, want: Option<Lid>| {
        let told = bench.ask(Method::Get, &records::NODE, &[(records::node::LID, number(lid))]);
        match want {
            Some(base) => {
                assert_eq!(told.status, Status::OK, "{lid}");
                assert_eq!(records::node::LID.get(&told.rows[0]), u64::from(base.0));
            }
            None => assert_eq!(told.status, SaStatus::NO_RECORDS, "{lid}"),
        }
    };
    check(&mut bench, host.0, Some(host));
    check(&mut bench, host.0 + 3, Some(host));
    check(&mut bench, 0, None);
    check(&mut bench, 0xBFFF, None);
    check(&mut bench, 0xFFFF, None);
}

#[test]
fn a_get_wants_exactly_one_record() {
    let mut bench = tree();
    let guid = bench.guid(2);
    let by_guid = [(records::node::PORT_GUID, number(guid.0))];
    assert_eq!(bench.ask(Method::Get, &records::NODE, &by_guid).rows.len(), 1);
    let told = bench.ask(Method::Get, &records::NODE, &[(records::node::TYPE, number(1_u8))]);
    assert_eq!(told.status, SaStatus::TOO_MANY_RECORDS);
    let told = bench.ask(Method::Get, &records::NODE, &[(records::node::TYPE, number(3_u8))]);
    assert_eq!(told.status, SaStatus::NO_RECORDS);
    assert_eq!(
        table(&mut bench, &records::NODE, &[(records::node::TYPE, number(1_u8))]),
        8
    );
    assert_eq!(
        table(&mut bench, &records::NODE, &[(records::node::TYPE, number(3_u8))]),
        0
    );
}

#[test]
fn port_info_is_what_the_plan_has_set() {
    use records::port_info as f;
    for key in [0, 1] {
        let mut bench = tree();
        bench.key = key;
        let lid = bench.host(1);
        let told = bench.ask(Method::Get, &records::PORT_INFO, &[(f::LID, number(lid.0))]);
        let row = &told.rows[0];
        assert_eq!(f::BASE_LID.get(row), u64::from(lid.0));
        assert_eq!(f::SM_LID.get(row), 1);
        assert_eq!(f::NEIGHBOR_MTU.get(row), 5, "4096, and not what was read before");
        assert_eq!(f::STATE.get(row), 4);
        assert_eq!(f::M_KEY.get(row), 0, "never shown");
    }
}

#[test]
fn links_lead_there_and_back() {
    use records::link as f;
    let mut bench = tree();
    let told = bench.ask(Method::GetTable, &records::LINK, &[]);
    let ends = |row: &_| {
        let [a, b, c, d] = [f::FROM_LID, f::FROM_PORT, f::TO_LID, f::TO_PORT].map(|field: Field| field.get(row));
        ((a, b), (c, d))
    };
    let all: BTreeSet<_> = told.rows.iter().map(ends).collect();
    assert_eq!(all.len(), told.rows.len());
    for (from, to) in &all {
        assert!(all.contains(&(*to, *from)), "{from:?} {to:?}");
    }
}

#[test]
fn tables_say_what_the_plan_says() {
    use records::linear_forwarding as f;
    let mut bench = tree();
    let told = bench.ask(Method::GetTable, &records::LINEAR_FORWARDING, &[]);
    let plan = bench.snapshot.plan();
    for row in &told.rows {
        let place = bench.snapshot.by_lid(Lid(f::LID.get(row) as u16)).unwrap();
        let at = bench.snapshot.end(place).unwrap().at;
        let switch = bench.snapshot.fabric().switch_index(at.node).unwrap();
        let block = f::BLOCK.get(row) as usize;
        assert_eq!(f::TABLE.slice(row), plan.tables.block(switch, block));
    }
}

#[test]
fn keys_of_ports_are_for_trusted_eyes() {
    let mut bench = tree();
    let check = |bench: &mut Bench, key: u64, layout: &Layout, want: Status| {
        bench.key = key;
        let told = bench.ask(Method::GetTable, layout, &[]);
        assert_eq!(told.status, want, "{key} {}", layout.name);
    };
    check(&mut bench, 0, &records::PKEY_TABLE, SaStatus::DENIED);
    check(&mut bench, 1, &records::PKEY_TABLE, Status::OK);
    check(&mut bench, 2, &records::PKEY_TABLE, SaStatus::DENIED);
    check(&mut bench, 2, &records::NODE, SaStatus::DENIED);
    assert_eq!(bench.sa.counters().bad_key, 2);
    bench.key = 1;
    let told = bench.ask(Method::Get, &records::SM_INFO, &[]);
    assert_eq!(records::sm_info::SM_KEY.get(&told.rows[0]), 0, "not even to them");
}

/// Sends a query that is changed before it is sent.
fn refused(bench: &mut Bench, (method, layout): (Method, &Layout), change: fn(&mut selvedge_wire::Mad), want: Status) {
    let mut mad = bench.question(method, layout, &[]);
    change(&mut mad);
    let told = bench.exchange(&mad);
    assert_eq!(told.status, want, "{mad}");
}

#[test]
fn methods_that_an_attribute_does_not_have_are_refused() {
    let mut bench = tree();
    for (method, layout) in [
        (Method::Set, &records::NODE),
        (Method::Delete, &records::PATH),
        (Method::GetMulti, &records::NODE),
        (Method::Get, &records::NOTICE),
        (Method::Get, &records::MULTI_PATH),
    ] {
        refused(&mut bench, (method, layout), |_| (), Status::BAD_METHOD_ATTRIBUTE);
    }
    refused(
        &mut bench,
        (Method::Other(0x13), &records::PATH),
        |_| (),
        Status::BAD_METHOD,
    );
}

#[test]
fn headers_that_make_no_sense_are_refused() {
    let mut bench = tree();
    let (node, link) = ((Method::Get, &records::NODE), (Method::Get, &records::LINK));
    let invalid = SaStatus::REQUEST_INVALID;
    refused(&mut bench, node, |mad| mad.set_component_mask(1 << 40), invalid);
    refused(&mut bench, link, |mad| mad.set_component_mask(u64::MAX), invalid);
    refused(&mut bench, node, |mad| mad.as_bytes_mut()[2] = 1, Status::BAD_VERSION);
    let unknown = Status::BAD_METHOD_ATTRIBUTE;
    refused(&mut bench, node, |mad| mad.as_bytes_mut()[17] = 0x99, unknown);
    bench.lid = Lid(0x4000);
    refused(&mut bench, node, |_| (), Status::BUSY);
}

#[test]
fn answers_and_strays_are_dropped() {
    let mut bench = tree();
    for method in [
        Method::GetResp,
        Method::GetTableResp,
        Method::ReportResp,
        Method::Send,
        Method::Trap,
    ] {
        let mad = bench.question(method, &records::NODE, &[]);
        assert!(bench.send(&mad).is_empty(), "{mad}");
    }
    assert_eq!(bench.sa.counters().dropped, 5);
}

#[test]
fn busy_until_a_plan_is_in_force_and_silent_unless_master() {
    use selvedge_sa::{Input, Sa};
    let mut bench = tree();
    let snapshot = std::sync::Arc::clone(&bench.snapshot);
    bench.sa = Sa::new(Config::default());
    let mad = bench.question(Method::GetTable, &records::NODE, &[]);
    assert!(bench.send(&mad).is_empty());
    bench.feed(Input::Serve);
    assert_eq!(bench.exchange(&mad).status, Status::BUSY);
    bench.feed(Input::Committed(snapshot));
    assert_eq!(bench.exchange(&mad).status, Status::OK);
    bench.feed(Input::Withdraw);
    assert!(bench.send(&mad).is_empty());
}

#[test]
fn whoever_asks_too_much_is_told_so() {
    let config = Config {
        burst: 10,
        rate_per_s: 10,
        ..Config::default()
    };
    let mut bench = Bench::with(&Wish::new(TREE), config);
    let ask = |bench: &mut Bench| bench.ask(Method::Get, &records::SM_INFO, &[]).status;
    let told: Vec<Status> = (0..12).map(|_| ask(&mut bench)).collect();
    assert_eq!(told.iter().filter(|status| **status == Status::OK).count(), 10);
    assert_eq!(told[10..], [Status::BUSY; 2]);
    let flooder = bench.lid;
    bench.lid = bench.host(1);
    assert_eq!(ask(&mut bench), Status::OK, "nobody else suffers");
    bench.lid = flooder;
    bench.later(Duration::from_millis(100));
    assert_eq!(ask(&mut bench), Status::OK);
}

#[test]
fn transfers_to_one_client_are_limited() {
    let config = Config {
        transfers_per_client: 2,
        ..Config::default()
    };
    let mut bench = Bench::with(&Wish::new(TREE), config);
    let begin = |bench: &mut Bench| {
        let mad = bench.question(Method::GetTable, &records::NODE, &[]);
        let out = bench.send(&mad);
        out[0].datagram.mad.status()
    };
    assert_eq!(
        [begin(&mut bench), begin(&mut bench), begin(&mut bench)],
        [Status::OK; 3]
    );
    assert_eq!(bench.sa.counters().failed, 1, "the first, which nobody acknowledged");
    // No acknowledgement arrives: in the end all is dropped.
    for _ in 0..4 {
        bench.later(Duration::from_millis(500));
    }
    assert_eq!(begin(&mut bench), Status::OK);
    assert_eq!(bench.sa.counters().failed, 3);
}

#[test]
fn a_question_asked_again_gets_its_beginning_again() {
    let mut bench = tree();
    let mad = bench.question(Method::GetTable, &records::NODE, &[]);
    let segments = |out: Vec<selvedge_sa::Output>| -> Vec<u32> {
        out.iter()
            .filter_map(|o| Some(o.datagram.mad.rmpp()?.segment))
            .collect()
    };
    assert_eq!(segments(bench.send(&mad)), [1]);
    assert_eq!(segments(bench.send(&mad)), [1]);
    // Another client has reached the same state and counts as the first one did.
    let mut other = bench.question(Method::GetTable, &records::LINK, &[]);
    other.set_transaction(mad.transaction());
    let out = bench.send(&other);
    assert_eq!(out[0].datagram.mad.attribute(), records::LINK.id);
    assert_eq!(segments(bench.send(&mad)), [1]);
    let mut ack = mad;
    ack.set_rmpp(Some(Rmpp::ack(1, 3)));
    assert_eq!(segments(bench.send(&ack)), [2, 3]);
    assert_eq!(
        segments(bench.send(&mad)),
        [] as [u32; 0],
        "it goes on from where it is"
    );
    ack.set_rmpp(Some(Rmpp::ack(9, 20)));
    let out = bench.send(&ack);
    assert_eq!(
        out[0].datagram.mad.rmpp().map(|rmpp| rmpp.status),
        Some(RmppStatus::BAD_SEGMENT)
    );
    assert_eq!(bench.sa.counters().failed, 1);
}

#[test]
fn questions_may_come_as_transfers() {
    let mut bench = tree();
    let (from, to) = (bench.gid(0), bench.gid(1));
    let gids = [from.0, to.0].concat();
    use records::multi_path as f;
    let fields = [
        (f::SGID_COUNT, number(1_u8)),
        (f::DGID_COUNT, number(1_u8)),
        (f::GIDS, Value::Bytes(gids)),
    ];
    let mut mad = bench.question(Method::GetMulti, &records::MULTI_PATH, &fields);
    let plain = bench.exchange(&mad);
    assert_eq!(
        (plain.status, plain.method, plain.rows.len()),
        (Status::OK, Method::GetMultiResp, 1)
    );
    mad.set_rmpp(Some(Rmpp::data(1, RmppFlags::FIRST.with(RmppFlags::LAST), 220)));
    mad.set_transaction(selvedge_types::TransactionId(77));
    let out = bench.send(&mad);
    let rmpp: Vec<Rmpp> = out.iter().filter_map(|o| o.datagram.mad.rmpp()).collect();
    assert_eq!(rmpp[0], Rmpp::ack(1, 1));
    assert_eq!(rmpp[1], Rmpp::data(1, RmppFlags::FIRST.with(RmppFlags::LAST), 84));
    // Too long, out of order, nonsense.
    let check = |bench: &mut Bench, rmpp: Rmpp, transaction: u64, want: Option<RmppStatus>| {
        let mut mad = mad;
        mad.set_rmpp(Some(rmpp));
        mad.set_transaction(selvedge_types::TransactionId(transaction));
        let out = bench.send(&mad);
        assert_eq!(
            out.first().and_then(|o| o.datagram.mad.rmpp()).map(|rmpp| rmpp.status),
            want,
            "{rmpp}"
        );
    };
    check(&mut bench, Rmpp::data(1, RmppFlags::FIRST, 0), 80, Some(RmppStatus::OK));
    for segment in 2..=4 {
        check(
            &mut bench,
            Rmpp::data(segment, RmppFlags(0), 0),
            80,
            Some(RmppStatus::OK),
        );
    }
    check(
        &mut bench,
        Rmpp::data(5, RmppFlags(0), 0),
        80,
        Some(RmppStatus::NO_RESOURCES),
    );
    check(&mut bench, Rmpp::data(3, RmppFlags(0), 0), 81, None);
    check(
        &mut bench,
        Rmpp::data(1, RmppFlags(0), 0),
        82,
        Some(RmppStatus::BAD_FIRST),
    );
    check(&mut bench, Rmpp::ack(1, 5), 83, None);
}

#[test]
fn any_bytes_are_survived() {
    let mut bench = tree();
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let mut seen = BTreeMap::new();
    for round in 0..60_000_u32 {
        let layout = records::ALL[random() as usize % records::ALL.len()];
        let methods = [
            Method::Get,
            Method::GetTable,
            Method::Set,
            Method::Delete,
            Method::GetMulti,
        ];
        let mut mad = bench.question(methods[random() as usize % methods.len()], layout, &[]);
        for byte in mad.sa_data_mut() {
            *byte = if random() % 4 == 0 { random() as u8 } else { 0 };
        }
        mad.set_component_mask(layout.components() & (u64::from(random()) << 32 | u64::from(random())));
        mad.set_sm_key(u64::from(random() % 3 == 0));
        if random() % 5 == 0 {
            mad.as_bytes_mut()[24 + random() as usize % 32] ^= random() as u8;
        }
        bench.lid = bench.host(random() as usize % 8);
        for output in bench.send(&mad) {
            *seen.entry(output.datagram.mad.status().0).or_insert(0) += 1;
        }
        if round % 64 == 0 {
            bench.later(Duration::from_millis(500));
        }
    }
    for status in [
        Status::OK,
        SaStatus::REQUEST_INVALID,
        SaStatus::NO_RECORDS,
        SaStatus::INSUFFICIENT_COMPONENTS,
    ] {
        assert!(seen.contains_key(&status.0), "{status} never seen: {seen:?}");
    }
    let counters = bench.sa.counters();
    assert_eq!(counters.received, 60_000);
}
