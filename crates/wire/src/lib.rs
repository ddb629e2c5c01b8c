//! Management datagrams (MADs): decoding, encoding, and printing in one line.
//!
//! Panic contract: a [`Mad`] always holds 256 bytes, so no getter of [`Mad`] can panic. `parse` of an attribute takes a
//! fixed-size array and returns an error for every value that the standard forbids; `emit` writes into a fixed-size
//! array and cannot fail. No other crate handles byte order.
//!
//! There are two levels. [`Mad`] is a view over bytes, for forwarding and dumping. The attribute structs are decoded
//! values, which the manager decides by. Records of subnet administration are tables of fields over bytes: see [`sa`].
//! [`Payload`] is any of these attributes, for code that handles all in the same way. Only printing allocates memory.
//!
//! Reserved bits are ignored on receipt and sent as 0; reserved codes are refused. So `parse(emit(x)) == x` for every
//! value, and `emit(parse(bytes))` is `bytes` with the reserved bits cleared.
//!
//! ```
//! use selvedge_types::PortNum;
//! use selvedge_wire::{AttributeId, DirectedRoute, Mad, Method, PortInfo};
//!
//! let route = DirectedRoute::new(&[1, 4].map(|port| PortNum::new(port).unwrap())).unwrap();
//! let mut mad = Mad::directed(Method::Set, AttributeId::PORT_INFO, 2, &route);
//! mad.write(&PortInfo { state: Some(selvedge_types::PortState::Armed), ..PortInfo::default() });
//! assert!(mad.to_string().starts_with("SubnSet PortInfo tid=0x0 dr=0,1,4 mod=0x2 | PortInfo lid=0 lmc=0 ARMED/-"));
//! assert_eq!(mad.read::<PortInfo>()?.state, Some(selvedge_types::PortState::Armed));
//! # Ok::<(), selvedge_wire::DecodeError>(())
//! ```

pub mod attribute;
mod error;
pub mod fuzz_body;
mod gid;
mod mad;
mod payload;
mod port;
mod print;
mod route;
pub mod sa;

pub use attribute::*;
pub use error::DecodeError;
pub use gid::Gid;
pub use mad::{Class, GMP_DATA_LEN, GmpData, MAD_LEN, Mad, Method, SMP_DATA_LEN, SmpData, Status};
pub use payload::Payload;
pub use port::{Address, Arrival, Datagram, LocalPort, MadPort, PortError};
pub use route::DirectedRoute;
