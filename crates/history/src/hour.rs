//! An hour in progress: its rows in memory, and the journal that brings them back after a crash.
//!
//! A journal is a row of records: length, check sum, content. The first one names the fabric, hour and group of the
//! journal; each further one holds the rows of one flush. A record is written with one append and synced, so a crash
//! cuts the last record at most. The first rows of a new hour are the last ones of the hour before: a manager that is
//! killed at the turn of the hour still knows where each counter stood.

use selvedge_telemetry::{Group, SampleKey};
use selvedge_types::Guid;

use crate::book::Book;
use crate::names::{HourId, group_of};
use crate::reading::{Moment, Reading, put, put_signed, take, take_signed};

/// First bytes of a journal, with the number of its format.
const MAGIC: &[u8; 8] = b"SLVHIST1";
/// Bytes of a record before its content: length and check sum.
const FRAME_BYTES: usize = 12;
/// Bytes of an entry in the list of new ports.
const KEY_BYTES: usize = 9;
/// How long the last row of a port that is gone is handed from hour to hour.
const CARRY_US: u64 = 24 * 3_600_000_000;

/// An hour of one counter group.
#[derive(Debug)]
pub(crate) struct Hour {
    pub id: HourId,
    book: Book,
    /// Complete records that are not in the journal yet.
    pending: Vec<u8>,
    /// Ports that are new in the record in progress.
    keys: Vec<u8>,
    /// Rows of the record in progress.
    rows: Vec<u8>,
    /// The place after that of the last row in the record in progress.
    next: u64,
    /// Bytes of the journal that are known to be good.
    written: u64,
    /// The last row of the hour itself.
    newest: Option<Moment>,
    /// Rows of the hour itself.
    count: u64,
}

/// What is wrong with a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The file does not begin as a journal.
    NoJournal,
    /// The journal belongs to another fabric, which is named.
    OtherFabric(String),
    /// The last bytes are no record.
    Torn { good: u64, lost: u64 },
}

impl Hour {
    /// Returns an hour that continues from the last rows of the one before.
    pub fn new(id: HourId, fabric: &str, before: Option<&Self>) -> Self {
        let mut hour = Self::empty(id);
        hour.pending.extend_from_slice(MAGIC);
        let title = format!("{}\n{}\n{}\n{fabric}\n", id.group.name(), id.epoch, id.hour);
        append_record(&mut hour.pending, &[title.as_bytes()]);
        for (key, track) in before.iter().flat_map(|before| before.book.iter()) {
            let last = track.last().filter(|last| {
                last.moment.epoch < id.epoch || last.moment.at_us.saturating_add(CARRY_US) > id.hour.begin_us()
            });
            if let Some(last) = last {
                hour.push(key, last);
            }
        }
        hour
    }

    fn empty(id: HourId) -> Self {
        Self {
            id,
            book: Book::default(),
            pending: Vec::new(),
            keys: Vec::new(),
            rows: Vec::new(),
            next: 0,
            written: 0,
            newest: None,
            count: 0,
        }
    }

    /// Takes a row that is later than the last one of this port.
    pub fn push(&mut self, key: SampleKey, row: &Reading) {
        let known = self.book.len();
        let place = self.book.place(key);
        if place == known {
            self.keys.extend_from_slice(&key.node.0.to_le_bytes());
            self.keys.push(key.port);
        }
        put_signed(&mut self.rows, (place as u64).wrapping_sub(self.next));
        self.next = place as u64 + 1;
        self.book.push(place, row, Some(&mut self.rows), u32::MAX);
        self.count_row(row.moment);
    }

    fn count_row(&mut self, moment: Moment) {
        if moment >= self.begin() {
            self.newest = self.newest.max(Some(moment));
            self.count += 1;
        }
    }

    /// Returns the moment at which the hour begins. Rows before it are those of the hour before.
    pub const fn begin(&self) -> Moment {
        Moment {
            epoch: self.id.epoch,
            at_us: self.id.hour.begin_us(),
        }
    }

    /// Returns the last row of a port.
    pub fn last(&self, key: SampleKey) -> Option<&Reading> {
        self.book.track(self.book.find(key)?)?.last()
    }

    /// Returns its last slot with a row.
    pub const fn newest(&self) -> Option<Moment> {
        self.newest
    }

