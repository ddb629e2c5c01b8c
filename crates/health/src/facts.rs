//! Facts of state, each from the part that owns it. They are cheap to clone: lists are shared.

use std::fmt;
use std::sync::Arc;

use selvedge_types::{Guid, PhysState, PortState};

use crate::condition::What;
use crate::known::LinkKey;
use crate::out_of_service::OutOfService;
use crate::place::{End, NodeName, Place};
use crate::since::Since;

/// The task of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duty {
    /// The manager manages the subnet, or stands by.
    #[default]
    Manage,
    /// The manager plans, but sends nothing.
    DryRun,
    /// The manager watches a subnet that another manager manages.
    Watch,
}

/// The SMInfo state of the manager. Source: IBA vol 1 §14.4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The manager searches for other managers.
    #[default]
    Discovering,
    /// Another manager is master.
    Standby,
    /// The manager is master.
    Master,
    /// The manager was disabled by another one, has stopped, or never was active.
    NotActive,
}

/// The reason why a known node is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// No link leads to the node.
    NoLink,
    /// A link leads to the node, but its agent does not answer. The end is the port of the neighbour.
    Silent(End),
    /// The node is behind a node with an agent that does not answer.
    Behind(NodeName),
    /// The node was missing when an earlier run ended, and this run has found nothing yet.
    Unknown,
}

/// A node that was found earlier and is missing now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentNode {
    /// The node.
    pub node: NodeName,
    /// When the node was lost.
    pub since: Since,
    /// The reason for which the node is not found.
    pub how: How,
    /// Ports of neighbours at which the node's links ended.
    pub was_at: Vec<End>,
}

/// The state of a port at the end of a lost link, as read last.
pub type EndState = Option<(PortState, PhysState)>;

/// A link that was found earlier and is missing now, although both its nodes are present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentLink {
    /// Both ends of the link.
    pub ends: (End, End),
    /// When the link was lost.
    pub since: Since,
    /// The states of the ports at its ends.
    pub states: (EndState, EndState),
    /// A remark in words: the port that one end of the lost link leads to now, or the reason why the manager leaves the
    /// link out although it is up.
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

impl AbsentNode {
    /// True if the node is out of service, or was cabled only to places that are out of service.
    #[must_use]
    pub fn is_out_of_service(&self, out: &OutOfService) -> bool {
        out.has_node(self)
    }
}

/// Nodes and links that were there and are gone, and nodes that do not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absent {
    /// Nodes that are gone.
    pub nodes: Vec<AbsentNode>,
    /// Missing links between nodes that are present.
    pub links: Vec<AbsentLink>,
    /// Nodes in the fabric with agents that do not answer, and the neighbours' ends of their links.
    pub silent: Vec<(NodeName, Option<End>)>,
}

/// A plan that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason in words: for each engine, the first finding.
    pub why: String,
    /// The generation of the plan that is in force instead; `None`: there is none, and switches keep their tables.
    pub in_force: Option<u64>,
}

/// Ports that refuse Sets because of an M_Key that the manager does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The ports in words.
    pub ports: Arc<str>,
    /// True if another manager may have taken ports, so that nothing is sent. Otherwise the other ports are managed.
    pub is_anothers: bool,
}

/// An alarm of telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Kind of the condition.
    pub what: What,
    /// The link, by both ends; the port if the other end is not known.
    pub place: Place,
    /// The time when it began.
    pub since: Since,
    /// What was measured where, against which threshold.
    pub evidence: String,
}

/// Data that cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStored {
    /// The data.
    pub what: String,
    /// When storing began to fail.
    pub since: Since,
    /// The last error.
    pub error: String,
}

/// A deviation from the expected topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// Kind of the deviation.
    pub what: What,
    /// Place of the deviation.
    pub place: Place,
    /// The expected and the found value, in words.
    pub evidence: String,
}

/// Another manager that needs an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Port of the manager.
    pub at: End,
    /// GUID of the manager's port.
    pub port_guid: Guid,
    /// Trouble of the manager.
    pub trouble: PeerTrouble,
}

/// The reason why another manager needs an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerTrouble {
    /// The manager was a standby, and is gone.
    Gone {
        /// When the manager was lost.
        since: Since,
        /// The sign that the manager is gone.
        sign: GoneSign,
    },
    /// The manager is master, although this one is master too.
    Master {
        /// Priority that the manager shows.
        priority: u8,
    },
    /// The manager shows another SM_Key; its SMInfo state.
    OtherKey(Role),
}

/// The sign that another manager is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneSign {
    /// The manager's port was not found.
    NotFound,
    /// The manager's port no longer shows IsSM.
    NotShown,
    /// The manager does not answer SubnGet(SMInfo).
    Silent,
}

/// All facts on which the verdict depends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The task of the process.
    pub duty: Duty,
    /// The SMInfo state of the manager.
    pub role: Role,
    /// The port GUID of the master, if it is another manager.
    pub master: Option<Guid>,
    /// True once a sweep has come to an end.
    pub has_swept: bool,
    /// True if a plan is in force; in a dry run, if there is one.
    pub is_planned: bool,
    /// True if switches of the fabric forward packets, so that a manager has set it up.
    pub is_managed: bool,
    /// The reason why the manager's own port cannot be used.
    pub own_port_down: Option<Arc<str>>,
    /// Nodes and links that are gone, and nodes that do not answer.
    pub absent: Arc<Absent>,
    /// The plan of the last sweep, if it was not accepted.
    pub refused: Option<Arc<Refused>>,
    /// Ports that refuse Sets because of an M_Key that the manager does not know, in words.
    pub m_key_foreign: Option<ForeignKey>,
    /// Names of ports that still have a former M_Key although the key was changed.
    pub m_key_former: Option<Arc<str>>,
    /// Sets of the plan in force that failed.
    pub sets_failed: usize,
    /// The last change of policy, in words, if it was refused and rolled back and no later one was kept.
    pub rolled_back: Option<Arc<str>>,
    /// Hosts and nodes that do not reach each other by the plan in force, in words.
    pub apart: Option<Arc<str>>,
    /// Deviations from the expected topology; empty if there is none.
    pub deviations: Arc<Vec<Deviation>>,
    /// Other managers that need an operator.
    pub peers: Arc<Vec<Peer>>,
    /// True if the local port was read without IsSM, although the manager has set it.
    pub is_sm_cleared: bool,
    /// Alarms of telemetry of level warning and above that no operator has acknowledged.
    pub alarms: Arc<Vec<Alarm>>,
    /// Data that cannot be stored at present.
    pub not_stored: Vec<NotStored>,
    /// Why counters or events are not stored although they should be.
    pub history_stopped: Option<Arc<str>>,
    /// Places that the operator has taken out of service.
    pub out_of_service: Arc<OutOfService>,
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

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Discovering => "DISCOVERING",
            Self::Standby => "STANDBY",
            Self::Master => "MASTER",
            Self::NotActive => "NOTACTIVE",
        })
    }
}

impl fmt::Display for GoneSign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "the port was not found",
            Self::NotShown => "the port no longer shows IsSM",
            Self::Silent => "it does not answer SMInfo",
        })
    }
}
