//! Work that takes longer than a slot: a complete hour becomes a Parquet file.

use std::sync::Arc;

use crate::HistoryError;
use crate::hour::Hour;
use crate::names::HourId;
use crate::shelf::Shelf;

/// Turns an hour into a Parquet file. May run on any thread, while samples go on being taken.
#[derive(Debug)]
pub struct Job {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) id: HourId,
    /// The rows; `None`: they are in the journal only.
    pub(crate) hour: Option<Arc<Hour>>,
}

/// The result of a job.
#[derive(Debug)]
pub struct Done {
    pub(crate) id: HourId,
    pub(crate) result: Result<u64, HistoryError>,
}

impl Job {
    /// Does the work. It takes a few seconds for an hour of 35,000 ports.
    #[must_use]
    pub fn run(&self) -> Done {
        let result = match &self.hour {
            Some(hour) => self.shelf.complete(hour),
            None => self.complete_journal(),
        };
        Done { id: self.id, result }
    }

    fn complete_journal(&self) -> Result<u64, HistoryError> {
        match self.shelf.journal(self.id)? {
            // What a torn end lost was reported at the start.
            Ok((hour, _)) => self.shelf.complete(&hour),
            Err(fault) => Err(HistoryError::Damaged {
                path: self.shelf.folder.join(self.id.journal()),
                what: format!("{fault:?}"),
            }),
        }
    }
}
