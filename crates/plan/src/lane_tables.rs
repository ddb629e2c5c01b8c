//! SLtoVLMappingTable and VLArbitrationTable: the planned contents, and the known contents.
//!
//! The lane of a packet depends only on its service level. It is the level modulo the number of lanes of the egress
//! link, by the same rule at every switch and channel adapter. Multicast copies use a lane of their own, if there is
//! one. Each of these lanes gets the same share of the link. With quality of service the plan has tables for each port
//! instead ([`PlannedQos`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, Node, NodeIdx, PortCapability, PortRef, PortSettings};
use selvedge_types::{Guid, PortNum, Sl, Vl};

use crate::qos::{Compiled, PathRules, PlannedQos};
use crate::{Op, Plan, ServiceLevels, SlToVl};

/// PortInfo.CapabilityMask bit 6: the port has SLtoVLMappingTables. On a switch, port 0 states this for all ports.
/// Source: IBA vol 1 §14.2.5.6.
const HAS_SL_MAPPING: u32 = 1 << 6;

/// The rows of an SLtoVLMappingTable that one Set writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneRows {
    /// The row for packets that arrived by this port; 0: the node's own packets. A channel adapter's port has only row
    /// 0.
    From(PortNum),
    /// The rows for packets that arrived by any port.
    FromAll,
    /// The rows for packets that arrived by any port and leave by any port.
    Whole,
}

/// A block of 32 arbitration entries: lane, and weight in units of 64 bytes. Weight 0 skips the entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArbBlock {
    /// The entries.
    pub turns: [(Vl, u8); Self::TURNS],
}

impl ArbBlock {
    /// Entries per block. Source: IBA vol 1 §14.2.5.9.
    pub const TURNS: usize = 32;

    /// Returns how many of the entries of block `block` (1 and 2: low priority, 3 and 4: high) a port has.
    #[must_use]
    pub fn turns_of(block: u8, capability: &PortCapability) -> usize {
        let all = usize::from(if block > 2 {
            capability.vl_arb_high
        } else {
            capability.vl_arb_low
        });
        let before = if block.is_multiple_of(2) { Self::TURNS } else { 0 };
        all.min(2 * Self::TURNS).saturating_sub(before).min(Self::TURNS)
    }

    /// Returns the blocks that a port has, 1–4.
    pub fn blocks_of(capability: &PortCapability) -> impl Iterator<Item = u8> + use<> {
        let capability = *capability;
        (1..=4).filter(move |&block| Self::turns_of(block, &capability) > 0)
    }

    /// Returns the block for a port with this number of entries: all further entries are empty.
    #[must_use]
    pub fn cut(mut self, turns: usize) -> Self {
        self.turns
            .iter_mut()
            .skip(turns)
            .for_each(|turn| *turn = Default::default());
        self
    }
}

/// One table of one port, as requested from its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LaneTable {
    /// A row of the SLtoVLMappingTable.
    SlToVl {
        /// The egress port.
        port: PortRef,
        /// The ingress port; 0: packets of the node itself.
        ingress: PortNum,
    },
    /// A block of the VLArbitrationTable.
    Arbitration {
        /// The port.
        port: PortRef,
        /// The block, 1–4.
        block: u8,
    },
}

impl LaneTable {
    /// Returns the egress port.
    #[must_use]
    pub const fn port(&self) -> PortRef {
        match self {
            Self::SlToVl { port, .. } | Self::Arbitration { port, .. } => *port,
        }
    }
}

/// The assignment of packets to lanes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneTables {
    /// Number of data lanes in use, 1–15; a link with fewer lanes uses those.
    pub lanes: u8,
    /// A further lane, above those of routes, for multicast copies only. Packets get it by their service level
    /// ([`crate::COPIES_LEVEL`]). On a link without this lane, copies use the lane that any packet of this level would
    /// use.
    pub copies: Option<Vl>,
    /// The service level of each destination, for hosts.
    pub levels: ServiceLevels,
    /// Quality of service: the tables of each port. `None`: all ports follow [`Self::lanes`] and [`Self::copies`].
    pub qos: Option<Arc<PlannedQos>>,
}

impl LaneTables {
    /// Amount that a lane may send in its turn, in units of 64 bytes: a packet of 4,096 bytes, the largest size.
    pub const WEIGHT: u8 = 64;

