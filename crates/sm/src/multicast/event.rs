//! Events about multicast trees.

use std::fmt;

use selvedge_planner::Severity;
use selvedge_types::{Guid, Lid};

/// An event about multicast.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MulticastEvent {
    /// All switches hold the planned multicast tables.
    InForce {
        /// Groups with members.
        groups: usize,
        /// Number of acknowledged Sets of the change.
        sets: usize,
    },
    /// A switch does not answer a request for its multicast table, or refuses it.
    Silent {
        /// Name of the switch.
        what: String,
    },
    /// A switch holds other contents of an MFT block than were written.
    Differs {
        /// Name of the switch.
        what: String,
        /// The block.
        block: u16,
        /// Position of the block.
        position: u8,
    },
    /// Groups are taken apart for a moment, because their copies could deadlock while routes or trees change.
    TakenApart {
        /// Number of groups.
        groups: usize,
        /// The first.
        mlid: Lid,
    },
    /// Members are outside the tree of their group, because every tree that includes them could deadlock with routes.
    Apart {
        /// Number of members.
        members: usize,
        /// MLID of the group of `member`.
        mlid: Lid,
        /// Port GUID of one of these members.
        member: Guid,
    },
    /// Multicast trees are replaced by better ones.
    Moved {
        /// Number of trees.
        trees: usize,
        /// Number of trees that could still be moved afterwards.
        left: usize,
    },
    /// No multicast tree reaches some members of groups.
    Unreached {
        /// Number of members.
        members: usize,
        /// MLID of the group of `member`.
        mlid: Lid,
        /// Port GUID of one of these members.
        member: Guid,
    },
}

impl MulticastEvent {
    /// Returns the stable code of this event.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InForce { .. } => "SLV-SM-0070",
            Self::Silent { .. } => "SLV-SM-0072",
            Self::Unreached { .. } => "SLV-SM-0073",
            Self::Differs { .. } => "SLV-SM-0074",
            Self::TakenApart { .. } => "SLV-SM-0075",
            Self::Apart { .. } => "SLV-SM-0076",
            Self::Moved { .. } => "SLV-SM-0077",
        }
    }

    /// Returns the severity of this event.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        match self {
            Self::InForce { .. } | Self::TakenApart { .. } | Self::Moved { .. } => Severity::Info,
            Self::Silent { .. } | Self::Unreached { .. } | Self::Differs { .. } | Self::Apart { .. } => {
                Severity::Warning
            }
        }
    }
}

impl fmt::Display for MulticastEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InForce { groups, sets } => {
                write!(
                    f,
                    "multicast tables of {groups} groups with members are in force, {sets} Sets"
                )
            }
            Self::Silent { what } => write!(
                f,
                "\"{what}\" does not take its multicast table; trees avoid this switch until the next sweep, or for \
                 4 s (longer each time, up to a minute)"
            ),
            Self::Differs { what, block, position } => write!(
                f,
                "\"{what}\" holds other contents in multicast block {block}, position {position} than were written; \
                 trees are planned again"
            ),
            Self::TakenApart { groups, mlid } => write!(
                f,
                "multicast: switches copy only to their own members in {groups} groups, the first {:#06x}: until old \
                 packets are gone or new routes are in force, copies between switches could deadlock",
                mlid.0
            ),
            Self::Apart { members, mlid, member } => write!(
                f,
                "{members} members are outside the trees of their multicast groups, one of them {member} of group \
                 {:#06x}: every tree that includes them could deadlock with the routes in force; a sweep plans other \
                 routes, if an engine of routing.engines can leave room for a tree, as updn, weave and fat-tree can on \
                 one lane",
                mlid.0
            ),
            Self::Moved { trees, left } => {
                write!(
                    f,
                    "{trees} multicast trees are replaced by better ones, {left} more may follow"
                )
            }
            Self::Unreached { members, mlid, member } => write!(
                f,
                "no multicast tree reaches {members} members, one of them {member} of group {:#06x}: check that its \
                 link is ACTIVE and that its switch has room for this number of groups",
                mlid.0
            ),
        }
    }
}
