//! What clients register: services with leases, and multicast groups.

use std::time::Duration;

use crate::support::{Bench, Value, Wish, group_parameters, number};
use selvedge_sa::Config;
use selvedge_wire::sa::{Field, SaStatus, records};
use selvedge_wire::{Gid, Method, Status};

const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";

fn tree() -> Bench {
    Bench::new(&Wish::new(TREE))
}

mod services {
    use super::*;
    use records::service as f;

    fn service(bench: &Bench, id: u64, host: usize, more: &[(Field, Value)]) -> Vec<(Field, Value)> {
        let mut fields = vec![
            (f::ID, number(id)),
            (f::GID, Value::Gid(bench.gid(host))),
            (f::PKEY, number(0xFFFF_u16)),
            (f::NAME, Value::Bytes(b"storage".to_vec())),
        ];
        fields.extend_from_slice(more);
        fields
    }

    fn set(bench: &mut Bench, fields: &[(Field, Value)]) -> Status {
        bench.ask(Method::Set, &records::SERVICE, fields).status
    }

    fn count(bench: &mut Bench, fields: &[(Field, Value)]) -> usize {
        bench.ask(Method::GetTable, &records::SERVICE, fields).rows.len()
    }

    #[test]
    fn are_found_by_their_fields() {
        let mut bench = tree();
        let one = service(&bench, 1, 0, &[]);
        assert_eq!(set(&mut bench, &one), Status::OK);
        let two = service(&bench, 2, 0, &[(f::DATA16_3, number(77_u16))]);
        assert_eq!(set(&mut bench, &two), Status::OK);
        assert_eq!(set(&mut bench, &two), Status::OK, "renewed");
        assert_eq!(count(&mut bench, &[]), 2);
        assert_eq!(count(&mut bench, &[(f::ID, number(2_u8))]), 1);
        assert_eq!(count(&mut bench, &[(f::DATA16_3, number(77_u16))]), 1);
        assert_eq!(count(&mut bench, &[(f::NAME, Value::Bytes(b"storage".to_vec()))]), 2);
        assert_eq!(count(&mut bench, &[(f::NAME, Value::Bytes(b"stor".to_vec()))]), 0);
        let told = bench.ask(Method::Get, &records::SERVICE, &[(f::ID, number(1_u8))]);
        assert_eq!(f::LEASE.get(&told.rows[0]), 0xFFFF_FFFF);
        assert_eq!(
            bench.ask(Method::Delete, &records::SERVICE, &one[..3]).status,
            Status::OK
        );
        assert_eq!(
            bench.ask(Method::Delete, &records::SERVICE, &one[..3]).status,
            SaStatus::NO_RECORDS
        );
        assert_eq!(count(&mut bench, &[]), 1);
    }

    #[test]
    fn last_as_long_as_their_lease() {
        let mut bench = tree();
        let short = service(&bench, 1, 0, &[(f::LEASE, number(10_u8))]);
        let long = service(&bench, 2, 0, &[(f::LEASE, number(0xFFFF_FFFF_u32))]);
        assert_eq!([set(&mut bench, &short), set(&mut bench, &long)], [Status::OK; 2]);
        bench.later(Duration::from_secs(4));
        let told = bench.ask(Method::Get, &records::SERVICE, &[(f::ID, number(1_u8))]);
        assert_eq!(f::LEASE.get(&told.rows[0]), 6, "what is left of it");
        assert_eq!(set(&mut bench, &short), Status::OK, "renewed");
        bench.later(Duration::from_millis(9_999));
        assert_eq!(count(&mut bench, &[]), 2);
        assert_eq!(bench.sa.next_wake(), Some(bench.now + Duration::from_millis(1)));
        bench.later(Duration::from_millis(1));
        assert_eq!(count(&mut bench, &[]), 1);
    }

