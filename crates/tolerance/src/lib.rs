//! Network fault tolerance over verbs: what a message passing library does so that its connections outlive a fault.
//!
//! [`Process`] has the three modules of Vishnu, Mamidala and Panda, "Automatic Path Migration over InfiniBand: Early
//! Experiences" (OSU-CISRC-5/06-TR56, 2006), section 3, each callable alone for a list of peers or queue pairs at any
//! time after INIT:
//!
//! ```text
//!   main thread                    shared state, per queue pair           asynchronous thread
//!   alternate path specification ─►                                      sleeps until an event
//!   path loading request ────────►  Loading ── Armed ── Migrating  ◄──── ARMED, PATH_MIG, PATH_MIG_ERR
//!   path migration ──────────────►     with the time of each             PORT_ERR, PORT_ACTIVE …
//! ```
//!
//! Beyond the paper: [`Congestion`] asks for a migration because of congestion, [`Deaths`] makes armed connections load
//! another path when their alternate one has died, [`Trace`] and [`Mtbf`] inject faults, and rivals do without path
//! migration: [`Failover`] as NCCL, [`Striping`] as LA-MPI and Open MPI. [`paper`] has the paper's micro-benchmarks.
//!
//! This is a core: times are values, and a driver calls [`Process::wake`] when [`Process::next_wake`] says so.
//! [`Cluster`] has the hosts of a simulated subnet, and [`Rails`] is the smallest such subnet: the test-bed of the
//! paper.

mod cluster;
mod congestion;
mod deaths;
mod error;
mod objects;
pub mod paper;
mod process;
mod rails;
mod rearm;
mod rivals;
mod shared;
mod thread;
mod trace;

pub use cluster::{Cluster, Program};
pub use congestion::{Congestion, CongestionCounts, Decision, Sample, Thresholds};
pub use deaths::{Deaths, Reach, Respecified};
pub use error::{ToleranceError, TraceError};
pub use objects::Objects;
pub use process::{Module, Of, Peer, Process, Report};
pub use rails::{RailSettings, Rails, attributes, path, ways};
pub use rearm::Rearm;
pub use rivals::{Apm, Carrier, Ends, Failover, FailoverSettings, Progress, Striping, StripingSettings, Way};
pub use shared::{Entry, Status};
pub use thread::{ThreadCosts, ThreadCounts};
pub use trace::{Fault, Mtbf, Place, Trace};
