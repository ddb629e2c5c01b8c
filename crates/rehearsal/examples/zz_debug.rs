//! Temporary.
#![allow(missing_docs, clippy::unwrap_used)]
use selvedge_fabric::Fabric;
use selvedge_rehearsal::soak::{Differences, Nobody, Schedule, Step};
use selvedge_topology::Spec;
fn load(spec: &str) -> Result<Fabric, String> {
    match spec.parse::<Spec>().map_err(|e| e.to_string())? {
        Spec::Generated(recipe) => recipe.fabric().map_err(|e| e.to_string()),
        Spec::File(_) => Err("file".to_owned()),
    }
}
fn main() {
    let start = std::time::Instant::now();
    let mut count = 0;
    for arg in std::env::args().skip(1) {
        let schedules: Vec<Schedule> = match arg.split_once("..") {
            Some((a, b)) if !arg.contains('/') => (a.parse::<u64>().unwrap()..b.parse().unwrap()).map(Schedule::draw).collect(),
            _ if arg.parse::<u64>().is_ok() => vec![Schedule::draw(arg.parse().unwrap())],
            _ => vec![std::fs::read_to_string(&arg).unwrap().parse().unwrap()],
        };
        for schedule in schedules {
            count += 1;
            let fabric = load(&schedule.fabric).unwrap();
            let mut show = |step: &Step| {
                for what in &step.happened { println!("{} {what}", step.at); }
                for what in &step.changed { println!("{}   {what}", step.at); }
                true
            };
            let outcome = match std::env::var_os("STEP") {
                Some(_) => schedule.run(&fabric, &mut Differences::new(&mut show)),
                None => schedule.run(&fabric, &mut Nobody),
            };
            if let Some(failure) = outcome.failure {
                println!("seed {}: {}", schedule.seed, failure.what);
                if let Ok(dir) = std::env::var("KEEP") {
                    if let Some(small) = schedule.shrink(&load, 600) {
                        std::fs::write(format!("{dir}/seed-{}.txt", schedule.seed), small.schedule.to_string()).unwrap();
                        let mut file = std::fs::File::create(format!("{dir}/seed-{}.log", schedule.seed)).unwrap();
                        let fabric = load(&small.schedule.fabric).unwrap();
                        let mut show = |step: &Step| {
                            use std::io::Write as _;
                            for what in &step.happened { writeln!(file, "{} {what}", step.at).unwrap(); }
                            for what in &step.changed { writeln!(file, "{}   {what}", step.at).unwrap(); }
                            true
                        };
                        let _ = small.schedule.run(&fabric, &mut Differences::new(&mut show));
                    }
                }
            } else if std::env::var_os("QUIET").is_none() {
                println!("seed {}: fine", schedule.seed);
            }
        }
    }
    eprintln!("{count} in {:?}", start.elapsed());
}
