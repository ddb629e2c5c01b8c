//! Get and Set of every attribute, legal and not.

use crate::common::*;
use selvedge_chassis::TableKind;
use selvedge_emulator::{Emulator, EmulatorConfig};
use selvedge_sim::{Seed, Time};
use selvedge_types::{Guid, Lid, LinkSpeed, LinkWidth, Lmc, Mtu, NodeKind, PKey, PhysState, PortState, Rate, Sl, Vl};
use selvedge_wire::{
    AttributeId, Bits, CapabilityMask, CapabilityMask2, Class, ClassPortInfo, ExtSpeedEnable, GuidInfo,
    LinearForwardingTable, LinkDownDefault, LinkSpeeds, LinkWidths, Mad, Method, MlnxExtPortInfo,
    MulticastForwardingTable, NodeDescription, NodeInfo, Notice, NoticeType, PKeyTable, PortCounters,
    PortCountersExtended, PortInfo, SlToVl, SmInfo, Status, SwitchInfo, VlArbBlock, VlArbEntry, VlArbitration, VlCount,
};

const OK: Status = Status::OK;
const BAD: Status = Status::BAD_FIELD;
const UNSUPPORTED: Status = Status::BAD_METHOD_ATTRIBUTE;

fn status<T>(result: Result<T, Status>) -> Status {
    result.err().unwrap_or(OK)
}

#[test]
fn node_description_and_node_info() {
    let mut world = World::new();
    assert_eq!(world.get::<NodeDescription>(TO_H2, 0).unwrap().text(), "H2");
    let new = NodeDescription::new("new");
    assert_eq!(status(world.set(TO_H2, 0, &new)), UNSUPPORTED);
    let info: NodeInfo = world.get(TO_H1_2, 0).unwrap();
    assert_eq!((info.kind, info.port_count, info.local_port), (NodeKind::Ca, 2, 2));
    assert_eq!((info.node_guid, info.port_guid), (Guid(0x110), Guid(0x112)));
    let info: NodeInfo = world.get(TO_T, 0).unwrap();
    assert_eq!((info.node_guid, info.port_guid), (Guid(0x20), Guid(0x20)));
    assert_eq!(status(world.set(TO_T, 0, &info)), UNSUPPORTED);
}

#[test]
fn switch_info() {
    let mut world = World::new();
    let info: SwitchInfo = world.get(TO_S, 0).unwrap();
    assert_eq!(
        (info.linear_cap, info.mcast_cap, info.linear_top),
        (49_152, 16_384, Lid(0))
    );
    assert!(info.enhanced_port0);
    assert_eq!(status(world.get::<SwitchInfo>(TO_H2, 0)), UNSUPPORTED);
    let wanted = SwitchInfo {
        linear_top: Lid(100),
        lifetime_value: Bits::saturating(18),
        mcast_top: Lid(0xC001),
        default_port: 3,
        // Read-only: ignored.
        linear_cap: 1,
        ..info
    };
    let held = world.set(TO_S, 0, &wanted).unwrap();
    assert_eq!(
        held,
        SwitchInfo {
            linear_cap: 49_152,
            ..wanted
        }
    );
    assert_eq!(world.get::<SwitchInfo>(TO_S, 0).unwrap(), held);
    let above = SwitchInfo {
        linear_top: Lid(49_152),
        ..held
    };
    assert_eq!(status(world.set(TO_S, 0, &above)), BAD);
    assert_eq!(
        world.get::<SwitchInfo>(TO_S, 0).unwrap(),
        held,
        "a refused Set changes nothing"
    );
}

#[test]
fn guid_info() {
    let fabric = fabric_with(|node| {
        if let Some(end) = node.port_mut(port(1)) {
            end.capability.guids = 10;
        }
    });
    let mut world = World::with(&fabric, EmulatorConfig::default());
    let held: GuidInfo = world.get(TO_H2, 0).unwrap();
    assert_eq!(held.guids[..2], [Guid(0x121), Guid::NONE]);
    let wanted = GuidInfo {
        guids: core::array::from_fn(|i| Guid(1 + i as u64)),
    };
    let held = world.set(TO_H2, 0, &wanted).unwrap();
    assert_eq!(held.guids[..3], [Guid(0x121), Guid(2), Guid(3)], "entry 0 is read-only");
    let held = world.set(TO_H2, 1, &wanted).unwrap();
    assert_eq!(held.guids[..3], [Guid(1), Guid(2), Guid::NONE], "ten entries");
    assert_eq!(status(world.get::<GuidInfo>(TO_H2, 2)), BAD);
    assert_eq!(status(world.get::<GuidInfo>(TO_H2, u32::MAX)), BAD);
}

