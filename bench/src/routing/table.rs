//! Rows of routing quality as tables.

use std::fmt::Write as _;

use super::field::{Contestant, FamilyKind, Maker};
use super::{Outcome, Quality, Row};
use crate::stats::Spread;

/// Head of [`csv`].
const HEAD: &str = "fabric,switches,hosts,maker,engine,roots,lanes,lanes_used,max_load,mean_load,sd_load,mean_hops,\
                    unreachable_pairs,hosts_deadlock_free,agents_deadlock_free,compute_ms,outcome,why\n";

/// One line per row; what is not known is empty.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        let Contestant {
            maker,
            engine,
            rooted,
            lanes,
        } = row.contestant;
        let head = format!(
            "\"{}\",{},{},{maker},{engine},{rooted},{lanes}",
            row.spec, row.switches, row.hosts
        );
        let _ = match &row.outcome {
            Outcome::Routed(q) => writeln!(
                text,
                "{head},{},{},{:.3},{:.3},{:.4},{},{},{},{},routed,",
                or_empty(q.lanes_used),
                q.max_load,
                q.mean_load,
                q.sd_load,
                q.mean_hops,
                q.unreachable,
                or_empty(q.hosts_free),
                or_empty(q.agents_free),
                or_empty(q.compute_ms.map(|ms| format!("{ms:.3}"))),
            ),
            Outcome::Declined { instead, why } => {
                let what = instead
                    .as_ref()
                    .map_or("refused".to_owned(), |to| format!("fell back to {to}"));
                writeln!(
                    text,
                    "{head},,,,,,,,,,{what},\"{}\"",
                    why.replace('"', "'").replace('\n', "; ")
                )
            }
        };
    }
    text
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// Tables for people, in Markdown.
#[must_use]
pub fn summary(rows: &[Row]) -> String {
    let mut text = String::from("\n## Routing quality\n\nMean (minimum–maximum) over the fabrics of a family.\n");
    for family in families(rows) {
        let of_it: Vec<&Row> = rows.iter().filter(|row| row.family.name == family).collect();
        text += &engines(&family, &of_it);
        text += &match of_it.first().map(|row| row.family.kind) {
            Some(FamilyKind::Other) => duels(&of_it, "weave", &["nue"]),
            _ => duels(&of_it, "fat-tree", &["ftree", "updn", "sssp", "dfsssp", "nue", "lash"]),
        };
    }
    text
}

/// Names of families in the order in which they come.
pub fn families(rows: &[Row]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.contains(&row.family.name) {
            names.push(row.family.name.clone());
        }
    }
    names
}

/// Contestants in the order in which they come.
pub fn all_contestants(rows: &[&Row]) -> Vec<Contestant> {
    let mut found: Vec<Contestant> = Vec::new();
    for row in rows {
        if !found.contains(&row.contestant) {
            found.push(row.contestant);
        }
    }
    found
}

