//! Hostile input: floods, wrong masks, windows and keys, and the stored corpus of the fuzz target.

use std::path::PathBuf;
use std::time::Duration;

use crate::support::fuzz::{METHODS, converse, seeds};
use crate::support::{Bench, Value, Wish, group_parameters, number};
use proptest::prelude::*;
use selvedge_sa::{Config, Input};
use selvedge_types::TransactionId;
use selvedge_wire::sa::{Field, Layout, Rmpp, RmppFlags, RmppKind, RmppStatus, SaStatus, records};
use selvedge_wire::{Address, Class, Datagram, Gid, Mad, Method, Status};

const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";

fn tree(config: Config) -> Bench {
    Bench::with(&Wish::new(TREE), config)
}

mod floods {
    use super::*;

    /// Two clients send requests for a second: one as often as it can, the other now and then. Returns how often the
    /// first was answered, how often it got BUSY, and how often the other was answered.
    fn flood(ask: impl Fn(&mut Bench) -> Mad) -> (usize, usize, usize) {
        let config = Config {
            burst: 100,
            rate_per_s: 1_000,
            ..Config::default()
        };
        let mut bench = tree(config);
        let (flooder, other) = (bench.host(1), bench.host(2));
        let (mut good, mut busy, mut others) = (0, 0, 0);
        for ms in 0..1_000 {
            bench.lid = flooder;
            for _ in 0..20 {
                let mad = ask(&mut bench);
                let told: Vec<Status> = bench.send(&mad).iter().map(|o| o.datagram.mad.status()).collect();
                busy += told.iter().filter(|status| **status == Status::BUSY).count();
                good += told.iter().filter(|status| **status != Status::BUSY).count();
            }
            if ms % 10 == 0 {
                bench.lid = other;
                let told = bench.ask(Method::Get, &records::NODE, &[(records::node::LID, number(other.0))]);
                others += usize::from(told.status == Status::OK);
            }
            bench.later(Duration::from_millis(1));
        }
        assert!(bench.sa.counters().busy >= busy as u64);
        (good, busy, others)
    }

    #[test]
    fn of_questions_end_at_the_limit_and_nobody_else_notices() {
        let cheap = flood(|bench| {
            let lid = bench.lid.0;
            bench.question(Method::Get, &records::NODE, &[(records::node::LID, number(lid))])
        });
        // 100 at once, 1,000 per second.
        assert_eq!(cheap, (1_099, 20_000 - 1_099, 100));
    }

    #[test]
    fn of_refusals_end_at_the_limit_as_well() {
        let raw = [(records::path::RAW, number(1_u8))];
        let wrong = flood(|bench| bench.question(Method::Get, &records::PATH, &raw));
        assert_eq!(wrong, (1_099, 20_000 - 1_099, 100));
    }

    #[test]
    fn of_questions_that_make_work_end_sooner() {
        // No node has this name: every end port is examined, 14 here, at less than the price of one more request.
        let name = [(records::node::DESCRIPTION, Value::Bytes(vec![b'?'; 16]))];
        let short = flood(|bench| bench.question(Method::GetTable, &records::NODE, &name));
        assert_eq!(short.0, 1_099);
        // No pair has this key: 196 are examined, in two steps each, which costs 24 more.
        let key = [(records::path::PKEY, number(0x1234_u16))];
        let long = flood(|bench| bench.question(Method::GetTable, &records::PATH, &key));
        assert!((40..=50).contains(&long.0), "{long:?}");
        assert_eq!(long.2, 100);
    }

    #[test]
    fn of_repeats_of_one_question_cost_as_much_as_questions() {
        let again = flood(|bench| {
            let mut mad = bench.question(Method::GetTable, &records::NODE, &[]);
            mad.set_transaction(TransactionId(7));
            mad
        });
        assert!(again.0 <= 1_200, "{again:?}");
        assert_eq!(again.2, 100);
    }

    /// Begins one long answer more than a client may have. Returns how many are BUSY, and how many were dropped for
    /// others.
    fn long_answers(acknowledged: bool) -> (usize, u64) {
        let mut bench = tree(Config::default());
        let mut busy = 0;
        for _ in 0..Config::default().transfers_per_client + 3 {
            let mad = bench.question(Method::GetTable, &records::PATH, &[]);
            busy += usize::from(bench.send(&mad)[0].datagram.mad.status() == Status::BUSY);
            if acknowledged {
                let mut ack = mad;
                ack.set_rmpp(Some(Rmpp::ack(1, 2)));
                bench.send(&ack);
            }
        }
        let failed = bench.sa.counters().failed;
        bench.lid = bench.host(3);
        assert_eq!(bench.ask(Method::GetTable, &records::PATH, &[]).rows.len(), 14 * 14);
        (busy, failed)
    }

    #[test]
    fn of_long_answers_leave_the_others_theirs() {
        assert_eq!(long_answers(true), (3, 0));
        // A client that never acknowledges has no use for a long answer.
        assert_eq!(long_answers(false), (0, 3));
    }
}

mod masks {
    use super::*;

