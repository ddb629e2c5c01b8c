//! Fail-over as a picture: a row per manager and kind, a point per fault, powers of ten along the axis.

use plotters::prelude::*;

use crate::chart::{OURS, PEERS, failed};
use crate::error::BenchError;
use crate::failover::table::{Group, group_of, groups};
use crate::failover::{Carrier, Row, Who};

const WIDTH: u32 = 960;
const ROW: u32 = 26;
const FRAME: u32 = 84;
/// Room for the names of the rows.
const NAMES: u32 = 260;

/// The picture as SVG: a panel per fabric.
pub fn svg(rows: &[Row]) -> Result<String, BenchError> {
    let mut specs: Vec<&str> = rows.iter().map(|row| &row.spec[..]).collect();
    specs.dedup();
    let all = groups(rows);
    let of = |spec: &str| all.iter().copied().filter(|group| group.0 == spec).collect::<Vec<_>>();
    let panels: Vec<_> = specs.iter().map(|&spec| (spec, of(spec))).collect();
    let height = |groups: usize| FRAME + ROW * groups as u32;
    let mut text = String::new();
    {
        let size = (WIDTH, panels.iter().map(|(_, groups)| height(groups.len())).sum());
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let mut top = 0;
        for (spec, groups) in &panels {
            let here = height(groups.len());
            panel(&root.clone().shrink((0, top), (WIDTH, here)), rows, spec, groups)?;
            top += here;
        }
        root.present().map_err(failed)?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn panel(area: &Area<'_>, rows: &[Row], spec: &str, groups: &[Group<'_>]) -> Result<(), BenchError> {
    let of_spec = || rows.iter().filter(|row| row.spec == spec);
    let hosts = of_spec().next().map_or(0, |row| row.hosts);
    let times = of_spec().flat_map(|row| [row.total_us, row.floor_us]).flatten();
    let (least, most) = times.fold((f64::INFINITY, 0.0_f64), |(least, most), us| {
        (least.min(us / 1e3), most.max(us / 1e3))
    });
    if least > most {
        return Ok(());
    }
    let title = format!("{hosts} hosts ({spec}): trap to last change of an entry, ms; a point per fault, | floor");
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .margin_right(30)
        .x_label_area_size(28)
        .y_label_area_size(NAMES)
        .build_cartesian_2d((least * 0.7..most * 1.4).log_scale(), groups.len() as f64..0.0)
        .map_err(failed)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .disable_y_axis()
        .x_label_formatter(&|ms| format!("{ms}"))
        .light_line_style(WHITE);
    mesh.draw().map_err(failed)?;
    for (line, &group) in groups.iter().enumerate() {
        let (_, carrier, who, kind) = group;
        let middle = line as f64 + 0.5;
        let colour = if *who == Who::Selvedge { OURS } else { PEERS };
        let here = || of_spec().filter(move |row| group_of(row) == group);
        let points = here().filter_map(|row| Some((row.total_us? / 1e3, middle)));
        let dots = points.map(|at| Circle::new(at, 4, colour.filled()));
        chart.draw_series(dots).map_err(failed)?;
        let floors = here().filter_map(|row| row.floor_us).map(|us| us / 1e3);
        let ticks = floors.map(|ms| PathElement::new(vec![(ms, middle - 0.3), (ms, middle + 0.3)], BLACK));
        chart.draw_series(ticks).map_err(failed)?;
        let (left, y) = chart.backend_coord(&(least * 0.7, middle));
        let place = (left - NAMES as i32, y - area.get_base_pixel().1 - 7);
        let name = match carrier {
            Carrier::Ibsim => format!("{kind}: {}", who.label()),
            Carrier::Emulator { service_us } => format!("{kind}: {}, virtual, {service_us} µs an SMP", who.label()),
        };
        area.draw_text(&name, &("sans-serif", 13).into_text_style(area), place)
            .map_err(failed)?;
    }
    Ok(())
}
