//! Service levels and lanes.

use std::fmt::Write as _;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_types::{Lid, PortNum, Sl, Vl};

use super::lfts_write::{kind_name, print_description};

const HEAD: &str = "#in out : 0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15";
const RULER: &str = "#--------------------------------------------------------";

/// Writes a line `0xDLID SL` for each LID in use.
#[must_use]
pub fn write_service_levels(lids: &Lids, service_levels: &ServiceLevels) -> String {
    let mut text = String::new();
    for (lid, _) in lids.by_lid() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:#06x} {}", lid.0, service_levels.to(lid).get());
    }
    text
}

/// Writes SL2VL tables in the format of `opensm-sl2vl.dump`: all ports with a peer, in OpenSM's order.
///
/// A plan has tables for switches only; hosts are shown with its default.
#[must_use]
pub fn write_sl_to_vl(fabric: &Fabric, lids: &Lids, sl_to_vl: &SlToVl) -> String {
    let mut ports: Vec<PortRef> = fabric.end_ports().map(|(at, _)| at).collect();
    ports.sort_by_key(|&at| fabric.port(at).map(|port| port.guid.opensm_order()));
    let mut text = String::new();
    for at in ports {
        let node = fabric.node(at.node);
        let switch = fabric.switch_index(at.node);
        if switch.is_none() && fabric.peer(at).is_none() {
            continue;
        }
        let guid = fabric.port(at).map(|port| port.guid).unwrap_or_default();
        let lid = lids.base(at).unwrap_or(Lid::NONE);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{} {guid}, base LID {lid}, \"{}\"\n{HEAD}\n{RULER}",
            kind_name(node.kind),
            print_description(node)
        );
        let Some(switch) = switch else {
            row(&mut text, PortNum::MANAGEMENT, PortNum::MANAGEMENT, &sl_to_vl.default);
            let _ = writeln!(text, "{RULER}\n");
            continue;
        };
        for (egress, _) in node.external_ports().filter(|(_, port)| port.peer.is_some()) {
            for (ingress, _) in node.all_ports() {
                row(&mut text, ingress, egress, sl_to_vl.table(switch, ingress, egress));
            }
        }
        let _ = writeln!(text, "{RULER}\n");
    }
    text
}

fn row(text: &mut String, ingress: PortNum, egress: PortNum, lanes: &[Vl; Sl::COUNT]) {
    let _ = write!(text, "{:<3} {:<3} :", ingress.get(), egress.get());
    for vl in lanes {
        let _ = write!(text, " {:<2}", vl.get());
    }
    text.push('\n');
}
