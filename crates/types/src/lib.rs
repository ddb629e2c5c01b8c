//! Identifiers and units of an InfiniBand subnet.
//!
//! A type per identifier: a [`Lid`] never becomes a [`PortNum`] by accident. Every constructor that can refuse a
//! value says which values are legal and names the source of the rule.

mod id;
mod link;
mod vector;

pub use id::{Guid, GuidParseError, Lid, LidRange, Lmc, PKey, PortNum, Sl, TransactionId, Vl};
pub use link::{LinkSpeed, LinkWidth, Mtu, NodeKind, PhysState, PortState, Rate};
pub use vector::{Idx, IdxVec};
