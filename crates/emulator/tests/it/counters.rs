//! Performance management agents: what their counters show, how far they count, and what a Set changes.

use selvedge_chassis::{AtMaximum, DetailRow, ExtendedCounters, PmaAbilities};
use selvedge_wire::{
    ClassPortInfo, CounterBlock, Method, PortCounters, PortCountersExtended, PortExtSpeedsCounters, PortFlowCtl,
    PortOpRcv, PortRcvErrorDetails, PortSlRcvBecn, PortVlOpData, PortVlXmitWait, PortXmitDiscardDetails, Status,
};

use crate::common::{H2, S, World};

const UNSUPPORTED: Status = Status::BAD_METHOD_ATTRIBUTE;

fn counters(world: &mut World, lid: u16, port_select: u8) -> Result<PortCounters, Status> {
    let asked = PortCounters {
        port_select,
        ..PortCounters::default()
    };
    world.gmp(lid, Method::Get, &asked)
}

fn extended(world: &mut World, lid: u16) -> Result<PortCountersExtended, Status> {
    let asked = PortCountersExtended {
        port_select: 1,
        ..PortCountersExtended::default()
    };
    world.gmp(lid, Method::Get, &asked)
}

fn row<A: CounterBlock>(world: &mut World, lid: u16, port_select: u8) -> Result<[u32; 16], Status> {
    let answer = world.gmp(lid, Method::Get, &A::block(port_select, 0, [0; 16]))?;
    assert_eq!(answer.selects(), (port_select, 0));
    Ok(answer.row())
}

/// Changes what the agent of a switch can do.
fn with_pma(change: impl FnOnce(&mut PmaAbilities)) -> World {
    let mut world = World::configured();
    let node = world.emu.chassis().wire(world.port("S", 1)).node();
    let mut abilities = PmaAbilities::default();
    change(&mut abilities);
    world.emu.set_pma(node, abilities);
    world
}

#[test]
fn capabilities_are_what_the_agent_has() {
    let check = |change: fn(&mut PmaAbilities), set: u16, set2: u32| {
        let mut world = with_pma(change);
        let info = world.gmp(S, Method::Get, &ClassPortInfo::default()).unwrap();
        assert_eq!((info.capabilities, info.capabilities2), (set, set2));
    };
    check(|_| {}, 0x9300, 2);
    check(|pma| pma.xmit_wait = false, 0x8300, 2);
    check(|pma| pma.all_port_select = false, 0x9200, 2);
    check(|pma| pma.extended = ExtendedCounters::Traffic, 0x9300, 0);
    check(|pma| pma.extended = ExtendedCounters::NoIetf, 0x9500, 0);
    check(|pma| pma.extended = ExtendedCounters::None, 0x9100, 0);
}

#[test]
fn an_agent_refuses_what_it_does_not_have() {
    let mut world = with_pma(|pma| {
        *pma = PmaAbilities {
            extended: ExtendedCounters::None,
            all_port_select: false,
            xmit_wait: false,
            details: false,
            at_maximum: AtMaximum::Stops,
        }
    });
    let port = world.port("S", 1);
    world.emu.counters_mut(port).xmit_wait = 5;
    assert_eq!(counters(&mut world, S, 1).unwrap().xmit_wait, 0);
    assert_eq!(counters(&mut world, S, 255).err(), Some(Status::BAD_FIELD));
    assert_eq!(extended(&mut world, S).err(), Some(UNSUPPORTED));
    assert_eq!(row::<PortVlXmitWait>(&mut world, S, 1).err(), Some(UNSUPPORTED));
    // Another node keeps its own abilities.
    assert!(extended(&mut world, H2).is_ok());
}