    #[test]
    fn belong_to_who_offers_them() {
        let mut bench = tree();
        let key = Value::Bytes(vec![7; 16]);
        let own = service(&bench, 1, 0, &[(f::KEY, key.clone())]);
        assert_eq!(set(&mut bench, &own), Status::OK);
        let without = service(&bench, 1, 0, &[]);
        assert_eq!(set(&mut bench, &without), SaStatus::DENIED, "the key is not shown");
        let others = service(&bench, 2, 1, &[]);
        assert_eq!(set(&mut bench, &others), SaStatus::DENIED, "in another's name");
        let told = bench.ask(Method::Get, &records::SERVICE, &[(f::ID, number(1_u8))]);
        assert_eq!(f::KEY.wide(&told.rows[0]), [0; 16]);
        bench.lid = bench.host(1);
        assert_eq!(
            bench.ask(Method::Delete, &records::SERVICE, &own).status,
            SaStatus::DENIED
        );
        bench.key = 1;
        let told = bench.ask(Method::Get, &records::SERVICE, &[(f::ID, number(1_u8))]);
        assert_eq!(f::KEY.wide(&told.rows[0]), [7; 16], "shown to the trusted");
        assert_eq!(
            bench.ask(Method::Delete, &records::SERVICE, &own[..3]).status,
            Status::OK
        );
        bench.key = 0;
        let foreign = [
            (f::ID, number(1_u8)),
            (f::GID, Value::Gid(Gid([9; 16]))),
            (f::PKEY, number(1_u8)),
        ];
        assert_eq!(set(&mut bench, &foreign), SaStatus::INVALID_GID);
        assert_eq!(set(&mut bench, &foreign[..1]), SaStatus::INSUFFICIENT_COMPONENTS);
        bench.lid = bench.host(1);
        let short = service(&bench, 9, 1, &[]);
        assert_eq!(set(&mut bench, &short[..2]), Status::OK);
        let told = bench.ask(Method::Get, &records::SERVICE, &[(f::ID, number(9_u8))]);
        assert_eq!(f::PKEY.get(&told.rows[0]), 0xFFFF, "the default partition");
    }

    #[test]
    fn are_limited() {
        let mut bench = Bench::with(
            &Wish::new(TREE),
            Config {
                services_per_client: 2,
                services: 3,
                ..Config::default()
            },
        );
        let mut add = |host: usize, id: u64| {
            bench.lid = bench.host(host);
            let fields = service(&bench, id, host, &[]);
            set(&mut bench, &fields)
        };
        let (ok, full) = (Status::OK, SaStatus::NO_RESOURCES);
        assert_eq!([add(0, 1), add(0, 2), add(0, 3)], [ok, ok, full]);
        assert_eq!([add(1, 1), add(1, 2), add(0, 1)], [ok, full, ok]);
    }
}

mod groups {
    use super::*;
    use records::member as f;

    /// IPoIB's broadcast group of the default partition.
    const IPOIB: Gid = Gid([
        0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
    ]);

    fn join(bench: &Bench, host: usize, state: u8) -> Vec<(Field, Value)> {
        vec![
            (f::MGID, Value::Gid(IPOIB)),
            (f::PORT_GID, Value::Gid(bench.gid(host))),
            (f::JOIN_STATE, number(state)),
        ]
    }

    fn create(bench: &Bench, host: usize) -> Vec<(Field, Value)> {
        let mut fields = join(bench, host, 1);
        fields.extend(group_parameters());
        fields
    }

    /// Sends a request as host number `host`.
    fn at(bench: &mut Bench, host: usize, method: Method, fields: &[(Field, Value)]) -> Result<u64, Status> {
        bench.lid = bench.host(host);
        let told = bench.ask(method, &records::MEMBER, fields);
        told.rows.first().map(|row| f::JOIN_STATE.get(row)).ok_or(told.status)
    }

