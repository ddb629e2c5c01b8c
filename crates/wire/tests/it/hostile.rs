//! Hostile bytes, and the stored corpus of the fuzz target.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::common::{goldens, peers, vectors, vendor};
use selvedge_wire::fuzz_body::decode_encode_print;
use selvedge_wire::sa::records;
use selvedge_wire::{Class, DecodeError, MAD_LEN, Mad, Method, Payload};

#[test]
fn only_256_bytes_are_a_mad() {
    for have in 0..=512 {
        let bytes = vec![0xA5; have];
        let want = if have == MAD_LEN {
            Ok(Mad::from_bytes([0xA5; MAD_LEN]))
        } else {
            let (what, need) = ("MAD", MAD_LEN);
            Err(DecodeError::Truncated { what, need, have })
        };
        assert_eq!(Mad::new_checked(&bytes), want, "{have} bytes");
        decode_encode_print(&bytes);
    }
}

#[test]
fn every_prefix_of_a_datagram() {
    for golden in vectors() {
        (0..MAD_LEN).for_each(|length| decode_encode_print(&golden.mad.as_bytes()[..length]));
    }
}

#[test]
fn every_flipped_bit() {
    for golden in vectors().into_iter().chain(vendor()) {
        println!("{}", golden.title);
        for bit in 0..8 * MAD_LEN {
            let mut bytes = *golden.mad.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            decode_encode_print(&bytes);
        }
    }
}

#[test]
fn every_byte_of_the_header() {
    for at in 0..24 {
        for value in 0..=255 {
            let mut bytes = *vectors()[0].mad.as_bytes();
            bytes[at] = value;
            decode_encode_print(&bytes);
        }
    }
}

#[test]
fn malformed_routes_print() {
    let check = |hops: u8, want: &str| {
        let mut bytes = [0; MAD_LEN];
        (bytes[0], bytes[1], bytes[3], bytes[7], bytes[17]) = (1, 0x81, 1, hops, 0x11);
        bytes[32..36].fill(0xFF);
        let line = Mad::from_bytes(bytes).to_string();
        assert_eq!(line, want);
    };
    check(0, "SubnGet NodeInfo tid=0x0 dr=0");
    check(2, "SubnGet NodeInfo tid=0x0 dr=0,0,0");
    check(64, "SubnGet NodeInfo tid=0x0 dr=malformed(64 hops)");
    check(255, "SubnGet NodeInfo tid=0x0 dr=malformed(255 hops)");
}

#[test]
fn what_is_unknown_prints_in_hexadecimal() {
    let check = |change: &[(usize, u8)], want: &str| {
        let mut bytes = [0; MAD_LEN];
        (bytes[0], bytes[1], bytes[3]) = (1, 0x01, 0x81);
        change.iter().for_each(|&(at, value)| bytes[at] = value);
        assert_eq!(Mad::from_bytes(bytes).to_string(), want);
    };
    check(&[(16, 0xFF), (17, 0x17)], "SubnGetResp attribute=0xff17 tid=0x0");
    check(
        &[(16, 0xFF), (17, 0x17), (65, 0xAB)],
        "SubnGetResp attribute=0xff17 tid=0x0 | 00ab",
    );
    check(
        &[(1, 0x32), (3, 0x33), (24, 1)],
        "Class0x32Method0x33 attribute=0x0000 tid=0x0 | 01",
    );
    let header = "SubnGetResp Notice tid=0x0 base_version=7 status=0x001c(bad field)";
    let zeros = "00".repeat(54);
    let notice = format!("Notice vendor=0x000000 device=0 fatal issuer=0 toggle=0 count=0 details={zeros}");
    check(&[(0, 7), (5, 0x1C), (17, 2)], &format!("{header} | {notice}"));
    let refused = "SLV-WIRE-0002: NodeInfo.NodeType is 0x9, want 1 CA, 2 switch or 3 router";
    check(
        &[(17, 0x11), (66, 9)],
        &format!("SubnGetResp NodeInfo tid=0x0 | {refused}: 000009"),
    );
}

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Golden datagrams as they are and with a few bytes changed, cut or grown: what a fuzzer starts from.
///
/// The changes come from a fixed multiplicative generator, so that the files are the same wherever they are made.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut seeds = Vec::new();
    let administration = goldens(include_str!("../golden/administration.txt"));
    let all = peers().into_iter().step_by(3).chain(vectors()).chain(administration);
    for (index, golden) in all.enumerate() {
        let bytes = golden.mad.as_bytes().to_vec();
        let mut mutant = bytes.clone();
        for _ in 0..1 + random(8) {
            mutant[random(MAD_LEN)] = random(256) as u8;
        }
        if index % 4 == 0 {
            mutant.resize(random(2 * MAD_LEN), 0xFF);
        }
        seeds.push((format!("golden-{index:03}.bin"), bytes));
        seeds.push((format!("mutant-{index:03}.bin"), mutant));
    }
    // Every record with something in every field, whether peers send it or not.
    for layout in records::ALL {
        let mut mad = Mad::request(Class::SubnAdm, Method::GetResp, layout.id, 0);
        mad.sa_data_mut()[..layout.len]
            .iter_mut()
            .for_each(|byte| *byte = random(256) as u8);
        seeds.push((format!("record-{:#06x}.bin", layout.id.code()), mad.as_bytes().to_vec()));
    }
    for (index, golden) in vendor().into_iter().enumerate() {
        seeds.push((format!("vendor-{index}.bin"), golden.mad.as_bytes().to_vec()));
    }
    seeds
}

