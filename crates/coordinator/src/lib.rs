//! The coordinator: connects a manager with its administrator, the port and the disk.
//!
//! ```text
//!            arrivals                  Input                 Milestone
//!   port ───────────────► Coordinator ───────► manager (Sm) ───────────► Coordinator
//!    ▲                     │ intake                                       │ administrator (Sa)
//!    │                     │ copier, administrator                        │ keeper: registrations
//!    └──── Send, Repress ──┴──────────────────────────────────────────────┴ saver: state ──► Store…
//! ```
//! [`Coordinator`] is a sans-I/O core: [`Coordinator::handle`] takes an [`In`] and appends [`Out`]s. `daemon` and
//! `rehearsal` both carry these out, so the code that simulated failures test is the code that the daemon runs:
//!
//! - The intake limits what each source may send to the manager. Datagrams of subnet administration go to the
//!   administrator, answers of the master's administrator to the copier.
//! - A plan in force reaches the administrator as a snapshot, after its partitions. Sweeps, plans that are being
//!   applied, multicast tables, traps and changes of role reach it too.
//! - Groups, alias GUIDs, renamed ports and a standby's copy of registrations reach the manager as inputs.
//! - State is stored one save at a time, and a failed save is retried. A registration is confirmed only when it is
//!   certain that a restart either keeps it or asks the host again.
//! - While the manager is master, the sampler reads the counters of all ports of the plan in force. Its requests and
//!   samples are outputs; the manager does not wait for them.
//!
//! The coordinator does not contain the manager: the manager may compute for long, and hosts must be answered in that
//! time.

mod administration;
mod config;
mod coordinator;
mod io;
mod keeper;
mod retry;
mod sampling;
mod saver;
mod survey;

pub use config::Administrated;
pub use coordinator::{Coordinator, Retries};
pub use io::{In, Out, Sampled};
pub use retry::Retry;
pub use survey::survey;
