//! Quality of service of a plan: the tables of every port, the service levels of paths, and what the tables promise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::PortRef;
use selvedge_types::{Mtu, PortNum, Sl, Vl};

use super::{Compiled, Latency, Resolved};
use crate::ArbBlock;

/// The planned lane tables of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLanes {
    /// The row of the SLtoVLMappingTable for packets that arrived by any port that is not in `rows`; `None`: no row is
    /// written. Lane 15 drops packets.
    pub row: Option<[Vl; Sl::COUNT]>,
    /// Rows that differ, by ingress port; 0: packets of the node itself.
    pub rows: BTreeMap<PortNum, [Vl; Sl::COUNT]>,
    /// Blocks 1–4 of the VLArbitrationTable (1 and 2: low priority); `None`: nothing is written.
    pub blocks: [Option<ArbBlock>; 4],
    /// PortInfo.VLHighLimit, in units of 4,096 bytes; 0: one packet, 255: unbounded.
    pub high_limit: u8,
}

impl PortLanes {
    /// Returns the row for packets that arrived by a port; `None`: it is not written.
    #[must_use]
    pub fn row(&self, ingress: PortNum) -> Option<[Vl; Sl::COUNT]> {
        self.rows.get(&ingress).copied().or(self.row)
    }

    /// Returns a block of the VLArbitrationTable, 1–4; `None`: it is not written.
    #[must_use]
    pub fn block(&self, block: u8) -> Option<ArbBlock> {
        *self.blocks.get(usize::from(block).checked_sub(1)?)?
    }

    /// True if packets of a service level get a lane, whatever port they arrived by, and the arbiter serves that lane.
    /// An arbiter without tables serves all lanes.
    #[must_use]
    pub fn serves(&self, sl: Sl) -> bool {
        let has_tables = self.blocks.iter().any(Option::is_some);
        let turns = || self.blocks.iter().flatten().flat_map(|block| &block.turns);
        let mut rows = self.row.iter().chain(self.rows.values());
        rows.all(|row| {
            let lane = row[usize::from(sl.get())];
            let has_turn = || turns().any(|(vl, weight)| *vl == lane && *weight > 0);
            lane != Vl::MANAGEMENT && (!has_tables || has_turn())
        })
    }
}

/// What gives a path its service level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRules {
    /// OpenSM's policy file, with the ports of its groups; `None`: the path's partition.
    OpenSm(Option<Arc<Resolved>>),
    /// The class of the query; its service level for the routing layer of the destination.
    Classes(Arc<Compiled>),
}

/// What the tables of all ports promise to some service levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Name of the class; for OpenSM's settings, what hands out the service level.
    pub class: String,
    /// Service levels of the class, by routing layer. At every hop each has a lane that the link has and that the
    /// arbiter serves.
    pub levels: Vec<Sl>,
    /// Least share in percent: of a link for a class of low latency; else of what such classes leave. `None`: no
    /// promise.
    pub share: Option<u8>,
    /// Whether packets of the class go before those of normal classes.
    pub latency: Latency,
    /// Largest MTU of the class's paths.
    pub mtu: Mtu,
    /// True if a limited number of packets goes before each packet of the class. OpenSM's settings may let lanes wait
    /// for ever (VLHighLimit 255); then it is false.
    pub is_bounded: bool,
    /// Ports where share and latency do not hold, because the link has too few lanes or the port too few table entries.
    pub except: BTreeSet<PortRef>,
}

/// The planned quality of service of a subnet, with the indices of the fabric for which it was planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedQos {
    /// Tables of every port that gets any.
    pub ports: BTreeMap<PortRef, PortLanes>,
    /// What gives a path its service level.
    pub rules: PathRules,
    /// What the tables promise.
    pub promises: Vec<Promise>,
}
