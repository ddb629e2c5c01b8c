//! Builds a fabric from a plane: copies, hosts, removed cables, GUIDs, rates.

use selvedge_fabric::{Fabric, FabricBuilder, LinkState, Node, NodeKey, PortCapability};
use selvedge_types::{Guid, LinkSpeed, LinkWidth, NodeKind, PhysState, PortNum, PortState, Rate};

use crate::SpecError;
use crate::generate::plane::Plane;
use crate::generate::{GuidOrder, LinkRemoval, Recipe};

/// A locally administered OUI, which no real device has.
const OUI: u32 = 0x02_5E1E;
/// First GUID of switches, of hosts, and of both if they are mixed.
const SWITCH_GUIDS: u64 = ((OUI as u64) << 40) | 0x01_0000_0000;
const HOST_GUIDS: u64 = ((OUI as u64) << 40) | 0x02_0000_0000;
const MIXED_GUIDS: u64 = ((OUI as u64) << 40) | 0x03_0000_0000;
/// Number of GUIDs per channel adapter or mixed node: the node's and its ports'.
const GUIDS_PER_NODE: u64 = 8;
/// Device ids, to distinguish the two kinds.
const SWITCH_DEVICE: u16 = 1;
const HOST_DEVICE: u16 = 2;
/// Vendor and device of nodes with FDR10: SwitchX and ConnectX-3, which only Mellanox makes. infiniband-diags query no
/// other device for FDR10.
const FDR10_SWITCH: (u32, u16) = (0x2C9, 0xC738);
const FDR10_HOST: (u32, u16) = (0x2C9, 0x1003);

/// A port of a node: index of the node, port number.
type End = (usize, u8);

/// Returns the fabric that `recipe` makes of `plane`.
pub fn fabric(recipe: &Recipe, plane: &Plane) -> Result<Fabric, SpecError> {
    let mut nodes = nodes(recipe, plane);
    let mut cables = switch_cables(recipe, plane);
    remove_links(recipe, &mut cables)?;
    cables.extend(host_cables(recipe, plane));
    for &(node, port) in cables.iter().flat_map(|(a, b)| [a, b]) {
        if let Some(port) = PortNum::new(port).and_then(|num| nodes[node].port_mut(num)) {
            port.link = LinkState {
                state: PortState::Init,
                phys: PhysState::LinkUp,
                rate: recipe.options.rate,
            };
        }
    }
    let mut builder = FabricBuilder::new();
    let keys: Vec<NodeKey> = nodes.into_iter().map(|node| builder.add(node)).collect();
    for (a, b) in cables {
        let end = |(node, port): End| (keys[node], PortNum::new(port).unwrap_or_default());
        builder.link(end(a), end(b)).map_err(|e| recipe.contradiction(e))?;
    }
    builder.finish().map_err(|e| recipe.contradiction(e))
}

/// Returns all nodes: the switches of each plane, then the channel adapters of the hosts.
fn nodes(recipe: &Recipe, plane: &Plane) -> Vec<Node> {
    let (rails, capability) = (recipe.options.rails, capability(recipe));
    let hosts: usize = plane.switches.iter().map(|s| s.hosts as usize).sum();
    let per_host = usize::from(recipe.options.hcas);
    let hcas = hosts * per_host;
    let switches = plane.switches.len() * usize::from(rails);
    let mut order: Vec<u64> = (0..(switches + hcas) as u64).collect();
    let guids = recipe.options.guids;
    if guids == GuidOrder::Shuffled {
        recipe.options.seed.child("guids").rng().shuffle(&mut order);
    }
    let mut nodes = Vec::with_capacity(switches + hcas);
    for rail in 0..rails {
        let prefix = if rails > 1 {
            format!("S-P{rail}-")
        } else {
            "S-".to_owned()
        };
        for switch in &plane.switches {
            let guid = match guids {
                GuidOrder::Ordered => SWITCH_GUIDS + nodes.len() as u64,
                GuidOrder::Shuffled => MIXED_GUIDS + GUIDS_PER_NODE * order[nodes.len()],
            };
            let name = format!("{prefix}{}", switch.name);
            nodes.push(with_capability(
                Node::new(NodeKind::Switch, Guid(guid), plane.ports, name),
                capability,
                SWITCH_DEVICE,
            ));
        }
    }
    for hca in 0..hcas {
        let guid = match guids {
            GuidOrder::Ordered => HOST_GUIDS + GUIDS_PER_NODE * hca as u64,
            GuidOrder::Shuffled => MIXED_GUIDS + GUIDS_PER_NODE * order[nodes.len()],
        };
        let node = Node::new(
            NodeKind::Ca,
            Guid(guid),
            recipe.options.ports_per_host / recipe.options.hcas,
            match per_host {
                1 => format!("H-{hca}"),
                _ => format!("H-{} HCA-{}", hca / per_host, hca % per_host + 1),
            },
        );
        let capability = PortCapability {
            guids: recipe.options.guid_cap,
            ..capability
        };
        nodes.push(with_capability(node, capability, HOST_DEVICE));
    }
    nodes
}

