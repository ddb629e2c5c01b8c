//! Processes on hosts of a simulated subnet.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod beyond;
mod duo;
mod fabric;
mod modules;
mod paper;
mod rivals;
