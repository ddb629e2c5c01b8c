//! `selvedge replay`: feeds a record to a new manager and compares.

use std::path::PathBuf;

use clap::Args;
use selvedge_api as api;
use selvedge_daemon::record::{Difference, read, replay};

use crate::exit::{CliError, Exit};
use crate::out::{JsonArg, Out, thousands};

/// Feed a record to a new manager and compare what it does; exit code 1 if it does something else.
#[derive(Args, Debug)]
pub struct ReplayArgs {
    /// What 'selvedge run --record' wrote
    file: PathBuf,
    /// Print every input in a line instead
    #[arg(long, conflicts_with = "json")]
    print: bool,
    #[command(flatten)]
    format: JsonArg,
}

impl ReplayArgs {
    /// The format of errors.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}

/// Runs the command.
pub fn run(args: &ReplayArgs) -> Result<Exit, CliError> {
    let record = read(&args.file)?;
    let mut out = Out::new(args.format.into());
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
    let inputs = record.entries.len() as u64;
    let difference = replay(&record);
    if args.format.json {
        let exit = if difference.is_none() {
            Exit::Good
        } else {
            Exit::NotGood
        };
        out.document(document(inputs, difference))?;
        out.flush()?;
        return Ok(exit);
    }
    let count = thousands(inputs);
    let exit = match difference {
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

fn document(inputs: u64, difference: Option<Difference>) -> api::Replay {
    api::Replay {
        same: difference.is_none(),
        inputs,
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
