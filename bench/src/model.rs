//! The analytic model compared with measurements: the paper's figures 4 to 9, predicted and measured times, and the
//! time that the model takes.
//!
//! The emulator runs in virtual time: those figures are the same on every machine. ibsim runs in real time.

mod accuracy;
mod picture;
mod serial;
mod test_bed;

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use selvedge_model::{Cost, Fault, Manager, Shape, Wires, bring_up, link_fault, switch_fault};
use selvedge_topology::Spec;

use crate::error::BenchError;
use crate::stats::Spread;

pub use accuracy::Point;
pub use test_bed::Row;

/// 27,648 hosts; 46,656 on so few switches that their LIDs fit into one subnet.
const LARGE: [&str; 2] = ["mport:m=48,n=3", "pgft:m=36x36x36,w=1x18x18,p=1x2x2"];
/// Target for the time of an answer, in ms.
const ANSWER_TARGET_MS: f64 = 100.0;
/// Target for the error of a predicted time.
const ERROR_TARGET: f64 = 0.05;

/// All results.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Figures 4 to 9.
    pub test_bed: Vec<Row>,
    /// Service time that was calibrated on (8, 1), in µs.
    pub service_us: f64,
    /// Predicted and measured times.
    pub points: Vec<Point>,
    /// Fabric, hosts, and how long it took to answer everything, in ms.
    pub answers: Vec<(String, u64, Spread)>,
}

/// Measures everything; with `quick` only small cases.
pub fn measure(quick: bool, repeats: usize) -> Result<Report, BenchError> {
    let (test_bed, service_us) = test_bed::measure(if quick { 1 } else { repeats })?;
    Ok(Report {
        test_bed,
        service_us,
        points: accuracy::measure(quick)?,
        answers: answers(if quick { 1 } else { 11 })?,
    })
}

/// Returns the time from a fabric in memory to every answer about it, for both managers.
fn answers(repeats: usize) -> Result<Vec<(String, u64, Spread)>, BenchError> {
    let mut rows = Vec::new();
    for spec in LARGE {
        let Spec::Generated(recipe) = spec.parse()? else {
            continue;
        };
        let fabric = recipe.fabric()?;
        let mut times = Vec::new();
        for _ in 0..repeats {
            let begin = Instant::now();
            let shape = Shape::from_first_host(&fabric)?;
            for manager in Manager::ALL {
                let cost = Cost::of(manager, Wires::default());
                let up = bring_up(&shape, &cost);
                black_box(link_fault(&shape, &cost, &up, Fault::default()));
                black_box(switch_fault(&shape, &cost, &up, Fault::default()));
            }
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        if let Some(spread) = Spread::of(times) {
            rows.push((spec.to_owned(), fabric.host_count() as u64, spread));
        }
    }
    Ok(rows)
}

impl Report {
    /// Tables for people, in Markdown.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::from("\n## The model\n\n");
        let worst = self.points.iter().map(|p| p.error().abs()).fold(0.0, f64::max);
        let met = |holds| if holds { "met" } else { "missed" };
        let _ = writeln!(
            text,
            "Predicted against measured time of {} bring-ups on the emulator: error {:.2} % at worst (target {:.0} %: \
             {}).\n",
            self.points.len(),
            worst * 100.0,
            ERROR_TARGET * 100.0,
            met(worst <= ERROR_TARGET)
        );
        for (spec, hosts, spread) in &self.answers {
            let _ = writeln!(
                text,
                "{hosts} hosts (`{spec}`) answered in {spread:.1} ms (target {ANSWER_TARGET_MS:.0} ms: {}).\n",
                met(spread.min <= ANSWER_TARGET_MS)
            );
        }
        let _ = writeln!(
            text,
            "Agents on the emulator take {:.1} µs for a MAD, calibrated once: one switch and 8 nodes are discovered in \
             the paper's 10.82 ms.\n",
            self.service_us
        );
        text += &test_bed::tables(&self.test_bed);
        text
    }

    /// Stores tables and pictures in `folder`.
    pub fn store(&self, folder: &Path) -> Result<(), BenchError> {
        let write = |name: &str, text: String| {
            let file = folder.join(name);
            fs::write(&file, text).map_err(BenchError::store("writing", file.display()))
        };
        write("model-figures-4-9.csv", test_bed::csv(&self.test_bed))?;
        write("model-accuracy.csv", accuracy::csv(&self.points))?;
        write("model-figures-4-9.svg", picture::test_bed(&self.test_bed)?)?;
        write("model-accuracy.svg", picture::accuracy(&self.points)?)
    }
}
