//! Tests of the compiler: examples, refusals, and properties of random intents on random hardware.

use proptest::prelude::*;
use selvedge_dataplane::VlArb;
use selvedge_types::{Mtu, Vl};

use super::*;

const LINK: Hardware = Hardware {
    lanes: 8,
    vl_arb_high: 8,
    vl_arb_low: 8,
    mtu: Mtu::B4096,
};

const fn lanes(hardware: &Hardware) -> Lanes {
    Lanes {
        lanes: hardware.lanes,
        vl_arb_high: hardware.vl_arb_high,
        vl_arb_low: hardware.vl_arb_low,
    }
}

fn class(name: &str, share: Option<u8>, latency: Latency) -> Class {
    Class {
        name: name.to_owned(),
        share,
        latency,
        ..Class::default()
    }
}

fn intent(classes: &[Class]) -> Intent {
    Intent {
        classes: classes.to_vec(),
        default: classes.first().map(|class| class.name.clone()).unwrap_or_default(),
        ..Intent::default()
    }
}

/// The example of the manuals: MPI at least 70 %, OST at least 30 %, MDS with low latency.
fn manual() -> Intent {
    intent(&[
        class("MPI", Some(70), Latency::Normal),
        class("OST", Some(30), Latency::Normal),
        class("MDS", None, Latency::Low),
    ])
}

fn numbers(row: &[Vl]) -> Vec<u8> {
    row.iter().map(|vl| vl.get()).collect()
}

fn text(table: &[(Vl, u8)]) -> String {
    let entries = table.iter().map(|(vl, weight)| format!("{}:{weight}", vl.get()));
    entries.collect::<Vec<_>>().join(",")
}

