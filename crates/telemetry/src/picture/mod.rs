//! Pictures of a fabric's loads, as functions from values to text.

mod dot;
mod heat_map;
mod scale;

pub use dot::{LinkLoad, connections};
pub use heat_map::{HeatMap, heat_map};
