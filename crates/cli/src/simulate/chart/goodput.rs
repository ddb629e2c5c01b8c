//! The picture of reliable connections and faults: goodput, migrations and queue pairs in ERR over time.

use plotters::prelude::*;
use selvedge_api::Migration;
use selvedge_experiment::axis::Axis;

use super::{Area, BLUE, DROPS, HEAD, LOADS, ORANGE, RED, RIGHT, WIDTH, failed, head, legend, mesh, name_changes};
use crate::exit::CliError;
use crate::out::thousands;

/// Colour of migrations.
const GREEN: RGBColor = RGBColor(0, 158, 115);

/// Draws goodput with and without the faults, and below it migrations and errors of queue pairs.
pub fn goodput(found: &Migration) -> Result<String, CliError> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEAD + LOADS + DROPS)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        titles(&root, found)?;
        rates(&root, found)?;
        counts(&root, found)?;
        root.present().map_err(failed)?;
    }
    Ok(text)
}

/// Returns the begin of a step in µs.
fn us(found: &Migration, step: usize) -> f64 {
    (step as u64 * found.step_ns) as f64 / 1e3
}

/// Returns the axis of time.
fn across(found: &Migration) -> Axis {
    Axis::new(0.0, us(found, found.run.goodput.len().max(1)), 10)
}

fn titles(root: &Area<'_>, found: &Migration) -> Result<(), CliError> {
    let alternate = found.alternate.as_deref().unwrap_or("none");
    let repair = found
        .repair_ns
        .map_or("none".to_owned(), |ns| format!("{} µs", ns as f64 / 1e3));
    let how = match (&found.rival, found.respecify) {
        (Some(rival), _) => rival.clone(),
        (None, true) => format!("APM {} with re-specification", found.apm),
        (None, false) => format!("APM {}", found.apm),
    };
    let title = format!(
        "{}, {}, RC {}; {how}, alternate {alternate}, repair {repair}",
        found.fabric, found.engine, found.traffic
    );
    let mut below = format!(
        "lost: {} µs; {} migrations, {} queue pairs in ERR",
        found.lost_ns as f64 / 1e3,
        thousands(found.run.migrations),
        thousands(found.run.qp_errors),
    );
    let mut entries = vec![
        ("without faults", ORANGE),
        ("goodput", BLUE),
        ("migrations", GREEN),
        ("in ERR", RED),
    ];
    if found.respecify {
        entries.push(("alternates broken", ORANGE));
    } else {
        below += &format!("; a step: {} µs", found.step_ns as f64 / 1e3);
    }
    head(root, &title, &below)?;
    legend(root, &entries)
}

fn rates(root: &Area<'_>, found: &Migration) -> Result<(), CliError> {
    let gbps = |bytes: u64| bytes as f64 * 8.0 / found.step_ns.max(1) as f64;
    let lines = [(found.whole.as_ref(), ORANGE), (Some(&found.run), BLUE)];
    let all = lines.iter().filter_map(|(run, _)| *run).flat_map(|run| &run.goodput);
    let top = gbps(all.copied().max().unwrap_or(0)).max(0.01) * 1.1;
    let area = root.clone().shrink((0, HEAD), (WIDTH, LOADS));
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .margin_right(RIGHT)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d(across(found), Axis::new(0.0, top, 8))
        .map_err(failed)?;
    mesh(&mut chart, ("", "goodput, Gbit/s"))?;
    for (run, colour) in lines {
        let Some(run) = run else { continue };
        let points = run
            .goodput
            .iter()
            .enumerate()
            .map(|(step, &bytes)| (us(found, step), gbps(bytes)));
        let line = PathElement::new(points.collect::<Vec<_>>(), colour.stroke_width(2));
        chart.draw_series([line]).map_err(failed)?;
    }
    let faults = found.faults.iter();
    let faults: Vec<String> = faults
        .map(|fault| format!("{}ns {}", fault.at_ns, fault.what))
        .collect();
    name_changes(root, &mut chart, &faults, top)
}

fn counts(root: &Area<'_>, found: &Migration) -> Result<(), CliError> {
    let run = &found.run;
    let counts = [(&run.deaths, ORANGE), (&run.migrated, GREEN), (&run.failed, RED)];
    let most = counts.iter().flat_map(|(counts, _)| counts.iter()).copied().max();
    let most = most.unwrap_or(0).max(1) as f64;
    let area = root.clone().shrink((0, HEAD + LOADS), (WIDTH, DROPS));
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .margin_right(RIGHT)
        .x_label_area_size(34)
        .y_label_area_size(70)
        .build_cartesian_2d(across(found), Axis::whole(0.0, most * 1.1, 3))
        .map_err(failed)?;
    mesh(&mut chart, ("µs", "queue pairs a step"))?;
    for (counts, colour) in counts {
        let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let bar = |(step, &count): (usize, &u64)| {
            let corners = [(us(found, step), 0.0), (us(found, step + 1), count as f64)];
            Rectangle::new(corners, colour.mix(0.7).filled())
        };
        chart.draw_series(bars.map(bar)).map_err(failed)?;
    }
    Ok(())
}
