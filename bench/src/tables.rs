//! Makes tables and service levels of OpenSM's nue, an engine that Selvedge does not have, as files that `selvedge
//! simulate` reads.

use std::fs;
use std::path::Path;

use indicatif::ProgressBar;
use selvedge_conformance::HeavyLock;
use selvedge_fabric::Fabric;
use selvedge_sim::Seed;
use selvedge_topology::{LftStyle, LinkRemoval, Spec, without_links, write_lfts, write_service_levels};

use crate::case::Case;
use crate::error::BenchError;
use crate::routing::peer::{self, Answer, Levels, Request};

/// Fabrics of `experiments/seed2.toml`.
pub const FABRICS: [&str; 3] = [
    "sx6536",
    "karytree:k=12,n=3",
    "random:switches=128,degree=4,hosts=2,seed=21",
];
/// Lost links in that experiment.
const LOST: [&str; 3] = ["0", "1%", "3%"];
/// Numbers of lanes. Trees need one lane; further lanes change nothing, because their paths only go up, then down.
const LANES: [u8; 4] = [1, 2, 4, 8];
/// Number of seeds in that experiment.
pub const SEEDS: usize = 3;
/// Folder in which the experiment expects tables, relative to the folder in which both programs run.
pub const FOLDER: &str = "target/opensm-tables";

/// Writes tables for every fabric, damage, seed and number of lanes; existing ones are kept. Returns those that could
/// not be made, and why.
pub fn write(
    fabrics: &[&str],
    seeds: impl Iterator<Item = u64> + Clone,
    folder: &Path,
    bar: &ProgressBar,
) -> Result<Vec<String>, BenchError> {
    fs::create_dir_all(folder).map_err(BenchError::store("making", folder.display()))?;
    let mut refused = Vec::new();
    for &spec in fabrics {
        let Spec::Generated(recipe) = spec.parse()? else {
            return Err(BenchError::NoCase {
                spec: spec.to_owned(),
                problem: "it is a file",
            });
        };
        let whole = recipe.fabric()?;
        for lost in LOST {
            for seed in seeds.clone() {
                for lanes in LANES {
                    let name = file_name(spec, lost, seed, lanes);
                    bar.set_message(name.clone());
                    if folder.join(format!("{name}.sls")).exists() {
                        continue;
                    }
                    let _quiet = HeavyLock::acquire()?;
                    let fabric = damaged(&whole, lost, seed).ok_or_else(|| BenchError::NoCase {
                        spec: spec.to_owned(),
                        problem: "links cannot be taken away",
                    })?;
                    match one(spec, fabric, lanes) {
                        Ok((lfts, sls)) => {
                            // Service levels last: their file shows that both are complete.
                            for (end, text) in [("lfts", lfts), ("sls", sls)] {
                                let path = folder.join(format!("{name}.{end}"));
                                fs::write(&path, text).map_err(BenchError::store("writing", path.display()))?;
                            }
                        }
                        Err(why) => refused.push(format!("{name}: {why}")),
                    }
                }
            }
        }
    }
    Ok(refused)
}

/// Returns the name that `{fabric}-lost-{lost}-seed-{seed}-nue-{vls}` becomes in an experiment.
fn file_name(spec: &str, lost: &str, seed: u64, lanes: u8) -> String {
    let plain = |text: &str| -> String {
        let kept = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        text.chars().map(|c| if kept(c) { c } else { '_' }).collect()
    };
    format!("{}-lost-{}-seed-{seed}-nue-{lanes}", plain(spec), plain(lost))
}

/// Returns the fabric that `selvedge simulate --lost` makes of a fabric.
fn damaged(whole: &Fabric, lost: &str, seed: u64) -> Option<Fabric> {
    match LinkRemoval::parse(lost)? {
        LinkRemoval::Count(0) => Some(whole.clone()),
        lost => without_links(whole, lost, Seed(seed)).ok(),
    }
}

fn one(spec: &str, fabric: Fabric, lanes: u8) -> Result<(String, String), String> {
    let case = Case::of(spec, fabric).map_err(|error| error.to_string())?;
    let request = Request {
        engine: "nue",
        roots: Vec::new(),
        lanes,
    };
    match peer::run(&case, &request).map_err(|error| error.to_string())? {
        Answer::FellBack { to, why } => Err(format!("OpenSM used {to} instead: {why}")),
        Answer::Routed(routes) => match &routes.levels {
            Levels::PerDestination(levels) => Ok((
                write_lfts(&case.fabric, &routes.lids, &routes.tables, LftStyle::Opensm),
                write_service_levels(&routes.lids, levels),
            )),
            Levels::PerPair(_) | Levels::Unknown => Err("its service levels are not of destinations".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_experiments() {
        let check = |spec, lost, want: &str| assert_eq!(file_name(spec, lost, 21, 4), want);
        check("sx6536", "1%", "sx6536-lost-1_-seed-21-nue-4");
        check("karytree:k=12,n=3", "0", "karytree_k_12_n_3-lost-0-seed-21-nue-4");
    }
}
