//! The inventory: nodes, ports, links.

use std::collections::BTreeMap;

use selvedge_fabric::PortRef;
use selvedge_types::{Guid, LinkSpeed, LinkWidth, NodeKind, PhysState, PortNum, PortState, Rate};
use serde::{Deserialize, Serialize};

use crate::Body;

/// External ports by logical state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateCounts {
    /// No link.
    pub down: u64,
    /// Ports in INIT: trained, not configured.
    pub init: u64,
    /// Ports in ARMED: configured, not active.
    pub armed: u64,
    /// Ports in ACTIVE: in use.
    pub active: u64,
    /// Ports of unknown state: the agent did not answer.
    #[serde(default)]
    pub unknown: u64,
}

/// Links of one width and speed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateCount {
    /// Width and speed, as `4xHDR`.
    pub rate: String,
    /// Links.
    pub links: u64,
}

/// A fabric in figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// Switches.
    pub switches: u64,
    /// Hosts: nodes that are neither switch nor router.
    pub hosts: u64,
    /// Routers to other subnets.
    pub routers: u64,
    /// Cables.
    pub links: u64,
    /// Cables with two ACTIVE ends.
    pub links_active: u64,
    /// Ports with a cable or a link by logical state; empty sockets are left out.
    pub ports: StateCounts,
    /// Trained links by width and speed.
    pub rates: Vec<RateCount>,
}

impl Body for Fabric {
    const SCHEMA: &'static str = "selvedge.fabric";
}

impl Fabric {
    /// Returns the figures of a snapshot.
    #[must_use]
    pub fn of(fabric: &selvedge_fabric::Fabric) -> Self {
        let kind = |kind| fabric.nodes().iter().filter(|n| n.kind == kind).count() as u64;
        // If all known cables of a host are down, it stays in the manager's memory until a sweep, but counts as gone.
        let is_gone = |node: &&selvedge_fabric::Node| {
            let mut cabled = node.external_ports().filter(|(_, p)| p.peer.is_some()).peekable();
            node.kind == NodeKind::Ca && cabled.peek().is_some() && cabled.all(|(_, p)| !p.is_up() && !p.unread)
        };
        let gone = fabric.nodes().iter().filter(is_gone).count() as u64;
        let is_active = |at| fabric.port(at).is_some_and(|p| p.link.state == PortState::Active);
        let mut rates: BTreeMap<Rate, u64> = BTreeMap::new();
        let (mut links, mut links_active) = (0, 0);
        for link in fabric.links() {
            links += 1;
            links_active += u64::from(is_active(link.a) && is_active(link.b));
            if let Some(port) = fabric.port(link.a).filter(|_| fabric.link_is_up(link.a)) {
                *rates.entry(port.link.rate).or_default() += 1;
            }
        }
        let mut ports = StateCounts::default();
        let external = fabric.nodes().iter().flat_map(|n| n.external_ports());
        for (_, port) in external.filter(|(_, p)| p.peer.is_some() || p.is_up()) {
            match known_state(port) {
                None => ports.unknown += 1,
                Some(PortState::Down) => ports.down += 1,
                Some(PortState::Init) => ports.init += 1,
                Some(PortState::Armed) => ports.armed += 1,
                Some(PortState::Active) => ports.active += 1,
            }
        }
        Self {
            switches: kind(NodeKind::Switch),
            hosts: kind(NodeKind::Ca) - gone,
            routers: kind(NodeKind::Router),
            links,
            links_active,
            ports,
            rates: rates
                .into_iter()
                .map(|(rate, links)| RateCount {
                    rate: rate.to_string(),
                    links,
                })
                .collect(),
        }
    }
}

