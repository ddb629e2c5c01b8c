//! Time lines of lost throughput, one panel for each kind of hosts.

use plotters::prelude::*;
use selvedge_experiment::colour;

use super::{Args, Row, lost};
use crate::chart::failed;
use crate::error::BenchError;

const WIDTH: u32 = 1_000;
const PANEL: u32 = 320;
/// Steps over which a line is averaged.
const SMOOTH: usize = 4;
/// Draws the share of throughput that each way to recover loses.
pub fn svg(spec: &str, args: &Args, rows: &[Row]) -> Result<String, BenchError> {
    let mut kinds: Vec<&str> = rows.iter().map(|row| row.variant).collect();
    kinds.dedup();
    let mut text = String::new();
    {
        let size = (WIDTH, PANEL * kinds.len() as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let panels = root.split_evenly((kinds.len(), 1));
        for (panel, kind) in panels.iter().zip(kinds) {
            let of_kind: Vec<&Row> = rows.iter().filter(|row| row.variant == kind).collect();
            let title = format!("{spec}, hosts with {kind}: lost throughput, {}", args.traffic);
            panel_of(panel, &title, &of_kind)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn smooth(values: &[f64]) -> Vec<f64> {
    let mean = |at: usize| {
        let part = &values[(at + 1).saturating_sub(SMOOTH)..=at];
        part.iter().sum::<f64>() / part.len() as f64
    };
    (0..values.len()).map(mean).collect()
}

fn panel_of<DB: DrawingBackend>(
    panel: &DrawingArea<DB, plotters::coord::Shift>,
    title: &str,
    rows: &[&Row],
) -> Result<(), BenchError> {
    let us = |row: &Row, step: usize| (step as u64 * row.found.step_ns) as f64 / 1e3;
    let lines: Vec<Vec<f64>> = rows.iter().map(|row| smooth(&lost(&row.found))).collect();
    let ends = rows.iter().map(|row| us(row, row.found.run.goodput.len()));
    let end = ends.fold(1.0, f64::max);
    let all = lines.iter().flatten();
    let (least, most) = all.fold((0.0_f64, 0.05_f64), |(least, most), at| (least.min(*at), most.max(*at)));
    let mut chart = ChartBuilder::on(panel)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .margin_right(40)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 100.0 * least..105.0 * most)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("µs")
        .y_desc("%")
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    for (series, (row, line)) in rows.iter().zip(&lines).enumerate() {
        let colour = colour(series);
        let points: Vec<_> = line
            .iter()
            .enumerate()
            .map(|(step, at)| (us(row, step), 100.0 * at))
            .collect();
        let drawn = chart.draw_series([PathElement::new(points, colour.stroke_width(2))]);
        let key = move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2));
        drawn.map_err(failed)?.label(row.case.clone()).legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .draw()
        .map_err(failed)
}
