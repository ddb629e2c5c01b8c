//! `fat-tree` beside `updn` on damaged trees:
//! `cargo run --release -p selvedge-routing --example fat_tree_faults [SPEC…]`.
//!
//! Per tree, share of lost links and seed: the busiest link and the mean, as the judge counts them.

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, ServiceLevels, SlToVl};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange};
use selvedge_verify::{JudgeOptions, Subject, verify};

fn main() {
    let mut specs: Vec<String> = std::env::args().skip(1).collect();
    if specs.is_empty() {
        specs = ["sx6536", "karytree:k=18,n=2", "karytree:k=12,n=3"]
            .map(str::to_owned)
            .to_vec();
    }
    for spec in specs {
        for share in ["1%", "3%"] {
            for seed in 1..=10 {
                let joint = if spec.contains(':') { ',' } else { ':' };
                let damaged = format!("{spec}{joint}remove-links={share},seed={seed}");
                match damaged.parse::<Spec>() {
                    Ok(Spec::Generated(recipe)) => match recipe.fabric() {
                        Ok(fabric) => compare(&damaged, &fabric),
                        Err(error) => eprintln!("{error}"),
                    },
                    Ok(Spec::File(_)) => eprintln!("{spec}: only generated fabrics here"),
                    Err(error) => eprintln!("{error}"),
                }
            }
        }
    }
}

fn compare(spec: &str, fabric: &Fabric) {
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        if lids.insert(at, LidRange::single(Lid(lid))).is_err() {
            eprintln!("{spec}: out of LIDs");
            return;
        }
    }
    let mut line = spec.to_owned();
    for engine in [Engine::FatTree, Engine::UpDn] {
        let routed = engine.route(fabric, &lids, &Options::default(), Seed(0), Par::Rayon);
        let said = routed.map_or_else(
            |error| error.to_string(),
            |routed| {
                let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
                let options = JudgeOptions {
                    par: Par::Rayon,
                    findings_max: 1,
                    ..JudgeOptions::default()
                };
                let verdict = verify(
                    Subject::tables(fabric, &lids, &routed.tables, &levels, &lanes),
                    &options,
                );
                let load = verdict.figures.load;
                let missed = verdict.figures.host_pairs - verdict.figures.host_pairs_reached;
                let errors = verdict.errors().count();
                format!(
                    "max {} mean {:.1} missed {missed} error kinds {errors}",
                    load.max, load.mean
                )
            },
        );
        line = format!("{line}; {} {said}", engine.name());
    }
    println!("{line}");
}
