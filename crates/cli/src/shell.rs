//! `selvedge completions`: made from the one definition of every flag.

use clap::Args;
use clap_complete::Shell;

use crate::args;
use crate::exit::{CliError, Exit};
use crate::out::{Format, Out};

/// Print completions for a shell.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `selvedge completions`.
pub fn completions(of: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(of.shell, &mut args::command(), "selvedge", &mut text);
    let mut out = Out::new(Format::default());
    out.write(&String::from_utf8_lossy(&text))?;
    out.flush()?;
    Ok(Exit::Good)
}
