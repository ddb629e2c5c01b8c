//! Rows that a dump may repeat but not contradict. All readers of dumps use this check.

use super::DumpError;
use crate::Place;

/// The value of a key, with its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row<V> {
    pub value: V,
    /// Line number, from 1.
    pub line: u32,
}

/// Texts for an error about two values of one key.
pub(super) struct Words {
    /// The key, for example `the service level of LID 4`.
    pub what: String,
    /// The value of the later row.
    pub here: String,
    /// The value of the first row.
    pub there: String,
}

impl<V: PartialEq> Row<V> {
    pub fn new(value: V, line: usize) -> Self {
        let line = u32::try_from(line).unwrap_or(u32::MAX);
        Self { value, line }
    }

    /// Fails if a later row states another value for the same key.
    pub fn agrees(&self, later: &V, file: &str, line: usize, words: impl FnOnce(&V) -> Words) -> Result<(), DumpError> {
        if self.value == *later {
            return Ok(());
        }
        let Words { what, here, there } = words(&self.value);
        Err(DumpError::Contradiction {
            place: Place {
                file: file.to_owned(),
                line,
            },
            what,
            here,
            there,
            first_line: self.line as usize,
        })
    }
}
