//! Tables of the snapshot, with one row for each object that a record describes.

use selvedge_fabric::{Node, Port, PortRef, SwitchIdx};
use selvedge_plan::{ArbBlock, BLOCK_LIDS};
use selvedge_types::{Lid, NodeKind, PortNum, Sl, Vl};
use selvedge_wire::sa::{Layout, SaData, records};
use selvedge_wire::{
    Attribute, Bits, GuidInfo, MulticastForwardingTable, NodeDescription, NodeInfo, PKeyTable, PortInfo, SlToVl,
    SwitchInfo, VlArbEntry, VlArbitration, VlCount,
};

use crate::query::{Advance, Cursor, Ground, Step};
use crate::snapshot::EndPort;

/// A table of the snapshot.
pub struct Table {
    /// Layout of the record.
    pub layout: &'static Layout,
    /// Function that writes the rows.
    pub advance: Advance,
    /// True if only trusted requesters see it. Source: IBA vol 1 §15.4.1.2 (table of access restrictions).
    pub trusted_only: bool,
}

/// All tables. Each is ordered by end port in order of LIDs, and component 0 of each is the LID.
pub static TABLES: [Table; 12] = [
    table(&records::NODE, node),
    table(&records::PORT_INFO, port_info),
    table(&records::SL_TO_VL, sl_to_vl),
    table(&records::SWITCH_INFO, switch_info),
    table(&records::LINEAR_FORWARDING, linear_forwarding),
    table(&records::MULTICAST_FORWARDING, multicast_forwarding),
    table(&records::SM_INFO, sm_info),
    table(&records::LINK, link),
    table(&records::GUID_INFO, guid_info),
    Table {
        trusted_only: true,
        ..table(&records::PKEY_TABLE, pkey_table)
    },
    table(&records::VL_ARBITRATION, vl_arbitration),
    Table {
        trusted_only: true,
        ..table(&records::TOLD_LEVEL, told_level)
    },
];

const fn table(layout: &'static Layout, advance: Advance) -> Table {
    Table {
        layout,
        advance,
        trusted_only: false,
    }
}

/// Gets the end port at the cursor with its node and port, or moves on if there is none.
macro_rules! at_cursor {
    ($ground:ident, $cursor:ident) => {{
        let place = u32::try_from($cursor.outer).unwrap_or(u32::MAX);
        let Some(end) = $ground.snapshot.end(place) else {
            return Step::End;
        };
        let node = $ground.snapshot.fabric().node(end.at.node);
        (end, node)
    }};
}

/// Ends the only row at the cursor.
const fn only_row(cursor: &mut Cursor) -> Step {
    cursor.next_outer();
    Step::Row
}

/// Moves the cursor on; this position has no row.
const fn none(cursor: &mut Cursor) -> Step {
    cursor.next_outer();
    Step::Nothing
}

/// Writes an attribute into a row, from byte `at` on.
fn put(row: &mut SaData, at: usize, bytes: &[u8]) {
    for (slot, byte) in row.iter_mut().skip(at).zip(bytes) {
        *slot = *byte;
    }
}

fn node_info(end: &EndPort, node: &Node) -> NodeInfo {
    NodeInfo {
        base_version: 1,
        class_version: 1,
        kind: node.kind,
        port_count: node.port_count(),
        system_guid: node.system_guid,
        node_guid: node.guid,
        port_guid: end.guid,
        partition_cap: node.partition_cap,
        device_id: node.device_id,
        revision: node.revision,
        local_port: end.at.port.get(),
        vendor_id: node.vendor_id,
    }
}

fn node(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    records::node::LID.set(row, u64::from(end.lids.base.0));
    put(row, 4, &node_info(end, node).emit()[..40]);
    records::node::DESCRIPTION.put(row, &NodeDescription::new(&node.description).raw);
    only_row(cursor)
}

