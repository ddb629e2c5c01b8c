//! Nothing that a file contains makes a reader panic, and what it accepts survives a round trip.

use proptest::prelude::*;
use selvedge_topology::{Format, NodeNames, Spec, read, read_guid2lid, read_lfts, write};

const UP: &[u8] = include_bytes!("../fixtures/golden/ibnetdiscover-full.topo");
const NET: &[u8] = include_bytes!("../fixtures/golden/mport-4-2.net");
const LFTS: &[u8] = include_bytes!("../fixtures/golden/opensm-lfts.dump");
const FTS: &[u8] = include_bytes!("../fixtures/golden/dump_fts.txt");
const GUID2LID: &[u8] = include_bytes!("../fixtures/golden/guid2lid");

/// A file of which some bytes are replaced, and the end is cut off.
fn damaged(base: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((0..base.len(), any::<u8>()), 0..8);
    (edits, 0..=base.len()).prop_map(move |(edits, end)| {
        let mut bytes = base.to_vec();
        for (at, byte) in edits {
            bytes[at] = byte;
        }
        bytes.truncate(end);
        bytes
    })
}

/// Lines made of the grammar's own words.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "Switch",
        "Ca",
        "Rt",
        "\n[",
        "\n@[",
        "1",
        "2",
        "254",
        "255",
        "]",
        "\"a\"",
        "\"b\"",
        "\"",
        "#",
        "(1)",
        "(",
        "lid ",
        "lmc ",
        "0x",
        "4xEDR",
        "=",
        "+",
        "w=",
        "switchguid",
        "caguid",
        "module",
        "\n",
        " ",
        "\t",
        "Unicast lids [0-9] of ",
        "switch Lid 1 guid 0x025e1e0100000000 (",
        "0x0001 ",
        "portguid ",
        "lids dumped",
        "\u{e9}",
        "[ext",
        "é#\"",
    ]);
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat().into_bytes())
}

fn generator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "karytree",
        "mport",
        "pgft",
        "xgft",
        "mesh:3x2",
        "torus:2x4",
        "random",
        "ring",
        "single",
        "sx6536",
    ])
}

fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "k",
        "m",
        "n",
        "w",
        "p",
        "h",
        "hosts",
        "switches",
        "degree",
        "ports",
        "rails",
        "ports-per-host",
        "hcas",
        "remove-links",
    ])
}

fn read_everything(bytes: &[u8]) {
    let _ = Format::detect(bytes);
    let _ = NodeNames::parse("f", bytes);
    let fabric = read("up", UP).unwrap_or_else(|error| panic!("{error}")).fabric;
    let _ = read_guid2lid("f", bytes).map(|known| known.on(&fabric));
    let _ = read_lfts("f", bytes, &fabric, None);
    let Ok(loaded) = read("f", bytes) else { return };
    for format in [Format::IbsimNet, Format::Ibnetdiscover] {
        let text = write(&loaded.fabric, format, &NodeNames::default());
        let again = read("again", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let changes: Vec<String> = selvedge_fabric::diff(&loaded.fabric, &again.fabric)
            .changes
            .iter()
            .map(ToString::to_string)
            // Descriptions are cut to what a NodeDescription holds.
            .filter(|change| !change.starts_with("~ node"))
            .collect();
        assert!(changes.is_empty(), "{changes:?}\n{text}");
    }
}

/// The files that other tests damage are read without an error, and survive a round trip, as long as they are whole.
#[test]
fn whole_files_come_back() {
    for bytes in [UP, NET] {
        if let Err(error) = read("whole", bytes) {
            panic!("{error}");
        }
        read_everything(bytes);
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read_everything(&bytes);
    }

    #[test]
    fn any_words(bytes in words()) {
        read_everything(&bytes);
    }

    #[test]
    fn any_damage(bytes in prop_oneof![damaged(UP), damaged(NET), damaged(LFTS), damaged(FTS), damaged(GUID2LID)]) {
        read_everything(&bytes);
    }

    #[test]
    fn any_specification(text in "[a-z0-9]{1,8}(:[a-z0-9=,;x%.-]{0,30})?") {
        let _ = text.parse::<Spec>();
    }

    #[test]
    fn any_generator(name in generator(), keys in prop::collection::vec((key(), "[0-9x%]{1,3}"), 0..4)) {
        let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let keys = keys.join(",");
        let separator = if name.contains(':') { ',' } else { ':' };
        if let Ok(Spec::Generated(recipe)) = format!("{name}{separator}{keys}").parse() {
            let _ = recipe.fabric();
        }
    }
}
