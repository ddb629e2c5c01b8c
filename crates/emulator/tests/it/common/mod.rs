//! A small fabric and a client that sends requests.
//!
//! ```text
//! H0[1] - S[1]   S[3] = T[3]   T[1] - H2[1]
//! H1[1] - S[2]   S[4] = T[4]   T[2] - H1[2]
//! ```

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{ClientId, Delivery, Emulator, EmulatorConfig};
use selvedge_fabric::{Fabric, FabricBuilder, Node};
use selvedge_plan::Lids;
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed, Time};
use selvedge_topology::Spec;
use selvedge_types::{Guid, Lid, LidRange, NodeKind, PhysState, PortNum, PortState, Sl, TransactionId};
use selvedge_wire::{
    Address, Attribute, AttributeId, Class, Datagram, DirectedRoute, GmpAttribute, LinearForwardingTable, Mad, Method,
    PortInfo, Status, SwitchInfo,
};

pub const H0: u16 = 1;
pub const S: u16 = 2;
pub const T: u16 = 3;
pub const H1_1: u16 = 4;
pub const H1_2: u16 = 5;
pub const H2: u16 = 6;

/// Directed routes from H0.
pub const TO_H0: &[u8] = &[];
pub const TO_S: &[u8] = &[1];
pub const TO_H1_1: &[u8] = &[1, 2];
pub const TO_T: &[u8] = &[1, 3];
pub const TO_H2: &[u8] = &[1, 3, 1];
pub const TO_H1_2: &[u8] = &[1, 3, 2];

pub fn port(num: u8) -> PortNum {
    PortNum::new(num).unwrap()
}

pub fn fabric() -> Fabric {
    fabric_with(|_| {})
}

pub fn fabric_with(change: impl Fn(&mut Node)) -> Fabric {
    let mut builder = FabricBuilder::new();
    let mut add = |kind, guid, ports, name: &str| {
        let mut node = Node::new(kind, Guid(guid), ports, name);
        change(&mut node);
        builder.add(node)
    };
    let h0 = add(NodeKind::Ca, 0x100, 1, "H0");
    let h1 = add(NodeKind::Ca, 0x110, 2, "H1");
    let h2 = add(NodeKind::Ca, 0x120, 1, "H2");
    let s = add(NodeKind::Switch, 0x10, 5, "S");
    let t = add(NodeKind::Switch, 0x20, 5, "T");
    for (a, b) in [
        ((h0, 1), (s, 1)),
        ((h1, 1), (s, 2)),
        ((h1, 2), (t, 2)),
        ((h2, 1), (t, 1)),
        ((s, 3), (t, 3)),
        ((s, 4), (t, 4)),
    ] {
        builder.link((a.0, port(a.1)), (b.0, port(b.1))).unwrap();
    }
    builder.finish().unwrap()
}

pub fn route(ports: &[u8]) -> DirectedRoute {
    let ports: Vec<PortNum> = ports.iter().map(|&p| port(p)).collect();
    DirectedRoute::new(&ports).unwrap()
}

pub struct World {
    pub emu: Emulator,
    pub sm: ClientId,
    pub now: Time,
    pub m_key: u64,
    tid: u64,
}

impl World {
    pub fn new() -> Self {
        Self::with(&fabric(), EmulatorConfig::default())
    }

    pub fn with(fabric: &Fabric, config: EmulatorConfig) -> Self {
        let mut emu = Emulator::new(fabric, config, Seed(7));
        let sm = emu.attach_named("H0").unwrap();
        Self {
            emu,
            sm,
            now: Time::ZERO,
            m_key: 0,
            tid: 0x1_0000,
        }
    }

