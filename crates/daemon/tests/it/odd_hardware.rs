//! Hardware that a fabric of one make does not have: links of other MTUs and widths, split ports, aggregation nodes and
//! routers. Each comes up, and path records have the rate and MTU of the path.
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_daemon::{Door, EmulationOptions, Options, Running, Service, start};
use selvedge_fabric::{Fabric, FabricBuilder, Node, NodeKey};
use selvedge_planner::PortReason;
use selvedge_sm::{Mode, View};
use selvedge_transport::ibsim::IbsimPort;
use selvedge_types::{Guid, Lid, LinkSpeed, LinkWidth, Mtu, NodeKind, PKey, PortNum, PortState, Sl, TransactionId};
use selvedge_wire::sa::records::{self, path as f};
use selvedge_wire::{Address, Arrival, Class, Datagram, Mad, MadPort, Method, Status};

/// Longest time to wait for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Static rates, as PathRecords code them. Source: IBA vol 1 §9.11 (static rate).
mod rate {
    pub const GB_50: u64 = 20;
    pub const GB_100: u64 = 16;
    pub const GB_200: u64 = 17;
}

/// A port of hardware.
#[derive(Clone, Copy)]
struct Kind {
    mtu: Mtu,
    widths: &'static [LinkWidth],
    speed: LinkSpeed,
}

/// The link of all other ports: 4x HDR.
const USUAL: Kind = Kind {
    mtu: Mtu::B4096,
    widths: &[LinkWidth::X1, LinkWidth::X2, LinkWidth::X4],
    speed: LinkSpeed::Hdr,
};
/// Half of a split port.
const HALF: Kind = Kind {
    widths: &[LinkWidth::X1, LinkWidth::X2],
    ..USUAL
};
/// One lane.
const SINGLE: Kind = Kind {
    widths: &[LinkWidth::X1],
    ..USUAL
};
/// An older adapter.
const SMALL: Kind = Kind {
    mtu: Mtu::B2048,
    ..USUAL
};

/// Description of a switch's aggregation node. Source: observed, see `selvedge_fabric::Node`.
const AGGREGATION: &str = "Mellanox Technologies Aggregation Node";

fn port(number: u8) -> PortNum {
    PortNum::new(number).unwrap()
}

fn node(builder: &mut FabricBuilder, (kind, guid): (NodeKind, u64), ports: &[Kind], name: &str) -> NodeKey {
    let mut node = Node::new(kind, Guid(guid), ports.len() as u8, name);
    for (of, number) in ports.iter().zip(1..) {
        let made = node.port_mut(port(number)).unwrap();
        if kind != NodeKind::Switch {
            made.guid = Guid(guid + u64::from(number));
        }
        made.capability.mtu = of.mtu;
        made.capability.widths = of.widths.iter().fold(0, |all, width| all | width.bit());
        made.capability.speed = of.speed;
    }
    builder.add(node)
}

/// Three switches in a row; at the last one only ports of 2048 bytes, at the first halves of a split port.
fn fabric() -> Fabric {
    let mut builder = FabricBuilder::new();
    let switch = |builder: &mut FabricBuilder, guid, ports: &[Kind]| {
        node(builder, (NodeKind::Switch, guid), ports, &format!("S{}", guid >> 8))
    };
    let first = switch(&mut builder, 0x100, &[USUAL, USUAL, HALF, HALF, USUAL, USUAL]);
    let middle = switch(&mut builder, 0x200, &[USUAL, USUAL, USUAL, USUAL, USUAL, SINGLE]);
    let last = switch(&mut builder, 0x300, &[SMALL, SMALL, SMALL, SMALL]);
    let plug = |builder: &mut FabricBuilder, a: (NodeKey, u8), b: (NodeKey, u8)| {
        builder.link((a.0, port(a.1)), (b.0, port(b.1))).unwrap();
    };
    plug(&mut builder, (first, 1), (middle, 1));
    plug(&mut builder, (middle, 2), (last, 1));
    for (guid, name, of, at) in [
        (0x1000, "manager", USUAL, (first, 2)),
        (0x2000, "half", USUAL, (first, 3)),
        (0x3000, "other half", HALF, (first, 4)),
        (0x4000, "near", USUAL, (middle, 3)),
        (0x5000, "single", USUAL, (middle, 6)),
        (0x6000, "far", USUAL, (last, 2)),
        (0x7000, AGGREGATION, USUAL, (middle, 4)),
    ] {
        let host = node(&mut builder, (NodeKind::Ca, guid), &[of], name);
        plug(&mut builder, (host, 1), at);
    }
    let router = node(&mut builder, (NodeKind::Router, 0x8000), &[USUAL, SMALL], "router");
    plug(&mut builder, (router, 1), (first, 5));
    plug(&mut builder, (router, 2), (last, 3));
    builder.finish().unwrap()
}

