//! The integration tests of `messaging` as one program: messages between hosts of two clusters.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod exchange;
