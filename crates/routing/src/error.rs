//! The reasons for which an engine makes no tables.

use selvedge_fabric::PortRef;
use selvedge_types::Lid;

use crate::engines::fat_tree::NotATree;
use crate::engines::ftree::NoFatTree;

/// The reasons for which an engine makes no tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// SLV-ROUTE-0001: no engine has this name.
    #[error("SLV-ROUTE-0001: there is no routing engine '{name}'{meant}; known engines: {known}")]
    Unknown {
        /// The name that was given.
        name: String,
        /// ` (did you mean '…'?)`, or nothing if no name is near.
        meant: String,
        /// All names, separated by commas.
        known: String,
    },
    /// SLV-ROUTE-0002: a LID belongs to a port that is not an end port of this fabric.
    #[error(
        "SLV-ROUTE-0002: LID {lid} belongs to node {} port {}, which is no end port of this fabric; assign LIDs for \
         this fabric before routing it",
        port.node.0, port.port
    )]
    ForeignLid {
        /// The LID.
        lid: Lid,
        /// Port that owns the LID.
        port: PortRef,
    },
    /// SLV-ROUTE-0009: no effort has this name.
    #[error("SLV-ROUTE-0009: there is no effort '{name}'; known efforts: fast, best")]
    UnknownEffort {
        /// The name that was given.
        name: String,
    },
    /// SLV-ROUTE-0003: the tables in force are those of another fabric.
    #[error(
        "SLV-ROUTE-0003: the previous tables have {have} switches, this fabric has {want}; convert them to this fabric \
         first"
    )]
    ForeignPrevious {
        /// Switches in the tables.
        have: usize,
        /// Switches in the fabric.
        want: usize,
    },
    /// The fabric is no fat tree, or too damaged to be routed as one.
    #[error(transparent)]
    NotATree(#[from] NotATree),
    /// SLV-ROUTE-0004: `ftree` was asked to route a fabric that is not a fat tree.
    #[error("SLV-ROUTE-0004: ftree cannot route this fabric: {why}; updn can route any")]
    NoFatTree {
        /// The reason.
        why: NoFatTree,
    },
    /// SLV-ROUTE-0005: `dnup` was asked to route a fabric without hosts.
    #[error("SLV-ROUTE-0005: dnup ranks switches by their distance from hosts, and no switch has any; use updn")]
    NoHosts,
    /// SLV-ROUTE-0006: an engine needs more lanes to be free of deadlocks than it may use.
    #[error(
        "SLV-ROUTE-0006: {engine} needs more than the {most} lanes it may use to be free of deadlocks; allow more, or \
         use updn, which needs one"
    )]
    TooFewLanes {
        /// The engine's name.
        engine: &'static str,
        /// Number of lanes that the engine may use.
        most: u8,
    },
    /// SLV-ROUTE-0007: `file` has no file to read.
    #[error("SLV-ROUTE-0007: engine file needs tables to load; name a file with tables or hop counts")]
    NothingListed,
    /// SLV-ROUTE-0008: the tables to be loaded belong to another fabric.
    #[error(
        "SLV-ROUTE-0008: the tables to load have {have} switches, this fabric has {want}; give tables of this fabric"
    )]
    ForeignTables {
        /// Switches in the tables.
        have: usize,
        /// Switches in the fabric.
        want: usize,
    },
}
