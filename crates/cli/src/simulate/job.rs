//! `--job` of `selvedge simulate`: several workloads at once.

use selvedge_api::SimulatedJob;
use selvedge_sim::Seed;
use selvedge_workload::{Arrivals, Collective, Job, Jobs, Pattern, PatternTraffic, Placement, Program, Traffic};

use crate::exit::CliError;

/// What a job does unless it says otherwise.
#[derive(Clone, Copy)]
pub struct Defaults {
    /// How messages follow each other.
    pub arrivals: Arrivals,
    /// Load of a pattern.
    pub load: f64,
    /// Bytes of a message.
    pub bytes: u32,
    /// What a byte of payload takes on a host's link.
    pub byte_ps: f64,
    /// Of everything drawn; each job has a seed of its own.
    pub seed: Seed,
}

/// Places jobs in order, as `TRAFFIC hosts=N place=HOW sl=N load=FRACTION`.
pub fn jobs(texts: &[String], hosts: u32, defaults: Defaults) -> Result<Jobs, CliError> {
    let mut jobs = Jobs::new(hosts);
    for (number, text) in (0..).zip(texts) {
        let defaults = Defaults {
            seed: defaults.seed.child("job").nth(number),
            ..defaults
        };
        let job = job(text, &jobs, defaults)?;
        jobs.add(job)?;
    }
    Ok(jobs)
}

fn job(text: &str, jobs: &Jobs, mut defaults: Defaults) -> Result<Job, CliError> {
    let wrong = |what: String| CliError::Usage {
        what: format!("--job '{text}': {what}; want TRAFFIC hosts=N place=HOW sl=0-15 load=FRACTION"),
    };
    let mut words = text.split_whitespace();
    let traffic = words.next().ok_or_else(|| wrong("there is no traffic".to_owned()))?;
    let (mut ranks, mut placement, mut sl) = (None, Placement::Linear, None);
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| wrong(format!("'{word}' is no key=value")))?;
        let bad = || wrong(format!("'{word}' is no value for {key}"));
        match key {
            "hosts" => ranks = Some(value.parse::<u32>().map_err(|_| bad())?),
            "place" => placement = value.parse()?,
            "sl" => sl = Some(value.parse().ok().filter(|sl| *sl < 16).ok_or_else(bad)?),
            "load" => defaults.load = selvedge_workload::load(value.parse().map_err(|_| bad())?)?,
            _ => return Err(wrong(format!("there is no field '{key}'"))),
        }
    }
    let ranks = match (&placement, ranks) {
        (Placement::List(list), None) => list.len() as u32,
        (Placement::List(list), Some(ranks)) if ranks as usize != list.len() => {
            return Err(wrong(format!("{ranks} hosts, but {} are listed", list.len())));
        }
        (_, Some(ranks)) if ranks >= 2 => ranks,
        _ => return Err(wrong("want at least 2 hosts".to_owned())),
    };
    let hosts = jobs.place(ranks, &placement, defaults.seed)?;
    let traffic = if Collective::is_named_by(traffic) {
        let collective: Collective = traffic.parse()?;
        Traffic::Program(Program::new(collective.schedule(ranks)?))
    } else {
        let pattern: Pattern = traffic.parse()?;
        let how = (defaults.load, defaults.bytes, defaults.byte_ps);
        Traffic::Pattern(PatternTraffic::new(
            (&pattern, defaults.arrivals),
            ranks,
            how,
            defaults.seed,
        )?)
    };
    Ok(Job { traffic, hosts, sl })
}

/// What became of the jobs.
pub fn done(texts: &[String], traffic: &Traffic) -> Vec<SimulatedJob> {
    let Traffic::Jobs(jobs) = traffic else {
        return Vec::new();
    };
    let done = |((text, hosts), at): ((&String, &[u32]), Option<u64>)| SimulatedJob {
        job: text.clone(),
        hosts: hosts.to_vec(),
        completed_ns: at.map(|ps| ps.div_ceil(1_000)),
    };
    texts.iter().zip(jobs.hosts()).zip(jobs.done_at()).map(done).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Defaults {
        Defaults {
            arrivals: Arrivals::Even,
            load: 0.5,
            bytes: 2_048,
            byte_ps: 40.0,
            seed: Seed(1),
        }
    }

    #[test]
    fn jobs_are_placed_in_order() {
        let texts = ["uniform hosts=3 load=0.2", "exchange place=list=7+6 sl=1"].map(str::to_owned);
        let jobs = jobs(&texts, 8, defaults()).unwrap();
        let hosts: Vec<Vec<u32>> = jobs.hosts().map(<[u32]>::to_vec).collect();
        assert_eq!(hosts, [vec![0, 1, 2], vec![7, 6]]);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let check = |text: &str, want: &str| {
            let error = jobs(&[text.to_owned()], 8, defaults()).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("", "there is no traffic");
        check("uniform", "at least 2 hosts");
        check("uniform hosts=9", "SLV-WORKLOAD-0007");
        check("uniform hosts=3 sl=16", "no value for sl");
        check("uniform hosts=3 load=x", "no value for load");
        check("uniform hosts=3 load=0", "SLV-WORKLOAD-0011");
        check("uniform hosts=3 load=1e308", "SLV-WORKLOAD-0011");
        check("uniform hosts=3 size=1", "no field 'size'");
        check("uniform hosts=3 place=rnd", "SLV-WORKLOAD-0009");
        check("uniform hosts=3 place=list=1+2", "2 are listed");
        check("unifrom hosts=3", "did you mean 'uniform'?");
    }
}
