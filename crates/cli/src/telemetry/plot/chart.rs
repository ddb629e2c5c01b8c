//! A series as a picture.

use plotters::prelude::*;
use selvedge_api::TelemetrySeries;
use selvedge_daemon::utc_text;
use selvedge_experiment::axis::{Axis, fit};

use super::{Scale, Summary, rates, title};
use crate::exit::CliError;

const WIDTH: u32 = 1_120;
const HEIGHT: u32 = 440;
const HEAD: u32 = 62;
const FONT: &str = "sans-serif";
/// Space right of the panel, for half of a tick's label.
const RIGHT: u32 = 40;
/// A colour that people with any colour vision can distinguish from grey. Source: Okabe and Ito 2008.
const BLUE: RGBColor = RGBColor(0, 114, 178);

/// Returns the picture: the rate over time. Gaps interrupt the line.
pub(super) fn svg(series: &TelemetrySeries) -> Result<String, CliError> {
    let scale = Scale::of(series);
    let span_s = series.to_ms.saturating_sub(series.from_ms) as f64 / 1e3;
    let (unit_s, unit) = [(86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")]
        .into_iter()
        .find(|(unit_s, _)| span_s >= 3.0 * unit_s)
        .unwrap_or((1.0, "seconds"));
    let at = |ms: u64| ms.saturating_sub(series.from_ms) as f64 / 1e3 / unit_s;
    let parts = parts(series, at);
    let most = parts.iter().flatten().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let (divisor, rate) = match scale {
        Scale::Bytes(_) => [(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")]
            .into_iter()
            .find(|(size, _)| most >= *size)
            .unwrap_or((1.0, "B/s")),
        Scale::Count => (1.0, "in a second"),
    };
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let below = Summary::of(series).map_or_else(
            || "fewer than two slots are stored of this time".to_owned(),
            |summary| summary.text(series),
        );
        let room = WIDTH - 40;
        let style = (FONT, 17).into_text_style(&root);
        root.draw_text(&fit(&title(series), 17, room), &style, (20, 10))
            .map_err(failed)?;
        let grey = BLACK.mix(0.7);
        let style = (FONT, 12).into_text_style(&root).color(&grey);
        root.draw_text(&fit(&below, 12, room), &style, (20, 36))
            .map_err(failed)?;
        let area = root.clone().shrink((0, HEAD), (WIDTH, HEIGHT - HEAD));
        let top = if most > 0.0 { most / divisor * 1.05 } else { 1.0 };
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .margin_right(RIGHT)
            .x_label_area_size(34)
            .y_label_area_size(70)
            .build_cartesian_2d(Axis::new(0.0, span_s / unit_s, 10), Axis::new(0.0, top, 8))
            .map_err(failed)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_desc(format!("{unit} since {}", utc_text(series.from_ms)))
            .y_desc(rate)
            .label_style((FONT, 12))
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.15))
            .draw()
            .map_err(failed)?;
        for part in parts {
            let points: Vec<_> = part.into_iter().map(|(at, rate)| (at, rate / divisor)).collect();
            let line = PathElement::new(points, BLUE.stroke_width(2));
            chart.draw_series([line]).map_err(failed)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

/// Returns the line, in parts between gaps: a rate holds from the point before to its own.
fn parts(series: &TelemetrySeries, at: impl Fn(u64) -> f64) -> Vec<Vec<(f64, f64)>> {
    let mut parts: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for (begin, end, rate) in rates(series) {
        match (rate, parts.last_mut()) {
            (Some(rate), Some(part)) => part.extend([(at(begin), rate), (at(end), rate)]),
            _ => parts.push(Vec::new()),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Chart {
        cause: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_experiment::misfits::misfits;

    use super::super::tests::series;
    use super::*;

    #[test]
    fn a_gap_interrupts_the_line() {
        let series = series(&[Some(0.0), Some(1e9), Some(2e9), None, Some(1e9), Some(1e9)]);
        let text = svg(&series).unwrap();
        assert_eq!(misfits(&text), [] as [&str; 0]);
        assert_eq!(
            text.matches("<polyline").filter(|_| true).count(),
            2 + axes(&text),
            "{text}"
        );
        for word in ["GB/s", "minutes since 2020-09-13T12:26:40", "PortXmitData", "1 gap"] {
            assert!(text.contains(word), "{word}");
        }
    }

    /// Lines of the axes, which have another colour.
    fn axes(text: &str) -> usize {
        let lines = text.lines().filter(|line| line.starts_with("<polyline"));
        lines.filter(|line| !line.contains("#0072B2")).count()
    }

    #[test]
    fn a_series_without_points_is_a_picture_too() {
        let mut empty = series(&[Some(0.0), Some(0.0)]);
        empty.points.clear();
        let text = svg(&empty).unwrap();
        assert!(text.contains("fewer than two slots"), "{text}");
        assert_eq!(misfits(&text), [] as [&str; 0]);
    }
}