/// Runs the stored corpus. `SELVEDGE_BLESS=1` writes the seeds; inputs that a fuzzer found are added by hand and stay.
#[test]
fn the_stored_corpus_holds() {
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::create_dir_all(corpus()).expect("the corpus can be written");
        for (name, bytes) in seeds() {
            std::fs::write(corpus().join(name), bytes).expect("the corpus can be written");
        }
    }
    let mut count = 0;
    for entry in std::fs::read_dir(corpus()).expect("the corpus") {
        let path = entry.expect("an entry").path();
        println!("{}", path.display());
        decode_encode_print(&std::fs::read(path).expect("a file"));
        count += 1;
    }
    assert!(count >= seeds().len(), "{count} files");
}

/// The corpus has an input for every attribute and trap: code that no input reaches is tested late by a fuzzer, and
/// never by `cargo test`.
#[test]
fn the_corpus_has_every_attribute_and_trap() {
    let (mut attributes, mut traps) = (BTreeSet::new(), BTreeSet::new());
    for entry in std::fs::read_dir(corpus()).expect("the corpus") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
        let Some(Ok(payload)) = Mad::new_checked(&bytes).ok().as_ref().and_then(Payload::of) else {
            continue;
        };
        let line = payload.to_string();
        attributes.extend(line.split(' ').next().map(str::to_owned));
        if let Payload::Notice(notice) = payload {
            traps.extend(notice.trap().map(|trap| trap.number()));
        }
    }
    let wanted = "CableInfo ClassPortInfo GUIDInfo LinearForwardingTable MlnxExtPortInfo MulticastForwardingTable \
                  NodeDescription NodeInfo Notice P_KeyTable PortBer PortCounters PortCountersExtended \
                  PortExtendedSpeedsCounters PortFlowCtlCounters PortInfo PortOpRcvCounters PortRcvConCtrl \
                  PortRcvDataSL PortRcvErrorDetails PortSLRcvBECN PortSLRcvFECN PortVLOpData PortVLOpPackets \
                  PortVLXmitTimeCong PortVLXmitWaitCounters PortXmitConCtrl PortXmitDataSL \
                  PortXmitDiscardDetails SLtoVLMappingTable SMInfo SwPortVLCongestion SwitchInfo \
                  VLArbitrationTable";
    let mut wanted: BTreeSet<String> = wanted.split(' ').map(str::to_owned).collect();
    wanted.extend(records::ALL.map(|layout| layout.name.to_owned()));
    assert_eq!(attributes, wanted);
    let known = [64, 65, 66, 67, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259];
    assert_eq!(traps, BTreeSet::from(known));
}
