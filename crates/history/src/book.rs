//! Rows of many ports in memory, each port and group in chunks of its own.

use std::collections::{BTreeMap, VecDeque};

use selvedge_telemetry::SampleKey;

use crate::query::Span;
use crate::reading::{Codec, Moment, Reading, repeat};

/// What a closed chunk costs beside its bytes: its entry, and what the allocator adds.
const CHUNK_BYTES: usize = size_of::<Chunk>() + 16;
/// What a port and group costs beside its chunks.
const TRACK_BYTES: usize = size_of::<Track>() + size_of::<SampleKey>() + 32;

/// Rows that are not appended to any more.
#[derive(Debug)]
struct Chunk {
    first: Moment,
    last: Moment,
    rows: u32,
    bytes: Box<[u8]>,
}

/// The rows of one port and group.
#[derive(Debug)]
pub(crate) struct Track {
    closed: VecDeque<Chunk>,
    /// Bytes of the chunk that is appended to.
    open: Vec<u8>,
    /// Time of the first row.
    first: Moment,
    /// Number of rows.
    rows: u32,
    codec: Codec,
    /// True if the last byte counts rows without change.
    is_still: bool,
}

impl Track {
    const fn new() -> Self {
        Self {
            closed: VecDeque::new(),
            open: Vec::new(),
            first: Moment { epoch: 0, at_us: 0 },
            rows: 0,
            codec: Codec::new(),
            is_still: false,
        }
    }

    /// Returns the last row, if there is one.
    pub fn last(&self) -> Option<&Reading> {
        (self.rows > 0).then(|| self.codec.last())
    }

    /// True if no chunk is closed.
    pub fn is_first_chunk(&self) -> bool {
        self.closed.is_empty()
    }

    /// Appends a row; `copy` gets its bytes too.
    fn push(&mut self, row: &Reading, copy: Option<&mut Vec<u8>>) {
        if self.rows == 0 {
            self.first = row.moment;
        }
        let from = self.open.len();
        self.codec.encode(row, &mut self.open);
        if let Some(copy) = copy {
            copy.extend_from_slice(&self.open[from..]);
        }
        self.merge(from);
    }

    /// Counts the row with bytes from `from` on; merges it with the byte before if both repeat the row before them.
    fn merge(&mut self, from: usize) {
        self.rows += 1;
        let repeats = self.open.len() == from + 1 && self.open[from] == 1;
        if repeats && self.is_still && repeat(&mut self.open[from - 1]) {
            self.open.truncate(from);
        }
        self.is_still = repeats;
    }

    /// Takes the bytes of one row that another track wrote.
    fn replay(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let before = *bytes;
        let (last, mut still) = (self.codec.last().moment, 0);
        self.codec.decode(bytes, &mut still).ok()?;
        let moment = self.codec.last().moment;
        if still > 0 || self.rows > 0 && moment <= last {
            return None;
        }
        if self.rows == 0 {
            self.first = moment;
        }
        let from = self.open.len();
        self.open.extend_from_slice(&before[..before.len() - bytes.len()]);
        self.merge(from);
        Some(())
    }

    /// Closes the open chunk. The next row is written in full.
    fn close(&mut self) {
        let last = self.codec.last().moment;
        self.closed.push_back(Chunk {
            first: self.first,
            last,
            rows: self.rows,
            bytes: self.open.as_slice().into(),
        });
        // The capacity stays: the next chunk of this port will be about as long.
        self.open.clear();
        self.is_still = false;
    }

    /// Calls `see` with all rows in a range, in order.
    pub fn rows(&self, span: Span, mut see: impl FnMut(&Reading)) {
        let closed = self
            .closed
            .iter()
            .map(|chunk| (chunk.first, chunk.last, &chunk.bytes[..]));
        let open = (!self.open.is_empty()).then(|| (self.first, self.codec.last().moment, &self.open[..]));
        for (first, last, mut bytes) in closed.chain(open) {
            if !span.may_have(first, last) {
                continue;
            }
            let (mut codec, mut still) = (Codec::new(), 0);
            while (still > 0 || !bytes.is_empty()) && codec.decode(&mut bytes, &mut still).is_ok() {
                let row = codec.last();
                if span.has(row.moment.at_us) {
                    see(row);
                } else if first.epoch == last.epoch && row.moment.at_us > span.to_us {
                    break;
                }
            }
        }
    }
}

