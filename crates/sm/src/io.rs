//! What goes into a manager and what comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_health::LinkKey;
use selvedge_plan::aliases::PortAliases;
use selvedge_plan::multicast::MulticastGroup;
use selvedge_plan::{EngineName, Generation, Policy};
use selvedge_planner::{Job, JobId, JobResult};
use selvedge_types::{Guid, Lid, LidRange};
use selvedge_wire::Datagram;

use crate::event::Event;
use crate::milestone::Milestone;
use crate::rebalance::Asked;

/// Everything a manager reacts to.
#[derive(Clone, Debug)]
pub enum Input {
    /// The first input: begin.
    Start,
    /// A datagram from the fabric.
    Received(Datagram),
    /// A request of ours that the layer below handed back unanswered.
    Returned(Datagram),
    /// [`crate::Sm::next_wake`] has come.
    Wake,
    /// A job is done. The result of a job that the manager no longer waits for is dropped.
    Computed {
        /// Ticket of the job.
        id: JobId,
        /// Its result.
        result: Box<JobResult>,
    },
    /// State handed out by [`Output::Persist`] is safe.
    Persisted {
        /// Number of the request.
        id: u64,
    },
    /// State handed out by [`Output::Persist`] could not be stored. The coordinator tries again until it can, and hands
    /// in [`Input::Persisted`].
    NotPersisted {
        /// Number of the request.
        id: u64,
    },
    /// Multicast groups as they are now; those that are not named are as they were.
    Groups(Vec<MulticastGroup>),
    /// Alias GUIDs of ports as they are to be now; ports that are not named have what they had.
    Aliases(Vec<PortAliases>),
    /// A command of the operator or of the coordinator.
    Command(Command),
}

/// What an operator or the coordinator can ask for. [`Self::Sweep`], [`Self::Rebalance`], [`Self::SetPolicy`],
/// [`Self::Forget`] and [`Self::Stop`] are the operator's; the others are the coordinator's.
#[derive(Clone, Debug)]
pub enum Command {
    /// Discover everything again (SIGHUP).
    Sweep,
    /// Bring tables back to balance now, whatever the policy says of when.
    Rebalance(Asked),
    /// Plan with another policy.
    SetPolicy(Arc<Policy>),
    /// What hosts registered is lost: the next plan asks them to register again.
    Reregister,
    /// What these ports had registered was forgotten when they were gone, here or, while this manager stands by, by the
    /// master: one that is there at its next plan is asked. Said of a master again, they are other ports.
    ReregisterThese(BTreeSet<Guid>),
    /// Ports with these GUIDs in the plan in force call themselves otherwise: the next light sweep asks them.
    Doubt(BTreeSet<Guid>),
    /// What hosts registered is known after all: nobody is asked.
    Registered,
    /// What hosts registered with the master was known, and the administrator beside the master does not say any more
    /// that nothing is new. Hosts are asked if the master is heard of after this: it may have registered something.
    Unproven,
    /// Whoever runs this manager copies what hosts registered with the master: whenever it begins to stand by, it is
    /// not to be given the subnet before [`Self::Ready`].
    HoldBack,
    /// There is a copy, or none is to be had.
    Ready,
    /// What the master has told senders.
    Told(Box<ToldLevels>),
    /// A source of traps babbles: its port is disabled, if the settings ask for that.
    Babbles {
        /// The LID of the source.
        lid: Lid,
        /// The port of its node that its traps name.
        port: Option<u8>,
    },
    /// These nodes and links are gone for good: they are no longer listed as missing.
    Forget {
        /// Nodes by GUID.
        nodes: BTreeSet<Guid>,
        /// Links by both ends.
        links: BTreeSet<LinkKey>,
    },
    /// Leave: clear IsSM, send nothing more.
    Stop,
}

/// Everything a manager wants done.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send a datagram.
    Send {
        /// The datagram.
        datagram: Datagram,
        /// How long the layer below may wait for the answer before it hands the request back.
        timeout: Duration,
    },
    /// Run a job off this thread, then hand in [`Input::Computed`]. A newer job supersedes this one.
    Compute(Box<Job>),
    /// Store this, then hand in [`Input::Persisted`]; [`Input::NotPersisted`] after each attempt that fails.
    Persist {
        /// Number of the request.
        id: u64,
        /// What to store.
        state: PersistentState,
    },
    /// Show or clear IsSM at the local port.
    SetIsSm(bool),
    /// The manager has done something that other programs act upon.
    Milestone(Milestone),
    /// Something an operator may want to know. Nothing is decided by it.
    Event(Event),
}

/// What another manager has told senders: which service level to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldLevels {
    /// LID of that manager's port.
    pub by: Lid,
    /// Lanes that its routes rely on; 1: on none, 0: that is not known.
    pub lanes: u8,
    /// Levels of the LIDs of each end port, in order, by port GUID; none if there is one lane.
    pub by_port: BTreeMap<Guid, Vec<u8>>,
}

/// What survives a restart. Stored before any Set of a plan is sent, so that nothing an agent may hold is forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentState {
    /// LIDs by port GUID (OpenSM's guid2lid).
    pub lids: BTreeMap<Guid, LidRange>,
    /// LIDs that ports were last known to hold, of those that have not been seen to take the ones above; and of those
    /// that have none above, as another port was seen with theirs.
    pub lids_before: BTreeMap<Guid, LidRange>,
    /// LIDs of ports that were taken to be another fabric's, as none of them was found.
    pub lids_aside: BTreeMap<Guid, LidRange>,
    /// No plan of a generation above this one has been sent. It runs ahead, so that not every plan needs the disk.
    pub generation: Generation,
    /// Lane of the LIDs behind each switch, by the switch's GUID; none if there is one lane.
    pub lanes: BTreeMap<Guid, u8>,
    /// Service levels of the LIDs of ports, in order, by port GUID, where they are not all the lane of their switch.
    pub levels: BTreeMap<Guid, Vec<u8>>,
    /// The engines that were to make the tables that have come into force, in order; none if that is not known.
    pub engines: Vec<EngineName>,
    /// Lanes that the routes rely on; 1: on none, 0: that is not known.
    pub lane_count: u8,
    /// Lanes that routes might rely on when the engines were named; 0 if that is not known.
    pub lanes_wanted: u8,
}
