//! How fast and how good `fat-tree` is: `cargo run --release -p selvedge-routing --example fat_tree_speed [SPEC…]`.
//!
//! One line per fabric: detection, the first filling (of new memory), the median of warm ones, all on one thread; what
//! the judge says of the tables. The bound is what no routing can beat on a full tree: hosts per leaf × remote leaves.

use std::time::{Duration, Instant};

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, FatTree, FatTreeOptions, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange};
use selvedge_verify::{JudgeOptions, Subject, verify};

fn main() {
    let mut specs: Vec<String> = std::env::args().skip(1).collect();
    if specs.is_empty() {
        let all = [
            "sx6536",
            "karytree:k=18,n=2",
            "karytree:k=12,n=3",
            "karytree:k=18,n=3",
            "mport:m=48,n=3",
        ];
        specs = all.map(str::to_owned).to_vec();
    }
    for spec in specs {
        match spec.parse::<Spec>() {
            Ok(Spec::Generated(recipe)) => match recipe.fabric() {
                Ok(fabric) => measure(&spec, &fabric),
                Err(error) => eprintln!("{error}"),
            },
            Ok(Spec::File(_)) => eprintln!("{spec}: only generated fabrics here"),
            Err(error) => eprintln!("{error}"),
        }
    }
}

fn median(times: usize, mut work: impl FnMut()) -> Duration {
    let mut all: Vec<Duration> = (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    all.sort();
    all[times / 2]
}

fn measure(spec: &str, fabric: &Fabric) {
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        if lids.insert(at, LidRange::single(Lid(lid))).is_err() {
            eprintln!("{spec}: out of LIDs");
            return;
        }
    }
    let start = Instant::now();
    let tree = match FatTree::detect(fabric, &FatTreeOptions::default(), Par::Sequential) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("{spec}: {error}");
            return;
        }
    };
    let detect = start.elapsed();
    let cold = median(5, || {
        let routed = Engine::FatTree.route(fabric, &lids, &Options::default(), Seed(0), Par::Sequential);
        assert!(routed.is_ok());
    });
    let detect = detect.min(median(5, || {
        let found = FatTree::detect(fabric, &FatTreeOptions::default(), Par::Sequential);
        assert!(found.is_ok());
    }));
    let mut tables = Tables::new(fabric.switches().len(), lids.top());
    let fill = |tables: &mut Tables| {
        let start = Instant::now();
        let filled = tree.fill(&lids, tables, Par::Sequential);
        assert!(filled.is_ok());
        start.elapsed()
    };
    let first = fill(&mut tables);
    let mut warm: Vec<Duration> = (0..21).map(|_| fill(&mut tables)).collect();
    warm.sort();
    let copy = tables.clone();
    let mut other = copy.clone();
    let mut memory: Vec<Duration> = (0..11)
        .map(|_| {
            let start = Instant::now();
            other.clone_from(&copy);
            std::hint::black_box(&other);
            start.elapsed()
        })
        .collect();
    memory.sort();
    println!(
        "{spec}: detect {detect:.1?}, whole route {cold:.1?}; first filling {first:.2?}, warm {:.2?} ({:.2?}–{:.2?}), \
         copying as much {:.2?}",
        warm[warm.len() / 2],
        warm[0],
        warm[warm.len() - 1],
        memory[memory.len() / 2],
    );
    judge(fabric, &lids, &tables);
}

fn judge(fabric: &Fabric, lids: &Lids, tables: &Tables) {
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let options = JudgeOptions {
        par: Par::Rayon,
        findings_max: 1,
        ..JudgeOptions::default()
    };
    let verdict = verify(Subject::tables(fabric, lids, tables, &levels, &lanes), &options);
    let figures = &verdict.figures;
    println!(
        "  {} switches {} hosts; ok {}, max load {}, mean {:.1}, sd {:.1}, host pairs {} of {}",
        figures.switches,
        figures.host_ports,
        verdict.is_ok(),
        figures.load.max,
        figures.load.mean,
        figures.load.sd,
        figures.host_pairs_reached,
        figures.host_pairs,
    );
    for error in verdict.errors().take(2) {
        println!("  {error:?}");
    }
}