fn with_capability(mut node: Node, capability: PortCapability, device: u16) -> Node {
    (node.vendor_id, node.device_id) = match (capability.speed, node.kind) {
        (LinkSpeed::Fdr10, NodeKind::Switch) => FDR10_SWITCH,
        (LinkSpeed::Fdr10, NodeKind::Ca | NodeKind::Router) => FDR10_HOST,
        _ => (OUI, device),
    };
    let guid = node.guid.0;
    for num in (0..=node.port_count()).filter_map(PortNum::new) {
        let kind = node.kind;
        let Some(port) = node.port_mut(num) else { continue };
        port.capability = capability;
        if kind != NodeKind::Switch {
            port.guid = Guid(guid + u64::from(num.get()));
        } else if num == PortNum::MANAGEMENT {
            // The management port has no cable; it is always up.
            (port.link.state, port.link.phys) = (PortState::Active, PhysState::LinkUp);
        }
    }
    node
}

fn capability(recipe: &Recipe) -> PortCapability {
    let Rate { width, speed } = recipe.options.rate;
    PortCapability {
        mtu: recipe.options.mtu,
        vls: recipe.options.vls,
        widths: LinkWidth::X1.bit() | width.bit(),
        speed,
        ..PortCapability::default()
    }
}

/// Returns the cables between switches of all planes.
fn switch_cables(recipe: &Recipe, plane: &Plane) -> Vec<(End, End)> {
    let host_ports = |switch: usize| plane.switches[switch].hosts * recipe.ports_per_plane();
    let mut cables = Vec::with_capacity(plane.cables.len() * usize::from(recipe.options.rails));
    for rail in 0..usize::from(recipe.options.rails) {
        let end = |(switch, port): (usize, u32)| {
            (
                rail * plane.switches.len() + switch,
                port_number(host_ports(switch) + port),
            )
        };
        cables.extend(plane.cables.iter().map(|cable| (end(cable.a), end(cable.b))));
    }
    cables
}

/// Returns the cables between hosts and switches.
///
/// The ports of one host on one plane are distributed over different switches. Each switch gets as many ports of every
/// rank as it has hosts, so its host ports are sufficient.
fn host_cables(recipe: &Recipe, plane: &Plane) -> Vec<(End, End)> {
    let (rails, per_plane) = (usize::from(recipe.options.rails), recipe.ports_per_plane() as usize);
    let places: Vec<(usize, u32)> = plane
        .switches
        .iter()
        .enumerate()
        .flat_map(|(switch, s)| (0..s.hosts).map(move |place| (switch, place)))
        .collect();
    let step = plane
        .switches
        .iter()
        .map(|s| s.hosts)
        .find(|&hosts| hosts > 0)
        .unwrap_or(0) as usize;
    let first_host = plane.switches.len() * rails;
    // Checked: each adapter has at least one port.
    let per_hca = usize::from(recipe.options.ports_per_host / recipe.options.hcas);
    let mut cables = Vec::with_capacity(places.len() * rails * per_plane);
    for host in 0..places.len() {
        for rank in 0..per_plane {
            let (switch, place) = places[(host + rank * step) % places.len()];
            let port = port_number(place * recipe.ports_per_plane() + rank as u32 + 1);
            for rail in 0..rails {
                let host_port = rank * rails + rail;
                let hca = host * usize::from(recipe.options.hcas) + host_port / per_hca;
                cables.push((
                    (first_host + hca, port_number((host_port % per_hca) as u32 + 1)),
                    (rail * plane.switches.len() + switch, port),
                ));
            }
        }
    }
    cables
}

fn remove_links(recipe: &Recipe, cables: &mut Vec<(End, End)>) -> Result<(), SpecError> {
    let Some(count) = recipe.options.removal.of(cables.len()) else {
        let want = format!("at most the {} cables between switches", cables.len());
        let wanted = match recipe.options.removal {
            LinkRemoval::Count(wanted) | LinkRemoval::PerMillion(wanted) => wanted.to_string(),
        };
        return Err(recipe.bad("remove-links", &wanted, &want));
    };
    if count == 0 {
        return Ok(());
    }
    let mut order: Vec<usize> = (0..cables.len()).collect();
    recipe.options.seed.child("remove-links").rng().shuffle(&mut order);
    let mut keep = vec![true; cables.len()];
    for &at in &order[..count] {
        keep[at] = false;
    }
    let mut kept = keep.into_iter();
    cables.retain(|_| kept.next().unwrap_or(true));
    Ok(())
}

/// Converts a port number. It is at most 254, because sizes are checked before memory is allocated.
fn port_number(port: u32) -> u8 {
    u8::try_from(port).unwrap_or(u8::MAX)
}
