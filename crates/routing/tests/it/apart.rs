//! How independent the paths to the LIDs of a port are, by the judge: a page of figures, and checks for any fabric.
//! `SELVEDGE_BLESS=1` rewrites the page; commit only a difference that you can explain.

use crate::common;
use std::fmt::Write as _;
use std::path::Path;

use selvedge_fabric::Fabric;
use selvedge_plan::SlToVl;
use selvedge_routing::{Effort, Engine, Options};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{LinkRemoval, Spec, without_links};
use selvedge_verify::disjoint::{DisjointFigures, Spread, Ways};
use selvedge_verify::phases::Links;
use selvedge_verify::{JudgeOptions, Severity, Subject, verify};

const PAGE: &str = "../../docs/reference/routing-apart.md";
const HEAD: &str = "\
# Ways apart: the LIDs of a port

Written by `SELVEDGE_BLESS=1 cargo test -p selvedge-routing --test it apart`; the same test fails where an engine makes
something else. All figures are the judge's, and the same on any machine.

With LMC 1 a port has two LIDs, with LMC 2 four: a connection moves to another of them when a link or a switch on its
way fails (automatic path migration), without the manager. Of the pairs of host ports on different switches that can
have two ways at all, in percent:

- **links**: two of the LIDs have ways without a common cable, so that the loss of any one cable leaves one of them.
- **switches**: nor with a common switch but the two that the hosts hang on.
- **possible**: pairs that can have two ways, by the cabling alone, of all pairs: without a common cable, and without a
  common switch. Some lost links leave none; hosts on rails that nothing joins have no way at all.
- **max**: most host pairs on a link, by the first LIDs; **LMC 0**: where ports have only one LID.

Lost links are drawn by seed 21, which nothing was tuned on; so are the seeds of the random graphs.
";

/// Fabrics, and the share or number of links that each loses.
const FABRICS: [(&str, &str); 14] = [
    ("sx6536", "0"),
    ("sx6536", "1"),
    ("sx6536", "3%"),
    ("karytree:k=4,n=3", "0"),
    ("karytree:k=4,n=3", "1"),
    ("karytree:k=4,n=3", "3%"),
    ("karytree:k=4,n=2,rails=2", "0"),
    ("mport:m=8,n=3", "0"),
    ("ring:switches=8,hosts=2", "0"),
    ("torus:5x5,hosts=2", "0"),
    ("torus:4x4x4,hosts=1", "3%"),
    ("random:switches=32,degree=4,hosts=2,seed=21", "0"),
    ("random:switches=64,degree=4,hosts=2,seed=21", "0"),
    ("random:switches=64,degree=3,hosts=2,seed=22", "3%"),
];

/// Engines with LMC, lanes and effort.
const RUNS: [(Engine, u8, u8, Effort); 10] = [
    (Engine::FatTree, 1, 1, Effort::Fast),
    (Engine::FatTree, 2, 1, Effort::Fast),
    (Engine::Weave, 1, 1, Effort::Fast),
    (Engine::Weave, 1, 1, Effort::Best),
    (Engine::Weave, 1, 2, Effort::Fast),
    (Engine::Weave, 1, 2, Effort::Best),
    (Engine::Weave, 1, 4, Effort::Fast),
    (Engine::Weave, 1, 4, Effort::Best),
    (Engine::Weave, 2, 1, Effort::Fast),
    (Engine::Weave, 2, 4, Effort::Fast),
];

/// The judge's figures for one routing.
struct Found {
    apart: DisjointFigures,
    max_load: u64,
}

fn fabric(spec: &str, lost: &str) -> Fabric {
    let Spec::Generated(recipe) = spec.parse().unwrap() else {
        panic!("{spec} is no generator")
    };
    let removal = LinkRemoval::parse(lost).unwrap();
    without_links(&recipe.fabric().unwrap(), removal, Seed(21)).unwrap()
}

