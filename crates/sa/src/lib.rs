//! The subnet administrator (SA): answers queries of hosts from the last committed plan.
//!
//! [`Sa`] is a sans-I/O core. It answers from an immutable [`Snapshot`]. While the manager sweeps, routes and applies a
//! plan, queries are answered from the previous state without waiting. No input takes long to handle: a long answer is
//! computed in pieces, a window of segments or a few thousand rows at a time, and new requests come first.
//!
//! One engine answers for every record ([`query`](mod@query)). Rows come from a table (of the snapshot, or of
//! registrations). The component mask is compared field by field as the record's layout demands. Matching rows are sent
//! as one record or as an RMPP transfer. Only paths have rules of their own: each pair of LIDs is a row.
//!
//! An invalid request gets an error status, and a request that comes too early or too often gets BUSY. Only datagrams
//! that are not requests are dropped without an answer.

mod alias;
mod ask;
mod capability;
mod client;
mod config;
mod copied;
mod copy;
mod core;
mod forgotten;
mod groups;
mod inform;
mod io;
mod jobs;
mod kept;
mod limit;
mod member;
mod out_of_service;
mod path;
mod pieces;
mod proxy;
mod quality;
pub mod query;
mod question;
mod rate;
mod refusal;
mod report;
mod revision;
mod service;
mod snapshot;
mod standbys;
mod swept;
mod tables;
mod text_rows;
mod told;

pub use self::core::Sa;
pub use alias::Aliases;
pub use config::Config;
pub use copy::{Copier, CopyConfig, Worth};
pub use io::{Counters, Input, Output};
pub use jobs::{JobAnswer, JobRequest};
pub use kept::{BadLine, Registrations};
pub use member::{Group, Groups, Member};
pub use proxy::JoinedBy;
pub use rate::{Selector, StaticRate};
pub use selvedge_qos::jobs::JobError;
pub use snapshot::{Agents, EndPort, Quality, Snapshot, Sources};
pub use told::ToldLevels;
