//! Properties of every attribute, over values and over bytes.

use proptest::prelude::*;
use selvedge_types::{Lid, LinkSpeed, PhysState, PortState};
use selvedge_wire::*;

/// Bits of an attribute that mean nothing: (byte, mask).
type Reserved = &'static [(usize, u8)];

/// Clears the reserved bits: those in `reserved`, and all bytes from `from` on.
fn cleared<const N: usize>(mut data: [u8; N], reserved: Reserved, from: usize) -> [u8; N] {
    reserved.iter().for_each(|&(at, mask)| data[at] &= !mask);
    data[from..].fill(0);
    data
}

/// Decoding and encoding keep every bit that is not reserved, and the result decodes to the same value.
///
/// A field has a type that holds no more than its bits. So the values decoded from random bytes are all possible
/// values. Exceptions are fields of 24 and 20 bits: higher bits are not sent, as their comments say.
fn check<A: Attribute + PartialEq + std::fmt::Debug>(data: [u8; 64], reserved: Reserved, from: usize) {
    let value = A::parse(&data).expect("legal bytes");
    assert_eq!(value.emit(), cleared(data, reserved, from));
    assert_eq!(A::parse(&value.emit()), Ok(value));
}

fn check_gmp<A: GmpAttribute + PartialEq + std::fmt::Debug>(data: [u8; 192], reserved: Reserved, from: usize) {
    let value = A::parse(&data).expect("legal bytes");
    assert_eq!(value.emit(), cleared(data, reserved, from));
    assert_eq!(A::parse(&value.emit()), Ok(value));
}

/// Takes the enumerated four-bit codes of `data` modulo the number of legal ones: (byte, is the high half, count).
fn legal(mut data: [u8; 64], codes: &[(usize, bool, u8)]) -> [u8; 64] {
    for &(at, high, count) in codes {
        let (other, code) = if high {
            (data[at] & 0x0F, data[at] >> 4)
        } else {
            (data[at] & 0xF0, data[at] & 0x0F)
        };
        data[at] = other | if high { (code % count) << 4 } else { code % count };
    }
    data
}

/// PortState, PortPhysicalState, LinkDownDefaultState, NeighborMTU, VLCap, MTUCap, OperationalVLs.
const PORT_INFO_CODES: [(usize, bool, u8); 7] = [
    (32, false, 5),
    (33, true, 8),
    (33, false, 3),
    (36, true, 6),
    (37, true, 6),
    (41, false, 6),
    (43, true, 6),
];

/// Reserved bytes of Mellanox's ExtendedPortInfo, before its last used byte.
const BESIDE_VENDOR_SPEEDS: [(usize, u8); 12] = [
    (0, 0xFF),
    (1, 0xFF),
    (2, 0xFF),
    (4, 0xFF),
    (5, 0xFF),
    (6, 0xFF),
    (8, 0xFF),
    (9, 0xFF),
    (10, 0xFF),
    (12, 0xFF),
    (13, 0xFF),
    (14, 0xFF),
];

/// Reserved bytes of PortBer, before its last used byte.
const BESIDE_RATIOS: [(usize, u8); 9] = [
    (0, 0xFF),
    (2, 0xFF),
    (3, 0xFF),
    (7, 0xFF),
    (11, 0xFF),
    (12, 0xFF),
    (13, 0xFF),
    (14, 0xFF),
    (15, 0xFF),
];

fn smp_data() -> impl Strategy<Value = [u8; 64]> {
    proptest::array::uniform32(any::<[u8; 2]>()).prop_map(|pairs| core::array::from_fn(|i| pairs[i / 2][i % 2]))
}

fn gmp_data() -> impl Strategy<Value = [u8; 192]> {
    [smp_data(), smp_data(), smp_data()].prop_map(|parts| core::array::from_fn(|i| parts[i / 64][i % 64]))
}

