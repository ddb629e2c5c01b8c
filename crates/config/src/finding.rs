//! The result of a configuration check for one line, flag or key.

use std::path::Path;

use crate::ConfigError;

/// The treatment of a line, a flag or a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Default: the value is OpenSM's default, and Selvedge has the same default, or the difference does not matter.
    Default,
    /// Honoured: the value means in Selvedge what it means in OpenSM.
    Honoured,
    /// Mapped: the value sets a Selvedge key with a different meaning; the explanation states the difference.
    Mapped,
    /// Without effect: the value changes nothing in Selvedge, and nothing is lost.
    Moot,
    /// Refused: the file requires a function that Selvedge lacks.
    Refused,
    /// Unknown: neither OpenSM 3.3.23 nor its known forks have the option. OpenSM ignores it, so Selvedge only warns.
    Unknown,
    /// Warning: the value is accepted but probably a mistake.
    Warned,
    /// Wrong: neither a start nor a reload accepts the value.
    Wrong,
    /// Refused for now: a start accepts the value, the running manager cannot.
    NotNow,
    /// At the next start: until then the running manager keeps the old value of the key.
    NextStart,
}

impl Treatment {
    /// Returns the name shown in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Honoured => "honoured",
            Self::Mapped => "mapped",
            Self::Moot => "without effect",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Warned => "warning",
            Self::Wrong => "wrong",
            Self::NotNow => "refused for now",
            Self::NextStart => "at the next start",
        }
    }
}

/// The verdict on one line of a file, one flag or one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Line, counted from 1; 0 for a flag, or for a file that OpenSM reads by default.
    pub line: usize,
    /// The option, key or flag as written.
    pub name: String,
    /// The value as written.
    pub value: String,
    /// The treatment of the line, flag or key.
    pub treatment: Treatment,
    /// The Selvedge key that takes the value, as `routing.lmc`.
    pub key: Option<&'static str>,
    /// The reason, or what to do instead; may be empty.
    pub why: String,
    /// The complete error with its code if the finding stops a start or a reload; else empty.
    pub error: String,
}

impl Finding {
    /// Returns a finding without a Selvedge key and without an error.
    pub(crate) fn new(line: usize, name: &str, value: &str, treatment: Treatment, why: impl Into<String>) -> Self {
        Self {
            line,
            name: name.to_owned(),
            value: value.to_owned(),
            treatment,
            key: None,
            why: why.into(),
            error: String::new(),
        }
    }

    /// Returns the finding for an error at a line, flag or key.
    pub(crate) fn wrong(line: usize, name: &str, value: &str, error: &ConfigError) -> Self {
        let error = error.to_string();
        let why = error
            .split_once(": ")
            .map_or(error.as_str(), |(_, rest)| rest)
            .to_owned();
        Self {
            error,
            ..Self::new(line, name, value, Treatment::Wrong, why)
        }
    }

    /// Returns `FILE, line N: 'name': why`, the form of warnings.
    #[must_use]
    pub fn in_words(&self, file: Option<&Path>) -> String {
        let place = match (file, self.line) {
            (Some(file), line) if line > 0 => format!("{}, line {line}: ", file.display()),
            _ => String::new(),
        };
        format!("{place}'{}': {}", self.name, self.why)
    }
}
