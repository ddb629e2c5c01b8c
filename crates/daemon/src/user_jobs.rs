//! Jobs as the API shows them. The administrator decides about them ([`selvedge_sa::JobRequest`]).

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use selvedge_api as api;
use selvedge_api::{Error, ErrorKind, JobEndRequest, JobEnded, JobStarted, JobWait};
use selvedge_plan::qos::Compiled;
use selvedge_qos::jobs::{Grant, Job, Jobs, Started, environment, share_of};
use selvedge_sa::{JobAnswer, JobError, JobRequest};
use selvedge_sm::View;
use selvedge_types::{Lmc, Sl};

use crate::service::Manager;
use crate::worker::Note;

/// The answer to a request about a job.
pub(crate) type Answer = Result<JobAnswer, JobError>;

/// Front ends that wait for an answer, by the number of their request.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    last: u64,
    waiting: BTreeMap<u64, Sender<Answer>>,
}

impl Tickets {
    /// Returns a number for a request.
    pub(crate) fn issue(&mut self, answer: Sender<Answer>) -> u64 {
        self.last += 1;
        self.waiting.insert(self.last, answer);
        self.last
    }

    /// Gives an answer.
    pub(crate) fn answer(&mut self, ticket: u64, answer: Answer) {
        if let Some(waits) = self.waiting.remove(&ticket) {
            // A request that timed out waits for no answer.
            let _ = waits.send(answer);
        }
    }
}

/// The requests of front ends about jobs.
pub trait JobService {
    /// Returns the running and waiting jobs.
    fn jobs(&self) -> Result<api::Jobs, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// Starts a job.
    fn start_job(&self, _request: &api::JobRequest) -> Result<JobStarted, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }

    /// Ends a job.
    fn end_job(&self, _request: &JobEndRequest) -> Result<JobEnded, Error> {
        Err(ErrorKind::NoManager.error("this process only emulates a fabric"))
    }
}

impl JobService for Manager {
    fn jobs(&self) -> Result<api::Jobs, Error> {
        let jobs: Jobs = self.ask(Note::UserJobs)?;
        let view = self.view();
        let lmc = lmc(&view);
        let running = jobs.running().map(|grant| running(grant, lmc));
        let shown: Vec<api::Job> = running.chain(jobs.waiting().iter().map(waiting)).collect();
        Ok(api::Jobs {
            count: shown.len() as u64,
            classes: view
                .plan
                .as_ref()
                .and_then(|plan| plan.classes())
                .map_or_else(Vec::new, |policy| shown_classes(policy, &jobs)),
            jobs: shown,
        })
    }

    fn start_job(&self, request: &api::JobRequest) -> Result<JobStarted, Error> {
        let job = job(request)?;
        let lmc = lmc(&self.view());
        match self.job(JobRequest::Start(job.clone()))? {
            JobAnswer::Started(Started::Granted(grant)) => Ok(JobStarted {
                job: running(&grant, lmc),
                wait: None,
            }),
            JobAnswer::Started(Started::Waits { sum, share, before }) => Ok(JobStarted {
                job: waiting(&job),
                wait: Some(JobWait {
                    sum_percent: sum,
                    share_percent: share,
                    before: before as u64,
                }),
            }),
            JobAnswer::Ended(_) => Err(ErrorKind::Busy.error("the answer is that of another request: try again")),
        }
    }

    fn end_job(&self, request: &JobEndRequest) -> Result<JobEnded, Error> {
        let lmc = lmc(&self.view());
        let started = match self.job(JobRequest::End(request.id.clone()))? {
            JobAnswer::Ended(granted) => granted.iter().map(|grant| running(grant, lmc)).collect(),
            JobAnswer::Started(_) => {
                return Err(ErrorKind::Busy.error("the answer is that of another request: try again"));
            }
        };
        Ok(JobEnded {
            id: request.id.clone(),
            started,
        })
    }
}

impl Manager {
    fn job(&self, request: JobRequest) -> Result<JobAnswer, Error> {
        let answer = self.ask(|answer: Sender<Answer>| Note::UserJob(request, answer))?;
        answer.map_err(|error| Error::of_text(&error.to_string()))
    }
}

fn lmc(view: &View) -> u8 {
    view.policy.as_ref().map_or(Lmc::ZERO, |policy| policy.lmc).get()
}

fn job(request: &api::JobRequest) -> Result<Job, Error> {
    let small = match (&request.small_class, request.small_bytes) {
        (Some(class), Some(bytes)) => Some((class.clone(), bytes)),
        (None, None) => None,
        _ => {
            return Err(ErrorKind::BadRequest.error(
                "a class of small messages needs the size up to which a message is small, and the size needs the class",
            ));
        }
    };
    Ok(Job {
        id: request.id.clone(),
        hosts: request.hosts.clone(),
        class: request.class.clone(),
        small,
        share: request.share,
        isolated: request.isolated,
        alternates: request.alternates,
        waits: request.waits,
    })
}

fn waiting(job: &Job) -> api::Job {
    let (small_class, small_bytes) = job.small.clone().unzip();
    api::Job {
        request: api::JobRequest {
            id: job.id.clone(),
            hosts: job.hosts.clone(),
            class: job.class.clone(),
            small_class,
            small_bytes,
            share: job.share,
            isolated: job.isolated,
            alternates: job.alternates,
            waits: job.waits,
        },
        state: "waiting".to_owned(),
        sls: Vec::new(),
        small_sls: Vec::new(),
        pkey: None,
        environment: Vec::new(),
    }
}

fn running(grant: &Grant, lmc: u8) -> api::Job {
    let levels = |sls: &[Sl]| sls.iter().map(|sl| sl.get()).collect();
    let variables = environment(grant, lmc).into_iter();
    api::Job {
        state: "running".to_owned(),
        sls: levels(&grant.sls),
        small_sls: levels(&grant.small_sls),
        pkey: grant.pkey.map(|pkey| format!("{:#06x}", pkey.0)),
        environment: variables
            .map(|variable| api::JobVariable {
                name: variable.name.to_owned(),
                value: variable.value,
            })
            .collect(),
        ..waiting(&grant.job)
    }
}

fn shown_classes(policy: &Compiled, jobs: &Jobs) -> Vec<api::JobClass> {
    let is_of = |job: &Job, at: usize| match &job.class {
        Some(name) => *name == policy.classes[at].class.name,
        None => at == policy.default,
    };
    let shown = policy.classes.iter().enumerate().map(|(at, plan)| api::JobClass {
        name: plan.class.name.clone(),
        share_percent: share_of(policy, at),
        sum_percent: jobs.sum(policy, at),
        is_default: at == policy.default,
        running: jobs.running().filter(|grant| is_of(&grant.job, at)).count() as u64,
        waiting: jobs.waiting().iter().filter(|job| is_of(job, at)).count() as u64,
    });
    shown.collect()
}
