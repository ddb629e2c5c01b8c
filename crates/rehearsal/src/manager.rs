//! A manager's place in the rehearsal: the state that survives when it is killed, and its present process.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use selvedge_coordinator::Coordinator;
use selvedge_emulator::ClientId;
use selvedge_fabric::Fabric;
use selvedge_health::Known;
use selvedge_plan::{ChangeSet, Installed, Plan, Policy};
use selvedge_planner::{Accepted, Inventory, Job, JobResult, Judge};
use selvedge_sim::{Par, Time};
use selvedge_sm::{Config, Input, Output, PersistentState, Sm};
use selvedge_store::{MemoryDisk, StateDir, StoreError};
use selvedge_verify::{Refusal, Verdict};
use selvedge_wire::{AttributeId, Mad, Method, PortInfo};

use crate::passed::Passed;

/// A manager of a rehearsal: its position in order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManagerId(pub usize);

/// A manager. Its process may end and start again; its stored state stays.
#[derive(Debug)]
pub(crate) struct Manager {
    pub name: String,
    /// The end port of the manager, as text.
    pub at: String,
    pub config: Config,
    pub judge: Arc<dyn Judge>,
    /// Change sets that the manager's judge has accepted, if checkers follow every Set.
    pub passed: Option<Passed>,
    /// Changes the manager's inputs and outputs, in tests of checkers.
    pub tamper: Option<Box<dyn Tamper>>,
    pub stored: PersistentState,
    /// The nodes and links that the manager has found, as stored last.
    pub known: Arc<Known>,
    /// The disk for its state; `None`: state is kept as a value, and storing always works.
    pub disk: Option<Arc<MemoryDisk>>,
    /// The administrator beside the manager, if there is one.
    pub administers: Option<Administers>,
    /// The settings of the manager's sampler, if it has one.
    pub samples: Option<selvedge_telemetry::Config>,
    pub life: Option<Life>,
}

impl Manager {
    /// Returns the policy in force: after a rollback it is not the one in the operator's file.
    pub fn policy(&self) -> &Policy {
        let life = self.life.as_ref();
        life.map_or(&self.config.policy, |life| life.sm.policy())
    }
}

/// An administrator beside a manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Administers {
    /// The administrator's defect, in tests of checkers.
    pub defect: Option<DeskDefect>,
}

/// A defect of administrators that must be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeskDefect {
    /// Registrations of hosts are reported as stored and are not.
    StoresNothing,
    /// The administrator confirms registrations although they could neither be marked nor stored.
    ConfirmsUnmarked,
    /// The administrator answers from the first plan of its process, even when a later plan is in force.
    AnswersFromThePast,
    /// The administrator sends no Reports.
    Mute,
    /// The administrator answers no request for a path.
    IgnoresPaths,
    /// The administrator does not pass groups to the manager.
    KeepsGroups,
    /// The administrator ignores requests to register a service.
    LosesServices,
    /// As a standby, the administrator does not copy which ports' registrations the master has dropped.
    CopiesNoForgotten,
}

/// One process of a manager, from its start until it ends or is killed.
#[derive(Debug)]
pub(crate) struct Life {
    pub client: ClientId,
    /// When the process began.
    pub started: Time,
    /// Number of the process; no other process has the same.
    pub number: u64,
    pub sm: Sm,
    /// Connects the manager with its administrator, its port and its disk.
    pub coordinator: Coordinator,
    /// How far the manager's clock is ahead; 0 without a defect.
    pub hurry: Duration,
    /// Work to be done later, each with its time.
    pub pending: Vec<(Time, Pending)>,
    /// The times of the manager's sweeps and probes.
    pub looks: Looks,
    /// The manager's own plans.
    pub plans: Plans,
    /// How often the manager's SMInfo state has changed.
    pub role_changes: u64,
    /// True if a plan in force was made ready for the administrator.
    pub has_indexed: bool,
    /// The manager's state folder, if the manager has a disk.
    pub folder: Option<Folder>,
}

/// The times of a manager's sweeps and probes.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    looked_at: Option<Time>,
    swept_at: Option<Time>,
    boots: Arc<Vec<u32>>,
}

impl Looks {
    /// Records that a sweep begins. `boots`: how often each node had been switched on.
    pub fn sweeps(&mut self, now: Time, boots: Vec<u32>) {
        (self.looked_at, self.swept_at) = (Some(now), Some(now));
        self.boots = Arc::new(boots);
    }

    /// Records the beginning of a probe.
    pub const fn probes(&mut self, now: Time) {
        self.looked_at = Some(now);
    }

    /// Returns when the manager's last sweep or probe began.
    pub const fn looked_at(&self) -> Option<Time> {
        self.looked_at
    }

    /// Returns when the manager's last sweep began. Unlike a sweep, a probe reads no tables.
    pub const fn swept_at(&self) -> Option<Time> {
        self.swept_at
    }

    /// Returns how often each node had been switched on when the last sweep began.
    pub const fn boots(&self) -> &Arc<Vec<u32>> {
        &self.boots
    }
}

