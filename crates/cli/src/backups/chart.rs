//! Backups as a picture: what each fault costs in SMPs and load; and how performance falls fault by fault.

use plotters::coord::Shift;
use plotters::prelude::*;
use selvedge_api::{Backup, Backups, InPlace};

use crate::exit::CliError;

const WIDTH: u32 = 960;
const HEAD: u32 = 60;
const PANEL: u32 = 340;
const FONT: &str = "sans-serif";
/// Links, switches, and faults that part hosts or leave no plan. Source: Okabe and Ito 2008.
const LINK: RGBColor = RGBColor(0, 114, 178);
const SWITCH: RGBColor = RGBColor(230, 159, 0);
const WEAK: RGBColor = RGBColor(213, 94, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The picture as SVG.
pub fn svg(of: &Backups) -> Result<String, CliError> {
    let mut text = String::new();
    {
        let panels = 1 + u32::from(of.in_place.is_some());
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEAD + panels * PANEL)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        head(&root, of)?;
        faults(&root.clone().shrink((0, HEAD), (WIDTH, PANEL)), of)?;
        if let Some(in_place) = &of.in_place {
            steps(&root.clone().shrink((0, HEAD + PANEL), (WIDTH, PANEL)), in_place)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn head(root: &Area<'_>, of: &Backups) -> Result<(), CliError> {
    let title = format!(
        "{}, {}: {} faults tried, one at a time",
        of.fabric,
        of.engine,
        of.faults.len()
    );
    let style = (FONT, 18).into_text_style(root);
    root.draw_text(&title, &style, (20, 10)).map_err(failed)?;
    let legend = [
        (LINK, "a link is lost"),
        (SWITCH, "a switch is lost"),
        (WEAK, "and hosts are parted, or no plan is found"),
    ];
    for (i, (colour, words)) in legend.iter().enumerate() {
        let left = 24 + 170 * i as i32;
        root.draw(&Circle::new((left, 44), 5, colour.filled()))
            .map_err(failed)?;
        let style = (FONT, 13).into_text_style(root);
        root.draw_text(words, &style, (left + 12, 37)).map_err(failed)?;
    }
    Ok(())
}

fn is_weak(fault: &Backup) -> bool {
    fault.pairs_cut.max(fault.pairs_lost) > 0 || fault.refused.is_some() || !fault.deadlock_free
}

/// A point per fault: SMPs to the right, busiest link upwards.
fn faults(area: &Area<'_>, of: &Backups) -> Result<(), CliError> {
    let most = |value: &dyn Fn(&Backup) -> u64| of.faults.iter().map(value).max().unwrap_or(0).max(1) as f64;
    let least = of.faults.iter().map(|fault| fault.max_load).min().unwrap_or(0);
    let low = least.min(of.max_load) as f64 * 0.95;
    let mut chart = ChartBuilder::on(area)
        .caption("What a fault costs", (FONT, 15))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(
            0.0..most(&|fault| fault.blocks) * 1.05,
            low..most(&|fault| fault.max_load).max(of.max_load as f64) * 1.05,
        )
        .map_err(failed)?;
    let whole = |value: &f64| format!("{value:.0}");
    chart
        .configure_mesh()
        .x_desc("LFT blocks that change, a Set each")
        .y_desc("host pairs on the busiest link afterwards")
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .label_style((FONT, 12))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()
        .map_err(failed)?;
    let line = [
        (0.0, of.max_load as f64),
        (most(&|fault| fault.blocks) * 1.05, of.max_load as f64),
    ];
    chart
        .draw_series([PathElement::new(line.to_vec(), BLACK.mix(0.5).stroke_width(1))])
        .map_err(failed)?;
    // The weak ones last, so that they are seen.
    let mut points: Vec<&Backup> = of.faults.iter().collect();
    points.sort_by_key(|fault| is_weak(fault));
    let dots = points.into_iter().map(|fault| {
        let colour = match (is_weak(fault), &fault.kind[..]) {
            (true, _) => WEAK,
            (false, "link") => LINK,
            (false, _) => SWITCH,
        };
        Circle::new(
            (fault.blocks as f64, fault.max_load as f64),
            4,
            colour.mix(0.6).filled(),
        )
    });
    chart.draw_series(dots).map_err(failed)?;
    Ok(())
}

/// A line per random order: lost links to the right, performance upwards.
fn steps(area: &Area<'_>, of: &InPlace) -> Result<(), CliError> {
    let points = || of.runs.iter().flat_map(|run| &run.steps);
    let most = points().map(|step| step.0).max().unwrap_or(1).max(1) as f64;
    let low = points().map(|step| step.1).fold(of.below, f64::min) * 0.97;
    let title = format!("Links lost one after another, {} random orders", of.runs.len());
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 15))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..most * 1.02, low..1.03)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("lost links")
        .y_desc(format!("{}, share of the whole fabric's", of.measure))
        .x_label_formatter(&|value| format!("{value:.0}"))
        .y_label_formatter(&|value| format!("{value:.2}"))
        .label_style((FONT, 12))
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.12))
        .draw()
        .map_err(failed)?;
    for run in &of.runs {
        let line: Vec<_> = run
            .steps
            .iter()
            .map(|&(faults, share)| (faults as f64, share))
            .collect();
        chart
            .draw_series([PathElement::new(line, LINK.mix(0.5).stroke_width(1))])
            .map_err(failed)?;
    }
    let line = vec![(0.0, of.below), (most * 1.02, of.below)];
    chart
        .draw_series([PathElement::new(line, WEAK.stroke_width(1))])
        .map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Chart {
        cause: error.to_string(),
    }
}
