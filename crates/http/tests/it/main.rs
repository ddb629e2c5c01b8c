//! The integration tests of `http` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod refusals;
mod shared;
mod socket;
mod telemetry;