/// Routes, and has everything judged; `None` if the engine refuses.
fn found(name: &str, fabric: &Fabric, (engine, lmc, lanes, effort): (Engine, u8, u8, Effort)) -> Option<Found> {
    let lids = common::number(fabric, lmc);
    let mut options = Options {
        lanes: Some(lanes),
        ..Options::default()
    };
    options.weave.effort = effort;
    let routed = engine.route(fabric, &lids, &options, Seed(1), Par::Rayon).ok()?;
    let sl_to_vl = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, &lids, &routed.tables, &routed.service_levels, &sl_to_vl);
    let verdict = verify(subject, &JudgeOptions::default());
    let errors: Vec<String> = verdict.errors().take(3).map(ToString::to_string).collect();
    assert!(
        errors.is_empty(),
        "{name}, {engine:?}, LMC {lmc}, {lanes} lanes: {errors:?}"
    );
    assert_eq!(verdict.count(Severity::Error), 0);
    Some(Found {
        apart: Ways::new(subject, Links::Trained).figures(Par::Rayon),
        max_load: verdict.figures.load.max,
    })
}

/// Formats a share in percent; never as 100.0 if one pair is missing.
fn percent(share: f64) -> String {
    format!("{:.1}", (share * 1_000.0).floor() / 10.0)
}

fn possible(spread: &Spread) -> String {
    let pairs: u64 = spread.pairs.iter().sum();
    percent(spread.possible as f64 / pairs.max(1) as f64)
}