#[test]
fn p_key_table() {
    let mut world = World::new();
    let held: PKeyTable = world.get(TO_H2, 0).unwrap();
    assert_eq!(held.keys[..2], [PKey::DEFAULT_FULL, PKey(0)]);
    let mut keys = [PKey(0); 32];
    keys[0] = PKey(0x7FFF);
    keys[31] = PKey(0x8001);
    assert_eq!(world.set(TO_H2, 0, &PKeyTable { keys }).unwrap().keys, keys);
    assert_eq!(world.get::<PKeyTable>(TO_H2, 0).unwrap().keys, keys);
    assert_eq!(status(world.get::<PKeyTable>(TO_H2, 1)), BAD, "32 entries, one block");
    // A switch: port 0, and external ports that enforce.
    assert_eq!(
        world
            .set(TO_S, PKeyTable::modifier(0, 4), &PKeyTable { keys })
            .unwrap()
            .keys,
        keys
    );
    assert_eq!(world.get::<PKeyTable>(TO_S, 0).unwrap().keys[0], PKey::DEFAULT_FULL);
    assert_eq!(status(world.get::<PKeyTable>(TO_S, PKeyTable::modifier(0, 6))), BAD);
    assert_eq!(status(world.get::<PKeyTable>(TO_S, 0x0101_0000)), BAD, "port 257");
}

#[test]
fn sl_to_vl() {
    let fabric = fabric_with(|node| {
        if node.description == "T" {
            node.switch.as_mut().unwrap().optimized_sl2vl = true;
        }
    });
    let mut world = World::with(&fabric, EmulatorConfig::default());
    let (lanes, zero) = (SlToVl::modulo(8), SlToVl::modulo(1));
    let mut check_set = |path: &[u8], modifier: u32, want: Status| {
        assert_eq!(
            status(world.set(path, modifier, &lanes)),
            want,
            "{path:?} {modifier:#x}"
        );
    };
    check_set(TO_S, SlToVl::modifier(1, 2), OK);
    check_set(TO_S, SlToVl::modifier(0, 5), OK);
    check_set(TO_S, SlToVl::modifier(1, 6), BAD);
    check_set(TO_S, SlToVl::modifier(6, 1), BAD);
    check_set(TO_S, SlToVl::ALL_INPUTS | 3, BAD);
    check_set(TO_T, SlToVl::ALL_INPUTS | 3, OK);
    check_set(TO_H2, 0, OK);
    let mut check = |path: &[u8], modifier: u32, want: &SlToVl| {
        assert_eq!(
            world.get::<SlToVl>(path, modifier).unwrap(),
            *want,
            "{path:?} {modifier:#x}"
        );
    };
    check(TO_S, SlToVl::modifier(1, 2), &lanes);
    check(TO_S, SlToVl::modifier(2, 1), &zero);
    for input in 0..=5 {
        check(TO_T, SlToVl::modifier(input, 3), &lanes);
        check(TO_T, SlToVl::modifier(input, 4), &zero);
    }
    check(TO_H2, 0, &lanes);
    check(TO_H1_1, 0, &zero);
    let seen = world.emu.chassis().sl_to_vl();
    let (switch, sl) = (selvedge_fabric::SwitchIdx(0), Sl::new(9).unwrap());
    assert_eq!(seen.vl(switch, port(1), port(2), sl), Vl::new(1).unwrap());
    assert_eq!(seen.vl(switch, port(2), port(1), sl), Vl::new(0).unwrap());
}

