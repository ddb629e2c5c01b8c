//! Crash-safe state between runs.
//!
//! A [`StateDir`] is a folder that belongs to one running manager at a time. Files in it are replaced as a whole
//! (written beside, synced, renamed), so that a crash at any moment leaves the old file or the new one, never half of
//! either. A file that cannot be understood is refused and never overwritten: it may hold the LIDs of a live fabric.

mod error;
mod guid2lid;
mod plan_state;
mod state_dir;
mod whole_file;

pub use error::{LineError, PlanStateError, StoreError};
pub use guid2lid::{LidMap, parse_guid2lid, print_guid2lid};
pub use plan_state::{PlanState, parse_plan_state, print_plan_state};
pub use state_dir::StateDir;
pub use whole_file::{can_replace_file, replace_file};