#[test]
fn ways_are_as_on_the_page() {
    let mut page = HEAD.to_owned();
    for (spec, lost) in FABRICS {
        let fabric = fabric(spec, lost);
        let damage = match lost {
            "0" => String::new(),
            "1" => " less one of its links".to_owned(),
            share => format!(" less {share} of its links"),
        };
        let mut table = String::new();
        let mut can = String::new();
        for run in RUNS {
            let (engine, lmc, lanes, effort) = run;
            let best = if effort == Effort::Best { ", best" } else { "" };
            let name = format!("{}{best} | {lmc} | {lanes}", engine.name());
            let Some(Found { apart, max_load }) = found(spec, &fabric, run) else {
                let _ = writeln!(table, "| {name} | refused | | | |");
                continue;
            };
            let one = found(spec, &fabric, (engine, 0, lanes, effort)).unwrap();
            can = format!("{} %, {} %", possible(&apart.by_links), possible(&apart.by_switches));
            let (links, switches) = (&apart.by_links, &apart.by_switches);
            let _ = writeln!(
                table,
                "| {name} | {} | {} | {max_load} | {} |",
                percent(links.share_of_possible()),
                percent(switches.share_of_possible()),
                one.max_load
            );
        }
        let _ = write!(
            page,
            "\n## `{spec}`{damage}\n\nPossible: {can}.\n\n| engine | LMC | V | links | switches | max | LMC 0 \
             |\n|---|---|---|---|---|---|---|\n{table}",
        );
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    for (at, (found, want)) in page.lines().zip(stored.lines()).enumerate() {
        assert_eq!(found, want, "line {}; SELVEDGE_BLESS=1 rewrites the page", at + 1);
    }
    assert_eq!(
        page.lines().count(),
        stored.lines().count(),
        "SELVEDGE_BLESS=1 rewrites the page"
    );
}

/// On any fabric, with any LMC and number of lanes, the judge finds nothing; and the share of pairs with two paths
/// apart stays above a limit.
#[test]
fn random_fabrics_with_further_lids_are_judged() {
    let mut shares = [(0.0, 0.0); 2];
    for seed in 0..60 {
        let whole = common::random(Seed(1_000 + seed));
        let damaged = common::without(&whole, |link| (link as u64 + seed).is_multiple_of(6));
        let lmc = 1 + u8::try_from(seed % 3).unwrap();
        for (fabric, name) in [(&whole, "whole"), (&damaged, "damaged")] {
            for (lanes, share) in [1, 2, 4].into_iter().zip([0, 1, 1]) {
                let effort = if seed % 8 == 0 { Effort::Best } else { Effort::Fast };
                let name = format!("seed {seed}, {name}");
                let found = found(&name, fabric, (Engine::Weave, lmc, lanes, effort)).unwrap();
                shares[share].0 += found.apart.by_links.pairs.iter().skip(2).sum::<u64>() as f64;
                shares[share].1 += found.apart.by_links.possible as f64;
            }
        }
    }
    let [one, more] = shares.map(|(have, can): (f64, f64)| have / can);
    println!("on one lane {one:.3}, on more {more:.3}");
    assert!(one > 0.75 && more > 0.9, "on one lane {one}, on more {more}");
}

/// The aim of alternate paths: nearly every pair that can have two paths has them, if there are lanes.
#[test]
fn nearly_all_pairs_of_random_graphs_have_two_ways() {
    for seed in [21, 22, 23] {
        let spec = format!("random:switches=128,degree=4,hosts=2,seed={seed}");
        let fabric = fabric(&spec, "0");
        for (lanes, want) in [(1, 0.88), (2, 0.95), (4, 0.95)] {
            let found = found(&spec, &fabric, (Engine::Weave, 1, lanes, Effort::Best)).unwrap();
            let (links, switches) = (
                found.apart.by_links.share_of_possible(),
                found.apart.by_switches.share_of_possible(),
            );
            assert!(
                links >= want && switches >= want - 0.02,
                "{spec}, {lanes} lanes: {links}, {switches}"
            );
        }
    }
}

/// On a whole tree the two LIDs of a port never share a cable with `fat-tree`. With a lost link, the detour of one LID
/// may use the path of the other.
#[test]
fn trees_whole_and_less_any_one_link() {
    let share = |spec: &str, fabric: &Fabric| {
        let found = found(spec, fabric, (Engine::FatTree, 1, 1, Effort::Fast)).unwrap();
        assert_eq!(found.apart.by_links.possible, found.apart.pairs, "{spec}");
        found.apart.by_links.share_of_possible()
    };
    for (spec, least) in [("karytree:k=4,n=2", 0.87), ("karytree:k=3,n=3", 0.92), ("sx6536", 0.98)] {
        let whole = fabric(spec, "0");
        assert_eq!(share(spec, &whole), 1.0, "{spec}");
        let is_switch = |node| whole.switch_index(node).is_some();
        let links = whole
            .links()
            .filter(|l| is_switch(l.a.node) && is_switch(l.b.node))
            .count();
        let worst = (0..links).step_by(links.div_ceil(60)).map(|lost| {
            let fabric = common::without(&whole, |link| link == lost);
            share(spec, &fabric)
        });
        let worst = worst.fold(1.0, f64::min);
        println!("{spec} less any one link: {worst:.4}");
        assert!(worst >= least, "{spec}: {worst}");
    }
}

/// Fabrics with slow links, with hosts on two rails, and with two ports of a host on different switches are judged like
/// any other.
#[test]
fn unequal_links_and_rails() {
    let mut fabric = fabric("random:switches=24,degree=4,hosts=2,seed=5", "0");
    let is_switch = |fabric: &Fabric, node| fabric.switch_index(node).is_some();
    let between: Vec<_> = fabric
        .links()
        .filter(|l| is_switch(&fabric, l.a.node) && is_switch(&fabric, l.b.node))
        .collect();
    for at in between.iter().step_by(3).flat_map(|link| [link.a, link.b]) {
        let port = fabric.port(at).unwrap().clone();
        let mut link = port.link;
        link.rate.width = selvedge_types::LinkWidth::X1;
        fabric.set_port(at, link, port.settings);
    }
    let mut rails = common::Net::default();
    let ring: Vec<_> = (1..=6).map(|guid| rails.switch(guid, 8)).collect();
    for i in 0..6 {
        rails.link(ring[i], ring[(i + 1) % 6]);
        rails.link(ring[i], ring[(i + 2) % 6]);
        rails.host_on(&[ring[i], ring[(i + 3) % 6]]);
    }
    let rails = rails.finish();
    for (name, fabric) in [("slow links", &fabric), ("two ports", &rails)] {
        for (lmc, lanes) in [(1, 1), (1, 2), (2, 4)] {
            let found = found(name, fabric, (Engine::Weave, lmc, lanes, Effort::Best)).unwrap();
            let share = found.apart.by_links.share_of_possible();
            println!("{name}, LMC {lmc}, {lanes} lanes: {share:.3}");
            assert!(
                share >= if lanes == 1 { 0.8 } else { 0.9 },
                "{name}, LMC {lmc}, {lanes} lanes: {share}"
            );
        }
    }
}
