//! The integration tests of `routing`, one program: a file is a subject.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod apart;
mod auto;
mod common;
mod dor_lash;
mod fat_tree;
mod fat_tree_faults;
mod fat_tree_spread;
mod first_plans;
mod judged;
mod multicast_beside;
mod odd_fabrics;
mod opensm;
mod properties;
mod quality;
mod rebalance;
mod weave;
mod weave_in_place;
mod weave_repair;
