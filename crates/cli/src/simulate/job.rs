//! `--job` of `selvedge simulate`: several workloads at once.

use selvedge_study::simulate::{Job, JobTraffic};
use selvedge_workload::{Collective, Placement};

use crate::exit::CliError;

/// Reads jobs, each as `TRAFFIC hosts=N place=HOW sl=N load=FRACTION`.
pub fn jobs(texts: &[String]) -> Result<Vec<Job>, CliError> {
    texts.iter().map(|text| job(text)).collect()
}

fn job(text: &str) -> Result<Job, CliError> {
    let wrong = |what: String| CliError::Usage {
        what: format!("--job '{text}': {what}; want TRAFFIC hosts=N place=HOW sl=0-15 load=FRACTION"),
    };
    let mut words = text.split_whitespace();
    let traffic = words.next().ok_or_else(|| wrong("there is no traffic".to_owned()))?;
    let (mut ranks, mut placement, mut sl, mut load) = (None, Placement::Linear, None, None);
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| wrong(format!("'{word}' is no key=value")))?;
        let bad = || wrong(format!("'{word}' is no value for {key}"));
        match key {
            "hosts" => ranks = Some(value.parse::<u32>().map_err(|_| bad())?),
            "place" => placement = value.parse()?,
            "sl" => sl = Some(value.parse().ok().filter(|sl| *sl < 16).ok_or_else(bad)?),
            "load" => load = Some(selvedge_workload::load(value.parse().map_err(|_| bad())?)?),
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
    let traffic = match Collective::is_named_by(traffic) {
        true => JobTraffic::Collective(traffic.parse()?),
        false => JobTraffic::Pattern(traffic.parse()?),
    };
    Ok(Job {
        name: text.to_owned(),
        traffic,
        ranks,
        placement,
        sl,
        load,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_read_in_order() {
        let texts = ["uniform hosts=3 load=0.2", "exchange place=list=7+6 sl=1"].map(str::to_owned);
        let read = jobs(&texts).unwrap();
        let [uniform, exchange] = &read[..] else {
            panic!("{read:?}")
        };
        assert_eq!(
            (&uniform.name, uniform.ranks, uniform.load, uniform.sl),
            (&texts[0], 3, Some(0.2), None)
        );
        assert!(matches!(uniform.traffic, JobTraffic::Pattern(_)));
        assert_eq!((exchange.ranks, exchange.load, exchange.sl), (2, None, Some(1)));
        assert_eq!(exchange.placement, Placement::List(vec![7, 6]));
        assert!(matches!(exchange.traffic, JobTraffic::Collective(_)));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let check = |text: &str, want: &str| {
            let error = job(text).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        };
        check("", "there is no traffic");
        check("uniform", "at least 2 hosts");
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