/// Returns the PortInfo last read from the agent, updated with the settings of the plan.
fn port_info_now(at: PortRef, node: &Node, port: &Port, seen: &PortInfo) -> PortInfo {
    let set = &port.settings;
    let external = node.kind == NodeKind::Switch && at.port != PortNum::MANAGEMENT;
    let mut info = PortInfo {
        // The M_Key is not shown: the SM_Key does not entitle a requester to it.
        m_key: 0,
        neighbor_mtu: seen.neighbor_mtu.map(|_| set.mtu),
        oper_vls: VlCount::from_code(set.oper_vls),
        vl_high_limit: set.vl_high_limit,
        hoq_life: Bits::saturating(set.hoq_life),
        vl_stall_count: Bits::saturating(set.vl_stall_count),
        local_phy_errors: Bits::saturating(set.local_phy_errors),
        overrun_errors: Bits::saturating(set.overrun_errors),
        state: seen.state.map(|_| port.link.state),
        phys_state: seen.phys_state.map(|_| port.link.phys),
        client_reregister: false,
        ..*seen
    };
    if !external {
        info = PortInfo {
            gid_prefix: set.subnet_prefix,
            lid: set.lids.base,
            lmc: set.lids.lmc,
            sm_lid: set.sm_lid,
            sm_sl: set.sm_sl,
            m_key_lease: set.m_key_lease_s,
            m_key_protect: Bits::saturating(set.m_key_protect),
            subnet_timeout: Bits::saturating(set.subnet_timeout),
            ..info
        };
    }
    info
}

fn port_info(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    let num = if end.is_switch {
        u8::try_from(cursor.inner).ok().filter(|&num| num <= node.port_count())
    } else {
        (cursor.inner == 0).then(|| end.at.port.get())
    };
    let Some(num) = num.and_then(PortNum::new) else {
        return none(cursor);
    };
    cursor.inner += 1;
    let at = PortRef { port: num, ..end.at };
    let (Some(port), Some(seen)) = (node.port(num), ground.snapshot.sources.agents.port_info(at)) else {
        return Step::Nothing;
    };
    records::port_info::LID.set(row, u64::from(end.lids.base.0));
    records::port_info::PORT.set(row, u64::from(num.get()));
    put(row, 4, &port_info_now(at, node, port, seen).emit());
    Step::Row
}

fn switch_info(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    let Some(seen) = ground
        .snapshot
        .sources
        .agents
        .switch_info(end.at.node)
        .filter(|_| end.is_switch)
    else {
        return none(cursor);
    };
    let info = SwitchInfo {
        linear_top: Lid(node.switch_settings.linear_top),
        lifetime_value: Bits::saturating(node.switch_settings.lifetime),
        port_state_change: false,
        ..*seen
    };
    records::switch_info::LID.set(row, u64::from(end.lids.base.0));
    put(row, 4, &info.emit()[..20]);
    only_row(cursor)
}

/// Writes one direction of every cable that is up, at its source.
fn link(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    let num = if end.is_switch {
        u8::try_from(cursor.inner + 1)
            .ok()
            .filter(|&num| num <= node.port_count())
    } else {
        (cursor.inner == 0).then(|| end.at.port.get())
    };
    let Some(num) = num.and_then(PortNum::new) else {
        return none(cursor);
    };
    cursor.inner += 1;
    let (fabric, plan) = (ground.snapshot.fabric(), ground.snapshot.plan());
    let at = PortRef { port: num, ..end.at };
    let Some(peer) = fabric.peer(at).filter(|_| fabric.link_is_up(at)) else {
        return Step::Nothing;
    };
    let behind = match fabric.node(peer.node).is_switch() {
        true => PortRef {
            port: PortNum::MANAGEMENT,
            ..peer
        },
        false => peer,
    };
    let Some(lid) = plan.lids.base(behind) else {
        return Step::Nothing;
    };
    records::link::FROM_LID.set(row, u64::from(end.lids.base.0));
    records::link::FROM_PORT.set(row, u64::from(num.get()));
    records::link::TO_PORT.set(row, u64::from(peer.port.get()));
    records::link::TO_LID.set(row, u64::from(lid.0));
    Step::Row
}

fn switch_at(ground: &Ground<'_>, end: &EndPort) -> Option<SwitchIdx> {
    ground.snapshot.fabric().switch_index(end.at.node)
}

fn linear_forwarding(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, _) = at_cursor!(ground, cursor);
    let tables = &ground.snapshot.plan().tables;
    let block = cursor.inner as usize;
    let Some(switch) = switch_at(ground, end).filter(|_| block < tables.blocks()) else {
        return none(cursor);
    };
    cursor.inner += 1;
    records::linear_forwarding::LID.set(row, u64::from(end.lids.base.0));
    records::linear_forwarding::BLOCK.set(row, block as u64);
    let entries: &[u8; BLOCK_LIDS] = tables.block(switch, block);
    records::linear_forwarding::TABLE.put(row, entries);
    Step::Row
}

