//! The subnet manager: decides when to discover, plan, apply, read back and repair.
//!
//! [`Sm`] is a sans-I/O core: `handle(now, input)` gives outputs. It reads no clock and opens no socket. It answers
//! SMInfo and traps at any time, because planning is a [`Job`](selvedge_planner::Job) that runs elsewhere;
//! `selvedge_planner` defines plans, repairs and rebalancing steps. Sets of tables, LIDs and alias GUIDs leave the
//! manager only out of a `Judged` change. Sets of SMInfo, and the Set that disables a babbling port, need no judge.
//!
//! `core` is the outer machine: it takes inputs, holds the stage, and carries outputs out. Sub-machines with private
//! fields decide one thing each: `election`, `sweep`, `reading`, `apply`, `commit`, `drain`, `lid_book`, `fault`,
//! `flap`, `trap`, `key_ring`, `sm_keys`, `readback`, `rebalance`, `registration`, `persist`, `presence`, `multicast`,
//! `aliases`, `change`, `withdrawal`. For each machine, a file in `core/` collects the values that the machine may
//! read, hands it an input, and carries out its effects. `ARCHITECTURE.md` lists what each decides.

mod aliases;
mod apply;
mod change;
mod commit;
mod config;
mod core;
mod discover;
mod drain;
mod election;
mod event;
mod fault;
mod flap;
mod intake;
mod io;
mod key_ring;
mod lane_smp;
mod lid_book;
mod listed;
#[cfg(test)]
mod made;
mod milestone;
mod multicast;
mod persist;
mod presence;
mod readback;
mod reading;
mod rebalance;
mod registration;
mod report;
mod sm_keys;
mod smp;
mod stage;
mod sweep;
mod timer;
mod trap;
mod view;
mod withdrawal;

pub use crate::apply::Wait;
pub use crate::config::{Config, Mode};
pub use crate::core::Sm;
pub use aliases::AliasEvent;
pub use change::{ChangeEvent, ChangeState, Later, PolicyChange};
pub use election::Role;
pub use event::{Event, ManagerName, SweepReason};
pub use intake::{Babbler, Intake, IntakeEvent, IntakeOut, Kind};
pub use io::{Command, Input, Output, PersistentState, ToldLevels};
pub use key_ring::KeyEvent;
pub use listed::Absent;
pub use milestone::{Committed, Milestone};
pub use multicast::MulticastEvent;
pub use rebalance::{Asked, BalanceView, Balancing};
pub use report::PortReport;
pub use timer::Timer;
pub use view::{MadCounters, Progress, ReadBackFigures, StageName, Sweeps, View};