    /// Returns its number of rows.
    pub const fn count(&self) -> u64 {
        self.count
    }

    pub const fn book(&self) -> &Book {
        &self.book
    }

    /// Returns the bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        self.book.bytes() + self.pending_bytes()
    }

    /// Returns the bytes that are not in the journal yet.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len() + self.rows.len() + self.keys.len()
    }

    /// Returns the length of the journal.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// Returns what is to be appended to the journal, and from where on.
    pub fn unwritten(&mut self) -> Option<(u64, &[u8])> {
        if !self.rows.is_empty() {
            let mut count = Vec::new();
            put(&mut count, (self.keys.len() / KEY_BYTES) as u64);
            append_record(&mut self.pending, &[&count, &self.keys, &self.rows]);
            self.keys.clear();
            self.rows.clear();
            self.next = 0;
        }
        (!self.pending.is_empty()).then_some((self.written, &self.pending[..]))
    }

    /// Notes that [`Self::unwritten`] was appended.
    pub fn note_written(&mut self) {
        self.written += self.pending.len() as u64;
        // The first append is far longer than the others: its memory is given back.
        self.pending = Vec::new();
    }

    /// Reads a journal. What follows the last good record is not read, and overwritten by the next append.
    pub fn replay(id: HourId, fabric: &str, bytes: &[u8]) -> Result<(Self, Option<Fault>), Fault> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(Fault::NoJournal)?;
        let title = take_record(&mut rest).and_then(|title| str::from_utf8(title).ok());
        check_title(id, fabric, title.ok_or(Fault::NoJournal)?)?;
        let mut hour = Self::empty(id);
        loop {
            hour.written = (bytes.len() - rest.len()) as u64;
            if rest.is_empty() {
                return Ok((hour, None));
            }
            let record = take_record(&mut rest);
            if record.and_then(|record| hour.replay_record(record)).is_none() {
                let good = hour.written;
                let lost = bytes.len() as u64 - good;
                return Ok((hour, Some(Fault::Torn { good, lost })));
            }
        }
    }

    fn replay_record(&mut self, mut record: &[u8]) -> Option<()> {
        let keys = usize::try_from(take(&mut record).ok()?).ok()?;
        let (keys, mut rows) = record.split_at_checked(keys.checked_mul(KEY_BYTES)?)?;
        for key in keys.chunks_exact(KEY_BYTES) {
            let (node, port) = key.split_first_chunk()?;
            self.book.place(SampleKey {
                node: Guid(u64::from_le_bytes(*node)),
                port: *port.first()?,
                group: self.id.group,
            });
        }
        let mut next = 0_u64;
        while !rows.is_empty() {
            let place = next.wrapping_add(take_signed(&mut rows).ok()?);
            next = place.wrapping_add(1);
            let place = usize::try_from(place).ok()?;
            self.book.replay(place, &mut rows)?;
            let moment = self.book.track(place)?.last()?.moment;
            self.count_row(moment);
        }
        Some(())
    }
}

fn check_title(id: HourId, fabric: &str, title: &str) -> Result<(), Fault> {
    let mut lines = title.lines();
    let mut line = || lines.next().ok_or(Fault::NoJournal);
    let group: Option<Group> = group_of(line()?);
    let is_of = group == Some(id.group) && line()? == id.epoch.to_string() && line()? == id.hour.to_string();
    if !is_of {
        return Err(Fault::NoJournal);
    }
    match line()? {
        found if found == fabric => Ok(()),
        found => Err(Fault::OtherFabric(found.to_owned())),
    }
}

/// Appends a record.
fn append_record(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let sum = sum(parts.iter().flat_map(|part| part.iter()));
    // A record holds one slot of one group: 254 ports of 49,151 LIDs would make 3 GB at most.
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&sum.to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Takes the next record; `None` if it is cut or damaged.
fn take_record<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (frame, rest) = bytes.split_first_chunk::<FRAME_BYTES>()?;
    let (len, want) = frame.split_first_chunk::<4>()?;
    let want = u64::from_le_bytes(*want.first_chunk()?);
    let (record, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
    if sum(record.iter()) != want {
        return None;
    }
    *bytes = rest;
    Some(record)
}

/// Returns the FNV-1a hash. Each step is a bijection, so a single changed byte always changes the hash.
fn sum<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
