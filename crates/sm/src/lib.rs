//! The subnet manager: discover, plan, judge, apply.
//!
//! [`Sm`] is a sans-I/O core: `handle(now, input)` gives outputs. It reads no clock and opens no socket, and it answers
//! SMInfo and traps at any time, because planning is a [`Job`] that runs elsewhere. Sets leave it only out of a
//! `Judged<ChangeSet>`.

mod adopt;
mod aim;
mod aliases;
mod apply;
mod babble;
mod backing_up;
mod backups;
mod changed;
mod command;
mod config;
mod core;
mod damage;
mod discover;
mod event;
mod failover;
mod flap;
mod given_up;
mod handover;
mod held;
mod intake;
mod inventory;
mod io;
mod job;
mod judge;
mod lane_readback;
mod lane_smp;
mod lanes;
mod lid;
mod lid_book;
mod lid_layout;
mod light;
mod listed;
#[cfg(test)]
mod made;
mod milestone;
mod multicast;
mod past;
mod ports;
mod probe;
mod program;
mod readback;
mod rebalance;
mod rebalancing;
mod recall;
mod register;
mod rehang;
mod repair;
mod report;
mod rest;
mod seat;
mod second_look;
mod sending;
mod settle;
mod show;
mod silent;
mod smp;
mod stage;
mod standby;
mod stored;
mod straggler;
mod told;
mod traps;
mod unstored;
mod view;
mod warm;
pub mod way;
mod wires;

pub use crate::apply::Wait;
pub use crate::config::{Config, Mode};
pub use crate::core::Sm;
pub use aliases::AliasEvent;
pub use backups::{BackUp, Backups};
pub use damage::Damage;
pub use event::{Event, Severity, SweepReason};
pub use intake::{Babbler, Intake, IntakeEvent, IntakeOut, Kind};
pub use inventory::{Agent, Inventory};
pub use io::{Command, Input, Output, PersistentState, ToldLevels};
pub use job::{Job, JobResult, Outcome, Task};
pub use judge::{Accepted, DefaultJudge, Judge};
pub use lid::{OutOfLids, assign as assign_lids};
pub use listed::Absent;
pub use milestone::{Committed, Milestone};
pub use multicast::{MulticastEvent, MulticastPlan, MulticastTask};
pub use rebalance::{
    Balance, Goal, Preview, Rebalance, Step, budget as rebalance_budget, preview as rebalance_preview,
};
pub use rebalancing::Asked;
pub use repair::Repair;
pub use selvedge_routing::Difference;
pub use settle::{Settle, Settled};
pub use view::{
    BalanceView, Balancing, MadCounters, PortReason, PortReport, Progress, ReadBackFigures, Role, StageName, View,
};
pub use warm::{Left, Prepare, Spare, Warm};
