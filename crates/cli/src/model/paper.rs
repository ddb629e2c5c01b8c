//! The published model: its two tables beside Selvedge's results, and its figures 10 to 12 as SVG and CSV.

use std::path::Path;

use plotters::prelude::*;
use selvedge_api::{ModelPaper, ModelPaperRow};
use selvedge_model::published::{Times, Tree, Unit, figure_trees};
use selvedge_study::published;

use crate::exit::CliError;
use crate::exit::Exit;
use crate::load;
use crate::out::{Cell, Format, Grid, Out, thousands};

const SIZE: (u32, u32) = (760, 460);
const FONT: &str = "sans-serif";
/// Colours that people with any colour vision can distinguish. Source: Okabe and Ito 2008.
const COLOURS: [RGBColor; 3] = [RGBColor(0, 114, 178), RGBColor(230, 159, 0), RGBColor(0, 158, 115)];

/// One figure of the paper.
struct Figure {
    number: u8,
    title: &'static str,
    value: fn(&Times) -> f64,
}

const FIGURES: [Figure; 3] = [
    Figure {
        number: 10,
        title: "Topology discovery time",
        value: |times| times.discovery,
    },
    Figure {
        number: 11,
        title: "Path computation time",
        value: |times| times.computation,
    },
    Figure {
        number: 12,
        title: "Path distribution time",
        value: |times| times.distribution,
    },
];

/// Writes everything into `folder` and prints the tables.
pub fn run(folder: &Path, format: Format) -> Result<Exit, CliError> {
    let unit = Unit::of_table_1();
    std::fs::create_dir_all(folder).map_err(|cause| CliError::Write {
        path: folder.to_owned(),
        cause,
    })?;
    let write = |name: &str, text: &str| load::write(&folder.join(name), text);
    let rows = published::tables();
    let tables = tables(&rows);
    write("tables-1-2.csv", &tables.csv())?;
    write("figures-10-12.csv", &numbers(&unit).csv())?;
    for figure in &FIGURES {
        write(&format!("figure-{}.svg", figure.number), &svg(figure, &unit)?)?;
    }
    let mut out = Out::new(format);
    match format.json {
        true => out.document(ModelPaper { rows })?,
        false => out.grid(&tables)?,
    }
    out.flush()?;
    Ok(Exit::Good)
}

fn tables(rows: &[ModelPaperRow]) -> Grid {
    let mut grid = Grid::new(&[
        "table",
        "tree",
        "phase",
        "experiment_ms",
        "paper_model_ms",
        "equations_ms",
        "difference_percent",
        "why",
    ]);
    for row in rows {
        grid.row([
            Cell::id(row.table),
            (&row.tree).into(),
            (&row.phase).into(),
            Cell::Real(row.experiment_ms, 2),
            Cell::Real(row.paper_model_ms, 2),
            Cell::Real(row.equations_ms, 2),
            Cell::Real(row.difference_percent, 1),
            (&row.why).into(),
        ]);
    }
    grid
}

fn numbers(unit: &Unit) -> Grid {
    let mut grid = Grid::new(&[
        "ports",
        "levels",
        "end_nodes",
        "switches",
        "gets",
        "sets",
        "lft_sets_timed",
        "t_td_ms",
        "t_pc_ms",
        "t_pd_ms",
    ]);
    for tree in figure_trees() {
        let times = tree.times(unit);
        grid.row([
            tree.m.into(),
            tree.n.into(),
            tree.end_nodes().into(),
            tree.switches().into(),
            tree.gets().into(),
            tree.sets().into(),
            (tree.switches() * tree.lft_sets_per_switch_timed()).into(),
            Cell::Real(times.discovery, 3),
            Cell::Real(times.computation, 3),
            Cell::Real(times.distribution, 3),
        ]);
    }
    grid
}

fn svg(figure: &Figure, unit: &Unit) -> Result<String, CliError> {
    let trees = figure_trees();
    let value = |tree: &Tree| (figure.value)(&tree.times(unit));
    let range = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        low / 1.5..high * 1.5
    };
    let across = range(&mut trees.iter().map(|tree| tree.end_nodes() as f64));
    let up = range(&mut trees.iter().map(value));
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(
                format!("Figure {}: {}, equations as published", figure.number, figure.title),
                (FONT, 17),
            )
            .margin(14)
            .x_label_area_size(44)
            .y_label_area_size(78)
            .build_cartesian_2d(across.log_scale(), up.log_scale())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc("end nodes")
            .y_desc("ms")
            .label_style((FONT, 13))
            .light_line_style(WHITE)
            .bold_line_style(BLACK.mix(0.15))
            .x_label_formatter(&|x| thousands(x.round() as u64))
            .y_label_formatter(&|y| axis(*y))
            .draw()
            .map_err(failed)?;
        // Path computation depends on the number of nodes alone: one line.
        for (ports, colour) in [8, 16, 24].into_iter().zip(COLOURS) {
            let of = trees.iter().filter(|tree| tree.m == ports);
            let points: Vec<(f64, f64)> = of.map(|tree| (tree.end_nodes() as f64, value(tree))).collect();
            let line = chart.draw_series([PathElement::new(points.clone(), colour.stroke_width(2))]);
            line.map_err(failed)?
                .label(format!("{ports}-port switches"))
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            let dots = points.into_iter().map(|at| Circle::new(at, 4, colour.filled()));
            chart.draw_series(dots).map_err(failed)?;
        }
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::UpperLeft).label_font((FONT, 14));
        legend
            .background_style(WHITE)
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(failed)?;
        root.present().map_err(failed)?;
    }
    Ok(text)
}

fn axis(value: f64) -> String {
    if value >= 1.0 {
        thousands(value.round() as u64)
    } else {
        format!("{value}")
    }
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Chart {
        cause: error.to_string(),
    }
}
