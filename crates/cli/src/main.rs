//! The single binary `selvedge`: parses, calls, prints. Other crates do the work.

mod admission;
mod apm;
mod approve;
mod args;
mod ask;
mod background;
mod backups;
mod bench;
mod changes;
mod compare;
mod config;
mod decode;
mod demo;
mod dumps;
mod emulate;
mod events;
mod exit;
mod expected;
mod experiment;
mod fault;
mod findings;
mod found;
mod headings;
mod health;
mod job;
mod keys;
mod load;
mod maintenance;
mod man;
mod manage;
mod measure;
mod meter;
mod model;
mod opensm;
mod out;
mod partitions;
mod progress;
mod rebalance;
mod replay;
mod report;
mod route;
mod run;
mod select;
mod shell;
mod simulate;
mod soak;
mod status;
mod tables;
mod tables_io;
mod tables_status;
mod telemetry;
mod times;
mod topology;
mod transition;
mod verify;

use std::process::ExitCode;

use crate::args::Cli;
use crate::exit::{CliError, Exit};
use crate::out::{Format, Out, complain, note, note_json};

/// The memory allocator. With that of the C library, a twentieth of the time of planning is spent on allocation
/// (`selvedge soak`, 200 seeds).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    selvedge_transport::keep_freed_memory();
    selvedge_transport::outlive_file_limit();
    args::warn_of_old_spellings(std::env::args_os());
    let cli = match Cli::of_process() {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&error),
    };
    let exit = cli.run().unwrap_or_else(|error| failed(&error, cli.json()));
    ExitCode::from(exit as u8)
}

/// Prints help, version, or the mistake in the command line.
fn not_parsed(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|word| word == "--json");
    if !error.use_stderr() {
        let exit = print(error).map_or_else(|error| failed(&error, json), |()| Exit::Good);
        return ExitCode::from(exit as u8);
    }
    let flags = opensm::foreign_flags(error);
    match (json, flags.is_empty()) {
        (true, true) => note_json(&CliError::usage(error).text(true)),
        (true, false) => {
            let what = flags.join("; ");
            note_json(&CliError::Usage { what }.text(true));
        }
        (false, true) => complain(CliError::usage_text(error).trim_end()),
        (false, false) => {
            for flag in flags {
                note(format!("SLV-CLI-0007: {flag}"));
            }
            note("every option of OpenSM's file can stay in it: name it with -F; --check-config explains each.");
        }
    }
    ExitCode::from(Exit::Usage as u8)
}

fn print(error: &clap::Error) -> Result<(), CliError> {
    let mut out = Out::new(Format::default());
    let text = error.render();
    match out.has_colours() {
        true => out.write(&text.ansi().to_string())?,
        false => out.write(&text.to_string())?,
    }
    out.flush()
}

/// Prints why a command failed.
fn failed(error: &CliError, json: bool) -> Exit {
    if !matches!(error, CliError::Closed) {
        let text = error.text(json);
        background::not_started(&text);
        match json {
            true => note_json(&text),
            false => complain(text),
        }
    }
    error.exit()
}