    /// Returns the row of the SLtoVLMappingTable towards a link with this many lanes.
    fn row(&self, link_lanes: u8) -> [Vl; Sl::COUNT] {
        SlToVl::with_copies(self.lanes.min(link_lanes), self.copies_on(link_lanes)).default
    }

    /// Returns the lane of multicast copies, if a link with this many lanes has it.
    fn copies_on(&self, link_lanes: u8) -> Option<Vl> {
        self.copies.filter(|own| own.get() < link_lanes)
    }

    /// Returns a block of the VLArbitrationTable of a port with this many lanes. All lanes in use, including that of
    /// multicast copies, have an entry of low priority. So no lane starves another, and bandwidth that one lane does
    /// not use goes to the others. If the low-priority table is too short, the remaining lanes have entries of high
    /// priority.
    fn arbitration(&self, block: u8, link_lanes: u8, capability: &PortCapability) -> ArbBlock {
        let own = self.copies_on(link_lanes);
        let shared = (0..self.lanes.min(link_lanes).max(1)).filter_map(Vl::new);
        let lanes: Vec<Vl> = shared.filter(|lane| Some(*lane) != own).chain(own).collect();
        let low = usize::from(capability.vl_arb_low.min(64)).min(lanes.len());
        let served = if block > 2 { &lanes[low..] } else { &lanes[..low] };
        let mut found = ArbBlock::default();
        // With at most 15 lanes the second block of either priority stays empty.
        if block % 2 == 1 {
            for (turn, vl) in found.turns.iter_mut().zip(served) {
                *turn = (*vl, Self::WEIGHT);
            }
        }
        found.cut(ArbBlock::turns_of(block, capability))
    }
}

impl Plan {
    /// Returns the planned classes of traffic, if the plan has some.
    #[must_use]
    pub fn classes(&self) -> Option<&Arc<Compiled>> {
        match &self.lane_tables.as_ref()?.qos.as_ref()?.rules {
            PathRules::Classes(classes) => Some(classes),
            PathRules::OpenSm(_) => None,
        }
    }

    /// Returns the planned row of the SLtoVLMappingTable towards `egress` for packets that arrived by `ingress` (0: the
    /// node's own packets). `None`: no row is planned, because the port has no link or the plan writes no lane tables.
    #[must_use]
    pub fn row(&self, egress: PortRef, ingress: PortNum) -> Option<[Vl; Sl::COUNT]> {
        let tables = self.lane_tables.as_ref()?;
        match &tables.qos {
            Some(qos) => qos.ports.get(&egress)?.row(ingress),
            None => Some(tables.row(link_lanes(self.ports.get(&egress)?))),
        }
    }

    /// Returns a planned block of the VLArbitrationTable of a port, 1–4. `None`: none is planned, for the same reasons
    /// as in [`Self::row`].
    #[must_use]
    pub fn arbitration(&self, fabric: &Fabric, port: PortRef, block: u8) -> Option<ArbBlock> {
        let tables = self.lane_tables.as_ref()?;
        match &tables.qos {
            Some(qos) => qos.ports.get(&port)?.block(block),
            None => {
                let (settings, seen) = (self.ports.get(&port)?, fabric.port(port)?);
                Some(tables.arbitration(block, link_lanes(settings), &seen.capability))
            }
        }
    }
}

/// Known tables of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    /// Contents of all rows that are not in `rows`.
    whole: Option<[Vl; Sl::COUNT]>,
    /// Rows by egress and ingress.
    rows: BTreeMap<(PortNum, PortNum), [Vl; Sl::COUNT]>,
    /// Arbitration blocks by port and number.
    turns: BTreeMap<(PortNum, u8), ArbBlock>,
}

/// Known SLtoVLMappingTables and VLArbitrationTables, by node GUID, so that they remain valid after a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldLanes {
    nodes: BTreeMap<Guid, Held>,
}

impl HeldLanes {
    /// True if nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns a row, if known.
    #[must_use]
    pub fn row(&self, node: Guid, egress: PortNum, ingress: PortNum) -> Option<&[Vl; Sl::COUNT]> {
        let held = self.nodes.get(&node)?;
        held.rows.get(&(egress, ingress)).or(held.whole.as_ref())
    }