struct Stage {
    running: Running,
    view: Arc<View>,
    client: IbsimPort,
}

impl Stage {
    fn new() -> Self {
        let base = format!("slv-odd-{}", std::process::id());
        let door = Door::Emulated {
            fabric: Arc::new(fabric()),
            options: EmulationOptions {
                serve: Some(base.clone()),
                seat: Some("\"manager\"".to_owned()),
                ..EmulationOptions::default()
            },
            name: "odd hardware".to_owned(),
        };
        let running = start(Options::new(Mode::Manage, door)).unwrap();
        let began = Instant::now();
        while !running.manager.status().unwrap().up {
            assert!(began.elapsed() < PATIENCE, "not up: {:?}", running.manager.status());
            std::thread::yield_now();
        }
        Self {
            view: running.manager.view(),
            client: IbsimPort::open(&base, "near").unwrap(),
            running,
        }
    }

    fn fabric(&self) -> &Fabric {
        self.view.fabric.as_ref().unwrap()
    }

    fn lid(&self, guid: u64) -> Lid {
        let fabric = self.fabric();
        fabric
            .port(fabric.find_port(Guid(guid)).unwrap())
            .unwrap()
            .settings
            .lids
            .base
    }

    /// MTU and rate of the path between two ports, as codes.
    fn path(&mut self, from: u64, to: u64) -> (u64, u64) {
        let own = self.view.inventory.as_ref().unwrap().local;
        let sm = self.fabric().port(own).unwrap().settings.lids.base;
        let began = Instant::now();
        // The index of a plan is made just after it is in force.
        while began.elapsed() < PATIENCE {
            let mut mad = Mad::request(Class::SubnAdm, Method::Get, records::PATH.id, 0);
            mad.set_transaction(TransactionId(from << 16 | to));
            let data = mad.sa_data_mut();
            f::SLID.set(data, u64::from(self.lid(from).0));
            f::DLID.set(data, u64::from(self.lid(to).0));
            mad.set_component_mask(f::SLID.mask() | f::DLID.mask());
            let address = Address::gsi(sm, Sl::default());
            self.client.send(&Datagram { address, mad }, PATIENCE).unwrap();
            if let Some(Arrival::Received(told)) = self.client.receive(Duration::from_secs(1)).unwrap()
                && told.mad.status() == Status::OK
            {
                let row = told.mad.sa_data();
                return (f::MTU.get(row), f::RATE.get(row));
            }
        }
        panic!("no path from {from:#x} to {to:#x}");
    }
}

