//! The model's answers as bars: a panel per question, a bar per manager, a piece per stage.

use plotters::coord::Shift;
use plotters::prelude::*;
use selvedge_api::{Model, ModelAnswer};
use selvedge_experiment::axis::{Axis, fit, width};

use crate::exit::CliError;
use crate::model::figure;
use crate::out::count;

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
/// Size of the bars' names and figures.
const SIZE: u32 = 13;
/// Space left of the names, and right of the last tick's middle.
const SIDE: u32 = 10;
const RIGHT: u32 = 40;
/// If bars differ by more than this factor, the axis has powers of ten: on a linear axis, short bars would be
/// invisible.
const LINEAR_MAX: f64 = 20.0;
/// Stages and their colours, which people with any colour vision can distinguish. Source: Okabe and Ito 2008.
const STAGES: [(&str, &[&str], RGBColor); 4] = [
    ("reading", &["trap", "discover", "probe ports"], RGBColor(0, 114, 178)),
    ("computing", &["compute"], RGBColor(120, 120, 120)),
    (
        "writing LIDs, tables, settings",
        &["LIDs", "tables", "configure"],
        RGBColor(230, 159, 0),
    ),
    ("to ARMED, to ACTIVE", &["arm", "activate"], RGBColor(0, 158, 115)),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns the picture as SVG.
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
    root.draw_text(&fit(&title, 18, WIDTH - 40), &style, (20, 10))
        .map_err(failed)?;
    let grey = BLACK.mix(0.7);
    let style = (FONT, 13).into_text_style(root).color(&grey);
    root.draw_text(&fit(&below, 13, WIDTH - 40), &style, (20, 36))
        .map_err(failed)?;
    let mut left = 20;
    for (name, _, colour) in STAGES {
        let top = HEAD as i32 + 4;
        root.draw(&Rectangle::new([(left, top), (left + 12, top + 12)], colour.filled()))
            .map_err(failed)?;
        let style = (FONT, 13).into_text_style(root);
        root.draw_text(name, &style, (left + 18, top - 1)).map_err(failed)?;
        left += 40 + width(name, 13) as i32;
    }
    Ok(())
}

/// The scale of the bars.
struct Scale {
    /// True if the axis has powers of ten.
    is_log: bool,
    low: f64,
    high: f64,
}

impl Scale {
    /// Returns a scale with space beside each bar for its figures.
    fn of(answers: &[&ModelAnswer]) -> Self {
        let times = || answers.iter().map(|answer| answer.time_ms.max(1e-6));
        let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
        let is_log = most > least * LINEAR_MAX;
        let mut scale = Self {
            is_log,
            // A bar that ends at the start of the axis would be invisible.
            low: if is_log { (least.log10() - 0.3).floor() } else { 0.0 },
            high: 0.0,
        };
        let room = f64::from(WIDTH - NAMES - 2 * SIDE - RIGHT);
        let ends = answers.iter().map(|answer| {
            let beside = f64::from(width(&figures(answer), SIZE) + 10).min(room / 2.0);
            scale.length(answer.time_ms) * room / (room - beside)
        });
        scale.high = scale.low + ends.fold(1e-6, f64::max);
        scale
    }

    /// Returns the length of the bar of a time, in axis units.
    fn length(&self, ms: f64) -> f64 {
        match self.is_log {
            true => ms.max(1e-6).log10() - self.low,
            false => ms,
        }
    }
}

fn panel(area: &Area<'_>, question: &str, answers: &[&ModelAnswer]) -> Result<(), CliError> {
    let scale = Scale::of(answers);
    let (axis, how) = match scale.is_log {
        true => (
            Axis::powers(scale.low, scale.high, 8),
            " (powers of ten; colours: shares of the time)",
        ),
        false => (Axis::new(scale.low, scale.high, 8), ""),
    };
    let rows = answers.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{question}, ms{how}"), (FONT, 15))
        .margin(SIDE)
        .margin_right(RIGHT)
        .x_label_area_size(24)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(axis, rows..0.0)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .label_style((FONT, 12))
        .light_line_style(WHITE);
    mesh.draw().map_err(failed)?;
    for (row, answer) in answers.iter().enumerate() {
        let middle = row as f64 + 0.5;
        let length = scale.length(answer.time_ms);
        let mut from = 0.0;
        for (_, stages, colour) in STAGES {
            let in_piece = answer.stages.iter().filter(|s| stages.contains(&s.stage.as_str()));
            let to = from + in_piece.map(|s| s.time_ms).sum::<f64>();
            let at = |ms: f64| scale.low + length * ms / answer.time_ms.max(1e-6);
            let body = [(at(from), middle - 0.32), (at(to), middle + 0.32)];
            let piece = chart.draw_series([Rectangle::new(body, colour.filled())]);
            piece.map_err(failed)?;
            from = to;
        }
        let (base_x, base_y) = area.get_base_pixel();
        let write = |words: &str, (x, y): (i32, i32)| {
            let style = (FONT, SIZE).into_text_style(area);
            area.draw_text(words, &style, (x - base_x, y - base_y - 7))
        };
        let (x, y) = chart.backend_coord(&(scale.low + length, middle));
        write(&figures(answer), (x + 5, y)).map_err(failed)?;
        let (left, y) = chart.backend_coord(&(scale.low, middle));
        let name = fit(&name(answer), SIZE, NAMES - SIDE);
        write(&name, (left - NAMES as i32, y)).map_err(failed)?;
    }
    Ok(())
}

