//! The judge's figures of every engine on named small fabrics, as a page: a change of quality is a readable diff.
//! `SELVEDGE_BLESS=1` rewrites it; commit only a difference that you can explain.

use crate::common;
use std::fmt::Write as _;
use std::path::Path;

use selvedge_fabric::Fabric;
use selvedge_plan::{Lids, SlToVl};
use selvedge_routing::{Effort, Engine, Options, Rebalance};
use selvedge_sim::{Par, Seed};
use selvedge_topology::{LinkRemoval, Spec, without_links};
use selvedge_verify::{ContentionOptions, JudgeOptions, Kind, Subject, contention, verify};

const PAGE: &str = "../../docs/reference/routing-quality.md";
const HEAD: &str = "\
# Quality of the routing engines

Written by `SELVEDGE_BLESS=1 cargo test -p selvedge-routing --test it quality`; the same test fails where an engine
makes something else. All figures are the judge's, and the same on any machine. No time is shown here: see
`selvedge compare`.

- **max, mean, sd**: host pairs per directed link between switches (the edge forwarding index).
- **shift**: most flows on a link while host i sends to host i + k; most over all k, and mean.
- **eBB**: effective bisection bandwidth over 1,000 random pairings, the share of a link that a flow gets; the 95 %
  interval is no wider than 0.02.
- **hops**: links between switches on the way of a host pair, mean; **stretch**: over the fewest possible.
- **best**: `weave` with `--effort best`; **full**: `fat-tree` with `--rebalance full`.
- **lanes**: that carry traffic, of those allowed (V). **refused**: the engine says that it cannot route this fabric.
- **safe**: no lane can deadlock, in traffic from or to hosts. The manager sends no tables that are not.

Lost links are drawn by seed 21, which nothing was tuned on.
";

/// Fabrics, and the share of links that each loses.
const FABRICS: [(&str, &str); 11] = [
    ("sx6536", "0"),
    ("sx6536", "3%"),
    ("karytree:k=4,n=3", "0"),
    ("karytree:k=4,n=3", "3%"),
    ("mport:m=8,n=3", "3%"),
    ("ring:switches=8,hosts=2", "0"),
    ("mesh:6x6,hosts=1", "0"),
    ("torus:5x5,hosts=2", "0"),
    ("torus:4x4x4,hosts=1", "3%"),
    ("random:switches=32,degree=4,hosts=2,seed=21", "0"),
    ("random:switches=64,degree=4,hosts=2,seed=21", "0"),
];

/// Engines with the lanes that they may use and how they work: `best` of weave, `full` of fat-tree.
const ENGINES: [(Engine, u8, &str); 17] = [
    (Engine::Auto, 1, ""),
    (Engine::FatTree, 1, ""),
    (Engine::FatTree, 4, ""),
    (Engine::FatTree, 1, "full"),
    (Engine::Weave, 1, ""),
    (Engine::Weave, 2, ""),
    (Engine::Weave, 4, ""),
    (Engine::Weave, 8, ""),
    (Engine::Weave, 1, "best"),
    (Engine::Weave, 4, "best"),
    (Engine::Weave, 8, "best"),
    (Engine::Ftree, 1, ""),
    (Engine::UpDn, 1, ""),
    (Engine::DnUp, 1, ""),
    (Engine::MinHop, 1, ""),
    (Engine::Sssp, 1, ""),
    (Engine::Dfsssp, 8, ""),
];

fn fabric(spec: &str, lost: &str) -> Fabric {
    let Spec::Generated(recipe) = spec.parse().unwrap() else {
        panic!("{spec} is no generator")
    };
    let removal = LinkRemoval::parse(lost).unwrap();
    without_links(&recipe.fabric().unwrap(), removal, Seed(21)).unwrap()
}

fn row(fabric: &Fabric, lids: &Lids, (engine, lanes, how): (Engine, u8, &str)) -> String {
    let mut options = Options {
        lanes: Some(lanes),
        ..Options::default()
    };
    match how {
        "best" => options.weave.effort = Effort::Best,
        "full" => options.rebalance = Rebalance::Full,
        _ => {}
    }
    let comma = if how.is_empty() { "" } else { ", " };
    let name = format!("{}{comma}{how} | {lanes}", engine.name());
    let Ok(routed) = engine.route(fabric, lids, &options, Seed(1), Par::Rayon) else {
        return format!("| {name} | refused | | | | | | | | | |\n");
    };
    let sl_to_vl = SlToVl::modulo(routed.lanes);
    let subject = Subject::tables(fabric, lids, &routed.tables, &routed.service_levels, &sl_to_vl);
    let judge = JudgeOptions {
        par: Par::Rayon,
        findings_max: 1,
        ..JudgeOptions::default()
    };
    let verdict = verify(subject, &judge);
    let measure = ContentionOptions {
        par: Par::Rayon,
        ..ContentionOptions::default()
    };
    let found = contention(subject, &measure);
    let figures = &verdict.figures;
    let cycles = verdict.count_of(Kind::HostCycle) + verdict.count_of(Kind::AgentCycle);
    let safe = match (cycles, verdict.is_ok()) {
        (0, true) => "yes".to_owned(),
        (0, false) => format!("yes, but {}", verdict.errors().next().unwrap().code),
        _ => "no".to_owned(),
    };
    assert!(
        found.bisection.high - found.bisection.low <= 0.02,
        "{name}: {:?}",
        found.bisection
    );
    let load = figures.load;
    format!(
        "| {name} | {} | {:.1} | {:.2} | {} | {:.2} | {:.3} | {:.3} | {:.3} | {} | {safe} |\n",
        load.max,
        load.mean,
        load.sd,
        found.shift.max,
        found.shift.mean,
        found.bisection.mean,
        figures.hops_mean,
        found.stretch.mean,
        figures.lanes.iter().filter(|lane| lane.load.max > 0).count(),
    )
}

#[test]
fn quality_is_as_on_the_page() {
    let mut page = HEAD.to_owned();
    for (spec, lost) in FABRICS {
        let fabric = fabric(spec, lost);
        let lids = common::number(&fabric, 0);
        let damage = if lost == "0" {
            String::new()
        } else {
            format!(" less {lost} of its links")
        };
        let _ = write!(
            page,
            "\n## `{spec}`{damage}\n\n\
             | engine | V | max | mean | sd | shift | mean | eBB | hops | stretch | lanes | safe |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for engine in ENGINES {
            page.push_str(&row(&fabric, &lids, engine));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os("SELVEDGE_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    for (at, (found, want)) in page.lines().zip(stored.lines()).enumerate() {
        assert_eq!(found, want, "line {}; SELVEDGE_BLESS=1 rewrites the page", at + 1);
    }
    assert_eq!(
        page.lines().count(),
        stored.lines().count(),
        "SELVEDGE_BLESS=1 rewrites the page"
    );
}
