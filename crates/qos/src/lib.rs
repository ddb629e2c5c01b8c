//! Quality of service as values.
//!
//! A service level (SL) is chosen per path and stays the same from end to end. At each hop the SLtoVLMappingTable maps
//! it to a virtual lane (VL), and the VLArbitrationTable gives each lane its share of the link. This crate computes
//! these tables and choices; it sends nothing and keeps nothing.
//!
//! - [`opensm`] reads OpenSM's settings and policy file, and returns the tables and SLs that OpenSM would give.

mod error;
mod near;
pub mod opensm;

pub use error::SettingError;
