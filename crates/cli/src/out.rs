//! Standard output: text, tables, JSON and CSV; quiet when its reader has gone.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use selvedge_api::{Body, Document};

use crate::exit::CliError;

pub use selvedge_experiment::axis::thousands;

/// How to print.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Format {
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print tables as comma-separated values
    #[arg(long)]
    pub csv: bool,
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
    colour: bool,
}

impl Out {
    /// Standard output in a format. Colours only where a person sees them and `NO_COLOR` does not forbid them.
    pub fn new(format: Format) -> Self {
        let stdout = io::stdout().lock();
        let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            stdout: BufWriter::new(stdout),
            format,
            colour,
        }
    }

    /// The format.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// One line.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), CliError> {
        let text = text.as_ref();
        self.write(text)?;
        self.write("\n")
    }

    /// Text as it is.
    pub fn write(&mut self, text: &str) -> Result<(), CliError> {
        // Whatever keeps us from printing, there is nobody left to print for.
        self.stdout.write_all(text.as_bytes()).map_err(|_| CliError::Closed)
    }

    /// Shows what was printed so far.
    pub fn flush(&mut self) -> Result<(), CliError> {
        self.stdout.flush().map_err(|_| CliError::Closed)
    }

    /// A document as JSON.
    pub fn document<T: Body>(&mut self, body: T) -> Result<(), CliError> {
        self.line(Document::new(body).to_json_pretty())
    }

    /// A table.
    pub fn grid(&mut self, grid: &Grid) -> Result<(), CliError> {
        if self.format.csv {
            return self.write(&grid.csv());
        }
        if grid.rows.is_empty() {
            return self.line("none");
        }
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(grid.header.iter().map(|name| name.to_uppercase()));
        table.add_rows(&grid.rows);
        for line in table.to_string().lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
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
        if self.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table with these columns.
    pub fn new(header: &[&'static str]) -> Self {
        Self::named(header.iter().map(|name| (*name).to_owned()).collect())
    }

    /// A table whose columns are known only now.
    pub const fn named(header: Vec<String>) -> Self {
        Self {
            header,
            rows: Vec::new(),
        }
    }

    /// Adds a row to a table of [`Self::named`]; it has as many cells as there are columns.
    pub fn add(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds a row; it has as many cells as there are columns.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Adds the rows of another table with the same columns.
    pub fn append(&mut self, mut more: Self) {
        self.rows.append(&mut more.rows);
    }

    /// As RFC 4180 has it.
    pub fn csv(&self) -> String {
        let quoted = |cell: &str| {
            if cell.contains(['"', ',', '\n', '\r']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.to_owned()
            }
        };
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let header = line(self.header.iter().map(|name| quoted(name)).collect());
        let rows = self
            .rows
            .iter()
            .map(|row| line(row.iter().map(|cell| quoted(cell)).collect()));
        std::iter::once(header).chain(rows).collect()
    }
}

/// `1 link`, `2 links`: for words whose plural is regular.
pub fn count(number: u64, one: &str) -> String {
    let plural = match one.strip_suffix("ch") {
        _ if number == 1 => return format!("1 {one}"),
        Some(_) => "es",
        None => "s",
    };
    format!("{} {one}{plural}", thousands(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_for_people() {
        assert_eq!(count(0, "host"), "0 hosts");
        assert_eq!(count(1, "switch"), "1 switch");
        assert_eq!(count(2_000, "switch"), "2,000 switches");
    }

    #[test]
    fn csv_is_quoted_where_it_must_be() {
        let mut grid = Grid::new(&["name", "port"]);
        grid.row(["a \"b\", c".to_owned(), "1".to_owned()]);
        assert_eq!(grid.csv(), "name,port\n\"a \"\"b\"\", c\",1\n");
    }
}
