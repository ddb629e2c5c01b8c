//! The same counters for other systems than the exporter's dashboards: the metric family of guilbaults' exporter, lines
//! for InfluxDB, requests of Prometheus' remote write, brand and type of each port, cables, and what the counters mean.
//! Functions from values to text or bytes; nothing is sent here.

pub mod brand;
pub mod cables;
pub mod details;
pub mod expected;
pub mod guilbaults;
pub mod influx;
pub mod meaning;
pub mod remote_write;
pub mod samples;
