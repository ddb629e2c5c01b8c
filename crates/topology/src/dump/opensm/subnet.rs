//! Links of a subnet.

use std::fmt::Write as _;

use selvedge_fabric::{Fabric, Node, PortRef};
use selvedge_types::{LinkSpeed, LinkWidth, NodeKind, PortNum, PortState};

use super::Sink;
use crate::dump::lfts_write::print_description;

/// Writes `opensm-subnet.lst`: a line for each port with a peer, with both ends, rate and state of the link.
///
/// As in OpenSM, DevID of the second end is in the upper half of eight digits. Speeds that OpenSM 3.3.23 does not know
/// (NDR) are printed as numbers, where OpenSM writes `??`.
pub fn write_subnet(fabric: &Fabric, sink: Sink<'_>) {
    let mut order: Vec<_> = fabric.nodes().indices().collect();
    order.sort_by_key(|&node| fabric.node(node).guid.opensm_order());
    let mut text = String::new();
    for node in order {
        for (port, end) in fabric.node(node).external_ports() {
            let Some(peer) = end.peer else { continue };
            let at = PortRef { node, port };
            // Writing to a String cannot fail.
            let _ = write_end(&mut text, fabric, at, Which::First);
            let _ = write_end(&mut text, fabric, peer, Which::Second);
            let _ = writeln!(
                text,
                "PHY={} LOG={} SPD={}",
                width(end.link.rate.width),
                state(end.link.state),
                speed(end.link.rate.speed)
            );
        }
        sink(&text);
        text.clear();
    }
}

/// The position of a link's end in a line. The second end has more digits in two of its numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    First,
    Second,
}

fn write_end(text: &mut String, fabric: &Fabric, at: PortRef, which: Which) -> std::fmt::Result {
    let node = fabric.node(at.node);
    // A switch's ports have the LID and GUID of its port 0.
    let own = match node.is_switch() {
        true => PortNum::MANAGEMENT,
        false => at.port,
    };
    let end = node.port(own);
    let guid = end.map(|port| port.guid.0).unwrap_or_default();
    let settings = end.map(|port| port.settings).unwrap_or_default();
    let is_sm = settings.lids.base == settings.sm_lid;
    write!(
        text,
        "{{ {}{} Ports:{:02X} SystemGUID:{:016x} NodeGUID:{:016x} PortGUID:{guid:016x} ",
        kind(node),
        if is_sm { "-SM" } else { "" },
        node.port_count(),
        node.system_guid.0,
        node.guid.0,
    )?;
    match which {
        Which::First => write!(text, "VenID:{:06X} DevID:{:04X}", node.vendor_id, node.device_id)?,
        Which::Second => write!(
            text,
            "VenID:{:08X} DevID:{:04X}",
            node.vendor_id,
            u32::from(node.device_id) << 16
        )?,
    }
    write!(
        text,
        " Rev:{:08X} {{{}}} LID:{:04X} PN:{:02X} }} ",
        node.revision,
        print_description(node),
        settings.lids.base.0,
        at.port.get()
    )
}

const fn kind(node: &Node) -> &'static str {
    match node.kind {
        NodeKind::Switch => "SW",
        NodeKind::Ca => "CA",
        NodeKind::Router => "Rt",
    }
}

const fn width(width: LinkWidth) -> &'static str {
    match width {
        LinkWidth::X1 => "1x",
        LinkWidth::X2 => "2x",
        LinkWidth::X4 => "4x",
        LinkWidth::X8 => "8x",
        LinkWidth::X12 => "12x",
    }
}

const fn state(state: PortState) -> &'static str {
    match state {
        PortState::Active => "ACT",
        PortState::Armed => "ARM",
        PortState::Init => "INI",
        PortState::Down => "DWN",
    }
}

const fn speed(speed: LinkSpeed) -> &'static str {
    match speed {
        LinkSpeed::Sdr => "2.5",
        LinkSpeed::Ddr => "5",
        LinkSpeed::Qdr => "10",
        LinkSpeed::Fdr10 => "FDR10",
        LinkSpeed::Fdr => "14",
        LinkSpeed::Edr => "25",
        LinkSpeed::Hdr => "50",
        LinkSpeed::Ndr => "100",
        LinkSpeed::Xdr => "200",
        LinkSpeed::Unknown => "??",
    }
}
