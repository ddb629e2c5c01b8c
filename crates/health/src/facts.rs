//! Facts of state, each from the part that owns it. They are cheap to clone: lists are shared.

use std::fmt;
use std::sync::Arc;

use selvedge_types::{Guid, PhysState, PortState};

use crate::condition::What;
use crate::known::LinkKey;
use crate::place::{End, NodeName, Place};
use crate::since::Since;

/// What the process is there for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// To manage the subnet, or to stand by.
    #[default]
    Manage,
    /// To plan and send nothing.
    DryRun,
    /// To watch a subnet that another manager manages.
    Watch,
}

/// The SMInfo state of the manager. Source: IBA vol 1 §14.4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Looking for other managers.
    #[default]
    Discovering,
    /// Another manager is master.
    Standby,
    /// In charge.
    Master,
    /// Disabled by another manager, stopped, or never a manager.
    NotActive,
}

/// Why something that was there is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// No link leads there.
    NoLink,
    /// A link leads there, and the agent does not answer. The end is the port of the neighbour.
    Silent(End),
    /// It is behind a node with an agent that does not answer.
    Behind(NodeName),
    /// It was gone when an earlier run ended, and this run has found nothing yet.
    Unknown,
}

/// A node that was there and is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentNode {
    /// The node.
    pub node: NodeName,
    /// Since when.
    pub since: Since,
    /// Why it is not found.
    pub how: How,
    /// Neighbours' ends of its links.
    pub was_at: Vec<End>,
}

/// State of a port at the end of a lost link, as seen last.
pub type EndState = Option<(PortState, PhysState)>;

/// A link that was there and is gone, between two nodes that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentLink {
    /// Both ends.
    pub ends: (End, End),
    /// Since when.
    pub since: Since,
    /// The states of the ports at its ends.
    pub states: (EndState, EndState),
    /// Where a port at an end leads now, or why the manager leaves the link out although it is up, in words.
    pub note: Option<String>,
}

impl AbsentLink {
    /// Returns the link by name.
    #[must_use]
    pub const fn key(&self) -> LinkKey {
        let (a, b) = &self.ends;
        ((a.node, a.port), (b.node, b.port))
    }
}

/// What was there and is gone, and what does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Nodes.
    pub nodes: Vec<AbsentNode>,
    /// Links between nodes that are there.
    pub links: Vec<AbsentLink>,
    /// Nodes in the fabric with agents that do not answer, and the neighbours' ends of their links.
    pub silent: Vec<(NodeName, Option<End>)>,
}

/// A plan that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why, in words: an engine each, with the first finding.
    pub why: String,
    /// The generation of the plan that is in force instead; `None`: there is none, and switches keep their tables.
    pub in_force: Option<u64>,
}

/// Data that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStored {
    /// Which.
    pub what: String,
    /// Since when.
    pub since: Since,
    /// The last error.
    pub error: String,
}

/// Something that is otherwise than the expected topology has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// What.
    pub what: What,
    /// Where.
    pub place: Place,
    /// What is expected, and what was found, in words.
    pub evidence: String,
}

/// All that the verdict depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What the process is there for.
    pub duty: Duty,
    /// The SMInfo state of the manager.
    pub role: Role,
    /// The port GUID of the master, if it is another manager.
    pub master: Option<Guid>,
    /// True once a sweep has come to an end.
    pub has_swept: bool,
    /// True if a plan is in force; in a dry run, if there is one.
    pub is_planned: bool,
    /// True if switches of the fabric forward: a manager has set it up.
    pub is_managed: bool,
    /// Why the manager's own port cannot be used.
    pub own_port_down: Option<Arc<str>>,
    /// What is gone or silent.
    pub absent: Arc<Absent>,
    /// The plan of the last sweep was not accepted.
    pub refused: Option<Arc<Refused>>,
    /// Ports that are guarded by another M_Key, in words.
    pub m_key_foreign: Option<Arc<str>>,
    /// Sets of the plan in force that failed.
    pub sets_failed: usize,
    /// What is apart by the plan in force, in words.
    pub apart: Option<Arc<str>>,
    /// Deviations from the expected topology; empty without one.
    pub deviations: Arc<Vec<Deviation>>,
    /// Data that cannot be stored at present.
    pub not_stored: Vec<NotStored>,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLink => f.write_str("no link leads there"),
            Self::Silent(end) => write!(f, "the link at {end} is up"),
            Self::Behind(node) => write!(f, "it is behind {node}, which does not answer"),
            Self::Unknown => f.write_str("it was gone when the manager started"),
        }
    }
}
