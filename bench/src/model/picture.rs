//! Figures 4 to 9, and predicted against measured, as pictures.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::accuracy::{Point, WINDOWS};
use super::test_bed::{FIGURES, Figure, Row, SWITCHES, WORLDS};
use crate::chart::failed;
use crate::error::BenchError;

/// Colours that people with any colour vision can distinguish. Source: Okabe and Ito 2008.
const COLOURS: [RGBColor; 3] = [RGBColor(0, 114, 178), RGBColor(230, 159, 0), RGBColor(0, 158, 115)];
const FONT: &str = "sans-serif";
const PANEL: (u32, u32) = (470, 260);
const HEAD: u32 = 64;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A row of panels per figure: the emulator on the left, ibsim on the right.
pub fn test_bed(rows: &[Row]) -> Result<String, BenchError> {
    let mut text = String::new();
    {
        let size = (2 * PANEL.0, HEAD + FIGURES.len() as u32 * PANEL.1);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let title = "Our manager with a window of 1; emulator: virtual time, calibrated on 8 nodes; ibsim: real time";
        let style = (FONT, 15).into_text_style(&root);
        root.draw_text(title, &style, (16, 12)).map_err(failed)?;
        for (switches, (colour, left)) in SWITCHES.into_iter().zip(COLOURS.into_iter().zip([16, 116])) {
            let words = if switches == 1 { "1 switch" } else { "6 switches" };
            let style = (FONT, 15).into_text_style(&root).color(&colour);
            root.draw_text(words, &style, (left, 36)).map_err(failed)?;
        }
        for (figure, top) in FIGURES.iter().zip((HEAD..).step_by(PANEL.1 as usize)) {
            for (world, left) in WORLDS.into_iter().zip([0, PANEL.0]) {
                let rows: Vec<&Row> = rows.iter().filter(|row| row.world == world).collect();
                phase(&root.clone().shrink((left, top), PANEL), figure, world, &rows)?;
            }
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn phase(area: &Area<'_>, (number, name, part): &Figure, world: &str, rows: &[&Row]) -> Result<(), BenchError> {
    let most = rows
        .iter()
        .filter_map(|row| Some(row.spread(*part)?.max))
        .fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Figure {number}: {name}, {world}"), (FONT, 15))
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d(0.5..8.5, 0.0..most.max(1e-6) * 1.15)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("end nodes")
        .y_desc("ms")
        .x_labels(8)
        .label_style((FONT, 12))
        .x_label_formatter(&|x: &f64| {
            if (x - x.round()).abs() < 0.01 {
                format!("{x:.0}")
            } else {
                String::new()
            }
        })
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()
        .map_err(failed)?;
    for (switches, colour) in SWITCHES.into_iter().zip(COLOURS) {
        let of = || rows.iter().filter(|row| row.switches == switches);
        let points: Vec<(f64, f64)> = of()
            .filter_map(|row| Some((f64::from(row.nodes), row.spread(*part)?.median)))
            .collect();
        let ranges = of().filter_map(|row| {
            let (x, s) = (f64::from(row.nodes), row.spread(*part)?);
            Some(PathElement::new(vec![(x, s.min), (x, s.max)], colour.stroke_width(1)))
        });
        chart.draw_series(ranges).map_err(failed)?;
        chart
            .draw_series([PathElement::new(points.clone(), colour.stroke_width(2))])
            .map_err(failed)?;
        let dots = points.into_iter().map(|at| Circle::new(at, 3, colour.filled()));
        chart.draw_series(dots).map_err(failed)?;
    }
    Ok(())
}

/// Predicted against measured time on the left, the error on the right.
pub fn accuracy(points: &[Point]) -> Result<String, BenchError> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (980, 460)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let (left, right) = root.split_horizontally(490);
        times(&left, points)?;
        errors(&right, points)?;
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn range(points: &[Point]) -> std::ops::Range<f64> {
    let all = points.iter().flat_map(|p| [p.measured_ms, p.predicted_ms]);
    let (low, high) = all.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    low / 1.5..high * 1.5
}

fn times(area: &Area<'_>, points: &[Point]) -> Result<(), BenchError> {
    let range = range(points);
    let mut chart = ChartBuilder::on(area)
        .caption("Bring-up on the emulator: predicted and measured", (FONT, 15))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(range.clone().log_scale(), range.clone().log_scale())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("measured, ms")
        .y_desc("predicted, ms")
        .label_style((FONT, 12))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()
        .map_err(failed)?;
    let same = PathElement::new(vec![(range.start, range.start), (range.end, range.end)], BLACK.mix(0.5));
    chart.draw_series([same]).map_err(failed)?;
    for (window, colour) in WINDOWS.into_iter().zip(COLOURS) {
        let of = points.iter().filter(|p| p.window == window);
        let dots = of.map(|p| Circle::new((p.measured_ms, p.predicted_ms), 3, colour.filled()));
        chart
            .draw_series(dots)
            .map_err(failed)?
            .label(format!("window {window}"))
            .legend(move |(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
    }
    let mut legend = chart.configure_series_labels();
    legend.position(SeriesLabelPosition::UpperLeft).label_font((FONT, 13));
    legend
        .background_style(WHITE)
        .border_style(BLACK.mix(0.2))
        .draw()
        .map_err(failed)?;
    Ok(())
}

fn errors(area: &Area<'_>, points: &[Point]) -> Result<(), BenchError> {
    /// Half of the axis, in percent: a little more than the target.
    const MOST: f64 = 6.0;
    let mut chart = ChartBuilder::on(area)
        .caption("Error, % of measured; black lines: the target", (FONT, 15))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(range(points).log_scale(), -MOST..MOST)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("measured, ms")
        .label_style((FONT, 12))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()
        .map_err(failed)?;
    let range = range(points);
    for target in [-5.0, 5.0] {
        let line = PathElement::new(vec![(range.start, target), (range.end, target)], BLACK.mix(0.6));
        chart.draw_series([line]).map_err(failed)?;
    }
    for (window, colour) in WINDOWS.into_iter().zip(COLOURS) {
        let of = points.iter().filter(|p| p.window == window);
        let dots = of.map(|p| {
            Circle::new(
                (p.measured_ms, (p.error() * 100.0).clamp(-MOST, MOST)),
                3,
                colour.filled(),
            )
        });
        chart.draw_series(dots).map_err(failed)?;
    }
    Ok(())
}