    #[test]
    fn begin_with_their_first_full_member_and_end_with_their_last() {
        let mut bench = tree();
        let (first, second, sender) = (create(&bench, 0), join(&bench, 1, 1), join(&bench, 2, 4));
        assert_eq!(
            at(&mut bench, 1, Method::Set, &second),
            Err(SaStatus::INSUFFICIENT_COMPONENTS)
        );
        assert_eq!(
            at(&mut bench, 2, Method::Set, &sender),
            Err(SaStatus::REQUEST_INVALID),
            "nobody receives"
        );
        assert_eq!(at(&mut bench, 0, Method::Set, &first), Ok(1));
        assert_eq!(at(&mut bench, 1, Method::Set, &second), Ok(1));
        assert_eq!(at(&mut bench, 2, Method::Set, &sender), Ok(4));
        let more = join(&bench, 2, 2);
        assert_eq!(at(&mut bench, 2, Method::Set, &more), Ok(6), "states add up");
        let less = join(&bench, 2, 2);
        assert_eq!(at(&mut bench, 2, Method::Delete, &less), Ok(4), "what is left");
        assert_eq!(at(&mut bench, 2, Method::Set, &more), Ok(6));
        let too_much = join(&bench, 2, 7);
        assert_eq!(
            at(&mut bench, 2, Method::Delete, &too_much),
            Err(SaStatus::REQUEST_INVALID)
        );
        assert_eq!(bench.sa.groups().iter().next().unwrap().members.len(), 3);
        assert_eq!(at(&mut bench, 0, Method::Delete, &first[..3]), Ok(0));
        assert_eq!(
            at(&mut bench, 0, Method::Delete, &first[..3]),
            Err(SaStatus::REQUEST_INVALID)
        );
        assert_eq!(bench.sa.groups().iter().count(), 1);
        assert_eq!(at(&mut bench, 1, Method::Delete, &second), Ok(0));
        assert_eq!(
            bench.sa.groups().iter().count(),
            0,
            "who only sends keeps no group alive"
        );
    }

    #[test]
    fn have_one_set_of_parameters() {
        let mut bench = tree();
        let first = create(&bench, 0);
        assert_eq!(at(&mut bench, 0, Method::Set, &first), Ok(1));
        let mut check = |more: &[(Field, u64)], want: Result<u64, Status>| {
            let mut fields = join(&bench, 1, 1);
            fields.extend(more.iter().map(|(field, value)| (*field, number(*value))));
            assert_eq!(at(&mut bench, 1, Method::Set, &fields), want, "{more:?}");
        };
        let invalid = Err(SaStatus::REQUEST_INVALID);
        check(&[(f::QKEY, 1)], invalid);
        check(&[(f::PKEY, 0x8001)], invalid);
        check(&[(f::SL, 3)], invalid);
        check(&[(f::MTU_SELECTOR, 2), (f::MTU, 5)], invalid);
        check(&[(f::MTU_SELECTOR, 0), (f::MTU, 4)], invalid);
        check(&[(f::MTU_SELECTOR, 1), (f::MTU, 4)], invalid);
        check(&[(f::RATE_SELECTOR, 0), (f::RATE, 17)], invalid);
        check(
            &[(f::QKEY, 0xB1B), (f::PKEY, 0x7FFF), (f::MTU_SELECTOR, 0), (f::MTU, 3)],
            Ok(1),
        );
        check(
            &[(f::MTU_SELECTOR, 2), (f::MTU, 4), (f::RATE_SELECTOR, 2), (f::RATE, 17)],
            Ok(1),
        );
    }

