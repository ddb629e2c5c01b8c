//! Flags that select and sort the rows of `selvedge status nodes`, `ports` and `links`.

use clap::Args;
use selvedge_api::{ORDER, SORT};

use crate::exit::CliError;

/// Which rows of a list are shown, and in which order.
#[derive(Args, Clone, Debug, Default)]
pub struct SelectArgs {
    /// Nodes of this name, their ports and their links; * is any characters, ? is one. Several: any of them
    #[arg(long, value_name = "GLOB")]
    name: Vec<String>,
    /// Nodes of this kind
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = ["host", "switch", "router"])]
    kind: Vec<String>,
    /// Ports in this logical state, and links with such an end; unknown: the agent did not answer
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = ["down", "init", "armed", "active", "unknown"]
    )]
    state: Vec<String>,
    /// Ports and links of this width
    #[arg(long, value_name = "WIDTH", value_delimiter = ',', value_parser = ["1x", "2x", "4x", "8x", "12x"])]
    width: Vec<String>,
    /// Ports and links of this speed
    #[arg(
        long,
        value_name = "SPEED",
        value_delimiter = ',',
        ignore_case = true,
        value_parser = ["sdr", "ddr", "qdr", "fdr10", "fdr", "edr", "hdr", "ndr", "xdr", "unknown"]
    )]
    speed: Vec<String>,
    /// Rows with this value in a column, as lid=17 or reason=SLV-PORTSTATE-0004; ports have guid and node_guid too
    #[arg(long = "where", value_name = "COLUMN=GLOB", value_parser = condition)]
    conditions: Vec<(String, String)>,
    /// Sort by this column, as lid, state or rate (default: by GUID and port)
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// Sort in reverse order
    #[arg(long, requires = "sort")]
    reverse: bool,
}

fn condition(text: &str) -> Result<(String, String), String> {
    let (column, glob) = text.split_once('=').ok_or("want COLUMN=GLOB, as lid=17")?;
    match column {
        SORT | ORDER => Err(format!("'{column}' is no column: write --sort COLUMN")),
        column => Ok((column.replace([' ', '-'], "_").to_lowercase(), glob.to_owned())),
    }
}

impl SelectArgs {
    /// Returns the query for a list with a column of names called `name`.
    pub fn parameters(&self, name: &str) -> Vec<(String, String)> {
        let flags = [
            (name, &self.name),
            ("kind", &self.kind),
            ("state", &self.state),
            ("width", &self.width),
            ("speed", &self.speed),
        ];
        let flags = flags.into_iter();
        let mut all: Vec<(String, String)> = flags
            .flat_map(|(field, globs)| globs.iter().map(|glob| (field.to_owned(), glob.clone())))
            .collect();
        all.extend(self.conditions.iter().cloned());
        let sort = self.sort.as_ref();
        all.extend(sort.map(|column| (SORT.to_owned(), column.replace([' ', '-'], "_").to_lowercase())));
        all.extend(self.reverse.then(|| (ORDER.to_owned(), "descending".to_owned())));
        all
    }

    /// Refuses the flags that select rows if something other than rows is shown.
    pub fn none(&self) -> Result<(), CliError> {
        if self.parameters("").is_empty() {
            return Ok(());
        }
        let what = "rows are selected and sorted of nodes, ports and links only: selvedge status ports".to_owned();
        Err(CliError::Usage { what })
    }
}
