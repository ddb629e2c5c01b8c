//! Histories on a disk in memory that fails, on the disk of this machine, and read by DuckDB.

mod crash;
mod database;
mod duckdb;
mod files;
mod full_disk;
mod load;
mod queries;
mod torn;
mod window;
