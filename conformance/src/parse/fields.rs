//! Reads the output of `smpquery`, `perfquery` and `sminfo`.

use std::collections::BTreeMap;

use selvedge_types::Guid;

use super::{guid, unread};
use crate::LabError;

/// Fields by name, as `smpquery` and `perfquery` print them: `Name:.....value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Reads the output of such a program. Lines in another form are skipped.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let fields = lines.filter_map(|line| {
            let (name, rest) = line.split_once(":.")?;
            let value = rest.trim_start_matches('.');
            Some((name.trim().to_owned(), value.to_owned()))
        });
        Self(fields.collect())
    }

    /// A field's text.
    pub fn text(&self, name: &'static str) -> Result<&str, LabError> {
        self.0
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| unread(name, "any line"))
    }

    /// A field's number, decimal or with `0x`.
    pub fn number(&self, name: &'static str) -> Result<u64, LabError> {
        let text = self.text(name)?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.map_err(|_| unread(name, text))
    }
}

/// What `sminfo` prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmInfo {
    /// LID of the SM.
    pub lid: u16,
    /// GUID of the SM's port.
    pub guid: Guid,
    /// Number of sweeps, as the SM counts its activity.
    pub activity: u32,
    /// Priority of the SM.
    pub priority: u8,
    /// State of the SM: for example `SMINFO_MASTER`.
    pub state: String,
}

impl SmInfo {
    /// Reads `sminfo: sm lid 1 sm guid 0x100001, activity count 104 priority 0 state 3 SMINFO_MASTER`.
    pub fn parse(text: &str) -> Result<Self, LabError> {
        let line = text
            .lines()
            .find(|line| line.starts_with("sminfo: sm lid"))
            .unwrap_or(text);
        let words: Vec<_> = line.split_whitespace().map(|word| word.trim_end_matches(',')).collect();
        let after = |name: &str| {
            words
                .iter()
                .position(|&word| word == name)
                .and_then(|at| words.get(at + 1))
        };
        let info = || {
            Some(Self {
                lid: after("lid")?.parse().ok()?,
                guid: guid(after("guid")?)?,
                activity: after("count")?.parse().ok()?,
                priority: after("priority")?.parse().ok()?,
                state: (*words.last()?).to_owned(),
            })
        };
        info().ok_or_else(|| unread("an SM", line))
    }
}