    /// Returns a block, if known.
    #[must_use]
    pub fn turns(&self, node: Guid, port: PortNum, block: u8) -> Option<&ArbBlock> {
        self.nodes.get(&node)?.turns.get(&(port, block))
    }

    /// Records rows. `ports` is the highest port number of the node.
    pub fn learn_rows(&mut self, node: Guid, egress: PortNum, rows: LaneRows, ports: u8, lanes: [Vl; Sl::COUNT]) {
        let held = self.nodes.entry(node).or_default();
        match rows {
            LaneRows::From(ingress) => {
                held.rows.insert((egress, ingress), lanes);
            }
            LaneRows::FromAll => {
                let all = (0..=ports).filter_map(PortNum::new);
                held.rows.extend(all.map(|ingress| ((egress, ingress), lanes)));
            }
            LaneRows::Whole => {
                held.rows.clear();
                held.whole = Some(lanes);
            }
        }
    }

    /// Records a block.
    pub fn learn_turns(&mut self, node: Guid, port: PortNum, block: u8, turns: ArbBlock) {
        self.nodes.entry(node).or_default().turns.insert((port, block), turns);
    }

    /// Marks rows as unknown.
    pub fn forget_rows(&mut self, node: Guid, egress: PortNum, rows: LaneRows) {
        let Some(held) = self.nodes.get_mut(&node) else { return };
        if held.whole.take().is_some() {
            // The common row is unknown too, so all rows are.
            held.rows.clear();
        }
        match rows {
            LaneRows::From(ingress) => {
                held.rows.remove(&(egress, ingress));
            }
            LaneRows::FromAll => held.rows.retain(|(port, _), _| *port != egress),
            LaneRows::Whole => held.rows.clear(),
        }
    }

    /// Marks a block as unknown.
    pub fn forget_turns(&mut self, node: Guid, port: PortNum, block: u8) {
        if let Some(held) = self.nodes.get_mut(&node) {
            held.turns.remove(&(port, block));
        }
    }

    /// Marks all tables of a port as unknown; for port 0 of a switch, all tables of the switch.
    pub fn forget_port(&mut self, node: &Node, port: PortNum) {
        if node.is_switch() {
            self.nodes.remove(&node.guid);
        } else if let Some(held) = self.nodes.get_mut(&node.guid) {
            held.rows.retain(|(egress, _), _| *egress != port);
            held.turns.retain(|(at, _), _| *at != port);
        }
    }

    /// Keeps only the tables of these nodes.
    pub fn retain(&mut self, is_there: impl Fn(Guid) -> bool) {
        self.nodes.retain(|guid, _| is_there(*guid));
    }
}

/// True if the node's rows towards this port can be written.
#[must_use]
pub fn has_sl_mapping(node: &Node, port: PortNum) -> bool {
    let at = if node.is_switch() { PortNum::MANAGEMENT } else { port };
    node.port(at)
        .is_some_and(|port| port.capability.mask & HAS_SL_MAPPING != 0)
}

/// Returns the data lanes of a link from the settings of one end.
#[must_use]
pub fn link_lanes(settings: &PortSettings) -> u8 {
    PortCapability::lanes_of_code(settings.oper_vls).max(1)
}

/// The ports of a node that have lane tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanePorts {
    /// Ports with arbitration tables, and with rows towards them.
    pub egress: Vec<PortNum>,
    /// Ports by which packets arrive, besides port 0. Packets leave by the port of their arrival only while routes
    /// change, but then that row must be right too.
    pub ingress: Vec<PortNum>,
}

impl LanePorts {
    /// Returns the ports of a node with links that are `up`. Packets to port 0 of a switch need no lane, so it is no
    /// egress port ([`own_row`]).
    #[must_use]
    pub fn linked(node: &Node, up: Vec<PortNum>) -> Self {
        Self {
            ingress: if node.is_switch() { up.clone() } else { Vec::new() },
            egress: up,
        }
    }

    /// Returns the ports of a node with links that are `up` as OpenSM's quality of service writes them: towards
    /// enhanced port 0 too, and for packets from every port of a switch, whether it has a link or not.
    #[must_use]
    pub fn as_opensm(node: &Node, up: Vec<PortNum>) -> Self {
        let has_port0 = node.switch.as_ref().is_some_and(|switch| switch.enhanced_port0);
        let external = node.external_ports().map(|(port, _)| port).filter(|_| node.is_switch());
        Self {
            egress: has_port0.then_some(PortNum::MANAGEMENT).into_iter().chain(up).collect(),
            ingress: external.collect(),
        }
    }
}

