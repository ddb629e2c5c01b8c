//! Figures of the administrator as text.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::client::Figures;
use super::{Act, Loads, P99_TARGET_MS, Row};
use crate::failover::Who;
use crate::stats::Spread;

/// Target: least number of queries a second on one core, in process.
const QUESTIONS_TARGET: f64 = 500_000.0;

/// Tables for people.
#[must_use]
pub fn summary(rows: &[Row], loads: &Loads) -> String {
    let mut text = String::new();
    if !rows.is_empty() {
        text += &under_load(rows);
    }
    if !loads.questions.is_empty() {
        text += &in_process(loads);
    }
    text
}

fn under_load(rows: &[Row]) -> String {
    let mut text = String::from(
        "\n## Paths asked for while everything is routed anew\n\nOn the built-in emulator; four clients ask 125 times \
         a second each, repeat after 20 ms, and count from the time at which they wanted to ask. \"Agent\" is NodeInfo \
         of the manager's port, asked by the same way at the same rate of one client: what the test bed and the \
         machine take.\n\n| fabric | manager | meanwhile | takes, s | questions | repeats | BUSY | p50, ms | p99, ms | \
         longest, ms | longest silence, ms | agent p50 / p99 / longest, ms |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let (p, a) = (&row.paths, &row.agent);
        let _ = writeln!(
            text,
            "| `{}`, {} hosts | {} | {} | {} | {} | {} | {} | {:.2} | {:.2} | {:.1} | {:.1} | {:.2} / {:.2} / {:.1} |",
            row.spec,
            row.hosts,
            row.who.label(),
            row.act,
            row.took_s.map_or_else(|| "–".to_owned(), |s| format!("{s:.2}")),
            p.asked,
            p.repeats,
            p.busy,
            p.p50_ms,
            p.p99_ms,
            p.max_ms,
            p.silence_ms,
            a.p50_ms,
            a.p99_ms,
            a.max_ms,
        );
    }
    let own = rows
        .iter()
        .filter(|row| row.who == Who::Selvedge && row.act != Act::Rest);
    let worst = own.map(|row| row.paths.p99_ms).fold(0.0, f64::max);
    let met = if worst < P99_TARGET_MS { "met" } else { "missed" };
    let _ = writeln!(
        text,
        "\nTarget, p99 of ours below {P99_TARGET_MS} ms in every re-route: {met} ({worst:.2} ms)."
    );
    text
}

fn in_process(loads: &Loads) -> String {
    let mut text = String::from(
        "\n## In process, one core\n\n| fabric | questions a second of processor time | target | memory of indices, \
         bytes a port |\n|---|---|---|---|\n",
    );
    let mut specs: Vec<&str> = loads.questions.iter().map(|(spec, _)| spec.as_str()).collect();
    specs.dedup();
    for spec in specs {
        let of = || loads.questions.iter().filter(|(of, _)| of == spec).map(|(_, of)| of);
        let (Some(rate), Some(first)) = (Spread::of(of().map(|of| of.per_second())), of().next()) else {
            continue;
        };
        let met = if rate.min >= QUESTIONS_TARGET { "met" } else { "missed" };
        let _ = writeln!(
            text,
            "| `{spec}`, {} hosts | {rate:.0} | ≥ {QUESTIONS_TARGET:.0}: {met} | {:.1} |",
            first.hosts,
            first.index_bytes as f64 / first.ports as f64
        );
    }
    for (spec, joins) in &loads.joins {
        let _ = writeln!(text, "\n`{spec}`: {joins}.");
    }
    text
}

/// One line per manager and act.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let figures = |name: &str| {
        let columns = [
            "asked",
            "repeats",
            "busy",
            "lost",
            "p50_ms",
            "p99_ms",
            "max_ms",
            "silence_ms",
        ];
        columns.map(|column| format!("{name}_{column}")).join(",")
    };
    let mut text = format!(
        "fabric,hosts,pair,manager,meanwhile,took_s,{},{},load\n",
        figures("paths"),
        figures("agent")
    );
    let cells = |f: &Figures| {
        format!(
            "{},{},{},{},{:.4},{:.4},{:.4},{:.4}",
            f.asked, f.repeats, f.busy, f.lost, f.p50_ms, f.p99_ms, f.max_ms, f.silence_ms
        )
    };
    for row in rows {
        let _ = writeln!(
            text,
            "\"{}\",{},{},\"{}\",{},{},{},{},{:.2}",
            row.spec,
            row.hosts,
            row.pair,
            row.who.label().replace(',', ""),
            row.act,
            row.took_s.map_or_else(String::new, |s| format!("{s:.3}")),
            cells(&row.paths),
            cells(&row.agent),
            row.load
        );
    }
    text
}

/// Returns everything as one JSON object that begins with its schema.
#[must_use]
pub fn json(rows: &[Row], loads: &Loads) -> String {
    let figures = |f: &Figures| {
        json!({
            "asked": f.asked, "repeats": f.repeats, "busy": f.busy, "lost": f.lost,
            "p50_ms": f.p50_ms, "p99_ms": f.p99_ms, "max_ms": f.max_ms, "silence_ms": f.silence_ms,
        })
    };
    let row = |row: &Row| {
        json!({
            "fabric": row.spec, "hosts": row.hosts, "pair": row.pair, "manager": row.who.label(),
            "meanwhile": row.act.to_string(), "took_s": row.took_s,
            "paths": figures(&row.paths), "agent": figures(&row.agent), "load": row.load,
        })
    };
    let questions = loads.questions.iter().map(|(spec, of)| {
        json!({
            "fabric": spec, "hosts": of.hosts, "questions": of.asked, "paths": of.found,
            "took_s": of.took.as_secs_f64(), "cpu_s": of.cpu.as_secs_f64(), "questions_per_cpu_s": of.per_second(),
            "ports": of.ports, "index_bytes": of.index_bytes,
        })
    });
    let joins = loads.joins.iter().map(|(spec, of)| {
        json!({
            "fabric": spec, "hosts": of.hosts, "groups": of.groups, "joins": of.joined,
            "administrator_s": of.joining.as_secs_f64(), "rounds": of.rounds,
            "planning_s": of.planning.as_secs_f64(), "judging_s": of.judging.as_secs_f64(),
            "longest_round_s": of.longest.as_secs_f64(), "sets": of.sets,
        })
    });
    format!(
        "{{\"schema\":\"selvedge.bench-administration\",\"version\":1,\n\"rows\":{},\n\"questions\":{},\n\
         \"joins\":{}}}\n",
        Value::Array(rows.iter().map(row).collect()),
        Value::Array(questions.collect()),
        Value::Array(joins.collect())
    )
}