/// Plans of a manager, from job result to plan in force.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    /// The plan of the job result that the manager is taking, until it accepts or drops it.
    offered: Option<AcceptedPlan>,
    accepted: Option<AcceptedPlan>,
    in_force: Option<(Arc<Fabric>, Arc<Plan>)>,
}

impl Plans {
    /// Records a job result with this plan that the manager is about to get, or has got.
    pub fn offer(&mut self, offered: Option<AcceptedPlan>) {
        self.offered = offered;
    }

    /// Called when the offered plan is accepted.
    pub fn accept(&mut self) {
        if let Some(offered) = self.offered.take() {
            self.accepted = Some(offered);
        }
    }

    /// Records the plan in force; there is none if the manager is not master.
    pub fn commit(&mut self, in_force: Option<(Arc<Fabric>, Arc<Plan>)>) {
        self.in_force = in_force;
    }

    /// Returns the plan that was accepted last, with its fabric.
    pub const fn accepted(&self) -> Option<&AcceptedPlan> {
        self.accepted.as_ref()
    }

    /// Returns the plan in force with its fabric, while the manager is master.
    pub const fn in_force(&self) -> Option<&(Arc<Fabric>, Arc<Plan>)> {
        self.in_force.as_ref()
    }
}

/// A state folder, as used by one process of a manager.
#[derive(Debug)]
pub(crate) struct Folder {
    pub dir: StateDir,
    /// The state that this process stored last.
    pub last: Option<Arc<PersistentState>>,
}

/// Name of the state folders of simulated managers in messages.
const FOLDER: &str = "state";

/// Opens the state folder on a disk.
pub(crate) fn open_folder(disk: &Arc<MemoryDisk>) -> Result<StateDir, StoreError> {
    let disk = Arc::clone(disk);
    StateDir::on(Path::new(FOLDER), disk)
}

/// A plan that the judge has accepted.
#[derive(Clone, Debug)]
pub(crate) struct AcceptedPlan {
    /// When the plan was accepted.
    pub at: Time,
    /// How often each node had been switched on when the sweep behind the plan began.
    pub boots: Arc<Vec<u32>>,
    pub fabric: Arc<Fabric>,
    /// True if no link between switches carried packets in the fabric that the plan was made for.
    pub is_first: bool,
    pub plan: Arc<Plan>,
}

/// Unfinished work.
#[derive(Debug)]
pub(crate) enum Pending {
    /// A job, and its result if it has been made already.
    Job {
        job: Box<Job>,
        result: Option<Box<JobResult>>,
    },
    Persisted {
        id: u64,
        state: Box<PersistentState>,
    },
    /// State that is being written to a disk, which may fail.
    Saved {
        id: u64,
        state: Arc<PersistentState>,
    },
    Input(Box<Input>),
}

/// Stands between a manager and the world. Tests of checkers use it to break managers.
pub trait Tamper: fmt::Debug + Send {
    /// Handles an input that is about to reach the manager: returns this input, another one, or none.
    fn input(&mut self, now: Time, input: Input) -> Option<Input> {
        let _ = now;
        Some(input)
    }

    /// Handles an output of the manager. It appends to `out` the outputs that are carried out, and to `back` inputs
    /// that the manager gets at once, as a substitute for answers.
    fn output(&mut self, now: Time, output: Output, out: &mut Vec<Output>, back: &mut Vec<Input>);

    /// Returns by how much the manager's clock is ahead from now on.
    fn hurry(&mut self, sm: &Sm, now: Time) -> Duration {
        let _ = (sm, now);
        Duration::ZERO
    }
}

impl Life {
    /// Returns when the process next wants to be called.
    pub fn next_due(&self) -> Option<Time> {
        let pending = self.pending.iter().map(|(at, _)| *at).min();
        [pending, self.next_wake(), self.coordinator.next_wake()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Returns when the manager's next timer is due.
    pub fn next_wake(&self) -> Option<Time> {
        let hurry = u64::try_from(self.hurry.as_nanos()).unwrap_or(u64::MAX);
        self.sm.next_wake().map(|at| Time(at.0.saturating_sub(hurry)))
    }

    /// Takes the first work that is done by `now`, in the order of completion, then of requests.
    pub fn take_done(&mut self, now: Time) -> Option<Pending> {
        let due = self.pending.iter().enumerate().filter(|(_, (at, _))| *at <= now);
        let (first, _) = due.min_by_key(|(i, (at, _))| (*at, *i))?;
        Some(self.pending.remove(first).1)
    }
}

/// A judge that refuses every plan, so that nothing may be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefuseAll;

impl Judge for RefuseAll {
    fn judge(
        &self,
        _inventory: &Inventory,
        _installed: &Installed,
        _plan: &Plan,
        _changes: &(dyn Fn() -> ChangeSet + Sync),
        _par: Par,
    ) -> Result<Accepted, Box<Refusal>> {
        Err(Box::new(Refusal {
            verdict: Verdict::default(),
        }))
    }
}

/// True if the MAD asks a host to register again.
pub(crate) fn asks_host(mad: &Mad) -> bool {
    let is_set = (mad.method(), mad.attribute()) == (Method::Set, AttributeId::PORT_INFO);
    is_set && mad.read().is_ok_and(|info: PortInfo| info.client_reregister)
}
