//! Identifiers and units of an InfiniBand subnet.
//!
//! Each kind of identifier has its own type, so a [`Lid`] is never used as a [`PortNum`] by accident. Every constructor
//! that can refuse a value documents the legal values and the source of the rule.
//!
//! ```
//! use selvedge_types::{Guid, Lid, PortNum};
//!
//! let guid: Guid = "0x0002c90300001234".parse()?;
//! assert_eq!(guid.to_string(), "0x0002c90300001234");
//! assert_eq!(PortNum::new(254).map(PortNum::get), Some(254));
//! assert_eq!(PortNum::new(255), None, "in a forwarding table it means: drop");
//! assert!(Lid(0xC000) > Lid::UNICAST_MAX);
//! # Ok::<(), selvedge_types::GuidParseError>(())
//! ```

mod id;
mod link;
mod secret;
mod text;
mod vector;

pub use id::{Guid, GuidParseError, Lid, LidRange, Lmc, PKey, PortNum, Sl, TransactionId, Vl};
pub use link::{LinkSpeed, LinkWidth, Mtu, NodeKind, PhysState, PortState, Rate};
pub use secret::SecretKey;
pub use text::{printable, printable_lines};
pub use vector::{Idx, IdxVec};
