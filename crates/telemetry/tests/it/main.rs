//! The integration tests of `telemetry` as one program: a sampler against agents in memory, under virtual time.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod agents;
mod alarms;
mod asks;
mod cables;
mod congestion;
mod ends;
mod exposition;
mod faults;
mod formats;
mod peer;
mod schedules;
mod slots;
mod triage;
mod world;
