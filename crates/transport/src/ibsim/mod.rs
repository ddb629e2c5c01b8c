//! The ibsim protocol: management datagrams over local datagram sockets.
//!
//! ibsim (Debian: `ibsim-utils`) simulates a fabric behind such sockets; `libumad2sim.so` (Debian: `libumad2sim0`),
//! preloaded, makes any program that uses libibumad a client of it. [`IbsimPort`] is a client, [`IbsimServer`] a
//! server, and [`protocol`] encodes and decodes the messages without I/O.
//!
//! ```text
//!  client, process P                      server
//!  <base>:ctl<P>  ── CONNECT, GET_* ──►   <base>:ctl        control messages, 80 bytes, each answered
//!  <base>:in<P>   ◄── data packets ──►    <base>:out<slot>  288 bytes: addresses, status, one MAD
//! ```
//! All names are in the abstract name space and end with one NUL, which is part of the name.
//!
//! Source: the behaviour of ibsim and libumad2sim 0.10, observed; the tests of [`protocol`] have bytes that were
//! captured from them.

mod backend;
mod batch;
mod client;
mod event;
mod pipe;
pub mod protocol;
mod server;
mod slot;
mod socket;

pub use backend::{AttachPoint, Backend};
pub use client::IbsimPort;
pub use event::{Counters, Delivery, SLOTS, ServerError, ServerEvent, ServerOptions, Slot};
pub use pipe::{Pipe, Way};
pub use server::{IbsimServer, Waker};

/// Base name that client and server use when the environment variable `IBSIM_SOCKNAME` is not set.
pub const DEFAULT_BASE: &str = "sim";
