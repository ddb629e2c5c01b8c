//! Subnet administration: the header of its datagrams, and its records as field tables.
//!
//! Every record is the same 200 bytes with its own field table ([`Layout`]). Printing, matching against a component
//! mask, and clearing of reserved bits are written once and use the table. The tables are in [`records`]. A field is
//! read and written through its constant there, for example `records::path::DLID.get(&data)`.
//!
//! Panic contract: a [`Mad`](crate::Mad) always has a header and [`SA_DATA_LEN`] bytes of data, and a test proves that
//! no field of a table ends beyond them. So no getter can panic, and every bit pattern of a field is valid.

mod field;
mod header;
mod layout;
pub mod records;

pub use field::{Field, Matching, SA_DATA_LEN, SaData, Show};
pub use header::{Rmpp, RmppFlags, RmppKind, RmppStatus, SaStatus};
pub use layout::{Filter, Layout, Record};
