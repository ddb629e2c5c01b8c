//! The integration tests of `daemon`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod alarms;
mod cables;
mod down;
mod emulated;
mod history;
mod odd_hardware;
mod storing;
mod telemetry;
mod telemetry_choices;
