//! Threads besides the core's: some compute, others store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use selvedge_api::Reroute;
use selvedge_fabric::Fabric;
use selvedge_health::{Deviation, Known};
use selvedge_plan::{Generation, OutOfService, Plan, Policy};
use selvedge_planner::preview::Preview;
use selvedge_planner::{Job, JobId, JobResult, Warm};
use selvedge_qos::jobs::Jobs;
use selvedge_sa::{JobRequest, Registrations, Snapshot, Sources};
use selvedge_sim::Par;
use selvedge_sm::{Command, PersistentState, PolicyChange};
use selvedge_store::{StateDir, StoreError};
use selvedge_telemetry::{Inventory, Sample};
use selvedge_transport::{put_this_thread_last, use_huge_pages};
use selvedge_types::SecretKey;

use crate::DaemonError;
use crate::attached::PortNews;
use crate::clock::Clock;
use crate::user_jobs::Answer;

/// A message to the manager's thread from another thread.
#[derive(Debug)]
pub(crate) enum Note {
    /// A job is done.
    Computed { id: JobId, result: Box<JobResult> },
    /// Some possible repairs are computed. No change waited for them, and nothing shown changes, except an event.
    BackedUp { id: JobId, result: Box<JobResult> },
    /// A committed plan is ready to answer requests; `None` if indexing it failed.
    Indexed(Option<Arc<Snapshot>>),
    /// The sampler's inventory of a committed plan.
    Surveyed {
        generation: Generation,
        inventory: Arc<Inventory>,
    },
    /// A portion of the samples from which the sampler goes on. The driver takes one a turn.
    Resume(Vec<Sample>),
    /// Work that waited was dropped for newer work.
    Superseded,
    /// State is stored, or could not be.
    Persisted { id: u64, result: Result<(), StoreError> },
    /// The nodes and links that were found are stored, or could not be.
    KnownStored { id: u64, result: Result<(), StoreError> },
    /// The registrations of hosts are stored, or could not be.
    Kept {
        revision: u64,
        result: Result<(), StoreError>,
    },
    /// Files have been dumped, or one of them could not be.
    Dumped(Result<(), (PathBuf, std::io::Error)>),
    /// The changes of the last plan.
    Compared(Reroute),
    /// The deviations from the expected topology.
    Deviations(Vec<Deviation>),
    /// The port was lost, or is open again.
    Port(PortNews),
    /// A command of the operator.
    Command(Command),
    /// The operator proposes a policy, with the SM_Key that goes with it; the change is the answer.
    Propose(Arc<Policy>, SecretKey, Sender<PolicyChange>),
    /// The operator takes places out of service, or puts them back: the wanted policy is proposed with this change of
    /// its list.
    ProposeList {
        before: Arc<OutOfService>,
        list: Arc<OutOfService>,
    },
    /// A job of a user starts or ends.
    UserJob(JobRequest, Sender<Answer>),
    /// A front end asks for the jobs of users.
    UserJobs(Sender<Jobs>),
    /// The operator asks what a policy would send. The answer finds that, if it is possible.
    Preview(Arc<Policy>, Sender<Option<Box<Preview>>>),
    /// The operator asks what the wanted policy would send with this change of its list of places out of service.
    PreviewList {
        before: Arc<OutOfService>,
        list: Arc<OutOfService>,
        answer: Sender<Option<Box<Preview>>>,
    },
}

impl Note {
    /// True if this note ends a piece of counted work.
    pub(crate) const fn ends_work(&self) -> bool {
        match self {
            Self::Computed { .. }
            | Self::Indexed(_)
            | Self::Surveyed { .. }
            | Self::Superseded
            | Self::Persisted { .. }
            | Self::KnownStored { .. }
            | Self::Compared(_)
            | Self::Deviations(_) => true,
            Self::BackedUp { .. }
            | Self::Resume(_)
            | Self::Kept { .. }
            | Self::Dumped(_)
            | Self::Port(_)
            | Self::Command(_)
            | Self::Propose(..)
            | Self::ProposeList { .. }
            | Self::UserJob(..)
            | Self::UserJobs(_)
            | Self::Preview(..)
            | Self::PreviewList { .. } => false,
        }
    }
}