    /// Returns a world with a generated fabric, routed, ACTIVE ports everywhere; the client is at the first host.
    pub fn routed(spec: &str, engine: &str) -> Self {
        let Spec::Generated(recipe) = spec.parse().unwrap() else {
            panic!("{spec} is no generator")
        };
        let fabric = recipe.fabric().unwrap();
        let mut lids = Lids::new();
        for (lid, (at, _)) in (1..).zip(fabric.end_ports()) {
            lids.insert(at, LidRange::single(Lid(lid))).unwrap();
        }
        let engine: Engine = engine.parse().unwrap();
        let routed = engine
            .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
            .unwrap();
        let mut chassis = Chassis::new(&fabric);
        chassis.install(&lids, Some(&routed.tables));
        for link in fabric.links() {
            assert!(chassis.bring_up(chassis.port_idx(link.a).unwrap()));
            for end in [link.a, link.b] {
                assert!(chassis.set_logical(chassis.port_idx(end).unwrap(), PortState::Active));
            }
        }
        let mut emu = Emulator::on(chassis, EmulatorConfig::default(), Seed(7));
        let hosts = fabric.end_ports().map(|(at, _)| at);
        let first = hosts.into_iter().find(|at| !fabric.node(at.node).is_switch()).unwrap();
        let sm = emu.attach(first).unwrap();
        Self {
            emu,
            sm,
            now: Time::ZERO,
            m_key: 0,
            tid: 0x1_0000,
        }
    }

    /// Returns a world with LIDs, tables and ACTIVE ports everywhere; the manager is at H0.
    pub fn configured() -> Self {
        let mut world = Self::new();
        world.configure();
        world
    }

    pub fn configure(&mut self) {
        for (path, num, lid) in [
            (TO_H0, 0, H0),
            (TO_S, 0, S),
            (TO_T, 0, T),
            (TO_H1_1, 0, H1_1),
            (TO_H1_2, 0, H1_2),
            (TO_H2, 0, H2),
        ] {
            self.change_port(path, num, |info| {
                info.lid = Lid(lid);
                info.sm_lid = Lid(H0);
            });
        }
        // By destination LID 0 to 6.
        self.install(TO_S, &[255, 1, 0, 3, 2, 4, 3]);
        self.install(TO_T, &[255, 3, 3, 0, 4, 2, 1]);
        for state in [PortState::Armed, PortState::Active] {
            for (path, ports) in [(TO_S, 1..=4), (TO_T, 1..=4), (TO_H1_1, 1..=1), (TO_H1_2, 2..=2)] {
                for num in ports {
                    self.set_state(path, num, state);
                }
            }
            self.set_state(TO_H0, 1, state);
            self.set_state(TO_H2, 1, state);
        }
    }

    pub fn install(&mut self, path: &[u8], entries: &[u8]) {
        let mut table = LinearForwardingTable::EMPTY;
        table.ports[..entries.len()].copy_from_slice(entries);
        self.set(path, 0, &table).unwrap();
        let mut info: SwitchInfo = self.get(path, 0).unwrap();
        info.linear_top = Lid(u16::try_from(entries.len()).unwrap() - 1);
        self.set(path, 0, &info).unwrap();
    }

    pub fn set_state(&mut self, path: &[u8], num: u8, state: PortState) {
        self.change_port(path, num, |info| info.state = Some(state));
    }

    /// Reads a PortInfo as a manager does, changes it and sets it.
    pub fn change_port(&mut self, path: &[u8], num: u8, change: impl FnOnce(&mut PortInfo)) {
        self.try_port(path, num, change).unwrap();
    }

    pub fn try_port(&mut self, path: &[u8], num: u8, change: impl FnOnce(&mut PortInfo)) -> Result<PortInfo, Status> {
        let mut info: PortInfo = self.get(path, u32::from(num))?;
        (info.state, info.phys_state) = (None, None);
        change(&mut info);
        self.set(path, u32::from(num), &info)
    }

    pub fn get<A: Attribute>(&mut self, path: &[u8], modifier: u32) -> Result<A, Status> {
        let mad = Mad::directed(Method::Get, A::ID, modifier, &route(path));
        self.ask(mad).map(|m| m.read().unwrap())
    }

