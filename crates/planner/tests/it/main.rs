//! The integration tests of `sm`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod backups;
mod bench;
mod mended;
mod repair;
mod way;