/// Returns the logical state of a port; `None` if its agent never stated it.
fn known_state(port: &selvedge_fabric::Port) -> Option<PortState> {
    (!port.unread).then_some(port.link.state)
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// GUID of the node.
    pub guid: Guid,
    /// Name of the node: from the node-name map, otherwise its NodeDescription.
    pub name: String,
    /// The kind of the node.
    pub kind: NodeKind,
    /// GUID of the system to which the node belongs.
    pub system_guid: Guid,
    /// Base LID: of port 0 for a switch, of the first port with a LID for another node. It is 0 if the node has no LID,
    /// and absent if the LID is unknown.
    pub lid: Option<u16>,
    /// External ports.
    pub ports: u8,
    /// External ports known to be ACTIVE.
    pub ports_active: u8,
    /// Vendor's OUI.
    pub vendor_id: u32,
    /// Vendor's device id.
    pub device_id: u16,
}

/// All nodes, by GUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nodes {
    /// The nodes.
    pub nodes: Vec<Node>,
}

impl Body for Nodes {
    const SCHEMA: &'static str = "selvedge.nodes";
    const VERSION: u32 = 2;
}

/// Returns all nodes of a snapshot.
#[must_use]
pub fn nodes(fabric: &selvedge_fabric::Fabric) -> Nodes {
    let node = |node: &selvedge_fabric::Node| {
        let active = node.external_ports().filter(|(_, p)| p.link.state == PortState::Active);
        let lid = node
            .end_ports()
            .map(|(_, p)| p.settings.lids.base.0)
            .find(|&lid| lid != 0);
        Node {
            guid: node.guid,
            name: node.description.clone(),
            kind: node.kind,
            system_guid: node.system_guid,
            lid: lid.or_else(|| node.end_ports().all(|(_, p)| !p.unread).then_some(0)),
            ports: node.port_count(),
            ports_active: u8::try_from(active.count()).unwrap_or(u8::MAX),
            vendor_id: node.vendor_id,
            device_id: node.device_id,
        }
    };
    Nodes {
        nodes: fabric.nodes().iter().map(node).collect(),
    }
}

/// One end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// GUID of the node.
    pub node_guid: Guid,
    /// Name of the node.
    pub node_name: String,
    /// Number of the port.
    pub port: u8,
}

impl End {
    fn of(fabric: &selvedge_fabric::Fabric, at: PortRef) -> Self {
        let node = fabric.node(at.node);
        Self {
            node_guid: node.guid,
            node_name: node.description.clone(),
            port: at.port.get(),
        }
    }
}

/// A port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// GUID of the node.
    pub node_guid: Guid,
    /// Name of the node.
    pub node_name: String,
    /// Number of the port; 0 is a switch's management port.
    pub port: u8,
    /// Port GUID; 0x0 on a switch's external ports, absent if unknown.
    pub guid: Option<Guid>,
    /// Base LID; 0 on a switch's external ports, absent if unknown.
    pub lid: Option<u16>,
    /// LMC; absent if unknown.
    pub lmc: Option<u8>,
    /// Logical state; absent if unknown: the port's agent did not answer, or is on another rail.
    pub state: Option<PortState>,
    /// Physical state; absent if unknown.
    pub phys_state: Option<PhysState>,
    /// Width of the link, if it is trained.
    pub width: Option<LinkWidth>,
    /// Speed of the link, if it is trained.
    pub speed: Option<LinkSpeed>,
    /// Largest payload that may be sent, in bytes; absent if unknown.
    pub mtu_bytes: Option<u16>,
    /// The port at the other end of the cable.
    pub peer: Option<End>,
    /// The reason for which the port is not ACTIVE, as a stable code.
    pub reason_code: Option<String>,
    /// The reason for which the port is not ACTIVE, as text.
    pub reason: Option<String>,
}

/// Ports by node GUID, then number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// The ports.
    pub ports: Vec<Port>,
}

impl Body for Ports {
    const SCHEMA: &'static str = "selvedge.ports";
    const VERSION: u32 = 2;
}

