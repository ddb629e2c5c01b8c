//! Figures of telemetry as text.

use std::fmt::Write as _;

use super::store::Run;
use super::{Ends, Figures, Pair};
use crate::stats::Spread;

/// Time of the manager over that of the bare poller: at most this.
const BARE_TARGET: f64 = 1.3;
/// How many times as long tools take: at least this.
const TOOL_TARGETS: [(&str, f64); 2] = [("ibqueryerrors", 8.0), ("perfquery of each switch", 100.0)];
/// Bytes of a compressed page of `/metrics`: at most this.
const GZIP_TARGET: usize = 3_000_000;

/// Tables for people.
#[must_use]
pub fn summary(figures: &[Figures], runs: &[Run]) -> String {
    let mut text = String::new();
    for figures in figures {
        reads(&mut text, figures);
    }
    if !runs.is_empty() {
        stored(&mut text, runs);
    }
    text
}

/// One line per slot, with the run of the bare poller after it.
#[must_use]
pub fn csv(figures: &[Figures]) -> String {
    let mut text = String::from("fabric,ends,slot,ms,requests,ports,missing,bare_ms\n");
    for figures in figures {
        for Pair { ours, bare_ms } in &figures.pairs {
            let _ = writeln!(
                text,
                "\"{}\",{},{},{:.3},{},{},{},{bare_ms:.3}",
                figures.spec,
                name(figures.ends),
                ours.number,
                ours.ms,
                ours.requests,
                ours.ports,
                ours.missing,
            );
        }
    }
    text
}

const fn name(ends: Ends) -> &'static str {
    match ends {
        Ends::Both => "both",
        Ends::One => "one",
    }
}

const fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

fn reads(text: &mut String, figures: &Figures) {
    let (links, ends, first) = (figures.links, name(figures.ends), &figures.first);
    let of = |value: fn(&Pair) -> f64| Spread::of(figures.pairs.iter().map(value));
    let (Some(ours), Some(bare)) = (of(|pair| pair.ours.ms), of(|pair| pair.bare_ms)) else {
        return;
    };
    let Some(ratio) = of(|pair| pair.ours.ms / pair.bare_ms) else {
        return;
    };
    let _ = writeln!(
        text,
        "\n## All counters of `{}`, {ends} of the ends of each link\n\n| figure | value | target |\n|---|---|---|",
        figures.spec
    );
    let mut row = |what: &str, value: String, target: &str| {
        let _ = writeln!(text, "| {what} | {value} | {target} |");
    };
    let (most, per_port) = (figures.requests(), figures.links.max(1) as f64);
    let missing: u64 = figures.pairs.iter().map(|pair| pair.ours.missing).sum();
    let is_whole = !figures.misses_a_count();
    row(
        "ends of links, with data; without a sample",
        format!("{links}, {}; {}", first.ports, missing + first.missing),
        &format!("all; 0: {}", met(is_whole)),
    );
    row(
        "requests: first slot, which asks agents what they can; most of a later slot",
        format!("{}; {most}", first.requests),
        &format!("≤ {}: {}", figures.requests_max(), met(most <= figures.requests_max())),
    );
    row("slot, ms", format!("{ours:.0}"), "");
    row("bare poller, as many requests, ms", format!("{bare:.0}"), "");
    row(
        "slot over bare poller",
        format!("{ratio:.2}"),
        &format!("≤ {BARE_TARGET}: {}", met(ratio.median <= BARE_TARGET)),
    );
    row(
        "processor time of a slot, per port, µs",
        format!("{:.1}", figures.cpu_us / per_port),
        "",
    );
    row(
        "resident memory of the manager, per port, KiB",
        format!("{:.1}", figures.rss_bytes / 1024.0 / per_port),
        "",
    );
    delayed(&mut row, figures);
    for is_gzip in [false, true] {
        scraped(&mut row, figures, is_gzip, ours.median);
    }
    let mut names: Vec<&str> = figures.tools.iter().map(|(tool, _)| *tool).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    for tool in names {
        let same = figures.tools.iter().filter(|(other, _)| *other == tool);
        let Some(ms) = Spread::of(same.map(|(_, ms)| *ms)) else {
            continue;
        };
        let times = ms.median / ours.median;
        let target = TOOL_TARGETS.iter().find(|(of, _)| *of == tool);
        let target = target.map_or_else(String::new, |(_, least)| format!("≥ {least}: {}", met(times >= *least)));
        row(
            &format!("{tool}, ms; times the slot"),
            format!("{ms:.0}; {times:.1}"),
            &target,
        );
    }
}

