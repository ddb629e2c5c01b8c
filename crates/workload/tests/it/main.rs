//! The integration tests of `workload` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod exact;
mod fuzz;
