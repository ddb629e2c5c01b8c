//! The vendor class: bit error ratios and cables, what is refused, and that others' vendor classes stay theirs.

use selvedge_emulator::{Emulator, EmulatorConfig};
use selvedge_sim::{Seed, Time};
use selvedge_types::{Lid, Sl};
use selvedge_wire::{
    Address, AttributeId, Ber, CableInfo, CableKind, Datagram, GmpAttribute, Mad, Method, PortBer,
    PortCountersExtended, Status,
};

use crate::common::{H2, NO_ANSWER, S, World, fabric};

fn ask(world: &mut World, lid: u16, mad: Mad) -> Result<Mad, Status> {
    let address = Address::gsi(Lid(lid), Sl::default());
    world.ask_at(Datagram { address, mad })
}

fn ber(world: &mut World, lid: u16, port_select: u8) -> Result<PortBer, Status> {
    let mut mad = Mad::vendor(Method::Get, AttributeId::PORT_BER);
    let asked = PortBer {
        port_select,
        ..PortBer::default()
    };
    mad.write_gmp(&asked);
    ask(world, lid, mad).map(|mad| PortBer::parse(mad.gmp_data()).unwrap())
}

fn cable(world: &mut World, lid: u16, port_select: u8) -> Result<CableInfo, Status> {
    let mut mad = Mad::vendor(Method::Get, AttributeId::CABLE_INFO);
    let asked = CableInfo {
        port_select,
        ..CableInfo::default()
    };
    mad.write_gmp(&asked);
    ask(world, lid, mad).map(|mad| CableInfo::parse(mad.gmp_data()).unwrap())
}

fn symbols(world: &mut World, port_select: u8) -> u64 {
    let asked = PortCountersExtended {
        port_select,
        ..PortCountersExtended::default()
    };
    world.gmp(S, Method::Get, &asked).unwrap().symbol_errors
}

#[test]
fn errors_after_correction_are_symbol_errors() {
    let mut world = World::configured();
    world.fault("ber S[3] 1e-6 2e-10");
    // 4x HDR: 212.5 Gbit/s.
    assert_eq!(world.emu.chassis().port(world.port("S", 3)).rate.mbit_per_s(), 212_500);
    world.pass(60_000);
    let found = ber(&mut world, S, 3).unwrap();
    assert_eq!(
        (found.raw, found.effective),
        (Ber::parse("1e-6").unwrap(), Ber::parse("2e-10").unwrap())
    );
    assert!((12_750_000..12_760_000).contains(&found.raw_errors), "{found}");
    assert_eq!(
        (found.effective_errors, symbols(&mut world, 3), symbols(&mut world, 4)),
        (2_550, 2_550, 0)
    );
    // Nothing is received while the link is down.
    world.fault(r#"cut "S"[3]"#);
    world.pass(60_000);
    assert_eq!(symbols(&mut world, 3), 2_550);
    world.fault(r#"restore "S"[3]"#);
    world.pass(60_000);
    let later = symbols(&mut world, 3);
    assert!((5_090..=5_101).contains(&later), "{later}");
    world.fault("ber S[3] off");
    world.pass(60_000);
    let found = ber(&mut world, S, 3).unwrap();
    assert_eq!((symbols(&mut world, 3), found.effective), (later, Ber::default()));
    assert!(found.raw.exponent >= 10, "{found}");
}

#[test]
fn a_good_cable_of_a_fast_link_has_errors_before_correction_only() {
    let mut world = World::routed("karytree:k=4,n=2", "minhop");
    world.pass(1_000);
    let lid = world.emu.chassis().port(world.port("S-L1-0", 0)).settings().lids.base.0;
    let (one, other) = (ber(&mut world, lid, 1).unwrap(), ber(&mut world, lid, 2).unwrap());
    assert!(
        one.raw.mantissa > 0 && one.raw_errors > 0 && one != other,
        "{one} {other}"
    );
    assert_eq!((one.effective, one.effective_errors), (Ber::default(), 0));
}

#[test]
fn both_ends_name_the_same_cable() {
    let mut world = World::configured();
    let (at_host, at_switch) = (
        cable(&mut world, H2, 1).unwrap(),
        cable(&mut world, crate::common::T, 1).unwrap(),
    );
    assert_eq!(at_host.serial_number, at_switch.serial_number);
    assert_eq!(
        (at_host.kind, at_host.lanes, at_host.temperature),
        (CableKind::PassiveCopper, 4, 0)
    );
    let optical = cable(&mut world, S, 3).unwrap();
    assert_eq!(optical.kind, CableKind::ActiveOptical);
    assert!((35 * 256..=50 * 256).contains(&optical.temperature) && optical.rx_power[3] >= 8_000);
    assert_eq!(optical.rx_power[4..], [0; 4]);
    assert_ne!(optical.serial_number, at_host.serial_number);
    world.fault("cable S[3] temperature=71 rx-power=120");
    let bad = cable(&mut world, S, 3).unwrap();
    assert_eq!(
        (bad.temperature, bad.rx_power[..4].to_vec()),
        (71 * 256, vec![1_200; 4])
    );
    assert_eq!(
        (bad.serial_number, bad.tx_power),
        (optical.serial_number, optical.tx_power)
    );
    world.fault("cable S[3] off");
    assert_eq!(cable(&mut world, S, 3), Ok(optical));
    // No cable, and a port that is not there.
    assert_eq!(cable(&mut world, S, 5).unwrap().kind, CableKind::None);
    for port in [0, 6, 255] {
        assert_eq!(cable(&mut world, S, port), Err(Status::BAD_FIELD));
        assert_eq!(ber(&mut world, S, port), Err(Status::BAD_FIELD));
    }
    world.audit();
}

#[test]
fn what_is_not_ours_is_not_answered() {
    let mut world = World::configured();
    let unknown = Mad::vendor(Method::Get, AttributeId::PORT_INFO);
    assert_eq!(ask(&mut world, S, unknown).err(), Some(Status::BAD_METHOD_ATTRIBUTE));
    let set = Mad::vendor(Method::Set, AttributeId::PORT_BER);
    assert_eq!(ask(&mut world, S, set).err(), Some(Status::BAD_METHOD_ATTRIBUTE));
    // Another OUI, and another vendor's class.
    for (at, value) in [(39, 0), (1, 0x0A)] {
        let mut mad = Mad::vendor(Method::Get, AttributeId::PORT_BER);
        mad.as_bytes_mut()[at] = value;
        assert_eq!(ask(&mut world, S, mad).err(), Some(NO_ANSWER));
    }
    world.audit();
}

#[test]
fn cables_come_from_the_seed() {
    let info = |seed: u64| {
        let mut emu = Emulator::new(&fabric(), EmulatorConfig::default(), Seed(seed));
        emu.advance(Time::from_millis(1), &mut Vec::new());
        let port = emu.chassis().fabric().links().next().unwrap().a;
        emu.cable(emu.chassis().port_idx(port).unwrap())
    };
    assert_eq!(info(1), info(1));
    assert_ne!(info(1).serial_number, info(2).serial_number);
}