/// Judged tables of one contestant.
pub fn qualities<'a>(rows: &'a [&'a Row], contestant: Contestant) -> impl Iterator<Item = &'a Quality> + Clone {
    rows.iter()
        .filter(move |row| row.contestant == contestant)
        .filter_map(|row| match &row.outcome {
            Outcome::Routed(quality) => Some(quality),
            Outcome::Declined { .. } => None,
        })
}

fn engines(family: &str, rows: &[&Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut text = format!(
        "\n### `{family}`\n\n{} switches, {} hosts.\n\n\
         | engine | lanes | of which used | fabrics | max load, host pairs | sd of load | mean hops | pairs lost | \
         deadlock-free | compute, ms |\n|---|---|---|---|---|---|---|---|---|---|\n",
        first.switches, first.hosts
    );
    for contestant in all_contestants(rows) {
        let name = format!("{} {}", contestant.maker, contestant.name());
        let lanes = contestant.lanes;
        let found = qualities(rows, contestant);
        let declined = rows
            .iter()
            .filter(|row| row.contestant == contestant)
            .filter_map(|row| match &row.outcome {
                Outcome::Declined { instead, why } => Some(
                    instead
                        .clone()
                        .map_or_else(|| brief(why), |to| format!("fell back to {to}")),
                ),
                Outcome::Routed(_) => None,
            });
        let declined: Vec<String> = declined.collect();
        let load = Spread::of(found.clone().map(|q| q.max_load as f64));
        if let Some(load) = load {
            let spread = |value: fn(&Quality) -> f64| Spread::of(found.clone().map(value));
            let of = |value: fn(&Quality) -> f64, digits| spread(value).map_or_else(String::new, |s| mean(&s, digits));
            let _ = writeln!(
                text,
                "| {name} | {lanes} | {} | {} | {} | {} | {} | {} | {} | {} |",
                lanes_used(found.clone()),
                load.count,
                mean(&load, 0),
                of(|q| q.sd_load, 1),
                of(|q| q.mean_hops, 3),
                found.clone().map(|q| q.unreachable).sum::<u64>(),
                freedom(found.clone()),
                Spread::of(found.clone().filter_map(|q| q.compute_ms)).map_or_else(String::new, |s| format!("{s:.1}")),
            );
        }
        if let Some(why) = declined.first() {
            let _ = writeln!(text, "| {name} | {lanes} | – | {} | {why} | | | | | |", declined.len());
        }
    }
    text
}

/// The first words of a reason, for a cell.
fn brief(why: &str) -> String {
    let code = why.split(':').next().unwrap_or_default();
    format!("refused ({code})")
}

fn mean(spread: &Spread, digits: usize) -> String {
    if spread.max - spread.min < f64::EPSILON {
        return format!("{:.digits$}", spread.mean);
    }
    format!(
        "{:.digits$} ({:.digits$}–{:.digits$})",
        spread.mean, spread.min, spread.max
    )
}

fn lanes_used<'a>(found: impl Iterator<Item = &'a Quality>) -> String {
    let mut used: Vec<Option<u8>> = found.map(|quality| quality.lanes_used).collect();
    used.sort_unstable();
    used.dedup();
    match (used.first(), used.last()) {
        (Some(Some(least)), Some(Some(most))) if least == most => least.to_string(),
        (Some(Some(least)), Some(Some(most))) => format!("{least}–{most}"),
        _ => "not known".to_owned(),
    }
}

/// How many of the tables cannot deadlock.
fn freedom<'a>(found: impl Iterator<Item = &'a Quality>) -> String {
    let (mut all, mut known, mut hosts, mut agents, mut agents_known) = (0, 0, 0, 0, 0);
    for quality in found {
        all += 1;
        known += usize::from(quality.hosts_free.is_some());
        hosts += usize::from(quality.hosts_free == Some(true));
        agents += usize::from(quality.agents_free == Some(true));
        agents_known += usize::from(quality.agents_free.is_some());
    }
    if known < all {
        return "not known".to_owned();
    }
    let word = |free| match free {
        _ if free == all => "yes".to_owned(),
        0 => "no".to_owned(),
        some => format!("{some} of {all}"),
    };
    if agents_known < all {
        return format!("{}, hosts", word(hosts));
    }
    match agents == hosts {
        true => word(hosts),
        false => format!("hosts {}, agents {}", word(hosts), word(agents)),
    }
}

/// One of ours against OpenSM's, fabric by fabric, lane by lane.
fn duels(rows: &[&Row], engine: &str, others: &[&str]) -> String {
    let all = all_contestants(rows);
    let ours = all.iter().filter(|c| c.maker == Maker::Selvedge && c.engine == engine);
    let mut lines = String::new();
    for our in ours {
        let rivals = all.iter().filter(|c| {
            c.maker == Maker::OpenSm && others.contains(&c.engine) && (engine != "weave" || c.lanes == our.lanes)
        });
        for rival in rivals {
            let load = |spec: &str, who: Contestant| {
                let of_it: Vec<&Row> = rows.iter().filter(|row| row.spec == spec).copied().collect();
                qualities(&of_it, who).next().map(|q| q.max_load)
            };
            let mut specs: Vec<&str> = rows.iter().map(|row| row.spec.as_str()).collect();
            specs.dedup();
            let both = specs
                .iter()
                .filter_map(|spec| Some((load(spec, *our)?, load(spec, *rival)?)));
            let both: Vec<(u64, u64)> = both.collect();
            let Some(ratio) = Spread::of(both.iter().map(|&(a, b)| a as f64 / b as f64)) else {
                continue;
            };
            let worse = both.iter().filter(|(a, b)| a > b).count();
            let (ours_sum, theirs_sum) = both.iter().fold((0, 0), |(x, y), (a, b)| (x + a, y + b));
            let _ = writeln!(
                lines,
                "| {}, lanes {} | {}, lanes {} | {} | {:.3} | {} | {} |",
                our.name(),
                our.lanes,
                rival.name(),
                rival.lanes,
                both.len(),
                ours_sum as f64 / theirs_sum as f64,
                mean(&ratio, 3),
                worse
            );
        }
    }
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\n| ours | OpenSM's | fabrics that both routed | mean max load, ours ÷ theirs | ratio by fabric | fabrics where \
         ours is higher |\n|---|---|---|---|---|---|\n{lines}"
    )
}