/// A thread with a queue of work. It ends when this is dropped and its work is done.
pub(crate) struct Worker<T> {
    work: Option<Sender<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Worker<T> {
    pub(crate) fn start(
        name: &str,
        notes: Sender<Note>,
        mut run: impl FnMut(T, &Receiver<T>) -> Note + Send + 'static,
    ) -> Result<Self, DaemonError> {
        let (work, queue) = channel::<T>();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                while let Ok(item) = queue.recv() {
                    if notes.send(run(item, &queue)).is_err() {
                        return;
                    }
                }
            })
            .map_err(|cause| DaemonError::Thread { cause })?;
        Ok(Self {
            work: Some(work),
            thread: Some(thread),
        })
    }

    pub(crate) fn hand(&self, item: T) {
        // The thread ends only after this value; if it panicked, its work is lost as a crashed job's is.
        if let Some(work) = &self.work {
            let _ = work.send(item);
        }
    }
}

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the newest waiting item; each superseded one is reported as done.
pub(crate) fn newest<T>(mut item: T, queue: &Receiver<T>, notes: &Sender<Note>) -> T {
    while let Ok(newer) = queue.try_recv() {
        item = newer;
        // If the counter has gone, nothing counts.
        let _ = notes.send(Note::Superseded);
    }
    item
}

/// Starts a thread that plans. A newer job supersedes those that still wait.
pub(crate) fn planner(name: &str, notes: Sender<Note>) -> Result<Worker<Box<Job>>, DaemonError> {
    let dropped = notes.clone();
    Worker::start(name, notes, move |job: Box<Job>, queue| {
        let mut job = newest(job, queue, &dropped);
        Note::Computed {
            id: job.id,
            result: {
                // Work that no change waits for leaves the other threads free for urgent work.
                let par = if job.is_background() {
                    Par::Sequential
                } else {
                    Par::Rayon
                };
                let result = Box::new(compute(&mut job, par));
                // The data of the next repair do not move until then.
                let memory = result.warm().into_iter().flat_map(Warm::memory);
                memory.for_each(|addresses| use_huge_pages(&addresses));
                result
            },
        }
    })
}

/// Starts a thread that computes possible repairs, at lower priority than all other threads.
pub(crate) fn backer(notes: Sender<Note>) -> Result<Worker<Box<Job>>, DaemonError> {
    let mut is_last = false;
    Worker::start("backups", notes, move |mut job: Box<Job>, _| {
        if !std::mem::replace(&mut is_last, true) {
            put_this_thread_last();
        }
        Note::BackedUp {
            id: job.id,
            result: Box::new(compute(&mut job, Par::Sequential)),
        }
    })
}

/// Runs a job. A defect in planning costs the plan, not the manager: the tables in switches stay.
fn compute(job: &mut Job, par: Par) -> JobResult {
    guarded(job, |job| Some(job.run(par))).unwrap_or_else(|| job.fruitless(Vec::new()))
}

/// Makes a repair in place, if possible; otherwise the job must be run, which takes longer.
pub(crate) fn compute_in_place(job: &mut Job) -> Option<JobResult> {
    guarded(job, Job::run_in_place)
}

fn guarded(job: &mut Job, run: impl FnOnce(&mut Job) -> Option<JobResult>) -> Option<JobResult> {
    let began = Instant::now();
    job.set_clock(since_first_asked);
    let made = catch_unwind(AssertUnwindSafe(|| run(job)));
    let mut result = made.unwrap_or_else(|_| Some(job.no_plan()))?;
    result.set_took(began.elapsed());
    Some(result)
}

