//! The integration tests of `cli`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod admission;
mod api;
mod apm;
mod assumes_nothing;
mod backups;
mod changes;
mod edges;
mod health;
mod job;
mod lists;
mod maintenance;
mod manage;
mod misled;
mod offline;
mod opensm_conf;
mod output;
mod packaging;
mod readers;
mod routing;
mod secrets;
mod simulate;
mod support;
mod tables;
mod telemetry;
