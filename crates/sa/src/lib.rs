//! The subnet administrator: answers what hosts ask, from the last committed plan.
//!
//! [`Sa`] is a sans-I/O core. It answers from a [`Snapshot`], which nobody changes: while the manager sweeps, routes
//! and applies, questions are answered from what was in force before, and none waits. Nothing here takes long either:
//! a question whose answer is long is answered in pieces, a window of segments or a few thousand rows at a time, and
//! what was asked meanwhile comes first.
//!
//! One engine answers for every record ([`query`](mod@query)): rows come from a table (of the snapshot, or of what
//! clients have registered), the component mask is compared field by field as the record's layout says, and what is
//! left goes out as one record or as an RMPP transfer. Only paths have rules of their own: each pair of LIDs is a row.
//!
//! A request that is wrong is refused by its status, one that comes too early or too often with BUSY; nothing is
//! dropped in silence but what is no request.

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
mod kept;
mod limit;
mod member;
mod path;
mod pieces;
mod proxy;
pub mod query;
mod rate;
mod refusal;
mod report;
mod revision;
mod service;
mod snapshot;
mod standbys;
mod swept;
mod tables;
mod told;

pub use self::core::Sa;
pub use alias::Aliases;
pub use config::Config;
pub use copy::{Copier, CopyConfig, Worth};
pub use io::{Counters, Input, Output};
pub use kept::{BadLine, Registrations};
pub use member::{Group, Groups, Member};
pub use proxy::JoinedBy;
pub use rate::{Selector, StaticRate};
pub use snapshot::{Agents, EndPort, Quality, Snapshot, Sources};
pub use told::ToldLevels;
