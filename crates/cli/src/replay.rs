//! `selvedge replay`: feeds a record to a new manager and compares.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;
use selvedge_api as api;
use selvedge_daemon::record::{Difference, Replay, Torn, read, replay};
use selvedge_rehearsal::soak::{Differences, HEADER, Nobody, Schedule, Step};

use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{JsonArg, Out, thousands};

/// Feed a record to a new manager and compare its outputs; exit code 1 if they differ.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// What 'selvedge run --record' wrote, or a schedule that 'selvedge soak --keep' wrote
    file: PathBuf,
    /// Print every input in a line instead
    #[arg(long, conflicts_with = "json")]
    print: bool,
    /// Show the record step by step, with the changes of every step; Enter goes on, q ends
    #[arg(long, conflicts_with_all = ["json", "print"])]
    step: bool,
    #[command(flatten)]
    format: JsonArg,
}

impl ReplayArgs {
    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs the command.
pub fn run(args: &ReplayArgs) -> Result<Exit, CliError> {
    if load::bytes(&args.file)?.starts_with(HEADER.as_bytes()) {
        return schedule(args);
    }
    let record = read(&args.file)?;
    let mut out = Out::new(args.format.into());
    if args.print {
        for entry in &record.entries {
            let outputs = entry
                .outputs
                .map_or_else(|| "-".to_owned(), |(count, _)| count.to_string());
            out.line(format!("{} {} -> {outputs} outputs", entry.time, entry.input))?;
        }
        say_torn(&mut out, &record)?;
        out.flush()?;
        return Ok(whole(&record));
    }
    let inputs = record.entries.len() as u64;
    let difference = replay(&record);
    if args.format.json {
        let exit = if difference.is_none() {
            whole(&record)
        } else {
            Exit::NotGood
        };
        out.document(document(inputs, difference, record.torn))?;
        out.flush()?;
        return Ok(exit);
    }
    let count = thousands(inputs);
    let exit = match difference {
        None => {
            out.line(format!("{count} inputs: every output is the same"))?;
            whole(&record)
        }
        Some(difference) => {
            let (number, input) = (difference.index + 1, &difference.input);
            out.line(format!("input {number} of {count} leads to other outputs: {input}"))?;
            let (want, have) = (difference.want, difference.have);
            out.line(format!("recorded: {} outputs, digest {:016x}", want.0, want.1))?;
            out.line(format!("now:      {} outputs, digest {:016x}", have.0, have.1))?;
            Exit::NotGood
        }
    };
    say_torn(&mut out, &record)?;
    out.flush()?;
    Ok(exit)
}

/// Returns the exit code for a record without a difference. A damaged record was not compared as a whole.
fn whole(record: &Replay) -> Exit {
    match record.torn.is_some_and(|torn| torn.is_damage()) {
        true => Exit::NotGood,
        false => Exit::Good,
    }
}

/// Prints that the record is truncated or damaged, if it is.
fn say_torn(out: &mut Out, record: &Replay) -> Result<(), CliError> {
    record.torn.map_or(Ok(()), |torn| out.line(torn.to_string()))
}

/// Carries out a schedule of `selvedge soak` again, which gives the same bytes.
fn schedule(args: &ReplayArgs) -> Result<Exit, CliError> {
    let bytes = load::text_bytes(&args.file)?;
    let schedule: Schedule = String::from_utf8_lossy(&bytes).parse()?;
    let fabric = load::fabric(&schedule.fabric)?;
    let mut out = Out::new(args.format.into());
    let mut printed = Ok(());
    let mut show = |step: &Step| {
        printed = print_step(&mut out, step);
        printed.is_ok() && (!args.step || goes_on())
    };
    let outcome = match args.step || args.print {
        true => schedule.run(&fabric, &mut Differences::new(&mut show)),
        false => schedule.run(&fabric, &mut Nobody),
    };
    printed?;
    let exit = match &outcome.failure {
        None => Exit::Good,
        Some(_) => Exit::NotGood,
    };
    out.line(match &outcome.failure {
        None => format!("no violation; digests {}", outcome.digests),
        Some(failure) => format!("{}; digests {}", failure.what, outcome.digests),
    })?;
    out.flush()?;
    Ok(exit)
}

fn print_step(out: &mut Out, step: &Step) -> Result<(), CliError> {
    for what in &step.happened {
        let what = out.bold(what);
        out.line(format!("{} {what}", step.at))?;
    }
    for what in &step.changed {
        out.line(format!("{}   {what}", step.at))?;
    }
    out.flush()
}

/// Waits for Enter if standard input is a terminal.
fn goes_on() -> bool {
    if !std::io::stdin().is_terminal() {
        return true;
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).is_ok_and(|read| read > 0) && !line.trim_start().starts_with('q')
}

fn document(inputs: u64, difference: Option<Difference>, torn: Option<Torn>) -> api::Replay {
    api::Replay {
        same: difference.is_none(),
        inputs,
        torn: torn.map(|torn| api::ReplayTorn {
            at_byte: torn.at as u64,
            left_out_bytes: torn.bytes as u64,
        }),
        difference: difference.map(|difference| api::ReplayDifference {
            number: difference.index as u64 + 1,
            input: difference.input,
            recorded_outputs: difference.want.0,
            recorded_digest: format!("{:016x}", difference.want.1),
            outputs: difference.have.0,
            digest: format!("{:016x}", difference.have.1),
        }),
    }
}
