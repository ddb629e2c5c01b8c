//! The integration tests of `wire` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod administration;
mod common;
mod golden;
mod hostile;
mod properties;
