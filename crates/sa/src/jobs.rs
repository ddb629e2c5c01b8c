//! Jobs, which are registered by an operator or a scheduler: the running and the waiting ones, the ports of their
//! hosts, and their table for standbys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, Node};
use selvedge_plan::partition::{Partition, Partitions, Rule, Who};
use selvedge_plan::qos::Compiled;
use selvedge_qos::jobs::{Grant, Job, JobError, Jobs, PKeys, Started};
use selvedge_types::{Guid, NodeKind};
use selvedge_wire::sa::{SaData, records};

use crate::query::{Cursor, Ground, Step};
use crate::snapshot::Snapshot;
use crate::text_rows::{joined, piece};

/// P_Keys for partitions of jobs. Source: ours; the upper half of the keys, which partition files rarely use.
const PKEYS: std::ops::RangeInclusive<u16> = 0x4000..=0x7FFE;

/// A job starts or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRequest {
    /// A job starts.
    Start(Job),
    /// The job with this name ends.
    End(String),
}

/// The answer to a request that was not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobAnswer {
    /// The job runs or waits.
    Started(Started),
    /// The job has ended. These waited, and run now.
    Ended(Vec<Grant>),
}

/// The inputs of [`JobBook`].
#[derive(Clone, Debug)]
pub(crate) enum JobIn {
    /// A job starts or ends.
    Request(JobRequest),
    /// Jobs of an earlier run, or of the master of this standby.
    Restore(Jobs),
    /// A plan is in force: classes and ports may be others.
    Committed,
}

/// What decisions about jobs depend on.
#[derive(Clone, Copy)]
pub(crate) struct JobGround<'a> {
    /// The plan in force; `None` while this manager is not master, or has none yet.
    pub snapshot: Option<&'a Snapshot>,
    /// All partitions.
    pub partitions: &'a Partitions,
}

impl JobGround<'_> {
    /// Returns the P_Keys of the operator's partitions.
    fn operator_keys(self) -> BTreeSet<u16> {
        let all = self.partitions.partitions.keys().copied();
        all.filter(|key| !self.partitions.of_jobs.contains(key)).collect()
    }
}

/// Jobs, and the ports of their hosts.
#[derive(Debug, Default)]
pub(crate) struct JobBook {
    jobs: Jobs,
    /// [`Jobs::to_text`].
    text: Arc<str>,
    /// Names of the running jobs of each port of their hosts.
    of_port: BTreeMap<Guid, BTreeSet<String>>,
    /// The partitions of isolated jobs, and whether the manager has not got them yet.
    partitions: (Vec<Partition>, bool),
    answer: Option<Result<JobAnswer, JobError>>,
}

impl JobBook {
    /// Handles one input. Returns true if the list of jobs has changed.
    pub(crate) fn handle(&mut self, input: JobIn, ground: JobGround<'_>) -> bool {
        let taken: BTreeSet<u16> = ground.operator_keys();
        let pkeys = PKeys {
            first: *PKEYS.start(),
            last: *PKEYS.end(),
            taken: &taken,
        };
        match input {
            JobIn::Request(request) => self.answer = Some(self.request(request, ground.snapshot, pkeys)),
            JobIn::Restore(jobs) => self.jobs = jobs,
            JobIn::Committed => {
                if let Some((snapshot, classes)) = ground.snapshot.and_then(with_classes) {
                    self.jobs
                        .admit(classes, pkeys, |host| ports_of(snapshot.fabric(), host));
                }
            }
        }
        let text = self.jobs.to_text();
        if *self.text == *text {
            return false;
        }
        self.text = text.into();
        self.of_port = of_port(&self.jobs);
        let partitions = partitions(&self.jobs);
        self.partitions.1 |= self.partitions.0 != partitions;
        self.partitions.0 = partitions;
        true
    }

    /// Returns the partitions of isolated jobs, if they have changed since the last call.
    pub(crate) fn take_partitions(&mut self) -> Option<Vec<Partition>> {
        std::mem::take(&mut self.partitions.1).then(|| self.partitions.0.clone())
    }

