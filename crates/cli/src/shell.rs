//! `selvedge completions` and `selvedge man`: from the one definition of every flag.

use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{CliError, Exit};
use crate::load;
use crate::out::{Format, Out};

/// Print completions for a shell.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `selvedge completions`.
pub fn completions(args: &CompletionsArgs) -> Result<Exit, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "selvedge", &mut text);
    print(&text)
}

/// Print the manual page, or write one page per command.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Write selvedge.1 and a page per command into DIR
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Runs `selvedge man`.
pub fn man(args: &ManArgs) -> Result<Exit, CliError> {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = &args.folder else {
        return print(&page(&command));
    };
    load::write(&folder.join("selvedge.1"), &String::from_utf8_lossy(&page(&command)))?;
    for sub in command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
    {
        let name = format!("selvedge-{}.1", sub.get_name());
        load::write(&folder.join(name), &String::from_utf8_lossy(&page(sub)))?;
    }
    Ok(Exit::Good)
}

fn page(command: &clap::Command) -> Vec<u8> {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = clap_mangen::Man::new(command.clone()).render(&mut text);
    text
}

fn print(text: &[u8]) -> Result<Exit, CliError> {
    let mut out = Out::new(Format::default());
    out.write(&String::from_utf8_lossy(text))?;
    out.flush()?;
    Ok(Exit::Good)
}
