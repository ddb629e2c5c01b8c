//! Telemetry of every port: what is read when, how narrow counters become totals of 64 bits that never go back, and how
//! metrics are named.
//!
//! [`Sampler`] reads the counters of all ports of an [`Inventory`] in slots aligned to the wall clock. It is a core:
//! time is a value, requests and samples are outputs, nothing is discovered and no device is ever cleared.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use selvedge_sim::Time;
//! use selvedge_telemetry::{Config, Group, In, Inventory, Out, Sampler, SamplingClass, Wall};
//!
//! let class = SamplingClass::new("data", Duration::from_secs(1), &[Group::Extended]);
//! let mut sampler = Sampler::new(Config::new(vec![class]));
//! let mut out = Vec::new();
//! sampler.handle(Time::ZERO, In::Clock(Wall(5_400_000_000)), &mut out);
//! sampler.handle(Time::ZERO, In::Inventory(Arc::new(Inventory::default())), &mut out);
//! // The slot in progress may have been sampled before; the next one begins in 0.6 s.
//! let due = sampler.next_wake().unwrap();
//! assert_eq!(due, Time::from_millis(600));
//! sampler.handle(due, In::Wake, &mut out);
//! assert!(matches!(&out[..], [Out::Ended(report)] if report.slot.number == 6));
//! ```

mod account;
pub mod alarm;
mod baseline;
pub mod cable;
pub mod calendar;
mod clock;
mod config;
pub mod congestion;
mod consumer;
pub mod delegation;
mod event;
pub mod exposition;
mod group;
pub mod host_counters;
mod inventory;
mod io;
pub mod isolation;
mod latest;
mod metric;
mod metric_set;
mod names;
pub mod picture;
mod ports;
pub mod prometheus;
pub mod rates;
mod sampler;
pub mod selection;

pub use account::{Account, Refusal, Taken};
pub use baseline::Baselines;
pub use clock::{Clock, Slot, Slots, Tick, Wall};
pub use config::{Config, Ends, SamplingClass, Triage};
pub use consumer::{Consumer, SlotData};
pub use event::Event;
pub use group::{ALL_PORTS, Group, Row, WIDEST};
pub use inventory::{End, Inventory, NodeEntry, PortEntry};
pub use io::{How, In, Missing, Out, Sample, SampleKey, SlotReport, Why};
pub use latest::{Growth, Latest, PortTotals, Shown};
pub use metric::Metric;
pub use metric_set::MetricSet;
pub use ports::{Assignment, PortSet, WorkItem};
pub use sampler::Sampler;
pub use selvedge_mad::Counters;