fn delayed(row: &mut impl FnMut(&str, String, &str), figures: &Figures) {
    let Some(delay) = figures.delay else { return };
    row("an SMP alone, µs", format!("{:.0}", delay.alone), "");
    row(
        "an SMP behind a full window, µs; added in the median",
        format!("{:.0}; {:.0}", delay.behind, delay.behind.median - delay.alone.median),
        &format!("window over ibsim's rate: {:.0}", delay.bound_us),
    );
}

fn scraped(row: &mut impl FnMut(&str, String, &str), figures: &Figures, is_gzip: bool, slot_ms: f64) {
    let same = || figures.scrapes.iter().filter(|scrape| scrape.is_gzip == is_gzip);
    let (Some(ms), Some(last)) = (Spread::of(same().map(|scrape| scrape.ms)), same().next_back()) else {
        return;
    };
    let what = if is_gzip { "`/metrics`, gzip" } else { "`/metrics`" };
    let target = match is_gzip {
        true => format!("≤ {} MB: {}", GZIP_TARGET as f64 / 1e6, met(last.bytes <= GZIP_TARGET)),
        false => String::new(),
    };
    let value = format!("{ms:.0}; {:.1}; {:.2} MB", ms.median / slot_ms, last.bytes as f64 / 1e6);
    row(&format!("{what}, ms; times the slot; size"), value, &target);
}

fn stored(text: &mut String, runs: &[Run]) {
    *text += "\n## Through sampler and history to Parquet files\n\nVirtual time; processor times are of one thread.\n\n\
              | fabric | what | ports | slots | moved, at least | lost | bytes a value (≤ 2) | slot: sampled with \
              agents; taken; stored, ms | an hour's file, s | values stored a second | most memory: window; hours; \
              process, MB |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
    for run in runs {
        let [sampled, taken, kept] = run.slot_ms;
        let [window, hours, process] = run.most_bytes.map(|bytes| bytes as f64 / 1e6);
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {:.0} % | {} | {:.2} | {sampled:.0}; {taken:.1}; {kept:.1} | {:.1} | {:.1} \
             million | {window:.0}; {hours:.0}; {process:.0} |",
            run.spec,
            run.plan.name,
            run.ports,
            run.slots,
            run.moved * 100.0,
            run.lost,
            run.bytes_per_value,
            run.parquet_s,
            run.values_per_s / 1e6,
        );
    }
    *text +=
        "\n| fabric | what | question | rows | ours, ms | DuckDB, ms | times ours |\n|---|---|---|---|---|---|---|\n";
    for (run, asked) in runs
        .iter()
        .flat_map(|run| run.asked.iter().map(move |asked| (run, asked)))
    {
        let duckdb = asked.duckdb_ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:.1}"));
        let times = asked
            .duckdb_ms
            .map_or_else(|| "–".to_owned(), |ms| format!("{:.1}", ms / asked.ours_ms));
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {:.2} | {duckdb} | {times} |",
            run.spec, run.plan.name, asked.what, asked.rows, asked.ours_ms
        );
    }
    for (run, notice) in runs
        .iter()
        .flat_map(|run| run.notices.iter().map(move |notice| (run, notice)))
    {
        let _ = writeln!(text, "\n{}: {notice}", run.plan.name);
    }
}
