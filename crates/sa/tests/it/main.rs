//! The integration tests of `sa` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod aliases;
mod capabilities;
mod copy;
mod hostile;
mod jobs;
mod joins;
mod kept;
mod model;
mod paths;
mod policy;
mod proxy;
mod quality;
mod records;
mod registered;
mod reports;
mod support;
mod waits;
