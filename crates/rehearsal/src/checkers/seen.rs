//! Observations, and the inputs of checkers.

use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{ClientId, Emulator, Fault};
use selvedge_sim::Time;
use selvedge_sm::PersistentState;
use selvedge_wire::Datagram;

use super::hardware::Changes;
use super::taken::Taken;
use crate::clients::served::{PathAsked, Question, Served};
use crate::manager::{Life, Manager, ManagerId};
use crate::subnet::Subnets;

/// The emulator and the managers at one instant.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    /// Virtual time.
    pub now: Time,
    pub emulator: &'a Emulator,
    pub managers: &'a [Manager],
}

impl<'a> Stage<'a> {
    pub const fn new(now: Time, emulator: &'a Emulator, managers: &'a [Manager]) -> Self {
        Self {
            now,
            emulator,
            managers,
        }
    }

    /// Adds the subnets.
    pub(super) const fn scene(&self, subnets: &'a Subnets) -> Scene<'a> {
        Scene {
            now: self.now,
            emulator: self.emulator,
            managers: self.managers,
            subnets,
        }
    }
}

/// The emulator, the managers and the subnets at one instant.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    /// Virtual time.
    pub now: Time,
    pub emulator: &'a Emulator,
    pub managers: &'a [Manager],
    /// Which ports reach each other.
    pub subnets: &'a Subnets,
}

impl<'a> Scene<'a> {
    /// Returns the hardware: all nodes and cables of the emulator.
    pub fn chassis(&self) -> &'a Chassis {
        self.emulator.chassis()
    }

    /// Returns the current process of a manager, unless the manager is a program.
    pub fn life(&self, id: ManagerId) -> Option<&'a Life> {
        self.managers.get(id.0)?.life.as_ref()
    }

    /// Returns the name of a manager.
    pub fn manager_name(&self, id: ManagerId) -> String {
        self.managers.get(id.0).map(|m| m.name.clone()).unwrap_or_default()
    }
}

/// An observation.
#[derive(Clone, Copy)]
pub(crate) enum Seen<'a> {
    /// Time has advanced.
    Step,
    /// A fault is about to strike.
    Fault(&'a Fault),
    /// A manager begins a sweep or a probe: it no longer awaits answers to its earlier requests.
    LooksAnew(ClientId),
    /// The process of a manager was killed.
    Killed(ManagerId),
    /// A timer of a manager is due. `outputs` is the number of managers' outputs carried out before.
    Wakes { id: ManagerId, outputs: u64 },
    /// The manager was woken for its timer. `outputs` is the number of managers' outputs carried out by now.
    Woken { id: ManagerId, outputs: u64 },
    /// An operator's command, or the start of a manager, changes what the managers must achieve.
    WantedChanged,
    /// A manager sends a MAD, and waits for an answer this long.
    Sends {
        id: ManagerId,
        client: ClientId,
        datagram: &'a Datagram,
        timeout: Duration,
    },
    /// A manager receives a MAD.
    Receives {
        id: ManagerId,
        client: ClientId,
        datagram: &'a Datagram,
    },
    /// A manager's state is stored.
    Stored { id: ManagerId, state: &'a PersistentState },
    /// Links, power or GUIDs changed other than by a Set.
    Happened {
        /// True if trained links or powered nodes changed.
        is_disturbed: bool,
    },
    /// Ports can reach other ports than before, or hold other LIDs.
    Rewired {
        /// True if ports can reach other ports than before.
        are_cables_moved: bool,
    },
    /// The hardware after an event.
    Event {
        /// Changes by the event.
        changes: &'a Changes,
        /// True if no two ports hold the same LID, not even in different subnets.
        are_lids_unique: bool,
        /// The last time at which several managers were masters, in whatever subnets.
        several_masters: Option<Time>,
    },
    /// The hardware changed. The Sets that changed it follow, one by one.
    Changed,
    /// An agent took a Set.
    Set(&'a Taken),
    /// A tool, not a manager, has sent a Set.
    ForeignSet,
    /// The master at this port is idle, and all agents hold its last plan.
    Content { life: &'a Life, at: PortIdx },
    /// The master of the subnet to which this port belongs is idle, so routes are complete.
    Rest(PortIdx),
    /// A request of a host has arrived at an administrator.
    HostAsks(Question),
    /// An administrator has answered the request with this number.
    HostAnswered { number: u64 },
    /// A manager has another SMInfo state than before, or its process has started or ended.
    RoleChanged(ManagerId),
    /// Hosts and administrators have done all work that was due.
    HostsDone,
    /// The request of a host for a path has ended, with an answer or without one.
    PathTold(PathAsked<'a>),
    /// The request of a host for a path has ended, and all managers are idle.
    PathAtRest {
        path: PathAsked<'a>,
        /// True if packets of the host arrive at the other host.
        arrives: bool,
    },
    /// Hosts send no further requests, and no work is left.
    HostsRest(Served<'a>),
    /// A node was switched off and on again under one master, some time ago.
    NodeReturned {
        served: Served<'a>,
        /// Description of the node.
        node: &'a str,
    },
}
