//! A picture of a summary: a panel for each value of one setting, a line or colour for each series.

use std::collections::BTreeMap;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::axis::{Axis, fit, title, width};
use crate::error::ExperimentError;
use crate::file::{Picture, PictureKind, Scale};
use crate::palette::colour;
use crate::summary::{Figure, Row, Summary};

const WIDTH: u32 = 1_120;
/// Height of the titles.
const HEAD: u32 = 58;
/// Height of a line of the legend.
const LEGEND_ROW: u32 = 20;
/// Widest entry of the legend.
const ENTRY_MAX: u32 = WIDTH - 40;
const PANEL_HEIGHT: u32 = 320;
const FONT: &str = "sans-serif";
/// Space to the left and right of a group of bars, as a share of its width.
const GAP: f64 = 0.12;
/// Half the size of a cross.
const CROSS: i32 = 3;

/// Largest number that an axis shows as a number. Up to it, a difference of one is visible in an `f64`.
const NUMBER_MAX: f64 = 1e15;
/// The smallest span of a scale, as an absolute number and as a share of its numbers.
const SPAN_MIN: f64 = 1e-9;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// The positions of points along the horizontal axis: numbers, or words one after another.
struct Places {
    /// Words in the order of the experiment; empty: numbers.
    words: Vec<String>,
}

/// One mean, with its interval.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    y: Figure,
    is_marked: bool,
}

/// The content of a picture: panels of series of points, in the order of the experiment.
struct Drawing {
    axis: Places,
    series: Vec<String>,
    panels: Vec<(String, BTreeMap<usize, Vec<Point>>)>,
}

