//! How long the planner of ways takes, and what its ways look like:
//! `cargo run --release -p selvedge-sm --example way_speed [SPEC [FAULTS [SEED]]]`.
//!
//! Per fabric: `FAULTS` links between switches, drawn by the seed, each lost and repaired by what `auto` takes, and put
//! back; then changes of the whole engine. For each: time to propose (with dependencies kept, and without), steps,
//! waits, entries dropped.

use std::time::{Duration, Instant};

use selvedge_fabric::{Fabric, LinkState, PortRef};
use selvedge_plan::{ChangeSet, EngineName, Generation, Installed, Lids, Op, Plan, ServiceLevels, SlToVl, Tables};
use selvedge_routing::{Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_sm::way::{self, WayOptions};
use selvedge_topology::Spec;
use selvedge_types::{Lid, LidRange, PortState};
use selvedge_verify::phases::{Links, Passage, StandingTurns, passage};
use selvedge_verify::{JudgeOptions, Subject};

fn main() {
    let mut args = std::env::args().skip(1);
    let spec = args.next().unwrap_or_else(|| "sx6536".to_owned());
    let faults: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(10);
    let seed: u64 = args.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    match spec.parse::<Spec>() {
        Ok(Spec::Generated(recipe)) => match recipe.fabric() {
            Ok(fabric) => measure(&spec, fabric, faults, Seed(seed)),
            Err(error) => eprintln!("{error}"),
        },
        Ok(Spec::File(_)) => eprintln!("{spec}: only generated fabrics here"),
        Err(error) => eprintln!("{error}"),
    }
}

struct Bench {
    fabric: Fabric,
    lids: Lids,
}

fn measure(spec: &str, mut fabric: Fabric, faults: usize, seed: Seed) {
    let mut lids = Lids::new();
    for ((at, _), lid) in fabric.end_ports().zip(1..) {
        if lids.insert(at, LidRange::single(Lid(lid))).is_err() {
            eprintln!("{spec}: out of LIDs");
            return;
        }
    }
    let links: Vec<_> = fabric.links().collect();
    links
        .iter()
        .flat_map(|l| [l.a, l.b])
        .for_each(|at| set(&mut fabric, at, PortState::Active));
    for node in fabric.switches().iter().copied().collect::<Vec<_>>() {
        let mut settings = fabric.node(node).switch_settings;
        settings.lifetime = 18;
        fabric.set_switch(node, settings);
    }
    let is_switch = |at: PortRef| fabric.switch_index(at.node).is_some();
    let mut cables: Vec<_> = links.iter().filter(|l| is_switch(l.a) && is_switch(l.b)).collect();
    seed.rng().shuffle(&mut cables);
    let mut bench = Bench { fabric, lids };
    let Some(whole) = bench.route(Engine::Auto, None) else {
        return;
    };
    let standing = bench.standing(&whole);
    for cable in cables.into_iter().take(faults) {
        let name = format!(
            "{} - {}",
            bench.fabric.port_name(cable.a),
            bench.fabric.port_name(cable.b)
        );
        [cable.a, cable.b]
            .into_iter()
            .for_each(|at| set(&mut bench.fabric, at, PortState::Down));
        let Some(repaired) = bench.route(Engine::Auto, Some(&whole)) else {
            continue;
        };
        bench.show(&format!("{name} lost"), &whole, &repaired, Some(&standing));
        [cable.a, cable.b]
            .into_iter()
            .for_each(|at| set(&mut bench.fabric, at, PortState::Init));
        bench.show(&format!("{name} back"), &repaired, &whole, None);
        [cable.a, cable.b]
            .into_iter()
            .for_each(|at| set(&mut bench.fabric, at, PortState::Active));
    }
    let engines = [Engine::UpDn, Engine::MinHop, Engine::FatTree, Engine::Weave];
    for from in engines {
        let Some(old) = bench.route(from, None) else { continue };
        for to in engines.into_iter().filter(|to| *to != from) {
            if let Some(new) = bench.route(to, None) {
                bench.show(&format!("{from:?} to {to:?}"), &old, &new, None);
            }
        }
    }
}

fn set(fabric: &mut Fabric, at: PortRef, state: PortState) {
    if let Some((link, settings)) = fabric.port(at).map(|port| (port.link, port.settings)) {
        fabric.set_port(at, LinkState { state, ..link }, settings);
    }
}

impl Bench {
    fn route(&self, engine: Engine, previous: Option<&Tables>) -> Option<Tables> {
        let options = Options {
            previous: previous.cloned().map(Into::into),
            lanes: Some(1),
            ..Options::default()
        };
        let routed = engine.route(&self.fabric, &self.lids, &options, Seed(0), Par::Rayon);
        routed.ok().map(|routed| routed.tables)
    }

    fn standing(&self, tables: &Tables) -> StandingTurns {
        let (levels, map) = (ServiceLevels::default(), SlToVl::default());
        let subject = Subject::tables(&self.fabric, &self.lids, tables, &levels, &map);
        StandingTurns::new(subject, Links::Active, Par::Rayon)
    }

    fn show(&self, what: &str, from: &Tables, to: &Tables, standing: Option<&StandingTurns>) {
        let mut installed = Installed::unknown(from.switches());
        for (switch, block) in from
            .switch_indices()
            .flat_map(|s| (0..from.blocks()).map(move |b| (s, b)))
        {
            installed.learn(switch, block, *from.block(switch, block));
        }
        let plan = Plan {
            generation: Generation(1),
            engine: EngineName("example".to_owned()),
            lids: self.lids.clone(),
            tables: to.clone(),
            service_levels: ServiceLevels::default(),
            sl_to_vl: SlToVl::default(),
            lanes: 1,
            ports: Default::default(),
            end_ports: Default::default(),
            switches: self
                .fabric
                .switches()
                .iter()
                .map(|&n| self.fabric.node(n).switch_settings)
                .collect(),
        };
        let options = WayOptions {
            standing,
            ..WayOptions::default()
        };
        let tries = if standing.is_some() { 5 } else { 1 };
        let plain = best(tries, || selvedge_plan::changes(&self.fabric, &installed, &plan)).0;
        let (took, changes) = best(tries, || way::propose(&self.fabric, &installed, &plan, &options));
        let judge = JudgeOptions::default();
        let start = Instant::now();
        let passage = passage(&self.fabric, &installed, &plan, &changes, None, &judge);
        let judged = start.elapsed();
        let said = match &passage {
            Passage::Still => "still".to_owned(),
            Passage::Quick(_) => "proved".to_owned(),
            Passage::Proved(proof) => {
                let live = proof.figures.steps.iter().map(|step| step.live_dropped.hosts).max();
                format!(
                    "proved, spare {:?}, live pairs dropped {live:?}",
                    proof.figures.waits_spare
                )
            }
            Passage::Inherited(refusal) => format!("inherited, {} findings", refusal.findings.len()),
            Passage::Refused(refusal) => format!("refused: {refusal}"),
        };
        if changes.phases.iter().any(|phase| phase.wait_before_ns > 0) && std::env::var_os("WHY").is_some() {
            let mut hasty = changes.clone();
            hasty.phases.iter_mut().for_each(|phase| phase.wait_before_ns = 0);
            let passage = selvedge_verify::phases::passage(&self.fabric, &installed, &plan, &hasty, None, &judge);
            if let Passage::Refused(refusal) = passage {
                let first = &refusal.findings[0];
                println!("  without a wait: {first}");
                first.witness.iter().for_each(|step| println!("    {step}"));
            }
        }
        println!(
            "{what}: {} in {took:?} (Sets alone {plain:?}), {said} in {judged:?}",
            shape(&changes)
        );
    }
}

/// Sets of each phase; `+` after a wait.
fn shape(changes: &ChangeSet) -> String {
    let phase = |phase: &selvedge_plan::Phase| {
        let wait = match phase.wait_before_ns {
            0 => String::new(),
            ns => format!("+{:.2}s ", Duration::from_nanos(ns).as_secs_f64()),
        };
        let tables = phase.ops.iter().filter(|op| matches!(op, Op::Lft { .. })).count();
        format!("{wait}{tables}")
    };
    changes.phases.iter().map(phase).collect::<Vec<_>>().join(" | ")
}

/// The best of some tries.
fn best<T>(tries: usize, mut f: impl FnMut() -> T) -> (Duration, T) {
    let mut once = || {
        let start = Instant::now();
        let value = f();
        (start.elapsed(), value)
    };
    let mut best = once();
    for _ in 1..tries {
        let next = once();
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}