    pub fn set<A: Attribute>(&mut self, path: &[u8], modifier: u32, attribute: &A) -> Result<A, Status> {
        let mut mad = Mad::directed(Method::Set, A::ID, modifier, &route(path));
        mad.write(attribute);
        self.ask(mad).map(|m| m.read().unwrap())
    }

    pub fn gmp<A: GmpAttribute>(&mut self, lid: u16, method: Method, attribute: &A) -> Result<A, Status> {
        let mut mad = Mad::request(Class::PerfMgt, method, A::ID, 0);
        mad.write_gmp(attribute);
        let address = Address::gsi(Lid(lid), Sl::default());
        self.ask_at(Datagram { address, mad }).map(|m| m.read_gmp().unwrap())
    }

    /// A LID-routed Get.
    pub fn get_by_lid<A: Attribute>(&mut self, lid: u16, modifier: u32) -> Result<A, Status> {
        let mad = Mad::request(Class::SubnLid, Method::Get, A::ID, modifier);
        let address = Address::smi(Lid(lid));
        self.ask_at(Datagram { address, mad }).map(|m| m.read().unwrap())
    }

    pub fn ask(&mut self, mad: Mad) -> Result<Mad, Status> {
        self.ask_at(Datagram {
            address: Address::DIRECTED,
            mad,
        })
    }

    /// Sends a request, lets a millisecond pass, and returns the response or its status; no response is [`NO_ANSWER`].
    pub fn ask_at(&mut self, mut datagram: Datagram) -> Result<Mad, Status> {
        self.tid += 1;
        datagram.mad.set_transaction(TransactionId(self.tid));
        datagram.mad.set_m_key(self.m_key);
        self.emu.send(self.now, self.sm, &datagram);
        let received = self.pass(1);
        let answers: Vec<&Delivery> = received
            .iter()
            .filter(|d| d.datagram.mad.transaction().0 == self.tid && d.datagram.mad.method().is_response())
            .collect();
        match answers[..] {
            [] => Err(NO_ANSWER),
            [one] => match one.datagram.mad.status() {
                Status::OK => Ok(one.datagram.mad),
                status => Err(status),
            },
            _ => panic!("{} answers to one request", answers.len()),
        }
    }

    /// Lets milliseconds pass.
    pub fn pass(&mut self, millis: u64) -> Vec<Delivery> {
        self.now = Time(self.now.0 + Time::from_millis(millis).0);
        let mut received = Vec::new();
        self.emu.advance(self.now, &mut received);
        received
    }

    pub fn fault(&mut self, text: &str) {
        self.emu.apply(self.now, &text.parse().unwrap()).unwrap();
        self.pass(0);
    }

    pub fn port(&self, name: &str, num: u8) -> PortIdx {
        let node = self.emu.chassis().fabric().nodes().iter_enumerated();
        let (idx, _) = node.into_iter().find(|(_, n)| n.description == name).unwrap();
        self.emu.chassis().port_at(idx, num).unwrap()
    }

    pub fn state(&self, name: &str, num: u8) -> (PortState, PhysState) {
        let wire = self.emu.chassis().wire(self.port(name, num));
        (wire.state(), wire.phys())
    }

    /// Checks that every MAD is counted.
    pub fn audit(&self) {
        let counts = self.emu.counts();
        let in_flight = self.emu.in_flight() as u64;
        assert_eq!(counts.created(), counts.ended() + in_flight, "{counts:?}");
    }
}

/// The status that stands for "no response".
pub const NO_ANSWER: Status = Status(0xFFFF);

/// The traps among deliveries, as text: number and issuer.
pub fn traps(received: &[Delivery]) -> Vec<(u16, u16)> {
    let traps = received.iter().filter(|d| d.datagram.mad.method() == Method::Trap);
    traps
        .map(|d| {
            assert_eq!(d.datagram.mad.attribute(), AttributeId::NOTICE);
            let notice: selvedge_wire::Notice = d.datagram.mad.read().unwrap();
            (notice.trap_number().unwrap(), notice.issuer_lid.0)
        })
        .collect()
}
