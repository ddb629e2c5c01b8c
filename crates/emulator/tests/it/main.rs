//! The integration tests of `emulator` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod agents;
mod attributes;
mod cables;
mod common;
mod counters;
mod errors;
mod faults;
mod hostile;
mod load;
mod routing;
mod sampled;
