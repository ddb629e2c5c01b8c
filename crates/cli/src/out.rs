//! Standard output: text, tables, JSON and CSV. Names that devices report are escaped in text.
//!
//! A closed pipe ends a command quietly; any other failure is an error.

mod grid;
mod layout;

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use clap::Args;
use selvedge_api::{Body, Document, Severity};
use selvedge_daemon::Journal;
use selvedge_types::printable_lines;

pub use self::grid::{Cell, Facts, Grid, count};
use crate::exit::CliError;

pub use selvedge_experiment::axis::thousands;

/// Stands for the escape character of our own colours until [`Out::line`] has escaped the text of devices. No name can
/// contain this mark: it is a noncharacter of Unicode.
const STYLE: char = '\u{fdd0}';

/// How to print.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Format {
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print one table as comma-separated values: plain numbers, snake_case header
    #[arg(long)]
    pub csv: bool,
}

impl Format {
    /// Returns true if the output is read by people.
    pub const fn is_text(self) -> bool {
        !self.json && !self.csv
    }
}

/// JSON or text, for commands without tables.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct JsonArg {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl From<JsonArg> for Format {
    fn from(JsonArg { json }: JsonArg) -> Self {
        Self { json, csv: false }
    }
}

/// Standard output.
pub struct Out {
    stdout: BufWriter<StdoutLock<'static>>,
    format: Format,
    is_terminal: bool,
    width: Option<usize>,
}

impl Out {
    /// Returns standard output in this format.
    pub fn new(format: Format) -> Self {
        let stdout = io::stdout().lock();
        let is_terminal = stdout.is_terminal();
        Self {
            stdout: BufWriter::new(stdout),
            format,
            is_terminal,
            width: width(is_terminal),
        }
    }

    /// True if a person may see colours, and `NO_COLOR` does not forbid them.
    pub fn has_colours(&self) -> bool {
        self.is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
    }

    /// Returns the width of tables and pictures, if there is a limit.
    pub const fn width(&self) -> Option<usize> {
        self.width
    }

    /// The format.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Writes one line, or several, for people. Hidden characters are escaped, because names of devices may contain
    /// any.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), CliError> {
        let text = shown(text.as_ref(), self.has_colours());
        self.write(&text)?;
        self.write("\n")
    }

    /// Writes text unchanged.
    pub fn write(&mut self, text: &str) -> Result<(), CliError> {
        self.stdout.write_all(text.as_bytes()).map_err(CliError::output)
    }

    /// Flushes the output. Without this call, the loss of its end may stay unnoticed.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.stdout.flush().map_err(CliError::output)
    }

    /// Writes a document as JSON.
    pub fn document<T: Body>(&mut self, body: T) -> Result<(), CliError> {
        self.write(&Document::new(body).to_json_pretty())?;
        self.write("\n")
    }

    /// A table.
    pub fn grid(&mut self, grid: &Grid) -> Result<(), CliError> {
        if self.format.csv {
            return self.write(&grid.csv());
        }
        if grid.is_empty() {
            return self.line("none");
        }
        grid.lines(self.width).into_iter().try_for_each(|line| self.line(line))
    }

    /// Prints a list of figures.
    pub fn facts(&mut self, facts: &Facts) -> Result<(), CliError> {
        match self.format.csv {
            true => self.grid(&facts.plain()),
            false => self.grid(&facts.shown()),
        }
    }

    /// `text` in bold.
    pub fn bold(&self, text: &str) -> String {
        self.styled("1", text)
    }

    /// `text` in green: good.
    pub fn good(&self, text: &str) -> String {
        self.styled("32", text)
    }

    /// `text` in red: not good.
    pub fn bad(&self, text: &str) -> String {
        self.styled("31", text)
    }

    /// `text` less bright.
    pub fn dim(&self, text: &str) -> String {
        self.styled("2", text)
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.has_colours() {
            format!("{STYLE}[{code}m{text}{STYLE}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Returns the width of tables: `COLUMNS` if it is set, else the terminal's; without a terminal there is no limit.
fn width(is_terminal: bool) -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    set.or_else(|| terminal().filter(|_| is_terminal))
        .filter(|&width| width > 0)
}

/// Returns text for a terminal or a file: hidden characters are escaped, and own colours, if there are any, are added.
fn shown(text: &str, has_colours: bool) -> String {
    let text = printable_lines(text);
    match has_colours {
        true => text.replace(STYLE, "\u{1b}"),
        false => text.into_owned(),
    }
}

/// Writes a line for people to standard error, with hidden characters escaped. Ignores a closed reader.
pub fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr(), "{}", printable_lines(text.as_ref()));
}

/// Writes an error for people to standard error, as [`note`] does. Where the journal reads it, lines have a priority.
pub fn complain(text: impl AsRef<str>) {
    let priority = Journal::of_stderr().prefix(Severity::Error);
    let text = printable_lines(text.as_ref());
    let lines: Vec<String> = text.lines().map(|line| format!("{priority}{line}")).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

/// Writes a JSON document, which keeps every character, to standard error. Ignores a closed reader.
pub fn note_json(document: &str) {
    let _ = writeln!(io::stderr(), "{document}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_do_not_reach_the_terminal() {
        for colours in [false, true] {
            let check = |text: &str, want: &str| assert_eq!(shown(text, colours), want, "{text:?}");
            check("port \"\u{1b}[31mX\"[1]\nnext", "port \"\\u{1b}[31mX\"[1]\nnext");
            check("\u{202e}txt", "\\u{202e}txt");
        }
        let styled = format!("{STYLE}[31mbad\u{1b}[2J{STYLE}[0m");
        assert_eq!(shown(&styled, true), "\u{1b}[31mbad\\u{1b}[2J\u{1b}[0m");
    }
}
