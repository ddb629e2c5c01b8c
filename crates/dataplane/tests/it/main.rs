//! The integration tests of `dataplane` as one program: endpoints of a test, by the public interface alone.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod buffers;
mod lab;
mod random;
mod seam;
mod tables;
