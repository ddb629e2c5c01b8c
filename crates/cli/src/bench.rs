//! `selvedge bench`: hands over to the benchmarks, which are a program of their own.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use clap::Args;

use crate::exit::{CliError, Exit};

/// The program of the benchmarks. It is separate because no manager needs its parts: programs that start peers such as
/// OpenSM, and relays that decode MADs.
const PROGRAM: &str = "selvedge-bench";

/// Benchmark beside OpenSM on ibsim, as 'bench failover'; the program selvedge-bench does it, 'bench --help' asks it
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct BenchArgs {
    /// Words for the program selvedge-bench
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    words: Vec<OsString>,
}

/// Replaces this process by the benchmark program: the one next to this program, otherwise the one that a shell would
/// find.
pub fn run(args: &BenchArgs) -> Result<Exit, CliError> {
    let beside = env::current_exe().map(|own| own.with_file_name(PROGRAM));
    let program = beside
        .ok()
        .filter(|file| file.is_file())
        .unwrap_or_else(|| PROGRAM.into());
    let cause = Command::new(program).args(&args.words).exec();
    Err(CliError::NoBench { cause })
}