    #[test]
    fn are_seen_by_strangers_without_their_members() {
        let mut bench = tree();
        let first = create(&bench, 1);
        assert_eq!(at(&mut bench, 1, Method::Set, &first), Ok(1));
        // Untrusted requesters see groups, members see themselves, trusted requesters see everything.
        let rows = |bench: &mut Bench, host: usize, fields: &[(Field, Value)]| {
            bench.lid = bench.host(host);
            let told = bench.ask(Method::GetTable, &records::MEMBER, fields);
            told.rows
                .iter()
                .map(|row| (Gid(f::PORT_GID.wide(row)), f::JOIN_STATE.get(row)))
                .collect::<Vec<_>>()
        };
        let second = join(&bench, 2, 1);
        assert_eq!(at(&mut bench, 2, Method::Set, &second), Ok(1));
        assert_eq!(rows(&mut bench, 0, &[]), [(Gid::default(), 0)]);
        let own = [(f::PORT_GID, Value::Gid(bench.gid(2)))];
        assert_eq!(rows(&mut bench, 2, &own), [(bench.gid(2), 1)]);
        assert_eq!(rows(&mut bench, 0, &own), []);
        bench.key = 1;
        assert_eq!(rows(&mut bench, 0, &[]), [(bench.gid(1), 1), (bench.gid(2), 1)]);
        assert_eq!(
            rows(
                &mut bench,
                0,
                &[(f::MTU_SELECTOR, number(0_u8)), (f::MTU, number(4_u8))]
            ),
            []
        );
        assert_eq!(
            rows(
                &mut bench,
                0,
                &[(f::MTU_SELECTOR, number(0_u8)), (f::MTU, number(3_u8))]
            )
            .len(),
            2
        );
    }

    #[test]
    fn are_destinations_of_paths() {
        use records::path as p;
        let mut bench = tree();
        let first = create(&bench, 0);
        assert_eq!(at(&mut bench, 0, Method::Set, &first), Ok(1));
        let question = [(p::SGID, Value::Gid(bench.gid(3))), (p::DGID, Value::Gid(IPOIB))];
        let told = bench.ask(Method::Get, &records::PATH, &question);
        assert_eq!(told.status, Status::OK);
        assert_eq!(
            [p::DLID, p::MTU, p::PKEY].map(|field: Field| field.get(&told.rows[0])),
            [0xC000, 4, 0xFFFF]
        );
        let nobody = [
            (p::SGID, Value::Gid(bench.gid(3))),
            (p::DGID, Value::Gid(Gid([0xFF; 16]))),
        ];
        assert_eq!(
            bench.ask(Method::Get, &records::PATH, &nobody).status,
            SaStatus::NO_RECORDS
        );
    }

    #[test]
    fn names_and_lids_are_given_out_and_used_again() {
        let mut bench = tree();
        let mut fields = create(&bench, 0);
        fields[0].1 = Value::Gid(Gid::default());
        let mut mgids = Vec::new();
        for want in [0xC000, 0xC001] {
            let told = bench.ask(Method::Set, &records::MEMBER, &fields);
            assert_eq!(f::MLID.get(&told.rows[0]), want);
            mgids.push(Gid(f::MGID.wide(&told.rows[0])));
        }
        assert!(mgids[0] != mgids[1] && mgids[0].is_multicast());
        let mut leave = fields[..3].to_vec();
        leave[0].1 = Value::Gid(mgids[0]);
        assert_eq!(at(&mut bench, 0, Method::Delete, &leave), Ok(0));
        let told = bench.ask(Method::Set, &records::MEMBER, &fields);
        assert_eq!(f::MLID.get(&told.rows[0]), 0xC000);
        // A unicast GID, reserved flags, and one that only the administrator assigns.
        for bad in [bench.gid(1), Gid([0xFF; 16]), mgids[0]] {
            fields[0].1 = Value::Gid(bad);
            assert_eq!(
                at(&mut bench, 0, Method::Set, &fields),
                Err(SaStatus::REQUEST_INVALID),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_thousand_joins_and_leaves_use_no_lid_up() {
        let mut bench = tree();
        let fields = create(&bench, 0);
        for round in 0..2_000 {
            assert_eq!(at(&mut bench, 0, Method::Set, &fields), Ok(1), "{round}");
            assert_eq!(at(&mut bench, 0, Method::Delete, &fields[..3]), Ok(0), "{round}");
        }
    }
}