#[test]
fn vl_arbitration() {
    let fabric = fabric_with(|node| {
        if let Some(p) = node.port_mut(port(1)) {
            (p.capability.vl_arb_low, p.capability.vl_arb_high) = (40, 0);
        }
    });
    let mut world = World::with(&fabric, EmulatorConfig::default());
    let entry = |vl| VlArbEntry {
        vl: Vl::new(vl).unwrap(),
        weight: 10 + vl,
    };
    let wanted = VlArbitration {
        entries: core::array::from_fn(|i| entry(i as u8 % 8)),
    };
    let modifier = VlArbitration::modifier;
    assert_eq!(
        world.set(TO_S, modifier(VlArbBlock::LowFirst, 1), &wanted).unwrap(),
        wanted
    );
    let held = world.set(TO_S, modifier(VlArbBlock::LowSecond, 1), &wanted).unwrap();
    assert_eq!(held.entries[7], entry(7));
    assert_eq!(held.entries[8], VlArbEntry::default(), "40 entries");
    let mut refused = |path, modifier| assert_eq!(status(world.set(path, modifier, &wanted)), BAD);
    refused(TO_S, modifier(VlArbBlock::HighFirst, 1));
    refused(TO_S, modifier(VlArbBlock::LowFirst, 6));
    refused(TO_S, 0x0005_0001);
    refused(TO_S, 0);
    let lane_15 = VlArbitration {
        entries: [entry(15); 32],
    };
    assert_eq!(
        status(world.set(TO_S, modifier(VlArbBlock::LowFirst, 1), &lane_15)),
        BAD
    );
    let held: VlArbitration = world.get(TO_S, modifier(VlArbBlock::LowFirst, 1)).unwrap();
    assert_eq!(held, wanted);
    assert_eq!(
        world.set(TO_H2, modifier(VlArbBlock::LowFirst, 0), &wanted).unwrap(),
        wanted
    );
}

#[test]
fn forwarding_tables() {
    let mut world = World::new();
    let empty: LinearForwardingTable = world.get(TO_T, 700).unwrap();
    assert_eq!(empty, LinearForwardingTable::EMPTY);
    let linear = LinearForwardingTable { ports: [3; 64] };
    assert_eq!(world.set(TO_T, 767, &linear).unwrap(), linear);
    assert_eq!(world.get::<LinearForwardingTable>(TO_T, 767).unwrap(), linear);
    assert_eq!(status(world.get::<LinearForwardingTable>(TO_T, 768)), BAD);
    assert_eq!(status(world.set(TO_T, u32::MAX, &linear)), BAD);
    assert_eq!(status(world.set(TO_H2, 0, &linear)), UNSUPPORTED);
    let node = world.emu.chassis().fabric().find(Guid(0x20)).unwrap();
    assert_eq!(world.emu.chassis().version(node, TableKind::Linear), 1);

    let mut masks = [0; 32];
    masks[5] = 0b1010;
    let multicast = MulticastForwardingTable { masks };
    assert_eq!(world.set(TO_T, 511, &multicast).unwrap(), multicast);
    assert_eq!(world.get::<MulticastForwardingTable>(TO_T, 511).unwrap(), multicast);
    assert_eq!(world.get::<MulticastForwardingTable>(TO_T, 0).unwrap().masks, [0; 32]);
    assert_eq!(status(world.set(TO_T, 512, &multicast)), BAD, "reserved bits");
    assert_eq!(
        status(world.set(TO_T, 0x1000_0000, &multicast)),
        BAD,
        "five ports, one position"
    );
    assert_eq!(status(world.get::<MulticastForwardingTable>(TO_H2, 0)), UNSUPPORTED);
}