/// Returns the picture as SVG.
pub fn svg(summary: &Summary, picture: &Picture) -> Result<String, ExperimentError> {
    let drawing = arrange(summary, picture)?;
    // Without settings that distinguish series there is one series, which has no name.
    let named: Vec<&String> = drawing.series.iter().filter(|name| !name.is_empty()).collect();
    let widest = drawing.series.iter().map(|name| width(name, 13)).max().unwrap_or(0);
    let entry = (widest + 40).min(ENTRY_MAX) as usize;
    let columns = ((WIDTH - 40) as usize / entry.max(1)).max(1);
    let legend = LEGEND_ROW * named.len().div_ceil(columns) as u32;
    let across = if drawing.panels.len() > 1 { 2 } else { 1 };
    let down = drawing.panels.len().div_ceil(across) as u32;
    let size = (WIDTH, HEAD + legend + 10 + down * PANEL_HEIGHT);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        head(
            &root,
            &picture.title,
            &format!(
                "{}{}{}{}",
                summary.title,
                intervals_are(&drawing, picture),
                crosses(picture),
                scales(picture)
            ),
        )?;
        for (i, name) in named.iter().enumerate() {
            let at = (
                20 + (entry * (i % columns)) as i32,
                (HEAD + LEGEND_ROW * (i / columns) as u32) as i32,
            );
            legend_entry(&root, at, colour(i), name)?;
        }
        let width = WIDTH / across as u32;
        let common = value_range(points_of(&drawing));
        for (i, (title, points)) in drawing.panels.iter().enumerate() {
            let at = (
                width * (i % across) as u32,
                HEAD + legend + 10 + PANEL_HEIGHT * (i / across) as u32,
            );
            let area = root.clone().shrink(at, (width, PANEL_HEIGHT));
            let range = match picture.scale {
                Scale::Common => common,
                Scale::Panel => value_range(points.values().flatten()),
            };
            if !has_scale(&[range.0, range.1]) {
                let what = format!("'{}' from {} to {}: no scale shows that", picture.y, range.0, range.1);
                let file = picture.file.clone();
                return Err(ExperimentError::Picture { file, what });
            }
            panel(&area, title, (&drawing, points), range, picture)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

/// Sorts rows into panels, series and points.
fn arrange(summary: &Summary, picture: &Picture) -> Result<Drawing, ExperimentError> {
    let name_of = |row: &Row, names: &[String]| {
        let values = names
            .iter()
            .filter_map(|name| row.cell.get(name).map(|value| (name, value)));
        let named = values.map(|(name, value)| match value.number() {
            Some(_) => format!("{} {value}", title(name)),
            None => value.to_string(),
        });
        named.collect::<Vec<_>>().join(", ")
    };
    let x_of = |row: &Row| match row.cell.get(&picture.x) {
        Some(value) => Some((value.number(), value.to_string())),
        None => row
            .figures
            .get(&picture.x)
            .map(|figure| (Some(figure.mean), figure.mean.to_string())),
    };
    let rows = || summary.rows.iter().filter(|row| row.figures.contains_key(&picture.y));
    let numbers: Option<Vec<f64>> = rows().filter_map(x_of).map(|(number, _)| number).collect();
    let is_words = picture.kind == PictureKind::Bars || !numbers.is_some_and(|numbers| has_scale(&numbers));
    let mut drawing = Drawing {
        axis: Places { words: Vec::new() },
        series: Vec::new(),
        panels: Vec::new(),
    };
    for row in rows() {
        let (Some((number, word)), Some(&y)) = (x_of(row), row.figures.get(&picture.y)) else {
            continue;
        };
        let x = match number {
            Some(number) if !is_words => number,
            _ => place(&mut drawing.axis.words, word) as f64,
        };
        let series = place(&mut drawing.series, name_of(row, &picture.series));
        let panel = name_of(row, &picture.panel);
        let at = match drawing.panels.iter().position(|(title, _)| *title == panel) {
            Some(at) => at,
            None => {
                drawing.panels.push((panel, BTreeMap::new()));
                drawing.panels.len() - 1
            }
        };
        let points = drawing.panels[at].1.entry(series).or_default();
        if points.iter().any(|point| point.x == x) {
            return Err(ExperimentError::Picture {
                file: picture.file.clone(),
                what: format!(
                    "several combinations fall on one point ({}); add to 'series' or 'panel' what else varies: {}",
                    row.cell,
                    summary.varying.join(", ")
                ),
            });
        }
        let mark = picture.mark.as_ref().and_then(|mark| row.figures.get(mark));
        let is_marked = mark.is_some_and(|mark| mark.mean != 0.0);
        points.push(Point { x, y, is_marked });
    }
    for points in drawing.panels.iter_mut().flat_map(|(_, series)| series.values_mut()) {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Ok(drawing)
}

fn points_of(drawing: &Drawing) -> impl Iterator<Item = &Point> + Clone {
    drawing.panels.iter().flat_map(|(_, series)| series.values().flatten())
}

/// Returns the explanation of the intervals, if there are any.
fn intervals_are(drawing: &Drawing, picture: &Picture) -> &'static str {
    let has_intervals = points_of(drawing).any(|point| point.y.half_interval.is_some());
    match picture.kind {
        _ if !has_intervals => "",
        PictureKind::Lines => "; bars: 95 % confidence interval of the mean",
        PictureKind::Bars => "; thin lines: 95 % confidence interval of the mean",
    }
}

/// Returns the explanation of the crosses.
fn crosses(picture: &Picture) -> String {
    let mark = picture.mark.as_ref();
    mark.map_or_else(String::new, |mark| {
        format!("; crosses: {}", title(mark.trim_end_matches('?')))
    })
}

/// Returns the note that panels have scales of their own. If all panels have the same scale, returns an empty text.
const fn scales(picture: &Picture) -> &'static str {
    match picture.scale {
        Scale::Common => "",
        Scale::Panel => "; each panel has its own scale",
    }
}

/// True if an axis of numbers can show the differences between these numbers and between its own ticks. Otherwise the
/// numbers are shown as words.
fn has_scale(numbers: &[f64]) -> bool {
    let (low, high) = numbers
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &number| {
            (low.min(number), high.max(number))
        });
    let most = low.abs().max(high.abs());
    let all = numbers.iter().all(|number| number.is_finite());
    numbers.is_empty() || all && most <= NUMBER_MAX && (high <= low || high - low >= (most * SPAN_MIN).max(SPAN_MIN))
}

/// Returns the index of a word in a list. A new word is appended.
fn place(words: &mut Vec<String>, word: String) -> usize {
    match words.iter().position(|known| *known == word) {
        Some(at) => at,
        None => {
            words.push(word);
            words.len() - 1
        }
    }
}

fn head(root: &Area<'_>, title: &str, below: &str) -> Result<(), ExperimentError> {
    let style = (FONT, 18).into_text_style(root);
    let room = WIDTH - 40;
    root.draw_text(&fit(title, 18, room), &style, (20, 10))
        .map_err(failed)?;
    let grey = BLACK.mix(0.7);
    let style = (FONT, 12).into_text_style(root).color(&grey);
    root.draw_text(&fit(below, 12, room), &style, (20, 34)).map_err(failed)
}

fn legend_entry(root: &Area<'_>, (x, y): (i32, i32), colour: RGBColor, name: &str) -> Result<(), ExperimentError> {
    root.draw(&Rectangle::new([(x, y + 2), (x + 14, y + 14)], colour.filled()))
        .map_err(failed)?;
    let style = (FONT, 13).into_text_style(root);
    let name = fit(name, 13, ENTRY_MAX - 40);
    root.draw_text(&name, &style, (x + 20, y + 1)).map_err(failed)
}