    /// Returns the jobs.
    pub(crate) const fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Returns the jobs as text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the answer to the last request.
    pub(crate) fn take_answer(&mut self) -> Option<Result<JobAnswer, JobError>> {
        self.answer.take()
    }

    /// Returns the names of the running jobs that have both ports.
    pub(crate) fn of_both(&self, a: Guid, b: Guid) -> impl Iterator<Item = &str> {
        let both = self.of_port.get(&a).zip(self.of_port.get(&b));
        both.into_iter()
            .flat_map(|(a, b)| a.intersection(b))
            .map(String::as_str)
    }

    /// Returns the class of a running job, if the job named one.
    pub(crate) fn class_of(&self, id: &str) -> Option<&str> {
        self.jobs.grant(id)?.job.class.as_deref()
    }

    fn request(
        &mut self,
        request: JobRequest,
        snapshot: Option<&Snapshot>,
        pkeys: PKeys<'_>,
    ) -> Result<JobAnswer, JobError> {
        let (snapshot, classes) = snapshot.and_then(with_classes).ok_or(JobError::NoClasses)?;
        let ports_of = |host: &str| ports_of(snapshot.fabric(), host);
        match request {
            JobRequest::Start(job) => {
                let started = self.jobs.start(classes, pkeys, job, ports_of);
                started.map(JobAnswer::Started)
            }
            JobRequest::End(id) => self.jobs.end(classes, pkeys, &id, ports_of).map(JobAnswer::Ended),
        }
    }
}

/// Returns the plan in force with its classes, if it has some.
fn with_classes(snapshot: &Snapshot) -> Option<(&Snapshot, &Compiled)> {
    Some((snapshot, snapshot.plan().classes()?))
}

fn of_port(jobs: &Jobs) -> BTreeMap<Guid, BTreeSet<String>> {
    let mut found: BTreeMap<Guid, BTreeSet<String>> = BTreeMap::new();
    for grant in jobs.running() {
        for guid in &grant.ports {
            found.entry(*guid).or_default().insert(grant.job.id.clone());
        }
    }
    found
}

/// Returns the partitions of isolated jobs: their ports are full members.
fn partitions(jobs: &Jobs) -> Vec<Partition> {
    let isolated = jobs.running().filter_map(|grant| Some((grant, grant.pkey?)));
    let partitions = isolated.map(|(grant, pkey)| Partition {
        name: format!("job {}", grant.job.id),
        key: pkey.0 & 0x7FFF,
        sl: grant.sls.first().copied().unwrap_or_default(),
        rules: (grant.ports.iter())
            .map(|guid| Rule {
                who: Who::Port(*guid),
                is_full: true,
                is_first: false,
            })
            .collect(),
    });
    partitions.collect()
}

/// Returns the GUIDs of the connected ports of a host.
fn ports_of(fabric: &Fabric, host: &str) -> BTreeSet<Guid> {
    let ends = fabric.end_ports().filter(|(_, port)| port.peer.is_some());
    let of_host = ends.filter(|(at, _)| is_called(fabric.node(at.node), host));
    of_host.map(|(_, port)| port.guid).collect()
}

/// True if a node belongs to a host: its description is the host's name, or begins with it and a blank, as adapters
/// name themselves (`n1 mlx5_0`); or its GUID is the name.
fn is_called(node: &Node, host: &str) -> bool {
    let description = node.description.as_str();
    let adapter = description
        .strip_prefix(host)
        .is_some_and(|rest| rest.starts_with([' ', '/']));
    let is_guid = || host.parse::<Guid>().is_ok_and(|guid| guid == node.guid);
    node.kind == NodeKind::Ca && (description == host || adapter || is_guid())
}

/// Writes the text of the list of jobs, a piece a row.
pub fn rows(ground: &Ground<'_>, cursor: &mut Cursor, row: &mut SaData) -> Step {
    piece(ground.registered.jobs.text(), records::jobs::TEXT, cursor, row)
}

/// Decodes rows that [`rows`] wrote into the list with a number; `None` if they are not this list.
pub fn read(rows: impl Iterator<Item = SaData>, number: u32) -> Option<Jobs> {
    Jobs::parse(&joined(rows, number)?).ok()
}
