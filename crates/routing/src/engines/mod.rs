//! The engines, each in a module of its own.

pub mod auto;
pub mod dnup;
pub mod fat_tree;
pub mod ftree;
pub mod listed;
pub mod minhop;
pub mod sssp;
pub mod updn;
pub mod weave;