/// Returns the vertical range: from 0 (or below, where a mean or an interval is) to a little more than the largest
/// value. It contains every interval as a whole.
fn value_range<'a>(points: impl Iterator<Item = &'a Point>) -> (f64, f64) {
    let (low, high) = points.fold((0.0_f64, 0.0_f64), |(low, high), point| {
        let half = point.y.half_interval.unwrap_or(0.0);
        (low.min(point.y.mean - half), high.max(point.y.mean + half))
    });
    if high > low {
        (low * 1.05, high * 1.05)
    } else {
        (low, low + 1.0)
    }
}

fn panel(
    area: &Area<'_>,
    name: &str,
    (drawing, series): (&Drawing, &BTreeMap<usize, Vec<Point>>),
    (low, high): (f64, f64),
    picture: &Picture,
) -> Result<(), ExperimentError> {
    let words = drawing.axis.words.len();
    let (left, right) = if words > 0 {
        (0.0, words as f64)
    } else {
        number_range(series.values().flatten())
    };
    let wide = area.dim_in_pixel().0;
    let across = match words {
        0 => across(series, (left, right)),
        _ => Axis::bare(left, right),
    };
    let mut chart = ChartBuilder::on(area)
        .caption(fit(name, 14, wide - 40), (FONT, 14))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(across, Axis::new(low, high, 6))
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .y_desc(fit(&title(&picture.y), 12, PANEL_HEIGHT - 80))
        .x_desc(fit(&title(&picture.x), 12, wide - 120))
        .label_style((FONT, 12))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.15));
    mesh.draw().map_err(failed)?;
    let rooms = drawing.series.len().max(1) as f64;
    let width = (1.0 - 2.0 * GAP) / rooms;
    for (&i, points) in series {
        match picture.kind {
            PictureKind::Bars => {
                let place = (GAP + i as f64 * width, width);
                bars(&mut chart, points, place, (low, high), colour(i))?;
            }
            PictureKind::Lines => {
                let shift = if words > 0 { 0.5 } else { 0.0 };
                lines(&mut chart, points, shift, (low, high), colour(i))?;
            }
        }
    }
    for (i, word) in drawing.axis.words.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(i as f64 + 0.5, low));
        let (base_x, base_y) = area.get_base_pixel();
        let style = (FONT, 12).into_text_style(area);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        let word = fit(word, 12, (wide - 120) / words.max(1) as u32);
        area.draw_text(&word, &style, (x - base_x, y - base_y + 8))
            .map_err(failed)?;
    }
    Ok(())
}

/// Returns the horizontal axis; an axis of counts if all numbers are whole.
fn across(series: &BTreeMap<usize, Vec<Point>>, (left, right): (f64, f64)) -> Axis {
    let mut numbers = series.values().flatten().map(|point| point.x);
    match numbers.all(|number| number.fract() == 0.0) {
        true => Axis::whole(left, right, 8),
        false => Axis::new(left, right, 8),
    }
}

fn number_range<'a>(points: impl Iterator<Item = &'a Point>) -> (f64, f64) {
    let (low, high) = points.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), point| {
        (low.min(point.x), high.max(point.x))
    });
    match high - low {
        span if span > 0.0 => (low - 0.04 * span, high + 0.04 * span),
        _ if low.is_finite() => (low - 0.5, low + 0.5),
        _ => (0.0, 1.0),
    }
}

fn lines(
    chart: &mut Chart<'_, '_>,
    points: &[Point],
    shift: f64,
    range: (f64, f64),
    paint: RGBColor,
) -> Result<(), ExperimentError> {
    let at = |point: &Point| (point.x + shift, point.y.mean);
    let line = PathElement::new(points.iter().map(at).collect::<Vec<_>>(), paint.stroke_width(2));
    chart.draw_series([line]).map_err(failed)?;
    let marks = points.iter().map(|point| Circle::new(at(point), 3, paint.filled()));
    chart.draw_series(marks).map_err(failed)?;
    let marked = points.iter().filter(|point| point.is_marked);
    let crosses = marked.map(|point| Cross::new(at(point), CROSS + 3, BLACK.stroke_width(1)));
    chart.draw_series(crosses).map_err(failed)?;
    let all = points.iter().map(|point| (point.x + shift, point.y));
    intervals(chart, all, range, paint)
}

