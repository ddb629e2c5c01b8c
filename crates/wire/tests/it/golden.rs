//! Bytes of other implementations, both ways: they are decoded correctly, and encoding gives the same bytes.
//!
//! See `golden/README.md`. `SELVEDGE_BLESS=1` rewrites the expected lines; read the difference before you commit it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::{Golden, peers, vectors, vendor};
use selvedge_types::{Guid, Lid, LinkSpeed, LinkWidth, PKey, PortNum, Rate, Sl};
use selvedge_wire::*;

fn check_lines(goldens: &[Golden], file: &str) {
    let mut title = "";
    let mut found = String::new();
    for golden in goldens {
        if title != golden.title {
            found += &format!("# {}\n", golden.title);
            title = &golden.title;
        }
        found += &format!("{}\n", golden.mad);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(&path, &found).expect("the expected lines can be written");
    }
    let want = std::fs::read_to_string(&path).expect("the expected lines");
    for (at, (found, want)) in found.lines().zip(want.lines()).enumerate() {
        assert_eq!(found, want, "{file}:{}", at + 1);
    }
    assert_eq!(found.lines().count(), want.lines().count(), "{file}");
}

#[test]
fn peers_print_as_expected() {
    check_lines(&peers(), "peers.lines");
}

#[test]
fn vectors_print_as_expected() {
    check_lines(&vectors(), "vectors.lines");
}

#[test]
fn mads_of_our_own_class_print_as_expected() {
    check_lines(&vendor(), "vendor.lines");
}

#[test]
fn mads_of_our_own_class() {
    for golden in vendor() {
        let mut made = Mad::vendor(golden.mad.method(), golden.mad.attribute());
        made.set_transaction(golden.mad.transaction());
        let payload = Payload::of(&golden.mad).expect("a known attribute");
        payload.expect("legal bytes").write_to(&mut made);
        assert_eq!(made, golden.mad, "{}", golden.title);
    }
    let [_, ber, cable] = &vendor()[..] else {
        panic!("three MADs");
    };
    let found = PortBer::parse(ber.mad.gmp_data()).expect("legal bytes");
    let want = PortBer {
        port_select: 36,
        raw: Ber::parse("2e-5").expect("a ratio"),
        effective: Ber::parse("1.5e-12").expect("a ratio"),
        raw_errors: (1 << 40) + 1,
        effective_errors: 77,
    };
    assert_eq!(found, want);
    let found = CableInfo::parse(cable.mad.gmp_data()).expect("legal bytes");
    let want = CableInfo {
        port_select: 36,
        kind: CableKind::ActiveOptical,
        lanes: 4,
        length_dm: 100,
        temperature: -128,
        supply_voltage: 33_000,
        vendor: CableInfo::field("Acme"),
        part_number: CableInfo::field("AOC-10M"),
        serial_number: CableInfo::field("SN0000000000001X"),
        revision: CableInfo::field("A1"),
        rx_power: core::array::from_fn(|lane| 5001 + lane as u16),
        tx_power: core::array::from_fn(|lane| 6001 + lane as u16),
    };
    assert_eq!(found, want);
    assert_eq!(CableInfo::text(&found.serial_number), "SN0000000000001X");
    // Another OUI is another vendor's MAD.
    let mut other = *ber.mad.as_bytes();
    other[39] ^= 1;
    assert_eq!(Payload::of(&Mad::from_bytes(other)), None);
    assert!(
        Mad::from_bytes(other)
            .to_string()
            .starts_with("Class0x4cGetResp attribute=0x0010")
    );
}

/// True for SMPs with data that have no meaning: peers leave the last answer in it; see `golden/README.md`.
fn asks(mad: &Mad) -> bool {
    mad.class().is_smp() && mad.method() == Method::Get && mad.attribute() != AttributeId::SM_INFO
}

