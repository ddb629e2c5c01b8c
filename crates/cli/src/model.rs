//! `selvedge model`: predicts the cost of bring-up and faults of a fabric, for Selvedge and OpenSM, without sending a
//! MAD.

mod chart;
mod paper;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use selvedge_api::{Model, ModelAnswer};
use selvedge_emulator::PortName;
use selvedge_model::Wires;
use selvedge_study::NoWatch;
use selvedge_study::model::{QUESTIONS, Question, Requests};

use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{Cell, Format, Grid, Out, count, thousands};

/// Largest accepted delay of a cable or switch: one second.
const NS_MAX: u64 = 1_000_000_000;

/// Predict the cost of bring-up, a lost link and a lost switch: MADs and time, Selvedge's and OpenSM's.
#[derive(Args, Debug)]
pub struct ModelArgs {
    /// The fabric: a generator, as sx6536, or a file
    #[arg(long, value_name = "SPEC", required_unless_present = "paper")]
    fabric: Option<String>,
    /// Where the manager sits: a name or a GUID, with a port as `"H-1"[2]`; default: the first host
    #[arg(long, value_name = "PORT")]
    seat: Option<String>,
    /// Time of an agent for one MAD, in µs
    #[arg(long, value_name = "US", default_value_t = 20.0, value_parser = micros)]
    mad_us: f64,
    /// Largest number of Selvedge's requests in flight
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    window: u32,
    /// Largest number of Selvedge's requests in flight to one agent
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    agent_window: u32,
    /// Largest number of OpenSM's requests in flight (max_wire_smps)
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    opensm_window: u32,
    /// Time of either manager for one answer, in µs
    #[arg(long, value_name = "US", default_value_t = 0.0, value_parser = micros)]
    manager_us: f64,
    /// Our time of planning one table entry, in ns; 20 µs a switch and 1 ms to store LIDs come on top
    #[arg(long, value_name = "NS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    entry_ns: u64,
    /// OpenSM's time of routing one table entry, in ns: 120 to 480 measured with minhop
    #[arg(long, value_name = "NS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    opensm_entry_ns: u64,
    /// Time of a MAD in a cable, in ns
    #[arg(long, value_name = "NS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(..=NS_MAX))]
    link_ns: u64,
    /// Time of a switch to pass a MAD on, in ns
    #[arg(long, value_name = "NS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(..=NS_MAX))]
    relay_ns: u64,
    /// Time after which a request is sent again, in ms
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    timeout_ms: u64,
    /// Exchanges (request and answer) that are lost, of a million
    #[arg(long, value_name = "PPM", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=500_000))]
    lost_ppm: u32,
    /// Table blocks that a fault changes at each switch beside it; default: all
    #[arg(long, value_name = "N")]
    changed_blocks: Option<u64>,
    /// Write the times as a picture to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the published model's tables and figures 10 to 12, theirs and ours, into FOLDER, and print the tables
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["fabric", "svg"])]
    paper: Option<PathBuf>,
    #[command(flatten)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &ModelArgs) -> Result<Exit, CliError> {
    if let Some(folder) = &args.paper {
        return paper::run(folder, args.format);
    }
    if let Some(path) = &args.svg {
        load::writable(path)?;
    }
    let model = args.model(args.fabric.as_deref().unwrap_or_default())?;
    if let Some(path) = &args.svg {
        load::write(path, &chart::svg(&model)?)?;
    }
    let mut out = Out::new(args.format);
    if args.format.json {
        out.document(model)?;
    } else if args.format.csv {
        out.grid(&count_lines(&model))?;
    } else {
        text(&mut out, &model)?;
    }
    out.flush()?;
    Ok(Exit::Good)
}

