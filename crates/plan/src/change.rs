//! The difference between the state of the agents and a plan, in phases.

use std::sync::Arc;

use selvedge_fabric::{Fabric, NodeIdx, PortRef, PortSettings, SwitchIdx, SwitchSettings};
use selvedge_types::{IdxVec, Lid, PKey, PortNum, PortState, Sl, Vl};

use crate::partition::{pkey_block, unlike_pkey_blocks};
use crate::{ArbBlock, BLOCK_LIDS, Generation, HeldLanes, LaneRows, Plan, ServiceLevels, SlToVl, Tables, lane_tables};

/// One Set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// LinearForwardingTable: one block of one switch.
    Lft {
        /// The switch.
        node: NodeIdx,
        /// Block number.
        block: u16,
        /// Entries of the block.
        data: [u8; BLOCK_LIDS],
    },
    /// SwitchInfo.
    Switch {
        /// The switch.
        node: NodeIdx,
        /// The settings to write.
        settings: SwitchSettings,
    },
    /// A block of a P_KeyTable.
    PKeys {
        /// The port.
        port: PortRef,
        /// Block number.
        block: u16,
        /// P_Keys of the block; the remaining entries are empty.
        keys: Vec<PKey>,
    },
    /// SLtoVLMappingTable: rows towards one port, or all rows of a switch.
    SlToVl {
        /// The egress port; any port of the switch if all rows are written.
        port: PortRef,
        /// The rows.
        rows: LaneRows,
        /// The lane of each service level.
        lanes: [Vl; Sl::COUNT],
    },
    /// VLArbitrationTable: one block of one port.
    Arbitration {
        /// The port.
        port: PortRef,
        /// Block number, 1–4.
        block: u8,
        /// Entries of the block.
        turns: ArbBlock,
    },
    /// PortInfo: settings, and the new port state (`None`: no change).
    Port {
        /// The port.
        port: PortRef,
        /// The settings to write.
        settings: PortSettings,
        /// The new port state.
        state: Option<PortState>,
    },
    /// PortInfo: takes the link of a place out of service, or puts it back. Settings stay.
    Link {
        /// The port.
        port: PortRef,
        /// The order for the link.
        order: LinkOrder,
    },
}

/// What a Set of PortInfo does to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkOrder {
    /// Port state Down: the link is trained again and stays in INIT, where it carries nothing but SMPs.
    Down,
    /// Physical state Disabled.
    Disable,
    /// Physical state Polling: a disabled port trains its link again.
    Poll,
}

impl Op {
    /// Returns the node with the agent that gets the Set.
    #[must_use]
    pub const fn node(&self) -> NodeIdx {
        match self {
            Self::Lft { node, .. } | Self::Switch { node, .. } => *node,
            Self::PKeys { port, .. }
            | Self::SlToVl { port, .. }
            | Self::Arbitration { port, .. }
            | Self::Port { port, .. }
            | Self::Link { port, .. } => port.node,
        }
    }

    /// True if the Set makes a switch port enforce partitions while packets pass, so that its P_Key table must be
    /// written first.
    #[must_use]
    pub fn begins_enforcing(&self, fabric: &Fabric) -> bool {
        let Self::Port { port, settings, .. } = self else {
            return false;
        };
        fabric.port(*port).is_some_and(|seen| {
            seen.link.state == PortState::Active && settings.enforcement & !seen.settings.enforcement != 0
        })
    }
}

/// Sets that may be sent in any order. The next phase starts when all are acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Purpose of the phase, for output.
    pub label: &'static str,
    /// Wait between the last acknowledgement of the previous phase and the first Set of this one, in nanoseconds.
    /// During the wait packets of old entries drain.
    pub wait_before_ns: u64,
    /// Sets of the phase.
    pub ops: Vec<Op>,
}

/// All Sets that change the state of the agents to a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// The plan to which the change set leads.
    pub generation: Generation,
    /// Phases, first to last; none is empty.
    pub phases: Vec<Phase>,
}

/// Number of Sets by attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCount {
    /// LinearForwardingTable blocks.
    pub lft_blocks: usize,
    /// PortInfo.
    pub ports: usize,
    /// SwitchInfo.
    pub switches: usize,
    /// P_KeyTable.
    pub pkeys: usize,
    /// SLtoVLMappingTable and VLArbitrationTable.
    pub lane_tables: usize,
}

impl ChangeCount {
    /// Returns the number of all Sets.
    #[must_use]
    pub const fn total(self) -> usize {
        self.lft_blocks + self.ports + self.switches + self.pkeys + self.lane_tables
    }
}

