//! Jobs: what a job may use of the policy in force, and what its processes must export to use it.
//!
//! A job asks for a class and for a part of that class's share. Jobs of one class may meet on any link, so the parts of
//! all its running jobs together must not exceed the share of the class. A job that does not fit is refused or waits,
//! as it asked; jobs wait in order of arrival, and none overtakes another one of its class.
//!
//! [`Jobs::start`] and [`Jobs::end`] change no policy and send nothing: they choose service levels and P_Keys inside
//! the policy. [`Jobs::running`] and [`Jobs::waiting`] are the whole state; [`Jobs::to_text`] writes it and
//! [`Jobs::parse`] reads it again after a restart or at a standby.

mod environment;
mod error;
mod text;

pub use environment::{Variable, environment};
pub use error::JobError;
pub use text::JobLineError;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_types::{Guid, PKey, Sl};
use serde::{Deserialize, Serialize};

use crate::intent::{Compiled, Latency, most_of};

/// What a job asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Name of the job, unique among running and waiting jobs.
    pub id: String,
    /// Hosts, by name.
    pub hosts: Vec<String>,
    /// The class of its traffic; `None`: the default class of the policy.
    pub class: Option<String>,
    /// The class of its small messages, with the size in bytes up to which a message is small.
    pub small: Option<(String, u32)>,
    /// Part of a link that it wants of its class, in percent, 1–100. `None`: what other jobs leave.
    pub share: Option<u8>,
    /// True if it wants a partition of its own.
    pub isolated: bool,
    /// True if it wants alternate paths.
    pub alternates: bool,
    /// True if it waits until there is room; else it is refused.
    pub waits: bool,
}

/// What a job got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The job.
    pub job: Job,
    /// Service levels of its class, by routing layer.
    pub sls: Vec<Sl>,
    /// Service levels of its small messages, by routing layer; empty: as its other messages.
    pub small_sls: Vec<Sl>,
    /// P_Key of its own partition, as a full member.
    pub pkey: Option<PKey>,
    /// GUIDs of the ports of its hosts when it started.
    #[serde(default)]
    pub ports: BTreeSet<Guid>,
}

/// The answer to a job that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It may run.
    Granted(Grant),
    /// It waits: the parts of its class, in percent of a link, and the share of the class.
    Waits {
        /// Parts of running jobs and of this one.
        sum: u32,
        /// Share of the class.
        share: u8,
        /// Jobs of its class that wait before it.
        before: usize,
    },
}

/// P_Keys for partitions of jobs, without the membership bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PKeys<'a> {
    /// The first one, at least 1.
    pub first: u16,
    /// The last one, at most 0x7ffe.
    pub last: u16,
    /// P_Keys that the operator's partitions have.
    pub taken: &'a BTreeSet<u16>,
}

/// The running and the waiting jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Jobs {
    running: BTreeMap<String, Grant>,
    waiting: Vec<Job>,
}

impl Jobs {
    /// Returns the state after a restart. Grants are kept as they were; a job that is in both lists runs.
    #[must_use]
    pub fn restore(running: Vec<Grant>, waiting: Vec<Job>) -> Self {
        let running: BTreeMap<String, Grant> = running.into_iter().map(|grant| (grant.job.id.clone(), grant)).collect();
        let is_new = |job: &Job| !running.contains_key(&job.id);
        let waiting = waiting.into_iter().filter(is_new).collect();
        Self { running, waiting }
    }

    /// Returns the running jobs, by name.
    pub fn running(&self) -> impl Iterator<Item = &Grant> {
        self.running.values()
    }

    /// Returns a running job.
    #[must_use]
    pub fn grant(&self, id: &str) -> Option<&Grant> {
        self.running.get(id)
    }

    /// Returns the waiting jobs, in order of arrival.
    #[must_use]
    pub fn waiting(&self) -> &[Job] {
        &self.waiting
    }

