//! The tables of a switch.

use std::collections::BTreeMap;

use selvedge_fabric::{SwitchAttributes, SwitchSettings};
use selvedge_plan::{BLOCK_LIDS, NO_PATH};
use selvedge_types::{Lid, Sl, Vl};

/// A kind of installed state that has a version counter per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TableKind {
    /// Linear forwarding table and LinearFDBTop.
    Linear,
    /// Multicast forwarding table.
    Multicast,
    /// P_Keys of any port of the node.
    PKeys,
    /// SL to VL maps of any port of the node.
    SlToVl,
    /// VL arbitration of any port of the node.
    VlArbitration,
    /// GUIDs of any port of the node.
    Guids,
    /// Settings of any port of the node: LIDs, M_Key, limits.
    Settings,
    /// Port state or physical state of any port of the node.
    Links,
}

impl TableKind {
    /// Number of kinds.
    pub const COUNT: usize = Self::Links as usize + 1;
}

/// The lane of each service level.
pub(crate) type LaneRow = [Vl; Sl::COUNT];

/// Tables of a switch.
#[derive(Clone, Debug)]
pub struct SwitchData {
    pub(crate) attributes: SwitchAttributes,
    pub(crate) settings: SwitchSettings,
    pub(crate) linear: Vec<[u8; BLOCK_LIDS]>,
    pub(crate) multicast: BTreeMap<(u16, u8), [u16; Self::MULTICAST_BLOCK]>,
    /// Highest multicast LID that is looked up; 0: unused.
    pub multicast_top: Lid,
    /// DefaultPort, DefaultMulticastPrimaryPort, DefaultMulticastNotPrimaryPort.
    pub default_ports: [u8; 3],
}

impl SwitchData {
    /// Multicast LIDs per block. Source: IBA vol 1 §14.2.5.12.
    pub const MULTICAST_BLOCK: usize = 32;

    pub(crate) fn new(attributes: SwitchAttributes) -> Self {
        Self {
            attributes,
            settings: SwitchSettings::default(),
            linear: Vec::new(),
            multicast: BTreeMap::new(),
            multicast_top: Lid::NONE,
            default_ports: [0; 3],
        }
    }

    /// Returns the capabilities of the hardware.
    #[must_use]
    pub const fn attributes(&self) -> &SwitchAttributes {
        &self.attributes
    }

    /// Returns the settings written by a subnet manager.
    #[must_use]
    pub const fn settings(&self) -> &SwitchSettings {
        &self.settings
    }

    /// Returns the blocks of the linear table up to the highest one written.
    #[must_use]
    pub fn linear_blocks(&self) -> &[[u8; BLOCK_LIDS]] {
        &self.linear
    }

    /// Returns one block of the linear table; all [`NO_PATH`] if never written.
    #[must_use]
    pub fn linear_block(&self, block: usize) -> &[u8; BLOCK_LIDS] {
        const EMPTY: [u8; BLOCK_LIDS] = [NO_PATH; BLOCK_LIDS];
        self.linear.get(block).unwrap_or(&EMPTY)
    }

    /// Returns one block of one position (16 ports) of the multicast table.
    #[must_use]
    pub fn multicast_block(&self, block: u16, position: u8) -> [u16; Self::MULTICAST_BLOCK] {
        self.multicast
            .get(&(block, position))
            .copied()
            .unwrap_or([0; Self::MULTICAST_BLOCK])
    }

    /// Returns the written blocks of the multicast table, as (block, position).
    pub fn multicast_blocks(&self) -> impl Iterator<Item = (u16, u8)> + '_ {
        self.multicast.keys().copied()
    }

    /// Returns the egress port of `lid`: [`NO_PATH`] above LinearFDBTop, whatever the table contains there.
    #[must_use]
    #[inline]
    pub fn egress(&self, lid: Lid) -> u8 {
        if lid.0 > self.settings.linear_top {
            return NO_PATH;
        }
        match self.linear.get(lid.index() / BLOCK_LIDS) {
            Some(row) => row[lid.index() % BLOCK_LIDS],
            None => NO_PATH,
        }
    }
}
