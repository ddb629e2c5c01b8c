//! What a check of a configuration says of one line, flag or key.

use std::path::Path;

use crate::ConfigError;

/// What becomes of a line, a flag or a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It has OpenSM's default, and so has Selvedge, or it does not matter here.
    Default,
    /// Its value holds here as it did there.
    Honoured,
    /// Its value goes into a setting that differs as the explanation says.
    Mapped,
    /// It changes nothing here, and nothing is lost.
    Moot,
    /// It cannot be had: a manager started with it would not do what the file says.
    Refused,
    /// Neither OpenSM 3.3.23 nor its known forks have such an option. OpenSM goes on; so does Selvedge, with a warning.
    Unknown,
    /// It holds, but something about it is probably not meant.
    Warned,
    /// It is a mistake: neither a start nor a reload takes it.
    Wrong,
    /// A start takes it; the running manager cannot.
    NotNow,
    /// The running manager keeps its old value until its next start.
    NextStart,
}

impl Treatment {
    /// As tables show it.
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

/// What becomes of one line of a file, one flag or one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Line, counted from 1; 0: no line, but a flag, or a file that OpenSM reads unasked.
    pub line: usize,
    /// The option, key or flag as it is written.
    pub name: String,
    /// Its value as it is written.
    pub value: String,
    /// What becomes of it.
    pub treatment: Treatment,
    /// Our key that takes the value, as `routing.lmc`.
    pub key: Option<&'static str>,
    /// Why, or what to do instead; empty where there is nothing to say.
    pub why: String,
    /// The complete error, with its code, of a finding that stops a start or a reload; else empty.
    pub error: String,
}

impl Finding {
    /// A finding without our key and without an error.
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

    /// The finding of an error at a line, flag or key.
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

    /// `FILE, line N: 'name': why`, as warnings are printed.
    #[must_use]
    pub fn in_words(&self, file: Option<&Path>) -> String {
        let place = match (file, self.line) {
            (Some(file), line) if line > 0 => format!("{}, line {line}: ", file.display()),
            _ => String::new(),
        };
        format!("{place}'{}': {}", self.name, self.why)
    }
}
