//! Programs over two or three adapters and a network that delays, loses and never reorders packets of a path.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod apm;
mod costs;
mod credits;
mod datagram;
mod loopback;
mod net;
mod queues;
mod random;
mod rc;
mod refusals;
mod states;
mod subnet;
mod uc;
