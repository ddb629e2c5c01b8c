//! Bring-up times as bars with their range, one panel per fabric.

use plotters::prelude::*;

use crate::bringup::FabricResult;
use crate::error::BenchError;
use crate::stats::Spread;

const WIDTH: u32 = 900;
/// Height of a bar and the space below it.
const ROW: u32 = 30;
/// Height of a panel's title and axis.
const FRAME: u32 = 80;
/// Room for the names of the bars.
const NAMES: u32 = 190;
/// Colour of Selvedge.
pub const OURS: RGBColor = RGBColor(0x1b, 0x7f, 0x79);
/// Colour of a peer.
pub const PEERS: RGBColor = RGBColor(0xb0, 0xb7, 0xbf);

/// One bar.
pub struct Bar {
    /// The name beside the bar.
    pub name: String,
    /// The value at which the bar ends.
    pub middle: f64,
    /// The range of the samples.
    pub spread: Spread,
    /// Colour of the bar.
    pub color: RGBColor,
}

/// Height of a panel with this number of bars.
#[must_use]
pub const fn panel_height(bars: usize) -> u32 {
    FRAME + ROW * bars as u32
}

/// The chart as SVG.
pub fn svg(results: &[FabricResult]) -> Result<String, BenchError> {
    let panels: Vec<(String, Vec<Bar>)> = results.iter().map(|result| (title(result), bars(result))).collect();
    let heights: Vec<u32> = panels.iter().map(|(_, bars)| panel_height(bars.len())).collect();
    let mut text = String::new();
    {
        let size = (WIDTH, heights.iter().sum());
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let mut top = 0;
        for ((title, bars), height) in panels.iter().zip(heights) {
            let panel = root.clone().shrink((0, top), (WIDTH, height));
            let title = Title {
                text: title,
                digits: 3,
                cut: f64::INFINITY,
            };
            bar_panel(&panel, &title, bars)?;
            top += height;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn title(result: &FabricResult) -> String {
    format!(
        "{} hosts ({}): start of the process to SUBNET UP, s; median and range",
        result.counts.hosts, result.spec
    )
}

/// Selvedge first, then OpenSM's variants in the order of the command line.
fn bars(result: &FabricResult) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut add = |name: String, color, seconds: Vec<f64>| {
        if let Some(spread) = Spread::of(seconds) {
            bars.push(Bar {
                name,
                middle: spread.median,
                spread,
                color,
            });
        }
    };
    add(
        "selvedge".to_owned(),
        OURS,
        result.ours.iter().map(|s| s.run.process_s).collect(),
    );
    for variant in result.variants() {
        let seconds = result.peers.iter().filter(|peer| peer.variant == variant);
        let name = format!("OpenSM {}, window {}", variant.engine, variant.window);
        add(name, PEERS, seconds.map(|peer| peer.run.process_s).collect());
    }
    bars
}

/// Title and limits of a panel of bars.
pub struct Title<'a> {
    /// The title above the bars.
    pub text: &'a str,
    /// Decimal digits of figures.
    pub digits: usize,
    /// Bars longer than this are cut; their figures show the real length.
    pub cut: f64,
}

/// Bars with their range on one panel.
pub fn bar_panel<DB: DrawingBackend>(
    panel: &DrawingArea<DB, plotters::coord::Shift>,
    title: &Title<'_>,
    bars: &[Bar],
) -> Result<(), BenchError> {
    let digits = title.digits;
    let longest = bars.iter().map(|bar| bar.spread.max).fold(0.0, f64::max).min(title.cut);
    let rows = bars.len() as f64;
    let mut chart = ChartBuilder::on(panel)
        .caption(title.text, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(24)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..longest * 1.15, rows..0.0)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .x_labels(8)
        .light_line_style(WHITE);
    mesh.draw().map_err(failed)?;
    for (row, bar) in bars.iter().enumerate() {
        let (middle, spread) = (row as f64 + 0.5, bar.spread);
        let body = [(0.0, middle - 0.32), (bar.middle.min(longest), middle + 0.32)];
        let range = vec![(spread.min.min(longest), middle), (spread.max.min(longest), middle)];
        let cut = if bar.middle > longest { ", cut" } else { "" };
        let figure = format!("{:.digits$}{cut}", bar.middle);
        let parts = chart.draw_series([Rectangle::new(body, bar.color.filled())]);
        parts.map_err(failed)?;
        chart
            .draw_series([PathElement::new(range, BLACK.stroke_width(2))])
            .map_err(failed)?;
        let beside = (spread.max.min(longest) + longest * 0.01, middle - 0.2);
        chart
            .draw_series([Text::new(figure, beside, ("sans-serif", 13))])
            .map_err(failed)?;
        let (left, y) = chart.backend_coord(&(0.0, middle));
        let place = (left - NAMES as i32, y - panel.get_base_pixel().1 - 7);
        panel
            .draw_text(&bar.name, &("sans-serif", 13).into_text_style(panel), place)
            .map_err(failed)?;
    }
    Ok(())
}

/// Wraps an error of the drawing library.
pub fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Chart {
        cause: error.to_string(),
    }
}
