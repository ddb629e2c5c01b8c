//! Fail-over as tables: every fault as CSV and JSON, medians with their range as Markdown.

use std::fmt::Write as _;

use selvedge_verify::Rule;
use serde_json::{Value, json as object};

use crate::failover::faults::Kind;
use crate::failover::{Carrier, Row, Who, targets};
use crate::stats::Spread;

/// One line per manager and fault.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "fabric,hosts,carrier,manager,engine,window,engine_used,kind,fault,trap_us,total_us,thinking_us,quiet_us,\
         floor_us,floor_direct_us,\
         compute_us,verify_us,drain_waits,worked_out_before,\
         mads,mads_to_last,smps,smps_changing,smps_min_layout,smps_min_fabric,smps_min_rule,\
         entries,pairs_interrupted,load\n",
    );
    for row in rows {
        let us = |value: Option<f64>| value.map(|us| format!("{us:.1}")).unwrap_or_default();
        let (engine, window) = variant(&row.who);
        let _ = writeln!(
            text,
            "\"{}\",{},\"{}\",{},{engine},{window},{},{},\"{}\",\
             {},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.2}",
            row.spec,
            row.hosts,
            row.fabric,
            row.who.name(),
            row.engine_used.as_deref().unwrap_or_default(),
            row.kind,
            row.fault.replace('"', "\"\""),
            us(row.trap_us),
            us(row.total_us),
            us(row.thinking_us),
            us(row.quiet_us),
            us(row.floor_us),
            us(row.floor_direct_us),
            us(row.told.compute_us),
            us(row.told.verify_us),
            row.told.drain_waits,
            row.told.known,
            row.mads,
            row.mads_to_last,
            row.smps,
            row.smps_changing,
            row.smps_min.0,
            row.smps_min.1,
            rule_name(row.smps_rule),
            row.entries,
            row.pairs_interrupted,
            row.load,
        );
    }
    text
}

/// Returns the name of the rule for the smallest number of SMPs, as tables show it.
const fn rule_name(rule: Rule) -> &'static str {
    match rule {
        Rule::AnyWay => "any-way",
        Rule::UpThenDown => "up-then-down",
        Rule::Both => "both",
    }
}

fn variant(who: &Who) -> (&str, usize) {
    let engine = match who {
        Who::Selvedge => "auto",
        Who::OpenSm(variant) => &variant.engine,
    };
    (engine, who.window())
}

/// Returns the rows as one JSON object that begins with its schema.
#[must_use]
pub fn json(rows: &[Row]) -> String {
    let each = rows.iter().map(|row| {
        let (engine, window) = variant(&row.who);
        object!({
            "fabric": row.spec,
            "hosts": row.hosts,
            "carrier": row.fabric.to_string(),
            "manager": row.who.name(),
            "engine": engine,
            "window": window,
            "engine_used": row.engine_used,
            "kind": row.kind.name(),
            "fault": row.fault,
            "trap_us": row.trap_us,
            "total_us": row.total_us,
            "thinking_us": row.thinking_us,
            "quiet_us": row.quiet_us,
            "floor_us": row.floor_us,
            "floor_direct_us": row.floor_direct_us,
            "compute_us": row.told.compute_us,
            "verify_us": row.told.verify_us,
            "drain_waits": row.told.drain_waits,
            "worked_out_before": row.told.known,
            "mads": row.mads,
            "mads_to_last": row.mads_to_last,
            "smps": row.smps,
            "smps_changing": row.smps_changing,
            "smps_min_layout": row.smps_min.0,
            "smps_min_fabric": row.smps_min.1,
            "smps_min_rule": rule_name(row.smps_rule),
            "entries": row.entries,
            "pairs_interrupted": row.pairs_interrupted,
        })
    });
    let faults: Vec<Value> = each.collect();
    format!(
        "{{\"schema\":\"selvedge.bench-failover\",\"version\":1,\"faults\":{}}}",
        Value::from(faults)
    )
}

/// Rows that belong together.
pub type Group<'r> = (&'r str, Carrier, &'r Who, Kind);

/// Returns the group of a row.
pub fn group_of(row: &Row) -> Group<'_> {
    (&row.spec, row.fabric, &row.who, row.kind)
}

/// Returns the groups (fabric, carrier, manager and kind) in the order in which they were measured.
pub fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        if !groups.contains(&group_of(row)) {
            groups.push(group_of(row));
        }
    }
    groups
}

