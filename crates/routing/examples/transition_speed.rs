//! How long the judge takes to prove a transition: `cargo run --release -p selvedge-routing --example transition_speed`.
//!
//! Per tree: the standing graph, built once; the repair of one lost cable between switches, as `fat-tree` routes the
//! damaged tree, in one step and in two; another engine's tables, entries dropped first.

use std::time::Instant;

use selvedge_fabric::{Fabric, PortRef};
use selvedge_plan::{Lids, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, PortState};
use selvedge_verify::Subject;
use selvedge_verify::phases::{Links, PhaseOptions, PhaseStep, Proposal, StandingTurns, Write, prove, prove_quickly};

fn main() {
    let mut specs: Vec<String> = std::env::args().skip(1).collect();
    if specs.is_empty() {
        specs = ["sx6536", "karytree:k=12,n=3", "karytree:k=18,n=3"]
            .map(str::to_owned)
            .to_vec();
    }
    for spec in specs {
        match spec.parse::<Spec>() {
            Ok(Spec::Generated(recipe)) => match recipe.fabric() {
                Ok(fabric) => measure(&spec, fabric),
                Err(error) => eprintln!("{error}"),
            },
            Ok(Spec::File(_)) => eprintln!("{spec}: only generated fabrics here"),
            Err(error) => eprintln!("{error}"),
        }
    }
}

fn measure(spec: &str, mut fabric: Fabric) {
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        if lids.insert(at, LidRange::single(Lid(lid))).is_err() {
            eprintln!("{spec}: out of LIDs");
            return;
        }
    }
    activate(&mut fabric);
    let route = |fabric: &Fabric, engine: Engine| {
        let routed = engine.route(fabric, &lids, &Options::default(), Seed(0), Par::Rayon);
        routed.map(|routed| routed.tables)
    };
    let (Ok(tables), Ok(updn)) = (route(&fabric, Engine::FatTree), route(&fabric, Engine::UpDn)) else {
        eprintln!("{spec}: no tree");
        return;
    };
    let (levels, lanes) = (ServiceLevels::default(), SlToVl::default());
    let in_force = Subject::tables(&fabric, &lids, &tables, &levels, &lanes);
    let start = Instant::now();
    let standing = StandingTurns::new(in_force, Links::Trained, Par::Sequential);
    println!("{spec}: standing {:?}, {} turns", start.elapsed(), standing.turns());
    let options = PhaseOptions {
        links: Links::Trained,
        drain_ns: Some(1),
        ..PhaseOptions::default()
    };
    let try_it = |what: &str, subject: Subject<'_>, standing: Option<&StandingTurns>, steps: Vec<PhaseStep>| {
        let proposal = Proposal {
            steps,
            ..Proposal::default()
        };
        if let Some(standing) = standing {
            let mut best = std::time::Duration::MAX;
            let mut proof = None;
            for _ in 0..9 {
                let start = Instant::now();
                proof = prove_quickly(subject, standing, &proposal, &options);
                best = best.min(start.elapsed());
            }
            println!("{spec}: {what}, quickly {best:?}: {proof:?}");
        }
        let mut best = None;
        let mut said = String::new();
        for _ in 0..3 {
            let start = Instant::now();
            let proved = prove(subject, standing, &proposal, &options);
            let took = start.elapsed();
            best = Some(best.map_or(took, |best: std::time::Duration| best.min(took)));
            said = match proved {
                Ok(proof) => {
                    let f = &proof.figures;
                    let waits = (&f.waits, &f.waits_spare);
                    format!(
                        "proved, {} LIDs, {} entries, ghosts {}, waits {waits:?}",
                        f.lids, f.entries, f.ghosts_max
                    )
                }
                Err(refusal) => refusal.to_string(),
            };
        }
        println!("{spec}: {what} {:?}: {said}", best.unwrap_or_default());
    };
    let at_once = |writes: Vec<Write>| PhaseStep {
        wait_before_ns: 0,
        writes,
    };
    for (name, nth) in [("first cable", 0), ("last cable", usize::MAX)] {
        let mut damaged = fabric.clone();
        let cables: Vec<_> = damaged
            .links()
            .filter(|link| between_switches(&fabric, link.a))
            .collect();
        let cable = cables[nth.min(cables.len() - 1)];
        for at in [cable.a, cable.b] {
            set(&mut damaged, at, PortState::Down);
        }
        let Ok(repaired) = route(&damaged, Engine::FatTree) else {
            continue;
        };
        let subject = Subject {
            fabric: &damaged,
            ..in_force
        };
        let writes = differences(&lids, &tables, &repaired);
        let ends = [cable.a.node, cable.b.node].map(|node| fabric.switch_index(node));
        let (last, first): (Vec<Write>, Vec<Write>) = writes.iter().partition(|w| ends.contains(&Some(w.switch)));
        try_it(
            &format!("{name} at once"),
            subject,
            Some(&standing),
            vec![at_once(writes)],
        );
        try_it(
            &format!("{name} in two"),
            subject,
            Some(&standing),
            vec![at_once(first), at_once(last)],
        );
    }
    let writes = differences(&lids, &tables, &updn);
    let dropped = writes.iter().map(|&w| Write { egress: 255, ..w }).collect();
    let after = PhaseStep {
        wait_before_ns: 1,
        writes: writes.clone(),
    };
    try_it("updn at once", in_force, None, vec![at_once(writes)]);
    try_it("updn, drop first, wait", in_force, None, vec![at_once(dropped), after]);
}

fn between_switches(fabric: &Fabric, at: PortRef) -> bool {
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    is_switch(at) && fabric.peer(at).is_some_and(is_switch)
}

fn activate(fabric: &mut Fabric) {
    let cabled: Vec<PortRef> = fabric.links().flat_map(|link| [link.a, link.b]).collect();
    cabled.into_iter().for_each(|at| set(fabric, at, PortState::Active));
}

fn set(fabric: &mut Fabric, at: PortRef, state: PortState) {
    if let Some(port) = fabric.port(at) {
        let mut link = port.link;
        link.state = state;
        if state == PortState::Down {
            link.phys = selvedge_types::PhysState::Polling;
        }
        let settings = port.settings.clone();
        fabric.set_port(at, link, settings);
    }
}

fn differences(lids: &Lids, before: &Tables, after: &Tables) -> Vec<Write> {
    let mut writes = Vec::new();
    for (lid, _) in lids.by_lid() {
        for switch in before.switch_indices() {
            let egress = after.get(switch, lid);
            if before.get(switch, lid) != egress {
                writes.push(Write { switch, lid, egress });
            }
        }
    }
    writes
}
