//! Transfers over lossy wires, and datagrams that no correct peer sends.

use std::collections::VecDeque;
use std::time::Duration;

use selvedge_sim::Time;
use selvedge_wire::sa::{Rmpp, RmppFlags, RmppKind, RmppStatus};
use selvedge_wire::{AttributeId, Class, Mad, Method};

use super::*;

fn template() -> Mad {
    Mad::request(Class::SubnAdm, Method::GetTableResp, AttributeId::from_code(0x11), 0)
}

const SEND: SenderConfig = SenderConfig {
    timeout: Duration::from_millis(100),
    retries: 5,
    window: 8,
    repeat_first: true,
};
const RECEIVE: ReceiverConfig = ReceiverConfig {
    segments_max: 1_000,
    window: 5,
    timeout: Duration::from_secs(10),
};

fn with(rmpp: Rmpp) -> Mad {
    let mut mad = template();
    mad.set_rmpp(Some(rmpp));
    mad
}

/// Sends `length` bytes in pieces over a wire that loses `lost` of each hundred datagrams. Returns the data sent, the
/// data received, and the number of datagrams.
fn transfer(length: usize, piece: usize, lost: u64) -> (Vec<u8>, Option<Vec<u8>>, u32) {
    let data: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
    let mut rest = data.clone();
    let (mut sender, mut receiver) = (Sender::new(SEND, &template()), Receiver::new(RECEIVE, Time::ZERO));
    let (mut now, mut sent, mut got) = (Time::ZERO, 0_u32, None);
    let mut wire = VecDeque::new();
    let mut state = 1_u64;
    let mut arrives = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 100 >= lost
    };
    loop {
        while sender.wants_more() {
            let some: Vec<u8> = rest.drain(..piece.min(rest.len())).collect();
            if some.is_empty() {
                sender.finish();
            }
            sender.push(&some);
        }
        while let Some(mad) = sender.next(now) {
            sent += 1;
            if arrives() {
                wire.push_back(mad);
            }
        }
        let Some(mad) = wire.pop_front() else {
            now = sender.next_wake().expect("it waits for an acknowledgement");
            match sender.expired(now) {
                Progress::Going => continue,
                _ => return (data, None, sent),
            }
        };
        let said = match receiver.received(now, &mad) {
            Taken::Nothing => continue,
            Taken::Answer(said) => said,
            Taken::Done(said, all) => {
                got = Some(all);
                said
            }
            Taken::Failed(why) => panic!("{why:?} of {mad}"),
        };
        sent += 1;
        if arrives() {
            match sender.received(&said) {
                Progress::Going => {}
                Progress::Done => return (data, got, sent),
                Progress::Failed(why) => panic!("{why:?} of {said}"),
            }
        }
    }
}

#[test]
fn every_length_arrives_whole() {
    for length in [0, 1, 199, 200, 201, 399, 400, 401, 1_600, 1_601, 20_000] {
        for piece in [1, 112, 200, 5_000] {
            let (data, got, _) = transfer(length, piece, 0);
            assert!(got.as_ref() == Some(&data), "{length} in pieces of {piece}");
        }
    }
}

#[test]
fn what_is_lost_is_sent_again() {
    for lost in [1, 5, 10, 20] {
        let (data, got, sent) = transfer(10_000, 112, lost);
        assert!(got.as_ref() == Some(&data), "{lost} of 100");
        assert!(sent > 50, "50 segments, and what was lost: {sent}");
    }
    assert!(transfer(10_000, 112, 100).1.is_none(), "nothing arrives");
}

#[test]
fn one_segment_until_the_window_is_told() {
    let mut sender = Sender::new(SEND, &template());
    sender.push(&[7; 1_000]);
    sender.finish();
    let first = sender.next(Time::ZERO).and_then(|mad| mad.rmpp());
    assert_eq!(first, Some(Rmpp::data(1, RmppFlags::FIRST, 1_100)));
    assert_eq!(sender.next(Time::ZERO), None);
    assert_eq!(sender.received(&Rmpp::ack(1, 3)), Progress::Going);
    let segments: Vec<u32> = std::iter::from_fn(|| sender.next(Time::ZERO))
        .filter_map(|mad| Some(mad.rmpp()?.segment))
        .collect();
    assert_eq!(segments, [2, 3]);
    assert_eq!(sender.received(&Rmpp::ack(3, u32::MAX)), Progress::Going);
    let last = std::iter::from_fn(|| sender.next(Time::ZERO))
        .last()
        .and_then(|mad| mad.rmpp());
    assert_eq!(last, Some(Rmpp::data(5, RmppFlags::LAST, 220)));
}

