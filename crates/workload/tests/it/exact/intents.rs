//! Random intents compiled to tables, and the shares that packets get by them on a link of two clusters.

use selvedge_dataplane::{Host, Message, Ps, VlArb, Workload};
use selvedge_plan::qos::{Class, Compiled, Hardware, Intent, Latency};
use selvedge_qos::intent::{IntentError, Lanes, LinkTables, compile, tables_on};
use selvedge_sim::{Rng, Seed};
use selvedge_types::{Mtu, Vl};

use super::support::Lab;

/// Hosts with packets always waiting: by host, receiver, service level and bytes of each message.
struct Backlog {
    flows: Vec<(Host, u8, u32)>,
    posted: Vec<Ps>,
}

impl Workload for Backlog {
    fn next(&mut self, host: Host, _now: Ps) -> Option<Message> {
        let &(to, sl, bytes) = self.flows.get(host as usize)?;
        // Faster than the link, which takes 40 ps for a byte, so that there is always something to send.
        let at = self.posted.get_mut(host as usize)?;
        *at += Ps::from(bytes) * 30;
        Some(Message {
            at: *at,
            to,
            bytes,
            tag: 0,
            sl: Some(sl),
        })
    }
}

fn any_class(rng: &mut Rng, name: char) -> Class {
    let is_low_latency = rng.below(3) == 0;
    Class {
        name: name.to_string(),
        share: (rng.below(5) > 0).then(|| 1 + rng.below(60) as u8),
        latency: if is_low_latency { Latency::Low } else { Latency::Normal },
        cap: (is_low_latency && rng.below(2) == 0).then(|| 5 + rng.below(60) as u8),
        ..Class::default()
    }
}

/// Returns an intent and layers that compile on the hardware: drawn ones, or what the compiler offers instead.
fn any_compiled(rng: &mut Rng) -> Compiled {
    let intent = Intent {
        classes: ('a'..)
            .take(1 + rng.below(6) as usize)
            .map(|name| any_class(rng, name))
            .collect(),
        default: "a".to_owned(),
        ..Intent::default()
    };
    let hardware = Hardware {
        lanes: [2, 4, 8, 15][rng.below(4) as usize],
        vl_arb_high: 1 + rng.below(64) as u8,
        vl_arb_low: 1 + rng.below(64) as u8,
        mtu: [Mtu::B1024, Mtu::B2048, Mtu::B4096][rng.below(3) as usize],
    };
    let layers = 1 + rng.below(3) as u8;
    match compile(&intent, &hardware, layers) {
        Err(IntentError::Refused(refused)) => {
            let offer = refused.offer;
            compile(&offer.intent, &hardware, offer.layers).unwrap()
        }
        other => other.unwrap(),
    }
}

fn table(entries: &[(Vl, u8)]) -> Vec<(u8, u8)> {
    entries.iter().map(|(vl, weight)| (vl.get(), *weight)).collect()
}

/// Returns the bytes that each lane brings over the link if all always have packets of their class's MTU.
fn bytes_of_lanes(compiled: &Compiled, tables: &LinkTables) -> Vec<u64> {
    let used = u32::from(tables.used);
    let class_of = |lane: u32| lane as usize / usize::from(compiled.layers);
    let flow = |lane: u32| {
        let bytes = compiled.classes[class_of(lane)].mtu.bytes();
        // Of each cluster the hosts are in order, one for each lane; level and lane have one number.
        assert_eq!(tables.row[lane as usize].get(), lane as u8);
        (used + lane, lane as u8, u32::from(bytes))
    };
    let flows: Vec<_> = (0..used).map(flow).collect();
    let lab = Lab::new(&format!("clusters:hosts={used},links=1"), "minhop").with(|s| {
        s.vls = tables.used;
        s.mtu = compiled.hardware.mtu;
        s.vl_arb = VlArb {
            high: table(&tables.high),
            low: table(&tables.low),
            high_limit: tables.high_limit,
        };
        (s.warmup_ns, s.duration_ns) = (50_000, 2_000_000);
    });
    let found = lab.run_traffic(
        Backlog {
            posted: vec![0; flows.len()],
            flows,
        },
        None,
    );
    found.accepted[..used as usize].to_vec()
}

/// The shares that classes are promised are those that they get: of a link for a low-latency class, of what these leave
/// for another one.
#[test]
fn each_backlogged_class_gets_its_share() {
    let mut checked = 0;
    for seed in 0..80 {
        let mut rng = Seed(seed).child("intent").rng();
        let compiled = any_compiled(&mut rng);
        let hardware = compiled.hardware;
        let tables = tables_on(
            &compiled,
            &Lanes {
                lanes: hardware.lanes,
                vl_arb_high: hardware.vl_arb_high,
                vl_arb_low: hardware.vl_arb_low,
            },
        );
        assert!(tables.keeps.iter().all(|keeps| *keeps), "seed {seed}");
        let lanes = bytes_of_lanes(&compiled, &tables);
        let layers = usize::from(compiled.layers);
        let classes: Vec<u64> = lanes.chunks(layers).map(|lanes| lanes.iter().sum()).collect();
        let sum = |of: Latency| -> u64 {
            let all = compiled.classes.iter().zip(&classes);
            all.filter(|(plan, _)| plan.class.latency == of)
                .map(|(_, bytes)| bytes)
                .sum()
        };
        let (low, normal) = (sum(Latency::Low), sum(Latency::Normal));
        for (plan, &bytes) in compiled.classes.iter().zip(&classes) {
            let all = match plan.class.latency {
                Latency::Low => low + normal,
                Latency::Normal => normal,
            };
            let percent = 100.0 * bytes as f64 / all as f64;
            let share = f64::from(plan.class.share.unwrap_or(0));
            assert!(
                percent > share - 1.0 && bytes > 0,
                "seed {seed}, class {}: {percent} % of {share} %\n{tables:?}",
                plan.class.name
            );
            checked += u32::from(plan.class.share.is_some());
        }
    }
    assert!(checked > 100, "{checked} promises");
}

/// Tables that do not fit the promise are found: the shares of two classes exchanged.
#[test]
fn a_wrong_weight_is_seen() {
    let class = |name: &str, share| Class {
        name: name.to_owned(),
        share: Some(share),
        ..Class::default()
    };
    let intent = Intent {
        classes: vec![class("a", 70), class("b", 30)],
        default: "a".to_owned(),
        ..Intent::default()
    };
    let hardware = Hardware {
        lanes: 8,
        vl_arb_high: 8,
        vl_arb_low: 8,
        mtu: Mtu::B2048,
    };
    let compiled = compile(&intent, &hardware, 1).unwrap();
    let lanes = Lanes {
        lanes: 8,
        vl_arb_high: 8,
        vl_arb_low: 8,
    };
    let share = |tables: &LinkTables| {
        let bytes = bytes_of_lanes(&compiled, tables);
        100.0 * bytes[0] as f64 / (bytes[0] + bytes[1]) as f64
    };
    let mut tables = tables_on(&compiled, &lanes);
    assert!((share(&tables) - 70.0).abs() < 0.5);
    let other = |vl: Vl| Vl::new(1 - vl.get()).unwrap();
    tables.low.iter_mut().for_each(|(vl, _)| *vl = other(*vl));
    assert!((share(&tables) - 30.0).abs() < 0.5);
}
