//! Reads hourly Parquet files: one port, or all of them.

use std::io::{self, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::{ColumnReaderImpl, get_column_reader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use selvedge_telemetry::{How, SampleKey};
use selvedge_types::Guid;

use crate::HistoryError;
use crate::disk::{Disk, Source, read_full};
use crate::error::io_error;
use crate::names::{HourId, counter_name};
use crate::parquet_write::{FIXED, META_FABRIC, META_NEWEST_US, parse_how, place};
use crate::query::{Point, Span};
use crate::reading::Moment;

/// An hourly file, with its footer.
#[derive(Debug)]
pub(crate) struct HourFile {
    pub id: HourId,
    name: String,
    source: Arc<dyn Source>,
    footer: ParquetMetaData,
}

/// A place that bytes of a file are read from.
#[derive(Debug)]
struct Whole(Arc<dyn Source>);

/// One column of one row group, read with one call.
struct Chunk {
    begin: u64,
    bytes: Bytes,
}

/// Rows of a row group, side by side.
type Rows = core::ops::Range<usize>;

impl Length for Whole {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

/// Reads a file from a place on.
struct Onward(Arc<dyn Source>, u64);

impl Read for Onward {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(self.1, buffer)?;
        self.1 += read as u64;
        Ok(read)
    }
}

impl ChunkReader for Whole {
    type T = BufReader<Onward>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(Onward(Arc::clone(&self.0), start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // A damaged length must not make us ask for all memory.
        if start.saturating_add(length as u64) > self.0.len() {
            return Err(ParquetError::EOF(format!("want {length} bytes at offset {start}")));
        }
        let mut bytes = vec![0; length];
        match read_full(&*self.0, start, &mut bytes)? {
            read if read == length => Ok(bytes.into()),
            read => Err(ParquetError::EOF(format!(
                "want {length} bytes at offset {start}, found {read}"
            ))),
        }
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }
}

impl Chunk {
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let from = start
            .checked_sub(self.begin)
            .and_then(|from| usize::try_from(from).ok());
        match from.filter(|from| *from <= self.bytes.len()) {
            Some(from) => Ok(self.bytes.slice(from..)),
            None => Err(ParquetError::EOF(format!("byte {start} is outside of the column"))),
        }
    }
}

impl ChunkReader for Chunk {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(bytes::Buf::reader(self.from(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut bytes = self.from(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.split_to(length)),
            false => Err(ParquetError::EOF(format!("want {length} bytes at offset {start}"))),
        }
    }
}

/// Runs a function of the Parquet library on bytes that may be damaged. Its decoders check most of what they read, and
/// panic on some of the rest.
fn guarded<T>(read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("a page is damaged".to_owned()),
    }
}

impl HourFile {
    /// Opens a file and checks its footer, its columns, and that it belongs to this fabric.
    pub fn open(disk: &dyn Disk, folder: &Path, id: HourId, fabric: &str) -> Result<Self, HistoryError> {
        let name = id.parquet();
        let path = || folder.join(&name);
        let source = disk.open(&name).map_err(|cause| io_error("open", &path(), cause))?;
        let whole = Whole(Arc::clone(&source));
        let damaged = |what| HistoryError::Damaged { path: path(), what };
        let footer = guarded(|| ParquetMetaDataReader::new().parse_and_finish(&whole)).map_err(damaged)?;
        let file = Self {
            id,
            name: name.clone(),
            source,
            footer,
        };
        file.check().map_err(damaged)?;
        match file.about(META_FABRIC) {
            Some(found) if found == fabric => Ok(file),
            found => Err(HistoryError::OtherFabric {
                path: path(),
                found: found.unwrap_or_default().to_owned(),
                want: fabric.to_owned(),
            }),
        }
    }

    /// Checks that the columns are those of the group, and that each lies within the file.
    fn check(&self) -> Result<(), String> {
        let schema = self.footer.file_metadata().schema_descr();
        let group = self.id.group;
        let counters = (0..group.counters()).map(|counter| counter_name(group, counter));
        let want: Vec<String> = FIXED.into_iter().map(str::to_owned).chain(counters).collect();
        let found: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
        if want != found {
            return Err(format!("its columns are {}", found.join(", ")));
        }
        let columns = self.footer.row_groups().iter().flat_map(RowGroupMetaData::columns);
        for column in columns {
            let (begin, len) = guarded(|| Ok(column.byte_range()))?;
            if begin.saturating_add(len) > self.source.len() {
                return Err(format!("column {} ends after the file", column.column_path()));
            }
        }
        Ok(())
    }

    fn about(&self, key: &str) -> Option<&str> {
        let pairs = self.footer.file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// Returns its last slot.
    pub fn newest(&self) -> Option<Moment> {
        let at_us = self.about(META_NEWEST_US)?.parse().ok()?;
        let epoch = self.id.epoch;
        Some(Moment { epoch, at_us })
    }

    /// Returns its length in bytes.
    pub fn bytes(&self) -> u64 {
        self.source.len()
    }

    /// Calls `see` with the values of a counter of one port, in order of time.
    pub fn port(
        &self,
        folder: &Path,
        (key, counter): (SampleKey, usize),
        span: Span,
        see: &mut dyn FnMut(Point, How),
    ) -> Result<(), HistoryError> {
        let result = guarded(|| {
            for group in self
                .footer
                .row_groups()
                .iter()
                .filter(|group| may_hold(group, key.node))
            {
                let (node, port) = self.ports(group)?;
                let want = (key.node.0, i32::from(key.port));
                let begin = partition(node.len(), |at| (node[at].cast_unsigned(), port[at]) < want);
                let end = partition(node.len(), |at| (node[at].cast_unsigned(), port[at]) <= want);
                if begin < end {
                    let how = self.column::<ByteArrayType>(group, place::HOW, begin..end)?;
                    self.points(group, counter, (begin..end, span), &mut |at, point| {
                        see(point, known_how(&how[at - begin]));
                    })?;
                }
            }
            Ok(())
        });
        result.map_err(|what| self.damaged(folder, what))
    }

    /// Calls `see` with the first and last value of a counter of each port in a range, sorted by port.
    pub fn ends(
        &self,
        folder: &Path,
        counter: usize,
        span: Span,
        see: &mut dyn FnMut(SampleKey, (Point, Point)),
    ) -> Result<(), HistoryError> {
        let result = guarded(|| {
            for group in self.footer.row_groups() {
                let (node, port) = self.ports(group)?;
                let mut ends: Option<(usize, Point, Point)> = None;
                let mut give = |(at, first, last): (usize, Point, Point)| {
                    let key = SampleKey {
                        node: Guid(node[at].cast_unsigned()),
                        port: port[at].to_le_bytes()[0],
                        group: self.id.group,
                    };
                    see(key, (first, last));
                };
                self.points(
                    group,
                    counter,
                    (0..node.len(), span),
                    &mut |at, point| match &mut ends {
                        Some((of, _, last)) if node[*of] == node[at] && port[*of] == port[at] => *last = point,
                        _ => {
                            let before = ends.replace((at, point, point));
                            before.into_iter().for_each(&mut give);
                        }
                    },
                )?;
                ends.into_iter().for_each(give);
            }
            Ok(())
        });
        result.map_err(|what| self.damaged(folder, what))
    }

    fn damaged(&self, folder: &Path, what: String) -> HistoryError {
        let path = folder.join(&self.name);
        HistoryError::Damaged { path, what }
    }

    /// Returns node and port of each row.
    fn ports(&self, group: &RowGroupMetaData) -> Result<(Vec<i64>, Vec<i32>), ParquetError> {
        let rows = 0..usize::try_from(group.num_rows())?;
        let node = self.column::<Int64Type>(group, place::NODE, rows.clone())?;
        let port = self.column::<Int32Type>(group, place::PORT, rows)?;
        Ok((node, port))
    }

    /// Calls `see` with the values of a counter in some rows of a row group, as far as they have one and are in
    /// a range.
    fn points(
        &self,
        group: &RowGroupMetaData,
        counter: usize,
        (rows, span): (Rows, Span),
        see: &mut dyn FnMut(usize, Point),
    ) -> Result<(), ParquetError> {
        let time = self.column::<Int64Type>(group, place::TIME, rows.clone())?;
        let offset = self.column::<Int32Type>(group, place::OFFSET, rows.clone())?;
        let (levels, values) = self.optional(group, place::COUNTERS + counter, rows.clone())?;
        let mut values = values.into_iter();
        for (i, level) in levels.into_iter().enumerate() {
            if level == 0 {
                continue;
            }
            let Some(total) = values.next() else { break };
            let at_us = time[i].cast_unsigned();
            if span.has(at_us) {
                let epoch = self.id.epoch;
                let point = Point {
                    moment: Moment { epoch, at_us },
                    offset_us: offset[i].cast_unsigned(),
                    total: total.cast_unsigned(),
                };
                see(rows.start + i, point);
            }
        }
        Ok(())
    }

    fn reader<T: DataType>(
        &self,
        group: &RowGroupMetaData,
        column: usize,
        skip: usize,
    ) -> Result<ColumnReaderImpl<T>, ParquetError> {
        let about = group.column(column);
        let (begin, len) = about.byte_range();
        let bytes = Whole(Arc::clone(&self.source)).get_bytes(begin, usize::try_from(len)?)?;
        let chunk = Arc::new(Chunk { begin, bytes });
        let pages = SerializedPageReader::new(chunk, about, usize::try_from(group.num_rows())?, None)?;
        let reader = get_column_reader(about.column_descr_ptr(), Box::new(pages));
        let mut reader = get_typed_column_reader::<T>(reader);
        reader.skip_records(skip)?;
        Ok(reader)
    }

    /// Returns the values of a column that has one in each row.
    fn column<T: DataType>(
        &self,
        group: &RowGroupMetaData,
        column: usize,
        rows: Rows,
    ) -> Result<Vec<T::T>, ParquetError> {
        let mut values = Vec::with_capacity(rows.len());
        let mut reader = self.reader::<T>(group, column, rows.start)?;
        reader.read_records(rows.len(), None, None, &mut values)?;
        match values.len() == rows.len() {
            true => Ok(values),
            false => Err(ParquetError::EOF(format!(
                "{} rows, found {}",
                rows.len(),
                values.len()
            ))),
        }
    }

    /// Returns the values of a counter, and a 1 or 0 for each row that has one or has none.
    fn optional(
        &self,
        group: &RowGroupMetaData,
        column: usize,
        rows: Rows,
    ) -> Result<(Vec<i16>, Vec<i64>), ParquetError> {
        let (mut levels, mut values) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        let mut reader = self.reader::<Int64Type>(group, column, rows.start)?;
        reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
        match levels.len() == rows.len() {
            true => Ok((levels, values)),
            false => Err(ParquetError::EOF(format!(
                "{} rows, found {}",
                rows.len(),
                levels.len()
            ))),
        }
    }
}

/// A text that this version does not know counts as read.
fn known_how(text: &ByteArray) -> How {
    parse_how(text.data()).unwrap_or(How::Read)
}

/// True if the row group may hold ports of a node, by its statistics.
fn may_hold(group: &RowGroupMetaData, node: Guid) -> bool {
    let Some(Statistics::Int64(about)) = group.column(place::NODE).statistics() else {
        return true;
    };
    let bounds = about.min_opt().zip(about.max_opt());
    bounds.is_none_or(|(min, max)| (min.cast_unsigned()..=max.cast_unsigned()).contains(&node.0))
}

/// Returns the first place for which `is_before` is false. Those for which it is true come first.
fn partition(len: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        match is_before(middle) {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    low
}
