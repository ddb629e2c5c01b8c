//! The invariants of the crate's documentation, after any calls in any order.

use proptest::prelude::*;
use selvedge_chassis::{Chassis, Counters, Egress, PortIdx, SpeedSet, TableKind};
use selvedge_fabric::{Fabric, FabricBuilder, Node, NodeIdx, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_types::{
    Guid, Idx, Lid, LidRange, LinkSpeed, LinkWidth, Lmc, NodeKind, PhysState, PortNum, PortState, Sl, Vl,
};

fn port(num: u8) -> PortNum {
    PortNum::new(num).unwrap()
}

/// Switches 0 and 1 with two cables between them and one from 0 to itself; host 2 with a port at each.
fn fabric() -> Fabric {
    let mut builder = FabricBuilder::new();
    let s = builder.add(Node::new(NodeKind::Switch, Guid(1), 5, "s"));
    let t = builder.add(Node::new(NodeKind::Switch, Guid(2), 3, "t"));
    let h = builder.add(Node::new(NodeKind::Ca, Guid(3), 2, "h"));
    for (a, b) in [
        ((s, 1), (t, 1)),
        ((s, 2), (t, 2)),
        ((s, 3), (s, 4)),
        ((h, 1), (s, 5)),
        ((h, 2), (t, 3)),
    ] {
        builder.link((a.0, port(a.1)), (b.0, port(b.1))).unwrap();
    }
    builder.finish().unwrap()
}

fn ports(chassis: &Chassis) -> Vec<PortIdx> {
    let nodes = chassis.fabric().nodes().indices();
    let of = |node: NodeIdx| (0..=255).filter_map(move |num| chassis.port_at(node, num));
    nodes.flat_map(of).collect()
}

fn check_invariants(chassis: &Chassis) {
    for at in ports(chassis) {
        let wire = chassis.wire(at);
        let up = wire.phys() == PhysState::LinkUp;
        assert_eq!(wire.state() != PortState::Down, up, "{at:?}");
        if chassis.is_switch(wire.node()) && wire.num() == PortNum::MANAGEMENT {
            assert_eq!(wire.state(), PortState::Active);
            continue;
        }
        let peer = wire.peer();
        assert_eq!(
            peer.is_some_and(|p| chassis.wire(p).phys() == PhysState::LinkUp),
            up,
            "{at:?}"
        );
        assert!(!up || chassis.is_powered(wire.node()) && wire.is_plugged(), "{at:?}");
        let lids = chassis.port(at).settings().lids;
        for lid in [0, 1, 7, 8, 9, 15, 16, 0xBFFF, 0xC000, 0xFFFF].map(Lid) {
            assert_eq!(
                wire.answers_to(lid),
                lids.base.is_unicast() && lids.contains(lid),
                "{at:?} {lid}"
            );
        }
    }
}

proptest! {
    #[test]
    fn hold_after_any_calls(calls in proptest::collection::vec((0_u8..11, any::<u8>(), any::<u8>()), 0..60)) {
        let mut chassis = Chassis::new(&fabric());
        let all = ports(&chassis);
        for (call, place, value) in calls {
            let at = all[usize::from(place) % all.len()];
            let node = NodeIdx::from_usize(usize::from(place) % 3);
            match call {
                0 | 1 => drop(chassis.bring_up(at)),
                2 => drop(chassis.take_down(at)),
                3 => chassis.set_plugged(at, value & 1 != 0),
                4 => drop(chassis.set_logical(at, PortState::from_code(1 + value % 4).unwrap())),
                5 => chassis.set_physical(at, PhysState::from_code(1 + value % 7).unwrap()),
                6 if value < 64 => chassis.power_off(node),
                6 | 7 if value < 128 => chassis.power_on(node),
                8 => {
                    let lids = LidRange { base: Lid(u16::from(value & 0x1F)), lmc: Lmc::new(value >> 5).unwrap() };
                    chassis.set_settings(at, PortSettings { lids, ..PortSettings::default() });
                }
                9 => {
                    let data = chassis.port_mut(at, TableKind::Settings);
                    data.widths_enabled = value;
                    data.speeds_enabled = SpeedSet::up_to(LinkSpeed::ALL[usize::from(value) % 8]);
                }
                _ => chassis.port_mut(at, TableKind::Settings).down_default =
                    if value & 1 == 0 { PhysState::Sleep } else { PhysState::Polling },
            }
            check_invariants(&chassis);
        }
        let seen = chassis.observe();
        prop_assert_eq!(seen.links().count(), 5);
    }
}

#[test]
fn a_chassis_begins_switched_on_and_untrained() {
    let chassis = Chassis::new(&fabric());
    check_invariants(&chassis);
    let node = NodeIdx(0);
    assert!(chassis.is_switch(node) && chassis.is_powered(node));
    assert_eq!(chassis.port_at(NodeIdx(2), 0), None, "a CA has no port 0");
    assert_eq!(chassis.port_at(node, 6), None);
    assert_eq!(chassis.port_guid(chassis.port_at(NodeIdx(2), 2).unwrap()), Guid(5));
    assert_eq!(chassis.port_guid(chassis.port_at(node, 3).unwrap()), Guid(1));
    assert_eq!(chassis.sl_to_vl(), selvedge_plan::SlToVl::default());
}

#[test]
fn egress_honours_the_top() {
    let mut chassis = Chassis::new(&fabric());
    let node = NodeIdx(0);
    let mut block = [255; 64];
    block[1..6].copy_from_slice(&[0, 5, 6, 1, 2]);
    assert!(chassis.set_linear_block(node, 0, &block));
    assert!(!chassis.set_linear_block(node, 768, &block), "beyond LinearFDBCap");
    assert!(!chassis.set_linear_block(NodeIdx(2), 0, &block), "no switch");
    let settings = SwitchSettings {
        linear_top: 4,
        ..SwitchSettings::default()
    };
    chassis.set_switch_settings(node, settings);
    let check = |lid: u16, want: Egress| assert_eq!(chassis.egress(node, Lid(lid)), want, "{lid}");
    check(0, Egress::NoPath);
    check(1, Egress::Own);
    check(2, Egress::Port(chassis.port_at(node, 5).unwrap()));
    check(3, Egress::NoSuchPort);
    check(4, Egress::Port(chassis.port_at(node, 1).unwrap()));
    check(5, Egress::NoPath);
    check(64, Egress::NoPath);
    assert_eq!(chassis.tables().get(SwitchIdx(0), Lid(5)), 255);
    assert_eq!(chassis.installed().get(SwitchIdx(0), Lid(5)), Some(2));
    assert_eq!(chassis.version(node, TableKind::Linear), 2);
}

#[test]
fn the_common_rate_is_the_best_of_both() {
    let mut chassis = Chassis::new(&fabric());
    let at = chassis.port_at(NodeIdx(0), 1).unwrap();
    assert_eq!(chassis.common_rate(at).unwrap().speed, LinkSpeed::Hdr);
    let data = chassis.port_mut(at, TableKind::Settings);
    data.widths_enabled = LinkWidth::X1.bit() | LinkWidth::X12.bit();
    data.speeds_enabled = SpeedSet::up_to(LinkSpeed::Fdr);
    let rate = chassis.common_rate(at).unwrap();
    assert_eq!((rate.width, rate.speed), (LinkWidth::X1, LinkSpeed::Fdr));
    chassis.port_mut(at, TableKind::Settings).widths_enabled = LinkWidth::X12.bit();
    assert!(!chassis.bring_up(at));
}

#[test]
fn lanes_of_one_switch_do_not_touch_another() {
    let mut chassis = Chassis::new(&fabric());
    let row = [Vl::new(3).unwrap(); Sl::COUNT];
    chassis.set_lanes(NodeIdx(0), 1, 2, row);
    chassis.set_lanes(NodeIdx(0), 1, 9, row);
    let map = chassis.sl_to_vl();
    assert_eq!(map.exceptions.len(), 1);
    assert_eq!(map.table(SwitchIdx(0), port(1), port(2)), &row);
    assert_eq!(chassis.lanes(NodeIdx(0), 2, 1), &[Vl::default(); Sl::COUNT]);
}

#[test]
fn mads_are_counted_at_both_ends() {
    let mut chassis = Chassis::new(&fabric());
    let (out, into) = (
        chassis.port_at(NodeIdx(0), 1).unwrap(),
        chassis.port_at(NodeIdx(1), 1).unwrap(),
    );
    chassis.count_mad(out, into);
    chassis.counters_mut(out).xmit_discards += 1;
    chassis.count_mad(out, into);
    assert_eq!(chassis.counters(out).xmit_packets, 2);
    assert_eq!(chassis.counters(out).xmit_data, 2 * Counters::MAD_WORDS);
    assert_eq!(chassis.counters(into).unicast_rcv_packets, 2);
    *chassis.counters_mut(out) = Counters::default();
    assert_eq!(chassis.counters(out), Counters::default());
}
