//! Golden bytes from real clients and a real server, and invalid bytes.

use super::*;
use selvedge_types::TransactionId;
use selvedge_wire::{AttributeId, Class, Method};

/// The captured messages: direction, bytes.
fn golden() -> Vec<(&'static str, Vec<u8>)> {
    let text = include_str!("../../tests/golden/ibsim-smpquery.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let (way, length, hex) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
            bytes.resize(length.parse().unwrap(), 0);
            (way, bytes)
        })
        .collect()
}

fn controls(way: &str, kind: Kind) -> Vec<Control> {
    let all = golden().into_iter().filter(|(found, _)| *found == way);
    all.map(|(_, bytes)| Control::parse(&bytes).unwrap())
        .filter(|control| control.kind == kind)
        .collect()
}

#[test]
fn golden_messages_survive_both_ways() {
    let mut seen = (0, 0);
    for (way, bytes) in golden() {
        if way.starts_with('C') {
            assert_eq!(Control::parse(&bytes).unwrap().emit().as_slice(), bytes);
            seen.0 += 1;
        } else {
            let mut want = bytes.clone();
            // Clients leave whatever was there in the padding.
            want[20..24].fill(0);
            assert_eq!(Packet::parse(&bytes).unwrap().emit().as_slice(), want);
            seen.1 += 1;
        }
    }
    assert_eq!(seen, (17, 4));
}

#[test]
fn golden_connects() {
    let asked: Vec<_> = controls("C>", Kind::Connect)
        .iter()
        .map(|c| Connect::parse(&c.data))
        .collect();
    let want = |id, is_sm, node: &str| Connect {
        id,
        qp: 0,
        is_sm,
        node: node.to_owned(),
    };
    assert_eq!(
        asked,
        [
            want(12663, false, "H1"),
            want(12667, true, "H1"),
            want(12671, false, "nowhere")
        ]
    );
    let answered: Vec<_> = controls("C<", Kind::Connect)
        .iter()
        .map(|c| Connect::parse(&c.data))
        .collect();
    assert_eq!(answered, [want(0, false, "H1"), want(0, true, "H1")]);
    for (control, connect) in controls("C>", Kind::Connect).iter().zip(&asked) {
        assert_eq!(Control::new(Kind::Connect, 0, &connect.emit()), *control);
    }
}

#[test]
fn facts_are_what_ibsim_answers() {
    let node_info = controls("C<", Kind::NodeInfo)[0].data;
    let port_info = controls("C<", Kind::PortInfo)[0].data;
    let facts = Facts {
        node_info: &node_info,
        port_info: &port_info,
    };
    assert_eq!(facts.vendor(), controls("C<", Kind::Vendor)[0].data[..24]);
    assert_eq!(emit_pkeys(&[PKey::DEFAULT_FULL]), controls("C<", Kind::PKeys)[0].data);
    assert_eq!(facts.port(), [0, 0, 2]);
    assert_eq!(facts.guid(), 0x0010_0000_u64.to_be_bytes());
    assert_eq!(facts.gid()[..8], [0; 8]);
}

#[test]
fn the_shims_port_guid_comes_out_right() {
    let check = |node: u64, port: u64, local: u8, want: u64| {
        let (mut node_info, mut port_info) = ([0; 64], [0; 64]);
        node_info[12..20].copy_from_slice(&node.to_be_bytes());
        node_info[20..28].copy_from_slice(&port.to_be_bytes());
        port_info[28] = local;
        let facts = Facts {
            node_info: &node_info,
            port_info: &port_info,
        };
        let shown = facts.shim_node_info();
        assert_eq!(shown[12..20], want.to_be_bytes(), "node {node:#x} port {port:#x}");
        assert_eq!(shown[20..], node_info[20..]);
    };
    check(0x100, 0x101, 1, 0x100);
    check(0x100, 0x2C0, 2, 0x2BE);
    check(0x100, 0x100, 0, 0x100);
    check(0x100, 0, 1, u64::MAX);
}

#[test]
fn golden_packets() {
    let packets: Vec<_> = golden()
        .into_iter()
        .filter(|(way, _)| way.starts_with('D'))
        .map(|(_, bytes)| Packet::parse(&bytes).unwrap())
        .collect();
    let permissive = End {
        lid: Lid::PERMISSIVE,
        qp: 0,
    };
    let get = &packets[0];
    assert_eq!((get.to, get.from, get.status), (permissive, permissive, 0));
    assert_eq!(get.mad.class(), Class::SubnDirected);
    assert_eq!(get.mad.attribute(), AttributeId::NODE_INFO);
    assert_eq!(get.mad.transaction(), TransactionId(0x0000_0001_3555_8465));
    assert_eq!(packets[1].mad.method(), Method::GetResp);
    let lost = &packets[2];
    assert_eq!((lost.to.lid, lost.from.lid, lost.status), (Lid(1), Lid::NONE, 0));
    assert_eq!(packets[3].status, STATUS_TIMED_OUT);
}

#[test]
fn a_lids_bytes_are_in_network_order() {
    let packet = Packet {
        to: End {
            lid: Lid(0x0102),
            qp: 1,
        },
        from: End {
            lid: Lid(0x0304),
            qp: 0x01_0203,
        },
        status: STATUS_TIMED_OUT,
        mad: Mad::from_bytes([0xAA; 256]),
    };
    let bytes = packet.emit();
    if cfg!(target_endian = "little") {
        assert_eq!(bytes[..8], [1, 2, 0, 0, 3, 4, 0, 0]);
    }
    assert_eq!(bytes[8..20], [0, 0, 0, 1, 0, 1, 2, 3, 0, 0, 0, 110]);
    assert_eq!(Packet::parse(&bytes), Ok(packet));
}

#[test]
fn what_is_no_message_is_refused() {
    let check = |bytes: &[u8], want: &str| {
        let got = Control::parse(bytes).unwrap_err().to_string();
        assert!(got.starts_with(want), "{got}");
    };
    let mut good = Control::new(Kind::Guid, 3, &[]).emit();
    check(&[], "SLV-PORT-0101");
    check(&good[..79], "SLV-PORT-0101");
    check(&[0; 80], "SLV-PORT-0102");
    good[8] = 11;
    check(&good, "SLV-PORT-0103");
    assert!(Packet::parse(&[0; 287]).is_err());
    assert!(Packet::parse(&[0; 289]).is_err());
}

#[test]
fn lying_lengths_and_names_are_cut() {
    let mut bytes = [0xFF; PACKET_LEN];
    assert_eq!(Packet::parse(&bytes).unwrap().mad, Mad::from_bytes([0xFF; 256]));
    bytes[24..32].copy_from_slice(&24_u64.to_be_bytes());
    let short = Packet::parse(&bytes).unwrap();
    assert_eq!((short.mad.as_bytes()[23], short.mad.as_bytes()[24]), (0xFF, 0));
    let name = Connect::parse(&[0xFF; 64]).node;
    assert_eq!(name.chars().count(), 32);
    let long = Connect {
        id: 0,
        qp: 0,
        is_sm: false,
        node: "x".repeat(40),
    };
    let mut data = [0; 64];
    data[..Connect::LEN].copy_from_slice(&long.emit());
    assert_eq!(Connect::parse(&data).node.len(), 31);
}