impl ModelArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }

    fn model(&self, spec: &str) -> Result<Model, CliError> {
        let fabric = load::fabric(spec)?;
        let seat = match &self.seat {
            Some(text) => Some(text.parse::<PortName>()?.end_port(&fabric)?),
            None => None,
        };
        let question = Question {
            name: spec.to_owned(),
            fabric: Arc::new(fabric),
            seat,
            wires: Wires {
                service_ns: nanos(self.mad_us),
                link_ns: self.link_ns,
                relay_ns: self.relay_ns,
                ..Wires::default()
            },
            ours: Requests {
                window: self.window,
                agent_window: Some(self.agent_window),
                entry_ns: self.entry_ns,
            },
            opensm: Requests {
                window: self.opensm_window,
                agent_window: None,
                entry_ns: self.opensm_entry_ns,
            },
            manager_ns: nanos(self.manager_us),
            timeout_ns: self.timeout_ms * 1_000_000,
            lost_ppm: self.lost_ppm,
            changed_blocks: self.changed_blocks,
        };
        let model = question.answer(&NoWatch)?;
        // As given, not rounded to whole nanoseconds.
        let mad_us = self.mad_us;
        Ok(Model { mad_us, ..model })
    }
}

fn text(out: &mut Out, model: &Model) -> Result<(), CliError> {
    let title = out.bold(&model.fabric);
    out.line(format!(
        "{title}: {}, {}, {}, {} a table; the manager at {}",
        words(model.switches, "switch"),
        words(model.hosts, "host"),
        words(model.lids, "LID"),
        words(model.lft_blocks, "block"),
        model.seat,
    ))?;
    out.line(format!(
        "an agent takes {} µs for a MAD, a cable {} ns, a switch on the way {} ns",
        model.mad_us, model.link_ns, model.relay_ns
    ))?;
    if !model.lids_fit {
        let warning = "more LIDs than a subnet has (49,151): no manager brings this fabric up as one subnet";
        out.line(out.bad(warning))?;
    }
    out.line("")?;
    out.grid(&times(model))?;
    for question in &QUESTIONS[1..] {
        let found = model.answers.iter().find(|a| a.question == *question);
        if let Some(lost) = found.and_then(|a| a.lost.as_deref()) {
            out.line(format!("{question}: {lost} is lost"))?;
        }
    }
    out.line("")?;
    out.line("MADs of a bring-up:")?;
    out.grid(&counts(model))?;
    let overruns = model.answers.iter().map(|a| a.overruns).max().unwrap_or(0);
    if overruns > 0 {
        out.line("")?;
        out.line(format!(
            "up to {} find an agent's queue full and wait for the time-out: a smaller window is faster",
            words(overruns, "request")
        ))?;
    }
    Ok(())
}

fn times(model: &Model) -> Grid {
    let mut grid = Grid::new(&["question", "manager", "by", "window", "mads", "time_ms", "of_which"]);
    for answer in &model.answers {
        let parts = answer.stages.iter().map(|stage| (stage.stage.as_str(), stage.time_ms));
        let parts = parts_of(answer.time_ms, &parts.collect::<Vec<_>>());
        grid.row([
            (&answer.question).into(),
            (&answer.manager).into(),
            answer.recovery.as_deref().unwrap_or_default().into(),
            answer.window.into(),
            answer.mads.into(),
            figure(answer.time_ms).into(),
            parts.join(", ").into(),
        ]);
    }
    grid
}

/// Returns the parts of a time with as many digits as the whole, so that they add up to it. Parts below a thousandth of
/// the whole are summed up as "other".
fn parts_of(whole: f64, parts: &[(&str, f64)]) -> Vec<String> {
    let step = 10_f64.powi(-decimals(whole));
    let steps = |ms: f64| (ms / step).round() as i64;
    let (large, small): (Vec<_>, Vec<_>) = parts.iter().partition(|(_, ms)| *ms >= whole / 1e3);
    let mut all: Vec<(&str, f64)> = large;
    if !small.is_empty() {
        all.push(("other", small.iter().map(|(_, ms)| ms).sum()));
    }
    // Corrects the sum: parts rounded down furthest get one step more, or parts rounded up furthest one less.
    let mut rounded: Vec<i64> = all.iter().map(|(_, ms)| steps(*ms)).collect();
    let mut left = steps(whole) - rounded.iter().sum::<i64>();
    while left != 0 && !all.is_empty() {
        let sign = left.signum();
        let lost = |at: &usize| (all[*at].1 / step - rounded[*at] as f64) * sign as f64;
        let most = (0..all.len()).max_by(|a, b| lost(a).total_cmp(&lost(b)));
        let Some(most) = most else { break };
        rounded[most] += sign;
        left -= sign;
    }
    let shown = all.iter().zip(rounded).filter(|(_, steps)| *steps != 0);
    shown
        .map(|((name, _), steps)| format!("{name} {}", with_decimals(steps as f64 * step, decimals(whole))))
        .collect()
}