fn bars(
    chart: &mut Chart<'_, '_>,
    points: &[Point],
    (left, width): (f64, f64),
    range: (f64, f64),
    paint: RGBColor,
) -> Result<(), ExperimentError> {
    let bar = |point: &Point| {
        let from = point.x + left;
        let body = [
            (from + 0.06 * width, range.0.max(0.0)),
            (from + 0.94 * width, point.y.mean),
        ];
        Rectangle::new(body, paint.filled())
    };
    chart.draw_series(points.iter().map(bar)).map_err(failed)?;
    let middle = |point: &Point| (point.x + left + width / 2.0, point.y);
    // Above the bar, however low that is.
    let marked = points.iter().filter(|point| point.is_marked);
    let crosses = marked.map(|point| {
        let cross = Cross::new((0, -3 * CROSS), CROSS, BLACK.stroke_width(1));
        EmptyElement::at((middle(point).0, point.y.mean)) + cross
    });
    chart.draw_series(crosses).map_err(failed)?;
    intervals(chart, points.iter().map(middle), range, BLACK)
}

fn intervals(
    chart: &mut Chart<'_, '_>,
    points: impl Iterator<Item = (f64, Figure)>,
    (low, high): (f64, f64),
    paint: RGBColor,
) -> Result<(), ExperimentError> {
    let line = |(x, y): (f64, Figure)| {
        let half = y.half_interval?;
        Some(PathElement::new(
            vec![(x, (y.mean - half).max(low)), (x, (y.mean + half).min(high))],
            paint.stroke_width(1),
        ))
    };
    chart.draw_series(points.filter_map(line)).map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> ExperimentError {
    ExperimentError::Draw {
        cause: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Cell;
    use crate::misfits::misfits;
    use crate::schema::Value;

    fn summary() -> Summary {
        let figure = |mean: f64| Figure {
            count: 3,
            mean,
            half_interval: Some(0.05),
            min: mean,
            max: mean,
        };
        let row = |fabric: &str, queue: &str, vls: i64| {
            let settings = [
                ("fabric", Value::Text(fabric.to_owned())),
                ("queue", Value::Text(queue.to_owned())),
                ("vls", Value::Whole(vls)),
            ];
            Row {
                cell: Cell {
                    settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
                    ..Cell::default()
                },
                figures: [
                    ("accepted_load".to_owned(), figure(1.0 - 0.4 / vls as f64)),
                    ("deadlock?".to_owned(), figure(f64::from(u8::from(queue == "voq")))),
                ]
                .into(),
                refused: 0,
                why: None,
            }
        };
        let mut rows = Vec::new();
        for fabric in ["sx6536", "ring"] {
            for queue in ["fifo", "voq"] {
                rows.extend([1, 2, 4, 8].map(|vls| row(fabric, queue, vls)));
            }
        }
        Summary {
            title: "a test".to_owned(),
            varying: ["fabric", "queue", "vls"].map(str::to_owned).into(),
            names: vec!["accepted_load".to_owned()],
            rows,
        }
    }

    fn picture(kind: PictureKind, series: &[&str]) -> Picture {
        Picture {
            file: "a.svg".to_owned(),
            title: "Accepted load".to_owned(),
            x: "vls".to_owned(),
            y: "accepted_load".to_owned(),
            series: series.iter().map(|name| (*name).to_owned()).collect(),
            panel: vec!["fabric".to_owned()],
            mark: Some("deadlock?".to_owned()),
            kind,
            scale: Scale::Common,
        }
    }

    #[test]
    fn every_panel_series_and_point_is_drawn() {
        let count = |kind, what: &str| {
            let text = svg(&summary(), &picture(kind, &["queue"])).unwrap();
            for word in ["Accepted load", "sx6536", "ring", "fifo", "voq", "crosses: deadlock"] {
                assert!(text.contains(word), "{word} is missing");
            }
            text.matches(what).count()
        };
        assert_eq!(count(PictureKind::Lines, "<circle"), 16);
        // Two of the legend, and the paper.
        assert_eq!(count(PictureKind::Bars, "<rect"), 16 + 3);
    }

    /// Draws lines and bars, few and many values, long names: ticks differ, and every label is inside the picture.
    #[test]
    fn every_label_is_in_the_picture() {
        let long = "a setting whose values are long and that many runs have in common".to_owned();
        for kind in [PictureKind::Lines, PictureKind::Bars] {
            for (x, panel) in [
                ("vls", "fabric"),
                ("fabric", "vls"),
                ("queue", "fabric"),
                ("accepted_load", "fabric"),
            ] {
                let mut summary = summary();
                for row in &mut summary.rows {
                    let queue = row.cell.settings.get_mut("queue").unwrap();
                    *queue = Value::Text(format!("{queue} {long}"));
                }
                let series = ["vls", "queue", "fabric"]
                    .into_iter()
                    .filter(|name| *name != x && *name != panel);
                let picture = Picture {
                    x: x.to_owned(),
                    panel: vec![panel.to_owned()],
                    title: long.repeat(3),
                    ..picture(kind, &series.collect::<Vec<_>>())
                };
                let text = svg(&summary, &picture).unwrap();
                assert_eq!(misfits(&text), [] as [&str; 0], "{kind:?} over {x}");
                assert!(text.contains("\naccepted load\n"), "the name of a figure in words");
            }
        }
    }

    /// A wide interval is drawn to both ends, and the picture explains it.
    #[test]
    fn intervals_are_whole() {
        for kind in [PictureKind::Lines, PictureKind::Bars] {
            for half in [0.05, 0.7, 9.0] {
                let mut summary = summary();
                for figure in summary.rows.iter_mut().flat_map(|row| row.figures.values_mut()) {
                    figure.half_interval = Some(half);
                }
                let drawing = arrange(&summary, &picture(kind, &["queue"])).unwrap();
                let (low, high) = value_range(points_of(&drawing));
                for point in points_of(&drawing) {
                    assert!(point.y.mean - half >= low, "{kind:?} {half}");
                    assert!(point.y.mean + half <= high, "{kind:?} {half}");
                }
                let text = svg(&summary, &picture(kind, &["queue"])).unwrap();
                assert!(text.contains("95 % confidence interval of the mean"));
                assert_eq!(misfits(&text), [] as [&str; 0], "{kind:?} {half}");
            }
        }
        let mut summary = summary();
        for figure in summary.rows.iter_mut().flat_map(|row| row.figures.values_mut()) {
            figure.half_interval = None;
        }
        let text = svg(&summary, &picture(PictureKind::Lines, &["queue"])).unwrap();
        assert!(!text.contains("confidence"), "one seed has no interval");
    }

    #[test]
    fn a_single_series_needs_no_legend() {
        let mut summary = summary();
        summary
            .rows
            .retain(|row| row.cell.get("queue").is_some_and(|queue| queue.to_string() == "voq"));
        let text = svg(&summary, &picture(PictureKind::Lines, &[])).unwrap();
        // The paper alone.
        assert_eq!(text.matches("<rect").count(), 1);
    }

    #[test]
    fn what_no_scale_shows_is_words() {
        let check = |numbers: &[f64], want| assert_eq!(has_scale(numbers), want, "{numbers:?}");
        check(&[], true);
        check(&[0.0, 1.0], true);
        check(&[5.0], true);
        check(&[1e15, 0.0], true);
        check(&[1e16], false);
        check(&[1.0, 1.0 + f64::EPSILON], false);
        check(&[1e-300, 2e-300], false);
        check(&[f64::NAN, 1.0], false);
        check(&[f64::MAX, f64::MIN], false);
    }

    #[test]
    fn panels_may_have_their_own_scales() {
        let mut summary = summary();
        let small = summary
            .rows
            .iter_mut()
            .filter(|row| row.cell.get("fabric").is_some_and(|f| f.to_string() == "ring"));
        for figure in small.filter_map(|row| row.figures.get_mut("accepted_load")) {
            figure.mean /= 10.0;
            figure.half_interval = Some(0.005);
        }
        let heights = |scale| {
            let picture = Picture {
                scale,
                ..picture(PictureKind::Bars, &["queue"])
            };
            let text = svg(&summary, &picture).unwrap();
            assert_eq!(text.contains("own scale"), scale == Scale::Panel);
            let bars = text
                .lines()
                .filter_map(|line| line.split_once("height=\"")?.1.split('"').next()?.parse().ok());
            // The picture, the paper and two of the legend come first.
            bars.skip(4).collect::<Vec<u32>>()
        };
        let (common, own) = (heights(Scale::Common), heights(Scale::Panel));
        // The first panel is as high as before; the second one as high as the first.
        assert_eq!(common[..8], own[..8]);
        assert!(common[8..].iter().max() < Some(&50), "{common:?}");
        assert!(own[8..].iter().max() > Some(&150), "{own:?}");
    }

    #[test]
    fn two_combinations_on_one_point_are_refused() {
        let error = svg(&summary(), &picture(PictureKind::Lines, &[]))
            .unwrap_err()
            .to_string();
        assert!(error.contains("SLV-EXPERIMENT-0007"), "{error}");
        assert!(error.contains("fabric, queue, vls"), "{error}");
    }
}
