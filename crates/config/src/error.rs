//! Errors about files of the operator.

use std::io;
use std::path::PathBuf;

/// A refused file: the problem, its place, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// SLV-CONFIG-0001: the file cannot be read.
    #[error("SLV-CONFIG-0001: cannot read {}: {cause}; name a readable file", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// SLV-CONFIG-0002: the file is not TOML.
    #[error("SLV-CONFIG-0002: {}, line {line}: {what}; the file must be TOML", path.display())]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Error of the TOML reader.
        what: String,
    },
    /// SLV-CONFIG-0003: a key does not exist.
    #[error("SLV-CONFIG-0003: {}, line {line}: unknown key '{key}'; {advice}", path.display())]
    UnknownKey {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The key as `table.name`.
        key: String,
        /// The advice.
        advice: Advice,
    },
    /// SLV-CONFIG-0004: the value of a key is not legal.
    #[error("SLV-CONFIG-0004: {}, line {line}: {key} = {found}; want {want}", path.display())]
    Value {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The key as `table.name`.
        key: String,
        /// Legal values.
        want: &'static str,
        /// The value as written.
        found: String,
    },
    /// SLV-CONFIG-0005: a line of a GUID list has no GUID.
    #[error(
        "SLV-CONFIG-0005: {}, line {line}: '{found}' is no GUID; want one per line, as 0x0002c90300001234",
        path.display()
    )]
    NoGuid {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The text found, cut to 60 characters.
        found: String,
    },
    /// SLV-CONFIG-0006: what follows a GUID in a list is not a number from 0 to 255.
    #[error(
        "SLV-CONFIG-0006: {}, line {line}: '{found}' is no number from 0 to 255; want numbers after the GUID",
        path.display()
    )]
    NoNumber {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The text found, cut to 60 characters.
        found: String,
    },
    /// SLV-CONFIG-0007: a line of a partition file cannot be used.
    #[error("SLV-CONFIG-0007: {}, line {line}: '{found}'; want {want}", path.display())]
    Partition {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The text found, cut to 60 characters.
        found: String,
        /// The text expected.
        want: &'static str,
    },
    /// SLV-CONFIG-0008: a list of routing engines names an unknown engine.
    #[error("SLV-CONFIG-0008: {place}: {what}")]
    Engine {
        /// The file with line and key, or the flag.
        place: String,
        /// The mistake, and what to write instead.
        what: String,
    },
    /// SLV-CONFIG-0009: a file, folder or socket that a key names cannot be written, so the manager would not start.
    #[error(
        "SLV-CONFIG-0009: {place}{key}: cannot write {}: {cause}; {}",
        path.display(), selvedge_store::advice(cause, "name another path")
    )]
    NotWritable {
        /// The file with the line, as `fm.toml, line 3: `; empty for a flag.
        place: String,
        /// The key as `table.name`.
        key: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause that the operating system reports.
        cause: io::Error,
    },
    /// SLV-CONFIG-0011: no engine of the list can route a fabric under the other settings.
    #[error("SLV-CONFIG-0011: {place}routing.engines: {what}")]
    Contradiction {
        /// The file with the line, as `fm.toml, line 3: `; empty for a flag.
        place: String,
        /// Each engine with the key that contradicts it, and the advice.
        what: String,
    },
    /// SLV-CONFIG-0012: a file that a key names cannot be read.
    #[error("SLV-CONFIG-0012: {place}{key}: {error}")]
    Unread {
        /// The file with the line, as `fm.toml, line 3: `; empty for a flag.
        place: String,
        /// The key as `table.name`.
        key: &'static str,
        /// The error of the reader, with its code.
        error: String,
    },
    /// SLV-CONFIG-0013: the thresholds of an alarm contradict each other, or name something unknown.
    #[error("SLV-CONFIG-0013: {place}: {what}")]
    Threshold {
        /// The file with line and key.
        place: String,
        /// The mistake, and what to write instead.
        what: String,
    },
    /// SLV-CONFIG-0014: an option of quality of service, or the QoS policy file, is wrong.
    #[error("SLV-CONFIG-0014: {place}: {what}")]
    Qos {
        /// The file, with the line of the option.
        place: String,
        /// The error of the reader, with its code.
        what: String,
    },
    /// SLV-CONFIG-0040: a key (M_Key, SM_Key, SA key) is not a 64-bit number. The message does not quote it.
    #[error(
        "SLV-CONFIG-0040: {from}: the {name} is not a 64-bit number (its text is not shown); want 0x and 1 to 16 \
         hexadecimal digits"
    )]
    NoKey {
        /// A file, a flag or an environment variable.
        from: String,
        /// Name of the key.
        name: &'static str,
    },
    /// SLV-CONFIG-0041: every user of this machine may read a file that holds keys. The file is still used.
    #[error("SLV-CONFIG-0041: every user may read {}, which holds keys; forbid that: chmod o-r", path.display())]
    OthersRead {
        /// Path of the file.
        path: PathBuf,
    },
    /// SLV-CONFIG-0010: the value is legal at a start, but the running manager cannot change to it.
    #[error("SLV-CONFIG-0010: {key}: refused for now: {why}")]
    NotNow {
        /// The key as `table.name`.
        key: &'static str,
        /// The reason, and the advice.
        why: String,
    },
}

/// What to do about an unknown key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// A key that was probably meant.
    DidYouMean(String),
    /// The known names, because there are few.
    Known(Vec<String>),
    /// There are too many keys to list.
    Defaults,
}

impl std::fmt::Display for Advice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::DidYouMean(key) => write!(f, "did you mean '{key}'?"),
            Self::Defaults => f.write_str("'selvedge config defaults' prints every key"),
            Self::Known(keys) => write!(f, "there are: {}", keys.join(", ")),
        }
    }
}
