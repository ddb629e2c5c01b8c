//! Fat trees as OpenSM's `ftree` routes them (observed in 3.3.23): every downward link of a regular tree carries the
//! same number of destinations.
//!
//! Switches get ranks (`ranks`), then positions in the tree (`places`). Hosts are routed leaf by leaf: from the leaf
//! upwards along the least used links; at each switch on that path, all switches below it get a path through this
//! switch (`climb`). No path turns from down to up, so one lane is enough, except for the few entries that join
//! switches above the leaves with each other (`connect_roots`), all at one leaf.
//!
//! For each destination every switch is visited once and its port groups are sorted. This takes LIDs × channels steps,
//! about 100 M for 5,832 hosts on 972 switches. It is not parallel, because each destination depends on the counters
//! that all earlier destinations have changed.

mod climb;
mod places;
pub(crate) mod ranks;
mod tree;

use selvedge_fabric::{Fabric, SwitchIdx};
use selvedge_graph::Graph;
use selvedge_plan::{Lids, NO_PATH, Tables};
use selvedge_types::{Guid, Lid, Lmc};

use crate::engine::{Capability, Input, Made, RoutingEngine};
use crate::error::EngineError;
use crate::note::Note;
use crate::options::{HostLists, Options};
use climb::Climb;
use tree::{Host, Tree};

/// Engine `ftree`.
#[derive(Debug)]
pub struct Ftree;

impl RoutingEngine for Ftree {
    fn route(&self, input: &Input<'_>, notes: &mut Vec<Note>) -> Result<Made, EngineError> {
        let lists = (&input.options.ftree, &input.options.hosts);
        let tables = route(input.fabric, input.graph, input.lids, lists, notes);
        Ok(Made::on_one_lane(tables.map_err(|why| EngineError::NoFatTree { why })?))
    }

    fn capabilities(&self) -> &'static [Capability] {
        &[]
    }

    fn refuses_always(&self, lmc: Lmc, _options: &Options) -> Option<EngineError> {
        takes(lmc).map_err(|why| EngineError::NoFatTree { why }).err()
    }
}

/// Options of `ftree`. OpenSM's `max_reverse_hops` and `quasi_ftree_indexing` have no counterpart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FtreeOptions {
    /// Switches of rank 0. If roots are given, links and switches of the tree may be missing. If none are given
    /// (default), ranks are counted from the hosts, and all switches of one rank must be alike.
    pub roots: Vec<Guid>,
    /// Connects pairs of switches without a path up, then down (two roots, for example) through the last leaf. Default
    /// false, as in OpenSM. These routes turn from down to up, all at that leaf.
    pub connect_roots: bool,
}

/// The reasons for which a fabric is no fat tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoFatTree {
    /// The LMC is not 0: this engine routes one LID per port.
    Lmc,
    /// Fewer than two switches or two hosts.
    TooSmall,
    /// All switches have hosts, and there is more than one: no level above the leaves.
    OneLevel,
    /// None of the hosts is a compute node.
    NoComputeNodes,
    /// Number of levels out of range.
    Levels {
        /// Levels from roots to leaves.
        levels: u32,
    },
    /// A compute node hangs on a switch of another rank than the leaves.
    MixedLeaves {
        /// The switch.
        switch: Guid,
        /// Rank of the leaf.
        rank: u32,
        /// The rank of the leaves.
        leaves: u32,
    },
    /// Fewer than two leaves with compute nodes.
    OneLeaf,
    /// A switch has more neighbours on one side than there are numbers for their places.
    TooWide {
        /// The switch with more than 255 switches on one side.
        switch: Guid,
    },
    /// Two switches of one rank are not alike: a link or switch is missing, or the fabric is no tree.
    Uneven {
        /// The switch that differs.
        switch: Guid,
        /// The first switch of the same rank.
        like: Guid,
    },
}