#[test]
fn notice_and_sm_info() {
    let mut world = World::new();
    assert_eq!(world.get::<Notice>(TO_S, 0).unwrap().kind, NoticeType::EMPTY);
    // There is no manager at this port; a manager would get the request itself.
    assert_eq!(status(world.get::<SmInfo>(TO_H2, 0)), UNSUPPORTED);
    let other = world.emu.attach_named("H2").unwrap();
    world.emu.set_is_sm(world.now, other, true).unwrap();
    let mut mad = Mad::directed(Method::Get, AttributeId::SM_INFO, 0, &route(TO_H2));
    mad.set_transaction(selvedge_types::TransactionId(77));
    let address = selvedge_wire::Address::DIRECTED;
    world
        .emu
        .send(world.now, world.sm, &selvedge_wire::Datagram { address, mad });
    let asked = world.pass(1);
    assert_eq!((asked.len(), asked[0].client), (1, other));
    // The other manager answers.
    let mut answer = asked[0].datagram;
    answer.mad.set_method(Method::GetResp);
    answer.mad.set_returning(true);
    answer.mad.write(&SmInfo {
        act_count: 5,
        ..SmInfo::default()
    });
    world.emu.send(world.now, other, &answer);
    let answered = world.pass(1);
    assert_eq!((answered.len(), answered[0].client), (1, world.sm));
    assert_eq!(answered[0].datagram.mad.read::<SmInfo>().unwrap().act_count, 5);
    world.audit();
}

#[test]
fn what_no_agent_knows() {
    let mut world = World::configured();
    let vendor = AttributeId::from_code(0xFF90);
    let mad = Mad::directed(Method::Get, vendor, 0, &route(TO_S));
    assert_eq!(world.ask(mad), Err(UNSUPPORTED));
    let mut mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route(TO_S));
    mad.as_bytes_mut()[2] = 2;
    assert_eq!(world.ask(mad), Err(Status::BAD_VERSION));
    assert_eq!(
        status(world.gmp(S, Method::Set, &ClassPortInfo::default())),
        UNSUPPORTED
    );
    assert_eq!(
        status(world.gmp(S, Method::Send, &ClassPortInfo::default())),
        Status::BAD_METHOD
    );
    world.audit();
}

/// The small fabric with every port of one speed.
fn fabric_at(speed: LinkSpeed) -> selvedge_fabric::Fabric {
    fabric_with(|node| {
        for num in 0..=node.port_count() {
            if let Some(end) = node.port_mut(port(num)) {
                end.capability.speed = speed;
            }
        }
    })
}

#[test]
fn fdr10_is_the_vendors() {
    let mut world = World::with(&fabric_at(LinkSpeed::Fdr10), EmulatorConfig::default());
    let shown: PortInfo = world.get(TO_S, 3).unwrap();
    assert_eq!(shown.speed_active(), Some(LinkSpeed::Qdr));
    let held: MlnxExtPortInfo = world.get(TO_S, 3).unwrap();
    let fdr10 = MlnxExtPortInfo {
        state_change_enable: 0,
        speed_supported: 1,
        speed_enabled: 1,
        speed_active: 1,
    };
    assert!(held == fdr10 && held.is_fdr10());
    assert_eq!(
        world.get::<MlnxExtPortInfo>(TO_H2, 0).unwrap(),
        fdr10,
        "0 is the port asked"
    );
    let uncabled: MlnxExtPortInfo = world.get(TO_S, 5).unwrap();
    assert_eq!((uncabled.speed_supported, uncabled.speed_active), (1, 0));
    assert_eq!(status(world.get::<MlnxExtPortInfo>(TO_S, 6)), BAD);
    assert_eq!(status(world.get::<MlnxExtPortInfo>(TO_S, 256)), BAD);
    // infiniband-diags query only such devices.
    let devices = [TO_S, TO_H2].map(|route| {
        let info: NodeInfo = world.get(route, 0).unwrap();
        (info.vendor_id, info.device_id)
    });
    assert_eq!(devices, [(0x2C9, 0xC738), (0x2C9, 0x1003)]);
    // A Set that changes nothing, one that disables the speed, one of an unsupported speed.
    let untouched = MlnxExtPortInfo::default();
    assert_eq!(world.set(TO_S, 3, &untouched).unwrap(), fdr10);
    let off = MlnxExtPortInfo {
        state_change_enable: 1,
        ..untouched
    };
    assert_eq!(world.set(TO_S, 3, &off).unwrap().speed_enabled, 0);
    let mut other = World::new();
    assert_eq!(
        status(other.get::<MlnxExtPortInfo>(TO_S, 3)),
        UNSUPPORTED,
        "another vendor's"
    );
    let info: NodeInfo = other.get(TO_S, 0).unwrap();
    assert_eq!((info.vendor_id, info.device_id), (0, 0), "as the fabric states it");
}