/// Reserved bytes of PortExtendedSpeedsCounters.
const BESIDE_EXT_SPEEDS: [(usize, u8); 7] = [
    (0, 0xFF),
    (2, 0xFF),
    (3, 0xFF),
    (4, 0xFF),
    (5, 0xFF),
    (6, 0xFF),
    (7, 0xFF),
];

proptest! {
    #[test]
    fn smp_attributes(data in smp_data()) {
        check::<NodeDescription>(data, &[], 64);
        check::<GuidInfo>(data, &[], 64);
        check::<PKeyTable>(data, &[], 64);
        check::<LinearForwardingTable>(data, &[], 64);
        check::<MulticastForwardingTable>(data, &[], 64);
        check::<Notice>(data, &[], 64);
        check::<SwitchInfo>(data, &[(16, 0x07), (17, 0xFF)], 20);
        check::<SlToVl>(data, &[], 8);
        let mut node_info = data;
        (node_info[2], node_info[3]) = (1 + data[2] % 3, data[3] % 255);
        check::<NodeInfo>(node_info, &[], 40);
        check::<SmInfo>(legal(data, &[(20, false, 4)]), &[], 21);
        check::<PortInfo>(legal(data, &PORT_INFO_CODES), &[(34, 0x38), (52, 0xE0), (56, 0x80), (63, 0xE0)], 64);
        check::<MlnxExtPortInfo>(data, &BESIDE_VENDOR_SPEEDS, 16);
        let mut arbitration = data;
        arbitration.iter_mut().step_by(2).for_each(|lane| *lane &= 0x0F);
        check::<VlArbitration>(arbitration, &[], 64);
    }

    #[test]
    fn gmp_attributes(data in gmp_data()) {
        check_gmp::<ClassPortInfo>(data, &[(32, 0xFF)], 72);
        check_gmp::<PortCounters>(data, &[(0, 0xFF)], 44);
        check_gmp::<PortCountersExtended>(data, &[(0, 0xFF)], 184);
        check_gmp::<PortRcvErrorDetails>(data, &[(0, 0xFF)], 16);
        check_gmp::<PortXmitDiscardDetails>(data, &[(0, 0xFF)], 12);
        check_gmp::<PortOpRcv>(data, &[(0, 0xFF)], 12);
        check_gmp::<PortFlowCtl>(data, &[(0, 0xFF)], 12);
        check_gmp::<PortExtSpeedsCounters>(data, &BESIDE_EXT_SPEEDS, 140);
        check_gmp::<PortVlOpPackets>(data, &[(0, 0xFF)], 36);
        check_gmp::<PortVlOpData>(data, &[(0, 0xFF)], 68);
        check_gmp::<PortVlXmitWait>(data, &[(0, 0xFF)], 36);
        check_gmp::<SwPortVlCongestion>(data, &[(0, 0xFF)], 36);
        check_gmp::<PortRcvConCtrl>(data, &[(0, 0xFF)], 12);
        check_gmp::<PortSlRcvFecn>(data, &[(0, 0xFF)], 68);
        check_gmp::<PortSlRcvBecn>(data, &[(0, 0xFF)], 68);
        check_gmp::<PortXmitConCtrl>(data, &[(0, 0xFF)], 8);
        check_gmp::<PortVlXmitTimeCong>(data, &[(0, 0xFF)], 64);
        check_gmp::<PortXmitDataSl>(data, &[(0, 0xFF)], 68);
        check_gmp::<PortRcvDataSl>(data, &[(0, 0xFF)], 68);
        check_gmp::<PortBer>(data, &BESIDE_RATIOS, 32);
        check_gmp::<CableInfo>(data, &[(0, 0xFF), (10, 0xFF), (11, 0xFF)], 96);
    }

    #[test]
    fn illegal_codes_are_refused(data in smp_data(), field in 0..PORT_INFO_CODES.len(), code in any::<u8>()) {
        let mut data = legal(data, &PORT_INFO_CODES);
        let (at, high, count) = PORT_INFO_CODES[field];
        prop_assume!(count < 16);
        let code = count + code % (16 - count);
        data[at] = if high { data[at] & 0x0F | code << 4 } else { data[at] & 0xF0 | code };
        match PortInfo::parse(&data) {
            Err(DecodeError::Field { found, .. }) => prop_assert_eq!(found, u64::from(code)),
            other => prop_assert!(false, "code {} at {}: {:?}", code, at, other),
        }
    }

    /// Decoding and encoding keep the details of known traps, except for their reserved bits.
    #[test]
    fn traps(data in smp_data(), number in prop::sample::select(vec![
        64_u16, 65, 66, 67, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259,
    ])) {
        let mut notice = Notice::parse(&data).expect("any bytes are a notice");
        notice.source = NoticeSource::Generic { producer: PRODUCER_CA, trap: number };
        let trap = notice.trap().expect("a known trap");
        prop_assert_eq!(trap.number(), number);
        prop_assert_eq!(Notice::new(PRODUCER_CA, Lid(1), &trap).trap(), Some(trap));
    }

    /// Random bytes hit a known attribute rarely, so class, method and attribute are chosen from those that exist.
    #[test]
    fn any_mad_prints(
        body in proptest::collection::vec(any::<u8>(), 256),
        class in prop::sample::select(vec![0x01_u8, 0x03, 0x04, 0x81, 0x32, 0x4C]),
        attribute in 0_u8..0x40,
        random_header in any::<bool>(),
    ) {
        let mut body = body;
        if !random_header {
            (body[1], body[16], body[17]) = (class, 0, attribute);
            body[37..40].copy_from_slice(&Mad::OUI);
        }
        fuzz_body::decode_encode_print(&body);
    }

    #[test]
    fn descriptions_keep_whole_characters(text in "\\PC{0,80}") {
        let description = NodeDescription::new(&text);
        let kept = description.text();
        prop_assert!(text.starts_with(&*kept));
        prop_assert!(kept.len() > 60 || kept.len() == text.len());
    }
}

