//! The hot window: every sample of the last minutes, in memory.

use core::time::Duration;

use selvedge_telemetry::SampleKey;

use crate::book::{Book, Track};
use crate::reading::{Moment, Reading};

/// Rows of a chunk. Longer chunks cost less memory; shorter ones are read faster, and memory is freed in finer steps.
const CHUNK_ROWS: u32 = 120;

/// Every sample of the last minutes.
#[derive(Debug)]
pub struct Window {
    book: Book,
    age_us: u64,
    bytes_max: usize,
    newest: Moment,
    /// Rows until the bounds are checked again.
    until_check: u32,
}

impl Window {
    /// Returns an empty window that keeps at least `age`, as long as it fits in `bytes_max`.
    #[must_use]
    pub fn new(age: Duration, bytes_max: usize) -> Self {
        Self {
            book: Book::default(),
            age_us: u64::try_from(age.as_micros()).unwrap_or(u64::MAX),
            bytes_max,
            newest: Moment::default(),
            until_check: CHUNK_ROWS,
        }
    }

    /// Takes a row; false if the port and group has this slot or a later one already.
    pub fn push(&mut self, key: SampleKey, row: &Reading) -> bool {
        let place = self.book.place(key);
        let last = self.book.track(place).and_then(|track| track.last());
        if last.is_some_and(|last| row.moment <= last.moment) {
            return false;
        }
        // The first chunks have different lengths: so not all ports close one in the same slot.
        let is_first = self.book.track(place).is_some_and(Track::is_first_chunk);
        let rows_max = match is_first {
            true => CHUNK_ROWS / 2 + u32::try_from(place).unwrap_or(0) % (CHUNK_ROWS / 2),
            false => CHUNK_ROWS,
        };
        self.book.push(place, row, None, rows_max);
        self.newest = self.newest.max(row.moment);
        self.until_check = self.until_check.saturating_sub(1);
        if self.until_check == 0 {
            self.keep_bounds();
        }
        true
    }

    /// Frees what is too old, and the oldest rows while all together are too many.
    fn keep_bounds(&mut self) {
        let floor = Moment {
            at_us: self.newest.at_us.saturating_sub(self.age_us),
            ..self.newest
        };
        self.book.drop_before(floor);
        self.book.forget_before(floor);
        while self.book.bytes() > self.bytes_max {
            let Some(oldest) = self.book.oldest_end() else { break };
            // Everything that ends within the same few seconds goes at once, so that all ports go equally far back.
            let floor = Moment {
                at_us: oldest.at_us.saturating_add(self.age_us / 128 + 1),
                ..oldest
            };
            if !self.book.drop_before(floor) {
                break;
            }
        }
        // A slot of this many ports adds about as many rows.
        self.until_check = u32::try_from(self.book.len()).unwrap_or(u32::MAX).max(CHUNK_ROWS);
    }

    /// Returns the bytes that the window takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.book.bytes()
    }

    /// Returns how many rows it holds.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.book.rows()
    }

    /// Returns the last row of a port and group.
    #[must_use]
    pub fn last(&self, key: SampleKey) -> Option<&Reading> {
        self.book.track(self.book.find(key)?)?.last()
    }

    pub(crate) const fn book(&self) -> &Book {
        &self.book
    }
}