/// Writes known MFT blocks of switches that copy something.
fn multicast_forwarding(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    let held = ground.registered.copies.get(&node.guid).filter(|_| end.is_switch);
    let found = held.and_then(|held| held.iter().nth(cursor.inner as usize));
    let Some((&(block, position), &masks)) = found else {
        return none(cursor);
    };
    cursor.inner += 1;
    if masks.iter().all(|mask| *mask == 0) {
        return Step::Nothing;
    }
    records::multicast_forwarding::LID.set(row, u64::from(end.lids.base.0));
    records::multicast_forwarding::POSITION.set(row, u64::from(position));
    records::multicast_forwarding::BLOCK.set(row, u64::from(block));
    records::multicast_forwarding::TABLE.put(row, &MulticastForwardingTable { masks }.emit());
    Step::Row
}

/// Writes the planned SLtoVL rows: one row for a host's port; for a switch one row for each pair of an ingress and an
/// egress port. The row from port 0 of a switch to itself comes from its agent. If the plan writes no lane tables,
/// there are no rows: the tables of ports then have unknown contents from an earlier manager.
fn sl_to_vl(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    let plan = ground.snapshot.plan();
    if plan.lane_tables.is_none() {
        return Step::End;
    }
    let ports = u32::from(node.port_count());
    let (input, output, lanes) = match switch_at(ground, end) {
        Some(switch) => {
            // Ingress 0 (the switch's own port) to the last, each with egress 0 to the last.
            let (input, output) = (cursor.inner / (ports + 1), cursor.inner % (ports + 1));
            let num = |n: u32| u8::try_from(n).ok().and_then(PortNum::new);
            let (Some(input), Some(output)) = (num(input), num(output)) else {
                return none(cursor);
            };
            if u32::from(input.get()) > ports {
                return none(cursor);
            }
            cursor.inner += 1;
            let at = |port| PortRef { port, ..end.at };
            let has_link = |port| port == PortNum::MANAGEMENT || plan.ports.contains_key(&at(port));
            let lanes = match output {
                // Port 0 accepts packets on any lane. No plan contains that row, so it is shown only if it is known.
                PortNum::MANAGEMENT if input == output => ground.snapshot.own_row(switch),
                PortNum::MANAGEMENT => None,
                // A port without a link is not in the plan; its rows are written before it gets a link.
                _ => plan.row(at(output), input).filter(|_| has_link(input)),
            };
            let Some(lanes) = lanes else {
                return Step::Nothing;
            };
            (input.get(), output.get(), lanes)
        }
        None if cursor.inner > 0 => return none(cursor),
        None => {
            cursor.inner += 1;
            let Some(lanes) = plan.row(end.at, PortNum::MANAGEMENT) else {
                return Step::Nothing;
            };
            (0, 0, lanes)
        }
    };
    records::sl_to_vl::LID.set(row, u64::from(end.lids.base.0));
    records::sl_to_vl::IN_PORT.set(row, u64::from(input));
    records::sl_to_vl::OUT_PORT.set(row, u64::from(output));
    let lanes: [Vl; Sl::COUNT] = lanes;
    records::sl_to_vl::TABLE.put(row, &SlToVl { vls: lanes }.emit()[..8]);
    Step::Row
}

/// Writes the planned arbitration tables of ports with a link: a row for each of four blocks, empty if the port has no
/// room for entries, as port 0 of a switch. There are no rows while the plan does not write lane tables. Ports without
/// a link have no rows, because their tables are unknown.
fn vl_arbitration(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    let plan = ground.snapshot.plan();
    if plan.lane_tables.is_none() {
        return Step::End;
    }
    let (number, block) = (cursor.inner / 4, (cursor.inner % 4) as u8 + 1);
    let num = match end.is_switch {
        true => u8::try_from(number).ok().filter(|&num| num <= node.port_count()),
        false => (number == 0).then(|| end.at.port.get()),
    };
    let Some(num) = num.and_then(PortNum::new) else {
        return none(cursor);
    };
    cursor.inner += 1;
    let at = PortRef { port: num, ..end.at };
    let mut entries = VlArbitration::default().entries;
    if num != PortNum::MANAGEMENT {
        let Some(seen) = node.port(num).filter(|_| plan.ports.contains_key(&at)) else {
            return Step::Nothing;
        };
        if ArbBlock::turns_of(block, &seen.capability) > 0 {
            let turns = plan
                .arbitration(ground.snapshot.fabric(), at, block)
                .unwrap_or_default()
                .turns;
            entries = turns.map(|(vl, weight)| VlArbEntry { vl, weight });
        }
    }
    records::vl_arbitration::LID.set(row, u64::from(end.lids.base.0));
    records::vl_arbitration::OUT_PORT.set(row, u64::from(num.get()));
    records::vl_arbitration::BLOCK.set(row, u64::from(block));
    records::vl_arbitration::TABLE.put(row, &VlArbitration { entries }.emit());
    Step::Row
}