#[test]
fn xdr_has_fields_of_its_own() {
    let mut world = World::with(&fabric_at(LinkSpeed::Xdr), EmulatorConfig::default());
    let shown: PortInfo = world.get(TO_S, 3).unwrap();
    let (width, speed) = (LinkWidth::X4, LinkSpeed::Xdr);
    assert_eq!(shown.rate_active(), Some(Rate { width, speed }));
    let own: PortInfo = world.get(TO_S, 0).unwrap();
    let wanted = CapabilityMask2::EXTENDED_SPEEDS_2.0 | CapabilityMask2::LINK_SPEED_XDR.0;
    assert_eq!(own.capabilities2.0 & wanted, wanted);
    // Only supported widths can be enabled; 0 is no change.
    let with = |enabled: u8| PortInfo {
        ext2_speed_enabled: Bits::saturating(enabled),
        state: None,
        phys_state: None,
        ..shown
    };
    assert_eq!(
        world.set(TO_S, 3, &with(0)).unwrap().ext2_speed_enabled.get(),
        PortInfo::XDR
    );
    assert_eq!(
        world.set(TO_S, 3, &with(1)).unwrap().ext2_speed_enabled.get(),
        PortInfo::XDR
    );
    assert_eq!(status(world.set(TO_S, 3, &with(2))), BAD);
    let mut slower = World::new();
    let shown: PortInfo = slower.get(TO_S, 3).unwrap();
    assert_eq!(
        (shown.ext2_speed_active.get(), shown.ext2_speed_supported.get()),
        (0, 0)
    );
    assert_eq!(status(slower.set(TO_S, 3, &with(1))), BAD);
}

#[test]
fn port_info_at_power_on() {
    let mut world = World::new();
    let external: PortInfo = world.get(TO_S, 3).unwrap();
    assert_eq!(
        (external.state, external.phys_state),
        (Some(PortState::Init), Some(PhysState::LinkUp))
    );
    let (width, speed) = (LinkWidth::X4, LinkSpeed::Hdr);
    assert_eq!(external.rate_active(), Some(Rate { width, speed }));
    assert_eq!(
        (external.mtu_cap, external.vl_cap),
        (Some(Mtu::B4096), Some(VlCount::Eight))
    );
    assert_eq!((external.capabilities, external.local_port), (CapabilityMask(0), 1));
    let uncabled: PortInfo = world.get(TO_S, 5).unwrap();
    assert_eq!(
        (uncabled.state, uncabled.phys_state),
        (Some(PortState::Down), Some(PhysState::Polling))
    );
    assert_eq!(uncabled.rate_active(), None);
    let own: PortInfo = world.get(TO_S, 0).unwrap();
    assert_eq!(own.state, Some(PortState::Active));
    assert!(
        own.capabilities
            .contains(CapabilityMask::TRAP.with(CapabilityMask::EXTENDED_SPEEDS))
    );
    // On a CA, 0 is the port that received the request; the other one can be read.
    assert_eq!(
        world.get::<PortInfo>(TO_H1_2, 0).unwrap(),
        world.get(TO_H1_2, 2).unwrap()
    );
    assert_eq!(status(world.get::<PortInfo>(TO_H1_2, 3)), BAD);
    assert_eq!(status(world.get::<PortInfo>(TO_S, 6)), BAD);
    assert_eq!(status(world.get::<PortInfo>(TO_S, 0x8000_0003)), OK, "bit 31 is legal");
    assert_eq!(status(world.get::<PortInfo>(TO_S, 0x0000_0103)), BAD);
}

