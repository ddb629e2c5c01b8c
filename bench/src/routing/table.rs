//! Rows of routing quality as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::field::{Contestant, FamilyKind, Maker};
use super::targets::targets;
use super::{Outcome, Quality, Row};
use crate::stats::Spread;

/// First line of [`csv`].
const HEAD: &str = "fabric,switches,hosts,maker,engine,told,lanes,lanes_used,max_load,mean_load,sd_load,mean_hops,ebb,\
                    ebb_half,shift_max,shift_mean,escapes,unreachable_pairs,hosts_deadlock_free,\
                    agents_deadlock_free,compute_ms,outcome,why\n";

/// One line per row; unknown values are empty.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        let Contestant {
            maker,
            engine,
            told,
            lanes,
        } = row.contestant;
        let head = format!(
            "\"{}\",{},{},{maker},{engine},{told},{lanes}",
            row.spec, row.switches, row.hosts
        );
        let _ = match &row.outcome {
            Outcome::Routed(q) => writeln!(
                text,
                "{head},{},{},{:.3},{:.3},{:.4},{:.5},{:.5},{},{:.3},{},{},{},{},{},routed,",
                or_empty(q.lanes_used),
                q.max_load,
                q.mean_load,
                q.sd_load,
                q.mean_hops,
                q.ebb,
                q.ebb_half,
                q.shift_max,
                q.shift_mean,
                or_empty(q.escapes),
                q.unreachable,
                or_empty(q.hosts_free),
                or_empty(q.agents_free),
                or_empty(q.compute_ms.map(|ms| format!("{ms:.3}"))),
            ),
            Outcome::Declined { instead, why } => {
                let what = declined_word(maker, instead.as_ref());
                writeln!(
                    text,
                    "{head},,,,,,,,,,,,,,,{what},\"{}\"",
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
    text += &targets(rows);
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

/// Returns the names of families in the order of the rows.
pub fn families(rows: &[Row]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if !names.contains(&row.family.name) {
            names.push(row.family.name.clone());
        }
    }
    names
}

/// Returns the contestants in the order of the rows.
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

/// Judged tables of one contestant on one fabric.
pub fn quality(rows: &[&Row], spec: &str, who: Contestant) -> Option<Quality> {
    let mut of_it = rows.iter().filter(|row| row.spec == spec && row.contestant == who);
    of_it.find_map(|row| match &row.outcome {
        Outcome::Routed(quality) => Some(*quality),
        Outcome::Declined { .. } => None,
    })
}

fn engines(family: &str, rows: &[&Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut text = format!(
        "\n### `{family}`\n\n{} switches, {} hosts.\n\n\
         | engine | lanes | of which used | fabrics | max load, host pairs | sd of load | mean hops | eBB | \
         worst shift | pairs lost | deadlock-free | compute, ms |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        first.switches, first.hosts
    );
    for contestant in all_contestants(rows) {
        text += &routed(rows, contestant);
        let declined = rows.iter().filter(|row| row.contestant == contestant);
        let declined = declined.filter_map(|row| match &row.outcome {
            Outcome::Declined { instead, why } => Some((instead, why)),
            Outcome::Routed(_) => None,
        });
        let declined = declined.map(|(instead, why)| match instead {
            Some(_) => declined_word(contestant.maker, instead.as_ref()),
            None => format!("{} ({})", declined_word(contestant.maker, None), code(why)),
        });
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        declined.for_each(|why| *reasons.entry(why).or_default() += 1);
        for (why, count) in reasons {
            let (maker, name, lanes) = (contestant.maker, contestant.name(), contestant.lanes);
            let _ = writeln!(text, "| {maker} {name} | {lanes} | – | {count} | {why} | | | | | | | |");
        }
    }
    text
}

/// The line of the fabrics that a contestant routed, if any.
fn routed(rows: &[&Row], contestant: Contestant) -> String {
    let found = qualities(rows, contestant);
    let count = found.clone().count();
    if count == 0 {
        return String::new();
    }
    let of = |value: fn(&Quality) -> Option<f64>, digits| {
        Spread::of(found.clone().filter_map(value)).map_or_else(String::new, |spread| mean(&spread, digits))
    };
    let escapes = of(|q| q.escapes.filter(|&count| count > 0).map(|count| count as f64), 0);
    let escapes = match escapes.as_str() {
        "" => String::new(),
        count => format!("; destinations on its escape tree: {count}"),
    };
    format!(
        "| {} {}{escapes} | {} | {} | {count} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        contestant.maker,
        contestant.name(),
        contestant.lanes,
        lanes_used(found.clone()),
        of(|q| Some(q.max_load as f64), 0),
        of(|q| Some(q.sd_load), 1),
        of(|q| Some(q.mean_hops), 3),
        of(|q| Some(q.ebb), 3),
        of(|q| Some(q.shift_max as f64), 0),
        found.clone().map(|q| q.unreachable).sum::<u64>(),
        freedom(found.clone()),
        of(|q| q.compute_ms, 1),
    )
}

/// Returns the word for a fabric that a contestant did not route.
fn declined_word(maker: Maker, instead: Option<&String>) -> String {
    match (maker, instead) {
        (_, Some(to)) => format!("fell back to {to}"),
        (Maker::Selvedge, None) => "refused".to_owned(),
        // OpenSM refuses nothing.
        (Maker::OpenSm, None) => "failed".to_owned(),
    }
}

/// The code of an error of Selvedge.
fn code(why: &str) -> &str {
    why.split(':').next().unwrap_or_default()
}

fn mean(spread: &Spread, digits: usize) -> String {
    let are_equal = spread.min.total_cmp(&spread.max).is_eq();
    if are_equal {
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

/// Returns how many of the tables cannot deadlock, as text.
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

/// Compares an engine of Selvedge with OpenSM's engines, for each fabric and number of lanes.
fn duels(rows: &[&Row], engine: &str, others: &[&str]) -> String {
    let all = all_contestants(rows);
    let ours = all.iter().filter(|c| c.maker == Maker::Selvedge && c.engine == engine);
    let mut lines = String::new();
    for our in ours {
        let rivals = all.iter().filter(|c| {
            c.maker == Maker::OpenSm && others.contains(&c.engine) && (engine != "weave" || c.lanes == our.lanes)
        });
        rivals.for_each(|rival| lines += &duel(rows, *our, *rival));
    }
    if lines.is_empty() {
        return lines;
    }
    format!(
        "\n| ours | OpenSM's | fabrics that both routed | mean max load, ours ÷ theirs | by fabric | \
         ours is higher on | mean eBB, ours ÷ theirs | ours is lower, beyond both intervals, on |\n\
         |---|---|---|---|---|---|---|---|\n{lines}"
    )
}

fn duel(rows: &[&Row], our: Contestant, rival: Contestant) -> String {
    let mut specs: Vec<&str> = rows.iter().map(|row| row.spec.as_str()).collect();
    specs.dedup();
    let both = specs
        .iter()
        .filter_map(|spec| Some((quality(rows, spec, our)?, quality(rows, spec, rival)?)));
    let both: Vec<(Quality, Quality)> = both.collect();
    let Some(ratio) = Spread::of(both.iter().map(|(a, b)| a.max_load as f64 / b.max_load as f64)) else {
        return String::new();
    };
    let higher = both.iter().filter(|(a, b)| a.max_load > b.max_load).count();
    let lower = both
        .iter()
        .filter(|(a, b)| a.ebb + a.ebb_half < b.ebb - b.ebb_half)
        .count();
    let sum = |value: fn(&Quality) -> f64, of: fn(&(Quality, Quality)) -> &Quality| {
        both.iter().map(|pair| value(of(pair))).sum::<f64>()
    };
    let share = |value: fn(&Quality) -> f64| sum(value, |pair| &pair.0) / sum(value, |pair| &pair.1);
    format!(
        "| {}, lanes {} | {}, lanes {} | {} | {:.3} | {} | {higher} | {:.3} | {lower} |\n",
        our.name(),
        our.lanes,
        rival.name(),
        rival.lanes,
        both.len(),
        share(|q| q.max_load as f64),
        mean(&ratio, 3),
        share(|q| q.ebb),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::field::{Family, Told};

    const FAMILY: &str = "random:switches=8,degree=3,hosts=1";

    fn row(seed: u32, maker: Maker, engine: &'static str, outcome: Outcome) -> Row {
        Row {
            spec: format!("{FAMILY},seed={seed}"),
            family: Family {
                name: FAMILY.to_owned(),
                kind: FamilyKind::Other,
            },
            switches: 8,
            hosts: 8,
            contestant: Contestant {
                maker,
                engine,
                told: Told::Nothing,
                lanes: 1,
            },
            outcome,
        }
    }

    fn loaded(max_load: u64, ebb: f64) -> Outcome {
        Outcome::Routed(Quality {
            max_load,
            mean_load: 5.0,
            sd_load: 1.0,
            mean_hops: 1.5,
            ebb,
            ebb_half: 0.01,
            shift_max: 3,
            shift_mean: 2.0,
            escapes: None,
            unreachable: 0,
            lanes_used: Some(1),
            hosts_free: Some(true),
            agents_free: Some(max_load < 20),
            compute_ms: Some(1.0),
        })
    }

    fn rows() -> Vec<Row> {
        let fell_back = Outcome::Declined {
            instead: Some("minhop".to_owned()),
            why: "no \"root\"\nfound".to_owned(),
        };
        vec![
            row(1, Maker::Selvedge, "weave", loaded(10, 0.70)),
            row(1, Maker::OpenSm, "nue", loaded(20, 0.75)),
            row(1, Maker::OpenSm, "updn", fell_back),
            row(2, Maker::Selvedge, "weave", loaded(16, 0.70)),
            row(2, Maker::OpenSm, "nue", loaded(12, 0.71)),
        ]
    }

    #[test]
    fn tables_say_who_wins_and_who_fell_back() {
        let text = summary(&rows());
        let check = |want: &str| assert!(text.contains(want), "{want} in\n{text}");
        check("| selvedge weave | 1 | 1 | 2 | 13 (10–16) | 1.0 | 1.500 | 0.700 | 3 | 0 | yes | 1.0 |");
        let agents = "hosts yes, agents 1 of 2";
        let ebb = "0.730 (0.710–0.750)";
        check(&format!(
            "| OpenSM nue | 1 | 1 | 2 | 16 (12–20) | 1.0 | 1.500 | {ebb} | 3 | 0 | {agents} |"
        ));
        check("| OpenSM updn | 1 | – | 1 | fell back to minhop |");
        check("| weave's mean max load below nue's, lanes 1 | 13 against 16 | met |");
        check("| weave with one lane routes all, proved | 2 of 2 | met |");
        check("| weave, lanes 1 | nue, lanes 1 | 2 | 0.812 | 0.917 (0.500–1.333) | 1 | 0.959 | 1 |");
    }

    #[test]
    fn every_line_has_every_column() {
        let text = csv(&rows());
        let columns = HEAD.matches(',').count();
        for line in text.lines() {
            // The fabric is quoted and has two commas of its own, and one before the seed.
            let own = if line.starts_with('"') { 3 } else { 0 };
            assert_eq!(line.matches(',').count() - own, columns, "{line}");
        }
        assert_eq!(text.lines().count(), 6);
        assert!(text.contains(",fell back to minhop,\"no 'root'; found\"\n"), "{text}");
    }
}