/// The point until which a fault is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The answer to the last Set that changes an entry.
    LastChange,
    /// The last packet of all: the manager reports that the subnet is up again.
    Quiet,
}

impl Until {
    /// The time of a row.
    pub const fn of(self, row: &Row) -> Option<f64> {
        match self {
            Self::LastChange => row.total_us,
            Self::Quiet => row.quiet_us,
        }
    }

    /// Returns the time that the relay adds. It is measured for the MADs until the last change, and is assumed to be
    /// the same for each other MAD.
    fn added(self, row: &Row) -> Option<f64> {
        let added = (row.floor_us? - row.floor_direct_us?).max(0.0);
        match self {
            Self::LastChange => Some(added),
            Self::Quiet => Some(added * row.mads as f64 / row.mads_to_last.max(1) as f64),
        }
    }
}

/// Ratio of OpenSM's time to Selvedge's for each fault: OpenSM's time is counted without the time that the relay adds
/// to its MADs, Selvedge's time with it; both until the same point.
pub fn ratios(rows: &[Row], group: Group<'_>, until: Until) -> Option<Spread> {
    let of_group = rows.iter().filter(|row| group_of(row) == group);
    Spread::of(of_group.filter_map(|row| {
        let same = |ours: &&Row| {
            (&ours.spec, &ours.fault, ours.fabric, &ours.who) == (&row.spec, &row.fault, row.fabric, &Who::Selvedge)
        };
        let theirs = (until.of(row)? - until.added(row)?).max(0.0);
        Some(theirs / until.of(rows.iter().find(same)?)?)
    }))
}

/// Medians with their range, for people.
#[must_use]
pub fn summary(rows: &[Row]) -> String {
    let mut text = String::from("\n## Fail-over: trap to the answer to the last Set that changes an entry\n");
    text += &targets::table(rows);
    text.push_str(
        "\n| fabric | carrier | kind | manager | engine used | faults | last change, ms | of which thinking, ms | \
         planning; judging, ms | worked out before | waits for packets | quiet, ms | floor, ms | relay adds, ms | \
         table Sets; those that change something; least: LIDs in force; best LIDs | MADs | \
         times ours: last change; quiet |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for group in groups(rows) {
        let (spec, carrier, who, kind) = group;
        let of_group = || rows.iter().filter(move |row| group_of(row) == group);
        let ms = |of: &dyn Fn(&Row) -> Option<f64>| match Spread::of(of_group().filter_map(of)) {
            Some(spread) => format!("{:.2}", scaled(spread, 1e-3)),
            None => "–".to_owned(),
        };
        let count = |of: &dyn Fn(&Row) -> u64| match Spread::of(of_group().map(|row| of(row) as f64)) {
            Some(spread) => format!("{spread:.0}"),
            None => "–".to_owned(),
        };
        let mut engines: Vec<&str> = of_group().filter_map(|row| row.engine_used.as_deref()).collect();
        engines.sort_unstable();
        engines.dedup();
        let _ = writeln!(
            text,
            "| `{spec}` | {carrier} | {kind} | {} | {} | {} | {} | {} | {}; {} | {} | {} | {} | {} | {} \
             | {}; {}; {}; {} | {} | {} |",
            who.label(),
            engines.join(", "),
            of_group().count(),
            ms(&|row| row.total_us),
            ms(&|row| row.thinking_us),
            ms(&|row| row.told.compute_us),
            ms(&|row| row.told.verify_us),
            of_group().filter(|row| row.told.known > 0).count(),
            of_group().filter(|row| row.told.drain_waits > 0).count(),
            ms(&|row| row.quiet_us),
            ms(&|row| row.floor_us),
            ms(&|row| Some(row.floor_us? - row.floor_direct_us?)),
            count(&|row| row.smps),
            count(&|row| row.smps_changing),
            count(&|row| row.smps_min.0),
            count(&|row| row.smps_min.1),
            count(&|row| row.mads),
            match who {
                Who::OpenSm(_) => [Until::LastChange, Until::Quiet]
                    .map(|until| ratios(rows, group, until).map_or("–".to_owned(), |ratio| format!("{ratio:.0}")))
                    .join("; "),
                Who::Selvedge => "–".to_owned(),
            }
        );
    }
    text
}

fn scaled(spread: Spread, factor: f64) -> Spread {
    Spread {
        median: spread.median * factor,
        min: spread.min * factor,
        max: spread.max * factor,
        mean: spread.mean * factor,
        count: spread.count,
    }
}
