//! Writes an hour as a Parquet file, sorted by port and time.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use selvedge_telemetry::{Group, How, SampleKey};

use crate::hour::Hour;
use crate::names::counter_name;
use crate::query::Span;
use crate::reading::Reading;

/// Rows of a row group, rounded up to whole ports. Readers that want one port skip all row groups but one; larger ones
/// have less overhead.
const GROUP_ROWS: usize = 65_536;
/// Rows of a page: what is decoded at least to read one port.
const PAGE_ROWS: usize = 4_096;
/// Rows that are handed to a column at once. Page lengths are checked after each.
const BATCH_ROWS: usize = 1_024;
/// Level 3 is the library's default; measured here, level 1 makes files 1 % longer, level 9 takes three times as long.
const ZSTD_LEVEL: i32 = 3;

/// Columns before the counters.
pub(crate) const FIXED: [&str; 8] = ["time", "node", "port", "epoch", "offset_us", "how", "resets", "full"];
/// Places of columns.
pub(crate) mod place {
    pub const TIME: usize = 0;
    pub const NODE: usize = 1;
    pub const PORT: usize = 2;
    pub const OFFSET: usize = 4;
    pub const HOW: usize = 5;
    pub const COUNTERS: usize = super::FIXED.len();
}

/// Keys of a file's own metadata.
pub(crate) const META_FABRIC: &str = "selvedge.fabric";
pub(crate) const META_NEWEST_US: &str = "selvedge.newest_us";

/// Writes the rows of an hour. The rows of the hour before, from which it continues, are left out.
pub(crate) fn write_hour(hour: &Hour, fabric: &str, out: &mut (dyn Write + Send)) -> Result<()> {
    let group = hour.id.group;
    let mut file = SerializedFileWriter::new(out, schema(group)?, Arc::new(properties(hour, fabric)?))?;
    let mut columns = Columns::new(group);
    for (key, track) in hour.book().iter() {
        track.rows(Span::ALL, |row| {
            if row.moment >= hour.begin() {
                columns.push(key, row);
            }
        });
        if columns.time.len() >= GROUP_ROWS {
            columns.write(&mut file)?;
        }
    }
    if !columns.time.is_empty() {
        columns.write(&mut file)?;
    }
    file.close().map(drop)
}

/// Returns the text of how values are known.
pub(crate) const fn how_text(how: How) -> &'static str {
    match how {
        How::Read => "read",
        How::Unchanged => "unchanged",
        How::Derived => "derived",
        How::Down => "down",
    }
}

/// Reads what [`how_text`] returns.
pub(crate) fn parse_how(text: &[u8]) -> Option<How> {
    [How::Read, How::Unchanged, How::Derived, How::Down]
        .into_iter()
        .find(|how| how_text(*how).as_bytes() == text)
}

fn schema(group: Group) -> Result<TypePtr> {
    let column = |name: &str, physical, logical, repetition| {
        let built = Type::primitive_type_builder(name, physical)
            .with_logical_type(Some(logical))
            .with_repetition(repetition);
        built.build().map(Arc::new)
    };
    let unsigned = |bits| LogicalType::integer(bits, false);
    let required = Repetition::REQUIRED;
    let time = LogicalType::timestamp(true, TimeUnit::MICROS);
    let mut fields = vec![
        column(FIXED[0], Physical::INT64, time, required)?,
        column(FIXED[1], Physical::INT64, unsigned(64), required)?,
        column(FIXED[2], Physical::INT32, unsigned(8), required)?,
        column(FIXED[3], Physical::INT32, unsigned(32), required)?,
        column(FIXED[4], Physical::INT32, unsigned(32), required)?,
        column(FIXED[5], Physical::BYTE_ARRAY, LogicalType::String, required)?,
        column(FIXED[6], Physical::INT32, unsigned(32), required)?,
        column(FIXED[7], Physical::INT32, unsigned(32), required)?,
    ];
    for counter in 0..group.counters() {
        let name = counter_name(group, counter);
        fields.push(column(&name, Physical::INT64, unsigned(64), Repetition::OPTIONAL)?);
    }
    let root = Type::group_type_builder("telemetry").with_fields(fields).build()?;
    Ok(Arc::new(root))
}

