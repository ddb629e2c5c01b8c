//! The integration tests of `verify` as one program; each file has one subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod backup;
mod brute;
mod contention;
mod disjoint;
mod judged;
mod known;
mod least;
mod multicast;
mod multicast_beside;
mod odd;
mod phases;
mod phases_known;
mod standing;
mod strays;
mod support;
mod timeline;
