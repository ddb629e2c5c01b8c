//! Faults: links and switches that are lost, or come back, and are dealt with without a sweep.
//!
//! [`backups`] has repairs of links planned that are up.

pub mod backups;