    /// Starts a job. `ports_of` returns the connected ports of a host; a host without one is down or unknown.
    pub fn start(
        &mut self,
        policy: &Compiled,
        pkeys: PKeys<'_>,
        job: Job,
        ports_of: impl Fn(&str) -> BTreeSet<Guid>,
    ) -> Result<Started, JobError> {
        self.check(policy, &job)?;
        if let Some(host) = job.hosts.iter().find(|host| ports_of(host).is_empty()) {
            let (id, host) = (job.id.clone(), host.clone());
            return Err(JobError::HostDown { id, host });
        }
        let class = class_of(policy, job.class.as_deref())?;
        let share = share_of(policy, class);
        let sum = self.sum(policy, class) + part(&job);
        let before = self.waiting_of(policy, class);
        let fits = before == 0 && sum <= u32::from(share);
        match self.granted(policy, pkeys, &job, &ports_of) {
            Ok(grant) if fits => {
                self.running.insert(job.id, grant.clone());
                Ok(Started::Granted(grant))
            }
            // The lack of a P_Key ends like the lack of a share.
            _ if job.waits => {
                self.waiting.push(job);
                Ok(Started::Waits { sum, share, before })
            }
            Ok(_) => Err(JobError::TooMuch {
                id: job.id,
                class: policy.classes[class].class.name.clone(),
                sum,
                share,
                before,
            }),
            Err(error) => Err(error),
        }
    }

    /// Ends a running or waiting job. Returns the waiting jobs that may run now.
    pub fn end(
        &mut self,
        policy: &Compiled,
        pkeys: PKeys<'_>,
        id: &str,
        ports_of: impl Fn(&str) -> BTreeSet<Guid>,
    ) -> Result<Vec<Grant>, JobError> {
        let was_waiting = self.waiting.iter().position(|job| job.id == id);
        match (self.running.remove(id), was_waiting) {
            (Some(_), _) => {}
            (None, Some(at)) => drop(self.waiting.remove(at)),
            (None, None) => {
                let known = self.running.keys().chain(self.waiting.iter().map(|job| &job.id));
                let meant = crate::near::meant(id, known);
                return Err(JobError::Unknown {
                    id: id.to_owned(),
                    meant,
                });
            }
        }
        Ok(self.admit(policy, pkeys, ports_of))
    }

    /// Lets waiting jobs run while they fit, as after a change of policy. Returns them.
    pub fn admit(
        &mut self,
        policy: &Compiled,
        pkeys: PKeys<'_>,
        ports_of: impl Fn(&str) -> BTreeSet<Guid>,
    ) -> Vec<Grant> {
        let mut granted = Vec::new();
        // A job that does not fit holds back the later jobs of its class.
        let mut blocked = Vec::new();
        for job in std::mem::take(&mut self.waiting) {
            let class = class_of(policy, job.class.as_deref()).ok();
            let room = class
                .filter(|class| !blocked.contains(class))
                .is_some_and(|class| self.sum(policy, class) + part(&job) <= u32::from(share_of(policy, class)));
            match self.granted(policy, pkeys, &job, &ports_of) {
                Ok(grant) if room => {
                    self.running.insert(job.id, grant.clone());
                    granted.push(grant);
                }
                _ => {
                    blocked.extend(class);
                    self.waiting.push(job);
                }
            }
        }
        granted
    }

    /// Returns the parts that running jobs have of a class, in percent of a link.
    #[must_use]
    pub fn sum(&self, policy: &Compiled, class: usize) -> u32 {
        let in_class = |grant: &&Grant| class_of(policy, grant.job.class.as_deref()).ok() == Some(class);
        self.running
            .values()
            .filter(in_class)
            .map(|grant| part(&grant.job))
            .sum()
    }

    fn waiting_of(&self, policy: &Compiled, class: usize) -> usize {
        let in_class = |job: &&Job| class_of(policy, job.class.as_deref()).ok() == Some(class);
        self.waiting.iter().filter(in_class).count()
    }

