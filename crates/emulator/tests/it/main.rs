//! The integration tests of `emulator`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod agents;
mod attributes;
mod common;
mod faults;
mod hostile;
mod routing;
