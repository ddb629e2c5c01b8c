//! The integration tests of `conformance` in one program, with a module for each subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod administration;
mod aliases;
mod checks;
mod clients;
mod conversation;
mod dashboards;
mod dumps;
mod emulator;
mod engines_behind_opensm;
mod fdr10;
mod hostile_hosts;
mod ibsim;
mod join_states;
mod keys;
mod lanes;
mod managers;
mod model;
mod ndr;
mod opensm_conf;
mod optional_counters;
mod parsers;
mod partitions;
mod peers;
mod qos;
mod refusals;
mod registered;
mod served;
mod soak;
mod standby;
mod support;
mod telemetry;
mod transport;
mod trap_flood;
