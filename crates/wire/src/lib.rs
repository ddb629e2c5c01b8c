//! Management datagrams: bytes to values and back, printed in one line.
//!
//! Panic contract: a [`Mad`] always holds 256 bytes, so no getter of [`Mad`] can panic. `parse` of an attribute takes
//! a fixed-size array and returns an error for every value that the standard forbids; `emit` writes into a
//! fixed-size array and cannot fail. No byte order outside this crate.
//!
//! Two levels: [`Mad`] is the view over bytes (forwarding, dumping), the attribute structs are meaning (decisions).

pub mod attribute;
mod error;
pub mod fuzz_body;
mod gid;
mod mad;
mod payload;
mod port;
mod print;

pub use attribute::*;
pub use error::DecodeError;
pub use gid::Gid;
pub use mad::{Class, DirectedRoute, GMP_DATA_LEN, GmpData, MAD_LEN, Mad, Method, SMP_DATA_LEN, SmpData, Status};
pub use payload::Payload;
pub use port::{Address, Arrival, Datagram, LocalPort, MadPort, PortError};