/// Returns the same datagram, encoded from its decoded values.
fn rebuilt(mad: &Mad) -> Mad {
    let mut made = match mad.class() {
        Class::SubnDirected => {
            let route = mad.route().expect("a route of at most 63 hops");
            let mut made = Mad::directed(mad.method(), mad.attribute(), mad.modifier(), &route);
            made.set_hop_pointer(mad.hop_pointer());
            made.set_returning(mad.is_returning());
            made.set_dr_slid(mad.dr_slid());
            made.set_dr_dlid(mad.dr_dlid());
            (0..64).for_each(|hop| made.set_return_path(hop, mad.return_path(hop)));
            made
        }
        class => Mad::request(class, mad.method(), mad.attribute(), mad.modifier()),
    };
    made.set_transaction(mad.transaction());
    made.set_status(mad.status());
    made.set_m_key(mad.m_key());
    if asks(mad) {
        made.set_smp_data(mad.smp_data());
    } else if let Some(payload) = Payload::of(mad) {
        payload.expect("peers send what can be decoded").write_to(&mut made);
    }
    made
}

/// Returns the number of significant bytes: OpenSM leaves undefined bytes after the path of a directed-route SMP.
fn meaningful(mad: &Mad) -> usize {
    match mad.class() {
        Class::SubnDirected => 129 + usize::from(mad.hop_count()),
        Class::SubnLid => 128,
        Class::PerfMgt | Class::SubnAdm | Class::Other(_) => MAD_LEN,
    }
}

#[test]
fn what_peers_send_is_what_we_would_send() {
    let all: Vec<Golden> = peers().into_iter().chain(vectors()).collect();
    // Subnet administration is not decoded here.
    for golden in all.iter().filter(|golden| golden.mad.class() != Class::SubnAdm) {
        let made = rebuilt(&golden.mad);
        let both = made.as_bytes().iter().zip(golden.mad.as_bytes());
        for (at, (found, want)) in both.enumerate().take(meaningful(&golden.mad)) {
            assert_eq!(found, want, "byte {at} of {} in {}", golden.mad, golden.title);
        }
    }
}

/// Methods with which an attribute was captured from peers.
fn methods_of(class: Class, id: AttributeId) -> BTreeSet<Method> {
    let same_class = |mad: &Mad| mad.class() == class || mad.class().is_smp() && class.is_smp();
    peers()
        .iter()
        .filter(|golden| same_class(&golden.mad) && golden.mad.attribute() == id)
        .map(|golden| golden.mad.method())
        .collect()
}

fn captured<A: Attribute>(want: &[Method]) {
    let found = methods_of(Class::SubnLid, A::ID);
    assert_eq!(found, want.iter().copied().collect(), "{:#06x}", A::ID.code());
}

fn captured_gmp<A: GmpAttribute>(want: &[Method]) {
    let found = methods_of(Class::PerfMgt, A::ID);
    assert_eq!(found, want.iter().copied().collect(), "{:#06x}", A::ID.code());
}

#[test]
fn each_attribute_was_captured_from_a_peer() {
    use Method::{Get, GetResp, Set, Trap, TrapRepress};
    captured::<NodeDescription>(&[Get, GetResp]);
    captured::<NodeInfo>(&[Get, GetResp]);
    captured::<SwitchInfo>(&[Get, GetResp, Set]);
    captured::<GuidInfo>(&[Get, GetResp]);
    captured::<PortInfo>(&[Get, GetResp, Set]);
    captured::<PKeyTable>(&[Get, GetResp, Set]);
    captured::<SlToVl>(&[Get, GetResp, Set]);
    captured::<VlArbitration>(&[Get, GetResp, Set]);
    captured::<LinearForwardingTable>(&[Get, GetResp, Set]);
    captured::<MulticastForwardingTable>(&[Get, GetResp, Set]);
    captured::<SmInfo>(&[Get, GetResp, Set]);
    captured::<Notice>(&[Trap, TrapRepress]);
    captured_gmp::<ClassPortInfo>(&[Get, GetResp]);
    captured_gmp::<PortCounters>(&[Get, GetResp, Set]);
    captured_gmp::<PortCountersExtended>(&[Get, GetResp, Set]);
}

