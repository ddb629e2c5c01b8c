//! Stored telemetry: what [`selvedge_telemetry`] samples, kept and found again.
//!
//! [`History`] keeps every sample of the last minutes in memory, and the first sample of each step (30 s) in a folder:
//! hourly Parquet files, sorted by port and time, which DuckDB, Polars and pandas read as they are. [`Database`] keeps
//! events, alarms, topology versions and baselines in SQLite.
//!
//! A manager that is killed loses the slot in progress at most: rows of the hour in progress stand in a journal, which
//! becomes a Parquet file when the hour is over. A full disk stops the history with a [`Notice`], never the caller.

mod book;
mod calendar;
mod config;
mod database;
mod disk;
mod error;
mod history;
mod hour;
mod job;
mod memory_disk;
mod names;
mod open;
mod parquet_read;
mod parquet_write;
mod query;
mod reading;
mod shelf;
mod table;
mod window;

pub use config::Config;
pub use database::{Alarm, Database, Entry, Severity, Subject, Topology};
pub use disk::{Content, Disk, Files, Source, read_all};
pub use error::{HistoryError, Notice};
pub use history::{History, Pushed, Usage};
pub use job::{Done, Job};
pub use memory_disk::MemoryDisk;
pub use names::counter_name;
pub use open::{Opened, Resume};
pub use query::{Mover, Point, Ports, PortsQuery, Question, Range, Series, SeriesPoint, SeriesQuery};
pub use reading::{Moment, Reading};
pub use window::Window;
