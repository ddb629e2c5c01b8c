//! Errors of an experiment or its results: the problem, its place, and what to do.

use std::io;
use std::path::PathBuf;

/// The error of one setting.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// There is no such setting.
    #[error("there is no setting '{field}'{meant}; known: {known}")]
    Unknown {
        /// The name.
        field: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
        /// All names.
        known: String,
    },
    /// The setting takes other values.
    #[error("'{field}': found {found}, want {want}")]
    Value {
        /// Name of the setting.
        field: String,
        /// The value that was found.
        found: String,
        /// The values that are legal.
        want: String,
    },
    /// The setting takes one of a few words, but not this one.
    #[error("'{field}': there is no '{found}'{meant}; known: {known}")]
    Choice {
        /// Name of the setting.
        field: String,
        /// The word that was found.
        found: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
        /// All words.
        known: String,
    },
}

/// The error of an experiment's file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// SLV-EXPERIMENT-0001: the file is not TOML, or has keys that an experiment does not have.
    #[error("SLV-EXPERIMENT-0001: {what}; docs/experiments.md has the grammar")]
    Toml {
        /// The problem and its place, from the TOML reader.
        what: String,
    },
    /// SLV-EXPERIMENT-0002: a setting does not exist, or its value is not legal.
    #[error("SLV-EXPERIMENT-0002: [{section}] {what}")]
    Field {
        /// The section of the file.
        section: String,
        /// The problem.
        what: Box<FieldError>,
    },
    /// SLV-EXPERIMENT-0003: a setting is given in two places.
    #[error("SLV-EXPERIMENT-0003: '{field}' is given in [{first}] and in [{second}]; remove it from one of them")]
    Twice {
        /// Name of the setting.
        field: String,
        /// The place in which the setting is given first.
        first: &'static str,
        /// The other place.
        second: &'static str,
    },
    /// SLV-EXPERIMENT-0004: a list is empty.
    #[error("SLV-EXPERIMENT-0004: {what} is empty, so nothing would be run; give at least one value")]
    Empty {
        /// Name of the empty part.
        what: String,
    },
    /// SLV-EXPERIMENT-0005: the seeds are not numbers.
    #[error("SLV-EXPERIMENT-0005: seeds = {found}: want \"FIRST-LAST\" or a list of numbers, each once")]
    Seeds {
        /// The value that was found.
        found: String,
    },
    /// SLV-EXPERIMENT-0006: the experiment has more runs than the limit.
    #[error("SLV-EXPERIMENT-0006: {runs} runs are asked for, at most {max} are allowed; give fewer values or seeds")]
    TooMany {
        /// Number of runs that the file asks for.
        runs: u128,
        /// The limit.
        max: u128,
    },
    /// SLV-EXPERIMENT-0007: a picture lacks a key, names a setting that does not vary, or has points that cannot be
    /// drawn apart.
    #[error("SLV-EXPERIMENT-0007: picture '{file}': {what}")]
    Picture {
        /// File of the picture.
        file: String,
        /// The problem.
        what: String,
    },
    /// SLV-EXPERIMENT-0008: a picture cannot be drawn.
    #[error("SLV-EXPERIMENT-0008: cannot draw: {cause}")]
    Draw {
        /// The error of the plotting library.
        cause: String,
    },
    /// SLV-EXPERIMENT-0012: a figure does not exist in any result.
    #[error("SLV-EXPERIMENT-0012: {place}: {what}")]
    Figure {
        /// Place in the file.
        place: String,
        /// The problem, and the known figures.
        what: String,
    },
}

/// The reasons for which results cannot be stored or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// SLV-EXPERIMENT-0009: the operating system refused an operation on a file.
    #[error("SLV-EXPERIMENT-0009: cannot {operation} {}: {cause}; name a folder that can be written", path.display())]
    Io {
        /// The operation.
        operation: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The error of the operating system.
        cause: io::Error,
    },
    /// SLV-EXPERIMENT-0010: a line of a result file is not a result.
    #[error(
        "SLV-EXPERIMENT-0010: {}, line {line}: {what}; it is left as it is: correct the line or name another folder",
        path.display()
    )]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The problem.
        what: String,
    },
    /// SLV-EXPERIMENT-0011: the results are of another version or experiment.
    #[error(
        "SLV-EXPERIMENT-0011: {} has results of {found}, the new ones would be of {want}; results of both cannot be \
         compared in one table; name another folder",
        path.display()
    )]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// The version of the stored results.
        found: String,
        /// The version of the new results.
        want: String,
    },
}