fn sm_info(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, _) = at_cursor!(ground, cursor);
    let (at, info) = &ground.snapshot.sources.manager;
    if *at != end.at {
        return none(cursor);
    }
    let mut info = *info;
    info.sm_key = 0;
    records::sm_info::LID.set(row, u64::from(end.lids.base.0));
    put(row, 4, &info.emit()[..21]);
    only_row(cursor)
}

fn guid_info(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    let entries = node
        .port(end.at.port)
        .map_or(0, |port| u32::from(port.capability.guids));
    let blocks = entries.max(1).div_ceil(GuidInfo::PER_BLOCK as u32);
    if cursor.inner >= blocks {
        return none(cursor);
    }
    records::guid_info::LID.set(row, u64::from(end.lids.base.0));
    records::guid_info::BLOCK.set(row, u64::from(cursor.inner));
    // GUIDCap has eight bits.
    let block = u8::try_from(cursor.inner).unwrap_or(u8::MAX);
    ground.registered.aliases.write(end.guid, block, row);
    cursor.inner += 1;
    Step::Row
}

/// Largest number of blocks of a P_KeyTable: a port has at most 65,535 P_Keys.
const PKEY_BLOCKS: u32 = 1 << 11;

/// Writes the planned P_Keys, block by block: of end ports, and of switch ports that enforce partitions.
fn pkey_table(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, node) = at_cursor!(ground, cursor);
    let (number, block) = (cursor.inner / PKEY_BLOCKS, (cursor.inner % PKEY_BLOCKS) as usize);
    let num = match end.is_switch {
        true => u8::try_from(number).ok().filter(|&num| num <= node.port_count()),
        false => (number == 0).then(|| end.at.port.get()),
    };
    let Some(num) = num.and_then(PortNum::new) else {
        return none(cursor);
    };
    let at = PortRef { port: num, ..end.at };
    let keys = if end.is_switch && num != PortNum::MANAGEMENT {
        let enforced = ground.snapshot.plan().end_ports.get(&at);
        enforced.map(|port| &port.pkeys[..])
    } else {
        Some(ground.snapshot.keys(end))
    };
    let held = keys.map(|keys| keys.chunks(PKeyTable::PER_BLOCK).nth(block).unwrap_or_default());
    // The first block exists even if it is empty.
    let Some(held) = held.filter(|held| block == 0 || !held.is_empty()) else {
        cursor.inner = (number + 1) * PKEY_BLOCKS;
        return Step::Nothing;
    };
    cursor.inner += 1;
    let mut table = PKeyTable::default();
    for (slot, key) in table.keys.iter_mut().zip(held) {
        *slot = *key;
    }
    records::pkey_table::LID.set(row, u64::from(end.lids.base.0));
    records::pkey_table::BLOCK.set(row, block as u64);
    records::pkey_table::PORT.set(row, u64::from(num.get()));
    records::pkey_table::TABLE.put(row, &table.emit());
    Step::Row
}

/// Writes the service level of each LID for senders, if routes depend on it. For standbys.
fn told_level(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    let (end, _) = at_cursor!(ground, cursor);
    let plan = ground.snapshot.plan();
    if plan.lanes <= 1 {
        return Step::End;
    }
    let Some(lid) = end.lids.iter().nth(cursor.inner as usize) else {
        return none(cursor);
    };
    cursor.inner += 1;
    records::told_level::LID.set(row, u64::from(lid.0));
    records::told_level::LANES.set(row, u64::from(plan.lanes));
    records::told_level::LEVEL.set(row, u64::from(plan.told_levels().to(lid).get()));
    records::told_level::GUID.set(row, end.guid.0);
    Step::Row
}
