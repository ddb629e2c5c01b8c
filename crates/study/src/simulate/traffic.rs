//! The traffic of hosts, and its rate.

use std::sync::Arc;

use selvedge_api::SimulatedJob;
use selvedge_dataplane::{BuildError, Network, Settings};
use selvedge_sim::Seed;
use selvedge_workload::{
    Arrivals, Collective, JobError, Pattern, PatternTraffic, Program, Schedule, Traffic as Workload,
};

use super::jobs::{self, Job};
use crate::error::StudyError;

/// The traffic of hosts.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Messages by a pattern, without an end.
    Pattern(Pattern),
    /// A collective operation of all hosts, once.
    Collective(Collective),
    /// A program that was read, once; rank 0 runs on the first host.
    Program {
        /// The program.
        schedule: Arc<Schedule>,
        /// Name of the program's source, for the answer.
        name: String,
    },
    /// Several workloads at once, each on its hosts.
    Jobs(Vec<Job>),
}

/// How fast patterns send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// How the times of messages are chosen.
    pub arrivals: Arrivals,
    /// What hosts want to send, as a fraction of their links' payload rate.
    pub load: f64,
    /// Payload bytes of a message.
    pub bytes: u32,
}

/// Traffic on the hosts of a network, with its names.
pub(super) struct Named {
    pub(super) workload: Workload,
    /// The pattern, the collective, or the source of the program.
    pub(super) traffic: String,
    pub(super) arrivals: String,
    pub(super) message_bytes: u32,
}

impl Traffic {
    /// Places the traffic on the hosts of a network.
    pub(super) fn on(
        &self,
        network: &Network<'_>,
        settings: &Settings,
        pace: Pace,
        seed: Seed,
    ) -> Result<Named, StudyError> {
        let hosts = network.host_count();
        if hosts < 2 {
            return Err(BuildError::TooFewHosts { hosts: hosts as usize }.into());
        }
        let link = settings.link.unwrap_or_else(|| network.host_link());
        let mtu = f64::from(settings.mtu.bytes());
        let byte_ps = 1e12 / link.bytes_per_s() * (mtu + f64::from(settings.headers())) / mtu;
        let program = |schedule: Schedule, traffic: String| Named {
            workload: Workload::Program(Program::new(schedule)),
            traffic,
            arrivals: "program".to_owned(),
            message_bytes: 0,
        };
        match self {
            Self::Pattern(pattern) => {
                let how = (pace.load, pace.bytes, byte_ps);
                let traffic = PatternTraffic::new((pattern, pace.arrivals), hosts, how, seed)?;
                Ok(Named {
                    workload: Workload::Pattern(traffic),
                    traffic: pattern.to_string(),
                    arrivals: pace.arrivals.to_string(),
                    message_bytes: pace.bytes,
                })
            }
            Self::Collective(collective) => Ok(program(collective.schedule(hosts)?, collective.to_string())),
            Self::Program { schedule, name } => {
                let ranks = schedule.ranks();
                if ranks > hosts {
                    return Err(JobError::TooFew {
                        want: ranks,
                        free: hosts,
                    }
                    .into());
                }
                Ok(program(Schedule::clone(schedule), name.clone()))
            }
            Self::Jobs(all) => Ok(Named {
                workload: Workload::Jobs(jobs::placed(all, hosts, (pace, byte_ps), seed)?),
                traffic: "jobs".to_owned(),
                arrivals: pace.arrivals.to_string(),
                message_bytes: pace.bytes,
            }),
        }
    }

    /// Returns the outcome of each job; empty for other traffic.
    pub(super) fn done(&self, workload: &Workload) -> Vec<SimulatedJob> {
        match (self, workload) {
            (Self::Jobs(all), Workload::Jobs(placed)) => jobs::done(all, placed),
            _ => Vec::new(),
        }
    }
}
