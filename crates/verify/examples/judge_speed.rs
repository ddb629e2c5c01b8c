//! How long the judge takes: `judge_speed [SHAPE] [RUNS]`, SHAPE `karytree` (`karytree:k=18,n=3`, 5,832 hosts, the
//! default), `mport` (`mport:m=48,n=3`, 27,648 hosts) or a number K (a K-ary 3-tree); RUNS of each row, default 9.
//!
//! Each row: wall time (median, least, most) and processor time of all threads (least). Set `RAYON_NUM_THREADS=2` for
//! figures of two threads. The tables are made here, by digits of the destination (D-mod-K), so that no routing engine
//! is involved.

mod tree;

use selvedge_fabric::Fabric;
use selvedge_plan::{Installed, Lids, ServiceLevels, SlToVl, Tables, changes};
use selvedge_sim::Par;
use selvedge_types::Sl;
use selvedge_verify::{JudgeOptions, Senders, Subject, judge, verify};
use tree::{Tree, plan, row};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let shape = arguments.get(1).map_or("karytree", String::as_str);
    let runs: usize = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(9);
    let tree = Tree::of(shape);
    let fabric = tree.fabric();
    let lids = tree.lids(&fabric);
    let tables = tree.tables(&fabric, &lids);
    let (hosts, switches) = (fabric.host_count(), fabric.switches().len());
    println!("{hosts} hosts, {switches} switches, {} LIDs", lids.len());
    let levels = ServiceLevels::default();
    let spread = (0..=lids.top().0).map(|lid| Sl::new((lid % 8) as u8).expect("below 16"));
    let spread = ServiceLevels::PerDestination(spread.collect());
    for (lanes, levels) in [(1, &levels), (8, &spread)] {
        let map = SlToVl::modulo(lanes);
        for (par, sources) in [
            (Par::Sequential, Senders::Hosts),
            (Par::Rayon, Senders::Hosts),
            (Par::Sequential, Senders::All),
            (Par::Rayon, Senders::All),
        ] {
            let options = JudgeOptions {
                par,
                senders: sources,
                ..JudgeOptions::default()
            };
            let subject = Subject::tables(&fabric, &lids, &tables, levels, &map);
            row(&format!("{lanes} lanes, {par:?}, {sources:?}"), runs, || {
                let verdict = verify(subject, &options);
                assert!(verdict.is_ok(), "{:?}", verdict.findings.first());
            });
        }
    }
    whole(&fabric, &lids, &tables, runs);
    figures(Subject::tables(&fabric, &lids, &tables, &levels, &SlToVl::default()));
}

/// The judgement of a bring-up: plan, settings, and every Set.
fn whole(fabric: &Fabric, lids: &Lids, tables: &Tables, runs: usize) {
    let plan = plan(fabric, lids, tables);
    let installed = Installed::unknown(fabric.switches().len());
    let set = changes(fabric, &installed, &plan);
    println!("a bring-up of {} Sets", set.count().total());
    for par in [Par::Sequential, Par::Rayon] {
        let mut sets: Vec<_> = (0..runs.max(1)).map(|_| set.clone()).collect();
        let mut judged = Vec::new();
        let options = JudgeOptions {
            par,
            ..JudgeOptions::default()
        };
        row(&format!("judge, {par:?}"), runs, || {
            let verdict = judge(fabric, &installed, &plan, sets.pop().unwrap_or_default(), &options);
            judged.push(verdict.expect("a good plan"));
        });
    }
}

fn figures(subject: Subject<'_>) {
    let verdict = verify(subject, &JudgeOptions::default());
    let figures = &verdict.figures;
    println!("host pairs {} of {}", figures.host_pairs_reached, figures.host_pairs);
    println!("hops: mean {:.3}, max {}", figures.hops_mean, figures.hops_max);
    println!("load: {:?}", figures.load);
    for lane in &figures.lanes {
        println!("{lane:?}");
    }
    for finding in &verdict.findings {
        println!("{finding}");
    }
}
