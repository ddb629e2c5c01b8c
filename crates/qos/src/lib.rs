//! Quality of service as values.
//!
//! it to a virtual lane (VL), and the VLArbitrationTable gives each lane its share of the link. This crate computes
//! these tables and choices; it sends nothing and keeps nothing.
//!
//! - [`opensm`] reads OpenSM's settings and policy file, and returns the tables that OpenSM would write.

mod error;
mod near;
pub mod opensm;

pub use error::SettingError;
