//! Graphs as flat arrays: the switches of a fabric with their channels ([`Graph`]), lists of varying length
//! ([`Lists`]), and graphs that are kept free of cycles, edge by edge ([`Dag`], [`Order`]).
//!
//! `routing`, `planner` and `study` build on these. The judge does not: it has its own.
//!
//! ```
//! use selvedge_graph::{Insertion, Dag};
//!
//! let mut waits = Dag::new(3);
//! assert_eq!(waits.add(2, 1), Insertion::New);
//! assert_eq!(waits.add(1, 0), Insertion::New);
//! assert_eq!(waits.add(0, 2), Insertion::Closes, "2 to 1 to 0 to 2");
//! ```

mod dag;
mod graph;
mod lists;
mod order;
mod ports;

pub use dag::{Dag, Insertion};
pub use graph::{Channel, Graph};
pub use lists::Lists;
pub use order::{Edges, Order, Refused};
pub use ports::ByPort;

/// Stands for no vertex, no channel, no switch.
pub const NONE: u32 = u32::MAX;

/// Returns a position as a number of 32 bits: a fabric has at most 49,151 switches of 254 ports.
fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(NONE)
}
