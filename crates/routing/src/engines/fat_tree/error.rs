//! The reasons for which this engine does not accept a fabric as a fat tree.

use selvedge_types::Guid;

/// The reasons for which the `fat-tree` engine makes no tables. Another engine can route the fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotATree {
    /// SLV-ROUTE-0011: too many links join switches of one level.
    #[error(
        "SLV-ROUTE-0011: no fat tree: {level_links} of {links} links join switches that are equally far from the \
         hosts; name the roots if it is a tree, or use weave"
    )]
    LevelLinks {
        /// Number of links between switches of one level.
        level_links: usize,
        /// All links between switches.
        links: usize,
    },
    /// SLV-ROUTE-0012: two switches with hosts are joined, but not by a path that goes up, then down.
    #[error(
        "SLV-ROUTE-0012: no fat tree (any more): no path from the hosts of switch {from} to those of switch {to} goes \
         up, then down; use weave"
    )]
    Apart {
        /// GUID of one switch.
        from: Guid,
        /// GUID of the other switch.
        to: Guid,
    },
    /// SLV-ROUTE-0013: a root is neither a switch nor attached to one.
    #[error("SLV-ROUTE-0013: root {guid} is no switch of this fabric; name switches, or let the engine find them")]
    UnknownRoot {
        /// The GUID that was given.
        guid: Guid,
    },
    /// SLV-ROUTE-0014: the fabric has more levels than a fat tree may have.
    #[error("SLV-ROUTE-0014: no fat tree: it has {levels} levels of switches; at most {most} can be routed; use weave")]
    TooDeep {
        /// Levels found.
        levels: usize,
        /// Largest number that is allowed.
        most: usize,
    },
    /// SLV-ROUTE-0015: some hosts cannot reach the agents of some switches.
    #[error(
        "SLV-ROUTE-0015: no fat tree any more: {pairs} pairs of a switch with hosts and an upper switch have no path \
         that the tree allows, and packets to a switch's agent would be lost; use weave"
    )]
    Stranded {
        /// Number of ordered pairs of switches.
        pairs: usize,
    },
    /// SLV-ROUTE-0016: the fabric is a fat tree, but not with the operator's lists of compute and I/O nodes.
    #[error(
        "SLV-ROUTE-0016: a fat tree, but not with {lists}: leaves are the switches with compute nodes, and so {why}; \
         correct or leave out the list, or use another engine (updn, weave)"
    )]
    ByLists {
        /// The lists that name compute nodes and I/O nodes.
        lists: &'static str,
        /// Why the fabric is not a fat tree with these leaves.
        why: String,
    },
}

impl NotATree {
    /// Returns the reason, without code and advice.
    pub(super) fn in_short(&self) -> String {
        match self {
            Self::LevelLinks { level_links, links } => {
                format!("{level_links} of {links} links join switches of one level")
            }
            Self::Apart { from, to } => {
                format!("no path from the hosts of switch {from} to those of switch {to} goes up, then down")
            }
            Self::UnknownRoot { guid } => format!("root {guid} is no switch of this fabric"),
            Self::TooDeep { levels, most } => {
                format!("it has {levels} levels of switches; at most {most} can be routed")
            }
            Self::Stranded { pairs } => {
                format!("{pairs} pairs of a switch with hosts and an upper switch have no path that the tree allows")
            }
            Self::ByLists { why, .. } => why.clone(),
        }
    }
}