#[test]
fn port_info_sets_are_checked_as_a_whole() {
    // At port 1 of H2 (INIT, one LID) unless said otherwise.
    let check_at = |path: &[u8], num: u8, want: Status, change: &dyn Fn(&mut PortInfo)| {
        let mut world = World::new();
        let before: PortInfo = world.get(path, u32::from(num)).unwrap();
        let mut changed = PortInfo::default();
        let result = world.try_port(path, num, |info| {
            change(info);
            changed = *info;
        });
        assert_eq!(status(result), want, "{changed}");
        let after: PortInfo = world.get(path, u32::from(num)).unwrap();
        assert_eq!(after == before, want != OK, "{before}\n{after}");
        world.audit();
    };
    let check = |want: Status, change: &dyn Fn(&mut PortInfo)| check_at(TO_H2, 1, want, change);
    let lmc = |n| Lmc::new(n).unwrap();
    check(OK, &|i| i.lid = Lid(9));
    check(OK, &|i| (i.lid, i.lmc) = (Lid(8), lmc(3)));
    check(BAD, &|i| (i.lid, i.lmc) = (Lid(9), lmc(1)));
    check(BAD, &|i| i.lid = Lid(0xC000));
    check(BAD, &|i| i.lid = Lid(0xFFFF));
    check(OK, &|i| (i.lid, i.lmc) = (Lid(0xBF80), lmc(7)));
    check(OK, &|i| i.sm_lid = Lid(0xBFFF));
    check(BAD, &|i| i.sm_lid = Lid(0xC000));
    check(OK, &|i| i.neighbor_mtu = Some(Mtu::B2048));
    check(OK, &|i| i.oper_vls = Some(VlCount::Four));
    check(BAD, &|i| i.oper_vls = Some(VlCount::Fifteen));
    check(OK, &|i| i.width_enabled = LinkWidths::new(1));
    check(BAD, &|i| i.width_enabled = LinkWidths::new(8));
    check(BAD, &|i| (i.width_enabled, i.lid) = (LinkWidths::new(8), Lid(9)));
    check(OK, &|i| i.speed_enabled = LinkSpeeds::new(1));
    check(OK, &|i| i.ext_speed_enabled = Some(ExtSpeedEnable::DISABLED));
    check(BAD, &|i| i.ext_speed_enabled = ExtSpeedEnable::new(8));
    check(BAD, &|i| i.ext_speed_enabled = ExtSpeedEnable::new(20));
    check(OK, &|i| i.link_down_default = Some(LinkDownDefault::Sleep));
    check(OK, &|i| (i.m_key, i.m_key_lease) = (0, 15));
    check(OK, &|i| i.gid_prefix = 1);
    check(OK, &|i| i.subnet_timeout = Bits::saturating(18));
    check(OK, &|i| {
        (i.hoq_life, i.vl_stall_count) = (Bits::saturating(16), Bits::saturating(7))
    });
    // States.
    check(OK, &|i| i.state = Some(PortState::Armed));
    check(BAD, &|i| i.state = Some(PortState::Init));
    check(BAD, &|i| i.state = Some(PortState::Active));
    check(BAD, &|i| i.phys_state = Some(PhysState::LinkUp));
    check(BAD, &|i| i.phys_state = Some(PhysState::Training));
    check(BAD, &|i| {
        (i.state, i.phys_state) = (Some(PortState::Armed), Some(PhysState::Polling))
    });
    // No link.
    check_at(TO_S, 5, BAD, &|i| i.state = Some(PortState::Armed));
    check_at(TO_S, 5, OK, &|i| i.phys_state = Some(PhysState::Disabled));
    // Port 0 has no link state.
    check_at(TO_S, 0, BAD, &|i| i.state = Some(PortState::Armed));
    check_at(TO_S, 0, BAD, &|i| i.phys_state = Some(PhysState::Polling));
    check_at(TO_S, 0, OK, &|i| i.lid = Lid(3));
    // External ports have no LID; what is written there has no effect.
    check_at(TO_S, 3, OK, &|i| i.lid = Lid(0xFFFF));
    // A CA's agent changes only the port that received the request.
    check_at(TO_H1_2, 1, BAD, &|i| i.lid = Lid(3));
}

#[test]
fn a_mtu_above_the_capability_is_refused() {
    let fabric = fabric_with(|node| {
        if let Some(p) = node.port_mut(port(1)) {
            p.capability.mtu = Mtu::B1024;
        }
    });
    let mut world = World::with(&fabric, EmulatorConfig::default());
    assert_eq!(
        status(world.try_port(TO_H2, 1, |i| i.neighbor_mtu = Some(Mtu::B2048))),
        BAD
    );
    assert_eq!(
        status(world.try_port(TO_H2, 1, |i| i.neighbor_mtu = Some(Mtu::B1024))),
        OK
    );
}

