//! Histories on a disk in memory that fails, on the disk of this machine, and read by DuckDB.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod crash;
mod database;
mod duckdb;
mod files;
mod full_disk;
mod load;
mod queries;
mod torn;
mod window;
