//! The integration tests of `planner` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod backups;
mod bench;
mod mended;
mod out_of_service;
mod repair;
mod way;
