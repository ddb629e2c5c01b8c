//! Stored telemetry: what [`selvedge_telemetry`] samples, kept and found again.
//!
//! [`History`] keeps every sample of the last minutes in memory, and the first sample of each step (30 s) in a folder:
//! hourly Parquet files, sorted by port and time, which DuckDB, Polars and pandas read as they are. [`Database`] keeps
//! events, alarms, topology versions and baselines in SQLite.
//!
//! A manager that is killed loses the slot in progress at most: rows of the hour in progress stand in a journal, which
//! becomes a Parquet file when the hour is over. A full disk stops the history with a [`Notice`], never the caller.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use selvedge_history::{Config, History, HistoryError, MemoryDisk, Pushed, Range};
//! use selvedge_telemetry::{Group, How, Sample, SampleKey, Slot, Wall};
//! use selvedge_types::Guid;
//!
//! let key = SampleKey { node: Guid(7), port: 1, group: Group::Extended };
//! let mut sample = Sample {
//!     key, class: 0, slot: Slot { epoch: 0, number: 60 }, offset_us: 900, rtt_us: 80, agent: 0, how: How::Read,
//!     totals: [5; 22], raw: None, known: Group::Extended.mask(), full: 0, resets: 0,
//! };
//! // A driver uses `Files::open(path)?` and resumes its sampler with `opened.resume`.
//! let disk = Arc::new(MemoryDisk::default());
//! let opened = History::open(disk, Path::new("history"), "fabric 1", Config::default())?;
//! let mut history = opened.history;
//! let interval = Duration::from_secs(10);
//! assert_eq!(history.push(&sample, interval), Pushed::Taken);
//! sample.slot.number += 1;
//! sample.totals[0] += 100;
//! history.push(&sample, interval);
//! // At the end of each slot: what was taken is stored, and what an operator should know is returned.
//! assert!(history.flush(Wall::from_secs(620)).is_empty());
//! // Now and then: an hour that is over becomes a Parquet file, on any thread.
//! if let Some(job) = history.job() {
//!     let done = job.run();
//!     history.done(done);
//! }
//! let range = Range { from: Wall::from_secs(600), to: Wall::from_secs(620) };
//! let top = history.top(Group::Extended, 0, range, 10)?;
//! assert_eq!((top.ports[0].key, top.ports[0].per_second), (key, 10.0));
//! # Ok::<(), HistoryError>(())
//! ```

mod alarms;
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

pub use alarms::{Acknowledgement, Alarm};
pub use config::Config;
pub use database::{Database, Entry, Severity, Subject, Topology};
pub use disk::{Content, Disk, Files, Source, read_all};
pub use error::{HistoryError, Notice};
pub use history::{Counts, History, Pushed, Usage};
pub use job::{Done, Job};
pub use memory_disk::MemoryDisk;
pub use names::counter_name;
pub use open::{Opened, Resume};
pub use query::{Mover, Point, Ports, PortsQuery, Question, Range, Series, SeriesPoint, SeriesQuery};
pub use reading::{Moment, Reading};
pub use window::Window;
