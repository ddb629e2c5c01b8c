//! Subnet administration: bytes of OpenSM and saquery both ways, and properties of every table of fields.
//!
//! See `golden/README.md`. `SELVEDGE_BLESS=1` rewrites the expected lines; read the difference before you commit it.

use std::collections::BTreeSet;

use crate::common::{Golden, goldens};
use proptest::prelude::*;
use selvedge_wire::sa::{Layout, Record, SA_DATA_LEN, SaData, records};
use selvedge_wire::{AttributeId, Class, Gid, Mad, Method, Payload};

fn captured() -> Vec<Golden> {
    goldens(include_str!("../golden/administration.txt"))
}

#[test]
fn peers_print_as_expected() {
    let lines: String = captured().iter().map(|golden| format!("{}\n", golden.mad)).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/administration.lines");
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(path, &lines).expect("the expected lines can be written");
    }
    let want = std::fs::read_to_string(path).expect("the expected lines");
    for (at, (found, want)) in lines.lines().zip(want.lines()).enumerate() {
        assert_eq!(found, want, "line {}", at + 1);
    }
    assert_eq!(lines.lines().count(), want.lines().count());
}

#[test]
fn what_peers_send_is_what_we_would_send() {
    for Golden { title, mad } in captured() {
        let mut made = Mad::request(Class::SubnAdm, mad.method(), mad.attribute(), mad.modifier());
        made.set_transaction(mad.transaction());
        made.set_status(mad.status());
        made.set_rmpp(mad.rmpp());
        made.set_sm_key(mad.sm_key());
        made.set_attribute_offset(mad.attribute_offset());
        made.set_component_mask(mad.component_mask());
        let Some(Ok(payload)) = Payload::of(&mad) else {
            panic!("{mad} in {title}");
        };
        payload.write_to(&mut made);
        // Behind the record OpenSM leaves remains of its memory, and further records.
        let layout = Layout::of(mad.attribute()).expect("a record that is known");
        let holds = mad.attribute_offset() != 0 || !matches!(mad.method(), Method::GetTableResp);
        let end = 56 + if holds { layout.len } else { 0 };
        // Its kernel would do RMPP: OpenSM only says that it should.
        let rmpp = if mad.rmpp().is_some() { 24..24 } else { 24..36 };
        for at in (0..end).filter(|at| !rmpp.contains(at)) {
            assert_eq!(made.as_bytes()[at], mad.as_bytes()[at], "byte {at} of {mad} in {title}");
        }
    }
}

/// Records that no peer sends on ibsim: reports need an event between two ports, and no diagnostic tool queries
/// MultiPathRecords. The others belong to this project.
const NOT_CAPTURED: [&str; 8] = [
    "AliasGUIDRecord",
    "ForgottenPortRecord",
    "JobRecord",
    "MultiPathRecord",
    "Notice",
    "OutOfServiceRecord",
    "RegistrationsRevision",
    "ToldLevelRecord",
];

#[test]
fn each_record_was_captured_from_a_peer() {
    let found: BTreeSet<&str> = captured()
        .iter()
        .filter(|golden| golden.mad.method().is_response() && golden.mad.status().0 == 0)
        .filter_map(|golden| Some(Layout::of(golden.mad.attribute())?.name))
        .collect();
    let want: BTreeSet<&str> = records::ALL.iter().map(|layout| layout.name).collect();
    let missing: Vec<&str> = want.difference(&found).copied().collect();
    assert_eq!(missing, NOT_CAPTURED);
}

/// Queries of saquery, field by field: names and places agree with its command line.
#[test]
fn questions_mean_what_was_typed() {
    let find = |title: &str| {
        let golden = captured().into_iter().find(|golden| golden.title == title);
        golden.expect("it was captured").mad
    };
    let path = find("saquery PR --slid 2 --dlid 3 --mtu 132 --rate 131");
    use records::path as p;
    let mask = [p::SLID, p::DLID, p::MTU_SELECTOR, p::MTU, p::RATE_SELECTOR, p::RATE];
    let got = mask.map(|field| field.get(path.sa_data()));
    assert_eq!(got, [2, 3, 2, 4, 2, 3]);
    assert_eq!(
        path.component_mask(),
        mask.iter().fold(0, |all, field| all | field.mask())
    );
    let lanes = find("saquery SL2VL 1/1/2");
    use records::sl_to_vl as s;
    assert_eq!(
        [s::LID, s::IN_PORT, s::OUT_PORT].map(|field| field.get(lanes.sa_data())),
        [1, 1, 2]
    );
    assert_eq!(lanes.component_mask(), 7);
    let group = find("saquery MCMR --mgid ff12:401b:ffff::ffff:ffff");
    let mgid = Gid(records::member::MGID.wide(group.sa_data()));
    assert_eq!(mgid.to_string(), "ff12:401b:ffff::ffff:ffff");
    assert_eq!(find("saquery --smkey 1 PKTR 2").sm_key(), 1);
}

fn sa_data() -> impl Strategy<Value = SaData> {
    let pieces = proptest::collection::vec(any::<u8>(), SA_DATA_LEN);
    pieces.prop_map(|bytes| core::array::from_fn(|i| bytes[i]))
}

proptest! {
    #[test]
    fn every_record_survives(data in sa_data(), which in 0..records::ALL.len()) {
        let layout = records::ALL[which];
        let record = Record::new(layout, &data);
        prop_assert_eq!(Record::new(layout, record.data()), record);
        let mut mad = Mad::request(Class::SubnAdm, Method::GetResp, layout.id, 0);
        *mad.sa_data_mut() = data;
        let payload = Payload::of(&mad);
        prop_assert_eq!(&payload, &Some(Ok(Payload::Record(record))));
        // Written field by field into zeros it is the same.
        let mut again = [0; SA_DATA_LEN];
        for field in layout.fields {
            if field.bits > 64 {
                field.put(&mut again, field.slice(&data));
            } else {
                field.set(&mut again, field.get(&data));
                prop_assert_eq!(field.get(&again), field.get(&data));
            }
        }
        prop_assert_eq!(&again, record.data());
        prop_assert!(!payload.map_or(String::new(), |p| p.unwrap().to_string()).contains('\n'));
    }
}

#[test]
fn what_is_no_record_stays_hexadecimal() {
    let mad = Mad::request(Class::SubnAdm, Method::GetResp, AttributeId::from_code(0x39), 0);
    assert_eq!(Payload::of(&mad), None);
    assert_eq!(mad.to_string(), "SubnAdmGetResp attribute=0x0039 tid=0x0");
}
