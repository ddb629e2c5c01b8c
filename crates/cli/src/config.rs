//! `selvedge config`: the configuration file.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use selvedge_config::{print_defaults, print_settings, read};

use crate::exit::{CliError, Exit};
use crate::out::{Format, Out};

/// Print or check configuration files.
#[derive(Args, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print every key with its default and what it does
    Defaults,
    /// Check a file and print what it means, key by key
    Check {
        /// The file
        file: PathBuf,
    },
}

/// Runs the command.
pub fn run(args: &ConfigArgs) -> Result<Exit, CliError> {
    let text = match &args.command {
        Command::Defaults => print_defaults(),
        Command::Check { file } => print_settings(&read(file)?),
    };
    let mut out = Out::new(Format::default());
    out.write(&text)?;
    out.flush()?;
    Ok(Exit::Good)
}