/// The vector called `title`.
fn vector(title: &str) -> Mad {
    let found = vectors().into_iter().find(|golden| golden.title == title);
    found.unwrap_or_else(|| panic!("no vector is called {title}")).mad
}

#[test]
fn extended_speeds() {
    let check = |title: &str, width: LinkWidth, speed: LinkSpeed| {
        let info: PortInfo = vector(title).read().expect("a PortInfo");
        assert_eq!(info.rate_active(), Some(Rate { width, speed }), "{title}");
        let enabled = info.ext_speed_enabled.and_then(ExtSpeedEnable::speeds);
        assert_eq!(enabled.and_then(ExtLinkSpeeds::single), Some(speed), "{title}");
    };
    check("PortInfo, 4x FDR", LinkWidth::X4, LinkSpeed::Fdr);
    check("PortInfo, 12x EDR", LinkWidth::X12, LinkSpeed::Edr);
    check("PortInfo, 2x HDR", LinkWidth::X2, LinkSpeed::Hdr);
    check("PortInfo, 4x NDR", LinkWidth::X4, LinkSpeed::Ndr);
    let xdr: PortInfo = vector("PortInfo, 4x XDR").read().expect("a PortInfo");
    assert_eq!(xdr.rate_active().map(|rate| rate.to_string()).as_deref(), Some("4xXDR"));
    assert_eq!(
        (xdr.ext2_speed_supported.get(), xdr.ext2_speed_enabled.get()),
        (PortInfo::XDR, PortInfo::XDR)
    );
    let every: PortInfo = vector("PortInfo, every field; extended speeds switched off")
        .read()
        .expect("a PortInfo");
    assert_eq!(every.ext_speed_enabled, Some(ExtSpeedEnable::DISABLED));
    assert_eq!(every.rate_active().map(Rate::mbit_per_s), Some(20_000));
}

#[test]
fn the_vendors_speeds() {
    let info: MlnxExtPortInfo = vector("MlnxExtPortInfo, every field")
        .read()
        .expect("an ExtendedPortInfo");
    let found = [
        info.state_change_enable,
        info.speed_supported,
        info.speed_enabled,
        info.speed_active,
    ];
    assert_eq!(found, [0x81, 0x43, 0x25, 0x17]);
    assert!(info.is_fdr10());
}

const fn sl(value: u8) -> Sl {
    match Sl::new(value) {
        Some(sl) => sl,
        None => panic!("a service level is below 16"),
    }
}

/// A GID as `vectors.c` makes them.
fn gid(first: u8, last: u8) -> Gid {
    Gid(core::array::from_fn(|i| match i {
        0 => first,
        1 => 0x80,
        15 => last,
        _ => 0,
    }))
}

fn check_trap(producer: u32, trap: Trap) {
    let mad = vector(&format!("trap {}", trap.number()));
    let notice: Notice = mad.read().expect("a notice");
    assert_eq!(notice.trap(), Some(trap));
    let mut made = Notice::new(producer, Lid(515), &trap);
    (made.toggle, made.count) = (true, 0x1234);
    assert_eq!(made, notice, "{trap}");
    assert_eq!(made.emit(), *mad.smp_data(), "{trap}");
}

#[test]
fn traps_of_service_and_links() {
    check_trap(PRODUCER_CLASS_MANAGER, Trap::GidInService { gid: gid(0xFE, 64) });
    check_trap(PRODUCER_CLASS_MANAGER, Trap::GidOutOfService { gid: gid(0xFE, 65) });
    check_trap(PRODUCER_CLASS_MANAGER, Trap::GroupCreated { gid: gid(0xFF, 66) });
    check_trap(PRODUCER_CLASS_MANAGER, Trap::GroupDeleted { gid: gid(0xFF, 67) });
    let (lid, port) = (Lid(78), 36);
    check_trap(PRODUCER_SWITCH, Trap::LinkState { lid: Lid(77) });
    check_trap(PRODUCER_SWITCH, Trap::LinkIntegrity { lid, port });
    check_trap(PRODUCER_SWITCH, Trap::BufferOverrun { lid, port });
    check_trap(PRODUCER_SWITCH, Trap::FlowControl { lid, port });
}

