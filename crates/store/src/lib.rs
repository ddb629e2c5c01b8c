//! Crash-safe state between runs.
//!
//! A [`StateDir`] is a folder that belongs to one running manager at a time. Files in it are replaced as a whole
//! (written beside, synced, renamed), so that a crash at any moment leaves the old file or the new one, never half of
//! either. Each begins with a [seal](Seal): check sum and generation. A file that cannot be understood, or is not as it
//! was written, is refused and never overwritten: it may hold the LIDs of a live fabric.
//!
//! Beneath it lies a [`Disk`]: the [`Files`] of the operating system, or a [`MemoryDisk`] that fails as it is told, for
//! simulated managers. What is stored when, and when again after a failure, is the coordinator's to say.
//!
//! [`read_file`] reads any file that the operator names: regular files only, up to a stated size.

mod disk;
mod error;
mod file;
mod found;
mod guid2lid;
mod memory_disk;
mod plan_state;
mod seal;
mod state_dir;
mod warning;
mod whole_file;

pub use disk::{Disk, Files};
pub use error::{LineError, PlanStateError, SealError, StoreError};
pub use file::{DATA_MAX, SETTINGS_MAX, read_file, read_text_file, read_up_to};
pub use found::Found;
pub use guid2lid::{LidMap, parse_guid2lid, print_guid2lid};
pub use memory_disk::{MemoryDisk, Trouble};
pub use plan_state::{PlanState, parse_plan_state, print_plan_state};
pub use seal::Seal;
pub use state_dir::StateDir;
pub use warning::StateWarning;
pub use whole_file::{can_replace_file, replace_file};
