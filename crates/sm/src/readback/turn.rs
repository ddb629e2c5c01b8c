//! Decides which tables are read in turn, although no Set was sent to them.

use selvedge_fabric::{Fabric, NodeIdx, SwitchIdx};
use selvedge_plan::{HeldLanes, Installed, LaneTable, own_row, ports_in_use, tables_of};
use selvedge_types::{Guid, Idx};

use super::{Ctx, Table};

/// Once this many lane tables are listed, a light sweep adds no further node: a switch may have 1,296 rows.
const LANES_MAX: usize = 1_024;

/// Where the reading of tables in turn continues, for LFT blocks and for lane tables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turns {
    /// LFT blocks: block by block over all switches.
    lft: usize,
    /// Lane tables: the number of the node that is next.
    lanes: usize,
}

impl Turns {
    /// Returns the LFT blocks of the next turn.
    pub(super) fn lft(&mut self, fabric: &Fabric, installed: &Installed, read_backs: u32) -> Vec<Table> {
        let switches = fabric.switches();
        let rows = installed.lfts.iter().map(Vec::len).max().unwrap_or(0);
        let total = rows * switches.len();
        let mut blocks = Vec::new();
        for _ in 0..share(total, read_backs) {
            let turn = if self.lft < total { self.lft } else { 0 };
            let switch = switches[SwitchIdx::from_usize(turn % switches.len())];
            blocks.push(Table::Lft {
                block: u16::try_from(turn / switches.len()).unwrap_or(u16::MAX),
                switch: fabric.node(switch).guid,
            });
            self.lft = turn + 1;
        }
        blocks.sort_unstable();
        blocks
    }

    /// Returns the lane tables of the next turn, in reverse order. Tables with unknown contents are left out.
    pub(super) fn lanes(&mut self, ctx: &Ctx<'_>, fabric: &Fabric) -> Vec<Table> {
        let (mut tables, held) = (Vec::new(), &ctx.installed.lanes);
        let is_of_it = |(_, of): &(_, &Fabric)| std::ptr::eq(*of, fabric);
        let Some((plan, _)) = ctx.in_force.filter(is_of_it) else {
            return tables;
        };
        if plan.lane_tables.is_none() || held.is_empty() {
            return tables;
        }
        let nodes = fabric.nodes().len();
        for _ in 0..share(nodes, ctx.config.read_back_sweeps) {
            if tables.len() >= LANES_MAX {
                break;
            }
            let node = NodeIdx::from_usize(self.lanes % nodes);
            self.lanes = self.lanes % nodes + 1;
            let in_use = ports_in_use(fabric, plan, node);
            let guid = fabric.node(node).guid;
            let own = own_row(fabric, node).filter(|own| !in_use.egress.contains(&own.port().port));
            let of_node = tables_of(fabric, node, &in_use).chain(own);
            let known = of_node.filter(|table| is_known(held, guid, *table));
            tables.extend(known.map(Table::Lanes));
        }
        tables.reverse();
        tables
    }
}

/// Returns how many of `total` tables are read in one read-back, so that each is read once in this number of
/// read-backs; 0: none.
pub(super) const fn share(total: usize, read_backs: u32) -> usize {
    match read_backs {
        0 => 0,
        read_backs => total.div_ceil(read_backs as usize),
    }
}

/// Returns true if a lane table's content is known.
pub(super) fn is_known(held: &HeldLanes, node: Guid, table: LaneTable) -> bool {
    match table {
        LaneTable::SlToVl { port, ingress } => held.row(node, port.port, ingress).is_some(),
        LaneTable::Arbitration { port, block } => held.turns(node, port.port, block).is_some(),
    }
}