    #[test]
    fn of_components_that_a_record_does_not_have_are_refused() {
        let mut bench = tree(Config::default());
        let mut refused = 0;
        for layout in records::ALL {
            let more = !layout.components();
            // No field of a ClassPortInfo is compared.
            if more == 0 || layout.id == records::CLASS_PORT_INFO.id {
                continue;
            }
            for method in [Method::Get, Method::GetTable] {
                let mut mad = bench.question(method, layout, &[]);
                mad.set_component_mask(1 << more.trailing_zeros());
                let status = bench.exchange(&mad).status;
                assert_eq!(status, SaStatus::REQUEST_INVALID, "{} {method:?}", layout.name);
                refused += 1;
            }
        }
        assert!(refused > records::ALL.len(), "{refused} requests");
    }

    #[test]
    fn without_what_is_needed_are_refused() {
        let mut bench = tree(Config::default());
        let mut check = |method: Method, layout: &Layout, fields: &[(Field, Value)], want: Status| {
            assert_eq!(
                bench.ask(method, layout, fields).status,
                want,
                "{} {method:?}",
                layout.name
            );
        };
        let missing = SaStatus::INSUFFICIENT_COMPONENTS;
        check(Method::Set, &records::MEMBER, &[], missing);
        check(Method::Delete, &records::MEMBER, &[], missing);
        check(Method::Set, &records::SERVICE, &[], missing);
        check(Method::Delete, &records::SERVICE, &[], missing);
    }
}

/// A request with a wrong SM_Key is refused and counted, and has no effect.
#[test]
fn forged_keys_are_denied_and_counted() {
    let mut bench = tree(Config::default());
    let mut forged = 0;
    for layout in records::ALL {
        for code in METHODS {
            let method = Method::from_code(code);
            bench.key = 7;
            let mad = bench.question(method, layout, &[]);
            let out = bench.send(&mad);
            if method.is_response() || method == Method::Trap {
                continue;
            }
            forged += 1;
            assert_eq!(
                out[0].datagram.mad.status(),
                SaStatus::DENIED,
                "{} {method:?}",
                layout.name
            );
            assert_eq!(out[0].datagram.mad.sm_key(), 0);
        }
    }
    assert_eq!(bench.sa.counters().bad_key, forged);
    assert_eq!(bench.sa.revision(), 0, "nothing was registered");
    assert_eq!(bench.sa.counters().answered, 0);
}

mod segments {
    use super::*;

    /// Sends a segmented request with these numbers, flags and length.
    fn part(bench: &mut Bench, transaction: u64, (segment, flags, length): (u32, u8, u32)) -> Vec<Mad> {
        let mut mad = bench.question(Method::GetMulti, &records::MULTI_PATH, &[]);
        mad.set_transaction(TransactionId(transaction));
        mad.set_rmpp(Some(Rmpp::data(segment, RmppFlags(flags | 1), length)));
        bench.send(&mad).into_iter().map(|o| o.datagram.mad).collect()
    }

    /// Returns the last RMPP message about a request: an ABORT or STOP, with its status.
    fn end(said: &[Mad]) -> Option<(RmppKind, RmppStatus)> {
        let rmpp = said.last()?.rmpp()?;
        matches!(rmpp.kind, RmppKind::Abort | RmppKind::Stop).then_some((rmpp.kind, rmpp.status))
    }

    #[test]
    fn beyond_what_a_question_may_have_end_it() {
        let mut bench = tree(Config::default());
        // Fifty segments are announced, but no request has so many.
        let said = part(&mut bench, 1, (1, 2, 50 * 220));
        let first_end = end(&said);
        let mut last = None;
        for segment in 2..=50 {
            let said = part(&mut bench, 1, (segment, 0, 0));
            last = last.or(end(&said));
        }
        assert!(first_end.or(last).is_some(), "it takes questions of any length");
        assert!(bench.sa.counters().failed > 0);
        // The request is not kept.
        assert_eq!(bench.ask(Method::GetTable, &records::NODE, &[]).rows.len(), 14);
    }

    #[test]
    fn that_begin_nothing_are_dropped() {
        let mut bench = tree(Config::default());
        let before = bench.sa.counters().dropped;
        for (segment, flags) in [(2, 0), (3, 4), (0, 0), (u32::MAX, 4)] {
            assert_eq!(part(&mut bench, 2, (segment, flags, 220)).len(), 0, "{segment}");
        }
        assert_eq!(bench.sa.counters().dropped, before + 4);
    }

    #[test]
    fn of_questions_that_never_end_are_given_up() {
        let mut bench = tree(Config::default());
        for transaction in 0..2_000 {
            part(&mut bench, transaction, (1, 2, 0));
        }
        let busy = bench.sa.counters().busy;
        assert!(busy > 0, "there is a limit");
        bench.later(Duration::from_secs(10));
        let said = part(&mut bench, 5_000, (1, 2, 0));
        assert!(said.iter().all(|mad| mad.status() == Status::OK), "room again");
        assert_eq!(bench.sa.counters().busy, busy, "room again");
    }