fn properties(hour: &Hour, fabric: &str) -> Result<WriterProperties> {
    let group = hour.id.group;
    let sorted = |column_idx| SortingColumn {
        column_idx,
        descending: false,
        nulls_first: false,
    };
    let newest_us = hour.newest().map_or(0, |newest| newest.at_us);
    let about = vec![
        KeyValue::new(META_FABRIC.to_owned(), fabric.to_owned()),
        KeyValue::new(META_NEWEST_US.to_owned(), newest_us.to_string()),
    ];
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("selvedge ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(BATCH_ROWS)
        .set_sorting_columns(Some(vec![sorted(1), sorted(2), sorted(0)]))
        .set_key_value_metadata(Some(about))
        // What repeats from row to row is short as numbers of a dictionary, and shorter still by zstd.
        .set_dictionary_enabled(true)
        .set_statistics_enabled(EnabledStatistics::Page);
    let counters = (0..group.counters()).map(|counter| counter_name(group, counter));
    for name in counters.chain([FIXED[place::OFFSET].to_owned()]) {
        let column = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column.clone(), Encoding::DELTA_BINARY_PACKED)
            .set_column_statistics_enabled(column, EnabledStatistics::Chunk);
    }
    Ok(properties.build())
}

/// Rows of a row group, column by column.
struct Columns {
    time: Vec<i64>,
    node: Vec<i64>,
    port: Vec<i32>,
    epoch: Vec<i32>,
    offset: Vec<i32>,
    how: Vec<ByteArray>,
    resets: Vec<i32>,
    full: Vec<i32>,
    counters: Vec<Counter>,
    /// The four texts of how values are known.
    texts: [ByteArray; 4],
}

/// Values of a counter, and a 1 or 0 for each row that has one or has none.
#[derive(Default)]
struct Counter {
    values: Vec<i64>,
    levels: Vec<i16>,
}

impl Columns {
    fn new(group: Group) -> Self {
        let counters = (0..group.counters()).map(|_| Counter::default());
        let text = |how| ByteArray::from(how_text(how).as_bytes().to_vec());
        Self {
            time: Vec::new(),
            node: Vec::new(),
            port: Vec::new(),
            epoch: Vec::new(),
            offset: Vec::new(),
            how: Vec::new(),
            resets: Vec::new(),
            full: Vec::new(),
            counters: counters.collect(),
            texts: [How::Read, How::Unchanged, How::Derived, How::Down].map(text),
        }
    }

    fn push(&mut self, key: SampleKey, row: &Reading) {
        self.time.push(row.moment.at_us.cast_signed());
        self.node.push(key.node.0.cast_signed());
        self.port.push(key.port.into());
        self.epoch.push(row.moment.epoch.cast_signed());
        self.offset.push(row.offset_us.cast_signed());
        self.how.push(self.texts[row.how as usize].clone());
        self.resets.push(row.resets.cast_signed());
        self.full.push(row.full.cast_signed());
        for (i, counter) in self.counters.iter_mut().enumerate() {
            let is_known = row.known >> i & 1 != 0;
            counter.levels.push(is_known.into());
            if is_known {
                counter.values.push(row.totals[i].cast_signed());
            }
        }
    }

    /// Writes a row group and begins the next one.
    fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let mut group = file.next_row_group()?;
        let long = |group: &mut SerializedRowGroupWriter<'_, W>, values: &mut Vec<i64>, levels: Option<&[i16]>| {
            let Some(mut column) = group.next_column()? else {
                return Ok(());
            };
            column.typed::<Int64Type>().write_batch(values, levels, None)?;
            values.clear();
            column.close()
        };
        let short = |group: &mut SerializedRowGroupWriter<'_, W>, values: &mut Vec<i32>| {
            let Some(mut column) = group.next_column()? else {
                return Ok(());
            };
            column.typed::<Int32Type>().write_batch(values, None, None)?;
            values.clear();
            column.close()
        };
        long(&mut group, &mut self.time, None)?;
        long(&mut group, &mut self.node, None)?;
        short(&mut group, &mut self.port)?;
        short(&mut group, &mut self.epoch)?;
        short(&mut group, &mut self.offset)?;
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(&self.how, None, None)?;
            self.how.clear();
            column.close()?;
        }
        short(&mut group, &mut self.resets)?;
        short(&mut group, &mut self.full)?;
        for counter in &mut self.counters {
            long(&mut group, &mut counter.values, Some(&counter.levels))?;
            counter.levels.clear();
        }
        group.close().map(drop)
    }
}