#[test]
fn extended_counters_without_errors() {
    let mut world = with_pma(|pma| pma.extended = ExtendedCounters::NoIetf);
    let port = world.port("S", 1);
    world.emu.counters_mut(port).symbol_errors = 9;
    let found = extended(&mut world, S).unwrap();
    assert!(found.rcv_packets > 0);
    assert_eq!((found.unicast_rcv_packets, found.symbol_errors), (0, 0));
    assert_eq!(counters(&mut world, S, 1).unwrap().symbol_errors, 9);
    // A Set writes only the counters that the agent has.
    let reset = PortCountersExtended {
        port_select: 1,
        counter_select: 0xFFFF,
        counter_select2: 0xFFFF,
        ..PortCountersExtended::default()
    };
    world.gmp(S, Method::Set, &reset).unwrap();
    assert_eq!(counters(&mut world, S, 1).unwrap().symbol_errors, 9);
}

#[test]
fn counters_stop_at_their_maximum_or_wrap() {
    let check = |at_maximum: AtMaximum, integrity: u8, downed: u8, symbols: u16, wait: u32, lane: u32| {
        let mut world = with_pma(|pma| pma.at_maximum = at_maximum);
        let port = world.port("S", 4);
        world.emu.detail_mut(port, DetailRow::VlXmitWait)[3] = 0x1_0003;
        let c = world.emu.counters_mut(port);
        (c.local_link_integrity_errors, c.link_downed) = (0x12, 0x101);
        (c.symbol_errors, c.xmit_wait) = (0x1_0005, 0x1_0000_0007);
        let found = counters(&mut world, S, 4).unwrap();
        assert_eq!(found.local_link_integrity_errors.get(), integrity);
        assert_eq!((found.link_downed, found.symbol_errors), (downed, symbols));
        assert_eq!(found.xmit_wait, wait);
        assert_eq!(row::<PortVlXmitWait>(&mut world, S, 4).unwrap()[3], lane);
    };
    check(AtMaximum::Stops, 15, 255, 65_535, u32::MAX, 65_535);
    check(AtMaximum::Wraps, 2, 1, 5, 7, 3);
}

/// A counter at its maximum must not stop the emulator.
#[test]
fn full_counters_count_no_further() {
    let mut world = World::configured();
    let full = PortCountersExtended {
        port_select: 1,
        counter_select: 0xFFFF,
        counter_select2: 0xFFFF,
        xmit_data: u64::MAX,
        rcv_data: u64::MAX,
        xmit_packets: u64::MAX,
        rcv_packets: u64::MAX,
        unicast_xmit_packets: u64::MAX,
        unicast_rcv_packets: u64::MAX,
        ..PortCountersExtended::default()
    };
    world.gmp(S, Method::Set, &full).unwrap();
    let found = extended(&mut world, S).unwrap();
    assert_eq!((found.rcv_packets, found.xmit_data), (u64::MAX, u64::MAX));
    let all = PortCountersExtended {
        port_select: 255,
        ..PortCountersExtended::default()
    };
    assert_eq!(world.gmp(S, Method::Get, &all).unwrap().rcv_packets, u64::MAX);
}

#[test]
fn rows_of_counters_are_read_and_set() {
    let mut world = World::configured();
    let (one, two) = (world.port("S", 1), world.port("S", 2));
    world.emu.detail_mut(one, DetailRow::VlData)[15] = 100_000;
    world.emu.detail_mut(two, DetailRow::VlData)[15] = 11;
    world.emu.detail_mut(one, DetailRow::SlBecn)[2] = 4;
    assert_eq!(row::<PortVlOpData>(&mut world, S, 1).unwrap()[15], 100_000);
    assert_eq!(row::<PortVlOpData>(&mut world, S, 255).unwrap()[15], 100_011);
    assert_eq!(row::<PortSlRcvBecn>(&mut world, S, 1).unwrap()[2], 4);
    assert_eq!(row::<PortVlOpData>(&mut world, S, 6).err(), Some(Status::BAD_FIELD));
    assert_eq!(row::<PortVlOpData>(&mut world, H2, 255).err(), Some(Status::BAD_FIELD));
    // A Set writes the selected counters of all selected ports.
    let set = PortVlOpData::new(255, 1 << 15, [7; 16]);
    let held = world.gmp(S, Method::Set, &set).unwrap();
    assert_eq!(held.values()[15], 5 * 7);
    assert_eq!(held.values()[0], 0);
}

