//! What checkers get to see.

use std::time::Duration;

use selvedge_chassis::{Chassis, PortIdx};
use selvedge_emulator::{ClientId, Emulator, Fault};
use selvedge_sim::Time;
use selvedge_sm::PersistentState;
use selvedge_wire::Datagram;

use super::hardware::Changes;
use super::taken::Taken;
use crate::manager::{Life, Manager, ManagerId};
use crate::subnet::Subnets;

/// What is there to be looked at.
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

    /// The same with what is known of subnets.
    pub(super) const fn scene(&self, subnets: &'a Subnets) -> Scene<'a> {
        Scene {
            now: self.now,
            emulator: self.emulator,
            managers: self.managers,
            subnets,
        }
    }
}

/// What stands around a checker while it looks.
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
    /// The hardware.
    pub fn chassis(&self) -> &'a Chassis {
        self.emulator.chassis()
    }

    /// The present process of a manager, unless it is a program.
    pub fn life(&self, id: ManagerId) -> Option<&'a Life> {
        self.managers.get(id.0)?.life.as_ref()
    }
}

/// An observation.
#[derive(Clone, Copy)]
pub(crate) enum Seen<'a> {
    /// Time went on.
    Step,
    /// A fault is about to strike.
    Fault(&'a Fault),
    /// A manager begins to look: it waits no more for answers to what it asked before.
    LooksAnew(ClientId),
    /// The process of a manager was killed.
    Killed(ManagerId),
    /// A timer of a manager is due, when so many outputs of managers were carried out.
    Wakes { id: ManagerId, outputs: u64 },
    /// It was woken.
    Woken { id: ManagerId, outputs: u64 },
    /// An operator, or a start, changes what is wanted.
    WantedChanged,
    /// A datagram leaves a manager, which waits so long for an answer.
    Sends {
        id: ManagerId,
        client: ClientId,
        datagram: &'a Datagram,
        timeout: Duration,
    },
    /// A manager receives a datagram.
    Receives {
        id: ManagerId,
        client: ClientId,
        datagram: &'a Datagram,
    },
    /// A manager's state is stored.
    Stored { id: ManagerId, state: &'a PersistentState },
    /// Links, power or GUIDs changed, and not by a Set.
    Happened {
        /// What is trained and has power changed.
        is_disturbed: bool,
    },
    /// Ports reach other ones than before, or hold other LIDs.
    Rewired {
        /// They reach other ones.
        are_cables_moved: bool,
    },
    /// The hardware is looked at as it is after an event.
    Event {
        /// What the event changed.
        changes: &'a Changes,
        /// No two ports hold the same LID, whichever subnets they are in.
        are_lids_unique: bool,
        /// When there were last several masters.
        several_masters: Option<Time>,
    },
    /// The hardware changed. The Sets that did it follow, one by one.
    Changed,
    /// An agent took a Set.
    Set(&'a Taken),
    /// Another than a manager set something.
    ForeignSet,
    /// A master at a port has nothing left to do.
    Content { life: &'a Life, at: PortIdx },
    /// Nothing is left to do around a port: routes are complete.
    Rest(PortIdx),
}
