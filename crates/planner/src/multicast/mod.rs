//! Trees of multicast groups: planned for the routes in force, judged, and taken apart if copies could deadlock.

mod beside;
mod job;

pub use job::{Beside, MulticastPlan, MulticastResult, MulticastTask, PlannedTrees, TreesInForce};