#[test]
fn reserved_codes_are_refused() {
    let mut world = World::new();
    let mut mad = Mad::directed(Method::Set, AttributeId::PORT_INFO, 1, &route(TO_H2));
    let mut data = world.emu.local_port_info(world.sm, 0).unwrap();
    data[32] = data[32] & 0xF0 | 9;
    mad.set_smp_data(&data);
    assert_eq!(world.ask(mad), Err(BAD));
}

#[test]
fn states_go_up_one_by_one() {
    let mut world = World::new();
    let mut go = |to| status(world.try_port(TO_H2, 1, |i| i.state = Some(to)));
    assert_eq!(go(PortState::Active), BAD);
    assert_eq!(go(PortState::Armed), OK);
    assert_eq!(go(PortState::Armed), OK);
    assert_eq!(go(PortState::Active), OK);
    assert_eq!(go(PortState::Active), OK);
    assert_eq!(go(PortState::Armed), BAD);
    assert_eq!(go(PortState::Init), BAD);
    assert_eq!(world.state("H2", 1).0, PortState::Active);
    assert_eq!(world.state("T", 1).0, PortState::Init);
}

#[test]
fn violations_are_cleared_and_reregistration_is_confirmed() {
    let mut world = World::new();
    let set = world.try_port(TO_H2, 1, |i| i.client_reregister = true).unwrap();
    assert!(set.client_reregister);
    assert!(!world.get::<PortInfo>(TO_H2, 1).unwrap().client_reregister);
    world.change_port(TO_H2, 1, |i| i.m_key = 5);
    assert_eq!(status(world.try_port(TO_H2, 1, |_| {})), NO_ANSWER);
    world.m_key = 5;
    assert_eq!(world.get::<PortInfo>(TO_H2, 1).unwrap().m_key_violations, 1);
    world.change_port(TO_H2, 1, |i| i.m_key_violations = 7);
    assert_eq!(
        world.get::<PortInfo>(TO_H2, 1).unwrap().m_key_violations,
        1,
        "only 0 is taken"
    );
    world.change_port(TO_H2, 1, |i| i.m_key_violations = 0);
    assert_eq!(world.get::<PortInfo>(TO_H2, 1).unwrap().m_key_violations, 0);
}

#[test]
fn performance_counters() {
    let mut world = World::configured();
    let info = world.gmp(S, Method::Get, &ClassPortInfo::default()).unwrap();
    assert_ne!(info.capabilities & ClassPortInfo::ALL_PORT_SELECT, 0);
    let get = |world: &mut World, lid, port_select| {
        let asked = PortCountersExtended {
            port_select,
            ..PortCountersExtended::default()
        };
        world.gmp(lid, Method::Get, &asked)
    };
    let first = get(&mut world, S, 1).unwrap();
    let second = get(&mut world, S, 1).unwrap();
    assert_eq!(second.rcv_packets - first.rcv_packets, 1);
    assert_eq!(second.xmit_data - first.xmit_data, 72);
    assert_eq!(first.unicast_rcv_packets, first.rcv_packets);
    let all = get(&mut world, S, 255).unwrap();
    assert!(all.rcv_packets > second.rcv_packets);
    assert_eq!(status(get(&mut world, S, 6)), BAD);
    assert_eq!(status(get(&mut world, H2, 255)), BAD, "no sum on a CA");
    assert_eq!(status(get(&mut world, H2, 0)), BAD);
    // A Set writes what is selected.
    let reset = PortCounters {
        port_select: 1,
        counter_select: 1 << 15 | 1,
        symbol_errors: 3,
        ..PortCounters::default()
    };
    let held = world.gmp(S, Method::Set, &reset).unwrap();
    assert_eq!((held.rcv_packets, held.symbol_errors), (0, 3));
    assert!(held.xmit_packets > 0);
    let reset = PortCountersExtended {
        port_select: 255,
        counter_select: 0b100,
        counter_select2: 1,
        ..PortCountersExtended::default()
    };
    let held = world.gmp(S, Method::Set, &reset).unwrap();
    assert_eq!((held.xmit_packets, held.symbol_errors), (0, 0));
    assert!(held.xmit_data > 0);
    world.audit();
}