impl ChangeSet {
    /// True if there are no Sets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// Returns the number of Sets by attribute.
    #[must_use]
    pub fn count(&self) -> ChangeCount {
        let mut count = ChangeCount::default();
        for op in self.phases.iter().flat_map(|p| &p.ops) {
            match op {
                Op::Lft { .. } => count.lft_blocks += 1,
                Op::Switch { .. } => count.switches += 1,
                Op::PKeys { .. } => count.pkeys += 1,
                Op::SlToVl { .. } | Op::Arbitration { .. } => count.lane_tables += 1,
                Op::Port { .. } | Op::Link { .. } => count.ports += 1,
            }
        }
        count
    }
}

/// Known contents of the switches' forwarding tables and lane tables. A block is `None` until it is read or written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installed {
    /// Blocks of each switch.
    pub lfts: IdxVec<SwitchIdx, Vec<Option<[u8; BLOCK_LIDS]>>>,
    /// Lane tables of all nodes.
    pub lanes: Arc<HeldLanes>,
    /// Service levels that senders use, and the lanes of these levels, if they may differ from the plan's.
    pub levels: Option<Arc<(ServiceLevels, SlToVl)>>,
    /// Replaced entries with packets that may still be in flight, if entries have changed recently.
    pub under_way: Option<Arc<UnderWay>>,
}

/// A block of a switch with its contents.
pub type BlockOf<S> = (S, u16, [u8; BLOCK_LIDS]);

/// The last changes of tables, as long as packets of old entries may be in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Contents of changed blocks at the time when the last packets of even older entries were gone.
    pub before: Vec<BlockOf<SwitchIdx>>,
    /// Blocks written since, phase by phase. Each phase began when the previous one was acknowledged.
    pub phases: Vec<Vec<BlockOf<SwitchIdx>>>,
    /// Time since the last of these phases was acknowledged, in nanoseconds.
    pub age_ns: u64,
    /// Links that have gone down since. Packets that had crossed such a link may be at a place to which no current path
    /// leads.
    pub lost: Vec<LostLink>,
    /// Links that were down in between and may carry packets again.
    pub emptied: Vec<EmptiedLink>,
}

/// A link that was seen down at its sending end: packets that waited for it were discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EmptiedLink {
    /// The switch at the sending end.
    pub from: SwitchIdx,
    /// Egress port of the link.
    pub port: u8,
    /// Number of phases that were acknowledged when the link was seen down.
    pub phases: usize,
}

/// A link into a switch that no longer carries packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostLink {
    /// The switch at the sending end; `None` if that switch is gone too, or if a host was there.
    pub from: Option<SwitchIdx>,
    /// The port of the switch at the sending end.
    pub port: u8,
    /// The switch at the receiving end.
    pub to: SwitchIdx,
    /// The port of the switch at the receiving end.
    pub into: u8,
}

impl Installed {
    /// Returns a value for this number of switches, with no known contents.
    #[must_use]
    pub fn unknown(switches: usize) -> Self {
        Self {
            lfts: IdxVec::filled(Vec::new(), switches),
            lanes: Arc::default(),
            levels: None,
            under_way: None,
        }
    }

    /// Returns the service levels and lanes in force, if they may differ from the plan's.
    #[must_use]
    pub fn lanes_in_force(&self) -> Option<(&ServiceLevels, &SlToVl)> {
        self.levels.as_deref().map(|(levels, map)| (levels, map))
    }

    /// Returns a block, if known.
    #[must_use]
    pub fn block(&self, switch: SwitchIdx, block: usize) -> Option<&[u8; BLOCK_LIDS]> {
        self.lfts.get(switch)?.get(block)?.as_ref()
    }

    /// Records the contents of a block.
    pub fn learn(&mut self, switch: SwitchIdx, block: usize, data: [u8; BLOCK_LIDS]) {
        if let Some(blocks) = self.lfts.get_mut(switch) {
            if blocks.len() <= block {
                blocks.resize(block + 1, None);
            }
            blocks[block] = Some(data);
        }
    }

    /// Marks a block as unknown.
    pub fn forget(&mut self, switch: SwitchIdx, block: usize) {
        if let Some(held) = self.lfts.get_mut(switch).and_then(|blocks| blocks.get_mut(block)) {
            *held = None;
        }
    }

    /// Returns all blocks as tables of this many switches for LIDs up to `top`. Unknown entries are
    /// [`NO_PATH`](crate::NO_PATH): a block is unknown only if its switch is new or does not answer.
    #[must_use]
    pub fn tables(&self, switches: usize, top: Lid) -> Tables {
        let mut tables = Tables::new(switches, top);
        let blocks = tables.blocks();
        for (switch, held) in self.lfts.iter_enumerated().take(switches) {
            for (block, data) in held.iter().enumerate().take(blocks) {
                if let Some(data) = data {
                    *tables.block_mut(switch, block) = *data;
                }
            }
        }
        tables
    }

