//! A comparison as bars: a panel per figure, a group of bars per level of faults, a colour per engine.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use selvedge_api::{Comparison, ComparisonRun};
use selvedge_experiment::axis::{Axis, fit};
use selvedge_experiment::colour;
use selvedge_study::measure::median;

use crate::compare::label;
use crate::exit::CliError;

const WIDTH: u32 = 1_120;
const HEAD: u32 = 58;
/// Height of a line of the legend.
const LEGEND_ROW: u32 = 22;
/// Room for an entry of the legend.
const LEGEND_ENTRY: u32 = 180;
const PANEL: (u32, u32) = (WIDTH / 2, 300);
/// Space to the left and right of a group of bars, as a share of its width.
const GAP: f64 = 0.12;
const FONT: &str = "sans-serif";
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// One panel.
struct Panel {
    title: &'static str,
    /// True if the vertical axis has powers of ten.
    log: bool,
    value: fn(&ComparisonRun) -> Option<f64>,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Busiest link (host pairs); lower is better",
        log: false,
        value: |run| Some(run.quality.max_load as f64),
    },
    Panel {
        title: "Effective bisection bandwidth (share of a link per flow); higher is better",
        log: false,
        value: |run| run.quality.ebb,
    },
    Panel {
        title: "Mean way of a host pair (links between switches)",
        log: false,
        value: |run| Some(run.quality.mean_hops),
    },
    Panel {
        title: "Time to route (ms, powers of ten; bars: median)",
        log: true,
        value: |run| Some(run.cost.compute_ms),
    },
];

/// The engines with their lanes, and the levels of faults, both in order.
struct Axes {
    series: Vec<(String, Option<u8>)>,
    levels: Vec<String>,
}

