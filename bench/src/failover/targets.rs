//! Targets for a fail-over, and whether they are met.

use std::fmt::Write as _;

use crate::failover::faults::Kind;
use crate::failover::table::{Until, groups, ratios};
use crate::failover::{Carrier, Row, Who};
use crate::stats::Spread;

/// The small fabric of the targets; the next constant is the large one.
const SMALL: &str = "sx6536";
const LARGE: &str = "karytree:k=18,n=3";

/// One target, with the measured value.
#[derive(Clone, Debug, PartialEq)]
struct Target {
    what: String,
    want: String,
    have: String,
    is_met: bool,
}

/// All targets for which there are rows, for display; empty if there are none.
pub fn table(rows: &[Row]) -> String {
    let mut targets = Vec::new();
    for (spec, kind) in specs_and_kinds(rows) {
        targets.extend(times(rows, spec, kind));
        targets.extend(compute(rows, spec, kind));
        targets.extend(sets(rows, spec, kind));
        targets.extend(opensm(rows, spec, kind));
    }
    let mut text = String::new();
    if !targets.is_empty() {
        text += "\n| target | wanted | measured: median (least–most) | |\n|---|---|---|---|\n";
    }
    for target in targets {
        let met = if target.is_met { "met" } else { "missed" };
        let _ = writeln!(text, "| {} | {} | {} | {met} |", target.what, target.want, target.have);
    }
    text
}

/// Fabrics with the kinds of lost links that were tried there, as measured.
fn specs_and_kinds(rows: &[Row]) -> Vec<(&str, Kind)> {
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| matches!(row.kind, Kind::Leaf | Kind::Mid)) {
        let one = (&row.spec[..], row.kind);
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn ours<'r>(rows: &'r [Row], spec: &'r str, kind: Kind) -> impl Iterator<Item = &'r Row> {
    let all = rows.iter().filter(|row| row.who == Who::Selvedge);
    all.filter(move |row| row.spec == spec && row.kind == kind)
}

/// Returns a target for the median, and for the worst case.
fn at_most(what: String, (median, worst): (f64, Option<f64>), unit: &str, measured: Option<Spread>) -> Option<Target> {
    let spread = measured?;
    let want = match worst {
        Some(worst) => format!("median ≤ {median} {unit}, worst ≤ {worst} {unit}"),
        None => format!("median ≤ {median} {unit}"),
    };
    Some(Target {
        what,
        want,
        have: format!("{spread:.2}"),
        is_met: spread.median <= median && worst.is_none_or(|worst| spread.max <= worst),
    })
}

/// Returns targets for the time from the trap to the last change, in milliseconds.
fn times(rows: &[Row], spec: &str, kind: Kind) -> Vec<Target> {
    let milliseconds = |carrier: Carrier| {
        let of = ours(rows, spec, kind).filter(|row| row.fabric == carrier);
        Spread::of(of.filter_map(|row| Some(row.total_us? / 1e3)))
    };
    let wanted = match (spec, kind) {
        (SMALL, _) => Some((1.0, Some(3.0))),
        (LARGE, Kind::Leaf) => Some((9.0, Some(15.0))),
        (LARGE, _) => Some((3.0, None)),
        _ => None,
    };
    let what = format!("`{spec}`, {kind}: last change");
    let real = wanted.and_then(|wanted| at_most(what, wanted, "ms", milliseconds(Carrier::Ibsim)));
    let service_us = 50.0;
    let what = format!("`{spec}`, {kind}: last change, emulator, {service_us} µs an SMP, compute apart");
    let virtual_time = (spec == LARGE)
        .then(|| {
            at_most(
                what,
                (2.0, Some(2.0)),
                "ms",
                milliseconds(Carrier::Emulator { service_us }),
            )
        })
        .flatten();
    real.into_iter().chain(virtual_time).collect()
}

/// Returns the target for planning with judgement, in milliseconds.
fn compute(rows: &[Row], spec: &str, kind: Kind) -> Option<Target> {
    let hosts = ours(rows, spec, kind).next()?.hosts;
    let wanted = match hosts {
        324 => 0.2,
        5_832 => 2.0,
        27_648 => 20.0,
        _ => return None,
    };
    let both = |row: &Row| Some((row.told.compute_us? + row.told.verify_us?) / 1e3);
    let measured = Spread::of(ours(rows, spec, kind).filter_map(both));
    at_most(
        format!("`{spec}`, {kind}: planning and judging"),
        (wanted, None),
        "ms",
        measured,
    )
}

/// Returns targets for the number of table Sets, compared with the smallest possible number. Each fault must meet them.
fn sets(rows: &[Row], spec: &str, kind: Kind) -> Vec<Target> {
    let share = |least: &dyn Fn(&Row) -> u64| {
        let of = ours(rows, spec, kind).filter(|row| row.fabric == Carrier::Ibsim && least(row) > 0);
        Spread::of(of.map(|row| row.smps as f64 / least(row) as f64))
    };
    let what = |than: &str| format!("`{spec}`, {kind}: Sets of tables over {than}");
    let layout = at_most(
        what("smps_min_layout"),
        (1.05, Some(1.05)),
        "×",
        share(&|row| row.smps_min.0),
    );
    let fabric = at_most(
        what("smps_min_fabric"),
        (1.2, Some(1.2)),
        "×",
        share(&|row| row.smps_min.1),
    );
    layout.into_iter().chain(fabric).collect()
}

/// Returns targets for the ratio of OpenSM's time to Selvedge's: each engine and window, by both definitions of the
/// time.
fn opensm(rows: &[Row], spec: &str, kind: Kind) -> Vec<Target> {
    let wanted = match spec {
        SMALL => 100.0,
        LARGE => 500.0,
        _ => return Vec::new(),
    };
    let mut targets = Vec::new();
    for group in groups(rows) {
        if (group.0, group.1, group.3) != (spec, Carrier::Ibsim, kind) || *group.2 == Who::Selvedge {
            continue;
        }
        for (until, words) in [(Until::LastChange, "last change"), (Until::Quiet, "quiet")] {
            let Some(spread) = ratios(rows, group, until) else {
                continue;
            };
            targets.push(Target {
                what: format!("`{spec}`, {kind}: {}, {words}, times ours", group.2.label()),
                want: format!("median ≥ {wanted}"),
                have: format!("{spread:.0}"),
                is_met: spread.median >= wanted,
            });
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_by_median_and_worst() {
        let check = |measured: &[f64], wanted: (f64, Option<f64>), want: Option<bool>| {
            let spread = Spread::of(measured.iter().copied());
            let target = at_most(String::new(), wanted, "ms", spread);
            assert_eq!(target.map(|target| target.is_met), want, "{measured:?}");
        };
        check(&[0.5, 0.7, 2.9], (1.0, Some(3.0)), Some(true));
        check(&[0.5, 0.7, 3.1], (1.0, Some(3.0)), Some(false));
        check(&[0.5, 1.7, 2.9], (1.0, Some(3.0)), Some(false));
        check(&[0.5, 0.7, 99.0], (1.0, None), Some(true));
        check(&[], (1.0, None), None);
    }
}