/// Returns every lane table of these ports of a node: rows between them, also from a port to itself, and from port 0;
/// and arbitration tables.
pub fn tables_of<'a>(fabric: &'a Fabric, node: NodeIdx, ports: &'a LanePorts) -> impl Iterator<Item = LaneTable> + 'a {
    let n = fabric.node(node);
    ports.egress.iter().flat_map(move |&egress| {
        let port = PortRef { node, port: egress };
        let capability = n.port(egress).map(|seen| seen.capability);
        let blocks = capability.into_iter().flat_map(|c| ArbBlock::blocks_of(&c));
        let turns = blocks.map(move |block| LaneTable::Arbitration { port, block });
        let ingress = std::iter::once(PortNum::MANAGEMENT).chain(ports.ingress.iter().copied());
        let ingress = ingress.filter(move |_| has_sl_mapping(n, egress));
        turns.chain(ingress.map(move |ingress| LaneTable::SlToVl { port, ingress }))
    })
}

/// Returns the row of a switch from port 0 to itself. It is read, because hosts query it. It is never written, except
/// for an enhanced port 0 with OpenSM's quality of service.
#[must_use]
pub fn own_row(fabric: &Fabric, node: NodeIdx) -> Option<LaneTable> {
    let n = fabric.node(node);
    let ingress = PortNum::MANAGEMENT;
    let port = PortRef { node, port: ingress };
    (n.is_switch() && has_sl_mapping(n, ingress)).then_some(LaneTable::SlToVl { port, ingress })
}

/// Returns the ports of a node with planned lane tables: those with a link that the plan has settings for; with quality
/// of service, those that it has tables for.
#[must_use]
pub fn ports_in_use(fabric: &Fabric, plan: &Plan, node: NodeIdx) -> LanePorts {
    let n = fabric.node(node);
    let qos = plan.lane_tables.as_ref().and_then(|tables| tables.qos.as_ref());
    let is_planned = |port: &PortNum| {
        let at = PortRef { node, port: *port };
        plan.ports.contains_key(&at) && qos.is_none_or(|qos| qos.ports.contains_key(&at))
    };
    let up = n.external_ports().map(|(port, _)| port).filter(is_planned).collect();
    match qos.map(|qos| &qos.rules) {
        Some(PathRules::OpenSm(_)) => LanePorts::as_opensm(n, up),
        Some(PathRules::Classes(_)) | None => LanePorts::linked(n, up),
    }
}

/// Returns the Sets that change the known lane tables to those of a plan: arbitration, then rows.
pub(crate) fn changes(fabric: &Fabric, held: &HeldLanes, plan: &Plan) -> (Vec<Op>, Vec<Op>) {
    let (mut turns, mut rows) = (Vec::new(), Vec::new());
    if plan.lane_tables.is_none() {
        return (turns, rows);
    }
    for node in fabric.nodes().indices() {
        let n = fabric.node(node);
        let in_use = ports_in_use(fabric, plan, node);
        let mut missing = Vec::new();
        for table in tables_of(fabric, node, &in_use) {
            let port = table.port();
            match table {
                LaneTable::Arbitration { block, .. } => {
                    let wanted = plan.arbitration(fabric, port, block);
                    let wanted = wanted.filter(|wanted| held.turns(n.guid, port.port, block) != Some(wanted));
                    turns.extend(wanted.map(|turns| Op::Arbitration { port, block, turns }));
                }
                LaneTable::SlToVl { ingress, .. } => {
                    let wanted = plan.row(port, ingress);
                    let wanted = wanted.filter(|wanted| held.row(n.guid, port.port, ingress) != Some(wanted));
                    missing.extend(wanted.map(|wanted| (port, ingress, wanted)));
                }
            }
        }
        let wildcards = n.switch.as_ref().is_some_and(|switch| switch.optimized_sl2vl);
        rows.extend(rows_in_few_sets(&missing, wildcards, |egress| {
            wildcard_row(plan, node, &in_use, egress)
        }));
    }
    (turns, rows)
}

