//! Tests of UFM's bandwidths.

use selvedge_plan::qos::{Hardware, Match};
use selvedge_types::{Guid, Mtu, Sl};

use super::{Bandwidths, Note, Ports};
use crate::intent::compile;

/// The forms of the manual's text.
const FILE: &str = "BW_NAMES\n  storage = 40000 # Lustre\n  bulk = 20000\n  free = 0\nEND_BW_NAMES\n\nBW_RULES\n\
                    default = 1:storage, 2:bulk\n0x2c90000000025 = 1:storage, 2:free\nPort_grp1 = 1:bulk\n\
                    END_BW_RULES\n";

fn sl(number: u8) -> Sl {
    Sl::new(number).unwrap()
}

#[test]
fn names_and_rules_are_read() {
    let read = Bandwidths::parse(FILE).unwrap();
    let guid = Ports::Guid(Guid(0x0002_C900_0000_0025));
    let limits = [
        (Ports::Default, 1, Some(40_000)),
        (Ports::Default, 2, Some(20_000)),
        (Ports::Default, 3, None),
        (guid.clone(), 1, Some(40_000)),
        (guid, 2, None),
        (Ports::Group("Port_grp1".to_owned()), 1, Some(20_000)),
    ];
    for (ports, number, want) in limits {
        assert_eq!(read.limit(&ports, sl(number)), want, "{ports} {number}");
    }
    let without_ends = FILE.replace("END_BW_NAMES\n", "").replace("END_BW_RULES\n", "");
    assert_eq!(Bandwidths::parse(&without_ends), Ok(read));
    let empty = Bandwidths::parse("BW_NAMES\nBW_RULES\n").unwrap();
    assert_eq!(empty, Bandwidths::default());
}

#[test]
fn mistakes_are_refused_with_their_line() {
    let refused = [
        (
            "storage = 1",
            "SLV-QOS-0070: UFM bandwidths, line 1: found 'storage = 1'; want BW_NAMES",
        ),
        (
            "BW_NAMES\nstorage 1",
            "SLV-QOS-0070: UFM bandwidths, line 2: found 'storage 1'; want NAME = RATE",
        ),
        ("BW_NAMES\na = -1", "SLV-QOS-0070: UFM bandwidths, line 2"),
        ("BW_NAMES\na = 4294967296", "SLV-QOS-0070: UFM bandwidths, line 2"),
        (
            "BW_NAMES\na = 1\na = 2",
            "SLV-QOS-0072: UFM bandwidths, line 3: bandwidth 'a' is given a second time",
        ),
        (
            "BW_RULES\ndefault = 16:a",
            "SLV-QOS-0070: UFM bandwidths, line 2: found 'default = 16:a'; want PORTS =",
        ),
        ("BW_RULES\n0xg = 1:a", "SLV-QOS-0070: UFM bandwidths, line 2"),
        (
            "BW_RULES\ndefault = 1:a, 1:b",
            "SLV-QOS-0072: UFM bandwidths, line 2: SL 1 of default is given a second",
        ),
        (
            "BW_NAMES\na = 1\nBW_RULES\nx = 1:a\nx = 2:a",
            "SLV-QOS-0072: UFM bandwidths, line 5: the rule of x is given a second time",
        ),
        (
            "BW_NAMES\nstorage = 1\nBW_RULES\nx = 1:storge",
            "SLV-QOS-0071: UFM bandwidths, line 4: BW_NAMES has no 'storge'; did you mean 'storage'?",
        ),
    ];
    for (text, want) in refused {
        let error = Bandwidths::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(want), "{text:?}: {error}");
    }
}

#[test]
fn limits_become_shares_that_compile() {
    let import = Bandwidths::parse(FILE).unwrap().intent(100_000).unwrap();
    let shares: Vec<(&str, Option<u8>)> = import
        .intent
        .classes
        .iter()
        .map(|c| (c.name.as_str(), c.share))
        .collect();
    assert_eq!(shares, [("rest", None), ("sl1", Some(39)), ("sl2", Some(19))]);
    assert_eq!(import.intent.classes[1].matches, [Match::Sl(sl(1))]);
    let notes: Vec<String> = import.notes.iter().map(ToString::to_string).collect();
    let want = [
        "a limit becomes the least share",
        "SL 1 has 40000 Mb/s on all links: the rule of Port_grp1 says 20000 Mb/s",
        "SL 2 has 20000 Mb/s on all links: the rule of 0x0002c90000000025 says no limit",
        "SL 2 has 20000 Mb/s on all links: the rule of Port_grp1 says no limit",
    ];
    assert_eq!(notes.len(), want.len(), "{notes:?}");
    assert!(
        notes.iter().zip(want).all(|(note, want)| note.starts_with(want)),
        "{notes:?}"
    );
    let hardware = Hardware {
        lanes: 4,
        vl_arb_high: 8,
        vl_arb_low: 64,
        mtu: Mtu::B2048,
    };
    compile(&import.intent, &hardware, 1).unwrap();
}

#[test]
fn limits_of_more_than_a_link_keep_their_proportion() {
    let text = "BW_NAMES\na = 60000\nb = 30000\nBW_RULES\ndefault = 4:a, 5:b\n";
    let import = Bandwidths::parse(text).unwrap().intent(45_000).unwrap();
    let shares: Vec<Option<u8>> = import.intent.classes.iter().map(|class| class.share).collect();
    assert_eq!(shares, [None, Some(66), Some(33)]);
    let scaled = Note::Scaled {
        sum: 90_000,
        link: 45_000,
    };
    assert_eq!(import.notes, [Note::NoLimit, scaled]);
}

#[test]
fn a_file_without_limits_has_nothing_to_import() {
    let nothing = Bandwidths::parse("BW_NAMES\nfree = 0\nBW_RULES\ndefault = 1:free\n").unwrap();
    let error = nothing.intent(100_000).unwrap_err();
    assert!(error.to_string().starts_with("SLV-QOS-0073: "), "{error}");
}
