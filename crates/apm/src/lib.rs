//! Alternate paths for automatic path migration (APM): the path that a policy chooses, and what it shares with the
//! primary path.
//!
//! A queue pair of RC, UC or RD has a primary path and may have an alternate one. If the primary fails, the channel
//! adapter migrates to the alternate one without software (IBA vol 1 §17.2.8). An alternate path is of use only if no
//! single fault breaks both. This crate answers, from the tables in force, which alternate a policy gives and what the
//! two paths share. It sends nothing and keeps nothing.
//!
//! - [`Subnet`] is what paths depend on: fabric, LIDs, forwarding tables, service levels.
//! - [`Index`] is made once of a subnet: where every switch port leads, and the pairs on every link.
//! - [`Hosts`] groups channel adapters by host.
//! - [`Routes::alternate`] applies a [`Policy`] to a pair of hosts, [`Routes::way`] follows a path through the tables,
//!   and [`rank`] orders paths: most disjoint, then least loaded. The subnet administrator orders its answers with it.
//!
//! A packet of RC is acknowledged, so a path here is a round trip: the links and switches from the source to the
//! destination LID and back to the source LID.

mod compare;
mod error;
mod hosts;
mod index;
mod policy;
mod routes;
#[cfg(test)]
mod testing;

pub use compare::{Fault, Shared, Way, rank};
pub use error::ApmError;
pub use hosts::{Host, Hosts};
pub use index::Index;
pub use policy::Policy;
pub use routes::{Alternate, Path, Routes, Subnet};
