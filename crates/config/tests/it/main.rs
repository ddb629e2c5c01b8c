//! The integration tests of `config` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod admit;
mod opensm_flags;
mod opensm_options;
