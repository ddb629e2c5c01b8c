//! The steps of a change as a picture: a bar per step, its Sets to the right, waits between.

use plotters::coord::Shift;
use plotters::prelude::*;
use selvedge_api::{Transition, TransitionStep};
use selvedge_experiment::axis::{Axis, fit, width, wrap};

use crate::exit::CliError;
use crate::out::count;

const WIDTH: u32 = 960;
const HEAD: u32 = 66;
const LEGEND: u32 = 30;
const ROW: u32 = 46;
const FRAME: u32 = 50;
/// Room for the texts of the steps.
const NAMES: u32 = 430;
/// Space left and right of the picture.
const MARGIN: u32 = 20;
/// Size of the steps' texts and of the figures beside their bars.
const SMALL: u32 = 12;
const FONT: &str = "sans-serif";
/// Colours that people with any colour vision can distinguish. Source: Okabe and Ito 2008.
const CHANGE: RGBColor = RGBColor(0, 114, 178);
const DROP: RGBColor = RGBColor(213, 94, 0);
const OTHER: RGBColor = RGBColor(150, 150, 150);
const WAIT: RGBColor = RGBColor(230, 159, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns the picture as SVG. `verdict` stands below the title.
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

/// Writes words and cuts them at the edge of the picture.
fn write(root: &Area<'_>, words: &str, size: u32, at: (i32, i32)) -> Result<(), CliError> {
    let style = (FONT, size).into_text_style(root);
    let room = (WIDTH - MARGIN).saturating_sub(at.0.unsigned_abs());
    root.draw_text(&fit(words, size, room), &style, at).map_err(failed)
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
        left += 40 + width(name, 13) as i32;
    }
    Ok(())
}

fn bars(root: &Area<'_>, steps: &[TransitionStep]) -> Result<(), CliError> {
    let height = root.dim_in_pixel().1;
    let area = root.clone().shrink((0, HEAD + LEGEND), (WIDTH, height - HEAD - LEGEND));
    let rows = steps.len().max(1) as f64;
    let end = axis_end(steps);
    let axis = Axis::whole(0.0, end, 5);
    let mut chart = ChartBuilder::on(&area)
        .margin(10)
        .margin_right(2 * MARGIN)
        .x_label_area_size(34)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(axis, rows..0.0)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .x_desc("Sets")
        .label_style((FONT, 12))
        .light_line_style(WHITE);
    mesh.draw().map_err(failed)?;
    for (row, step) in steps.iter().enumerate() {
        let (top, middle) = (row as f64, row as f64 + 0.5);
        let mut draw = |body: [(f64, f64); 2], colour: RGBColor| {
            let drawn = chart.draw_series([Rectangle::new(body, colour.filled())]);
            drawn.map(drop).map_err(failed)
        };
        let sets = step.sets as f64;
        draw([(0.0, middle - 0.25), (sets, middle + 0.25)], colour(step))?;
        if step.wait_before_ns > 0 {
            draw([(0.0, top + 0.02), (end, top + 0.1)], WAIT)?;
        }
        let (x, y) = chart.backend_coord(&(sets, middle));
        write(root, &figures(step), SMALL, (x + 5, y - 6))?;
        let words = words(step);
        let first = y - 7 * words.len() as i32;
        for (line, words) in (0..).zip(&words) {
            write(root, words, SMALL, (MARGIN as i32, first + 14 * line))?;
        }
    }
    Ok(())
}

/// Returns the end of the axis, with space for the figures beside every bar.
fn axis_end(steps: &[TransitionStep]) -> f64 {
    let room = f64::from(WIDTH - NAMES - 3 * MARGIN);
    let ends = steps.iter().map(|step| {
        let beside = f64::from(width(&figures(step), SMALL) + 10).min(room / 2.0);
        step.sets as f64 * room / (room - beside)
    });
    ends.fold(1.0, f64::max)
}

const fn colour(step: &TransitionStep) -> RGBColor {
    match step {
        TransitionStep { entries: 0, .. } => OTHER,
        TransitionStep { dropped: 0, .. } => CHANGE,
        TransitionStep { .. } => DROP,
    }
}

/// Returns the words of a step, in at most two lines, and the wait before it.
fn words(step: &TransitionStep) -> Vec<String> {
    let room = NAMES - MARGIN;
    let mut lines = wrap(&format!("{}. {}", step.step, step.what), SMALL, room, 2);
    if step.wait_before_ns > 0 {
        let wait = step.wait_before_ns as f64 / 1e9;
        let wait = format!("after {wait:.2} s, until packets in flight are gone");
        lines.push(fit(&wait, SMALL, room));
    }
    lines
}

fn figures(step: &TransitionStep) -> String {
    let sets = count(step.sets, "Set");
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

#[cfg(test)]
mod tests {
    use selvedge_experiment::misfits::misfits;

    use super::*;

    fn step(what: &str, sets: u64, wait_before_ns: u64) -> TransitionStep {
        TransitionStep {
            step: 12,
            what: what.to_owned(),
            wait_before_ns,
            sets,
            entries: sets * 64,
            dropped: sets / 2,
            switches: 128,
        }
    }

    /// Draws the long step names of a random graph, the few Sets of a tree, and a step without Sets.
    #[test]
    fn every_label_is_in_the_picture() {
        let long =
            "switches that forward to LIDs of other switches drop entries for packets that could wait for each other";
        for sets in [0, 1, 3, 1_234_567] {
            let transition = Transition {
                parts: 1,
                fabric: "random:switches=128,degree=4,hosts=2,seed=1,and-more-options=that-make-it-long".to_owned(),
                from: "updn".to_owned(),
                to: "a-plan-from-a-file-with-a-long-name".to_owned(),
                lanes_from: 1,
                lanes_to: 1,
                ok: true,
                passage: "proved".to_owned(),
                why: Vec::new(),
                wait_ns: 0,
                steps: vec![
                    step(long, sets, 0),
                    step("drop", sets / 3, 1_500_000_000),
                    step(long, 0, 1),
                ],
            };
            let verdict = format!("from {} to {}: proved; {long}; {long}", transition.from, transition.to);
            let svg = svg(&transition, &verdict).unwrap();
            assert_eq!(misfits(&svg), [] as [&str; 0], "{sets}");
            assert!(svg.contains("until packets in flight are gone"));
        }
    }
}