#[test]
fn traps_of_local_changes() {
    check_trap(
        PRODUCER_CA,
        Trap::LocalChange(LocalChange {
            lid: Lid(79),
            other_local_changes: true,
            capabilities: CapabilityMask(0x0251_486A),
            changes: 0x000B,
            capabilities2: CapabilityMask2(0x0421),
        }),
    );
    let guid = Guid(0x0002_C903_0000_5678);
    check_trap(PRODUCER_CA, Trap::SystemImageGuid { lid: Lid(80), guid });
}

#[test]
fn traps_of_keys() {
    check_trap(
        PRODUCER_CA,
        Trap::BadMKey(BadMKey {
            lid: Lid(81),
            dr_slid: Lid(82),
            method: 2,
            attribute: 0x15,
            modifier: 0x8000_0003,
            m_key: 0xDEAD_BEEF_CAFE_F00D,
            directed: true,
            truncated: true,
            hop_count: 33,
            return_path: core::array::from_fn(|i| i as u8),
        }),
    );
    let bad = BadKey {
        slid: Lid(83),
        dlid: Lid(84),
        key: 0x8001,
        sl: sl(5),
        source_qp: 0x01_0203,
        destination_qp: 0x04_0506,
        sgid: gid(0xFE, 9),
        dgid: gid(0xFE, 10),
    };
    check_trap(PRODUCER_CA, Trap::BadPKey(bad));
    let key = 0x8001_0000;
    check_trap(PRODUCER_CA, Trap::BadQKey(BadKey { key, ..bad }));
    check_trap(
        PRODUCER_SWITCH,
        Trap::SwitchBadPKey(SwitchBadPKey {
            valid: 0x00FF,
            slid: Lid(85),
            dlid: Lid(86),
            key: PKey(0x7FFF),
            sl: sl(6),
            source_qp: 0x01_0203,
            destination_qp: 0x04_0506,
            sgid: gid(0xFE, 11),
            dgid: gid(0xFE, 12),
            switch: Lid(87),
            port: 37,
        }),
    );
}

#[test]
fn header_of_a_returning_smp() {
    let mad = vector("header of a directed-route SMP on its way back, bad field");
    assert!(mad.is_returning());
    assert_eq!(mad.status(), Status::BAD_FIELD);
    assert_eq!((mad.hop_pointer(), mad.hop_count()), (2, 3));
    assert_eq!((mad.dr_slid(), mad.dr_dlid()), (Lid(17), Lid::PERMISSIVE));
    assert_eq!(mad.m_key(), 0x0123_4567_89AB_CDEF);
    let ports: Vec<PortNum> = [1, 254, 36].into_iter().filter_map(PortNum::new).collect();
    assert_eq!(mad.route(), Ok(DirectedRoute::new(&ports).expect("three hops")));
    assert_eq!(PortInfo::port(mad.modifier()), 7);
}

#[test]
fn modifiers_of_tables() {
    let modifier = |title: &str| vector(title).modifier();
    let sl_to_vl = modifier("SLtoVLMappingTable, SL i to VL 15 - i, input port 3, output port 4");
    assert_eq!(sl_to_vl, SlToVl::modifier(3, 4));
    assert_eq!((SlToVl::input(sl_to_vl), SlToVl::output(sl_to_vl)), (3, 4));
    let arbitration = modifier("VLArbitrationTable, VL i % 15 weight 255 - i, block 4, port 5");
    assert_eq!(arbitration, VlArbitration::modifier(VlArbBlock::HighSecond, 5));
    assert_eq!(VlArbitration::block(arbitration), Some(VlArbBlock::HighSecond));
    assert_eq!(VlArbitration::port(arbitration), 5);
    let pkeys = modifier("P_KeyTable, block 1, port 6, keys 0x0001, 0x8002 and up");
    assert_eq!(pkeys, PKeyTable::modifier(1, 6));
    assert_eq!((PKeyTable::block(pkeys), PKeyTable::port(pkeys)), (1, 6));
}

