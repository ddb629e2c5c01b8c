//! Quality of service as values.
//!
//! A service level (SL) is chosen per path and stays the same from end to end. At each hop the SLtoVLMappingTable maps
//! it to a virtual lane (VL), and the VLArbitrationTable gives each lane its share of the link. This crate computes
//! these tables and choices; it sends nothing and keeps nothing.
//!
//! - [`opensm`] reads OpenSM's settings and policy file, and returns the tables that OpenSM would write.
//! - [`intent`] compiles classes with promises to SLs, lanes and arbitration tables.
//! - [`jobs`] admits jobs inside a compiled policy.
//! - [`path`] gives a path its SL, P_Key and limits.
//! - [`ufm`] reads UFM's file of bandwidths and makes an intent of it.

mod error;
pub mod fuzz_body;
pub mod intent;
pub mod jobs;
mod near;
pub mod opensm;
pub mod path;
pub mod ufm;

pub use error::SettingError;
