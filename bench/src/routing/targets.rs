//! Targets of routing beside OpenSM, and whether they are met.

use std::fmt::Write as _;

use super::field::{Contestant, FamilyKind, Maker, Told};
use super::table::{all_contestants, families, qualities, quality};
use super::{Quality, Row};
use crate::stats::Spread;

/// Largest ratio of the load of weave with 8 lanes to the load of sssp, on 128 switches: sssp is not restricted by
/// lanes.
const OVER_SSSP: f64 = 1.03;
/// Engines of OpenSM with which damaged trees are compared. minhop and sssp are left out, because their paths may
/// deadlock.
const RIVALS: [&str; 4] = ["ftree", "updn", "dfsssp", "nue"];

/// A line: target, result, whether it is met.
type Line = (String, String, bool);

/// All targets for which there are rows, as a Markdown table; empty if there are none.
#[must_use]
pub fn targets(rows: &[Row]) -> String {
    let mut lines = Vec::new();
    for family in families(rows) {
        let of_it: Vec<&Row> = rows.iter().filter(|row| row.family.name == family).collect();
        let found = match of_it.first().map(|row| row.family.kind) {
            Some(FamilyKind::Other) => on_graphs(&of_it),
            Some(FamilyKind::Tree) => on_trees(&of_it),
            Some(FamilyKind::DamagedTree) => on_damaged_trees(&of_it),
            None => Vec::new(),
        };
        lines.extend(found.into_iter().map(|line| (family.clone(), line)));
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut text = String::from("\n### Targets\n\n| fabrics | target | found | |\n|---|---|---|---|\n");
    for (family, (target, found, is_met)) in lines {
        let word = if is_met { "met" } else { "missed" };
        let _ = writeln!(text, "| `{family}` | {target} | {found} | {word} |");
    }
    text
}

fn find(rows: &[&Row], maker: Maker, engine: &str, told: Told, lanes: u8) -> Option<Contestant> {
    let all = all_contestants(rows);
    all.into_iter()
        .find(|c| c.maker == maker && c.engine == engine && c.told == told && c.lanes == lanes)
}

fn mean_load(rows: &[&Row], maker: Maker, engine: &str, lanes: u8) -> Option<f64> {
    let who = find(rows, maker, engine, Told::Nothing, lanes)?;
    Spread::of(qualities(rows, who).map(|q| q.max_load as f64)).map(|spread| spread.mean)
}

fn on_graphs(rows: &[&Row]) -> Vec<Line> {
    let mut lines = Vec::new();
    let lanes = all_contestants(rows)
        .into_iter()
        .filter(|c| c.maker == Maker::Selvedge && c.engine == "weave");
    let lanes: Vec<u8> = lanes.map(|c| c.lanes).collect();
    let weave = |lanes| mean_load(rows, Maker::Selvedge, "weave", lanes);
    for &lanes in &lanes {
        if let (Some(ours), Some(theirs)) = (weave(lanes), mean_load(rows, Maker::OpenSm, "nue", lanes)) {
            let target = format!("weave's mean max load below nue's, lanes {lanes}");
            lines.push((target, format!("{ours:.0} against {theirs:.0}"), ours < theirs));
        }
    }
    let loads: Vec<f64> = lanes.iter().filter_map(|&lanes| weave(lanes)).collect();
    if loads.len() > 1 {
        let found: Vec<String> = loads.iter().map(|load| format!("{load:.0}")).collect();
        let falls = loads.windows(2).all(|two| two[1] < two[0]);
        lines.push((
            "weave's mean max load falls with lanes".to_owned(),
            found.join(", "),
            falls,
        ));
    }
    if let (Some(ours), Some(theirs)) = (weave(8), mean_load(rows, Maker::OpenSm, "sssp", 1))
        && rows.first().is_some_and(|row| row.switches == 128)
    {
        let ratio = ours / theirs;
        let target = format!("weave's mean max load with 8 lanes at most {OVER_SSSP} of sssp's");
        lines.push((target, format!("{ratio:.3}"), ratio <= OVER_SSSP));
    }
    if let Some(weave) = find(rows, Maker::Selvedge, "weave", Told::Nothing, 1) {
        let asked = rows.iter().filter(|row| row.contestant == weave).count();
        let is_proved = |q: &&Quality| q.unreachable == 0 && q.hosts_free == Some(true) && q.agents_free == Some(true);
        let proved = qualities(rows, weave).filter(is_proved).count();
        let target = "weave with one lane routes all, proved".to_owned();
        lines.push((target, format!("{proved} of {asked}"), proved == asked));
    }
    lines
}

fn on_trees(rows: &[&Row]) -> Vec<Line> {
    let load = |maker, engine| mean_load(rows, maker, engine, 1);
    match (load(Maker::Selvedge, "fat-tree"), load(Maker::OpenSm, "ftree")) {
        (Some(ours), Some(theirs)) => {
            let found = format!("{ours:.0} against {theirs:.0}");
            vec![("fat-tree's max load at most ftree's".to_owned(), found, ours <= theirs)]
        }
        _ => Vec::new(),
    }
}

fn on_damaged_trees(rows: &[&Row]) -> Vec<Line> {
    let Some(ours) = find(rows, Maker::Selvedge, "fat-tree", Told::Rebalance, 1) else {
        return Vec::new();
    };
    let rivals = all_contestants(rows).into_iter();
    let rivals = rivals.filter(|c| c.maker == Maker::OpenSm && RIVALS.contains(&c.engine));
    rivals.flat_map(|rival| against(rows, ours, rival)).collect()
}

/// Returns targets for two engines: ours is not worse on any fabric, and better in the mean, in highest load and in eBB
/// (beyond the intervals of both).
fn against(rows: &[&Row], ours: Contestant, rival: Contestant) -> Vec<Line> {
    let both = rows.iter().filter(|row| row.contestant == ours);
    let both = both.filter_map(|row| Some((quality(rows, &row.spec, ours)?, quality(rows, &row.spec, rival)?)));
    let both: Vec<(Quality, Quality)> = both.collect();
    if both.is_empty() {
        return Vec::new();
    }
    let count = both.len();
    let higher = both.iter().filter(|(a, b)| a.max_load > b.max_load).count();
    let lower = both
        .iter()
        .filter(|(a, b)| a.ebb + a.ebb_half < b.ebb - b.ebb_half)
        .count();
    let mean = |value: fn(&Quality) -> f64| {
        let sums = both
            .iter()
            .fold((0.0, 0.0), |(x, y), (a, b)| (x + value(a), y + value(b)));
        sums.0 / sums.1
    };
    let (load, ebb) = (mean(|q| q.max_load as f64), mean(|q| q.ebb));
    let name = rival.name();
    let line = |what: &str, worse: usize, ratio: f64, is_met| {
        let target = format!("fat-tree rebalanced against {name}: {what} worse on none, better in the mean");
        (
            target,
            format!("worse on {worse} of {count}, {ratio:.3} in the mean"),
            is_met,
        )
    };
    vec![
        line("max load", higher, load, higher == 0 && load < 1.0),
        line("eBB", lower, ebb, lower == 0 && ebb > 1.0),
    ]
}
