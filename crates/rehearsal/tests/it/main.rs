//! The integration tests of `rehearsal`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod administration;
mod alias_guids;
mod backups;
mod changes;
mod common;
mod counts;
mod determinism;
mod dry_run;
mod key_rotation;
mod killed_half_way;
mod many_keys;
mod model;
mod multicast;
mod no_slower;
mod out_of_service;
mod proof;
mod quality;
mod quick_succession;
mod random_faults;
mod sampling;
mod scenarios;
mod simulated;
mod soak;