#[test]
fn a_first_segment_may_wait_to_be_asked_for() {
    let config = SenderConfig {
        repeat_first: false,
        ..SEND
    };
    let mut sender = Sender::new(config, &template());
    sender.push(&[7; 1_000]);
    sender.finish();
    let mut now = Time::ZERO;
    assert!(sender.next(now).is_some());
    now = sender.next_wake().unwrap();
    assert_eq!(sender.expired(now), Progress::Going);
    assert_eq!(sender.next(now), None, "nobody asked");
    sender.again();
    assert_eq!(
        sender.next(now).and_then(|mad| mad.rmpp()).map(|rmpp| rmpp.segment),
        Some(1)
    );
    assert_eq!(sender.received(&Rmpp::ack(1, 2)), Progress::Going);
    sender.again();
    assert_eq!(
        sender.next(now).and_then(|mad| mad.rmpp()).map(|rmpp| rmpp.segment),
        Some(2)
    );
    now = sender.next_wake().unwrap();
    assert_eq!(sender.expired(now), Progress::Going);
    assert!(sender.next(now).is_some(), "it is a transfer now");
}

#[test]
fn a_wrong_acknowledgement_ends_it() {
    let check = |rmpp: Rmpp, want: Progress| {
        let mut sender = Sender::new(SEND, &template());
        sender.push(&[7; 1_000]);
        sender.finish();
        let _ = sender.next(Time::ZERO);
        assert_eq!(sender.received(&rmpp), want, "{rmpp}");
    };
    check(Rmpp::ack(0, 1), Progress::Going);
    check(Rmpp::ack(1, 1), Progress::Going);
    check(Rmpp::ack(2, 9), Progress::Failed(RmppStatus::BAD_SEGMENT));
    check(Rmpp::ack(1, 0), Progress::Failed(RmppStatus::BAD_WINDOW));
    check(Rmpp::ack(u32::MAX, u32::MAX), Progress::Failed(RmppStatus::BAD_SEGMENT));
    check(
        Rmpp {
            version: 2,
            ..Rmpp::ack(1, 1)
        },
        Progress::Failed(RmppStatus::BAD_VERSION),
    );
    check(Rmpp::abort(RmppStatus::TOTAL_TIME), Progress::Failed(RmppStatus::OK));
    check(
        Rmpp::data(1, RmppFlags::FIRST, 1),
        Progress::Failed(RmppStatus::BAD_TYPE),
    );
}

#[test]
fn wrong_segments_end_it() {
    let check = |segments: &[Rmpp], want: Option<RmppStatus>| {
        let mut receiver = Receiver::new(
            ReceiverConfig {
                segments_max: 2,
                ..RECEIVE
            },
            Time::ZERO,
        );
        let last = segments
            .iter()
            .map(|rmpp| receiver.received(Time::ZERO, &with(*rmpp)))
            .last();
        let failed = match last {
            Some(Taken::Failed(said)) => said.map(|said| said.status),
            _ => None,
        };
        assert_eq!(failed, want, "{segments:?}");
    };
    let (first, last) = (RmppFlags::FIRST, RmppFlags::LAST);
    let both = first.with(last);
    check(&[Rmpp::data(1, both, 220)], None);
    check(&[Rmpp::data(1, both, 19)], Some(RmppStatus::BAD_LENGTH));
    check(&[Rmpp::data(1, both, 221)], Some(RmppStatus::BAD_LENGTH));
    check(&[Rmpp::data(1, RmppFlags(0), 0)], Some(RmppStatus::BAD_FIRST));
    check(&[Rmpp::data(0, first, 0)], Some(RmppStatus::BAD_FIRST));
    check(&[Rmpp::data(2, first, 0)], Some(RmppStatus::BAD_FIRST));
    check(&[Rmpp::data(1, first, 0), Rmpp::data(3, last, 30)], None);
    check(
        &[Rmpp::data(1, first, 0), Rmpp::data(2, last, u32::MAX)],
        Some(RmppStatus::BAD_LENGTH),
    );
    check(
        &[Rmpp::data(1, first, 300), Rmpp::data(2, last, 220)],
        Some(RmppStatus::BAD_LENGTH),
    );
    check(
        &[
            Rmpp::data(1, first, 0),
            Rmpp::data(2, RmppFlags(0), 0),
            Rmpp::data(3, last, 30),
        ],
        Some(RmppStatus::NO_RESOURCES),
    );
    check(
        &[Rmpp {
            kind: RmppKind::Other(9),
            ..Rmpp::ack(0, 0)
        }],
        Some(RmppStatus::BAD_TYPE),
    );
    check(
        &[Rmpp {
            version: 3,
            ..Rmpp::data(1, both, 220)
        }],
        Some(RmppStatus::BAD_VERSION),
    );
}

#[test]
fn a_silent_sender_is_given_up() {
    let mut receiver = Receiver::new(RECEIVE, Time::ZERO);
    let later = Time::ZERO + Duration::from_secs(4);
    assert_eq!(
        receiver.received(later, &with(Rmpp::data(1, RmppFlags::FIRST, 0))),
        Taken::Answer(Rmpp::ack(1, 6))
    );
    assert!(!receiver.is_expired(Time::ZERO + Duration::from_secs(13)));
    assert!(receiver.is_expired(Time::ZERO + Duration::from_secs(14)));
}