#[test]
fn the_example_of_the_manuals() {
    let compiled = compile(&manual(), &LINK, 1).unwrap();
    let tables = tables_on(&compiled, &lanes(&LINK));
    assert_eq!(numbers(&tables.row), [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(text(&tables.low), "0:192,0:128,1:192,0:128");
    assert_eq!(text(&tables.high), "2:1");
    assert_eq!((tables.high_limit, tables.used, tables.oper_vls), (0, 3, 3));
    assert_eq!(tables.keeps, [true; 3]);
    assert_eq!(most_of(&compiled, 2), Some(51));
    assert_eq!(most_of(&compiled, 0), None);
}

/// With two layers each class has a lane per layer, and no lane holds two layers, on short links too.
#[test]
fn classes_and_layers() {
    let compiled = compile(&manual(), &LINK, 2).unwrap();
    let sls: Vec<Vec<u8>> = compiled
        .classes
        .iter()
        .map(|plan| plan.sls.iter().map(|sl| sl.get()).collect())
        .collect();
    assert_eq!(sls, [[0, 1], [2, 3], [4, 5]]);
    let on = |lanes| {
        tables_on(
            &compiled,
            &Lanes {
                lanes,
                vl_arb_high: 8,
                vl_arb_low: 8,
            },
        )
    };
    assert_eq!(numbers(&on(8).row[..8]), [0, 1, 2, 3, 4, 5, 0, 1]);
    assert_eq!(text(&on(8).low), "0:192,1:192,0:128,1:128,2:192,3:192,0:128,1:128");
    assert_eq!(text(&on(8).high), "4:1,5:1");
    // Four lanes: MPI and OST share, MDS keeps its own. Two lanes: all share. One lane: layers mix.
    assert_eq!(numbers(&on(4).row[..8]), [0, 1, 0, 1, 2, 3, 0, 1]);
    assert_eq!(on(4).keeps, [false, false, true]);
    assert_eq!(numbers(&on(2).row[..8]), [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(numbers(&on(1).row[..8]), [0; 8]);
    assert_eq!((on(1).used, on(1).oper_vls), (1, 1));
}

#[test]
fn a_cap_of_low_latency_is_kept_by_the_mtu() {
    let mds = |cap, mtu| Class {
        cap: Some(cap),
        mtu,
        ..class("MDS", None, Latency::Low)
    };
    let with = |mds: Class| compile(&intent(&[class("MPI", Some(70), Latency::Normal), mds]), &LINK, 1);
    let compiled = with(mds(20, None)).unwrap();
    assert_eq!(compiled.classes[1].mtu, Mtu::B512);
    assert_eq!(most_of(&compiled, 1), Some(13));
    let error = with(mds(20, Some(Mtu::B2048))).unwrap_err().to_string();
    assert!(
        error.starts_with("SLV-QOS-0045: class MDS: arbitration cannot keep a cap of 20 %"),
        "{error}"
    );
    assert!(
        error.contains("possible: MPI >= 70 %, MDS with low latency <= 20 % (0 points"),
        "{error}"
    );
    let error = with(mds(3, None)).unwrap_err().to_string();
    assert!(
        error.contains("MDS with low latency <= 8 % (0 points of share less; another cap: MDS)"),
        "{error}"
    );
}

#[test]
fn refusals_say_what_is_possible_instead() {
    let check = |classes: &[Class], hardware: Hardware, layers, want: &str| {
        let error = compile(&intent(classes), &hardware, layers).unwrap_err().to_string();
        assert_eq!(error, want);
    };
    let normal = |name, share| class(name, share, Latency::Normal);
    check(
        &[normal("a", Some(70)), normal("b", Some(50))],
        LINK,
        1,
        "SLV-QOS-0040: the shares of all classes are 120 %; they must leave 0 % for classes without a share; possible: \
         a >= 58 %, b >= 41 % (12 points of share less)",
    );
    check(
        &[normal("a", Some(70)), normal("b", Some(30)), normal("c", None)],
        LINK,
        1,
        "SLV-QOS-0040: the shares of all classes are 100 %; they must leave 1 % for classes without a share; possible: \
         a >= 68 %, b >= 27 %, c (2 points of share less)",
    );
    let two = Hardware { lanes: 2, ..LINK };
    check(
        &manual().classes,
        two,
        1,
        "SLV-QOS-0042: 3 classes x 1 routing layers need 3 data lanes; links have 2; possible: MPI+OST >= 100 %, MDS \
         with low latency (0 points of share less; shared lanes: MPI, OST)",
    );
    check(
        &manual().classes,
        LINK,
        3,
        "SLV-QOS-0042: 3 classes x 3 routing layers need 9 data lanes; links have 8; possible: MPI+OST >= 100 %, MDS \
         with low latency (0 points of share less; shared lanes: MPI, OST)",
    );
    let wide = Hardware { lanes: 15, ..LINK };
    let six: Vec<Class> = ["a", "b", "c", "d", "e", "f"].map(|name| normal(name, None)).to_vec();
    check(
        &six,
        wide,
        3,
        "SLV-QOS-0041: 6 classes x 3 routing layers need 18 SLs; there are 16; possible: a+b+c+d, e+f (0 points of \
         share less; shared lanes: a, b, c, d, e, f)",
    );
}

#[test]
fn refusals_for_the_arbitration_tables() {
    let check = |classes: &[Class], hardware: Hardware, want: &str| {
        let error = compile(&intent(classes), &hardware, 1).unwrap_err().to_string();
        assert_eq!(error, want);
    };
    let normal = |name, share| class(name, share, Latency::Normal);
    let no_high = Hardware { vl_arb_high: 0, ..LINK };
    check(
        &manual().classes,
        no_high,
        "SLV-QOS-0043: 1 entries are needed in the high-priority arbitration table; it has 0; possible: MPI >= 68 %, \
         OST >= 27 %, MDS (2 points of share less; no priority: MDS)",
    );
    check(
        &[normal("a", Some(34)), normal("b", Some(33)), normal("c", Some(33))],
        LINK,
        "SLV-QOS-0044: no weights in 8 low-priority entries give every class its share: a weight is at most 3 packets \
         of 4096 bytes; possible: a >= 33 %, b >= 33 %, c >= 33 % (1 points of share less)",
    );
    check(
        &[
            normal("a", Some(70)),
            class("b", Some(30), Latency::Low),
            class("c", None, Latency::Low),
        ],
        LINK,
        "SLV-QOS-0046: class b: a low-latency class is promised 30 % of a link, but one packet of normal classes \
         follows each of its packets, so it gets at least 24 %; possible: a >= 70 %, b >= 24 % with low latency, c \
         with low latency (6 points of share less)",
    );
}

#[test]
fn invalid_intents() {
    let check = |intent: &Intent, layers, want: &str| {
        let error = compile(intent, &LINK, layers).unwrap_err().to_string();
        assert!(error.starts_with(want), "{error}");
    };
    check(&Intent::default(), 1, "SLV-QOS-0030");
    let twice = intent(&[manual().classes, manual().classes].concat());
    check(&twice, 1, "SLV-QOS-0031: the QoS intent has two classes called 'MPI'");
    let other = Intent {
        default: "MPJ".to_owned(),
        ..manual()
    };
    check(
        &other,
        1,
        "SLV-QOS-0032: the QoS intent's default class 'MPJ' is none of its classes; did you mean 'MPI'?",
    );
    check(
        &intent(&[class("a", Some(0), Latency::Normal)]),
        1,
        "SLV-QOS-0033: class a: share 0 %; want 1 to 100",
    );
    check(
        &intent(&[class("a", Some(101), Latency::Normal)]),
        1,
        "SLV-QOS-0033: class a: share 101 %",
    );
    check(&manual(), 0, "SLV-QOS-0035");
    check(&manual(), 16, "SLV-QOS-0035");
    assert_eq!(ulp("Sdp"), Ok(Ulp::Sdp));
    let error = ulp("ipiob").unwrap_err().to_string();
    assert!(
        error.starts_with("SLV-QOS-0034: no ULP is called 'ipiob'; did you mean 'ipoib'?"),
        "{error}"
    );
}

fn any_class() -> impl Strategy<Value = Class> {
    let share = proptest::option::weighted(0.8, 1..=60_u8);
    let cap = proptest::option::weighted(0.2, 1..=100_u8);
    let mtu = proptest::option::weighted(0.3, 1..=5_u8);
    (share, any::<bool>(), cap, mtu).prop_map(|(share, low, cap, mtu)| Class {
        share,
        latency: if low { Latency::Low } else { Latency::Normal },
        cap,
        mtu: mtu.and_then(Mtu::from_code),
        ..Class::default()
    })
}

fn any_intent() -> impl Strategy<Value = Intent> {
    proptest::collection::vec(any_class(), 1..8).prop_map(|mut classes| {
        classes
            .iter_mut()
            .zip('a'..)
            .for_each(|(class, name)| class.name = name.to_string());
        intent(&classes)
    })
}

fn any_hardware() -> impl Strategy<Value = Hardware> {
    let lanes = proptest::sample::select(vec![1, 2, 4, 8, 15_u8]);
    (lanes, 0..=64_u8, 0..=64_u8, 3..=5_u8).prop_map(|(lanes, high, low, mtu)| Hardware {
        lanes,
        vl_arb_high: high,
        vl_arb_low: low,
        mtu: Mtu::from_code(mtu).unwrap(),
    })
}

fn dataplane(table: &[(Vl, u8)]) -> Vec<(u8, u8)> {
    table.iter().map(|(vl, weight)| (vl.get(), *weight)).collect()
}

/// What an arbiter of the packet simulator sends.
struct Sent {
    /// Payload of each lane in bytes.
    bytes: [u64; 15],
    /// For each lane, the most packets of others between two of its own.
    waited: [u32; 15],
}

/// Runs the packet simulator's arbiter with lanes that always have packets of their MTU.
fn run(tables: &LinkTables, mtu_of: impl Fn(u8) -> Mtu, ready: u16, packets: u32) -> Sent {
    let arbitration = VlArb {
        high: dataplane(&tables.high),
        low: dataplane(&tables.low),
        high_limit: tables.high_limit,
    };
    let compiled = arbitration.compiled(15);
    let mut arbiter = compiled.arbiter(0);
    let mut sent = Sent {
        bytes: [0; 15],
        waited: [0; 15],
    };
    let mut since = [0_u32; 15];
    for _ in 0..packets {
        let vl = compiled.choose(&mut arbiter, ready);
        let mtu = mtu_of(vl);
        // Headers take less than a unit of 64 bytes.
        compiled.sent(&mut arbiter, u32::from(mtu.bytes()) / 64 + 1);
        let at = usize::from(vl);
        sent.bytes[at] += u64::from(mtu.bytes());
        sent.waited[at] = sent.waited[at].max(since[at]);
        since.iter_mut().for_each(|since| *since += 1);
        since[at] = 0;
    }
    sent
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Every intent compiles, is refused with an offer that compiles, or is invalid.
    #[test]
    fn every_offer_compiles(intent in any_intent(), hardware in any_hardware(), layers in 1..=15_u8) {
        match compile(&intent, &hardware, layers) {
            Ok(_) => {}
            Err(IntentError::Refused(refused)) => {
                let offer = &refused.offer;
                prop_assert!(offer.layers >= 1 && offer.layers <= layers);
                let found = compile(&offer.intent, &hardware, offer.layers);
                prop_assert!(found.is_ok(), "{refused}\n{}", found.unwrap_err());
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    /// Backlogged classes get their shares and wait no longer than stated, by the packet simulator's arbiter.
    #[test]
    fn tables_keep_promises(intent in any_intent(), hardware in any_hardware(), layers in 1..=4_u8) {
        let (intent, layers) = match compile(&intent, &hardware, layers) {
            Err(IntentError::Refused(refused)) => (refused.offer.intent, refused.offer.layers),
            _ => (intent, layers),
        };
        let compiled = compile(&intent, &hardware, layers).unwrap();
        let tables = tables_on(&compiled, &lanes(&hardware));
        prop_assert!(tables.keeps.iter().all(|keeps| *keeps), "{tables:?}");
        prop_assert!(tables.high.len() <= usize::from(hardware.vl_arb_high));
        prop_assert!(tables.low.len() <= usize::from(hardware.vl_arb_low));
        prop_assert_eq!(usize::from(tables.used), intent.classes.len() * usize::from(layers));
        if tables.used < 2 {
            return Ok(());
        }
        let class_of = |vl: u8| usize::from(vl / layers);
        let sent = run(&tables, |vl| compiled.classes[class_of(vl)].mtu, (1 << tables.used) - 1, 40_000);
        let of_class = |at: usize| -> u64 {
            (0..tables.used).filter(|vl| class_of(*vl) == at).map(|vl| sent.bytes[usize::from(vl)]).sum()
        };
        let is_low_latency = |at: &usize| compiled.classes[*at].class.latency == Latency::Low;
        let all: u64 = sent.bytes.iter().sum();
        let rest: u64 = (0..intent.classes.len()).filter(|at| !is_low_latency(at)).map(of_class).sum();
        for (at, plan) in compiled.classes.iter().enumerate() {
            let of = if is_low_latency(&at) { all } else { rest };
            let percent = 100.0 * of_class(at) as f64 / of as f64;
            let share = f64::from(plan.class.share.unwrap_or(0));
            // Weights are in whole packets of the links' MTU; smaller packets have more headers.
            let slack = if plan.mtu == hardware.mtu { 1.0 } else { 1.0 + share / 5.0 };
            prop_assert!(percent + slack >= share, "{}: {percent} of {share}\n{tables:?}", plan.class.name);
            if let Some(most) = most_of(&compiled, at) {
                let percent = 100.0 * of_class(at) as f64 / all as f64;
                prop_assert!(percent <= f64::from(most), "{percent} {most}");
            }
        }
        let sent = run(&tables, |_| hardware.mtu, (1 << tables.used) - 1, 40_000);
        for vl in 0..tables.used {
            let bound = tables.packets_before(Vl::new(vl).unwrap(), hardware.mtu);
            let waited = sent.waited[usize::from(vl)];
            prop_assert!(bound.is_some_and(|bound| waited <= bound), "{vl}: {waited} {bound:?}\n{tables:?}");
        }
    }

    /// On any link each service level has a lane that the link has, each lane in use has an entry, and layers stay
    /// apart if there are lanes for them.
    #[test]
    fn every_link_serves_every_level(
        intent in any_intent(),
        hardware in any_hardware(),
        layers in 1..=4_u8,
        link in any_hardware(),
    ) {
        let (intent, layers) = match compile(&intent, &hardware, layers) {
            Err(IntentError::Refused(refused)) => (refused.offer.intent, refused.offer.layers),
            _ => (intent, layers),
        };
        let compiled = compile(&intent, &hardware, layers).unwrap();
        let tables = tables_on(&compiled, &lanes(&link));
        prop_assert!(tables.used <= link.lanes && tables.used >= 1);
        prop_assert!(tables.high.len() <= usize::from(link.vl_arb_high));
        prop_assert!(tables.low.len() <= usize::from(link.vl_arb_low));
        prop_assert!(tables.row.iter().all(|vl| vl.get() < tables.used));
        for vl in 0..tables.used {
            let has = |table: &[(Vl, u8)]| table.iter().any(|(lane, weight)| lane.get() == vl && *weight > 0);
            prop_assert!(tables.used == 1 || has(&tables.high) || has(&tables.low), "{vl} {tables:?}");
        }
        let entries = link.vl_arb_high.saturating_add(link.vl_arb_low).max(1);
        if link.lanes.min(entries) >= layers {
            for (a, lane) in tables.row.iter().enumerate() {
                for (b, other) in tables.row.iter().enumerate() {
                    let same_layer = a % usize::from(layers) == b % usize::from(layers);
                    prop_assert!(same_layer || lane != other, "{a} {b} {tables:?}");
                }
            }
        }
    }
}
