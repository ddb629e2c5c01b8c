//! Several workloads at the same time, each on its own hosts.

use core::fmt;
use core::str::FromStr;

use selvedge_dataplane::{Arrival, Host, Message, Ps, Workload};
use selvedge_sim::Seed;
use serde::{Deserialize, Serialize};

use crate::{PatternTraffic, Program};

/// Choice of hosts for a job, among the free ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Placement {
    /// The first free hosts.
    #[default]
    Linear,
    /// Random free hosts, drawn by the seed.
    Random,
    /// Every n-th host, cyclically.
    Stride(u32),
    /// These hosts, in this order.
    List(Vec<Host>),
}

/// A job that cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// SLV-WORKLOAD-0007: there are too few hosts.
    #[error("SLV-WORKLOAD-0007: a job of {want} hosts, but {free} are free; want fewer hosts, or fewer jobs")]
    TooFew {
        /// Number wanted.
        want: u32,
        /// Number of free hosts.
        free: u32,
    },
    /// SLV-WORKLOAD-0008: a host does not exist, or another job uses it.
    #[error("SLV-WORKLOAD-0008: host {host} is not free; want hosts of no other job, numbered from 0")]
    NotFree {
        /// Number of the host.
        host: Host,
    },
    /// SLV-WORKLOAD-0009: the text is no known placement, the rule that chooses the hosts of a job.
    #[error("SLV-WORKLOAD-0009: '{text}' is no placement; known: linear, random, stride=N, list=N+N+N")]
    Unknown {
        /// The text given.
        text: String,
    },
}

impl FromStr for Placement {
    type Err = JobError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || JobError::Unknown { text: text.to_owned() };
        match text.split_once('=') {
            None if text == "linear" => Ok(Self::Linear),
            None if text == "random" => Ok(Self::Random),
            Some(("stride", number)) => match number.parse() {
                Ok(stride) if stride > 0 => Ok(Self::Stride(stride)),
                _ => Err(unknown()),
            },
            Some(("list", numbers)) => {
                let hosts: Result<Vec<Host>, _> = numbers.split('+').map(str::parse).collect();
                hosts.map(Self::List).map_err(|_| unknown())
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear => f.write_str("linear"),
            Self::Random => f.write_str("random"),
            Self::Stride(stride) => write!(f, "stride={stride}"),
            Self::List(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                write!(f, "list={}", hosts.join("+"))
            }
        }
    }
}

impl From<Placement> for String {
    fn from(placement: Placement) -> Self {
        placement.to_string()
    }
}

impl TryFrom<String> for Placement {
    type Error = JobError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The traffic of one job.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// A pattern with a pace; it has no end.
    Pattern(PatternTraffic),
    /// A schedule.
    Program(Program),
    /// Several jobs at the same time.
    Jobs(Jobs),
}

impl Workload for Traffic {
    #[inline]
    fn next(&mut self, host: Host, now: Ps) -> Option<Message> {
        match self {
            Self::Pattern(pattern) => pattern.next(host, now),
            Self::Program(program) => program.next(host, now),
            Self::Jobs(jobs) => jobs.next(host, now),
        }
    }

    #[inline]
    fn arrived(&mut self, arrival: Arrival, now: Ps, ready: &mut Vec<Host>) {
        match self {
            Self::Pattern(pattern) => pattern.arrived(arrival, now, ready),
            Self::Program(program) => program.arrived(arrival, now, ready),
            Self::Jobs(jobs) => jobs.arrived(arrival, now, ready),
        }
    }

    fn take_back(&mut self, host: Host, message: Message) {
        match self {
            Self::Pattern(pattern) => pattern.take_back(host, message),
            Self::Program(program) => program.take_back(host, message),
            Self::Jobs(jobs) => jobs.take_back(host, message),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Pattern(_) => false,
            Self::Program(program) => program.is_done(),
            Self::Jobs(jobs) => jobs.is_done(),
        }
    }

    fn completed_at(&self) -> Option<Ps> {
        match self {
            Self::Pattern(_) => None,
            Self::Program(program) => program.completed_at(),
            Self::Jobs(jobs) => jobs.completed_at(),
        }
    }
}

/// A workload on some hosts.
#[derive(Clone, Debug)]
pub struct Job {
    /// Traffic of the job's ranks.
    pub traffic: Traffic,
    /// The host of each rank.
    pub hosts: Vec<Host>,
    /// Service level of the job's messages; `None`: the simulation's choice.
    pub sl: Option<u8>,
}

/// Jobs that run at the same time. They are completed when every job that has an end is completed.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    jobs: Vec<Job>,
    /// Job and rank of each host.
    place: Vec<Option<(u32, u32)>>,
    ready: Vec<Host>,
}

impl Jobs {
    /// Returns a set of `hosts` hosts without jobs.
    #[must_use]
    pub fn new(hosts: u32) -> Self {
        Self {
            jobs: Vec::new(),
            place: vec![None; hosts as usize],
            ready: Vec::new(),
        }
    }

    /// Returns hosts for a job with this number of ranks, without reserving them.
    pub fn place(&self, ranks: u32, placement: &Placement, seed: Seed) -> Result<Vec<Host>, JobError> {
        let is_free = |&host: &Host| matches!(self.place.get(host as usize), Some(None));
        let mut free: Vec<Host> = (0..self.place.len() as u32).filter(is_free).collect();
        let count = free.len() as u32;
        if let Placement::List(hosts) = placement {
            return match hosts.iter().find(|host| !is_free(host)) {
                Some(&host) => Err(JobError::NotFree { host }),
                None => Ok(hosts.clone()),
            };
        }
        if ranks > count {
            return Err(JobError::TooFew {
                want: ranks,
                free: count,
            });
        }
        match placement {
            Placement::Random => seed
                .child("placement")
                .nth(self.jobs.len() as u64)
                .rng()
                .shuffle(&mut free),
            Placement::Stride(stride) => {
                let stride = *stride as usize;
                let columns = 0..stride.min(free.len());
                free = columns
                    .flat_map(|c| free.iter().skip(c).step_by(stride).copied())
                    .collect();
            }
            Placement::Linear | Placement::List(_) => {}
        }
        free.truncate(ranks as usize);
        Ok(free)
    }