    /// Returns the egress port of `lid` at `switch`, if known.
    #[must_use]
    pub fn get(&self, switch: SwitchIdx, lid: Lid) -> Option<u8> {
        self.block(switch, lid.index() / BLOCK_LIDS)
            .map(|b| b[lid.index() % BLOCK_LIDS])
    }
}

/// Label of the phase of [`enforce_before_lanes`].
pub const ENFORCE: &str = "enforce partitions";

/// Returns the Sets that turn `fabric` with `installed` tables into `plan`. Configuration and tables come first; ports
/// go to ARMED. When these Sets are all acknowledged, links and arbiters have their lanes. So SLtoVL rows follow, and
/// then ports are activated. No port is activated before the tables behind it are written.
#[must_use]
pub fn changes(fabric: &Fabric, installed: &Installed, plan: &Plan) -> ChangeSet {
    let mut configure = Vec::new();
    let mut activate = Vec::new();
    for (port, &settings) in &plan.ports {
        let Some(seen) = fabric.port(*port) else { continue };
        // Port 0 of a switch has no link, so nothing to arm or activate.
        let (arm, active) = match seen.link.state {
            _ if port.port == PortNum::MANAGEMENT => (None, false),
            PortState::Init => (Some(PortState::Armed), true),
            PortState::Armed => (None, true),
            PortState::Down | PortState::Active => (None, false),
        };
        if arm.is_some() || seen.settings != settings {
            let op = Op::Port {
                port: *port,
                settings,
                state: arm,
            };
            match op.begins_enforcing(fabric) {
                true => activate.push(op),
                false => configure.push(op),
            }
        }
        if active {
            activate.push(Op::Port {
                port: *port,
                settings,
                state: Some(PortState::Active),
            });
        }
    }
    for (port, end) in &plan.end_ports {
        let held = fabric.port(*port).map_or(&end.pkeys, |seen| &seen.pkeys);
        configure.extend(unlike_pkey_blocks(held, &end.pkeys).map(|block| Op::PKeys {
            port: *port,
            block,
            keys: pkey_block(&end.pkeys, block).to_vec(),
        }));
    }
    for (switch, &settings) in plan.switches.iter_enumerated() {
        let node = fabric.switches()[switch];
        if fabric.node(node).switch_settings != settings {
            configure.push(Op::Switch { node, settings });
        }
    }
    add_lft_blocks(fabric, installed, plan, &mut configure);
    let (turns, rows) = lane_tables::changes(fabric, &installed.lanes, plan);
    configure.extend(turns);
    let enforce = enforce_before_lanes(fabric, !rows.is_empty(), &mut activate);
    let phases = [
        ("configure ports, switches and tables", configure),
        (ENFORCE, enforce),
        ("put service levels on their lanes", rows),
        ("activate", activate),
    ]
    .into_iter()
    .filter(|(_, ops)| !ops.is_empty())
    .map(|(label, ops)| Phase {
        label,
        wait_before_ns: 0,
        ops,
    })
    .collect();
    ChangeSet {
        generation: plan.generation,
        phases,
    }
}

/// Moves the Sets that begin to enforce partitions out of `ops`, if SLtoVL rows are written too. Such a Set may also
/// give the port the lanes of these rows, so it must come before them.
pub fn enforce_before_lanes(fabric: &Fabric, are_lanes_written: bool, ops: &mut Vec<Op>) -> Vec<Op> {
    ops.extract_if(.., |op| are_lanes_written && op.begins_enforcing(fabric))
        .collect()
}

/// Adds LFT blocks block by block over all switches, so that consecutive Sets go to different switches and their agents
/// work in parallel.
fn add_lft_blocks(fabric: &Fabric, installed: &Installed, plan: &Plan, ops: &mut Vec<Op>) {
    let wanted = || {
        let blocks = 0..plan.tables.blocks();
        blocks.flat_map(|block| {
            fabric
                .switches()
                .iter_enumerated()
                .map(move |(switch, &node)| (block, switch, node))
        })
    };
    let differs = |&(block, switch, _): &(usize, SwitchIdx, NodeIdx)| {
        installed.block(switch, block) != Some(plan.tables.block(switch, block))
    };
    // Counted first, because a new fabric has a hundred thousand, and a growing list would be copied repeatedly.
    ops.reserve(wanted().filter(differs).count());
    ops.extend(wanted().filter(differs).map(|(block, switch, node)| Op::Lft {
        node,
        block: u16::try_from(block).unwrap_or(u16::MAX),
        data: *plan.tables.block(switch, block),
    }));
}
