//! The integration tests of `cli`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod admission;
mod backups;
mod manage;
mod offline;
mod opensm_conf;
mod packaging;
mod routing;
mod simulate;
mod support;
