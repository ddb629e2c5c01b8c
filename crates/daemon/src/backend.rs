//! Places of outside clients at an emulated fabric.

use std::cell::RefCell;
use std::collections::BTreeMap;

use selvedge_emulator::{ClientId, Delivery as Arrival, Emulator};
use selvedge_fabric::{Fabric, NodeIdx, PortRef};
use selvedge_transport::ibsim::{AttachPoint, Backend, Delivery};
use selvedge_types::{Guid, PKey, PortNum};
use selvedge_wire::{Address, Class, SMP_DATA_LEN, SmpData};

/// The emulator's client behind each port with outside clients. One client serves all outside clients of a port,
/// because the server knows which of them owns each transaction.
#[derive(Debug, Default)]
pub(crate) struct Places {
    clients: BTreeMap<AttachPoint, ClientId>,
    points: BTreeMap<ClientId, AttachPoint>,
}

impl Places {
    pub(crate) fn client(&self, at: AttachPoint) -> Option<ClientId> {
        self.clients.get(&at).copied()
    }

    pub(crate) fn of_client(&self, client: ClientId) -> Option<AttachPoint> {
        self.points.get(&client).copied()
    }
}

/// The server's view of clients that attach.
pub(crate) struct Seats<'a> {
    pub(crate) emulator: &'a RefCell<&'a mut Emulator>,
    pub(crate) places: &'a RefCell<Places>,
}

impl Seats<'_> {
    fn ask<T>(&self, at: AttachPoint, question: impl FnOnce(&Emulator, ClientId) -> Option<T>) -> Option<T> {
        let client = self.places.borrow().client(at)?;
        question(&self.emulator.borrow(), client)
    }
}

impl Backend for Seats<'_> {
    fn find(&self, name: &str) -> Option<AttachPoint> {
        let mut emulator = self.emulator.borrow_mut();
        let at = seat(emulator.chassis().fabric(), name)?;
        let point = AttachPoint {
            node: at.node.0,
            port: at.port,
        };
        let mut places = self.places.borrow_mut();
        if places.client(point).is_none() {
            let client = emulator.attach(at).ok()?;
            places.clients.insert(point, client);
            places.points.insert(client, point);
        }
        Some(point)
    }

    fn name(&self, at: AttachPoint) -> String {
        let emulator = self.emulator.borrow();
        let node = emulator.chassis().fabric().nodes().get(NodeIdx(at.node));
        node.map(|node| node.description.clone()).unwrap_or_default()
    }

    fn node_info(&self, at: AttachPoint) -> SmpData {
        let info = self.ask(at, |emulator, client| emulator.local_node_info(client));
        info.unwrap_or([0; SMP_DATA_LEN])
    }

    fn port_info(&self, at: AttachPoint, port: PortNum) -> SmpData {
        let info = self.ask(at, |emulator, client| {
            let asked = emulator.local_port_info(client, port.get());
            asked.or_else(|| emulator.local_port_info(client, at.port.get()))
        });
        info.unwrap_or([0; SMP_DATA_LEN])
    }

    fn p_keys(&self, at: AttachPoint) -> Vec<PKey> {
        let keys = self.ask(at, |emulator, client| {
            let chassis = emulator.chassis();
            Some(chassis.port(emulator.port_of(client)?).pkeys.to_vec())
        });
        keys.unwrap_or_default()
    }
}

/// Returns the first host with a cable, else the first switch: where ibsim, too, puts a client that names no node.
pub(crate) fn default_seat(fabric: &Fabric) -> Option<PortRef> {
    let cabled = fabric
        .end_ports()
        .find(|(at, port)| at.port != PortNum::MANAGEMENT && port.peer.is_some());
    cabled.or_else(|| fabric.end_ports().next()).map(|(at, _)| at)
}

/// Returns the port that a client's name means: a description, a GUID as `0x…`, or an id of a net file with a GUID in
/// it (`S-0002c90300001234`, `H-…`). The protocol cuts names to 31 bytes, so the beginning of a name is accepted if it
/// is unique.
fn seat(fabric: &Fabric, name: &str) -> Option<PortRef> {
    if name.is_empty() {
        return default_seat(fabric);
    }
    let is_named = |idx: &NodeIdx| fabric.node(*idx).description == name;
    let begins = |idx: &NodeIdx| name.len() >= CUT_NAME && fabric.node(*idx).description.starts_with(name);
    let mut cut = fabric.nodes().indices().filter(begins);
    let node = fabric
        .nodes()
        .indices()
        .find(is_named)
        .or_else(|| by_guid(fabric, name))
        .or_else(|| cut.next().filter(|_| cut.next().is_none()))?;
    let ends: Vec<_> = fabric.node(node).end_ports().collect();
    let cabled = ends.iter().find(|(_, port)| port.peer.is_some());
    let (port, _) = cabled.or_else(|| ends.first())?;
    Some(PortRef { node, port: *port })
}

/// Bytes of a name that the protocol carries.
const CUT_NAME: usize = 31;

fn by_guid(fabric: &Fabric, name: &str) -> Option<NodeIdx> {
    let digits = name
        .strip_prefix("S-")
        .or_else(|| name.strip_prefix("H-"))
        .unwrap_or(name);
    let guid: Guid = digits.parse().ok()?;
    fabric.find(guid).or_else(|| fabric.find_port(guid).map(|at| at.node))
}

/// Returns the port of the ibsim protocol for a datagram that arrived in the emulator.
pub(crate) fn serve_point(emulator: &Emulator, at: AttachPoint, arrival: &Arrival) -> Delivery {
    let datagram = &arrival.datagram;
    let lid = || {
        let chassis = emulator.chassis();
        let port = chassis.end_port(emulator.port_of(arrival.client)?);
        Some(chassis.port(port).settings().lids.base)
    };
    let to = if datagram.mad.class() == Class::SubnDirected {
        Address::DIRECTED
    } else {
        Address {
            lid: lid().unwrap_or_default(),
            qp: u32::from(!datagram.mad.class().is_smp()),
            ..datagram.address
        }
    };
    Delivery {
        at,
        from: datagram.address,
        to,
        mad: datagram.mad,
    }
}

#[cfg(test)]
mod tests {
    use selvedge_fabric::{FabricBuilder, Node};
    use selvedge_types::NodeKind;

    use super::*;

    #[test]
    fn clients_find_their_node() {
        let port = |n| PortNum::new(n).unwrap();
        let mut builder = FabricBuilder::new();
        let switch = builder.add(Node::new(NodeKind::Switch, Guid(1), 4, "spine"));
        let host = builder.add(Node::new(
            NodeKind::Ca,
            Guid(0x20),
            2,
            "a host with a name longer than 31 bytes",
        ));
        builder.link((switch, port(1)), (host, port(2))).unwrap();
        let fabric = builder.finish().unwrap();
        let check = |name: &str, want: Option<(u32, u8)>| {
            assert_eq!(seat(&fabric, name).map(|at| (at.node.0, at.port.get())), want, "{name}");
        };
        check("", Some((1, 2)));
        check("spine", Some((0, 0)));
        check("0x20", Some((1, 2)));
        check("H-0000000000000020", Some((1, 2)));
        check("a host with a name longer than ", Some((1, 2)));
        check("a host", None);
        check("nobody", None);
    }
}
