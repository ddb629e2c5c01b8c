//! Trees of multicast groups: planned beside the routes in force, judged, and taken apart where copies could deadlock.

mod beside;
mod job;

pub use job::{Beside, MulticastPlan, MulticastResult, MulticastTask, PlannedTrees};