/// Returns the time since the first call.
fn since_first_asked() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// Starts the thread that indexes committed plans for the administrator. A newer plan supersedes those that still wait.
pub(crate) fn indexer(notes: Sender<Note>) -> Result<Worker<Sources>, DaemonError> {
    let dropped = notes.clone();
    Worker::start("index", notes, move |sources: Sources, queue| {
        let sources = newest(sources, queue, &dropped);
        // A defect costs the administrator a plan: it goes on with the one before.
        let index = AssertUnwindSafe(|| Arc::new(Snapshot::new(sources)));
        Note::Indexed(catch_unwind(index).ok())
    })
}

/// Compares a fabric with the expected topology.
pub type Expected = Box<dyn FnMut(&Fabric) -> Vec<Deviation> + Send>;

/// Starts the thread that compares the fabric that was found with the expected topology. A newer fabric replaces one
/// that still waits.
pub(crate) fn expecter(notes: Sender<Note>, mut expected: Expected) -> Result<Worker<Arc<Fabric>>, DaemonError> {
    let dropped = notes.clone();
    Worker::start("expected", notes, move |fabric: Arc<Fabric>, queue| {
        let fabric = newest(fabric, queue, &dropped);
        Note::Deviations(expected(&fabric))
    })
}

/// Two plans that were in force one after the other.
#[derive(Debug)]
pub(crate) struct ToCompare {
    pub(crate) before: (Arc<Fabric>, Arc<Plan>),
    pub(crate) now: (Arc<Fabric>, Arc<Plan>),
}

/// Starts the thread that compares plans: it reads all entries of both.
pub(crate) fn comparer(notes: Sender<Note>) -> Result<Worker<ToCompare>, DaemonError> {
    Worker::start("compare", notes, |ToCompare { before, now }, _| {
        Note::Compared(Reroute::between((&before.0, &before.1), (&now.0, &now.1)))
    })
}

/// State to be stored.
#[derive(Debug)]
pub(crate) enum ToStore {
    /// The manager's state, with the number of its store request.
    State(u64, Arc<PersistentState>),
    /// The nodes and links that were found, with the number of the request.
    Known(u64, Arc<Known>),
    /// The registrations of hosts, with their revision.
    Registrations(u64, Box<Registrations>),
}

/// Starts the thread that stores; without a folder everything counts as stored.
pub(crate) fn storer(
    notes: Sender<Note>,
    folder: Option<Arc<StateDir>>,
    clock: Clock,
) -> Result<Worker<ToStore>, DaemonError> {
    let mut last: Option<Arc<PersistentState>> = None;
    Worker::start("store", notes, move |item: ToStore, _| {
        let (id, state) = match item {
            ToStore::State(id, state) => (id, state),
            ToStore::Known(id, known) => {
                let save = |folder: &Arc<StateDir>| folder.save_known_fabric(&known, |time| clock.unix_ms(time));
                let result = folder.as_ref().map_or(Ok(()), save);
                return Note::KnownStored { id, result };
            }
            ToStore::Registrations(revision, all) => {
                let save = |folder: &Arc<StateDir>| folder.save_registrations(&all);
                let result = folder.as_ref().map_or(Ok(()), save);
                return Note::Kept { revision, result };
            }
        };
        let result = match &folder {
            Some(folder) if last.as_ref() != Some(&state) => folder.save_state(&state, last.as_deref()),
            _ => Ok(()),
        };
        // A failed save may have replaced one file of two.
        last = result.is_ok().then_some(state);
        Note::Persisted { id, result }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_work_is_told_of_done_or_superseded() {
        let (notes, told) = channel();
        let (work, queue) = channel();
        for item in 1..=4 {
            work.send(item).unwrap();
        }
        assert_eq!(newest(0, &queue, &notes), 4);
        drop(notes);
        let told: Vec<Note> = told.iter().collect();
        assert_eq!(told.len(), 4);
        assert!(told.iter().all(|note| matches!(note, Note::Superseded)), "{told:?}");
    }
}
