//! The kinds of tables that are read back, and how each is asked for.

use selvedge_fabric::NodeIdx;
use selvedge_plan::LaneTable;
use selvedge_planner::Inventory;
use selvedge_types::Guid;
use selvedge_wire::AttributeId;

use crate::lane_smp;
use crate::smp::{self, Smp};

/// A kind of table that is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// LinearForwardingTable.
    Lft,
    /// SLtoVLMappingTable and VLArbitrationTable.
    Lanes,
}

/// A table, or a block of one. In this order consecutive questions go to different agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// A block of a LinearForwardingTable.
    Lft {
        /// The block.
        block: u16,
        /// The switch.
        switch: Guid,
    },
    /// A row of an SLtoVLMappingTable, or a block of a VLArbitrationTable.
    Lanes(LaneTable),
}

/// Names a question: the kind of table, and the table's number in the read-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadId {
    /// The kind.
    pub(super) kind: Kind,
    /// The number.
    pub(super) number: usize,
}

impl Table {
    /// Returns the Get that asks for the table, and the node that it goes to; none if that is not in the fabric.
    pub(super) fn question(self, inventory: &Inventory, m_key: u64) -> Option<(NodeIdx, Smp)> {
        let fabric = &inventory.fabric;
        let (node, route, attribute, modifier) = match self {
            Self::Lft { block, switch } => {
                let node = fabric.find(switch)?;
                let route = &inventory.agents[node].route;
                (node, route, AttributeId::LINEAR_FORWARDING, block.into())
            }
            Self::Lanes(table) => {
                let at = table.port();
                let (attribute, modifier) = lane_smp::question(fabric, table);
                (
                    at.node,
                    inventory.agents[at.node].route_to(at.port),
                    attribute,
                    modifier,
                )
            }
        };
        Some((node, smp::get(attribute, modifier, route, m_key)))
    }
}
