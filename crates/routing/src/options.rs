//! Options of engines.

use std::sync::Arc;

use selvedge_plan::Tables;
use selvedge_types::Guid;

use crate::engines::fat_tree::FatTreeOptions;
use crate::engines::ftree::FtreeOptions;
use crate::engines::listed::Listed;
use crate::engines::updn::UpDnOptions;
use crate::engines::weave::WeaveOptions;
use crate::error::EngineError;
use crate::ports::{HopWeight, PortOrder};

/// Options of a routing. The default is for a fabric without a configuration.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The tables in force, with this fabric's switch indices ([`carry_over`](crate::carry_over)). An entry that is
    /// still among the best is kept, so a change moves as few entries as possible. `None` (default): balances from
    /// scratch, as OpenSM does when a switch is new or a port was reset. Used by minhop, updn, dnup, fat-tree and file
    /// with hop counts; the others always balance the whole fabric from scratch.
    pub previous: Option<Arc<Tables>>,
    /// For `fat-tree` only: whether load may be balanced from scratch. Default: minimal.
    pub rebalance: Rebalance,
    /// Counts routes to switches when spreading load (OpenSM's `port_profile_switch_nodes`). Default false, because
    /// switches receive next to no traffic. Used by minhop, updn, dnup and file with hop counts.
    pub count_switches: bool,
    /// GUIDs of ports that are routed first, in this order (`guid_routing_order_file`). Default: none. Used by minhop,
    /// updn, dnup and file with hop counts.
    pub guid_order: Vec<Guid>,
    /// The order in which the ports of a switch are tried (`port_search_ordering_file`). Default: by number. Used by
    /// the same engines as `guid_order`, and by dor.
    pub port_order: Vec<PortOrder>,
    /// For `minhop` only: the weight of a hop by a port (`hop_weights_file`). Default: 1 each.
    pub hop_weights: Vec<HopWeight>,
    /// For `fat-tree`, `ftree`, `sssp` and `dfsssp`: compute and I/O nodes.
    pub hosts: HostLists,
    /// Options of `fat-tree`.
    pub fat_tree: FatTreeOptions,
    /// Options of `updn`.
    pub updn: UpDnOptions,
    /// Options of `ftree`.
    pub ftree: FtreeOptions,
    /// Data lanes that may be used, 1–15, for engines that can use several. Default (`None`): as many as
    /// [`RoutingEngine::lanes`](crate::RoutingEngine::lanes) returns. `weave` and `fat-tree` never use more lanes than
    /// the poorest link has; engines that need lanes to be free of deadlocks refuse if they do not suffice.
    pub lanes: Option<u8>,
    /// Input of `file`.
    pub listed: Option<Arc<Listed>>,
    /// Options of `weave`.
    pub weave: WeaveOptions,
}

impl Options {
    /// Returns the input of `file`.
    pub(crate) fn listed(&self) -> Result<&Listed, EngineError> {
        self.listed.as_deref().ok_or(EngineError::NothingListed)
    }
}

/// The entries that a change of the fabric may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rebalance {
    /// With tables in force, only necessary changes are made: to entries that led over lost links. In a first plan,
    /// without tables in force, the load of the busiest links of a damaged tree is lowered.
    #[default]
    Minimal,
    /// Balances as in a first plan, whatever `previous` holds. In trees of two levels fewer flows then share links.
    Full,
}

/// Lists of hosts by their purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLists {
    /// GUIDs of the ports of compute nodes: they are balanced first, on their own (`cn_guid_file`). Empty (default):
    /// all hosts that are no I/O nodes.
    pub compute: Vec<Guid>,
    /// GUIDs of the ports of I/O nodes: they are balanced after the compute nodes (`io_guid_file`). Default: none.
    pub io: Vec<Guid>,
}
