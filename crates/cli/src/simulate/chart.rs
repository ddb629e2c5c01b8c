//! Pictures of one simulation: load and drops over time, and the use of every switch port.

mod goodput;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use selvedge_dataplane::{LinkUse, Results};
use selvedge_experiment::axis::{Axis, fit, width};

use crate::exit::CliError;
use crate::out::thousands;

pub use self::goodput::goodput;

const WIDTH: u32 = 1_120;
const HEAD: u32 = 62;
const FONT: &str = "sans-serif";
/// Height of the panel with loads; that of the panel with drops follows.
const LOADS: u32 = 320;
const DROPS: u32 = 150;
/// Largest number of texts of changes that are written: more would overlap.
const TEXTS_MAX: usize = 12;
/// Colours that people with any colour vision can distinguish. Source: Okabe and Ito 2008.
const BLUE: RGBColor = RGBColor(0, 114, 178);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const RED: RGBColor = RGBColor(213, 94, 0);
/// Number of letters to which names of switches are cut.
const NAME_MAX: usize = 22;
/// Space right of the panels, for half of a tick's label.
const RIGHT: u32 = 40;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// Draws offered load, accepted load and drops over time. Changes are named at their time.
pub fn timeline(title: &str, changes: &[String], results: &Results) -> Result<String, CliError> {
    let series = &results.series;
    let us = |step: usize| (step as u64 * series.step_ns) as f64 / 1e3;
    let end = us(series.accepted_load.len().max(1));
    let warmup = results.settings.warmup_ns as f64 / 1e3;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (WIDTH, HEAD + LOADS + DROPS)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let steady = series
            .steady_from_ns
            .map_or("never".to_owned(), |ns| format!("from {:.1} µs on", ns as f64 / 1e3));
        let below = format!(
            "measured: offered {:.4}, accepted {:.4}; steady {steady}; grey: warm-up; a step: {} µs",
            results.offered_load,
            results.accepted_load,
            series.step_ns as f64 / 1e3
        );
        head(&root, title, &below)?;
        legend(
            &root,
            &[
                ("offered load", ORANGE),
                ("accepted load", BLUE),
                ("dropped packets", RED),
            ],
        )?;
        let loads = series.accepted_load.iter().chain(&series.offered_load);
        let top = loads.copied().fold(0.0, f64::max).max(0.01) * 1.1;
        let area = root.clone().shrink((0, HEAD), (WIDTH, LOADS));
        let (across, up) = (Axis::new(0.0, end, 10), Axis::new(0.0, top, 8));
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .margin_right(RIGHT)
            .x_label_area_size(30)
            .y_label_area_size(70)
            .build_cartesian_2d(across, up)
            .map_err(failed)?;
        let grey = RGBColor(232, 232, 232).filled();
        let before = Rectangle::new([(0.0, 0.0), (warmup.min(end), top)], grey);
        chart.draw_series([before]).map_err(failed)?;
        mesh(&mut chart, ("", "load"))?;
        for (values, colour) in [(&series.offered_load, ORANGE), (&series.accepted_load, BLUE)] {
            let points = values.iter().enumerate().map(|(step, &load)| (us(step), load));
            let line = PathElement::new(points.collect::<Vec<_>>(), colour.stroke_width(2));
            chart.draw_series([line]).map_err(failed)?;
        }
        name_changes(&root, &mut chart, changes, top)?;
        let most = series.dropped.iter().copied().max().unwrap_or(0).max(1) as f64 * 1.1;
        let area = root.clone().shrink((0, HEAD + LOADS), (WIDTH, DROPS));
        let up = Axis::whole(0.0, most, 3);
        let mut chart = ChartBuilder::on(&area)
            .margin(10)
            .margin_right(RIGHT)
            .x_label_area_size(34)
            .y_label_area_size(70)
            .build_cartesian_2d(across, up)
            .map_err(failed)?;
        mesh(&mut chart, ("µs", "drops a step"))?;
        let bars = series.dropped.iter().enumerate().filter(|(_, drops)| **drops > 0);
        let bar = |(step, &drops)| Rectangle::new([(us(step), 0.0), (us(step + 1), drops as f64)], RED.filled());
        chart.draw_series(bars.map(bar)).map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(text)
}

/// Draws a line at the time of each change, with its description.
fn name_changes(root: &Area<'_>, chart: &mut Chart<'_, '_>, changes: &[String], top: f64) -> Result<(), CliError> {
    for (number, change) in changes.iter().enumerate() {
        let Some((time, what)) = change.trim().split_once(' ') else {
            continue;
        };
        let at = crate::simulate::time_ns(time).unwrap_or(0) as f64 / 1e3;
        let line = PathElement::new(vec![(at, 0.0), (at, top)], BLACK.stroke_width(1));
        chart.draw_series([line]).map_err(failed)?;
        if number < TEXTS_MAX {
            let (x, y) = chart.backend_coord(&(at, top));
            let style = (FONT, 11).into_text_style(root);
            let row = 14 * (number % 4) as i32;
            let what = fit(what, 11, (WIDTH - 4).saturating_sub(x.unsigned_abs() + 3));
            root.draw_text(&what, &style, (x + 3, y + 2 + row)).map_err(failed)?;
        }
    }
    Ok(())
}