/// Returns the requested ports of a snapshot; `reason` gives the code and text why a port is not ACTIVE.
#[must_use]
pub fn ports(
    fabric: &selvedge_fabric::Fabric,
    wanted: impl Fn(PortRef) -> bool,
    reason: impl Fn(PortRef) -> Option<(&'static str, String)>,
) -> Ports {
    let port = |at: PortRef, port: &selvedge_fabric::Port| {
        let node = fabric.node(at.node);
        let trained = (port.is_up() && at.port != PortNum::MANAGEMENT).then_some(port.link.rate);
        let reason = reason(at);
        let settings = (!port.unread).then_some(port.settings);
        Port {
            node_guid: node.guid,
            node_name: node.description.clone(),
            port: at.port.get(),
            guid: Some(port.guid).filter(|guid| !port.unread || *guid != Guid::NONE),
            lid: settings.map(|settings| settings.lids.base.0),
            lmc: settings.map(|settings| settings.lids.lmc.get()),
            state: known_state(port),
            phys_state: (!port.unread).then_some(port.link.phys),
            width: trained.map(|rate| rate.width),
            speed: trained.map(|rate| rate.speed),
            mtu_bytes: settings.map(|settings| settings.mtu.bytes()),
            peer: port.peer.map(|peer| End::of(fabric, peer)),
            reason_code: reason.as_ref().map(|(code, _)| (*code).to_owned()),
            reason: reason.map(|(_, words)| words),
        }
    };
    let of_node = |(node, n): (_, &selvedge_fabric::Node)| {
        n.all_ports()
            .map(|(num, p)| (PortRef { node, port: num }, p))
            .filter(|&(at, _)| wanted(at))
            .map(|(at, p)| port(at, p))
            .collect::<Vec<_>>()
    };
    Ports {
        ports: fabric.nodes().iter_enumerated().flat_map(of_node).collect(),
    }
}

/// A cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// One end of the link.
    pub a: End,
    /// The other end of the link.
    pub b: End,
    /// Logical state at `a`; absent if unknown.
    pub state_a: Option<PortState>,
    /// Logical state at `b`; absent if unknown.
    pub state_b: Option<PortState>,
    /// Width and speed, such as `4xHDR`, if the link is trained.
    pub rate: Option<String>,
}

/// Cables by the GUID and port of their first end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// The cables.
    pub links: Vec<Link>,
}

impl Body for Links {
    const SCHEMA: &'static str = "selvedge.links";
    const VERSION: u32 = 2;
}

/// Returns all cables of a snapshot.
#[must_use]
pub fn links(fabric: &selvedge_fabric::Fabric) -> Links {
    let state = |at| fabric.port(at).and_then(known_state);
    let rate = |at| {
        fabric
            .port(at)
            .filter(|_| fabric.link_is_up(at))
            .map(|p| p.link.rate.to_string())
    };
    Links {
        links: fabric
            .links()
            .map(|link| Link {
                a: End::of(fabric, link.a),
                b: End::of(fabric, link.b),
                state_a: state(link.a),
                state_b: state(link.b),
                rate: rate(link.a),
            })
            .collect(),
    }
}

/// Ports that are not ACTIVE for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonCount {
    /// Stable code.
    pub code: String,
    /// The reason as text.
    pub reason: String,
    /// Ports.
    pub ports: u64,
    /// Names of the first few of these ports.
    pub examples: Vec<String>,
}

/// Number of ports that a list of examples names at most.
const EXAMPLES_MAX: usize = 4;

/// Counts the reasons why ports are not ACTIVE: (port's name, code, text) each.
#[must_use]
pub fn count_reasons(ports: impl Iterator<Item = (String, &'static str, String)>) -> Vec<ReasonCount> {
    let mut counts: BTreeMap<&'static str, ReasonCount> = BTreeMap::new();
    for (name, code, reason) in ports {
        let count = counts.entry(code).or_insert_with(|| ReasonCount {
            code: code.to_owned(),
            reason,
            ports: 0,
            examples: Vec::new(),
        });
        count.ports += 1;
        if count.examples.len() < EXAMPLES_MAX {
            count.examples.push(name);
        }
    }
    counts.into_values().collect()
}