    /// Checks what no wait could mend.
    fn check(&self, policy: &Compiled, job: &Job) -> Result<(), JobError> {
        let id = job.id.clone();
        if id.is_empty() || self.running.contains_key(&id) || self.waiting.iter().any(|other| other.id == id) {
            return Err(JobError::SameId { id });
        }
        if job.hosts.is_empty() {
            return Err(JobError::NoHost { id });
        }
        let class = class_of(policy, job.class.as_deref())?;
        let share = share_of(policy, class);
        let Some(asked) = job.share else {
            return small_of(policy, job).map(drop);
        };
        if asked == 0 || asked > share {
            let class = policy.classes[class].class.name.clone();
            return Err(JobError::MoreThanClass {
                id,
                class,
                asked,
                share,
            });
        }
        small_of(policy, job).map(drop)
    }

    fn granted(
        &self,
        policy: &Compiled,
        pkeys: PKeys<'_>,
        job: &Job,
        ports_of: &impl Fn(&str) -> BTreeSet<Guid>,
    ) -> Result<Grant, JobError> {
        let class = class_of(policy, job.class.as_deref())?;
        let small = small_of(policy, job)?;
        let sls = |class: usize| policy.classes[class].sls.clone();
        let pkey = match job.isolated {
            true => Some(self.free_pkey(pkeys).ok_or_else(|| JobError::NoPKey {
                id: job.id.clone(),
                first: pkeys.first,
                last: pkeys.last,
            })?),
            false => None,
        };
        Ok(Grant {
            job: job.clone(),
            sls: sls(class),
            small_sls: small.map(sls).unwrap_or_default(),
            pkey,
            ports: job.hosts.iter().flat_map(|host| ports_of(host)).collect(),
        })
    }

    /// Returns the lowest P_Key that no running job has.
    fn free_pkey(&self, pkeys: PKeys<'_>) -> Option<PKey> {
        const FULL: u16 = 0x8000;
        let used = |key: u16| self.running.values().any(|grant| grant.pkey == Some(PKey(key | FULL)));
        let mut keys = pkeys.first.max(1)..=pkeys.last.min(0x7FFE);
        keys.find(|key| !used(*key) && !pkeys.taken.contains(key))
            .map(|key| PKey(key | FULL))
    }
}

/// Part of its class that a job reserves, in percent of a link.
fn part(job: &Job) -> u32 {
    u32::from(job.share.unwrap_or(0))
}

fn class_of(policy: &Compiled, name: Option<&str>) -> Result<usize, JobError> {
    let Some(name) = name else { return Ok(policy.default) };
    let names = || policy.classes.iter().map(|plan| plan.class.name.as_str());
    let found = names().position(|known| known == name);
    found.ok_or_else(|| JobError::UnknownClass {
        name: name.to_owned(),
        meant: crate::near::meant(name, names()),
        known: names().collect::<Vec<_>>().join(", "),
    })
}

fn small_of(policy: &Compiled, job: &Job) -> Result<Option<usize>, JobError> {
    job.small
        .as_ref()
        .map(|(name, _)| class_of(policy, Some(name)))
        .transpose()
}

/// Returns the share of a class that jobs may have, in percent: its promise, or what other promises leave; for
/// low-latency classes without a promise the most that they can take.
#[must_use]
pub fn share_of(policy: &Compiled, class: usize) -> u8 {
    let plan = &policy.classes[class].class;
    let promised = |latency: Latency| -> u32 {
        let of = policy.classes.iter().filter(|plan| plan.class.latency == latency);
        of.filter_map(|plan| plan.class.share).map(u32::from).sum()
    };
    let share = match (plan.share, plan.latency) {
        (Some(share), _) => u32::from(share),
        (None, Latency::Normal) => 100 - promised(Latency::Normal).min(100),
        (None, Latency::Low) => plan.cap.map(u32::from).or(most_of(policy, class)).unwrap_or(100),
    };
    u8::try_from(share.min(100)).unwrap_or(100)
}

#[cfg(test)]
mod tests;
