//! The steps of a change as a picture: a bar per step, its Sets to the right, waits between.

use plotters::coord::Shift;
use plotters::prelude::*;
use selvedge_api::{Transition, TransitionStep};

use crate::exit::CliError;
use crate::out::count;

const WIDTH: u32 = 960;
const HEAD: u32 = 66;
const LEGEND: u32 = 30;
const ROW: u32 = 46;
const FRAME: u32 = 50;
/// Room for the words of the steps.
const NAMES: u32 = 430;
const FONT: &str = "sans-serif";
/// People with any colour vision tell them apart. Source: Okabe and Ito 2008.
const CHANGE: RGBColor = RGBColor(0, 114, 178);
const DROP: RGBColor = RGBColor(213, 94, 0);
const OTHER: RGBColor = RGBColor(150, 150, 150);
const WAIT: RGBColor = RGBColor(230, 159, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The picture as SVG. `verdict` stands below the title.
pub fn svg(transition: &Transition, verdict: &str) -> Result<String, CliError> {
    let mut text = String::new();
    {
        let rows = transition.steps.len().max(1) as u32;
        let height = HEAD + LEGEND + FRAME + ROW * rows;
        let root = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        head(&root, transition, verdict)?;
        bars(&root, &transition.steps)?;
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn write(root: &Area<'_>, words: &str, size: i32, at: (i32, i32)) -> Result<(), CliError> {
    let style = (FONT, size).into_text_style(root);
    root.draw_text(words, &style, at).map_err(failed)
}

fn head(root: &Area<'_>, transition: &Transition, verdict: &str) -> Result<(), CliError> {
    let Transition { fabric, from, to, .. } = transition;
    write(
        root,
        &format!("{fabric}: from {from} to {to} under traffic"),
        18,
        (20, 10),
    )?;
    write(root, verdict, 13, (20, 38))?;
    let mut left = 20;
    let names = [
        ("entries change", CHANGE),
        ("entries are dropped", DROP),
        ("no entry changes", OTHER),
        ("wait before", WAIT),
    ];
    for (name, colour) in names {
        let top = HEAD as i32 + 4;
        root.draw(&Rectangle::new([(left, top), (left + 12, top + 12)], colour.filled()))
            .map_err(failed)?;
        write(root, name, 13, (left + 18, top - 1))?;
        left += 50 + 7 * name.len() as i32;
    }
    Ok(())
}

fn bars(root: &Area<'_>, steps: &[TransitionStep]) -> Result<(), CliError> {
    let height = root.dim_in_pixel().1;
    let area = root.clone().shrink((0, HEAD + LEGEND), (WIDTH, height - HEAD - LEGEND));
    let longest = steps.iter().map(|step| step.sets).max().unwrap_or(1).max(1) as f64;
    let rows = steps.len().max(1) as f64;
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..longest * 1.35, rows..0.0)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .x_labels(6)
        .x_desc("Sets")
        .label_style((FONT, 12))
        .light_line_style(WHITE);
    mesh.x_label_formatter(&|sets| format!("{sets:.0}"))
        .draw()
        .map_err(failed)?;
    for (row, step) in steps.iter().enumerate() {
        let (top, middle) = (row as f64, row as f64 + 0.5);
        let mut draw = |body: [(f64, f64); 2], colour: RGBColor| {
            let drawn = chart.draw_series([Rectangle::new(body, colour.filled())]);
            drawn.map(drop).map_err(failed)
        };
        let end = step.sets as f64;
        draw([(0.0, middle - 0.25), (end, middle + 0.25)], colour(step))?;
        if step.wait_before_ns > 0 {
            draw([(0.0, top + 0.02), (longest * 1.3, top + 0.1)], WAIT)?;
        }
        let beside = (end + longest * 0.01, middle - 0.15);
        chart
            .draw_series([Text::new(figures(step), beside, (FONT, 12))])
            .map_err(failed)?;
        let (_, y) = chart.backend_coord(&(0.0, middle));
        for (words, below) in words(step).iter().zip([-15, 1]) {
            write(root, words, 12, (20, y + below))?;
        }
    }
    Ok(())
}

const fn colour(step: &TransitionStep) -> RGBColor {
    match step {
        TransitionStep { entries: 0, .. } => OTHER,
        TransitionStep { dropped: 0, .. } => CHANGE,
        TransitionStep { .. } => DROP,
    }
}

fn words(step: &TransitionStep) -> [String; 2] {
    let wait = match step.wait_before_ns {
        0 => String::new(),
        ns => format!("after {:.2} s, until packets under way are gone", ns as f64 / 1e9),
    };
    [format!("{}. {}", step.step, step.what), wait]
}

fn figures(step: &TransitionStep) -> String {
    let sets = count(step.sets, "SMP");
    match (step.entries, step.dropped) {
        (0, _) => sets,
        (entries, 0) => format!("{sets}, {}", of_entries(entries)),
        (entries, dropped) => format!("{sets}, {}, {dropped} dropped", of_entries(entries)),
    }
}

fn of_entries(entries: u64) -> String {
    match entries {
        1 => "1 entry".to_owned(),
        entries => format!("{entries} entries"),
    }
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Chart {
        cause: error.to_string(),
    }
}
