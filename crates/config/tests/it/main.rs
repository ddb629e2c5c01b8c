//! The integration tests of `config`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod admit;
mod opensm_flags;
mod opensm_options;
