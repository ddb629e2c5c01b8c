//! A fabric of a test, and the simplest endpoint: it sends what it is given, and keeps what arrives.

use std::collections::VecDeque;

use selvedge_dataplane::{DropReason, EndPort, Endpoint, Network, Packet, Ps, Settings, Simulation, Subnet, header};
use selvedge_fabric::{Fabric, PortRef, SwitchIdx};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, Lmc, PortNum};

/// What the endpoint of these tests writes into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub u64);

/// What an end port has seen, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A packet: mark, source and destination LID, P_Key, lane.
    Packet(Mark, u16, u16, u16, u8),
    Timer(u32),
    Link(bool),
}

/// A packet that waits at a port.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    pub packet: Packet<Mark>,
    pub not_before: Ps,
}

#[derive(Debug, Default)]
pub struct Box {
    /// By port.
    pub waiting: Vec<VecDeque<Waits>>,
    pub seen: Vec<(Ps, EndPort, Seen)>,
    pub lost: Vec<(Mark, DropReason)>,
    /// Answers every packet that arrives with this mark.
    pub answers: Option<Mark>,
    pub pulls: u64,
}

impl Box {
    pub fn put(&mut self, port: EndPort, packet: Packet<Mark>, not_before: Ps) {
        let ports = self.waiting.len().max(port as usize + 1);
        self.waiting.resize(ports, VecDeque::new());
        self.waiting[port as usize].push_back(Waits { packet, not_before });
    }

    fn first(&self, port: EndPort) -> Option<Waits> {
        self.waiting.get(port as usize)?.front().copied()
    }

    /// The times at which a port got packets.
    pub fn times(&self, port: EndPort) -> Vec<Ps> {
        let packets = self
            .seen
            .iter()
            .filter(|(_, at, seen)| *at == port && matches!(seen, Seen::Packet(..)));
        packets.map(|(at, ..)| *at).collect()
    }
}

impl Endpoint for Box {
    type Header = Mark;

    fn prepare(&mut self, _port: EndPort, _subnet: &mut Subnet<Mark>) {
        self.pulls += 1;
    }

    fn lanes(&self, port: EndPort) -> u16 {
        self.first(port).map_or(0, |first| 1 << (first.packet.sl % 2))
    }

    fn offer(&mut self, port: EndPort, _vl: u8, subnet: &mut Subnet<Mark>) -> Option<u32> {
        let first = self.first(port)?;
        if first.not_before > subnet.now() {
            subnet.wake(port, first.not_before);
            return None;
        }
        Some(first.packet.wire_bytes())
    }

    fn take(&mut self, port: EndPort, _vl: u8, _subnet: &mut Subnet<Mark>) -> Packet<Mark> {
        self.waiting[port as usize].pop_front().unwrap().packet
    }

    fn arrived(&mut self, port: EndPort, packet: &Packet<Mark>, subnet: &mut Subnet<Mark>) {
        let seen = Seen::Packet(packet.header, packet.slid, packet.dlid, packet.pkey, packet.vl());
        self.seen.push((subnet.now(), port, seen));
        if let Some(mark) = self.answers.filter(|mark| *mark != packet.header) {
            let answer = Packet::new(mark, (packet.dlid, packet.slid), packet.sl, 0, header::ACK as u8);
            self.put(port, answer, 0);
            subnet.pull(self, port);
        }
    }

    fn timer(&mut self, port: EndPort, token: u32, subnet: &mut Subnet<Mark>) {
        self.seen.push((subnet.now(), port, Seen::Timer(token)));
    }

    fn link(&mut self, port: EndPort, up: bool, subnet: &mut Subnet<Mark>) {
        self.seen.push((subnet.now(), port, Seen::Link(up)));
    }

    fn lost(&mut self, packet: &Packet<Mark>, reason: DropReason, _subnet: &mut Subnet<Mark>) {
        self.lost.push((packet.header, reason));
    }
}

/// A routed fabric.
pub struct Lab {
    pub fabric: Fabric,
    pub lids: Lids,
    pub tables: Tables,
    pub settings: Settings,
}

impl Lab {
    /// A fabric of `--fabric`, routed by Up/Down; every end port has `1 << lmc` LIDs.
    pub fn new(spec: &str, lmc: u8) -> Self {
        let Spec::Generated(recipe) = spec.parse().unwrap() else {
            panic!("{spec} is no generator")
        };
        Self::of(recipe.fabric().unwrap(), lmc)
    }

    pub fn of(fabric: Fabric, lmc: u8) -> Self {
        let mut lids = Lids::new();
        let mut next = 1_u16 << lmc;
        for (at, _) in fabric.end_ports() {
            let is_switch = fabric.node(at.node).is_switch();
            let lmc = Lmc::new(if is_switch { 0 } else { lmc }).unwrap();
            next = next.next_multiple_of(lmc.lids());
            lids.insert(at, LidRange { base: Lid(next), lmc }).unwrap();
            next += lmc.lids();
        }
        let routed = Engine::UpDn
            .route(&fabric, &lids, &Options::default(), Seed(0), Par::Sequential)
            .unwrap();
        let settings = Settings {
            vls: 2,
            hoq_life: 20,
            switch_life: 20,
            ..Settings::default()
        };
        Self {
            fabric,
            lids,
            tables: routed.tables,
            settings,
        }
    }

    pub fn start(&self) -> Simulation<Box> {
        let network = Network {
            fabric: &self.fabric,
            lids: &self.lids,
            tables: &self.tables,
            service_levels: &ServiceLevels::default(),
            sl_to_vl: &SlToVl::modulo(self.settings.vls),
        };
        Simulation::of_endpoint(&network, &self.settings, Box::default()).unwrap()
    }

    /// The port of a switch with a cable to an end port.
    pub fn leaf_of(&self, simulation: &Simulation<Box>, port: EndPort) -> (SwitchIdx, PortNum) {
        let at = simulation.subnet().end_ports()[port as usize].at;
        let peer = self.fabric.peer(at).unwrap();
        (self.fabric.switch_index(peer.node).unwrap(), peer.port)
    }
}

/// The first LID of an end port.
pub fn lid(simulation: &Simulation<Box>, port: EndPort) -> u16 {
    simulation.subnet().end_ports()[port as usize].lid.0
}

/// A packet of the MTU from one end port to another.
pub fn packet(simulation: &Simulation<Box>, mark: u64, from: EndPort, to: EndPort) -> Packet<Mark> {
    let lids = (lid(simulation, from), lid(simulation, to));
    Packet::new(Mark(mark), lids, 0, 2_048, header::LOCAL as u8)
}

/// Gives a port a packet from outside, and wakes it.
pub fn send(simulation: &mut Simulation<Box>, port: EndPort, packet: Packet<Mark>) {
    let (endpoint, subnet) = simulation.parts_mut();
    endpoint.put(port, packet, 0);
    subnet.wake(port, subnet.now());
}

/// Runs until nothing happens any more.
pub fn drain(simulation: &mut Simulation<Box>) {
    while simulation.step().is_some() {}
    simulation.subnet().check().unwrap();
    assert!(simulation.account().balances());
}

/// The port with a number at a switch.
pub fn at(fabric: &Fabric, switch: SwitchIdx, port: PortNum) -> PortRef {
    PortRef {
        node: fabric.switches()[switch],
        port,
    }
}
