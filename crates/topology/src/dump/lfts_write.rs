//! Writes forwarding tables.

use std::fmt::Write as _;

use selvedge_fabric::{Fabric, Node, PortRef, SwitchIdx};
use selvedge_plan::{Lids, Tables};
use selvedge_types::{Lid, LidRange, NodeKind, PortNum};

use crate::text::printable;

/// The format to write. Both formats are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LftStyle {
    /// `opensm-lfts.dump`, which OpenSM's `file` engine reads.
    Opensm,
    /// The output of `ibroute` for each switch.
    Ibroute,
}

/// Writes the tables of all switches.
#[must_use]
pub fn write_lfts(fabric: &Fabric, lids: &Lids, tables: &Tables, style: LftStyle) -> String {
    let mut order: Vec<SwitchIdx> = fabric.switches().indices().collect();
    if style == LftStyle::Opensm {
        order.sort_by_key(|&switch| fabric.switch(switch).guid.opensm_order());
    }
    let owners: Vec<Option<PortRef>> = (0..=tables.top().0).map(|lid| lids.owner(Lid(lid))).collect();
    let mut text = String::new();
    for switch in order {
        match style {
            LftStyle::Opensm => write_opensm(&mut text, fabric, lids, tables, &owners, switch),
            LftStyle::Ibroute => write_ibroute(&mut text, fabric, lids, tables, &owners, switch),
        }
    }
    text
}

// Writing to a String cannot fail, so the results of `write!` are dropped from here on.

fn write_opensm(
    text: &mut String,
    fabric: &Fabric,
    lids: &Lids,
    tables: &Tables,
    owners: &[Option<PortRef>],
    switch: SwitchIdx,
) {
    let (node, top) = (fabric.switch(switch), tables.top());
    let _ = writeln!(
        text,
        "Unicast lids [0-{top}] of switch Lid {} guid {} ('{}'):",
        own_lid(fabric, lids, switch),
        node.guid,
        print_description(node)
    );
    for (lid, egress, owner) in entries(tables, owners, switch, node) {
        let _ = match owner {
            Some(at) => writeln!(text, "{:#06x} {egress:03} # {}", lid.0, owner_name(fabric, at)),
            None => writeln!(text, "{:#06x} {egress:03} # unknown node and type", lid.0),
        };
    }
    let _ = writeln!(text, "{top} lids dumped");
}

fn write_ibroute(
    text: &mut String,
    fabric: &Fabric,
    lids: &Lids,
    tables: &Tables,
    owners: &[Option<PortRef>],
    switch: SwitchIdx,
) {
    let (node, top) = (fabric.switch(switch), tables.top());
    let _ = writeln!(
        text,
        "Unicast lids [0x0-{:#x}] of switch Lid {} guid {} ({}):\n  Lid  Out   Destination\n       Port     Info ",
        top.0,
        own_lid(fabric, lids, switch),
        node.guid,
        print_description(node)
    );
    let mut count = 0;
    for (lid, egress, owner) in entries(tables, owners, switch, node) {
        let range = owner.and_then(|at| lids.range(at)).unwrap_or(LidRange::single(lid));
        let _ = write!(text, "{:#06x} {egress:03} : ", lid.0);
        let _ = match owner {
            Some(at) if lid == range.base => writeln!(text, "({})", owner_name(fabric, at)),
            Some(at) => writeln!(
                text,
                "(path #{} out of {}: portguid {})",
                lid.0 - range.base.0 + 1,
                range.lmc.lids(),
                fabric.port(at).map(|port| port.guid).unwrap_or_default()
            ),
            None => writeln!(text, "(unknown node and type)"),
        };
        count += 1;
    }
    let _ = writeln!(text, "{count} valid lids dumped ");
}

/// Returns the entries that lead to a port of the switch.
fn entries<'a>(
    tables: &'a Tables,
    owners: &'a [Option<PortRef>],
    switch: SwitchIdx,
    node: &Node,
) -> impl Iterator<Item = (Lid, u8, Option<PortRef>)> + use<'a> {
    let count = node.port_count();
    owners
        .iter()
        .zip(0_u16..)
        .map(move |(&owner, lid)| (Lid(lid), tables.get(switch, Lid(lid)), owner))
        .filter(move |&(_, egress, _)| egress <= count)
}

fn own_lid(fabric: &Fabric, lids: &Lids, switch: SwitchIdx) -> Lid {
    let node = fabric.switches()[switch];
    let port = PortNum::MANAGEMENT;
    lids.base(PortRef { node, port }).unwrap_or(Lid::NONE)
}

fn owner_name(fabric: &Fabric, at: PortRef) -> String {
    let node = fabric.node(at.node);
    let guid = fabric.port(at).map(|port| port.guid).unwrap_or_default();
    format!(
        "{} portguid {guid}: '{}'",
        kind_name(node.kind),
        print_description(node)
    )
}

/// Returns the name of a node kind in OpenSM and infiniband-diags.
pub(super) const fn kind_name(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Ca => "Channel Adapter",
        NodeKind::Switch => "Switch",
        NodeKind::Router => "Router",
    }
}

/// Returns a description without line breaks.
pub(super) fn print_description(node: &Node) -> String {
    node.description.chars().map(printable).collect()
}
