//! The kinds of tables that are read back, and the Get for each.

use selvedge_fabric::NodeIdx;
use selvedge_plan::LaneTable;
use selvedge_planner::Inventory;
use selvedge_types::Guid;
use selvedge_wire::{AttributeId, MulticastForwardingTable};

use crate::lane_smp;
use crate::smp::{self, Smp};

/// A kind of table that is read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// LinearForwardingTable.
    Lft,
    /// SLtoVLMappingTable and VLArbitrationTable.
    Lanes,
    /// MulticastForwardingTable.
    Mft,
    /// GUIDInfo.
    Guids,
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = Self::Guids as usize + 1;
}

/// A table, or a block of one. In this order, consecutive Gets for LFTs go to different agents.
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
    /// A block of a MulticastForwardingTable.
    Mft {
        /// The switch.
        switch: Guid,
        /// Number and position of the block.
        place: (u16, u8),
    },
    /// A block of a port's GUIDInfo.
    Guids {
        /// The port.
        port: Guid,
        /// The block.
        block: u8,
    },
}

/// Identifies a Get: the kind of table, and the table's number in the read-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadId {
    /// The kind.
    pub kind: Kind,
    /// The number.
    pub(super) number: usize,
}

impl Kind {
    /// Returns true if light sweeps read this kind; other kinds are read after a light sweep that found nothing.
    pub const fn is_in_light_sweep(self) -> bool {
        matches!(self, Self::Lft | Self::Lanes)
    }
}

impl Table {
    /// Returns the kind of the table.
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Lft { .. } => Kind::Lft,
            Self::Lanes(_) => Kind::Lanes,
            Self::Mft { .. } => Kind::Mft,
            Self::Guids { .. } => Kind::Guids,
        }
    }

    /// Returns the Get of the table, and its node; none if the node is not in the fabric.
    pub(super) fn question(self, inventory: &Inventory) -> Option<(NodeIdx, Smp)> {
        let (fabric, agents) = (&inventory.fabric, &inventory.agents);
        let of_switch = |switch, attribute, modifier| {
            let node = fabric.find(switch)?;
            Some((node, smp::get(attribute, modifier, &agents[node].route)))
        };
        match self {
            Self::Lft { block, switch } => of_switch(switch, AttributeId::LINEAR_FORWARDING, block.into()),
            Self::Mft { switch, place } => {
                let modifier = MulticastForwardingTable::modifier(place.0, place.1);
                of_switch(switch, AttributeId::MULTICAST_FORWARDING, modifier)
            }
            Self::Lanes(table) => {
                let at = table.port();
                let (attribute, modifier) = lane_smp::question(fabric, table);
                let route = agents[at.node].route_to(at.port);
                Some((at.node, smp::get(attribute, modifier, route)))
            }
            Self::Guids { port, block } => {
                let at = fabric.find_port(port)?;
                let route = agents[at.node].route_to(at.port);
                let get = smp::get(AttributeId::GUID_INFO, block.into(), route);
                Some((at.node, get.shown(smp::shown_by(fabric, at))))
            }
        }
    }
}
