//! Subnet administration: the header its datagrams have, and its records as tables of fields.
//!
//! Every record is the same 200 bytes with another table of fields over them ([`Layout`]): printing, matching against a
//! component mask, and clearing of reserved bits are written once and go through the table. The tables stand in
//! [`records`]; a field is read and written by its constant there, as `records::path::DLID.get(&data)`.
//!
//! Panic contract: a [`Mad`](crate::Mad) always has a header and [`SA_DATA_LEN`] bytes of data, and a test proves that
//! no field of a table ends beyond them; so no getter can panic, and every bit pattern of a field is a value.

mod field;
mod header;
mod layout;
pub mod records;

pub use field::{Field, Matching, SA_DATA_LEN, SaData, Show};
pub use header::{Rmpp, RmppFlags, RmppKind, RmppStatus, SaStatus};
pub use layout::{Filter, Layout, Record};
