//! The one binary `selvedge`: parses, calls, prints. What it does is done elsewhere.

mod admission;
mod args;
mod backups;
mod bench;
mod compare;
mod config;
mod decode;
mod demo;
mod dumps;
mod emulate;
mod exit;
mod experiment;
mod fault;
mod keys;
mod load;
mod manage;
mod measure;
mod model;
mod opensm;
mod out;
mod progress;
mod rebalance;
mod replay;
mod report;
mod route;
mod run;
mod shell;
mod simulate;
mod soak;
mod status;
mod tables;
mod tables_io;
mod topology;
mod transition;
mod verify;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

use crate::args::Cli;
use crate::exit::{CliError, Exit};

/// The C library's takes a twentieth of the time that planning takes (`selvedge soak`, 200 seeds).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    selvedge_transport::keep_freed_memory();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; nobody may be reading either of them.
            let flags = opensm::foreign_flags(&error);
            if error.use_stderr() && std::env::args_os().any(|word| word == "--json") {
                let said = match flags.is_empty() {
                    true => CliError::usage(&error),
                    false => CliError::Usage { what: flags.join("; ") },
                };
                let _ = writeln!(std::io::stderr(), "{}", said.text(true));
            } else if flags.is_empty() {
                let _ = error.print();
            } else {
                for flag in flags {
                    let _ = writeln!(std::io::stderr(), "selvedge: {flag}");
                }
                let advice =
                    "every option of OpenSM's file can stay in it: name it with -F; --check-config explains each";
                let _ = writeln!(std::io::stderr(), "{advice}.");
            }
            return ExitCode::from(u8::from(error.use_stderr()) * Exit::Usage as u8);
        }
    };
    let exit = cli.run().unwrap_or_else(|error| {
        if !matches!(error, CliError::Closed) {
            let _ = writeln!(std::io::stderr(), "{}", error.text(cli.json()));
        }
        error.exit()
    });
    ExitCode::from(exit as u8)
}
