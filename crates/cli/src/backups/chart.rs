//! Backups as a picture: what each fault costs in SMPs and load; and how performance falls fault by fault.

use plotters::coord::Shift;
use plotters::prelude::*;
use selvedge_api::{Backup, Backups, InPlace};
use selvedge_experiment::axis::{self, Axis, fit, width};

use crate::exit::CliError;
use crate::out::count;

const WIDTH: u32 = 960;
const HEAD: u32 = 60;
const PANEL: u32 = 340;
const FONT: &str = "sans-serif";
/// The colours of links, of switches, and of faults that part hosts or leave no plan. Source: Okabe and Ito 2008.
const LINK: RGBColor = RGBColor(0, 114, 178);
const SWITCH: RGBColor = RGBColor(230, 159, 0);
const WEAK: RGBColor = RGBColor(213, 94, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns the picture as SVG.
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
    let title = fit(&title, 18, WIDTH - 40);
    root.draw_text(&title, &style, (20, 10)).map_err(failed)?;
    let legend = [
        (LINK, "a link is lost"),
        (SWITCH, "a switch is lost"),
        (WEAK, "and hosts are cut off from each other, or no plan is found"),
    ];
    let mut left = 24;
    for (colour, words) in legend {
        root.draw(&Circle::new((left, 44), 5, colour.filled()))
            .map_err(failed)?;
        let style = (FONT, 13).into_text_style(root);
        root.draw_text(words, &style, (left + 12, 37)).map_err(failed)?;
        left += 40 + width(words, 13) as i32;
    }
    Ok(())
}

fn is_weak(fault: &Backup) -> bool {
    fault.pairs_cut.max(fault.pairs_lost) > 0 || fault.refused.is_some() || !fault.deadlock_free
}

/// Draws one point per fault: SMPs to the right, busiest link upwards.
fn faults(area: &Area<'_>, of: &Backups) -> Result<(), CliError> {
    let most = |value: &dyn Fn(&Backup) -> u64| of.faults.iter().map(value).max().unwrap_or(0).max(1) as f64;
    let across = Axis::whole(0.0, most(&|fault| fault.blocks) * 1.05, 10);
    let up = Axis::whole(0.0, most(&|fault| fault.max_load).max(of.max_load as f64) * 1.05, 8);
    let mut chart = ChartBuilder::on(area)
        .caption(
            "What a fault costs; grey line: the busiest link of the whole fabric",
            (FONT, 15),
        )
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(across, up)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("LFT blocks that change, a Set each")
        .y_desc("host pairs on the busiest link afterwards")
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

/// Returns the title of the vertical axis.
fn measured(of: &InPlace) -> String {
    let words = match &of.measure[..] {
        "load" => "1 ÷ busiest link's load".to_owned(),
        name => axis::title(name),
    };
    fit(&format!("{words}, share of whole"), 12, PANEL - 60)
}

/// Draws one line per random order: lost links to the right, performance upwards.
fn steps(area: &Area<'_>, of: &InPlace) -> Result<(), CliError> {
    let points = || of.runs.iter().flat_map(|run| &run.steps);
    let most = points().map(|step| step.0).max().unwrap_or(1).max(1) as f64;
    let high = points().map(|step| step.1).fold(1.0, f64::max) * 1.03;
    let title = format!(
        "Links lost one after another; blue: {}; orange: {} of the whole fabric's, where a fabric counts as down",
        count(of.runs.len() as u64, "random order"),
        of.below
    );
    let (across, up) = (Axis::whole(0.0, most * 1.02, 10), Axis::new(0.0, high, 6));
    let mut chart = ChartBuilder::on(area)
        .caption(fit(&title, 15, WIDTH - 40), (FONT, 15))
        .margin(12)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(across, up)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("lost links")
        .y_desc(measured(of))
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

#[cfg(test)]
mod tests {
    use selvedge_api::InPlaceRun;
    use selvedge_experiment::misfits::misfits;

    use super::*;

    /// Returns faults with these numbers of changed LFT blocks and these loads.
    fn backups(blocks: &[u64], loads: &[u64]) -> Backups {
        let fault = |(&blocks, &max_load): (&u64, &u64)| Backup {
            kind: "link".to_owned(),
            blocks,
            max_load,
            deadlock_free: true,
            ..Backup::default()
        };
        Backups {
            fabric: "ring:switches=128,hosts=2,and-options-that-make-its-name-long=1,seed=123456789".to_owned(),
            engine: "updn".to_owned(),
            vls: None,
            switches: 128,
            host_ports: 256,
            hosts_with_one_link: 256,
            switch_links: 128,
            faults_there_are: blocks.len() as u64,
            max_load: loads[0],
            parts: 1,
            pairs_apart: 0,
            ok: true,
            faults: blocks.iter().zip(loads).map(fault).collect(),
            in_place: Some(InPlace {
                measure: "effective bisection bandwidth".to_owned(),
                below: 0.98,
                runs: vec![InPlaceRun {
                    steps: vec![(0, 1.0), (1, 0.99), (3, 0.975)],
                    ..InPlaceRun::default()
                }],
                mean: 2.0,
                percentile_10: 1,
                median: 2,
                percentile_90: 3,
            }),
        }
    }

    /// Draws a ring that loses at most three blocks, and axes with small and large ranges.
    #[test]
    fn every_label_is_in_the_picture_and_differs_from_the_next() {
        for (blocks, loads) in [
            (&[0, 1, 2, 3][..], &[8, 9, 10, 12][..]),
            (&[0][..], &[1][..]),
            (&[1, 1][..], &[1, 1][..]),
            (&[17, 123_456][..], &[1_000_000, 1_000_001][..]),
        ] {
            let svg = svg(&backups(blocks, loads)).unwrap();
            assert_eq!(misfits(&svg), [] as [&str; 0], "{blocks:?} {loads:?}");
        }
    }

    #[test]
    fn every_line_is_explained_and_axes_begin_at_0() {
        for (measure, want) in [("ebb", "effective bisection bandwidth"), ("load", "busiest link")] {
            let mut found = backups(&[1, 2], &[9, 10]);
            found.in_place.as_mut().unwrap().measure = measure.to_owned();
            let svg = svg(&found).unwrap();
            for words in [want, "grey line:", "blue: 1 random order;", "orange: 0.98", "\n0.0\n"] {
                assert!(svg.contains(words), "{words}");
            }
            assert_eq!(misfits(&svg), [] as [&str; 0], "{measure}");
        }
    }
}