/// Returns a table of the MADs of a bring-up, with the managers side by side.
fn counts(model: &Model) -> Grid {
    let mut grid = Grid::new(&["method", "attribute", "selvedge", "opensm"]);
    let of = |manager: &str| {
        model
            .answers
            .iter()
            .find(|a| a.recovery.is_none() && a.manager == manager)
    };
    let (ours, theirs) = (of("selvedge"), of("OpenSM"));
    let all = [ours, theirs].into_iter().flatten().flat_map(|a| &a.counts);
    let mut kinds: Vec<(&str, &str)> = Vec::new();
    for kind in all.map(|c| (c.method.as_str(), c.attribute.as_str())) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    for (method, attribute) in kinds {
        let number = |answer: Option<&ModelAnswer>| {
            let mut found = answer.into_iter().flat_map(|a| &a.counts);
            let found = found.find(|c| c.method == method && c.attribute == attribute);
            Cell::Count(found.map_or(0, |c| c.count))
        };
        grid.row([method.into(), attribute.into(), number(ours), number(theirs)]);
    }
    grid
}

/// Returns a table of every count of every answer, one per line.
fn count_lines(model: &Model) -> Grid {
    let mut grid = Grid::new(&["question", "manager", "by", "method", "attribute", "count"]);
    for answer in &model.answers {
        for count in &answer.counts {
            grid.row([
                (&answer.question).into(),
                (&answer.manager).into(),
                answer.recovery.as_deref().unwrap_or_default().into(),
                (&count.method).into(),
                (&count.attribute).into(),
                count.count.into(),
            ]);
        }
    }
    grid
}

fn words(number: u64, one: &str) -> String {
    count(number, one)
}

/// Returns a number with three significant digits.
pub fn figure(ms: f64) -> String {
    with_decimals(ms, decimals(ms))
}

fn with_decimals(ms: f64, decimals: i32) -> String {
    match usize::try_from(decimals) {
        Ok(decimals @ 1..) => format!("{ms:.decimals$}"),
        _ => thousands(ms.round() as u64),
    }
}

/// Returns the decimals of a time shown with three significant digits.
const fn decimals(ms: f64) -> i32 {
    match ms {
        ms if ms >= 100.0 => 0,
        ms if ms >= 10.0 => 1,
        ms if ms >= 1.0 => 2,
        _ => 3,
    }
}

/// Returns the whole nanoseconds of a time that [`micros`] has accepted.
fn nanos(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

/// Reads a time in microseconds, at most a minute.
fn micros(text: &str) -> Result<f64, String> {
    let us: f64 = text.parse().map_err(|_| "want a number of microseconds".to_owned())?;
    let sane = us.is_finite() && (0.0..=6e7).contains(&us);
    sane.then_some(us).ok_or_else(|| "want 0 to 60,000,000 µs".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        let check = |parts: &[(&str, f64)]| {
            let whole: f64 = parts.iter().map(|(_, ms)| ms).sum();
            let shown = parts_of(whole, parts);
            let number = |text: &str| text.replace(',', "").parse::<f64>().unwrap();
            let sum: f64 = shown.iter().map(|part| number(part.rsplit(' ').next().unwrap())).sum();
            assert!(
                (sum - number(&figure(whole))).abs() < 1e-9,
                "{shown:?} of {}",
                figure(whole)
            );
            shown
        };
        // A part below a thousandth stays in the sum.
        let shown = check(&[("discover", 20_000.0), ("compute", 12_342.0), ("LIDs", 9.0)]);
        assert_eq!(shown, ["discover 20,000", "compute 12,342", "other 9"]);
        // Three halves round up, which is one step too many.
        check(&[("a", 100.5), ("b", 200.5), ("c", 300.5), ("d", 0.5)]);
        check(&[("a", 1.004_4), ("b", 2.004_4), ("c", 3.004_4), ("d", 0.004_4)]);
        check(&[("a", 0.333_33), ("b", 0.333_33), ("c", 0.333_34)]);
        check(&[("a", 0.0), ("b", 0.0)]);
        check(&[]);
    }
}