/// Returns the charts as SVG.
pub fn svg(of: &Comparison) -> Result<String, CliError> {
    let mut axes = Axes {
        series: Vec::new(),
        levels: Vec::new(),
    };
    for row in &of.rows {
        let series = (row.engine.clone(), row.vls);
        if !axes.series.contains(&series) {
            axes.series.push(series);
        }
        if !axes.levels.contains(&row.faults) {
            axes.levels.push(row.faults.clone());
        }
    }
    let columns = ((WIDTH - 40) / LEGEND_ENTRY) as usize;
    let legend = LEGEND_ROW * axes.series.len().div_ceil(columns) as u32;
    // A figure that no table has was not requested: it gets no panel.
    let panels: Vec<&Panel> = PANELS.iter().filter(|panel| is_measured(panel, of)).collect();
    let rows = panels.len().div_ceil(2).max(1) as u32;
    let mut text = String::new();
    {
        let size = (WIDTH, HEAD + legend + 10 + rows * PANEL.1);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        head(&root, of)?;
        for (i, (engine, vls)) in axes.series.iter().enumerate() {
            let at = (
                20 + LEGEND_ENTRY * (i % columns) as u32,
                HEAD + LEGEND_ROW * (i / columns) as u32,
            );
            entry(&root, (at.0 as i32, at.1 as i32), colour(i), &label(engine, *vls))?;
        }
        for (i, panel) in panels.into_iter().enumerate() {
            let at = (PANEL.0 * (i as u32 % 2), HEAD + legend + 10 + PANEL.1 * (i as u32 / 2));
            draw(&root.clone().shrink(at, PANEL), panel, &axes, &of.runs)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn head(root: &Area<'_>, of: &Comparison) -> Result<(), CliError> {
    let title = format!(
        "{}: {} switches, {} host ports, {} links between switches",
        of.fabric, of.switches, of.host_ports, of.switch_links
    );
    let seeds: std::collections::BTreeSet<u64> = of.runs.iter().map(|run| run.seed).collect();
    let bars = match seeds.len() {
        0 | 1 => "bars: one draw of lost links".to_owned(),
        draws => format!("bars: mean of {draws} draws of lost links; lines: best and worst draw"),
    };
    let below = format!("{bars}; pale: some tables can deadlock or were refused; x: all were refused");
    let style = (FONT, 18).into_text_style(root);
    let room = WIDTH - 40;
    root.draw_text(&fit(&title, 18, room), &style, (20, 10))
        .map_err(failed)?;
    let grey = BLACK.mix(0.7);
    let style = (FONT, 12).into_text_style(root).color(&grey);
    root.draw_text(&fit(&below, 12, room), &style, (20, 34)).map_err(failed)
}

fn entry(root: &Area<'_>, (x, y): (i32, i32), colour: RGBColor, name: &str) -> Result<(), CliError> {
    root.draw(&Rectangle::new([(x, y + 2), (x + 14, y + 14)], colour.filled()))
        .map_err(failed)?;
    let style = (FONT, 14).into_text_style(root);
    let name = fit(name, 14, LEGEND_ENTRY - 25);
    root.draw_text(&name, &style, (x + 20, y + 1)).map_err(failed)
}

/// Returns true if a table has the panel's figure, or if there are no tables at all.
fn is_measured(panel: &Panel, of: &Comparison) -> bool {
    let mut made = of.runs.iter().filter(|run| run.refused.is_none()).peekable();
    made.peek().is_none() || made.any(|run| (panel.value)(run).is_some())
}

/// Least, most and middle of a figure, and whether no table was refused and none can deadlock.
struct Bar {
    middle: f64,
    min: f64,
    max: f64,
    sound: bool,
}

fn bar(runs: &[&ComparisonRun], panel: &Panel) -> Option<Bar> {
    let all: Vec<(f64, bool)> = runs
        .iter()
        .filter(|run| run.refused.is_none())
        .filter_map(|run| Some(((panel.value)(run)?, run.quality.deadlock_free)))
        .collect();
    let values = || all.iter().map(|(value, _)| *value);
    (!all.is_empty()).then(|| Bar {
        middle: match panel.log {
            true => median(&mut values().collect::<Vec<_>>()),
            false => values().sum::<f64>() / all.len() as f64,
        },
        min: values().fold(f64::INFINITY, f64::min),
        max: values().fold(0.0, f64::max),
        sound: all.len() == runs.len() && all.iter().all(|(_, sound)| *sound),
    })
}

/// Returns the bars, by level of faults, then by series.
fn groups(panel: &Panel, axes: &Axes, runs: &[ComparisonRun]) -> Vec<Vec<Option<Bar>>> {
    let of = |level: &String, (engine, vls): &(String, Option<u8>)| {
        let is = |run: &&ComparisonRun| run.faults == *level && run.engine == *engine && run.vls == *vls;
        bar(&runs.iter().filter(is).collect::<Vec<_>>(), panel)
    };
    let group = |level| axes.series.iter().map(|series| of(level, series)).collect();
    axes.levels.iter().map(group).collect()
}

fn draw(area: &Area<'_>, panel: &Panel, axes: &Axes, runs: &[ComparisonRun]) -> Result<(), CliError> {
    let groups = groups(panel, axes, runs);
    let (low, high) = range(panel.log, groups.iter().flatten().flatten());
    let up = match panel.log {
        true => Axis::powers(low, high, 6),
        false => Axis::new(low, high, 6),
    };
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, (FONT, 14))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(62)
        .build_cartesian_2d(0.0..axes.levels.len() as f64, up)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .label_style((FONT, 12))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.15))
        .draw()
        .map_err(failed)?;
    let mut paper = Paper { area, chart, low };
    let width = (1.0 - 2.0 * GAP) / axes.series.len() as f64;
    for (g, group) in groups.iter().enumerate() {
        for (i, bar) in group.iter().enumerate() {
            let left = g as f64 + GAP + i as f64 * width;
            match bar {
                Some(bar) => paper.bar((left, width), bar, colour(i), panel.log)?,
                None => paper.below(left + width / 2.0, -15, "x", 14, colour(i))?,
            }
        }
        let name = match &axes.levels[g][..] {
            "0" => "whole".to_owned(),
            share if share.ends_with('%') => format!("{share} of links lost"),
            count => format!("{count} links lost"),
        };
        paper.below(g as f64 + 0.5, 8, &name, 13, BLACK)?;
    }
    Ok(())
}

/// A panel with its axes.
struct Paper<'a, 'b> {
    area: &'a Area<'b>,
    chart: ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Axis>>,
    /// The number at which the axis begins.
    low: f64,
}