#[test]
fn counters_saturate() {
    let mut world = World::configured();
    let set = PortCountersExtended {
        port_select: 1,
        counter_select: 1,
        counter_select2: 0b1000_0000_0000_0100,
        xmit_data: 1 << 40,
        link_downed: 300,
        qp1_dropped: 1 << 20,
        ..PortCountersExtended::default()
    };
    world.gmp(H2, Method::Set, &set).unwrap();
    let asked = PortCounters {
        port_select: 1,
        ..PortCounters::default()
    };
    let held = world.gmp(H2, Method::Get, &asked).unwrap();
    assert_eq!((held.xmit_data, held.link_downed), (u32::MAX, u8::MAX));
}

#[test]
fn p_keys_guard_gmps() {
    let mut world = World::configured();
    let mut keys = [PKey(0); 32];
    keys[0] = PKey(0x8001);
    world.set(TO_H2, 0, &PKeyTable { keys }).unwrap();
    assert_eq!(status(world.gmp(H2, Method::Get, &ClassPortInfo::default())), NO_ANSWER);
    assert_eq!(world.emu.counts().drops(selvedge_emulator::DropReason::BadPKey), 1);
    assert_eq!(world.get::<PortInfo>(TO_H2, 1).unwrap().p_key_violations, 1);
    keys[1] = PKey(0x7FFF);
    world.set(TO_H2, 0, &PKeyTable { keys }).unwrap();
    assert_eq!(status(world.gmp(H2, Method::Get, &ClassPortInfo::default())), OK);
}

#[test]
fn exact_counts() {
    let mut world = World::new();
    world.get::<NodeInfo>(TO_S, 0).unwrap();
    let sets = world.emu.counts().sets_accepted();
    world.set(TO_S, 3, &LinearForwardingTable::EMPTY).unwrap();
    let _ = world.set(TO_S, 768, &LinearForwardingTable::EMPTY);
    let counts = world.emu.counts();
    let (class, id) = (Class::SubnLid, AttributeId::LINEAR_FORWARDING);
    assert_eq!(counts.sets_accepted(), sets + 1);
    assert_eq!(counts.sent.of(class, Method::Set, id), 2);
    assert_eq!(counts.accepted.of(class, Method::Set, id), 1);
    assert_eq!(counts.refused.of(class, Method::Set, id), 1);
    assert_eq!(counts.delivered.of(class, Method::GetResp, id), 2);
    assert_eq!(world.emu.sets_sent_by(world.sm), 2);
    world.audit();
}

#[test]
fn local_answers_need_no_mad() {
    let fabric = fabric();
    let mut emu = Emulator::new(&fabric, EmulatorConfig::default(), Seed(0));
    let client = emu.attach_named("0x110[2]").unwrap();
    assert_eq!(emu.local(client).unwrap().port_guid, Guid(0x112));
    let mut world = World::new();
    let info: PortInfo = world.get(TO_H1_2, 0).unwrap();
    assert_eq!(
        emu.local_port_info(client, 0).unwrap(),
        selvedge_wire::Attribute::emit(&info)
    );
    assert_eq!(emu.next_event(), None);
    emu.advance(Time::from_secs(1), &mut Vec::new());
    assert_eq!(emu.now(), Time::from_secs(1));
}

#[test]
fn a_shy_agent_shows_its_speeds_to_who_knows_them() {
    let mut world = World::new();
    let shown = |world: &mut World, modifier: u32| -> bool {
        let info: PortInfo = world.get(TO_S, modifier).unwrap();
        assert!(info.capabilities.contains(CapabilityMask::EXTENDED_SPEEDS));
        (info.ext_speed_supported.is_some(), info.ext_speed_enabled.is_some()) == (true, true)
    };
    assert!(shown(&mut world, 0));
    world.emu.apply(world.now, &"shy S".parse().unwrap()).unwrap();
    assert!(!shown(&mut world, 0));
    assert!(shown(&mut world, PortInfo::SM_SUPPORTS_EXTENDED_SPEEDS));
}