    #[test]
    fn acknowledged_wrongly_end_the_answer() {
        let check = |segment: u32, last: u32, want: RmppStatus| {
            let mut bench = tree(Config::default());
            let question = bench.question(Method::GetTable, &records::PATH, &[]);
            assert!(!bench.send(&question).is_empty());
            let mut ack = question;
            ack.set_rmpp(Some(Rmpp::ack(segment, last)));
            let said: Vec<Mad> = bench.send(&ack).into_iter().map(|o| o.datagram.mad).collect();
            assert_eq!(end(&said), Some((RmppKind::Abort, want)), "{segment} {last}");
            assert_eq!(bench.sa.counters().failed, 1);
            assert_eq!(bench.sa.next_wake(), None, "nothing is left of it");
        };
        check(1, 0, RmppStatus::BAD_WINDOW);
        check(1_000, 2_000, RmppStatus::BAD_SEGMENT);
    }
}

/// A host that never answers reports loses its subscriptions; other subscribers still get reports.
#[test]
fn who_never_answers_reports_is_forgotten() {
    use records::inform_info as f;
    let mut bench = tree(Config::default());
    let fields = [
        (f::LID_BEGIN, number(0xFFFF_u16)),
        (f::IS_GENERIC, number(1_u8)),
        (f::SUBSCRIBE, number(1_u8)),
        (f::TYPE, number(0xFFFF_u16)),
        (f::TRAP_NUMBER, number(0xFFFF_u16)),
        (f::PRODUCER, number(0xFF_FFFF_u32)),
    ];
    for host in [1, 2] {
        bench.lid = bench.host(host);
        assert_eq!(
            bench.ask(Method::Set, &records::INFORM_INFO, &fields).status,
            Status::OK
        );
    }
    let mut create: Vec<(Field, Value)> = vec![
        (
            records::member::MGID,
            Value::Gid(Gid(0xFF12_401B_FFFF_0000_0000_0000_0000_0001_u128.to_be_bytes())),
        ),
        (records::member::PORT_GID, Value::Gid(bench.gid(0))),
        (records::member::JOIN_STATE, number(1_u8)),
    ];
    create.extend(group_parameters());
    bench.lid = bench.host(0);
    assert_eq!(bench.ask(Method::Set, &records::MEMBER, &create).status, Status::OK);
    let told: Vec<Datagram> = std::mem::take(&mut bench.beside);
    assert_eq!(told.len(), 2);
    // The second answers.
    let polite = bench.host(2);
    let report = told.iter().find(|report| report.address.lid == polite).unwrap();
    let mut answer = report.mad;
    answer.set_method(Method::ReportResp);
    let address = Address::gsi(polite, Default::default());
    bench.feed(Input::Received(Datagram { address, mad: answer }));
    let silence = |bench: &mut Bench| (0..5).for_each(|_| bench.later(Duration::from_secs(1)));
    silence(&mut bench);
    assert_eq!(bench.sa.counters().reports_lost, 1);
    assert_eq!(
        bench.sa.registrations().counts().2,
        2,
        "it may be out of reach for a moment"
    );
    // The group ends a minute later: the host gets a report of that too, and is silent again.
    bench.later(Duration::from_secs(60));
    bench.lid = bench.host(0);
    assert_eq!(
        bench.ask(Method::Delete, &records::MEMBER, &create[..3]).status,
        Status::OK
    );
    silence(&mut bench);
    assert_eq!(bench.sa.registrations().counts().2, 1, "who has answered once is left");
}

/// A datagram of another class never reaches the administrator. If it does, it has no effect.
#[test]
fn anything_else_is_dropped_and_counted() {
    let mut bench = tree(Config::default());
    for method in [
        Method::Send,
        Method::Trap,
        Method::Report,
        Method::TrapRepress,
        Method::GetResp,
    ] {
        let mad = Mad::request(Class::SubnAdm, method, records::NODE.id, 0);
        assert_eq!(bench.send(&mad).len(), 0, "{method:?}");
    }
    assert_eq!(bench.sa.counters().dropped, 5);
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// `SELVEDGE_BLESS=1` writes the seeds. Inputs found by a fuzzer are added by hand and stay.
#[test]
fn the_stored_corpus_holds() {
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (name, bytes) in seeds() {
            std::fs::write(corpus().join(name), bytes).unwrap();
        }
    }
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        converse(&std::fs::read(path).unwrap());
        count += 1;
    }
    assert!(count >= seeds().len(), "{count} files");
}

proptest! {
    #[test]
    fn any_bytes_are_a_conversation(bytes in proptest::collection::vec(any::<u8>(), 0..800)) {
        converse(&bytes);
    }

    /// Well-formed requests, so that registrations are made.
    #[test]
    fn any_requests_are_a_conversation(
        requests in proptest::collection::vec(
            (0_u8..14, 0_u8..8, any::<u8>(), any::<u8>(), any::<u64>(), any::<[u8; 24]>()),
            1..40,
        )
    ) {
        let mut bytes = vec![16];
        for (who, method, record, key, mask, data) in requests {
            bytes.extend([0, who, method, record, key, 3 | key & 0x70]);
            bytes.extend(mask.to_be_bytes());
            bytes.push(24);
            bytes.extend(data);
            bytes.extend([14, key, 11]);
        }
        converse(&bytes);
    }
}
