//! Highest load by lanes on random graphs, and by engine on trees, as a picture.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::Row;
use super::field::{Contestant, FamilyKind, Maker};
use super::table::{all_contestants, families, qualities};
use crate::chart::{Bar, OURS, PEERS, Title, bar_panel, failed, panel_height};
use crate::error::BenchError;
use crate::stats::Spread;

const WIDTH: u32 = 900;
/// Bars this many times as long as the shortest are cut.
const CUT: f64 = 4.0;
/// Height of a panel with lines.
const LINES: u32 = 300;

/// The picture as SVG: a panel per family.
pub fn svg(rows: &[Row]) -> Result<String, BenchError> {
    let panels: Vec<(String, Vec<&Row>)> = families(rows)
        .into_iter()
        .map(|family| {
            let of_it = rows.iter().filter(|row| row.family.name == family).collect();
            (family, of_it)
        })
        .collect();
    let is_random = |rows: &[&Row]| rows.first().is_some_and(|row| row.family.kind == FamilyKind::Other);
    let height = |rows: &[&Row]| {
        if is_random(rows) {
            LINES
        } else {
            panel_height(bars(rows).len())
        }
    };
    let mut text = String::new();
    {
        let total = panels.iter().map(|(_, rows)| height(rows)).sum();
        let root = SVGBackend::with_string(&mut text, (WIDTH, total)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let mut top = 0;
        for (family, rows) in &panels {
            let height = height(rows);
            let panel = root.clone().shrink((0, top), (WIDTH, height));
            let title = format!("{family}: host pairs on the busiest link; mean and range");
            if is_random(rows) {
                lines(&panel, &title, rows)?;
            } else {
                let bars = bars(rows);
                // A few engines load one link a hundred times as much: the others would not be seen.
                let least = bars.iter().map(|bar| bar.middle).fold(f64::INFINITY, f64::min);
                let title = Title {
                    text: &title,
                    digits: 0,
                    cut: CUT * least,
                };
                bar_panel(&panel, &title, &bars)?;
            }
            top += height;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn load(rows: &[&Row], contestant: Contestant) -> Option<Spread> {
    Spread::of(qualities(rows, contestant).map(|quality| quality.max_load as f64))
}

/// A bar for every contestant that routed.
fn bars(rows: &[&Row]) -> Vec<Bar> {
    let bar = |contestant: Contestant| {
        let spread = load(rows, contestant)?;
        let color = if contestant.maker == Maker::Selvedge {
            OURS
        } else {
            PEERS
        };
        Some(Bar {
            name: format!("{} {}", contestant.maker, contestant.name()),
            middle: spread.mean,
            spread,
            color,
        })
    };
    all_contestants(rows).into_iter().filter_map(bar).collect()
}

/// Draws load by number of lanes: a line with points each for weave and nue, and a horizontal line for sssp, which uses
/// no lanes.
fn lines<DB: DrawingBackend>(panel: &DrawingArea<DB, Shift>, title: &str, rows: &[&Row]) -> Result<(), BenchError> {
    let all = all_contestants(rows);
    let points = |maker: Maker, engine: &str| -> Vec<(f64, Spread)> {
        let of_it = all.iter().filter(|c| c.maker == maker && c.engine == engine);
        of_it
            .filter_map(|&c| Some((f64::from(c.lanes).log2(), load(rows, c)?)))
            .collect()
    };
    let (ours, theirs) = (points(Maker::Selvedge, "weave"), points(Maker::OpenSm, "nue"));
    let shortest = points(Maker::OpenSm, "sssp").first().map(|(_, spread)| spread.mean);
    let most = ours
        .iter()
        .chain(&theirs)
        .map(|(_, spread)| spread.max)
        .fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(panel)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(-0.2..4.0, 0.0..most * 1.05)
        .map_err(failed)?;
    let lanes = |x: &f64| {
        if (x - x.round()).abs() < 0.01 && *x < 3.5 {
            format!("{}", 2_f64.powf(*x).round())
        } else {
            String::new()
        }
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(5)
        .x_label_formatter(&lanes)
        .y_label_formatter(&|load| format!("{load:.0}"))
        .x_desc("lanes")
        .light_line_style(WHITE)
        .draw()
        .map_err(failed)?;
    for (name, color, points) in [("selvedge weave", OURS, ours), ("OpenSM nue", PEERS, theirs)] {
        let line = points.iter().map(|&(x, spread)| (x, spread.mean)).collect::<Vec<_>>();
        chart
            .draw_series([PathElement::new(line, color.stroke_width(3))])
            .map_err(failed)?;
        let ranges = points
            .iter()
            .map(|&(x, s)| PathElement::new(vec![(x, s.min), (x, s.max)], color.stroke_width(1)));
        chart.draw_series(ranges).map_err(failed)?;
        if let Some(&(x, spread)) = points.last() {
            let label = Text::new(name, (x + 0.05, spread.mean), ("sans-serif", 13));
            chart.draw_series([label]).map_err(failed)?;
        }
    }
    if let Some(height) = shortest {
        let across = PathElement::new(vec![(-0.2, height), (3.0, height)], BLACK.stroke_width(1));
        chart.draw_series([across]).map_err(failed)?;
        // Beside the line's end: the lowest load with weave and many lanes is near it.
        let label = Text::new(
            "OpenSM sssp (can deadlock)",
            (-0.18, height - most * 0.01),
            ("sans-serif", 13),
        );
        chart.draw_series([label]).map_err(failed)?;
    }
    Ok(())
}