#[test]
fn causes_of_errors_are_counted() {
    let mut world = World::configured();
    let before = row::<PortRcvErrorDetails>(&mut world, S, 1).unwrap();
    assert_eq!(before, [0; 16]);
    // No entry for this LID in the switch.
    let lost = world.gmp(700, Method::Get, &ClassPortInfo::default());
    assert_eq!(lost.err(), Some(crate::common::NO_ANSWER));
    let relay = counters(&mut world, S, 1).unwrap().rcv_switch_relay_errors;
    let causes = row::<PortRcvErrorDetails>(&mut world, S, 1).unwrap();
    assert_eq!((relay, causes[3]), (1, 1));
    // A host behind a link that is down.
    world.fault(r#"kill "H2""#);
    let lost = world.gmp(H2, Method::Get, &ClassPortInfo::default());
    assert_eq!(lost.err(), Some(crate::common::NO_ANSWER));
    let causes = row::<PortXmitDiscardDetails>(&mut world, crate::common::T, 1).unwrap();
    assert_eq!(causes[..2], [1, 0]);
}

fn speeds(world: &mut World, method: Method, asked: PortExtSpeedsCounters) -> Result<PortExtSpeedsCounters, Status> {
    world.gmp(S, method, &asked)
}

#[test]
fn counters_of_fast_links_are_read_summed_and_written() {
    let mut world = World::configured();
    for (num, errors) in [(1, 7), (2, 70_000)] {
        let port = world.port("S", num);
        world.emu.detail_mut(port, DetailRow::LaneErrors)[1] = 3;
        world.emu.detail_mut(port, DetailRow::LaneErrors)[2 + 3] = errors;
        world.emu.detail_mut(port, DetailRow::FecCorrectable)[11] = 5;
        world.emu.detail_mut(port, DetailRow::FecUncorrectable)[0] = 1 << 40;
    }
    let asked = |port_select| PortExtSpeedsCounters {
        port_select,
        ..PortExtSpeedsCounters::default()
    };
    let found = speeds(&mut world, Method::Get, asked(1)).unwrap();
    assert_eq!(
        (found.sync_header_errors, found.unknown_blocks, found.lane_errors[3]),
        (0, 3, 7)
    );
    assert_eq!((found.fec_correctable[11], found.fec_uncorrectable[0]), (5, u32::MAX));
    let sum = speeds(&mut world, Method::Get, asked(255)).unwrap();
    assert_eq!(
        (sum.unknown_blocks, sum.lane_errors[3], sum.fec_correctable[11]),
        (6, 65_535, 10)
    );
    assert_eq!(speeds(&mut world, Method::Get, asked(9)).err(), Some(Status::BAD_FIELD));
    // Bits 5 and 25: ErrorDetectionCounterLane3 and FECCorrectableBlockCtrLane11. Others stay.
    let reset = PortExtSpeedsCounters {
        counter_select: 1 << 5 | 1 << 25,
        ..asked(1)
    };
    speeds(&mut world, Method::Set, reset).unwrap();
    let found = speeds(&mut world, Method::Get, asked(1)).unwrap();
    assert_eq!(
        (found.unknown_blocks, found.lane_errors[3], found.fec_correctable[11]),
        (3, 0, 0)
    );
    assert_eq!(found.fec_uncorrectable[0], u32::MAX);
}

#[test]
fn an_agent_without_details_has_no_counters_of_fast_links() {
    let mut world = with_pma(|pma| pma.details = false);
    for method in [Method::Get, Method::Set] {
        let asked = PortExtSpeedsCounters {
            port_select: 1,
            ..PortExtSpeedsCounters::default()
        };
        assert_eq!(speeds(&mut world, method, asked).err(), Some(UNSUPPORTED));
    }
    assert_eq!(row::<PortOpRcv>(&mut world, S, 1).err(), Some(UNSUPPORTED));
    assert_eq!(row::<PortFlowCtl>(&mut world, S, 1).err(), Some(UNSUPPORTED));
}
