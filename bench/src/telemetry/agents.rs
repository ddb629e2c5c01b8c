//! Agents in memory with counters that move: half of all ports in each slot, the others now and then.

use std::collections::BTreeMap;

use selvedge_fabric::{Fabric, Node, NodeIdx, PortRef};
use selvedge_sim::{Rng, Seed};
use selvedge_telemetry::{End, Inventory, NodeEntry, PortEntry};
use selvedge_types::{Lid, PortState};
use selvedge_wire::{Address, AttributeId, ClassPortInfo, Datagram, Method, PortCountersExtended, Status};

/// Most words of four bytes that a link of 400 Gb/s carries in a second.
const WORDS_MAX: u64 = 12_500_000_000;
/// Of ports that do not move in each slot, one in this number moves.
const NOW_AND_THEN: u64 = 50;

/// The agents of a fabric.
pub struct Agents {
    rng: Rng,
    /// Index of the first port of each LID, and its counters.
    nodes: BTreeMap<Lid, usize>,
    ports: Vec<PortCountersExtended>,
    /// Ports that moved in the last slot.
    pub moved: usize,
}

impl Agents {
    /// Returns the agents of a fabric, and the fabric as a sampler is shown it. Every port with a cable is up.
    pub fn new(fabric: &Fabric, seed: u64) -> (Self, Inventory) {
        let mut agents = Self {
            rng: Seed(seed).child("counters").rng(),
            nodes: BTreeMap::new(),
            ports: Vec::new(),
            moved: 0,
        };
        let mut inventory = Inventory::default();
        for (idx, node) in fabric.nodes().iter_enumerated() {
            // Every node has one LID: hosts of these fabrics have one port.
            let lid = Lid(u16::try_from(inventory.nodes.len() + 1).unwrap_or(Lid::NONE.0));
            agents.nodes.insert(lid, agents.ports.len());
            let counts = node.external_ports().map(|(num, _)| num.get());
            for port_select in counts.collect::<Vec<u8>>() {
                let counters = agents.at_random(port_select);
                agents.ports.push(counters);
            }
            inventory.nodes.insert(node.guid, entry(fabric, idx, node, lid));
        }
        (agents, inventory)
    }

    fn at_random(&mut self, port_select: u8) -> PortCountersExtended {
        let mut any = || self.rng.below(1 << 44);
        PortCountersExtended {
            port_select,
            xmit_data: any(),
            rcv_data: any(),
            xmit_packets: any(),
            rcv_packets: any(),
            unicast_xmit_packets: any(),
            unicast_rcv_packets: any(),
            ..PortCountersExtended::default()
        }
    }

    /// Lets a slot of one second pass.
    pub fn pass(&mut self) {
        self.moved = 0;
        for at in 0..self.ports.len() {
            if at % 2 == 0 || self.rng.below(NOW_AND_THEN) == 0 {
                self.moved += 1;
                move_on(&mut self.rng, &mut self.ports[at]);
            }
        }
    }

    /// Number of ports.
    pub const fn count(&self) -> usize {
        self.ports.len()
    }

    /// Sum of a counter over all ports: none of it may be lost.
    pub fn sum(&self, counter: usize) -> u128 {
        self.ports.iter().map(|port| u128::from(port.counters()[counter])).sum()
    }

    /// Answers a request.
    pub fn answer(&self, request: &Datagram) -> Datagram {
        let mut mad = request.mad;
        mad.set_method(Method::GetResp);
        let select = request.mad.gmp_data()[1];
        match request.mad.attribute() {
            AttributeId::CLASS_PORT_INFO => mad.write_gmp(&ClassPortInfo {
                base_version: 1,
                class_version: 1,
                capabilities: 0x9300,
                capabilities2: ClassPortInfo::EXTENDED_ERRORS,
                ..ClassPortInfo::default()
            }),
            AttributeId::PORT_COUNTERS_EXTENDED => match self.find(request.address.lid, select) {
                Some(counters) => mad.write_gmp(counters),
                None => mad.set_status(Status::BAD_FIELD),
            },
            _ => mad.set_status(Status::BAD_METHOD_ATTRIBUTE),
        }
        let address = Address::gsi(request.address.lid, request.address.sl);
        Datagram { address, mad }
    }

    fn find(&self, lid: Lid, select: u8) -> Option<&PortCountersExtended> {
        let first = *self.nodes.get(&lid)?;
        self.ports[first..].iter().find(|port| port.port_select == select)
    }
}

/// A port carries packets of 64 to 1,088 words in both directions, waits, and now and then has an error.
fn move_on(rng: &mut Rng, port: &mut PortCountersExtended) {
    let mut carry = |words: &mut u64, packets: &mut u64, unicast: &mut u64, multicast: &mut u64| {
        let by = WORDS_MAX / 4 + rng.below(WORDS_MAX / 2);
        let (count, copies) = (by / (64 + rng.below(1_024)), rng.below(3));
        *words += by;
        *packets += count + copies;
        *unicast += count;
        *multicast += copies;
    };
    carry(
        &mut port.xmit_data,
        &mut port.xmit_packets,
        &mut port.unicast_xmit_packets,
        &mut port.multicast_xmit_packets,
    );
    carry(
        &mut port.rcv_data,
        &mut port.rcv_packets,
        &mut port.unicast_rcv_packets,
        &mut port.multicast_rcv_packets,
    );
    port.xmit_wait += rng.below(WORDS_MAX / 8);
    if rng.below(200) == 0 {
        port.symbol_errors += 1;
    }
}

fn entry(fabric: &Fabric, idx: NodeIdx, node: &Node, lid: Lid) -> NodeEntry {
    let ports = node.external_ports().map(|(num, _)| {
        let peer = fabric.peer(PortRef { node: idx, port: num });
        PortEntry {
            num: num.get(),
            lid,
            state: if peer.is_some() {
                PortState::Active
            } else {
                PortState::Down
            },
            peer: peer.map(|at| End {
                node: fabric.node(at.node).guid,
                port: at.port.get(),
            }),
            rate: None,
        }
    });
    NodeEntry {
        kind: node.kind,
        description: node.description.clone(),
        ports: ports.collect(),
    }
}
