//! Inputs and outputs of a manager.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use selvedge_health::LinkKey;
use selvedge_plan::aliases::PortAliases;
use selvedge_plan::multicast::MulticastGroup;
use selvedge_plan::partition::Partition;
use selvedge_plan::{EngineName, Generation, OutOfService, Policy};
use selvedge_planner::{Job, JobId, JobResult};
use selvedge_types::{Guid, Lid, LidRange, SecretKey};
use selvedge_wire::Datagram;

use crate::event::Event;
use crate::milestone::Milestone;
use crate::rebalance::Asked;

/// The inputs of a manager.
#[derive(Clone, Debug)]
pub enum Input {
    /// The first input: begin.
    Start,
    /// A datagram from the fabric.
    Received(Datagram),
    /// A request of this manager that the layer below returned without an answer.
    Returned(Datagram),
    /// The time of [`crate::Sm::next_wake`] has come.
    Wake,
    /// A job is done. The result of a job that the manager no longer waits for is dropped.
    Computed {
        /// Ticket of the job.
        id: JobId,
        /// The result of the job.
        result: Box<JobResult>,
    },
    /// State handed out by [`Output::Persist`] is safe.
    Persisted {
        /// Number of the request.
        id: u64,
    },
    /// State handed out by [`Output::Persist`] could not be stored. The coordinator tries again until it succeeds, and
    /// then hands in [`Input::Persisted`].
    NotPersisted {
        /// Number of the request.
        id: u64,
    },
    /// The present multicast groups; groups that are not named are unchanged.
    Groups(Vec<MulticastGroup>),
    /// The wanted alias GUIDs of these ports; other ports are unchanged.
    Aliases(Vec<PortAliases>),
    /// A command of the operator or of the coordinator.
    Command(Command),
}

/// What an operator or the coordinator can ask for. [`Self::Sweep`], [`Self::Rebalance`], [`Self::SetPolicy`],
/// [`Self::SetSmKey`], [`Self::Forget`] and [`Self::Stop`] are the operator's; the others are the coordinator's.
#[derive(Clone, Debug)]
pub enum Command {
    /// Discover everything again (SIGHUP).
    Sweep,
    /// Rebalance now, even if the policy is later or never.
    Rebalance(Asked),
    /// Propose another policy. The next heavy sweep plans with it; the policy in force stays until the judge accepts
    /// that plan. [`crate::Sm::policy_changes`] shows the outcome.
    SetPolicy(Arc<Policy>),
    /// Show another SM_Key, once the last proposed policy is kept. For a while, other managers that show the former key
    /// are trusted too.
    SetSmKey(SecretKey),
    /// All registrations of hosts are lost: the next plan asks hosts to register again.
    Reregister,
    /// Registrations of these ports were dropped when the ports were absent, either by this manager or, while it stood
    /// by, by the master. A port that is present at the next plan is asked to register again. If several such commands
    /// come before this manager is master, the last one replaces the earlier ones.
    ReregisterThese(BTreeSet<Guid>),
    /// Ports that have these GUIDs in the plan in force now report other GUIDs: the next light sweep reads the ports.
    Doubt(BTreeSet<Guid>),
    /// Hosts' registrations are known after all: no host is asked.
    Registered,
    /// The copy of the master's registrations was complete, but the master's administrator no longer confirms that
    /// nothing is new. If the master answers a poll after this message, it may have accepted more registrations, so
    /// hosts will be asked to register again.
    Unproven,
    /// The process of this manager copies registrations from the master. So whenever the manager begins to stand by, it
    /// accepts no handover before [`Self::Ready`].
    HoldBack,
    /// The copy is complete, or cannot be had.
    Ready,
    /// Service levels that the master has given to senders.
    Told(Box<ToldLevels>),
    /// The master's list of places out of service: this manager, as a standby, keeps to it when it becomes master.
    OutOfService(Arc<OutOfService>),
    /// The partitions of isolated jobs.
    JobPartitions(Vec<Partition>),
    /// A source of traps babbles: its port is disabled, if the settings ask for that.
    Babbles {
        /// The LID of the source.
        lid: Lid,
        /// The port that the node's traps name.
        port: Option<u8>,
    },
    /// These nodes and links are gone for good: they are no longer listed as missing.
    Forget {
        /// Nodes by GUID.
        nodes: BTreeSet<Guid>,
        /// Links, each by both its ends.
        links: BTreeSet<LinkKey>,
    },
    /// Leave: clear IsSM, send nothing more.
    Stop,
}

/// The outputs of a manager.
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
    /// Store this state, then hand in [`Input::Persisted`]; hand in [`Input::NotPersisted`] after each failed attempt.
    Persist {
        /// Number of the request.
        id: u64,
        /// What to store.
        state: PersistentState,
    },
    /// Show or clear IsSM at the local port.
    SetIsSm(bool),
    /// The manager has completed something that other programs act upon.
    Milestone(Milestone),
    /// An event for operators. No program acts upon it.
    Event(Event),
}

/// The service levels that another manager has given to senders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldLevels {
    /// LID of the other manager's port.
    pub by: Lid,
    /// Number of lanes that the routes rely on; 1 if they rely on none, 0 if this is unknown.
    pub lanes: u8,
    /// Levels of the LIDs of each end port, in order, by port GUID; none if there is one lane.
    pub by_port: BTreeMap<Guid, Vec<u8>>,
}

/// State that survives a restart. Stored before any Set of a plan is sent, so that no LID that an agent may hold is
/// lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentState {
    /// LIDs by port GUID (OpenSM's guid2lid).
    pub lids: BTreeMap<Guid, LidRange>,
    /// Former LIDs of two kinds of ports: ports with LIDs in `lids` that no answer has confirmed yet, and ports without
    /// LIDs in `lids`, because another port answered with these LIDs.
    pub lids_before: BTreeMap<Guid, LidRange>,
    /// LIDs of ports that were taken to belong to another fabric, because none of these ports was found.
    pub lids_aside: BTreeMap<Guid, LidRange>,
    /// No plan of a generation above this one has been sent. The stored number is higher than that of the last plan, so
    /// that not every plan needs a write of its own.
    pub generation: Generation,
    /// Lane of the LIDs behind each switch, by the switch's GUID; none if there is one lane.
    pub lanes: BTreeMap<Guid, u8>,
    /// Service levels of the LIDs of ports, in order, by port GUID, where they are not all the lane of their switch.
    pub levels: BTreeMap<Guid, Vec<u8>>,
    /// The configured engines of the tables in force, in order; empty if they are not known.
    pub engines: Vec<EngineName>,
    /// Number of lanes that the routes rely on; 1 if they rely on none, 0 if this is unknown.
    pub lane_count: u8,
    /// Number of lanes that the policy let routes rely on when `engines` was stored; 0 if that is not known.
    pub lanes_wanted: u8,
    /// M_Keys that ports may hold, newest first: a key stands here before the first port gets it.
    pub m_keys: Vec<SecretKey>,
    /// Retired M_Keys, newest first: no port in sight held one when the M_Key was last changed.
    pub m_keys_retired: Vec<SecretKey>,
    /// SM_Keys that other managers may show, newest first; none unless the key was changed.
    pub sm_keys: Vec<SecretKey>,
}
