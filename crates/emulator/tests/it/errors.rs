//! Injected errors: amounts, rates, what counters of 4 to 64 bits show of them, and what ends them.

use selvedge_chassis::{AtMaximum, DetailRow, PmaAbilities};
use selvedge_wire::{Method, PortCounters, PortCountersExtended};

use crate::common::{S, World};

fn narrow(world: &mut World, port_select: u8) -> PortCounters {
    let asked = PortCounters {
        port_select,
        ..PortCounters::default()
    };
    world.gmp(S, Method::Get, &asked).unwrap()
}

fn wide(world: &mut World, port_select: u8) -> PortCountersExtended {
    let asked = PortCountersExtended {
        port_select,
        ..PortCountersExtended::default()
    };
    world.gmp(S, Method::Get, &asked).unwrap()
}

#[test]
fn every_counter_can_be_moved() {
    let mut world = World::configured();
    for (count, counter) in (1..).zip([
        "symbol",
        "link-recovery",
        "link-downed",
        "rcv",
        "rcv-remote-physical",
        "xmit-discards",
        "xmit-constraint",
        "rcv-constraint",
        "link-integrity",
        "buffer-overrun",
        "vl15-dropped",
        "qp1-dropped",
        "xmit-wait",
        "rcv-switch-relay",
    ]) {
        world.fault(&format!("errors S[4] {counter} {count}"));
    }
    let found = narrow(&mut world, 4);
    let shown = found.to_string();
    for part in ["symbol=1 ", "recovered=2 ", "downed=3 "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(
        (found.rcv_errors, found.rcv_remote_physical_errors, found.xmit_discards),
        (4, 5, 6)
    );
    assert_eq!((found.xmit_constraint_errors, found.rcv_constraint_errors), (7, 8));
    assert_eq!(
        (
            found.local_link_integrity_errors.get(),
            found.excessive_buffer_overruns.get()
        ),
        (9, 10)
    );
    assert_eq!((found.vl15_dropped, found.qp1_dropped, found.xmit_wait), (11, 12, 13));
    assert_eq!(found.rcv_switch_relay_errors, 14);
    let causes = world.emu.chassis().detail(world.port("S", 4), DetailRow::RcvErrors);
    assert_eq!((causes[0], causes[3]), (4, 14));
}

#[test]
fn counters_stop_or_wrap_as_wide_as_they_are() {
    let check = |at_maximum: AtMaximum, integrity: u8, recoveries: u8, symbols: u16| {
        let mut world = World::configured();
        let node = world.emu.chassis().wire(world.port("S", 1)).node();
        let abilities = PmaAbilities {
            at_maximum,
            ..PmaAbilities::default()
        };
        world.emu.set_pma(node, abilities);
        world.fault("errors S[1] link-integrity 3/s");
        world.fault("errors S[1] link-recovery 60/s");
        world.fault("errors S[1] symbol 10000/s");
        world.pass(10_000);
        let found = narrow(&mut world, 1);
        assert_eq!(found.local_link_integrity_errors.get(), integrity);
        assert_eq!((found.link_recoveries, found.symbol_errors), (recoveries, symbols));
        let found = wide(&mut world, 1);
        assert_eq!((found.local_link_integrity_errors, found.link_recoveries), (30, 600));
        assert!((100_000..100_100).contains(&found.symbol_errors));
    };
    check(AtMaximum::Stops, 15, 255, 65_535);
    check(AtMaximum::Wraps, 14, 88, 34_464);
}

#[test]
fn rates_go_on_until_they_end() {
    let mut world = World::configured();
    world.fault("errors S[2] symbol 90/min");
    world.fault("errors S[3] symbol 5/s");
    world.pass(60_000);
    assert_eq!(
        (wide(&mut world, 2).symbol_errors, wide(&mut world, 3).symbol_errors),
        (90, 300)
    );
    assert_eq!(wide(&mut world, 255).symbol_errors, 390);
    world.fault("errors S[2] symbol 0/s");
    world.pass(60_000);
    assert_eq!(
        (wide(&mut world, 2).symbol_errors, wide(&mut world, 3).symbol_errors),
        (90, 600)
    );
    // A rate replaces a rate.
    world.fault("errors S[3] symbol 1/s");
    world.pass(10_000);
    assert_eq!(wide(&mut world, 3).symbol_errors, 610);
    world.fault("errors S[3] off");
    world.pass(10_000);
    assert_eq!(wide(&mut world, 3).symbol_errors, 610);
}

/// Counters are lost with the power; the cable is as bad as before.
#[test]
fn errors_outlive_a_reboot() {
    let mut world = World::configured();
    world.fault("errors S[2] rcv 100/s");
    world.pass(1_000);
    world.fault("reboot S");
    world.pass(1_000);
    world.emu.settle_counters();
    assert_eq!(world.emu.chassis().counters(world.port("S", 2)).rcv_errors, 100);
}