    /// Adds a job. Fails if another job has one of its hosts, or if a host is listed twice.
    pub fn add(&mut self, job: Job) -> Result<(), JobError> {
        let number = self.jobs.len() as u32;
        for (rank, &host) in (0..).zip(&job.hosts) {
            match self.place.get_mut(host as usize) {
                Some(place @ None) => *place = Some((number, rank)),
                _ => return Err(JobError::NotFree { host }),
            }
        }
        self.jobs.push(job);
        Ok(())
    }

    /// Returns the hosts of each job, by rank.
    pub fn hosts(&self) -> impl Iterator<Item = &[Host]> + '_ {
        self.jobs.iter().map(|job| job.hosts.as_slice())
    }

    /// Returns when each job was completed; `None` for jobs that are not completed, or have no end.
    pub fn done_at(&self) -> impl Iterator<Item = Option<Ps>> + '_ {
        self.jobs.iter().map(|job| job.traffic.completed_at())
    }

    fn at(&self, host: Host) -> Option<(usize, u32)> {
        let (job, rank) = (*self.place.get(host as usize)?)?;
        Some((job as usize, rank))
    }
}

impl Workload for Jobs {
    #[inline]
    fn next(&mut self, host: Host, now: Ps) -> Option<Message> {
        let (job, rank) = self.at(host)?;
        let job = &mut self.jobs[job];
        let mut message = job.traffic.next(rank, now)?;
        message.to = *job.hosts.get(message.to as usize)?;
        message.sl = message.sl.or(job.sl);
        Some(message)
    }

    #[inline]
    fn arrived(&mut self, arrival: Arrival, now: Ps, ready: &mut Vec<Host>) {
        let (Some((number, from)), Some((_, to))) = (self.at(arrival.from), self.at(arrival.to)) else {
            return;
        };
        let job = &mut self.jobs[number];
        job.traffic
            .arrived(Arrival { from, to, ..arrival }, now, &mut self.ready);
        ready.extend(self.ready.drain(..).filter_map(|rank| job.hosts.get(rank as usize)));
    }

    fn take_back(&mut self, host: Host, mut message: Message) {
        let (Some((job, rank)), Some((_, to))) = (self.at(host), self.at(message.to)) else {
            return;
        };
        message.to = to;
        self.jobs[job].traffic.take_back(rank, message);
    }

    fn is_done(&self) -> bool {
        let ends = |job: &&Job| matches!(job.traffic, Traffic::Program(_));
        let mut ending = self.jobs.iter().filter(ends).peekable();
        ending.peek().is_some() && ending.all(|job| job.traffic.is_done())
    }

    fn completed_at(&self) -> Option<Ps> {
        let ends = self
            .jobs
            .iter()
            .filter(|job| matches!(job.traffic, Traffic::Program(_)));
        ends.map(|job| job.traffic.completed_at())
            .try_fold(None, |last: Option<Ps>, at| {
                at.map(|at| Some(last.map_or(at, |last| last.max(at))))
            })?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collective, CollectiveKind};

    fn ring(ranks: u32) -> Traffic {
        let collective = Collective {
            kind: CollectiveKind::RingAllReduce,
            bytes: 100,
            repeat: 1,
        };
        Traffic::Program(Program::new(collective.schedule(ranks).unwrap()))
    }

    #[test]
    fn places() {
        let jobs = Jobs::new(8);
        let check = |text: &str, ranks, want: &[Host]| {
            let placement: Placement = text.parse().unwrap();
            assert_eq!(placement.to_string(), text);
            assert_eq!(jobs.place(ranks, &placement, Seed(1)).unwrap(), want);
        };
        check("linear", 3, &[0, 1, 2]);
        check("stride=4", 3, &[0, 4, 1]);
        check("list=7+2", 2, &[7, 2]);
        let mut random = jobs.place(8, &Placement::Random, Seed(1)).unwrap();
        assert_ne!(random, [0, 1, 2, 3, 4, 5, 6, 7]);
        random.sort_unstable();
        assert_eq!(random, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_host_has_one_job() {
        let mut jobs = Jobs::new(4);
        let mut add = |text: &str| {
            let hosts = jobs.place(3, &text.parse().unwrap(), Seed(1))?;
            jobs.add(Job {
                traffic: ring(3),
                hosts,
                sl: None,
            })
        };
        assert_eq!(add("list=3+1+2"), Ok(()));
        assert_eq!(add("linear"), Err(JobError::TooFew { want: 3, free: 1 }));
        assert_eq!(add("list=0+1+2"), Err(JobError::NotFree { host: 1 }));
        assert_eq!(add("list=0+9+2"), Err(JobError::NotFree { host: 9 }));
        // The job numbers ranks, the simulator numbers hosts.
        let message = jobs.next(3, 0).unwrap();
        assert_eq!(message.to, 1);
        assert_eq!(jobs.next(0, 0), None);
        assert!(!jobs.is_done());
    }

    #[test]
    fn what_is_no_placement_is_refused() {
        for text in ["liner", "stride=0", "list=1+x", "stride"] {
            let error = text.parse::<Placement>().unwrap_err().to_string();
            assert!(error.contains("known: linear"), "{error}");
        }
    }
}
