//! `selvedge replay`: feeds a record to a new manager and compares.

use std::path::PathBuf;

use clap::Args;
use selvedge_daemon::record::{read, replay};

use crate::exit::{CliError, Exit};
use crate::out::{Format, Out, thousands};

/// Feed a record to a new manager and compare what it does; exit code 1 if it does something else.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// What 'selvedge run --record' wrote
    file: PathBuf,
    /// Print every input in a line instead
    #[arg(long)]
    print: bool,
}

/// Runs the command.
pub fn run(args: &ReplayArgs) -> Result<Exit, CliError> {
    let record = read(&args.file)?;
    let mut out = Out::new(Format::default());
    if args.print {
        for entry in &record.entries {
            let outputs = entry
                .outputs
                .map_or_else(|| "-".to_owned(), |(count, _)| count.to_string());
            out.line(format!("{} {} -> {outputs} outputs", entry.time, entry.input))?;
        }
        out.flush()?;
        return Ok(Exit::Good);
    }
    let count = thousands(record.entries.len() as u64);
    let exit = match replay(&record) {
        None => {
            out.line(format!("{count} inputs: every output is the same"))?;
            Exit::Good
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
    out.flush()?;
    Ok(exit)
}