#[test]
fn it_comes_up_and_paths_carry_what_their_links_do() {
    let mut stage = Stage::new();
    let fabric = Arc::clone(stage.view.fabric.as_ref().unwrap());
    assert!(stage.view.ports.iter().all(|port| port.reason == PortReason::NoLink));
    assert!(stage.running.manager.findings().unwrap().ok);
    for link in fabric.links() {
        let ends = [link.a, link.b].map(|at| fabric.port(at).unwrap());
        let name = fabric.port_name(link.a);
        assert!(ends.iter().all(|end| end.link.state == PortState::Active), "{name}");
        let least = ends[0].capability.mtu.min(ends[1].capability.mtu);
        assert_eq!(ends.map(|end| end.settings.mtu), [least; 2], "{name}: NeighborMTU");
    }
    // Aggregation nodes and routers are end ports as any other: LIDs and the default partition's key.
    for guid in [0x7001, 0x8001, 0x8002] {
        let port = fabric.port(fabric.find_port(Guid(guid)).unwrap()).unwrap();
        assert!(port.settings.lids.base.is_unicast(), "{guid:#x}");
        assert_eq!(port.pkeys, [PKey(0xFFFF)], "{guid:#x}");
    }
    let (bytes_4096, bytes_2048) = (5, 4);
    for (to, want) in [
        (0x1001, (bytes_4096, rate::GB_200)),
        (0x2001, (bytes_4096, rate::GB_100)),
        (0x3001, (bytes_4096, rate::GB_100)),
        (0x5001, (bytes_4096, rate::GB_50)),
        (0x6001, (bytes_2048, rate::GB_200)),
        (0x7001, (bytes_4096, rate::GB_200)),
        (0x8001, (bytes_4096, rate::GB_200)),
        (0x8002, (bytes_2048, rate::GB_200)),
    ] {
        assert_eq!(stage.path(0x4001, to), want, "to {to:#x}");
    }
    assert_eq!(stage.path(0x3001, 0x5001), (bytes_4096, rate::GB_50));
    assert_eq!(stage.path(0x2001, 0x6001), (bytes_2048, rate::GB_100));
    stage.running.manager.stop();
    stage.running.join().unwrap();
}

/// Returns the event about a port with room for `room` keys in nine partitions. The event states the room, whatever the
/// number.
fn told_of_room(room: u16) -> String {
    let mut builder = FabricBuilder::new();
    let hub = node(&mut builder, (NodeKind::Switch, 0x100), &[USUAL, USUAL], "hub");
    let seat = node(&mut builder, (NodeKind::Ca, 0x1000), &[USUAL], "manager");
    let mut small = Node::new(NodeKind::Ca, Guid(0x2000), 1, "small");
    small.partition_cap = room;
    small.port_mut(port(1)).unwrap().guid = Guid(0x2001);
    let small = builder.add(small);
    builder.link((hub, port(1)), (seat, port(1))).unwrap();
    builder.link((hub, port(2)), (small, port(1))).unwrap();
    let lines: String = (1..=9).map(|key| format!("P{key}={key}: 0x2001=full;\n")).collect();
    let mut settings = selvedge_config::Settings::default();
    let partitions = selvedge_config::parse_partitions(&lines, std::path::Path::new("partitions")).unwrap();
    settings.policy.partitions = Arc::new(partitions);
    let door = Door::Emulated {
        fabric: Arc::new(builder.finish().unwrap()),
        options: EmulationOptions {
            seat: Some("manager".to_owned()),
            ..EmulationOptions::default()
        },
        name: "small tables".to_owned(),
    };
    let running = start(Options {
        settings,
        until: selvedge_daemon::Until::Idle,
        ..Options::new(Mode::Manage, door)
    });
    let running = running.unwrap();
    let manager = running.manager.clone();
    running.join().unwrap();
    let events = manager.events(0).events;
    let told = events.into_iter().find(|event| event.code == "SLV-SM-0044");
    told.unwrap_or_else(|| panic!("nothing is said of a table for {room} keys"))
        .text
}

#[test]
fn a_port_with_too_many_partitions_is_named_with_its_room() {
    for room in [8, 4] {
        let text = told_of_room(room);
        assert!(text.contains(&format!("room for {room} keys")), "{text}");
    }
}