#[test]
fn details_of_errors_and_discards() {
    let details: PortRcvErrorDetails = gmp("PortRcvErrorDetails, counters 1001 and up");
    assert_eq!((details.port_select, details.counter_select), (36, 0xF00F));
    assert_eq!(details.counters(), [1001, 1002, 1003, 1004, 1005, 1006]);
    assert_eq!((details.local_physical_errors, details.looping_errors), (1001, 1006));
    let details: PortXmitDiscardDetails = gmp("PortXmitDiscardDetails, counters 2001 and up");
    assert_eq!(details.counters(), [2001, 2002, 2003, 2004]);
    assert_eq!((details.inactive_discards, details.hoq_lifetime_discards), (2001, 2004));
}

#[test]
fn errors_of_fast_links() {
    let counters: PortExtSpeedsCounters = gmp("PortExtendedSpeedsCounters, counters 9001 and up");
    assert_eq!(
        (counters.port_select, counters.counter_select),
        (36, 0xF00F_0000_0000_F00F)
    );
    assert_eq!((counters.sync_header_errors, counters.unknown_blocks), (9001, 9002));
    assert_eq!((counters.lane_errors[0], counters.lane_errors[11]), (9003, 9014));
    assert_eq!(
        (counters.fec_correctable[0], counters.fec_correctable[11]),
        (9015, 9026)
    );
    assert_eq!(
        (counters.fec_uncorrectable[0], counters.fec_uncorrectable[11]),
        (9027, 9038)
    );
}

fn gmp<A: GmpAttribute>(title: &str) -> A {
    let mad = vector(title);
    assert_eq!(mad.attribute(), A::ID, "{title}");
    A::parse(mad.gmp_data()).expect("any bytes are counters")
}

#[test]
fn counters_per_lane() {
    check_row::<PortOpRcv>("PortOpRcvCounters, counters 1400001 and up", 1_400_001, 2);
    check_row::<PortFlowCtl>("PortFlowCtlCounters, counters 1500001 and up", 1_500_001, 2);
    check_row::<PortVlOpPackets>("PortVLOpPackets, counters 3001 and up", 3001, 16);
    check_row::<PortVlOpData>("PortVLOpData, counters 400001 and up", 400_001, 16);
    check_row::<PortVlXmitWait>("PortVLXmitWaitCounters, counters 5001 and up", 5001, 16);
    check_row::<SwPortVlCongestion>("SwPortVLCongestion, counters 6001 and up", 6001, 16);
    check_row::<PortRcvConCtrl>("PortRcvConCtrl, counters 700001 and up", 700_001, 2);
    check_row::<PortSlRcvFecn>("PortSLRcvFECN, counters 800001 and up", 800_001, 16);
    check_row::<PortSlRcvBecn>("PortSLRcvBECN, counters 900001 and up", 900_001, 16);
    check_row::<PortXmitConCtrl>("PortXmitConCtrl, counter 1000001", 1_000_001, 1);
    check_row::<PortVlXmitTimeCong>("PortVLXmitTimeCong, counters 1100001 and up", 1_100_001, 15);
    check_row::<PortXmitDataSl>("PortXmitDataSL, counters 1200001 and up", 1_200_001, 16);
    check_row::<PortRcvDataSl>("PortRcvDataSL, counters 1300001 and up", 1_300_001, 16);
}

fn check_row<A: CounterBlock>(title: &str, first: u32, count: u32) {
    let found: A = gmp(title);
    let values: Vec<u32> = (first..first + count).collect();
    assert_eq!(found.selects(), (36, 0xF00F), "{title}");
    assert_eq!(found.row()[..A::COUNT], values[..], "{title}");
    assert!(found.row()[A::COUNT..].iter().all(|value| *value == 0), "{title}");
}
