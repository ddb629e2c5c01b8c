//! Traffic for the packet simulator: senders, receivers and times.
//!
//! A [`Pattern`] chooses receivers, a [`Pace`] chooses times; together they are an [`OpenLoop`]. A [`ClosedLoop`] keeps
//! a fixed number of messages of each host in flight instead. A [`Program`] executes a [`Schedule`] of sends, receives
//! and computation: a [`Collective`], or a GOAL trace ([`read_goal`]). [`Jobs`] are several of these at the same time,
//! each on its own hosts. Every host has its own stream of random numbers.
//!
//! ```
//! use selvedge_workload::Pattern;
//!
//! let pattern: Pattern = "hotspot:to=3,share=5%".parse()?;
//! assert_eq!(pattern.to_string(), "hotspot:to=3,share=5%");
//! let error = "unifrom".parse::<Pattern>().unwrap_err().to_string();
//! assert!(error.contains("did you mean 'uniform'?"), "{error}");
//! # Ok::<(), selvedge_workload::PatternError>(())
//! ```

mod collective;
mod goal;
mod jobs;
mod open;
mod pace;
mod pattern;
mod receivers;
mod schedule;

pub use collective::{Collective, CollectiveKind, TooManyOps};
pub use goal::{GoalError, read_goal};
pub use jobs::{Job, JobError, Jobs, Placement, Traffic};
pub use open::{ClosedLoop, OpenLoop, PatternTraffic};
pub use pace::{Arrivals, ArrivalsError, LoadError, Pace, exponential, load};
pub use pattern::{Pattern, PatternError};
pub use receivers::{Receivers, ReceiversError};
pub use schedule::{OpId, Program, Schedule, Work};
