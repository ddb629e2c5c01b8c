//! The integration tests of `http`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod refusals;
mod shared;
mod socket;
