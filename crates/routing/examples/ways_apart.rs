//! How many LIDs of a port are ways apart: `cargo run --release -p selvedge-routing --example ways_apart [SPEC…]`.
//!
//! Per fabric, engine and LMC: the fewest and the mean of LID offsets without a common cable, and without a common
//! cable or switch, over all pairs of hosts on different switches.

use std::time::Instant;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, Lmc};
use selvedge_verify::Subject;
use selvedge_verify::disjoint::Ways;
use selvedge_verify::phases::Links;

fn main() {
    let mut specs: Vec<String> = std::env::args().skip(1).collect();
    if specs.is_empty() {
        let all = [
            "sx6536",
            "karytree:k=6,n=3",
            "torus:4x4x4",
            "random:switches=64,degree=4,hosts=2,seed=21",
        ];
        specs = all.map(str::to_owned).to_vec();
    }
    for spec in specs {
        match spec.parse::<Spec>() {
            Ok(Spec::Generated(recipe)) => match recipe.fabric() {
                Ok(fabric) => [1, 2, 3].into_iter().for_each(|lmc| measure(&spec, &fabric, lmc)),
                Err(error) => eprintln!("{error}"),
            },
            Ok(Spec::File(_)) => eprintln!("{spec}: only generated fabrics here"),
            Err(error) => eprintln!("{error}"),
        }
    }
}

fn measure(spec: &str, fabric: &Fabric, lmc: u8) {
    let Some(lids) = number(fabric, lmc) else {
        eprintln!("{spec}: out of LIDs");
        return;
    };
    for engine in [
        Engine::FatTree,
        Engine::Weave,
        Engine::MinHop,
        Engine::UpDn,
        Engine::Sssp,
    ] {
        let Ok(routed) = engine.route(fabric, &lids, &Options::default(), Seed(0), Par::Rayon) else {
            continue;
        };
        let lanes = SlToVl::modulo(routed.lanes);
        let subject = Subject::tables(fabric, &lids, &routed.tables, &routed.service_levels, &lanes);
        let start = Instant::now();
        let figures = Ways::new(subject, Links::Trained).figures(Par::Sequential);
        let took = start.elapsed();
        let (links, switches) = (&figures.by_links, &figures.by_switches);
        println!(
            "{spec} {} LMC {lmc}: cables {} (mean {:.2}), cables and switches {} (mean {:.2}), {} bounded, {took:?}",
            engine.name(),
            links.min,
            links.mean(),
            switches.min,
            switches.mean(),
            figures.bounded
        );
    }
}

fn number(fabric: &Fabric, lmc: u8) -> Option<Lids> {
    let mut lids = Lids::new();
    let mut next = 1_u16;
    for (at, _) in fabric.end_ports() {
        let is_switch = fabric.node(at.node).is_switch();
        let lmc = Lmc::new(if is_switch { 0 } else { lmc })?;
        let base = next.checked_next_multiple_of(lmc.lids())?;
        lids.insert(at, LidRange { base: Lid(base), lmc }).ok()?;
        next = base.checked_add(lmc.lids())?;
    }
    Some(lids)
}
