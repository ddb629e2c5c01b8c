//! The body of the fuzz target, also run by `cargo test` over the stored corpus.

use selvedge_plan::qos::{Hardware, Intent, Settings, Target};
use selvedge_types::{Mtu, Vl};

use crate::intent::{self, IntentError};
use crate::opensm::{self, PortFacts, PortTables, Template, policy};
use crate::ufm::Bandwidths;

/// A small port and a large one, with the number of their data lanes.
const PORTS: [(PortFacts, u8); 2] = [
    (
        PortFacts {
            vl_cap: 2,
            oper_vls: 2,
            vl_arb_high: 1,
            vl_arb_low: 3,
            has_sl_mapping: true,
        },
        2,
    ),
    (
        PortFacts {
            vl_cap: 5,
            oper_vls: 4,
            vl_arb_high: 64,
            vl_arb_low: 64,
            has_sl_mapping: true,
        },
        8,
    ),
];

/// Data rates of links in Mb/s.
const RATES: [u32; 2] = [10_000, 400_000];

/// Reads any bytes as a QoS policy, as settings and as UFM's bandwidths.
///
/// # Panics
///
/// If one of these does not hold. A refusal has a code, and its line is one of the text. A text gives the same values
/// when it is read twice. Each lane of a port's tables is one that the port operates. An intent compiles, or is refused
/// with another one that compiles.
pub fn read(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    read_policy(&text);
    read_settings(&text);
    let bandwidths = Bandwidths::parse(&text);
    assert_eq!(bandwidths, Bandwidths::parse(&text), "read twice");
    match bandwidths {
        Err(error) => check_refusal(&error.to_string(), &text),
        Ok(bandwidths) => RATES.into_iter().for_each(|rate| compile(&bandwidths, rate)),
    }
}

fn check_refusal(error: &str, text: &str) {
    assert!(error.starts_with("SLV-QOS-00"), "{error}");
    let line = error.split_once("line ").and_then(|(_, rest)| {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[..end].parse::<usize>().ok()
    });
    // The end of a text is named by the line after the last one.
    let lines = text.split('\n').count();
    assert!(
        line.is_none_or(|line| (1..=lines + 1).contains(&line)),
        "{error}: {lines} lines"
    );
}

fn read_policy(text: &str) {
    let policy = policy::parse(text);
    assert_eq!(policy, policy::parse(text), "read twice");
    if let Err(error) = policy {
        check_refusal(&error.to_string(), text);
    }
}

fn read_settings(text: &str) {
    let mut settings = Settings::default();
    for line in text.lines() {
        let (key, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        if let Err(error) = opensm::set(&mut settings, key, value) {
            check_refusal(&error.to_string(), text);
        }
    }
    for (target, (port, lanes)) in [Target::Ca, Target::SwitchExternal].into_iter().zip(PORTS) {
        let tables = PortTables::new(&Template::new(&settings, target), &port);
        let row = tables.row.into_iter().flatten();
        let is_there = |vl: Vl| vl == Vl::MANAGEMENT || vl.get() < lanes;
        assert!(row.into_iter().all(is_there), "{:?}", tables.row);
        let findings = tables.findings();
        assert!(
            findings
                .iter()
                .all(|finding| finding.to_string().starts_with("SLV-QOS-005"))
        );
    }
}

fn compile(bandwidths: &Bandwidths, rate: u32) {
    let intent: Intent = match bandwidths.intent(rate) {
        Ok(import) => import.intent,
        Err(error) => return check_refusal(&error.to_string(), ""),
    };
    let hardware = Hardware {
        lanes: 4,
        vl_arb_high: 8,
        vl_arb_low: 16,
        mtu: Mtu::B2048,
    };
    match intent::compile(&intent, &hardware, 1) {
        Ok(_) => {}
        Err(IntentError::Refused(refused)) => {
            let offer = refused.offer;
            assert!(
                intent::compile(&offer.intent, &hardware, offer.layers).is_ok(),
                "{offer}"
            );
        }
        Err(error) => panic!("an import gives an intent that no hardware could keep: {error}"),
    }
}