impl core::fmt::Display for NoFatTree {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Lmc => f.write_str("it routes one LID per port, set lmc to 0"),
            Self::TooSmall => f.write_str("it needs two switches and two hosts"),
            Self::OneLevel => f.write_str("every switch has hosts, there is no level above them"),
            Self::NoComputeNodes => f.write_str("no host is a compute node, check the list"),
            Self::Levels { levels } => write!(
                f,
                "the tree has {levels} levels, 2 to {} are possible",
                tree::LEVELS_MAX
            ),
            Self::MixedLeaves { switch, rank, leaves } => write!(
                f,
                "a compute node hangs on switch {switch} of rank {rank}, others on rank {leaves}; name the \
                 compute nodes"
            ),
            Self::OneLeaf => f.write_str("fewer than two switches have compute nodes"),
            Self::TooWide { switch } => write!(f, "switch {switch} has more than 255 switches on one side"),
            Self::Uneven { switch, like } => write!(
                f,
                "switches {switch} and {like} of one rank are not alike; name the roots if links are missing"
            ),
        }
    }
}

/// Fails if a port may not have this number of LIDs.
pub(crate) const fn takes(lmc: Lmc) -> Result<(), NoFatTree> {
    match lmc.get() {
        0 => Ok(()),
        _ => Err(NoFatTree::Lmc),
    }
}

/// Tables of a fat tree.
pub(crate) fn route(
    fabric: &Fabric,
    graph: &Graph,
    lids: &Lids,
    (options, hosts): (&FtreeOptions, &HostLists),
    notes: &mut Vec<Note>,
) -> Result<Tables, NoFatTree> {
    let tree = Tree::new(fabric, graph, lids, (options, hosts), notes)?;
    let mut tables = Tables::new(graph.switches(), lids.top());
    let mut climb = Climb::new(tree);
    compute_nodes(&mut climb, &mut tables);
    other_hosts(&mut climb, &mut tables);
    switches(&mut climb, &mut tables);
    if options.connect_roots {
        connect_roots(climb.tree(), &mut tables);
    }
    Ok(tables)
}

/// Routes to compute nodes, leaf by leaf. A leaf with fewer compute nodes than the fullest leaf also gets dummy
/// destinations, which change only the counters, so that all leaves count alike.
fn compute_nodes(climb: &mut Climb, tables: &mut Tables) {
    let leaves = climb.tree().leaves.clone();
    let most = climb.tree().compute_per_leaf_max();
    for &leaf in &leaves {
        let hosts: Vec<Host> = climb.tree().hosts_of(leaf).filter(|h| h.compute).copied().collect();
        for host in &hosts {
            climb.host(leaf, host.egress);
            climb.store(tables, host.lid);
        }
        for _ in hosts.len()..most {
            climb.nobody(leaf);
        }
    }
}

fn other_hosts(climb: &mut Climb, tables: &mut Tables) {
    let others = climb.tree().other_hosts();
    for (switch, host) in others {
        climb.host(switch, host.egress);
        climb.store(tables, host.lid);
    }
}

fn switches(climb: &mut Climb, tables: &mut Tables) {
    let all = climb.tree().order.clone();
    for switch in all {
        if let Some(lid) = climb.tree().switch_lid[switch] {
            climb.switch(switch);
            climb.store(tables, lid);
        }
    }
}

/// Routes LIDs that a switch above the leaves cannot reach through the last leaf, if that leaf reaches them.
fn connect_roots(tree: &Tree, tables: &mut Tables) {
    let Some(&leaf) = tree.leaves.last() else { return };
    let Some(leaf_lid) = tree.switch_lid[leaf] else { return };
    let targets: Vec<Lid> = tree.switch_lid.iter().flatten().copied().collect();
    for &switch in tree.order.iter().filter(|&&s| tree.rank[s] < tree.leaf_rank) {
        let via = tables.get(index(switch), leaf_lid);
        for &lid in &targets {
            if tables.get(index(switch), lid) == NO_PATH && tables.get(index(leaf), lid) != NO_PATH {
                tables.set(index(switch), lid, via);
            }
        }
    }
}

fn index(switch: usize) -> SwitchIdx {
    SwitchIdx(u32::try_from(switch).unwrap_or(u32::MAX))
}