#[test]
fn descriptions_do_not_drive_a_terminal() {
    let check = |raw: &[u8], want: &str| {
        let mut data = [0; 64];
        data[..raw.len()].copy_from_slice(raw);
        let description = NodeDescription::parse(&data).expect("any bytes are a description");
        assert_eq!(description.to_string(), want);
    };
    check(b"", "NodeDescription \"\"");
    check(b"a\0b", "NodeDescription \"a\"");
    check(b"\x1b[2J\n\"", r#"NodeDescription "\u{1b}[2J\n\"""#);
    check(b"caf\xe9", "NodeDescription \"caf\u{fffd}\"");
    check(&[b'x'; 64], &format!("NodeDescription \"{}\"", "x".repeat(64)));
}

#[test]
fn narrow_fields_refuse_what_does_not_fit() {
    assert_eq!(Bits::<5>::new(31).map(Bits::get), Some(31));
    assert_eq!(Bits::<5>::new(32), None);
    assert_eq!(Bits::<5>::saturating(200), Bits::MAX);
    assert_eq!(Bits::<3>::low(0xFA).get(), 2);
}

#[test]
fn counters_are_sent_as_their_maximum() {
    let wide = PortVlXmitWait::new(1, 0, [70_000; 16]);
    assert_eq!(wide.values(), [65_535; 16]);
    assert_eq!(PortVlXmitWait::parse(&wide.emit()), Ok(wide));
    let short = PortRcvConCtrl::new(1, 0, [u32::MAX; 16]);
    assert_eq!(short.values(), [u32::MAX; 2]);
    assert_eq!(short.emit()[4..13], [255, 255, 255, 255, 255, 255, 255, 255, 0]);
    assert_eq!(
        short.to_string(),
        "PortRcvConCtrl port=1 select=0x0000 0:4294967295,1:4294967295"
    );
}

#[test]
fn rates() {
    let check = |width: u8, basic: u8, extended: u8, want: &str| {
        let info = PortInfo {
            width_active: LinkWidths::new(width),
            speed_active: LinkSpeeds::new(basic),
            ext_speed_active: ExtLinkSpeeds::new(extended),
            ..PortInfo::default()
        };
        let found = info.rate_active().map_or("-".to_owned(), |rate| rate.to_string());
        assert_eq!(found, want, "{width} {basic} {extended}");
    };
    check(2, 1, 0, "4xSDR");
    check(1, 2, 0, "1xDDR");
    check(8, 4, 0, "12xQDR");
    check(2, 4, 1, "4xFDR");
    check(2, 0, 8, "4xNDR");
    check(16, 4, 4, "2xHDR");
    // No width, and two widths at once.
    check(0, 1, 0, "-");
    check(3, 1, 0, "-");
    check(2, 0, 0, "-");
    // Two speeds at once, and a bit that is no speed.
    check(2, 3, 0, "4x???");
    check(2, 8, 0, "4x???");
    check(2, 4, 3, "4x???");
}

#[test]
fn rates_beyond_ndr() {
    let check = |bits: u8, width: u8, up: bool, want: &str| {
        let info = PortInfo {
            state: Some(if up { PortState::Active } else { PortState::Down }),
            phys_state: Some(if up { PhysState::LinkUp } else { PhysState::Polling }),
            width_active: LinkWidths::new(width),
            speed_active: LinkSpeeds::new(4),
            ext_speed_active: ExtLinkSpeeds::new(8),
            ext2_speed_active: Bits::saturating(bits),
            ..PortInfo::default()
        };
        assert_eq!(info.rate_or_unknown().to_string(), want, "{bits} {width}");
    };
    check(0, 2, true, "4xNDR");
    check(1, 2, true, "4xXDR");
    check(1, 16, true, "2xXDR");
    check(2, 2, true, "4x???");
    check(3, 2, true, "4x???");
    // With an unreadable width, nothing is known of the link; above all, it must not count as slow.
    check(0, 3, true, "4x???");
    check(0, 0, false, "4xSDR");
}

#[test]
fn special_speed_codes() {
    assert_eq!(ExtSpeedEnable::DISABLED.bits(), 30);
    assert_eq!(ExtSpeedEnable::ALL_SUPPORTED.bits(), 31);
    assert_eq!(ExtSpeedEnable::ALL_SUPPORTED.speeds(), None);
    assert_eq!(LinkSpeeds::ALL_SUPPORTED.bits(), 15);
    assert_eq!(LinkWidths::ALL_SUPPORTED.bits(), 255);
    assert!(!LinkSpeeds::ALL_SUPPORTED.contains(LinkSpeed::Fdr10));
}

#[test]
fn lanes() {
    let check = |lanes: u8, want: Option<u8>| assert_eq!(VlCount::at_most(lanes).map(VlCount::lanes), want, "{lanes}");
    check(0, None);
    check(1, Some(1));
    check(3, Some(2));
    check(7, Some(4));
    check(14, Some(8));
    check(15, Some(15));
    check(255, Some(15));
}

#[test]
fn places_in_tables() {
    let check = |lid: u16, want: Option<(u16, usize)>| {
        assert_eq!(MulticastForwardingTable::place_of(Lid(lid)), want, "{lid:#x}");
    };
    check(0xBFFF, None);
    check(0xC000, Some((0, 0)));
    check(0xC021, Some((1, 1)));
    check(0xFFFE, Some((MulticastForwardingTable::LAST_BLOCK, 30)));
    check(0xFFFF, None);
    let modifier = MulticastForwardingTable::modifier(0x1FF, 15);
    assert_eq!(modifier, 0xF000_01FF);
    assert_eq!(MulticastForwardingTable::block(modifier), 0x1FF);
    assert_eq!(MulticastForwardingTable::position(modifier), 15);
    assert_eq!(
        LinearForwardingTable::block_of(Lid::UNICAST_MAX),
        LinearForwardingTable::LAST_BLOCK
    );
    assert_eq!(LinearForwardingTable::LAST_BLOCK, 767);
}
