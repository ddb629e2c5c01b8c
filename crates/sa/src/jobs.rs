//! Jobs, which are registered by an operator or a scheduler: the running and the waiting ones, the ports of their
//! hosts, and their table for standbys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use selvedge_fabric::{Fabric, Node};
use selvedge_plan::qos::{Compiled, PathRules};
use selvedge_qos::jobs::{Grant, Job, JobError, Jobs, PKeys, Started};
use selvedge_types::{Guid, NodeKind};
use selvedge_wire::sa::{SaData, records};

use crate::query::{Cursor, Ground, Step};
use crate::snapshot::Snapshot;
use crate::text_rows::{joined, piece};

/// P_Keys for partitions of jobs. Source: ours; the upper half of the keys, which partition files rarely use.
const PKEYS: PKeys = PKeys {
    first: 0x4000,
    last: 0x7FFE,
};

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

/// Jobs, and the ports of their hosts.
#[derive(Debug, Default)]
pub(crate) struct JobBook {
    jobs: Jobs,
    /// [`Jobs::to_text`].
    text: Arc<str>,
    /// Names of the running jobs of each port of their hosts.
    of_port: BTreeMap<Guid, BTreeSet<String>>,
    answer: Option<Result<JobAnswer, JobError>>,
}

impl JobBook {
    /// Handles one input. `snapshot` is the plan in force while this manager is master. Returns true if the list of jobs
    /// has changed.
    pub(crate) fn handle(&mut self, input: JobIn, snapshot: Option<&Snapshot>) -> bool {
        match input {
            JobIn::Request(request) => self.answer = Some(self.request(request, snapshot)),
            JobIn::Restore(jobs) => self.jobs = jobs,
            JobIn::Committed => {
                if let Some(classes) = snapshot.and_then(classes) {
                    self.jobs.admit(classes, PKEYS);
                }
            }
        }
        self.of_port = match snapshot {
            Some(snapshot) => ports(&self.jobs, snapshot.fabric()),
            None => BTreeMap::new(),
        };
        let text = self.jobs.to_text();
        let has_changed = *self.text != *text;
        if has_changed {
            self.text = text.into();
        }
        has_changed
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

    fn request(&mut self, request: JobRequest, snapshot: Option<&Snapshot>) -> Result<JobAnswer, JobError> {
        let Some((snapshot, classes)) = snapshot.and_then(|snapshot| Some((snapshot, classes(snapshot)?))) else {
            return Err(JobError::NoClasses);
        };
        match request {
            JobRequest::Start(job) => {
                let fabric = snapshot.fabric();
                let is_up = |host: &str| ports_of(fabric, host).next().is_some();
                let started = self.jobs.start(classes, PKEYS, job, is_up);
                started.map(JobAnswer::Started)
            }
            JobRequest::End(id) => self.jobs.end(classes, PKEYS, &id).map(JobAnswer::Ended),
        }
    }
}

/// Returns the classes of the plan in force.
fn classes(snapshot: &Snapshot) -> Option<&Compiled> {
    let qos = snapshot.plan().lane_tables.as_ref()?.qos.as_ref()?;
    match &qos.rules {
        PathRules::Classes(classes) => Some(classes),
        PathRules::OpenSm(_) => None,
    }
}

fn ports(jobs: &Jobs, fabric: &Fabric) -> BTreeMap<Guid, BTreeSet<String>> {
    let mut found: BTreeMap<Guid, BTreeSet<String>> = BTreeMap::new();
    for grant in jobs.running() {
        for guid in grant.job.hosts.iter().flat_map(|host| ports_of(fabric, host)) {
            found.entry(guid).or_default().insert(grant.job.id.clone());
        }
    }
    found
}

/// Returns the GUIDs of the connected ports of a host.
fn ports_of<'a>(fabric: &'a Fabric, host: &'a str) -> impl Iterator<Item = Guid> + 'a {
    let ends = fabric.end_ports().filter(|(_, port)| port.peer.is_some());
    let of_host = ends.filter(move |(at, _)| is_called(fabric.node(at.node), host));
    of_host.map(|(_, port)| port.guid)
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
