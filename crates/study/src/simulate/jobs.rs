//! Several workloads at once, each on its own hosts.

use selvedge_api::SimulatedJob;
use selvedge_sim::Seed;
use selvedge_workload::{
    Collective, Job as Placed, Jobs, Pattern, PatternTraffic, Placement, Program, Traffic as Workload,
};

use super::traffic::Pace;
use crate::error::StudyError;

/// One of several workloads that run at the same time.
#[derive(Clone, Debug)]
pub struct Job {
    /// Name of the job in the answer.
    pub name: String,
    /// Traffic of the job.
    pub traffic: JobTraffic,
    /// Hosts that take part.
    pub ranks: u32,
    /// How the hosts of the job are chosen.
    pub placement: Placement,
    /// Service level of the job; `None`: that of the routing.
    pub sl: Option<u8>,
    /// Load of the job; `None`: that of the question's pace.
    pub load: Option<f64>,
}

/// The traffic of a job.
#[derive(Clone, Debug)]
pub enum JobTraffic {
    /// Messages by a pattern, without an end.
    Pattern(Pattern),
    /// A collective operation, once.
    Collective(Collective),
}

/// Places jobs in order. Each has a seed of its own. `byte_ps`: time of a byte of payload on a host's link, in ps.
pub(super) fn placed(all: &[Job], hosts: u32, (pace, byte_ps): (Pace, f64), seed: Seed) -> Result<Jobs, StudyError> {
    let mut jobs = Jobs::new(hosts);
    for (number, job) in (0..).zip(all) {
        let seed = seed.child("job").nth(number);
        let hosts = jobs.place(job.ranks, &job.placement, seed)?;
        let traffic = match &job.traffic {
            JobTraffic::Collective(collective) => Workload::Program(Program::new(collective.schedule(job.ranks)?)),
            JobTraffic::Pattern(pattern) => {
                let how = (job.load.unwrap_or(pace.load), pace.bytes, byte_ps);
                Workload::Pattern(PatternTraffic::new((pattern, pace.arrivals), job.ranks, how, seed)?)
            }
        };
        jobs.add(Placed {
            traffic,
            hosts,
            sl: job.sl,
        })?;
    }
    Ok(jobs)
}

/// Returns the outcome of each job.
pub(super) fn done(all: &[Job], placed: &Jobs) -> Vec<SimulatedJob> {
    let done = |((job, hosts), at): ((&Job, &[u32]), Option<u64>)| SimulatedJob {
        job: job.name.clone(),
        hosts: hosts.to_vec(),
        completed_ns: at.map(|ps| ps.div_ceil(1_000)),
    };
    all.iter().zip(placed.hosts()).zip(placed.done_at()).map(done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_workload::Arrivals;

    fn job(ranks: u32, placement: &str, traffic: JobTraffic) -> Job {
        Job {
            name: "job".to_owned(),
            traffic,
            ranks,
            placement: placement.parse().unwrap(),
            sl: None,
            load: None,
        }
    }

    fn place(all: &[Job]) -> Result<Jobs, StudyError> {
        let pace = Pace {
            arrivals: Arrivals::Even,
            load: 0.5,
            bytes: 2_048,
        };
        placed(all, 8, (pace, 40.0), Seed(1))
    }

    #[test]
    fn jobs_are_placed_in_order() {
        let uniform = || JobTraffic::Pattern("uniform".parse().unwrap());
        let exchange = JobTraffic::Collective("exchange".parse().unwrap());
        let jobs = place(&[job(3, "linear", uniform()), job(2, "list=7+6", exchange)]).unwrap();
        let hosts: Vec<Vec<u32>> = jobs.hosts().map(<[u32]>::to_vec).collect();
        assert_eq!(hosts, [vec![0, 1, 2], vec![7, 6]]);
        let check = |all: &[Job]| {
            let error = place(all).unwrap_err().to_string();
            assert!(error.contains("SLV-WORKLOAD-00"), "{error}");
        };
        check(&[job(9, "linear", uniform())]);
        check(&[job(3, "linear", uniform()), job(2, "list=2+3", uniform())]);
    }
}