impl Paper<'_, '_> {
    fn bar(&mut self, (left, width): (f64, f64), bar: &Bar, paint: RGBColor, log: bool) -> Result<(), CliError> {
        let height = |value: f64| if log { value.max(1e-9).log10() } else { value };
        let fill = if bar.sound { paint } else { pale(paint) };
        let body = [
            (left + 0.06 * width, self.low),
            (left + 0.94 * width, height(bar.middle)),
        ];
        let body = [Rectangle::new(body, fill.filled())];
        self.chart.draw_series(body).map_err(failed)?;
        if bar.max > bar.min {
            let middle = left + width / 2.0;
            let line = vec![(middle, height(bar.min)), (middle, height(bar.max))];
            let line = [PathElement::new(line, BLACK.stroke_width(1))];
            self.chart.draw_series(line).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes text around a position of the lower axis, this many pixels below it.
    fn below(&self, x: f64, down: i32, text: &str, size: i32, paint: RGBColor) -> Result<(), CliError> {
        let (x, y) = self.chart.backend_coord(&(x, self.low));
        let (base_x, base_y) = self.area.get_base_pixel();
        let style = (FONT, size).into_text_style(self.area).color(&paint);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        let place = (x - base_x, y - base_y + down);
        self.area.draw_text(text, &style, place).map_err(failed)
    }
}

/// Mixes two parts of white with one part of the colour.
fn pale(RGBColor(r, g, b): RGBColor) -> RGBColor {
    let paler = |part: u8| u8::try_from((u32::from(part) + 2 * 255) / 3).unwrap_or(part);
    RGBColor(paler(r), paler(g), paler(b))
}

/// Returns the range of the vertical axis, in its own scale.
fn range<'a>(log: bool, bars: impl Iterator<Item = &'a Bar>) -> (f64, f64) {
    let (min, max) = bars.fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), bar| {
        (min.min(bar.min), max.max(bar.max))
    });
    if max <= 0.0 {
        return (0.0, 1.0);
    }
    if !log {
        return (0.0, max * 1.05);
    }
    let low = min.max(1e-9).log10().floor();
    (low, max.log10().ceil().max(low + 1.0))
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Chart {
        cause: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_experiment::misfits::misfits;

    use super::*;

    /// Returns a comparison of two engines on whole fabrics, of which the second may be refused.
    fn comparison(ebb: Option<f64>, seeds: u64, refused: Option<&str>) -> Comparison {
        let run = |engine: &str, seed: u64| {
            let mut run = ComparisonRun {
                faults: "0".to_owned(),
                seed,
                engine: engine.to_owned(),
                ..ComparisonRun::default()
            };
            run.quality.max_load = 12;
            run.quality.ebb = ebb;
            run.quality.mean_hops = 2.0;
            run.quality.deadlock_free = true;
            run.cost.compute_ms = 0.5;
            run
        };
        let row = |engine: &str| selvedge_api::ComparisonRow {
            faults: "0".to_owned(),
            engine: engine.to_owned(),
            ..selvedge_api::ComparisonRow::default()
        };
        let mut runs: Vec<ComparisonRun> = (0..seeds)
            .flat_map(|seed| ["updn", "weave"].map(|engine| run(engine, seed)))
            .collect();
        for run in runs.iter_mut().filter(|run| run.engine == "weave") {
            run.refused = refused.map(str::to_owned);
        }
        Comparison {
            fabric: "ring:switches=4,hosts=1".to_owned(),
            rows: ["updn", "weave"].map(row).into(),
            runs,
            ..Comparison::default()
        }
    }

    #[test]
    fn what_was_not_measured_has_no_panel() {
        for (ebb, is_there) in [(None, false), (Some(0.5), true)] {
            let text = svg(&comparison(ebb, 2, None)).unwrap();
            assert_eq!(text.contains("Effective bisection bandwidth"), is_there);
            // No engine was refused, so the picture has no cross.
            assert!(!text.contains("\nx\n"), "{text}");
            assert_eq!(misfits(&text), [] as [&str; 0]);
        }
        let text = svg(&comparison(None, 2, Some("SLV-ROUTE-0011"))).unwrap();
        assert_eq!(text.matches("\nx\n").count(), 3, "one in each panel");
    }

    #[test]
    fn draws_are_counted_in_words() {
        let check = |seeds: u64, want: &str| {
            let text = svg(&comparison(None, seeds, None)).unwrap();
            assert!(text.contains(want), "{want}");
        };
        check(1, "bars: one draw of lost links;");
        check(3, "bars: mean of 3 draws of lost links;");
    }
}