/// Rows of many ports.
#[derive(Debug, Default)]
pub(crate) struct Book {
    places: BTreeMap<SampleKey, u32>,
    keys: Vec<SampleKey>,
    tracks: Vec<Track>,
    /// Bytes of all chunks and of what belongs to them.
    bytes: usize,
}

impl Book {
    /// Returns the place of a port and group, which it gets if it has none.
    pub fn place(&mut self, key: SampleKey) -> usize {
        let next = self.tracks.len();
        let place = *self
            .places
            .entry(key)
            .or_insert_with(|| u32::try_from(next).unwrap_or(u32::MAX)) as usize;
        if place == next {
            self.keys.push(key);
            self.tracks.push(Track::new());
            self.bytes += TRACK_BYTES;
        }
        place
    }

    /// Returns the place of a port and group, if it has one.
    pub fn find(&self, key: SampleKey) -> Option<usize> {
        self.places.get(&key).map(|place| *place as usize)
    }

    /// Returns the rows at a place.
    pub fn track(&self, place: usize) -> Option<&Track> {
        self.tracks.get(place)
    }

    /// Returns all ports and groups in order.
    pub fn iter(&self) -> impl Iterator<Item = (SampleKey, &Track)> {
        self.places
            .iter()
            .map(|(key, place)| (*key, &self.tracks[*place as usize]))
    }

    /// Returns how many ports and groups there are.
    pub fn len(&self) -> usize {
        self.tracks.len()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        let closed = self.tracks.iter().flat_map(|track| &track.closed);
        let open = self.tracks.iter().map(|track| u64::from(track.rows));
        closed.map(|chunk| u64::from(chunk.rows)).chain(open).sum()
    }

    /// Returns the bytes that all rows take.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a row at a place; `copy` gets its bytes too. After `rows_max` rows a chunk is closed.
    pub fn push(&mut self, place: usize, row: &Reading, copy: Option<&mut Vec<u8>>, rows_max: u32) {
        let track = &mut self.tracks[place];
        let before = track.open.capacity();
        if track.rows >= rows_max {
            let closing = track.open.len();
            track.close();
            track.codec = Codec::new();
            track.rows = 0;
            self.bytes += closing + CHUNK_BYTES;
        }
        track.push(row, copy);
        self.bytes += track.open.capacity() - before;
    }

    /// Takes the bytes of one row that another book wrote; `None` if they are no row that follows the ones before.
    pub fn replay(&mut self, place: usize, bytes: &mut &[u8]) -> Option<()> {
        let track = self.tracks.get_mut(place)?;
        let before = track.open.capacity();
        let replayed = track.replay(bytes);
        self.bytes += track.open.capacity() - before;
        replayed
    }

    /// Drops closed chunks that end before `floor`. Returns whether any was dropped.
    pub fn drop_before(&mut self, floor: Moment) -> bool {
        let before = self.bytes;
        for track in &mut self.tracks {
            while let Some(chunk) = track.closed.front().filter(|chunk| chunk.last < floor) {
                self.bytes -= chunk.bytes.len() + CHUNK_BYTES;
                track.closed.pop_front();
            }
        }
        self.bytes < before
    }

    /// Returns the end of the oldest closed chunk.
    pub fn oldest_end(&self) -> Option<Moment> {
        let oldest = self.tracks.iter().filter_map(|track| track.closed.front());
        oldest.map(|chunk| chunk.last).min()
    }

    /// Forgets ports and groups without a row since `floor`.
    pub fn forget_before(&mut self, floor: Moment) {
        if self.tracks.iter().all(|track| track.codec.last().moment >= floor) {
            return;
        }
        let old = std::mem::take(self);
        for (key, track) in old.keys.into_iter().zip(old.tracks) {
            if track.codec.last().moment < floor {
                continue;
            }
            let place = self.place(key);
            let closed: usize = track.closed.iter().map(|chunk| chunk.bytes.len() + CHUNK_BYTES).sum();
            self.bytes += closed + track.open.capacity();
            self.tracks[place] = track;
        }
    }
}
