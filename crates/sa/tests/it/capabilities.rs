//! Compares ClassPortInfo with the administrator's behaviour: every bit of both capability masks has a probe.
//!
//! Source of the numbers: IBA vol 1 §15.2.5.1, OpenSM's `osm_base.h` (`OSM_CAP_*`, `OSM_CAP2_*`; 19 and 20 from
//! NVIDIA's release of it). Bits in none of these are reserved and must be clear.

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_sa::{Input, Snapshot};
use selvedge_types::{LinkSpeed, LinkWidth, Mtu, Rate};
use selvedge_wire::sa::{Field, Layout, SaData, records};
use selvedge_wire::{
    AttributeId, Bits, CapabilityMask, CapabilityMask2, Class, ExtLinkSpeeds, Gid, Mad, Method, PortInfo, Status,
};

use crate::support::{Bench, Said, Value, Wish, group_parameters, number};

const TREE: &str = "pgft:m=2x4,w=1x2,p=1x1";
const GROUP: Gid = Gid([0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
/// Bit 31 of the attribute modifier: a query compares capabilities bit by bit.
const BITWISE: u32 = 1 << 31;

/// Returns true if a behaviour is implemented.
type Probe = fn() -> bool;

/// Bits of CapabilityMask, each with its probe.
const MASK: [(u32, &str, Probe); 7] = [
    (0, "IsTrapSupported", sends_traps),
    (1, "IsGetSetNoticeSupported", has_notice),
    (8, "IsSubnetOptionalRecordsSupported", has_all_optional_records),
    (9, "IsUDMulticastSupported", || joins(1)),
    (10, "IsMultiPathSupported", answers_multi_path),
    (11, "IsReInitSupported", answers_reinitialisation),
    (13, "IsPortInfoCapMaskMatchSupported", || {
        matches_bits(records::port_info::CAPABILITIES, 0b1_1000, 0b1000)
    }),
];

/// Bits of CapabilityMask2, each with its probe.
const MASK2: [(u32, &str, Probe); 15] = [
    (1, "IsQoSSupported", heeds_qos_class),
    (2, "IsReversePathPKeySupported", || has_field(&records::PATH, "Reverse")),
    (3, "IsMulticastFDBTopSupported", sets_multicast_top),
    (4, "IsHierarchyInfoSupported", has_hierarchy),
    (5, "IsAliasGUIDsSupported", takes_alias_guids),
    (6, "IsFullPortInfoRecordSupported", shows_whole_port_info),
    (7, "IsExtendedSpeedsSupported", || {
        tells_rate(LinkWidth::X4, LinkSpeed::Edr, 16)
    }),
    (8, "IsMulticastServiceRecordsSupported", takes_services_of_groups),
    (10, "IsPortInfoCapMask2MatchSupported", || {
        matches_bits(records::port_info::CAPABILITIES2, 0b11_0000, 0b1_0000)
    }),
    (12, "IsSendOnlyFullMemberSupported", || joins(8)),
    (13, "IsLinkWidth2xSupported", || {
        tells_rate(LinkWidth::X2, LinkSpeed::Edr, 20)
    }),
    (15, "IsLinkSpeedHDRSupported", || {
        tells_rate(LinkWidth::X4, LinkSpeed::Hdr, 17)
    }),
    (17, "IsLinkSpeedNDRSupported", || {
        tells_rate(LinkWidth::X4, LinkSpeed::Ndr, 21)
    }),
    (19, "IsExtendedSpeeds2Supported", || {
        has_field(&records::PORT_INFO, "LinkSpeedExtActive2")
    }),
    // XDR is in the fields of bit 19.
    (20, "IsLinkSpeedXDRSupported", || {
        has_field(&records::PORT_INFO, "LinkSpeedExtActive2")
    }),
];

fn tree() -> Bench {
    Bench::new(&Wish::new(TREE))
}

#[test]
fn a_bit_is_set_if_and_only_if_the_behaviour_is_there() {
    let told = tree().ask(Method::Get, &records::CLASS_PORT_INFO, &[]);
    let mut wrong = Vec::new();
    use records::class_port_info as f;
    for (field, table) in [(f::CAPABILITIES, &MASK[..]), (f::CAPABILITIES2, &MASK2[..])] {
        let mask = field.get(&told.rows[0]);
        for bit in 0..u32::from(field.bits) {
            let row = table.iter().find(|(number, ..)| *number == bit);
            let is_there = row.is_some_and(|(_, _, probe)| probe());
            if (mask >> bit & 1 == 1) != is_there {
                let name = row.map_or("reserved", |(_, name, _)| name);
                wrong.push(format!("{} bit {bit} ({name}): behaviour {is_there}", field.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Checks the bits that kernels read: without bit 12, Linux refuses `rdma_join_multicast` as send-only full member.
#[test]
fn clients_find_the_bits_that_they_ask_for() {
    use records::class_port_info as f;
    let told = tree().ask(Method::Get, &records::CLASS_PORT_INFO, &[]);
    assert_eq!(
        f::CAPABILITIES2.get(&told.rows[0]) >> 12 & 1,
        1,
        "send-only full member"
    );
    assert_eq!(f::CAPABILITIES.get(&told.rows[0]) >> 9 & 1, 1, "multicast");
    assert_eq!(f::CAPABILITIES.get(&told.rows[0]) >> 13 & 1, 1, "srp_daemon's question");
}

/// A query finds the ports with exactly the requested capabilities; with bit 31 of the modifier, the ports with at
/// least these.
#[test]
fn capabilities_of_ports_are_compared() {
    use records::port_info as f;
    let held = [0b1000_u32, 0b1_1000];
    let mut bench = told_by(|at, info| info.capabilities = CapabilityMask(held[usize::from(at % 2 == 0)]));
    let mut ask = |modifier, wanted: u64| ports(&mut bench, modifier, &[(f::CAPABILITIES, number(wanted))]);
    let all = ask(BITWISE, 0);
    let (odd, even) = (ask(0, 0b1000), ask(0, 0b1_1000));
    assert!(odd > 0 && even > 0);
    assert_eq!(odd + even, all, "exactly these bits");
    assert_eq!(ask(BITWISE, 0b1000), all, "these bits at least");
    assert_eq!(ask(BITWISE, 0b1_0000), even);
    assert_eq!(ask(BITWISE, 0b10_0000), 0);
    assert_eq!(ask(0, 0), 0);
}

fn status(bench: &mut Bench, method: Method, id: u16) -> Status {
    let mad = Mad::request(Class::SubnAdm, method, AttributeId::from_code(id), 0);
    bench.exchange(&mad).status
}

/// True if a host can create a group: it joins a missing group, with all components for that.
fn joins(state: u8) -> bool {
    let mut bench = tree();
    create(&mut bench, state) == Status::OK
}

fn create(bench: &mut Bench, state: u8) -> Status {
    use records::member as f;
    let mut fields = vec![
        (f::MGID, Value::Gid(GROUP)),
        (f::PORT_GID, Value::Gid(bench.gid(0))),
        (f::JOIN_STATE, number(state)),
    ];
    fields.extend(group_parameters());
    bench.ask(Method::Set, &records::MEMBER, &fields).status
}

/// True if subscribers get traps; they get reports instead.
fn sends_traps() -> bool {
    use records::inform_info as f;
    let mut bench = tree();
    let fields = [
        (f::LID_BEGIN, number(0xFFFF_u16)),
        (f::IS_GENERIC, number(1_u8)),
        (f::SUBSCRIBE, number(1_u8)),
        (f::TYPE, number(0xFFFF_u16)),
        (f::TRAP_NUMBER, number(0xFFFF_u16)),
        (f::PRODUCER, number(0xFF_FFFF_u32)),
    ];
    bench.lid = bench.host(1);
    assert_eq!(
        bench.ask(Method::Set, &records::INFORM_INFO, &fields).status,
        Status::OK
    );
    bench.lid = bench.host(0);
    assert_eq!(create(&mut bench, 1), Status::OK);
    let methods: Vec<Method> = bench.beside.iter().map(|datagram| datagram.mad.method()).collect();
    assert!(methods.contains(&Method::Report), "{methods:?}");
    methods.contains(&Method::Trap)
}

fn has_notice() -> bool {
    let mut bench = tree();
    let mut is_known = |method| status(&mut bench, method, 0x0002) != Status::BAD_METHOD_ATTRIBUTE;
    is_known(Method::Get) && is_known(Method::Set)
}

/// True if all optional records are answered, except those with their own bits: MCMemberRecord, TraceRecord and
/// MultiPathRecord.
fn has_all_optional_records() -> bool {
    const OPTIONAL: [u16; 12] = [0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x20, 0x30, 0x33, 0x36, 0x3B, 0xF3];
    let mut bench = tree();
    bench.key = 1;
    let is_known = |id| status(&mut bench, Method::GetTable, id) != Status::BAD_METHOD_ATTRIBUTE;
    OPTIONAL.map(is_known).into_iter().all(|is_known| is_known)
}

fn answers_multi_path() -> bool {
    use records::multi_path as f;
    let mut bench = tree();
    let gids = [bench.gid(0).0, bench.gid(3).0].concat();
    let fields = [
        (f::SGID_COUNT, number(1_u8)),
        (f::DGID_COUNT, number(1_u8)),
        (f::GIDS, Value::Bytes(gids)),
    ];
    let told = bench.ask(Method::GetMulti, &records::MULTI_PATH, &fields);
    told.status == Status::OK && told.rows.len() == 1
}

/// Returns an administrator of a fabric with `change` applied to each PortInfo. `change` also gets the index of the
/// port.
fn told_by(change: impl Fn(usize, &mut PortInfo)) -> Bench {
    let mut sources = Wish::new(TREE).sources();
    let mut ports = BTreeMap::new();
    for (number, at) in sources.plan.ports.keys().enumerate() {
        let mut info = *sources.agents.port_info(*at).unwrap();
        change(number, &mut info);
        ports.insert(*at, info);
    }
    sources.agents = Arc::new(Said {
        ports,
        switches: BTreeMap::new(),
    });
    let mut bench = tree();
    bench.feed(Input::Committed(Arc::new(Snapshot::new(sources))));
    bench
}

/// Returns the number of PortInfoRecords in an answer.
fn ports(bench: &mut Bench, modifier: u32, fields: &[(Field, Value)]) -> usize {
    let asked = bench.question(Method::GetTable, &records::PORT_INFO, fields);
    let mut mad = Mad::request(Class::SubnAdm, Method::GetTable, records::PORT_INFO.id, modifier);
    mad.set_transaction(asked.transaction());
    mad.set_component_mask(asked.component_mask());
    *mad.sa_data_mut() = *asked.sa_data();
    bench.exchange(&mad).rows.len()
}

/// True if the administrator reports reinitialisation: a host requests it by InitType, and the manager says what it
/// did.
fn answers_reinitialisation() -> bool {
    use records::port_info as f;
    let mut bench = told_by(|_, info| info.init_type = Bits::low(1));
    let own = [(f::LID, number(bench.lid.0))];
    let told = bench.ask(Method::Get, &records::PORT_INFO, &own);
    assert_eq!(f::INIT_TYPE.get(&told.rows[0]), 1);
    f::INIT_TYPE_REPLY.get(&told.rows[0]) != 0
}

/// True if bit 31 of the modifier makes a query for one bit find ports that have all bits of `held`.
fn matches_bits(field: Field, held: u32, wanted: u64) -> bool {
    let mut bench = told_by(|_, info| {
        info.capabilities = CapabilityMask(held);
        info.capabilities2 = CapabilityMask2(held as u16);
    });
    ports(&mut bench, BITWISE, &[(field, number(wanted))]) > 0
        && ports(&mut bench, BITWISE, &[(field, number(!u64::from(held) & 0xFF))]) == 0
}

fn heeds_qos_class() -> bool {
    use records::path as f;
    let mut bench = tree();
    let (from, to) = (bench.host(0).0, bench.host(3).0);
    let mut of = |class: u16| {
        let fields = [
            (f::SLID, number(from)),
            (f::DLID, number(to)),
            (f::QOS_CLASS, number(class)),
        ];
        let told = bench.ask(Method::Get, &records::PATH, &fields);
        (told.status, told.rows.first().map(|row| f::SL.get(row)))
    };
    (1..16).any(|class| of(class) != of(0))
}

fn has_field(layout: &Layout, name: &str) -> bool {
    layout
        .fields
        .iter()
        .any(|field| field.name.contains(name) && field.name != "Reversible")
}

fn sets_multicast_top() -> bool {
    let mut bench = tree();
    assert_eq!(create(&mut bench, 1), Status::OK);
    let told = bench.ask(Method::GetTable, &records::SWITCH_INFO, &[]);
    assert!(!told.rows.is_empty());
    let top = |row: &SaData| records::switch_info::MCAST_TOP.get(row);
    told.rows.iter().any(|row| top(row) != 0)
}

fn has_hierarchy() -> bool {
    let mut known = (0..=u16::MAX).filter_map(|id| Layout::of(AttributeId::from_code(id)));
    known.any(|layout| layout.name.contains("Hierarchy"))
}

fn takes_alias_guids() -> bool {
    use records::guid_info as f;
    let mut bench = Bench::new(&Wish {
        guid_cap: 8,
        ..Wish::new(TREE)
    });
    let fields = [
        (f::LID, number(bench.lid.0)),
        (f::BLOCK, number(0_u8)),
        (f::GUID1, number(0x77_u8)),
    ];
    let told = bench.ask(Method::Set, &records::GUID_INFO, &fields);
    told.status == Status::OK && f::GUID1.get(&told.rows[0]) == 0x77
}

/// True if all fields beyond those of the first release show the agent's values.
fn shows_whole_port_info() -> bool {
    use records::port_info as f;
    let mut bench = told_by(|_, info| {
        info.max_credit_hint = 0x1234;
        info.link_round_trip = 0x56_789A;
        info.capabilities2 = CapabilityMask2(0x31);
        info.ext_speed_active = ExtLinkSpeeds::new(2);
    });
    let own = [(f::LID, number(bench.lid.0))];
    let told = bench.ask(Method::Get, &records::PORT_INFO, &own);
    let fields = [f::MAX_CREDIT_HINT, f::ROUND_TRIP, f::CAPABILITIES2, f::EXT_SPEED_ACTIVE];
    fields.map(|field| field.get(&told.rows[0])) == [0x1234, 0x56_789A, 0x31, 2]
}

/// True if a path over such a link has the link's rate.
fn tells_rate(width: LinkWidth, speed: LinkSpeed, code: u64) -> bool {
    use records::path as f;
    let mut wish = Wish::new(TREE);
    wish.slow.insert(3, (Rate { width, speed }, Mtu::B4096));
    // No other link is slower.
    wish.slow.insert(0, (Rate { width, speed }, Mtu::B4096));
    let mut bench = Bench::new(&wish);
    let fields = [(f::SLID, number(bench.host(3).0)), (f::DLID, number(bench.host(3).0))];
    let told = bench.ask(Method::Get, &records::PATH, &fields);
    told.status == Status::OK && f::RATE.get(&told.rows[0]) == code
}

fn takes_services_of_groups() -> bool {
    use records::service as f;
    let mut bench = tree();
    assert_eq!(create(&mut bench, 1), Status::OK);
    let fields = [
        (f::ID, number(1_u8)),
        (f::GID, Value::Gid(GROUP)),
        (f::PKEY, number(0xFFFF_u16)),
    ];
    bench.ask(Method::Set, &records::SERVICE, &fields).status == Status::OK
}
