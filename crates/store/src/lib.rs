//! Crash-safe state between runs.
//!
//! A [`StateDir`] is a folder that belongs to one running manager at a time. Its files are replaced as a whole: the new
//! file is written under another name in the same folder, synced, and renamed. A crash at any moment leaves the old
//! file or the new one, never a part. Each file begins with a [seal](Seal), which holds a check sum and a generation. A
//! file that cannot be parsed, or has changed since it was written, is refused and never overwritten: it may hold the
//! LIDs of a live fabric.
//!
//! A folder uses a [`Disk`]: the [`Files`] of the operating system, or a [`MemoryDisk`] with injected failures for
//! simulated managers. The coordinator decides what is stored, when it is stored, and when a failed attempt is
//! repeated.
//!
//! [`read_file`] reads any file that the operator names: regular files only, up to a stated size.

mod disk;
mod error;
mod file;
mod found;
mod guid2lid;
mod known_fabric;
mod memory_disk;
mod peek;
mod plan_state;
mod probe;
mod seal;
mod state_dir;
mod warning;
mod whole_file;

pub use disk::{Disk, Files};
pub use error::{LineError, PlanStateError, SealError, StoreError, advice};
pub use file::{DATA_MAX, SETTINGS_MAX, read_file, read_text_file, read_up_to};
pub use found::Found;
pub use guid2lid::{LidMap, parse_guid2lid, print_guid2lid};
pub use known_fabric::{parse_known_fabric, print_known_fabric};
pub use memory_disk::{MemoryDisk, Trouble};
pub use peek::{Checked, check_state};
pub use plan_state::{PlanState, parse_plan_state, print_plan_state};
pub use probe::{can_create_in, can_have_folder};
pub use seal::Seal;
pub use state_dir::StateDir;
pub use warning::StateWarning;
pub use whole_file::{can_replace_file, replace_file};