/// Returns the one row that all ingress ports have towards `egress`, or towards all egress ports of a node if that is
/// `None`. `None`: the rows differ.
fn wildcard_row(plan: &Plan, node: NodeIdx, in_use: &LanePorts, egress: Option<PortNum>) -> Option<[Vl; Sl::COUNT]> {
    let towards = in_use
        .egress
        .iter()
        .filter(|port| egress.is_none_or(|egress| egress == **port));
    // Without quality of service a row does not depend on the ingress port.
    let has_qos = plan.lane_tables.as_ref().is_some_and(|tables| tables.qos.is_some());
    let ingress: &[PortNum] = if has_qos { &in_use.ingress } else { &[] };
    let from = || std::iter::once(PortNum::MANAGEMENT).chain(ingress.iter().copied());
    let rows = towards.flat_map(|&port| from().map(move |ingress| plan.row(PortRef { node, port }, ingress)));
    let rows: BTreeSet<_> = rows.collect();
    match rows.len() {
        1 => rows.first().copied().flatten(),
        _ => None,
    }
}

/// Returns rows as Sets: one each, or fewer if the switch supports wildcards. `common` returns the row that all ingress
/// ports have towards one egress port or towards all. Source: IBA vol 1 §14.2.5.8 (OptimizedSLtoVLMappingProgramming).
fn rows_in_few_sets(
    missing: &[(PortRef, PortNum, [Vl; Sl::COUNT])],
    wildcards: bool,
    common: impl Fn(Option<PortNum>) -> Option<[Vl; Sl::COUNT]>,
) -> Vec<Op> {
    let op = |&(port, ingress, lanes): &(PortRef, PortNum, [Vl; Sl::COUNT]), rows: Option<LaneRows>| Op::SlToVl {
        port,
        rows: rows.unwrap_or(LaneRows::From(ingress)),
        lanes,
    };
    match missing {
        [] => Vec::new(),
        [only] => vec![op(only, None)],
        [first, ..] if wildcards && common(None).is_some() => vec![op(first, Some(LaneRows::Whole))],
        all if wildcards => {
            let by_port = all.chunk_by(|a, b| a.0 == b.0);
            let sets = by_port.flat_map(|of_port| match (of_port, common(Some(of_port[0].0.port))) {
                ([first, ..], Some(_)) => vec![op(first, Some(LaneRows::FromAll))],
                (rows, _) => rows.iter().map(|row| op(row, None)).collect(),
            });
            sets.collect()
        }
        all => all.iter().map(|row| op(row, None)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_their_lane_where_the_link_has_it() {
        let check = |lanes: u8, own: Option<u8>, link: u8, low: u8, row: [u8; 16], served: [&[u8]; 2]| {
            let tables = LaneTables {
                lanes,
                copies: own.and_then(Vl::new),
                levels: ServiceLevels::default(),
                qos: None,
            };
            assert_eq!(tables.row(link).map(Vl::get), row, "{lanes} {own:?} {link}");
            let capability = PortCapability {
                vl_arb_low: low,
                vl_arb_high: 8,
                ..PortCapability::default()
            };
            for (block, served) in [1, 3].into_iter().zip(served) {
                let turns = tables.arbitration(block, link, &capability).turns;
                let found: Vec<u8> = (turns.iter().filter(|turn| turn.1 > 0))
                    .map(|turn| turn.0.get())
                    .collect();
                assert_eq!(found, served, "{lanes} {own:?} {link}, block {block}");
                assert!(turns.iter().all(|turn| turn.1 == 0 || turn.1 == LaneTables::WEIGHT));
            }
        };
        let three = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1];
        let with = |last: [u8; 2]| std::array::from_fn(|sl| three.get(sl).copied().unwrap_or_else(|| last[sl - 14]));
        check(3, None, 4, 8, with([2, 0]), [&[0, 1, 2], &[]]);
        check(3, Some(3), 4, 8, with([3, 0]), [&[0, 1, 2, 3], &[]]);
        check(3, Some(7), 8, 8, with([7, 0]), [&[0, 1, 2, 7], &[]]);
        // No room for a low-priority entry, so the lane is not used.
        check(3, Some(3), 4, 3, with([3, 0]), [&[0, 1, 2], &[3]]);
        check(3, Some(4), 4, 8, with([2, 0]), [&[0, 1, 2], &[]]);
        check(
            1,
            Some(1),
            2,
            8,
            std::array::from_fn(|sl| u8::from(sl == 14)),
            [&[0, 1], &[]],
        );
    }
}
