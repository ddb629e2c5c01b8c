//! The integration tests of `topology` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod dumps;
mod files;
mod generators;
mod property;
