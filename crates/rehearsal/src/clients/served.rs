//! Hosts and administrators, as checkers see them.

use std::collections::BTreeSet;

use selvedge_chassis::PortIdx;
use selvedge_types::{Guid, Lid};
use selvedge_wire::Mad;

use super::host::Host;
use crate::manager::ManagerId;

/// An administrator beside a manager, and the observations of that manager.
#[derive(Debug)]
pub(crate) struct Desk {
    /// The manager.
    pub id: ManagerId,
    /// The end port that the manager and the administrator use.
    pub seat: PortIdx,
    /// See [`crate::Rehearsal::role_number`].
    pub role_number: Option<(u64, u64)>,
    /// Counts of hosts' registrations, and the ports with dropped registrations.
    pub registered: ([usize; 5], BTreeSet<Guid>),
}

impl Desk {
    /// Returns the administrator beside a manager that was never started.
    pub fn new(id: ManagerId, seat: PortIdx) -> Self {
        Self {
            id,
            seat,
            role_number: None,
            registered: Default::default(),
        }
    }
}

/// All hosts with the answers that they got, and their administrators.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served<'a> {
    pub hosts: &'a [Host],
    pub desks: &'a [Desk],
}

/// A request of a host, as it arrives at the administrator beside a manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    /// Port of the host.
    pub host: PortIdx,
    /// Low 32 bits of the transaction id. No other request has the same.
    pub number: u64,
    /// The manager.
    pub of: ManagerId,
}

/// A host's request for a path, and its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathAsked<'a> {
    /// LID of the host that asks.
    pub from: Lid,
    /// LID of the other host.
    pub to: Lid,
    /// The manager beside the administrator that received the request. `None`: no administrator received it.
    pub of: Option<ManagerId>,
    /// The answer, if one arrived at the host.
    pub answer: Option<&'a Mad>,
}
