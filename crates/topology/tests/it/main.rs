//! The integration tests of `topology`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod dumps;
mod files;
mod generators;
mod property;