fn figures(answer: &ModelAnswer) -> String {
    format!("{} ms, {}", figure(answer.time_ms), count(answer.mads, "MAD"))
}

fn name(answer: &ModelAnswer) -> String {
    let by = answer
        .recovery
        .as_deref()
        .map(|by| format!(", {by}"))
        .unwrap_or_default();
    format!("{}{by}, window {}", answer.manager, answer.window)
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Chart {
        cause: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use selvedge_api::ModelStage;
    use selvedge_experiment::misfits::misfits;

    use super::*;

    fn answer(question: &str, manager: &str, stages: &[(&str, f64)]) -> ModelAnswer {
        ModelAnswer {
            question: question.to_owned(),
            manager: manager.to_owned(),
            recovery: Some("a recovery with a long name".to_owned()),
            lost: None,
            window: 32,
            time_ms: stages.iter().map(|(_, ms)| ms).sum(),
            mads: 1_234_567,
            overruns: 0,
            repeats: 0,
            stages: stages
                .iter()
                .map(|(stage, time_ms)| ModelStage {
                    stage: (*stage).to_owned(),
                    time_ms: *time_ms,
                })
                .collect(),
            counts: Vec::new(),
        }
    }

    fn model(answers: Vec<ModelAnswer>) -> Model {
        Model {
            fabric: "random:switches=128,degree=4,hosts=2,seed=1".to_owned(),
            seat: "\"H-0\"[1]".to_owned(),
            switches: 128,
            hosts: 256,
            lids: 384,
            lids_fit: true,
            lft_blocks: 7,
            mad_us: 20.0,
            link_ns: 100,
            relay_ns: 500,
            lost_ppm: 0,
            answers,
        }
    }

    /// Returns the widths of the bars' pieces, without paper and legend.
    fn widths(svg: &str) -> Vec<i32> {
        let value = |line: &str, name: &str| line.split_once(name)?.1.split('"').next()?.parse::<i32>().ok();
        let rects = svg.lines().filter(|line| line.starts_with("<rect"));
        rects
            .skip(1 + STAGES.len())
            .filter_map(|line| value(line, " width=\""))
            .collect()
    }

    #[test]
    fn a_short_bar_is_seen_beside_a_long_one() {
        let stages = [("discover", 4.0), ("compute", 8.0), ("tables", 4.0)];
        let long = stages.map(|(stage, ms)| (stage, ms * 2_000.0));
        let answers = vec![
            answer("link fault", "selvedge", &stages),
            answer("link fault", "OpenSM", &long),
        ];
        let svg = svg(&model(answers)).unwrap();
        assert_eq!(misfits(&svg), [] as [&str; 0]);
        assert!(svg.contains("powers of ten"));
        let widths = widths(&svg);
        let (short, long) = widths.split_at(STAGES.len());
        assert!(short.iter().sum::<i32>() > 30, "{short:?}");
        assert!(long.iter().sum::<i32>() > short.iter().sum(), "{long:?}");
        // The pieces are shares of the time: a quarter for reading, a quarter for writing.
        assert!((short[1] - 2 * short[0]).abs() <= 2, "{short:?}");
    }

    #[test]
    fn bars_alike_stand_on_a_plain_axis() {
        let of = |ms: f64| answer("bring-up", "selvedge", &[("discover", ms)]);
        for times in [[10.0, 150.0], [0.001, 0.002], [1e6, 2e6]] {
            let svg = svg(&model(times.map(of).to_vec())).unwrap();
            assert_eq!(misfits(&svg), [] as [&str; 0], "{times:?}");
            assert!(!svg.contains("powers of ten"), "{times:?}");
        }
        let svg = svg(&model(vec![of(0.0), of(1e7)])).unwrap();
        assert_eq!(misfits(&svg), [] as [&str; 0]);
    }
}