fn mesh(chart: &mut Chart<'_, '_>, (x, y): (&str, &str)) -> Result<(), CliError> {
    let mut mesh = chart.configure_mesh();
    if !x.is_empty() {
        mesh.x_desc(x);
    }
    mesh.disable_x_mesh()
        .y_desc(y)
        .label_style((FONT, 12))
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.15))
        .draw()
        .map_err(failed)
}

/// A row of cells for each switch.
struct Row<'a> {
    name: &'a str,
    /// Port number, share of use, share of waiting.
    cells: Vec<(u8, f64, f64)>,
}

/// Returns a picture of the use of every port of every switch, and of its waits for credits.
pub fn heatmap(title: &str, links: &[LinkUse]) -> Result<String, CliError> {
    let rows = rows(links);
    let ports = rows
        .iter()
        .flat_map(|row| &row.cells)
        .map(|cell| cell.0)
        .max()
        .unwrap_or(1);
    // Cells are as high as names, unless the picture would be too large.
    let cell = (1_600 / rows.len().max(1) as u32).clamp(2, 14);
    let names = if cell >= 10 { 150 } else { 30 };
    let wide = (((WIDTH - 40) / 2 - names) / u32::from(ports)).clamp(2, 22);
    // A switch with very many ports needs a wider picture: at least two pixels for each port.
    let across = ((WIDTH - 40) / 2).max(names + wide * u32::from(ports) + 20);
    let height = HEAD + 54 + cell * rows.len() as u32 + 40;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, (2 * across + 40, height)).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let below = format!(
            "{} switches, a row each, and their ports with links; shares of the measured time",
            thousands(rows.len() as u64)
        );
        head(&root, title, &below)?;
        for (panel, what) in [(0, "sending"), (1, "something to send, no credits")] {
            let left = 20 + (across * panel) as i32;
            let style = (FONT, 14).into_text_style(&root);
            root.draw_text(what, &style, (left + names as i32, HEAD as i32))
                .map_err(failed)?;
            scale(&root, (left + names as i32, HEAD as i32 + 20))?;
            for (number, row) in rows.iter().enumerate() {
                let top = (HEAD + 54 + cell * number as u32) as i32;
                if cell >= 10 {
                    let style = (FONT, 11).into_text_style(&root);
                    let style = style.pos(Pos::new(HPos::Right, VPos::Top));
                    root.draw_text(row.name, &style, (left + names as i32 - 6, top))
                        .map_err(failed)?;
                }
                for &(port, used, waited) in &row.cells {
                    let x = left + (names + wide * u32::from(port - 1)) as i32;
                    let share = if panel == 0 { used } else { waited };
                    let corners = [(x, top), (x + wide as i32, top + cell as i32)];
                    root.draw(&Rectangle::new(corners, shade(share).filled()))
                        .map_err(failed)?;
                }
            }
            let bottom = (HEAD + 54 + cell * rows.len() as u32) as i32;
            number_ports(&root, (left + names as i32, bottom), wide, ports)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

/// Draws port numbers below their columns, as many as fit, and the axis title.
fn number_ports(root: &Area<'_>, (left, bottom): (i32, i32), wide: u32, ports: u8) -> Result<(), CliError> {
    let room = width(&ports.to_string(), 11) + 6;
    let apart = [1, 2, 5, 10, 20, 50, 100]
        .into_iter()
        .find(|apart| apart * wide >= room);
    let apart = apart.unwrap_or(u32::from(ports));
    let style = (FONT, 11).into_text_style(root);
    let style = style.pos(Pos::new(HPos::Center, VPos::Top));
    let is_numbered = |port: &u32| port.is_multiple_of(apart) || *port == 1 && apart > 2;
    for port in (1..=u32::from(ports)).filter(is_numbered) {
        let middle = left + (wide * port - wide / 2) as i32;
        root.draw_text(&port.to_string(), &style, (middle, bottom + 4))
            .map_err(failed)?;
    }
    let style = (FONT, 12).into_text_style(root);
    let what = format!("port, 1 to {ports}");
    root.draw_text(&what, &style, (left, bottom + 19)).map_err(failed)
}

/// Returns a row of ports for each node with more than one link, in the order of the results.
fn rows(links: &[LinkUse]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for link in links {
        let Some((name, port)) = link.port.strip_suffix(']').and_then(|text| text.rsplit_once('[')) else {
            continue;
        };
        let Ok(port @ 1..) = port.parse() else { continue };
        let cut = name.trim_matches('"');
        let cut = cut.char_indices().nth(NAME_MAX).map_or(cut, |(end, _)| &cut[..end]);
        let cell = (port, link.utilisation, link.wait);
        match rows.last_mut() {
            Some(row) if row.name == cut => row.cells.push(cell),
            _ => rows.push(Row {
                name: cut,
                cells: vec![cell],
            }),
        }
    }
    rows.retain(|row| row.cells.len() > 1);
    rows
}

/// Returns a colour from white over orange to dark red, which stay distinct in grey.
fn shade(share: f64) -> RGBColor {
    const STOPS: [(f64, f64, f64); 4] = [
        (244.0, 246.0, 248.0),
        (253.0, 204.0, 120.0),
        (227.0, 90.0, 40.0),
        (90.0, 0.0, 30.0),
    ];
    let at = share.clamp(0.0, 1.0) * 3.0;
    let from = (at as usize).min(2);
    let part = at - from as f64;
    let mix = |a: f64, b: f64| (a + (b - a) * part).round() as u8;
    let (a, b) = (STOPS[from], STOPS[from + 1]);
    RGBColor(mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// Draws the legend of the colours.
fn scale(root: &Area<'_>, (x, y): (i32, i32)) -> Result<(), CliError> {
    for step in 0..100 {
        let left = x + step * 2;
        let corners = [(left, y), (left + 2, y + 8)];
        root.draw(&Rectangle::new(corners, shade(f64::from(step) / 99.0).filled()))
            .map_err(failed)?;
    }
    for (share, text) in [(0, "0"), (100, "0.5"), (200, "1")] {
        let style = (FONT, 11).into_text_style(root);
        let style = style.pos(Pos::new(HPos::Center, VPos::Top));
        root.draw_text(text, &style, (x + share, y + 12)).map_err(failed)?;
    }
    Ok(())
}

fn head(root: &Area<'_>, title: &str, below: &str) -> Result<(), CliError> {
    let style = (FONT, 17).into_text_style(root);
    let room = WIDTH - 40;
    root.draw_text(&fit(title, 17, room), &style, (20, 10))
        .map_err(failed)?;
    let grey = BLACK.mix(0.7);
    let style = (FONT, 12).into_text_style(root).color(&grey);
    root.draw_text(&fit(below, 12, room), &style, (20, 36)).map_err(failed)
}

fn legend(root: &Area<'_>, entries: &[(&str, RGBColor)]) -> Result<(), CliError> {
    let mut left = WIDTH as i32 - 150 * entries.len() as i32;
    for (name, colour) in entries {
        root.draw(&Rectangle::new([(left, 40), (left + 14, 52)], colour.filled()))
            .map_err(failed)?;
        let style = (FONT, 13).into_text_style(root);
        root.draw_text(name, &style, (left + 20, 39)).map_err(failed)?;
        left += 150;
    }
    Ok(())
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

    fn link(port: &str, utilisation: f64) -> LinkUse {
        LinkUse {
            port: port.to_owned(),
            utilisation,
            wait: 0.25,
            lanes: vec![utilisation],
            counters: selvedge_dataplane::PortCounters::default(),
        }
    }

    #[test]
    fn every_switch_port_is_a_cell_of_two_panels() {
        let links = [
            link("\"leaf 1\"[1]", 0.0),
            link("\"leaf 1\"[3]", 1.0),
            link("\"spine\"[1]", 0.5),
            link("\"spine\"[2]", 0.5),
            link("\"host\"[1]", 0.5),
        ];
        let text = heatmap("a test", &links).unwrap();
        let scales = 2 * 100 + 1;
        assert_eq!(text.matches("<rect").count(), scales + 2 * 4);
        for (word, is_there) in [
            ("leaf 1", true),
            ("spine", true),
            (">\nhost", false),
            ("port, 1 to 3", true),
        ] {
            assert_eq!(text.contains(word), is_there, "{word}");
        }
    }

    /// Draws switches of 4, 36, 64 and 254 ports, with as many numbers as fit.
    #[test]
    fn ports_are_numbered() {
        for (ports, want) in [
            (4, &["1", "2", "3", "4"][..]),
            (36, &["2", "4", "36"][..]),
            (64, &["1", "5", "60"][..]),
            (254, &["1", "20", "240"][..]),
        ] {
            let names =
                (1..=ports).map(|port| format!("\"a switch with a name that is too long to be shown\"[{port}]"));
            let links: Vec<LinkUse> = names.map(|name| link(&name, 0.5)).collect();
            let text = heatmap("a title that is long".repeat(20).as_str(), &links).unwrap();
            assert_eq!(misfits(&text), [] as [&str; 0], "{ports}");
            for number in want {
                assert!(text.contains(&format!("\n{number}\n")), "{number} of {ports}");
            }
        }
    }

    #[test]
    fn shares_have_their_own_shades() {
        let check = |share, want: (u8, u8, u8)| assert_eq!(shade(share), RGBColor(want.0, want.1, want.2), "{share}");
        check(0.0, (244, 246, 248));
        check(1.0, (90, 0, 30));
        check(7.0, (90, 0, 30));
        check(1.0 / 3.0, (253, 204, 120));
    }
}
