//! The model's answers as bars: a panel per question, a bar per manager, a piece per stage.

use plotters::coord::Shift;
use plotters::prelude::*;
use selvedge_api::{Model, ModelAnswer};

use crate::exit::CliError;
use crate::model::figure;
use crate::out::{count, thousands};

const WIDTH: u32 = 900;
const HEAD: u32 = 62;
const LEGEND: u32 = 30;
/// Height of a bar and the space below it.
const ROW: u32 = 30;
/// Height of a panel's title and axis.
const FRAME: u32 = 74;
/// Room for the names of the bars.
const NAMES: u32 = 190;
const FONT: &str = "sans-serif";
/// Stages and their colours, which people with any colour vision tell apart. Source: Okabe and Ito 2008.
const STAGES: [(&str, &[&str], RGBColor); 4] = [
    ("reading", &["trap", "discover", "look at ports"], RGBColor(0, 114, 178)),
    ("computing", &["compute"], RGBColor(120, 120, 120)),
    (
        "writing LIDs, tables, settings",
        &["LIDs", "tables", "configure"],
        RGBColor(230, 159, 0),
    ),
    ("to ARMED, to ACTIVE", &["arm", "activate"], RGBColor(0, 158, 115)),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The picture as SVG.
pub fn svg(model: &Model) -> Result<String, CliError> {
    let mut panels: Vec<(&str, Vec<&ModelAnswer>)> = Vec::new();
    for answer in &model.answers {
        match panels.last_mut() {
            Some((question, answers)) if *question == answer.question => answers.push(answer),
            _ => panels.push((&answer.question, vec![answer])),
        }
    }
    let height = |answers: &[&ModelAnswer]| FRAME + ROW * answers.len() as u32;
    let mut text = String::new();
    {
        let all: u32 = panels.iter().map(|(_, answers)| height(answers)).sum();
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEAD + LEGEND + all)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        head(&root, model)?;
        let mut top = HEAD + LEGEND;
        for (question, answers) in &panels {
            let area = root.clone().shrink((0, top), (WIDTH, height(answers)));
            panel(&area, question, answers)?;
            top += height(answers);
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn head(root: &Area<'_>, model: &Model) -> Result<(), CliError> {
    let title = format!("What {} would cost its manager", model.fabric);
    let below = format!(
        "{}, {}; an agent takes {} µs for a MAD; predicted, not measured",
        count(model.switches, "switch"),
        count(model.hosts, "host"),
        model.mad_us
    );
    let style = (FONT, 18).into_text_style(root);
    root.draw_text(&title, &style, (20, 10)).map_err(failed)?;
    let grey = BLACK.mix(0.7);
    let style = (FONT, 13).into_text_style(root).color(&grey);
    root.draw_text(&below, &style, (20, 36)).map_err(failed)?;
    let mut left = 20;
    for (name, _, colour) in STAGES {
        let top = HEAD as i32 + 4;
        root.draw(&Rectangle::new([(left, top), (left + 12, top + 12)], colour.filled()))
            .map_err(failed)?;
        let style = (FONT, 13).into_text_style(root);
        root.draw_text(name, &style, (left + 18, top - 1)).map_err(failed)?;
        left += 50 + 7 * name.len() as i32;
    }
    Ok(())
}

fn panel(area: &Area<'_>, question: &str, answers: &[&ModelAnswer]) -> Result<(), CliError> {
    let longest = answers.iter().map(|a| a.time_ms).fold(0.0, f64::max).max(1e-6);
    let rows = answers.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{question}, ms"), (FONT, 15))
        .margin(10)
        .x_label_area_size(24)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..longest * 1.4, rows..0.0)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .x_labels(8)
        .label_style((FONT, 12))
        .light_line_style(WHITE);
    mesh.x_label_formatter(&|ms| figure_of_axis(*ms))
        .draw()
        .map_err(failed)?;
    for (row, answer) in answers.iter().enumerate() {
        let middle = row as f64 + 0.5;
        let mut from = 0.0;
        for (_, stages, colour) in STAGES {
            let in_piece = answer.stages.iter().filter(|s| stages.contains(&s.stage.as_str()));
            let to = from + in_piece.map(|s| s.time_ms).sum::<f64>();
            let body = [(from, middle - 0.32), (to, middle + 0.32)];
            let piece = chart.draw_series([Rectangle::new(body, colour.filled())]);
            piece.map_err(failed)?;
            from = to;
        }
        let beside = (answer.time_ms + longest * 0.01, middle - 0.2);
        let label = format!("{} ms, {}", figure(answer.time_ms), count(answer.mads, "MAD"));
        chart
            .draw_series([Text::new(label, beside, (FONT, 13))])
            .map_err(failed)?;
        let (left, y) = chart.backend_coord(&(0.0, middle));
        let place = (left - NAMES as i32, y - area.get_base_pixel().1 - 7);
        let style = (FONT, 13).into_text_style(area);
        area.draw_text(&name(answer), &style, place).map_err(failed)?;
    }
    Ok(())
}

fn name(answer: &ModelAnswer) -> String {
    let by = answer
        .recovery
        .as_deref()
        .map(|by| format!(", {by}"))
        .unwrap_or_default();
    format!("{}{by}, window {}", answer.manager, answer.window)
}

fn figure_of_axis(ms: f64) -> String {
    match ms {
        ms if ms >= 1_000.0 => thousands(ms.round() as u64),
        ms => format!("{}", (ms * 1e6).round() / 1e6),
    }
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Chart {
        cause: error.to_string(),
    }
}
